/* Sessions whose activities run here: whether another program ran them before. */
#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/lane.h"
#include "runtime/flow/internal.h"

#define TOLD_AGAIN_US (PR_MINUTES(60) * 24) /* the store forgets sessions that are not used for a week */

static bool is_held(struct flows *f, const struct held_session *s)
{
    const struct held_session *known = &f->sessions[s->hash % SESSIONS_MAX];

    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    bool held = known->at_us != 0 && known->hash == s->hash && s->at_us - known->at_us < TOLD_AGAIN_US;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
    return held;
}

int flows_hold_session(struct flows *f, pr_slice session, struct arena *arena, pr_slice *ret_from,
                       struct pr_error *reterr)
{
    const struct held_session s = { .hash = hash_bytes(0, session.data, session.size),
                                    .lane = lane_of(session, (pr_id){ { 0 } }),
                                    .at_us = flows_now_us(f) };

    *ret_from = (pr_slice){ NULL, 0 };
    if (is_held(f, &s))
        return PR_OK;
    int rc = store_session_hold(f->options.store, session, slice_from(f->holder),
                                slice_from(f->options.config->instance), arena, ret_from, reterr);
    if (rc != PR_OK)
        return rc == PR_EUNSUPPORTED ? PR_OK : rc;
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    f->sessions[s.hash % SESSIONS_MAX] = s;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
    return PR_OK;
}

/* Another instance may run them meanwhile. */
void flows_lost_sessions(struct flows *f, uint64_t lanes)
{
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if ((lanes & lane_bit(f->sessions[i].lane)) != 0)
            f->sessions[i].at_us = 0;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}
