#include "ops/words.h"

#include <inttypes.h>
#include <time.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/store.h"

static const struct {
    int64_t us;
    const char *name;
} units[] = {
    { PR_SECONDS(86400), "d" }, { PR_SECONDS(3600), "h" }, { PR_MINUTES(1), "m" }, { PR_SECONDS(1), "s" }
};

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
            return in_arena(arena_printf(arena, "%" PRId64 "%s %" PRId64 "%s", us / units[i].us, units[i].name,
                                         rest, units[i + 1].name));
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

const char *count_words(struct arena *arena, uint64_t count, const char *one, const char *many)
{
    if (count > COUNT_EXACT_MAX)
        return in_arena(arena_printf(arena, "10,000+ %s", many));
    return in_arena(arena_printf(arena, "%" PRIu64 " %s", count, count == 1 ? one : many));
}
