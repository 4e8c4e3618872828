/* conn.h - one connection to the database: prepared statements by their text, bounded
 * waiting for the write lock, and faults in words.
 *
 * In SQL texts '{box}' is the name of a box, "{box}" its table ({table} is the table's bare name), and what all boxes share is
 * {prefix}name; names are valid identifiers (name_is_valid), values are always parameters.
 *
 * Threads: a thread that uses a connection holds it (conn_lock).  An in-memory database has one
 * connection for everybody. */
#ifndef STORE_SQLITE_CONN_H
#define STORE_SQLITE_CONN_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/map.h"
#include "base/util.h"
#include "core/message.h"
#include "store/sql.h"

struct sqlite_location { /* where a database is and how to use it; from the URL */
    char *path;          /* owned; ":memory:" is in memory */
    bool memory;
    bool full;       /* synchronous=full */
    int64_t busy_us; /* how long to wait for somebody else's lock */
};

#define CONN_MADE_MAX 8

/* A box by its name, and the table that it has. */
struct box_names {
    pr_slice box, table;
};

struct conn {
    pthread_mutex_t lock;
    sqlite3 *db;
    const struct sqlite_location *location; /* borrowed */
    struct map statements;                  /* struct conn_statement */
    sqlite3_stmt *made[CONN_MADE_MAX];      /* put together from parts: the latest few */
    unsigned made_next;
    int64_t busy_since_us, busy_us; /* how long to wait for a lock */
    int wal_pages;                  /* in the log after the latest commit of ours */
    int wal_tried;                  /* ... when a checkpoint was tried last */
    int wal_pressed;                /* ... when others were made to wait for one */
    int users;                      /* conn_share(): closed with the last of them */
    struct file_name {              /* which files these are, whatever has their names now */
        uint64_t device, number;
    } file, log, index;           /* the database, -wal, -shm */
    uint64_t generation;          /* raised when another file was opened (conn_follow) */
    char table[BOX_NAME_MAX + 1]; /* that conn_box() found */
};

/* create: the file may be made.  Fault PR_ESCHEMA: there is no such file. */
PR_MUST_CHECK int conn_open(const struct sqlite_location *location, bool create, struct conn **ret_conn,
                            struct pr_error *reterr);
void conn_close(struct conn *conn); /* NULL is fine */
struct conn *conn_share(struct conn *conn);
/* Somebody else's connection, for a few statements inside its transaction; its settings are left as they are. */
void conn_borrow(struct conn *conn, sqlite3 *db, const struct sqlite_location *location);
void conn_give_back(struct conn *conn);

void conn_lock(struct conn *conn);
void conn_unlock(struct conn *conn);

/* The statement of this text, reset and bound; it belongs to the connection. */
PR_MUST_CHECK int conn_bind(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                            sqlite3_stmt **ret_statement, struct pr_error *reterr);
/* The same for a text that was put together.  The caller resets it, and then it is good until the
 * next one is made. */
PR_MUST_CHECK int conn_bind_made(struct conn *conn, const char *sql, const struct value *values, size_t count,
                                 sqlite3_stmt **ret_statement, struct pr_error *reterr);
/* STEP_ROW; STEP_DONE, and it is reset; or a fault, and it is reset. */
PR_MUST_CHECK int conn_step(struct conn *conn, sqlite3_stmt *statement, struct pr_error *reterr);
/* Bind and run to the end; *ret_changed (may be NULL) counts changed rows. */
PR_MUST_CHECK int conn_do(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                          int *ret_changed, struct pr_error *reterr);
/* The first column of the first row.  Outcome PR_UNKNOWN: no row, *ret untouched. */
PR_MUST_CHECK int conn_int(struct conn *conn, const char *sql, pr_slice box, const struct value *values, size_t count,
                           int64_t *ret, struct pr_error *reterr);
/* The table of a box, borrowed until the next call; of no box: none.  Fault PR_ESCHEMA: there is no such box. */
PR_MUST_CHECK int conn_box(struct conn *conn, pr_slice box, struct box_names *ret, struct pr_error *reterr);
/* Several statements, not kept. */
PR_MUST_CHECK int conn_script(struct conn *conn, const char *sql, struct pr_error *reterr);

/* Is the file that has the name now another one than this connection's, or none? */
bool conn_is_replaced(const struct conn *conn);

/* A file that took the name of ours is opened first.  A writing transaction takes the write lock at once.  After a fault of commit nothing has
 * changed, and the transaction is over. */
PR_MUST_CHECK int conn_begin(struct conn *conn, bool write, struct pr_error *reterr);
PR_MUST_CHECK int conn_commit(struct conn *conn, struct pr_error *reterr);
void conn_rollback(struct conn *conn); /* fine when there is none */

/* Once the log has grown by `pages`: move what is in it into the database, as far as
 * nobody is in the way.  A log that has become long is begun from its start again: writers wait for a moment. */
void conn_checkpoint(struct conn *conn, int pages);

/* Which table a box (?1) has, and that there is none. */
extern const char SQL_BOX_TABLE[];
int box_fault(const char *path, pr_slice box, struct pr_error *reterr);

/* Sum up an SQLite result of this database as a fault, with what to do about it. */
int sqlite_fault(sqlite3 *db, int rc, const char *path, struct pr_error *reterr);

struct buf;
void sql_expand(struct buf *b, const char *sql, struct box_names names);    /* {box} becomes the name, and so on */
int value_bind(sqlite3_stmt *statement, int at, const struct value *value); /* an SQLite result */

/* Bytes of a column, borrowed until the next step. */
pr_slice column_slice(sqlite3_stmt *statement, int column);

#endif
