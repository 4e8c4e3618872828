/* conn.h - one connection to the database: prepared statements by their text, bounded waiting for the write lock, and
 * faults in words.
 *
 * In SQL texts '{box}' is the name of a box, "{box}" its table ({table} is the table's bare name), and tables that all
 * boxes share are {prefix}name; names are valid identifiers (name_is_valid), values are always parameters.
 *
 * Threads: a thread that uses a connection holds it (conn_lock).  All users of an in-memory database share one
 * connection. */
#ifndef STORE_SQLITE_CONN_H
#define STORE_SQLITE_CONN_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/map.h"
#include "base/util.h"
#include "core/message.h"
#include "store/sql.h"
#include "store/sqlite/writers.h"

struct sqlite_location { /* path and options of a database, from the URL */
    char *path;          /* owned; ":memory:" is in memory */
    bool memory;
    bool full;       /* synchronous=full */
    int64_t busy_us; /* how long to wait for another program's lock */
};

#define CONN_MADE_MAX 8

/* A box by its name, and its table. */
struct box_names {
    pr_slice box, table;
};

struct conn {
    pthread_mutex_t lock;
    sqlite3 *db;
    const struct sqlite_location *location; /* borrowed */
    struct map statements;                  /* struct conn_statement */
    sqlite3_stmt *made[CONN_MADE_MAX];      /* composed statements: the latest few */
    unsigned made_next;
    int64_t busy_since_us, busy_us;    /* since when, and how long, to wait for a lock */
    int wal_pages;                     /* pages in the log after this connection's latest commit */
    int wal_tried;                     /* ... when a checkpoint was tried last */
    int wal_pressed;                   /* ... when writers were last blocked for one */
    int users;                         /* conn_share(): closed with the last user */
    struct file_name file, log, index; /* that were opened: the database, -wal, -shm */
    struct writers *writers;           /* of the file; NULL: in memory, borrowed, or no memory */
    bool writing;                      /* it is this connection's turn to write */
    uint64_t generation;               /* incremented when another file was opened (conn_follow) */
    char table[BOX_NAME_MAX + 1];      /* result of conn_box() */
};

/* create: the file may be created.  Fault PR_ESCHEMA: there is no such file. */
PR_MUST_CHECK int conn_open(const struct sqlite_location *location, bool create, struct conn **ret_conn,
                            struct pr_error *reterr);
void conn_close(struct conn *conn); /* NULL is allowed */
struct conn *conn_share(struct conn *conn);
/* Wraps the caller's connection for a few statements inside its transaction; its settings are not changed. */
void conn_borrow(struct conn *conn, sqlite3 *db, const struct sqlite_location *location);
void conn_give_back(struct conn *conn);

void conn_lock(struct conn *conn);
void conn_unlock(struct conn *conn);

/* The statement of this text, reset and bound; it belongs to the connection. */
PR_MUST_CHECK int conn_bind(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                            sqlite3_stmt **ret_statement, struct pr_error *reterr);
/* The same for a composed text.  The caller resets it; it is valid until the next composed statement. */
PR_MUST_CHECK int conn_bind_made(struct conn *conn, const char *sql, const struct value *values, size_t count,
                                 sqlite3_stmt **ret_statement, struct pr_error *reterr);
/* STEP_ROW; STEP_DONE, or a fault: the statement is reset. */
PR_MUST_CHECK int conn_step(struct conn *conn, sqlite3_stmt *statement, struct pr_error *reterr);
/* Binds and runs to the end; *ret_changed (may be NULL) counts changed rows. */
PR_MUST_CHECK int conn_do(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                          int *ret_changed, struct pr_error *reterr);
/* The first column of the first row.  Outcome PR_UNKNOWN: no row, *ret untouched. */
PR_MUST_CHECK int conn_int(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                           int64_t *ret, struct pr_error *reterr);
/* The table of a box, borrowed until the next call; empty for no box.  Fault PR_ESCHEMA: no such box. */
PR_MUST_CHECK int conn_box(struct conn *conn, pr_slice box, struct box_names *ret, struct pr_error *reterr);
/* Runs several statements without caching them. */
PR_MUST_CHECK int conn_script(struct conn *conn, const char *sql, struct pr_error *reterr);

/* Does another file have the database's name now, or none? */
bool conn_is_replaced(const struct conn *conn);

/* If another file has taken the database's name, it is opened first.  A writing transaction takes the write lock at
 * once.  After a failed commit nothing has changed, and the transaction is over. */
PR_MUST_CHECK int conn_begin(struct conn *conn, bool write, struct pr_error *reterr);
PR_MUST_CHECK int conn_commit(struct conn *conn, struct pr_error *reterr);
void conn_rollback(struct conn *conn); /* no-op without a transaction */

/* Once the log has grown by `pages`: copies its content into the database, as far as readers allow.  A long log is
 * restarted from its beginning, which blocks writers for a moment. */
void conn_checkpoint(struct conn *conn, int pages);

/* Selects the table of a box (?1), or no row. */
extern const char SQL_BOX_TABLE[];
int box_fault(const char *path, pr_slice box, struct pr_error *reterr);

/* Turns an SQLite result into a fault, with advice. */
int sqlite_fault(sqlite3 *db, int rc, const char *path, struct pr_error *reterr);

struct buf;
void sql_expand(struct buf *b, const char *sql, struct box_names names);    /* replaces {box} and so on */
int value_bind(sqlite3_stmt *statement, int at, const struct value *value); /* an SQLite result */

/* Bytes of a column, borrowed until the next step. */
pr_slice column_slice(sqlite3_stmt *statement, int column);

#endif
