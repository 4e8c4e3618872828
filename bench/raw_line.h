/* raw_line.h - a message as one line of JSON, as file and exec have it. */
#ifndef BENCH_RAW_LINE_H
#define BENCH_RAW_LINE_H

#include <stddef.h>

#define RAW_LINE_MAX 1024

/* With its newline; returns its size. */
size_t raw_line_make(char ret[RAW_LINE_MAX]);

#endif
