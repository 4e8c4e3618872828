/* One turn of a flow, as a pure function: messages and history in, effects out.
 *
 * The caller has read the flow's row, and what it requires: for a running flow its history (decoded, possibly kept
 * since the turn before); for a first turn (no row, row->next 0, or a row that has ended and a start that restarts it)
 * its key-values and the mail that was kept for it; for a failed one that is resumed also its history.  The caller
 * commits the effects with the verdict of the whole run, and appends out->events to the history when the store has
 * accepted them. */
#ifndef FLOW_TURN_H
#define FLOW_TURN_H

#include <postrider_flow.h>

#include "base/arena.h"
#include "core/effect.h"
#include "core/flow_row.h"
#include "flow/flow_error.h"
#include "flow/history.h"

struct flow_log_line;

/* A version of a flow that this program has. */
struct flow_code {
    pr_slice name, version;
    pr_flow_function function;
    void *user;
};

/* The run was handed out too often, or failed too often: the flow ends without running its code. */
struct flow_dead {
    enum pr_category category; /* POISON, or that of the failures */
    int64_t count, limit;
    pr_slice error; /* not POISON: the latest failure, in words */
};

struct flow_turn_in {
    const struct flow_code *code; /* see flow_turn_code(); NULL: this program lacks it */
    pr_slice flow;
    const struct flow_row *row;         /* NULL: there is no such flow */
    const struct flow_history *history; /* of a running or resumed flow: row->next events of row->execution */
    pr_slice damaged;                   /* why the history cannot be read; empty: no damage */
    const struct flow_value *state;     /* first turn: key-values, sorted */
    size_t state_count;
    const struct pr_message *const *messages; /* the run, in order */
    size_t count;
    const struct pr_message *const *mail; /* first turn: mail kept for the flow, in order */
    size_t mail_count;
    const struct flow_dead *dead; /* or NULL */
    int64_t now_us;
    uint64_t seed;
    pr_id new_execution;  /* a fresh UUIDv7, for a flow that begins ... */
    pr_id next_execution; /* ... and another one, for a flow that continues as new */
    pr_slice turns_box, activities_box;
    int64_t keep_mail_us; /* for events and mail of a flow that does not exist; 0: no limit */
    struct arena *arena;
};

enum flow_turn_kind {
    FLOW_TURN_DONE,    /* the row has changed */
    FLOW_TURN_NOTHING, /* complete the run; there may be effects (kept mail, a refused child) */
    FLOW_TURN_UNKNOWN, /* this program lacks the name or the version: hand it back, later */
};

/* A message of the run that cannot be decoded: no flow can take it, so it becomes a dead letter. */
struct flow_bad_message {
    size_t index;   /* in the run */
    pr_slice error; /* poison of the kind undecodable, as JSON */
    pr_slice why;
};

struct flow_turn_out {
    enum flow_turn_kind kind;
    struct effect *effects; /* verdict 0 */
    size_t effect_count;
    const struct flow_row *row; /* after it; NULL: there is none */
    pr_id execution;            /* of these events */
    const struct flow_event *events;
    size_t event_count;
    const struct flow_log_line *log;
    const struct flow_bad_message *bad;
    size_t bad_count;
};

/* Everything but the history is borrowed until the arena is reset; row and effects may also point into in->history.
 * Fault PR_ENOMEM; PR_ECORRUPT: history and row do not match.  After a fault the input is unchanged. */
PR_MUST_CHECK int flow_turn(const struct flow_turn_in *in, struct flow_turn_out *out, struct pr_error *reterr);

/* The code that the run needs: PR_OK, or PR_UNKNOWN: none, the flow is not run.  version empty: the highest. */
PR_MUST_CHECK int flow_turn_code(const struct flow_row *row, const struct pr_message *const *messages, size_t count,
                                 struct arena *arena, pr_slice *ret_name, pr_slice *ret_version);

/* Does the run resume the flow?  Then its history is needed, although it has ended.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_turn_resumes(const struct flow_row *row, const struct pr_message *const *messages, size_t count,
                                    struct arena *arena, bool *ret);

/* Something that a flow waits for. */
struct flow_wait {
    int kind; /* enum flow_event_kind: ACTIVITY, TIMER, WAIT, WAIT_MAIL, CHILD */
    int64_t task;
    pr_slice name;    /* of the activity, event, mailbox or flow */
    pr_slice child;   /* CHILD: its id */
    pr_slice tag;     /* ACTIVITY */
    int64_t since_us; /* when it was begun */
    int64_t due_us;   /* TIMER */
    pr_id id;         /* ACTIVITY, TIMER: of its row */
};

/* What a flow with this history waits for, without running its code: for people.  Fault PR_ENOMEM. */
PR_MUST_CHECK int flow_waits(const struct flow_history *history, struct arena *arena, const struct flow_wait **ret,
                             size_t *ret_count);

#endif
