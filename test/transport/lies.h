/* lies.h - what must hold whatever a broker sends (B206): the process lives, its memory is bounded, and the message
 * fails with a reason for which it is sent again. */
#ifndef TEST_TRANSPORT_LIES_H
#define TEST_TRANSPORT_LIES_H

#include "liar.h"

#define LIE_STEPS_MAX 8

struct lie {
    const char *about; /* for people */
    const char *text;  /* in the result's error */
    struct liar_step steps[LIE_STEPS_MAX];
    bool stays;
    bool is_slow; /* it ends by a deadline, not at once */
};

/* Each of them is told to two messages in turn, one that takes its time to one.  url has a %u for the port. */
void lies_are_survived(const char *url, const struct lie *lies, size_t count);

#endif
