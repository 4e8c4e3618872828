/* audit.h - what is written down about a person's action, the same for every store. */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

#include "base/buf.h"
#include "store/store.h"

#define AUDIT_BYTES_MAX 65536
#define AUDIT_IDS_MAX 1000 /* of an order with more, the first ones are kept and "id_count" tells how many */

/* The target: a JSON object with the members of the filter that were given, "ids", and for an edit
 * what was changed.  No payload is in it. */
void audit_write_target(struct buf *b, const struct admin *admin);

#define NOTE_TEXT_MAX 8192   /* what one person says */
#define NOTE_BYTES_MAX 16384 /* ... with who said it */
#define NOTE_KEPT_MAX 65536  /* characters of all notes of a dead letter: the latest */

/* "who: why", or the one that there is (B88). */
void note_write(struct buf *b, const struct admin *admin);
/* The error of what is made dead by hand: that of its latest failure, or else why it was made dead, so that listings, groups
 * and filters have it. */
pr_slice dead_add_error(const struct admin *admin, const struct pr_message *m);
/* The end of it that is kept, at whole characters. */
pr_slice note_kept(pr_slice note);

#endif
