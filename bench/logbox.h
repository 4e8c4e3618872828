/* logbox.h - a box as a log: a prototype to measure, of which nothing is in the product (doc/adr/0099-*).
 *
 * Senders INSERT into "log": LOG_SEGMENTS tables, which take turns by the rows' places.  A row there is never updated and never
 * deleted.  Rows are read in the order of their places, as engine/scan.h says it, so what commits late is found.
 *
 *   cursor    which rows were handed out: all at or below `passed`, and those at or below at[i] that seen[i] can see.  (The lanes of
 *             one instance move together, so one cursor stands for all of them.)
 *   receipt   a row with a cursor, INSERTed and committed before anything is sent: it hands out what its cursor has and that of
 *             the receipt `since` has not.  It also tells the outcomes of the rows of the receipt before it, a bit for each.
 *   aside     what fails moves into "outbox", the box as it is today, in the transaction of the receipt that tells it; it is read
 *             again by its time, and deleted when it is done.
 *   passed    a segment whose rows all have outcomes is truncated, when nobody else has a lock on it.
 *
 * After a crash the last receipt tells what was handed out without an outcome; that is handed out again.
 *
 * What is missing on purpose: leases and epochs, several instances, streams that are held, what is set aside by S4 of the scan. */
#ifndef BENCH_LOGBOX_H
#define BENCH_LOGBOX_H

#include <libpq-fe.h>
#include <stdatomic.h>

#include "bench.h"

#define LOG_SEGMENTS 8
#define LOG_SHIFT 17 /* places in a segment, as a power of two: some 80 MB */

/* The tables, in a database that has Postrider's.  with_key: each segment has an index of ids, too. */
void logbox_create(PGconn *pg, int shift, bool with_key);

/* Gets each message that is handed out; false: the process dies here. */
typedef bool log_deliver(void *user, int64_t seq);

struct log_drainer;

/* Goes on where the last receipt in this database tells.  deliver may be NULL. */
struct log_drainer *logbox_open(const char *database, log_deliver *deliver, void *user);
/* At any time: also as a crash would. */
void logbox_close(struct log_drainer *d);

/* One transaction: outcomes, receipt, read; then deliver.  False: the process has died. */
bool logbox_cycle(struct log_drainer *d);
/* How many were handed out and did not fail. */
size_t logbox_done(const struct log_drainer *d);
/* Of these, how many were handed out again since nobody knew their outcome. */
size_t logbox_repeated(const struct log_drainer *d);
/* How many tables were truncated. */
size_t logbox_truncated(const struct log_drainer *d);
/* Microseconds of the processor that the server has spent for its connections. */
double logbox_server_us(const struct log_drainer *d);

/* Until so many are done and told.  Messages a second. */
double logbox_drain_rate(struct log_drainer *d, size_t count);
/* As long as it is wanted.  Messages a second. */
double logbox_drain_while(struct log_drainer *d, const atomic_bool *wanted);

#endif
