/* why.h - the story of a message in words. */
#ifndef CLI_COMMAND_WHY_H
#define CLI_COMMAND_WHY_H

#include "cli/cli.h"

/* The reply is the one that lists the message.  Fault: the store's; then nothing was written. */
PR_MUST_CHECK int why_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed, FILE *out,
                            struct pr_error *reterr);

#endif
