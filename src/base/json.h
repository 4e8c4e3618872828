/* json.h - a JSON writer that adds the commas.
 *
 *     struct json_writer w;
 *     json_init(&w, &buf);
 *     json_begin_object(&w);
 *     json_put_int(&w, "count", 3);
 *     json_end_object(&w);
 *
 * No name here is one of jansson's, which the parsing side uses (hence json_slice, not json_string).  Errors are kept
 * by the buf.  Wrong nesting is a bug of the caller and asserted. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <postrider.h>

#define JSON_DEPTH_MAX 32 /* our documents are only a few levels deep */

struct buf;

struct json_writer {
    struct buf *buf; /* borrowed */
    size_t depth;    /* open objects and arrays */
    bool after_key;
    struct {
        bool object;
        bool comma; /* it has a value already */
    } stack[JSON_DEPTH_MAX + 1];
};

void json_init(struct json_writer *w, struct buf *b);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

void json_key(struct json_writer *w, const char *key); /* in an object, before each value */
void json_key_slice(struct json_writer *w, pr_slice key);

void json_slice(struct json_writer *w, pr_slice value);   /* a string; invalid UTF-8 becomes U+FFFD */
void json_cstr(struct json_writer *w, const char *value); /* a string; NULL is null */
void json_int(struct json_writer *w, int64_t value);
void json_uint(struct json_writer *w, uint64_t value);
void json_double(struct json_writer *w, double value); /* null when not finite */
void json_bool(struct json_writer *w, bool value);
void json_time(struct json_writer *w, int64_t us);   /* an RFC 3339 string */
void json_raw(struct json_writer *w, pr_slice json); /* one value that is already JSON */
/* Foreign JSON, shown to people: the same value, but with misleading characters written as \uXXXX. (Such characters can
 * only occur in its strings.) */
void json_raw_shown(struct json_writer *w, pr_slice json);

/* A member of an object: json_key() and its value. */
void json_put_slice(struct json_writer *w, const char *key, pr_slice value);
void json_put_cstr(struct json_writer *w, const char *key, const char *value);
void json_put_int(struct json_writer *w, const char *key, int64_t value);
void json_put_uint(struct json_writer *w, const char *key, uint64_t value);
void json_put_double(struct json_writer *w, const char *key, double value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_time(struct json_writer *w, const char *key, int64_t us);
void json_put_some(struct json_writer *w, const char *key, pr_slice value); /* not at all where it is empty */
void json_put_span(struct json_writer *w, const char *key, int64_t us);     /* in seconds; PR_NEVER is null */

/* Only the string, quoted and escaped, without a writer. */
void json_quote(struct buf *b, pr_slice text);
void json_escape_text(struct buf *b, pr_slice text); /* the same without the quotes: a piece of a string */

#endif
