#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first: the order in which they are written. */
static const struct unit duration_units[] = {
    { "d", INT64_C(86400000000) },
    { "h", INT64_C(3600000000) },
    { "m", 60000000 },
    { "s", 1000000 },
    { "ms", 1000 },
    { "us", 1 },
};

/* size_format() uses the units up to "B". */
static const struct unit size_units[] = {
    { "TiB", INT64_C(1) << 40 },
    { "GiB", INT64_C(1) << 30 },
    { "MiB", INT64_C(1) << 20 },
    { "KiB", INT64_C(1) << 10 },
    { "B", 1 },
    { "", 1 },
    { "TB", INT64_C(1000000000000) },
    { "GB", 1000000000 },
    { "MB", 1000000 },
    { "KB", 1000 },
    { "kB", 1000 },
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Take a number off the front of *text; false when there are no digits, or too many. */
static bool take_number(pr_slice *text, int64_t *ret_number)
{
    int64_t number = 0;
    size_t digits = 0;
    for (; digits < text->size && is_digit(text->data[digits]); digits++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text->data[digits] - '0', &number))
            return false;
    text->data += digits;
    text->size -= digits;
    *ret_number = number;
    return digits > 0;
}

/* Take everything up to the next digit off the front. */
static pr_slice take_name(pr_slice *text)
{
    size_t size = 0;
    while (size < text->size && !is_digit(text->data[size]))
        size++;
    pr_slice name = PR_BYTES(text->data, size);
    text->data += size;
    text->size -= size;
    return name;
}

int duration_parse(pr_slice text, int64_t *ret_us)
{
    if (slice_eq_cstr(text, "0")) {
        *ret_us = 0;
        return PR_OK;
    }
    int64_t total = 0;
    size_t next = 0; /* units before this index must not follow any more */
    do {
        int64_t number;
        if (!take_number(&text, &number))
            return PR_EINVAL;
        pr_slice name = take_name(&text);
        while (next < ARRAY_LENGTH(duration_units) && !slice_eq_cstr(name, duration_units[next].name))
            next++;
        if (next == ARRAY_LENGTH(duration_units) ||
            __builtin_mul_overflow(number, duration_units[next].factor, &number) ||
            __builtin_add_overflow(total, number, &total))
            return PR_EINVAL;
        next++;
    } while (text.size > 0);
    *ret_us = total;
    return PR_OK;
}

void duration_format(int64_t us, char ret_text[DURATION_TEXT_SIZE])
{
    if (us == INT64_MAX || us == 0) {
        snprintf(ret_text, DURATION_TEXT_SIZE, "%s", us == 0 ? "0s" : "infinity");
        return;
    }
    uint64_t left = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    size_t used = 0;
    if (us < 0)
        ret_text[used++] = '-';
    for (size_t i = 0; i < ARRAY_LENGTH(duration_units); i++) {
        uint64_t number = left / (uint64_t)duration_units[i].factor;
        left %= (uint64_t)duration_units[i].factor;
        if (number == 0)
            continue;
        int size =
            snprintf(ret_text + used, DURATION_TEXT_SIZE - used, "%" PRIu64 "%s", number, duration_units[i].name);
        used += (size_t)size;
        ASSERT(used < DURATION_TEXT_SIZE); /* "-106751991d4h0m54s775ms808us" is the longest */
    }
}

int size_parse(pr_slice text, int64_t *ret_bytes)
{
    int64_t number;
    if (!take_number(&text, &number))
        return PR_EINVAL;
    for (size_t i = 0; i < ARRAY_LENGTH(size_units); i++) {
        if (!slice_eq_cstr(text, size_units[i].name))
            continue;
        if (__builtin_mul_overflow(number, size_units[i].factor, &number))
            return PR_EINVAL;
        *ret_bytes = number;
        return PR_OK;
    }
    return PR_EINVAL;
}

void size_format(int64_t bytes, char ret_text[DURATION_TEXT_SIZE])
{
    size_t i = 0;
    while (bytes == 0 ? size_units[i].factor != 1 : bytes % size_units[i].factor != 0)
        i++; /* ends at "B" */
    snprintf(ret_text, DURATION_TEXT_SIZE, "%" PRId64 "%s", bytes / size_units[i].factor, size_units[i].name);
}

bool time_or_span(pr_slice text, int sign, int64_t now_us, int64_t *ret_us)
{
    int64_t span_us;
    if (duration_parse(text, &span_us) == PR_OK) {
        *ret_us = sign < 0 ? time_sub(now_us, span_us) : time_add(now_us, span_us);
        return span_us >= 0;
    }
    return time_parse_rfc3339(text, ret_us) == PR_OK;
}
