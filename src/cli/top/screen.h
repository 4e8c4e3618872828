/* screen.h - a picture made of cells, independent of a terminal.  Pure: terminal.h draws it.
 *
 * Texts from messages are made harmless here, and nowhere else: a cell never holds a control character, a partial
 * character, or one that changes the direction of writing. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "base/buf.h"
#include "cli/output/table.h"

#define SCREEN_SIDE_MAX 1000 /* columns, rows: no terminal has more, and a wrong size costs no memory */

#define STYLE_REVERSE 0x10u /* combined with an enum color */
#define STYLE_COLOR(style) ((enum color)((style)&0x0fu))

struct cell {
    char text[11];       /* a character and its combining marks; marks that do not fit are dropped */
    unsigned char size;  /* 0: the right half of a wide character */
    unsigned char style; /* enum color, STYLE_REVERSE */
};

struct screen {
    size_t width, height;
    struct cell *cells; /* row by row, all blank at first; owned */
};

/* Fault PR_ENOMEM.  Sides are clamped to 1..SCREEN_SIDE_MAX. */
PR_MUST_CHECK int screen_init(struct screen *s, size_t width, size_t height);
void screen_fini(struct screen *s); /* safe on a zeroed one */

/* Columns that a character takes: 0, 1 or 2. */
size_t glyph_width(int32_t code);
/* ... and all of a text, as it would be put. */
size_t text_columns(pr_slice text);
/* As many bytes of it as fit into `columns` columns. */
pr_slice text_fit(pr_slice text, size_t columns);

/* Puts a text at a place; returns the columns used.  Text that does not fit into room (or into the line) is cut, with
 * an ellipsis. */
size_t screen_put(struct screen *s, size_t row, size_t column, size_t room, unsigned style, pr_slice text);
/* Sets the style of the row from here on. */
void screen_style(struct screen *s, size_t row, size_t column, size_t room, unsigned style);

/* A row as text, without trailing blanks. */
void screen_row_text(const struct screen *s, size_t row, struct buf *ret);
bool screen_row_same(const struct screen *a, const struct screen *b, size_t row); /* of the same width */

#endif
