/* cron.h - recurring times in the notation of crontab(5).
 *
 *     minute  hour  day of month  month  day of week
 *     0-59    0-23  1-31          1-12   0-7 (0 and 7 are Sunday), or names: jan, mon
 *
 * Each field is "*", a number, a range (1-5), a step over one of them ("*" "/15", 10-50/10), or a list of these (1,15).
 * When both days are restricted (neither begins with "*"), a day that matches either is enough. @hourly, @daily (or
 * @midnight), @weekly, @monthly and @yearly (or @annually) have their usual meaning.
 *
 * Times are local times in a zone.  A time that the clock skips becomes the moment of the change; of a time that occurs
 * twice the first occurrence counts. */
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

/* Fault PR_EINVAL: the text names the field and what it may contain. */
PR_MUST_CHECK int cron_parse(pr_slice text, struct cron *ret, struct pr_error *reterr);

/* The first time after this one, in Unix microseconds. (PR_NEVER only at the end of the range: cron_parse() refuses
 * expressions that never match.) */
int64_t cron_next(const struct cron *cron, const struct zone *zone, int64_t after_us);

/* The number of times in (after, until], at most max. */
size_t cron_count(const struct cron *cron, const struct zone *zone, int64_t after_us, int64_t until_us, size_t max);
/* The first of the latest `count` times in (after, until]; PR_NEVER: there is none. */
int64_t cron_latest(const struct cron *cron, const struct zone *zone, int64_t after_us, int64_t until_us, size_t count);

#endif
