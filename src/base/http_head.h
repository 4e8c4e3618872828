/* http_head.h - strict validation of a request's head, before any HTTP library reads it.  Pure.
 *
 * HTTP libraries accept too much: bare line feeds, two lengths, a length together with Transfer-Encoding, a missing
 * Host.  A proxy in front of us may interpret the same bytes differently, and then one request can hide in the body of
 * another (request smuggling).  So every head that two readers could understand differently is refused here. */
#ifndef BASE_HTTP_HEAD_H
#define BASE_HTTP_HEAD_H

#include <postrider.h>

#define HEAD_BYTES_MAX (16u << 10)
#define HEAD_TARGET_MAX 8192 /* bytes of the path including its query */
#define HEAD_FIELDS_MAX 64
#define HEAD_PARAMS_MAX 32

enum head_found {
    HEAD_MORE,  /* valid so far, but incomplete */
    HEAD_READ,  /* *ret is set */
    HEAD_WRONG, /* ret->status, code and text are set */
};

struct http_head {
    pr_slice method, path; /* slices of the given bytes; the path without its query */
    bool chunked;
    bool is_1_1;         /* else HTTP/1.0 */
    size_t size;         /* of the whole head, in bytes */
    uint64_t body_bytes; /* Content-Length; 0: none */
    unsigned status;
    const char *code, *text;
};

enum head_found http_head_read(pr_slice bytes, struct http_head *ret);

/* The next field of a validated head. *at is the end of the previous field, or NULL for the first.  False: no more
 * fields. */
bool http_head_next(pr_slice bytes, const char **at, pr_slice *ret_name, pr_slice *ret_value);
bool http_name_is(pr_slice name, const char *text); /* case-insensitive */

#endif
