/* drain.h - a worker in the middle of a backlog (plain.c). */
#ifndef TEST_POSTGRES_DRAIN_H
#define TEST_POSTGRES_DRAIN_H

#include "store/suite.h"

#define AT_ONCE 4

/* It is about to say that all it read was sent. */
struct drain {
    struct worker *w;
    struct verdict verdicts[AT_ONCE];
    size_t count;
};

struct drain drain_begin(struct suite *s, int messages); /* two cycles of them are on their way or gone */
void drain_take(struct drain *d);                        /* what the latest reply has told */
struct cycle drain_cycle(const struct drain *d);         /* the next one */
void drain_on(struct drain *d);                          /* one cycle, in which all is well */

#endif
