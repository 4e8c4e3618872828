/* fixture.h - a store on a file of its own, an instance at work on it, and a raw connection
 * as an application has one. */
#ifndef TEST_SQLITE_FIXTURE_H
#define TEST_SQLITE_FIXTURE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "store/store.h"

#define LEASE_US PR_SECONDS(10)
#define PAYLOAD_MAX 65536
#define SOON_US PR_SECONDS(20) /* a busy machine is slow; what is lost never comes */

struct fixture {
    char directory[64], path[96], url[160];
    struct store store;
    struct pr_error error;
};

/* With tables; options is "" or "?busy=100ms".  Whatever a failed test left is removed first. */
struct fixture *fixture_open(const char *options);
struct fixture *fixture_bare(const char *options); /* there is no file yet, and no store open */
void fixture_close(struct fixture *f);
void fixture_open_store(struct fixture *f); /* of the same file; closes the old one */
int fixture_migrate(struct fixture *f);

/* How far a loop over all writes or statements goes at once, as its neighbours are alike: step, and with EVERY_STEP in
 * the environment 1. */
long fixture_step(long step);

/* An application's own connection. */
sqlite3 *fixture_raw(struct fixture *f);
void raw_run(sqlite3 *db, const char *sql);                          /* must succeed */
int raw_try(sqlite3 *db, const char *sql);                           /* the code of SQLite */
int64_t raw_int(sqlite3 *db, const char *sql);                       /* the first column of the first row */
void raw_text(sqlite3 *db, const char *sql, char *ret, size_t size); /* the same, as text */
/* Both in one: open, ask, close. */
int64_t fixture_int(struct fixture *f, const char *sql);

pr_id fixture_send(struct fixture *f, const char *payload);

/* An instance of the outbox.  Its numbers are kept by worker_cycle(). */
struct worker {
    struct store_session session;
    pr_id id;
    int64_t epoch, notice, lease_us;
    uint64_t number;
    const struct cycle_reply *reply;
    struct pr_error error;
};

void worker_open(struct worker *w, struct store *store); /* a session, not joined */
void worker_close(struct worker *w);                     /* as a crash would */
int worker_cycle(struct worker *w, const struct cycle *cycle);
/* CYCLE(&w, .fresh_rows = 10): must be PR_OK. */
#define CYCLE(w, ...) worker_must((w), &(struct cycle){ .fresh_bytes = SIZE_MAX, __VA_ARGS__ })
const struct cycle_reply *worker_must(struct worker *w, const struct cycle *cycle);

/* A child process that runs f(arg) and exits with its result; it must not use CHECK. */
pid_t child_start(int (*f)(void *arg), void *arg);
int child_wait(pid_t pid); /* its exit code, or -signal */

int64_t real_us(void);

#endif
