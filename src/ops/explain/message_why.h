/* message_why.h - where a message is, what it waits for, what happens to it next and when, and which commands would
 * change that (B200): the same for the command and the API.  From the store; the configuration adds what its endpoint
 * will do. */
#ifndef OPS_EXPLAIN_MESSAGE_WHY_H
#define OPS_EXPLAIN_MESSAGE_WHY_H

#include "base/json.h"
#include "runtime/config/config.h"
#include "store/store.h"

#define WHY_COMMANDS_MAX 8

struct message_why_command {
    const char *command; /* "postrider retry ID" */
    const char *what;    /* what it does */
};

struct message_why {
    /* Input, borrowed: */
    struct store *store;
    const struct config *config;
    struct arena *arena;             /* memory of everything below */
    const struct query_reply *reply; /* of a QUERY_ID that knew the routes (messages_see_routes()), ... */
    const struct listed *listed;     /* ... and one of those in it */

    /* Output: */
    pr_slice endpoint;                  /* where it goes; empty: unknown */
    const struct listed *head;          /* the message that it is held behind, or follows; NULL: none */
    const struct breaker_info *breaker; /* the breaker that it waits for; NULL: none */
    const char *now, *next;             /* sentences, each on a line of its own, safe for a terminal */
    int64_t next_us;                    /* when something happens by itself; 0: unknown, or nothing does */
    struct message_why_command commands[WHY_COMMANDS_MAX];
    size_t command_count;
};

/* Fault: the store's. */
PR_MUST_CHECK int message_why_make(struct message_why *o, struct pr_error *reterr);

/* Members of an object: waits_for, now, next (what, at), breaker, commands. */
void message_why_json(struct json_writer *w, const struct message_why *o);

/* "commands": [{"command", "what"}, ...] */
void why_commands_json(struct json_writer *w, const struct message_why_command *commands, size_t count);

#endif
