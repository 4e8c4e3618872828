/* import.h - a dead letter that comes from elsewhere. */
#ifndef STORE_POSTGRES_IMPORT_H
#define STORE_POSTGRES_IMPORT_H

#include "store/postgres/listing.h"

/* Put it among the dead letters as it is, with a new row; its box must exist.  *ret_answer: PR_OK, or
 * PR_DUPLICATE when its id is there for its destination.  write false: only look. */
PR_MUST_CHECK int pg_import_letter(struct link *link, const struct listed *letter, bool write, int *ret_answer,
                                   struct pr_error *reterr);

#endif
