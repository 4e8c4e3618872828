/* table.h - columns for people, and texts that are safe to print on a terminal. */
#ifndef CLI_OUTPUT_TABLE_H
#define CLI_OUTPUT_TABLE_H

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "ops/explain/words.h"

#define TABLE_COLUMNS_MAX 12

enum color { COLOR_NONE, COLOR_RED, COLOR_GREEN, COLOR_YELLOW, COLOR_BLUE, COLOR_DIM, COLOR_BOLD };

/* "" when colours are off. */
const char *color_on(enum color color, bool wanted);
const char *color_off(enum color color, bool wanted);

struct table_cell {
    const char *text;
    size_t width; /* in characters */
    enum color color;
};

struct table {
    struct arena *arena; /* borrowed; texts are copied there */
    const char *heads[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    size_t column_count;
    struct table_row {
        struct table_row *next;
        struct table_cell cells[TABLE_COLUMNS_MAX];
    } * first, **end, *row;
    size_t filled; /* cells of the current row */
};

/* heads are separated by '|'; a '>' in front aligns the column to the right: "ID|STATE|>AGE". */
void table_init(struct table *t, struct arena *arena, const char *heads);
void table_add(struct table *t, enum color color, pr_slice text); /* the next cell; cleaned */
void table_addf(struct table *t, enum color color, const char *format, ...) PR_PRINTF(3, 4);
/* width 0: not cut; otherwise the last column is cut to fit. */
void table_print(const struct table *t, FILE *out, size_t width, bool color);

/* Width in columns, one for each character. */
size_t text_width(pr_slice text);

/* The terminal's width, or 0 if out is not a terminal. */
size_t terminal_width(FILE *out);

#endif
