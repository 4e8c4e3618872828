/* cron.h - times that come again and again, as crontab(5) writes them.
 *
 *     minute  hour  day of month  month  day of week
 *     0-59    0-23  1-31          1-12   0-7 (0 and 7 are Sunday), or names: jan, mon
 *
 * Each is "*", a number, a range (1-5), a step over one of them ("*" "/15", 10-50/10), or a list of these (1,15).  When both
 * days are given (neither begins with "*"), either is enough.  @hourly, @daily (or @midnight), @weekly, @monthly and
 * @yearly (or @annually) stand for the obvious.
 *
 * Times are those of a clock on the wall in a zone.  One that the clock leaves out comes when it does; one that it shows
 * twice comes at the first. */
#ifndef CORE_CRON_H
#define CORE_CRON_H

#include <postrider.h>

#include "base/zone.h"

#define CRON_TEXT_MAX 255

struct cron {
    uint64_t minutes; /* a bit for each */
    uint32_t hours, days;
    uint16_t months;
    uint8_t weekdays; /* bit 0: Sunday */
    bool any_day, any_weekday;
};

/* Fault PR_EINVAL: the text names the field, and what it may be. */
PR_MUST_CHECK int cron_parse(pr_slice text, struct cron *ret, struct pr_error *reterr);

/* The first time after this one, in Unix microseconds.  (PR_NEVER is for the end of times: cron_parse() refuses what has no
 * times at all.) */
int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after_us);

/* How many times are in (after, until], at most max. */
size_t cron_count(const struct cron *cron, const struct zone *zone, int64_t after_us, int64_t until_us, size_t max);
/* The first of the latest `count` times in (after, until]; PR_NEVER: there is none. */
int64_t cron_latest(const struct cron *cron, const struct zone *zone, int64_t after_us, int64_t until_us, size_t count);

#endif
