/* zone.h - time zones: from Unix time to local time, and back.
 *
 * The rules come from the files of the IANA time zone database (TZif, RFC 8536), which every system has or can install.
 * Our own code reads them, because tzset() and localtime() know one zone per process, in a global variable that belongs
 * to the embedding program.
 *
 * A zone never changes after it is made; NULL is UTC, which needs no file. */
#ifndef BASE_ZONE_H
#define BASE_ZONE_H

#include <postrider.h>

#define ZONE_NAME_MAX 63
#define ZONE_BYTES_MAX (256 * 1024) /* of a file; the largest real one has 4 KiB */

struct zone;

/* Parse the bytes of a file.  Fault PR_EINVAL: not a TZif file; PR_ENOMEM. */
PR_MUST_CHECK int zone_parse(pr_slice bytes, struct zone **ret, struct pr_error *reterr);
void zone_free(struct zone *zone); /* NULL is fine */

/* Seconds east of UTC at this Unix time. */
int64_t zone_offset(const struct zone *zone, int64_t unix_s);
/* The first change of the offset after this Unix time; INT64_MAX: none. */
int64_t zone_next_change(const struct zone *zone, int64_t unix_s);
/* The Unix time at which clocks first showed this local time (seconds since 1970-01-01T00:00 there).  For a local time
 * that occurs twice this is the first occurrence; for one that is skipped it is the moment of the change. */
int64_t zone_first_at(const struct zone *zone, int64_t local_s);

/* Find a zone by its name ("Europe/Berlin"), in the directory in TZDIR or the system's; "UTC" and "" give NULL.  Each
 * file is read once, and kept as long as the process lives.  Any thread may call it.  Fault PR_EINVAL: no such zone, or
 * no zone files at all; the text says which. */
PR_MUST_CHECK int zone_find(pr_slice name, const struct zone **ret, struct pr_error *reterr);

#endif
