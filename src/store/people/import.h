/* import.h - dead letters that come from elsewhere. */
#ifndef STORE_PEOPLE_IMPORT_H
#define STORE_PEOPLE_IMPORT_H

#include "store/people/listing_context.h"
#include "store/people/marks.h"
#include "store/store.h"

/* Each letter of the order is put among the dead letters, unless it is there already or was handled (or dry_run).  Its answers and its
 * counts are filled in; *ret_in_streams: strict streams may wait behind some of them from now on. */
PR_MUST_CHECK int import_letters(struct sql *sql, const struct listing_context *s, struct marks *marks,
                                 const struct admin *admin, struct admin_reply *reply, bool *ret_in_streams);

#endif
