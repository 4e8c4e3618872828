/* The history of one execution of a flow: the commands of its code and the facts that happened to it, in order.
 *
 * Facts came from outside (a result, a fired timer); commands were made by the code (an activity, a wait), and a replay
 * is compared with them one by one.  A turn appends first its facts, then its commands.  The last event of an execution
 * is its end.
 *
 * As text it is one JSON object per line, readable by people:
 *
 *     {"n":1,"kind":"started","at":1700000000000000,"name":"checkout","version":"1","data":"order 7"}
 *     {"n":2,"kind":"activity","at":1700000000000000,"task":1,"name":"charge","data":"order 7"}
 *     {"n":3,"kind":"result","at":1700000000120000,"task":1,"data":"paid"}
 *
 * data is data_base64 where the bytes are not text that JSON can represent.  The reader is strict: an unknown key, a
 * number out of order, a result without a task, or anything after the end is damage, reported with its line. */
#ifndef FLOW_HISTORY_H
#define FLOW_HISTORY_H

#include <postrider.h>

#include "base/arena.h"

enum flow_event_kind {
    FLOW_EVENT_NONE,
    /* Facts. */
    FLOW_EVENT_STARTED,   /* name, version, data: input, state, status */
    FLOW_EVENT_RESULT,    /* task: an activity; data: output, or the error as JSON when failed */
    FLOW_EVENT_CHILD_END, /* task: a child; the same */
    FLOW_EVENT_FIRED,     /* task: a timer */
    FLOW_EVENT_EVENT,     /* name, data */
    FLOW_EVENT_MAIL,      /* name, data */
    FLOW_EVENT_CANCEL,    /* data: why */
    /* Commands. */
    FLOW_EVENT_ACTIVITY,    /* task, name, data: input, tag, session */
    FLOW_EVENT_TIMER,       /* task, due */
    FLOW_EVENT_WAIT,        /* task, name: of an event */
    FLOW_EVENT_WAIT_MAIL,   /* task, name: of a mailbox */
    FLOW_EVENT_CHILD,       /* task, name, id, version, data: input */
    FLOW_EVENT_DETACHED,    /* the same; nobody waits for it */
    FLOW_EVENT_CANCEL_TASK, /* task */
    FLOW_EVENT_NOW,         /* value: Unix microseconds */
    FLOW_EVENT_UUID,        /* id */
    FLOW_EVENT_RANDOM,      /* value, its bits */
    /* Ends. */
    FLOW_EVENT_COMPLETED, /* data: output */
    FLOW_EVENT_FAILED,    /* data: the error as JSON */
    FLOW_EVENT_CANCELLED,
    FLOW_EVENT_CONTINUED, /* data: the next input; id: the next execution; version */
    FLOW_EVENT_KINDS
};

/* A key-value, as at the beginning of an execution. */
struct flow_value {
    pr_slice key, value;
};

/* What few events have. */
struct flow_more {
    pr_slice id, version, tag, session;
    pr_slice status;
    const struct flow_value *state;
    size_t state_count;
};

struct flow_event {
    uint8_t kind;  /* enum flow_event_kind */
    bool failed;   /* RESULT, CHILD_END */
    int32_t task;  /* 0: none */
    int64_t at_us; /* the turn's now */
    int64_t value; /* TIMER: due; NOW, RANDOM */
    pr_slice name, data;
    const struct flow_more *more; /* or NULL */
};

static inline bool flow_event_is_end(const struct flow_event *e)
{
    return e->kind >= FLOW_EVENT_COMPLETED;
}

/* Ends are commands, too: the code returned. */
static inline bool flow_event_is_command(const struct flow_event *e)
{
    return e->kind >= FLOW_EVENT_ACTIVITY;
}

/* Does it begin a task that will end? */
static inline bool flow_event_begins_task(const struct flow_event *e)
{
    return e->kind >= FLOW_EVENT_ACTIVITY && e->kind <= FLOW_EVENT_CHILD;
}

const char *flow_event_kind_name(int kind);

enum flow_task_state { FLOW_TASK_OPEN = 1, FLOW_TASK_ENDED, FLOW_TASK_CANCELLED };

/* A task by its number, as recorded.  Waits for events and mail stay open: the replay decides which of them gets
 * what. */
struct flow_task {
    uint8_t kind;   /* of the event that began it */
    uint8_t state;  /* enum flow_task_state */
    uint32_t event; /* index of that event */
};

/* The decoded events of one execution.  It owns what its slices point to, and may be kept between turns. */
struct flow_history {
    pr_id execution;
    struct flow_event *events;
    size_t count, capacity;
    struct flow_task *tasks; /* tasks[n - 1] */
    size_t task_count, task_capacity;
    bool cancelled; /* a CANCEL is in it */
    struct arena arena;
};

void flow_history_init(struct flow_history *h, pr_id execution);
void flow_history_fini(struct flow_history *h);
/* Bytes of memory, for caches. */
size_t flow_history_bytes(const struct flow_history *h);

/* Appends the events of a turn (their slices are copied) when the store has accepted them.  Fault PR_ECORRUPT: they
 * cannot follow the existing ones; PR_ENOMEM. */
PR_MUST_CHECK int flow_history_append(struct flow_history *h, const struct flow_event *events, size_t count,
                                      struct pr_error *reterr);

/* The events of a failed execution before its failure, for another execution to continue from: without its end, and
 * without the failures after its last command.  ret has room for h->count; the events point into h.  Returns their
 * number. */
size_t flow_history_rewind(const struct flow_history *h, struct flow_event *ret);

/* Appends the lines of one row of the store. */
PR_MUST_CHECK int flow_history_decode(struct flow_history *h, pr_slice lines, struct pr_error *reterr);

struct buf;
/* One line for each event; the first has the number `first` (1 is the start). */
void flow_history_encode(struct buf *b, const struct flow_event *events, size_t count, size_t first);

#endif
