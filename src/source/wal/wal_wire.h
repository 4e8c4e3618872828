/* wal_wire.h - the replication protocol and pgoutput (protocol version 1): bytes in, events out.
 *
 * Pure, and suspicious: every length is checked against the available bytes, and anything unknown is a fault that says
 * what it was.  Slices point into the bytes that were passed in.
 *
 * A frame is what the server sends in copy mode: a piece of the log, or a keepalive.  The piece holds one event of
 * pgoutput.  Events of a transaction come together, between BEGIN and COMMIT, in the order of commits; rolled-back
 * transactions never come. */
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
    wal_place end;    /* end of the server's log */
    bool wants_reply; /* ALIVE: an immediate reply is required */
    pr_slice body;    /* DATA: one event */
};

enum wal_event_kind {
    WAL_BEGIN,
    WAL_COMMIT,
    WAL_ORIGIN,
    WAL_RELATION,
    WAL_TYPE,
    WAL_INSERT,
    WAL_CHANGE, /* an update or a delete, which were not requested */
    WAL_TRUNCATE,
    WAL_MESSAGE,
};

struct wal_event {
    enum wal_event_kind kind;
    wal_place place;          /* BEGIN: of the commit; COMMIT: after it; MESSAGE: its own */
    int64_t at_us;            /* BEGIN, COMMIT: when it was committed, Unix time */
    uint32_t relation;        /* RELATION, INSERT, CHANGE */
    pr_slice schema, name;    /* RELATION, TYPE; ORIGIN: name */
    bool with_transaction;    /* MESSAGE: it belongs to a committed transaction */
    pr_slice prefix, content; /* MESSAGE */
};

/* Fault PR_ECORRUPT: truncated, or with an invalid length.  PR_EUNSUPPORTED: unknown. */
PR_MUST_CHECK int wal_frame_parse(pr_slice bytes, struct wal_frame *ret, struct pr_error *reterr);
PR_MUST_CHECK int wal_event_parse(pr_slice body, struct wal_event *ret, struct pr_error *reterr);

/* The confirmation for the server: everything before `place` is stored.  asks: request a reply. */
void wal_status_write(wal_place place, int64_t now_us, bool asks, char ret[WAL_STATUS_BYTES]);

/* "16/B374D848". */
void wal_place_format(wal_place place, char ret[WAL_PLACE_TEXT_SIZE]);

#endif
