/* top_draw.h - what the parts of the picture share. */
#ifndef CLI_TOP_TOP_DRAW_H
#define CLI_TOP_TOP_DRAW_H

#include "cli/output/grid.h"
#include "cli/top/top.h"

struct drawing {
    struct screen *s;
    const struct top_frame *frame;
    const struct top_view *v; /* never NULL where lists are drawn */
    struct ui *ui;
    struct arena arena; /* memory of one picture */
};

/* ---- Lists (top_lists.c) ---- */

#define BOX_ROWS_MAX 4

size_t boxes_shown(const struct top_view *v); /* boxes that are not empty */
void draw_boxes(struct drawing *d, size_t row);
/* Title and rows: the page that contains the cursor. */
void draw_pane(struct drawing *d, enum pane pane, size_t row, size_t rows);

/* ---- Words (top_words.c) ---- */

/* The overall state in a sentence of at most `rows` lines; returns how many it took. */
size_t draw_sentence(struct drawing *d, size_t row, size_t rows);
/* Lines, wrapped; scroll is clamped. */
void draw_text(struct drawing *d, size_t row, size_t rows, pr_slice text);

#endif
