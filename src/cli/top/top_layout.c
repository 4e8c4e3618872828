/* The layout of `top`: what goes where in a terminal of this size. */
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "cli/top/top_draw.h"

#define LAYOUT_BLOCK 65536
#define PANE_ROWS_MIN 2
#define HEAD_LINES 3                  /* header, sentence, numbers */
#define SENTENCE_LINES 2              /* if there is room */
#define ROOMY 20                      /* rows from which a terminal has room to spare */
#define GAPS ((size_t)PANE_COUNT + 1) /* empty lines: before each list, and at the end */

/* Lines of the lists. */
struct layout_plan {
    bool gaps;    /* empty lines between the parts */
    size_t boxes; /* lines for boxes, with head; 0: none */
    bool shown[PANE_COUNT];
    size_t rows[PANE_COUNT]; /* lines below each title */
};

/* ---- Who gets how much ---- */

static size_t pane_rows_wanted(const struct drawing *d, enum pane pane)
{
    struct pane_rows rows;

    ui_rows(d->ui, d->v, pane, &rows);
    return max_size(rows.count, 1); /* at least the text for an empty list */
}

static void give(struct drawing *d, struct layout_plan *p, size_t lines)
{
    size_t wanted[PANE_COUNT];

    for (int i = 0; i < PANE_COUNT; i++) {
        wanted[i] = pane_rows_wanted(d, (enum pane)i);
        p->rows[i] = p->shown[i] ? min_size(wanted[i], PANE_ROWS_MIN) : 0;
        lines -= min_size(p->rows[i], lines);
    }
    for (int i = -1; i < PANE_COUNT; i++) { /* the list with the cursor comes first */
        int pane = i < 0 ? (int)d->ui->pane : i;
        size_t more = p->shown[pane] ? min_size(wanted[pane] - p->rows[pane], lines) : 0;

        p->rows[pane] += more;
        lines -= more;
    }
}

/* lines: available lines below the numbers, without the last line. */
static struct layout_plan make_plan(struct drawing *d, size_t lines)
{
    const size_t least = PANE_COUNT * (1 + PANE_ROWS_MIN);
    size_t boxes = boxes_shown(d->v) > 0 ? 1 + boxes_shown(d->v) : 0;
    struct layout_plan p = { .gaps = lines >= least + GAPS, .shown = { true, true, true } };

    if (lines >= least + GAPS + boxes + 1)
        p.boxes = boxes;
    if (lines < least) {
        for (int i = 0; i < PANE_COUNT; i++)
            p.shown[i] = (enum pane)i == d->ui->pane;
        give(d, &p, lines > 0 ? lines - 1 : 0);
        return p;
    }
    give(d, &p, lines - PANE_COUNT - (p.gaps ? GAPS : 0) - (p.boxes > 0 ? p.boxes + 1 : 0));
    return p;
}

/* ---- Single lines ---- */

static void draw_header(struct drawing *d)
{
    time_t seconds = (time_t)(d->frame->now_us / 1000000);
    struct tm local;
    char right[64] = "";
    size_t at = 1;

    if (localtime_r(&seconds, &local) != NULL)
        (void)strftime(right, sizeof(right), "%H:%M:%S", &local);
    size_t room = d->s->width > strlen(right) + 2 ? d->s->width - strlen(right) - 2 : 0;
    at += screen_put(d->s, 0, at, room, COLOR_BOLD, PR_STR("postrider top"));
    if (at + 3 < room)
        (void)screen_put(d->s, 0, at + 2, room - at - 2, COLOR_DIM, slice_from(d->frame->source));
    if (room > 0)
        (void)screen_put(d->s, 0, room + 1, strlen(right), COLOR_DIM, slice_from(right));
}

static void number(struct drawing *d, size_t row, size_t *at, const char *name, unsigned style, const char *value)
{
    pr_slice text = slice_from(value);
    size_t size = strlen(name) + 1 + text_columns(text);

    if (*at + size > d->s->width)
        return; /* the most important ones come first */
    *at += screen_put(d->s, row, *at, SIZE_MAX, COLOR_DIM, slice_from(name)) + 1;
    *at += screen_put(d->s, row, *at, SIZE_MAX, style, text) + 3;
}

static const char *joined(struct drawing *d, const char *a, const char *b)
{
    pr_slice text = arena_printf(&d->arena, "%s%s", a, b);

    ASSERT(text.data != NULL);
    return text.data;
}

static void draw_numbers(struct drawing *d, size_t row)
{
    const struct top_view *v = d->v;
    const struct view_rates *r = &v->rates;
    size_t at = 1;

    number(d, row, &at, "sent", COLOR_BOLD, joined(d, rate_human(&d->arena, r->known, r->sent), "/s"));
    number(d, row, &at, "backlog", COLOR_BOLD,
           joined(d, count_human(&d->arena, v->backlog), v->backlog_exact ? "" : "+"));
    number(d, row, &at, "oldest", COLOR_BOLD,
           v->oldest_us != 0 ? span_words(&d->arena, v->now_us - v->oldest_us) : "-");
    number(d, row, &at, "failed", r->failed > 0 ? COLOR_YELLOW : COLOR_NONE,
           joined(d, rate_human(&d->arena, r->known, r->failed), "/s"));
    number(d, row, &at, "dead", r->dead > 0 ? COLOR_RED : COLOR_NONE,
           joined(d, rate_human(&d->arena, r->known, r->dead), "/s"));
    number(d, row, &at, "in flight", COLOR_NONE, count_human(&d->arena, v->in_flight));
    number(d, row, &at, "instances", COLOR_NONE, count_human(&d->arena, v->instance_count));
}

/* The most urgent message. */
static pr_slice last_words(struct drawing *d, size_t width, unsigned *ret_style)
{
    static const char *const hints[] = {
        [MODE_LISTS] = "p pause  r resume  t retry  enter open  tab next list  / filter  ? help  q quit",
        [MODE_OPENED] = "esc back  j k scroll  p pause  r resume  t retry",
        [MODE_HELP] = "esc back  j k scroll",
    };
    const struct ui *ui = d->ui;

    if (ui->mode == MODE_ASK) { /* its end must be visible */
        *ret_style = COLOR_YELLOW | STYLE_REVERSE;
        return arena_printf(&d->arena, "%.*s  y / n",
                            SLICE_ARGS(text_fit(slice_from(ui->question), width > 8 ? width - 8 : 1)));
    }
    if (ui->mode == MODE_FILTER) {
        *ret_style = COLOR_BOLD;
        return arena_printf(&d->arena, "/%s_  enter keeps the filter, esc shows all", ui->filter);
    }
    if (ui->trouble[0] != '\0') {
        *ret_style = COLOR_RED;
        return slice_from(ui->trouble);
    }
    if (ui->notice[0] != '\0') {
        *ret_style = ui->notice_is_bad ? COLOR_YELLOW : COLOR_GREEN;
        return slice_from(ui->notice);
    }
    if (ui->filter[0] != '\0' && ui->mode == MODE_LISTS) {
        *ret_style = COLOR_BOLD;
        return arena_printf(&d->arena, "only rows with \"%s\": esc shows all", ui->filter);
    }
    *ret_style = COLOR_DIM;
    return slice_from(hints[ui->mode]);
}

static void draw_last_line(struct drawing *d)
{
    size_t width = d->s->width > 1 ? d->s->width - 1 : 1;
    unsigned style;
    pr_slice text = last_words(d, width, &style);

    (void)screen_put(d->s, d->s->height - 1, 1, width, style, text);
}

/* ---- Whole pictures ---- */

static void draw_lists(struct drawing *d)
{
    size_t last = d->frame->plain ? 0 : 1, row = 1;

    row += draw_sentence(d, row, d->s->height >= ROOMY ? SENTENCE_LINES : 1);
    draw_numbers(d, row++);
    struct layout_plan p = make_plan(d, d->s->height > row + last ? d->s->height - row - last : 0);
    row += p.gaps;
    if (p.boxes > 0) {
        draw_boxes(d, row);
        row += p.boxes + 1;
    }
    for (int i = 0; i < PANE_COUNT; i++) {
        if (!p.shown[i])
            continue;
        draw_pane(d, (enum pane)i, row, p.rows[i]);
        row += 1 + p.rows[i] + p.gaps;
    }
}

void top_draw(struct screen *s, const struct top_frame *frame, struct ui *ui)
{
    struct drawing d = { .s = s, .frame = frame, .v = frame->view, .ui = ui };
    enum mode mode = ui->mode == MODE_ASK ? ui->before : ui->mode;
    size_t rows = s->height > 3 ? s->height - 3 : 0;

    arena_init(&d.arena, LAYOUT_BLOCK);
    draw_header(&d);
    if (mode == MODE_HELP)
        draw_text(&d, 2, rows, slice_from(top_help));
    else if (mode == MODE_OPENED)
        draw_text(&d, 2, rows, ui->text != NULL ? slice_from(ui->text) : PR_STR("..."));
    else if (d.v != NULL)
        draw_lists(&d);
    else if (ui->trouble[0] == '\0')
        (void)screen_put(s, 1, 1, s->width, COLOR_DIM, PR_STR("asking ..."));
    if (!frame->plain)
        draw_last_line(&d);
    arena_fini(&d.arena);
}

size_t top_plain_height(const struct top_view *v)
{
    size_t rows = max_size(v->endpoint_count, 1) + max_size(v->group_count, 1) + max_size(v->stream_count, 1);

    return HEAD_LINES + SENTENCE_LINES + GAPS + 1 + boxes_shown(v) + 1 + PANE_COUNT +
           max_size(rows, PANE_COUNT * PANE_ROWS_MIN);
}
