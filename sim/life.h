/* Kinds of lives.  A seed lives one of each kind whose turn it is, and each is judged by checkers of its own.
 *
 * To add a kind: one file with its function, its name in meson.build, and one line here.  One seed in `every` lives it,
 * which depends only on the seed, so that a seed keeps the meaning that it was recorded for.  A kind with boxes and
 * engines of its own can be made of a world (world.h) and check_world(), or of the store and the engine alone. */
#ifndef SIM_LIFE_H
#define SIM_LIFE_H

#include "checkers.h"

/*    NAME     every  what it is about                                             in */
#define LIVES(X)                                                                                                       \
    X(world, 1, "one box, its senders, receivers and people") /* run.c */                                              \
    X(boxes, 6, "an outbox, an inbox, and what goes between") /* boxes.c */                                            \
    X(events, 2, "writers of events, readers, a projection")  /* events.c */                                           \
    X(storm, 100, "a broken endpoint beside a healthy one")   /* storm.c */                                            \
    X(turns, 10, "flows whose messages go out in runs")       /* turns.c */                                            \
    X(flows, 10, "flows, their children and activities")      /* flows.c */                                            \
    X(schedules, 20, "schedules, clocks and deploys")         /* schedules.c */                                        \
    X(requests, 20, "requests, and replies late and twice")   /* requests.c */

struct life {
    uint64_t seed;
    bool sqlite;       /* in memory; or the memory store */
    bool check;        /* check the engine's invariants after every step */
    unsigned messages; /* 0: drawn */
    int64_t safety_us; /* 0: drawn */
    FILE *trace;       /* every event is printed there; NULL: quiet */
};

struct life_counts {
    uint64_t hash; /* of its history: the same life must give the same one */
    uint64_t messages, sends, crashes, cycles, events;
    double simulated_us;
};

/* true: no breach.  Otherwise *ret describes it, and the events before it have been printed. */
#define X(name, every, text) bool name##_life(const struct life *life, struct life_counts *counts, struct breach *ret);
LIVES(X)
#undef X

/* Adds the counts of a world. */
void life_count(struct life_counts *counts, const struct world *w);
/* Prints its last events, when a checker has found a breach. */
void life_show_breach(const struct world *w, const struct breach *breach);

#endif
