/* Finding new rows in a table whose sequence numbers commit out of order.
 *
 * "seq > last seen" loses rows: a transaction may draw 5, another draw 6 and commit first.  Waiting for the slowest
 * open transaction loses nothing, and stops everything.  This module does neither.  It is pure: the store reports what
 * it saw, and the scan answers what to read.
 *
 *     each snapshot: read the sequence's last value, THEN take a snapshot;  scan_snapshot()
 *     each lane:     scan_ranges() says what to read, in this order, up to any limit;
 *                    scan_done() says how far the reading came
 *
 * Invariants:
 *   S1  A sender draws its xid before its seq, and xmax is above every xid that was drawn when
 *       the snapshot was taken.  So a row has an xid below xmax when its seq was drawn by then:
 *       when it is not above the last value, which was read before, or not above that of a row
 *       which the snapshot can see.  (With a snapshot taken before, an xmax that is only above
 *       most of them, or a last value that was not drawn yet, rows are lost.)
 *   S2  Floor: when every transaction that ran in that snapshot has ended, nothing new can
 *       appear at or below that last value.
 *   S3  Per lane: above its position everything is unread.  Between floor and position the only
 *       unread rows are those that the lane's saved snapshot could not see; by S1 they belong to
 *       transactions that ran in it.  The saved snapshot moves when that whole stretch was
 *       read as of one later snapshot, and not before.
 *   S4  A transaction that stays open while limits.stretch numbers are drawn is set aside: the
 *       floor goes on without it.  All its rows lie above the floor of that moment (else it
 *       would have held an earlier floor back), and when it has ended each lane reads once
 *       more from there what its saved snapshot could not see.
 *   S5  Nothing of this is stored.  A lane starts at its beginning; so do all lanes when the
 *       last value or xmax has gone back, or when the store knows that it talks to another
 *       server (scan_forget).
 *   S6  Rows that come back have a due time and are not found by the scan.
 *
 * Nothing ever waits for an open transaction; each row is read once.  Memory is bounded: at most one snapshot per lane
 * and a few more, and limits.aside transactions.  When more than that stay open, the floor stays where it is until some
 * have ended: still exact, at the price of longer stretches to look through whenever a transaction ends. */
#ifndef ENGINE_SCAN_H
#define ENGINE_SCAN_H

#include <postrider.h>

#include "core/lane.h"

#define SCAN_BEGIN INT64_MIN /* below every seq */
/* a transaction that is this many numbers old is set aside; 4096 is a few pages of the index */
#define SCAN_STRETCH 4096
#define SCAN_ASIDE 256 /* more long transactions at once are a problem that the database's owner must solve */
#define SCAN_RANGES_MAX 3

/* As in PostgreSQL: transactions below xmin have ended, from xmax on none had begun, and of those between them the ones
 * in xip are running. */
struct snapshot {
    uint64_t xmin, xmax;
    const uint64_t *xip; /* ascending */
    size_t xip_count;
};

/* Had this transaction ended (committed or rolled back) when the snapshot was taken?  Same as
 * pg_visible_in_snapshot(). */
bool scan_visible(const struct snapshot *snapshot, uint64_t xid);

enum scan_range_kind {
    SCAN_REST, /* the rest of a late pass that a limit cut short */
    SCAN_LATE, /* rows of transactions that ran when the lane was read last, and have ended */
    SCAN_NEW,  /* above the position */
};

/* Rows with from <= seq < to, in seq order, visible in upto and not visible in unseen.  A statement that runs in a
 * later snapshot than upto must leave out rows that upto cannot see.  The snapshots are borrowed until the next
 * scan_snapshot() or scan_done(). */
struct scan_range {
    enum scan_range_kind kind;
    int64_t from, to;
    const struct snapshot *upto;
    const struct snapshot *unseen; /* NULL: no such condition */
};

struct scan_limits {
    int64_t stretch;
    size_t aside;
};

struct scan;

struct scan *scan_new(const struct scan_limits *limits); /* NULL: the defaults.  NULL: no memory */
void scan_free(struct scan *scan);

void scan_start(struct scan *scan, unsigned lane); /* at the lane's beginning, even when it runs already */
void scan_stop(struct scan *scan, unsigned lane);  /* no-op when it does not run */
bool scan_is_started(const struct scan *scan, unsigned lane);
void scan_forget(struct scan *scan); /* the store talks to another server (S5) */

/* A new snapshot: last was read before snapshot was taken; last is 0 or more.  The snapshot is
 * copied.  Fault PR_ENOMEM: nothing changed. */
PR_MUST_CHECK int scan_snapshot(struct scan *scan, int64_t last, const struct snapshot *snapshot);

/* Is this another server than at the last snapshot (S5)?  Then scan_snapshot() begins with scan_forget(). */
bool scan_goes_back(const struct scan *scan, int64_t last, const struct snapshot *snapshot);

/* What to read next in a started lane: 1 to SCAN_RANGES_MAX ranges, to be read in order.
 * There must have been a snapshot. */
size_t scan_ranges(const struct scan *scan, unsigned lane, struct scan_range ret[SCAN_RANGES_MAX]);

/* Reports what was read of these ranges, in the same snapshot: `whole` ranges were read to their ends; of the next one
 * (of the last, when all were) last_seq was the last row taken, SCAN_BEGIN: none.  Call it when the rows have surely
 * arrived: until then scan_ranges() gives the same ranges again. */
void scan_done(struct scan *scan, unsigned lane, size_t whole, int64_t last_seq);

/* What a store keeps for scan_done() until its reply has surely arrived. */
struct scan_pending {
    bool set;
    size_t whole;
    int64_t last_seq;
};

/* All rows at or below this seq were read, and no new ones can appear (S2, S3), except those of transactions set aside
 * (S4). */
int64_t scan_passed(const struct scan *scan, unsigned lane);

/* For tests and doctor. */
int64_t scan_floor(const struct scan *scan);
size_t scan_aside_count(const struct scan *scan);

#endif
