/* The checkers: they read the history of a world and its senders' side, and nothing of the engine or the store.  Each
 * breach names its invariant (shared with the documentation):
 *
 *   I1   no committed message lost                I7   dead letter byte for byte
 *   I2   nothing from a rollback is sent          I8   payload unchanged end to end
 *   I3   order of first sends per stream          I9   every duplicate has a cause
 *   I4   hand-outs counted and within the limit   I12  never retried early
 *   I5   one end, legal changes of state          I14  the window is bounded
 *   I6   one owner per lane, stale verdicts       I15  when faults stop everything drains
 *   I10  a handler's own writes once per message within the dedupe time
 *   I13  a broken endpoint slows a healthy one by a fifth at most (storm.h)
 *   I22  stored totals match what happened, and nothing is kept too long
 *   I23  no message waits longer than its schedule allows
 *   I21  all effects of a verdict are stored: parts, raised messages, moved letters, what handlers sent
 *
 * From I24 on they are the simulator's own:
 *
 *   I24  nothing is sent whose commit was lost, once the engine knows
 *   I25  no message is dead without proof         I26  a message that is proven guilty is not retried
 *   I28  the ledger has the correct end of every message that was delivered, discarded or expired
 *   I29  breakers as people see them are the engines' own
 *   I30  the rate of an endpoint is not exceeded
 *   I31  effects are stored with their verdict or not at all
 *   I33  a message for another box is stored there once, and in order
 *   I35  a worker's verdict is answered when it is committed
 *   I34  a source gets the answer "duplicate" only for duplicates
 *   I32  in a box with dedupe, an id is ended once per handler within its time, and splits leave out only existing
 *        parts
 *   I37, I38  turns of flows (turns.h)
 *   I48 to I51  flows themselves (flows.h)
 *
 *   checkers.c      reads the history and keeps the shadow: the expected state of each row
 *   check_events.h  I41 to I44, of the event store
 *   requests.h      I45 to I47, of requests and replies
 *   check_order.c   I3
 *   check_lease.c   I6: sessions and lanes
 *   check_rate.c    I30
 *   check_blame.c   I25, I26
 *   check_effect.c  I31
 *   check_mark.c    I32
 *   check_inbox.c   I10, I33, I34, I35
 *   check_brought.c I21
 *   check_ended.c   I28
 *   check_totals.c  I22
 *   check_wait.c    I23
 *   check_row.c     the rest, event by event */
#ifndef SIM_CHECKERS_H
#define SIM_CHECKERS_H

#include "base/map.h"
#include "core/ended.h"
#include "core/lane.h"
#include "core/state.h"
#include "world.h"

struct breach {
    const char *invariant; /* NULL: none */
    size_t event;          /* where in the history */
    char text[240];
};

/* false: *ret is the first breach. */
bool check_world(struct world *w, struct breach *ret);

/* ---- The shadow: for the checkers only --------------------------------------------------- */

#define RESULT_NONE (-1)

/* A verdict that was applied: which worker gave it, about which hand-out. */
struct shadow_judged {
    struct shadow_judged *next;
    uint16_t session;
    int number; /* 0: it was handed out again since */
};

struct shadow_row {
    struct shadow_row *next; /* of the same message */
    uint32_t message;
    uint16_t destination;
    enum state state;
    int attempts, failures;
    int lost;         /* hand-outs without an outcome, since their instance died */
    int lost_perhaps; /* ... before an operator reset the counters: the next story shows it */
    int64_t due_us;   /* 0: none */
    bool due_reached; /* since it was set, by the store's clock */
    bool failed;      /* its Failed bit */
    bool delayed;     /* by its sender, and it did not fail since */
    bool released;
    bool corrected;  /* a dead letter: a corrected message replaced it, and nothing waits for this one */
    bool parked;     /* by hand, while it was out: it comes back to this state */
    bool set_aside;  /* dead or parked by hand, at least once */
    bool unrouted;   /* parked, since it had no destination: it comes back when it has one */
    bool handled;    /* a mark exists: it will end as a duplicate, and is not sent any more */
    bool refused;    /* because of its effects: its handler gets the message again */
    bool settled;    /* its handler completed it in its own transaction ... */
    bool unsettled;  /* ... did not, although it said so: the store was asked */
    bool excused;    /* brought back by an operator: followers may have overtaken it already */
    size_t reset_at; /* event: an operator changed its counters */
    bool seen;       /* in the list that is being shown */

    /* The hand-out that is open, if any. */
    bool open;
    struct shadow_row *open_next; /* checker.open_rows */
    bool in_open_rows;
    uint16_t session;
    int number;
    unsigned config; /* the configuration when it was handed out, which decides where it goes */
    unsigned held;   /* ... when it was held: it waits for that endpoint, and is new to another one */
    int unexplained; /* hand-outs without a verdict, this one included */
    int64_t receipt; /* the cycle */
    bool started;
    bool again;     /* may be started once more */
    bool by_store;  /* announced by the store: whether it may go is checked when it goes */
    bool busy;      /* its row was locked when its verdict came, which comes again */
    bool forgotten; /* an operator reset the counters, or its verdict was answered busy: it is on no receipt any more */
    int result;     /* enum send_outcome, RESULT_NONE */

    bool away;              /* the latest result: the endpoint was not reached, or authentication failed */
    size_t start_knows;     /* of the latest send: the last cycle whose answer its session certainly had before it */
    size_t failed_event;    /* the latest failure that was stored; 0: none */
    int64_t failed_wall_us; /* ... */

    int64_t wait_until_us;               /* its due time, as people see it: an order may leave it unchanged */
    int64_t touched_us, touched_wall_us; /* the last event that concerned it, and may have delayed it */
    int64_t forget_us;                   /* done: not kept longer than until then, by the store's clock */

    struct shadow_judged *judged; /* verdicts of workers that were applied */
    bool ok;                      /* its receiver's success reached an engine */
    uint16_t ok_session;
    bool handed_out, sent; /* at least once */
    bool ahead;            /* handed out while it was excused: it has overtaken, and does so again */
    unsigned arrivals;
};

/* An end that the ledger must have. */
struct shadow_end {
    struct shadow_end *next;
    enum ended_as as;
    int attempt; /* 0: it was not handed out */
    int64_t at_us;
    bool reported;
};

/* Where a message goes by one configuration. */
struct shadow_targets {
    unsigned list[SIM_ENDPOINTS_MAX];
    size_t count;
};

/* The history of a message at one of its handlers. */
struct shadow_handler {
    bool ended, was_dead;  /* a row of it was completed, expired or discarded ... */
    int64_t ended_wall_us; /* ... the latest then; was dead */
};

struct shadow_message {
    struct shadow_end *ends;
    bool event_stored, marked;                             /* by an effect */
    struct shadow_handler handlers[SIM_ENDPOINTS_MAX + 1]; /* by its destination; 0: it has none */
    int64_t effect_wall_us[SIM_ENDPOINTS_MAX];             /* when each handler wrote what it writes; 0: not */
    unsigned into;                                         /* how often it went into another box */
    struct shadow_row *rows;
    const struct parcel *parcel;
    struct shadow_message *next_in_stream; /* in order of commits */
    size_t committed;                      /* event + 1; 0: not */
    int64_t place;
    int64_t seq;
    bool rolled_back, lost, split;
    int admin; /* enum admin_kind while it is being shown, -1 else */
    struct shadow_targets targets[SIM_CONFIGS];
};

struct shadow_stream {
    struct map_node node;
    pr_slice name;
    struct shadow_message *first, **last;
};

struct shadow_session {
    uint8_t instance;
    bool joined, ended, buried, gave_up, crashed;
    uint64_t lanes;
    int64_t lease_end_us;    /* what the store granted with the last cycle that landed */
    size_t last_cycle;       /* event */
    size_t landed, absorbed; /* events: the last cycle that is new, and the one before it, whose answer it knows */
    int64_t last_wall_us;
    int32_t cycle_number;
};

struct shadow_endpoint {
    size_t paused_at; /* of the latest pause or resume */
    int64_t until_us;
    int64_t changed_us, changed_wall_us; /* when it was paused or resumed last */
};

/* What can have delayed the messages of an instance: the latest time of each. */
struct shadow_instance {
    int64_t changed_us;                   /* it joined, went on, had trouble with its store */
    int64_t busy_us[SIM_ENDPOINTS_MAX];   /* a send to this endpoint began or ended */
    int64_t failed_us[SIM_ENDPOINTS_MAX]; /* ... failed */
    int64_t ended_us;                     /* a send ended, anywhere */
    unsigned out[SIM_ENDPOINTS_MAX];
    struct {
        int64_t changed_us;
        uint64_t types; /* one bit for each requested type */
        bool known;     /* otherwise all types may be requested */
    } asks[SIM_ASKED_MAX];
};

/* The configuration of an instance.  A verdict about a message that was not handed out may be older than its latest
 * change. */
struct shadow_config {
    unsigned now, before;
};

/* The latest sends of an engine to an endpoint; older ones do not matter for its rate. */
#define SHADOW_SENDS 64
struct shadow_pace {
    int64_t taken_us[SHADOW_SENDS]; /* a ring */
    size_t count;                   /* of all */
};

struct shadow_effects {
    int64_t numbers[EFFECT_KINDS][SIM_EFFECT_KEYS]; /* events and entries of history */
    bool mismatch; /* of the verdict that is being read: a guard of its effects does not hold */
};

struct shadow_total {
    int64_t counts[TOTAL_KINDS];
};

/* Verdicts of an engine that were counted and not applied: of the cycle being read, and of the one before, which it
 * takes back with its next one.  Verdicts that come again are read even when the cycle is asked again. */
struct shadow_takeback {
    struct shadow_total stale[SIM_ENDPOINTS_MAX + 1], again[SIM_ENDPOINTS_MAX + 1];
    struct shadow_total known[SIM_ENDPOINTS_MAX + 1], known_again[SIM_ENDPOINTS_MAX + 1];
};

struct checker {
    struct shadow_effects effects;
    struct world *w;
    const struct scenario *s;
    struct breach *breach;
    struct arena arena;
    size_t at; /* the event being read */
    struct shadow_message *messages;
    uint32_t message_count;
    struct shadow_session *sessions;
    size_t session_count;
    struct shadow_endpoint endpoints[SIM_ENDPOINTS_MAX];
    struct shadow_pace paces[SIM_INSTANCES_MAX][SIM_ENDPOINTS_MAX];
    struct shadow_total happened[SIM_ENDPOINTS_MAX + 1], too_many[SIM_ENDPOINTS_MAX + 1]; /* [0]: of no endpoint */
    struct shadow_takeback takebacks[SIM_INSTANCES_MAX];
    int64_t purged_us; /* up to this time expired data was purged; 0: unknown */
    struct map streams;
    struct map proofs; /* see check_blame.c */
    bool jumped;       /* the wall clock */
    int64_t jumped_us, jumped_wall_us;
    int64_t lane_since_us[LANE_COUNT]; /* when it changed hands */
    struct shadow_instance instances[SIM_INSTANCES_MAX];
    struct shadow_config configs[SIM_INSTANCES_MAX];
    uint16_t owners[LANE_COUNT];  /* session; 0: nobody */
    struct shadow_row *open_rows; /* all that are open; some that are not any more */
    int64_t wall_max_us;
    bool perfect; /* a world without faults */
};

void breach_set(struct checker *c, const char *invariant, const char *format, ...) PR_PRINTF(3, 4);

struct shadow_row *shadow_find(struct checker *c, uint32_t message, uint16_t destination); /* NULL: none */
struct shadow_row *shadow_make(struct checker *c, uint32_t message, uint16_t destination);
unsigned shadow_lane(const struct shadow_message *m);
/* The row that the delivery of a message to an endpoint depends on now, as this instance sees it; NULL: none. */
struct shadow_row *shadow_leg(const struct checker *c, uint8_t instance, const struct shadow_message *m,
                              unsigned endpoint);
/* The configuration by which the session of this event acts on a row. */
unsigned shadow_config(const struct checker *c, const struct event *e, const struct shadow_row *row);
/* Where a row goes by a configuration: the only endpoint, or the first; < 0: nowhere. */
int shadow_endpoint(const struct checker *c, const struct shadow_row *row, unsigned config);
/* ... which is the only one. */
bool shadow_is_whole(const struct checker *c, const struct shadow_row *row, unsigned config);
/* Its instance was buried: the hand-out counts. */
void shadow_bury(struct shadow_row *row);
/* It was handed back: updates its state. */
void shadow_come_back(struct shadow_row *row);
void shadow_move(struct checker *c, struct shadow_row *row, enum state next);
bool shadow_is_over(const struct shadow_row *row);
bool shadow_due_is_reached(const struct shadow_row *row, int64_t wall_us);

struct shadow_message *first_of_stream(struct checker *c, pr_slice name); /* NULL: none */
void check_start_order(struct checker *c, const struct event *e, struct shadow_message *m, struct shadow_row *row);

/* check_brought.c; with the verdict that is read. */
void check_split(struct checker *c, const struct event *e);
void check_handled(struct checker *c, const struct event *e);
/* moved: the message went to another endpoint. */
void check_ruled(struct checker *c, const struct event *e, const struct sim_expectation *x, bool moved);

bool blame_applies(const struct endpoint_setting *s, const struct sim_expectation *x);
bool blame_postpones(const struct event *e, const struct shadow_row *row);
void blame_delivered(struct checker *c, const struct event *e, const struct endpoint_setting *s);
void blame_check_failure(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                         const struct shadow_row *row, int failures);
void blame_check_death(struct checker *c, const struct event *e, const struct endpoint_setting *s,
                       const struct shadow_row *row, int failures);

void check_rate_up(struct checker *c, const struct event *e);
void check_rate_start(struct checker *c, const struct event *e);

void check_join(struct checker *c, const struct event *e);
void check_cycle(struct checker *c, const struct event *e);
void check_session_end(struct checker *c, const struct event *e);
bool session_may_be_buried(const struct shadow_session *s, const struct event *e);
void check_acts(struct checker *c, const struct event *e); /* a session was active in the store */

void check_read(struct checker *c, const struct event *e);
/* Checks that it is due and has not expired, and that its endpoint is not paused. */
void check_may_go(struct checker *c, const struct event *e, const struct shadow_message *m,
                  const struct shadow_row *row);
void check_handout(struct checker *c, const struct event *e);
void check_close(struct checker *c, const struct event *e);
void check_verdict(struct checker *c, const struct event *e);
void check_born(struct checker *c, const struct event *e);
void check_start(struct checker *c, const struct event *e);
void check_arrive(struct checker *c, const struct event *e);
void check_result(struct checker *c, const struct event *e);

/* check_ended.c */
void ended_verdict(struct checker *c, const struct event *e); /* that was applied */
void ended_by_person(struct checker *c, uint32_t message);
void ended_left_out(struct checker *c, uint32_t message);
void check_ended(struct checker *c, const struct event *e);

/* check_totals.c */
void totals_verdict(struct checker *c, const struct event *e);
void totals_cycle(struct checker *c, const struct event *e);
void totals_end(struct checker *c, uint8_t instance);
void check_total(struct checker *c, const struct event *e);
void check_purge(struct checker *c, const struct event *e);
void check_purged(struct checker *c, const struct event *e, const struct shadow_row *row);

/* check_wait.c */
void wait_touched(struct shadow_row *row, const struct event *e);
void wait_start(struct checker *c, const struct event *e, struct shadow_row *row);
void wait_local(struct checker *c, const struct event *e, struct shadow_row *row);
void wait_result(struct checker *c, const struct event *e);
void wait_all(struct checker *c, const struct event *e);
void wait_up(struct checker *c, const struct event *e);
void wait_gone(struct checker *c, const struct event *e);
void wait_instance(struct checker *c, const struct event *e);
void wait_asks(struct checker *c, const struct event *e);

/* check_mark.c */
struct shadow_handler *shadow_handler(struct checker *c, uint32_t message, uint16_t destination);
bool any_has_ended(struct checker *c, const struct event *e); /* with this id, at this handler */
void mark_ended(struct checker *c, const struct event *e, uint16_t destination);
void check_left_out(struct checker *c, const struct event *e);
void check_ends_once(struct checker *c, const struct event *e); /* before mark_ended() */
void check_duplicate_end(struct checker *c, const struct event *e, bool may_be_dead);

/* check_inbox.c */
bool is_local(const struct endpoint_setting *s);                                /* NULL: it is not */
void inbox_effect(struct checker *c, const struct event *e, unsigned endpoint); /* a handler's writes are committed */
void check_settled(struct checker *c, const struct event *e);
void check_asked(struct checker *c, const struct event *e, unsigned endpoint, struct shadow_row *row);
void check_local(struct checker *c, const struct event *e, unsigned endpoint, struct shadow_row *row);
struct shadow_judged *find_judged(const struct shadow_row *row, const struct event *e); /* NULL: none */
void note_judged(struct checker *c, const struct event *e, struct shadow_row *row);
void check_answered(struct checker *c, const struct event *e);
void check_brought_again(struct checker *c, const struct event *e);

/* check_effect.c */
void check_effect(struct checker *c, const struct event *e);
void check_kept(struct checker *c, const struct event *e);

#endif
