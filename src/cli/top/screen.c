#include "cli/top/screen.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"

#define REPLACEMENT 0xfffd

struct range {
    int32_t first, last;
};

/* Combining marks, joiners, variation selectors: the blocks that contain them. */
static const struct range zero_wide[] = {
    { 0x0300, 0x036f },   { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x0610, 0x061a }, { 0x064b, 0x065f },
    { 0x0900, 0x0902 },   { 0x093c, 0x093c }, { 0x0941, 0x0948 }, { 0x0e31, 0x0e31 }, { 0x0e34, 0x0e3a },
    { 0x0e47, 0x0e4e },   { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f }, { 0x2060, 0x2064 },
    { 0x20d0, 0x20ff },   { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f }, { 0xfeff, 0xfeff }, { 0x1f3fb, 0x1f3ff },
    { 0xe0100, 0xe01ef },
};

/* East Asian Wide and Fullwidth, and pictographs. */
static const struct range double_wide[] = {
    { 0x1100, 0x115f },   { 0x231a, 0x231b },   { 0x23e9, 0x23ec },   { 0x25fd, 0x25fe },   { 0x2614, 0x2615 },
    { 0x2648, 0x2653 },   { 0x26a1, 0x26a1 },   { 0x2705, 0x2705 },   { 0x2728, 0x2728 },   { 0x274c, 0x274c },
    { 0x2753, 0x2757 },   { 0x2795, 0x2797 },   { 0x2e80, 0x303e },   { 0x3041, 0x33ff },   { 0x3400, 0x4dbf },
    { 0x4e00, 0x9fff },   { 0xa000, 0xa4cf },   { 0xa960, 0xa97f },   { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },
    { 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },   { 0xffe0, 0xffe6 },   { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf },
    { 0x1f18e, 0x1f19a }, { 0x1f200, 0x1f320 }, { 0x1f32d, 0x1f3f0 }, { 0x1f3f8, 0x1f4fd }, { 0x1f4ff, 0x1f53d },
    { 0x1f54b, 0x1f567 }, { 0x1f5fb, 0x1f64f }, { 0x1f680, 0x1f6fc }, { 0x1f7e0, 0x1f7eb }, { 0x1f90c, 0x1f9ff },
    { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
};

static bool is_in(const struct range *ranges, size_t count, int32_t code)
{
    for (size_t i = 0; i < count && code >= ranges[i].first; i++)
        if (code <= ranges[i].last)
            return true;
    return false;
}

size_t glyph_width(int32_t code)
{
    if (code < 0x300)
        return 1;
    if (is_in(zero_wide, ARRAY_LENGTH(zero_wide), code))
        return 0;
    return is_in(double_wide, ARRAY_LENGTH(double_wide), code) ? 2 : 1;
}

/* Could it control the terminal, or mislead the reader? */
static bool is_harmful(int32_t code)
{
    return code < 0 || utf8_is_control(code);
}

struct glyph {
    char text[5];
    size_t size, width;
    size_t taken; /* bytes of the source */
};

/* The next character of a non-empty text, made safe. */
static struct glyph glyph_next(pr_slice text)
{
    int32_t code;
    struct glyph g = { .taken = utf8_next(text, &code) };

    if (code == '\t' || code == '\n' || code == '\r') {
        g.text[0] = ' ';
        g.size = g.width = 1;
    } else if (code < 0 || is_harmful(code)) {
        memcpy(g.text, "\xef\xbf\xbd", 3);
        g.size = 3;
        g.width = 1;
    } else {
        memcpy(g.text, text.data, g.taken);
        g.size = g.taken;
        g.width = glyph_width(code);
    }
    return g;
}

size_t text_columns(pr_slice text)
{
    size_t columns = 0;

    while (text.size > 0) {
        struct glyph g = glyph_next(text);

        columns += g.width;
        text = (pr_slice){ text.data + g.taken, text.size - g.taken };
    }
    return columns;
}

pr_slice text_fit(pr_slice text, size_t columns)
{
    size_t used = 0, bytes = 0;

    while (bytes < text.size) {
        struct glyph g = glyph_next((pr_slice){ text.data + bytes, text.size - bytes });

        if (used + g.width > columns)
            break;
        used += g.width;
        bytes += g.taken;
    }
    return (pr_slice){ text.data, bytes };
}

int screen_init(struct screen *s, size_t width, size_t height)
{
    s->width = max_size(1, min_size(width, SCREEN_SIDE_MAX));
    s->height = max_size(1, min_size(height, SCREEN_SIDE_MAX));
    s->cells = calloc(s->width * s->height, sizeof(*s->cells));
    if (s->cells == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < s->width * s->height; i++)
        s->cells[i] = (struct cell){ .text = " ", .size = 1 };
    return PR_OK;
}

void screen_fini(struct screen *s)
{
    free(s->cells);
    *s = (struct screen){ 0 };
}

static struct cell *cell_at(const struct screen *s, size_t row, size_t column)
{
    return &s->cells[row * s->width + column];
}

static void add_mark(struct cell *cell, const struct glyph *g)
{
    if (cell->size + g->size > sizeof(cell->text))
        return;
    memcpy(cell->text + cell->size, g->text, g->size);
    cell->size = (unsigned char)(cell->size + g->size);
}

static size_t put_all(struct screen *s, size_t row, size_t column, unsigned style, pr_slice text)
{
    size_t at = column;

    while (text.size > 0) {
        struct glyph g = glyph_next(text);

        text = (pr_slice){ text.data + g.taken, text.size - g.taken };
        if (g.width == 0) {
            if (at > column) {
                bool wide = cell_at(s, row, at - 1)->size == 0;
                add_mark(cell_at(s, row, at - 1 - wide), &g);
            }
            continue;
        }
        struct cell *cell = cell_at(s, row, at);
        *cell = (struct cell){ .size = (unsigned char)g.size, .style = (unsigned char)style };
        memcpy(cell->text, g.text, g.size);
        if (g.width == 2)
            cell[1] = (struct cell){ .style = (unsigned char)style };
        at += g.width;
    }
    return at - column;
}

size_t screen_put(struct screen *s, size_t row, size_t column, size_t room, unsigned style, pr_slice text)
{
    if (row >= s->height || column >= s->width)
        return 0;
    room = min_size(room, s->width - column);
    if (room == 0)
        return 0;
    pr_slice fits = text_fit(text, room);
    if (fits.size == text.size)
        return put_all(s, row, column, style, text);
    size_t used = put_all(s, row, column, style, text_fit(text, room - 1));
    return used + put_all(s, row, column + used, style, PR_STR("\xe2\x80\xa6"));
}

void screen_style(struct screen *s, size_t row, size_t column, size_t room, unsigned style)
{
    for (size_t i = column; row < s->height && i < min_size(s->width, column + room); i++)
        cell_at(s, row, i)->style = (unsigned char)style;
}

void screen_row_text(const struct screen *s, size_t row, struct buf *ret)
{
    size_t end = s->width;

    while (end > 0 && cell_at(s, row, end - 1)->size == 1 && cell_at(s, row, end - 1)->text[0] == ' ')
        end--;
    for (size_t i = 0; i < end; i++)
        buf_add(ret, cell_at(s, row, i)->text, cell_at(s, row, i)->size);
}

bool screen_row_same(const struct screen *a, const struct screen *b, size_t row)
{
    return memcmp(cell_at(a, row, 0), cell_at(b, row, 0), a->width * sizeof(struct cell)) == 0;
}
