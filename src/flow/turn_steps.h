/* The steps of a turn, for turn.c and those beside it: messages become facts, the machine runs, what it did becomes effects. */
#ifndef FLOW_TURN_STEPS_H
#define FLOW_TURN_STEPS_H

#include "flow/machine.h"
#include "flow/turn.h"
#include "flow/turn_message.h"

struct turn {
    const struct flow_turn_in *in;
    struct flow_turn_out *out;
    struct arena *arena;
    struct turn_message *messages; /* those that could be read */
    size_t message_count;
    const struct turn_message *start; /* of a flow that begins; NULL: none */
    bool first;                       /* this turn begins an execution */
    bool resumes;                     /* ... with what one that failed had lived through */
    size_t lived;                     /* events of that one: the first facts */
    struct flow_event *facts;
    size_t fact_count;
    bool *got;                   /* tasks that end in this turn */
    struct flow_error *surprise; /* a result that nobody asked for */
    struct flow_row *row;        /* as it becomes */
    size_t effect_capacity;
    bool out_of_memory;
};

/* Read the run; what cannot be read goes to out->bad. */
void turn_read(struct turn *t);
/* What has happened since the last turn. */
void turn_collect_facts(struct turn *t);

/* Effects.  In the end they are put in the order in which stores take them: row, history, messages, key-values, what is
 * deleted, mail. */
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
