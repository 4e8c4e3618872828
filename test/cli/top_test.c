/* The live view without a terminal: facts from a store, keys, pictures. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/time.h"
#include "check.h"
#include "cli/top/top.h"

#define NOW (INT64_C(1700000000) * 1000000) /* 2023-11-14 22:13:20 UTC */

/* ---- A view by hand ---- */

static struct view_endpoint endpoints[VIEW_ROWS_MAX];
static struct dead_group groups[4];
static struct stream_info streams[4];
static struct box_counts boxes[2];

static struct top_view well(void)
{
    endpoints[0] = (struct view_endpoint){
        .name = PR_STR("billing"), .state = VIEW_SENDS, .sent = 1204, .why = PR_STR(""), .rates = { true, 12.4, 0, 0 }
    };
    endpoints[1] = endpoints[0];
    endpoints[1].name = PR_STR("orders");
    endpoints[1].rates.sent = 0;
    boxes[0] = (struct box_counts){ .name = PR_STR("inbox") };
    boxes[1] = (struct box_counts){ .name = PR_STR("outbox") };
    return (struct top_view){ .now_us = NOW,
                              .mono_us = 1,
                              .boxes = boxes,
                              .box_count = 2,
                              .endpoints = endpoints,
                              .endpoint_count = 2,
                              .total_count = 2,
                              .groups = groups,
                              .streams = streams,
                              .instance_count = 1,
                              .backlog_exact = true,
                              .dead_exact = true,
                              .rates = { true, 12.4, 0, 0 } };
}

static struct top_view troubled(void)
{
    struct top_view v = well();

    endpoints[0].state = VIEW_OPEN;
    endpoints[0].until_us = NOW + PR_SECONDS(12);
    endpoints[0].why = PR_STR("transport_unavailable: connection refused");
    endpoints[0].rates = (struct view_rates){ true, 0, 0.4, 0 };
    endpoints[0].failed = 33;
    endpoints[0].dead = 2;
    endpoints[2] = endpoints[1];
    endpoints[2].rates.sent = 1204.4;
    endpoints[2].sent = 4512345;
    endpoints[1] = (struct view_endpoint){ .name = PR_STR("audit"),
                                           .state = VIEW_PAUSED,
                                           .until_us = PR_NEVER,
                                           .why = PR_STR("by ann: they migrate"),
                                           .rates = { .known = true } };
    v.endpoint_count = v.total_count = 3;
    v.open_count = v.paused_count = 1;
    boxes[1] = (struct box_counts){ .name = PR_STR("outbox"),
                                    .ready = COUNT_EXACT_MAX + 1,
                                    .in_flight = 50,
                                    .retrying = 3,
                                    .held = 120,
                                    .dead = 12,
                                    .oldest_us = NOW - PR_SECONDS(192) };
    v.backlog = 10173;
    v.backlog_exact = false;
    v.in_flight = 50;
    v.oldest_us = boxes[1].oldest_us;
    v.dead = 12;
    v.rates = (struct view_rates){ true, 1204.4, 0.4, 0 };
    groups[0] = (struct dead_group){ .fingerprint = PR_STR("5f1c2ab09d3e7746"),
                                     .count = 12,
                                     .first_us = NOW - PR_SECONDS(7200),
                                     .last_us = NOW - PR_SECONDS(65),
                                     .endpoint = PR_STR("orders"),
                                     .type = PR_STR("invoice.created"),
                                     .reason = PR_REASON_REJECTED,
                                     .error = PR_STR("no such customer"),
                                     .sample = { { 7 } } };
    v.group_count = 1;
    streams[0] = (struct stream_info){ .box = PR_STR("outbox"),
                                       .stream = PR_STR("order-7"),
                                       .endpoint = PR_STR("billing"),
                                       .head = { { 8 } },
                                       .head_state = STATE_RETRYING,
                                       .reason = PR_REASON_TIMEOUT_EXCEEDED,
                                       .since_us = NOW - PR_SECONDS(192),
                                       .due_us = NOW + PR_SECONDS(48),
                                       .waiting = 119 };
    streams[1] = streams[0];
    streams[1].stream = PR_STR("order-9");
    streams[1].head = (pr_id){ { 9 } };
    streams[1].head_state = STATE_DEAD;
    streams[1].due_us = PR_NEVER;
    streams[1].waiting = 1;
    v.stream_count = 2;
    return v;
}

/* ---- Pictures ---- */

static void draw(struct screen *s, const struct top_view *v, struct ui *ui, size_t width, size_t height)
{
    const struct top_frame frame = { .view = v, .source = "sqlite:shop.db", .now_us = NOW };

    CHECK_EQ(setenv("TZ", "UTC", 1), 0);
    tzset();
    CHECK_EQ(screen_init(s, width, height), PR_OK);
    top_draw(s, &frame, ui);
}

static pr_slice row_text(const struct screen *s, size_t row, char *text, size_t size)
{
    struct buf b;

    buf_init(&b, size);
    screen_row_text(s, row, &b);
    size_t n = buf_slice(&b).size;
    memcpy(text, buf_slice(&b).data, n);
    buf_fini(&b);
    return (pr_slice){ text, n };
}

/* Row by row; below the last expected row all is empty, but for the last line. */
static void check_screen(const struct top_view *v, struct ui *ui, size_t width, size_t height,
                         const char *const *expected, const char *last)
{
    char text[8192];
    bool ended = false;
    struct screen s;

    draw(&s, v, ui, width, height);
    for (size_t row = 0; row + 1 < height; row++) {
        ended = ended || expected[row] == NULL;
        CHECK_SLICE(row_text(&s, row, text, sizeof(text)), ended ? "" : expected[row]);
    }
    CHECK_SLICE(row_text(&s, height - 1, text, sizeof(text)), last);
    screen_fini(&s);
}

#define HINTS " p pause  r resume  t retry  enter open  tab next list  / filter  ? help  q quit"

TEST(a_picture_says_that_all_is_well)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db                                         22:13:20",
        " All is well: 2 endpoints are active, nothing waits, nothing is blocked or dead.",
        " sent 12/s   backlog 0   oldest -   failed 0/s   dead 0/s   in flight 0",
        "",
        " ENDPOINTS 2           STATE           SENT/S  FAILED/S    SENT  FAILED    DIED",
        ">billing               active              12         0   1,204       0       0",
        " orders                active               0         0   1,204       0       0",
        "",
        " FAILING GROUPS 0",
        " no dead letters",
        "",
        " BLOCKED STREAMS 0",
        " no stream is blocked",
        NULL,
    };
    struct top_view v = well();
    struct ui ui = { 0 };

    check_screen(&v, &ui, 80, 24, expected, HINTS);
}

TEST(parked_messages_are_told)
{
    struct top_view v = well();
    struct ui ui = { 0 };
    struct screen s;
    char text[512];

    boxes[1].parked = 3;
    draw(&s, &v, &ui, 80, 24);
    CHECK_SLICE(row_text(&s, 1, text, sizeof(text)), " 3 messages are parked (postrider list --state parked)");
    screen_fini(&s);
}

TEST(a_picture_has_the_worst_first)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db                                         22:13:20",
        " billing: failing, not sending until 22:13:32 (circuit breaker); endpoint audit",
        " is paused; 2 streams are blocked, 120 messages wait behind; 12 dead letters",
        " sent 1,204/s   backlog 10,173+   oldest 3m 12s   failed 0.4/s   dead 0/s",
        "",
        " BOX             READY  IN-FLIGHT  RETRYING     HELD     DEAD   PAUSED   OLDEST",
        " outbox        10,000+         50         3      120       12        0   3m 12s",
        "",
        " ENDPOINTS 3           STATE                  SENT/S  FAILED/S  WHY",
        ">billing               failing, probe in 12s       0       0.4  transport_unava…",
        " audit                 paused until resumed        0         0  by ann: they mi…",
        " orders                active                  1,204         0",
        "",
        " FAILING GROUPS 1      TYPE                DEAD   LATEST  WHY",
        " orders                invoice.created       12    1m 5s  rejected: no such cus…",
        "",
        " BLOCKED STREAMS 2     HEAD      WAITING    SINCE  WHY",
        " order-7               retrying      119   3m 12s  timeout_exceeded",
        " order-9               dead            1   3m 12s  timeout_exceeded",
        NULL,
    };
    struct top_view v = troubled();
    struct ui ui = { 0 };

    check_screen(&v, &ui, 80, 24, expected, HINTS);
}

TEST(a_small_terminal_shows_the_list_with_the_cursor)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db 22:13:20",
        " billing: failing, not sending until 22…",
        " sent 1,204/s   backlog 10,173+",
        " BLOCKED STREAMS 2     WAITING    SINCE",
        " order-7                   119   3m 12s",
        ">order-9                     1   3m 12s",
        NULL,
    };
    struct top_view v = troubled();
    struct ui ui = { .pane = PANE_STREAMS, .cursor[PANE_STREAMS] = 1 };

    check_screen(&v, &ui, 40, 10, expected, " p pause  r resume  t retry  enter open…");
}

TEST(a_large_terminal_shows_every_column)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db                                                                        "
        "          "
        "                                                                               22:13:20",
        " billing: failing, not sending until 22:13:32 (circuit breaker); endpoint audit is paused; 2 streams are "
        "blocked, 120 messages wait behind; "
        "12 dead "
        "letters",
        " sent 1,204/s   backlog 10,173+   oldest 3m 12s   failed 0.4/s   dead 0/s   in flight 50   instances "
        "1",
        "",
        " BOX             READY  IN-FLIGHT  RETRYING     HELD     DEAD   PARKED   PAUSED  DELAYED   OLDEST",
        " outbox        10,000+         50         3      120       12        0        0        0   3m 12s",
        "",
        " ENDPOINTS 3           STATE                  SENT/S  FAILED/S    SENT  FAILED    DIED  WHY",
        " billing               failing, probe in 12s       0       0.4   1,204      33       2  "
        "transport_unavailable: "
        "connection refused",
        " audit                 paused until resumed        0         0       0       0       0  by ann: they "
        "migrate",
        " orders                active                  1,204         0    4.5M       0       0",
        "",
        " FAILING GROUPS 1      TYPE                DEAD   LATEST    FIRST  WHY",
        ">orders                invoice.created       12    1m 5s       2h  rejected: no such customer",
        "",
        " BLOCKED STREAMS 2     ENDPOINT      HEAD      WAITING    SINCE     NEXT  WHY",
        " order-7               billing       retrying      119   3m 12s      48s  timeout_exceeded",
        " order-9               billing       dead            1   3m 12s    never  timeout_exceeded",
        NULL,
    };
    struct top_view v = troubled();
    struct ui ui = { .pane = PANE_GROUPS };

    check_screen(&v, &ui, 200, 60, expected, HINTS);
}

TEST(without_endpoints_and_deliverers_it_says_what_to_do)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db                                         22:13:20",
        " no instance is running: start postrider run",
        " sent -/s   backlog 3   oldest -   failed -/s   dead -/s   in flight 0",
        "",
        " ENDPOINTS 0",
        " none yet: add some to the configuration",
        "",
        " FAILING GROUPS 0",
        " no dead letters",
        "",
        " BLOCKED STREAMS 0",
        " no stream is blocked",
        NULL,
    };
    struct top_view v = well();
    struct ui ui = { 0 };

    v.endpoint_count = v.total_count = 0;
    v.instance_count = 0;
    v.backlog = 3;
    v.rates.known = false;
    check_screen(&v, &ui, 80, 24, expected, HINTS);
}

TEST(columns_stand_in_line_also_behind_wide_names)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db                                         22:13:20",
        " All is well: 3 endpoints are active, nothing waits, nothing is blocked or dead.",
        " sent 12/s   backlog 0   oldest -   failed 0/s   dead 0/s   in flight 0",
        "",
        " ENDPOINTS 3                       STATE           SENT/S  FAILED/S    DIED",
        ">請求書と注文と配達の確認を送る…   active              12         0       0",
        " cafe\xcc\x81-\xf0\x9f\x93\xa6                           active               0         0       0",
        " a\xef\xbf\xbd[31mb c\xef\xbf\xbd\xef\xbf\xbd"
        "d\xef\xbf\xbd                     active               0         0       0",
        "",
        " FAILING GROUPS 0",
        " no dead letters",
        "",
        " BLOCKED STREAMS 0",
        " no stream is blocked",
        NULL,
    };
    struct top_view v = well();
    struct ui ui = { 0 };

    endpoints[2] = endpoints[1];
    endpoints[0].name = PR_STR("請求書と注文と配達の確認を送る所です");
    endpoints[1].name = PR_STR("cafe\xcc\x81-\xf0\x9f\x93\xa6");
    endpoints[2].name = PR_STR("a\x1b[31mb\nc\x9b\xe2\x80\xae"
                               "d\x7f"); /* ESC, newline, CSI, right-to-left, DEL */
    v.endpoint_count = v.total_count = 3;
    check_screen(&v, &ui, 80, 24, expected, HINTS);
}

/* Whatever others write, and whatever the terminal's size is: no cell can steer it. */
TEST(no_cell_ever_holds_a_control_character)
{
    static char noise[600];
    struct top_view v = troubled();
    struct ui ui = { 0 };

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)(i * 7 % 256);
    pr_slice hostile = { noise, sizeof(noise) };
    endpoints[0].name = endpoints[0].why = groups[0].error = groups[0].type = streams[0].stream = boxes[1].name =
        hostile;
    for (size_t size = 1; size < 130; size += 3) {
        struct screen s;

        ui.mode = size % 2 == 0 ? MODE_LISTS : MODE_OPENED;
        ui.text = "a \x1b[2J text\twith\x07 bells that is so long that it is wrapped somewhere, or anywhere\n\n\x1b";
        draw(&s, &v, &ui, size, size / 2 + 1);
        for (size_t i = 0; i < s.width * s.height; i++)
            for (size_t k = 0; k < s.cells[i].size; k++)
                CHECK((unsigned char)s.cells[i].text[k] >= ' ' && s.cells[i].text[k] != 0x7f);
        screen_fini(&s);
    }
}

TEST(a_wide_character_is_never_cut_in_half)
{
    struct screen s;
    char text[64];

    CHECK_EQ(screen_init(&s, 6, 1), PR_OK);
    CHECK_EQ(screen_put(&s, 0, 0, 4, COLOR_NONE, PR_STR("日本語")), 3); /* one, and the ellipsis */
    CHECK_SLICE(row_text(&s, 0, text, sizeof(text)), "日…");
    CHECK_EQ(screen_put(&s, 0, 0, 6, COLOR_NONE, PR_STR("日本語")), 6);
    CHECK_SLICE(row_text(&s, 0, text, sizeof(text)), "日本語");
    CHECK_EQ(screen_put(&s, 0, 5, 9, COLOR_NONE, PR_STR("日")), 1); /* no room at the edge */
    CHECK_EQ(screen_put(&s, 0, 6, 9, COLOR_NONE, PR_STR("x")), 0);
    CHECK_EQ(screen_put(&s, 1, 0, 9, COLOR_NONE, PR_STR("x")), 0);
    screen_fini(&s);
}

TEST(numbers_are_for_people)
{
    struct arena a;

    arena_init(&a, 4096);
    CHECK_STR(count_human(&a, 0), "0");
    CHECK_STR(count_human(&a, 999), "999");
    CHECK_STR(count_human(&a, 99999), "99,999");
    CHECK_STR(count_human(&a, 100000), "100k");
    CHECK_STR(count_human(&a, 4512345), "4.5M");
    CHECK_STR(count_human(&a, UINT64_MAX), "18446744073G");
    CHECK_STR(count_bounded(&a, COUNT_EXACT_MAX), "10,000");
    CHECK_STR(count_bounded(&a, COUNT_EXACT_MAX + 1), "10,000+");
    CHECK_STR(rate_human(&a, false, 5), "-");
    CHECK_STR(rate_human(&a, true, 0), "0");
    CHECK_STR(rate_human(&a, true, 0.01), "<0.1");
    CHECK_STR(rate_human(&a, true, 9.94), "9.9");
    CHECK_STR(rate_human(&a, true, 9.96), "10");
    CHECK_STR(rate_human(&a, true, 12345.6), "12,346");
    arena_fini(&a);
}

/* ---- Keys ---- */

TEST(keys_come_as_bytes)
{
    static const struct {
        const char *bytes;
        bool whole;
        size_t used;
        int32_t key;
    } cases[] = {
        { "q", false, 1, 'q' },
        { "\x1b[A", false, 3, KEY_UP },
        { "\x1bOB", false, 3, KEY_DOWN },
        { "\x1b[6~x", false, 4, KEY_PAGE_DOWN },
        { "\x1b[Z", false, 3, KEY_BACK_TAB },
        { "\x1b", false, 0, KEY_NONE }, /* the rest may follow */
        { "\x1b", true, 1, KEY_ESCAPE },
        { "\x1b[", false, 0, KEY_NONE },
        { "\x1b[1;5A", false, 6, KEY_NONE }, /* Ctrl and up: not ours */
        { "\x1bx", false, 2, KEY_NONE },
        { "\t", false, 1, KEY_TAB },
        { "\r", false, 1, KEY_ENTER },
        { "\x7f", false, 1, KEY_BACKSPACE },
        { "\xc3\xa9", false, 2, 0xe9 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int32_t key = KEY_NONE;

        CHECK_EQ(key_decode(slice_from(cases[i].bytes), cases[i].whole, &key), cases[i].used);
        CHECK_EQ(key, cases[i].key);
    }
}

static enum ui_request press(struct ui *ui, const struct top_view *v, const char *keys)
{
    enum ui_request request = UI_NOTHING;

    for (const char *k = keys; *k != '\0'; k++)
        request = ui_key(ui, v, *k == '\t' ? KEY_TAB : *k == '\r' ? KEY_ENTER : *k == '!' ? KEY_ESCAPE : *k, 10);
    return request;
}

TEST(every_change_asks_first)
{
    static const struct {
        const char *keys, *question;
        enum order_kind kind;
        const char *name;
        unsigned char id;
    } cases[] = {
        { "p", "Pause billing until resumed?", ORDER_PAUSE, "billing", 0 },
        { "jr", "Resume audit, now?", ORDER_RESUME, "audit", 0 },
        { "\tp", "Pause orders until resumed?", ORDER_PAUSE, "orders", 0 },
        { "\tt", "Replay 12 dead letters of this group (5f1c2ab09d3e7746)?", ORDER_REPLAY_GROUP, "5f1c2ab09d3e7746",
          0 },
        { "\t\tt", "Retry 08000000-0000-0000-0000-000000000000, the message that blocks stream order-7?", ORDER_RETRY,
          "", 8 },
        { "\t\tjt", "Replay 09000000-0000-0000-0000-000000000000, the message that blocks stream order-9?",
          ORDER_REPLAY, "", 9 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct top_view v = troubled();
        struct ui ui = { 0 };

        CHECK_EQ(press(&ui, &v, cases[i].keys), UI_NOTHING);
        CHECK_EQ(ui.mode, MODE_ASK);
        CHECK_STR(ui.question, cases[i].question);
        CHECK_EQ(press(&ui, &v, "x"), UI_NOTHING); /* neither yes nor no: it still asks */
        CHECK_EQ(ui.mode, MODE_ASK);
        CHECK_EQ(press(&ui, &v, "n"), UI_NOTHING);
        CHECK_EQ(ui.mode, MODE_LISTS);
        CHECK_STR(ui.notice, "nothing was changed");
        ui = (struct ui){ 0 };
        (void)press(&ui, &v, cases[i].keys);
        CHECK_EQ(press(&ui, &v, "y"), UI_ORDER);
        CHECK_EQ(ui.order.kind, cases[i].kind);
        CHECK_STR(ui.order.name, cases[i].name);
        CHECK_EQ(ui.order.id.bytes[0], cases[i].id);
    }
}

TEST(the_cursor_stays_on_its_row_and_an_order_on_its_target)
{
    struct top_view v = troubled();
    struct ui ui = { 0 };

    (void)press(&ui, &v, "jp"); /* audit */
    struct view_endpoint moved = endpoints[1];
    endpoints[1] = endpoints[0];
    endpoints[0] = moved;
    ui_settle(&ui, &v);
    CHECK_EQ(ui.cursor[PANE_ENDPOINTS], 0);
    CHECK_EQ(press(&ui, &v, "y"), UI_ORDER);
    CHECK_STR(ui.order.name, "audit");

    ui = (struct ui){ 0 }; /* who has not moved sees the worst, whoever that is */
    endpoints[0] = endpoints[1];
    ui_settle(&ui, &v);
    CHECK_EQ(ui.cursor[PANE_ENDPOINTS], 0);

    (void)press(&ui, &v, "jj");
    v.endpoint_count = 1; /* the others are gone */
    ui_settle(&ui, &v);
    CHECK_EQ(ui.cursor[PANE_ENDPOINTS], 0);
    v.endpoint_count = 0;
    ui_settle(&ui, &v);
    CHECK_EQ(press(&ui, &v, "p"), UI_NOTHING);
    CHECK_STR(ui.notice, "nothing is selected here");
}

TEST(a_filter_shows_rows_with_its_text)
{
    struct top_view v = troubled();
    struct ui ui = { 0 };
    struct pane_rows rows;

    (void)press(&ui, &v, "/ORDER-9\r");
    ui_rows(&ui, &v, PANE_STREAMS, &rows);
    CHECK_EQ(rows.count, 1);
    CHECK_EQ(rows.index[0], 1);
    ui_rows(&ui, &v, PANE_ENDPOINTS, &rows);
    CHECK_EQ(rows.count, 0);
    CHECK_EQ(press(&ui, &v, "\t\t\r"), UI_OPEN);
    CHECK_EQ(ui.opened.bytes[0], 9);
    (void)press(&ui, &v, "!!"); /* close it, show all */
    ui_rows(&ui, &v, PANE_ENDPOINTS, &rows);
    CHECK_EQ(rows.count, 3);
}

TEST(keys_open_and_close)
{
    struct top_view v = troubled();
    struct ui ui = { 0 };

    CHECK_EQ(press(&ui, &v, "\r"), UI_OPEN); /* an endpoint */
    CHECK(pr_id_is_zero(ui.opened));
    CHECK_STR(ui.opened_name, "billing");
    CHECK_EQ(press(&ui, &v, "q"), UI_NOTHING); /* q closes what is open first */
    CHECK_EQ(press(&ui, &v, "\t\r"), UI_OPEN);
    CHECK_EQ(ui.opened.bytes[0], 7);
    CHECK_EQ(press(&ui, &v, "ty"), UI_ORDER); /* what is open can be retried */
    CHECK_EQ(ui.mode, MODE_OPENED);
    CHECK_EQ(press(&ui, &v, "!?"), UI_NOTHING);
    CHECK_EQ(ui.mode, MODE_HELP);
    CHECK_EQ(press(&ui, &v, "!"), UI_NOTHING);
    CHECK_EQ(press(&ui, &v, "q"), UI_QUIT);
    CHECK_EQ(ui_key(&ui, &v, 0x03, 10), UI_QUIT);
}

TEST(a_long_text_scrolls_to_its_end_and_no_further)
{
    static const char *const expected[] = {
        " postrider top  sqlite:shop.db 22:13:20", "", " three", " four", " five", NULL,
    };
    struct top_view v = well();
    struct ui ui = { .mode = MODE_OPENED, .text = "one\ntwo\nthree\nfour\nfive\n" };

    (void)ui_key(&ui, &v, KEY_END, 10);
    check_screen(&v, &ui, 40, 6, expected, " esc back  j k scroll  p pause  r resum…");
    CHECK_EQ(ui.scroll, 2);
}

/* ---- Facts ---- */

static void store_new(const char *url, struct store *ret)
{
    struct pr_error err;
    struct store_options options = { .url = url, .payload_max = 1000 };

    CHECK_OK(store_open(&options, ret, &err), &err);
    CHECK_OK(store_migrate(ret, NULL, 0, &err), &err);
}

static void send(struct store *store, const char *to, pr_id *ret_id)
{
    struct pr_error err;
    struct pr_message m = { .type = PR_STR("t"), .destination = slice_from(to), .payload = PR_STR("{}") };

    CHECK_OK(store_enqueue(store, PR_STR("outbox"), &m, 1, 1000, ret_id, NULL, &err), &err);
}

static void check_view(struct store *store) /* B201 */
{
    struct pr_error err;
    struct top_view *v = view_new();
    pr_id id;
    struct admin dead = { .kind = ADMIN_DEAD_ADD,
                          .filter = { .state = -1, .ids = &id, .id_count = 1 },
                          .by = PR_STR("ann"),
                          .why = PR_STR("wrong") };
    struct admin pause = { .kind = ADMIN_PAUSE,
                           .filter = { .state = -1, .endpoint = PR_STR("beta") },
                           .by = PR_STR("ann"),
                           .why = PR_STR("they migrate"),
                           .until_us = PR_NEVER };
    struct admin_reply reply;

    CHECK(v != NULL);
    CHECK_OK(view_ask(v, store, NULL, NULL, 1, &err), &err);
    CHECK_EQ(v->endpoint_count + v->group_count + v->stream_count + v->backlog, 0);
    CHECK(!v->rates.known);
    for (int i = 0; i < 3; i++)
        send(store, "alpha", &id);
    CHECK_OK(store_admin(store, &dead, &reply, &err), &err);
    CHECK_OK(store_admin(store, &pause, &reply, &err), &err);
    CHECK_OK(view_ask(v, store, NULL, NULL, 1, &err), &err);
    CHECK_EQ(v->backlog, 2);
    CHECK(v->backlog_exact && v->dead_exact);
    CHECK_EQ(v->dead, 1);
    CHECK_EQ(v->instance_count, 0);
    CHECK(v->oldest_us > 0 && v->oldest_us <= v->now_us);
    CHECK_EQ(v->group_count, 1);
    CHECK_EQ(v->groups[0].count, 1);
    CHECK_EQ(v->paused_count, 1);
    CHECK_SLICE(v->endpoints[0].name, "beta"); /* who does not send stands first */
    CHECK_EQ(v->endpoints[0].state, VIEW_PAUSED);
    CHECK_SLICE(v->endpoints[0].why, "by ann: they migrate");
    view_free(v);
}

TEST(a_view_of_a_store_in_memory)
{
    struct store store;

    store_new("sqlite::memory:", &store);
    check_view(&store);
    store_close(&store);
}

struct folder {
    char path[64], url[96];
};

static struct folder folder_new(void)
{
    struct folder f = { .path = "/tmp/postrider-top-XXXXXX" };

    CHECK(mkdtemp(f.path) != NULL);
    (void)snprintf(f.url, sizeof(f.url), "sqlite:%s/t.db", f.path);
    return f;
}

static void folder_remove(const struct folder *f)
{
    static const char *const names[] = { "t.db", "t.db-wal", "t.db-shm" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/%s", f->path, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(f->path);
}

TEST(a_view_of_a_store_in_a_file)
{
    struct folder f = folder_new();
    struct store store;

    store_new(f.url, &store);
    check_view(&store);
    store_close(&store);
    folder_remove(&f);
}

TEST(rates_are_the_difference_between_two_views)
{
    struct folder f = folder_new();
    char config[256];
    struct store store;
    struct pr_error err;
    struct top_view *before = view_new(), *after = view_new();
    pr_id id;

    store_new(f.url, &store);
    (void)snprintf(config, sizeof(config), "store: %s\nendpoints: {alpha: {url: 'null:'}}\n", f.url);
    CHECK_OK(view_ask(before, &store, NULL, NULL, PR_SECONDS(10), &err), &err);
    for (int i = 0; i < 10; i++)
        send(&store, "alpha", &id);
    struct pr_engine *engine = pr_engine_new(config, &err);
    CHECK(engine != NULL);
    CHECK_OK(pr_engine_start(engine, &err), &err);
    CHECK_OK(pr_engine_drain(engine, PR_SECONDS(30), &err), &err);
    CHECK_EQ(pr_engine_stop(engine, PR_SECONDS(30)), PR_OK);
    pr_engine_free(engine);
    CHECK_OK(view_ask(after, &store, NULL, before, PR_SECONDS(14), &err), &err);
    CHECK(after->rates.known && after->endpoints[0].rates.known);
    CHECK_EQ((int)(after->rates.sent * 100), 250); /* 10 in 4 s */
    CHECK_EQ((int)(after->endpoints[0].rates.sent * 100), 250);
    CHECK_EQ(after->endpoints[0].sent, 10);
    CHECK_OK(view_ask(before, &store, NULL, after, PR_SECONDS(15), &err), &err);
    CHECK_EQ((int)before->rates.sent, 0);
    view_free(before);
    view_free(after);
    store_close(&store);
    folder_remove(&f);
}

TEST(of_a_thousand_endpoints_a_page_is_kept)
{
    enum { MANY = 1000 };
    struct pr_error err;
    struct store store;
    struct top_view *v = view_new();
    struct ui ui = { 0 };
    struct screen s;
    char text[512];

    store_new("sqlite::memory:", &store);
    for (int i = 0; i < MANY; i++) {
        struct admin pause = { .kind = ADMIN_PAUSE, .filter.state = -1, .until_us = PR_NEVER };
        struct admin_reply reply;

        (void)snprintf(text, sizeof(text), "endpoint-%05d", i);
        pause.filter.endpoint = slice_from(text);
        CHECK_OK(store_admin(&store, &pause, &reply, &err), &err);
    }
    CHECK_OK(view_ask(v, &store, NULL, NULL, 1, &err), &err);
    CHECK_EQ(v->endpoint_count, VIEW_ROWS_MAX);
    CHECK_EQ(v->total_count, MANY);
    CHECK_EQ(v->paused_count, MANY);
    (void)ui_key(&ui, v, KEY_END, 10);
    draw(&s, v, &ui, 80, 24);
    CHECK_SLICE(row_text(&s, 1, text, sizeof(text)), " 1,000 endpoints are paused");
    CHECK_SLICE(row_text(&s, 4, text, sizeof(text)),
                " ENDPOINTS 200+        STATE                 SENT/S  FAILED/S  FAILED    DIED");
    CHECK_SLICE(row_text(&s, 15, text, sizeof(text)),
                ">endpoint-00199        paused until resumed       -         -       0       0");
    screen_fini(&s);
    view_free(v);
    store_close(&store);
}
