/* http_head.h - the head of a request, judged strictly before anybody else reads it.  Pure.
 *
 * Libraries take more than they should: line feeds alone, two lengths, a length beside Transfer-Encoding, no Host.  A
 * proxy before us may read the same bytes in another way, and then a request hides in the body of another.  Whatever
 * two readers could understand differently is refused here. */
#ifndef BASE_HTTP_HEAD_H
#define BASE_HTTP_HEAD_H

#include <postrider.h>

#define HEAD_BYTES_MAX (16u << 10)
#define HEAD_TARGET_MAX 8192 /* bytes of the path with its query */
#define HEAD_FIELDS_MAX 64
#define HEAD_PARAMS_MAX 32

enum head_found {
    HEAD_MORE,  /* so far it is right, but not all of it is here */
    HEAD_READ,  /* *ret is set */
    HEAD_WRONG, /* ret->status, code and text are set */
};

struct http_head {
    pr_slice method, path; /* of the bytes that were given; the path without its query */
    bool chunked;
    bool is_1_1;         /* else HTTP/1.0 */
    size_t size;         /* of all of it, in bytes */
    uint64_t body_bytes; /* Content-Length; 0: none */
    unsigned status;
    const char *code, *text;
};

enum head_found http_head_read(pr_slice bytes, struct http_head *ret);

/* Of a head that was read: the field behind the one that *at stands at the end of; NULL: the first.  False: there are no more. */
bool http_head_next(pr_slice bytes, const char **at, pr_slice *ret_name, pr_slice *ret_value);
bool http_name_is(pr_slice name, const char *text); /* upper and lower case are one */

#endif
