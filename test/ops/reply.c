/* JSON for programs: each object byte for byte, and what is read back from it. */
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "core/lane.h"
#include "flow/history.h"
#include "ops/endpoint.h"
#include "ops/explain/message_why.h"
#include "ops/flow/flow_view.h"
#include "ops/message.h"
#include "ops/reply.h"
#include "ops/schedule.h"
#include "ops/status.h"
#include "ops/watch/check.h"
#include "source/wal/wal.h"

#define NOW_US INT64_C(1700000000000000)
#define TEXT_MAX 65536

/* An object in the making. */
struct paper {
    struct buf text;
    struct json_writer w;
    struct arena arena;
};

static struct json_writer *paper_init(struct paper *p)
{
    buf_init(&p->text, TEXT_MAX);
    json_init(&p->w, &p->text);
    arena_init(&p->arena, 4096);
    return &p->w;
}

static void paper_fini(struct paper *p)
{
    buf_fini(&p->text);
    arena_fini(&p->arena);
}

static pr_id id_of(unsigned char last)
{
    return (pr_id){ { 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, last } };
}

/* ---- Status ---- */

static const char STATUS[] =
    "{\"health\":\"warn\",\"checks\":[{\"name\":\"store\",\"state\":\"ok\",\"advice\":\"reachable\"},"
    "{\"name\":\"dead\",\"state\":\"warn\",\"advice\":\"8 dead letters\"}],\"boxes\":["
    "{\"name\":\"outbox\",\"ready\":1,\"in_flight\":2,\"delayed\":3,\"retrying\":4,\"held\":5,\"parked\":6,"
    "\"paused\":7,\"dead\":8,\"done\":9,\"counts_exact\":true,\"oldest_age_seconds\":1.5},"
    "{\"name\":\"inbox\",\"ready\":10001,\"in_flight\":0,\"delayed\":0,\"retrying\":0,\"held\":0,\"parked\":0,"
    "\"paused\":0,\"dead\":0,\"done\":0,\"counts_exact\":false,\"oldest_age_seconds\":0}],\"endpoints\":["
    "{\"name\":\"billing\",\"state\":\"open\",\"until\":\"2023-11-14T22:14:20.000000Z\",\"by\":null,"
    "\"why\":\"transport_unavailable (503): refused\",\"breakers\":["
    "{\"state\":\"open\",\"endpoint\":\"billing\",\"type\":null,\"since\":\"2023-11-14T22:13:19.999995Z\","
    "\"until\":\"2023-11-14T22:14:20.000000Z\",\"failed_probes\":2,\"reason\":\"transport_unavailable\","
    "\"code\":\"503\",\"error\":\"refused\",\"box\":\"outbox\",\"instance\":\"one\"},"
    "{\"state\":\"half-open\",\"endpoint\":\"billing\",\"type\":\"t\",\"since\":\"2023-11-14T22:13:19.999995Z\","
    "\"until\":\"2023-11-14T22:13:19.999999Z\",\"failed_probes\":0,\"reason\":null,\"code\":null,"
    "\"error\":null,\"box\":\"outbox\",\"instance\":\"one\"}],\"last_failure\":"
    "{\"at\":\"2023-11-14T22:13:19.000000Z\",\"reason\":\"timeout_exceeded\",\"code\":\"28\","
    "\"error\":\"slow \\\"again\\\"\"},"
    "\"sent\":10,\"failed\":2,\"dead\":1,\"discarded\":3,\"expired\":4,\"duplicates\":5,\"failed_in_row\":2,"
    "\"in_flight\":2},"
    "{\"name\":\"audit\",\"state\":\"paused\",\"until\":null,\"by\":\"ann\",\"why\":\"deploy\",\"breakers\":[],"
    "\"last_failure\":null,\"sent\":0,\"failed\":0,\"dead\":0,\"discarded\":0,\"expired\":0,\"duplicates\":0,"
    "\"failed_in_row\":0,\"in_flight\":0},"
    "{\"name\":\"mail\",\"state\":\"paused\",\"until\":\"2023-11-14T22:13:21.000000Z\",\"by\":null,\"why\":null,"
    "\"breakers\":[],"
    "\"last_failure\":null,\"sent\":0,\"failed\":0,\"dead\":0,\"discarded\":0,\"expired\":0,\"duplicates\":0,"
    "\"failed_in_row\":0,\"in_flight\":1}],\"flows\":{\"running\":3,\"completed\":0,\"failed\":1,\"cancelled\":0},"
    "\"instances\":["
    "{\"id\":\"018bcfe5-6800-7000-8000-000000000007\",\"name\":\"one\",\"box\":\"outbox\",\"version\":\"1.0\","
    "\"epoch\":3,\"lanes\":64,\"in_flight\":2,\"lease_left_seconds\":2.5,"
    "\"started_at\":\"2023-11-14T22:13:10.000000Z\"}],\"subscriptions\":["
    "{\"name\":\"view\",\"position\":4,\"last\":6,\"lag\":2,\"fence\":11,\"held_by\":\"w\","
    "\"expires_at\":\"2023-11-14T22:13:21.000000Z\"},"
    "{\"name\":\"idle\",\"position\":0,\"last\":0,\"lag\":0,\"fence\":0,\"held_by\":null,\"expires_at\":null}],"
    "\"slots\":[{\"name\":\"postrider\",\"there\":true,\"active\":false,\"lag_bytes\":4096}]}";

TEST(status_is_written_as_it_always_was)
{
    struct box_counts boxes[] = {
        { .name = PR_STR("outbox"),
          .ready = 1,
          .in_flight = 2,
          .delayed = 3,
          .retrying = 4,
          .held = 5,
          .parked = 6,
          .paused = 7,
          .dead = 8,
          .done = 9,
          .oldest_us = NOW_US - 1500000 },
        { .name = PR_STR("inbox"), .ready = COUNT_EXACT_MAX + 1, .partial = true },
    };
    struct endpoint_state endpoints[] = {
        { .name = PR_STR("") },
        { .name = PR_STR("billing"),
          .sent = 10,
          .failed = 2,
          .dead = 1,
          .discarded = 3,
          .expired = 4,
          .duplicates = 5,
          .failed_in_row = 2,
          .last_failed_us = NOW_US - 1000000,
          .last_reason = PR_REASON_TIMEOUT_EXCEEDED,
          .last_code = PR_STR("28"),
          .last_error = PR_STR("slow \"again\"") },
        { .name = PR_STR("audit"), .paused_until_us = PR_NEVER, .by = PR_STR("ann"), .why = PR_STR("deploy") },
        { .name = PR_STR("mail"), .paused_until_us = NOW_US + 1000000 },
    };
    struct breaker_info breakers[] = {
        { .endpoint = PR_STR("billing"),
          .box = PR_STR("outbox"),
          .instance = PR_STR("one"),
          .since_us = NOW_US - 5,
          .until_us = NOW_US + 60000000,
          .probes = 2,
          .reason = PR_REASON_TRANSPORT_UNAVAILABLE,
          .code = PR_STR("503"),
          .error = PR_STR("refused"),
          .lanes = LANES_ALL },
        { .endpoint = PR_STR("billing"),
          .type = PR_STR("t"),
          .box = PR_STR("outbox"),
          .instance = PR_STR("one"),
          .since_us = NOW_US - 5,
          .until_us = NOW_US - 1,
          .lanes = LANES_ALL },
    };
    struct instance_info instances[] = {
        { .id = id_of(7),
          .name = PR_STR("one"),
          .box = PR_STR("outbox"),
          .version = PR_STR("1.0"),
          .epoch = 3,
          .lanes = 64,
          .in_flight = 2,
          .lease_left_us = 2500000,
          .started_us = NOW_US - 10000000 },
    };
    struct subscription_info subscriptions[] = {
        { .name = PR_STR("view"),
          .position = 4,
          .last = 6,
          .lag = 2,
          .fence = 11,
          .holder = PR_STR("w"),
          .until_us = NOW_US + 1000000 },
        { .name = PR_STR("idle") },
    };
    struct wal_report slots[] = { { .slot = PR_STR("postrider"), .there = true, .lag = 4096 } };
    size_t in_flight[] = { 0, 2, 0, 1 };
    struct paper p;
    struct json_writer *w = paper_init(&p);
    struct status s = {
        .boxes = { .boxes = boxes, .box_count = 2, .now_us = NOW_US },
        .endpoints = { .endpoints = endpoints,
                       .endpoint_count = 4,
                       .breakers = breakers,
                       .breaker_count = 2,
                       .now_us = NOW_US },
        .instances = { .instances = instances, .instance_count = 1 },
        .subscriptions = { .subscriptions = subscriptions, .subscription_count = 2 },
        .flows = { .flow_states = { [FLOW_RUNNING] = 3, [FLOW_FAILED] = 1 } },
        .in_flight = in_flight,
        .slots = slots,
        .slot_count = 1,
        .checks.arena = &p.arena,
    };
    checks_add(&s.checks, "store", CHECK_FINE, "reachable");
    checks_add(&s.checks, "dead", CHECK_WARN, "%d dead letters", 8);
    status_json(w, &s);
    CHECK_SLICE(buf_slice(&p.text), STATUS);
    paper_fini(&p);
}

/* ---- Flows ---- */

static const char FLOW_ROW[] =
    "{\"id\":\"order-7\",\"name\":\"order\",\"version\":\"2\","
    "\"execution\":\"018bcfe5-6800-7000-8000-000000000001\",\"state\":\"failed\","
    "\"custom_status\":\"half \\\"way\\\"\",\"status_number\":2,\"input_base64\":\"/wAB\",\"output\":\"out\",\"error\":"
    "{\"category\":\"activity\",\"message\":\"no\"},"
    "\"parent\":\"parent-1\",\"events\":5,\"created_at\":\"2023-11-14T22:13:20.000000Z\","
    "\"updated_at\":\"2023-11-14T22:13:20.000001Z\"}";
static const char FLOW_VIEW[] =
    "{\"id\":\"f\",\"name\":\"n\",\"version\":null,\"execution\":\"018bcfe5-6800-7000-8000-000000000002\","
    "\"state\":\"running\",\"custom_status\":null,\"status_number\":0,\"input\":null,\"output\":null,"
    "\"error\":null,\"parent\":null,\"events\":0,\"created_at\":null,\"updated_at\":null,\"values\":{\"k\":\"v\"},"
    "\"waits_for\":["
    "{\"kind\":\"activity\",\"task\":1,\"name\":\"charge\",\"tag\":\"gpu\",\"since\":\"2023-11-14T22:13:20.000000Z\","
    "\"message\":\"018bcfe5-6800-7000-8000-000000000003\",\"state\":\"retrying\",\"attempts\":3,\"failures\":2,"
    "\"last_error\":\"no\",\"next_at\":\"2023-11-14T22:13:20.000000Z\",\"what\":\"charge\"},"
    "{\"kind\":\"activity\",\"task\":2,\"name\":\"mail\",\"since\":null,\"message\":null,\"what\":\"mail\"},"
    "{\"kind\":\"timer\",\"task\":3,\"since\":\"2023-11-14T22:13:20.000000Z\","
    "\"due_at\":\"2023-11-14T22:13:20.000005Z\",\"message\":\"018bcfe5-6800-7000-8000-000000000004\","
    "\"what\":\"timer\"},"
    "{\"kind\":\"timer\",\"task\":4,\"since\":null,\"due_at\":null,\"message\":null,\"what\":\"timer\"},"
    "{\"kind\":\"event\",\"task\":5,\"name\":\"paid\",\"since\":null,\"what\":\"event\"},"
    "{\"kind\":\"child\",\"task\":6,\"name\":\"ship\",\"flow\":\"f.6\",\"since\":null,\"what\":\"child\"}],"
    "\"waits\":7,\"pending\":1,\"now\":\"It waits.\",\"next\":\"It goes on.\",\"damaged\":null,\"commands\":["
    "{\"command\":\"postrider flow show f\",\"what\":\"to see it\"}]}";
static const char FLOW_NEW[] =
    "{\"id\":\"new\",\"name\":null,\"version\":null,\"execution\":null,\"state\":null,\"custom_status\":null,"
    "\"status_number\":0,\"input\":null,\"output\":null,\"error\":null,\"parent\":null,\"events\":0,"
    "\"created_at\":null,\"updated_at\":null,\"values\":{},\"waits_for\":[],"
    "\"waits\":0,\"pending\":0,\"now\":null,\"next\":null,\"damaged\":\"no such event\",\"commands\":[]}";
static const char FLOW_EVENTS[] =
    "[{\"number\":1,\"kind\":\"started\",\"at\":\"2023-11-14T22:13:20.000000Z\",\"name\":\"n\",\"data\":\"in\"},"
    "{\"number\":2,\"kind\":\"result\",\"at\":null,\"task\":1,\"failed\":true,\"error\":{\"message\":\"no\"}},"
    "{\"number\":3,\"kind\":\"result\",\"at\":null,\"task\":2,\"data_base64\":\"/w==\"},"
    "{\"number\":4,\"kind\":\"timer\",\"at\":null,\"task\":3,\"due_at\":\"2023-11-14T22:13:20.000000Z\"},"
    "{\"number\":5,\"kind\":\"timer\",\"at\":null,\"task\":4,\"due_at\":null},"
    "{\"number\":6,\"kind\":\"now\",\"at\":null,\"value\":\"2023-11-14T22:13:20.000000Z\"},"
    "{\"number\":7,\"kind\":\"child\",\"at\":null,\"task\":6,\"name\":\"ship\",\"id\":\"f.6\",\"version\":\"2\","
    "\"tag\":\"gpu\",\"session\":\"s\",\"custom_status\":\"on\"},"
    "{\"number\":8,\"kind\":\"continued\",\"at\":null,\"execution\":\"f.6\",\"version\":\"2\",\"tag\":\"gpu\","
    "\"session\":\"s\",\"custom_status\":\"on\"},"
    "{\"number\":9,\"kind\":\"failed\",\"at\":null,\"error\":\"not an object\"},"
    "{\"number\":10,\"kind\":\"failed\",\"at\":null,\"error\":null}]";

static struct flow_row row_of_flow(void)
{
    return (struct flow_row){ .id = PR_STR("order-7"),
                              .name = PR_STR("order"),
                              .version = PR_STR("2"),
                              .execution = id_of(1),
                              .next = 5,
                              .state = FLOW_FAILED,
                              .custom_status = PR_STR("half \"way\""),
                              .status_number = 2,
                              .input = PR_STR("\xff\x00\x01"),
                              .output = PR_STR("out"),
                              .error = PR_STR("{\"category\":\"activity\",\"message\":\"no\"}"),
                              .parent = PR_STR("parent-1"),
                              .created_us = NOW_US,
                              .updated_us = NOW_US + 1 };
}

TEST(a_flow_is_written_as_it_always_was)
{
    const struct flow_row row = row_of_flow();
    struct paper p;
    struct json_writer *w = paper_init(&p);
    json_begin_object(w);
    flow_row_json(w, &row);
    json_end_object(w);
    CHECK_SLICE(buf_slice(&p.text), FLOW_ROW);
    paper_fini(&p);
}

TEST(a_flow_and_what_it_waits_for_are_written_as_they_always_were)
{
    const struct flow_row row = {
        .id = PR_STR("f"), .name = PR_STR("n"), .execution = id_of(2), .state = FLOW_RUNNING
    };
    const struct listed found = { .state = STATE_RETRYING,
                                  .m = { .attempts = 3, .failures = 2, .error = PR_STR("no"), .due_us = NOW_US } };
    const struct flow_wait waits[] = {
        { .kind = FLOW_EVENT_ACTIVITY,
          .task = 1,
          .name = PR_STR("charge"),
          .tag = PR_STR("gpu"),
          .since_us = NOW_US,
          .id = id_of(3) },
        { .kind = FLOW_EVENT_ACTIVITY, .task = 2, .name = PR_STR("mail") },
        { .kind = FLOW_EVENT_TIMER, .task = 3, .since_us = NOW_US, .due_us = NOW_US + 5, .id = id_of(4) },
        { .kind = FLOW_EVENT_TIMER, .task = 4 },
        { .kind = FLOW_EVENT_WAIT, .task = 5, .name = PR_STR("paid") },
        { .kind = FLOW_EVENT_CHILD, .task = 6, .name = PR_STR("ship"), .child = PR_STR("f.6") },
    };
    const struct flow_waited waited[] = { { &waits[0], &found, "charge" }, { &waits[1], NULL, "mail" },
                                          { &waits[2], &found, "timer" },  { &waits[3], NULL, "timer" },
                                          { &waits[4], NULL, "event" },    { &waits[5], NULL, "child" } };
    const struct flow_key_value values[] = { { .key = PR_STR("k"), .value = PR_STR("v") },
                                             { .key = PR_STR("bad"), .value = PR_STR("\xff") } };
    struct flow_view v = { .id = PR_STR("f"),
                           .row = &row,
                           .values = values,
                           .value_count = 2,
                           .waits = waited,
                           .wait_count = 6,
                           .waits_in_all = 7,
                           .pending_count = 1,
                           .now = "It waits.\n",
                           .next = "It goes on.\n",
                           .commands = { { "postrider flow show f", "to see it" } },
                           .command_count = 1 };
    struct paper p;
    flow_view_json(paper_init(&p), &v);
    CHECK_SLICE(buf_slice(&p.text), FLOW_VIEW);
    paper_fini(&p);
    v = (struct flow_view){ .id = PR_STR("new"), .now = "", .next = "", .damaged = "no such event" };
    flow_view_json(paper_init(&p), &v);
    CHECK_SLICE(buf_slice(&p.text), FLOW_NEW);
    paper_fini(&p);
}

TEST(the_history_of_a_flow_is_written_as_it_always_was)
{
    const struct flow_more child = { .id = PR_STR("f.6"),
                                     .version = PR_STR("2"),
                                     .tag = PR_STR("gpu"),
                                     .session = PR_STR("s"),
                                     .status = PR_STR("on") };
    const struct flow_event events[] = {
        { .kind = FLOW_EVENT_STARTED, .at_us = NOW_US, .name = PR_STR("n"), .data = PR_STR("in") },
        { .kind = FLOW_EVENT_RESULT, .task = 1, .failed = true, .data = PR_STR("{\"message\":\"no\"}") },
        { .kind = FLOW_EVENT_RESULT, .task = 2, .data = PR_STR("\xff") },
        { .kind = FLOW_EVENT_TIMER, .task = 3, .value = NOW_US },
        { .kind = FLOW_EVENT_TIMER, .task = 4 },
        { .kind = FLOW_EVENT_NOW, .value = NOW_US },
        { .kind = FLOW_EVENT_CHILD, .task = 6, .name = PR_STR("ship"), .more = &child },
        { .kind = FLOW_EVENT_CONTINUED, .more = &child },
        { .kind = FLOW_EVENT_FAILED, .data = PR_STR("not an object") },
        { .kind = FLOW_EVENT_FAILED },
    };
    struct paper p;
    struct json_writer *w = paper_init(&p);
    json_begin_array(w);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        flow_event_json(w, &events[i], i + 1);
    json_end_array(w);
    CHECK_SLICE(buf_slice(&p.text), FLOW_EVENTS);
    paper_fini(&p);
}

/* ---- Schedules ---- */

static const char SCHEDULES[] =
    "[{\"name\":\"nightly\",\"state\":\"active\",\"cron\":\"30 4 * * *\",\"zone\":\"UTC\",\"missed\":\"all\","
    "\"grace\":\"5m\",\"next_at\":\"2023-11-14T22:13:20.000000Z\",\"next\":[\"2023-11-14T22:13:20.000000Z\","
    "\"2023-11-15T04:30:00.000000Z\",\"2023-11-16T04:30:00.000000Z\",\"2023-11-17T04:30:00.000000Z\","
    "\"2023-11-18T04:30:00.000000Z\"],"
    "\"error\":null,\"origin\":\"added\",\"id\":\"018bcfe5-6800-7000-8000-000000000005\",\"in\":\"outbox\","
    "\"box\":\"inbox\",\"type\":\"report\",\"stream\":\"s\",\"destination\":\"billing\",\"source\":\"/a\","
    "\"subject\":null,\"content_type\":null,\"correlation_id\":null,\"traceparent\":null,\"tracestate\":null,"
    "\"causation_id\":null,\"event\":true,\"headers\":{\"a\":\"b\"},\"payload\":\"\\\"x\\\"\"},"
    "{\"name\":\"bad\",\"state\":\"dead\",\"cron\":null,\"zone\":\"UTC\",\"missed\":\"once\",\"grace\":\"0s\","
    "\"next_at\":null,\"next\":[],"
    "\"error\":\"cron: not five fields\",\"origin\":\"config\",\"id\":\"018bcfe5-6800-7000-8000-000000000005\","
    "\"in\":\"outbox\",\"box\":\"outbox\",\"type\":null,\"stream\":null,\"destination\":null,\"source\":null,"
    "\"subject\":null,\"content_type\":null,\"correlation_id\":null,\"traceparent\":null,\"tracestate\":null,"
    "\"causation_id\":null,\"event\":false,\"headers\":null,\"payload\":\"\"}]";

TEST(schedules_are_written_as_they_always_were)
{
    const struct listed row = { .box = PR_STR("outbox"), .m.id = id_of(5) };
    struct paper p;
    struct json_writer *w = paper_init(&p);
    struct schedule s;
    struct pr_error error;
    CHECK_OK(
        schedule_decode(PR_STR("nightly"),
                        PR_STR("{\"cron\":\"30 4 * * *\",\"zone\":\"UTC\",\"missed\":\"all\",\"grace\":\"5m\","
                               "\"box\":\"inbox\",\"type\":\"report\",\"stream\":\"s\",\"destination\":\"billing\","
                               "\"source\":\"/a\",\"event\":true,\"headers\":{\"a\":\"b\"},\"payload\":\"x\"}"),
                        &p.arena, &s, &error),
        &error);
    const struct schedule_info infos[] = {
        { .row = &row, .s = s, .state = SCHEDULE_ACTIVE, .next_us = NOW_US },
        { .row = &row,
          .s = { .name = PR_STR("bad"), .config = PR_STR("h") },
          .state = SCHEDULE_DEAD,
          .error = PR_STR("cron: not five fields") },
    };
    json_begin_array(w);
    for (size_t i = 0; i < 2; i++)
        schedule_json(w, &infos[i], NOW_US);
    json_end_array(w);
    CHECK_SLICE(buf_slice(&p.text), SCHEDULES);
    paper_fini(&p);
}

/* ---- Why ---- */

static const char WHY[] =
    "{\"waits_for\":\"018bcfe5-6800-7000-8000-000000000006\",\"now\":\"It waits. For that.\",\"next\":"
    "{\"what\":null,\"at\":\"2023-11-14T22:13:20.000000Z\"},\"breaker\":null,\"handled\":["
    "{\"box\":\"inbox\",\"handler\":\"h\",\"at\":\"2023-11-14T22:13:20.000000Z\",\"outcome\":\"delivered\"}],"
    "\"again\":[{\"box\":\"inbox\",\"destination\":null,\"times\":2,\"last_at\":\"2023-11-14T22:13:20.000000Z\"}],"
    "\"commands\":[{\"command\":\"postrider retry ID\",\"what\":\"to try it\"}]}";
static const char GROUPS[] =
    "[{\"count\":3,\"count_exact\":true,\"fingerprint\":\"f\",\"first_at\":\"2023-11-14T22:13:20.000000Z\","
    "\"last_at\":\"2023-11-14T22:13:20.000000Z\",\"box\":\"outbox\",\"endpoint\":\"billing\",\"type\":\"t\","
    "\"cause\":\"rejected\",\"reason\":\"rejected\",\"error\":\"no\","
    "\"sample\":\"018bcfe5-6800-7000-8000-000000000008\"},"
    "{\"count\":3,\"count_exact\":false,\"fingerprint\":\"g\",\"first_at\":null,\"last_at\":null,\"box\":null,"
    "\"endpoint\":null,\"type\":null,\"cause\":null,\"reason\":null,\"error\":null,\"sample\":null},"
    "{\"count\":10000,\"count_exact\":false,\"fingerprint\":\"h\",\"first_at\":null,\"last_at\":null,"
    "\"box\":null,\"endpoint\":null,\"type\":null,\"cause\":null,\"reason\":null,\"error\":null,\"sample\":null}]";

TEST(the_answer_to_why_is_written_as_it_always_was)
{
    const struct listed head = { .m.id = id_of(6) };
    struct mark_info marks[] = { { PR_STR("inbox"), PR_STR("h"), ENDED_DELIVERED, NOW_US } };
    struct again_info again[] = { { PR_STR("inbox"), PR_STR(""), 2, NOW_US } };
    const struct query_reply reply = { .marks = marks, .mark_count = 1, .again = again, .again_count = 1 };
    struct paper p;
    struct json_writer *w = paper_init(&p);
    const struct message_why o = { .arena = &p.arena,
                                   .reply = &reply,
                                   .head = &head,
                                   .now = "It waits.\nFor that.\n",
                                   .next = "",
                                   .next_us = NOW_US,
                                   .commands = { { "postrider retry ID", "to try it" } },
                                   .command_count = 1 };
    json_begin_object(w);
    message_why_json(w, &o);
    json_end_object(w);
    CHECK_SLICE(buf_slice(&p.text), WHY);
    paper_fini(&p);
}

TEST(groups_of_dead_letters_are_written_as_they_always_were)
{
    const struct dead_group groups[] = {
        { .fingerprint = PR_STR("f"),
          .first_us = NOW_US,
          .last_us = NOW_US,
          .count = 3,
          .box = PR_STR("outbox"),
          .endpoint = PR_STR("billing"),
          .type = PR_STR("t"),
          .cause = PR_REASON_REJECTED,
          .sample = id_of(8),
          .error = PR_STR("no") },
        { .fingerprint = PR_STR("g"), .count = 3, .partial = true },
        { .fingerprint = PR_STR("h"), .count = COUNT_EXACT_MAX + 1 },
    };
    struct paper p;
    struct json_writer *w = paper_init(&p);
    json_begin_array(w);
    for (size_t i = 0; i < 3; i++)
        group_json(w, &groups[i]);
    json_end_array(w);
    CHECK_SLICE(buf_slice(&p.text), GROUPS);
    paper_fini(&p);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The object with this index of an array; or, without one, the object itself. */
static const json_t *object_of(json_t *text, const char *list, size_t index)
{
    return list != NULL ? json_array_get(json_object_get(text, list), index) : text;
}

TEST(a_table_reads_what_it_has_written)
{
    static const struct {
        const char *text, *list;
        size_t index;
        enum reply_shape shape;
        const char *written;
    } cases[] = {
        { FLOW_ROW, NULL, 0, REPLY_FLOW, FLOW_ROW },
        { FLOW_NEW, NULL, 0, REPLY_FLOW,
          "{\"id\":\"new\",\"name\":null,\"version\":null,\"execution\":null,\"state\":null,\"custom_status\":null,"
          "\"status_number\":0,\"input\":null,\"output\":null,\"error\":null,\"parent\":null,\"events\":0,"
          "\"created_at\":null,\"updated_at\":null}" },
        { STATUS, "boxes", 0, REPLY_BOX,
          "{\"name\":\"outbox\",\"ready\":1,\"in_flight\":2,\"delayed\":3,\"retrying\":4,\"held\":5,\"parked\":6,"
          "\"paused\":7,\"dead\":8,\"done\":9,\"counts_exact\":true,\"oldest_age_seconds\":1.5}" },
        { STATUS, "endpoints", 1, REPLY_CONDITION,
          "{\"state\":\"paused\",\"until\":null,\"by\":\"ann\",\"why\":\"deploy\"}" },
        { WHY, "handled", 0, REPLY_MARK,
          "{\"box\":\"inbox\",\"handler\":\"h\",\"at\":\"2023-11-14T22:13:20.000000Z\",\"outcome\":\"delivered\"}" },
        { WHY, "again", 0, REPLY_AGAIN,
          "{\"box\":\"inbox\",\"destination\":null,\"times\":2,\"last_at\":\"2023-11-14T22:13:20.000000Z\"}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        union {
            struct flow_row flow;
            struct box_reply box;
            struct condition_reply condition;
            struct mark_info mark;
            struct again_info again;
        } row;
        struct paper p;
        struct json_writer *w = paper_init(&p);
        json_t *text = json_loads(cases[i].text, 0, NULL);
        CHECK(text != NULL);
        memset(&row, 0, sizeof row);
        reply_parse(object_of(text, cases[i].list, cases[i].index), cases[i].shape, &p.arena, &row);
        json_begin_object(w);
        reply_write(w, cases[i].shape, &row);
        json_end_object(w);
        CHECK_SLICE(buf_slice(&p.text), cases[i].written);
        json_decref(text);
        paper_fini(&p);
    }
}

TEST(what_an_answer_lacks_is_read_as_null)
{
    struct group_reply group = { .count = 1 };
    struct arena arena;
    arena_init(&arena, 1024);
    reply_parse(NULL, REPLY_GROUP, &arena, &group);
    CHECK_EQ(group.count, 0);
    CHECK(group.exact); /* an older daemon had no such word, and exact counts */
    CHECK_EQ(group.group.cause, PR_REASON_NONE);
    arena_fini(&arena);
}
