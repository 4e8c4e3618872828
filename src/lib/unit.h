/* unit.h - storing a unit in either database. */
#ifndef LIB_UNIT_H
#define LIB_UNIT_H

#include <postrider.h>

/* Stores these; a duplicate counts as stored. */
typedef int (*unit_storer)(void *connection, pr_slice box, const struct pr_message *messages, size_t count,
                           struct pr_error *reterr);

/* Stores all messages in order, consecutive ones of one box together; then the unit is empty.  After a fault it keeps
 * them. */
PR_MUST_CHECK int unit_store(struct pr_unit *unit, unit_storer store, void *connection, struct pr_error *reterr);

#endif
