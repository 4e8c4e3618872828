/* wal_wire.h - the replication protocol and pgoutput (protocol version 1): bytes in, events out.
 *
 * Pure, and suspicious: every length is checked against what is there, and what is not known is a
 * fault that says what it was.  Slices point into the bytes that were passed in.
 *
 * A frame is what the server sends in copy mode: a piece of the log, or a sign of life.  The piece
 * holds one event of pgoutput.  Events of a transaction come together, between BEGIN and COMMIT, in
 * the order of commits; what was rolled back never comes. */
#ifndef SOURCE_WAL_WAL_WIRE_H
#define SOURCE_WAL_WAL_WIRE_H

#include <postrider.h>

typedef uint64_t wal_place; /* a place in the log: PostgreSQL's pg_lsn */

#define WAL_PLACE_TEXT_SIZE 18 /* "FFFFFFFF/FFFFFFFF" */
#define WAL_STATUS_BYTES 34
#define WAL_COLUMNS_MAX 1664 /* PostgreSQL's own limit is 1600 columns of a table */

enum wal_frame_kind { WAL_FRAME_DATA, WAL_FRAME_ALIVE };

struct wal_frame {
    enum wal_frame_kind kind;
    wal_place end;    /* how far the server has sent */
    bool wants_reply; /* ALIVE: at once, or it hangs up */
    pr_slice body;    /* DATA: one event */
};

enum wal_event_kind {
    WAL_BEGIN,
    WAL_COMMIT,
    WAL_ORIGIN,
    WAL_RELATION,
    WAL_TYPE,
    WAL_INSERT,
    WAL_CHANGE, /* an update or a delete: nothing that we asked for */
    WAL_TRUNCATE,
    WAL_MESSAGE,
};

struct wal_event {
    enum wal_event_kind kind;
    wal_place place;          /* BEGIN: of the commit; COMMIT: behind it; MESSAGE: its own */
    int64_t at_us;            /* BEGIN, COMMIT: when it was committed, Unix time */
    uint32_t relation;        /* RELATION, INSERT, CHANGE */
    pr_slice schema, name;    /* RELATION, TYPE; ORIGIN: name */
    bool with_transaction;    /* MESSAGE: it came in a transaction that was committed */
    pr_slice prefix, content; /* MESSAGE */
};

/* Fault PR_ECORRUPT: it is cut off, or a length in it is wrong.  PR_EUNSUPPORTED: not known. */
PR_MUST_CHECK int wal_frame_parse(pr_slice bytes, struct wal_frame *ret, struct pr_error *reterr);
PR_MUST_CHECK int wal_event_parse(pr_slice body, struct wal_event *ret, struct pr_error *reterr);

/* What we tell the server: all before `place` is ours now.  asks: it shall answer. */
void wal_status_write(wal_place place, int64_t now_us, bool asks, char ret[WAL_STATUS_BYTES]);

/* "16/B374D848". */
void wal_place_format(wal_place place, char ret[WAL_PLACE_TEXT_SIZE]);

#endif
