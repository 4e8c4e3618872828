/* replays.h - replays that run in the background of the daemon: with a rate they may take hours.
 *
 * One thread runs all of them, a step at a time; requests look, stop and resume.  They belong to this process: a
 * restart forgets them, but not their effects (the audit has each step), and the same replay, started again, continues.
 *
 * Threads: all functions but new and free may be called from any. */
#ifndef OPS_REPLAY_REPLAYS_H
#define OPS_REPLAY_REPLAYS_H

#include "base/json.h"
#include "ops/replay/replay.h"
#include "runtime/runtime.h"

#define REPLAYS_MAX 32 /* that are remembered; the oldest ended one is forgotten for a new one */

struct replays;

struct replays *replays_new(struct runtime *rt); /* NULL: no memory */
void replays_free(struct replays *all);          /* running replays end where they are; NULL is allowed */

/* replay: order, rate, canary, canary_wait_us are copied.  Fault PR_EBUSY: REPLAYS_MAX are running. */
PR_MUST_CHECK int replays_start(struct replays *all, const struct replay *replay, struct store *store, pr_id *ret_id,
                                struct pr_error *reterr);

/* now_us: store time.  Outcome PR_UNKNOWN: unknown id; PR_STALE: it has ended (stop), or is running (resume). */
PR_MUST_CHECK int replays_stop(struct replays *all, pr_id id, int64_t now_us);
PR_MUST_CHECK int replays_resume(struct replays *all, pr_id id);

/* One of them as an object.  Outcome PR_UNKNOWN: nothing was written. */
PR_MUST_CHECK int replays_write(struct replays *all, pr_id id, struct json_writer *w);
/* All of them as an array, latest first. */
void replays_write_all(struct replays *all, struct json_writer *w);

#endif
