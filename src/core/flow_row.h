/* The row of a flow: its identity, its current execution, and how far that has come.
 *
 * It is also the guard of a turn (EFFECT_FLOW in core/effect.h): a turn is committed only if it saw this execution with
 * this number of events.  Everything else that belongs to a flow is found through the row: its history by the
 * execution; its key-values and mail by the id; its open activities, timers and children by ids computed from the
 * execution and the numbers 1 to `tasks`. */
#ifndef CORE_FLOW_ROW_H
#define CORE_FLOW_ROW_H

#include <postrider.h>

enum flow_state {
    FLOW_RUNNING = 1,
    FLOW_COMPLETED,
    FLOW_FAILED,
    FLOW_CANCELLED,
    FLOW_CONTINUED, /* only of an earlier execution: a newer one continues the flow */
};

struct flow_row {
    pr_slice id, name, version;
    pr_id execution; /* the current one; a UUIDv7, never used again */
    int64_t next;    /* the number of events in its history */
    int state;       /* enum flow_state */
    pr_slice custom_status;
    int64_t status_number; /* incremented by each change of custom_status; 0: never set */
    pr_slice input, output;
    pr_slice error;  /* JSON: {"category","message","kind",...}; empty: none */
    pr_slice parent; /* the id of the flow that gets a message when this one ends; empty: none */
    pr_id parent_execution;
    int64_t parent_task;
    int64_t tasks;      /* the highest number of an activity, timer or child of this execution */
    int64_t created_us; /* when the first execution of the flow began, by the store's clock; ignored in an effect */
    int64_t updated_us; /* when the latest turn was stored; ignored in an effect */
    bool restarts;      /* in an effect with the guard "no such flow": replace one that has ended */
};

const char *flow_state_name(int state);            /* "running" */
size_t flow_row_bytes(const struct flow_row *row); /* total size of its texts */
/* Copy into a block of sizeof(struct flow_row) plus flow_row_bytes(). */
struct flow_row *flow_row_copy(const struct flow_row *row, void *block);

static inline bool flow_has_ended(const struct flow_row *row)
{
    return row->state > FLOW_RUNNING;
}

#endif
