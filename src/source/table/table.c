/* The transaction that moves rows, and the loop around it; see table.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/table/table.h"

#define ARENA_BLOCK 65536
#define TROUBLE_FIRST_US PR_MILLISECONDS(50) /* after a fault: growing up to the latter */
#define TROUBLE_LAST_US PR_SECONDS(5)
#define HOLDER_LOOK_US PR_SECONDS(2)
#define HOLDER_LONG_US PR_SECONDS(6) /* other instances hold it only for one transaction */
#define LEFT_US PR_SECONDS(60)       /* a row that the database refuses is skipped for this time */
#define LEFT_MAX 100                 /* skipped rows: if there are more, the table is in trouble and not the rows */

enum {
    ARRAY_CREATED,
    ARRAY_TABLES,
    ARRAY_PLACES,
    ARRAY_LEFT,
    ARRAY_DEAD_TABLES,
    ARRAY_DEAD_PLACES,
    ARRAY_ALL_TABLES,
    ARRAY_ALL_PLACES,
    ARRAY_COUNT
};

struct moved {
    struct source_counts counts;
    bool left;           /* a row that the database refuses for now is still in the table */
    struct pr_error why; /* ... since */
    bool more;           /* there may be more: move again at once */
};

struct mover {
    struct source *source;
    struct postgres_store *store;
    const struct adoption *adoption;
    struct link *link;
    struct arena arena;   /* of one move */
    struct adopt_sql sql; /* select NULL: the table must be checked first */
    struct adopt_mapping mapping;
    struct batch batch;
    struct bury bury; /* rows that are not messages */
    struct array arrays[ARRAY_COUNT];
    bool kept;    /* the latest rows could not be marked: the database refuses that */
    size_t limit; /* rows in the next transaction: fewer after the database refused one of them */

    struct holder { /* holder of the lock, when nothing could be taken */
        int pid;    /* 0: none */
        char transaction[32];
        int64_t since_us, look_us;
    } holder;

    char (*left)[24]; /* places of skipped rows */
    size_t left_count;
    int64_t left_until_us;
};

/* ---- Open and close ------------------------------------------------------------------------------ */

static void table_close(void *self)
{
    struct mover *a = self;
    link_free(a->link);
    arena_fini(&a->arena);
    adopt_sql_fini(&a->sql);
    batch_fini(&a->batch);
    bury_fini(&a->bury);
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        array_fini(&a->arrays[i]);
    free(a->left);
    free(a);
}

static int check(struct mover *a, struct pr_error *reterr)
{
    struct adopt_report report;
    int rc = adopt_check(a->source->store, a->adoption, &a->arena, &report, reterr);
    const struct adopt_finding *error = rc == PR_OK ? adopt_report_error(&report) : NULL;
    return error == NULL ? rc : error_set(reterr, PR_ECONFIG, "source %s: %s", a->adoption->table, error->text);
}

static int table_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    struct postgres_store *store = source->store->self;
    const struct adoption *adoption = &source->config->table;
    struct mover *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %s", adoption->table);
    a->source = source;
    a->store = store;
    a->adoption = adoption;
    a->limit = max_size(adoption->batch, 1);
    arena_init(&a->arena, ARENA_BLOCK);
    batch_init(&a->batch);
    bury_init(&a->bury);
    for (size_t i = 0; i < ARRAY_COUNT; i++)
        array_init(&a->arrays[i]);
    a->link = link_new(&store->conninfo, LINK_PEOPLE, store->log);
    a->left = calloc(LEFT_MAX, sizeof(a->left[0]));
    int rc = a->link != NULL && a->left != NULL ? check(a, reterr)
                                                : error_set(reterr, PR_ENOMEM, "out of memory for %s", adoption->table);
    if (rc == PR_OK)
        *ret_self = a;
    else
        table_close(a);
    return rc;
}

/* ---- Looking at the table --------------------------------------------------------------------- */

/* Does everything exist that the statements need?  Fault PR_ECONFIG with what is missing. */
static int look(struct mover *a, struct pr_error *reterr)
{
    struct foreign_table table;
    struct adopt_report report = { .backlog = -1 };
    int rc = link_learn(a->link, reterr);
    if (rc == PR_OK && link_table(a->link, slice_from(a->adoption->box)).size == 0)
        return error_set(reterr, PR_ESCHEMA, "unknown box \"%s\": run postrider init", a->adoption->box);
    if (rc == PR_OK)
        rc = foreign_load(a->link, a->adoption, &a->arena, &table, reterr);
    if (rc != PR_OK)
        return rc;
    foreign_judge(a->adoption, &table, a->store->conninfo.schema, &a->arena, &report);
    const struct adopt_finding *error = adopt_report_error(&report);
    if (error != NULL)
        return error_set(reterr, PR_ECONFIG, "%s", error->text);
    rc = adopt_sql_make(a->adoption, &table, a->link, &a->sql, reterr);
    if (rc == PR_OK)
        adopt_mapping_init(&a->mapping, a->adoption);
    return rc;
}

/* ---- Rows that are left alone ------------------------------------------------------------------- */

static void left_forget_old(struct mover *a)
{
    if (clock_mono_us(clock_system()) >= a->left_until_us)
        a->left_count = 0;
}

static bool left_add(struct mover *a, pr_slice place)
{
    if (a->left_count == LEFT_MAX)
        return false;
    if (a->left_count == 0)
        a->left_until_us = time_add(clock_mono_us(clock_system()), LEFT_US);
    snprintf(a->left[a->left_count++], sizeof(a->left[0]), "%.*s", SLICE_ARGS(place));
    return true;
}

/* ---- Taking ------------------------------------------------------------------------------------ */

/* The first rows in order are requested.  A planner without good statistics would fetch all waiting rows, and sort
 * them. */
static const char IN_ORDER[] = "SELECT set_config('enable_bitmapscan', 'off', true)";

static int take(struct mover *a, PGresult **ret, struct pr_error *reterr)
{
    struct array *left = &a->arrays[ARRAY_LEFT];
    struct args args;
    array_begin(left, OID_TEXT);
    for (size_t i = 0; i < a->left_count; i++)
        array_text(left, slice_from(a->left[i]));
    adopt_select_args(a->adoption, left, (int64_t)a->limit, &args);
    link_add_begin(a->link);
    link_add(a->link, IN_ORDER, NO_BOX, NULL, NULL);
    link_add_text(a->link, a->sql.select, &args, ret);
    return link_run(a->link, reterr);
}

/* Nothing could be taken: does another session keep the lock?  An instance with the same role works normally while the
 * name of its transaction changes; another role should never hold it.  Fault PR_EBUSY: the table does not move because
 * of it. */
static int check_holder(struct mover *a, struct pr_error *reterr)
{
    struct holder *h = &a->holder;
    const struct args none = { .count = 0 };
    PGresult *r = NULL;
    int64_t now_us = clock_mono_us(clock_system());
    if (now_us < h->look_us)
        return PR_OK;
    h->look_us = now_us + HOLDER_LOOK_US;
    link_add_text(a->link, a->sql.holder, &none, &r);
    int rc = link_run(a->link, reterr);
    if (rc != PR_OK || PQntuples(r) == 0) {
        h->pid = 0;
        return rc;
    }
    int pid = field_int(r, 0, 0);
    pr_slice role = field_slice(r, 0, 1), program = field_slice(r, 0, 2), transaction = field_slice(r, 0, 4);
    if (pid != h->pid || (!field_bool(r, 0, 3) && !slice_eq_cstr(transaction, h->transaction)))
        h->since_us = now_us;
    h->pid = pid;
    (void)snprintf(h->transaction, sizeof(h->transaction), "%.*s", SLICE_ARGS(transaction));
    if (now_us - h->since_us < HOLDER_LONG_US)
        return PR_OK;
    h->look_us = 0; /* the trouble ends when the lock does */
    return error_set(reterr, PR_EBUSY, ADOPT_LOCK_HELD, a->adoption->table, pid, SLICE_ARGS(role), SLICE_ARGS(program),
                     pid);
}

static int read_rows(struct mover *a, const PGresult *result, struct adopt_row *rows, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (int i = 0; i < PQntuples(result) && rc == PR_OK; i++)
        rc = adopt_row_read(&a->mapping, &a->sql, result, i, &a->arena, &rows[i], reterr);
    return rc;
}

/* ---- Storing ----------------------------------------------------------------------------------- */

/* From here on rows are found by their places only, whatever the planner believes about the table. */
static const char PLACES_ONLY[] = "SELECT set_config('enable_seqscan', 'off', true)";

static void add_insert(struct mover *a, const struct adopt_row *rows, size_t count, PGresult **ret)
{
    struct array *created = &a->arrays[ARRAY_CREATED], *tables = &a->arrays[ARRAY_TABLES],
                 *places = &a->arrays[ARRAY_PLACES];
    struct args args;
    batch_begin(&a->batch, a->link->pg);
    array_begin(created, OID_TIME);
    array_begin(tables, OID_INT8);
    array_begin(places, OID_TEXT);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].bad != NULL)
            continue;
        batch_add(&a->batch, &rows[i].m);
        array_time(created, rows[i].m.created_us);
        array_i64(tables, rows[i].table);
        array_text(places, rows[i].place);
    }
    batch_args(&a->batch, 0, &args);
    arg_array(&args, created);
    arg_array(&args, tables);
    arg_array(&args, places);
    link_add_text(a->link, a->sql.insert, &args, ret);
}

static int add_dead_row(struct mover *a, const struct adopt_row *row, int64_t now_us)
{
    pr_slice error =
        arena_printf(&a->arena, "%s, id %.*s: %s", a->adoption->table, (int)min_size(row->foreign_id.size, 200),
                     row->foreign_id.size > 0 ? row->foreign_id.data : "", row->bad);
    array_i64(&a->arrays[ARRAY_DEAD_TABLES], row->table);
    array_text(&a->arrays[ARRAY_DEAD_PLACES], row->place);
    return error.data != NULL ? bury_add(&a->bury, &row->m, error, slice_from(row->bad), row->note, now_us) : PR_ENOMEM;
}

/* Rows that are not messages become dead letters. */
static int add_dead(struct mover *a, const struct adopt_row *rows, size_t count, PGresult **ret)
{
    struct args args;
    int rc = PR_OK;
    bury_begin(&a->bury, a->link->pg);
    array_begin(&a->arrays[ARRAY_DEAD_TABLES], OID_INT8);
    array_begin(&a->arrays[ARRAY_DEAD_PLACES], OID_TEXT);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        if (rows[i].bad != NULL)
            rc = add_dead_row(a, &rows[i], clock_wall_us(clock_system()));
    if (rc != PR_OK || a->bury.count == 0)
        return rc;
    bury_args(&a->bury, 0, &args);
    arg_array(&args, &a->arrays[ARRAY_DEAD_TABLES]);
    arg_array(&args, &a->arrays[ARRAY_DEAD_PLACES]);
    link_add_text(a->link, a->sql.bury, &args, ret);
    return PR_OK;
}

static void add_done(struct mover *a, const struct adopt_row *rows, size_t count, PGresult **ret)
{
    struct array *tables = &a->arrays[ARRAY_ALL_TABLES], *places = &a->arrays[ARRAY_ALL_PLACES];
    struct args args;
    array_begin(tables, OID_INT8);
    array_begin(places, OID_TEXT);
    for (size_t i = 0; i < count; i++) {
        array_i64(tables, rows[i].table);
        array_text(places, rows[i].place);
    }
    adopt_done_args(a->adoption, tables, places, &args);
    link_add_text(a->link, a->sql.done, &args, ret);
}

/* Messages, dead letters and marks; not committed yet. */
static int store(struct mover *a, const struct adopt_row *rows, size_t count, struct moved *moved,
                 struct pr_error *reterr)
{
    PGresult *stored = NULL, *dead = NULL, *done = NULL;
    a->kept = false;
    link_add(a->link, PLACES_ONLY, NO_BOX, NULL, NULL);
    add_insert(a, rows, count, &stored);
    int rc = add_dead(a, rows, count, &dead);
    if (rc != PR_OK)
        return error_set(reterr, rc, "out of memory for rows of %s", a->adoption->table);
    add_done(a, rows, count, &done);
    rc = link_run(a->link, reterr);
    if (rc != PR_OK)
        return rc;
    /* A trigger or a policy may prevent the marks; the rows would be moved again and again. */
    a->kept = strtoull(PQcmdTuples(done), NULL, 10) != count;
    if (a->kept)
        return error_set(reterr, PR_ESTORE,
                         "of %zu rows of %s only %s could be marked as done: check its triggers and policies", count,
                         a->adoption->table, PQcmdTuples(done));
    moved->counts.dead = dead != NULL ? (size_t)field_i64(dead, 0, 0) : 0;
    moved->counts.stored = (size_t)PQntuples(stored);
    moved->counts.duplicates = count - moved->counts.stored - moved->counts.dead;
    return PR_OK;
}

/* ---- The move ---------------------------------------------------------------------------------- */

static bool state_begins(const struct link *link, const char *with)
{
    return strncmp(link->state, with, strlen(with)) == 0;
}

/* Some row is refused: tries fewer at a time, until it is alone; then it is skipped. */
static int refused(struct mover *a, const struct adopt_row *rows, size_t count, struct moved *moved,
                   const struct pr_error *why, struct pr_error *reterr)
{
    moved->more = true;
    if (count > 1) {
        a->limit = count / 2;
        return PR_OK;
    }
    if (!left_add(a, rows[0].place))
        return error_set(reterr, why->code, "more than %d rows are refused: %s", LEFT_MAX, why->text);
    moved->left = true;
    error_set(&moved->why, why->code, "the row with id %.*s is skipped: %s", (int)min_size(rows[0].foreign_id.size, 64),
              rows[0].foreign_id.size > 0 ? rows[0].foreign_id.data : "", why->text);
    return PR_OK;
}

static int move_rows(struct mover *a, const PGresult *taken, struct moved *moved, struct pr_error *reterr)
{
    size_t count = (size_t)PQntuples(taken);
    struct adopt_row *rows = arena_alloc_array(&a->arena, count, sizeof(*rows));
    struct pr_error why;
    if (rows == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for rows of %s", a->adoption->table);
    int rc = read_rows(a, taken, rows, reterr);
    if (rc != PR_OK)
        return rc;
    rc = store(a, rows, count, moved, &why);
    FAILPOINT("adopt.before_commit");
    if (rc == PR_OK) {
        link_add_commit(a->link);
        rc = link_run(a->link, &why);
    }
    FAILPOINT("adopt.after_commit");
    if (rc != PR_OK) {
        *moved = (struct moved){ .more = false };
        return a->kept || link_is_refusal(a->link) ? refused(a, rows, count, moved, &why, reterr)
                                                   : error_set(reterr, rc, "%s", why.text);
    }
    moved->more = count >= a->limit;
    a->limit = min_size(2 * a->limit, max_size(a->adoption->batch, 1));
    return PR_OK;
}

static int try_move(struct mover *a, struct moved *moved, struct pr_error *reterr)
{
    PGresult *taken = NULL;
    int rc = link_ensure(a->link, reterr);
    if (rc == PR_OK && a->sql.select == NULL)
        rc = look(a, reterr);
    if (rc == PR_OK)
        rc = take(a, &taken, reterr);
    if (rc == PR_OK && PQntuples(taken) > 0)
        rc = move_rows(a, taken, moved, reterr);
    else if (rc == PR_OK)
        rc = check_holder(a, reterr);
    link_rollback(a->link);
    return rc;
}

/* Moves waiting rows into their box and marks them, in one transaction: each committed row becomes exactly one message,
 * whatever other instances do, and however often it is tried. */
static int move(struct mover *a, struct moved *ret, struct pr_error *reterr)
{
    *ret = (struct moved){ .more = false };
    left_forget_old(a);
    arena_reset(&a->arena);
    int rc = try_move(a, ret, reterr);
    /* The table has changed: report what is missing, and check again next time. */
    if (rc != PR_OK && state_begins(a->link, "42")) {
        adopt_sql_fini(&a->sql);
        if (link_ensure(a->link, NULL) == PR_OK) {
            struct pr_error better;
            int again = look(a, &better);
            if (again != PR_OK)
                rc = error_set(reterr, again, "%s", better.text);
        }
    }
    link_forget(a->link);
    if (ret->counts.stored > 0)
        pg_store_wake(a->store);
    return rc;
}

/* ---- The loop ------------------------------------------------------------------------------------ */

static void tell_trouble(struct mover *a, const struct pr_error *trouble)
{
    if (source_trouble(a->source, trouble))
        log_emit(a->source->log, LOG_WARN, "source_trouble", LOG_STR("table", a->adoption->table),
                 LOG_STR("error", trouble->text));
}

static void tell_moved(struct mover *a, const struct moved *moved)
{
    const struct log *log = a->source->log;
    const struct source_counts *c = &moved->counts;
    const char *table = a->adoption->table, *box = a->adoption->box;
    if (c->stored + c->duplicates + c->dead > 0)
        source_moved(a->source, c);
    if (c->stored + c->duplicates > 0)
        log_emit(log, LOG_DEBUG, "adopted", LOG_STR("table", table), LOG_STR("box", box), LOG_INT("stored", c->stored),
                 LOG_INT("duplicates", c->duplicates));
    if (c->dead > 0)
        log_emit(log, LOG_WARN, "adopted_as_dead_letters", LOG_STR("table", table), LOG_STR("box", box),
                 LOG_INT("count", c->dead));
    if (moved->left) {
        log_emit(log, LOG_WARN, "row_left_alone", LOG_STR("table", table), LOG_STR("error", moved->why.text));
        tell_trouble(a, &moved->why);
    } else if (a->left_count == 0 && source_fine(a->source)) {
        log_emit(log, LOG_INFO, "source_recovered", LOG_STR("table", table));
    }
}

/* Moves once; returns how long to wait: not at all while there is more, shortly after something came, then longer and
 * longer, up to `poll`. */
static int64_t step(struct mover *a, int64_t pause_us)
{
    struct moved moved;
    struct pr_error error = { 0 };
    const int64_t shortest_us = a->source->poll_min_us;
    if (move(a, &moved, &error) != PR_OK) {
        tell_trouble(a, &error);
        return min64(max64(2 * pause_us, TROUBLE_FIRST_US), TROUBLE_LAST_US);
    }
    tell_moved(a, &moved);
    if (moved.more)
        return 0;
    bool busy = moved.counts.stored + moved.counts.duplicates + moved.counts.dead > 0;
    return busy ? shortest_us : min64(max64(2 * pause_us, shortest_us), a->source->config->poll_us);
}

static void table_run(void *self, int wake_fd)
{
    for (int64_t pause_us = 0; !source_rest(wake_fd, pause_us);)
        pause_us = step(self, pause_us);
}

const struct source_ops source_table = {
    .open = table_open,
    .run = table_run,
    .close = table_close,
};
