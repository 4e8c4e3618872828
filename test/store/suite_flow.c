/* Flows in a store: their rows as guards of turns, joined verdicts, executions, mail, people's questions and deletions,
 * and activities that were cancelled while they ran. */
#include "suite.h"

#include <string.h>

#include "core/id.h"
#include "flow/activity.h"
#include "flow/flow_id.h"

static const pr_slice FLOW = { "order-7", 7 };

static struct flow_row flow_at(pr_id execution, int64_t next)
{
    return (struct flow_row){ .id = FLOW,
                              .name = PR_STR("checkout"),
                              .version = PR_STR("1"),
                              .execution = execution,
                              .next = next,
                              .state = FLOW_RUNNING,
                              .input = PR_STR("in\0put") };
}

/* A turn: what it saw (saw zero: nothing), what the row is from now on, and `events` events. */
struct turn {
    struct flow_row row;
    struct effect effects[8];
    size_t count;
    char execution[PR_ID_TEXT_SIZE];
};

static void turn_begin(struct turn *t, pr_id saw, int64_t expected, struct flow_row row)
{
    memset(t, 0, sizeof(*t));
    t->row = row;
    pr_id_format(row.execution, t->execution);
    t->effects[0] =
        (struct effect){ .kind = EFFECT_FLOW, .flow = &t->row, .id = saw, .expected = expected, .takes_verdict = true };
    int64_t first = pr_id_equal(saw, row.execution) ? expected : 0;
    t->effects[1] = (struct effect){ .kind = EFFECT_HISTORY,
                                     .key = slice_from(t->execution),
                                     .value = PR_STR("{}\n"),
                                     .count = row.next - first,
                                     .expected = first,
                                     .takes_verdict = true };
    t->count = 2;
}

static pr_id message_for_flow(struct suite *s)
{
    return SEND(s, "turns", .type = PR_STR("event"), .stream = FLOW);
}

static int turn_commit(struct worker *w, pr_id message, const struct turn *t)
{
    struct claim c = worker_claim(w, message);
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = t->effects, .effect_count = t->count, .closed = &c.cycle,
          .closed_count = 1);
    return w->reply->answers[0];
}

static int turn_of(struct worker *w, pr_id saw, int64_t expected, struct flow_row row)
{
    struct turn t;
    turn_begin(&t, saw, expected, row);
    return turn_commit(w, message_for_flow(w->suite), &t);
}

static const struct query_reply *ask(struct suite *s, struct query query)
{
    struct query_reply *reply = arena_alloc(&s->arena, sizeof(*reply));
    CHECK_EQ(store_query(&s->store, &query, &s->arena, reply, &s->error), PR_OK);
    return reply;
}

static const struct query_reply *ask_flow(struct suite *s, pr_slice id)
{
    return ask(s, (struct query){ .kind = QUERY_FLOW, .flow = { .id = id } });
}

static const pr_id NONE;

/* ---- The row is the guard ------------------------------------------------------------------------ */

STORE_TEST(a_start_message_creates_no_flow_and_the_first_turn_does) /* B126 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id start = message_for_flow(s), x = suite_id(500);
    CHECK_EQ(ask_flow(s, FLOW)->flow_count, 0);
    struct turn t;
    turn_begin(&t, NONE, 0, flow_at(x, 2));
    t.row.custom_status = PR_STR("busy");
    t.row.status_number = 1;
    t.row.parent = PR_STR("boss");
    t.row.parent_execution = suite_id(7);
    t.row.parent_task = 3;
    t.row.tasks = 4;
    CHECK_EQ(turn_commit(w, start, &t), PR_OK);
    const struct query_reply *r = ask_flow(s, FLOW);
    CHECK_EQ(r->flow_count, 1);
    CHECK_SLICE(r->flows[0].id, "order-7");
    CHECK_SLICE(r->flows[0].name, "checkout");
    CHECK_SLICE(r->flows[0].version, "1");
    CHECK(pr_id_equal(r->flows[0].execution, x));
    CHECK_EQ(r->flows[0].next, 2);
    CHECK_EQ(r->flows[0].state, FLOW_RUNNING);
    CHECK_SLICE(r->flows[0].custom_status, "busy");
    CHECK_EQ(r->flows[0].status_number, 1);
    CHECK(slice_eq(r->flows[0].input, PR_STR("in\0put")));
    CHECK_EQ(r->flows[0].output.size, 0);
    CHECK_EQ(r->flows[0].error.size, 0);
    CHECK_SLICE(r->flows[0].parent, "boss");
    CHECK(pr_id_equal(r->flows[0].parent_execution, suite_id(7)));
    CHECK_EQ(r->flows[0].parent_task, 3);
    CHECK_EQ(r->flows[0].tasks, 4);
    CHECK_EQ(r->flows[0].created_us, s->wall_us);
    CHECK_EQ(r->turn_count, 1);
    CHECK_EQ(r->turns[0].first, 0);
    CHECK_EQ(r->turns[0].count, 2);
    CHECK_SLICE(r->turns[0].events, "{}\n");
}

STORE_TEST(a_turn_commits_all_of_it_or_nothing) /* B122 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id x = suite_id(500), old = SEND(s, "activities");
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(x, 2)), PR_OK);
    struct pr_message activity = { .id = suite_id(600), .type = PR_STR("charge"), .payload = PR_STR("x") };
    struct pr_message timer = { .id = suite_id(601), .type = PR_STR("timer"), .stream = FLOW };
    struct turn t;
    turn_begin(&t, x, 1, flow_at(x, 4)); /* it saw too little */
    t.effects[2] = (struct effect){ .kind = EFFECT_MESSAGE, .box = PR_STR("activities"), .message = &activity };
    t.effects[3] = (struct effect){ .kind = EFFECT_MESSAGE, .box = PR_STR("turns"), .message = &timer };
    t.effects[4] = (struct effect){ .kind = EFFECT_STATE, .key = FLOW, .name = PR_STR("k"), .value = PR_STR("v") };
    t.effects[5] = (struct effect){ .kind = EFFECT_DELETE, .box = PR_STR("activities"), .id = old };
    t.count = 6;
    pr_id message = message_for_flow(s);
    CHECK_EQ(turn_commit(w, message, &t), ANSWER_REFUSED);
    CHECK(suite_find(s, message) != NULL);
    CHECK(suite_find(s, activity.id) == NULL);
    CHECK(suite_find(s, timer.id) == NULL);
    CHECK(suite_find(s, old) != NULL);
    CHECK_EQ(ask_flow(s, FLOW)->flows[0].next, 2);
    CHECK_EQ(ask_flow(s, FLOW)->value_count, 0);
    t.effects[0].expected = t.effects[1].expected = 2;
    t.effects[1].count = 2;
    CHECK_EQ(turn_commit(w, message, &t), PR_OK);
    CHECK(suite_find(s, message) == NULL);
    CHECK(suite_find(s, activity.id) != NULL);
    CHECK(suite_find(s, timer.id) != NULL);
    CHECK(suite_find(s, old) == NULL);
    const struct query_reply *r = ask_flow(s, FLOW);
    CHECK_EQ(r->flows[0].next, 4);
    CHECK_EQ(r->turn_count, 2);
    CHECK_EQ(r->turns[1].first, 2);
    CHECK_EQ(r->value_count, 1);
    CHECK_SLICE(r->values[0].value, "v");
}

STORE_TEST(a_second_commit_of_the_same_turn_is_refused) /* B123, B131 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id x = suite_id(500);
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(x, 1)), PR_OK);
    CHECK_EQ(turn_of(w, x, 1, flow_at(x, 3)), PR_OK);
    pr_id again = message_for_flow(s);
    struct turn t;
    turn_begin(&t, x, 1, flow_at(x, 3));
    CHECK_EQ(turn_commit(w, again, &t), ANSWER_REFUSED);
    CHECK(suite_find(s, again) != NULL);                         /* B124: it is as it was */
    turn_begin(&t, suite_id(501), 3, flow_at(suite_id(501), 4)); /* B131: another execution */
    CHECK_EQ(turn_commit(w, again, &t), ANSWER_REFUSED);
    turn_begin(&t, NONE, 0, flow_at(suite_id(502), 1)); /* a first turn of one that is there */
    CHECK_EQ(turn_commit(w, again, &t), ANSWER_REFUSED);
    CHECK_EQ(ask_flow(s, FLOW)->flows[0].next, 3);
    CHECK_EQ(ask_flow(s, FLOW)->turn_count, 2);
}

STORE_TEST(a_turn_whose_lease_is_lost_changes_nothing) /* B123 */
{
    suite_needs(s, STORE_CAN_SHARE_LANES);
    struct worker *w = suite_join(s, "turns");
    pr_id message = message_for_flow(s);
    struct claim c = worker_claim(w, message);
    suite_advance(s, 3 * SUITE_LEASE_US);
    struct worker *other = suite_join(s, "turns");
    CYCLE(other);
    struct turn t;
    turn_begin(&t, NONE, 0, flow_at(suite_id(500), 1));
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CHECK_EQ(CYCLE_TRY(w, .verdicts = &v, .verdict_count = 1, .effects = t.effects, .effect_count = t.count),
             PR_ELEASE);
    CHECK_EQ(ask_flow(s, FLOW)->flow_count, 0);
    CHECK(suite_find(s, message) != NULL);
}

STORE_TEST(an_event_number_twice_is_refused) /* B125 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id x = suite_id(500);
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(x, 2)), PR_OK);
    struct turn t; /* the row says 2, the history has more: somebody wrote past the guard */
    turn_begin(&t, x, 2, flow_at(x, 3));
    t.effects[0] = t.effects[1];
    t.count = 1;
    CHECK_EQ(turn_commit(w, message_for_flow(s), &t), PR_OK);
    pr_id message = message_for_flow(s);
    turn_begin(&t, x, 2, flow_at(x, 3));
    CHECK_EQ(turn_commit(w, message, &t), ANSWER_REFUSED);
    CHECK_EQ(ask_flow(s, FLOW)->flows[0].next, 2);
    CHECK_EQ(ask_flow(s, FLOW)->turn_count, 2);
    CHECK(suite_find(s, message) != NULL);
}

STORE_TEST(each_execution_has_its_history_and_older_ones_stay_readable) /* B127 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id x = suite_id(500), y = suite_id(501), z = suite_id(502);
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(x, 2)), PR_OK);
    CHECK_EQ(turn_of(w, x, 2, flow_at(y, 1)), PR_OK);          /* continued as new */
    CHECK_EQ(turn_of(w, x, 2, flow_at(z, 1)), ANSWER_REFUSED); /* the pointer never goes back */
    struct flow_row done = flow_at(y, 2);
    done.state = FLOW_COMPLETED;
    done.output = PR_STR("out");
    CHECK_EQ(turn_of(w, y, 1, done), PR_OK);
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(z, 1)), ANSWER_REFUSED); /* it has ended, and nobody restarts it */
    int64_t first_us = ask_flow(s, FLOW)->flows[0].created_us;
    suite_advance(s, PR_SECONDS(1));
    struct flow_row anew = flow_at(z, 1);
    anew.restarts = true;
    CHECK_EQ(turn_of(w, NONE, 0, anew), PR_OK);
    anew.execution = suite_id(503);
    CHECK_EQ(turn_of(w, NONE, 0, anew), ANSWER_REFUSED); /* it runs */
    const struct query_reply *r = ask(s, (struct query){ .kind = QUERY_FLOW_EXECUTIONS, .flow = { .id = FLOW } });
    CHECK_EQ(r->flow_count, 3);
    CHECK(pr_id_equal(r->flows[0].execution, z));
    CHECK_EQ(r->flows[0].created_us, first_us + PR_SECONDS(1));
    CHECK(pr_id_equal(r->flows[1].execution, y));
    CHECK_EQ(r->flows[1].state, FLOW_COMPLETED);
    CHECK_SLICE(r->flows[1].output, "out");
    CHECK(pr_id_equal(r->flows[2].execution, x));
    CHECK_EQ(r->flows[2].state, FLOW_CONTINUED);
    r = ask(s, (struct query){ .kind = QUERY_FLOW, .flow = { .id = FLOW, .execution = x } });
    CHECK_EQ(r->turn_count, 1);
    CHECK_EQ(r->turns[0].count, 2);
    CHECK(pr_id_equal(r->flows[0].execution, z));
}

STORE_TEST(an_activity_that_is_out_is_deleted_and_its_late_result_is_harmless) /* B128 */
{
    struct worker *turns = suite_join(s, "turns"), *activities = suite_join(s, "activities");
    pr_id x = suite_id(500), activity = SEND(s, "activities", .type = PR_STR("charge"));
    struct claim running = worker_claim(activities, activity);
    struct turn t;
    turn_begin(&t, NONE, 0, flow_at(x, 1));
    t.effects[2] = (struct effect){ .kind = EFFECT_DELETE, .box = PR_STR("activities"), .id = activity };
    t.count = 3;
    CHECK_EQ(turn_commit(turns, message_for_flow(s), &t), PR_OK);
    CHECK(suite_find(s, activity) == NULL);
    struct pr_message result = { .id = suite_id(601), .type = PR_STR("result"), .stream = FLOW };
    const struct effect e = { .kind = EFFECT_MESSAGE, .box = PR_STR("turns"), .message = &result };
    const struct verdict v = VERDICT_OF(running, .kind = VERDICT_COMPLETE);
    CYCLE(activities, .verdicts = &v, .verdict_count = 1, .effects = &e, .effect_count = 1);
    CHECK_EQ(activities->reply->answers[0], PR_UNKNOWN);
    CHECK(suite_find(s, result.id) == NULL);
}

STORE_TEST(a_cycle_is_told_which_rows_are_gone) /* B129 */
{
    struct worker *w = suite_join(s, "activities");
    pr_id stays = SEND(s, "activities"), goes = SEND(s, "activities");
    struct claim a = worker_claim(w, stays), b = worker_claim(w, goes);
    const struct row_name names[] = { { a.row, stays }, { b.row, goes }, { a.row, goes } };
    const struct cycle_reply *r = CYCLE(w, .alive = names, .alive_count = 2);
    CHECK(!r->gone[0] && !r->gone[1]);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, goes).changed, 1);
    r = CYCLE(w, .alive = names, .alive_count = 3);
    CHECK(!r->gone[0] && r->gone[1] && r->gone[2]);
}

STORE_TEST(concurrent_first_turns_of_one_flow_make_it_once)
{
    struct worker *w = suite_join(s, "turns");
    pr_id ids[] = { message_for_flow(s), message_for_flow(s) };
    struct claim a = worker_claim(w, ids[0]), b = worker_claim(w, ids[1]);
    const struct verdict v[] = { VERDICT_OF(a, .kind = VERDICT_COMPLETE), VERDICT_OF(b, .kind = VERDICT_COMPLETE) };
    struct turn first, second;
    turn_begin(&first, NONE, 0, flow_at(suite_id(500), 1));
    turn_begin(&second, NONE, 0, flow_at(suite_id(501), 1));
    struct effect e[] = { first.effects[0], first.effects[1], second.effects[0], second.effects[1] };
    e[2].verdict = e[3].verdict = 1;
    CYCLE(w, .verdicts = v, .verdict_count = 2, .effects = e, .effect_count = 4);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], ANSWER_BUSY);
    e[2].verdict = e[3].verdict = 0;
    CYCLE(w, .verdicts = &v[1], .verdict_count = 1, .effects = &e[2], .effect_count = 2);
    CHECK_EQ(w->reply->answers[0], ANSWER_REFUSED);
    CHECK(pr_id_equal(ask_flow(s, FLOW)->flows[0].execution, suite_id(500)));
}

/* ---- Verdicts that go together -------------------------------------------------------------------- */

/* A run of three: the first one's verdict and two that are joined to it. */
static void run_of_three(struct worker *w, pr_id ids[3], struct verdict v[3])
{
    for (size_t i = 0; i < 3; i++) {
        ids[i] = message_for_flow(w->suite);
        struct claim c = worker_claim(w, ids[i]);
        v[i] = VERDICT_OF(c, .kind = VERDICT_COMPLETE, .joined = i > 0);
    }
}

static void check_run(struct suite *s, const pr_id ids[3], bool stays)
{
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(suite_find(s, ids[i]) != NULL, stays);
}

STORE_TEST(a_run_is_completed_with_its_first_message_or_not_at_all)
{
    struct worker *w = suite_join(s, "turns");
    pr_id ids[3], x = suite_id(500), other = SEND(s, "turns", .stream = PR_STR("another"));
    struct verdict v[4];
    struct turn t;
    run_of_three(w, ids, v);
    struct claim c = worker_claim(w, other);
    v[3] = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    turn_begin(&t, x, 5, flow_at(x, 6)); /* there is no such flow */
    CYCLE(w, .verdicts = v, .verdict_count = 4, .effects = t.effects, .effect_count = t.count);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(w->reply->answers[i], ANSWER_REFUSED);
    CHECK_EQ(w->reply->answers[3], PR_OK);
    check_run(s, ids, true);
    turn_begin(&t, NONE, 0, flow_at(x, 3));
    CYCLE(w, .verdicts = v, .verdict_count = 3, .effects = t.effects, .effect_count = t.count);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(w->reply->answers[i], PR_OK);
    check_run(s, ids, false);
}

STORE_TEST(a_run_whose_first_message_is_gone_stays_as_it_is)
{
    struct worker *w = suite_join(s, "turns");
    pr_id ids[3];
    struct verdict v[3];
    struct turn t;
    run_of_three(w, ids, v);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, ids[0]).changed, 1);
    turn_begin(&t, NONE, 0, flow_at(suite_id(500), 3));
    CYCLE(w, .verdicts = v, .verdict_count = 3, .effects = t.effects, .effect_count = t.count);
    CHECK_EQ(w->reply->answers[0], PR_UNKNOWN);
    CHECK_EQ(w->reply->answers[1], ANSWER_REFUSED);
    CHECK_EQ(w->reply->answers[2], ANSWER_REFUSED);
    CHECK(suite_find(s, ids[1]) != NULL);
    CHECK_EQ(ask_flow(s, FLOW)->flow_count, 0);
}

STORE_TEST(a_run_of_which_another_message_is_gone_is_completed_without_it)
{
    struct worker *w = suite_join(s, "turns");
    pr_id ids[3];
    struct verdict v[3];
    struct turn t;
    run_of_three(w, ids, v);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, ids[1]).changed, 1);
    turn_begin(&t, NONE, 0, flow_at(suite_id(500), 3));
    CYCLE(w, .verdicts = v, .verdict_count = 3, .effects = t.effects, .effect_count = t.count);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    CHECK_EQ(w->reply->answers[1], PR_UNKNOWN);
    CHECK_EQ(w->reply->answers[2], PR_OK);
    CHECK_EQ(ask_flow(s, FLOW)->flow_count, 1);
}

STORE_TEST(a_refused_run_that_is_asked_again_is_refused_again)
{
    struct worker *w = suite_join(s, "turns");
    pr_id ids[3], x = suite_id(500);
    struct verdict v[3];
    struct turn t;
    run_of_three(w, ids, v);
    turn_begin(&t, x, 5, flow_at(x, 6));
    struct cycle c;
    worker_fill(w, &(struct cycle){ .verdicts = v, .verdict_count = 3, .effects = t.effects, .effect_count = t.count },
                &c);
    const struct cycle_reply *r;
    CHECK_EQ(store_cycle(&w->session, &c, &r, &w->error), PR_OK);
    CHECK_EQ(store_cycle(&w->session, &c, &r, &w->error), PR_OK);
    CHECK(r->replayed);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ(r->answers[i], ANSWER_REFUSED);
    w->number = c.number + 1;
}

/* ---- Mail ------------------------------------------------------------------------------------------ */

static int keep_mail(struct worker *w, unsigned number, int64_t keep_us)
{
    struct pr_message m = { .id = suite_id(number),
                            .type = PR_STR("event"),
                            .headers = PR_STR("{\"name\":\"paid\"}"),
                            .payload = PR_STR("\xff\0\x01"),
                            .content_type = PR_STR("application/x") };
    const struct effect e = { .kind = EFFECT_MAIL, .key = FLOW, .message = &m, .keep_us = keep_us };
    struct claim c = worker_claim(w, message_for_flow(w->suite));
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = &e, .effect_count = 1);
    CHECK_EQ(w->reply->answers[0], PR_OK);
    return w->reply->effect_answers[0];
}

STORE_TEST(mail_for_a_flow_that_has_not_begun_is_kept_in_order_and_goes_with_its_first_turn) /* B102 */
{
    struct worker *w = suite_join(s, "turns");
    CHECK_EQ(keep_mail(w, 702, PR_SECONDS(3600)), PR_OK);
    CHECK_EQ(keep_mail(w, 701, 0), PR_OK);
    CHECK_EQ(keep_mail(w, 702, 0), PR_DUPLICATE);
    const struct query_reply *r = ask_flow(s, FLOW);
    CHECK_EQ(r->flow_count, 0);
    CHECK_EQ(r->mail_count, 2);
    CHECK(pr_id_equal(r->mail[0].id, suite_id(702)));
    CHECK(pr_id_equal(r->mail[1].id, suite_id(701)));
    CHECK_SLICE(r->mail[0].type, "event");
    CHECK_SLICE(r->mail[0].content_type, "application/x");
    CHECK_SLICE(r->mail[0].headers, "{\"name\":\"paid\"}");
    CHECK(slice_eq(r->mail[0].payload, PR_STR("\xff\0\x01")));
    struct turn t;
    turn_begin(&t, NONE, 0, flow_at(suite_id(500), 1));
    t.effects[2] = (struct effect){ .kind = EFFECT_MAIL, .key = FLOW };
    t.count = 3;
    CHECK_EQ(turn_commit(w, message_for_flow(s), &t), PR_OK);
    CHECK_EQ(w->reply->effect_answers[2], PR_OK);
    CHECK_EQ(ask_flow(s, FLOW)->mail_count, 0);
}

STORE_TEST(mail_is_forgotten_when_its_time_is_over)
{
    struct worker *w = suite_join(s, "turns");
    CHECK_EQ(keep_mail(w, 701, PR_SECONDS(2)), PR_OK);
    CHECK_EQ(keep_mail(w, 702, PR_SECONDS(3600)), PR_OK);
    for (int i = 0; i < 5; i++) {
        suite_advance(s, PR_SECONDS(5));
        CYCLE(w, .force_write = true);
    }
    const struct query_reply *r = ask_flow(s, FLOW);
    CHECK_EQ(r->mail_count, 1);
    CHECK(pr_id_equal(r->mail[0].id, suite_id(702)));
}

/* ---- People ----------------------------------------------------------------------------------------- */

static void make_flow(struct worker *w, unsigned number, const char *id, const char *name, int state,
                      const char *parent)
{
    struct flow_row row = flow_at(suite_id(number), 1);
    row.id = slice_from(id);
    row.name = slice_from(name);
    row.state = state;
    row.parent = slice_from(parent);
    row.tasks = 2;
    CHECK_EQ(turn_of(w, NONE, 0, row), PR_OK);
    suite_advance(w->suite, PR_MILLISECONDS(10));
}

STORE_TEST(flows_are_listed_newest_first_by_filters_and_pages)
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "turns");
    make_flow(w, 500, "a", "checkout", FLOW_COMPLETED, "");
    make_flow(w, 501, "b", "checkout", FLOW_RUNNING, "a");
    int64_t since_us = s->wall_us;
    make_flow(w, 502, "c", "refund", FLOW_FAILED, "a");
    make_flow(w, 503, "d", "checkout", FLOW_RUNNING, "");
    const struct query_reply *r = ask(s, (struct query){ .kind = QUERY_FLOWS, .filter = FILTER(.limit = 3) });
    CHECK_EQ(r->flow_count, 3);
    CHECK_SLICE(r->flows[0].id, "d");
    CHECK_SLICE(r->flows[1].id, "c");
    CHECK_SLICE(r->flows[2].id, "b");
    CHECK(r->more);
    CHECK_EQ(r->flow_states[FLOW_RUNNING], 2);
    CHECK_EQ(r->flow_states[FLOW_COMPLETED], 1);
    CHECK_EQ(r->flow_states[FLOW_FAILED], 1);
    CHECK_EQ(r->flow_states[FLOW_CANCELLED], 0);
    r = ask(s, (struct query){ .kind = QUERY_FLOWS,
                               .flow = { .after_us = r->flows[2].created_us, .after_id = r->flows[2].id } });
    CHECK_EQ(r->flow_count, 1);
    CHECK_SLICE(r->flows[0].id, "a");
    CHECK(!r->more);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .flow = { .state = FLOW_RUNNING } })->flow_count, 2);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .flow = { .name = PR_STR("refund") } })->flow_count, 1);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .flow = { .version = PR_STR("2") } })->flow_count, 0);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .flow = { .parent = PR_STR("a") } })->flow_count, 2);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .flow = { .parent = PR_STR("a"), .state = FLOW_FAILED } })
                 ->flow_count,
             1);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .filter = FILTER(.since_us = since_us) })->flow_count, 2);
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOWS, .filter = FILTER(.until_us = since_us) })->flow_count, 2);
}

static struct admin_reply delete_flow(struct suite *s, const char *id, bool force, bool dry_run)
{
    const pr_slice flow = slice_from(id);
    const struct flow_order order = { .flows = &flow, .flow_count = 1, .force = force };
    return ADMIN(s, ADMIN_FLOW_DELETE, FILTER(), .flow = &order, .by = PR_STR("ann"), .why = PR_STR("gdpr"),
                 .dry_run = dry_run);
}

STORE_TEST(a_flow_is_deleted_with_all_that_is_its_and_does_not_come_back_to_life) /* B133 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "turns");
    make_flow(w, 500, "a", "checkout", FLOW_COMPLETED, "");
    make_flow(w, 501, "b", "checkout", FLOW_RUNNING, "a");
    make_flow(w, 502, "c", "checkout", FLOW_RUNNING, "b");
    make_flow(w, 503, "d", "checkout", FLOW_RUNNING, "");
    pr_id activity = SEND(s, "activities", .id = flow_task_id(suite_id(502), 2));
    pr_id other = SEND(s, "activities", .id = flow_task_id(suite_id(503), 2));
    pr_id child = SEND(s, "turns", .id = flow_task_id(suite_id(502), 1), .stream = PR_STR("c-child"),
                       .headers = PR_STR("{\"parent\":\"c\"}")); /* it has not begun, and must not without its parent */
    pr_id detached = SEND(s, "turns", .id = flow_task_id(suite_id(501), 1), .stream = PR_STR("own"));
    pr_id timer = SEND(s, "turns", .stream = PR_STR("c"), .due_us = s->wall_us + PR_SECONDS(60));
    pr_id late = message_for_flow(s);
    struct claim c = worker_claim(w, late);
    CHECK_EQ(delete_flow(s, "b", false, false).refused, 1); /* it runs */
    CHECK_EQ(delete_flow(s, "nobody", false, false).missing, 1);
    CHECK_EQ(ask_flow(s, PR_STR("b"))->flow_count, 1);
    CHECK_EQ(delete_flow(s, "a", false, true).changed, 3);
    CHECK_EQ(ask_flow(s, PR_STR("b"))->flow_count, 1);
    struct admin_reply r = delete_flow(s, "a", false, false);
    CHECK_EQ(r.matched, 1);
    CHECK_EQ(r.changed, 3); /* with its children, and theirs */
    CHECK_EQ(ask_flow(s, PR_STR("a"))->flow_count, 0);
    CHECK_EQ(ask_flow(s, PR_STR("b"))->flow_count, 0);
    CHECK_EQ(ask_flow(s, PR_STR("c"))->flow_count, 0);
    CHECK_EQ(ask_flow(s, PR_STR("d"))->flow_count, 1);
    CHECK(suite_find(s, activity) == NULL);
    CHECK(suite_find(s, timer) == NULL);
    CHECK(suite_find(s, child) == NULL);
    CHECK(suite_find(s, detached) != NULL);
    CHECK(suite_find(s, other) != NULL);
    CHECK_EQ(suite_table_count(s, "flow_history"), 1);
    struct turn t; /* B123: a turn of it that was on its way */
    turn_begin(&t, suite_id(502), 1, flow_at(suite_id(502), 2));
    t.row.id = PR_STR("c");
    const struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .effects = t.effects, .effect_count = t.count);
    CHECK_EQ(w->reply->answers[0], ANSWER_REFUSED);
    CHECK_EQ(ask_flow(s, PR_STR("c"))->flow_count, 0);
    CHECK_EQ(delete_flow(s, "d", true, false).changed, 1);
    const struct query_reply *audit = suite_query(s, QUERY_AUDIT, FILTER());
    CHECK_SLICE(audit->audit[0].action, "flow_delete");
    CHECK_SLICE(audit->audit[0].target, "{\"flows\":[\"d\"],\"force\":true}");
    CHECK_SLICE(audit->audit[0].who, "ann");
    CHECK_EQ(audit->audit[0].changed, 1);
}

STORE_TEST(pruning_keeps_the_current_execution) /* B134 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "turns");
    CHECK_EQ(turn_of(w, NONE, 0, flow_at(suite_id(500), 1)), PR_OK);
    for (unsigned i = 500; i < 504; i++) {
        suite_advance(s, PR_SECONDS(10));
        CHECK_EQ(turn_of(w, suite_id(i), 1, flow_at(suite_id(i + 1), 1)), PR_OK);
    }
    const pr_slice flow = FLOW;
    struct flow_order order = { .flows = &flow, .flow_count = 1, .keep = 2 };
    CHECK_EQ(ADMIN(s, ADMIN_FLOW_PRUNE, FILTER(), .flow = &order, .dry_run = true).changed, 2);
    CHECK_EQ(ADMIN(s, ADMIN_FLOW_PRUNE, FILTER(), .flow = &order).changed, 2);
    const struct query_reply *r = ask(s, (struct query){ .kind = QUERY_FLOW_EXECUTIONS, .flow = { .id = FLOW } });
    CHECK_EQ(r->flow_count, 3);
    CHECK(pr_id_equal(r->flows[0].execution, suite_id(504)));
    CHECK(pr_id_equal(r->flows[1].execution, suite_id(503)));
    CHECK_EQ(suite_table_count(s, "flow_history"), 3);
    order = (struct flow_order){ .keep = -1, .before_us = s->wall_us - PR_SECONDS(5) };
    CHECK_EQ(ADMIN(s, ADMIN_FLOW_PRUNE, FILTER(), .flow = &order).changed, 1); /* of all flows, by age */
    order = (struct flow_order){ .keep = 0 };
    CHECK_EQ(ADMIN(s, ADMIN_FLOW_PRUNE, FILTER(), .flow = &order).changed, 1);
    r = ask_flow(s, FLOW);
    CHECK_EQ(r->flow_count, 1);
    CHECK_EQ(r->turn_count, 1);
    CHECK_EQ(suite_table_count(s, "flow_history"), 1);
}

/* ---- A flow that continues as new in its first turn --------------------------------------------------- */

/* Execution x began and ended in this turn, y goes on. */
static int turn_of_both(struct worker *w, pr_id x, pr_id y, bool restarts)
{
    struct flow_row ended = flow_at(x, 2);
    struct turn t;
    turn_begin(&t, NONE, 0, ended);
    t.row.execution = y;
    t.row.next = 0;
    t.row.restarts = restarts;
    ended.state = FLOW_CONTINUED;
    t.effects[2] = t.effects[1];
    t.effects[1] = (struct effect){ .kind = EFFECT_EXECUTION, .flow = &ended, .key = FLOW };
    t.count = 3;
    return turn_commit(w, message_for_flow(w->suite), &t);
}

STORE_TEST(an_execution_of_a_single_turn_is_listed_and_readable) /* B104, B127 */
{
    struct worker *w = suite_join(s, "turns");
    pr_id x = suite_id(500), y = suite_id(501), z = suite_id(502);
    CHECK_EQ(turn_of_both(w, x, y, false), PR_OK);
    CHECK_EQ(turn_of_both(w, suite_id(510), suite_id(511), false), ANSWER_REFUSED); /* with all that it brings */
    const struct query_reply *r = ask(s, (struct query){ .kind = QUERY_FLOW_EXECUTIONS, .flow = { .id = FLOW } });
    CHECK_EQ(r->flow_count, 2);
    CHECK(pr_id_equal(r->flows[0].execution, y));
    CHECK_EQ(r->flows[0].state, FLOW_RUNNING);
    CHECK(pr_id_equal(r->flows[1].execution, x));
    CHECK_EQ(r->flows[1].state, FLOW_CONTINUED);
    CHECK_EQ(r->flows[1].next, 2);
    CHECK_EQ(r->flows[1].updated_us, s->wall_us);
    CHECK_SLICE(r->flows[1].name, "checkout");
    CHECK_SLICE(r->flows[1].version, "1");
    CHECK(slice_eq(r->flows[1].input, PR_STR("in\0put")));
    CHECK_EQ(ask(s, (struct query){ .kind = QUERY_FLOW, .flow = { .id = FLOW, .execution = x } })->turn_count, 1);
    struct flow_row end = flow_at(y, 1);
    end.state = FLOW_COMPLETED;
    CHECK_EQ(turn_of(w, y, 0, end), PR_OK);
    CHECK_EQ(turn_of_both(w, z, suite_id(503), true), PR_OK); /* begun anew */
    r = ask(s, (struct query){ .kind = QUERY_FLOW_EXECUTIONS, .flow = { .id = FLOW } });
    CHECK_EQ(r->flow_count, 4);
    CHECK(pr_id_equal(r->flows[0].execution, suite_id(503)));
    CHECK(pr_id_equal(r->flows[1].execution, z));
    CHECK(pr_id_equal(r->flows[2].execution, y));
    CHECK(pr_id_equal(r->flows[3].execution, x));
}

STORE_TEST(an_execution_of_a_single_turn_goes_when_its_flow_is_pruned_or_deleted) /* B133, B134 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "turns");
    const pr_slice flow = FLOW;
    const struct flow_order order = { .flows = &flow, .flow_count = 1, .keep = 0 };
    CHECK_EQ(turn_of_both(w, suite_id(500), suite_id(501), false), PR_OK);
    CHECK_EQ(suite_table_count(s, "flow_history"), 1);
    CHECK_EQ(ADMIN(s, ADMIN_FLOW_PRUNE, FILTER(), .flow = &order).changed, 1);
    CHECK_EQ(suite_table_count(s, "flow_history"), 0);
    CHECK_EQ(delete_flow(s, "order-7", true, false).changed, 1);
    CHECK_EQ(turn_of_both(w, suite_id(502), suite_id(503), false), PR_OK);
    CHECK_EQ(delete_flow(s, "order-7", true, false).changed, 1);
    CHECK_EQ(suite_table_count(s, "flow_history"), 0);
    CHECK_EQ(suite_table_count(s, "flow_execution"), 0);
}

/* ---- Activities that a person ends ---------------------------------------------------------------------- */

static pr_id send_activity(struct suite *s, pr_id execution, int64_t task)
{
    const struct activity_message a = {
        .name = PR_STR("charge"), .flow = FLOW, .execution = execution, .task = task, .input = PR_STR("7 EUR")
    };
    struct pr_message m;
    CHECK_EQ(activity_message_make(&a, &s->arena, &m), PR_OK);
    CHECK_EQ(store_enqueue(&s->store, PR_STR("activities"), &m, 1, 1 << 20, NULL, NULL, &s->error), PR_OK);
    return m.id;
}

/* Its flow is told that it failed, once and with these words; "": it is not told. */
static void check_told(struct suite *s, pr_id execution, int64_t task, const char *words)
{
    const struct listed *found = suite_find(s, flow_result_id(execution, task));
    struct turn_message t;
    struct flow_error why;
    CHECK_EQ(found != NULL, words[0] != '\0');
    if (found == NULL)
        return;
    CHECK_SLICE(found->box, "turns");
    CHECK_EQ(turn_message_read(&found->m, &s->arena, &t, &s->error), PR_OK);
    CHECK_EQ(t.kind, TURN_RESULT);
    CHECK_SLICE(t.flow, "order-7");
    CHECK(pr_id_equal(t.execution, execution));
    CHECK_EQ(t.task, task);
    CHECK(t.failed);
    CHECK_EQ(flow_error_decode(t.data, &s->arena, &why, &s->error), PR_OK);
    CHECK_EQ(why.category, PR_CATEGORY_APPLICATION);
    CHECK(!why.retryable);
    CHECK_SLICE(why.message, words);
}

STORE_TEST(an_activity_that_a_person_ends_fails_for_its_flow) /* B145 */
{
    suite_needs_database(s);
    pr_id x = suite_id(500);
    struct worker *w = suite_join(s, "turns");
    pr_id one = send_activity(s, x, 1), two = send_activity(s, x, 2), three = send_activity(s, x, 3);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, one, .dry_run = true).changed, 1);
    check_told(s, x, 1, "");
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, one, .by = PR_STR("ann"), .why = PR_STR("paid in cash")).changed, 1);
    CHECK(suite_find(s, one) == NULL);
    check_told(s, x, 1, "activity charge was discarded by ann: paid in cash");
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_ADD, two, .by = PR_STR("bob"), .why = PR_STR("broken")).changed, 1);
    check_told(s, x, 2, "activity charge was made a dead letter by bob: broken");
    worker_claim(w, flow_result_id(x, 2)); /* it can be taken like any other */
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, two).changed, 1);
    CHECK_EQ(ADMIN_ID(s, ADMIN_RETRY, three).changed, 1);
    check_told(s, x, 3, "");
}

STORE_TEST(activities_that_a_person_ends_by_a_filter_fail_for_their_flows) /* B145 */
{
    suite_needs_database(s);
    enum { COUNT = 300 };
    pr_id x = suite_id(500);
    for (int64_t i = 1; i <= COUNT; i++)
        send_activity(s, x, i);
    SEND(s, "activities", .type = PR_STR("charge"), .headers = PR_STR("{\"flow\":\"order-7\"}")); /* not a flow's */
    SEND(s, "activities", .type = PR_STR("charge"));
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.box = PR_STR("activities"), .type = PR_STR("charge")), .by = PR_STR("ann"))
                 .changed,
             COUNT + 2);
    for (int64_t i = 1; i <= COUNT; i++)
        check_told(s, x, i, "activity charge was discarded by ann");
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("turns"))), COUNT);
}

STORE_TEST(flows_hear_of_activities_in_the_box_that_the_order_names)
{
    suite_needs_database(s);
    pr_id x = suite_id(500), copied = SEND(s, "activities", .type = PR_STR("charge"), .stream = FLOW,
                                           .headers = PR_STR("{\"flow\":\"order-7\",\"execution\":\"019016"
                                                             "3d-8694-739b-aea5-966c26f8ad91\",\"task\":1}"));
    pr_id one = send_activity(s, x, 1), two = send_activity(s, x, 2);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, copied).changed, 1); /* no flow gave it its id */
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.box = PR_STR("turns"))), 0);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, one, .turns = PR_STR("nowhere")).changed, 1);
    check_told(s, x, 1, ""); /* this store has no flows */
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, two, .turns = PR_STR("turns")).changed, 1);
    check_told(s, x, 2, "activity charge was discarded");
}
