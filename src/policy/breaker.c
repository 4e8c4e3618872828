#include "policy/breaker.h"

#include "base/error.h"
#include "base/util.h"

const struct breaker_setting breaker_default = {
    .enabled = true,
    .after   = 5,
    .open_us = PR_SECONDS(5),
    .cap_us  = PR_SECONDS(300),
};

#define TO(state) (1u << BREAKER_##state)

/* The only place that writes b->state. */
static void breaker_move(struct breaker *b, enum breaker_state next)
{
    static const unsigned may_become[] = {
        [BREAKER_CLOSED]    = TO(OPEN),
        [BREAKER_OPEN]      = TO(HALF_OPEN),
        [BREAKER_HALF_OPEN] = TO(OPEN) | TO(CLOSED),
    };
    ASSERT(may_become[b->state] & (1u << next));
    b->state = next;
    b->probe = 0;
}

static void breaker_open(struct breaker *b, const struct breaker_setting *s, int64_t retry_after_us,
                         int64_t now_us)
{
    int64_t open_us = s->open_us;

    for (int i = 0; i < b->opened && open_us < s->cap_us; i++)
        open_us *= 2;
    open_us = max64(min64(open_us, s->cap_us), retry_after_us);
    breaker_move(b, BREAKER_OPEN);
    b->until_us = now_us > PR_NEVER - open_us ? PR_NEVER : now_us + open_us;
    b->opened++;
    b->run = 0;
}

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

bool breaker_failed(struct breaker *b, const struct breaker_setting *s, uint64_t message, bool transient,
                    int64_t retry_after_us, int64_t now_us)
{
    if (!s->enabled)
        return false;
    if (b->state == BREAKER_HALF_OPEN && b->probe == message) {
        if (transient) {
            breaker_open(b, s, retry_after_us, now_us);
            return true;
        }
        breaker_succeeded(b, message); /* it answered: the endpoint is there, the message is bad */
        return false;
    }
    if (!transient) {
        b->run = 0;
        return false;
    }
    if (b->state != BREAKER_CLOSED)
        return true; /* sent before it opened: the same outage */
    if (!has_failed(b, message) && b->run < BREAKER_AFTER_MAX)
        b->failed[b->run++] = message;
    if (b->run < s->after)
        return false;
    breaker_open(b, s, retry_after_us, now_us);
    return true;
}

void breaker_succeeded(struct breaker *b, uint64_t message)
{
    b->run = 0;
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
