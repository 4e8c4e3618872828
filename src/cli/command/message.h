/* message.h - a message as people see it. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "cli/cli.h"
#include "ops/message.h"

/* All of it, for people. */
void message_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed);

/* Look an id up everywhere: EXIT_DONE, or says that there is none (EXIT_NOT_FOUND). */
int message_find(struct cli *cli, bool ended, struct query_reply *ret_reply);

#endif
