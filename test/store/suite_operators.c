/* What operators see and repair: groups, streams in trouble, the audit, edited dead letters, notes, and imported dead
 * letters. */
#include "suite.h"

#include <stdio.h>

#include "core/columns.h"
#include "core/fingerprint.h"
#include "core/story.h"

#pragma GCC diagnostic ignored "-Woverride-init-side-effects"

#define LANES_ALL UINT64_MAX

/* A dead letter with this fingerprint. */
static pr_id kill_with(struct worker *w, struct suite *s, struct pr_message m, const char *print, const char *error)
{
    pr_id id = suite_send(s, "outbox", m);
    struct verdict v = { .kind = VERDICT_DEAD_LETTER,
                         .reason = PR_REASON_REJECTED,
                         .cause = PR_REASON_POISON_MESSAGE,
                         .error = slice_from(error),
                         .endpoint = m.destination,
                         .counted = true };
    snprintf(v.fingerprint, sizeof(v.fingerprint), "%s", print);
    CHECK_EQ(worker_verdict(w, worker_claim(w, id), v), PR_OK);
    suite_advance(s, PR_SECONDS(1));
    return id;
}
#define KILL(w, print, text, ...)                                                                                      \
    kill_with((w), s, (struct pr_message){ .type = PR_STR("t"), ##__VA_ARGS__ }, (print), (text))

static const struct query_reply *groups(struct suite *s, struct filter f)
{
    return suite_query(s, QUERY_DEAD_GROUPS, f);
}

STORE_TEST(dead_letters_are_grouped_by_fingerprint_the_largest_first) /* B85 */
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(groups(s, FILTER())->group_count, 0);
    int64_t first_us = s->wall_us;
    KILL(w, "aaaa", "no route 1", .destination = PR_STR("x"), .type = PR_STR("a"));
    KILL(w, "bbbb", "timeout", .destination = PR_STR("y"), .type = PR_STR("b"));
    int64_t last_us = s->wall_us;
    pr_id last = KILL(w, "bbbb", "timeout again", .destination = PR_STR("y"), .type = PR_STR("b"));
    KILL(w, "cccc", "no route 2", .destination = PR_STR("x"), .type = PR_STR("c"), .stream = PR_STR("s"));

    const struct query_reply *r = groups(s, FILTER());
    CHECK_EQ(r->group_count, 3);
    CHECK_SLICE(r->groups[0].fingerprint, "bbbb");
    CHECK_EQ(r->groups[0].count, 2);
    CHECK_EQ(r->groups[0].first_us, first_us + PR_SECONDS(1));
    CHECK_EQ(r->groups[0].last_us, last_us);
    CHECK_SLICE(r->groups[0].endpoint, "y");
    CHECK_SLICE(r->groups[0].type, "b");
    CHECK_SLICE(r->groups[0].box, "outbox");
    CHECK_SLICE(r->groups[0].error, "timeout again");
    CHECK_EQ(r->groups[0].cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(r->groups[0].reason, PR_REASON_REJECTED);
    CHECK(pr_id_equal(r->groups[0].sample, last));
    CHECK_SLICE(r->groups[1].fingerprint, "cccc"); /* of equal ones the latest */
    CHECK(!r->more);
}

STORE_TEST(groups_are_filtered_like_dead_letters) /* B82, B85 */
{
    struct worker *w = suite_join(s, "outbox");
    KILL(w, "aaaa", "no route 1", .destination = PR_STR("x"), .type = PR_STR("order.a"));
    int64_t later_us = s->wall_us;
    KILL(w, "bbbb", "timeout", .destination = PR_STR("y"), .type = PR_STR("bill"), .stream = PR_STR("s"));
    KILL(w, "aaaa", "no route 2", .destination = PR_STR("x"), .type = PR_STR("order.a"));

    CHECK_EQ(groups(s, FILTER(.endpoint = PR_STR("x")))->group_count, 1);
    CHECK_EQ(groups(s, FILTER(.type = PR_STR("order.*")))->groups[0].count, 2);
    CHECK_SLICE(groups(s, FILTER(.type = PR_STR("bill")))->groups[0].fingerprint, "bbbb");
    CHECK_EQ(groups(s, FILTER(.since_us = later_us, .fingerprint = PR_STR("aaaa")))->groups[0].count, 1);
    CHECK_EQ(groups(s, FILTER(.until_us = later_us))->group_count, 1);
    CHECK_EQ(groups(s, FILTER(.error = PR_STR("route 2")))->groups[0].count, 1);
    CHECK_EQ(groups(s, FILTER(.stream = PR_STR("s")))->group_count, 1);
    CHECK_EQ(groups(s, FILTER(.reason = PR_REASON_REJECTED))->group_count, 2);
    CHECK_EQ(groups(s, FILTER(.reason = PR_REASON_POISON_MESSAGE))->group_count, 2);
    CHECK_EQ(groups(s, FILTER(.reason = PR_REASON_TIMEOUT_EXCEEDED))->group_count, 0);
    CHECK_EQ(groups(s, FILTER(.box = PR_STR("inbox")))->group_count, 0);
    CHECK_EQ(groups(s, FILTER(.fingerprint = PR_STR("none")))->group_count, 0);
    const struct query_reply *r = groups(s, FILTER(.limit = 1));
    CHECK_EQ(r->group_count, 1);
    CHECK(r->more);
    CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, FILTER(.type = PR_STR("order.*")))->total, 2);
    CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, FILTER())->total, 3);
}

/* What sources ask before they read on: of every state, and no more than they care for. */
STORE_TEST(rows_of_a_box_are_counted_up_to_a_limit)
{
    if (s->kind->ops == &store_memory)
        return; /* it answers few questions */
    for (int i = 0; i < 4; i++)
        SEND(s, "inbox", .type = PR_STR("a"), .due_us = i == 0 ? TIME_MAX_US : 0);
    SEND(s, "outbox", .type = PR_STR("a"));
    CHECK_EQ(suite_query(s, QUERY_ROWS, FILTER(.box = PR_STR("inbox"), .limit = 10))->total, 4);
    CHECK_EQ(suite_query(s, QUERY_ROWS, FILTER(.box = PR_STR("inbox"), .limit = 2))->total, 3);
    CHECK_EQ(suite_query(s, QUERY_ROWS, FILTER(.box = PR_STR("outbox"), .limit = 2))->total, 1);
}

/* Twenty-six thousand, by import: then a text is looked for among the latest 25 of each group.  A stream has an index, and
 * is told whole. */
STORE_TEST(groups_say_when_not_all_letters_were_looked_at) /* B82, B85 */
{
    enum { PAGE = 1000, PAGES = 26, RARE = 98 };
    static struct listed letters[PAGE];
    static char rare[PAGE][FINGERPRINT_SIZE];
    for (size_t page = 0; page < PAGES; page++) {
        for (size_t i = 0; i < PAGE; i++) {
            size_t n = page * PAGE + i;
            letters[i] =
                (struct listed){ .box = PR_STR("outbox"),
                                 .endpoint = PR_STR("x"),
                                 .cause = PR_REASON_REJECTED,
                                 .fingerprint = n < 20 ? PR_STR("00000000000000aa") : PR_STR("00000000000000bb"),
                                 .died_us = SUITE_START_US + (int64_t)n,
                                 .m = { .id = suite_id((unsigned)n + 1),
                                        .type = PR_STR("t"),
                                        .destination = PR_STR("x"),
                                        .seq = (int64_t)n + 1,
                                        .created_us = SUITE_START_US,
                                        .stream = n < 100                       ? PR_STR("s")
                                                  : n < 100 + GROUP_LOOK_STREAM ? PR_STR("full")
                                                                                : PR_STR("other"),
                                        .error = n < 100 ? PR_STR("early") : PR_STR("late") } };
            snprintf(rare[i], sizeof(rare[i]), "%016zx", n);
            if (n >= PAGES * PAGE - RARE)
                letters[i].fingerprint = slice_from(rare[i]);
        }
        CHECK_EQ(ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = PAGE).changed, PAGE);
    }
    bool knows_all = s->kind->ops == &store_memory;
    /* Many pages of them, and one count. */
    CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, FILTER(.look_max = LOOK_MAX))->total, COUNT_EXACT_MAX + 1);
    const struct query_reply *r = groups(s, FILTER(.stream = PR_STR("s")));
    CHECK_EQ(r->group_count, 2);
    CHECK(!r->cut && !r->groups[0].partial);
    CHECK_EQ(r->groups[0].count, 80);
    CHECK_EQ(r->groups[1].count, 20);
    CHECK_EQ(groups(s, FILTER(.stream = PR_STR("s"), .fingerprint = PR_STR("00000000000000bb")))->groups[0].count, 80);
    CHECK_EQ(groups(s, FILTER(.stream = PR_STR("s"), .error = PR_STR("late")))->group_count, 0);

    r = groups(s, FILTER(.stream = PR_STR("other")));
    CHECK_EQ(r->groups[0].count, COUNT_EXACT_MAX + knows_all);
    CHECK_EQ(r->cut, !knows_all);
    CHECK_EQ(r->groups[0].partial, !knows_all);
    r = groups(s, FILTER(.stream = PR_STR("full"))); /* as many as are looked at */
    CHECK_EQ(r->groups[0].count, GROUP_LOOK_STREAM);
    CHECK(!r->cut && !r->groups[0].partial);
    const pr_slice last = slice_from(rare[PAGE - 1]); /* its own index finds it at once */
    CHECK_EQ(suite_query(s, QUERY_DEAD, FILTER(.stream = PR_STR("other"), .fingerprint = last, .look_max = PAGE))
                 ->listed_count,
             1);
    r = groups(s, FILTER(.error = PR_STR("early")));
    CHECK_EQ(r->cut, !knows_all);
    CHECK_EQ(r->group_count, knows_all ? 2 : 1);
    CHECK_EQ(r->looked, knows_all ? 0 : GROUP_LOOK_MAX);
    r = groups(s,
               FILTER(.error = PR_STR("early"), .until_us = SUITE_START_US + 40)); /* 20 of each: all were looked at */
    CHECK(!r->cut && r->group_count == 2 && !r->groups[0].partial);
    r = groups(s, FILTER(.reason = PR_REASON_REJECTED, .until_us = SUITE_START_US + 40));
    CHECK(!r->cut && r->group_count == 2);
    r = groups(s, FILTER(.reason = PR_REASON_REJECTED));
    CHECK_EQ(r->cut, !knows_all);
    CHECK_EQ(r->groups[0].partial, !knows_all);
    CHECK_EQ(r->looked, knows_all ? 0 : GROUPS_LOOK_REASON / (RARE + 2)); /* the more groups, the fewer of each */
    CHECK_EQ(groups(s, FILTER(.reason = PR_REASON_REJECTED, .fingerprint = PR_STR("00000000000000bb")))->looked,
             knows_all ? 0 : GROUP_LOOK_REASON);
    CHECK(!groups(s, FILTER())->cut);
}

STORE_TEST(dead_letters_of_all_boxes_are_in_one_order) /* B82 */
{
    pr_id sent[6];
    for (unsigned i = 0; i < ARRAY_LENGTH(sent); i++) {
        sent[i] = SEND(s, i % 2 == 0 ? "outbox" : "inbox");
        ADMIN_ID(s, ADMIN_DEAD_ADD, sent[i], .why = PR_STR("w"));
    }
    uint64_t after = 0;
    for (unsigned i = 0; i < ARRAY_LENGTH(sent); i += 2) {
        const struct query_reply *r = suite_query(s, QUERY_DEAD, FILTER(.limit = 2, .after = after));
        CHECK_EQ(r->listed_count, 2);
        CHECK(pr_id_equal(r->listed[0].m.id, sent[i]) && pr_id_equal(r->listed[1].m.id, sent[i + 1]));
        CHECK(r->more == (i < 4));
        after = r->listed[1].row;
    }
}

STORE_TEST(a_replay_in_steps_goes_on_behind_what_it_left) /* B83 */
{
    for (unsigned i = 0; i < 5; i++) {
        pr_id id = SEND(s, i % 2 == 0 ? "outbox" : "inbox", .id = suite_id(i + 1));
        ADMIN_ID(s, ADMIN_DEAD_ADD, id, .why = PR_STR("w"));
    }
    pr_id again = suite_id(1); /* a plain INSERT has the same id: the dead letter stays */
    suite_plant(s, "outbox", &(struct plant){ .id = PR_BYTES((const char *)again.bytes, 16), .type = "t" });
    struct filter f = FILTER(.type = PR_STR("t"), .limit = 2);
    struct admin_reply r = ADMIN(s, ADMIN_DEAD_REPLAY, f);
    CHECK_EQ(r.matched, 2);
    CHECK_EQ(r.refused, 1);
    CHECK_EQ(r.changed, 1);
    CHECK(r.more);
    f.after = r.last_row;
    r = ADMIN(s, ADMIN_DEAD_REPLAY, f);
    CHECK_EQ(r.changed, 2);
    CHECK(r.more);
    f.after = r.last_row;
    r = ADMIN(s, ADMIN_DEAD_REPLAY, f);
    CHECK_EQ(r.changed, 1);
    CHECK(!r.more);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 1);
}

/* A clock that was set back dates letters in the future: rows tell what was there, times do not. */
STORE_TEST(an_action_in_steps_meets_what_was_there_and_not_what_dies_meanwhile) /* B83, B86 */
{
    s->wall_us += PR_SECONDS(3600);
    for (unsigned i = 0; i < 3; i++) {
        pr_id id = SEND(s, "outbox");
        ADMIN_ID(s, ADMIN_DEAD_ADD, id, .why = PR_STR("w"));
    }
    s->wall_us -= PR_SECONDS(3600);
    struct filter f = FILTER(.type = PR_STR("t"), .limit = 2);
    struct admin_reply r = ADMIN(s, ADMIN_DEAD_DISCARD, f);
    CHECK_EQ(r.changed, 2);
    CHECK(r.more && r.newest_row > r.last_row);
    pr_id late = SEND(s, "outbox");
    ADMIN_ID(s, ADMIN_DEAD_ADD, late, .why = PR_STR("w"));
    f.after = r.last_row;
    f.newest_row = r.newest_row;
    r = ADMIN(s, ADMIN_DEAD_DISCARD, f);
    CHECK_EQ(r.changed, 1);
    CHECK(!r.more);
    const struct query_reply *left = suite_query(s, QUERY_DEAD, FILTER());
    CHECK_EQ(left->listed_count, 1);
    CHECK(pr_id_equal(left->listed[0].m.id, late));
    CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, FILTER(.newest_row = f.newest_row, .since_us = 1))->total, 0);
}

STORE_TEST(an_action_on_many_rows_tells_what_happened_to_each)
{
    enum { ROWS = 620 }; /* more than are read at once */
    static struct pr_message m[ROWS];
    for (unsigned i = 0; i < ROWS; i++)
        m[i] = (struct pr_message){ .type = PR_STR("t") };
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), m, ROWS, SUITE_PAYLOAD_MAX, NULL, NULL, &s->error), &s->error);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, FILTER(.type = PR_STR("t")), .why = PR_STR("w")).changed, ROWS);
    struct filter f = FILTER(.type = PR_STR("t"), .limit = 510);
    struct admin_reply r = ADMIN(s, ADMIN_DEAD_REPLAY, f);
    CHECK(r.changed == 510 && r.refused == 0 && r.more);
    f.after = r.last_row;
    r = ADMIN(s, ADMIN_DEAD_REPLAY, f);
    CHECK(r.changed == ROWS - 510 && !r.more);
    CHECK_EQ(ADMIN(s, ADMIN_DISCARD, FILTER(.type = PR_STR("t"))).changed, ROWS);
}

/* ---- Edit ----------------------------------------------------------------------------------- */

STORE_TEST(an_edited_dead_letter_goes_to_its_place_and_the_original_stays) /* B59, B83, B84 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id old = KILL(w, "aaaa", "bad amount", .destination = PR_STR("x"), .stream = PR_STR("s"),
                     .headers = PR_STR("{\"h\":\"1\"}"), .payload = PR_STR("wrong"), .correlation_id = PR_STR("c"));
    struct listed before = *suite_get(s, old);
    pr_slice payload = PR_STR("right"), headers = PR_STR("{\"h\":\"2\"}");
    struct dead_edit edit = { .payload = &payload, .headers = &headers };
    struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_EDIT, old, .by = PR_STR("ann"), .edit = &edit, .dry_run = true);
    CHECK_EQ(r.changed, 1);
    CHECK(pr_id_is_zero(suite_get(s, old)->edited_as));
    r = ADMIN_ID(s, ADMIN_DEAD_EDIT, old, .by = PR_STR("ann"), .why = PR_STR("typo"), .edit = &edit);
    CHECK_EQ(r.changed, 1);
    CHECK(!pr_id_is_zero(r.made));

    const struct listed *l = suite_get(s, old);
    CHECK_EQ(l->state, STATE_DEAD);
    CHECK_SLICE(l->m.payload, "wrong");
    CHECK(pr_id_equal(l->edited_as, r.made));
    CHECK_SLICE(l->fingerprint, "aaaa");

    char text[PR_ID_TEXT_SIZE];
    pr_id_format(old, text);
    l = suite_get(s, r.made);
    CHECK_EQ(l->state, STATE_READY);
    CHECK_SLICE(l->m.payload, "right");
    CHECK_SLICE(l->m.headers, "{\"h\":\"2\"}");
    CHECK_SLICE(l->m.destination, "x");
    CHECK_SLICE(l->m.stream, "s");
    CHECK_SLICE(l->m.correlation_id, "c");
    CHECK_SLICE(l->m.causation_id, text);
    CHECK_EQ(l->m.seq, before.m.seq);
    CHECK_EQ(l->m.attempts, 0);
    CHECK_EQ(l->m.failures, 0);
    CHECK(message_blocks_stream(&l->m)); /* it goes before its followers (B59) */
    CHECK(slice_contains(l->m.story, PR_STR("\"step\":\"edit\"")) && slice_contains(l->m.story, PR_STR("ann")));

    const struct cycle_reply *c = CYCLE(w, .due = { .rows = 10 });
    CHECK(reply_find(c, r.made) != NULL);
}

/* Every column that the edit does not name, by the lists from which the statements are made. */
STORE_TEST(an_edit_keeps_every_column_that_it_does_not_change) /* B84 */
{
    struct worker *w = suite_join(s, "outbox");
    const char *bytes = "\x00\x01\xff";
    struct pr_message m = {
        .id = suite_id(1),
        .type = PR_STR("order.created"),
        .stream = PR_STR("order-1"),
        .destination = PR_STR("orders"),
        .headers = PR_STR("{\"h\":\"1\"}"),
        .payload = PR_BYTES(bytes, 3),
        .expires_us = SUITE_START_US + PR_SECONDS(6000),
        .event = true,
    };
#define FILL(column, ...) m.column = PR_STR("its " #column);
    SENDER_TEXTS(FILL)
    m.traceparent = PR_STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    m.tracestate = PR_STR("vendor=value");
    CHECK_OK(suite_offer(s, "outbox", m), &s->error);
    worker_kill(w, m.id);
    struct listed old = *suite_get(s, m.id);
    const pr_slice to = PR_STR("mail"), headers = PR_STR("{\"h\":\"2\"}"), payload = PR_STR("right"),
                   type = PR_STR("order.mended");
    const struct dead_edit edits[] = {
        { .destination = &to }, { .headers = &headers }, { .payload = &payload }, { .type = &type }
    };
    for (size_t i = 0; i < ARRAY_LENGTH(edits); i++) {
        struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_EDIT, old.m.id, .edit = &edits[i]);
        const struct listed *new = suite_get(s, r.made);
        CHECK_SLICE(new->m.type, edits[i].type != NULL ? type : m.type);
        CHECK_SLICE(new->m.stream, m.stream);
        CHECK_SLICE(new->m.destination, edits[i].destination != NULL ? to : m.destination);
        CHECK_SLICE(new->m.headers, edits[i].headers != NULL ? headers : m.headers);
        CHECK_SLICE(new->m.payload, edits[i].payload != NULL ? payload : m.payload);
#define CHECK_COPIED(column, ...) CHECK_SLICE(new->m.column, m.column);
        SENDER_TEXTS_COPIED(CHECK_COPIED)
        CHECK_EQ(new->m.expires_us, m.expires_us);
        CHECK_EQ(new->m.event, m.event);
        CHECK_EQ(new->m.seq, old.m.seq);
        CHECK_EQ(new->m.created_us, old.m.created_us);
        CHECK_SLICE(new->box, "outbox");

        const struct listed *kept = suite_get(s, m.id); /* and the original is as it was */
#define CHECK_KEPT(column, ...) CHECK_SLICE(kept->m.column, m.column);
        SENDER_TEXTS(CHECK_KEPT)
        CHECK_SLICE(kept->m.payload, m.payload);
        CHECK_SLICE(kept->m.headers, m.headers);
        CHECK_SLICE(kept->m.destination, m.destination);
        CHECK_EQ(kept->m.failures, old.m.failures);
        CHECK_EQ(kept->m.attempts, old.m.attempts);

        worker_kill(w, r.made); /* the next edit is one of a letter that was edited before */
        old = *suite_get(s, r.made);
        m.destination = old.m.destination, m.headers = old.m.headers, m.payload = old.m.payload;
        m.causation_id = old.m.causation_id, m.id = old.m.id;
    }
}

STORE_TEST(an_edited_dead_letter_is_not_sent_again_and_holds_no_stream) /* B83, B84 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id old = KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s"));
    pr_slice to = PR_STR("y");
    struct dead_edit edit = { .destination = &to };
    int64_t notice = w->notice;
    struct admin_reply r = ADMIN_ID(s, ADMIN_DEAD_EDIT, old, .edit = &edit);
    CHECK_SLICE(suite_get(s, r.made)->m.destination, "y");

    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_EDIT, old, .edit = &edit).refused, 1);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, old).refused, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.box = PR_STR("outbox"))).matched, 0);
    CHECK_EQ(suite_count(s, QUERY_MESSAGES, FILTER()), 1);

    const struct cycle_reply *c = CYCLE(w, .heads = { .rows = 10, .lanes = LANES_ALL }, .heads_dead = true);
    CHECK_EQ(reply_count(c, ROW_HEAD), 0);
    bool gone = false, due = false;
    for (size_t i = 0; i < c->notice_count; i++) {
        const struct notice *n = &c->notices[i];
        gone |= n->number > notice && n->kind == NOTICE_GONE && slice_eq_cstr(n->endpoint, "x") &&
                slice_eq_cstr(n->stream, "s");
        due |= n->kind == NOTICE_DUE && n->row == suite_get(s, r.made)->row;
    }
    CHECK(gone && due); /* the stream of x goes on without it */
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_DISCARD, old).changed, 1);
}

STORE_TEST(an_id_that_died_on_two_ways_is_edited_on_one_of_them) /* B84 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = suite_id(7);
    KILL(w, "aaaa", "e", .id = id, .destination = PR_STR("x"));
    pr_id same = SEND(s, "outbox", .id = id, .destination = PR_STR("y"));
    ADMIN_ID(s, ADMIN_DEAD_ADD, same, .why = PR_STR("w"));
    pr_slice payload = PR_STR("new");
    struct dead_edit edit = { .payload = &payload };
    struct admin order = { .kind = ADMIN_DEAD_EDIT, .filter = FILTER(.ids = &id, .id_count = 1), .edit = &edit };
    struct admin_reply r;
    CHECK_EQ(store_admin(&s->store, &order, &r, &s->error), PR_EINVAL);
    order.filter.endpoint = PR_STR("y");
    CHECK_OK(store_admin(&s->store, &order, &r, &s->error), &s->error);
    CHECK_SLICE(suite_get(s, r.made)->m.destination, "y");
    CHECK(pr_id_is_zero(suite_get_to(s, id, "x")->edited_as));

    order.filter = FILTER(.row = suite_get_to(s, id, "x")->row); /* where the id is damaged, by row */
    CHECK_OK(store_admin(&s->store, &order, &r, &s->error), &s->error);
    CHECK_EQ(r.changed, 1);
    CHECK_SLICE(suite_get(s, r.made)->m.destination, "x");
    CHECK_OK(store_admin(&s->store, &order, &r, &s->error), &s->error);
    CHECK_EQ(r.refused, 1);
    order.filter.row += 1000;
    CHECK_OK(store_admin(&s->store, &order, &r, &s->error), &s->error);
    CHECK_EQ(r.matched, 0);
    order.filter = FILTER(.box = PR_STR("outbox")); /* one at a time */
    CHECK_EQ(store_admin(&s->store, &order, &r, &s->error), PR_EINVAL);
}

/* ---- Notes ---------------------------------------------------------------------------------- */

STORE_TEST(notes_are_put_behind_each_other_with_who_wrote_them)
{
    pr_id id = SEND(s, "outbox");
    ADMIN_ID(s, ADMIN_DEAD_ADD, id, .by = PR_STR("ann"), .why = PR_STR("wrong"));
    struct listed before = *suite_get(s, id);
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_NOTE, id, .by = PR_STR("bob"), .why = PR_STR("asked them")).changed, 1);
    const struct listed *l = suite_get(s, id);
    CHECK_SLICE(l->note, "ann: wrong\nbob: asked them");
    CHECK_EQ(l->cause, before.cause);
    CHECK_EQ(l->died_us, before.died_us);
    CHECK_SLICE(l->fingerprint, before.fingerprint);
    struct admin silent = { .kind = ADMIN_DEAD_NOTE, .filter = FILTER(.ids = &id, .id_count = 1) };
    struct admin_reply r;
    CHECK_EQ(store_admin(&s->store, &silent, &r, &s->error), PR_EINVAL);
}

STORE_TEST(a_note_is_still_there_when_the_message_dies_again) /* B81, B83 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = KILL(w, "aaaa", "no route", .destination = PR_STR("x"));
    ADMIN_ID(s, ADMIN_DEAD_NOTE, id, .by = PR_STR("bob"), .why = PR_STR("asked \"them\""));
    const char *noted = "\"error\":\"asked \\\"them\\\"\",\"rule\":\"bob\",\"step\":\"note\"}";
    CHECK(slice_contains(suite_get(s, id)->m.story, pr_str(noted)));
    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1);
    CHECK(slice_contains(suite_get(s, id)->m.story, pr_str(noted)));
    ADMIN_ID(s, ADMIN_DEAD_ADD, id, .why = PR_STR("again"));
    CHECK_EQ(suite_get(s, id)->state, STATE_DEAD);
    CHECK(slice_contains(suite_get(s, id)->m.story, pr_str(noted)));
}

/* ---- From elsewhere --------------------------------------------------------------------------- */

STORE_TEST(what_died_before_it_was_stored_is_a_dead_letter_of_its_verdict_and_not_by_hand) /* B30 */
{
    const struct verdict v = { .kind = VERDICT_DEAD_LETTER,
                               .cause = PR_REASON_POISON_MESSAGE,
                               .limit = 3,
                               .rule = PR_STR("r"),
                               .endpoint = PR_STR("e"),
                               .fingerprint = "0123456789abcdef" };
    const struct pr_message m = { .id = suite_id(1),
                                  .type = PR_STR("t"),
                                  .destination = PR_STR("e"),
                                  .due_us = PR_NEVER,
                                  .status = PR_STATUS_FAILED,
                                  .attempts = 3,
                                  .failures = 3,
                                  .reason = PR_REASON_REJECTED,
                                  .error = PR_STR("no"),
                                  .failed_us = SUITE_START_US - 1,
                                  .story = PR_STR("[{\"attempt\":3}]") };
    CHECK_OK(store_enqueue_failed(&s->store, PR_STR("outbox"), &m, 1, SUITE_PAYLOAD_MAX, NULL, NULL, &s->error),
             &s->error);
    ADMIN_ID(s, ADMIN_DEAD_ADD, m.id, .verdict = &v, .by = PR_STR("rule r"), .why = PR_STR("no"));
    const struct listed *l = suite_get(s, suite_id(1));
    CHECK_EQ(l->state, STATE_DEAD);
    CHECK_EQ(l->cause, PR_REASON_POISON_MESSAGE);
    CHECK_EQ(l->m.reason, PR_REASON_REJECTED);
    CHECK_EQ(l->limit, 3);
    CHECK_EQ(l->m.failures, 3);
    CHECK_SLICE(l->rule, "r");
    CHECK_SLICE(l->fingerprint, "0123456789abcdef");
    CHECK_SLICE(l->note, "");
    CHECK_SLICE(l->m.error, "no");
    CHECK_SLICE(l->m.story, "[{\"attempt\":3}]");
}

STORE_TEST(a_dead_letter_can_go_away_and_come_back_byte_for_byte) /* B81 */
{
    struct worker *w = suite_join(s, "outbox");
    static const char bytes[] = "\x00\xff\n bytes";
    pr_id id =
        KILL(w, "abcd", "text \"q\"", .destination = PR_STR("x"), .stream = PR_STR("s"), .source = PR_STR("/src"),
             .subject = PR_STR("sub"), .content_type = PR_STR("text/plain"), .headers = PR_STR("{ \"a\" : 1 }"),
             .payload = PR_BYTES(bytes, sizeof(bytes)), .correlation_id = PR_STR("c"), .causation_id = PR_STR("d"),
             .traceparent = PR_STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
             .tracestate = PR_STR("k=v"), .expires_us = SUITE_START_US + PR_SECONDS(600), .event = true);
    ADMIN_ID(s, ADMIN_DEAD_NOTE, id, .by = PR_STR("ann"), .why = PR_STR("note"));
    struct listed before = *suite_get(s, id);
    int answers[2];
    struct listed letters[2] = { before, before };
    struct admin_reply r =
        ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = 2, .answers = answers);
    CHECK_EQ(r.refused, 2); /* it is there */
    CHECK_EQ(answers[0], PR_DUPLICATE);
    ADMIN_ID(s, ADMIN_DEAD_DISCARD, id);

    r = ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = 2, .answers = answers,
              .dry_run = true);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 0);
    r = ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = 2, .answers = answers);
    CHECK_EQ(r.changed, 1);
    CHECK_EQ(r.refused, 1);
    CHECK_EQ(answers[0], PR_OK);
    CHECK_EQ(answers[1], PR_DUPLICATE); /* twice in one file */

    const struct listed *l = suite_get(s, id);
    const struct pr_message *m = &l->m, *b = &before.m;
    CHECK_SLICE(m->payload, b->payload);
    CHECK_SLICE(m->headers, b->headers);
    CHECK_SLICE(m->story, b->story);
    CHECK_SLICE(m->source, b->source);
    CHECK_SLICE(m->subject, b->subject);
    CHECK_SLICE(m->content_type, b->content_type);
    CHECK_SLICE(m->correlation_id, b->correlation_id);
    CHECK_SLICE(m->causation_id, b->causation_id);
    CHECK_SLICE(m->traceparent, b->traceparent);
    CHECK_SLICE(m->tracestate, b->tracestate);
    CHECK_SLICE(m->error, b->error);
    CHECK_SLICE(m->stream, b->stream);
    CHECK(m->event);
    CHECK_EQ(m->seq, b->seq);
    CHECK_EQ(m->created_us, b->created_us);
    CHECK_EQ(m->expires_us, b->expires_us);
    CHECK_EQ(m->failed_us, b->failed_us);
    CHECK_EQ(m->attempts, b->attempts);
    CHECK_EQ(m->failures, b->failures);
    CHECK_EQ(m->reason, b->reason);
    CHECK_EQ(m->status, b->status);
    CHECK_EQ(l->cause, before.cause);
    CHECK_EQ(l->lane, before.lane);
    CHECK_SLICE(l->fingerprint, before.fingerprint);
    CHECK_SLICE(l->endpoint, before.endpoint);
    CHECK_SLICE(l->note, "ann: note");
    CHECK_EQ(l->died_us, before.died_us);

    CHECK_EQ(ADMIN_ID(s, ADMIN_DEAD_REPLAY, id).changed, 1); /* and it is as good as before */
    r = ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = 1, .answers = answers);
    CHECK_EQ(answers[0], PR_DUPLICATE); /* in the box */
    letters[0].box = PR_STR("nowhere");
    ADMIN(s, ADMIN_DEAD_IMPORT, FILTER(), .letters = letters, .letter_count = 1, .answers = answers);
    CHECK_EQ(answers[0], PR_UNKNOWN);
}

STORE_TEST(a_dead_letter_is_found_by_its_row_whatever_its_id_is) /* B82, B87 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id first = KILL(w, "aaaa", "e"), second = KILL(w, "aaaa", "e");
    struct filter row = FILTER(.row = suite_get(s, second)->row);
    const struct query_reply *r = suite_query(s, QUERY_DEAD, row);
    CHECK(r->listed_count == 1 && pr_id_equal(r->listed[0].m.id, second));
    CHECK_EQ(suite_query(s, QUERY_DEAD_COUNT, row)->total, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, row).changed, 1);
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_DISCARD, row).changed, 0);
    CHECK(suite_find(s, second) == NULL && suite_find(s, first) != NULL);

    struct admin_reply reply; /* rows of boxes are other numbers */
    struct admin retry = { .kind = ADMIN_RETRY, .filter = row };
    CHECK_EQ(store_admin(&s->store, &retry, &reply, &s->error), PR_EINVAL);
    struct query_reply none;
    struct query messages = { .kind = QUERY_MESSAGES, .filter = row };
    CHECK_EQ(store_query(&s->store, &messages, &s->arena, &none, &s->error), PR_EINVAL);
}

STORE_TEST(a_brief_list_has_no_payloads)
{
    pr_id id = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("t"), .payload = PR_STR("body") });
    struct query q = { .kind = QUERY_MESSAGES, .filter = FILTER(), .brief = true };
    struct query_reply r;
    CHECK_OK(store_query(&s->store, &q, &s->arena, &r, &s->error), &s->error);
    CHECK(r.listed_count == 1 && pr_id_equal(r.listed[0].m.id, id) && r.listed[0].m.payload.size == 0);
    q.brief = false;
    CHECK_OK(store_query(&s->store, &q, &s->arena, &r, &s->error), &s->error);
    CHECK_SLICE(r.listed[0].m.payload, "body");
}

/* ---- Streams --------------------------------------------------------------------------------- */

static const struct query_reply *streams(struct suite *s, bool blocked, struct filter f)
{
    struct query_reply *r = arena_alloc(&s->arena, sizeof(*r));
    struct query q = { .kind = QUERY_STREAMS, .filter = f, .blocked = blocked };
    suite_needs_database(s);
    CHECK(r != NULL);
    CHECK_OK(store_query(&s->store, &q, &s->arena, r, &s->error), &s->error);
    return r;
}

/* Each of them, asked for by its stream and endpoint, is told the same. */
static void check_one_by_one(struct suite *s, const struct query_reply *r, struct filter f)
{
    for (size_t i = 0; i < r->stream_count; i++) {
        const struct stream_info *told = &r->streams[i];
        f.box = told->box;
        f.stream = told->stream;
        f.endpoint = told->endpoint;
        const struct query_reply *one = streams(s, false, f);
        CHECK_EQ(one->stream_count, 1);
        CHECK(pr_id_equal(one->streams[0].head, told->head));
        CHECK_EQ(one->streams[0].head_state, told->head_state);
        CHECK_EQ(one->streams[0].waiting, told->waiting);
    }
}

static pr_id hold(struct suite *s, struct worker *w, const char *key, struct pr_message m)
{
    pr_id id = suite_send(s, "outbox", m);
    CHECK_EQ(VERDICT(w, suite_seen(s, id), .kind = VERDICT_HOLD, .held_by = slice_from(key)), PR_OK);
    return id;
}
#define IN_STREAM(d, st) ((struct pr_message){ .type = PR_STR("t"), .destination = PR_STR(d), .stream = PR_STR(st) })

STORE_TEST(streams_in_trouble_tell_their_head_since_when_why_and_how_many_wait)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = suite_send(s, "outbox", IN_STREAM("x", "s1"));
    pr_id b = suite_send(s, "outbox", IN_STREAM("x", "s2"));
    pr_id fine = suite_send(s, "outbox", IN_STREAM("x", "s3"));
    (void)fine;
    CHECK_EQ(VERDICT(w, worker_claim(w, a), .kind = VERDICT_FAIL, .reason = PR_REASON_TIMEOUT_EXCEEDED,
                     .error = PR_STR("slow"), .code = PR_STR("504"), .delay_us = PR_SECONDS(60)),
             PR_OK);
    int64_t failed_us = s->wall_us;
    suite_advance(s, PR_SECONDS(1));
    worker_fail(w, b, PR_SECONDS(60));
    hold(s, w, "x/s1", IN_STREAM("x", "s1"));
    hold(s, w, "x/s1", IN_STREAM("x", "s1"));

    const struct query_reply *r = streams(s, false, FILTER());
    CHECK_EQ(r->stream_count, 2);
    const struct stream_info *i = &r->streams[0];
    CHECK_SLICE(i->stream, "s1");
    CHECK_SLICE(i->endpoint, "x");
    CHECK_SLICE(i->box, "outbox");
    CHECK(pr_id_equal(i->head, a));
    CHECK_EQ(i->head_state, STATE_RETRYING);
    CHECK_EQ(i->since_us, failed_us);
    CHECK_EQ(i->due_us, failed_us + PR_SECONDS(60));
    CHECK_EQ(i->reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_SLICE(i->code, "504");
    CHECK_SLICE(i->error, "slow");
    CHECK_EQ(i->failures, 1);
    CHECK_EQ(i->waiting, 2);
    CHECK_EQ(r->streams[1].waiting, 0);
    check_one_by_one(s, r, FILTER());

    CHECK_EQ(streams(s, true, FILTER())->stream_count, 1);
    CHECK_EQ(streams(s, false, FILTER(.stream = PR_STR("s2")))->stream_count, 1);
    CHECK_EQ(streams(s, false, FILTER(.endpoint = PR_STR("y")))->stream_count, 0);
    CHECK_EQ(streams(s, false, FILTER(.box = PR_STR("inbox")))->stream_count, 0);
    r = streams(s, false, FILTER(.limit = 1));
    CHECK(r->stream_count == 1 && r->more);
    struct query rest = { .kind = QUERY_STREAMS,
                          .filter = FILTER(.limit = 1),
                          .after_stream = stream_mark_of(&r->streams[0]) };
    struct query_reply page;
    CHECK_OK(store_query(&s->store, &rest, &s->arena, &page, &s->error), &s->error);
    CHECK(page.stream_count == 1 && !page.more && pr_id_equal(page.streams[0].head, b));
    rest.after_stream = stream_mark_of(&page.streams[0]);
    CHECK_OK(store_query(&s->store, &rest, &s->arena, &page, &s->error), &s->error);
    CHECK(page.stream_count == 0 && !page.more);

    CHECK_EQ(ADMIN(s, ADMIN_RELEASE, FILTER(.stream = PR_STR("s1"))).changed, 2);
    CHECK_EQ(streams(s, true, FILTER())->stream_count, 0);
}

STORE_TEST(a_stream_whose_head_is_parked_is_in_trouble_since_then)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = suite_send(s, "outbox", IN_STREAM("x", "s"));
    worker_fail(w, head, PR_SECONDS(60));
    suite_advance(s, PR_SECONDS(30));
    int64_t parked_us = s->wall_us;
    ADMIN_ID(s, ADMIN_PARK, head);
    suite_advance(s, PR_SECONDS(30));
    hold(s, w, "x/s", IN_STREAM("x", "s"));
    const struct query_reply *r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK_EQ(r->streams[0].head_state, STATE_PARKED);
    CHECK_EQ(r->streams[0].since_us, parked_us);
    struct query rest = { .kind = QUERY_STREAMS, .filter = FILTER(), .after_stream = stream_mark_of(&r->streams[0]) };
    struct query_reply page; /* it has one mark */
    CHECK_OK(store_query(&s->store, &rest, &s->arena, &page, &s->error), &s->error);
    CHECK_EQ(page.stream_count, 0);
}

STORE_TEST(a_stream_that_waits_behind_a_dead_letter_names_it) /* B53 */
{
    struct worker *w = suite_join(s, "outbox");
    pr_id head = KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s"));
    int64_t died_us = s->wall_us - PR_SECONDS(1);
    hold(s, w, "x/s", IN_STREAM("x", "s"));
    const struct query_reply *r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, head));
    CHECK_EQ(r->streams[0].head_state, STATE_DEAD);
    CHECK_EQ(r->streams[0].waiting, 1);
    CHECK_EQ(r->streams[0].since_us, died_us);
    CHECK_EQ(r->streams[0].due_us, PR_NEVER);
    CHECK_EQ(r->streams[0].reason, PR_REASON_REJECTED);
    check_one_by_one(s, r, FILTER());

    ADMIN_ID(s, ADMIN_DEAD_REPLAY, head); /* now it stands before them in the box */
    r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, head));
    CHECK_EQ(r->streams[0].head_state, STATE_READY);
}

static pr_slice no_route(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n)
{
    (void)routing, (void)box, (void)m, (void)n;
    return (pr_slice){ NULL, 0 };
}

static bool x_is_strict(const struct routing *routing, pr_slice endpoint)
{
    (void)routing;
    return slice_eq_cstr(endpoint, "x");
}

STORE_TEST(the_head_of_a_stream_is_what_holds_up_the_others)
{
    static const struct routing strict = { no_route, x_is_strict };
    struct worker *w = suite_join(s, "outbox");
    pr_id a = suite_send(s, "outbox", IN_STREAM("x", "s"));
    pr_id b = suite_send(s, "outbox", IN_STREAM("x", "s"));
    worker_fail(w, b, PR_SECONDS(60));
    worker_fail(w, a, PR_SECONDS(60));
    hold(s, w, "x/s", IN_STREAM("x", "s"));
    const struct query_reply *r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1); /* of several that failed the first */
    CHECK(pr_id_equal(r->streams[0].head, a));

    ADMIN_ID(s, ADMIN_PARK, a); /* the others go on without it */
    r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, b));
    CHECK_EQ(r->streams[0].head_state, STATE_RETRYING);
    CHECK_EQ(r->streams[0].waiting, 1);
    r = streams(s, true, FILTER(.routing = &strict)); /* ... unless their endpoint is strict */
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, a));
    CHECK_EQ(r->streams[0].head_state, STATE_PARKED);

    ADMIN_ID(s, ADMIN_PARK, b);
    r = streams(s, false, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, a));
    CHECK_EQ(r->streams[0].head_state, STATE_PARKED);
    CHECK_EQ(r->streams[0].due_us, PR_NEVER);
}

STORE_TEST(the_head_of_a_strict_stream_is_the_first_that_is_dead_or_parked) /* B53 */
{
    static const struct routing strict = { no_route, x_is_strict };
    struct worker *w = suite_join(s, "outbox");
    pr_id dead = KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s"));
    pr_id parked = suite_send(s, "outbox", IN_STREAM("x", "s"));
    ADMIN_ID(s, ADMIN_PARK, parked);
    hold(s, w, "x/s", IN_STREAM("x", "s"));
    KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s")); /* behind them */
    const struct filter filters[] = { FILTER(.routing = &strict), FILTER() };
    for (size_t i = 0; i < 2; i++) {
        const struct query_reply *r = streams(s, true, filters[i]);
        CHECK_EQ(r->stream_count, 1);
        CHECK(pr_id_equal(r->streams[0].head, dead));
        CHECK_EQ(r->streams[0].head_state, STATE_DEAD);
        CHECK_EQ(r->streams[0].waiting, 1);
    }
    ADMIN_ID(s, ADMIN_DEAD_DISCARD, dead);
    const struct query_reply *r = streams(s, true, filters[0]);
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, parked));
    CHECK_EQ(r->streams[0].head_state, STATE_PARKED);
    CHECK_EQ(r->streams[0].waiting, 1);
}

/* By its type: "x", or to both "x" and "y". */
static pr_slice route_by_type(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n)
{
    static const char *const names[] = { "x", "y" };
    (void)routing, (void)box;
    return n < (slice_eq_cstr(m->type, "both") ? 2u : 1u) ? slice_from(names[n]) : (pr_slice){ NULL, 0 };
}

static bool all_are_strict(const struct routing *routing, pr_slice endpoint)
{
    (void)routing;
    return endpoint.size > 0;
}

static const struct stream_info *stream_at(const struct query_reply *r, const char *endpoint)
{
    for (size_t i = 0; i < r->stream_count; i++)
        if (slice_eq_cstr(r->streams[i].endpoint, endpoint))
            return &r->streams[i];
    return NULL;
}

STORE_TEST(what_was_parked_or_made_dead_before_it_had_an_endpoint_heads_the_streams_it_is_routed_to) /* B53 */
{
    static const struct routing routing = { route_by_type, all_are_strict };
    struct worker *w = suite_join(s, "outbox");
    pr_id head = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("both"), .stream = PR_STR("s") });
    pr_id behind = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("only"), .stream = PR_STR("s") });
    hold(s, w, "x/s", IN_STREAM("", "s"));
    hold(s, w, "y/s", IN_STREAM("", "s"));
    hold(s, w, "y/s", IN_STREAM("", "s"));
    ADMIN_ID(s, ADMIN_PARK, behind);
    const struct query_reply *r = streams(s, true, FILTER(.routing = &routing));
    CHECK_EQ(r->stream_count, 1); /* it does not go to y */
    CHECK(pr_id_equal(stream_at(r, "x")->head, behind));

    static const enum admin_kind kinds[] = { ADMIN_PARK, ADMIN_DEAD_ADD };
    static const enum state states[] = { STATE_PARKED, STATE_DEAD };
    for (size_t i = 0; i < 2; i++) {
        ADMIN_ID(s, kinds[i], head, .why = PR_STR("w"));
        const struct filter filters[] = { FILTER(.routing = &routing), FILTER() };
        for (size_t k = 0; k < 2; k++) {
            r = streams(s, true, filters[k]);
            CHECK_EQ(r->stream_count, 2);
            CHECK_SLICE(r->streams[0].endpoint, "y");
            CHECK_SLICE(r->streams[1].endpoint, "x");
            for (size_t j = 0; j < 2; j++) {
                CHECK(pr_id_equal(r->streams[j].head, head));
                CHECK_EQ(r->streams[j].head_state, states[i]);
                CHECK_EQ(r->streams[j].waiting, j == 0 ? 2u : 1u);
            }
        }
        check_one_by_one(s, r, FILTER(.routing = &routing));
        r = streams(s, false, FILTER(.routing = &routing, .endpoint = PR_STR("x")));
        CHECK_EQ(r->stream_count, 1);
        CHECK(pr_id_equal(r->streams[0].head, head));
    }
    ADMIN_ID(s, ADMIN_DEAD_ADD, behind, .why = PR_STR("w"));
    ADMIN_ID(s, ADMIN_DEAD_DISCARD, head);
    r = streams(s, true, FILTER(.routing = &routing));
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(stream_at(r, "x")->head, behind));
    CHECK_EQ(stream_at(r, "x")->head_state, STATE_DEAD);
}

STORE_TEST(what_no_route_gives_an_endpoint_heads_the_streams_that_are_held_behind_it) /* B53 */
{
    static const struct routing elsewhere = { no_route, all_are_strict };
    struct worker *w = suite_join(s, "outbox");
    pr_id head = suite_send(s, "outbox", IN_STREAM("", "s"));
    hold(s, w, "x/s", IN_STREAM("", "s"));
    static const enum admin_kind kinds[] = { ADMIN_PARK, ADMIN_DEAD_ADD };
    static const enum state states[] = { STATE_PARKED, STATE_DEAD };
    for (size_t i = 0; i < 2; i++) {
        ADMIN_ID(s, kinds[i], head, .why = PR_STR("w"));
        const struct filter filters[] = { FILTER(.routing = &elsewhere),
                                          FILTER(.routing = &elsewhere, .endpoint = PR_STR("x")),
                                          FILTER(.endpoint = PR_STR("x")) };
        for (size_t k = 0; k < 2 * ARRAY_LENGTH(filters); k++) {
            const struct query_reply *r = streams(s, k % 2 != 0, filters[k / 2]);
            CHECK_EQ(r->stream_count, 1);
            CHECK_SLICE(r->streams[0].endpoint, "x");
            CHECK(pr_id_equal(r->streams[0].head, head));
            CHECK_EQ(r->streams[0].head_state, states[i]);
            CHECK_EQ(r->streams[0].waiting, 1u);
        }
        CHECK_EQ(streams(s, false, FILTER(.routing = &elsewhere, .endpoint = PR_STR("y")))->stream_count, 0);
    }
}

STORE_TEST(the_head_is_found_behind_many_dead_letters_that_are_routed_elsewhere) /* B53 */
{
    enum { ELSEWHERE = DEAD_HEADS_MAX + 20 };
    static const struct routing routing = { route_by_type, all_are_strict };
    struct pr_message sent[ELSEWHERE];
    pr_id ids[ELSEWHERE];
    int answers[ELSEWHERE];
    struct worker *w = suite_join(s, "outbox");
    for (size_t i = 0; i < ELSEWHERE; i++)
        sent[i] = (struct pr_message){ .type = PR_STR("only"), .stream = PR_STR("s") };
    CHECK_OK(store_enqueue(&s->store, PR_STR("outbox"), sent, ELSEWHERE, 1024, ids, answers, &s->error), &s->error);
    pr_id head = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("both"), .stream = PR_STR("s") });
    CHECK_EQ(ADMIN(s, ADMIN_DEAD_ADD, FILTER(.stream = PR_STR("s"), .limit = 1000), .why = PR_STR("w")).changed,
             ELSEWHERE + 1);
    hold(s, w, "y/s", IN_STREAM("", "s"));
    const struct query_reply *r = streams(s, true, FILTER(.routing = &routing));
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(stream_at(r, "y")->head, head));
    CHECK(!r->more);
}

STORE_TEST(what_is_made_dead_before_it_had_an_endpoint_died_for_the_only_one_it_is_routed_to) /* B83 */
{
    static const struct routing routing = { route_by_type, all_are_strict };
    pr_id only = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("only"), .stream = PR_STR("s") });
    pr_id both = suite_send(s, "outbox", (struct pr_message){ .type = PR_STR("both"), .stream = PR_STR("s") });
    const pr_id ids[] = { only, both };
    ADMIN(s, ADMIN_DEAD_ADD, FILTER(.ids = ids, .id_count = 2, .routing = &routing), .why = PR_STR("w"));
    const struct query_reply *r = suite_query(s, QUERY_DEAD, FILTER(.ids = &both, .id_count = 1));
    CHECK_EQ(r->listed_count, 1);
    CHECK_SLICE(r->listed[0].endpoint, "");
    r = suite_query(s, QUERY_DEAD, FILTER(.endpoint = PR_STR("x")));
    CHECK_EQ(r->listed_count, 1);
    CHECK(pr_id_equal(r->listed[0].m.id, only));
    CHECK_SLICE(r->listed[0].endpoint, "x");
    CHECK_SLICE(r->listed[0].m.destination, "");
    char print[FINGERPRINT_SIZE];
    fingerprint(PR_STR("x"), PR_STR("only"), PR_REASON_REJECTED, PR_STR("w"), print);
    CHECK_SLICE(r->listed[0].fingerprint, print);

    CHECK_EQ(ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.ids = &only, .id_count = 1, .endpoint = PR_STR("x"))).changed, 1);
    r = suite_query(s, QUERY_MESSAGES, FILTER());
    CHECK_EQ(r->listed_count, 1);
    CHECK_SLICE(r->listed[0].m.destination, ""); /* the routes decide again */
    CHECK_SLICE(story_endpoint(r->listed[0].m.story), "");
}

STORE_TEST(a_dead_letter_is_no_head_where_streams_go_on_without_it)
{
    static const struct routing strict = { no_route, x_is_strict };
    struct worker *w = suite_join(s, "outbox");
    KILL(w, "aaaa", "e", .destination = PR_STR("y"), .stream = PR_STR("s"));
    pr_id failed = suite_send(s, "outbox", IN_STREAM("y", "s"));
    worker_fail(w, failed, PR_SECONDS(60));
    hold(s, w, "y/s", IN_STREAM("y", "s"));
    const struct filter filters[] = { FILTER(.routing = &strict), FILTER() };
    for (size_t i = 0; i < 2; i++) {
        const struct query_reply *r = streams(s, true, filters[i]);
        CHECK_EQ(r->stream_count, 1);
        CHECK(pr_id_equal(r->streams[0].head, failed));
    }
}

/* How many, asked briefly. */
static size_t streams_blocked(struct suite *s, const struct routing *routing)
{
    const struct query q = {
        .kind = QUERY_STREAMS, .filter = FILTER(.routing = routing), .blocked = true, .brief = true
    };
    struct query_reply reply;
    CHECK_OK(store_query(&s->store, &q, &s->arena, &reply, &s->error), &s->error);
    return reply.stream_count;
}

STORE_TEST(a_head_that_is_held_itself_does_not_wait_behind_itself)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id a = KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s"));
    ADMIN_ID(s, ADMIN_DEAD_REPLAY, a);
    CHECK_EQ(VERDICT(w, suite_seen(s, a), .kind = VERDICT_HOLD, .held_by = PR_STR("x/s")), PR_OK);
    const struct query_reply *r = streams(s, false, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, a));
    CHECK_EQ(r->streams[0].waiting, 0);
    CHECK_EQ(streams(s, true, FILTER())->stream_count, 0);
    CHECK_EQ(streams_blocked(s, NULL), 0);
    hold(s, w, "x/s", IN_STREAM("x", "s"));
    r = streams(s, true, FILTER());
    CHECK_EQ(r->stream_count, 1);
    CHECK(pr_id_equal(r->streams[0].head, a));
    CHECK_EQ(r->streams[0].waiting, 1);
    CHECK_EQ(streams_blocked(s, NULL), 1);
}

STORE_TEST(briefly_asked_one_that_came_back_and_is_held_behind_another_is_blocked)
{
    suite_needs_database(s);
    static const struct routing strict = { no_route, x_is_strict };
    struct worker *w = suite_join(s, "outbox");
    pr_id first = suite_send(s, "outbox", IN_STREAM("x", "s"));
    pr_id back = KILL(w, "aaaa", "e", .destination = PR_STR("x"), .stream = PR_STR("s"));
    worker_fail(w, first, PR_SECONDS(60));
    ADMIN_ID(s, ADMIN_DEAD_REPLAY, back);
    CHECK_EQ(VERDICT(w, suite_seen(s, back), .kind = VERDICT_HOLD, .held_by = PR_STR("x/s")), PR_OK);
    CHECK_EQ(streams_blocked(s, NULL), 1);
    ADMIN_ID(s, ADMIN_DEAD_ADD, first, .why = PR_STR("w")); /* now nothing is before it, unless its stream is strict */
    CHECK_EQ(streams_blocked(s, NULL), streams(s, true, FILTER())->stream_count);
    CHECK_EQ(streams_blocked(s, &strict), 1);
    CHECK_EQ(streams(s, true, FILTER(.routing = &strict))->stream_count, 1);
}

STORE_TEST(briefly_asked_blocked_streams_are_those_that_messages_are_held_in)
{
    suite_needs_database(s);
    struct worker *w = suite_join(s, "outbox");
    pr_id a = suite_send(s, "outbox", IN_STREAM("x", "s1"));
    worker_fail(w, a, PR_SECONDS(60));
    worker_fail(w, suite_send(s, "outbox", IN_STREAM("x", "s2")), PR_SECONDS(60));
    hold(s, w, "x/s1", IN_STREAM("x", "s1"));
    hold(s, w, "x/s1", IN_STREAM("x", "s1"));
    struct query q = { .kind = QUERY_STREAMS, .filter = FILTER(), .blocked = true, .brief = true };
    struct query_reply reply;
    CHECK_OK(store_query(&s->store, &q, &s->arena, &reply, &s->error), &s->error);
    CHECK_EQ(reply.stream_count, 1);
    CHECK_SLICE(reply.streams[0].box, "outbox");
    CHECK_SLICE(reply.streams[0].endpoint, "x");
    CHECK_SLICE(reply.streams[0].stream, "s1");
    CHECK(reply.streams[0].waiting > 0);
    q.filter.endpoint = PR_STR("x");
    q.filter.stream = PR_STR("s1");
    CHECK_OK(store_query(&s->store, &q, &s->arena, &reply, &s->error), &s->error);
    CHECK_EQ(reply.stream_count, 1);
    q.filter.stream = PR_STR("s2");
    CHECK_OK(store_query(&s->store, &q, &s->arena, &reply, &s->error), &s->error);
    CHECK_EQ(reply.stream_count, 0);
    q.filter.endpoint = PR_STR("");
    CHECK_OK(store_query(&s->store, &q, &s->arena, &reply, &s->error), &s->error);
    CHECK_EQ(reply.stream_count, 0);
}

/* ---- Audit ----------------------------------------------------------------------------------- */

STORE_TEST(every_kind_of_action_is_one_line_of_the_record) /* B202 */
{
    static const pr_slice text = { "changed", 7 };
    static const struct dead_edit edit = { .payload = &text };
    struct worker *w = suite_join(s, "outbox");
    pr_id head = SEND(s, "outbox", .id = suite_id(1), .stream = PR_STR("a"), .destination = PR_STR("e"));
    pr_id id = SEND(s, "outbox", .id = suite_id(2), .stream = PR_STR("a"), .destination = PR_STR("e"));
    pr_id other = SEND(s, "outbox", .id = suite_id(3));
    worker_fail(w, head, PR_SECONDS(60));
    const struct {
        enum admin_kind kind;
        pr_id id; /* zero: the endpoint e */
    } done[] = { { ADMIN_RELEASE, id },
                 { ADMIN_RETRY, head },
                 { ADMIN_PARK, id },
                 { ADMIN_PAUSE, { { 0 } } },
                 { ADMIN_RESUME, { { 0 } } },
                 { ADMIN_DEAD_ADD, id },
                 { ADMIN_DEAD_NOTE, id },
                 { ADMIN_DEAD_REPLAY, id },
                 { ADMIN_DEAD_ADD, other },
                 { ADMIN_DEAD_EDIT, other },
                 { ADMIN_DEAD_DISCARD, other },
                 { ADMIN_DISCARD, head },
                 { ADMIN_ENDPOINT_TEST, { { 0 } } },
                 { ADMIN_REPLAY_STOP, other },
                 { ADMIN_REPLAY_RESUME, other } };
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    for (size_t i = 0; i < ARRAY_LENGTH(done); i++) {
        bool of_endpoint = pr_id_is_zero(done[i].id);
        struct filter filter =
            of_endpoint ? FILTER(.endpoint = PR_STR("e")) : FILTER(.ids = &done[i].id, .id_count = 1);
        suite_advance(s, PR_MILLISECONDS(1));
        CHECK_EQ(ADMIN(s, done[i].kind, filter, .by = PR_STR("ann"), .why = PR_STR("so"), .until_us = PR_NEVER,
                       .edit = done[i].kind == ADMIN_DEAD_EDIT ? &edit : NULL,
                       .outcome = done[i].kind >= ADMIN_ENDPOINT_TEST ? &outcome : NULL)
                     .changed,
                 1);
        const struct query_reply *r = suite_query(s, QUERY_AUDIT, FILTER());
        CHECK_EQ(r->audit_count, i + 1);
        CHECK_SLICE(r->audit[0].action, pr_str(admin_name(done[i].kind)));
        CHECK_SLICE(r->audit[0].who, "ann");
        CHECK_SLICE(r->audit[0].why, "so");
        CHECK_EQ(r->audit[0].at_us, s->wall_us);
        CHECK_EQ(r->audit[0].changed, 1);
        CHECK(slice_contains(r->audit[0].target, of_endpoint ? PR_STR("\"endpoint\":\"e\"") : PR_STR("\"ids\":[")));
    }
}

STORE_TEST(what_was_done_elsewhere_is_recorded_and_changes_nothing) /* B202 */
{
    pr_id id = SEND(s, "outbox");
    ADMIN_ID(s, ADMIN_DEAD_ADD, id, .why = PR_STR("w"));
    const struct admin_reply outcome = { .matched = 3, .changed = 2, .refused = 1 };
    struct admin_reply r =
        ADMIN(s, ADMIN_DEAD_REPLAY, FILTER(.type = PR_STR("*")), .by = PR_STR("ann"), .outcome = &outcome);
    CHECK(r.matched == 3 && r.changed == 2 && r.refused == 1);
    CHECK_EQ(suite_count(s, QUERY_DEAD, FILTER()), 1);
    const struct query_reply *a = suite_query(s, QUERY_AUDIT, FILTER());
    CHECK_EQ(a->audit_count, 2);
    CHECK_SLICE(a->audit[0].action, "dead_replay");
    CHECK_SLICE(a->audit[0].target, "{\"type\":\"*\"}");
    CHECK(a->audit[0].matched == 3 && a->audit[0].changed == 2 && a->audit[0].refused == 1);
}

STORE_TEST(everything_that_people_do_is_written_down) /* B202 */
{
    pr_id id = SEND(s, "outbox", .destination = PR_STR("x")), other = suite_id(99);
    pr_id both[] = { id, other };
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    ADMIN(s, ADMIN_PARK, FILTER(.ids = both, .id_count = 2), .by = PR_STR("ann@desk"), .why = PR_STR("wait"));
    suite_advance(s, PR_SECONDS(10));
    int64_t later_us = s->wall_us;
    ADMIN(s, ADMIN_RETRY, FILTER(.type = PR_STR("t*"), .state = STATE_PARKED, .since_us = SUITE_START_US),
          .by = PR_STR("bob"));
    ADMIN(s, ADMIN_RETRY, FILTER(.type = PR_STR("t*")), .by = PR_STR("bob"), .dry_run = true); /* changes nothing */
    ADMIN(s, ADMIN_PAUSE, FILTER(.endpoint = PR_STR("x")), .by = PR_STR("cid"));
    ADMIN_ID(s, ADMIN_DEAD_ADD, id, .by = PR_STR("dan"), .why = PR_STR("w"));
    ADMIN_ID(s, ADMIN_DEAD_NOTE, id, .by = PR_STR("eve"), .why = PR_STR("n"));

    const struct query_reply *r = suite_query(s, QUERY_AUDIT, FILTER());
    static const char *const actions[] = { "dead_note", "dead_add", "pause", "retry", "park" };
    CHECK_EQ(r->audit_count, ARRAY_LENGTH(actions));
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++) {
        CHECK_SLICE(r->audit[i].action, actions[i]);
        CHECK_EQ(r->audit[i].changed, 1);
        CHECK(slice_is_json_object(r->audit[i].target));
        CHECK(i == 0 || r->audit[i].number < r->audit[i - 1].number);
    }
    const struct audit_entry *park = &r->audit[4], *retry = &r->audit[3];
    CHECK_SLICE(park->who, "ann@desk");
    CHECK_SLICE(park->why, "wait");
    CHECK_EQ(park->at_us, SUITE_START_US);
    CHECK_EQ(park->matched, 1);
    CHECK(slice_contains(park->target, slice_from(text)));
    CHECK(slice_contains(retry->target, PR_STR("\"type\":\"t*\"")) &&
          slice_contains(retry->target, PR_STR("\"state\":\"parked\"")) &&
          slice_contains(retry->target, PR_STR("\"since\":\"2023-")));
    CHECK(slice_contains(r->audit[2].target, PR_STR("\"endpoint\":\"x\"")));

    CHECK_EQ(suite_query(s, QUERY_AUDIT, FILTER(.since_us = later_us))->audit_count, 4);
    CHECK_EQ(suite_query(s, QUERY_AUDIT, FILTER(.until_us = later_us))->audit_count, 1);
    r = suite_query(s, QUERY_AUDIT, FILTER(.limit = 2));
    CHECK(r->audit_count == 2 && r->more);
    r = suite_query(s, QUERY_AUDIT, FILTER(.limit = 3, .after = r->audit[1].number));
    CHECK(r->audit_count == 3 && !r->more);
    CHECK_SLICE(r->audit[2].action, "park");
}
