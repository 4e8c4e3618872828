/* unit.h - emptying a unit into whichever database it is. */
#ifndef LIB_UNIT_H
#define LIB_UNIT_H

#include <postrider.h>

/* Store these; a duplicate is stored, which is what was asked for. */
typedef int (*unit_storer)(void *connection, pr_slice box, const struct pr_message *messages, size_t count,
                           struct pr_error *reterr);

/* All of them, in their order, as many at a time as go to one box; then the unit is empty.  On a
 * fault it keeps them. */
PR_MUST_CHECK int unit_store(struct pr_unit *unit, unit_storer store, void *connection, struct pr_error *reterr);

#endif
