/* The steps of a turn, shared by turn.c and its neighbours: messages become facts, the machine runs, the result becomes
 * effects. */
#ifndef FLOW_TURN_STEPS_H
#define FLOW_TURN_STEPS_H

#include "flow/machine.h"
#include "flow/turn.h"
#include "flow/turn_message.h"

struct turn {
    const struct flow_turn_in *in;
    struct flow_turn_out *out;
    struct arena *arena;
    struct turn_message *messages; /* those that could be decoded */
    size_t message_count;
    const struct turn_message *start; /* of a flow that begins; NULL: none */
    bool first;                       /* this turn begins an execution */
    bool resumes;                     /* ... with the events of a failed one before its failure */
    size_t lived;                     /* number of those events: the first facts */
    struct flow_event *facts;
    size_t fact_count;
    bool *got;                   /* tasks that end in this turn */
    struct flow_error *surprise; /* a result of a task that was never started */
    struct flow_row *row;        /* its new state */
    size_t effect_capacity;
    bool out_of_memory;
};

/* Reads the run; messages that cannot be decoded go to out->bad. */
void turn_read(struct turn *t);
/* Collects what has happened since the last turn. */
void turn_collect_facts(struct turn *t);

/* Effects.  In the end they are sorted in the order that stores require: row, history, messages, key-values, deletions,
 * mail. */
void turn_order_effects(struct turn *t);
struct effect *turn_effect(struct turn *t, enum effect_kind kind);
void turn_send(struct turn *t, pr_slice box, const struct pr_message *m);
void turn_send_turn(struct turn *t, const struct turn_message *m, pr_id id);
void turn_store_row(struct turn *t);
void turn_store_execution(struct turn *t);
void turn_store_events(struct turn *t, const struct flow_event *events, size_t count, size_t before);
void turn_schedule_tasks(struct turn *t, pr_flow *f);
void turn_cancel_tasks(struct turn *t, pr_flow *f);
void turn_cancel_all(struct turn *t);
void turn_store_state(struct turn *t, pr_flow *f);
void turn_replace_state(struct turn *t, const pr_flow *f);
void turn_tell_parent(struct turn *t);
void turn_keep_mail(struct turn *t, const struct pr_message *m, int64_t keep_us);
void turn_refuse_child(struct turn *t, const struct turn_message *start);

#endif
