#include "cli/output/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "store/store.h"

#define CELL_MAX 4096
#define COLUMN_MAX 64 /* characters, for all columns except the last */
#define GAP 2         /* spaces between columns */

static const char *const colors[] = { "", "\033[31m", "\033[32m", "\033[33m", "\033[34m", "\033[2m", "\033[1m" };

const char *color_on(enum color color, bool wanted)
{
    return wanted ? colors[color] : "";
}

const char *color_off(enum color color, bool wanted)
{
    return wanted && color != COLOR_NONE ? "\033[0m" : "";
}

size_t text_width(pr_slice text)
{
    size_t width = 0;

    while (text.size > 0) {
        int32_t code;
        size_t size = utf8_next(text, &code);

        width++;
        text = (pr_slice){ text.data + size, text.size - size };
    }
    return width;
}

size_t terminal_width(FILE *out)
{
    struct winsize size;
    int fd = out == stdout ? STDOUT_FILENO : fileno(out); /* the replaced stdout has none, see output.h */

    if (!isatty(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void table_init(struct table *t, struct arena *arena, const char *heads)
{
    *t = (struct table){ .arena = arena };
    t->end = &t->first;
    for (const char *head = heads; head != NULL; t->column_count++) {
        const char *bar = strchr(head, '|');
        size_t size = bar != NULL ? (size_t)(bar - head) : strlen(head);

        ASSERT(t->column_count < TABLE_COLUMNS_MAX);
        t->right[t->column_count] = head[0] == '>';
        if (head[0] == '>') {
            head++;
            size--;
        }
        t->heads[t->column_count] = slice_dup(arena, (pr_slice){ head, size }).data;
        ASSERT(t->heads[t->column_count] != NULL);
        head = bar != NULL ? bar + 1 : NULL;
    }
}

void table_add(struct table *t, enum color color, pr_slice text)
{
    struct buf clean;

    if (t->filled == 0) {
        t->row = arena_zalloc(t->arena, sizeof(*t->row));
        ASSERT(t->row != NULL);
        *t->end = t->row;
        t->end = &t->row->next;
    }
    buf_init(&clean, CELL_MAX);
    text_clean(&clean, utf8_cut_bytes(text, CELL_MAX / 4), false);
    pr_slice copy = slice_dup(t->arena, buf_slice(&clean));
    buf_fini(&clean);
    ASSERT(copy.data != NULL);
    if (t->filled + 1 < t->column_count && text_width(copy) > COLUMN_MAX)
        copy = arena_printf(t->arena, "%.*s\xe2\x80\xa6", SLICE_ARGS(utf8_cut(copy, COLUMN_MAX - 1)));
    ASSERT(copy.data != NULL);
    t->row->cells[t->filled] = (struct table_cell){ copy.data, text_width(copy), color };
    t->filled = (t->filled + 1) % t->column_count;
}

void table_addf(struct table *t, enum color color, const char *format, ...)
{
    char text[CELL_MAX / 4];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    table_add(t, color, slice_from(text));
}

static void pad(FILE *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fputc(' ', out);
}

/* room 0: unlimited. */
static void print_cell(const struct table_cell *cell, size_t width, bool right, bool last, size_t room, FILE *out,
                       bool color)
{
    pr_slice text = slice_from(cell->text);
    size_t padding = width > cell->width ? width - cell->width : 0;
    bool cut = room > 1 && cell->width > room;

    if (right)
        pad(out, padding);
    if (cut)
        text = utf8_cut(text, room - 1);
    fprintf(out, "%s%.*s%s%s", color_on(cell->color, color), SLICE_ARGS(text), cut ? "\xe2\x80\xa6" : "",
            color_off(cell->color, color));
    if (!right && !last)
        pad(out, padding);
    if (!last)
        pad(out, GAP);
}

void table_print(const struct table *t, FILE *out, size_t width, bool color)
{
    size_t widths[TABLE_COLUMNS_MAX] = { 0 }, before = 0, last = t->column_count - 1;

    ASSERT(t->filled == 0);
    for (size_t i = 0; i < t->column_count; i++)
        widths[i] = strlen(t->heads[i]);
    for (const struct table_row *r = t->first; r != NULL; r = r->next)
        for (size_t i = 0; i < t->column_count; i++)
            widths[i] = max_size(widths[i], r->cells[i].width);
    for (size_t i = 0; i < last; i++)
        before += widths[i] + GAP;
    size_t room = width > before + 8 ? width - before : 0;

    for (size_t i = 0; i < t->column_count; i++) {
        struct table_cell head = { t->heads[i], strlen(t->heads[i]), COLOR_DIM };

        print_cell(&head, widths[i], t->right[i], i == last, 0, out, color);
    }
    fputc('\n', out);
    for (const struct table_row *r = t->first; r != NULL; r = r->next) {
        for (size_t i = 0; i < t->column_count; i++)
            print_cell(&r->cells[i], widths[i], t->right[i], i == last, i == last && !t->right[i] ? room : 0, out,
                       color);
        fputc('\n', out);
    }
}
