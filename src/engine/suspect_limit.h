/* Suspect limit: how many suspects may be out at the same time.
 *
 * When a process dies, every message that was out is a suspect, and nobody knows which of them killed it.  Suspects go
 * out together in shrinking numbers: 64 at once after two unexplained hand-outs, 8 after three, alone after four.  So
 * the guilty one reaches its limit alone, and its innocent neighbours finish.  A process can have an engine for each
 * box; all of them share one limit, since they die together. */
#ifndef ENGINE_SUSPECT_LIMIT_H
#define ENGINE_SUSPECT_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SUSPICION_MAX 4 /* levels of suspicion: 0 to 3 unexplained hand-outs, and 4 or more */

struct suspect_limit {
    _Atomic uint64_t out;     /* suspects that are out, in all and at levels 2, 3 and 4, packed in one word */
    _Atomic unsigned waiting; /* engines with a suspect that waits for others to finish */
};

/* One more goes out; false: it must wait. */
bool suspect_limit_allows(const struct suspect_limit *c, unsigned level);
bool suspect_limit_enter(struct suspect_limit *c, unsigned level);
void suspect_limit_leave(struct suspect_limit *c, unsigned level);

/* The seat that one suspect takes, as a part of the word `out`: seats of several add up. */
uint64_t suspect_limit_seat(unsigned level);
void suspect_limit_leave_all(struct suspect_limit *c, uint64_t seats);

/* A suspect waits: messages that are not suspected let it go first. */
void suspect_limit_wait(struct suspect_limit *c);
void suspect_limit_wait_over(struct suspect_limit *c);

#endif
