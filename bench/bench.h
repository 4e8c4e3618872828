/* bench.h - what this machine can do, and how much of it Postrider reaches.
 *
 * Every speed is given as a ratio to the bare database or to Postrider itself without the burden, measured in the same
 * run: machines differ, and one machine differs from minute to minute.  So the two sides take turns, and medians are
 * compared.
 *
 *   report.c   measurements out: JSON lines, and a table for people
 *   bare.c     SQLite without Postrider: the reference, and how backlogs are made
 *   drain.c    an engine that drains a database, with a stopwatch
 *   sqlite.c   sending and draining against the reference
 *   burden.c   the cost of a deep backlog, stuck streams and poison
 *   events.c   the cost of events for their senders, and the speed of a projection
 *   latency.c  from a commit in another process to the handler
 *   timeline.c the time of each step of one message on that way
 *   daemon.c   the real daemon: its memory, and its cost while idle
 *   pgbare.c   PostgreSQL without Postrider
 *   postgres.c draining against that, also while another connection holds an old snapshot
 *   pginsert.c the cost of the box for senders
 *   pgburden.c depth, stuck streams, several instances, senders at the same time
 *   logbox.c   a prototype: a box as a log; pglog.c measures it
 *   flow.c     flows and their activities, on either store; sleeping.c: many that sleep
 *   listing.c  how long people wait for an answer, on SQLite; pglisting.c: and on PostgreSQL
 *   pglive.c   latency, and the daemon and the server while idle
 *
 *   inbox.c    handling the messages of a box: by a C function, with dedupe, over HTTP both ways
 *
 *   transport.c  each transport next to a raw producer: raw_*.c, on servers that carrier.c and the tests start
 *
 * A benchmark that fails prints why and exits: no caller could handle it. */
#ifndef BENCH_H
#define BENCH_H

#include <postrider.h>

#include "base/util.h"

struct bench {
    char dir[256];                  /* for databases: on a real disk, removed at the end */
    char servers[256];              /* for the servers' files: in memory where there is room; removed, too */
    char program[4096];             /* the postrider of this build */
    size_t messages;                /* of a backlog */
    size_t deep;                    /* of a deep one */
    size_t pg_deep;                 /* of a deep one on PostgreSQL */
    size_t part;                    /* drained from a deep one */
    size_t rounds;                  /* each side takes so many turns ... */
    size_t pair_rounds, pair_count; /* ... and so many with so many messages, with and without a burden */
    size_t idle_s, latency_s;
    bool quick, json_only;
    const char *only; /* the one part that is wanted; NULL: all */
};

#define BENCH_BATCH 1000
#define BENCH_PAYLOAD 512
#define BENCH_ROUNDS_MAX 64

_Noreturn void die(const char *format, ...) PR_PRINTF(1, 2);
/* To people, on stderr. */
void progress(const struct bench *b, const char *format, ...) PR_PRINTF(2, 3);
/* dir/name; borrowed until the fourth call from now. */
const char *bench_path(const struct bench *b, const char *name);

double seconds_now(void); /* CLOCK_MONOTONIC */
double median(const double *values, size_t count);

void bench_sqlite(const struct bench *b);
void bench_burden(const struct bench *b);
void bench_latency(const struct bench *b);
void bench_idle(const struct bench *b);
void bench_timeline(
    const struct bench *b); /* in the program with fail points; on SQLite, and where there is a server on PostgreSQL */
void bench_events(const struct bench *b);   /* on SQLite, and where there is a server on PostgreSQL */
void bench_postgres(const struct bench *b); /* all of it on PostgreSQL */
void bench_transports(const struct bench *b);
void bench_wal(const struct bench *b);      /* wants a server with wal_level = logical */
void bench_flow(const struct bench *b);     /* flows, on SQLite and where there is a server on PostgreSQL */
void bench_inbox(const struct bench *b);    /* on SQLite, and where there is a server on PostgreSQL */
void bench_listings(const struct bench *b); /* on SQLite, and where there is a server on PostgreSQL */
/* Memory with many waiting; uses and spends the deep backlog of bench_burden(). */
void bench_memory(const struct bench *b);

#endif
