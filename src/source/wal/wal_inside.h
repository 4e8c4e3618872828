/* wal_inside.h - internals of the log as a source.
 *
 *   wal_wire.c   the protocol: bytes and events     wal_link.c   a replication connection
 *   wal_slot.c   publication and slot               wal_look.c   ... and their state
 *   wal_keep.c   letters on their way into boxes    wal.c        the loop */
#ifndef SOURCE_WAL_WAL_INSIDE_H
#define SOURCE_WAL_WAL_INSIDE_H

#include "source/bury.h"
#include "source/source.h"
#include "source/wal/wal_wire.h"
#include "store/postgres/postgres.h"

#define WAL_NAME_SIZE (WAL_NAME_MAX + 1)
#define WAL_WOKEN 1 /* outcome: wake_fd is readable, stop */

/* ---- A replication connection (wal_link.c) ------------------------------------------------- */

struct wal_link {
    const struct conninfo *conninfo;
    PGconn *pg;  /* NULL: not connected */
    int wake_fd; /* ends any waiting when it is readable; -1: none */
    char state[SQL_STATE_SIZE];
    char *copy; /* the latest frame */
};

PR_MUST_CHECK int wal_link_open(struct wal_link *link, struct pr_error *reterr); /* outcome WAL_WOKEN */
void wal_link_close(struct wal_link *link);
/* One statement; PQclear() the result.  timeout_us: after that it is cancelled, PR_EBUSY.  Outcome WAL_WOKEN. */
PR_MUST_CHECK int wal_link_do(struct wal_link *link, const char *sql, int64_t timeout_us, PGresult **ret,
                              struct pr_error *reterr);
PR_MUST_CHECK int wal_link_start(struct wal_link *link, const char *slot, const char *publication, wal_place from,
                                 struct pr_error *reterr);
/* The next frame, borrowed until the next call.  Outcome PR_UNKNOWN: none yet. */
PR_MUST_CHECK int wal_link_next(struct wal_link *link, pr_slice *ret, struct pr_error *reterr);
PR_MUST_CHECK int wal_link_tell(struct wal_link *link, wal_place place, bool asks, struct pr_error *reterr);
/* Waits until something has arrived, or timeout_us is over.  Outcome WAL_WOKEN. */
PR_MUST_CHECK int wal_link_wait(struct wal_link *link, int64_t timeout_us);

/* ---- Publication and slot (wal_slot.c, wal_look.c) ------------------------------------------- */

struct wal_names {
    char slot[WAL_NAME_SIZE], publication[WAL_NAME_SIZE];
};

/* The configured names, or those derived from schema and database. */
PR_MUST_CHECK int wal_names_make(const struct link *sql, const struct wal_setting *setting, struct wal_names *ret,
                                 struct pr_error *reterr);
/* Is the server set up for it, and is the role allowed to use it?  The fault has advice. */
PR_MUST_CHECK int wal_server_check(struct link *sql, struct pr_error *reterr);
PR_MUST_CHECK int wal_publication_make(struct link *sql, const struct wal_setting *setting,
                                       const struct wal_names *names, struct pr_error *reterr);
/* Over the replication connection.  Outcome WAL_WOKEN.  timeout_us: for transactions that are open. */
PR_MUST_CHECK int wal_slot_make(struct link *sql, struct wal_link *link, const struct wal_names *names,
                                int64_t timeout_us, struct log *log, struct pr_error *reterr);
/* A slot that disappears with its connection; ret_name has WAL_NAME_SIZE. */
PR_MUST_CHECK int wal_slot_make_temporary(struct wal_link *link, const struct wal_names *names, char *ret_name,
                                          struct pr_error *reterr);

struct wal_slot_state {
    bool there, active, lost;
    bool ours;           /* in this database, and for pgoutput */
    int64_t lag, unread; /* bytes that are kept for it; bytes after what it has confirmed */
};
PR_MUST_CHECK int wal_slot_look(struct link *sql, const char *slot, struct wal_slot_state *ret,
                                struct pr_error *reterr);

/* ---- Letters (wal_keep.c) --------------------------------------------------------------------- */

struct wal_keep {
    struct postgres_store *store;
    const struct wal_setting *setting;
    struct link *sql;
    const char *slot;
    int64_t system;   /* identifies the server in ids */
    wal_place stored; /* everything before it is stored */
    bool careful;     /* one at a time, since one of them could not be stored */
    bool open;        /* a transaction is open; nothing of it is confirmed */
    pr_slice box;     /* of what is in the batch */
    struct batch batch;
    struct bury bury;
    size_t count, bytes;       /* in the batch */
    struct source_counts kept; /* in the open transaction */
    struct arena arena;        /* of one letter */
    pr_slice *boxes;           /* of the store, in box_names; the configuration may know fewer */
    size_t box_count;
    struct arena box_names;
    struct undecodable_log undecodable;
};

void wal_keep_init(struct wal_keep *keep, struct postgres_store *store, const struct wal_setting *setting,
                   struct link *sql);
void wal_keep_fini(struct wal_keep *keep);
/* Reads how far an earlier run came. */
PR_MUST_CHECK int wal_keep_begin(struct wal_keep *keep, const char *slot, struct pr_error *reterr);
/* The event's bytes are borrowed for the call.  at_us: when it was committed. */
PR_MUST_CHECK int wal_keep_letter(struct wal_keep *keep, const struct wal_event *event, int64_t at_us,
                                  struct pr_error *reterr);
/* Commits everything so far, and that everything before `place` is stored. */
PR_MUST_CHECK int wal_keep_commit(struct wal_keep *keep, wal_place place, struct pr_error *reterr);
void wal_keep_drop(struct wal_keep *keep); /* drops what is not committed */

#endif
