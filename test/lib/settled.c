/* Handlers that complete their message in their own transaction: their writes are made exactly once. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stand.h"

#define CONFIG                                                                                                         \
    "poll: {min: 1ms, max: 20ms}\n"                                                                                    \
    "endpoints: {book: {url: \"handler:book\", retry: [10ms, 10ms, 10ms], concurrency: 4}}\n"                          \
    "routes: [{box: inbox, to: book}]\n"

/* What a handler does with its transaction, by the type of the message. */
struct bookkeeper {
    struct stand *stand;
    atomic_int calls, stale, busy;
    atomic_bool open; /* a transaction is open and waits for the flag below */
    atomic_bool go_on;
    const char *change; /* that somebody else makes first */
};

/* One line in the book for each call that commits. */
static void tx_write(struct tx *tx, const struct pr_message *m)
{
    char id[PR_ID_TEXT_SIZE], sql[256];
    pr_id_format(m->id, id);
    snprintf(sql, sizeof sql, "INSERT INTO book (id, payload) VALUES ('%s', '%.*s')", id, (int)m->payload.size,
             m->payload.data);
    CHECK_EQ(tx_do(tx, sql), PR_OK);
}

static bool is_type(const struct pr_message *m, const char *type)
{
    return m->type.size == strlen(type) && memcmp(m->type.data, type, m->type.size) == 0;
}

static void wait_for_flag(atomic_bool *flag)
{
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    while (!*flag && test_now_us() < deadline_us)
        test_pause();
}

static int keep_book(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct bookkeeper *k = user;
    struct pr_error error = { 0 };
    int call = ++k->calls;
    struct tx tx = tx_begin(k->stand);
    tx_write(&tx, m);
    if (is_type(m, "sends"))
        CHECK_EQ(pr_effect_send(context, &(struct pr_message){ .type = PR_STR("sent"), .payload = m->payload }), PR_OK);
    int rc = is_type(m, "forgets") && call == 1 ? PR_OK : tx_complete(&tx, context, &error);
    if (rc != PR_OK) {
        k->stale += rc == PR_STALE;
        k->busy += rc == PR_EBUSY;
        (void)tx_do(&tx, "ROLLBACK");
        tx_close(&tx);
        return rc;
    }
    if (is_type(m, "waits")) {
        k->open = true;
        wait_for_flag(&k->go_on);
    }
    bool lost = (is_type(m, "rolls.back") || is_type(m, "uncertain.not") || is_type(m, "forgets")) && call == 1;
    CHECK_EQ(tx_do(&tx, lost ? "ROLLBACK" : "COMMIT"), PR_OK);
    tx_close(&tx);
    if (is_type(m, "says.ok"))
        return PR_OK;
    return is_type(m, "uncertain") || is_type(m, "uncertain.not") ? PR_EUNCERTAIN : PR_SETTLED;
}

static struct pr_engine *begin(struct stand *s, struct bookkeeper *k, const char *more)
{
    memset(k, 0, sizeof *k);
    stand_init(s);
    k->stand = s;
    stand_do(s, "CREATE TABLE book (id text NOT NULL, payload text)");
    char config[2048];
    snprintf(config, sizeof config, CONFIG "%s", more);
    struct pr_engine *engine = stand_engine(s, config);
    CHECK_EQ(pr_engine_handle_named(engine, "book", keep_book, k), PR_OK);
    return engine;
}

static void end(struct stand *s, struct pr_engine *engine)
{
    pr_engine_free(engine);
    stand_fini(s);
}

/* With the id, when one is needed. */
static void is_done_once(struct stand *s, int count)
{
    CHECK_EQ(stand_int(s, "SELECT count(*) FROM inbox"), 0);
    CHECK_EQ(stand_int(s, "SELECT count(*) FROM book"), count);
    CHECK_EQ(stand_int(s, "SELECT count(DISTINCT id) FROM book"), count);
    CHECK_EQ(stand_int(s, "SELECT count(*) FROM {dead}"), 0);
}

TEST(what_a_handler_writes_is_committed_with_the_end_of_its_message) /* B93 */
{
    struct stand s;
    struct bookkeeper k;
    struct pr_engine_counts counts;
    struct pr_engine *engine = begin(&s, &k, "");
    stand_send(&s, "inbox", "plain", "s1", 20);
    stand_send(&s, "inbox", "plain", NULL, 20);
    stand_send(&s, "inbox", "says.ok", NULL, 5); /* and did not mean that somebody else should complete it */
    stand_start(engine);
    stand_drain(engine);
    is_done_once(&s, 45);
    CHECK_EQ(k.calls, 45);
    pr_engine_counts(engine, &counts);
    CHECK_EQ(counts.sent, 45);
    CHECK_EQ(counts.failed + counts.stale, 0);
    end(&s, engine);
}

TEST(messages_of_a_handler_are_stored_in_its_own_transaction) /* B93 */
{
    struct stand s;
    struct bookkeeper k;
    struct pr_engine *engine = begin(&s, &k, "");
    stand_send(&s, "inbox", "sends", "s1", 3);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE type = 'sent'", 3);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    is_done_once(&s, 3);
    end(&s, engine);
}

TEST(settled_without_a_commit_is_a_failure_and_the_message_comes_again) /* B35 */
{
    static const char *const types[] = { "rolls.back", "forgets" };
    for (size_t i = 0; i < 2; i++) {
        struct stand s;
        struct bookkeeper k;
        struct pr_engine_counts counts;
        struct pr_engine *engine = begin(&s, &k, "");
        stand_send(&s, "inbox", types[i], "s1", 1);
        stand_send(&s, "inbox", "plain", "s1", 1); /* waits behind it, and is freed by its end */
        stand_start(engine);
        stand_wait(&s, "SELECT count(*) FROM inbox", 0);
        stand_drain(engine);
        is_done_once(&s, 2);
        CHECK_EQ(k.calls, 3);
        pr_engine_counts(engine, &counts);
        CHECK_EQ(counts.failed, 1);
        end(&s, engine);
    }
}

TEST(a_commit_without_an_answer_is_asked_for_and_never_a_failure)
{
    struct stand s;
    struct bookkeeper k;
    struct pr_engine_counts counts;
    struct pr_engine *engine = begin(&s, &k, "");
    stand_send(&s, "inbox", "uncertain.not", "s1", 1); /* the first time it did not happen */
    stand_send(&s, "inbox", "uncertain", "s1", 1);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    stand_drain(engine);
    is_done_once(&s, 2);
    CHECK_EQ(k.calls, 3);
    pr_engine_counts(engine, &counts);
    CHECK_EQ(counts.failed, 0);
    CHECK_EQ(counts.sent, 2);
    end(&s, engine);
}

/* Somebody else changes its row while its handler is about to commit, the first time. */
static int be_late(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct bookkeeper *k = user;
    struct pr_error error;
    if (++k->calls == 1) {
        struct tx other = tx_begin(k->stand);
        CHECK_EQ(tx_do(&other, k->change), PR_OK);
        CHECK_EQ(tx_do(&other, "COMMIT"), PR_OK);
        tx_close(&other);
    }
    struct tx tx = tx_begin(k->stand);
    tx_write(&tx, m);
    int rc = tx_complete(&tx, context, &error);
    k->stale += rc == PR_STALE;
    CHECK_EQ(tx_do(&tx, rc == PR_OK ? "COMMIT" : "ROLLBACK"), PR_OK);
    tx_close(&tx);
    return rc == PR_OK ? PR_SETTLED : rc;
}

TEST(a_message_that_somebody_judged_meanwhile_cannot_be_completed) /* B8 */
{
    struct stand s;
    struct bookkeeper k = { .stand = &s };
    stand_init(&s);
    k.change = s.pg != NULL
                   ? "UPDATE inbox SET attempts = attempts + 1, due_at = now()" /* as who buries an instance does */
                   : "UPDATE inbox SET attempts = attempts + 1, due_at = 1700000000000000";
    stand_do(&s, "CREATE TABLE book (id text NOT NULL, payload text)");
    struct pr_engine *engine = stand_engine(&s, CONFIG "lease: 1s\n");
    CHECK_EQ(pr_engine_handle_named(engine, "book", be_late, &k), PR_OK);
    stand_send(&s, "inbox", "plain", "s1", 1);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0); /* it is read again as it is now */
    stand_drain(engine);
    is_done_once(&s, 1);
    CHECK_EQ(k.stale, 1);
    CHECK_EQ(k.calls, 2);
    end(&s, engine);
}

TEST(a_message_that_is_gone_is_stale_and_not_delivered) /* B8 */
{
    struct stand s;
    struct bookkeeper k = { .stand = &s, .change = "DELETE FROM inbox" };
    struct pr_engine_counts counts;
    stand_init(&s);
    stand_do(&s, "CREATE TABLE book (id text NOT NULL, payload text)");
    struct pr_engine *engine = stand_engine(&s, CONFIG);
    CHECK_EQ(pr_engine_handle_named(engine, "book", be_late, &k), PR_OK);
    stand_send(&s, "inbox", "plain", "s1", 1);
    stand_start(engine);
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    do {
        pr_engine_counts(engine, &counts);
        test_pause();
    } while (counts.stale == 0 && test_now_us() < deadline_us);
    stand_drain(engine);
    CHECK_EQ(k.stale, 1);
    CHECK_EQ(k.calls, 1);
    CHECK_EQ(counts.sent, 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM book"), 0);
    end(&s, engine);
}

/* ---- Locks ------------------------------------------------------------------------------------ */

/* Nobody waits for the row: the others go on while its transaction is open. */
TEST(nobody_waits_for_a_row_in_a_handlers_transaction)
{
    struct stand s;
    struct bookkeeper k;
    stand_init(&s);
    bool postgres = s.pg != NULL;
    stand_fini(&s);
    if (!postgres)
        SKIP("SQLite has one writer");
    struct pr_engine *engine = begin(&s, &k, "");
    stand_send(&s, "inbox", "waits", "s1", 1);
    stand_start(engine);
    wait_for_flag(&k.open);
    CHECK(k.open);
    stand_send(&s, "inbox", "plain", "s2", 50);
    stand_wait(&s, "SELECT count(*) FROM inbox WHERE type = 'plain'", 0); /* cycles go on */
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM inbox WHERE type = 'waits'"), 1);
    k.go_on = true;
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    stand_drain(engine);
    is_done_once(&s, 51);
    end(&s, engine);
}

/* The same when the instance is taken for dead meanwhile: who buries it does not wait, and does not count the message. */
TEST(burying_does_not_wait_for_a_handlers_transaction) /* B23 */
{
    struct stand s;
    struct bookkeeper k, other;
    stand_init(&s);
    bool postgres = s.pg != NULL;
    stand_fini(&s);
    if (!postgres)
        SKIP("SQLite has one writer");
    struct pr_engine *engine = begin(&s, &k, "lease: 10s\n");
    stand_send(&s, "inbox", "waits", "s1", 1);
    stand_start(engine);
    wait_for_flag(&k.open);
    CHECK(k.open);
    stand_do(&s, "UPDATE instance SET lease_end = '-infinity'"); /* as if it had slept */
    other = (struct bookkeeper){ .stand = &s };
    struct pr_engine *heir = stand_engine(&s, CONFIG "lease: 10s\n");
    CHECK_EQ(pr_engine_handle_named(heir, "book", keep_book, &other), PR_OK);
    stand_start(heir);
    stand_send(&s, "inbox", "plain", "s2", 20);
    stand_wait(&s, "SELECT count(*) FROM inbox WHERE type = 'plain'", 0);
    k.go_on = true;
    other.go_on = true;
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    is_done_once(&s, 21); /* whoever came second found the row gone */
    pr_engine_free(heir);
    end(&s, engine);
}

/* ---- SQLite's one writer -------------------------------------------------------------------------- */

/* Its lease of 300 ms is over three times while its handler's transaction is open; a second one stands by. */
TEST(a_long_transaction_does_not_cost_the_lease)
{
    struct stand s;
    struct bookkeeper k;
    stand_init(&s);
    bool postgres = s.pg != NULL;
    stand_fini(&s);
    if (postgres)
        SKIP("on PostgreSQL nobody waits for it");
    struct pr_engine *engine = begin(&s, &k, "lease: 300ms\n");
    stand_start(engine);
    struct bookkeeper other = { .stand = &s };
    struct pr_engine *standby = stand_engine(&s, CONFIG "lease: 300ms\n");
    CHECK_EQ(pr_engine_handle_named(standby, "book", keep_book, &other), PR_OK);
    stand_send(&s, "inbox", "plain", NULL, 1);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    stand_start(standby);
    stand_wait(&s, "SELECT count(*) FROM postrider_instance WHERE box = 'inbox'", 2);
    stand_send(&s, "inbox", "waits", "s1", 1);
    wait_for_flag(&k.open);
    CHECK(k.open);
    int64_t until_us = test_now_us() + PR_SECONDS(1);
    while (test_now_us() < until_us)
        test_pause();
    k.go_on = true;
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    stand_send(&s, "inbox", "plain", NULL, 5);
    stand_wait(&s, "SELECT count(*) FROM inbox", 0);
    is_done_once(&s, 7);
    CHECK_EQ(other.calls, 0); /* the first one works it still */
    pr_engine_free(standby);
    end(&s, engine);
}

TEST(a_completion_needs_an_open_transaction)
{
    struct stand s;
    stand_init(&s);
    struct pr_worker *w;
    struct pr_error error;
    struct pr_claimed claimed;
    size_t count = 0;
    stand_send(&s, "inbox", "t", NULL, 1);
    CHECK_OK(pr_worker_open(&(struct pr_worker_options){ .store_url = s.url, .box = "inbox" }, &w, &error), &error);
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    while (count == 0 && test_now_us() < deadline_us) {
        CHECK_OK(pr_worker_cycle(w, NULL, 0, NULL, &claimed, 1, &count, &error), &error);
        if (count == 0)
            pr_worker_wait(w, PR_MILLISECONDS(20));
    }
    CHECK_EQ(count, 1);
    struct pr_verdict v = { .claim = claimed.claim, .kind = PR_VERDICT_COMPLETE };
    int rc;
    if (s.pg != NULL) {
        rc = pr_worker_complete_pg(w, &v, s.pg, &error);
    } else {
        sqlite3 *db = stand_sqlite(&s);
        rc = pr_worker_complete_sqlite(w, &v, db, &error);
        sqlite3_close(db);
    }
    CHECK_EQ(rc, PR_EINVAL);
    CHECK(strstr(error.text, "no transaction is open") != NULL);
    pr_worker_close(w);
    stand_fini(&s);
}

/* ---- Workers --------------------------------------------------------------------------------------- */

static size_t claim_some(struct pr_worker *w, const struct pr_verdict *verdicts, size_t verdict_count, int *answers,
                         struct pr_claimed *ret, size_t max)
{
    struct pr_error error;
    size_t count = 0;
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    do {
        CHECK_OK(pr_worker_cycle(w, verdicts, verdict_count, answers, ret, max, &count, &error), &error);
        verdict_count = 0;
        answers = NULL;
        if (count == 0)
            pr_worker_wait(w, PR_MILLISECONDS(20));
    } while (count == 0 && max > 0 && test_now_us() < deadline_us);
    return count;
}

TEST(a_worker_completes_in_its_own_transaction) /* B93 */
{
    struct stand s;
    struct pr_error error;
    struct pr_worker *w;
    struct pr_claimed claimed[2];
    int answer = -1;
    stand_init(&s);
    stand_do(&s, "CREATE TABLE book (id text NOT NULL, payload text)");
    struct bookkeeper k = { .stand = &s };
    stand_send(&s, "inbox", "t", "s1", 2);
    CHECK_OK(pr_worker_open(&(struct pr_worker_options){ .store_url = s.url, .box = "inbox" }, &w, &error), &error);
    CHECK_EQ(claim_some(w, NULL, 0, NULL, claimed, 1), 1);
    const struct pr_message sent = { .type = PR_STR("sent") };
    for (int i = 0; i < 2; i++) {
        struct pr_verdict v = {
            .claim = claimed[0].claim, .kind = PR_VERDICT_COMPLETE, .effects = &sent, .effect_count = 1
        };
        struct tx tx = tx_begin(k.stand);
        tx_write(&tx, claimed[0].message);
        CHECK_OK(tx.pg != NULL ? pr_worker_complete_pg(w, &v, tx.pg, &error)
                               : pr_worker_complete_sqlite(w, &v, tx.db, &error),
                 &error);
        CHECK_EQ(tx_do(&tx, i == 0 ? "ROLLBACK" : "COMMIT"), PR_OK);
        tx_close(&tx);
        v = (struct pr_verdict){ .claim = claimed[0].claim, .kind = PR_VERDICT_SETTLED };
        if (i == 0) { /* it was not so: a failure, and the message comes again, before the next one of its stream */
            char first[PR_ID_TEXT_SIZE], again[PR_ID_TEXT_SIZE];
            pr_id_format(claimed[0].message->id, first);
            CHECK_EQ(claim_some(w, &v, 1, &answer, claimed, 0), 0);
            CHECK_EQ(answer, PR_FAILED);
            CHECK_EQ(claim_some(w, NULL, 0, NULL, claimed, 1), 1);
            CHECK_EQ(claimed[0].attempt, 2);
            pr_id_format(claimed[0].message->id, again);
            CHECK_STR(again, first);
        } else {
            CHECK_EQ(claim_some(w, &v, 1, &answer, claimed, 1), 1);
            CHECK_EQ(answer, PR_OK);
            CHECK_EQ(claimed[0].attempt, 1); /* the next one of the stream */
        }
    }
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM inbox"), 1);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM book"), 1);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox"), 1);
    pr_worker_close(w);
    stand_fini(&s);
}

static void work_off(struct stand *s, struct pr_worker *w, bool in_transaction, int count)
{
    struct bookkeeper k = { .stand = s };
    struct pr_error error;
    for (int i = 0; i < count; i++) {
        struct pr_claimed claimed;
        int answer = -1;
        CHECK_EQ(claim_some(w, NULL, 0, NULL, &claimed, 1), 1);
        struct pr_verdict v = { .claim = claimed.claim, .kind = PR_VERDICT_COMPLETE };
        if (in_transaction) {
            struct tx tx = tx_begin(k.stand);
            CHECK_OK(tx.pg != NULL ? pr_worker_complete_pg(w, &v, tx.pg, &error)
                                   : pr_worker_complete_sqlite(w, &v, tx.db, &error),
                     &error);
            CHECK_EQ(tx_do(&tx, "COMMIT"), PR_OK);
            tx_close(&tx);
            v.kind = PR_VERDICT_SETTLED;
        }
        CHECK_EQ(claim_some(w, &v, 1, &answer, &claimed, 0), 0);
        CHECK_EQ(answer, PR_OK);
    }
}

static void send_to(struct stand *s, pr_id id, const char *destination, int wanted)
{
    struct pr_sender *sender;
    struct pr_error error;
    const struct pr_message m = { .id = id, .type = PR_STR("t"), .destination = pr_str(destination) };
    CHECK_OK(pr_sender_open(s->url, &sender, &error), &error);
    CHECK_EQ(pr_sender_send(sender, "inbox", &m, NULL, &error), wanted);
    pr_sender_close(sender);
}

/* It takes the whole box: a message for two recipients comes to it twice, and both are its own to handle. */
TEST(a_worker_handles_a_message_once_for_each_of_its_destinations) /* B92 */
{
    for (int in_transaction = 0; in_transaction < 2; in_transaction++) {
        struct stand s;
        struct pr_worker *w;
        struct pr_error error;
        pr_id id;
        stand_init(&s);
        pr_id_new(&id);
        send_to(&s, id, "a", PR_OK);
        send_to(&s, id, "b", PR_OK);
        const struct pr_worker_options options = {
            .store_url = s.url,
            .box = "inbox",
            .config = "boxes: {inbox: {kind: inbox, dedupe: 1h}}\nendpoints: {a: {url: \"null:\"}}\n",
            .endpoint = "a",
        };
        CHECK_OK(pr_worker_open(&options, &w, &error), &error);
        work_off(&s, w, in_transaction != 0, 2);
        send_to(&s, id, "a", PR_DUPLICATE);
        send_to(&s, id, "b", PR_DUPLICATE);
        CHECK_EQ(stand_int(&s, "SELECT count(*) FROM inbox"), 0);
        pr_worker_close(w);
        stand_fini(&s);
    }
}

/* Its box has a daemon, whose configuration says how long marks are kept. */
TEST(a_worker_without_a_configuration_keeps_to_the_time_of_its_box) /* B90 */
{
    for (int in_transaction = 0; in_transaction < 2; in_transaction++) {
        struct stand s;
        struct pr_worker *w;
        struct pr_error error;
        pr_id id;
        struct pr_worker_options options = {
            .store_url = s.url,
            .box = "inbox",
            .config = "boxes: {inbox: {kind: inbox, dedupe: 1h}}\nendpoints: {a: {url: \"null:\"}}\n",
            .endpoint = "a",
        };
        stand_init(&s);
        pr_id_new(&id);
        CHECK_OK(pr_worker_open(&options, &w, &error), &error);
        send_to(&s, id, "a", PR_OK);
        work_off(&s, w, false, 1); /* by now the box has its time */
        pr_worker_close(w);
        options.config = options.endpoint = NULL;
        CHECK_OK(pr_worker_open(&options, &w, &error), &error);
        send_to(&s, id, "b", PR_OK);
        work_off(&s, w, in_transaction != 0, 1);
        send_to(&s, id, "a", PR_DUPLICATE);
        send_to(&s, id, "b", PR_DUPLICATE);
        pr_worker_close(w);
        stand_fini(&s);
    }
}

/* Zeros are no id: whoever has them has them in common with others. */
TEST(messages_with_an_id_of_zeros_are_not_taken_for_one_message) /* B90 */
{
    static const char insert[] = "INSERT INTO inbox (id, type, payload) VALUES (%s, 't', 'x')";
    struct stand s;
    struct pr_worker *w;
    struct pr_error error;
    struct pr_claimed claimed;
    char sql[256];
    int answer = -1;
    stand_init(&s);
    snprintf(sql, sizeof sql, insert, s.pg != NULL ? "'00000000-0000-0000-0000-000000000000'" : "zeroblob(16)");
    const struct pr_worker_options options = {
        .store_url = s.url,
        .box = "inbox",
        .config = "boxes: {inbox: {kind: inbox, dedupe: 1h}}\nendpoints: {a: {url: \"null:\"}}\n",
        .endpoint = "a",
    };
    CHECK_OK(pr_worker_open(&options, &w, &error), &error);
    stand_do(&s, sql);
    CHECK_EQ(claim_some(w, NULL, 0, NULL, &claimed, 1), 1);
    const struct pr_verdict dies = { .claim = claimed.claim, .kind = PR_VERDICT_DEAD_LETTER };
    CHECK_EQ(claim_some(w, &dies, 1, &answer, &claimed, 0), 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead}"), 1);
    stand_do(&s, sql);
    work_off(&s, w, false, 1);
    pr_worker_close(w);
    stand_fini(&s);
}

/* The same columns as where the engine completes it. */
TEST(what_is_kept_is_kept_as_the_engine_keeps_it)
{
    struct stand s;
    struct bookkeeper k;
    struct pr_engine *engine = begin(&s, &k, "boxes: {inbox: {kind: inbox, keep: 1h}}\n");
    struct pr_sender *sender;
    struct pr_error error;
    struct pr_message m = { .stream = PR_STR("s"),
                            .source = PR_STR("/a"),
                            .subject = PR_STR("b"),
                            .content_type = PR_STR("text/plain"),
                            .headers = PR_STR("{\"z\": 1, \"a\":2}"),
                            .payload = PR_STR("p"),
                            .correlation_id = PR_STR("c"),
                            .causation_id = PR_STR("d"),
                            .traceparent = PR_STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                            .tracestate = PR_STR("x=y") };
    CHECK_OK(pr_sender_open(s.url, &sender, &error), &error);
    m.type = PR_STR("plain"); /* by its handler's transaction */
    CHECK_OK(pr_sender_send(sender, "inbox", &m, NULL, &error), &error);
    m.type = PR_STR("null"); /* by the engine */
    m.destination = PR_STR("nowhere");
    CHECK_OK(pr_sender_send(sender, "inbox", &m, NULL, &error), &error);
    pr_sender_close(sender);
    pr_engine_free(engine);
    engine = stand_engine(&s, "boxes: {inbox: {kind: inbox, keep: 1h}}\n"
                              "endpoints: {book: {url: \"handler:book\"}, nowhere: {url: \"null:\"}}\n"
                              "routes: [{box: inbox, to: book}]\n");
    CHECK_EQ(pr_engine_handle_named(engine, "book", keep_book, &k), PR_OK);
    stand_start(engine);
    stand_drain(engine);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM inbox"), 0);
    const char *different =
        s.pg != NULL
            ? "SELECT string_agg(a.key, ',') FROM done x, done y, jsonb_each(to_jsonb(x)) a, jsonb_each("
              "to_jsonb(y)) b WHERE x.type = 'plain' AND y.type = 'null' AND a.key = b.key AND a.value <> b.value"
              " AND a.key NOT IN ('type', 'id', 'seq', 'xid', 'created_at', 'done_at', 'keep_until', 'destination',"
              " 'endpoint', 'lane', 'row_id', 'number')"
            : "SELECT CASE WHEN (SELECT count(*) FROM postrider_done) = 2 THEN '' ELSE 'missing' END";
    CHECK_STR(stand_text(&s, different), "");
    CHECK_STR(
        stand_text(
            &s, s.pg != NULL
                    ? "SELECT endpoint || ' ' || attempts || ' ' || status FROM done WHERE type = 'plain'"
                    : "SELECT endpoint || ' ' || attempts || ' ' || status FROM postrider_done WHERE type = 'plain'"),
        "book 1 5");
    end(&s, engine);
}

/* ---- Databases that are busy ---------------------------------------------------------------------- */

/* Complete it on a connection that cannot do it now; the first time. */
static int be_unlucky(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct bookkeeper *k = user;
    struct pr_error error = { 0 };
    bool first = ++k->calls == 1;
    struct tx tx = { 0 }, other = { 0 };
    if (k->stand->pg == NULL) {
        tx.db = stand_sqlite(k->stand);
        CHECK_EQ(tx_do(&tx, "BEGIN"), PR_OK);
        sqlite3_busy_timeout(tx.db, 0);
        if (first)
            other = tx_begin(k->stand); /* has the write lock */
        else
            sqlite3_busy_timeout(tx.db, 20000);
    } else {
        tx.pg = stand_pg(k->stand);
        CHECK_EQ(tx_do(&tx, "BEGIN ISOLATION LEVEL REPEATABLE READ"), PR_OK);
        CHECK_EQ(tx_do(&tx, "SELECT count(*) FROM inbox"), PR_OK);
        if (first) {
            char sql[128];
            snprintf(sql, sizeof sql, k->change, PQbackendPID(tx.pg));
            other = tx_begin(k->stand);
            CHECK_EQ(tx_do(&other, sql), PR_OK);
            CHECK_EQ(tx_do(&other, "COMMIT"), PR_OK);
        }
    }
    if (!first)
        tx_write(&tx, m);
    int rc = tx_complete(&tx, context, &error);
    k->busy += rc == PR_EBUSY;
    if (rc == PR_OK)
        rc = tx_do(&tx, "COMMIT") == PR_OK ? PR_SETTLED : PR_EUNCERTAIN;
    tx_close(&tx);
    if (first)
        tx_close(&other);
    return rc;
}

/* A lock, a conflict of transactions, a lost connection: it comes again, and nothing is counted. */
TEST(a_database_that_is_busy_is_not_the_messages_fault)
{
    static const char *const changes[] = { "UPDATE inbox SET status = status /* %d */",
                                           "SELECT pg_terminate_backend(%d)" };
    for (size_t i = 0; i < 2; i++) {
        struct stand s;
        struct bookkeeper k = { .stand = &s, .change = changes[i] };
        struct pr_engine_counts counts;
        stand_init(&s);
        stand_do(&s, "CREATE TABLE book (id text NOT NULL, payload text)");
        struct pr_engine *engine = stand_engine(&s, CONFIG);
        CHECK_EQ(pr_engine_handle_named(engine, "book", be_unlucky, &k), PR_OK);
        stand_send(&s, "inbox", "plain", "s1", 1);
        stand_start(engine);
        stand_wait(&s, "SELECT count(*) FROM inbox", 0);
        stand_drain(engine);
        is_done_once(&s, 1);
        CHECK_EQ(k.calls, 2);
        CHECK_EQ(k.busy, 1);
        pr_engine_counts(engine, &counts);
        CHECK_EQ(counts.failed, 0);
        CHECK_EQ(counts.sent, 1);
        end(&s, engine);
    }
}

/* In a box with dedupe what is completed so is handled: the same message again is a duplicate. */
TEST(a_message_that_its_handler_completed_is_not_handled_twice) /* B90 */
{
    struct stand s;
    struct bookkeeper k;
    struct pr_engine *engine = begin(&s, &k, "boxes: {inbox: {kind: inbox, dedupe: 1h}}\n");
    struct pr_sender *sender;
    struct pr_error error;
    struct pr_message m = { .type = PR_STR("plain"), .stream = PR_STR("s1"), .payload = PR_STR("1") };
    pr_id_new(&m.id);
    stand_start(engine);
    CHECK_OK(pr_sender_open(s.url, &sender, &error), &error);
    CHECK_OK(pr_sender_send(sender, "inbox", &m, NULL, &error), &error);
    stand_wait(&s, "SELECT count(*) FROM book", 1);
    stand_drain(engine);
    CHECK_EQ(stand_int(&s, s.pg != NULL ? "SELECT count(*) FROM seen WHERE handler = 'book'"
                                        : "SELECT count(*) FROM postrider_seen WHERE handler = 'book'"),
             1);
    CHECK_EQ(pr_sender_send(sender, "inbox", &m, NULL, &error), PR_DUPLICATE);
    pr_sender_close(sender);
    stand_drain(engine);
    is_done_once(&s, 1);
    CHECK_EQ(k.calls, 1);
    end(&s, engine);
}
