/* What the JSON formats of flows share: bytes that may not be text, numbers, ids, and strict reading of objects. */
#ifndef FLOW_FLOW_JSON_H
#define FLOW_FLOW_JSON_H

#include <postrider.h>

#include "base/arena.h"
#include "base/json.h"

/* Written as "KEY", or as "KEY_base64" where the bytes are not text that JSON can represent. */
void flow_json_bytes(struct json_writer *w, const char *key, pr_slice bytes);
void flow_json_text(struct json_writer *w, const char *key, pr_slice text); /* omitted when it is empty */
void flow_json_id(struct json_writer *w, const char *key, pr_id id);

enum flow_member_kind { FLOW_MEMBER_TEXT, FLOW_MEMBER_BYTES, FLOW_MEMBER_INT, FLOW_MEMBER_BOOL, FLOW_MEMBER_RAW };

/* One member that an object may have. */
struct flow_member {
    const char *key;
    enum flow_member_kind kind;
    void *ret;  /* pr_slice (TEXT, BYTES, RAW), int64_t, bool; unchanged when the member is missing */
    bool *seen; /* or NULL */
};

/* Reads an object with these members, each at most once, and (when strict) no others.  Texts are copied into the arena.
 * PR_OK, PR_ENOMEM, or PR_EINVAL with a text that names the key. */
PR_MUST_CHECK int flow_json_read(pr_slice object, const struct flow_member *members, size_t count, bool strict,
                                 struct arena *arena, struct pr_error *reterr);

/* A whole number as JSON writes it. */
PR_MUST_CHECK int flow_json_int(pr_slice value, int64_t *ret);

#endif
