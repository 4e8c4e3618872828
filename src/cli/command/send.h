/* send.h - headers and payload from the command line, for commands that make messages. */
#ifndef CLI_COMMAND_SEND_H
#define CLI_COMMAND_SEND_H

#include "cli/cli.h"

/* --header NAME=VALUE ... as a JSON object in the arena; *ret is unchanged without any. */
int send_headers(struct cli *cli, pr_slice *ret);
/* Does the configuration know the endpoint of --to, or is there no configuration?  EXIT_NOT_FOUND: printed. */
int send_to_is_known(struct cli *cli);
/* --data, --file or "-".  dash: the argument that may be one; NULL: there is none.  content is the caller's, zeroed,
 * and gets the bytes; buf_fini() it in any case. */
int send_payload(struct cli *cli, const char *dash, struct buf *content, pr_slice *ret);

#endif
