/* The calendar is computed here: gmtime and timegm have the limits of the C library, and strptime accepts too much. */
#include "base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/date.h"
#include "base/error.h"
#include "base/slice.h"

#define SECOND_US INT64_C(1000000)
#define DAY_US (DAY_SECONDS * SECOND_US)

static int64_t read_clock_us(clockid_t id)
{
    struct timespec t;
    ASSERT(clock_gettime(id, &t) == 0);
    return (int64_t)t.tv_sec * SECOND_US + t.tv_nsec / 1000;
}

static int64_t system_wall_us(void *arg)
{
    (void)arg;
    return read_clock_us(CLOCK_REALTIME);
}

/* CLOCK_BOOTTIME, because leases run out also while the machine is suspended. */
static int64_t system_mono_us(void *arg)
{
    (void)arg;
    return read_clock_us(CLOCK_BOOTTIME);
}

const struct clock *clock_system(void)
{
    static const struct clock system = { .wall_us = system_wall_us, .mono_us = system_mono_us };
    return &system;
}

int64_t clock_wall_us(const struct clock *clock)
{
    return clock->wall_us(clock->arg);
}

int64_t clock_mono_us(const struct clock *clock)
{
    return clock->mono_us(clock->arg);
}

int64_t time_add(int64_t a, int64_t b)
{
    int64_t result;
    if (!__builtin_add_overflow(a, b, &result))
        return result;
    return b < 0 ? INT64_MIN : INT64_MAX;
}

int64_t time_sub(int64_t a, int64_t b)
{
    int64_t result;
    if (!__builtin_sub_overflow(a, b, &result))
        return result;
    return b < 0 ? INT64_MAX : INT64_MIN;
}

int64_t time_mul(int64_t a, int64_t b)
{
    int64_t result;
    if (!__builtin_mul_overflow(a, b, &result))
        return result;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* Both conversions count in years that begin in March, so that the leap day is the last day of a year, and in eras of
 * 400 years, which all have 146097 days. */
struct date date_from_days(int64_t days)
{
    days += 719468; /* days since 0000-03-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t day_of_year = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * day_of_year + 2) / 153; /* 0 is March */

    struct date date;
    date.day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    date.month = (int)(month < 10 ? month + 3 : month - 9);
    date.year = era * 400 + year + (date.month <= 2 ? 1 : 0);
    return date;
}

int64_t date_to_days(struct date date)
{
    int64_t year = date.year - (date.month <= 2 ? 1 : 0);
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t month = date.month > 2 ? date.month - 3 : date.month + 9;
    int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

int date_month_length(int64_t year, int month)
{
    static const int lengths[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return lengths[month - 1] + (month == 2 && leap ? 1 : 0);
}

int date_weekday(int64_t days)
{
    int weekday = (int)((days + 4) % 7); /* 1970-01-01 was a Thursday */
    return weekday < 0 ? weekday + 7 : weekday;
}

static char *put_digits(char *to, int number, int count)
{
    for (int i = count - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
    return to + count;
}

static char *put_part(char *to, char before, int number, int count)
{
    *to = before;
    return put_digits(to + 1, number, count);
}

/* Formatted by hand for speed: every outgoing message has a time. */
void time_format_rfc3339(int64_t us, char ret_text[TIME_TEXT_SIZE])
{
    if (us == INT64_MAX) {
        memcpy(ret_text, "infinity", sizeof("infinity"));
        return;
    }
    int64_t days = us / DAY_US;
    int64_t rest = us % DAY_US;
    if (rest < 0) {
        days--;
        rest += DAY_US;
    }
    struct date date = date_from_days(days);
    int second = (int)(rest / SECOND_US);
    char *end = ret_text;
    if (date.year < 0 || date.year > 9999)
        end += snprintf(end, TIME_TEXT_SIZE, "%+05" PRId64, date.year);
    else
        end = put_digits(end, (int)date.year, 4);
    end = put_part(end, '-', date.month, 2);
    end = put_part(end, '-', date.day, 2);
    end = put_part(end, 'T', second / 3600, 2);
    end = put_part(end, ':', second / 60 % 60, 2);
    end = put_part(end, ':', second % 60, 2);
    end = put_part(end, '.', (int)(rest % SECOND_US), 6);
    memcpy(end, "Z", 2);
    ASSERT(end - ret_text < TIME_TEXT_SIZE - 1); /* "-290308-12-21T19:59:05.224192Z" is the longest */
}

/* Take exactly `count` digits off the front; false when there are fewer. */
static bool take_digits(pr_slice *text, size_t count, int *ret_number)
{
    if (text->size < count)
        return false;
    int number = 0;
    for (size_t i = 0; i < count; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return false;
        number = number * 10 + (text->data[i] - '0');
    }
    text->data += count;
    text->size -= count;
    *ret_number = number;
    return true;
}

static bool take_char(pr_slice *text, char c)
{
    if (text->size == 0 || text->data[0] != c)
        return false;
    text->data++;
    text->size--;
    return true;
}

static bool take_date(pr_slice *text, int64_t *ret_days)
{
    int year, month, day;
    if (!take_digits(text, 4, &year) || !take_char(text, '-') || !take_digits(text, 2, &month) ||
        !take_char(text, '-') || !take_digits(text, 2, &day))
        return false;
    if (month < 1 || month > 12)
        return false;
    if (day < 1 || day > date_month_length(year, month))
        return false;
    *ret_days = date_to_days((struct date){ year, month, day });
    return true;
}

static bool take_hours_minutes(pr_slice *text, int *ret_minutes)
{
    int hour, minute;
    if (!take_digits(text, 2, &hour) || !take_char(text, ':') || !take_digits(text, 2, &minute))
        return false;
    *ret_minutes = hour * 60 + minute;
    return hour <= 23 && minute <= 59;
}

/* Microseconds of ".123456789", or 0 when there is no dot. */
static bool take_fraction(pr_slice *text, int64_t *ret_us)
{
    *ret_us = 0;
    if (!take_char(text, '.'))
        return true;
    int64_t weight = SECOND_US / 10;
    size_t count = 0;
    for (int digit; take_digits(text, 1, &digit); count++, weight /= 10)
        *ret_us += digit * weight;
    return count >= 1 && count <= 9;
}

static bool take_offset(pr_slice *text, int *ret_minutes)
{
    *ret_minutes = 0;
    if (take_char(text, 'Z'))
        return true;
    bool minus = take_char(text, '-');
    if ((!minus && !take_char(text, '+')) || !take_hours_minutes(text, ret_minutes))
        return false;
    if (minus)
        *ret_minutes = -*ret_minutes;
    return true;
}

int time_parse_rfc3339(pr_slice text, int64_t *ret_us)
{
    if (slice_eq_cstr(text, "infinity")) {
        *ret_us = INT64_MAX;
        return PR_OK;
    }
    int64_t days, fraction;
    int minutes, second, offset;
    if (!take_date(&text, &days) || !take_char(&text, 'T') || !take_hours_minutes(&text, &minutes) ||
        !take_char(&text, ':') || !take_digits(&text, 2, &second) || second > 59 || !take_fraction(&text, &fraction) ||
        !take_offset(&text, &offset) || text.size != 0)
        return PR_EINVAL;
    *ret_us = days * DAY_US + ((int64_t)(minutes - offset) * 60 + second) * SECOND_US + fraction;
    return PR_OK;
}
