/* incident.h - the latest failures and deaths, for people who are watching.
 *
 * A ring of limited size: the truth is in the store.  Not thread-safe; its owner locks. */
#ifndef RUNTIME_INCIDENT_H
#define RUNTIME_INCIDENT_H

#include "core/cycle.h"

#define INCIDENTS_MAX 32
#define INCIDENT_TEXT_SIZE 256

struct incident {
    int64_t at_us;   /* store time */
    uint64_t number; /* ascending within its box */
    pr_id id;
    int attempt;
    int reason;        /* enum pr_reason */
    char endpoint[64]; /* cut when longer */
    char error[INCIDENT_TEXT_SIZE];
    char step[16];   /* the step taken: retry, dead_letter, park, discard */
    char rule[64];   /* the rule that decided */
    int64_t next_us; /* the next attempt, store time; 0: none by itself */
};

struct incident_ring {
    struct incident entries[INCIDENTS_MAX];
    size_t count; /* number of entries ever added */
};

/* Adds a committed verdict to failures, and to deaths when the message died.  False: it was not about a failure. */
bool incident_note(struct incident_ring *failures, struct incident_ring *deaths, const struct verdict *verdict,
                   int64_t store_now_us, uint64_t number);

/* Newest first; returns how many. */
size_t incident_list(const struct incident_ring *ring, struct incident *ret, size_t max);

#endif
