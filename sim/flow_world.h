/* The world of flows.h: its instances, its store, and what its checkers must know of what happened.
 *
 *   flows.c           starts flows and sends them messages, the faults, the end
 *   flow_operators.c  people who resume, restart, cancel, delete and prune
 *   flow_instance.c   instances: two engines and the flows of one process
 *   flow_programs.c   their programs, and a record of what the functions of activities did
 *   check_flows.c     the checkers */
#ifndef SIM_FLOW_WORLD_H
#define SIM_FLOW_WORLD_H

#include "base/arena.h"
#include "base/random.h"
#include "base/time.h"
#include "engine/engine.h"
#include "flow/turn_message.h"
#include "flows.h"
#include "random_flow.h"
#include "runtime/config/config.h"
#include "runtime/flow/flows.h"
#include "store/store.h"

#define FLOW_INSTANCES 2
#define FLOW_OUT_MAX 32
#define FLOW_ATTEMPTS_MAX 3
#define FLOW_NOTES_MAX 4096
#define FLOW_FLOWS_MAX 1000
#define FLOW_EXECUTIONS_MAX 100
#define FLOW_PROGRAMS 2
#define FLOW_TAG "gpu" /* that some activities need */

/* A box of one instance. */
struct flow_side {
    enum box_kind kind;
    struct engine *engine;
    struct engine_setting setting;
    struct endpoint_setting endpoint;
    struct store_session session;
    uint64_t lanes, peers_serial;
    struct flow_out {
        const struct delivery *d;
        bool is_run; /* its result is here, and not yet in the engine */
        struct delivery_result result;
    } out[FLOW_OUT_MAX];
    size_t out_count;
};

struct flow_instance {
    struct flows *flows; /* NULL: it is down */
    size_t program;
    struct flow_side sides[2];
};

/* What the function of an activity did. */
struct flow_note {
    pr_id execution;
    int64_t number;
    bool failed;
    pr_slice text; /* its output, or why it failed; data NULL: only that it began */
};

/* An execution whose flow was deleted. */
struct flow_deleted {
    pr_slice flow;
    pr_id execution;
};

struct flow_world {
    const struct life *life;
    enum flows_bug bug;
    struct breach *breach;
    struct random random, ids;
    int64_t mono_us, wall_offset_us;
    struct clock clock;
    struct store store;
    struct config config;
    struct config_box boxes[2];
    struct program *programs[FLOW_PROGRAMS]; /* the second one has version 2, too */
    struct random_flow codes[FLOW_PROGRAMS][4];
    size_t deployed;   /* the version to be started now, unless an older one is */
    bool code_changes; /* the code of version 1 of the second program changes */
    bool clock_steps;  /* the wall clock jumps */
    bool killed;       /* the running function kills its instance */
    struct flow_instance instances[FLOW_INSTANCES];
    uint64_t started; /* instances so far */
    uint64_t sent;    /* events and mail, including unsolicited ones: numbers in their content */
    unsigned roots, begun_roots;
    bool calm;                      /* no more faults */
    uint64_t hardships;             /* faults, after which an innocent message may look like poison */
    pr_slice flows[FLOW_FLOWS_MAX]; /* ids that have had a turn */
    size_t flow_count;
    struct flow_note notes[FLOW_NOTES_MAX];
    size_t note_count;
    bool offers_tag[FLOW_PROGRAMS]; /* FLOW_TAG */
    size_t at_work;                 /* the program whose function is running */
    struct flow_deleted deleted[FLOW_FLOWS_MAX];
    size_t deleted_count;
    struct arena arena, kept; /* of one question; of the whole life */
    struct life_counts counts;
    struct flows_life_counts more;
};

int64_t flow_world_wall_us(const struct flow_world *w);
bool flow_chance(struct flow_world *w, double share); /* draws whether a fault happens: never when calm */
void flow_broken(struct flow_world *w, const char *invariant, const char *format, ...) PR_PRINTF(3, 4);
void flow_happened(struct flow_world *w, const char *format, ...) PR_PRINTF(2, 3);
/* Into the box of turns; id zero: a new one. */
void flow_world_tell(struct flow_world *w, const struct turn_message *m, pr_id id);
/* Records a flow that has had a turn. */
void flow_world_meet(struct flow_world *w, pr_slice flow);
/* Its row, with all of its texts; false: there is none. */
bool flow_world_row(struct flow_world *w, pr_slice flow, struct flow_row *ret);
/* The answer is in w->arena, which it empties before. */
void flow_world_ask(struct flow_world *w, const struct query *query, struct query_reply *ret);

/* flow_operators.c */
void flow_operators_act(struct flow_world *w, pr_slice flow);

/* flow_programs.c */
void flow_programs_make(struct flow_world *w);
void flow_programs_free(struct flow_world *w);
#define FLOW_KILLS "kill" /* an activity, and a flow, that take their instance with them */
#define FLOW_CALLS_KILLER "calls killer"

/* flow_instance.c */
void flow_instance_start(struct flow_world *w, struct flow_instance *i);
void flow_instance_die(struct flow_world *w, struct flow_instance *i);
/* A cycle, if one is due; false: there was nothing in it but looks. */
bool flow_instance_cycle(struct flow_world *w, struct flow_instance *i, struct flow_side *s, bool changed);
bool flow_instance_take(struct flow_world *w, struct flow_instance *i, struct flow_side *s);
/* Continues an item that is out: runs it, or passes its result on to the engine.  The instance may die of it.  false:
 * nothing is out. */
bool flow_instance_work(struct flow_world *w, struct flow_instance *i, struct flow_side *s);

/* check_flows.c */
struct flow_row *flow_world_rows(struct flow_world *w, size_t *ret_count);                 /* until the next call */
size_t flow_world_executions(struct flow_world *w, pr_slice flow, pr_id *ret, size_t max); /* the current one first */
bool flow_world_was_deleted(const struct flow_world *w, pr_slice flow);
void check_cancelled_children(struct flow_world *w); /* with empty boxes */
void check_running_flows(struct flow_world *w);      /* there should be none */
void check_flows(struct flow_world *w);

#endif
