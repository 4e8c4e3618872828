/* sql.h - the port between people's side (store/people) and a database.
 *
 * A question is one transaction:
 *
 *     struct sql sql = { .reterr = reterr };
 *     int rc = sql_begin(&sql, store, SQL_LOOK);
 *     if (rc == PR_OK)
 *         rc = sql_run(&sql, SQL_audit, NO_BOX, VALUES(V_INT(10)), &rows);
 *     while (rc == PR_OK && (rc = rows_step(&rows)) > 0) ... row_number(&rows, 0) ...
 *     rows_end(&rows);
 *     sql_end(&sql);
 *
 * A statement has a name; its texts, one for each database, stand side by side in people/statement_list.h.  The port
 * translates what the databases have in common but write differently: ids (blob or text, uuid), times (numbers,
 * timestamptz; here Unix microseconds, 0 is NULL and PR_NEVER is infinity), arrays, messages.
 *
 * In a text {box} stands for the table of the box in the call, {prefix} for what precedes the name of a table that all
 * boxes share, and {message} for the columns of a message ({message_brief}: without its payload); ?1, ?2, ... are the
 * values, and ?2 is the largest payload where there is one.
 *
 * Threads: the thread that called sql_begin() owns the store's connection for people until sql_end(). */
#ifndef STORE_SQL_H
#define STORE_SQL_H

#include "base/arena.h"
#include "base/util.h"
#include "core/message.h"
#include "store/people/statements.h"

/* ---- Values -------------------------------------------------------------------------------- */

/* A value to be bound; its pointers are borrowed until the statement has ended. */
struct value {
    enum {
        VALUE_NULL,
        VALUE_INT,
        VALUE_BOOL,
        VALUE_TIME,
        VALUE_TEXT,
        VALUE_BLOB,
        VALUE_PAYLOAD,
        VALUE_ID,
        VALUE_INTS,
        VALUE_TEXTS,
        VALUE_IDS,
    } type;
    int64_t number;   /* of an array: its length */
    pr_slice bytes;   /* for an id: its bytes */
    const void *list; /* int64_t, pr_slice, pr_id */
};

#define V_NULL ((struct value){ .type = VALUE_NULL })
#define V_INT(n) ((struct value){ .type = VALUE_INT, .number = (int64_t)(n) })
#define V_BOOL(b) ((struct value){ .type = VALUE_BOOL, .number = (b) })
#define V_TIME(us) ((struct value){ .type = VALUE_TIME, .number = (us) }) /* 0: NULL */
#define V_TEXT(s) ((struct value){ .type = VALUE_TEXT, .bytes = (s) })
#define V_TEXT_OR_NULL(s) value_text_or_null(s) /* empty: NULL */
#define V_BLOB(s) ((struct value){ .type = VALUE_BLOB, .bytes = (s) })
#define V_PAYLOAD(s) ((struct value){ .type = VALUE_PAYLOAD, .bytes = (s) }) /* must be the last value */
#define V_ID(id) ((struct value){ .type = VALUE_ID, .bytes = PR_BYTES((const char *)(id).bytes, sizeof((id).bytes)) })
#define V_INTS(l, n) ((struct value){ .type = VALUE_INTS, .number = (int64_t)(n), .list = (l) })
#define V_TEXTS(l, n) ((struct value){ .type = VALUE_TEXTS, .number = (int64_t)(n), .list = (l) })
#define V_IDS(l, n) ((struct value){ .type = VALUE_IDS, .number = (int64_t)(n), .list = (l) })

/* The values of a call, as pointer and count. */
#define VALUES(...) (const struct value[]){ __VA_ARGS__ }, ARRAY_LENGTH(((const struct value[]){ __VA_ARGS__ }))
#define NO_VALUES NULL, 0

static inline struct value value_text_or_null(pr_slice s)
{
    return s.size > 0 ? V_TEXT(s) : V_NULL;
}

/* ---- The port ------------------------------------------------------------------------------ */

struct change;
struct ended;
struct endpoint_state;
struct row_order;
struct sql_ops;
struct store;
struct store_facts;

/* A transaction on the connection for people. */
struct sql {
    const struct sql_ops *ops;
    void *store; /* the implementation's own */
    void *connection;
    struct pr_error *reterr;  /* gets the reason when a call fails */
    size_t payload_max;       /* largest payload of a message */
    int64_t wall_us, mono_us; /* the store's clocks; 0: the database's own clock is used */
    pr_slice boot;            /* leases are valid within one boot; empty where they use the database's clock */
};

/* The result of a statement, row by row.  Texts are valid until the next step.  When two statements run at once, the
 * one that began last must end first. */
struct rows {
    struct sql *sql;
    void *statement; /* NULL: the statement has ended */
    int at, count;
    size_t mark;
    struct arena scratch; /* memory for the current row's message */
    bool has_scratch;
};

/* Is there another row? */
enum step_outcome { STEP_DONE = 0, STEP_ROW = 1 };

/* A batch of changes: to rows of one box, or to dead letters. */
struct sql_changes {
    const pr_slice *boxes; /* the box of each */
    bool dead;
    const struct row_order *order; /* dead letters: for FATE_COPIED */
    const struct change *list;
    size_t count;
    int64_t now_us;
    struct arena *arena; /* memory for the duration of the batch */
    int *answers;        /* PR_OK, or why it was not changed */
    uint64_t *rows;      /* dead letters: the row that it became in its box; 0: none */
};

/* The purpose of a transaction. */
enum sql_purpose {
    SQL_LOOK,     /* it reads; on a server all its statements see the same snapshot */
    SQL_GLANCE,   /* it reads, in a single statement */
    SQL_REHEARSE, /* it finds what an order would change, as the order does, and may lock it; it is never committed */
    SQL_WRITE
};

struct sql_ops {
    enum dialect dialect;
    int message_columns; /* number of columns of {message}, which come first */
    bool finds_by_lane;  /* rows of a box have an index for each lane, and none over all lanes */
    /* Rows are locked one by one: PR_EBUSY means that another transaction held some of them for too long. */
    bool locks_rows;

    /* Fills in the rest of sql.  After a fault sql_end() is not needed. */
    int (*begin)(void *store, enum sql_purpose purpose, struct sql *sql);
    /* Also wakes the sessions of this process; PR_EUNCERTAIN: it may have been committed. */
    int (*commit)(struct sql *sql);
    void (*end)(struct sql *sql);       /* rolls back what was not committed */
    bool (*may_retry)(struct sql *sql); /* after a fault, before end(): may the whole transaction be tried again? */

    /* text: a constant of the program (identified by its address), or, with made, a text that was composed. */
    int (*run)(struct sql *sql, const char *text, bool made, pr_slice box, const struct value *values, size_t count,
               struct rows *ret);
    int (*step)(struct rows *rows); /* enum step_outcome, or a fault */
    void (*rows_end)(struct rows *rows);
    bool (*is_null)(const struct rows *rows, int column);
    int64_t (*number)(const struct rows *rows, int column); /* also of a boolean; NULL: 0 */
    int64_t (*time)(const struct rows *rows, int column);   /* NULL: 0 */
    pr_slice (*text)(const struct rows *rows, int column);  /* NULL: empty */
    pr_id (*id)(const struct rows *rows, int column);       /* NULL or damaged: zero */
    int (*message)(struct rows *rows, struct pr_message *ret, unsigned *ret_lane, const char **ret_bad);

    /* Changes rows that were found in this transaction. */
    int (*apply)(struct sql *sql, const struct sql_changes *changes);
    /* Writes discarded messages and their author to the ledger (core/ended.h).  The arena is scratch memory. */
    int (*ended)(struct sql *sql, const struct ended *list, size_t count, pr_slice by, int64_t now_us,
                 struct arena *arena);
    /* Inserts messages into a box; answers: PR_OK or PR_DUPLICATE each. */
    int (*insert)(struct sql *sql, pr_slice box, const struct pr_message *messages, size_t count, int64_t now_us,
                  int *answers);
    int (*endpoints)(struct sql *sql, struct arena *arena, struct endpoint_state **ret, size_t *ret_count);
    int (*facts)(struct sql *sql, struct arena *arena, struct store_facts *ret,
                 int64_t *ret_now_us); /* works also without tables */
};

#define NO_BOX ((pr_slice){ NULL, 0 })

PR_MUST_CHECK int sql_begin(struct sql *sql, const struct store *store, enum sql_purpose purpose);
PR_MUST_CHECK static inline int sql_commit(struct sql *sql)
{
    return sql->ops->commit(sql);
}
static inline void sql_end(struct sql *sql)
{
    sql->ops->end(sql);
}

PR_MUST_CHECK static inline int sql_run_text(struct sql *sql, const char *text, pr_slice box,
                                             const struct value *values, size_t count, struct rows *ret)
{
    return sql->ops->run(sql, text, true, box, values, count, ret);
}
PR_MUST_CHECK int sql_run(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values,
                          size_t count, struct rows *ret);
/* Runs the statement to its end, ignoring rows. */
PR_MUST_CHECK int sql_do(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values,
                         size_t count);
/* The first column of the first row.  Outcome PR_UNKNOWN: no row; *ret is untouched. */
PR_MUST_CHECK int sql_number(struct sql *sql, enum sql_statement statement, pr_slice box, const struct value *values,
                             size_t count, int64_t *ret);

/* The store's time. */
PR_MUST_CHECK int sql_now(struct sql *sql, int64_t *ret_us);

/* enum step_outcome, or a fault. */
PR_MUST_CHECK static inline int rows_step(struct rows *rows)
{
    return rows->sql->ops->step(rows);
}
void rows_end(struct rows *rows); /* safe to call twice, and on rows that were never begun */

static inline int64_t row_number(const struct rows *rows, int column)
{
    return rows->sql->ops->number(rows, column);
}
static inline int64_t row_time(const struct rows *rows, int column)
{
    return rows->sql->ops->time(rows, column);
}
static inline pr_slice row_text(const struct rows *rows, int column)
{
    return rows->sql->ops->text(rows, column);
}
static inline pr_id row_id(const struct rows *rows, int column)
{
    return rows->sql->ops->id(rows, column);
}
static inline bool row_is_null(const struct rows *rows, int column)
{
    return rows->sql->ops->is_null(rows, column);
}
/* The message at the beginning of the row; other columns begin at rows_after_message(). */
PR_MUST_CHECK static inline int row_message(struct rows *rows, struct pr_message *ret, unsigned *ret_lane,
                                            const char **ret_bad)
{
    return rows->sql->ops->message(rows, ret, ret_lane, ret_bad);
}
static inline int rows_after_message(const struct rows *rows)
{
    return rows->sql->ops->message_columns;
}

#endif
