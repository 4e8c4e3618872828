/* message.h - a message as programs and people see it. */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "base/json.h"
#include "cli/cli.h"

/* The object of --json: the same for every command.  The reply is the one that it is listed in. */
void message_json(struct json_writer *w, const struct cli *cli, const struct query_reply *reply,
                  const struct listed *listed);
/* All of it, for people. */
void message_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed);

/* Where it is going, for a column: the endpoint, or "" while the routes have not decided. */
pr_slice message_endpoint(const struct listed *listed);
/* Of the latest real failure; where there was none, why it died.  "" when it is fine. */
const char *message_reason(const struct listed *listed);

/* Dead because nobody ever said how its attempts ended, and not because they failed. */
bool message_was_poison(const struct listed *listed);

/* Look an id up everywhere: EXIT_DONE, or says that there is none (EXIT_NOT_FOUND). */
int message_find(struct cli *cli, struct query_reply *ret_reply);

#endif
