/* output.h - stdout in a shell's pipeline: it waits for a full non-blocking pipe, and a reader that has seen enough ("|
 * head -1") is not an error.  The first error is remembered, since errno changes later. */
#ifndef CLI_OUTPUT_OUTPUT_H
#define CLI_OUTPUT_OUTPUT_H

#include <stdbool.h>

/* Call it before any output; it replaces `stdout`. */
void output_open(void);
/* The reader is gone, or writing failed: commands with much output may stop. */
bool output_is_over(void);
/* Flushes everything.  0: success; otherwise the errno of the first failure. */
int output_end(void);

#endif
