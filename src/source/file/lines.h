/* lines.h - whole lines out of bytes that come in pieces; the last one waits for its end.  Of a line that is too long the first
 * bytes are kept, and how many there were. */
#ifndef SOURCE_FILE_LINES_H
#define SOURCE_FILE_LINES_H

#include "base/buf.h"

struct lines {
    struct buf bytes; /* from `used` on not taken */
    size_t kept;      /* from there on it may have to be taken again */
    size_t used;
    size_t searched; /* up to there no line ends */
    size_t line_max;
    uint64_t cut;  /* bytes that were left out; */
    size_t cut_at; /* ... there, which is where the line ends that had them, or will end */
};

struct line {
    pr_slice text;    /* without its end, LF or CR LF */
    uint64_t missing; /* bytes that it has behind these */
    uint64_t size;    /* of all of it, with its end */
};

/* max: bytes that are here at once; more is a fault of them: buf_failed(). */
void lines_init(struct lines *l, size_t max, size_t line_max);
void lines_fini(struct lines *l);
void lines_reset(struct lines *l);
void lines_keep(struct lines *l);    /* what was taken is gone for good ... */
void lines_go_back(struct lines *l); /* ... or is taken again */
/* When there are no more whole ones, and at most line_max bytes.  A line that was cut must have been taken for good before
 * another one is. */
void lines_add(struct lines *l, const char *bytes, size_t size);
/* False: no whole one is there. */
bool lines_next(struct lines *l, struct line *ret);
/* What is there of the last one; it has no end. */
struct line lines_take_rest(struct lines *l);

#endif
