#include "ops/explain/ended_words.h"

#include "base/slice.h"
#include "core/ended.h"
#include "ops/explain/words.h"

const char *ordinal_words(struct arena *arena, int n)
{
    const char *suffix = n % 100 / 10 == 1 ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
    return arena_printf(arena, "%d%s", n, suffix).data;
}

/* " to billing", or nothing. */
static const char *where_to(struct arena *arena, const struct listed *l)
{
    return l->endpoint.size > 0 ? arena_printf(arena, " to %s", text_clean_copy(arena, l->endpoint)).data : "";
}

/* "after 2 attempts to billing" */
static const char *after_attempts(struct arena *arena, const struct listed *l)
{
    if (l->m.attempts == 0)
        return "before it was sent for the first time";
    return arena_printf(arena, "after %d %s%s", l->m.attempts, l->m.attempts == 1 ? "attempt" : "attempts",
                        where_to(arena, l))
        .data;
}

const char *ended_words(struct arena *arena, const struct listed *l, int64_t now_us)
{
    const char *by = text_clean_copy(arena, l->instance);
    const char *when =
        arena_printf(arena, "%s ago (%s)", span_words(arena, now_us - l->died_us), time_words(arena, l->died_us)).data;
    switch (l->ended) {
    case ENDED_DELIVERED:
        return arena_printf(arena, "It was delivered%s %s, at the %s attempt, by instance %s.", where_to(arena, l),
                            when, ordinal_words(arena, l->m.attempts), by)
            .data;
    case ENDED_EXPIRED:
        return arena_printf(arena, "It expired %s, %s; instance %s removed it.", when, after_attempts(arena, l), by)
            .data;
    case ENDED_DUPLICATE:
        return arena_printf(arena,
                            "A duplicate%s ended %s without being handled: the message was stored already, had been "
                            "handled, or was a dead letter; instance %s removed it.",
                            where_to(arena, l), when, by)
            .data;
    case ENDED_BY_PERSON:
        return arena_printf(arena, "%s discarded it %s, %s.", l->instance.size > 0 ? by : "A person", when,
                            after_attempts(arena, l))
            .data;
    default:
        return arena_printf(arena, "It was discarded %s, %s, by instance %s: a rule or a handler decided so.", when,
                            after_attempts(arena, l), by)
            .data;
    }
}

const char *mark_words(struct arena *arena, const struct mark_info *m, int64_t now_us)
{
    return arena_printf(arena, "It was handled by %s %s ago (%s): %s.",
                        m->handler.size > 0 ? text_clean_copy(arena, m->handler) : "no endpoint",
                        span_words(arena, now_us - m->at_us), time_words(arena, m->at_us), ended_name(m->outcome))
        .data;
}

const char *again_words(struct arena *arena, const struct again_info *a, int64_t now_us)
{
    const char *to =
        a->destination.size > 0 ? arena_printf(arena, " for %s", text_clean_copy(arena, a->destination)).data : "";
    const char *span = span_words(arena, now_us - a->at_us), *at = time_words(arena, a->at_us);
    if (a->times == 1)
        return arena_printf(arena, "It arrived again%s %s ago (%s) and was not stored: a duplicate.", to, span, at)
            .data;
    return arena_printf(arena,
                        "It arrived again%s %llu times, the last time %s ago (%s), and was not stored: duplicates.", to,
                        (unsigned long long)a->times, span, at)
        .data;
}

const char *ended_missing_words(struct arena *arena, const struct query_reply *reply)
{
    if (reply->ended_from_us == 0)
        return "it was never stored, or it ended longer ago than `ended` (default 24h) keeps";
    return arena_printf(
               arena,
               "it was never stored, or it ended before %s: this id has no time of its own (it is not a UUIDv7), "
               "and only what ended after that was searched",
               time_words(arena, reply->ended_from_us))
        .data;
}
