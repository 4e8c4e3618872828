/* glob.h - the limits of a pattern, the same for filters, routes, rules and handlers.
 *
 * slice_glob() needs time proportional to pattern times text, and no stack; but some patterns are also matched by the
 * databases, which recurse at every star.  So all patterns have the same limits and the same error text. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <postrider.h>

#define GLOB_BYTES_MAX 255 /* the types and streams that it is matched against are not longer */
#define GLOB_STARS_MAX 16  /* far more than a real pattern needs; a run of stars counts as one */

/* Fault PR_EINVAL: too long, or too many stars. */
PR_MUST_CHECK int glob_check(pr_slice pattern, struct pr_error *reterr);

#endif
