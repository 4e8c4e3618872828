/* What a world is like: its engines' settings, how much happens in it, and which faults it
 * has.  Everything is drawn from the seed; tests write their own. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "base/random.h"
#include "engine/engine.h"
#include "rules.h"

#define SIM_ENDPOINTS_MAX 20
#define SIM_INSTANCES_MAX 5
#define SIM_PRODUCERS_MAX 4
#define SIM_STREAMS_MAX 200
#define SIM_ROUTES_MAX 6
#define SIM_TYPES 6
#define SIM_SOURCES 4
#define SIM_HEADERS 4

/* Rates and mean times of faults; 0 is off.  Each class is off in half of the seeds: leaving
 * a fault out finds what always having it hides. */
struct faults {
    double commit_error;   /* per cycle: nothing happened, and the store says so */
    double commit_unknown; /* per cycle: PR_EUNCERTAIN, half of them had landed */
    double commit_late; /* per cycle: PR_EUNCERTAIN, and it lands when it is asked again: before that, or behind it */
    double scan_anew;   /* per cycle: a new connection, so all that is new in the box is read again */
    double row_held;     /* per row: an open transaction holds it, so that its verdict is answered busy; not on SQLite ... */
    int64_t row_held_us; /* ... for so long, and another time again */
    double crash_in_cycle;   /* per cycle: the instance dies in it, half of them had landed */
    int64_t crash_every_us;  /* at any moment */
    int64_t freeze_every_us; /* SIGSTOP, half of them past the lease */
    int64_t stop_every_us;   /* in good order, then started again */
    int64_t retune_every_us; /* the configuration is loaded anew */
    int64_t ask_every_us;    /* the receivers of an endpoint ask for other types, and for fewer */
    int64_t step_every_us;   /* the wall clock jumps: an hour, ten years */
    double drift;            /* of the wall clock against the monotonic one */
    double poison;           /* per message: kills whoever sends it */
    double bad;              /* per message: refused for ever */
    double send_fail;        /* per send: transient, did not arrive */
    double send_reject;      /* per send: permanent, did not arrive */
    double answer_lost;      /* per send: arrived, but the engine hears of a failure */
    double answer_late;      /* per send: arrived, and the answer takes longer than the lease */
    double duplicate;        /* per send: arrives twice */
    int64_t outage_every_us; /* an endpoint is down, up to a day */
    double handler;  /* per transaction of a handler: rolled back, or nobody knows; or its process dies behind it */
    double rollback; /* per transaction */
    double lost; /* per transaction: soon after it the store crashes, and loses what was not on disk; not on SQLite */
    double late; /* per transaction: stays open, up to hours */
    double send_again;         /* per transaction: it is sent by a call, whose answer may be lost, and sent again */
    double order_again;        /* per order of a person: its answer is lost, and it is given again */
    double undecodable;        /* per message: INSERTed past all checks */
    double wake_lost;          /* per commit and instance: nobody tells the engine */
    int64_t operator_every_us; /* somebody presses a button */
    int64_t edit_every_us;     /* ... and corrects a dead letter */
    int64_t export_every_us;   /* ... takes one away, and brings it back */
    int64_t share_every_us;    /* two do, each with every other message of a stream */
    bool slow;                 /* sends, cycles and their answers take their time */
};

/* Configurations, by number: the scenario's own is 0 and the one that is left in the end.  The other one comes with a deploy,
 * which reaches one instance before the other, and goes again. */
#define SIM_CONFIGS 2
struct sim_config {
    bool drawn;     /* else there is none */
    unsigned lacks; /* 1 + the endpoint that it does not have; 0: it has all */
    size_t route_count;
    struct route routes[SIM_ROUTES_MAX];
    unsigned route_to[SIM_ROUTES_MAX][SIM_ENDPOINTS_MAX];
};

struct scenario {
    uint64_t seed;
    bool sqlite; /* in memory; or the memory store */
    bool check;  /* engine_check() after every step */
    /* The instances are engines of one process, as those of several boxes are: one clock, and limits that hold over all of
     * them (engine/limits.h).  A crash takes one of them all the same. */
    bool limits_shared;
    bool worker;  /* its engines have no transports: workers take messages and judge them, all at one endpoint */
    bool crowded; /* outages of single types, which have breakers, and little room for all */

    struct engine_setting engine; /* endpoints, routes and overrides point into this struct */
    struct endpoint_setting endpoints[SIM_ENDPOINTS_MAX];
    int64_t delays[SIM_ENDPOINTS_MAX][4];
    struct route routes[SIM_ROUTES_MAX], overrides[1];
    struct sim_config other;
    struct route_header route_headers[SIM_ROUTES_MAX + 1];
    unsigned room[SIM_ENDPOINTS_MAX]; /* what its transport takes at once; 0: all that there is */
    struct sim_rule rules[SIM_RULES_MAX];
    size_t rule_count;
    struct rule built[SIM_RULES_MAX]; /* the same, for the engine */
    unsigned route_to[SIM_ROUTES_MAX][SIM_ENDPOINTS_MAX], override_to[1];

    unsigned producers, instances, streams;
    unsigned messages; /* at most: the producers stop there */
    int64_t safety_us; /* how long the faults go on */
    unsigned blackout; /* > 0: the endpoint before it is down, or paused, until the faults stop */
    bool blackout_paused;
    double no_stream, to_endpoint, to_nowhere, delayed, expiring, with_effect,
        copied,           /* shares of messages; copied: sent again with the same id (engine.dedupe_us) */
        inlined,          /* ... that their senders try to send themselves */
        settled;          /* ... whose handlers complete them in transactions of their own */
    unsigned sourced;     /* messages that a source brings, beside those of the producers */
    double brought_again; /* per message that was brought: it comes again */
    int64_t delay_max_us, expire_max_us;
    size_t payload_max;
    struct faults faults;
};

/* One endpoint "e0", all messages go there, one instance, no faults, nobody sends. */
void scenario_calm(struct scenario *s);
/* messages and safety_us 0: drawn, too. */
void scenario_draw(struct scenario *s, uint64_t seed, bool sqlite, unsigned messages, int64_t safety_us);

pr_slice scenario_type(unsigned type);      /* "t0.a" ... */
pr_slice scenario_source(unsigned source);  /* "", "shop/a" ... */
pr_slice scenario_headers(unsigned which);  /* "", {"k":"v"} ... */
pr_slice scenario_endpoint(unsigned index); /* "e0" ... */

/* Another box of its store, with endpoints "f0" ...; before a world is made of it. */
void scenario_move_into(struct scenario *s, pr_slice box, enum box_kind kind);

/* configs.c: the other configuration, or none. */
void configs_draw(struct scenario *s);
bool config_has(const struct scenario *s, unsigned config, unsigned endpoint);
/* The routes of a configuration; its endpoints are the caller's. */
void config_routes(const struct scenario *s, unsigned config, struct engine_setting *setting);

/* Where a configuration sends a message: endpoints in ascending order; none: nowhere. */
size_t scenario_targets_in(const struct scenario *s, unsigned config, const struct pr_message *message,
                           unsigned ret[SIM_ENDPOINTS_MAX]);
/* ... and the scenario's own. */
size_t scenario_targets(const struct scenario *s, const struct pr_message *message, unsigned ret[SIM_ENDPOINTS_MAX]);
/* It goes to one endpoint, and no configuration splits it. */
bool scenario_is_whole(const struct scenario *s, const struct pr_message *message);
/* Who handles it, as marks name it (core/mark.h); empty: nobody, or several. */
pr_slice scenario_handler(const struct scenario *s, const struct pr_message *m);
/* The longest that a message can wait between two attempts when nothing is wrong. */
int64_t scenario_longest_wait_us(const struct scenario *s);

#endif
