/* import.h - import of dead letters. */
#ifndef STORE_PEOPLE_IMPORT_H
#define STORE_PEOPLE_IMPORT_H

#include "store/people/listing_context.h"
#include "store/people/marks.h"
#include "store/store.h"

/* Adds each letter of the order to the dead letters, unless it exists already or was handled (or dry_run).  Fills in
 * its answers and counts; *ret_in_streams: strict streams may have to wait behind some of them. */
PR_MUST_CHECK int import_letters(struct sql *sql, const struct listing_context *s, struct marks *marks,
                                 const struct admin *admin, struct admin_reply *reply, bool *ret_in_streams);

#endif
