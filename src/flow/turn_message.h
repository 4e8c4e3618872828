/* Writing and reading the messages of flows: those of a box of turns (the stream is the flow), and those of a box of
 * activities.
 *
 *   type     headers                                             payload
 *   start    name, version, parent, parent_execution,            input
 *            parent_task, restart, resume, unheard_of
 *   result   execution, task, failed                             output, or the error as JSON
 *   child    execution, task, failed                             the same, of a child
 *   timer    execution, task                                     -
 *   event    name                                                data
 *   mail     name                                                data
 *   cancel   parent_execution, parent_task: by a parent          why
 *
 *   NAME     flow, execution, task, tag, timeout_us, retry_...   input; in an activities box, stream = session
 *
 * Headers are a flat JSON object.  They may come from other programs: reading gives an error that names the key, never
 * a crash; unknown keys are ignored. */
#ifndef FLOW_TURN_MESSAGE_H
#define FLOW_TURN_MESSAGE_H

#include <postrider_flow.h>

#include "base/arena.h"

enum turn_message_kind {
    TURN_NONE,
    TURN_START,
    TURN_RESULT,
    TURN_CHILD,
    TURN_TIMER,
    TURN_EVENT,
    TURN_MAIL,
    TURN_CANCEL,
    TURN_KINDS
};

struct turn_message {
    enum turn_message_kind kind;
    pr_slice flow; /* the stream */
    pr_slice name, version;
    pr_slice parent; /* START: empty: none */
    pr_id parent_execution;
    int64_t parent_task;
    bool restart; /* START: restarts a flow that has ended */
    /* START: resumes a failed flow from before its failure; with restart: restarts it if it has not failed */
    bool resume;
    bool unheard_of; /* START: nobody had the generated flow id before, so nothing else can be stored about the flow */
    pr_id execution;
    int64_t task;
    bool failed;
    pr_slice data;  /* the payload */
    int64_t due_us; /* TIMER; 0: now */
};

const char *turn_message_type(enum turn_message_kind kind);

/* ret's id is set; its slices are in the arena or t's own.  Fault PR_ENOMEM. */
PR_MUST_CHECK int turn_message_make(const struct turn_message *t, pr_id id, struct arena *arena,
                                    struct pr_message *ret);
/* ret's slices are in the arena or the message's own.  Fault PR_EINVAL with what is wrong; PR_ENOMEM. */
PR_MUST_CHECK int turn_message_read(const struct pr_message *m, struct arena *arena, struct turn_message *ret,
                                    struct pr_error *reterr);

struct activity_message {
    pr_slice name, flow;
    pr_id execution;
    int64_t task;
    pr_slice tag, session;
    int64_t timeout_us; /* 0: the configuration's */
    struct pr_retry retry;
    pr_slice input;
    int64_t expires_us; /* latest time to begin it; 0: no limit */
};

PR_MUST_CHECK int activity_message_make(const struct activity_message *a, struct arena *arena, struct pr_message *ret);
PR_MUST_CHECK int activity_message_read(const struct pr_message *m, struct arena *arena, struct activity_message *ret,
                                        struct pr_error *reterr);

#endif
