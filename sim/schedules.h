/* I39: each time of a schedule gives its message at most once, and exactly once unless its missed policy says otherwise.
 *
 * A life of one schedule around a change of the clock, in spring or in autumn: instances crash at every point of a cycle, their
 * answers are lost, two configurations are deployed over each other, one instance between the steps of another, and in some lives the
 * clock jumps, an hour or a year.
 * What the schedule sent is compared with the times that a search through all minutes finds. */
#ifndef SIM_SCHEDULES_H
#define SIM_SCHEDULES_H

#include "checkers.h"

/* Mistakes that the checker must find. */
enum schedule_bug {
    SCHEDULE_BUG_NONE,
    SCHEDULE_BUG_TWICE, /* a message of a schedule is stored again */
    SCHEDULE_BUG_LOST,  /* the next time is stored, and the message is not */
    SCHEDULE_BUG_ZONE,  /* times are read as UTC */
    SCHEDULE_BUG_LATE,  /* an instance that started earlier and comes late stores its configuration all the same */
};

struct schedule_life_counts {
    uint64_t fired, crashes, cycles, deploys, overtaken, steps;
    int64_t simulated_us;
    uint64_t hash;
};

/* false: *ret says what is broken. */
bool schedules_live(uint64_t seed, bool sqlite, enum schedule_bug bug, struct schedule_life_counts *counts,
                    struct breach *ret);

#endif
