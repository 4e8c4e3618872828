/* One value: from text to its field, and back. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/util.h"
#include "runtime/config/config_options.h"
#include "runtime/config/config_suggest.h"

static void format_number(const struct option *option, int64_t value, char ret[DURATION_TEXT_SIZE])
{
    if (option->kind == OPTION_DURATION && option->choices != NULL && value == 0)
        (void)snprintf(ret, DURATION_TEXT_SIZE, "%s", option->choices[0]);
    else if (option->kind == OPTION_DURATION)
        duration_format(value, ret);
    else if (option->kind == OPTION_SIZE)
        size_format(value, ret);
    else if (option->kind == OPTION_NUMBER)
        (void)snprintf(ret, DURATION_TEXT_SIZE, "%g", (double)value / 1000);
    else
        (void)snprintf(ret, DURATION_TEXT_SIZE, "%" PRId64, value);
}

static int check_bounds(const struct option *option, double value, const char *shown, struct pr_error *reterr)
{
    char low[DURATION_TEXT_SIZE], high[DURATION_TEXT_SIZE];

    if (value >= (double)option->min && value <= (double)option->max)
        return PR_OK;
    format_number(option, option->min, low);
    format_number(option, option->max, high);
    return error_set(reterr, PR_ECONFIG, "%s is not between %s and %s", shown, low, high);
}

static int parse_scaled(const struct option *option, const char *text, const char *shown, int64_t *field,
                        struct pr_error *reterr)
{
    bool is_size = option->kind == OPTION_SIZE;
    int64_t value;

    if (option->choices != NULL && strcmp(text, option->choices[0]) == 0) {
        *field = 0;
        return PR_OK;
    }
    int r = is_size ? size_parse(slice_from(text), &value) : duration_parse(slice_from(text), &value);

    if (r != PR_OK)
        return error_set(reterr, PR_ECONFIG, "\"%s\" is not a %s; use a value such as %s%s%s", shown,
                         option_kind_name(option->kind), is_size ? "512B, 64KiB, 1MiB" : "200ms, 30s, 5m, 24h, 7d",
                         option->choices != NULL ? ", or " : "", option->choices != NULL ? option->choices[0] : "");
    r = check_bounds(option, (double)value, shown, reterr);
    if (r == PR_OK)
        *field = value;
    return r;
}

static int parse_count(const struct option *option, const char *text, const char *shown, int *field,
                       struct pr_error *reterr)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == ' ' || text[0] == '+')
        return error_set(reterr, PR_ECONFIG, "\"%s\" is not a whole number", shown);
    int r = check_bounds(option, (double)value, shown, reterr);
    if (r == PR_OK)
        *field = (int)value;
    return r;
}

static int parse_double(const struct option *option, const char *text, const char *shown, double *field,
                        struct pr_error *reterr)
{
    char *end;

    errno = 0;
    double value = strtod(text, &end);
    /* Digits first: strtod also reads "inf", "nan" and hexadecimal. */
    if (end == text || *end != '\0' || errno != 0 || !isfinite(value) || strspn(text, "0123456789.") != strlen(text))
        return error_set(reterr, PR_ECONFIG, "\"%s\" is not a number", shown);
    int r = check_bounds(option, value * 1000, shown, reterr);
    if (r == PR_OK)
        *field = value;
    return r;
}

static const struct {
    char letter;
    int64_t us;
} rate_units[] = {
    { 's', PR_SECONDS(1) }, { 'm', PR_MINUTES(1) }, { 'h', PR_MINUTES(60) }, { 'd', RATE_PERIOD_MAX_US }
};

static int parse_rate(const char *text, const char *shown, struct rate_setting *ret, struct pr_error *reterr)
{
    char *end;
    long long count = strtoll(text, &end, 10);

    if (text[0] >= '1' && text[0] <= '9' && count <= RATE_COUNT_MAX && end[0] == '/' && end[1] != '\0' &&
        end[2] == '\0')
        for (size_t i = 0; i < ARRAY_LENGTH(rate_units); i++)
            if (rate_units[i].letter == end[1]) {
                *ret = (struct rate_setting){ count, rate_units[i].us };
                return PR_OK;
            }
    return error_set(reterr, PR_ECONFIG, "\"%s\" is not a rate; use a value such as 100/s, 6000/m or 500/h (1 to %d)",
                     shown, RATE_COUNT_MAX);
}

static void format_rate(const struct rate_setting *rate, struct buf *ret)
{
    for (size_t i = 0; rate->count > 0 && i < ARRAY_LENGTH(rate_units); i++)
        if (rate_units[i].us == rate->period_us)
            buf_addf(ret, "%" PRId64 "/%c", rate->count, rate_units[i].letter);
}

static int parse_choice(const struct option *option, const char *text, const char *shown, size_t *ret_index,
                        struct pr_error *reterr)
{
    struct suggestion near = { 0 };
    struct buf all;

    for (size_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *ret_index = i;
            return PR_OK;
        }
        suggest_try(&near, slice_from(text), option->choices[i]);
    }
    if (near.best != NULL)
        return error_set(reterr, PR_ECONFIG, "unknown value \"%s\"; did you mean %s?", shown, near.best);
    buf_init(&all, 512);
    for (size_t i = 0; option->choices[i] != NULL; i++)
        buf_addf(&all, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    int r = error_set(reterr, PR_ECONFIG, "unknown value \"%s\"; use one of %.*s", shown, SLICE_ARGS(buf_slice(&all)));
    buf_fini(&all);
    return r;
}

static void store_choice(const struct option *option, size_t index, void *field)
{
    ASSERT(option->size == sizeof(bool) || option->size == sizeof(int));
    if (option->size == sizeof(bool))
        *(bool *)field = index != 0;
    else
        *(int *)field = (int)index;
}

static size_t load_choice(const struct option *option, const void *field)
{
    return option->size == sizeof(bool) ? *(const bool *)field : (size_t) * (const int *)field;
}

int option_parse(const struct option *option, const char *text, const char *shown, void *field, struct pr_error *reterr)
{
    size_t index = 0;
    int r;

    switch (option->kind) {
    case OPTION_TEXT: *(const char **)field = text; return PR_OK;
    case OPTION_DURATION:
    case OPTION_SIZE: return parse_scaled(option, text, shown, field, reterr);
    case OPTION_COUNT: return parse_count(option, text, shown, field, reterr);
    case OPTION_NUMBER: return parse_double(option, text, shown, field, reterr);
    case OPTION_RATE: return parse_rate(text, shown, field, reterr);
    case OPTION_CHOICE:
        r = parse_choice(option, text, shown, &index, reterr);
        if (r == PR_OK)
            store_choice(option, index, field);
        return r;
    case OPTION_WORD:
    case OPTION_PRESET:
        r = parse_choice(option, text, shown, &index, reterr);
        if (r == PR_OK)
            *(const char **)field = option->choices[index];
        return r;
    default: ASSERT(!"a value of one piece");
    }
    return PR_ECONFIG;
}

void option_format(const struct option *option, const void *field, struct buf *ret)
{
    char text[DURATION_TEXT_SIZE];

    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_WORD:
    case OPTION_PRESET: buf_add_cstr(ret, *(const char *const *)field); return;
    case OPTION_DURATION:
    case OPTION_SIZE: format_number(option, *(const int64_t *)field, text); break;
    case OPTION_COUNT: format_number(option, *(const int *)field, text); break;
    case OPTION_NUMBER: (void)snprintf(text, sizeof(text), "%g", *(const double *)field); break;
    case OPTION_RATE: format_rate(field, ret); return;
    case OPTION_CHOICE: buf_add_cstr(ret, option->choices[load_choice(option, field)]); return;
    default: ASSERT(!"a value of one piece");
    }
    buf_add_cstr(ret, text);
}
