/* cursor.h - reading what another program wrote, field by field: after the first field that is not whole, `bad` stays. */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <postrider.h>

struct cursor {
    pr_slice rest;
    bool bad;
};

pr_slice cursor_take(struct cursor *c, uint64_t size); /* empty where it is bad */
/* Of 1 to 8 bytes, the highest first; 0 where it is bad. */
uint64_t cursor_number(struct cursor *c, unsigned bytes);

#endif
