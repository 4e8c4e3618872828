/* Histories as text: both directions, and every possible error. */
#include "stand.h"

#include <string.h>

#include "base/buf.h"
#include "base/slice.h"

#define STARTED "{\"n\":1,\"kind\":\"started\",\"at\":1,\"name\":\"f\",\"data\":\"\"}\n"
#define ACTIVITY "{\"n\":2,\"kind\":\"activity\",\"at\":1,\"task\":1,\"name\":\"a\",\"data\":\"\"}\n"

static void check_damage(const char *lines, const char *why)
{
    struct flow_history h;
    struct pr_error error = { .code = 0 };
    int rc = stand_history(&h, lines, &error);
    if (rc != PR_ECORRUPT)
        check_fail(__FILE__, __LINE__, "this was read: %s", lines);
    CHECK_STR(error.text, why);
    flow_history_fini(&h);
}

#define AT(n) "the history is damaged at event " #n ": "

TEST(lines_that_are_no_events_are_damage_and_say_where) /* B162 */
{
    check_damage("\n", AT(1) "not a JSON object");
    check_damage("nonsense\n", AT(1) "not a JSON object");
    check_damage("{\"n\":1}\n", AT(1) "unknown event kind");
    check_damage("{\"n\":1,\"kind\":\"begun\"}\n", AT(1) "unknown event kind");
    check_damage("{\"n\":1,\"kind\":\"started\",\"colour\":\"red\"}\n", AT(1) "unknown key \"colour\"");
    check_damage("{\"n\":1,\"n\":1,\"kind\":\"started\"}\n", AT(1) "duplicate key \"n\"");
    check_damage("{\"n\":\"1\"}\n", AT(1) "\"n\" has an invalid value");
    check_damage("{\"n\":99999999999999999999}\n", AT(1) "\"n\" has an invalid value");
    check_damage("{\"n\":1,\"kind\":\"started\",\"at\":1,\"data\":\"\"}\n", AT(1) "a field is missing or unexpected");
    check_damage("{\"n\":1,\"kind\":\"started\",\"at\":1,\"name\":\"\",\"data\":\"\"}\n", AT(1) "its name is empty");
    check_damage(STARTED "{\"n\":2,\"kind\":\"uuid\",\"at\":1,\"id\":\"none\"}\n", AT(2) "invalid id");
    check_damage(STARTED "{\"n\":2,\"kind\":\"event\",\"at\":1,\"name\":\"x\",\"data_base64\":\"!\"}\n",
                 AT(2) "\"data\" has an invalid value");
    check_damage(STARTED "{\"n\":2,\"kind\":\"fired\",\"at\":1,\"task\":0}\n", AT(2) "its task number is out of range");
    check_damage(STARTED "{\"n\":2,\"kind\":\"event\",\"at\":1,\"name\":\"x\",\"data\":\"\",\"failed\":true}\n",
                 AT(2) "this event cannot carry an error");
}

TEST(numbers_that_are_out_of_order_are_damage) /* B125, B162 */
{
    check_damage("{\"n\":0,\"kind\":\"started\",\"at\":1,\"name\":\"f\",\"data\":\"\"}\n",
                 AT(1) "its number is out of order");
    check_damage(STARTED STARTED, AT(2) "its number is out of order");
    check_damage(STARTED "{\"n\":3,\"kind\":\"cancelled\",\"at\":1}\n", AT(2) "its number is out of order");
}

#define IN(n, kind) "the history is damaged at event " #n " (" kind "): "

TEST(events_that_cannot_follow_are_damage) /* B162 */
{
    check_damage("{\"n\":1,\"kind\":\"cancelled\",\"at\":1}\n", IN(1, "cancelled") "a history must begin with started");
    check_damage(STARTED "{\"n\":2,\"kind\":\"started\",\"at\":1,\"name\":\"f\",\"data\":\"\"}\n",
                 IN(2, "started") "a history has only one start");
    check_damage(STARTED "{\"n\":2,\"kind\":\"cancelled\",\"at\":1}\n{\"n\":3,\"kind\":\"cancelled\",\"at\":1}\n",
                 IN(3, "cancelled") "nothing can follow the end");
    check_damage(STARTED
                 "{\"n\":2,\"kind\":\"completed\",\"at\":1,\"data\":\"\"}\n{\"n\":3,\"kind\":\"cancel\",\"at\":1,"
                 "\"data\":\"\"}\n",
                 IN(3, "cancel") "nothing can follow the end");
    check_damage(STARTED "{\"n\":2,\"kind\":\"activity\",\"at\":1,\"task\":2,\"name\":\"a\",\"data\":\"\"}\n",
                 IN(2, "activity") "its task number is out of order");
    check_damage(STARTED ACTIVITY "{\"n\":3,\"kind\":\"timer\",\"at\":1,\"task\":1,\"value\":1}\n",
                 IN(3, "timer") "its task number is out of order");
    check_damage(STARTED "{\"n\":2,\"kind\":\"result\",\"at\":1,\"task\":1,\"data\":\"\"}\n",
                 IN(2, "result") "its task was never started");
    check_damage(STARTED ACTIVITY "{\"n\":3,\"kind\":\"fired\",\"at\":1,\"task\":1}\n",
                 IN(3, "fired") "its task is of another kind");
    check_damage(STARTED ACTIVITY "{\"n\":3,\"kind\":\"result\",\"at\":1,\"task\":1,\"data\":\"\"}\n"
                                  "{\"n\":4,\"kind\":\"result\",\"at\":1,\"task\":1,\"data\":\"\"}\n",
                 IN(4, "result") "its task has already ended");
    check_damage(STARTED "{\"n\":2,\"kind\":\"cancel_task\",\"at\":1,\"task\":1}\n",
                 IN(2, "cancel_task") "its task was never started");
}

TEST(a_late_result_of_a_cancelled_task_in_a_history_is_no_damage) /* B161, B162 */
{
    struct flow_history h;
    struct pr_error error;
    CHECK_OK(stand_history(&h,
                           STARTED ACTIVITY "{\"n\":3,\"kind\":\"cancel_task\",\"at\":1,\"task\":1}\n"
                                            "{\"n\":4,\"kind\":\"result\",\"at\":1,\"task\":1,\"data\":\"\"}\n",
                           &error),
             &error);
    CHECK_EQ(h.tasks[0].state, FLOW_TASK_CANCELLED);
    flow_history_fini(&h);
}

static int wait_for_it(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "it", input, ret_output);
}

TEST(a_damaged_history_fails_its_flow_only_and_what_could_be_open_goes) /* B162 */
{
    struct stand *s = stand_new(wait_for_it);
    struct flow_turn_out out;
    struct pr_error error;
    stand_start(s, "x");
    stand_mail(s, "a", "b");
    const struct pr_message event = {
        .id = { { 1 } }, .type = PR_STR("event"), .stream = PR_STR("f"), .headers = PR_STR("{\"name\":\"x\"}")
    };
    const struct pr_message *run[] = { &event };
    struct flow_turn_in in = { .code = &s->code,
                               .flow = PR_STR("f"),
                               .row = &s->row,
                               .damaged = PR_STR("the history is damaged at event 2: not a JSON object"),
                               .messages = run,
                               .count = 1,
                               .now_us = s->now_us,
                               .turns_box = PR_STR("turns"),
                               .activities_box = PR_STR("activities"),
                               .arena = &s->turn };
    CHECK_OK(flow_turn(&in, &out, &error), &error);
    CHECK_EQ(out.row->state, FLOW_FAILED);
    CHECK_EQ(out.row->next, s->row.next + 1);
    CHECK(strstr(stand_text(out.row->error), "\"configuration\"") != NULL);
    CHECK_EQ(out.effects[1].expected, EFFECT_ANY);
    CHECK_EQ(out.effect_count, 4); /* row, history, and the one task in both boxes */

    in.damaged = (pr_slice){ NULL, 0 };
    in.history = NULL; /* a history that is not the row's is the caller's fault, and no verdict */
    CHECK_EQ(flow_turn(&in, &out, &error), PR_ECORRUPT);
    stand_free(s);
}

/* ---- Bytes -------------------------------------------------------------------------------------------------- */

static void check_bytes(pr_slice data, const char *line)
{
    struct flow_event events[2] = { { .kind = FLOW_EVENT_STARTED, .name = PR_STR("f") },
                                    { .kind = FLOW_EVENT_EVENT, .name = PR_STR("e"), .data = data } };
    struct flow_history h;
    struct pr_error error;
    struct buf b;
    buf_init(&b, 1 << 24);
    flow_history_encode(&b, events, 2, 1);
    CHECK_EQ(buf_failed(&b), 0);
    if (line != NULL)
        CHECK(strstr(stand_text(buf_slice(&b)), line) != NULL);
    flow_history_init(&h, (pr_id){ { 1 } });
    CHECK_OK(flow_history_decode(&h, buf_slice(&b), &error), &error);
    CHECK_SLICE(h.events[1].data, data);
    flow_history_fini(&h);
    buf_fini(&b);
}

TEST(data_is_text_where_it_can_be_and_base64_where_not) /* B168 */
{
    static char large[1 << 20];
    check_bytes(PR_STR(""), "\"data\":\"\"");
    check_bytes(PR_STR("plain"), "\"data\":\"plain\"");
    check_bytes(PR_STR("{\"json\":\n\"\\ in it\"}"), NULL);
    check_bytes(PR_STR("gr\xc3\xbc\xc3\x9f dich \xf0\x9f\x90\xb4 \xe2\x80\xa8"), "gr\xc3\xbc\xc3\x9f");
    check_bytes(PR_STR("\xff\xfe"), "\"data_base64\":\"//4=\"");
    check_bytes(PR_STR("a\0b"), "\"data_base64\":\"YQBi\"");
    memset(large, 'x', sizeof large);
    check_bytes(PR_BYTES(large, sizeof large), NULL);
}

TEST(every_kind_of_event_survives_the_way_through_text) /* B168 */
{
    static const struct flow_value state[] = { { PR_STR("a"), PR_STR("}]\"{") }, { PR_STR("b"), PR_STR("\xff") } };
    static const struct flow_more start = { .version = PR_STR("2"),
                                            .status = PR_STR("s"),
                                            .state = state,
                                            .state_count = 2 },
                                  kid = { .id = PR_STR("k"), .version = PR_STR("3") },
                                  tagged = { .tag = PR_STR("gpu"), .session = PR_STR("s") },
                                  uuid = { .id = PR_STR("01890a5d-ac96-774b-bcce-b302099a8057") };
    static const struct flow_event events[] = {
        { .kind = FLOW_EVENT_STARTED, .name = PR_STR("f"), .more = &start },
        { .kind = FLOW_EVENT_ACTIVITY, .task = 1, .name = PR_STR("a"), .data = PR_STR("i"), .more = &tagged },
        { .kind = FLOW_EVENT_TIMER, .task = 2, .value = 5 },
        { .kind = FLOW_EVENT_WAIT, .task = 3, .name = PR_STR("e") },
        { .kind = FLOW_EVENT_WAIT_MAIL, .task = 4, .name = PR_STR("e") },
        { .kind = FLOW_EVENT_CHILD, .task = 5, .name = PR_STR("c"), .more = &kid },
        { .kind = FLOW_EVENT_DETACHED, .task = 6, .name = PR_STR("c"), .more = &kid },
        { .kind = FLOW_EVENT_NOW, .value = 7 },
        { .kind = FLOW_EVENT_UUID, .more = &uuid },
        { .kind = FLOW_EVENT_RANDOM, .value = INT64_MIN },
        { .kind = FLOW_EVENT_RESULT, .task = 1, .failed = true, .data = PR_STR("{}") },
        { .kind = FLOW_EVENT_FIRED, .task = 2 },
        { .kind = FLOW_EVENT_CHILD_END, .task = 5, .data = PR_STR("o") },
        { .kind = FLOW_EVENT_EVENT, .name = PR_STR("e"), .data = PR_STR("d") },
        { .kind = FLOW_EVENT_MAIL, .name = PR_STR("e"), .data = PR_STR("d") },
        { .kind = FLOW_EVENT_CANCEL, .data = PR_STR("why") },
        { .kind = FLOW_EVENT_CANCEL_TASK, .task = 3 },
        { .kind = FLOW_EVENT_CONTINUED, .data = PR_STR("n"), .more = &uuid },
    };
    size_t count = sizeof events / sizeof events[0];
    struct flow_history a, b;
    struct buf first, second;
    struct pr_error error;
    buf_init(&first, 1 << 20);
    buf_init(&second, 1 << 20);
    flow_history_init(&a, (pr_id){ { 1 } });
    flow_history_init(&b, (pr_id){ { 1 } });
    CHECK_OK(flow_history_append(&a, events, count, &error), &error);
    flow_history_encode(&first, a.events, a.count, 1);
    CHECK_OK(flow_history_decode(&b, buf_slice(&first), &error), &error);
    flow_history_encode(&second, b.events, b.count, 1);
    CHECK_SLICE(buf_slice(&second), buf_slice(&first));
    CHECK_EQ(b.count, count);
    CHECK_EQ(b.events[0].more->state_count, 2);
    CHECK_SLICE(b.events[0].more->state[0].value, "}]\"{");
    CHECK_SLICE(b.events[0].more->state[1].value, "\xff");
    CHECK_EQ(b.events[9].value, INT64_MIN);
    CHECK(b.cancelled && flow_history_bytes(&b) > 1000);
    flow_history_fini(&a);
    flow_history_fini(&b);
    buf_fini(&first);
    buf_fini(&second);
}

TEST(key_values_of_a_start_that_are_not_sorted_or_not_whole_are_damage) /* B162 */
{
#define STATE(text) "{\"n\":1,\"kind\":\"started\",\"at\":1,\"name\":\"f\",\"data\":\"\",\"state\":" text "}\n"
    check_damage(STATE("{}"), AT(1) "\"state\" has an invalid value");
    check_damage(STATE("[1]"), AT(1) "\"state\" has an invalid value");
    check_damage(STATE("[[]]"), AT(1) "not a JSON object");
    check_damage(STATE("[{\"key\":\"a\"}]"), AT(1) "\"state\" is not sorted, or a field is missing");
    check_damage(STATE("[{\"key\":\"b\",\"value\":\"\"},{\"key\":\"a\",\"value\":\"\"}]"),
                 AT(1) "\"state\" is not sorted, or a field is missing");
    check_damage(STATE("[{\"key\":\"a\",\"value\":\"\",\"more\":1}]"), AT(1) "unknown key \"more\"");
}
