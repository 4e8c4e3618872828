#include "core/cron.h"

#include <strings.h>

#include "base/date.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"

#define YEARS_MAX 41 /* longest gap between two times: 29 February on a Sunday, 2088 and then 2128 */
#define FIELDS 5
#define MINUTE_SECONDS 60

enum cron_field { FIELD_MINUTE, FIELD_HOUR, FIELD_DAY, FIELD_MONTH, FIELD_WEEKDAY };

/* clang-format off */
static const char *const month_names[] = { "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec" };
static const char *const weekday_names[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

static const struct {
    const char *name;
    int min, max;
    const char *const *words;
    int word_count;
} fields[FIELDS] = {
    [FIELD_MINUTE]  = { "minute",       0, 59, NULL, 0 },
    [FIELD_HOUR]    = { "hour",         0, 23, NULL, 0 },
    [FIELD_DAY]     = { "day of month", 1, 31, NULL, 0 },
    [FIELD_MONTH]   = { "month",        1, 12, month_names, 12 },
    [FIELD_WEEKDAY] = { "day of week",  0, 7,  weekday_names, 7 },
};

static const struct {
    const char *name, *means;
} shorthands[] = {
    { "@yearly", "0 0 1 1 *" }, { "@annually", "0 0 1 1 *" }, { "@monthly", "0 0 1 * *" },  { "@weekly", "0 0 * * 0" },
    { "@daily", "0 0 * * *" },  { "@midnight", "0 0 * * *" }, { "@hourly", "0 * * * *" },
};
/* clang-format on */

/* ---- Parsing --------------------------------------------------------------------------------- */

struct parser {
    pr_slice whole;
    enum cron_field field;
    pr_slice rest; /* of the current field */
    struct pr_error *reterr;
};

static int wrong(const struct parser *p, const char *what, pr_slice part)
{
    return error_set(p->reterr, PR_EINVAL, "cron \"%.*s\": %s: \"%.*s\" %s", SLICE_ARGS(p->whole),
                     fields[p->field].name, SLICE_ARGS(part), what);
}

static bool take(struct parser *p, char c)
{
    if (p->rest.size == 0 || p->rest.data[0] != c)
        return false;
    p->rest = PR_BYTES(p->rest.data + 1, p->rest.size - 1);
    return true;
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '#' || c == '?';
}

static pr_slice take_word(struct parser *p)
{
    pr_slice word = { p->rest.data, 0 };
    while (word.size < p->rest.size && is_word_char(word.data[word.size]))
        word.size++;
    p->rest = PR_BYTES(p->rest.data + word.size, p->rest.size - word.size);
    return word;
}

static bool word_number(pr_slice word, int *ret)
{
    int number = 0;
    for (size_t i = 0; i < word.size; i++) {
        if (word.data[i] < '0' || word.data[i] > '9' || number > 9999)
            return false;
        number = number * 10 + (word.data[i] - '0');
    }
    *ret = number;
    return word.size > 0;
}

static int parse_value(struct parser *p, int *ret)
{
    pr_slice word = take_word(p);
    struct pr_error text;
    for (int i = 0; i < fields[p->field].word_count; i++)
        if (word.size == 3 && strncasecmp(word.data, fields[p->field].words[i], 3) == 0) {
            *ret = i + fields[p->field].min;
            return PR_OK;
        }
    if (word_number(word, ret) && *ret >= fields[p->field].min && *ret <= fields[p->field].max)
        return PR_OK;
    error_set(&text, 0, "is not in %d to %d%s", fields[p->field].min, fields[p->field].max,
              fields[p->field].words != NULL ? ", nor the first three letters of a name" : "");
    return wrong(p, text.text, word.size > 0 ? word : p->rest);
}

/* "*", "N" or "N-M" */
static int parse_range(struct parser *p, int *ret_from, int *ret_to, bool *ret_single)
{
    pr_slice whole = p->rest;
    *ret_single = false;
    if (take(p, '*')) {
        *ret_from = fields[p->field].min;
        *ret_to = p->field == FIELD_WEEKDAY ? 6 : fields[p->field].max;
        return PR_OK;
    }
    int rc = parse_value(p, ret_from);
    *ret_to = *ret_from;
    *ret_single = true;
    if (rc != PR_OK || !take(p, '-'))
        return rc;
    *ret_single = false;
    rc = parse_value(p, ret_to);
    if (rc == PR_OK && *ret_to < *ret_from && p->field == FIELD_WEEKDAY && *ret_to == 0)
        *ret_to = 7; /* fri-sun */
    if (rc == PR_OK && *ret_to < *ret_from)
        return wrong(p, "ends before it begins", PR_BYTES(whole.data, whole.size - p->rest.size));
    return rc;
}

static int parse_step(struct parser *p, int *ret)
{
    *ret = 1;
    if (!take(p, '/'))
        return PR_OK;
    pr_slice word = take_word(p);
    if (!word_number(word, ret) || *ret < 1)
        return wrong(p, "is not a valid step; write a number of 1 or more after \"/\"", word);
    return PR_OK;
}

static int parse_field(struct parser *p, uint64_t *ret)
{
    *ret = 0;
    do {
        int from = 0, to = 0, step = 1;
        bool single;
        int rc = parse_range(p, &from, &to, &single);
        size_t left = p->rest.size;
        if (rc == PR_OK)
            rc = parse_step(p, &step);
        if (rc != PR_OK)
            return rc;
        if (single && p->rest.size != left)
            to = fields[p->field].max; /* 5/10 is 5-59/10 */
        for (int i = from; i <= to; i += step)
            *ret |= UINT64_C(1) << i;
    } while (take(p, ','));
    if (p->rest.size > 0)
        return wrong(p, "is not understood; write *, N, N-M, a step such as */15, or a list of them", p->rest);
    return PR_OK;
}

static pr_slice next_field(pr_slice *rest)
{
    *rest = slice_trim(*rest);
    pr_slice field = { rest->data, 0 };
    while (field.size < rest->size && field.data[field.size] != ' ' && field.data[field.size] != '\t')
        field.size++;
    *rest = PR_BYTES(rest->data + field.size, rest->size - field.size);
    return field;
}

static int expand_shorthand(pr_slice *text, struct pr_error *reterr)
{
    for (size_t i = 0; i < ARRAY_LENGTH(shorthands); i++)
        if (slice_eq_cstr(*text, shorthands[i].name)) {
            *text = slice_from(shorthands[i].means);
            return PR_OK;
        }
    return error_set(
        reterr, PR_EINVAL,
        "unknown cron expression \"%.*s\"; write @hourly, @daily, @weekly, @monthly, @yearly, or five fields",
        SLICE_ARGS(*text));
}

/* False when no month has such a day in any year. */
static bool has_times(const struct cron *c)
{
    static const int lengths[] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    if (c->any_day || !c->any_weekday)
        return true;
    for (int month = 1; month <= 12; month++)
        for (int day = 1; day <= lengths[month - 1]; day++)
            if ((c->months & (1u << month)) != 0 && (c->days & (1u << day)) != 0)
                return true;
    return false;
}

int cron_parse(pr_slice text, struct cron *ret, struct pr_error *reterr)
{
    uint64_t bits[FIELDS];
    bool stars[FIELDS];
    text = slice_trim(text);
    if (text.size == 0)
        return error_set(reterr, PR_EINVAL, "cron is empty: write five fields, minute first, such as \"0 3 * * *\"");
    if (text.size > CRON_TEXT_MAX)
        return error_set(reterr, PR_EINVAL, "cron has %zu bytes: at most %d are allowed", text.size, CRON_TEXT_MAX);
    struct parser p = { .whole = text, .reterr = reterr };
    if (text.data[0] == '@' && expand_shorthand(&text, reterr) != PR_OK)
        return PR_EINVAL;
    for (int i = 0; i < FIELDS; i++) {
        p.field = (enum cron_field)i;
        p.rest = next_field(&text);
        if (p.rest.size == 0)
            return error_set(reterr, PR_EINVAL,
                             "cron \"%.*s\": %s is missing: write five fields: minute, hour, day of month, month and "
                             "day of week",
                             SLICE_ARGS(p.whole), fields[i].name);
        stars[i] = p.rest.data[0] == '*';
        if (parse_field(&p, &bits[i]) != PR_OK)
            return PR_EINVAL;
    }
    if (slice_trim(text).size > 0)
        return error_set(reterr, PR_EINVAL,
                         "cron \"%.*s\" has more than five fields: it starts with the minute, without seconds or "
                         "years",
                         SLICE_ARGS(p.whole));
    *ret = (struct cron){ .minutes = bits[FIELD_MINUTE],
                          .hours = (uint32_t)bits[FIELD_HOUR],
                          .days = (uint32_t)bits[FIELD_DAY],
                          .months = (uint16_t)bits[FIELD_MONTH],
                          .weekdays = (uint8_t)((bits[FIELD_WEEKDAY] | bits[FIELD_WEEKDAY] >> 7) & 0x7f),
                          .any_day = stars[FIELD_DAY],
                          .any_weekday = stars[FIELD_WEEKDAY] };
    if (!has_times(ret))
        return error_set(reterr, PR_EINVAL, "cron \"%.*s\": day of month: there is no such day in that month",
                         SLICE_ARGS(p.whole));
    return PR_OK;
}

/* ---- Times ------------------------------------------------------------------------------------- */

static bool day_fits(const struct cron *c, struct date date, int64_t days)
{
    bool day = (c->days & (UINT32_C(1) << date.day)) != 0;
    bool weekday = (c->weekdays & (1u << date_weekday(days))) != 0;
    return c->any_day || c->any_weekday ? day && weekday : day || weekday;
}

/* The first matching minute of a day, from this one on; -1: none. */
static int minute_of_day(const struct cron *c, int from)
{
    for (int hour = from / 60; hour < 24; hour++) {
        if ((c->hours & (UINT32_C(1) << hour)) == 0)
            continue;
        uint64_t minutes = c->minutes & (UINT64_MAX << (hour == from / 60 ? from % 60 : 0));
        if (minutes != 0)
            return hour * 60 + __builtin_ctzll(minutes);
    }
    return -1;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

int64_t cron_next(const struct cron *c, const struct zone *zone, int64_t after_us)
{
    int64_t after_s = floor_divide(after_us, PR_SECONDS(1));
    int64_t local_s = after_s + zone_offset(zone, after_s);
    int64_t days = floor_divide(local_s, DAY_SECONDS), last = days + YEARS_MAX * 366;
    int from = (int)((local_s - days * DAY_SECONDS) / MINUTE_SECONDS);
    for (; days < last; days++, from = 0) {
        struct date date = date_from_days(days);
        if ((c->months & (1u << date.month)) == 0) {
            days += date_month_length(date.year, date.month) - date.day;
            continue;
        }
        if (!day_fits(c, date, days))
            continue;
        for (int minute = minute_of_day(c, from); minute >= 0;
             minute = minute < 1439 ? minute_of_day(c, minute + 1) : -1) {
            int64_t at_us = time_mul(zone_first_at(zone, days * DAY_SECONDS + minute * MINUTE_SECONDS), PR_SECONDS(1));
            if (at_us > after_us)
                return at_us;
        }
    }
    return PR_NEVER;
}

size_t cron_count(const struct cron *c, const struct zone *zone, int64_t after_us, int64_t until_us, size_t max)
{
    size_t count = 0;
    for (int64_t at = cron_next(c, zone, after_us); at <= until_us && count < max; at = cron_next(c, zone, at))
        count++;
    return count;
}

/* Times cannot be counted backwards, so search for the place behind which at most `count` times are left. */
int64_t cron_latest(const struct cron *c, const struct zone *zone, int64_t after_us, int64_t until_us, size_t count)
{
    int64_t low = after_us, high = until_us;
    if (cron_count(c, zone, low, until_us, count + 1) > count) {
        while (high - low > 1) { /* more than count times are after low, at most count after high */
            int64_t middle = low + (high - low) / 2;
            if (cron_count(c, zone, middle, until_us, count + 1) > count)
                low = middle;
            else
                high = middle;
        }
        low = high;
    }
    int64_t first = cron_next(c, zone, low);
    return first <= until_us ? first : PR_NEVER;
}
