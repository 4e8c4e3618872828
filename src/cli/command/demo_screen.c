/* The picture: drawn about five times a second, in one write, so that it does not flicker. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/util.h"
#include "cli/command/demo.h"
#include "cli/command/message.h"
#include "cli/output/table.h"

#define SCREEN_BYTES_MAX 65536
#define BAR_CELLS 12   /* of waiting messages */
#define FIXED_LINES 13 /* without the three lists */

struct demo_screen {
    struct buf out;
    size_t width, height;
    size_t column; /* of the current line */
    size_t lines;
    bool color;
};

void demo_ring_add(struct demo_ring *ring, int64_t at_us, const char *format, ...)
{
    struct demo_line *line = &ring->lines[ring->count++ % DEMO_LINES_MAX];
    va_list args;

    line->at_us = at_us;
    va_start(args, format);
    (void)vsnprintf(line->text, sizeof(line->text), format, args);
    va_end(args);
}

const struct demo_line *demo_ring_get(const struct demo_ring *ring, size_t i)
{
    return i < min_size(ring->count, DEMO_LINES_MAX) ? &ring->lines[(ring->count - 1 - i) % DEMO_LINES_MAX] : NULL;
}

static void put(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        return; /* the terminal is gone; its signal follows */
}

void demo_screen_open(void)
{
    put("\033[?1049h\033[?25l\033[2J");
}

void demo_screen_close(void)
{
    put("\033[?25h\033[?1049l");
}

/* ---- Lines ---- */

/* A line, cut to the terminal; a text without escapes. */
static void line(struct demo_screen *s, enum color color, const char *format, ...) PR_PRINTF(3, 4);

static void line(struct demo_screen *s, enum color color, const char *format, ...)
{
    char text[512];
    struct buf clean;
    va_list args;

    if (s->lines + 1 >= s->height)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    buf_init(&clean, sizeof(text) * 4);
    text_clean(&clean, slice_from(text), false);
    buf_add_cstr(&s->out, color_on(color, s->color));
    buf_add_slice(&s->out, utf8_cut(buf_slice(&clean), s->width));
    buf_add_cstr(&s->out, color_off(color, s->color));
    buf_add_cstr(&s->out, "\033[K\r\n");
    buf_fini(&clean);
    s->lines++;
}

/* A word in its own colour within the current line. */
static void piece(struct demo_screen *s, enum color color, const char *format, ...) PR_PRINTF(3, 4);

static void piece(struct demo_screen *s, enum color color, const char *format, ...)
{
    char text[128];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pr_slice fits = utf8_cut(slice_from(text), s->width - min_size(s->column, s->width));
    s->column += text_width(fits);
    buf_addf(&s->out, "%s%.*s%s", color_on(color, s->color), SLICE_ARGS(fits), color_off(color, s->color));
}

static void end_line(struct demo_screen *s)
{
    buf_add_cstr(&s->out, "\033[K\r\n");
    s->column = 0;
    s->lines++;
}

static void draw_head(struct demo_screen *s, const struct demo *d)
{
    int64_t seconds = (d->now_us - d->start_us) / 1000000;

    piece(s, COLOR_BOLD, " Postrider");
    piece(s, COLOR_NONE, "  %02d:%02d  %-*.*s", (int)(seconds / 60), (int)(seconds % 60),
          (int)max_size(s->width, 60) - 40, (int)max_size(s->width, 60) - 40, d->path);
    piece(s, COLOR_DIM, "Ctrl-C ends the tour");
    end_line(s);
    end_line(s);
}

static void draw_counts(struct demo_screen *s, const struct demo *d)
{
    const struct box_counts *c = &d->counts;

    piece(s, COLOR_NONE, " stored ");
    piece(s, COLOR_BOLD, "%-5" PRIu64, d->stored);
    piece(s, COLOR_NONE, " delivered ");
    piece(s, COLOR_GREEN, "%-5" PRIu64, c->done);
    piece(s, COLOR_NONE, " waiting ");
    piece(s, COLOR_BOLD, "%-3" PRIu64, c->ready + c->in_flight + c->delayed);
    piece(s, COLOR_NONE, " retrying ");
    piece(s, c->retrying > 0 ? COLOR_YELLOW : COLOR_DIM, "%-3" PRIu64, c->retrying);
    piece(s, COLOR_NONE, " held ");
    piece(s, c->held > 0 ? COLOR_YELLOW : COLOR_DIM, "%-3" PRIu64, c->held);
    piece(s, COLOR_NONE, " dead ");
    piece(s, c->dead > 0 ? COLOR_RED : COLOR_DIM, "%" PRIu64, c->dead);
    end_line(s);
    end_line(s);
}

static void draw_endpoint(struct demo_screen *s, const struct demo_endpoint *e)
{
    bool closed = strcmp(e->breaker, "closed") == 0;
    unsigned cells = (unsigned)min_size(e->waiting, BAR_CELLS);

    piece(s, COLOR_BOLD, " %-9s", e->name);
    piece(s, closed ? COLOR_GREEN : COLOR_RED, "%-10s",
          closed                  ? "active"
          : e->breaker[0] == '\0' ? "starting"
                                  : "failing");
    piece(s, COLOR_NONE, "%6" PRIu64, e->sent);
    piece(s, e->failed > 0 ? COLOR_YELLOW : COLOR_DIM, "%8" PRIu64, e->failed);
    piece(s, e->dead > 0 ? COLOR_RED : COLOR_DIM, "%6" PRIu64, e->dead);
    piece(s, COLOR_NONE, "  ");
    for (unsigned i = 0; i < BAR_CELLS; i++)
        piece(s, i < cells ? COLOR_YELLOW : COLOR_DIM, "%s", i < cells ? "\xe2\x96\xa0" : "\xc2\xb7");
    if (s->width >= 76)
        piece(s, COLOR_DIM, "  %.*s", (int)s->width - 57, e->what);
    end_line(s);
}

static void draw_list(struct demo_screen *s, enum color color, const char *title, const struct demo_ring *ring,
                      size_t rows, const char *nothing)
{
    line(s, color, " %s", title);
    for (size_t i = 0; i < rows; i++) {
        const struct demo_line *l = demo_ring_get(ring, i);
        time_t seconds = l != NULL ? (time_t)(l->at_us / 1000000) : 0;
        struct tm local;

        if (l != NULL && localtime_r(&seconds, &local) != NULL)
            line(s, COLOR_NONE, "  %02d:%02d:%02d  %s", local.tm_hour, local.tm_min, local.tm_sec, l->text);
        else
            line(s, COLOR_DIM, "  %s", i == 0 ? nothing : "");
    }
}

void demo_screen_draw(const struct demo *d)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    struct demo_screen s = { .width = known ? size.ws_col : 80,
                             .height = known ? size.ws_row : 24,
                             .color = d->cli->color };
    size_t rows = s.height > FIXED_LINES + 6 ? s.height - FIXED_LINES - 1 : 6; /* for the three lists */

    buf_init(&s.out, SCREEN_BYTES_MAX);
    buf_add_cstr(&s.out, "\033[H");
    draw_head(&s, d);
    draw_counts(&s, d);
    line(&s, COLOR_DIM, " ENDPOINT STATE       SENT  FAILED  DIED  WAITING");
    for (size_t i = 0; i < DEMO_ENDPOINTS; i++)
        draw_endpoint(&s, &d->endpoints[i]);
    end_line(&s);
    draw_list(&s, COLOR_GREEN, "DELIVERED", &d->sent, rows - rows / 3 - rows / 4, "nothing yet");
    draw_list(&s, COLOR_YELLOW, "FAILED, AND WHY", &d->failed, rows / 3, "nothing yet");
    draw_list(&s, COLOR_RED, "DEAD", &d->dead, rows / 4, "nobody yet");
    buf_addf(&s.out, "\033[J%s %.*s%s", color_on(COLOR_BOLD, s.color), (int)s.width - 2, d->now_text,
             color_off(COLOR_BOLD, s.color));
    pr_slice text = buf_slice(&s.out);
    if (write(STDOUT_FILENO, text.data, text.size) < 0)
        s.lines = 0; /* the terminal is gone; its signal follows */
    buf_fini(&s.out);
}

/* ---- At the end ---- */

static void summary_dead(struct demo *d)
{
    struct query query = { .kind = QUERY_DEAD, .filter = { .state = -1, .limit = 8 } };
    struct query_reply reply;
    struct pr_error err;
    char id[PR_ID_TEXT_SIZE] = "ID";

    if (store_query(&d->cli->store, &query, &d->cli->arena, &reply, &err) != PR_OK)
        return;
    for (size_t i = 0; i < reply.listed_count; i++) {
        const struct listed *l = &reply.listed[i];
        pr_slice why = message_was_poison(l) ? PR_STR("killed the process each time it was sent") : l->m.error;

        pr_id_format(l->m.id, id);
        printf("            %s  %.*s: %.*s\n", id, SLICE_ARGS(l->m.type), SLICE_ARGS(why));
    }
    const char *program = program_invocation_name; /* for ./dev run: it is not in the PATH */
    printf("\nLook around:\n"
           "  %s status    --store sqlite:%s\n"
           "  %s dead list --store sqlite:%s\n"
           "  %s why %s --store sqlite:%s\n",
           program, d->path, program, d->path, program, id, d->path);
}

void demo_summary(struct demo *d)
{
    const struct box_counts *c = &d->counts;
    uint64_t failed = 0;
    uint64_t waits = c->ready + c->in_flight + c->delayed + c->retrying + c->held + c->parked + c->paused;

    for (size_t i = 0; i < DEMO_ENDPOINTS; i++)
        failed += d->endpoints[i].failed;
    printf("What happened in %lld seconds:\n\n", (long long)((d->now_us - d->start_us) / 1000000));
    printf("  stored    %5" PRIu64 "   messages\n", d->stored);
    printf("  delivered %5" PRIu64 "   in order per stream, each at least once\n", c->done);
    printf("  failed    %5" PRIu64 "   attempts; each was retried later\n", failed);
    printf("  crashed   %5u   times: one message killed the process, which was restarted\n", d->crashes);
    printf("  waiting   %5" PRIu64 "   still in the box, delivered at the next start\n", waits);
    if (c->done <= COUNT_EXACT_MAX)
        printf("  lost      %5" PRId64 "\n", (int64_t)(d->stored - c->done - waits - c->dead));
    printf("  dead      %5" PRIu64 "\n", c->dead);
    summary_dead(d);
}
