/* Suspect limit: who may be out at the same time.
 *
 * When a process dies, every message that was out is a suspect, and nobody knows which one did
 * it.  Suspects go out together in shrinking numbers: 64 at once with two unexplained hand-outs, 8 with
 * three, alone with four.  So the guilty one reaches its limit alone, and its innocent
 * neighbours finish.  A process can have an engine for each box; all of them share one limit,
 * since they share one death. */
#ifndef ENGINE_SUSPECT_LIMIT_H
#define ENGINE_SUSPECT_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SUSPICION_MAX 4 /* unexplained hand-outs, as a level: 0 ... 4 and more */

struct suspect_limit {
    _Atomic uint64_t out;     /* how many are out, and how many of them at levels 2, 3 and 4 */
    _Atomic unsigned waiting; /* engines with a suspect that waits for others to finish */
};

/* One more goes out; false: not now. */
bool suspect_limit_allows(const struct suspect_limit *c, unsigned level);
bool suspect_limit_enter(struct suspect_limit *c, unsigned level);
void suspect_limit_leave(struct suspect_limit *c, unsigned level);

/* What one takes, as a part of one word: those of several add up. */
uint64_t suspect_limit_seat(unsigned level);
void suspect_limit_leave_all(struct suspect_limit *c, uint64_t seats);

/* A suspect waits: those above suspicion let it go first. */
void suspect_limit_wait(struct suspect_limit *c);
void suspect_limit_wait_over(struct suspect_limit *c);

#endif
