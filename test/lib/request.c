/* Requests and replies: on SQLite, and with two engines on PostgreSQL. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stand.h"

struct replier {
    atomic_int calls;
    atomic_bool ready; /* until then it fails */
    int twice;         /* it replies twice, and fails once behind its reply */
};

static int reply(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct replier *r = user;
    struct pr_error error;
    char text[64];
    int call = ++r->calls;
    if (!r->ready)
        return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "not yet");
    snprintf(text, sizeof(text), "%.*s and you", (int)m->payload.size, m->payload.data);
    const struct pr_message answer = { .type = PR_STR("answer"), .payload = pr_str(text) };
    int rc = pr_reply(context, &answer, &error);
    if (rc == PR_OK && r->twice != 0)
        rc = pr_reply(context, &answer, &error);
    if (rc != PR_OK)
        return pr_fail(context, PR_REASON_HANDLER_EXCEPTION, "%s", error.text);
    return r->twice != 0 && call == 1 ? pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "again") : PR_OK;
}

static struct pr_sender *sender_of(struct stand *s)
{
    struct pr_sender *sender;
    struct pr_error error;
    CHECK_OK(pr_sender_open(s->url, &sender, &error), &error);
    return sender;
}

static struct pr_engine *engine_of(struct stand *s, struct replier *r)
{
    struct pr_engine *engine =
        stand_engine(s, "endpoints:\n  asks: {url: \"handler:ask\", retry: [20ms, 20ms, 20ms, 20ms, 20ms, "
                        "20ms, 20ms, 20ms, 20ms, 20ms]}\nroutes: [{type: ask, to: asks}]\n");
    CHECK_EQ(pr_engine_handle_named(engine, "ask", reply, r), PR_OK);
    return engine;
}

static const struct pr_message question = { .type = { "ask", 3 }, .payload = { "me", 2 } };

TEST(a_request_gets_its_reply) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = true };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r), *other = engine_of(&s, &r);
    stand_start(engine);
    stand_start(other); /* PostgreSQL: they share it; SQLite: it stands by */
    struct pr_sender *sender = sender_of(&s);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(pr_request(sender, NULL, &question, NULL, PR_SECONDS(20), &id, &got, &error), &error);
        CHECK_SLICE(got->message.payload, "me and you");
        CHECK_SLICE(got->message.type, "answer");
        pr_id_format(id, text);
        CHECK_SLICE(got->message.correlation_id, text);
        pr_reply_free(got);
    }
    CHECK_OK(pr_request_resume(sender, id, 0, &got, &error), &error); /* it is kept */
    pr_reply_free(got);
    CHECK_EQ(r.calls, 5);
    pr_sender_close(sender);
    pr_engine_free(engine);
    pr_engine_free(other);
    stand_fini(&s);
}

TEST(waiting_for_a_reply_goes_on_after_a_restart_and_late_replies_are_kept) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = false };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r);
    struct pr_sender *sender = sender_of(&s);
    CHECK_EQ(pr_request(sender, NULL, &question, NULL, PR_MILLISECONDS(50), &id, &got, &error), PR_TIMEOUT);
    pr_sender_close(sender); /* the process that asked is gone */
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE attempts > 0", 1);
    r.ready = true;
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE destination = 'reply:' AND due_at IS NOT NULL", 1);
    sender = sender_of(&s);
    CHECK_OK(pr_request_resume(sender, id, PR_SECONDS(20), &got, &error), &error);
    CHECK_SLICE(got->message.payload, "me and you");
    pr_reply_free(got);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(a_reply_is_stored_once_however_often_its_handler_runs) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = true, .twice = 1 };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r);
    stand_start(engine);
    struct pr_sender *sender = sender_of(&s);
    CHECK_OK(pr_request(sender, NULL, &question, NULL, PR_SECONDS(20), &id, &got, &error), &error);
    pr_reply_free(got);
    CHECK_EQ(r.calls, 2);
    struct pr_message again = question;
    again.id = id;
    CHECK_OK(pr_request(sender, NULL, &again, NULL, 0, NULL, &got, &error), &error); /* the reply is there already */
    pr_reply_free(got);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE type = 'ask'", 0);
    CHECK_EQ(r.calls, 2); /* and it was not sent again */
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox WHERE destination = 'reply:'"), 1);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(a_request_of_a_transaction_is_there_when_it_commits) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = true };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id rolled, kept;
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r);
    stand_start(engine);
    struct pr_sender *sender = sender_of(&s);
    PGconn *pg = s.pg != NULL ? stand_pg(&s) : NULL;
    sqlite3 *db = s.pg == NULL ? stand_sqlite(&s) : NULL;
    char box[80];
    snprintf(box, sizeof(box), s.pg != NULL ? "%s.outbox" : "outbox", s.schema);
    for (int commits = 0; commits < 2; commits++) {
        pr_id *id = commits ? &kept : &rolled;
        const char *end = commits ? "COMMIT" : "ROLLBACK";
        if (pg != NULL) {
            PQclear(PQexec(pg, "BEGIN"));
            CHECK_OK(pr_request_pg(pg, box, &question, NULL, id, &error), &error);
            PQclear(PQexec(pg, end));
        } else {
            CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
            CHECK_OK(pr_request_sqlite(db, box, &question, NULL, id, &error), &error);
            CHECK_EQ(sqlite3_exec(db, end, NULL, NULL, NULL), SQLITE_OK);
        }
    }
    CHECK_OK(pr_request_resume(sender, kept, PR_SECONDS(20), &got, &error), &error);
    pr_reply_free(got);
    CHECK_EQ(pr_request_resume(sender, rolled, PR_MILLISECONDS(100), &got, &error), PR_TIMEOUT);
    CHECK_EQ(r.calls, 1);
    PQfinish(pg);
    sqlite3_close(db);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(who_waits_for_a_request_that_died_is_told) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = false };
    struct pr_reply *got = NULL;
    struct pr_error error;
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r);
    stand_start(engine);
    struct pr_sender *sender = sender_of(&s);
    CHECK_EQ(pr_request(sender, NULL, &question, NULL, PR_SECONDS(20), NULL, &got, &error), PR_ENOTFOUND);
    CHECK(strstr(error.text, "dead letter") != NULL);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

TEST(who_waits_for_a_request_that_expired_is_told_also_while_nobody_works) /* B214 */
{
    struct stand s;
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    stand_init(&s);
    struct pr_sender *sender = sender_of(&s);
    CHECK_EQ(pr_request(sender, NULL, &question, NULL, 0, &id, &got, &error), PR_TIMEOUT);
    stand_do(&s, s.pg != NULL ? "UPDATE outbox SET expires_at = to_timestamp(1e9)"
                              : "UPDATE outbox SET expires_at = 1000000000000000");
    CHECK_EQ(pr_request_resume(sender, id, PR_SECONDS(60), &got, &error), PR_ENOTFOUND);
    CHECK(strstr(error.text, "has expired") != NULL);
    pr_sender_close(sender);
    stand_fini(&s);
}

TEST(a_reply_that_came_from_elsewhere_is_found) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = true };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    char text[PR_ID_TEXT_SIZE], sql[512];
    stand_init(&s);
    struct pr_engine *engine = engine_of(&s, &r);
    stand_start(engine);
    struct pr_sender *sender = sender_of(&s);
    pr_id_new(&id);
    pr_id_format(id, text);
    snprintf(
        sql, sizeof(sql),
        "INSERT INTO outbox (type, headers, payload) VALUES ('answer', '{\"postrider-reply\":\"%s\"}', 'far away')",
        text);
    stand_do(&s, sql);
    stand_do(&s, sql); /* it arrived twice */
    CHECK_OK(pr_request_resume(sender, id, PR_SECONDS(20), &got, &error), &error);
    CHECK_SLICE(got->message.payload, "far away");
    pr_reply_free(got);
    stand_wait(&s, "SELECT count(*) FROM outbox", 1);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

/* ---- Processes that are killed ------------------------------------------------------------------- */

/* A process that asks, or waits on for what another one asked; it ends with 0 when it has the reply. */
static pid_t waiter(const char *url, pr_id id, bool asks)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    struct pr_message m = question;
    struct pr_sender *sender;
    struct pr_reply *got = NULL;
    struct pr_error error;
    m.id = id;
    int rc = pr_sender_open(url, &sender, &error);
    if (rc == PR_OK)
        rc = asks ? pr_request(sender, NULL, &m, NULL, PR_SECONDS(60), NULL, &got, &error)
                  : pr_request_resume(sender, id, PR_SECONDS(20), &got, &error);
    _exit(rc == PR_OK && got->message.payload.size == strlen("me and you") ? 0 : 1);
}

static int end_of(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(a_request_outlives_the_process_that_waited_for_its_reply) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = false };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id;
    stand_init(&s);
    pr_id_new(&id); /* what the application has written down before it asks */
    pid_t pid = waiter(s.url, id, true);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE type = 'ask'", 1);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    int status = end_of(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    struct pr_sender *sender = sender_of(&s); /* after the restart: nobody has handled it */
    CHECK_EQ(pr_request_resume(sender, id, PR_MILLISECONDS(50), &got, &error), PR_TIMEOUT);
    pr_sender_close(sender);
    pid = waiter(s.url, id, false); /* before there are threads */
    struct pr_engine *engine = engine_of(&s, &r);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE attempts > 0", 1);
    r.ready = true; /* late */
    status = end_of(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    sender = sender_of(&s);
    struct pr_message again = question;
    again.id = id;
    CHECK_OK(pr_request(sender, NULL, &again, NULL, PR_SECONDS(20), NULL, &got, &error), &error);
    CHECK_SLICE(got->message.payload, "me and you");
    pr_reply_free(got);
    stand_wait(&s, "SELECT count(*) FROM outbox WHERE type = 'ask'", 0);
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM outbox WHERE destination = 'reply:'"), 1);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}

/* ---- Keeping ---------------------------------------------------------------------------------------- */

#define MANY 700 /* more than some batches */
#define BATCH 50
#define STRINGIFIED(number) STRINGIFIED_TEXT(number)
#define STRINGIFIED_TEXT(text) #text
#define KEPT "SELECT count(*) FROM outbox WHERE destination = 'reply:' AND due_at IS NOT NULL"

TEST(replies_are_kept_for_a_day_and_then_nothing_of_them_is_left) /* B214 */
{
    struct stand s;
    struct replier r = { .ready = true };
    struct pr_reply *got = NULL;
    struct pr_error error;
    pr_id id = { { 0 } };
    char text[PR_ID_TEXT_SIZE], sql[256];
    stand_init(&s);
    static const char batches[] =
        "batch: " STRINGIFIED(BATCH) "\nendpoints:\n  asks: {url: \"handler:ask\"}\nroutes: [{type: ask, to: asks}]\n";
    struct pr_sender *sender = sender_of(&s);
    for (int i = 0; i < MANY; i++) {
        pr_id_new(&id);
        pr_id_format(id, text);
        snprintf(sql, sizeof(sql), "{\"postrider-reply\":\"%s\"}", text);
        const struct pr_message m = { .type = PR_STR("answer"), .headers = pr_str(sql), .payload = PR_STR("5") };
        CHECK_OK(pr_sender_send(sender, NULL, &m, NULL, &error), &error);
    }
    struct pr_engine *engine = stand_engine(&s, batches);
    CHECK_EQ(pr_engine_handle_named(engine, "ask", reply, &r), PR_OK);
    stand_start(engine);
    stand_wait(&s, KEPT, MANY);
    pr_engine_free(engine);
    const char *day = s.pg != NULL ? KEPT
                          " AND due_at BETWEEN now() + interval '1320 min' AND now() + interval '1440 min'"
                                   : KEPT " AND due_at / 1000000 - strftime('%s', 'now') BETWEEN 79200 AND 86400";
    CHECK_EQ(stand_int(&s, day), MANY);
    CHECK_OK(pr_request_resume(sender, id, 0, &got, &error), &error);
    pr_reply_free(got);

    stand_do(&s, s.pg != NULL ? "UPDATE outbox SET due_at = due_at - interval '1 day'"
                              : "UPDATE outbox SET due_at = due_at - 86400000000");
    engine = stand_engine(&s, batches);
    CHECK_EQ(pr_engine_handle_named(engine, "ask", reply, &r), PR_OK);
    stand_start(engine);
    stand_wait(&s, "SELECT count(*) FROM outbox", 0);
    struct pr_engine_counts counts;
    pr_engine_counts(engine, &counts);
    CHECK(counts.cycles >= MANY / BATCH); /* in pieces: none of them removes more than a batch */
    CHECK_EQ(stand_int(&s, "SELECT count(*) FROM {dead}"), 0);
    CHECK_EQ(pr_request_resume(sender, id, 0, &got, &error), PR_TIMEOUT);
    CHECK_EQ(r.calls, 0);
    pr_sender_close(sender);
    pr_engine_free(engine);
    stand_fini(&s);
}
