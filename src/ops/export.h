/* export.h - export and import of dead letters, byte for byte.
 *
 * Texts are JSON strings; invalid UTF-8 is in base64 under the same name with "_base64".  headers and story are strings
 * here, not objects: so they are restored unchanged. */
#ifndef OPS_EXPORT_H
#define OPS_EXPORT_H

#include <jansson.h>

#include "base/json.h"
#include "store/store.h"

void export_write(struct json_writer *w, const struct listed *letter);
/* Its texts are in the arena.  Fault PR_EINVAL, PR_ETOOBIG, PR_ENOMEM: what is wrong with it, by its member's name. */
PR_MUST_CHECK int export_read(struct arena *arena, const json_t *object, struct listed *ret, struct pr_error *reterr);

#endif
