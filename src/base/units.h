/* units.h - durations and sizes as people write them: "1h30m", "64KiB". */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <postrider.h>

#define DURATION_TEXT_SIZE 32

/* "200ms", "30s", "5m", "24h", "7d", "10us", "1h30m", "0": whole numbers, each unit at most once, the largest first,
 * nothing before, between or after them.  Fault PR_EINVAL; *ret_us untouched. */
PR_MUST_CHECK int duration_parse(pr_slice text, int64_t *ret_us);

/* "1m30s"; "0s"; "-5s"; INT64_MAX is "infinity". duration_parse() of the text returns the same number, unless it is
 * negative or INT64_MAX. */
void duration_format(int64_t us, char ret_text[DURATION_TEXT_SIZE]);

/* Parse a time: either a duration relative to now ("5m"; sign < 0: in the past), or RFC 3339. */
bool time_or_span(pr_slice text, int sign, int64_t now_us, int64_t *ret_us);

/* "512", "512B", "10kB" or "10KB" (1000), "64KiB" (1024), MB MiB GB GiB TB TiB.
 * Fault PR_EINVAL; *ret_bytes untouched. */
PR_MUST_CHECK int size_parse(pr_slice text, int64_t *ret_bytes);

/* The largest binary unit that divides it: "64KiB", "1500B". */
void size_format(int64_t bytes, char ret_text[DURATION_TEXT_SIZE]);

#endif
