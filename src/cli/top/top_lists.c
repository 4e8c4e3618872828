/* The lists: boxes, endpoints, failing groups, blocked streams. */

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "cli/top/top_draw.h"

#define NAME_MIN 20 /* columns: the longest title, so that the lists align */
#define NAME_MOST 32
#define WHY_MIN 16
#define WHY_BYTES 500

static const struct grid_column box_columns[] = {
    { "BOX", false, 12, NAME_MOST, 0 }, { "READY", true, 7, 8, 0 },  { "IN-FLIGHT", true, 9, 9, 1 },
    { "RETRYING", true, 8, 8, 2 },      { "HELD", true, 7, 8, 3 },   { "DEAD", true, 7, 8, 0 },
    { "PARKED", true, 7, 8, 6 },        { "PAUSED", true, 7, 8, 5 }, { "DELAYED", true, 7, 8, 7 },
    { "OLDEST", true, 7, 10, 0 },
};

static const struct grid_column endpoint_columns[] = {
    { "ENDPOINTS", false, NAME_MIN, NAME_MOST, 0 },
    { "STATE", false, 14, 24, 0 },
    { "SENT/S", true, 6, 8, 1 },
    { "FAILED/S", true, 8, 8, 3 },
    { "SENT", true, 6, 8, 6 },
    { "FAILED", true, 6, 8, 5 },
    { "DIED", true, 6, 8, 4 },
    { "WHY", false, WHY_MIN, 0, 2 },
};

static const struct grid_column group_columns[] = {
    { "FAILING GROUPS", false, NAME_MIN, NAME_MOST, 0 },
    { "TYPE", false, 12, 28, 3 },
    { "DEAD", true, 7, 8, 0 },
    { "LATEST", true, 7, 10, 2 },
    { "FIRST", true, 7, 10, 4 },
    { "WHY", false, WHY_MIN, 0, 1 },
};

static const struct grid_column stream_columns[] = {
    { "BLOCKED STREAMS", false, NAME_MIN, NAME_MOST, 0 },
    { "ENDPOINT", false, 12, 28, 4 },
    { "HEAD", false, 8, 9, 2 },
    { "WAITING", true, 7, 8, 0 },
    { "SINCE", true, 7, 10, 1 },
    { "NEXT", true, 7, 10, 5 },
    { "WHY", false, WHY_MIN, 0, 3 },
};

/* ---- Boxes ---- */

static bool box_has_something(const struct box_counts *b)
{
    return b->ready + b->in_flight + b->delayed + b->retrying + b->held + b->parked + b->paused + b->dead > 0;
}

size_t boxes_shown(const struct top_view *v)
{
    size_t count = 0;

    for (size_t i = 0; i < v->box_count; i++)
        count += box_has_something(&v->boxes[i]);
    return min_size(count, BOX_ROWS_MAX);
}

static void add_box(struct drawing *d, struct grid *g, const struct box_counts *b)
{
    const struct {
        uint64_t count;
        enum color color;
    } cells[] = { { b->ready, COLOR_NONE },    { b->in_flight, COLOR_GREEN }, { b->retrying, COLOR_YELLOW },
                  { b->held, COLOR_YELLOW },   { b->dead, COLOR_RED },        { b->parked, COLOR_YELLOW },
                  { b->paused, COLOR_YELLOW }, { b->delayed, COLOR_NONE } };

    grid_add(g, COLOR_NONE, b->name);
    for (size_t i = 0; i < ARRAY_LENGTH(cells); i++)
        grid_text(g, cells[i].count > 0 ? cells[i].color : COLOR_DIM, count_bounded(&d->arena, cells[i].count));
    grid_text(g, COLOR_NONE, b->oldest_us != 0 ? span_words(&d->arena, d->v->now_us - b->oldest_us) : "-");
}

void draw_boxes(struct drawing *d, size_t row)
{
    struct grid g;

    grid_init(&g, &d->arena, box_columns, ARRAY_LENGTH(box_columns), boxes_shown(d->v));
    g.title_style = COLOR_DIM;
    for (size_t i = 0; i < d->v->box_count; i++)
        if (box_has_something(&d->v->boxes[i]))
            add_box(d, &g, &d->v->boxes[i]);
    grid_draw(&g, d->s, row, SIZE_MAX);
}

/* ---- Rows ---- */

static void add_count(struct drawing *d, struct grid *g, uint64_t count, enum color color)
{
    grid_text(g, count > 0 ? color : COLOR_DIM, count_human(&d->arena, count));
}

static void add_rate(struct drawing *d, struct grid *g, const struct view_rates *r, double rate, enum color color)
{
    grid_text(g, r->known && rate > 0 ? color : COLOR_DIM, rate_human(&d->arena, r->known, rate));
}

static void add_state(struct drawing *d, struct grid *g, const struct view_endpoint *e)
{
    int64_t left_us = e->until_us - d->v->now_us;
    bool timed = e->until_us != PR_NEVER && left_us > 0;

    switch (e->state) {
    case VIEW_OPEN:
        if (timed)
            grid_add(g, COLOR_RED, arena_printf(&d->arena, "failing, probe in %s", span_short(&d->arena, left_us)));
        else
            grid_text(g, COLOR_RED, "failing");
        break;
    case VIEW_HALF_OPEN: grid_text(g, COLOR_RED, "failing, probing"); break;
    case VIEW_PAUSED:
        if (timed)
            grid_add(g, COLOR_YELLOW, arena_printf(&d->arena, "paused for %s", span_short(&d->arena, left_us)));
        else
            grid_text(g, COLOR_YELLOW, "paused until resumed");
        break;
    case VIEW_SENDS: grid_text(g, COLOR_GREEN, "active"); break;
    default: grid_text(g, COLOR_DIM, "not configured");
    }
}

static void add_endpoint(struct drawing *d, struct grid *g, const struct view_endpoint *e)
{
    if (e->name.size > 0) {
        grid_add(g, COLOR_NONE, e->name);
        add_state(d, g, e);
    } else { /* messages that died before they were routed */
        grid_text(g, COLOR_NONE, "(not routed)");
        grid_text(g, COLOR_DIM, "-");
    }
    add_rate(d, g, &e->rates, e->rates.sent, COLOR_GREEN);
    add_rate(d, g, &e->rates, e->rates.failed, COLOR_YELLOW);
    add_count(d, g, e->sent, COLOR_NONE);
    add_count(d, g, e->failed, COLOR_YELLOW);
    add_count(d, g, e->dead, COLOR_RED);
    grid_add(g, COLOR_DIM, utf8_cut_bytes(e->why, WHY_BYTES));
}

/* "rejected: no such customer" */
static pr_slice why(struct drawing *d, int reason, pr_slice error)
{
    error = utf8_cut_bytes(error, WHY_BYTES);
    pr_slice text = arena_printf(&d->arena, "%s%s%.*s", reason != PR_REASON_NONE ? pr_reason_name(reason) : "",
                                 reason != PR_REASON_NONE && error.size > 0 ? ": " : "", SLICE_ARGS(error));
    ASSERT(text.data != NULL);
    return text;
}

static void add_group(struct drawing *d, struct grid *g, const struct dead_group *group)
{
    int reason = group->reason != PR_REASON_NONE ? group->reason : group->cause;

    grid_add(g, COLOR_NONE, group->endpoint.size > 0 ? group->endpoint : PR_STR("(not routed)"));
    grid_add(g, COLOR_NONE, group->type);
    grid_text(g, COLOR_RED, count_bounded(&d->arena, group->count));
    grid_text(g, COLOR_NONE, span_words(&d->arena, d->v->now_us - group->last_us));
    grid_text(g, COLOR_NONE, span_words(&d->arena, d->v->now_us - group->first_us));
    grid_add(g, COLOR_DIM, why(d, reason, group->error));
}

static void add_stream(struct drawing *d, struct grid *g, const struct stream_info *s)
{
    int64_t now_us = d->v->now_us;

    grid_add(g, COLOR_NONE, s->stream);
    grid_add(g, COLOR_NONE, s->endpoint);
    grid_text(g, s->head_state == STATE_DEAD ? COLOR_RED : COLOR_YELLOW, state_name(s->head_state));
    grid_text(g, COLOR_BOLD, count_bounded(&d->arena, s->waiting));
    grid_text(g, COLOR_NONE, span_words(&d->arena, now_us - s->since_us));
    grid_text(g, COLOR_NONE,
              s->due_us == PR_NEVER ? "never"
              : s->due_us > now_us  ? span_words(&d->arena, s->due_us - now_us)
                                    : "now");
    grid_add(g, COLOR_DIM, why(d, s->reason, s->error));
}

/* ---- A pane ---- */

static const struct {
    const struct grid_column *columns;
    size_t column_count;
    const char *nothing; /* shown instead of rows */
} panes[PANE_COUNT] = {
    [PANE_ENDPOINTS] = { endpoint_columns, ARRAY_LENGTH(endpoint_columns), "none yet: add some to the configuration" },
    [PANE_GROUPS] = { group_columns, ARRAY_LENGTH(group_columns), "no dead letters" },
    [PANE_STREAMS] = { stream_columns, ARRAY_LENGTH(stream_columns), "no stream is blocked" },
};

static void add_row(struct drawing *d, struct grid *g, enum pane pane, size_t i)
{
    if (pane == PANE_ENDPOINTS)
        add_endpoint(d, g, &d->v->endpoints[i]);
    else if (pane == PANE_GROUPS)
        add_group(d, g, &d->v->groups[i]);
    else
        add_stream(d, g, &d->v->streams[i]);
}

static pr_slice title(struct drawing *d, enum pane pane, size_t count)
{
    bool more = pane == PANE_ENDPOINTS ? d->v->total_count > d->v->endpoint_count
                : pane == PANE_GROUPS  ? d->v->groups_more
                                       : d->v->streams_more;
    pr_slice text = arena_printf(&d->arena, "%s %zu%s", panes[pane].columns[0].head, count, more ? "+" : "");

    ASSERT(text.data != NULL);
    return text;
}

void draw_pane(struct drawing *d, enum pane pane, size_t row, size_t rows)
{
    bool has_focus = d->ui->pane == pane && !d->frame->plain;
    size_t cursor = d->ui->cursor[pane], first = rows > 0 ? cursor / rows * rows : 0;
    struct pane_rows all;
    struct grid g;

    ui_rows(d->ui, d->v, pane, &all);
    first = min_size(first, all.count > rows ? all.count - rows : 0); /* the last page is full, too */
    grid_init(&g, &d->arena, panes[pane].columns, panes[pane].column_count, rows);
    g.title = title(d, pane, all.count);
    g.title_style = has_focus ? COLOR_BOLD : COLOR_DIM;
    for (size_t i = first; i < min_size(all.count, first + rows); i++)
        add_row(d, &g, pane, all.index[i]);
    grid_draw(&g, d->s, row, has_focus && all.count > 0 ? cursor - first : SIZE_MAX);
    if (all.count == 0)
        (void)screen_put(d->s, row + 1, 1, d->s->width, COLOR_DIM,
                         slice_from(d->ui->filter[0] != '\0' ? "no row matches the filter" : panes[pane].nothing));
}
