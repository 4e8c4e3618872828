/* zone.c - a TZif file has a list of changes, and at its end a rule for all later years. */
#include "base/zone.h"

#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/error.h"
#include "base/util.h"

#define HEADER_BYTES 44
#define OFFSET_MAX (26 * 3600) /* no zone is further from UTC */
#define RULE_HOURS_MAX 167     /* RFC 8536: the hour of a change may lie in another week */

/* A day of the year, in one of the three notations of POSIX. */
struct rule_day {
    char kind; /* 'M': month, week (5: the last), weekday; 'J': day 1..365 without 29 February; '0': day 0..365 */
    int month, week, day; /* 'J' and '0': only day is used */
    int64_t seconds;      /* time of day, by the clock before the change */
};

struct zone_rule {
    bool there, has_dst;
    int64_t standard, dst; /* seconds east of UTC */
    struct rule_day begin, end;
};

struct zone {
    int64_t first; /* the offset before the first change */
    size_t count;
    int64_t *at;      /* the time of each change */
    int64_t *offsets; /* the offset after each change */
    struct zone_rule rule;
};

/* ---- The rule at the end ------------------------------------------------------------------ */

static bool take(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool take_number(const char **at, int max, int *ret)
{
    int number = 0;
    const char *from = *at;
    while (**at >= '0' && **at <= '9' && number <= max)
        number = number * 10 + (*(*at)++ - '0');
    *ret = number;
    return *at > from && number <= max;
}

/* Skip an abbreviation, "CET" or "<+03>", which is not used. */
static bool take_name(const char **at)
{
    const char *from = *at;
    if (take(at, '<')) {
        while (**at != '>' && **at != '\0')
            ++*at;
        return take(at, '>');
    }
    while ((**at >= 'A' && **at <= 'Z') || (**at >= 'a' && **at <= 'z'))
        ++*at;
    return *at - from >= 3;
}

/* "[+-]hh[:mm[:ss]]" */
static bool take_time(const char **at, int64_t *ret_s)
{
    bool minus = take(at, '-');
    int parts[3] = { 0, 0, 0 };
    if (!minus)
        (void)take(at, '+');
    if (!take_number(at, RULE_HOURS_MAX, &parts[0]))
        return false;
    for (int i = 1; i < 3 && take(at, ':'); i++)
        if (!take_number(at, 59, &parts[i]))
            return false;
    int64_t seconds = (int64_t)parts[0] * 3600 + parts[1] * 60 + parts[2];
    *ret_s = minus ? -seconds : seconds;
    return true;
}

static bool take_rule_day(const char **at, struct rule_day *ret)
{
    *ret = (struct rule_day){ .kind = '0', .seconds = 2 * 3600 };
    if (!take(at, ','))
        return false;
    if (take(at, 'M')) {
        ret->kind = 'M';
        if (!take_number(at, 12, &ret->month) || ret->month < 1 || !take(at, '.') || !take_number(at, 5, &ret->week) ||
            ret->week < 1 || !take(at, '.') || !take_number(at, 6, &ret->day))
            return false;
    } else {
        if (take(at, 'J'))
            ret->kind = 'J';
        if (!take_number(at, 365, &ret->day) || (ret->kind == 'J' && ret->day < 1))
            return false;
    }
    return !take(at, '/') || take_time(at, &ret->seconds);
}

static bool rule_parse(const char *text, struct zone_rule *ret)
{
    int64_t west;
    ret->there = *text != '\0';
    if (!ret->there)
        return true;
    if (!take_name(&text) || !take_time(&text, &west))
        return false;
    ret->standard = ret->dst = -west;
    ret->has_dst = *text != '\0';
    if (!ret->has_dst)
        return true;
    ret->dst = ret->standard + 3600;
    if (!take_name(&text))
        return false;
    if (*text != ',' && take_time(&text, &west))
        ret->dst = -west;
    return take_rule_day(&text, &ret->begin) && take_rule_day(&text, &ret->end) && *text == '\0';
}

/* Days since 1970 of the rule's day in this year. */
static int64_t rule_day_in(const struct rule_day *d, int64_t year)
{
    int64_t first = date_to_days((struct date){ year, d->kind == 'M' ? d->month : 1, 1 });
    if (d->kind == 'M') {
        int64_t day = first + (d->day - date_weekday(first) + 7) % 7 + 7 * (int64_t)(d->week - 1);
        return day < first + date_month_length(year, d->month) ? day : day - 7;
    }
    bool behind_leap_day = d->kind == 'J' && d->day >= 60 && date_month_length(year, 2) == 29;
    return first + d->day - (d->kind == 'J') + behind_leap_day;
}

static int64_t year_of(int64_t unix_s)
{
    int64_t days = (unix_s >= 0 ? unix_s : unix_s - (DAY_SECONDS - 1)) / DAY_SECONDS;
    return date_from_days(days).year;
}

static int64_t rule_change(const struct zone_rule *r, int64_t year, bool begins)
{
    const struct rule_day *d = begins ? &r->begin : &r->end;
    return rule_day_in(d, year) * DAY_SECONDS + d->seconds - (begins ? r->standard : r->dst);
}

static int64_t rule_offset(const struct zone_rule *r, int64_t unix_s)
{
    if (!r->has_dst)
        return r->standard;
    int64_t year = year_of(unix_s + r->standard);
    int64_t begin = rule_change(r, year, true), end = rule_change(r, year, false);
    bool dst = begin < end ? begin <= unix_s && unix_s < end : !(end <= unix_s && unix_s < begin);
    return dst ? r->dst : r->standard;
}

static int64_t rule_next_change(const struct zone_rule *r, int64_t unix_s)
{
    int64_t next = INT64_MAX;
    if (!r->has_dst)
        return next;
    for (int64_t year = year_of(unix_s) - 1, last = year + 3; year <= last; year++)
        for (int begins = 0; begins < 2; begins++) {
            int64_t at = rule_change(r, year, begins != 0);
            if (at > unix_s && at < next)
                next = at;
        }
    return next;
}

/* ---- The list of changes ------------------------------------------------------------------- */

static int64_t read_int(const char *from, int bytes)
{
    uint64_t value = (unsigned char)from[0] >= 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | (unsigned char)from[i];
    return (int64_t)value;
}

struct tzif_counts {
    size_t utc, standard, leaps, changes, types, chars;
};

static bool read_header(pr_slice bytes, struct tzif_counts *ret)
{
    size_t *const counts[] = { &ret->utc, &ret->standard, &ret->leaps, &ret->changes, &ret->types, &ret->chars };
    if (bytes.size < HEADER_BYTES || memcmp(bytes.data, "TZif", 4) != 0 || bytes.data[4] < '2')
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        int64_t count = read_int(bytes.data + 20 + 4 * i, 4);
        if (count < 0 || count > ZONE_BYTES_MAX)
            return false;
        *counts[i] = (size_t)count;
    }
    return true;
}

static size_t block_bytes(const struct tzif_counts *c, size_t time_bytes)
{
    return c->changes * (time_bytes + 1) + c->types * 6 + c->chars + c->leaps * (time_bytes + 4) + c->standard + c->utc;
}

static bool read_changes(struct zone *z, const char *block, const struct tzif_counts *c)
{
    const char *indexes = block + c->changes * 8, *types = indexes + c->changes;
    z->first = read_int(types, 4);
    for (size_t i = 0; i < c->changes; i++) {
        size_t type = (unsigned char)indexes[i];
        if (type >= c->types)
            return false;
        z->at[i] = read_int(block + 8 * i, 8);
        z->offsets[i] = read_int(types + 6 * type, 4);
        if ((i > 0 && z->at[i] <= z->at[i - 1]) || llabs(z->offsets[i]) > OFFSET_MAX)
            return false;
    }
    z->count = c->changes;
    return llabs(z->first) <= OFFSET_MAX;
}

/* Read the rule: the last line, between two newlines. */
static bool read_rule(struct zone *z, pr_slice rest)
{
    char text[256];
    const char *end = rest.size > 1 ? memchr(rest.data + 1, '\n', rest.size - 1) : NULL;
    size_t size = end != NULL ? (size_t)(end - rest.data - 1) : 0;
    if (end == NULL || rest.data[0] != '\n' || size >= sizeof(text))
        return false;
    memcpy(text, rest.data + 1, size);
    text[size] = '\0';
    return rule_parse(text, &z->rule) && llabs(z->rule.standard) <= OFFSET_MAX && llabs(z->rule.dst) <= OFFSET_MAX;
}

int zone_parse(pr_slice bytes, struct zone **ret, struct pr_error *reterr)
{
    struct tzif_counts c;
    size_t skip = 0, size = 0;
    bool fits = read_header(bytes, &c); /* the first block has the same data with 32 bits, for old readers: skipped */
    if (fits) {
        skip = HEADER_BYTES + block_bytes(&c, 4);
        fits = skip <= bytes.size && read_header(PR_BYTES(bytes.data + skip, bytes.size - skip), &c);
    }
    if (fits) {
        skip += HEADER_BYTES;
        size = block_bytes(&c, 8);
        fits = c.types > 0 && size <= bytes.size - skip;
    }
    if (!fits)
        return error_set(reterr, PR_EINVAL, "not a time zone file (TZif, version 2 or later)");
    struct zone *z = calloc(1, sizeof(*z) + 2 * c.changes * sizeof(z->at[0]));
    if (z == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a time zone");
    z->at = (int64_t *)(z + 1);
    z->offsets = z->at + c.changes;
    pr_slice rest = PR_BYTES(bytes.data + skip + size, bytes.size - skip - size);
    if (!read_changes(z, bytes.data + skip, &c) || !read_rule(z, rest)) {
        zone_free(z);
        return error_set(reterr, PR_EINVAL, "the time zone file is damaged");
    }
    *ret = z;
    return PR_OK;
}

void zone_free(struct zone *zone)
{
    free(zone);
}

/* ---- Questions ------------------------------------------------------------------------------ */

/* The number of changes up to and including this time. */
static size_t changes_until(const struct zone *z, int64_t unix_s)
{
    size_t low = 0, high = z->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (z->at[middle] <= unix_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t zone_offset(const struct zone *z, int64_t unix_s)
{
    if (z == NULL)
        return 0;
    size_t before = changes_until(z, unix_s);
    if (before == z->count && z->rule.there)
        return rule_offset(&z->rule, unix_s);
    return before > 0 ? z->offsets[before - 1] : z->first;
}

int64_t zone_next_change(const struct zone *z, int64_t unix_s)
{
    if (z == NULL)
        return INT64_MAX;
    size_t before = changes_until(z, unix_s);
    if (before < z->count)
        return z->at[before];
    return z->rule.there ? rule_next_change(&z->rule, unix_s) : INT64_MAX;
}

int64_t zone_first_at(const struct zone *z, int64_t local_s)
{
    int64_t from = local_s - OFFSET_MAX;
    for (;;) {
        int64_t offset = zone_offset(z, from), change = zone_next_change(z, from);
        int64_t at = max64(from, local_s - offset);
        if (at < change)
            return at;
        from = change;
    }
}
