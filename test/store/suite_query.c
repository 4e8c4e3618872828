/* People's questions: filters, pages, counts. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#include "core/fingerprint.h"

#define MANY 1000

/* i messages in one call, ids 1.. */
static void send_many(struct suite *s, const char *box, unsigned first, unsigned count)
{
    struct pr_message *m = arena_alloc_array(&s->arena, count, sizeof(*m));
    pr_id *ids = arena_alloc_array(&s->arena, count, sizeof(*ids));
    CHECK(m != NULL && ids != NULL);
    for (unsigned i = 0; i < count; i++)
        m[i] = (struct pr_message){ .id = suite_id(first + i), .type = i % 2 == 0 ? PR_STR("even") : PR_STR("odd") };
    CHECK_OK(store_enqueue(&s->store, pr_str(box), m, count, SUITE_PAYLOAD_MAX, ids, NULL, &s->error), &s->error);
}

STORE_TEST(each_filter_alone_finds_what_it_says_and_all_together_their_intersection) /* B82 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .type = PR_STR("order.created"), .stream = PR_STR("s1"), .destination = PR_STR("e1"));
    pr_id b = SEND(s, "outbox", .type = PR_STR("order.paid"), .stream = PR_STR("s2"), .destination = PR_STR("e2"));
    suite_advance(s, PR_SECONDS(10));
    pr_id c = SEND(s, "outbox", .type = PR_STR("user.created"), .stream = PR_STR("s1"), .destination = PR_STR("e2"));
    pr_id d = SEND(s, "ledger", .type = PR_STR("order.created"));
    CHECK_EQ(VERDICT(w, worker_claim(w, b), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED,
                     .error = PR_STR("card was declined"), .delay_us = PR_SECONDS(60)),
             PR_OK);
    int64_t later = s->wall_us;
    pr_id two[] = { a, d };

    struct {
        struct filter filter;
        size_t count;
    } cases[] = {
        { FILTER(), 4 },
        { FILTER(.box = PR_STR("outbox")), 3 },
        { FILTER(.box = PR_STR("inbox")), 0 },
        { FILTER(.endpoint = PR_STR("e2")), 2 },
        { FILTER(.type = PR_STR("order.*")), 3 },
        { FILTER(.type = PR_STR("*.created")), 3 },
        { FILTER(.type = PR_STR("order.pai?")), 1 },
        { FILTER(.type = PR_STR("order")), 0 },
        { FILTER(.type = PR_STR("ORDER.*")), 0 },
        { FILTER(.stream = PR_STR("s1")), 2 },
        { FILTER(.stream = PR_STR("s")), 0 },
        { FILTER(.reason = PR_REASON_REJECTED), 1 },
        { FILTER(.reason = PR_REASON_TIMEOUT_EXCEEDED), 0 },
        { FILTER(.error = PR_STR("declined")), 1 },
        { FILTER(.error = PR_STR("%")), 0 },
        { FILTER(.error = PR_STR("card_was")), 0 },
        { FILTER(.state = STATE_READY), 3 },
        { FILTER(.state = STATE_RETRYING), 1 },
        { FILTER(.state = STATE_PARKED), 0 },
        { FILTER(.since_us = later), 2 },
        { FILTER(.until_us = later), 2 },
        { FILTER(.since_us = SUITE_START_US, .until_us = SUITE_START_US + 1), 2 },
        { FILTER(.since_us = later + 1), 0 },
        { FILTER(.ids = two, .id_count = 2), 2 },
        { FILTER(.ids = two, .id_count = 2, .box = PR_STR("outbox")), 1 },
        { FILTER(.box = PR_STR("outbox"), .type = PR_STR("*.created"), .stream = PR_STR("s1")), 2 },
        { FILTER(.box = PR_STR("outbox"), .type = PR_STR("*.created"), .stream = PR_STR("s1"), .endpoint = PR_STR("e2"),
                 .state = STATE_READY, .since_us = later, .ids = &c, .id_count = 1),
          1 },
        { FILTER(.type = PR_STR("*.created"), .reason = PR_REASON_REJECTED), 0 },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t count = suite_count(s, QUERY_MESSAGES, cases[i].filter);
        if (count != cases[i].count)
            check_fail(__FILE__, __LINE__, "case %zu finds %zu messages, not %zu", i, count, cases[i].count);
    }
}

/* Orders go to e1, users to e1 and e2. */
static pr_slice route(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n)
{
    (void)routing, (void)box;
    if (slice_eq_cstr(m->type, "order"))
        return n == 0 ? PR_STR("e1") : (pr_slice){ NULL, 0 };
    return n == 0 ? PR_STR("e1") : n == 1 && slice_eq_cstr(m->type, "user") ? PR_STR("e2") : (pr_slice){ NULL, 0 };
}

STORE_TEST(filters_know_where_the_routes_lead) /* B82, B201 */
{
    static const struct routing routing = { route, NULL };
    struct worker *w = suite_join(s, "outbox");
    pr_id order = SEND(s, "outbox", .type = PR_STR("order"));
    SEND(s, "outbox", .type = PR_STR("user"));
    SEND(s, "outbox", .type = PR_STR("order"), .destination = PR_STR("e2"));
    struct filter to_e1 = FILTER(.endpoint = PR_STR("e1")), to_e2 = FILTER(.endpoint = PR_STR("e2"));
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, to_e1), 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, to_e2), 1);
    to_e1.routing = to_e2.routing = &routing;
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, to_e1), 2);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, to_e2), 2);
    CHECK_EQ(ADMIN(s, ADMIN_PARK, to_e1, .dry_run = true).matched, 2);

    /* What goes to several is divided first, so it waits for none of them. */
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e1")), .until_us = PR_NEVER);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_PAUSED)), 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_PAUSED, .routing = &routing)), 1);
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &order, .id_count = 1, .routing = &routing))->listed[0].state,
             STATE_PAUSED);

    /* A failure has the fingerprint that its dead letter will have. */
    worker_fail(w, order, PR_SECONDS(60));
    char print[FINGERPRINT_SIZE];
    fingerprint(PR_STR("e1"), PR_STR("order"), suite_get(s, order)->m.reason, suite_get(s, order)->m.error, print);
    struct filter by_print = FILTER(.fingerprint = pr_str(print), .routing = &routing);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, by_print), 1);
}

STORE_TEST(each_filter_of_dead_letters_alone_and_together) /* B82 */
{
    struct worker *w = suite_join(s, "outbox"), *ledger = suite_join(s, "ledger");
    pr_id a = SEND(s, "outbox", .type = PR_STR("x"), .stream = PR_STR("s1"), .destination = PR_STR("e1"));
    pr_id b = SEND(s, "outbox", .type = PR_STR("y"), .stream = PR_STR("s1"));
    pr_id c = SEND(s, "ledger", .type = PR_STR("x"));
    CHECK_EQ(VERDICT(w, worker_claim(w, a), .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED,
                     .cause = PR_REASON_REJECTED, .error = PR_STR("no thanks"), .endpoint = PR_STR("e1"),
                     .fingerprint = "aaaaaaaaaaaaaaaa"),
             PR_OK);
    suite_advance(s, PR_SECONDS(5)); /* half of a lease */
    int64_t later = s->wall_us;
    CHECK_EQ(VERDICT(w, worker_claim(w, b), .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_TIMEOUT_EXCEEDED,
                     .cause = PR_REASON_POISON_MESSAGE, .endpoint = PR_STR("e2"), .fingerprint = "bbbbbbbbbbbbbbbb"),
             PR_OK);
    worker_kill(ledger, c);
    struct {
        struct filter filter;
        size_t count;
    } cases[] = {
        { FILTER(), 3 },
        { FILTER(.box = PR_STR("outbox")), 2 },
        { FILTER(.endpoint = PR_STR("e1")), 1 },
        { FILTER(.endpoint = PR_STR("e2")), 1 },
        { FILTER(.type = PR_STR("x")), 2 },
        { FILTER(.stream = PR_STR("s1")), 2 },
        { FILTER(.error = PR_STR("thanks")), 1 },
        { FILTER(.reason = PR_REASON_TIMEOUT_EXCEEDED), 1 },
        { FILTER(.reason = PR_REASON_POISON_MESSAGE), 1 }, /* why it died, beside its last failure */
        { FILTER(.reason = PR_REASON_UNAUTHORIZED), 0 },
        { FILTER(.fingerprint = PR_STR("bbbbbbbbbbbbbbbb")), 1 },
        { FILTER(.since_us = later), 2 },
        { FILTER(.until_us = later), 1 },
        { FILTER(.ids = &b, .id_count = 1), 1 },
        { FILTER(.box = PR_STR("outbox"), .type = PR_STR("x"), .fingerprint = PR_STR("aaaaaaaaaaaaaaaa")), 1 },
        { FILTER(.box = PR_STR("ledger"), .fingerprint = PR_STR("aaaaaaaaaaaaaaaa")), 0 },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        size_t count = suite_count(s, QUERY_DEAD, cases[i].filter);
        if (count != cases[i].count)
            check_fail(__FILE__, __LINE__, "case %zu finds %zu dead letters, not %zu", i, count, cases[i].count);
    }
}

/* GLOB and LIKE recurse at every star. */
STORE_TEST(a_pattern_with_too_many_stars_is_refused_not_a_reason_to_die) /* B206 */
{
    static const char *const good[] = { "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a", "*", "***************************a" };
    char stars[4000];
    SEND(s, "outbox", .type = PR_STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    for (size_t i = 0; i < sizeof(stars); i++)
        stars[i] = i % 2 == 0 ? '*' : 'a';
    for (size_t size = 33; size <= sizeof(stars); size = size == 33 ? sizeof(stars) : size + 1) {
        struct query query = { .kind = QUERY_MESSAGES, .filter = FILTER(.type = PR_BYTES(stars, size)) };
        struct admin admin = { .kind = ADMIN_PARK, .filter = query.filter, .by = PR_STR("test") };
        struct query_reply reply;
        struct admin_reply changed;
        CHECK_EQ(store_query(&s->store, &query, &s->arena, &reply, &s->error), PR_EINVAL);
        CHECK_STR(s->error.text, "type: a pattern can have at most 255 bytes and 16 stars");
        CHECK_EQ(store_admin(&s->store, &admin, &changed, &s->error), PR_EINVAL);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = pr_str(good[i]))), 1);
}

STORE_TEST(a_thousand_rows_are_paged_without_loss_or_repetition) /* B82 */
{
    send_many(s, "outbox", 1, MANY);
    for (size_t page = 7; page <= 400; page += 131) {
        uint64_t after = 0;
        size_t count = 0;
        for (bool more = true; more;) {
            const struct query_reply *r =
                suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"), .limit = page, .after = after));
            CHECK(r->listed_count <= page);
            for (size_t i = 0; i < r->listed_count; i++) {
                CHECK(r->listed[i].row > after);
                after = r->listed[i].row;
            }
            count += r->listed_count;
            more = r->more;
            CHECK(!more || r->listed_count == page);
        }
        CHECK_EQ(count, MANY);
    }
}

STORE_TEST(a_filter_is_paged_too_and_rows_that_go_meanwhile_cost_nothing) /* B82 */
{
    send_many(s, "outbox", 1, 100);
    struct filter f = FILTER(.box = PR_STR("outbox"), .type = PR_STR("even"), .limit = 10);
    const struct query_reply *r = suite_query(s, QUERY_MESSAGES, f);
    CHECK_EQ(r->listed_count, 10);
    CHECK(r->more);
    f.after = r->listed[9].row;
    pr_id seen = r->listed[9].m.id; /* the cursor's own row goes */
    ADMIN_ID(s, ADMIN_DISCARD, seen);
    f.limit = 100;
    r = suite_query(s, QUERY_MESSAGES, f);
    CHECK_EQ(r->listed_count, 40);
    CHECK(!r->more);
}

STORE_TEST(a_listing_has_a_hundred_rows_unless_said) /* B82 */
{
    send_many(s, "outbox", 1, 101);
    const struct query_reply *r = suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox")));
    CHECK_EQ(r->listed_count, 100);
    CHECK(r->more);
    r = suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"), .limit = 101));
    CHECK_EQ(r->listed_count, 101);
    CHECK(!r->more);
}

STORE_TEST(dead_letters_are_paged) /* B82 */
{
    send_many(s, "outbox", 1, 50);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, FILTER(.box = PR_STR("outbox"), .type = PR_STR("*"))).changed, 50);
    uint64_t after = 0;
    size_t count = 0;
    for (bool more = true; more;) {
        const struct query_reply *r =
            suite_query(s, QUERY_DEAD, FILTER(.box = PR_STR("outbox"), .limit = 12, .after = after));
        for (size_t i = 0; i < r->listed_count; i++) {
            CHECK(r->listed[i].row > after);
            after = r->listed[i].row;
        }
        count += r->listed_count;
        more = r->more;
    }
    CHECK_EQ(count, 50);
}

STORE_TEST(counts_are_exact_up_to_ten_thousand_and_then_say_so) /* B82 */
{
    suite_needs_database(s);
    send_many(s, "outbox", 1, COUNT_EXACT_MAX - 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, COUNT_EXACT_MAX - 1);
    send_many(s, "outbox", COUNT_EXACT_MAX, 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, COUNT_EXACT_MAX);
    send_many(s, "outbox", COUNT_EXACT_MAX + 1, 1);
    CHECK_EQ(suite_box(s, "outbox")->ready, COUNT_EXACT_MAX + 1);
    send_many(s, "outbox", COUNT_EXACT_MAX + 2, 100);
    CHECK_EQ(suite_box(s, "outbox")->ready, COUNT_EXACT_MAX + 1);
    CHECK_EQ(suite_box(s, "ledger")->ready, 0);
    for (int i = 0; i < 2; i++) { /* the same of dead letters */
        CHECK_EQ(
            ADMIN(s, ADMIN_DEAD_ADD, FILTER(.box = PR_STR("outbox"), .limit = i == 0 ? COUNT_EXACT_MAX : 2)).changed,
            i == 0 ? COUNT_EXACT_MAX : 2);
        CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, FILTER(.box = PR_STR("outbox")))->total, COUNT_EXACT_MAX + i);
        CHECK_EQ(suite_box(s, "outbox")->dead, COUNT_EXACT_MAX + i);
    }
}

STORE_TEST(a_ready_message_waits_since_it_came_due) /* B200 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox", .due_us = s->wall_us + PR_SECONDS(60));
    pr_id dead = SEND(s, "outbox", .id = suite_id(2));
    worker_kill(w, dead);
    suite_advance(s, PR_SECONDS(3600));
    CHECK_EQ(s->wall_us - suite_box(s, "outbox")->oldest_us, PR_SECONDS(3540));
    ADMIN_ID(s, ADMIN_DISCARD, id);
    ADMIN_ID(s, ADMIN_DEAD_REPLAY, dead); /* the time that it was dead does not count */
    suite_advance(s, PR_SECONDS(5));
    CHECK(s->wall_us - suite_box(s, "outbox")->oldest_us < PR_SECONDS(6));
}

STORE_TEST(every_state_is_counted_in_its_place) /* B201 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "outbox");
    suite_advance(s, PR_SECONDS(1));
    SEND(s, "outbox"); /* ready, and the oldest */
    int64_t oldest = s->wall_us;
    pr_id retrying = SEND(s, "outbox"), held = SEND(s, "outbox"), flying = SEND(s, "outbox");
    SEND(s, "outbox", .due_us = s->wall_us + PR_SECONDS(60));
    SEND(s, "outbox", .due_us = PR_NEVER);
    SEND(s, "outbox", .destination = PR_STR("e"));
    pr_id dead = SEND(s, "outbox"), done = SEND(s, "outbox");
    worker_fail(w, retrying, PR_SECONDS(60));
    CHECK_EQ(VERDICT(w, suite_seen(s, held), .kind = VERDICT_HOLD, .held_by = PR_STR("k")), PR_OK);
    worker_kill(w, dead);
    struct claim c = worker_claim(w, done);
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .closed = &c.cycle, .closed_count = 1, .keep_us = PR_SECONDS(60));
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("e")), .until_us = PR_NEVER);
    worker_claim(w, flying);
    suite_advance(s, PR_SECONDS(1));

    const struct box_counts *box = suite_box(s, "outbox");
    CHECK_EQ(box->ready, 1);
    CHECK_EQ(box->in_flight, 1);
    CHECK_EQ(box->delayed, 1);
    CHECK_EQ(box->retrying, 1);
    CHECK_EQ(box->held, 1);
    CHECK_EQ(box->parked, 1);
    CHECK_EQ(box->paused, 1);
    CHECK_EQ(box->dead, 1);
    CHECK_EQ(box->done, 1);
    CHECK_EQ(box->oldest_us, oldest);
    CHECK_EQ(suite_box(s, "ledger")->oldest_us, 0);

    /* Listings by state agree with the counts. */
    static const enum state states[] = { STATE_READY, STATE_IN_FLIGHT, STATE_DELAYED, STATE_RETRYING,
                                         STATE_HELD,  STATE_PARKED,    STATE_PAUSED };
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++) {
        const struct query_reply *r =
            suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"), .state = (int)states[i]));
        if (r->listed_count != 1 || r->listed[0].state != states[i])
            check_fail(__FILE__, __LINE__, "%zu messages are listed as %s", r->listed_count, state_name(states[i]));
    }
}

STORE_TEST(a_row_that_became_due_is_ready)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id delayed = SEND(s, "outbox", .due_us = s->wall_us + 5), failed = SEND(s, "outbox");
    worker_fail(w, failed, 5);
    CHECK_EQ(suite_box(s, "outbox")->ready, 0);
    suite_advance(s, 5);
    CHECK_EQ(suite_get(s, delayed)->state, state_of_row(&suite_get(s, delayed)->m, s->wall_us));
    CHECK_EQ(suite_get(s, failed)->state, state_of_row(&suite_get(s, failed)->m, s->wall_us));
    CHECK_EQ(suite_get(s, delayed)->state, STATE_READY);
}

STORE_TEST(what_is_done_is_kept_for_as_long_as_was_said)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id kept = SEND(s, "outbox", .payload = PR_STR("p"), .destination = PR_STR("e")), gone = SEND(s, "outbox");
    struct claim ck = worker_claim(w, kept), cg = worker_claim(w, gone);
    suite_advance(s, PR_SECONDS(1));
    struct verdict v = VERDICT_OF(ck, .kind = VERDICT_COMPLETE, .bits = PR_STATUS_PUBLISHED, .endpoint = PR_STR("e"));
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .keep_us = PR_SECONDS(5));
    CHECK_EQ(VERDICT(w, cg, .kind = VERDICT_COMPLETE), PR_OK);
    CHECK(suite_find(s, gone) == NULL);
    const struct listed *l = suite_get(s, kept);
    CHECK_EQ(l->state, STATE_DONE);
    CHECK_SLICE(l->m.payload, "p");
    CHECK_SLICE(l->endpoint, "e");
    CHECK_EQ(l->m.status, PR_STATUS_STORED | PR_STATUS_PUBLISHED);
    CHECK_EQ(l->died_us, s->wall_us);
    CHECK_EQ(suite_box(s, "outbox")->done, 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_DONE)), 1);

    /* The time is over: a while of cycles later it is gone. */
    suite_advance(s, PR_SECONDS(6));
    for (int i = 0; i < 100 && suite_find(s, kept) != NULL; i++) {
        suite_advance(s, PR_SECONDS(2));
        CYCLE(w, .keep_us = PR_SECONDS(5));
    }
    CHECK(suite_find(s, kept) == NULL);
    CHECK_EQ(suite_box(s, "outbox")->done, 0);
}

STORE_TEST(an_id_is_found_wherever_it_is_and_in_all_places)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(1);
    SEND(s, "outbox", .id = id, .destination = PR_STR("dead"));
    worker_kill(w, id);
    SEND(s, "outbox", .id = id, .destination = PR_STR("done"));
    struct claim c = worker_claim_to(w, id, "done");
    struct verdict v = VERDICT_OF(c, .kind = VERDICT_COMPLETE);
    CYCLE(w, .verdicts = &v, .verdict_count = 1, .keep_us = PR_SECONDS(50));
    SEND(s, "outbox", .id = id, .destination = PR_STR("live"));
    SEND(s, "ledger", .id = id);
    CHECK_EQ(suite_query(s, QUERY_ID, FILTER(.ids = &id, .id_count = 1))->listed_count, 4);
    CHECK_EQ(suite_get_to(s, id, "dead")->state, STATE_DEAD);
    CHECK_EQ(suite_get_to(s, id, "done")->state, STATE_DONE);
    CHECK_EQ(suite_get_to(s, id, "live")->state, STATE_READY);
    CHECK_SLICE(suite_get_to(s, id, "")->box, "ledger");
}

STORE_TEST(boxes_are_listed_whether_they_are_empty_or_not)
{
    suite_box(s, "outbox");
    suite_box(s, "inbox");
    suite_box(s, "turns");
    suite_box(s, "activities");
    suite_box(s, "ledger");
    CHECK_EQ(suite_query(s, QUERY_BOXES, FILTER())->box_count, 5);
}

STORE_TEST(facts_name_the_software_and_the_schema)
{
    const struct query_reply *r = suite_query(s, QUERY_FACTS, FILTER());
    CHECK(r->facts.software.size > 0);
    CHECK_EQ(r->facts.schema_version, r->facts.schema_wanted);
    CHECK_EQ(r->now_us, s->wall_us);
    CHECK_EQ(store_time(&s->store), s->wall_us);
}

static const struct box_failing *failing(struct suite *s, const char *box, int near)
{
    static struct query_reply reply;
    struct query query = { .kind = QUERY_FAILING, .near = near };
    suite_needs_database(s);
    CHECK_OK(store_query(&s->store, &query, &s->arena, &reply, &s->error), &s->error);
    for (size_t i = 0; i < reply.failing_count; i++)
        if (slice_eq_cstr(reply.failing[i].name, box))
            return &reply.failing[i];
    CHECK(!"the box is there");
    return NULL;
}

STORE_TEST(what_fails_is_counted_by_failures_and_dead_letters_by_reason)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .type = PR_STR("t")), b = SEND(s, "outbox", .type = PR_STR("t")),
          c = SEND(s, "outbox", .type = PR_STR("t")), d = SEND(s, "outbox", .type = PR_STR("t"));
    CHECK_EQ(failing(s, "outbox", 1)->rows, 0);
    CHECK_EQ(
        VERDICT(w, worker_claim(w, a), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = PR_SECONDS(60)),
        PR_OK);
    CHECK_EQ(
        VERDICT(w, worker_claim(w, b), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED, .delay_us = PR_SECONDS(5)),
        PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, c), .kind = VERDICT_DEAD_LETTER, .reason = PR_REASON_REJECTED,
                     .cause = PR_REASON_POISON_MESSAGE, .counted = true),
             PR_OK);
    CHECK_EQ(VERDICT(w, worker_claim(w, d), .kind = VERDICT_ABANDON, .delay_us = PR_SECONDS(90)), PR_OK);
    const struct box_failing *f = failing(s, "outbox", 1);
    CHECK_EQ(f->rows, 3);
    CHECK_EQ(f->by_failures[0], 2);
    CHECK_EQ(f->by_failures[1], 0);
    CHECK_EQ(f->near_limit, 1);
    CHECK_EQ(f->last_us - f->next_us, PR_SECONDS(85));
    CHECK_EQ(f->dead[reason_index(PR_REASON_REJECTED)], 1);
    CHECK_EQ(f->dead[reason_index(PR_REASON_POISON_MESSAGE)], 0);
    CHECK(!f->more);
    CHECK_EQ(failing(s, "outbox", 2)->near_limit, 0);
    CHECK_EQ(failing(s, "ledger", 1)->rows, 0);
}

STORE_TEST(what_is_held_has_no_next_attempt) /* B12 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = PR_STR("s"), .destination = PR_STR("x")),
          b = SEND(s, "outbox", .stream = PR_STR("s"), .destination = PR_STR("x"));
    worker_fail(w, b, PR_SECONDS(1));
    suite_advance(s, PR_SECONDS(2));
    CHECK_EQ(failing(s, "outbox", 0)->next_us, s->wall_us - PR_SECONDS(1)); /* it is over, and nobody came */
    CHECK_EQ(failing(s, "outbox", 0)->last_us, s->wall_us - PR_SECONDS(1));
    CHECK_EQ(VERDICT(w, suite_seen(s, b), .kind = VERDICT_HOLD, .held_by = PR_STR("x/s")), PR_OK);
    CHECK_EQ(suite_get(s, b)->state, STATE_HELD);
    CHECK_EQ(suite_box(s, "outbox")->held, 1);
    CHECK_EQ(suite_box(s, "outbox")->retrying, 0);
    const struct box_failing *f = failing(s, "outbox", 0);
    CHECK_EQ(f->rows, 1);
    CHECK_EQ(f->next_us, 0);
    CHECK_EQ(f->last_us, 0);
    worker_fail(w, a, PR_SECONDS(60));
    f = failing(s, "outbox", 0);
    CHECK_EQ(f->rows, 2);
    CHECK_EQ(f->next_us, s->wall_us + PR_SECONDS(60));
    CHECK_EQ(f->last_us, f->next_us);
}

STORE_TEST(what_fails_after_its_release_is_counted_and_holds_up_nobody) /* B201 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = SEND(s, "outbox", .stream = PR_STR("s"), .destination = PR_STR("x")),
          b = SEND(s, "outbox", .stream = PR_STR("s"), .destination = PR_STR("x"));
    worker_fail(w, a, PR_SECONDS(60));
    CHECK_EQ(VERDICT(w, suite_seen(s, b), .kind = VERDICT_HOLD, .held_by = PR_STR("x/s")), PR_OK);
    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.stream = PR_STR("s"))).changed, 1);
    CHECK_EQ(failing(s, "outbox", 0)->rows, 1);
    worker_fail(w, b, PR_SECONDS(90));
    const struct box_failing *f = failing(s, "outbox", 0);
    CHECK_EQ(f->rows, 2);
    CHECK_EQ(f->by_failures[0], 2);
    CHECK_EQ(f->last_us - f->next_us, PR_SECONDS(30));
    const struct query_reply *r = suite_query(s, QUERY_STREAMS, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, a));
    ADMIN_ID(s, ADMIN_DISCARD, a);
    CHECK_EQ(suite_query(s, QUERY_STREAMS, FILTER())->stream_count, 0);
}

STORE_TEST(messages_are_found_by_their_correlation_id_and_letters_by_their_note) /* B82 */
{
    struct admin admin = { .kind = ADMIN_DEAD_ADD, .why = PR_STR("customer 77 asked"), .by = PR_STR("ann") };
    struct admin_reply reply;
    SEND(s, "outbox");
    SEND(s, "outbox", .correlation_id = PR_STR("c-1"));
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.correlation_id = PR_STR("c-1"))), 1);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.correlation_id = PR_STR("c-2"))), 0);
    CHECK_SLICE(suite_query(s, QUERY_MESSAGES, FILTER(.correlation_id = PR_STR("c-1")))->listed[0].m.correlation_id,
                "c-1");
    admin.filter = FILTER(.correlation_id = PR_STR("c-1"));
    CHECK_OK(store_admin(&s->store, &admin, &reply, &s->error), &s->error);
    CHECK_EQ(reply.changed, 1);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.correlation_id = PR_STR("c-1"))), 1);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.error = PR_STR("customer 77"))), 1);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER(.error = PR_STR("customer 78"))), 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 1);
}

/* Receipts know rows by their number, and two boxes have the same numbers. */
STORE_TEST(what_is_in_flight_is_listed_in_its_box_and_nothing_else_is) /* B201 */
{
    struct worker *outbox = suite_join(s, "outbox"), *ledger = suite_join(s, "ledger");
    pr_id waits = SEND(s, "outbox"), out = SEND(s, "outbox");
    pr_id other = SEND(s, "ledger"), calm = SEND(s, "ledger");
    worker_claim(outbox, out);
    worker_claim(ledger, other);
    for (int i = 0; i < 2; i++) {
        const struct query_reply *r = suite_query(
            s, QUERY_MESSAGES, FILTER(.state = STATE_IN_FLIGHT, .box = i == 0 ? PR_STR("outbox") : PR_STR("ledger")));
        CHECK_EQ(r->listed_count, 1);
        CHECK(pr_id_equal(r->listed[0].m.id, i == 0 ? out : other));
    }
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.state = STATE_IN_FLIGHT)), 2);
    CHECK_EQ(suite_get(s, waits)->state, STATE_READY);
    CHECK_EQ(suite_get(s, calm)->state, STATE_READY);
}
