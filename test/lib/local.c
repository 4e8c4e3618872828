/* Endpoints with the url box:NAME: complete here, insert there, one transaction. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand.h"

#define LEDGER "boxes: {ledger: {kind: inbox}, books: {kind: inbox}}\n"

struct heard {
    pthread_mutex_t lock;
    int count;
    int last[16]; /* payload, by the number of the stream */
    bool out_of_order;
    char id[PR_ID_TEXT_SIZE];
    char seen[2048]; /* of the latest one: type, stream, headers and all the rest */
};

static void heard_init(struct heard *h)
{
    memset(h, 0, sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
}

#define TEXT(slice) (int)(slice).size, (slice).data != NULL ? (slice).data : ""

static int hear(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct heard *h = user;
    (void)context;
    pthread_mutex_lock(&h->lock);
    h->count++;
    if (m->stream.size == 2) {
        char number[16];
        snprintf(number, sizeof number, "%.*s", TEXT(m->payload));
        int *last = &h->last[(m->stream.data[1] - '0') % 16];
        h->out_of_order = h->out_of_order || atoi(number) != *last + 1;
        *last = atoi(number);
    }
    pr_id_format(m->id, h->id);
    snprintf(h->seen, sizeof h->seen, "%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s|%.*s", TEXT(m->type),
             TEXT(m->stream), TEXT(m->source), TEXT(m->subject), TEXT(m->content_type), TEXT(m->headers),
             TEXT(m->payload), TEXT(m->correlation_id), TEXT(m->causation_id), TEXT(m->traceparent),
             TEXT(m->destination));
    pthread_mutex_unlock(&h->lock);
    return PR_OK;
}

static pr_id send_one(struct stand *s, const char *box, const struct pr_message *m)
{
    struct pr_error error;
    struct pr_sender *sender;
    pr_id id;
    CHECK_OK(pr_sender_open(s->url, &sender, &error), &error);
    CHECK_OK(pr_sender_send(sender, box, m, &id, &error), &error);
    pr_sender_close(sender);
    return id;
}

TEST(a_message_goes_into_another_box_as_it_is) /* B93 */
{
    struct stand s;
    struct heard h;
    char id[PR_ID_TEXT_SIZE];
    stand_init(&s);
    heard_init(&h);
    const struct pr_message m = {
        .type = PR_STR("money.moved"),
        .stream = PR_STR("account-7"),
        .source = PR_STR("/bank"),
        .subject = PR_STR("seven"),
        .content_type = PR_STR("text/plain"),
        .headers = PR_STR("{ \"a\": 1 }"),
        .payload = PR_STR("5 euro"),
        .correlation_id = PR_STR("c"),
        .causation_id = PR_STR("b"),
        .traceparent = PR_STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        .event = true,
    };
    pr_id_format(send_one(&s, NULL, &m), id);
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\"}}\n"
                                                       "routes: [{box: outbox, to: books}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    stand_drain(engine);
    CHECK_EQ(h.count, 1);
    CHECK_STR(h.id, id);
    CHECK_STR(h.seen,
              "money.moved|account-7|/bank|seven|text/plain|{\"postrider-from\":\"outbox\",\"a\": 1}|5 euro|c|b|"
              "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01|");
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox"), 0);
    CHECK_EQ(stand_int(&s, s.pg != NULL ? "SELECT count(*) FROM event" : "SELECT count(*) FROM postrider_event"), 1);
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    CHECK_EQ(counts.sent, 2); /* by the outbox, and by the ledger */
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(streams_keep_their_order_into_another_box) /* B50 */
{
    struct stand s;
    struct heard h;
    stand_init(&s);
    heard_init(&h);
    for (int i = 0; i < 4; i++)
        stand_send(&s, NULL, "t", (char[]){ 's', (char)('0' + i), 0 }, 50);
    stand_send(&s, NULL, "t", NULL, 200);
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\", rate: 5000/s}}\n"
                                                       "routes: [{box: outbox, to: books}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    stand_drain(engine);
    CHECK_EQ(h.count, 400);
    CHECK(!h.out_of_order);
    pr_engine_free(engine);
    stand_fini(&s);
}

/* Somebody has the first of a stream in an open transaction: the second must not arrive before it. */
TEST(what_somebody_holds_is_not_overtaken_into_another_box) /* B50 */
{
    struct stand s;
    struct heard h;
    stand_init(&s);
    heard_init(&h);
    if (s.pg == NULL) {
        stand_fini(&s);
        SKIP("SQLite has one writer");
    }
    stand_send(&s, NULL, "t", "s0", 3);
    stand_send(&s, NULL, "t", "s1", 1);
    PGconn *other = stand_pg(&s);
    PQclear(PQexec(other, "BEGIN; SELECT FROM outbox WHERE stream = 's0' ORDER BY seq LIMIT 1 FOR UPDATE"));
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\"}}\n"
                                                       "routes: [{box: outbox, to: books}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE stream = 's1'", 0); /* nobody else waits for it */
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox WHERE stream = 's0'"), 3);
    PQclear(PQexec(other, "COMMIT"));
    PQfinish(other);
    stand_drain(engine);
    CHECK_EQ(h.count, 4);
    CHECK(!h.out_of_order);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(a_split_goes_into_boxes_and_elsewhere) /* B92 */
{
    struct stand s;
    struct heard ledger, audit, rest;
    stand_init(&s);
    heard_init(&ledger);
    heard_init(&audit);
    heard_init(&rest);
    struct pr_engine *engine =
        stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\"}, eyes: {url: \"box:books\"}, rest: {url: "
                                "\"handler:rest\"}}\n"
                                "routes: [{box: outbox, to: [books, eyes, rest]}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &ledger), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "books", "*", hear, &audit), PR_OK);
    CHECK_EQ(pr_engine_handle_named(engine, "rest", hear, &rest), PR_OK);
    stand_send(&s, NULL, "t", "s0", 20);
    stand_start(engine);
    stand_drain(engine);
    CHECK_EQ(ledger.count, 20);
    CHECK_EQ(audit.count, 20);
    CHECK_EQ(rest.count, 20);
    CHECK(!ledger.out_of_order && !audit.out_of_order && !rest.out_of_order);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(what_the_other_box_has_already_is_completed_and_not_stored_twice) /* B2 */
{
    struct stand s;
    stand_init(&s);
    const char *config = LEDGER "endpoints: {books: {url: \"box:ledger\"}, wait: {url: \"handler:wait\"}}\n"
                                "routes: [{box: outbox, to: books}, {box: ledger, to: wait}]\n";
    struct heard h;
    heard_init(&h);
    struct pr_engine *engine = stand_engine(&s, config);
    CHECK_EQ(pr_engine_handle_named(engine, "wait", hear, &h), PR_OK);
    struct pr_error error;
    stand_start(engine);
    CHECK_OK(pr_engine_pause(engine, "wait", PR_NEVER, "test", &error), &error);
    struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("first") };
    m.id = send_one(&s, "ledger", &m);
    m.payload = PR_STR("second");
    send_one(&s, NULL, &m);
    stand_wait(&s, "SELECT count(*) FROM outbox", 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM ledger"), 1);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead}"), 0);
    CHECK_OK(pr_engine_resume(engine, "wait", &error), &error);
    stand_drain(engine);
    CHECK_EQ(h.count, 1);
    CHECK(strstr(h.seen, "first") != NULL);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(a_message_that_would_go_round_is_a_dead_letter_that_says_so)
{
    struct stand s;
    stand_init(&s);
    struct pr_engine *engine =
        stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\"}, back: {url: \"box:outbox\"}}\n"
                                "routes: [{box: outbox, to: books}, {box: ledger, to: back}]\n");
    stand_send(&s, NULL, "t", "s0", 2); /* outbox -> ledger -> outbox */
    struct pr_message own = { .type = PR_STR("own"), .destination = PR_STR("back") };
    send_one(&s, NULL, &own); /* into the box that it is in, because its sender says so */
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM {dead}", 3);
    CHECK_STR(stand_text(&s, "SELECT code FROM {dead} WHERE type = 't'"), "loop");
    CHECK_STR(stand_text(&s, "SELECT box FROM {dead} WHERE type = 't'"), "ledger");
    CHECK(strstr(stand_text(&s, "SELECT error FROM {dead} WHERE type = 't'"), "came through box outbox") != NULL);
    CHECK_STR(stand_text(&s, "SELECT box FROM {dead} WHERE type = 'own'"), "outbox");
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(a_paused_box_endpoint_waits_and_one_that_expired_does_not_arrive) /* B13, B63 */
{
    struct stand s;
    struct heard h;
    struct pr_error error;
    stand_init(&s);
    heard_init(&h);
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\"}}\n"
                                                       "routes: [{box: outbox, to: books}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    CHECK_OK(pr_engine_pause(engine, "books", PR_NEVER, "test", &error), &error);
    struct pr_message late = { .type = PR_STR("late"), .expires_us = PR_SECONDS(1000000000) };
    send_one(&s, NULL, &late);
    stand_send(&s, NULL, "t", "s0", 5);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox"), 6);
    CHECK_OK(pr_engine_resume(engine, "books", &error), &error);
    stand_wait(&s, "SELECT count(*) FROM outbox", 0);
    stand_drain(engine);
    CHECK_EQ(h.count, 5);
    pr_engine_free(engine);
    stand_fini(&s);
}

/* ---- A table that refuses ------------------------------------------------------------------- */

/* As an application may have it for its own reasons. */
static void ledger_refuses_seven(struct stand *s)
{
    stand_do(s, s->pg != NULL
                    ? "ALTER TABLE ledger ADD CONSTRAINT no_seven CHECK (payload <> '7')"
                    : "CREATE TRIGGER no_seven BEFORE INSERT ON ledger WHEN CAST(NEW.payload AS TEXT) = '7' BEGIN"
                      " SELECT RAISE(ABORT, 'no_seven'); END");
}

static void only_seven_is_dead(struct stand *s)
{
    stand_wait(s, "SELECT count(*) FROM {dead}", 1);
    stand_wait(s, "SELECT count(*) FROM outbox", 0);
    CHECK_STR(stand_text(s, "SELECT payload FROM {dead}"), "7");
    CHECK_STR(stand_text(s, "SELECT code FROM {dead}"), "effect_refused");
    CHECK(strstr(stand_text(s, "SELECT error FROM {dead}"), "no_seven") != NULL);
}

TEST(what_the_table_of_another_box_refuses_is_dead_and_the_rest_goes_on) /* B93 */
{
    struct stand s;
    struct heard h;
    stand_init(&s);
    heard_init(&h);
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {books: {url: \"box:ledger\", retry: [50ms]}}\n"
                                                       "routes: [{box: outbox, to: books}]\n");
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    ledger_refuses_seven(&s);
    stand_send(&s, NULL, "t", NULL, 40);
    only_seven_is_dead(&s);
    stand_drain(engine);
    CHECK_EQ(h.count, 39);
    pr_engine_free(engine);
    stand_fini(&s);
}

static int send_on(struct pr_context *context, const struct pr_message *m, void *user)
{
    const struct pr_message sent = { .type = PR_STR("sent"), .payload = m->payload };
    (void)user;
    return pr_effect_send_box(context, "ledger", &sent, NULL);
}

TEST(what_the_table_refuses_to_take_from_a_handler_is_a_failure_of_its_message) /* B93 */
{
    struct stand s;
    struct heard h;
    stand_init(&s);
    heard_init(&h);
    struct pr_engine *engine = stand_engine(&s, LEDGER "endpoints: {on: {url: \"handler:outbox/*\", retry: [50ms]}}\n");
    CHECK_EQ(pr_engine_handle_box(engine, "outbox", "*", send_on, NULL), PR_OK);
    CHECK_EQ(pr_engine_handle_box(engine, "ledger", "*", hear, &h), PR_OK);
    stand_start(engine);
    ledger_refuses_seven(&s);
    stand_send(&s, NULL, "t", "a", 40);
    only_seven_is_dead(&s);
    stand_drain(engine);
    CHECK_EQ(h.count, 39);
    pr_engine_free(engine);
    stand_fini(&s);
}
