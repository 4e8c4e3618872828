/* The states of a message as people see them, and which may follow which (checker I5 and the store suite walk this
 * table). */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include <postrider.h>

#define TO(state) (1u << STATE_##state)

/*    NAME       text         may become                                                            */
#define STATES(X)                                                                                                      \
    X(READY, "ready", TO(IN_FLIGHT) | TO(HELD) | TO(PARKED) | TO(PAUSED) | TO(READY) | TO(DEAD) | TO(GONE))            \
    X(IN_FLIGHT, "in-flight", TO(READY) | TO(RETRYING) | TO(PARKED) | TO(DEAD) | TO(DONE) | TO(GONE))                  \
    X(DELAYED, "delayed", TO(READY) | TO(PARKED) | TO(DEAD) | TO(GONE))                                                \
    X(RETRYING, "retrying", TO(READY) | TO(IN_FLIGHT) | TO(PARKED) | TO(PAUSED) | TO(DEAD) | TO(GONE))                 \
    X(HELD, "held", TO(READY) | TO(IN_FLIGHT) | TO(PARKED) | TO(DEAD) | TO(GONE))                                      \
    X(PARKED, "parked", TO(READY) | TO(DEAD) | TO(GONE))                                                               \
    X(PAUSED, "paused", TO(READY) | TO(IN_FLIGHT) | TO(PARKED) | TO(DEAD) | TO(GONE))                                  \
    X(DEAD, "dead", TO(READY) | TO(GONE))                                                                              \
    X(DONE, "done", TO(GONE))                                                                                          \
    X(GONE, "gone", 0)

enum state {
#define X(name, text, next) STATE_##name,
    STATES(X)
#undef X
        STATE_COUNT
};

const char *state_name(enum state state);
/* STATE_COUNT for an unknown word. */
enum state state_parse(pr_slice name);
bool state_may_become(enum state from, enum state to);

/* "stream", "endpoint"; "route", "rule", "person".  NULL for 0 and for unknown numbers; 0 for unknown words. */
const char *held_for_name(int held_for);
const char *parked_by_name(int parked_by);
int held_for_parse(pr_slice name);
int parked_by_parse(pr_slice name);

/* The state of a row in a box, from the stored row alone: paused and in-flight are known only from endpoints and
 * receipts, and override this. */
enum state state_of_row(const struct pr_message *row, int64_t now_us);

#endif
