/* flow.h - flows on the command line. */
#ifndef CLI_COMMAND_FLOW_H
#define CLI_COMMAND_FLOW_H

#include "cli/cli.h"
#include "ops/flow/flow_view.h"

/* Prints that the flow is unknown. */
int flow_not_found(struct cli *cli, pr_slice id);
struct flow_teller flow_teller_of(struct cli *cli);
/* The output of `why` for a flow; PR_UNKNOWN (> 0) is EXIT_NOT_FOUND, without a message. */
int flow_why_print(struct cli *cli, pr_slice id);

#endif
