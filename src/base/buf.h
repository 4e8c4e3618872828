/* buf.h - a byte buffer that grows up to a limit.
 *
 * Add without checking, and call buf_failed() once at the end: after the first addition that did not fit (or found no
 * memory), all further additions are ignored.  An addition is made completely or not at all. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <postrider.h>

struct buf {
    char *data;
    size_t size;
    size_t capacity; /* of data, including the NUL */
    size_t max;
    int error;
};

void buf_init(struct buf *b, size_t max); /* allocates nothing yet; max is a limit in bytes */
void buf_fini(struct buf *b);
void buf_reset(struct buf *b); /* empty, without error; keeps its memory */

void buf_truncate(struct buf *b, size_t size); /* back to an earlier size, and clear the error */

void buf_add(struct buf *b, const void *data, size_t size);
void buf_add_slice(struct buf *b, pr_slice s);
void buf_add_cstr(struct buf *b, const char *text);
void buf_add_char(struct buf *b, char c);
void buf_addf(struct buf *b, const char *format, ...) PR_PRINTF(2, 3);

/* 0, PR_ETOOBIG or PR_ENOMEM: the first error since init or reset. */
int buf_failed(const struct buf *b);

/* The contents, NUL-terminated; borrowed until the next change. */
pr_slice buf_slice(const struct buf *b);

#endif
