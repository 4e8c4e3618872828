#include "policy/breaker.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "base/util.h"

const struct breaker_setting breaker_default = {
    .enabled = true,
    .after = 5,
    .open_us = PR_SECONDS(5),
    .cap_us = PR_SECONDS(300),
    .per_type = true,
};

#define TO(state) (1u << BREAKER_##state)

/* The only place that writes b->state. */
static void breaker_move(struct breaker *b, enum breaker_state next)
{
    static const unsigned may_become[] = {
        [BREAKER_CLOSED] = TO(OPEN),
        [BREAKER_OPEN] = TO(HALF_OPEN),
        [BREAKER_HALF_OPEN] = TO(OPEN) | TO(CLOSED),
    };
    ASSERT(may_become[b->state] & (1u << next));
    b->state = next;
    b->probe = 0;
}

/* How long it stays open, when it has opened `before` times in a row already. */
static int64_t open_time_us(const struct breaker_setting *s, int before)
{
    int64_t open_us = s->open_us;

    for (int i = 0; i < before && open_us < s->cap_us; i++)
        open_us *= 2;
    return min64(open_us, s->cap_us);
}

static void breaker_open(struct breaker *b, const struct breaker_setting *s, int64_t retry_after_us, int64_t now_us)
{
    int64_t open_us = max64(open_time_us(s, b->opened), retry_after_us);

    breaker_move(b, BREAKER_OPEN);
    b->until_us = now_us > PR_NEVER - open_us ? PR_NEVER : now_us + open_us;
    b->opened++;
    b->run = 0;
    memset(b->sent, 0, sizeof(b->sent));
    memset(b->bad, 0, sizeof(b->bad));
}

/* ---- The window ------------------------------------------------------------------------ */

static size_t window_slice(struct breaker *b, const struct breaker_setting *s, int64_t now_us)
{
    int64_t slice = max64(now_us, 0) / max64(s->window_us / BREAKER_SLICES, 1);

    for (int64_t i = max64(b->slice + 1, slice - BREAKER_SLICES + 1); i <= slice; i++)
        b->sent[i % BREAKER_SLICES] = b->bad[i % BREAKER_SLICES] = 0;
    if (slice - b->slice >= BREAKER_SLICES)
        b->run = 0; /* messages that failed before the window may count again */
    b->slice = max64(b->slice, slice);
    return (size_t)(b->slice % BREAKER_SLICES);
}

static void window_count(struct breaker *b, const struct breaker_setting *s, bool bad, int64_t now_us)
{
    size_t at = window_slice(b, s, now_us);

    b->sent[at]++;
    b->bad[at] += bad;
}

static bool window_is_bad(const struct breaker *b, const struct breaker_setting *s)
{
    unsigned sent = 0, bad = 0;

    for (size_t i = 0; i < BREAKER_SLICES; i++) {
        sent += b->sent[i];
        bad += b->bad[i];
    }
    return sent >= (unsigned)max64(s->least, 1) && (double)bad >= s->share * (double)sent;
}

/* ---- What happens ------------------------------------------------------------------------ */

bool breaker_allows(struct breaker *b, const struct breaker_setting *s, int64_t now_us)
{
    if (!s->enabled)
        return true;
    if (b->state == BREAKER_OPEN && now_us >= b->until_us)
        breaker_move(b, BREAKER_HALF_OPEN);
    return b->state == BREAKER_CLOSED || (b->state == BREAKER_HALF_OPEN && b->probe == 0);
}

void breaker_started(struct breaker *b, uint64_t message)
{
    if (b->state == BREAKER_HALF_OPEN && b->probe == 0)
        b->probe = b->last_probe = message;
}

static bool has_failed(const struct breaker *b, uint64_t message)
{
    for (int i = 0; i < b->run; i++)
        if (b->failed[i] == message)
            return true;
    return false;
}

static bool run_is_reached(struct breaker *b, const struct breaker_setting *s, uint64_t message,
                           enum breaker_weight weight)
{
    if ((weight == WEIGHS_ALWAYS || !has_failed(b, message)) && b->run < BREAKER_AFTER_MAX)
        b->failed[b->run++] = message;
    return b->run >= s->after;
}

static bool share_is_reached(struct breaker *b, const struct breaker_setting *s, uint64_t message, int64_t now_us)
{
    (void)window_slice(b, s, now_us);
    if (has_failed(b, message))
        return false;
    if (b->run == BREAKER_AFTER_MAX) /* the oldest is forgotten */
        memmove(b->failed, b->failed + 1, (size_t)--b->run * sizeof(b->failed[0]));
    b->failed[b->run++] = message;
    window_count(b, s, true, now_us);
    return window_is_bad(b, s);
}

/* The other side is there and has answered. */
static void answered(struct breaker *b, const struct breaker_setting *s, int64_t now_us)
{
    if (s->share > 0 && s->enabled)
        window_count(b, s, false, now_us);
    else
        b->run = 0;
}

bool breaker_failed(struct breaker *b, const struct breaker_setting *s, uint64_t message, enum breaker_weight weight,
                    int64_t retry_after_us, int64_t now_us)
{
    if (!s->enabled)
        return false;
    if (b->state == BREAKER_HALF_OPEN && b->probe == message) {
        if (weight != WEIGHS_NOTHING) {
            breaker_open(b, s, retry_after_us, now_us);
            return true;
        }
        breaker_succeeded(b, s, message, now_us); /* it answered: the endpoint works, the message is at fault */
        return false;
    }
    if (weight == WEIGHS_NOTHING) {
        answered(b, s, now_us);
        return false;
    }
    if (b->state != BREAKER_CLOSED)
        return true; /* sent before it opened: the same outage */
    if (s->share > 0 ? !share_is_reached(b, s, message, now_us) : !run_is_reached(b, s, message, weight))
        return false;
    breaker_open(b, s, retry_after_us, now_us);
    return true;
}

void breaker_succeeded(struct breaker *b, const struct breaker_setting *s, uint64_t message, int64_t now_us)
{
    answered(b, s, now_us);
    if (b->state == BREAKER_HALF_OPEN && b->probe == message) {
        breaker_move(b, BREAKER_CLOSED);
        b->opened = 0;
    }
}

void breaker_returned(struct breaker *b, uint64_t message)
{
    if (b->state == BREAKER_HALF_OPEN && b->probe == message)
        b->probe = 0;
}

int64_t breaker_next_us(const struct breaker *b)
{
    return b->state == BREAKER_OPEN ? b->until_us : PR_NEVER;
}

bool breaker_is_fresh(const struct breaker *b)
{
    unsigned sent = 0;

    for (size_t i = 0; i < BREAKER_SLICES; i++)
        sent += b->sent[i];
    return b->state == BREAKER_CLOSED && b->run == 0 && b->opened == 0 && sent == 0;
}

int64_t setback_failed(struct setback *b, const struct breaker_setting *s, int64_t now_us)
{
    if (now_us >= b->until_us) {
        b->until_us = time_add(now_us, open_time_us(s, b->rounds));
        b->rounds += b->rounds < INT_MAX;
    }
    return b->until_us - now_us;
}
