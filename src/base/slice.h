/* slice.h - borrowed bytes.
 *
 * A slice never owns its bytes, and they need not end with a NUL. {NULL, 0} and {"", 0} are equal. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <postrider.h>

struct arena;

/* For printf("%.*s", SLICE_ARGS(s)); not for slices over INT_MAX bytes. */
#define SLICE_ARGS(slice) (int)(slice).size, ((slice).data != NULL ? (slice).data : "")

pr_slice slice_from(const char *text); /* NULL gives the empty slice */

bool slice_is_empty(pr_slice s);
bool slice_eq(pr_slice a, pr_slice b);
bool slice_eq_cstr(pr_slice a, const char *b);
int slice_cmp(pr_slice a, pr_slice b); /* <0, 0, >0; by unsigned bytes, then by length */
bool slice_starts_with(pr_slice text, pr_slice prefix);
bool slice_ends_with(pr_slice text, pr_slice suffix);
bool slice_contains(pr_slice text, pr_slice part); /* true for an empty part */

/* Without the white space (space, tab, CR, LF) at both ends. */
pr_slice slice_trim(pr_slice s);

/* A NUL-terminated copy that lives as long as the arena. data is NULL only when out of memory; the copy of an empty
 * slice is {"", 0}. */
pr_slice slice_dup(struct arena *arena, pr_slice s);

/* Does the whole text match? '*' matches any run of bytes, '?' one byte; nothing else is special.  Takes at most
 * |pattern| * |text| steps and does not recurse, so a pattern cannot hang the process. */
bool slice_glob(pr_slice pattern, pr_slice text);

/* Compare a given secret with the expected one, in constant time for a given length.  An empty secret never matches. */
bool slice_is_secret(pr_slice secret, pr_slice given);

#endif
