/* The row of a flow: who it is, which of its executions is the current one, and how far that has come.
 *
 * It is also the guard of a turn (EFFECT_FLOW in core/effect.h): the one who commits a turn must have seen this execution with
 * this number of events.  All that else belongs to a flow hangs on the row: its history by the execution, its
 * key-values and its mail by the id, its open activities, timers and children by ids that are computed from the execution
 * and the numbers 1 to `tasks`. */
#ifndef CORE_FLOW_ROW_H
#define CORE_FLOW_ROW_H

#include <postrider.h>

enum flow_state {
    FLOW_RUNNING = 1,
    FLOW_COMPLETED,
    FLOW_FAILED,
    FLOW_CANCELLED,
    FLOW_CONTINUED, /* of an earlier execution only: another one goes on */
};

struct flow_row {
    pr_slice id, name, version;
    pr_id execution; /* the current one; a UUIDv7, never used again */
    int64_t next;    /* how many events its history has */
    int state;       /* enum flow_state */
    pr_slice custom_status;
    int64_t status_number; /* raised by each change of custom_status; 0: it was never set */
    pr_slice input, output;
    pr_slice error;  /* JSON: {"category","message","kind",...}; empty: none */
    pr_slice parent; /* id of the flow that gets a message when this one ends; empty: none */
    pr_id parent_execution;
    int64_t parent_task;
    int64_t tasks;      /* the highest number given to an activity, timer or child of this execution */
    int64_t created_us; /* the flow's first execution began; the store's clock, and not looked at in an effect */
    int64_t updated_us; /* the same of its latest turn */
    bool restarts;      /* in an effect whose guard is "no such flow": one that has ended is replaced */
};

const char *flow_state_name(int state);            /* "running" */
size_t flow_row_bytes(const struct flow_row *row); /* of its texts */
/* Into a block of sizeof(struct flow_row) and these bytes. */
struct flow_row *flow_row_copy(const struct flow_row *row, void *block);

static inline bool flow_has_ended(const struct flow_row *row)
{
    return row->state > FLOW_RUNNING;
}

#endif
