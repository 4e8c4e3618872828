/* The replay machine: the functions that a flow function calls during one turn.
 *
 * One cursor walks through the history, event by event.  A command of the code must be the next command in it; facts
 * before that are applied on the way.  A wait applies facts until it is satisfied; if a command comes first, the
 * history was made by other code, and at the end of the history the wait returns PR_SUSPEND.  After the end commands
 * become new events.  So the code can only see what depends on the history up to the cursor, and a prefix of the
 * history gives a prefix of the commands. */
#ifndef FLOW_MACHINE_H
#define FLOW_MACHINE_H

#include <postrider_flow.h>

#include "base/map.h"
#include "base/random.h"
#include "flow/flow_error.h"
#include "flow/history.h"

/* How the function ended, or why it has not. */
enum flow_outcome {
    FLOW_OPEN,      /* it is still running */
    FLOW_SUSPENDED, /* it waits */
    FLOW_RETURNED,  /* it completed */
    FLOW_ERRED,     /* it failed: error */
    FLOW_GAVE_UP,   /* it was cancelled */
    FLOW_CONTINUES, /* it continues as new */
};

/* A task, up to the cursor. */
struct live_task {
    uint8_t kind;    /* of the event that began it */
    uint8_t state;   /* enum flow_task_state */
    bool fresh;      /* begun in this turn */
    bool known;      /* the code knows that it has ended ... */
    bool seen;       /* ... and has its result */
    uint32_t event;  /* index of the event that began it */
    uint32_t ended;  /* index of the event that ended it */
    uint64_t wanted; /* the number of the pr_any() that counts it */
};

/* Events and mail of one name: those that no wait has taken, and the waits. */
struct arrival {
    struct arrival *next;
    uint32_t event;
};

struct waiter {
    struct waiter *next;
    int32_t task;
};

struct mailbox {
    struct map_node node;
    bool mail; /* or events */
    pr_slice name;
    struct arrival *first, **last;
    struct waiter *first_waiter, **last_waiter;
};

/* Options of an activity that was begun in this turn: the history does not contain them. */
struct fresh_activity {
    int32_t task;
    int64_t timeout_us, schedule_to_start_us;
    struct pr_retry retry;
};

struct flow_log_line {
    struct flow_log_line *next;
    bool warning;
    pr_slice text;
};

struct pr_flow {
    pr_slice id, name, version;
    pr_id execution;
    void *user;
    struct arena *arena;
    int64_t now_us;
    struct random random;
    const struct flow_history *script; /* or NULL: recorded values of new commands are taken from it */
    size_t script_at;

    const struct flow_history *history;
    size_t base;              /* number of its events that are replayed */
    size_t lived;             /* events taken over from a failed execution: see flow_history_rewind() */
    struct flow_event *fresh; /* after these: this turn's facts, then its commands */
    size_t fresh_count, fresh_capacity;
    size_t cursor; /* number of events applied */

    struct live_task *tasks; /* tasks[n - 1] */
    size_t task_count, task_capacity, open_count;
    struct map mailboxes;
    uint64_t waits;     /* number of calls of pr_any() */
    int32_t last_ended; /* task that the event before the cursor ended; 0: none */
    struct fresh_activity *options;
    size_t option_count, option_capacity;

    bool cancel_pending, cancel_seen;
    uint32_t cancel_at; /* index of the event */
    bool inert;
    bool out_of_memory;
    bool diverged; /* the code does not match the history: error says where */
    enum flow_outcome outcome;
    struct flow_error error;     /* FLOW_ERRED */
    struct flow_error last_seen; /* the latest failure that the code received */
    struct pr_error fault;       /* the latest fault that the code received */
    pr_slice output;             /* FLOW_RETURNED; FLOW_CONTINUES: the next input */
    pr_slice next_version;

    pr_slice status;
    int64_t status_changes;   /* in this turn */
    struct flow_value *state; /* sorted */
    size_t state_count, state_capacity, state_bytes;
    struct flow_value *changes; /* of this turn, in order; value.data NULL: removed */
    size_t change_count, change_capacity;
    struct flow_log_line *log, **log_end;
};

/* The first event is the start.  Fault PR_ENOMEM. */
PR_MUST_CHECK int machine_init(pr_flow *f, const struct flow_history *history, size_t base,
                               const struct flow_event *facts, size_t fact_count, struct arena *arena);
void machine_fini(pr_flow *f);
/* Calls the function once, and sets f->outcome. */
void machine_run(pr_flow *f, pr_flow_function function);

/* Walks through the whole history without code, as if it made the recorded commands. */
void machine_follow(pr_flow *f);

static inline const struct flow_event *machine_event(const pr_flow *f, size_t index)
{
    return index < f->base ? &f->history->events[index] : &f->fresh[index - f->base];
}

static inline size_t machine_event_count(const pr_flow *f)
{
    return f->base + f->fresh_count;
}

/* The code makes this command: returns its event, from the history or new, or NULL: the flow is inert now. */
const struct flow_event *machine_command(pr_flow *f, const struct flow_event *wanted);
/* As machine_command(), for one that begins a task.  The task's number, or a fault. */
int64_t machine_begin(pr_flow *f, struct flow_event *wanted);
/* Nothing satisfies a wait yet: applies one more fact.  PR_OK, or PR_SUSPEND: the flow is inert now. */
int machine_next_fact(pr_flow *f);
/* The command before the cursor cancels a task.  Nothing happens to a task whose end the code knows; any other task is
 * cancelled, whether or not its end has arrived meanwhile: the effect must not depend on what the code has not seen. */
void machine_cancel(pr_flow *f, int32_t task);
/* An error for the code; returns `code`. */
int machine_fault(pr_flow *f, int code, const char *format, ...) PR_PRINTF(3, 4);
/* The flow has failed, whatever the code does from now on. */
void machine_fail(pr_flow *f, const struct flow_error *error);
void machine_no_memory(pr_flow *f);
void machine_log(pr_flow *f, bool warning, pr_slice text);
/* Makes room for one more element in an array of the arena; false: no memory, and the flow is inert. */
bool machine_grow(pr_flow *f, void **array, size_t *capacity, size_t count, size_t size);
struct live_task *machine_task(pr_flow *f, int64_t number); /* NULL: no such task */

/* Mailboxes. */
void mailbox_arrive(pr_flow *f, const struct flow_event *e, uint32_t index);
void mailbox_wait(pr_flow *f, const struct flow_event *e, int32_t task);
void mailbox_give_back(pr_flow *f, int32_t task);
/* Mail that no wait has taken, in order of arrival: it moves to the next execution. */
PR_MUST_CHECK int mailbox_left(pr_flow *f, const struct flow_event ***ret, size_t *ret_count);

/* Key-values at the beginning of the execution. */
PR_MUST_CHECK int machine_state_begin(pr_flow *f, const struct flow_value *values, size_t count);

#endif
