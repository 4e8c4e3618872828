/* flow_view.h - flows and their histories for people and programs: what each waits for, since when, what will wake it
 * (B112, B200). */
#ifndef OPS_FLOW_FLOW_VIEW_H
#define OPS_FLOW_FLOW_VIEW_H

#include "base/json.h"
#include "flow/history.h"
#include "flow/turn.h"
#include "ops/explain/message_why.h"
#include "ops/flow/flow_tell.h"

/* Members of a row, into an open object. */
void flow_row_json(struct json_writer *w, const struct flow_row *row);
/* One event, as an object; number counts from 1. */
void flow_event_json(struct json_writer *w, const struct flow_event *event, size_t number);
/* "activity charge#1", "timer #2": for people; in the arena. */
const char *flow_event_words(struct arena *arena, const struct flow_event *event);
/* The message of an error in a row; safe for a terminal. */
const char *flow_error_words(struct arena *arena, pr_slice error);

#define FLOW_WAITS_SHOWN 100 /* of a flow with more waits, the oldest */

/* One thing that a flow waits for. */
struct flow_waited {
    const struct flow_wait *wait;
    const struct listed *row; /* of an activity or a timer; NULL: it has none, or it was not found */
    const char *words;        /* a sentence, safe for a terminal */
};

struct flow_view {
    /* Input, borrowed: */
    struct store *store;
    const struct config *config;
    struct arena *arena;
    pr_slice id;
    pr_id execution; /* zero: the current one */

    /* Output: */
    const struct flow_row *row; /* NULL: it does not exist (yet) */
    struct flow_history history;
    const char *damaged; /* why only a part could be read; NULL: everything was */
    const struct flow_key_value *values;
    size_t value_count;
    const struct flow_waited *waits;
    size_t wait_count, waits_in_all;
    const struct listed *pending; /* messages for it, in order */
    size_t pending_count;
    int64_t now_us;
    const char *now, *next; /* sentences, each on a line of its own, safe for a terminal */
    struct message_why_command commands[WHY_COMMANDS_MAX];
    size_t command_count;
};

/* Row, history, what it waits for, and sentences.  PR_OK; PR_UNKNOWN: no trace of such a flow. */
PR_MUST_CHECK int flow_view_make(struct flow_view *v, struct pr_error *reterr);
/* Only row, history and key-values. */
PR_MUST_CHECK int flow_view_read(struct flow_view *v, struct pr_error *reterr);
void flow_view_fini(struct flow_view *v);

/* The whole object. */
void flow_view_json(struct json_writer *w, const struct flow_view *v);

/* Which instance runs the activities of a session, as a phrase ("session file-7 is at web-1, for 5m; it moved there
 * from web-2"); NULL: none has run yet. */
const char *session_words(struct store *store, struct arena *arena, pr_slice session, int64_t now_us);

/* The flow of a message in a box of turns or activities, as a phrase ("activity charge#1 of flow order-7"); NULL:
 * none. */
const char *flow_of_message(struct arena *arena, const struct config *config, pr_slice box,
                            const struct pr_message *message);

#endif
