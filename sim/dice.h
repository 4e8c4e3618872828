/* The sources of randomness of a world: one die for each purpose, made of the seed and the purpose's name.  So a new
 * fault, or one more throw, does not shift what all other dice draw, and a seed keeps the meaning that it was recorded
 * for. */
#ifndef SIM_DICE_H
#define SIM_DICE_H

#include "base/random.h"

/* clang-format off */
#define DICE(X)                                                                                      \
    X(STARTS) X(SUPERVISOR) X(CRASHES) X(FREEZES) X(STOPS) X(CLOCK) X(OUTAGES) X(OPERATORS)           \
    X(CYCLE_TIMES) X(STORE_ERRORS) X(STORE_UNKNOWN) X(SCANS) X(CYCLE_CRASHES) X(WAKES)                \
    X(SENDERS) X(TRANSACTIONS) X(ROLLBACKS) X(LATE_COMMITS)                                           \
    X(IDS) X(MESSAGES) X(PAYLOADS) X(DELAYS) X(EXPIRY) X(POISON) X(BAD) X(UNDECODABLE) X(EFFECTS)     \
    X(SEND_TIMES) X(SEND_FAILS) X(SEND_REJECTS) X(ANSWERS_LOST) X(ANSWERS_LATE) X(DUPLICATES)         \
    X(STATUS_BITS) X(ARRIVALS) X(SHARES) X(LOSSES) X(ORIGINS) X(SENDS) X(ORDERS) X(LATE_CYCLES) X(RETUNES) X(EDITS) \
    X(COPIES) X(HANDLERS) X(SOURCES) X(WORKERS) X(EXPORTS) X(INLINE) X(ASKS)
/* clang-format on */

enum die {
#define X(name) DIE_##name,
    DICE(X)
#undef X
        DIE_COUNT
};

void die_init(struct random *r, uint64_t seed, const char *purpose);
void dice_init(struct random dice[DIE_COUNT], uint64_t seed);

#endif
