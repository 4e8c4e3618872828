#include "ops/explain/words.h"

#include <inttypes.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/store.h"

#define CLEAN_MAX (SIZE_MAX / 4) /* of one text: it is in memory already */

static const struct {
    int64_t us;
    const char *name;
} units[] = { { PR_SECONDS(86400), "d" }, { PR_SECONDS(3600), "h" }, { PR_MINUTES(1), "m" }, { PR_SECONDS(1), "s" } };

static const char *in_arena(pr_slice text)
{
    ASSERT(text.data != NULL);
    return text.data;
}

const char *span_short(struct arena *arena, int64_t us)
{
    if (us == PR_NEVER)
        return "never";
    us = max64(us, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(units); i++)
        if (us >= units[i].us)
            return in_arena(arena_printf(arena, "%" PRId64 "%s", us / units[i].us, units[i].name));
    return in_arena(arena_printf(arena, "%" PRId64 "ms", us / 1000));
}

const char *span_words(struct arena *arena, int64_t us)
{
    us = max64(us, 0);
    if (us < PR_SECONDS(1))
        return in_arena(arena_printf(arena, "%" PRId64 "ms", us / 1000));
    if (us < PR_SECONDS(10))
        return in_arena(arena_printf(arena, "%.1fs", (double)us / 1e6));
    for (size_t i = 0; i + 1 < ARRAY_LENGTH(units); i++) {
        int64_t rest = us % units[i].us / units[i + 1].us;

        if (us >= units[i].us && rest > 0)
            return in_arena(arena_printf(arena, "%" PRId64 "%s %" PRId64 "%s", us / units[i].us, units[i].name, rest,
                                         units[i + 1].name));
        if (us >= units[i].us)
            break;
    }
    return span_short(arena, us);
}

const char *time_words(struct arena *arena, int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm local;
    char text[64];

    if (us == PR_NEVER || localtime_r(&seconds, &local) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local) == 0)
        return "never";
    return in_arena(slice_dup(arena, slice_from(text)));
}

const char *clock_words(struct arena *arena, int64_t us, int64_t now_us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm local;
    char text[64];

    if (us - now_us >= PR_MINUTES(20 * 60))
        return time_words(arena, us);
    if (localtime_r(&seconds, &local) == NULL ||
        strftime(text, sizeof(text), us - now_us < PR_MINUTES(1) ? "%H:%M:%S" : "%H:%M", &local) == 0)
        return "never";
    return in_arena(slice_dup(arena, slice_from(text)));
}

const char *count_words(struct arena *arena, uint64_t count, const char *one, const char *many)
{
    if (count > COUNT_EXACT_MAX)
        return in_arena(arena_printf(arena, "10,000+ %s", many));
    return in_arena(arena_printf(arena, "%" PRIu64 " %s", count, count == 1 ? one : many));
}

/* ---- Texts of others ---- */

void text_clean(struct buf *b, pr_slice text, bool keep_lines)
{
    while (text.size > 0) {
        int32_t code;
        size_t size = utf8_next(text, &code);
        bool line = code == '\n' || code == '\t';
        if (code >= 0 && (!utf8_is_control(code) || (line && keep_lines)))
            buf_add(b, text.data, size);
        else if (line || code == '\r')
            buf_add_char(b, ' ');
        else
            buf_add_cstr(b, "\xef\xbf\xbd");
        text = (pr_slice){ text.data + size, text.size - size };
    }
}

const char *text_clean_copy(struct arena *arena, pr_slice text)
{
    struct buf b;

    buf_init(&b, CLEAN_MAX);
    text_clean(&b, text, false);
    const char *copy = slice_dup(arena, buf_slice(&b)).data;
    buf_fini(&b);
    return in_arena((pr_slice){ copy, 0 });
}

/* ---- Decisions ---- */

const char *decision_words(struct arena *arena, const struct decision *d)
{
    const struct rule_step *s = d->by;
    struct buf b;

    buf_init(&b, 4096);
    switch (d->step) {
    case STEP_RETRY: buf_addf(&b, "retry after %s", span_words(arena, d->delay_us)); break;
    case STEP_RETRY_NOW:
        if (d->delay_us > 0)
            buf_addf(&b, "retry after %s", span_words(arena, d->delay_us));
        else
            buf_add_cstr(&b, "retry at once");
        break;
    case STEP_DEAD_LETTER: buf_add_cstr(&b, "dead letter"); break;
    case STEP_DISCARD: buf_add_cstr(&b, "discard"); break;
    case STEP_PARK: buf_add_cstr(&b, "park until you retry it"); break;
    case STEP_PAUSE: buf_add_cstr(&b, "put back, not counted"); break;
    case STEP_POSTPONE: buf_addf(&b, "postpone for %s, not counted", span_words(arena, d->delay_us)); break;
    case STEP_CALL:
        buf_addf(&b, "%s() decides; if it does not, the next step decides", text_clean_copy(arena, s->call));
        break;
    }
    if (s != NULL && s->to.size > 0)
        buf_addf(&b, " to endpoint %s", text_clean_copy(arena, s->to));
    if (s != NULL && s->pause_us == PR_NEVER)
        buf_add_cstr(&b, "; pause the endpoint until resumed");
    else if (s != NULL && s->pause_us > 0)
        buf_addf(&b, "; pause the endpoint for %s", span_words(arena, s->pause_us));
    if (s != NULL && s->raise != NULL)
        buf_addf(&b, "; raise %s%s%s", text_clean_copy(arena, s->raise->type), s->raise->to.size > 0 ? " to " : "",
                 text_clean_copy(arena, s->raise->to));
    if (s != NULL && s->call.size > 0 && d->step != STEP_CALL)
        buf_addf(&b, "; call %s()", text_clean_copy(arena, s->call));
    const char *copy = slice_dup(arena, buf_slice(&b)).data;
    buf_fini(&b);
    ASSERT(copy != NULL);
    return copy;
}
