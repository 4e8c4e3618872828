#include "cli/output/grid.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define GAP 2    /* between columns */
#define MARGIN 1 /* before the first column, for the mark of the chosen row */

void grid_init(struct grid *g, struct arena *arena, const struct grid_column *columns, size_t count, size_t row_max)
{
    ASSERT(count <= GRID_COLUMNS_MAX);
    *g = (struct grid){
        .columns = columns, .column_count = count, .row_max = row_max, .title = pr_str(columns[0].head)
    };
    g->cells = arena_alloc_array(arena, row_max * count, sizeof(*g->cells));
    ASSERT(g->cells != NULL);
}

void grid_add(struct grid *g, unsigned style, pr_slice text)
{
    if (g->row_count == g->row_max)
        return;
    g->cells[g->row_count * g->column_count + g->filled] = (struct grid_cell){ text, style };
    g->filled = (g->filled + 1) % g->column_count;
    g->row_count += g->filled == 0;
}

void grid_text(struct grid *g, unsigned style, const char *text)
{
    grid_add(g, style, slice_from(text));
}

static pr_slice head_of(const struct grid *g, size_t column)
{
    return column == 0 ? g->title : slice_from(g->columns[column].head);
}

/* The preferred width of a column.  A column that takes the remaining room gets none if it is empty. */
static size_t wanted(const struct grid *g, size_t column)
{
    const struct grid_column *c = &g->columns[column];
    size_t widest = 0;

    for (size_t i = 0; i < g->row_count; i++)
        widest = max_size(widest, text_columns(g->cells[i * g->column_count + column].text));
    if (c->max == 0)
        return widest > 0 ? c->min : 0;
    widest = max_size(widest, max_size(c->min, text_columns(head_of(g, column))));
    return min_size(widest, max_size(c->max, c->min));
}

static size_t sum_of(const struct grid *g, const size_t *widths)
{
    size_t sum = MARGIN, shown = 0;

    for (size_t i = 0; i < g->column_count; i++) {
        sum += widths[i];
        shown += widths[i] > 0;
    }
    return sum + (shown > 0 ? (shown - 1) * GAP : 0);
}

/* False: nothing else can be left out. */
static bool leave_out(const struct grid *g, size_t *widths)
{
    size_t worst = g->column_count;

    for (size_t i = 0; i < g->column_count; i++)
        if (widths[i] > 0 && g->columns[i].rank > 0 &&
            (worst == g->column_count || g->columns[i].rank > g->columns[worst].rank))
            worst = i;
    if (worst == g->column_count)
        return false;
    widths[worst] = 0;
    return true;
}

/* 0: the column is left out. */
static void fit(const struct grid *g, size_t room, size_t *widths)
{
    for (size_t i = 0; i < g->column_count; i++)
        widths[i] = wanted(g, i);
    while (sum_of(g, widths) > room && leave_out(g, widths))
        continue;
    size_t sum = sum_of(g, widths);
    if (sum > room) /* the name's column gives up the difference */
        widths[0] -= min_size(widths[0] - 1, sum - room);
    for (size_t i = 0; i < g->column_count && sum < room; i++)
        if (g->columns[i].max == 0 && widths[i] > 0)
            widths[i] += room - sum;
}

static void draw_cell(const struct grid *g, struct screen *s, size_t row, size_t at, size_t column, size_t width,
                      const struct grid_cell *cell)
{
    size_t used = min_size(text_columns(cell->text), width);

    (void)screen_put(s, row, at + (g->columns[column].right ? width - used : 0), width, cell->style, cell->text);
}

static void draw_row(const struct grid *g, struct screen *s, size_t row, const size_t *widths,
                     const struct grid_cell *cells)
{
    size_t at = MARGIN;

    for (size_t i = 0; i < g->column_count; i++) {
        if (widths[i] == 0)
            continue;
        draw_cell(g, s, row, at, i, widths[i], &cells[i]);
        at += widths[i] + GAP;
    }
}

void grid_draw(const struct grid *g, struct screen *s, size_t row, size_t chosen)
{
    size_t widths[GRID_COLUMNS_MAX];
    struct grid_cell heads[GRID_COLUMNS_MAX];

    ASSERT(g->filled == 0);
    fit(g, s->width, widths);
    for (size_t i = 0; i < g->column_count; i++)
        heads[i] = (struct grid_cell){ head_of(g, i), i == 0 ? g->title_style : COLOR_DIM };
    for (size_t i = 1; i < g->column_count && g->row_count == 0; i++)
        widths[i] = 0; /* no rows: the title is sufficient */
    draw_row(g, s, row, widths, heads);
    for (size_t i = 0; i < g->row_count; i++) {
        draw_row(g, s, row + 1 + i, widths, &g->cells[i * g->column_count]);
        if (i == chosen) {
            (void)screen_put(s, row + 1 + i, 0, 1, COLOR_NONE, PR_STR(">"));
            screen_style(s, row + 1 + i, 0, s->width, STYLE_REVERSE);
        }
    }
}
