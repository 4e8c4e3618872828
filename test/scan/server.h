/* A model of what the scan reads from: a server whose transactions draw an xid, then seqs, and
 * commit in any order.  And a reader that drives the scan as a store would. */
#ifndef TEST_SCAN_SERVER_H
#define TEST_SCAN_SERVER_H

#include "base/random.h"
#include "engine/scan.h"

#define SERVER_TX_MAX 12
#define SERVER_ROWS_MAX 30000
#define SERVER_LANES 4

enum row_state { ROW_OPEN, ROW_COMMITTED, ROW_ROLLED_BACK };

struct server_row { /* its seq is its index + 1 */
    enum row_state state;
    uint64_t xid;
    unsigned lane;
    unsigned reads;
    bool deleted;
};

struct server_tx {
    bool open;
    bool stays;   /* open for long */
    uint64_t xid; /* 0: not drawn yet */
};

struct server {
    struct random random;
    uint64_t next_xid;
    uint64_t last_ended; /* the highest xid of those that have ended */
    int64_t last;
    struct server_tx tx[SERVER_TX_MAX];
    struct server_row rows[SERVER_ROWS_MAX];
};

void server_init(struct server *s, uint64_t seed);

/* One statement of some transaction. */
struct server_tx *server_begin(struct server *s); /* NULL: too many */
void server_draw_xid(struct server *s, struct server_tx *tx);
void server_insert(struct server *s, struct server_tx *tx, unsigned lane);
void server_end(struct server *s, struct server_tx *tx, bool commit);
void server_end_all(struct server *s);
/* A crash: who is open rolls back, and what was drawn since these values is gone and is drawn again. */
void server_lose(struct server *s, uint64_t next_xid, int64_t last);
/* So many of them, by chance. */
void server_busy(struct server *s, unsigned steps);

/* xip has room for SERVER_TX_MAX. */
struct snapshot server_snapshot(const struct server *s, uint64_t *xip);

enum reader_mistake { MISTAKE_NONE, MISTAKE_SNAPSHOT_FIRST, MISTAKE_XMAX_FIRST, MISTAKE_LAST_TOO_HIGH };

struct reader {
    struct server *server;
    struct scan *scan;
    enum reader_mistake mistake;
    uint64_t looked_at; /* rows in the ranges that were read, taken or not */
    uint64_t twice;
    uint64_t late; /* rows visible in the round's snapshot that a whole round did not bring */
};

void reader_init(struct reader *r, struct server *s, const struct scan_limits *limits);
void reader_fini(struct reader *r);

/* One round over all lanes.  limit: rows per lane.  steps: statements of others between the
 * sequence, the snapshot and the reads.  lose: the answer gets lost with this probability. */
void reader_round(struct reader *r, size_t limit, unsigned steps, double lose);

/* Committed rows that were not read. */
uint64_t reader_missing(const struct reader *r);

#endif
