/* Schedules as rows: storing, finding and moving them, and delayed messages, which are moved the same way. */
#include "suite.h"

#include "store/schedules.h"

#define DAY PR_SECONDS(86400)

static struct schedule daily(void)
{
    struct schedule s = { .name = PR_STR("nightly"),
                          .cron_text = PR_STR("0 3 * * *"),
                          .grace_us = SCHEDULE_GRACE_US,
                          .message = { .type = PR_STR("report"), .payload = PR_STR("{\"a\":1}") } };
    struct pr_error error;
    CHECK_OK(cron_parse(s.cron_text, &s.cron, &error), &error);
    return s;
}

static void put(struct suite *s, const struct schedule *schedule, bool replace, int answer)
{
    CHECK_EQ(schedule_put(&s->store, PR_STR("outbox"), schedule, replace, SUITE_PAYLOAD_MAX, &s->error), answer);
}

static const struct schedule_info *find(struct suite *s, size_t count)
{
    struct schedule_info *list;
    size_t found;
    CHECK_OK(schedules_find(&s->store, PR_STR("nightly"), &s->arena, &list, &found, &s->error), &s->error);
    CHECK_EQ(found, count);
    return list;
}

static void order(struct suite *s, enum schedule_order what, int64_t to_us, int answer)
{
    CHECK_EQ(schedule_order(&s->store, PR_STR("nightly"), what, to_us, PR_STR("me"), PR_STR("why"), &s->error), answer);
}

STORE_TEST(a_schedule_is_stored_once_and_found_with_its_next_time) /* B99 */
{
    struct schedule schedule = daily();
    put(s, &schedule, false, PR_OK);
    put(s, &schedule, false, PR_DUPLICATE);
    const struct schedule_info *info = find(s, 1);
    CHECK_EQ(info->state, SCHEDULE_ACTIVE);
    CHECK_EQ(info->next_us, cron_next(&schedule.cron, NULL, s->wall_us));
    CHECK_SLICE(info->s.message.payload, "{\"a\":1}");
    CHECK(!info->wish);
}

STORE_TEST(another_one_of_the_same_name_is_a_wish_until_its_owner_takes_it_up) /* B99 */
{
    struct schedule schedule = daily();
    put(s, &schedule, false, PR_OK);
    schedule.message.type = PR_STR("other");
    put(s, &schedule, true, PR_OK);
    const struct schedule_info *list = find(s, 2);
    CHECK_EQ(list[0].wish + list[1].wish, 1);
    CHECK_EQ(list[list[0].wish ? 0 : 1].state, SCHEDULE_NEW);
    order(s, SCHEDULE_CANCEL, 0, PR_OK);
    (void)find(s, 0);
}

STORE_TEST(a_schedule_is_paused_resumed_moved_and_cancelled) /* B213 */
{
    struct schedule schedule = daily();
    order(s, SCHEDULE_PAUSE, 0, PR_ENOTFOUND);
    put(s, &schedule, false, PR_OK);
    int64_t next = find(s, 1)->next_us;
    order(s, SCHEDULE_PAUSE, 0, PR_OK);
    CHECK_EQ(find(s, 1)->state, SCHEDULE_PAUSED);
    suite_advance(s, 3 * DAY);
    order(s, SCHEDULE_RESUME, 0, PR_OK);
    CHECK_EQ(find(s, 1)->next_us, next + 3 * DAY); /* what it missed stays out */
    order(s, SCHEDULE_MOVE, next + 3 * DAY + PR_SECONDS(5), PR_OK);
    CHECK_EQ(find(s, 1)->next_us, next + 3 * DAY + PR_SECONDS(5));
    order(s, SCHEDULE_MOVE, next + 100 * DAY, PR_EINVAL);                   /* that is what a pause is for */
    order(s, SCHEDULE_MOVE, s->wall_us - SCHEDULE_GRACE_US - 1, PR_EINVAL); /* it would be missed at once */
    CHECK(strstr(s->error.text, "schedules run") != NULL);
    order(s, SCHEDULE_MOVE, s->wall_us - SCHEDULE_GRACE_US, PR_OK);
    order(s, SCHEDULE_PAUSE, 0, PR_OK);
    order(s, SCHEDULE_MOVE, next + 3 * DAY, PR_EINVAL);
    CHECK(strstr(s->error.text, "resume it first") != NULL);
    CHECK_EQ(find(s, 1)->state, SCHEDULE_PAUSED);
    order(s, SCHEDULE_CANCEL, 0, PR_OK);
    (void)find(s, 0);
    put(s, &schedule, false, PR_OK);
}

STORE_TEST(a_schedule_that_was_cancelled_comes_back_also_in_a_box_with_dedupe) /* B213 */
{
    struct schedule schedule = daily();
    s->dedupe_us = PR_MINUTES(60);
    (void)suite_join(s, "outbox");
    put(s, &schedule, false, PR_OK);
    order(s, SCHEDULE_CANCEL, 0, PR_OK);
    put(s, &schedule, false, PR_OK);
    (void)find(s, 1);
}

STORE_TEST(next_times_that_a_wrong_clock_made_are_taken_back) /* B210 */
{
    struct schedule schedule = daily();
    size_t count;
    int64_t now = s->wall_us;
    s->wall_us += 365 * DAY;
    put(s, &schedule, false, PR_OK);
    s->wall_us = now;
    CHECK_OK(schedules_take_back(&s->store, &count, &s->error), &s->error);
    CHECK_EQ(count, 1);
    CHECK_EQ(find(s, 1)->next_us, cron_next(&schedule.cron, NULL, s->wall_us));
    CHECK_OK(schedules_take_back(&s->store, &count, &s->error), &s->error);
    CHECK_EQ(count, 0);
}

STORE_TEST(its_message_can_be_sent_now_and_its_times_stay) /* B213 */
{
    struct schedule schedule = daily();
    pr_id id;
    schedule.box = PR_STR("ledger");
    put(s, &schedule, false, PR_OK);
    const struct schedule_info *info = find(s, 1);
    CHECK_OK(schedule_run_now(&s->store, info, SUITE_PAYLOAD_MAX, &id, &s->error), &s->error);
    const struct listed *sent = suite_get(s, id);
    CHECK_SLICE(sent->box, "ledger");
    CHECK_SLICE(sent->m.type, "report");
    CHECK_EQ(find(s, 1)->next_us, info->next_us);
}

STORE_TEST(a_delayed_message_is_moved_and_cancelled_until_it_goes) /* B213 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .due_us = s->wall_us + PR_SECONDS(100));
    const struct admin move = { .kind = ADMIN_RESCHEDULE,
                                .filter = { .ids = &id, .id_count = 1, .state = -1 },
                                .until_us = s->wall_us + PR_SECONDS(10),
                                .by = PR_STR("me") };
    struct admin_reply reply;
    CHECK_OK(store_admin(&s->store, &move, &reply, &s->error), &s->error);
    CHECK_EQ(reply.changed, 1);
    CHECK_EQ(suite_get(s, id)->m.due_us, s->wall_us + PR_SECONDS(10));
    CYCLE(w); /* it is told */
    CHECK_EQ(w->reply->notice_count, 1);
    CHECK_EQ(w->reply->notices[0].kind, NOTICE_DUE);
    suite_advance(s, PR_SECONDS(11));
    CYCLE(w, .due.rows = 10);
    CHECK(reply_find(w->reply, id) != NULL);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id).changed, 1);
    CHECK_OK(store_admin(&s->store, &move, &reply, &s->error), &s->error); /* parked no more */
    CHECK(suite_get(s, id)->m.due_us != PR_NEVER);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, id).changed, 1);
    CHECK(suite_find(s, id) == NULL);
}
