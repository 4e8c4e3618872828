/* replays.h - replays that go on in the daemon while nobody waits for them: with a rate they may take hours.
 *
 * One thread works on all of them, a step at a time; requests look, stop and resume.  They are this process's: a
 * restart forgets them, not what they did (the audit has each step), and the same replay, started again, goes on.
 *
 * Threads: all functions but new and free may be called from any. */
#ifndef OPS_REPLAY_REPLAYS_H
#define OPS_REPLAY_REPLAYS_H

#include "base/json.h"
#include "ops/replay/replay.h"
#include "runtime/runtime.h"

#define REPLAYS_MAX 32 /* that are known; of those that have ended the oldest is forgotten for a new one */

struct replays;

struct replays *replays_new(struct runtime *rt); /* NULL: no memory */
void replays_free(struct replays *all);          /* they end where they are; NULL is fine */

/* replay: order, rate, canary, canary_wait_us; all of it is copied.  Fault PR_EBUSY: REPLAYS_MAX are under way. */
PR_MUST_CHECK int replays_start(struct replays *all, const struct replay *replay, struct store *store, pr_id *ret_id,
                                struct pr_error *reterr);

/* now_us: store time.  Outcome PR_UNKNOWN: there is none of this id; PR_STALE: it has ended (stop), or is under way (resume). */
PR_MUST_CHECK int replays_stop(struct replays *all, pr_id id, int64_t now_us);
PR_MUST_CHECK int replays_resume(struct replays *all, pr_id id);

/* One of them as an object.  Outcome PR_UNKNOWN: nothing was written. */
PR_MUST_CHECK int replays_write(struct replays *all, pr_id id, struct json_writer *w);
/* All of them as an array, the latest first. */
void replays_write_all(struct replays *all, struct json_writer *w);

#endif
