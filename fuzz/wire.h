/* wire.h - see wire.c. */
#ifndef FUZZ_WIRE_H
#define FUZZ_WIRE_H

#include <postrider.h>

/* What the next connection will say; borrowed. */
void fuzz_wire_feed(pr_slice bytes);

#endif
