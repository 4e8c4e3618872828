/* message.h - a message for people. */
#ifndef CLI_COMMAND_MESSAGE_H
#define CLI_COMMAND_MESSAGE_H

#include "cli/cli.h"
#include "ops/message.h"

/* Prints everything about it. */
void message_print(struct cli *cli, const struct query_reply *reply, const struct listed *listed);

/* Searches for an id everywhere: EXIT_DONE, or prints that it does not exist (EXIT_NOT_FOUND). */
int message_find(struct cli *cli, bool ended, struct query_reply *ret_reply);

/* The dead letter of a command: the ID before its other arguments, or --row N, for one whose id is damaged. */
struct letter_name {
    pr_id id;
    uint64_t row; /* 0: by id */
    const char *text;
};

/* EXIT_DONE, or prints what is wrong. */
int message_letter(struct cli *cli, struct letter_name *ret);
void message_letter_filter(const struct letter_name *name, struct filter *filter); /* points into name */
/* Like message_find(); by row it only finds that dead letter. */
int message_find_letter(struct cli *cli, const struct letter_name *name, struct query_reply *ret_reply);

#endif
