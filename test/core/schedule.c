/* Schedules: their JSON, and what is due. */
#include "core/schedule.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "check.h"
#include "core/message.h"

#define AT_DAWN INT64_C(1767236400000000) /* 2026-01-01T03:00:00Z */
#define DAY PR_SECONDS(86400)

static struct schedule decoded(struct arena *arena, const char *json)
{
    struct schedule s;
    struct pr_error error;
    CHECK_OK(schedule_decode(PR_STR("nightly"), pr_str(json), arena, &s, &error), &error);
    return s;
}

static struct schedule_plan planned(const char *missed, int64_t due_us, int64_t now_us)
{
    struct arena arena;
    struct schedule_plan plan;
    char json[128];
    arena_init(&arena, 1024);
    snprintf(json, sizeof(json), "{\"cron\":\"0 3 * * *\",\"type\":\"t\",\"missed\":\"%s\"}", missed);
    struct schedule s = decoded(&arena, json);
    schedule_plan(&s, NULL, due_us, now_us, SCHEDULE_TIMES_MAX, &plan);
    arena_fini(&arena);
    return plan;
}

TEST(a_schedule_is_written_as_json_and_read_back)
{
    static const char json[] =
        "{\"cron\":\"0 3 * * 1-5\",\"zone\":\"Europe/Berlin\",\"missed\":\"all\",\"grace\":\"5m\",\"box\":\"ledger\","
        "\"type\":\"report\",\"stream\":\"s\",\"destination\":\"audit\",\"source\":\"me\",\"correlation_id\":\"c\","
        "\"headers\":{\"a\":1},\"payload\":{\"x\":[1,2]},\"paused\":true,\"config\":\"00ff\","
        "\"started\":\"2026-01-01T00:00:00.000000Z\"}";
    struct arena arena;
    struct buf out;
    arena_init(&arena, 1024);
    buf_init(&out, 4096);
    struct schedule s = decoded(&arena, json);
    CHECK_SLICE(s.name, "nightly");
    CHECK_EQ(s.missed, MISSED_ALL);
    CHECK_EQ(s.grace_us, PR_MINUTES(5));
    CHECK(s.paused);
    CHECK_SLICE(s.message.payload, "{\"x\":[1,2]}");
    schedule_encode(&s, &out);
    CHECK_SLICE(buf_slice(&out), json);
    arena_fini(&arena);
    buf_fini(&out);
}

TEST(payloads_that_are_no_json_come_back_byte_for_byte)
{
    static const pr_slice payloads[] = { PR_STR("plain \"text\""), PR_STR("\xff\x00\x01"), PR_STR("") };
    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        struct arena arena;
        struct buf out;
        struct schedule again;
        struct pr_error error;
        arena_init(&arena, 1024);
        buf_init(&out, 4096);
        struct schedule s = decoded(&arena, "{\"cron\":\"@daily\",\"type\":\"t\"}");
        s.message.payload = payloads[i];
        schedule_encode(&s, &out);
        CHECK_OK(schedule_decode(s.name, buf_slice(&out), &arena, &again, &error), &error);
        CHECK_SLICE(again.message.payload, payloads[i]);
        arena_fini(&arena);
        buf_fini(&out);
    }
}

TEST(what_is_wrong_with_a_schedule_is_told_with_its_member)
{
    static const struct {
        const char *json, *part;
    } wrong[] = {
        { "", "JSON object" },
        { "[]", "JSON object" },
        { "{\"type\":\"t\"}", "cron is empty" },
        { "{\"cron\":\"61 * * * *\",\"type\":\"t\"}", "minute" },
        { "{\"cron\":\"@daily\"}", "type" },
        { "{\"cron\":\"@daily\",\"type\":5}", "type: must be a string" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"missed\":\"twice\"}", "missed: must be once, skip or all" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"grace\":\"soon\"}", "grace" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"paused\":1}", "paused: must be true or false" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"headers\":[]}", "headers: must be an object" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"payload_base64\":\"!\"}", "payload_base64: not valid base64" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"payload\":1,\"payload_text\":\"x\"}", "cannot be combined" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"krone\":1}", "krone: unknown member" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"box\":\"a b\"}", "box" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"destination\":\"schedule:\"}", "cannot create schedules" },
        { "{\"cron\":\"@daily\",\"type\":\"t\",\"name\":\"other\"}", "name" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct arena arena;
        struct schedule s;
        struct pr_error error;
        arena_init(&arena, 1024);
        CHECK_EQ(schedule_decode(PR_STR("nightly"), pr_str(wrong[i].json), &arena, &s, &error), PR_EINVAL);
        if (strstr(error.text, wrong[i].part) == NULL)
            check_fail(__FILE__, __LINE__, "%s is told as: %s", wrong[i].json, error.text);
        arena_fini(&arena);
    }
}

TEST(a_new_schedule_begins_now_and_one_that_is_due_sends_once_and_goes_on) /* B99 */
{
    struct schedule_plan plan = planned("once", 0, AT_DAWN + 1);
    CHECK_EQ(plan.count, 0);
    CHECK_EQ(plan.next_us, AT_DAWN + DAY);
    plan = planned("once", AT_DAWN, AT_DAWN + PR_SECONDS(5));
    CHECK_EQ(plan.count, 1);
    CHECK_EQ(plan.times[0], AT_DAWN);
    CHECK_EQ(plan.next_us, AT_DAWN + DAY);
    CHECK_EQ(plan.left_out, 0);
    plan = planned("once", AT_DAWN, AT_DAWN - 1);
    CHECK_EQ(plan.count, 0);
    CHECK_EQ(plan.next_us, AT_DAWN);
}

TEST(missed_times_are_left_out_by_skip) /* B210 */
{
    struct schedule_plan plan = planned("skip", AT_DAWN, AT_DAWN + 3 * DAY - PR_MINUTES(5));
    CHECK_EQ(plan.count, 0);
    CHECK_EQ(plan.left_out, 3);
    CHECK_EQ(plan.next_us, AT_DAWN + 3 * DAY);
    plan = planned("skip", AT_DAWN, AT_DAWN + 3 * DAY + PR_SECONDS(59)); /* the latest is in time */
    CHECK_EQ(plan.count, 1);
    CHECK_EQ(plan.times[0], AT_DAWN + 3 * DAY);
    CHECK_EQ(plan.left_out, 3);
    plan = planned("skip", AT_DAWN, AT_DAWN + PR_SECONDS(61));
    CHECK_EQ(plan.count, 0);
    CHECK_EQ(plan.left_out, 1);
}

TEST(of_missed_times_once_sends_the_latest) /* B210 */
{
    struct schedule_plan plan = planned("once", AT_DAWN, AT_DAWN + 3 * DAY - PR_MINUTES(5));
    CHECK_EQ(plan.count, 1);
    CHECK_EQ(plan.times[0], AT_DAWN + 2 * DAY);
    CHECK_EQ(plan.left_out, 2);
    CHECK_EQ(plan.next_us, AT_DAWN + 3 * DAY);
    plan = planned("once", AT_DAWN, AT_DAWN + PR_MINUTES(5));
    CHECK_EQ(plan.count, 1);
    CHECK_EQ(plan.times[0], AT_DAWN);
    CHECK_EQ(plan.left_out, 0);
}

TEST(all_missed_times_are_made_up_for_a_hundred_at_once_and_a_thousand_in_all) /* B210 */
{
    int64_t due = AT_DAWN, now = AT_DAWN + 2000 * DAY;
    size_t sent = 0, left_out = 0, rounds = 0;
    while (due <= now) {
        struct schedule_plan plan = planned("all", due, now);
        CHECK(plan.count > 0 && plan.count <= SCHEDULE_TIMES_MAX);
        CHECK_EQ(plan.times[plan.count - 1] + DAY, plan.next_us);
        left_out += plan.left_out;
        CHECK_EQ(plan.over_gap, rounds == 0);
        sent += plan.count;
        due = plan.next_us;
        rounds++;
    }
    CHECK_EQ(sent, SCHEDULE_GAP_MAX);
    CHECK_EQ(rounds, 10);
    CHECK_EQ(left_out, SCHEDULE_GAP_MAX + 1); /* "more than 1,000" */
    CHECK_EQ(due, now + DAY);
}

TEST(a_next_time_beyond_a_period_and_a_day_was_made_by_a_wrong_clock) /* B210 */
{
    struct arena arena;
    arena_init(&arena, 1024);
    struct schedule s = decoded(&arena, "{\"cron\":\"0 3 * * *\",\"type\":\"t\"}");
    CHECK(!schedule_is_ahead(&s, NULL, AT_DAWN + DAY, AT_DAWN));
    CHECK(!schedule_is_ahead(&s, NULL, AT_DAWN + 3 * DAY, AT_DAWN));
    CHECK(schedule_is_ahead(&s, NULL, AT_DAWN + 3 * DAY + 1, AT_DAWN));
    CHECK(!schedule_is_ahead(&s, NULL, PR_NEVER, AT_DAWN));
    arena_fini(&arena);
}

TEST(the_message_of_a_time_has_an_id_of_its_own_and_says_whose_it_is) /* B99 */
{
    struct arena arena;
    struct buf headers;
    pr_id again;
    arena_init(&arena, 1024);
    buf_init(&headers, 4096);
    struct schedule s = decoded(&arena, "{\"cron\":\"0 3 * * *\",\"type\":\"t\",\"headers\":{\"a\":1}}");
    struct pr_message m = schedule_message(&s, PR_STR("outbox"), AT_DAWN, &headers);
    CHECK_SLICE(m.headers,
                "{\"postrider-schedule\":\"nightly\",\"postrider-due\":\"2026-01-01T03:00:00.000000Z\",\"a\":1}");
    CHECK(slice_is_json_object(m.headers));
    schedule_message_id(PR_STR("outbox"), PR_STR("nightly"), AT_DAWN, &again);
    CHECK(pr_id_equal(m.id, again));
    schedule_message_id(PR_STR("outbox"), PR_STR("nightly"), AT_DAWN + 1, &again);
    CHECK(!pr_id_equal(m.id, again));
    schedule_message_id(PR_STR("other"), PR_STR("nightly"), AT_DAWN, &again);
    CHECK(!pr_id_equal(m.id, again));
    arena_fini(&arena);
    buf_fini(&headers);
}
