/* zone.h - time zones: what a clock on the wall shows, and when it showed it first.
 *
 * The rules come from the files of the IANA time zone database (TZif, RFC 8536), which every system has or can install.
 * They are read by code of our own: tzset() and localtime() know one zone per process, in a global variable that belongs to
 * the program we are part of.
 *
 * A zone never changes once it is made; NULL is UTC, and needs no file. */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include <postrider.h>

#define ZONE_NAME_MAX 63
#define ZONE_BYTES_MAX (256 * 1024) /* of a file; the largest has 4 KiB */

struct zone;

/* From the bytes of a file.  Fault PR_EINVAL: they are none; PR_ENOMEM. */
PR_MUST_CHECK int zone_parse(pr_slice bytes, struct zone **ret, struct pr_error *reterr);
void zone_free(struct zone *zone); /* NULL is fine */

/* Seconds east of UTC at this Unix time. */
int64_t zone_offset(const struct zone *zone, int64_t unix_s);
/* The first change of the offset after this Unix time; INT64_MAX: there is none. */
int64_t zone_next_change(const struct zone *zone, int64_t unix_s);
/* The Unix time at which clocks showed this local time (seconds since 1970-01-01T00:00 there).  One that they showed twice:
 * the first; one that they left out: when they did. */
int64_t zone_first_at(const struct zone *zone, int64_t local_s);

/* By its name ("Europe/Berlin"), from the directory in TZDIR or where the system keeps them; "UTC" and "" give NULL.  It is
 * read once, and kept for as long as the process lives.  From any thread.
 * Fault PR_EINVAL: no such zone, or no files at all; the text says which. */
PR_MUST_CHECK int zone_find(pr_slice name, const struct zone **ret, struct pr_error *reterr);

#endif
