/* glob.h - what a pattern may be, wherever one comes in: filters, routes, rules, handlers.
 *
 * slice_glob() takes time in proportion to pattern and text, and no stack; the databases, which get some patterns, too,
 * recurse at every star.  So there is one limit for all of them, and one text. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <postrider.h>

#define GLOB_BYTES_MAX 255 /* what it is to match, a type or a stream, has no more */
#define GLOB_STARS_MAX 16  /* far more than anybody needs; runs of stars count as one */

/* Fault PR_EINVAL: too long, or too many stars. */
PR_MUST_CHECK int glob_check(pr_slice pattern, struct pr_error *reterr);

#endif
