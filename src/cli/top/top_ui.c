/* The effect of keys.  Nothing is changed in the store from here: orders are returned to the caller. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "cli/top/top.h"

/* ---- Rows ---- */

static uint64_t row_hash(const struct top_view *v, enum pane pane, size_t i)
{
    if (pane == PANE_ENDPOINTS)
        return hash_slice(1, v->endpoints[i].name) | 1;
    if (pane == PANE_GROUPS)
        return hash_slice(2, v->groups[i].fingerprint) | 1;
    const struct stream_info *s = &v->streams[i];
    return hash_slice(hash_slice(hash_slice(3, s->box), s->endpoint), s->stream) | 1;
}

static size_t pane_size(const struct top_view *v, enum pane pane)
{
    return pane == PANE_ENDPOINTS ? v->endpoint_count : pane == PANE_GROUPS ? v->group_count : v->stream_count;
}

/* Ignores case. */
static bool has(pr_slice text, const char *part)
{
    size_t size = strlen(part);

    for (size_t i = 0; i + size <= text.size; i++)
        if (strncasecmp(text.data + i, part, size) == 0)
            return true;
    return false;
}

static bool endpoint_has(const struct view_endpoint *e, const char *part)
{
    return has(e->name, part) || has(e->why, part);
}

static bool group_has(const struct dead_group *g, const char *part)
{
    return has(g->endpoint, part) || has(g->type, part) || has(g->error, part);
}

static bool stream_has(const struct stream_info *s, const char *part)
{
    return has(s->stream, part) || has(s->endpoint, part) || has(s->error, part);
}

static bool passes(const char *filter, const struct top_view *v, enum pane pane, size_t i)
{
    return pane == PANE_ENDPOINTS ? endpoint_has(&v->endpoints[i], filter)
           : pane == PANE_GROUPS  ? group_has(&v->groups[i], filter)
                                  : stream_has(&v->streams[i], filter);
}

void ui_rows(const struct ui *ui, const struct top_view *v, enum pane pane, struct pane_rows *ret)
{
    ret->count = 0;
    for (size_t i = 0; v != NULL && i < min_size(pane_size(v, pane), VIEW_ROWS_MAX); i++)
        if (ui->filter[0] == '\0' || passes(ui->filter, v, pane, i))
            ret->index[ret->count++] = i;
}

void ui_settle(struct ui *ui, const struct top_view *v)
{
    for (int pane = 0; pane < PANE_COUNT; pane++) {
        struct pane_rows rows;

        ui_rows(ui, v, (enum pane)pane, &rows);
        for (size_t i = 0; i < rows.count && ui->chosen[pane] != 0; i++)
            if (row_hash(v, (enum pane)pane, rows.index[i]) == ui->chosen[pane])
                ui->cursor[pane] = i;
        ui->cursor[pane] = min_size(ui->cursor[pane], rows.count > 0 ? rows.count - 1 : 0);
    }
}

/* False: there is no row under the cursor. */
static bool under_cursor(const struct ui *ui, const struct top_view *v, size_t *ret)
{
    struct pane_rows rows;

    ui_rows(ui, v, ui->pane, &rows);
    if (ui->cursor[ui->pane] >= rows.count)
        return false;
    *ret = rows.index[ui->cursor[ui->pane]];
    return true;
}

/* From now on the cursor stays with this row. */
static void choose(struct ui *ui, const struct top_view *v)
{
    size_t i;

    if (under_cursor(ui, v, &i))
        ui->chosen[ui->pane] = row_hash(v, ui->pane, i);
}

static void move_cursor(struct ui *ui, const struct top_view *v, int32_t key, size_t page)
{
    struct pane_rows rows;
    size_t *cursor = &ui->cursor[ui->pane];

    ui_rows(ui, v, ui->pane, &rows);
    size_t last = rows.count > 0 ? rows.count - 1 : 0;
    switch (key) {
    case KEY_UP: *cursor -= *cursor > 0; break;
    case KEY_DOWN: *cursor += 1; break;
    case KEY_PAGE_UP: *cursor -= min_size(*cursor, page); break;
    case KEY_PAGE_DOWN: *cursor += page; break;
    case KEY_HOME: *cursor = 0; break;
    default: *cursor = last;
    }
    *cursor = min_size(*cursor, last);
    choose(ui, v);
    if (key == KEY_HOME)
        ui->chosen[ui->pane] = 0; /* the worst row, whichever it is */
}

/* ---- Words ---- */

void ui_say(struct ui *ui, bool bad, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ui->notice, sizeof(ui->notice), format, args);
    va_end(args);
    ui->notice_is_bad = bad;
}

static bool set_name(char *ret, pr_slice name)
{
    if (name.size > ORDER_NAME_MAX || (name.size > 0 && memchr(name.data, '\0', name.size) != NULL))
        return false;
    (void)snprintf(ret, ORDER_NAME_MAX + 1, "%.*s", SLICE_ARGS(name));
    return true;
}

static void ask(struct ui *ui, const char *format, ...) PR_PRINTF(2, 3);

static void ask(struct ui *ui, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ui->question, sizeof(ui->question), format, args);
    va_end(args);
    ui->before = ui->mode;
    ui->mode = MODE_ASK;
}

/* ---- Orders ---- */

static pr_slice endpoint_of(const struct ui *ui, const struct top_view *v, size_t i)
{
    return ui->pane == PANE_ENDPOINTS ? v->endpoints[i].name
           : ui->pane == PANE_GROUPS  ? v->groups[i].endpoint
                                      : v->streams[i].endpoint;
}

static void begin_pause(struct ui *ui, const struct top_view *v, bool pause)
{
    struct order order = { .kind = pause ? ORDER_PAUSE : ORDER_RESUME };
    size_t i;

    if (!under_cursor(ui, v, &i)) {
        ui_say(ui, true, "nothing is selected here");
        return;
    }
    pr_slice name = endpoint_of(ui, v, i);
    if (name.size == 0 || !set_name(order.name, name)) {
        ui_say(ui, true, "this row has no endpoint");
        return;
    }
    ui->order = order;
    if (pause)
        ask(ui, "Pause %.200s until resumed?", order.name);
    else
        ask(ui, "Resume %.200s, now?", order.name);
}

static void retry_group(struct ui *ui, const struct dead_group *g)
{
    struct order order = { .kind = ORDER_REPLAY_GROUP };

    if (g->fingerprint.size == 0 || !set_name(order.name, g->fingerprint)) {
        ui_say(ui, true, "this group has no fingerprint");
        return;
    }
    ui->order = order;
    if (g->count > COUNT_EXACT_MAX)
        ask(ui, "Replay more than %d dead letters of this group (%.60s)?", COUNT_EXACT_MAX, order.name);
    else
        ask(ui, "Replay %llu dead %s of this group (%.60s)?", (unsigned long long)g->count,
            g->count == 1 ? "letter" : "letters", order.name);
}

static void retry_head(struct ui *ui, const struct stream_info *s)
{
    bool dead = s->head_state == STATE_DEAD;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(s->head, id);
    ui->order = (struct order){ .kind = dead ? ORDER_REPLAY : ORDER_RETRY, .id = s->head };
    ask(ui, "%s %s, the message that blocks stream %.*s?", dead ? "Replay" : "Retry", id,
        SLICE_ARGS(utf8_cut_bytes(s->stream, 200)));
}

static void begin_retry(struct ui *ui, const struct top_view *v)
{
    size_t i;

    if (ui->pane == PANE_ENDPOINTS)
        ui_say(ui, true, "t retries a failing group or the head of a blocked stream; tab moves there");
    else if (!under_cursor(ui, v, &i))
        ui_say(ui, true, "nothing is selected here");
    else if (ui->pane == PANE_GROUPS)
        retry_group(ui, &v->groups[i]);
    else
        retry_head(ui, &v->streams[i]);
}

static enum ui_request begin_open(struct ui *ui, const struct top_view *v)
{
    size_t i;

    if (!under_cursor(ui, v, &i)) {
        ui_say(ui, true, "nothing is selected here");
        return UI_NOTHING;
    }
    choose(ui, v); /* so that keys refer to what is shown */
    ui->opened = ui->pane == PANE_GROUPS    ? v->groups[i].sample
                 : ui->pane == PANE_STREAMS ? v->streams[i].head
                                            : (pr_id){ { 0 } };
    if (!set_name(ui->opened_name, endpoint_of(ui, v, i))) {
        ui_say(ui, true, "its name is too long");
        return UI_NOTHING;
    }
    ui->mode = MODE_OPENED;
    ui->scroll = 0;
    ui->text = NULL;
    return UI_OPEN;
}

/* ---- Keys ---- */

static enum ui_request key_in_question(struct ui *ui, int32_t key)
{
    if (key != 'y' && key != 'Y' && key != 'n' && key != 'N' && key != KEY_ESCAPE && key != 'q')
        return UI_NOTHING;
    ui->mode = ui->before;
    if (key == 'y' || key == 'Y')
        return UI_ORDER;
    ui_say(ui, false, "nothing was changed");
    return UI_NOTHING;
}

static void filter_add(struct ui *ui, int32_t key)
{
    size_t size = strlen(ui->filter);

    if (key >= ' ' && key < 0x7f && size < FILTER_TEXT_MAX) {
        ui->filter[size] = (char)key;
        ui->filter[size + 1] = '\0';
    }
}

static void key_in_filter(struct ui *ui, const struct top_view *v, int32_t key)
{
    size_t size = strlen(ui->filter);

    if (key == KEY_ENTER)
        ui->mode = MODE_LISTS;
    else if (key == KEY_ESCAPE) {
        ui->mode = MODE_LISTS;
        ui->filter[0] = '\0';
    } else if (key == KEY_BACKSPACE && size > 0)
        ui->filter[size - 1] = '\0';
    else
        filter_add(ui, key);
    ui_settle(ui, v);
}

/* While a text is shown: help, or an opened item. */
static enum ui_request key_in_text(struct ui *ui, const struct top_view *v, int32_t key, size_t page)
{
    switch (key) {
    case KEY_UP: ui->scroll -= ui->scroll > 0; break;
    case KEY_DOWN: ui->scroll++; break;
    case KEY_PAGE_UP: ui->scroll -= min_size(ui->scroll, page); break;
    case ' ':
    case KEY_PAGE_DOWN: ui->scroll += page; break;
    case KEY_HOME: ui->scroll = 0; break;
    case KEY_END: ui->scroll = SIZE_MAX / 2; break;
    case KEY_ESCAPE:
    case KEY_BACKSPACE:
    case 'q':
        ui->mode = ui->mode == MODE_HELP ? ui->before : MODE_LISTS;
        ui->scroll = 0;
        break;
    default:
        if (ui->mode == MODE_HELP)
            return UI_NOTHING;
        if (key == 'p' || key == 'r')
            begin_pause(ui, v, key == 'p');
        else if (key == 't')
            begin_retry(ui, v);
    }
    return UI_NOTHING;
}

static enum ui_request key_in_lists(struct ui *ui, const struct top_view *v, int32_t key, size_t page)
{
    switch (key) {
    case 'q': return UI_QUIT;
    case KEY_TAB: ui->pane = (enum pane)((ui->pane + 1) % PANE_COUNT); break;
    case KEY_BACK_TAB: ui->pane = (enum pane)((ui->pane + PANE_COUNT - 1) % PANE_COUNT); break;
    case 'p':
    case 'r': begin_pause(ui, v, key == 'p'); break;
    case 't': begin_retry(ui, v); break;
    case '/': ui->mode = MODE_FILTER; break;
    case KEY_ENTER: return begin_open(ui, v);
    case KEY_ESCAPE:
        ui->filter[0] = '\0';
        ui_settle(ui, v);
        break;
    case '?':
        ui->before = MODE_LISTS;
        ui->mode = MODE_HELP;
        ui->scroll = 0;
        break;
    default:
        if (key >= KEY_UP && key <= KEY_END)
            move_cursor(ui, v, key, page);
    }
    return UI_NOTHING;
}

enum ui_request ui_key(struct ui *ui, const struct top_view *v, int32_t key, size_t page)
{
    if (key == 0x03) /* Ctrl-C */
        return UI_QUIT;
    if (key == 0x1a)
        return UI_STOP;
    if (key == KEY_NONE)
        return UI_NOTHING;
    ui->notice[0] = '\0';
    if (ui->mode == MODE_FILTER) {
        key_in_filter(ui, v, key);
        return UI_NOTHING;
    }
    if (ui->mode == MODE_ASK)
        return key_in_question(ui, key);
    if (key == 'j' || key == 'k')
        key = key == 'j' ? KEY_DOWN : KEY_UP;
    if (ui->mode == MODE_LISTS)
        return key_in_lists(ui, v, key, page);
    return key_in_text(ui, v, key, page);
}

/* ---- What terminals send ---- */

static const struct {
    const char *bytes; /* after the escape */
    int32_t key;
} sequences[] = {
    { "[A", KEY_UP },         { "[B", KEY_DOWN }, { "OA", KEY_UP },       { "OB", KEY_DOWN }, { "[5~", KEY_PAGE_UP },
    { "[6~", KEY_PAGE_DOWN }, { "[H", KEY_HOME }, { "[F", KEY_END },      { "OH", KEY_HOME }, { "OF", KEY_END },
    { "[1~", KEY_HOME },      { "[4~", KEY_END }, { "[Z", KEY_BACK_TAB },
};

/* The length of a sequence after an escape; 0: incomplete. */
static size_t sequence_size(pr_slice rest)
{
    if (rest.size == 0)
        return 0;
    if (rest.data[0] == 'O')
        return rest.size > 1 ? 2 : 0;
    if (rest.data[0] != '[')
        return 1; /* Alt and a key */
    for (size_t i = 1; i < rest.size; i++)
        if (rest.data[i] >= 0x40 && rest.data[i] <= 0x7e)
            return i + 1;
    return 0;
}

static size_t decode_escape(pr_slice bytes, bool whole, int32_t *ret_key)
{
    pr_slice rest = { bytes.data + 1, bytes.size - 1 };
    size_t size = sequence_size(rest);

    if (size == 0 && !whole)
        return 0;
    *ret_key = rest.size == 0 ? KEY_ESCAPE : KEY_NONE;
    for (size_t i = 0; i < ARRAY_LENGTH(sequences); i++)
        if (slice_eq_cstr((pr_slice){ rest.data, size }, sequences[i].bytes))
            *ret_key = sequences[i].key;
    return 1 + (size > 0 ? size : rest.size);
}

size_t key_decode(pr_slice bytes, bool whole, int32_t *ret_key)
{
    int32_t code;

    if (bytes.data[0] == 0x1b)
        return decode_escape(bytes, whole, ret_key);
    size_t size = utf8_next(bytes, &code);
    switch (code) {
    case '\t': *ret_key = KEY_TAB; break;
    case '\r':
    case '\n': *ret_key = KEY_ENTER; break;
    case 0x08:
    case 0x7f: *ret_key = KEY_BACKSPACE; break;
    default: *ret_key = code < 0 ? KEY_NONE : code;
    }
    return size;
}
