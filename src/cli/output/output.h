/* output.h - stdout, as a shell's pipes want it: a full pipe that does not block is waited for, and a reader who has seen
 * enough ("| head -1") is no failure.  What went wrong first is remembered: errno says something else by then. */
#ifndef CLI_OUTPUT_OUTPUT_H
#define CLI_OUTPUT_OUTPUT_H

#include <stdbool.h>

/* Before the first word; `stdout` is another stream afterwards. */
void output_open(void);
/* Nobody reads any more, or it cannot be written: what makes a lot of it may stop. */
bool output_is_over(void);
/* Everything that is still on its way goes out.  0: all of it did; else the errno of the first failure. */
int output_end(void);

#endif
