/* The cost of events: sending them compared with plain messages, and how fast a projection reads them.  On SQLite, and
 * on PostgreSQL if a server is named (POSTRIDER_TEST_PG, as ./dev bench events does). */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef BENCH_POSTGRES
#include <libpq-fe.h>
#endif

#include "bench.h"
#include "report.h"

#define SENDS 2000 /* transactions of one turn */
#define BULK 20000 /* messages of one bulk transaction */
#define STREAMS 1000
#define WRITERS 4 /* of one hot stream */
#define PAGE 2000
#define SQLITE_GOAL 20000 /* events a second that a projection must keep up with */
#define POSTGRES_GOAL 10000
#define SEND_GOAL 0.6

/* A store and the application's own connection to it. */
struct site {
    char url[512], path[300];
    const char *name, *server; /* server NULL: SQLite */
    sqlite3 *db;
    struct pr_sqlite_sender *sqlite_sender;
#ifdef BENCH_POSTGRES
    PGconn *pg;
    struct pr_pg_sender *pg_sender;
#endif
};

static void run(struct site *s, const char *sql)
{
#ifdef BENCH_POSTGRES
    if (s->pg != NULL) {
        PGresult *r = PQexec(s->pg, sql);
        if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
            die("%s: %s", sql, PQerrorMessage(s->pg));
        PQclear(r);
        return;
    }
#endif
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        die("%s: %s", sql, sqlite3_errmsg(s->db));
}

static void site_open(struct site *s)
{
    struct pr_error error;
#ifdef BENCH_POSTGRES
    if (s->server != NULL) {
        s->pg = PQconnectdb(s->server);
        if (PQstatus(s->pg) != CONNECTION_OK)
            die("%s", PQerrorMessage(s->pg));
        run(s, "SET client_min_messages = warning");
        if (pr_pg_sender_new(s->pg, "bench_events.outbox", &s->pg_sender, &error) != PR_OK)
            die("%s", error.text);
        return;
    }
#endif
    if (sqlite3_open(s->path, &s->db) != SQLITE_OK)
        die("%s: %s", s->path, sqlite3_errmsg(s->db));
    (void)sqlite3_busy_timeout(s->db, 30000);
    if (pr_sqlite_sender_new(s->db, NULL, &s->sqlite_sender, &error) != PR_OK)
        die("sender: %s", error.text);
}

static void site_close(struct site *s)
{
#ifdef BENCH_POSTGRES
    if (s->pg != NULL) {
        pr_pg_sender_free(s->pg_sender);
        PQfinish(s->pg);
        return;
    }
#endif
    pr_sqlite_sender_free(s->sqlite_sender);
    sqlite3_close(s->db);
}

static void send_one(struct site *s, const struct pr_message *m)
{
    struct pr_error error;
    int rc;
#ifdef BENCH_POSTGRES
    if (s->pg != NULL)
        rc = pr_pg_sender_send(s->pg_sender, m, NULL, &error);
    else
#endif
        rc = pr_sqlite_sender_send(s->sqlite_sender, m, NULL, &error);
    if (rc != PR_OK)
        die("sending: %s", error.text);
}

/* ---- Sending -------------------------------------------------------------------------------------- */

enum kind { PLAIN, EVENTS, HOT };

static struct pr_message message_of(enum kind kind, unsigned n, char stream[32])
{
    static const char payload[BENCH_PAYLOAD] = { 'x' };
    snprintf(stream, 32, "order-%u", kind == HOT ? 0 : n % STREAMS);
    return (struct pr_message){ .type = PR_STR("order.placed"),
                                .stream = pr_str(stream),
                                .destination = PR_STR("nowhere"),
                                .payload = PR_BYTES(payload, sizeof payload),
                                .event = kind != PLAIN };
}

/* Messages a second, `each` of them in a transaction. */
static double rate(struct site *s, enum kind kind, unsigned count, unsigned each)
{
    double began = seconds_now();
    for (unsigned i = 0; i < count; i++) {
        char stream[32];
        const struct pr_message m = message_of(kind, i, stream);
        if (i % each == 0)
            run(s, s->db != NULL ? "BEGIN IMMEDIATE" : "BEGIN");
        send_one(s, &m);
        if (i % each == each - 1 || i + 1 == count)
            run(s, "COMMIT");
    }
    return count / (seconds_now() - began);
}

/* Several connections at once, each with a share of the messages. */
struct share {
    pthread_t thread;
    struct site site;
    enum kind kind;
    unsigned count;
};

static void *send_share(void *arg)
{
    struct share *share = arg;
    (void)rate(&share->site, share->kind, share->count, 1);
    return NULL;
}

static double rate_many(const struct site *s, enum kind kind, unsigned count)
{
    struct share shares[WRITERS];
    for (size_t i = 0; i < WRITERS; i++) {
        shares[i] = (struct share){ .site = *s, .kind = kind, .count = count / WRITERS };
        site_open(&shares[i].site);
    }
    double began = seconds_now();
    for (size_t i = 0; i < WRITERS; i++)
        if (pthread_create(&shares[i].thread, NULL, send_share, &shares[i]) != 0)
            die("cannot start a thread");
    for (size_t i = 0; i < WRITERS; i++)
        (void)pthread_join(shares[i].thread, NULL);
    double took = seconds_now() - began;
    for (size_t i = 0; i < WRITERS; i++)
        site_close(&shares[i].site);
    return count / took;
}

/* The name lives until the table is printed. */
static const char *name_of(const struct site *s, const char *part)
{
    char *name = malloc(64);
    if (name == NULL)
        die("no memory");
    snprintf(name, 64, "events_%s_%s", s->name, part);
    return name;
}

/* each 0: several writers, one message for each transaction. */
static void compare(const struct bench *b, struct site *s, const char *part, enum kind kind, unsigned count,
                    unsigned each, enum bound bound, double goal)
{
    double with[BENCH_ROUNDS_MAX], without[BENCH_ROUNDS_MAX];
    for (size_t i = 0; i < b->rounds; i++) {
        without[i] = each > 0 ? rate(s, PLAIN, count, each) : rate_many(s, PLAIN, count);
        with[i] = each > 0 ? rate(s, kind, count, each) : rate_many(s, kind, count);
    }
    report_turns(name_of(s, part), with, without, b->rounds, "messages/s", bound, goal);
}

/* ---- A projection ----------------------------------------------------------------------------------- */

static int advance(struct site *s, struct pr_subscription *view, int64_t place, struct pr_error *error)
{
#ifdef BENCH_POSTGRES
    if (s->pg != NULL)
        return pr_subscription_advance_pg(view, s->pg, place, error);
#endif
    return pr_subscription_advance_sqlite(view, s->db, place, error);
}

/* Counts the events of each stream, with its position, in one transaction for each page: events a second. */
static void project(struct site *s, double goal)
{
    struct pr_subscription *view;
    struct pr_error error;
    const struct pr_event *list;
    size_t count, all = 0;
    char sql[160];
    run(s, "CREATE TABLE counted (stream varchar(32) PRIMARY KEY, events bigint)");
    if (pr_subscription_open(&(struct pr_subscription_options){ .store_url = s->url, .name = "bench" }, &view,
                             &error) != PR_OK)
        die("subscription: %s", error.text);
    double began = seconds_now();
    for (;;) {
        if (pr_subscription_next(view, PAGE, 0, &list, &count, &error) != PR_OK)
            die("next: %s", error.text);
        if (count == 0)
            break;
        unsigned counts[STREAMS] = { 0 };
        for (size_t i = 0; i < count; i++)
            counts[strtoul(list[i].stream.data + strlen("order-"), NULL, 10) % STREAMS]++;
        run(s, "BEGIN");
        for (unsigned k = 0; k < STREAMS; k++) {
            if (counts[k] == 0)
                continue;
            snprintf(sql, sizeof sql,
                     "INSERT INTO counted AS c VALUES ('order-%u', %u) ON CONFLICT (stream) DO UPDATE SET events ="
                     " c.events + %u",
                     k, counts[k], counts[k]);
            run(s, sql);
        }
        if (advance(s, view, list[count - 1].place, &error) != PR_OK)
            die("advance: %s", error.text);
        run(s, "COMMIT");
        all += count;
    }
    double took = seconds_now() - began;
    pr_subscription_close(view);
    report_value(name_of(s, "projection"), (double)all / took, "events/s", BOUND_AT_LEAST, goal);
}

static void measure(const struct bench *b, struct site *s, double goal)
{
    unsigned sends = b->quick ? SENDS / 4 : SENDS, bulk = b->quick ? BULK / 4 : BULK;
    progress(b, "events on %s: one for each transaction, many streams", s->name);
    compare(b, s, "one_each", EVENTS, sends, 1, BOUND_AT_LEAST, SEND_GOAL);
    progress(b, "events on %s: in bulk", s->name);
    compare(b, s, "bulk", EVENTS, bulk, bulk, BOUND_NONE, 0);
    progress(b, "events on %s: one hot stream, %d writers", s->name, WRITERS);
    compare(b, s, "hot_stream", HOT, sends, 0, BOUND_NONE, 0);
    progress(b, "events on %s: a projection", s->name);
    project(s, goal);
}

static void on_sqlite(const struct bench *b)
{
    struct site s = { .name = "sqlite" };
    struct pr_error error;
    snprintf(s.path, sizeof s.path, "%s", bench_path(b, "events.db"));
    snprintf(s.url, sizeof s.url, "sqlite:%s", s.path);
    if (pr_store_init(s.url, &error) != PR_OK)
        die("init: %s", error.text);
    site_open(&s);
    measure(b, &s, SQLITE_GOAL);
    site_close(&s);
}

#ifdef BENCH_POSTGRES
static void on_postgres(const struct bench *b, const char *server)
{
    struct site s = { .name = "postgres", .server = server };
    struct pr_error error;
    snprintf(s.url, sizeof s.url, "%s%cschema=bench_events", server, strchr(server, '?') != NULL ? '&' : '?');
    site_open(&s);
    run(&s, "DROP SCHEMA IF EXISTS bench_events CASCADE; DROP TABLE IF EXISTS counted");
    if (pr_store_init(s.url, &error) != PR_OK)
        die("%s", error.text);
    measure(b, &s, POSTGRES_GOAL);
    site_close(&s);
}
#endif

void bench_events(const struct bench *b)
{
    on_sqlite(b);
#ifdef BENCH_POSTGRES
    const char *server = getenv("POSTRIDER_TEST_PG");
    if (server != NULL)
        on_postgres(b, server);
    else
        progress(b, "no PostgreSQL: ./dev bench events starts one");
#endif
}
