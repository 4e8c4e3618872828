/* flow_tell.h - messages from people to flows, the same for the command and the API: start, raise, send, cancel, retry.
 *
 * Each is a message in the box of turns; the flow's next turn decides its effect.  Starts, events and mail are traffic
 * like any other message; changes to the fate of an existing flow (cancel, restart, replay) are recorded in the audit
 * (B202). */
#ifndef OPS_FLOW_FLOW_TELL_H
#define OPS_FLOW_FLOW_TELL_H

#include "core/box.h"
#include "flow/turn_message.h"
#include "runtime/config/config.h"
#include "store/store.h"

/* The author, and the store.  Everything is borrowed. */
struct flow_teller {
    struct store *store;
    const struct config *config;
    struct arena *arena;
    pr_slice by, why;
};

/* The first box of this kind; there always is one. */
pr_slice flow_box(const struct config *config, enum box_kind kind);

/* "running", ...; 0: unknown state. */
int flow_state_parse(pr_slice name);

struct flow_tell_result {
    pr_slice flow;  /* in the arena, or the caller's */
    pr_id message;  /* zero: nothing was stored */
    bool duplicate; /* of a start: the flow exists; else the message is stored already */
};

/* kind START: flow may be empty, then it gets an id.  EVENT, MAIL: id may be zero.  Fault PR_EINVAL: a name is missing
 * or too long. */
PR_MUST_CHECK int flow_tell(const struct flow_teller *t, const struct turn_message *message, pr_id id,
                            struct flow_tell_result *ret, struct pr_error *reterr);
/* PR_OK; PR_UNKNOWN: no such flow, and none about to begin; PR_STALE: it has ended. */
PR_MUST_CHECK int flow_cancel(const struct flow_teller *t, pr_slice flow, struct pr_error *reterr);
/* Restarts a flow that has ended, with its name and input; version empty: its own.  PR_OK; PR_UNKNOWN; PR_STALE: it is
 * running. */
PR_MUST_CHECK int flow_restart(const struct flow_teller *t, pr_slice flow, pr_slice version, struct pr_error *reterr);

struct flow_retried {
    bool resumed;      /* it had failed, and continues from before its failure */
    uint64_t replayed; /* dead letters of the flow and of its activities */
    uint64_t hastened; /* activities and turns whose next try was moved to now */
};
/* A flow that failed is resumed: it continues in a new execution that keeps everything from before its failure, and
 * starts what was open then once more.  PR_OK; PR_UNKNOWN: no such flow; PR_STALE: it has ended, and did not fail. */
PR_MUST_CHECK int flow_retry(const struct flow_teller *t, pr_slice flow, bool dry_run, struct flow_retried *ret,
                             struct pr_error *reterr);

/* Only the row; NULL: no such flow. */
PR_MUST_CHECK int flow_read_row(struct store *store, pr_slice flow, struct arena *arena, const struct flow_row **ret,
                                struct pr_error *reterr);

/* Waits until it has ended, or (after_number >= 0) its status_number is greater: PR_OK, PR_TIMEOUT, PR_UNKNOWN: it did
 * not begin in this time.  look() reads the row into the arena, which is reset before each look; is_gone() may be NULL:
 * the client is gone (PR_TIMEOUT). */
struct flow_waiter {
    pr_slice flow;
    int64_t after_number, timeout_us;
    int (*look)(void *arg, struct arena *arena, const struct flow_row **ret, struct pr_error *reterr);
    bool (*is_gone)(void *arg);
    void *arg;
    struct arena *arena;
};
PR_MUST_CHECK int flow_wait_for(const struct flow_waiter *w, const struct flow_row **ret, struct pr_error *reterr);

#endif
