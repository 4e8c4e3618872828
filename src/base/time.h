/* time.h - clocks as values, and times as text.
 *
 * Times are Unix microseconds in UTC; INT64_MAX is "never" and prints as "infinity".
 */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include <postrider.h>

#include "base/units.h"

#define TIME_TEXT_SIZE 32

/* The clock that a function uses is an argument; the simulator passes its own. */
struct clock {
    int64_t (*wall_us)(void *arg); /* Unix time; may jump */
    int64_t (*mono_us)(void *arg); /* never goes back; continues while the machine is suspended */
    void *arg;
};

const struct clock *clock_system(void);

int64_t clock_wall_us(const struct clock *clock);
int64_t clock_mono_us(const struct clock *clock);

/* Saturating: the result stays at the end of the range instead of wrapping around. */
int64_t time_add(int64_t a, int64_t b);
int64_t time_sub(int64_t a, int64_t b);
int64_t time_mul(int64_t a, int64_t b);

/* "2024-02-29T12:00:00.000001Z"; years with more than four digits have a sign. */
void time_format_rfc3339(int64_t us, char ret_text[TIME_TEXT_SIZE]);

/* Strict: "YYYY-MM-DDThh:mm:ss[.1-9 digits](Z|+hh:mm|-hh:mm)", capital letters, no leap
 * seconds; digits beyond microseconds are cut off.  "infinity" gives INT64_MAX.
 * Fault PR_EINVAL; *ret_us untouched. */
PR_MUST_CHECK int time_parse_rfc3339(pr_slice text, int64_t *ret_us);

#endif
