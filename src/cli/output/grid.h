/* grid.h - rows and columns inside a screen.  When there is not enough room, the least important columns are left out,
 * so that the others can be read. */
#ifndef CLI_OUTPUT_GRID_H
#define CLI_OUTPUT_GRID_H

#include "cli/top/screen.h"

#define GRID_COLUMNS_MAX 10

struct grid_column {
    const char *head;
    bool right;
    size_t min, max; /* width in columns of the screen; max 0: takes the remaining room, at least min */
    unsigned rank;   /* the highest is left out first; 0: never left out */
};

struct grid_cell {
    pr_slice text;
    unsigned style;
};

struct grid {
    const struct grid_column *columns;
    size_t column_count;
    pr_slice title; /* the head of the first column */
    unsigned title_style;
    struct grid_cell *cells; /* row by row; in the arena */
    size_t row_count, row_max;
    size_t filled; /* cells of the current row */
};

void grid_init(struct grid *g, struct arena *arena, const struct grid_column *columns, size_t count, size_t row_max);
void grid_add(struct grid *g, unsigned style, pr_slice text); /* the next cell */
void grid_text(struct grid *g, unsigned style, const char *text);

/* Draws heads and rows from here on; chosen: this row is marked (SIZE_MAX: none). */
void grid_draw(const struct grid *g, struct screen *s, size_t row, size_t chosen);

#endif
