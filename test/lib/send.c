/* Sending: in the caller's transaction, in a unit, by a sender. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

static void run(sqlite3 *db, const char *sql)
{
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* ---- Values ----------------------------------------------------------------------------- */

TEST(version_is_told)
{
    CHECK(pr_version() != NULL && pr_version()[0] != '\0');
}

TEST(reasons_have_names)
{
    CHECK_STR(pr_reason_name(PR_REASON_TIMEOUT_EXCEEDED), "timeout_exceeded");
    CHECK_STR(pr_reason_name(12345), "unknown");
}

TEST(ids_survive_being_written_and_read)
{
    pr_id id, again;
    char text[PR_ID_TEXT_SIZE];
    pr_id_new(&id);
    CHECK(!pr_id_is_zero(id));
    pr_id_format(id, text);
    CHECK_EQ(pr_id_parse(pr_str(text), &again), PR_OK);
    CHECK(pr_id_equal(id, again));
    CHECK_EQ(pr_id_parse(PR_STR("no id"), &again), PR_EINVAL);
}

/* ---- In the caller's transaction ------------------------------------------------------------ */

TEST(message_is_stored_when_the_transaction_commits) /* B1 */
{
    struct place p;
    struct pr_error error;
    pr_id id = { { 0 } };
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_message m = { .type = PR_STR("order.placed"), .payload = PR_BYTES("\0\xff", 2) };

    run(db, "BEGIN");
    CHECK_OK(pr_send_sqlite(db, &m, &id, &error), &error);
    run(db, "COMMIT");

    CHECK(!pr_id_is_zero(id));
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE payload = x'00ff'"), 1);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(message_is_gone_when_the_transaction_rolls_back) /* B1 */
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_message m = { .type = PR_STR("order.placed") };

    run(db, "BEGIN");
    CHECK_OK(pr_send_sqlite_box(db, "inbox", &m, NULL, &error), &error);
    run(db, "ROLLBACK");

    CHECK_EQ(place_int(&p, "SELECT count(*) FROM inbox"), 0);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(same_id_again_is_a_duplicate)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_message m = { .type = PR_STR("order.placed") };
    pr_id_new(&m.id);

    CHECK_OK(pr_send_sqlite(db, &m, NULL, &error), &error);
    CHECK_EQ(pr_send_sqlite(db, &m, NULL, &error), PR_DUPLICATE);

    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 1);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(a_handle_sends_in_whatever_transaction_is_open) /* B1 */
{
    struct place p;
    struct pr_error error;
    struct pr_sqlite_sender *sender;
    pr_id id = { { 0 } };
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_message m = { .type = PR_STR("order.placed"), .payload = PR_STR("p") };

    CHECK_OK(pr_sqlite_sender_new(db, NULL, &sender, &error), &error);
    for (int i = 0; i < 4; i++) {
        run(db, "BEGIN");
        CHECK_OK(pr_sqlite_sender_send(sender, &m, &id, &error), &error);
        run(db, i % 2 == 0 ? "COMMIT" : "ROLLBACK");
    }
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 2);
    pr_id_new(&m.id);
    CHECK_OK(pr_sqlite_sender_send(sender, &m, NULL, &error), &error);
    CHECK_EQ(pr_sqlite_sender_send(sender, &m, NULL, &error), PR_DUPLICATE);
    CHECK_EQ(pr_sqlite_sender_send(sender, &(struct pr_message){ .payload = PR_STR("p") }, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_sqlite_sender_send(sender, NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 3);
    run(db, "CREATE TABLE mine (x)"); /* the schema has changed under it */
    m.id = (pr_id){ { 0 } };
    CHECK_OK(pr_sqlite_sender_send(sender, &m, NULL, &error), &error);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 4);
    pr_sqlite_sender_free(sender);
    pr_sqlite_sender_free(NULL);
    CHECK_EQ(pr_sqlite_sender_new(db, "nobox", &sender, &error), PR_ESCHEMA);
    CHECK_EQ(pr_sqlite_sender_new(db, "no box", &sender, &error), PR_EINVAL);
    CHECK_EQ(pr_sqlite_sender_new(NULL, NULL, &sender, &error), PR_EINVAL);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK); /* no statement is left */
    place_fini(&p);
}

/* SQLite takes ids as blobs and as texts, in small and capital letters. */
TEST(an_event_is_known_in_whatever_form_its_id_was_inserted) /* B95 */
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_message m = { .type = PR_STR("t"), .stream = PR_STR("a"), .event = true };
    CHECK_EQ(pr_id_parse(PR_STR("0190163d-8694-739b-aea5-966c26f8ad91"), &m.id), PR_OK);
    CHECK_OK(pr_send_sqlite(db, &m, NULL, &error), &error);
    run(db, "INSERT INTO inbox (id, type, stream, event) VALUES ('0190163D-8694-739B-AEA5-966C26F8AD91', 't', 'a', 1)");
    run(db,
        "INSERT INTO inbox (id, type, stream, event, destination) VALUES ('0190163d-8694-739b-aea5-966c26f8ad91', 't',"
        " 'a', 1, 'e')");
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM postrider_event"), 1);
    CHECK_EQ(place_int(&p, "SELECT version FROM postrider_event_stream WHERE stream = 'a'"), 1);
    sqlite3_close(db);
    place_fini(&p);
}

static void *commit_soon(void *other)
{
    for (int i = 0; i < 20; i++)
        test_pause();
    run(other, "INSERT INTO outbox (type) VALUES ('t')");
    run(other, "COMMIT");
    return NULL;
}

static void send_beside_a_writer(bool expects_version)
{
    struct place p;
    struct pr_error error;
    pthread_t thread;
    place_init(&p);
    sqlite3 *db = place_open(&p), *other = place_open(&p);
    struct pr_message m = {
        .type = PR_STR("t"), .stream = PR_STR("a"), .event = true, .expects_version = expects_version
    };
    sqlite3_busy_timeout(db, 20000);
    run(other, "BEGIN IMMEDIATE");
    CHECK_EQ(pthread_create(&thread, NULL, commit_soon, other), 0);
    run(db, "BEGIN");
    CHECK_OK(pr_send_sqlite(db, &m, NULL, &error), &error);
    run(db, "COMMIT");
    pthread_join(thread, NULL);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 2);
    sqlite3_close(other);
    sqlite3_close(db);
    place_fini(&p);
}

/* As the first statement of a transaction, while somebody else writes: B1. */
TEST(who_only_sends_waits_for_other_writers) /* B1 */
{
    send_beside_a_writer(false);
    send_beside_a_writer(true);
}

TEST(wrong_messages_are_refused_and_named)
{
    const struct {
        struct pr_message message;
        int code;
        const char *word; /* in the text */
    } cases[] = {
        { { .payload = PR_STR("x") }, PR_EINVAL, "type" },
        { { .type = PR_STR("t"), .headers = PR_STR("[1]") }, PR_EINVAL, "headers" },
        { { .type = PR_STR("t"), .headers = PR_STR("{\"a\":") }, PR_EINVAL, "headers" },
        { { .type = PR_STR("t"), .payload = { "x", (size_t)PR_PAYLOAD_MAX + 1 } }, PR_ETOOBIG, "payload" },
        { { .type = PR_STR("t"), .payload = { NULL, 3 } }, PR_EINVAL, "payload" },
        { { .type = PR_STR("t"), .stream = PR_STR("a\nb") }, PR_EINVAL, "stream" },
        { { .type = PR_STR("t"), .due_us = -1 }, PR_EINVAL, "due" },
    };
    struct place p;
    struct pr_error error;
    struct pr_sender *sender;
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_unit *unit = pr_unit_new();
    CHECK_OK(pr_sender_open(p.url, &sender, &error), &error);

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pr_message *m = &cases[i].message;
        pr_id id = { { 7 } };
        CHECK_EQ(pr_send_sqlite(db, m, &id, &error), cases[i].code);
        CHECK(strstr(error.text, cases[i].word) != NULL);
        CHECK_EQ(id.bytes[0], 7); /* untouched */
        CHECK_EQ(pr_unit_add(unit, NULL, m, NULL, &error), cases[i].code);
        CHECK_EQ(pr_sender_send(sender, NULL, m, NULL, &error), cases[i].code);
        CHECK_EQ(pr_sender_send_many(sender, NULL, m, 1, NULL, NULL, &error), cases[i].code);
    }
    CHECK_EQ(pr_unit_count(unit), 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);
    pr_unit_free(unit);
    pr_sender_close(sender);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(wrong_boxes_are_refused)
{
    struct place p;
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("t") };
    place_init(&p);
    sqlite3 *db = place_open(&p);

    CHECK_EQ(pr_send_sqlite_box(db, "out box; DROP TABLE outbox", &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_sqlite_box(db, "nowhere", &m, NULL, &error), PR_ESCHEMA);
    CHECK_EQ(pr_send_sqlite_box(db, "postrider_dead_letter", &m, NULL, &error), PR_ESCHEMA); /* a table, but no box */
    CHECK_EQ(pr_send_sqlite_box(db, "postrider_messages", &m, NULL, &error), PR_ESCHEMA);
    CHECK_EQ(pr_send_sqlite(NULL, &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_sqlite(db, NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_send_sqlite(db, NULL, NULL, NULL), PR_EINVAL); /* a caller who does not care */
    sqlite3_close(db);
    place_fini(&p);
}

TEST(database_without_tables_is_told_what_to_do)
{
    struct place p;
    struct pr_error error;
    struct pr_sender *sender;
    struct pr_message m = { .type = PR_STR("t") };
    place_init_empty(&p);
    sqlite3 *db = place_open(&p);

    CHECK_EQ(pr_send_sqlite(db, &m, NULL, &error), PR_ESCHEMA);
    CHECK(strstr(error.text, "init") != NULL);
    CHECK_EQ(pr_sender_open(p.url, &sender, &error), PR_ESCHEMA);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(store_init_can_run_twice_and_names_a_wrong_url)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    CHECK_OK(pr_store_init(p.url, &error), &error);
    CHECK(pr_store_init("nosuchstore:x", &error) < 0);
    CHECK(strstr(error.text, "nosuchstore") != NULL);
    CHECK(pr_store_init("sqlite:/no/such/directory/x.db", &error) < 0);
    CHECK_EQ(pr_store_init(NULL, &error), PR_EINVAL);
    place_fini(&p);
}

/* ---- A unit --------------------------------------------------------------------------------- */

TEST(unit_stores_all_at_commit)
{
    struct place p;
    struct pr_error error;
    pr_id id;
    char payload[] = "first";
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_unit *unit = pr_unit_new();
    struct pr_message m = { .type = PR_STR("a"), .payload = pr_str(payload) };

    CHECK_OK(pr_unit_add(unit, NULL, &m, &id, &error), &error);
    CHECK(!pr_id_is_zero(id));
    memcpy(payload, "spoilt", 6); /* it was copied */
    m.payload = PR_STR("second");
    CHECK_OK(pr_unit_add(unit, "inbox", &m, NULL, &error), &error);
    CHECK_EQ(pr_unit_count(unit), 2);
    run(db, "BEGIN");
    CHECK_OK(pr_unit_store_sqlite(unit, db, &error), &error);
    CHECK_EQ(pr_unit_count(unit), 0);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0); /* not yet */
    run(db, "COMMIT");

    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox WHERE CAST(payload AS TEXT) = 'first'"), 1);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM inbox WHERE CAST(payload AS TEXT) = 'second'"), 1);
    pr_unit_free(unit);
    sqlite3_close(db);
    place_fini(&p);
}

TEST(unit_keeps_its_messages_when_storing_fails)
{
    struct place p;
    struct pr_error error;
    place_init(&p);
    sqlite3 *db = place_open(&p);
    struct pr_unit *unit = pr_unit_new();
    struct pr_message m = { .type = PR_STR("a") };

    CHECK_OK(pr_unit_add(unit, NULL, &m, NULL, &error), &error);
    CHECK_EQ(pr_unit_store_sqlite(unit, db, &error), PR_EINVAL); /* no transaction */
    CHECK(strstr(error.text, "BEGIN") != NULL);
    CHECK_OK(pr_unit_add(unit, "nowhere", &m, NULL, &error), &error);
    run(db, "BEGIN");
    CHECK_EQ(pr_unit_store_sqlite(unit, db, &error), PR_ESCHEMA);
    run(db, "ROLLBACK");
    CHECK_EQ(pr_unit_count(unit), 2);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);

    CHECK_EQ(pr_unit_add(NULL, NULL, &m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_unit_store_sqlite(unit, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_unit_count(NULL), 0);
    pr_unit_free(unit);
    pr_unit_free(NULL);
    sqlite3_close(db);
    place_fini(&p);
}

/* ---- A sender --------------------------------------------------------------------------------- */

#define THREADS 8
#define EACH 50

static void *send_many(void *arg)
{
    struct pr_sender *sender = arg;
    intptr_t stored = 0;
    for (int i = 0; i < EACH; i++) {
        struct pr_error error;
        struct pr_message m = { .type = PR_STR("t"), .payload = PR_STR("x") };
        stored += pr_sender_send(sender, NULL, &m, NULL, &error) == PR_OK;
    }
    return (void *)stored;
}

TEST(sender_takes_messages_from_eight_threads)
{
    struct place p;
    struct pr_error error;
    struct pr_sender *sender;
    pthread_t threads[THREADS];
    intptr_t stored = 0;
    place_init(&p);
    CHECK_OK(pr_sender_open(p.url, &sender, &error), &error);

    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, send_many, sender), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK_EQ(pthread_join(threads[i], &result), 0);
        stored += (intptr_t)result;
    }

    CHECK_EQ(stored, THREADS * EACH);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), THREADS * EACH);
    CHECK_EQ(place_int(&p, "SELECT count(DISTINCT id) FROM outbox"), THREADS * EACH);
    pr_sender_close(sender);
    place_fini(&p);
}

TEST(sender_sends_many_all_or_none)
{
    struct place p;
    struct pr_error error;
    struct pr_sender *sender;
    struct pr_message m[3] = { { .type = PR_STR("a") }, { .type = PR_STR("b") }, { .type = PR_STR("c") } };
    pr_id ids[3];
    size_t stored;
    place_init(&p);
    CHECK_OK(pr_sender_open(p.url, &sender, &error), &error);

    m[1].type = (pr_slice){ 0 };
    CHECK_EQ(pr_sender_send_many(sender, NULL, m, 3, ids, &stored, &error), PR_EINVAL);
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 0);

    m[1].type = PR_STR("b");
    pr_id_new(&m[2].id);
    CHECK_OK(pr_sender_send(sender, NULL, &m[2], NULL, &error), &error);
    CHECK_EQ(pr_sender_send(sender, NULL, &m[2], NULL, &error), PR_DUPLICATE);
    CHECK_OK(pr_sender_send_many(sender, NULL, m, 3, ids, &stored, &error), &error);
    CHECK_EQ(stored, 2);
    CHECK(pr_id_equal(ids[2], m[2].id));
    CHECK(!pr_id_is_zero(ids[0]) && !pr_id_equal(ids[0], ids[1]));
    CHECK_EQ(place_int(&p, "SELECT count(*) FROM outbox"), 3);

    CHECK_OK(pr_sender_send_many(sender, NULL, NULL, 0, NULL, &stored, &error), &error);
    CHECK_EQ(pr_sender_send_many(sender, NULL, NULL, 1, NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_sender_send(NULL, NULL, m, NULL, &error), PR_EINVAL);
    CHECK_EQ(pr_sender_send(sender, "no such box", m, NULL, &error), PR_EINVAL);
    CHECK(pr_sender_open("nosuchstore:x", &sender, &error) < 0);
    CHECK_EQ(pr_sender_open(NULL, &sender, &error), PR_EINVAL);
    pr_sender_close(sender);
    pr_sender_close(NULL);
    place_fini(&p);
}
