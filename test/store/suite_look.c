/* Listings that look at few rows at a time, and warnings that a store remembers. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

#define ROWS 60
#define LOOK 7

/* Of every sort some: fresh, delayed, retrying, parked; a type, a stream and an endpoint that few have. */
static void fill(struct suite *s, struct worker *w)
{
    for (unsigned i = 1; i <= ROWS; i++) {
        bool rare = i % 20 == 13;
        SEND(s, "outbox", .id = suite_id(i), .type = rare ? PR_STR("rare.type") : PR_STR("usual"),
             .stream = rare ? PR_STR("rare") : (pr_slice){ NULL, 0 }, .destination = rare ? PR_STR("e2") : PR_STR("e1"),
             .due_us = i % 9 == 0 ? s->wall_us + PR_SECONDS(3600) : 0);
    }
    for (unsigned i = 5; i <= ROWS; i += 25)
        CHECK_EQ(VERDICT(w, worker_claim(w, suite_id(i)), .kind = VERDICT_FAIL, .reason = PR_REASON_REJECTED,
                         .error = PR_STR("no"), .delay_us = PR_SECONDS(60)),
                 PR_OK);
    pr_id parked = suite_id(22);
    ADMIN_ID(s, ADMIN_PARK, parked);
}

/* Page by page, going on where each says: the same rows, each once, in their order. */
static void check_same(struct suite *s, enum query_kind kind, struct filter filter)
{
    pr_id all[2 * ROWS];
    const struct query_reply *r = suite_query(s, kind, filter);
    size_t count = r->listed_count, found = 0, pages = 0;
    CHECK(count <= ARRAY_LENGTH(all) && !r->more && !r->cut);
    for (size_t i = 0; i < count; i++)
        all[i] = r->listed[i].m.id;
    filter.look_max = LOOK;
    for (bool more = true; more; pages++) {
        CHECK(pages < 4 * ROWS);
        r = suite_query(s, kind, filter);
        for (size_t i = 0; i < r->listed_count; i++) {
            CHECK(found < count && pr_id_equal(r->listed[i].m.id, all[found]));
            found++;
        }
        more = r->more;
        CHECK(!r->cut || more);
        CHECK(!more || r->next > filter.after);
        CHECK(!more || kind == QUERY_DEAD || slice_eq_cstr(r->next_box, "outbox"));
        filter.after = r->next;
    }
    CHECK_EQ(found, count);
}

STORE_TEST(a_listing_that_looks_at_few_rows_says_where_to_go_on) /* B82 */
{
    fill(s, suite_join(s, "outbox"));
    const struct filter filters[] = {
        FILTER(.limit = ROWS),
        FILTER(.limit = ROWS, .type = PR_STR("rare.*")),
        FILTER(.limit = ROWS, .type = PR_STR("ra?e.*")),
        FILTER(.limit = ROWS, .type = PR_STR("nothing")),
        FILTER(.limit = ROWS, .stream = PR_STR("rare")),
        FILTER(.limit = ROWS, .endpoint = PR_STR("e2")),
        FILTER(.limit = ROWS, .state = STATE_DELAYED),
        FILTER(.limit = ROWS, .state = STATE_RETRYING),
        FILTER(.limit = ROWS, .state = STATE_PARKED),
        FILTER(.limit = ROWS, .state = STATE_HELD),
        FILTER(.limit = ROWS, .state = STATE_IN_FLIGHT),
        FILTER(.limit = ROWS, .state = STATE_READY),
        FILTER(.limit = ROWS, .reason = PR_REASON_REJECTED),
        FILTER(.limit = ROWS, .error = PR_STR("no")),
        FILTER(.limit = ROWS, .since_us = SUITE_START_US + PR_SECONDS(1)),
    };
    for (size_t i = 0; i < ARRAY_LENGTH(filters); i++) {
        struct filter f = filters[i];
        f.box = PR_STR("outbox");
        check_same(s, QUERY_MESSAGES, f);
    }
    /* Nothing fits in the first rows: an answer all the same, where rows are not looked at in memory. */
    const struct query_reply *r =
        suite_query(s, QUERY_MESSAGES, FILTER(.box = PR_STR("outbox"), .type = PR_STR("nothing"), .look_max = LOOK));
    CHECK_EQ(r->listed_count, 0);
    CHECK(r->cut == (s->kind->ops != &store_memory));
}

/* Pages over all boxes: where one ends in a box, the others behind it are still to come. */
STORE_TEST(pages_go_on_from_one_box_to_the_next) /* B82 */
{
    const char *const boxes[] = { "inbox", "ledger", "outbox" };
    for (unsigned i = 1; i <= 30; i++)
        SEND(s, boxes[i % ARRAY_LENGTH(boxes)], .id = suite_id(i),
             .type = i % 4 == 0 ? PR_STR("rare") : PR_STR("usual"));
    for (size_t limit = 1; limit <= 11; limit++) {
        struct filter f =
            FILTER(.limit = limit, .look_max = LOOK, .type = limit % 2 == 0 ? PR_STR("rare") : PR_STR("*"));
        uint32_t seen = 0;
        size_t count = 0;
        for (bool more = true; more;) {
            const struct query_reply *r = suite_query(s, QUERY_MESSAGES, f);
            for (size_t i = 0; i < r->listed_count; i++, count++)
                for (unsigned n = 1; n <= 30; n++)
                    seen |= (uint32_t)pr_id_equal(r->listed[i].m.id, suite_id(n)) << n;
            char box[64];
            more = r->more;
            f.after = r->next;
            CHECK(!more || (size_t)snprintf(box, sizeof(box), "%.*s", SLICE_ARGS(r->next_box)) < sizeof(box));
            for (size_t b = 0; b < ARRAY_LENGTH(boxes) && more; b++) /* the reply lives as long as the arena */
                if (strcmp(box, boxes[b]) == 0)
                    f.after_box = slice_from(boxes[b]);
            CHECK(!more || f.after_box.size > 0);
        }
        CHECK_EQ(count, limit % 2 == 0 ? 7 : 30);
        CHECK_EQ(__builtin_popcount(seen), count);
    }
}

STORE_TEST(dead_letters_are_looked_at_a_few_at_a_time_too) /* B82 */
{
    fill(s, suite_join(s, "outbox"));
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, FILTER(.box = PR_STR("outbox"), .type = PR_STR("usual"))).refused, 0);
    suite_advance(s, PR_SECONDS(100));
    CHECK(ADMIN(s, ADMIN_DEAD_ADD, FILTER(.box = PR_STR("outbox"), .type = PR_STR("rare*"))).changed > 0);
    const struct listed *one = &suite_query(s, QUERY_DEAD, FILTER(.type = PR_STR("rare*")))->listed[0];
    const struct filter filters[] = {
        FILTER(.limit = ROWS),
        FILTER(.limit = ROWS, .box = PR_STR("outbox")),
        FILTER(.limit = ROWS, .box = PR_STR("inbox")),
        FILTER(.limit = ROWS, .type = PR_STR("rare.*")),
        FILTER(.limit = ROWS, .stream = PR_STR("rare")),
        FILTER(.limit = ROWS, .endpoint = PR_STR("e2"), .box = PR_STR("outbox")),
        FILTER(.limit = ROWS, .fingerprint = one->fingerprint),
        FILTER(.limit = ROWS, .reason = PR_REASON_REJECTED),
        FILTER(.limit = ROWS, .since_us = s->wall_us - PR_SECONDS(50)),
        FILTER(.limit = ROWS, .since_us = s->wall_us + PR_SECONDS(50)),
        FILTER(.limit = ROWS, .until_us = s->wall_us - PR_SECONDS(50)),
    };
    for (size_t i = 0; i < ARRAY_LENGTH(filters); i++)
        check_same(s, QUERY_DEAD, filters[i]);
}

/* What is in flight is counted by the receipts, and what was ever stored by the numbers that were drawn. */
STORE_TEST(stored_messages_are_counted_for_ever) /* B201 */
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "outbox");
    uint64_t before = suite_box(s, "outbox")->stored;
    for (unsigned i = 1; i <= 5; i++)
        SEND(s, "outbox", .id = suite_id(i), .type = PR_STR("t"), .destination = PR_STR("e"));
    CHECK_EQ(suite_box(s, "outbox")->stored, before + 5);
    struct claim claim = worker_claim(w, suite_id(3));
    CHECK_EQ(suite_box(s, "outbox")->in_flight, 1);
    CHECK_EQ(VERDICT(w, claim, .kind = VERDICT_COMPLETE), PR_OK);
    CHECK_EQ(suite_box(s, "outbox")->in_flight, 0);
    CHECK_EQ(suite_box(s, "outbox")->ready, 4);
    CHECK_EQ(suite_box(s, "outbox")->stored, before + 5);
    CHECK(box_counts_exact(suite_box(s, "outbox")));
}

STORE_TEST(a_duplicate_in_the_inbox_is_counted)
{
    SEND(s, "inbox", .id = suite_id(1), .type = PR_STR("t"));
    SEND(s, "outbox", .id = suite_id(1), .type = PR_STR("t"));
    CHECK_EQ(s->store.inbox_duplicates, 0);
    CHECK_EQ(OFFER(s, "inbox", .id = suite_id(1), .type = PR_STR("t")), PR_DUPLICATE);
    CHECK_EQ(OFFER(s, "outbox", .id = suite_id(1), .type = PR_STR("t")), PR_DUPLICATE);
    CHECK_EQ(s->store.inbox_duplicates, 1);
}

static bool warn_is_new(struct suite *s, const char *name)
{
    const pr_slice names[] = { PR_STR("always/outbox"), pr_str(name) };
    bool is_new[2];
    const struct warnings warnings = { .names = names, .count = 2 };
    CHECK_OK(store_warn(&s->store, &warnings, PR_SECONDS(60), 0, is_new, &s->error), &s->error);
    return is_new[1];
}

STORE_TEST(a_warning_is_new_once_until_it_was_over_for_long)
{
    suite_needs_database(s);
    CHECK(warn_is_new(s, "age/outbox"));
    CHECK(!warn_is_new(s, "age/outbox"));
    CHECK(warn_is_new(s, "age/ledger"));
    if (suite_can(s, STORE_CAN_LAST))
        suite_reopen(s);
    for (int i = 0; i < 4; i++) { /* it holds for longer than the calm, and is told again and again */
        suite_advance(s, PR_SECONDS(30));
        CHECK(!warn_is_new(s, "age/outbox"));
    }
    CHECK(warn_is_new(s, "age/ledger")); /* this one was over meanwhile */
    suite_advance(s, PR_SECONDS(61));
    CHECK(warn_is_new(s, "age/outbox"));
}

STORE_TEST(a_warning_is_raised_when_it_is_remembered_and_only_then)
{
    suite_needs_database(s);
    const pr_slice names[] = { PR_STR("age/outbox"), PR_STR("age/ledger") };
    struct pr_message about[] = { { .id = suite_id(1), .type = PR_STR("w") },
                                  { .id = suite_id(2), .type = PR_STR("w") } };
    struct warnings warnings = { .names = names, .count = 1, .box = PR_STR("nowhere"), .messages = about };
    bool is_new[2];
    CHECK(store_warn(&s->store, &warnings, PR_SECONDS(60), SUITE_PAYLOAD_MAX, is_new, &s->error) < 0);
    warnings.box = PR_STR("outbox"); /* it could not be raised, so it was not remembered either */
    CHECK_OK(store_warn(&s->store, &warnings, PR_SECONDS(60), SUITE_PAYLOAD_MAX, is_new, &s->error), &s->error);
    CHECK(is_new[0]);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = PR_STR("w"))), 1);
    about[0].id = suite_id(3);
    warnings.count = 2;
    CHECK_OK(store_warn(&s->store, &warnings, PR_SECONDS(60), SUITE_PAYLOAD_MAX, is_new, &s->error), &s->error);
    CHECK(!is_new[0] && is_new[1]);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = PR_STR("w"))), 2);
    CHECK(suite_get(s, suite_id(2)) != NULL);
}

static int take(struct suite *s, const char *from, const char *to, pr_id id, int *ret_answer)
{
    struct pr_message m = { .id = id, .type = PR_STR("line"), .payload = PR_STR("{}") };
    struct position_move move = { .source = PR_STR("file:a"), .from = pr_str(from), .to = pr_str(to) };
    return store_take(&s->store, PR_STR("inbox"), &m, 1, SUITE_PAYLOAD_MAX, &move, ret_answer, &s->error);
}

static const char *position(struct suite *s)
{
    pr_slice text;
    CHECK_OK(store_position(&s->store, PR_STR("file:a"), &s->arena, &text, &s->error), &s->error);
    return text.data;
}

STORE_TEST(a_position_moves_with_its_messages_or_not_at_all) /* B91 */
{
    int answer;
    CHECK_STR(position(s), "");
    CHECK_OK(take(s, "", "1", suite_id(1), &answer), &s->error);
    CHECK_EQ(answer, PR_OK);
    CHECK_EQ(take(s, "", "2", suite_id(2), &answer), PR_STALE); /* it has begun already */
    CHECK_EQ(take(s, "0", "2", suite_id(2), &answer), PR_STALE);
    CHECK_STR(position(s), "1");
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER(.type = PR_STR("line"))), 1);
    if (suite_can(s, STORE_CAN_LAST))
        suite_reopen(s);
    CHECK_OK(take(s, "1", "2", suite_id(2), &answer), &s->error);
    CHECK_OK(take(s, "2", "3", suite_id(2), &answer), &s->error); /* known already: it moves all the same */
    CHECK_EQ(answer, PR_DUPLICATE);
    CHECK_STR(position(s), "3");
    struct position_move nowhere = { .source = PR_STR("file:a"), .from = PR_STR("3"), .to = PR_STR("4") };
    struct pr_message m = { .id = suite_id(4), .type = PR_STR("line") };
    CHECK(store_take(&s->store, PR_STR("nowhere"), &m, 1, SUITE_PAYLOAD_MAX, &nowhere, &answer, &s->error) < 0);
    CHECK_STR(position(s), "3");
    CHECK_OK(store_take(&s->store, PR_STR("inbox"), NULL, 0, SUITE_PAYLOAD_MAX, &nowhere, NULL, &s->error), &s->error);
    CHECK_STR(position(s), "4");
}
