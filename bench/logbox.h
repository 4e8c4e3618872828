/* logbox.h - a box as a log: a prototype for measurements, of which nothing is in the product (doc/adr/0099-*).
 *
 * Senders INSERT into "log": LOG_SEGMENTS tables, which take turns by the rows' places.  A row there is never updated
 * and never deleted.  Rows are read in the order of their places, as in engine/scan.h, so late commits are found.
 *
 *   cursor    which rows were handed out: all at or below `passed`, and those at or below at[i] that seen[i] can see.
 *             (The lanes of
 *             one instance move together, so one cursor stands for all of them.)
 *   receipt   a row with a cursor, INSERTed and committed before anything is sent: it hands out the rows of its cursor
 *             that
 *             the receipt `since` does not have.  It also has the outcomes of the rows of the receipt before it, a bit
 *             for each.
 *   aside     failed rows move into "outbox", the box as it is today, in the transaction of the receipt with their
 *             outcome; they are read
 *             again when due, and deleted when done.
 *   passed    a segment whose rows all have outcomes is truncated, unless another connection has locked it.
 *
 * After a crash the last receipt shows which rows were handed out without an outcome; they are handed out again.
 *
 * Left out on purpose: leases and epochs, several instances, held streams, transactions set aside by S4 of the scan. */
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
