/* Sentences and longer texts in the picture. */
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "cli/top/top_draw.h"

#define SENTENCE_MAX 4096
#define OLD_US PR_MINUTES(5) /* a ready message that waits longer is a problem, as in status */
#define INDENT_MOST 16       /* maximum indentation of wrapped lines */

const char top_help[] = "Keys\n"
                        "\n"
                        "  up, down, k, j     previous row, next row\n"
                        "  PgUp PgDn Home End previous page, next page, first row, last row\n"
                        "  tab, shift-tab     the next list: endpoints, failing groups, blocked streams\n"
                        "  enter              details: why a message is stuck, how an endpoint is doing\n"
                        "  p                  pause the endpoint of this row, until resumed\n"
                        "  r                  resume it\n"
                        "  t                  replay a group of dead letters, retry the head of a stream\n"
                        "  /                  show only rows with this text; escape shows all again\n"
                        "  ?                  show this help\n"
                        "  q, Ctrl-C          close the details; quit\n"
                        "\n"
                        "Every change asks for confirmation and is logged: postrider audit\n"
                        "\n"
                        "What is shown\n"
                        "\n"
                        "  Rates cover the last interval. Failing and paused endpoints come first, then\n"
                        "  those with the most failures. DIED is a total, DEAD the current number of dead\n"
                        "  letters. A failing group is a set of dead letters with the same cause. A stream\n"
                        "  is blocked when messages wait behind one that failed. Each list shows the worst\n"
                        "  200; 10,000+ means that counting stopped there.\n";

/* The part of a line that fits, broken between words if possible. */
static pr_slice break_line(pr_slice line, size_t columns)
{
    pr_slice fits = text_fit(line, columns);

    if (fits.size == line.size)
        return fits;
    for (size_t i = fits.size; i > fits.size / 2; i--)
        if (line.data[i] == ' ')
            return (pr_slice){ line.data, i };
    return fits.size > 0 ? fits : (pr_slice){ line.data, 1 };
}

/* ---- How it is ---- */

struct sentence {
    struct buf text;
    enum color color;
};

static void say(struct sentence *s, enum color color, const char *format, ...) PR_PRINTF(3, 4);

static void say(struct sentence *s, enum color color, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    buf_addf(&s->text, "%s%s", s->text.size > 0 ? "; " : "", text);
    if (s->color != COLOR_RED)
        s->color = color;
}

/* A single one by its name, several by their number; first: where they begin in the list. */
static void say_endpoints(struct drawing *d, struct sentence *s, size_t count, size_t first, enum color color,
                          const char *what)
{
    if (count > 1)
        say(s, color, "%s endpoints are %s", count_human(&d->arena, count), what);
    else if (count == 1)
        say(s, color, "endpoint %.*s is %s", SLICE_ARGS(utf8_cut_bytes(d->v->endpoints[first].name, 200)), what);
}

/* "billing: failing, not sending until 12:03 (circuit breaker)" */
static void say_failing(struct drawing *d, struct sentence *s)
{
    const struct view_endpoint *e = d->v->endpoints;

    if (d->v->open_count != 1 || e->until_us <= d->v->now_us || e->until_us == PR_NEVER)
        say_endpoints(d, s, d->v->open_count, 0, COLOR_RED, "failing");
    else
        say(s, COLOR_RED, "%.*s: failing, not sending until %s (circuit breaker)",
            SLICE_ARGS(utf8_cut_bytes(e->name, 200)), clock_words(&d->arena, e->until_us, d->v->now_us));
}

static void say_streams(struct drawing *d, struct sentence *s)
{
    const struct top_view *v = d->v;
    uint64_t waiting = 0;
    bool exact = !v->streams_more;

    for (size_t i = 0; i < v->stream_count; i++) {
        waiting += min_size((size_t)v->streams[i].waiting, COUNT_EXACT_MAX);
        exact &= v->streams[i].waiting <= COUNT_EXACT_MAX;
    }
    if (v->stream_count > 0)
        say(s, COLOR_YELLOW, "%zu%s %s blocked, %s%s %s behind", v->stream_count, v->streams_more ? "+" : "",
            v->stream_count == 1 ? "stream is" : "streams are", count_human(&d->arena, waiting), exact ? "" : "+",
            waiting == 1 && exact ? "message waits" : "messages wait");
}

/* These wait for a person, or for a configuration that knows their destination. */
static void say_parked(struct drawing *d, struct sentence *s)
{
    uint64_t parked = 0;
    bool exact = true;

    for (size_t i = 0; i < d->v->box_count; i++) {
        const struct box_counts *b = &d->v->boxes[i];
        parked += min_size((size_t)b->parked, COUNT_EXACT_MAX);
        exact &= b->parked <= COUNT_EXACT_MAX && !b->partial;
    }
    if (parked > 0)
        say(s, COLOR_YELLOW, "%s%s %s parked (postrider list --state parked)", count_human(&d->arena, parked),
            exact ? "" : "+", parked == 1 && exact ? "message is" : "messages are");
}

static void say_trouble(struct drawing *d, struct sentence *s)
{
    const struct top_view *v = d->v;

    if (v->backlog > 0 && v->instance_count == 0)
        say(s, COLOR_RED, "no instance is running: start postrider run");
    say_failing(d, s);
    say_endpoints(d, s, v->paused_count, v->open_count, COLOR_YELLOW, "paused");
    say_streams(d, s);
    say_parked(d, s);
    if (v->dead > 0)
        say(s, COLOR_YELLOW, "%s%s dead %s", count_human(&d->arena, v->dead), v->dead_exact ? "" : "+",
            v->dead == 1 ? "letter" : "letters");
    if (v->oldest_us != 0 && v->now_us - v->oldest_us > OLD_US)
        say(s, COLOR_YELLOW, "the oldest ready message has waited for %s",
            span_words(&d->arena, v->now_us - v->oldest_us));
}

static void say_well(struct drawing *d, struct sentence *s)
{
    const struct top_view *v = d->v;
    size_t sends = 0;

    for (size_t i = 0; i < v->endpoint_count; i++)
        sends += v->endpoints[i].state == VIEW_SENDS;
    sends += v->total_count - v->endpoint_count; /* beyond the page: the worst come first */
    say(s, COLOR_GREEN, "All is well: ");
    if (sends > 0)
        buf_addf(&s->text, "%s %s, ", count_human(&d->arena, sends),
                 sends == 1 ? "endpoint is active" : "endpoints are active");
    buf_add_cstr(&s->text, v->backlog == 0 ? "nothing waits, " : "");
    buf_add_cstr(&s->text, "nothing is blocked or dead.");
}

size_t draw_sentence(struct drawing *d, size_t row, size_t rows)
{
    struct sentence s = { .color = COLOR_YELLOW };
    size_t used = 0, width = d->s->width > 1 ? d->s->width - 1 : 1;

    buf_init(&s.text, SENTENCE_MAX);
    say_trouble(d, &s);
    if (s.text.size == 0)
        say_well(d, &s);
    for (pr_slice rest = buf_slice(&s.text); rest.size > 0 && used < rows; used++) {
        pr_slice piece = used + 1 < rows ? break_line(rest, width) : rest;

        (void)screen_put(d->s, row + used, 1, width, s.color, piece);
        rest = slice_trim((pr_slice){ rest.data + piece.size, rest.size - piece.size });
    }
    buf_fini(&s.text);
    return used;
}

/* ---- Texts ---- */

static size_t indent_of(pr_slice line)
{
    size_t blanks = 0;

    while (blanks < line.size && line.data[blanks] == ' ')
        blanks++;
    return min_size(blanks + 2, INDENT_MOST);
}

static pr_slice next_line(pr_slice *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    pr_slice line = { text->data, end != NULL ? (size_t)(end - text->data) : text->size };
    size_t taken = line.size + (end != NULL);

    *text = (pr_slice){ text->data + taken, text->size - taken };
    return line;
}

static bool is_heading(pr_slice line, bool first)
{
    return first || (line.size > 0 && line.data[0] != ' ' && line.size < 40 && line.data[line.size - 1] != '.');
}

/* Draws lines [skip, skip + rows); returns how many lines there are. */
static size_t draw_lines(struct drawing *d, size_t row, size_t rows, size_t skip, pr_slice text)
{
    size_t width = max_size(d->s->width, 4) - 2, n = 0;
    bool first = true;

    while (text.size > 0) {
        pr_slice line = next_line(&text);
        size_t indent = width > 3 * INDENT_MOST ? indent_of(line) : 0, at = 0;
        unsigned style = is_heading(line, first) ? COLOR_BOLD : COLOR_NONE;

        first = false;
        do {
            pr_slice piece = break_line(line, width - at);

            if (n >= skip && n < skip + rows)
                (void)screen_put(d->s, row + n - skip, 1 + at, width, style, piece);
            n++;
            line = slice_trim((pr_slice){ line.data + piece.size, line.size - piece.size });
            at = indent;
        } while (line.size > 0);
    }
    return n;
}

void draw_text(struct drawing *d, size_t row, size_t rows, pr_slice text)
{
    size_t all = draw_lines(d, row, 0, 0, text);

    d->ui->scroll = min_size(d->ui->scroll, all > rows ? all - rows : 0);
    (void)draw_lines(d, row, rows, d->ui->scroll, text);
}
