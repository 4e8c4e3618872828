/* producer.c - an application: a row of its own and some messages in one transaction, which it
 * sometimes rolls back; and now and then a message by a sender of the library. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/random.h"
#include "base/slice.h"

#include "digest.h"
#include "program.h"

#define STREAMS 5
#define MESSAGES_MAX 4  /* in one transaction */
#define WAITING_MAX 150 /* then it waits for the workers */
#define PAYLOAD_MAX_BYTES 6000
#define BUSY_MS 10000

struct producer {
    sqlite3 *db;
    struct pr_sender *sender;
    int log;
    struct random random;
    sqlite3_stmt *note, *waiting;
};

struct draft {
    struct pr_message message;
    char id[PR_ID_TEXT_SIZE], stream[32];
    char payload[PAYLOAD_MAX_BYTES];
    uint64_t digest;
};

static volatile sig_atomic_t ended;

static void on_sigterm(int number)
{
    (void)number;
    ended = 1;
}

_Noreturn static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "producer: %s: %s\n", what, why);
    exit(3);
}

static void run_sql(struct producer *p, const char *sql)
{
    if (sqlite3_exec(p->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        give_up(sql, sqlite3_errmsg(p->db));
}

static const char *draw_type(struct random *random)
{
    uint64_t dice = random_below(random, 20);
    return dice == 0 ? "doomed" : dice <= 2 ? "flaky" : "ok";
}

/* Sender's streams are its own, so that their order is the order of its log. */
static void draft_make(struct producer *p, struct draft *d, bool own_stream)
{
    struct random *random = &p->random;
    size_t size = random_below(random, random_below(random, 10) == 0 ? PAYLOAD_MAX_BYTES : 100);
    for (size_t i = 0; i < size; i++)
        d->payload[i] = (char)random_below(random, 256);
    d->digest = digest(d->payload, size);
    d->stream[0] = '\0';
    if (own_stream)
        snprintf(d->stream, sizeof d->stream, "q%d-%d", (int)getpid(), (int)random_below(random, STREAMS));
    else if (random_below(random, 5) > 0)
        snprintf(d->stream, sizeof d->stream, "s%d", (int)random_below(random, STREAMS));
    d->message = (struct pr_message){ .type = slice_from(draw_type(random)),
                                      .stream = slice_from(d->stream),
                                      .payload = { d->payload, size } };
    pr_id_new(&d->message.id);
    pr_id_format(d->message.id, d->id);
    record(p->log, "%c %s %s %016llx %.*s %d\n", own_stream ? 'Q' : 'T', d->id, d->stream[0] != '\0' ? d->stream : "-",
           (unsigned long long)d->digest, SLICE_ARGS(d->message.type), (int)getpid());
}

/* The application's own row: what the checker believes. */
static void note(struct producer *p, const struct draft *d)
{
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)d->digest);
    sqlite3_bind_text(p->note, 1, d->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(p->note, 2, d->stream[0] != '\0' ? d->stream : "-", -1, SQLITE_STATIC);
    sqlite3_bind_text(p->note, 3, text, -1, SQLITE_STATIC);
    sqlite3_bind_text(p->note, 4, d->message.type.data, (int)d->message.type.size, SQLITE_STATIC);
    if (sqlite3_step(p->note) != SQLITE_DONE)
        give_up("note", sqlite3_errmsg(p->db));
    sqlite3_reset(p->note);
}

static void transact(struct producer *p)
{
    static struct draft drafts[MESSAGES_MAX];
    size_t count = 1 + random_below(&p->random, MESSAGES_MAX);
    bool rollback = random_below(&p->random, 5) == 0;
    struct pr_error error;

    run_sql(p, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < count; i++) {
        draft_make(p, &drafts[i], false);
        note(p, &drafts[i]);
        if (pr_send_sqlite(p->db, &drafts[i].message, NULL, &error) != PR_OK)
            give_up("pr_send_sqlite", error.text);
    }
    FAILPOINT("producer.before_commit");
    run_sql(p, rollback ? "ROLLBACK" : "COMMIT");
    FAILPOINT("producer.after_commit");
    for (size_t i = 0; i < count; i++)
        record(p->log, "%c %s\n", rollback ? 'R' : 'C', drafts[i].id);
}

static void send_one(struct producer *p)
{
    static struct draft d;
    struct pr_error error;
    draft_make(p, &d, true);
    if (pr_sender_send(p->sender, NULL, &d.message, NULL, &error) != PR_OK)
        give_up("pr_sender_send", error.text);
    record(p->log, "C %s\n", d.id);
}

static bool has_room(struct producer *p)
{
    bool room = sqlite3_step(p->waiting) == SQLITE_ROW && sqlite3_column_int(p->waiting, 0) < WAITING_MAX;
    sqlite3_reset(p->waiting);
    return room;
}

static void producer_open(struct producer *p, const char *dir)
{
    char path[512], url[600];
    struct pr_error error;
    snprintf(path, sizeof path, "%s/store.db", dir);
    snprintf(url, sizeof url, "sqlite:%s?synchronous=normal&busy=10s", path);
    if (sqlite3_open(path, &p->db) != SQLITE_OK)
        give_up(path, sqlite3_errmsg(p->db));
    sqlite3_busy_timeout(p->db, BUSY_MS);
    sqlite3_wal_autocheckpoint(p->db, 0);
    run_sql(p, "PRAGMA synchronous = normal"); /* a kill loses nothing; power is not tested here */
    if (sqlite3_prepare_v2(p->db, "INSERT INTO app (id, stream, digest, type) VALUES (?, ?, ?, ?)", -1, &p->note,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(p->db, "SELECT count(*) FROM outbox", -1, &p->waiting, NULL) != SQLITE_OK)
        give_up(path, sqlite3_errmsg(p->db));
    if (pr_sender_open(url, &p->sender, &error) != PR_OK)
        give_up("pr_sender_open", error.text);
}

int produce(const char *dir, uint64_t seed)
{
    struct producer p = { .log = record_open(dir, "producer") };
    struct sigaction action = { .sa_handler = on_sigterm };
    sigaction(SIGTERM, &action, NULL);
    random_init(&p.random, seed);
    producer_open(&p, dir);
    while (!ended) {
        if (!has_room(&p))
            nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        else if (random_below(&p.random, 4) == 0)
            send_one(&p);
        else
            transact(&p);
    }
    pr_sender_close(p.sender);
    sqlite3_finalize(p.note);
    sqlite3_finalize(p.waiting);
    sqlite3_close(p.db);
    close(p.log);
    return 0;
}
