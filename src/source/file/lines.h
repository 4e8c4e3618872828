/* lines.h - complete lines from bytes that arrive in pieces; the last line waits for its end.  Of a line that is too
 * long the first bytes are kept, and how many there were. */
#ifndef SOURCE_FILE_LINES_H
#define SOURCE_FILE_LINES_H

#include "base/buf.h"

struct lines {
    struct buf bytes; /* from `used` on not taken */
    size_t kept;      /* from there on lines may have to be taken again */
    size_t used;
    size_t searched; /* no line ends before this */
    size_t line_max;
    uint64_t cut;  /* bytes that were dropped; */
    size_t cut_at; /* ... at this place, where their line ends, or will end */
};

struct line {
    pr_slice text;    /* without its end, LF or CR LF */
    uint64_t missing; /* bytes of the line that were dropped */
    uint64_t size;    /* size of the whole line, with its end */
};

/* max: bytes in memory at once; exceeding it is a fault: buf_failed(). */
void lines_init(struct lines *l, size_t max, size_t line_max);
void lines_fini(struct lines *l);
void lines_reset(struct lines *l);
void lines_keep(struct lines *l);    /* taken lines are final ... */
void lines_go_back(struct lines *l); /* ... or will be taken again */
/* Call it when there is no complete line left, with at most line_max bytes.  A line that was cut must be final before
 * another one is cut. */
void lines_add(struct lines *l, const char *bytes, size_t size);
/* False: no complete line. */
bool lines_next(struct lines *l, struct line *ret);
/* The rest without an end. */
struct line lines_take_rest(struct lines *l);

#endif
