/* message.h - a message as people see it. */
#ifndef CLI_COMMAND_MESSAGE_H
#define CLI_COMMAND_MESSAGE_H

#include "cli/cli.h"
#include "ops/message.h"

/* All of it, for people. */
void message_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed);

/* Look an id up everywhere: EXIT_DONE, or says that there is none (EXIT_NOT_FOUND). */
int message_find(struct cli *cli, bool ended, struct query_reply *ret_reply);

/* Which dead letter a command means: the ID before its other arguments, or --row N, which finds one whose id is damaged. */
struct letter_name {
    pr_id id;
    uint64_t row; /* 0: by id */
    const char *text;
};

/* EXIT_DONE, or says what is wrong. */
int message_letter(struct cli *cli, struct letter_name *ret);
void message_letter_filter(const struct letter_name *name, struct filter *filter); /* points into name */
/* As message_find(); by row only that dead letter is found. */
int message_find_letter(struct cli *cli, const struct letter_name *name, struct query_reply *ret_reply);

#endif
