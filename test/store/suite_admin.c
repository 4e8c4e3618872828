/* Operators' actions, and their notices to running instances. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

/* The notices that the worker gets now: at least one, all of this kind or RELOAD. */
static const struct notice *check_noticed(struct worker *w, enum notice_kind kind)
{
    const struct cycle_reply *r = CYCLE(w);
    CHECK(r->notice_count > 0);
    for (size_t i = 0; i < r->notice_count; i++)
        if (r->notices[i].kind != kind && r->notices[i].kind != NOTICE_RELOAD)
            check_fail(__FILE__, __LINE__, "a notice of kind %d instead of %d", (int)r->notices[i].kind, (int)kind);
    CHECK_EQ(r->notice_last, r->notices[r->notice_count - 1].number);
    return &r->notices[0];
}

/* ---- By plain SQL ----------------------------------------------------------------- */

STORE_TEST(a_row_that_is_changed_by_plain_sql_is_told_and_then_it_is_quiet) /* B19 */
{
    struct worker *w = suite_join(s, "outbox"), *other = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR("wrong"));
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->notice_count, 0);
    CHECK_EQ(CYCLE(other)->notice_count, 0);
    suite_repair(s, id, "mended");
    check_noticed(w, NOTICE_REPAIRED);
    for (int i = 0; i < 2; i++)
        CYCLE(w);
    CHECK_EQ(CYCLE(w)->notice_count, 0);
    check_noticed(other, NOTICE_REPAIRED); /* also who looks later */
    for (int i = 0; i < 2; i++)
        CYCLE(other);
    CHECK_EQ(CYCLE(other)->notice_count, 0);
    CHECK_SLICE(suite_get(s, id)->m.payload, "mended");
}

STORE_TEST(a_change_by_plain_sql_is_told_again_when_the_answer_was_lost) /* B7, B19 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .payload = PR_STR("wrong"));
    CYCLE(w, .fresh_rows = 10);
    suite_repair(s, id, "mended");
    int64_t cursor = w->notice;
    check_noticed(w, NOTICE_REPAIRED);
    for (int i = 0; i < 3; i++) {
        w->number--;
        w->notice = cursor;
        check_noticed(w, NOTICE_REPAIRED);
    }
}

STORE_TEST(who_joins_is_not_told_what_was_changed_before) /* B19 */
{
    pr_id id = SEND(s, "outbox", .payload = PR_STR("wrong"));
    suite_repair(s, id, "mended");
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(w->reply->notice_count, 0);
    CHECK_SLICE(reply_find(CYCLE(w, .fresh_rows = 10), id)->m.payload, "mended");
}

/* ---- Retry ------------------------------------------------------------------------ */

STORE_TEST(a_retry_begins_a_new_life_now_and_keeps_the_story)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, worker_claim(w, id), .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED,
                     .delay_us = PR_SECONDS(600), .story = PR_STR("[{\"step\":\"retry\"}]")),
             PR_OK);
    suite_advance(s, PR_SECONDS(3));
    struct admin_reply r = ADMIN_ID(s, ADMIN_RETRY, id, .by = PR_STR("ann"));
    CHECK_EQ(r.matched, 1);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.missing, 0);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK_EQ(l->m.due_us, s->wall_us);
    CHECK(slice_contains(l->m.story, PR_STR("retry")));
    CHECK(reply_find(CYCLE(w, .due.rows = 10), id) != NULL);
}

/* The story is the same whatever the store: when the next attempt is, too. */
STORE_TEST(what_a_person_ordered_is_one_line_of_the_story_with_the_next_attempt)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .destination = PR_STR("e"));
    worker_fail(w, id, PR_SECONDS(9));
    CHECK_EQ(ADMIN_ID(s, ADMIN_RETRY, id, .by = PR_STR("ann"), .why = PR_STR("fixed")).changed, 1);
    char line[256], now[TIME_TEXT_SIZE];
    time_format_rfc3339(s->wall_us, now);
    snprintf(line, sizeof(line),
             "{\"at\":\"%s\",\"attempt\":1,\"endpoint\":\"e\",\"error\":\"fixed\",\"rule\":\"ann\",\"step\":\"retry\","
             "\"next\":\"%s\"}]",
             now, now);
    CHECK(slice_contains(suite_get(s, id)->m.story, pr_str(line)));
}

STORE_TEST(a_release_of_a_stream_frees_those_on_the_way_of_a_failed_head_and_no_others) /* B55 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .id = suite_id(1), .stream = PR_STR("s"), .destination = PR_STR("a"));
    pr_id other = SEND(s, "outbox", .id = suite_id(2), .stream = PR_STR("s"), .destination = PR_STR("b"));
    pr_id follower = SEND(s, "outbox", .id = suite_id(3), .stream = PR_STR("s"), .destination = PR_STR("a"));
    pr_id anywhere = SEND(s, "outbox", .id = suite_id(4), .stream = PR_STR("s"));
    pr_id held = SEND(s, "outbox", .id = suite_id(5), .stream = PR_STR("s"), .destination = PR_STR("b"));
    worker_fail(w, head, PR_SECONDS(60));
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("b/s")), PR_OK);
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.box = PR_STR("outbox"), .stream = PR_STR("s"))).changed, 3);
    CHECK(!suite_get(s, head)->m.released);
    CHECK(!suite_get(s, other)->m.released); /* nobody holds it up */
    CHECK(suite_get(s, follower)->m.released);
    CHECK(suite_get(s, anywhere)->m.released);
    CHECK(suite_get(s, held)->m.released);
}

STORE_TEST(a_session_for_a_box_that_does_not_exist_is_refused_as_such)
{
    struct store_session session;
    struct pr_error error;
    CHECK_EQ(store_session_open(&s->store, PR_STR("nowhere"), &session, &error), PR_ENOTFOUND);
    CHECK(strstr(error.text, "nowhere") != NULL);
}

STORE_TEST(what_is_kept_as_done_is_held_by_nobody)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    struct claim c = worker_claim(w, id);
    const struct verdict v = { .kind = VERDICT_COMPLETE, .row = c.row, .id = id, .number = c.number };
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .keep_us = PR_SECONDS(60));
    CHECK_EQ(suite_get(s, id)->state, STATE_DONE);
    CHECK_SLICE(suite_get(s, id)->m.held_by, "");
}

STORE_TEST(a_retry_unparks_and_frees_what_is_held)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id parked = SEND(s, "outbox", .due_us = PR_NEVER), held = SEND(s, "outbox");
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    pr_id both[] = { parked, held };
    CHECK_EQ(ADMIN(s, ADMIN_RETRY, FILTER(.ids = both, .id_count = 2)).changed, 2);
    CHECK_EQ(suite_get(s, parked)->m.due_us, s->wall_us);
    CHECK_EQ(suite_get(s, held)->m.due_us, s->wall_us);
    CHECK_SLICE(suite_get(s, held)->m.held_by, "");
    CHECK_EQ(CYCLE(w, .due.rows = 10)->row_count, 2);
}

STORE_TEST(a_verdict_on_what_was_retried_meanwhile_is_stale) /* B8 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, 0);
    struct claim c = worker_claim(w, id);
    ADMIN_ID(s, ADMIN_RETRY, id);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_FAIL, .reason = PR_REASON_UNKNOWN, .delay_us = PR_SECONDS(9)), PR_STALE);
    CHECK_EQ(suite_get(s, id)->m.failures, 0);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_OK); /* it was delivered all the same */
}

/* ---- Park and discard ------------------------------------------------------------- */

STORE_TEST(a_person_parks_and_nothing_is_counted)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    worker_fail(w, id, 5);
    CHECK_EQ(ADMIN_ID(s, ADMIN_PARK, id, .by = PR_STR("ann"), .why = PR_STR("later")).changed, 1);
    const struct listed *l = suite_get(s, id);
    CHECK_EQ(l->state, STATE_PARKED);
    CHECK_EQ(l->m.due_us, PR_NEVER);
    CHECK_EQ(l->m.attempts, 1);
    CHECK_EQ(l->m.failures, 1);
    CHECK_EQ(l->m.reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_EQ(CYCLE(w, .fresh_rows = 10, .due.rows = 10, .restart_lanes = LANES_ALL)->row_count, 0);
}

STORE_TEST(a_row_says_who_parked_it_and_what_it_is_held_for)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id route = SEND(s, "outbox", .id = suite_id(1)), rule = SEND(s, "outbox", .id = suite_id(2));
    pr_id person = SEND(s, "outbox", .id = suite_id(3)), sender = SEND(s, "outbox", .due_us = PR_NEVER);
    pr_id stream = SEND(s, "outbox", .id = suite_id(4)), room = SEND(s, "outbox", .id = suite_id(5));
    const int missing = PR_REASON_DESTINATION_MISSING;
    CHECK_EQ(VERDICT(w, suite_seen(s, route), .kind = VERDICT_PARK, .reason = missing), PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, rule), .kind = VERDICT_PARK, .reason = missing), PR_OK);
    CHECK_EQ(ADMIN(s, ADMIN_PARK, FILTER(.ids = &person, .id_count = 1)).changed, 1);
    CHECK_EQ(VERDICT(w, suite_seen(s, stream), .kind = VERDICT_HOLD, .held_by = PR_STR("a/s"),
                     .held_for = PR_HELD_FOR_STREAM),
             PR_OK);
    CHECK_EQ(VERDICT(w, suite_seen(s, room), .kind = VERDICT_HOLD, .held_by = PR_STR("a/"),
                     .held_for = PR_HELD_FOR_ENDPOINT),
             PR_OK);
    CHECK_EQ(suite_get(s, route)->m.parked_by, PR_PARKED_BY_ROUTE);
    CHECK_EQ(suite_get(s, rule)->m.parked_by, PR_PARKED_BY_RULE);
    CHECK_EQ(suite_get(s, person)->m.parked_by, PR_PARKED_BY_PERSON);
    CHECK_EQ(suite_get(s, sender)->m.parked_by, 0);
    CHECK_EQ(suite_get(s, stream)->m.held_for, PR_HELD_FOR_STREAM);
    CHECK_EQ(suite_get(s, stream)->state, STATE_HELD);
    CHECK_EQ(suite_get(s, room)->m.held_for, PR_HELD_FOR_ENDPOINT);
    CHECK_EQ(suite_get(s, room)->state, STATE_READY);

    pr_id all[] = { route, rule, person, sender, stream, room };
    CHECK_EQ(ADMIN(s, ADMIN_RETRY, FILTER(.ids = all, .id_count = ARRAY_LENGTH(all))).changed, ARRAY_LENGTH(all));
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        CHECK_EQ(suite_get(s, all[i])->m.parked_by, 0);
        CHECK_EQ(suite_get(s, all[i])->m.held_for, 0);
    }
}

/* A key says where a row is held, and not what for: what reads like an endpoint's key can be a stream's. */
STORE_TEST(what_a_row_is_held_for_is_what_its_column_says)
{
    struct worker *w = suite_join(s, "outbox");
    const struct {
        const char *key;
        int held_for;
        enum state state;
    } rows[] = { { "a/", PR_HELD_FOR_STREAM, STATE_HELD },
                 { "a/", PR_HELD_FOR_STREAM, STATE_HELD },
                 { "b/s", PR_HELD_FOR_ENDPOINT, STATE_READY } };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        pr_id id = SEND(s, "outbox", .stream = PR_STR("s"));
        CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_HOLD, .held_by = pr_str(rows[i].key),
                         .held_for = rows[i].held_for),
                 PR_OK);
        CHECK_EQ(suite_get(s, id)->state, rows[i].state);
    }
    CHECK_EQ(suite_box(s, "outbox")->held, 2);
    CHECK_EQ(suite_box(s, "outbox")->ready, 1);
}

STORE_TEST(a_discarded_message_is_gone)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), other = SEND(s, "outbox");
    struct claim c = worker_claim(w, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DISCARD, id).changed, 1);
    CHECK(suite_find(s, id) == NULL);
    suite_get(s, other);
    CHECK_EQ(VERDICT(w, c, .kind = VERDICT_COMPLETE), PR_UNKNOWN);
}

STORE_TEST(an_action_by_id_reaches_every_delivery_of_that_id)
{
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .destination = PR_STR("a"));
    SEND(s, "outbox", .id = id, .destination = PR_STR("b"));
    struct admin_reply r = ADMIN_ID(s, ADMIN_PARK, id);
    CHECK_EQ(r.matched, 2);
    CHECK_EQ(r.changed, 2);
    CHECK_EQ(suite_box(s, "outbox")->parked, 2);
}

STORE_TEST(an_action_by_id_and_endpoint_reaches_that_delivery_alone)
{
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .destination = PR_STR("a"));
    SEND(s, "outbox", .id = id, .destination = PR_STR("b"));
    CHECK_EQ(ADMIN(s, ADMIN_PARK, FILTER(.ids = &id, .id_count = 1, .endpoint = PR_STR("b"))).changed, 1);
    CHECK(suite_get_to(s, id, "a")->state == STATE_READY);
    CHECK(suite_get_to(s, id, "b")->state == STATE_PARKED);
}

/* ---- Filters, dry runs, missing ids ----------------------------------------------- */

STORE_TEST(an_action_by_filter_changes_what_matches_and_nothing_else)
{
    for (unsigned i = 1; i <= 9; i++)
        SEND(s, i <= 6 ? "outbox" : "ledger", .id = suite_id(i), .type = i % 3 == 0 ? PR_STR("x.a") : PR_STR("y.b"));
    struct filter filter = FILTER(.box = PR_STR("outbox"), .type = PR_STR("x.*"));
    struct admin_reply dry = ADMIN(s, ADMIN_DISCARD, filter, .dry_run = true);
    CHECK_EQ(dry.matched, 2);
    CHECK_EQ(dry.changed, 2);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 9);
    struct admin_reply r = ADMIN(s, ADMIN_DISCARD, filter);
    CHECK_EQ(r.matched, 2);
    CHECK_EQ(r.changed, 2);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 7);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = PR_STR("x.*"))), 1); /* in the ledger */
}

STORE_TEST(an_action_by_filter_is_not_cut_at_the_length_of_a_listing)
{
    struct pr_message m[250];
    pr_id ids[250];
    for (unsigned i = 0; i < 250; i++)
        m[i] = (struct pr_message){ .id = suite_id(i + 1), .type = PR_STR("t") };
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), m, 250, SUITE_PAYLOAD_MAX, ids, NULL, &s->error), &s->error);
    CHECK_EQ(ADMIN(s, ADMIN_PARK, FILTER(.type = PR_STR("t"))).changed, 250);
    CHECK_EQ(suite_box(s, "outbox")->parked, 250);
    CHECK_EQ(ADMIN(s, ADMIN_RETRY, FILTER(.state = STATE_PARKED)).changed, 250);
    CHECK_EQ(suite_box(s, "outbox")->parked, 0);
}

STORE_TEST(a_limit_bounds_an_action)
{
    for (unsigned i = 1; i <= 5; i++)
        SEND(s, "outbox", .id = suite_id(i));
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.type = PR_STR("t"), .limit = 2)).changed, 2);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 3);
}

STORE_TEST(ids_that_are_nowhere_are_counted_as_missing)
{
    pr_id there = SEND(s, "outbox");
    pr_id ids[] = { suite_id(901), there, suite_id(902) };
    struct admin_reply r = ADMIN(s, ADMIN_PARK, FILTER(.ids = ids, .id_count = 3));
    CHECK_EQ(r.matched, 1);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.missing, 2);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.ids = ids, .id_count = 1)).missing, 1);
}

STORE_TEST(an_id_that_is_named_twice_is_meant_once)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), other = SEND(s, "outbox");
    pr_id ids[] = { id, other, id, suite_id(901), suite_id(901), id };
    struct filter twice = FILTER(.ids = ids, .id_count = ARRAY_LENGTH(ids));
    static const enum admin_kind kinds[] = { ADMIN_RETRY, ADMIN_PARK, ADMIN_DEAD_ADD, ADMIN_DEAD_NOTE,
                                             ADMIN_DEAD_REPLAY };
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        struct admin_reply r = ADMIN(s, kinds[i], twice, .why = PR_STR("so"));
        CHECK_EQ(r.matched, 2);
        CHECK_EQ(r.changed, 2);
        CHECK_EQ(r.missing, 1);
    }
    worker_kill(w, id);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, twice).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, twice).changed, 1);
}

STORE_TEST(an_empty_filter_is_refused)
{
    SEND(s, "outbox");
    static const enum admin_kind kinds[] = { ADMIN_RETRY,        ADMIN_RELEASE,  ADMIN_PARK,
                                             ADMIN_DISCARD,      ADMIN_DEAD_ADD, ADMIN_DEAD_REPLAY,
                                             ADMIN_DEAD_DISCARD, ADMIN_PAUSE,    ADMIN_RESUME };
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        struct admin admin = { .kind = kinds[i], .filter = FILTER() };
        struct admin_reply reply = { 0 };
        CHECK_EQ(store_admin(&s->store, &admin, &reply, &s->error), PR_EINVAL);
        CHECK(s->error.text[0] != '\0');
    }
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 1);
}

/* ---- Notices ---------------------------------------------------------------------- */

STORE_TEST(a_running_instance_hears_of_every_action)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .stream = PR_STR("st"), .destination = PR_STR("d"));
    uint64_t row = suite_get(s, id)->row;
    int64_t seq = suite_get(s, id)->m.seq;
    CHECK_EQ(CYCLE(w)->notice_count, 0);

    ADMIN_ID(s, ADMIN_PARK, id);
    const struct notice *n = check_noticed(w, NOTICE_PARKED);
    CHECK_EQ(n->kind, NOTICE_PARKED);
    CHECK_EQ(n->row, row);
    CHECK_EQ(n->seq, seq);
    CHECK_SLICE(n->stream, "st");
    CHECK_SLICE(n->endpoint, "d");
    CHECK_EQ(CYCLE(w)->notice_count, 0); /* told once */

    ADMIN_ID(s, ADMIN_RETRY, id);
    n = check_noticed(w, NOTICE_DUE);
    CHECK_EQ(n->kind, NOTICE_DUE);
    CHECK_EQ(n->row, row);

    ADMIN_ID(s, ADMIN_DEAD_ADD, id); /* strict streams wait behind it */
    n = check_noticed(w, NOTICE_PARKED);
    CHECK_EQ(n->kind, NOTICE_PARKED);
    CHECK_EQ(n->row, row);
    CHECK_SLICE(n->stream, "st");

    ADMIN_ID(s, ADMIN_DEAD_REPLAY, id);
    n = check_noticed(w, NOTICE_DUE);
    CHECK_SLICE(n->stream, "st");
    CHECK_EQ(n->seq, seq);

    ADMIN_ID(s, ADMIN_DISCARD, id);
    CHECK_EQ(check_noticed(w, NOTICE_GONE)->kind, NOTICE_GONE);
}

STORE_TEST(a_running_instance_hears_of_releases_and_of_dead_letters_that_are_gone)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .stream = PR_STR("a"));
    SEND(s, "outbox", .stream = PR_STR("a"));
    worker_fail(w, head, PR_SECONDS(60));
    ADMIN(s, ADMIN_RELEASE, FILTER(.box = PR_STR("outbox"), .stream = PR_STR("a")));
    check_noticed(w, NOTICE_DUE);
    ADMIN_ID(s, ADMIN_DEAD_ADD, head);
    check_noticed(w, NOTICE_PARKED);
    ADMIN_ID(s, ADMIN_DEAD_DISCARD, head); /* strict streams waited behind it */
    CHECK_SLICE(check_noticed(w, NOTICE_GONE)->stream, "a");
}

STORE_TEST(an_action_by_filter_is_told_too)
{
    struct worker *w = suite_join(s, "outbox");
    for (unsigned i = 1; i <= 20; i++)
        SEND(s, "outbox", .id = suite_id(i));
    ADMIN(s, ADMIN_PARK, FILTER(.type = PR_STR("t")));
    check_noticed(w, NOTICE_PARKED);
    ADMIN(s, ADMIN_RETRY, FILTER(.type = PR_STR("t")));
    check_noticed(w, NOTICE_DUE);
    ADMIN(s, ADMIN_DISCARD, FILTER(.type = PR_STR("t")));
    check_noticed(w, NOTICE_GONE);
}

STORE_TEST(a_dry_run_and_an_action_without_effect_tell_nobody)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox"), nowhere = suite_id(77);
    ADMIN_ID(s, ADMIN_DISCARD, id, .dry_run = true);
    ADMIN_ID(s, ADMIN_DISCARD, nowhere);
    CHECK_EQ(ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e")), .until_us = PR_NEVER, .dry_run = true).changed, 1);
    CHECK_EQ(CYCLE(w)->notice_count, 0);
    suite_get(s, id);
}

STORE_TEST(who_joins_hears_nothing_old)
{
    struct worker *first = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox");
    ADMIN_ID(s, ADMIN_PARK, a);
    CYCLE(first, .leave = true);
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(w->reply->notice_count, 0);
    CHECK(w->reply->endpoints_known);
    CHECK_EQ(CYCLE(w)->notice_count, 0);
    ADMIN_ID(s, ADMIN_PARK, b);
    CHECK_EQ(check_noticed(w, NOTICE_PARKED)->row, suite_get(s, b)->row);
}

STORE_TEST(notices_that_were_not_taken_are_told_again)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox"), b = SEND(s, "outbox");
    int64_t cursor = w->notice;
    ADMIN_ID(s, ADMIN_PARK, a);
    CHECK_EQ(CYCLE(w)->notice_count, 1);
    ADMIN_ID(s, ADMIN_PARK, b);
    w->notice = cursor;
    const struct cycle_reply *r = CYCLE(w);
    CHECK_EQ(r->notice_count, 2);
    CHECK(r->notices[0].number < r->notices[1].number);
}

/* ---- Endpoints -------------------------------------------------------------------- */

STORE_TEST(a_pause_is_known_to_running_instances_and_to_those_that_join)
{
    struct worker *w = suite_join(s, "outbox");
    CHECK(!CYCLE(w)->endpoints_known);
    int64_t until = s->wall_us + PR_SECONDS(60);
    CHECK_EQ(ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("orders")), .until_us = until, .by = PR_STR("ann"),
                   .why = PR_STR("broken"))
                 .changed,
             1);
    const struct notice *n = check_noticed(w, NOTICE_ENDPOINT);
    CHECK_EQ(n->kind, NOTICE_ENDPOINT);
    CHECK_SLICE(n->endpoint, "orders");
    CHECK(w->reply->endpoints_known);
    CHECK_EQ(w->reply->endpoint_count, 1);
    CHECK_SLICE(w->reply->endpoints[0].name, "orders");
    CHECK_EQ(w->reply->endpoints[0].paused_until_us, until);
    CHECK_SLICE(w->reply->endpoints[0].by, "ann");
    CHECK_SLICE(w->reply->endpoints[0].why, "broken");

    struct worker *ledger = suite_join(s, "ledger");
    CHECK(ledger->reply->endpoints_known);
    CHECK_EQ(ledger->reply->endpoint_count, 1);
    CHECK_EQ(ledger->reply->endpoints[0].paused_until_us, until);
}

STORE_TEST(of_two_pauses_the_later_end_wins_and_a_resume_ends_them) /* B63 */
{
    struct worker *w = suite_join(s, "outbox");
    struct filter e = FILTER(.endpoint = PR_STR("e"));
    ADMIN(s, ADMIN_PAUSE, e, .until_us = s->wall_us + PR_SECONDS(60));
    ADMIN(s, ADMIN_PAUSE, e, .until_us = s->wall_us + PR_SECONDS(10));
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, s->wall_us + PR_SECONDS(60));
    ADMIN(s, ADMIN_PAUSE, e, .until_us = PR_NEVER);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, PR_NEVER);
    ADMIN(s, ADMIN_PAUSE, e, .until_us = s->wall_us + PR_SECONDS(90));
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, PR_NEVER);
    CYCLE(w);
    ADMIN(s, ADMIN_RESUME, e);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, 0);
    check_noticed(w, NOTICE_ENDPOINT);
    CHECK(w->reply->endpoints_known);
    CHECK_EQ(w->reply->endpoints[0].paused_until_us, 0);
}

STORE_TEST(a_pause_that_is_over_does_not_lengthen_the_next) /* B63 */
{
    struct filter e = FILTER(.endpoint = PR_STR("e"));
    ADMIN(s, ADMIN_PAUSE, e, .until_us = s->wall_us + PR_SECONDS(5));
    suite_advance(s, PR_SECONDS(6));
    int64_t until = s->wall_us + PR_SECONDS(1);
    ADMIN(s, ADMIN_PAUSE, e, .until_us = until);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, until);
}

STORE_TEST(a_pause_survives_a_reopen) /* B63 */
{
    suite_needs(s, STORE_CAN_LAST);
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e")), .until_us = PR_NEVER, .why = PR_STR("w"));
    suite_reopen(s);
    CHECK_EQ(suite_endpoint(s, "e")->paused_until_us, PR_NEVER);
    CHECK_SLICE(suite_endpoint(s, "e")->why, "w");
}

STORE_TEST(messages_of_a_paused_endpoint_are_told_as_paused)
{
    pr_id waiting = SEND(s, "outbox", .destination = PR_STR("e")),
          other = SEND(s, "outbox", .destination = PR_STR("f"));
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e")), .until_us = s->wall_us + PR_SECONDS(5));
    CHECK_EQ(suite_get(s, waiting)->state, STATE_PAUSED);
    CHECK_EQ(suite_get(s, other)->state, STATE_READY);
    CHECK_EQ(suite_box(s, "outbox")->paused, 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, 1);
    suite_advance(s, PR_SECONDS(5));
    CHECK_EQ(suite_get(s, waiting)->state, STATE_READY);
}
