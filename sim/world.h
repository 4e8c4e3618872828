/* A world in virtual time: engines, one store, senders, receivers, operators, and what goes
 * wrong between them.  One thread, one seed, no clock but its own: the same seed is the same
 * world, to the last event.
 *
 *     world_init(&w, 1);
 *     pr_id id = world_send(&w, "orders-1", "hello");
 *     world_run_for(&w, PR_SECONDS(60));
 *     CHECK_EQ(world_deliveries(&w, id), 1);
 *
 *   world.c             the clock, the calendar of events, instances and their loop
 *   faulty_store.c      between an engine and its store; what landed goes into the history
 *   faulty_transport.c  between an engine and its receivers
 *   workload.c          senders
 *   inline.c            ... who send themselves at first (`mode: inline`)
 *   sources.c           ... and brokers whose messages arrive more than once, in any order
 *   handlers.c          receivers that complete messages in transactions of their own
 *   worker.c            ... that claim them and judge them themselves
 *   asks.c              ... that ask for messages of some types
 *   operators.c         people
 *   breakers.c          the engines' breakers against what the store tells of them
 *   run.c               the two phases: first nothing may break, then everything must drain
 *
 * What is not sending through one box is a kind of life of its own: see life.h. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/arena.h"
#include "base/heap.h"
#include "base/map.h"
#include "engine/engine.h"
#include "dice.h"
#include "history.h"
#include "scenario.h"
#include "store/store.h"

#define WORLD_START_US INT64_C(1760000000000000) /* some day in 2025 */
#define SIM_ASKED_MAX 2
#define SPIN_MAX 20000 /* cycles at one instant: an engine that needs more hangs */

struct world;
struct instance;

typedef void (*world_fn)(struct world *w, void *arg);

/* Something that will happen in a world.  When it has an owner it happens to that start of that instance:
 * it waits while the instance is frozen, and never comes when it died. */
struct sim_event {
    struct heap_node node;
    struct world *world;
    world_fn fn;
    void *arg;
    struct instance *owner;
    uint64_t life;
    struct sim_event *next_free;
};

enum instance_state { INSTANCE_DOWN, INSTANCE_UP };

struct instance {
    struct world *world;
    unsigned index;
    enum instance_state state;
    struct engine_setting setting;
    unsigned config, wanted; /* by which it works; by which it is to, as soon as it can */
    struct engine *engine;
    struct store_session session;
    uint64_t life;     /* which start this is; 0: never started */
    int64_t offset_us; /* of its monotonic clock: machines boot at different times */
    int64_t frozen_until_us;
    int64_t scan_again_us; /* not earlier may its scan begin anew */
    int64_t wake_us;       /* PR_NEVER: no wake-up is planned */
    bool asking;           /* a cycle is under way */
    bool changed;          /* somebody said that there are new messages */
    bool stopping;
    bool unanswered;                     /* its cycle is to be asked again */
    bool loss_unheard;                   /* the store lost commits, and its session has not told so yet */
    uint64_t late_number;                /* of the cycle that is still on its way to the store; 0: none */
    unsigned taken[SIM_ENDPOINTS_MAX];   /* by its transports, and not answered */
    unsigned recalls[SIM_ENDPOINTS_MAX]; /* how often the engine wanted back what has not started */
    int64_t asked_us;
    int rc;
    const struct cycle_reply *reply;
    pr_id session_id; /* as the store knows it */
    uint16_t session_number;
    size_t window_count, window_bytes, places; /* the most so far */
    struct ask asks[SIM_ASKED_MAX][ASKS_MAX];  /* of its first endpoints (asks.c) ... */
    unsigned asked;                            /* ... a bit for each whose messages are asked for */
    struct worker_verdict *verdicts;           /* that it has not been answered yet (worker.c) */
};

/* A message of this world, from its sender's side. */
struct parcel {
    struct pr_message m;
    uint32_t index;
    uint64_t digest;
    int64_t place;           /* order of insertion; 0: not in the box yet */
    struct map_node adopted; /* its id is not ours: see world_adopt() */
    unsigned typed;          /* > 0: it brings effects of every kind along, of this key (effects.c) */
    struct parcel *effect;   /* sent along when it is handled; NULL: none */
    bool poison, bad, undecodable, delayed, stored;
    bool settles;        /* its handlers complete it in transactions of their own (handlers.c) */
    bool sourced;        /* a source brings it (sources.c) */
    int inline_endpoint; /* 1 + where its sender tried to send it itself, in vain, before it was stored; 0: it did not */
    struct parcel *copy,
        *original; /* the same id sent again, to the same endpoint under another name, or by its source; NULL: it was not */
    struct parcel *older;          /* of those that a source brought again: copy is the latest */
    uint32_t parts;                /* a bit for each endpoint that it was split for */
    const struct parcel *corrects; /* the dead letter whose place it took; NULL: none */
    unsigned starts, arrivals, crashes;
};

/* What becomes of one send. */
struct fate {
    enum send_outcome outcome;
    int reason;
    int bits;
    bool arrives, twice, crash;
    int64_t start_us, arrive_us, answer_us; /* after submission */
    int64_t retry_after_us;
    bool disable, unsent;
    const char *code; /* of a failure; NULL: the world's own */
};

/* A row of the store, as far as it was seen there. */
struct known_row {
    struct map_node node;
    uint64_t row;
    uint32_t message;
    uint16_t destination;
};

struct receiver {
    bool down;
    bool hangs;    /* while it is down: no answer at all, instead of a refusal */
    bool away;     /* while it is down: nothing goes out ... */
    bool stranger; /* ... or it does not know us */
    pr_slice type; /* only for messages of this type; empty: for all */
};

#define SIM_EFFECT_KEYS 3

/* A world is one box with all that belongs to it.  Worlds beside each other have one store, one clock and one calendar. */
struct world {
    struct world *first;                                   /* of those beside it; itself: it is the first, or alone */
    struct world *next;                                    /* beside it; NULL: none */
    int64_t effect_numbers[EFFECT_KINDS][SIM_EFFECT_KEYS]; /* as handlers know them */
    const struct scenario *scenario;
    struct faults faults;          /* the scenario's, until the world heals */
    struct random dice[DIE_COUNT]; /* what happens */
    struct arena arena;            /* lives as long as the world */
    struct history history;
    bool quiet;       /* no history: for tests with very many messages */
    int64_t cycle_us; /* how long each cycle takes; 0: by the dice */

    int64_t mono_us;
    int64_t wall_offset_us; /* jumps */
    struct clock clock;
    struct heap calendar;
    struct sim_event *free_happenings;
    uint64_t happened;

    struct store store;
    struct limits *limits; /* of all instances; NULL: each has its own */
    struct instance instances[SIM_INSTANCES_MAX];
    uint16_t sessions;
    struct receiver receivers[SIM_ENDPOINTS_MAX];
    struct map rows;
    struct map adopted;

    struct parcel **parcels;
    uint32_t parcel_count, parcel_capacity;
    int64_t places;
    uint32_t produced;
    unsigned open_transactions;
    bool healed;
    const char *broken; /* the world itself could not go on: why */

    /* For tests: decides instead of the dice when it is set. */
    void (*judge)(struct world *w, const struct delivery *delivery, unsigned endpoint, struct fate *fate);
    int (*disturb)(struct world *w, struct instance *in, const struct cycle *cycle); /* 0: go on, or a fault */
    void (*watch)(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply *reply);
    void *user;

    uint64_t crashes, starts, arrivals, cycles, rows_read;
};

/* ---- Life ------------------------------------------------------------------------------ */

void world_init(struct world *w, uint64_t seed);                        /* calm: scenario_calm() */
void world_init_with(struct world *w, const struct scenario *scenario); /* borrowed until fini */
/* Another box of the same store: its endpoints have other names, and its clock drifts as the first one's. */
void world_init_beside(struct world *w, const struct scenario *scenario, struct world *first);
void world_fini(struct world *w); /* the first one is the last */
/* All worlds beside this one, and itself. */
#define world_foreach(x, w) for (struct world *x = (w)->first; x != NULL; x = x->next)
bool world_is_alone(const struct world *w);
bool world_is_broken(const struct world *w);               /* one of them is */
struct world *world_of_box(struct world *w, pr_slice box); /* NULL: none of them has it */

/* ---- Time --------------------------------------------------------------------------------- */

int64_t world_wall_us(const struct world *w);
void world_step_clock(struct world *w, int64_t by_us);
void world_at(struct world *w, int64_t at_us, world_fn fn, void *arg, struct instance *owner);
bool world_next(struct world *w, int64_t until_us); /* the next event; false: none before until */
void world_run_until(struct world *w, int64_t until_us);
void world_run_for(struct world *w, int64_t us);
void world_note(struct world *w, struct event event); /* time is filled in */

/* ---- Instances ------------------------------------------------------------------------------- */

void instance_start(struct world *w, struct instance *in);
void instance_crash(struct world *w, struct instance *in);
void instance_freeze(struct world *w, struct instance *in, int64_t us);
void instance_stop(struct world *w, struct instance *in, int64_t limit_us); /* in good order */
/* Other options, an endpoint more, and the configuration that is wanted.  false: not now. */
bool instance_retune(struct world *w, struct instance *in);
void instance_wake(struct instance *in, int64_t at_us);
void instance_pump(struct world *w, struct instance *in);

/* asks.c */
void asks_change(struct world *w, struct random *r);
void asks_tell(struct instance *in);                  /* the engine what it is asked for */
void asks_heal(struct world *w, struct instance *in); /* somebody asks for all of it */
bool instance_is_frozen(const struct instance *in);
int64_t instance_now(const struct instance *in);

/* ---- faulty_store.c ---------------------------------------------------------------------------- */

#define INSTANCE_DIED 1 /* an outcome of faulty_cycle(): the instance is gone */
int faulty_cycle(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply **ret);
/* The row's message and destination; false: never seen. */
bool world_find_row(struct world *w, uint64_t row, uint32_t *ret_message, uint16_t *ret_destination);
uint16_t world_destination(const struct world *w, pr_slice name);

/* ---- breakers.c --------------------------------------------------------------------------------- */

/* A cycle of this engine has just landed: are its breakers in the store?  Those of an instance
 * without lanes are not shown.  (I29) */
void world_compare_breakers(struct world *w, struct instance *in, const struct cycle *cycle, bool has_lanes);

/* ---- faulty_transport.c ------------------------------------------------------------------------ */

void transport_submit_sim(struct world *w, struct instance *in, unsigned endpoint, const struct delivery *delivery);
uint64_t message_digest(const struct pr_message *m); /* of what must arrive unchanged */

/* ---- workload.c ---------------------------------------------------------------------------------- */

struct parcel *world_draw_parcel(struct world *w);                       /* as the senders of this world write them */
struct parcel *world_parcel(struct world *w);                            /* a new one with an id and nothing else */
void parcel_seal(struct world *w, struct parcel *p);                     /* when its fields are set */
struct parcel *world_adopt(struct world *w, const struct pr_message *m); /* a message that an engine made */
struct parcel *world_find(struct world *w, pr_id id);                    /* NULL: none of ours */
/* All that have the id of this one, one after the other; NULL: that was the last. */
const struct parcel *parcel_next_of_id(const struct parcel *p, const struct parcel *after);
struct parcel *parcel_of(struct world *w,
                         const struct pr_message *m); /* by its id, or its payload; NULL: none of ours */
int world_store(struct world *w, struct parcel *const *parcels, size_t count); /* one transaction */
void world_lose(struct world *w); /* a crash, and all that was not on disk is gone: see memory_lose() */
void parcel_stored(struct world *w, struct parcel *p);
void world_announce(struct world *w); /* tell the engines that there is something */
void workload_begin(struct world *w);

/* ---- inline.c ----------------------------------------------------------------------------------------- */

/* Its sender tries itself.  true: it could not, and has stored it with its failure. */
bool inline_send_fails(struct world *w, struct parcel *p);

/* ---- sources.c, handlers.c ------------------------------------------------------------------------ */

void sources_begin(struct world *w);
/* A handler gets this, and completes it or not: the event says what the store answered.  Returns what it says itself. */
enum send_outcome handler_run(struct world *w, unsigned endpoint, const struct delivery *delivery, struct event *event);

/* ---- worker.c --------------------------------------------------------------------------------------- */

enum send_outcome worker_draw(struct world *w, enum send_outcome outcome); /* what a worker makes of a failure */
/* Instead of engine_result(); the event says what it is about. */
void worker_judge(struct world *w, struct instance *in, const struct delivery_result *result,
                  const struct parcel *effect, struct event event);
void worker_hear(struct world *w, struct instance *in); /* the engine has absorbed a cycle */

/* ---- operators.c --------------------------------------------------------------------------------- */

void world_admin(struct world *w, enum admin_kind kind, const struct parcel *p);
void world_show_all(struct world *w);                                   /* SEEN events of all rows of all messages */
void world_pause(struct world *w, unsigned endpoint, int64_t until_us); /* store time */
void world_resume(struct world *w, unsigned endpoint);
void operator_act(struct world *w, struct random *r); /* something, at random */
void operators_share(struct world *w, struct random *r);
void operator_edit(struct world *w, struct random *r);   /* a dead letter, at random */
void operator_export(struct world *w, struct random *r); /* one leaves, and comes back or not */

/* ---- run.c ------------------------------------------------------------------------------------------- */

void faults_begin(struct world *w);
void world_live(struct world *w); /* both phases, from begin to END, of all worlds beside each other */

/* ---- sentences.c: for tests -------------------------------------------------------------------------- */

pr_id world_send(struct world *w, const char *stream, const char *payload);
pr_id world_send_to(struct world *w, const char *destination, const char *stream, const char *payload);
/* The same id once more, to another destination: past all that looks, by a plain INSERT. */
void world_send_again(struct world *w, pr_id id, const char *destination, const char *stream, const char *payload);
unsigned world_deliveries(struct world *w, pr_id id);
unsigned world_sends(struct world *w, pr_id id);
/* GONE when it is not in the store any more. */
enum state world_state(struct world *w, pr_id id, pr_slice destination);

/* effects.c */
struct send_effect *effects_make(struct world *w, const struct parcel *p); /* one block each */
void effects_witness(struct world *w, struct event event, const struct effect *effect, int answer, int verdict);
void effects_note_kept(struct world *w);

/* ledger.c */
void ledger_note(struct world *w); /* what the ledger says of every message */

#endif
