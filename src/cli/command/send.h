/* send.h - headers and payload of the command line, for those who make messages. */
#ifndef CLI_COMMAND_SEND_H
#define CLI_COMMAND_SEND_H

#include "cli/cli.h"

/* --header NAME=VALUE ... as a JSON object in the arena; *ret is untouched when there are none. */
int send_headers(struct cli *cli, pr_slice *ret);
/* --to names an endpoint of the configuration, or there is none to look at.  EXIT_NOT_FOUND: it was said. */
int send_to_is_known(struct cli *cli);
/* --data, --file or "-".  dash: the argument that may be one; NULL: there is none.  content is the caller's,
 * zeroed, and has the bytes; buf_fini() it in any case. */
int send_payload(struct cli *cli, const char *dash, struct buf *content, pr_slice *ret);

#endif
