/* bare.h - SQLite without Postrider, on the very tables that Postrider makes. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <sqlite3.h>

#include "bench.h"

/* Which messages: sent to the endpoint "sink", streams in turn (0: no streams). */
struct stock {
    size_t count;
    size_t streams;
};

/* Of a store in this file; borrowed until the fourth call from now. */
const char *bare_url(const char *path);
/* A new database with Postrider's tables. */
void bare_create(const char *path);
/* Open with the durability of a store: WAL, synchronous=FULL.  The log is moved into the database
 * when it has so many pages; 0: others do that. */
sqlite3 *bare_open(const char *path, int checkpoint_pages);
#define SENDER_CHECKPOINT_PAGES 16384 /* as Postrider's senders and its engine do it, so that ... */
#define ENGINE_CHECKPOINT_PAGES 2000  /* ... only the work differs */
void bare_close(sqlite3 *db);
void bare_run(sqlite3 *db, const char *sql);
int64_t bare_number(sqlite3 *db, const char *sql);

/* As fast as can be, without durability; afterwards it is all on disk and in WAL mode. */
void bare_fill(const char *path, const struct stock *stock);
/* Byte by byte; only between runs. */
void bare_copy(const char *from, const char *to);
void bare_remove(const char *path);

/* Messages a second, in transactions of BENCH_BATCH. */
double bare_insert_rate(sqlite3 *db, size_t count);
double bare_drain_rate(sqlite3 *db, size_t count);
double bare_drain_range_rate(sqlite3 *db, size_t count);

void bare_payload(char ret[BENCH_PAYLOAD]); /* of every message */

/* One transaction. */
void bare_insert(sqlite3 *db, const struct stock *stock);

#endif
