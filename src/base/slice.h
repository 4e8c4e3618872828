/* slice.h - borrowed bytes.
 *
 * A slice never owns and need not end with a NUL.  {NULL, 0} and {"", 0} are equal.
 */
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
bool slice_contains(pr_slice text, pr_slice part); /* the empty part is everywhere */

/* Without the white space (space, tab, CR, LF) at both ends. */
pr_slice slice_trim(pr_slice s);

/* A copy with a NUL behind it, living as long as the arena.  data is NULL only when there
 * is no memory; the copy of an empty slice is {"", 0}. */
pr_slice slice_dup(struct arena *arena, pr_slice s);

/* Does the whole text match?  '*' is any run of bytes, '?' is one byte; nothing else is
 * special.  At most |pattern| * |text| steps and no recursion, so a pattern cannot hang us. */
bool slice_glob(pr_slice pattern, pr_slice text);

/* Is it what was given?  An empty secret never is.  In constant time for one length of given. */
bool slice_is_secret(pr_slice secret, pr_slice given);

#endif
