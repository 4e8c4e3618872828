#include "logbox.h"

#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/scan.h"
#include "pgarray.h"
#include "pgbare.h"

#define READ_MAX 1024 /* rows in one read: about a batch of the engine */
#define XIPS_MAX 4096
#define SNAPSHOT_TEXT_MAX 16384
#define STEPS_MAX 16
#define LOCK_REST_S 0.05
#define LANE 0 /* of the scan: the one cursor of all lanes */

/* ---- Tables -------------------------------------------------------------------------------------- */

#define SENDER_COLUMNS                                                                                                 \
    "id, seq, created_at, expires_at, event, destination, stream, type, source, subject, content_type, headers,"       \
    " correlation_id, causation_id, traceparent, tracestate, payload_bytes, payload"

/* What senders pay for is as in today's box, as far as partitions can have it: the same columns of theirs, defaults, and triggers.  The
 * lane computes itself, since the function that sets it there looks at columns that a log does not have. */
static const char TABLES[] =
    "CREATE SEQUENCE log_seq CACHE 1;"
    "CREATE TABLE log (LIKE outbox INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS)"
    " PARTITION BY LIST (((seq >> %d) & %d));"
    "ALTER TABLE log ALTER COLUMN seq SET DEFAULT nextval('log_seq');"
    "ALTER TABLE log DROP COLUMN row_id, DROP COLUMN due_at, DROP COLUMN failed_at, DROP COLUMN status,"
    " DROP COLUMN attempts, DROP COLUMN failures, DROP COLUMN failure_reason, DROP COLUMN released, DROP COLUMN code,"
    " DROP COLUMN error, DROP COLUMN held_by, DROP COLUMN story, DROP COLUMN held_for, DROP COLUMN parked_by,"
    " DROP COLUMN lane, ADD COLUMN lane smallint NOT NULL GENERATED ALWAYS AS"
    " ((CASE WHEN stream <> '' THEN hashtext(stream) ELSE uuid_hash(id) END & 63)::smallint) STORED;"
    "CREATE TRIGGER log_wake AFTER INSERT ON log FOR EACH STATEMENT WHEN (current_setting('max_prepared_transactions') "
    "= '0'"
    " AND NOT pg_try_advisory_xact_lock_shared(hashtextextended('postrider log', 0))) EXECUTE FUNCTION "
    "wake('postrider.log');"
    "CREATE TRIGGER log_event AFTER INSERT ON log FOR EACH ROW WHEN (NEW.event) EXECUTE FUNCTION append_event();"
    "CREATE TRIGGER log_scheduler AFTER INSERT ON log FOR EACH ROW WHEN (NEW.destination = 'schedule:')"
    " EXECUTE FUNCTION check_scheduler();"
    "CREATE TABLE log_receipt (cycle bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), since bigint NOT NULL,"
    " passed bigint NOT NULL, at0 bigint NOT NULL, seen0 pg_snapshot, at1 bigint, seen1 pg_snapshot,"
    " outcomes bytea NOT NULL, rows bigint[] NOT NULL);"
    "INSERT INTO log_receipt (cycle, since, passed, at0, outcomes, rows) VALUES (0, 0, 0, 0, '', '{}')";

static void run_format(PGconn *pg, const char *format, ...) PR_PRINTF(2, 3);
static void run_format(PGconn *pg, const char *format, ...)
{
    char sql[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    pgbare_run(pg, sql);
}

void logbox_create(PGconn *pg, int shift, bool with_key)
{
    run_format(pg, TABLES, shift, LOG_SEGMENTS - 1);
    for (int i = 0; i < LOG_SEGMENTS; i++) {
        /* It is truncated before a vacuum would be worth anything. */
        run_format(pg, "CREATE TABLE log_%d PARTITION OF log FOR VALUES IN (%d) WITH (autovacuum_enabled = off)", i, i);
        run_format(pg, "CREATE INDEX log_%d_seq ON log_%d (seq)", i, i);
        if (with_key)
            run_format(pg, "CREATE UNIQUE INDEX log_%d_key ON log_%d (id, destination)", i, i);
    }
    run_format(pg, "COMMENT ON TABLE log IS '%d'", shift);
}

/* ---- What a drainer knows ------------------------------------------------------------------------ */

struct log_cursor {
    int64_t passed;
    int64_t at[2];
    char seen[2][SNAPSHOT_TEXT_MAX]; /* "": none */
};

/* Rows that were read together, from one segment, and with them those aside whose time had come. */
struct log_batch {
    int segment;
    size_t count;
    int64_t seqs[READ_MAX];
    unsigned char outcomes[READ_MAX / 8]; /* a bit for each: done, not moved aside */
    struct pg_array failed;               /* seqs */
    struct pg_array aside_rows, aside_ids;
    struct log_cursor cursor;
    int64_t since; /* the receipt that it begins at; -1: the one before its own */
};

struct log_range {
    size_t index; /* in what the scan wants */
    enum scan_range_kind kind;
    const struct snapshot *upto, *unseen;
    int64_t from, to;
    bool is_end; /* not cut by the end of a segment */
    int segment;
};

struct log_drainer {
    PGconn *pg, *keeper;
    log_deliver *deliver;
    void *user;
    int shift;
    struct scan *scan;
    int64_t last; /* of the sequence, at the latest snapshot */
    bool has_round;
    struct log_cursor cursor; /* of what was read */
    int64_t cycle, since;     /* of the last receipt */
    struct log_batch batches[3];
    struct log_batch *out, *next, *read; /* handed out, to be handed out, being read */
    struct log_range range;
    size_t waiting; /* aside, and not read again yet */
    int64_t kept;   /* the first segment that was not looked at, to be truncated */
    double look_at; /* not before this time, since somebody had a lock on it */
    const char *steps[STEPS_MAX];
    int step_count;
    size_t done, repeated, truncated;
    char sink[BENCH_PAYLOAD];
};

/* ---- Snapshots ------------------------------------------------------------------------------------- */

/* "xmin:xmax:xid,xid", and all from its xmax to the next xid (ADR 20). */
static struct snapshot snapshot_parse(const char *text, uint64_t between, uint64_t xips[XIPS_MAX])
{
    char *at;
    struct snapshot s = { .xip = xips };
    s.xmin = strtoull(text, &at, 10);
    uint64_t xmax = strtoull(at + 1, &at, 10);
    s.xmax = xmax + between;
    while (*at != '\0' && at[1] != '\0' && s.xip_count < XIPS_MAX)
        xips[s.xip_count++] = strtoull(at + 1, &at, 10);
    if (s.xip_count + between > XIPS_MAX)
        die("more than %d transactions are open", XIPS_MAX);
    for (uint64_t xid = xmax; xid < s.xmax; xid++)
        xips[s.xip_count++] = xid;
    return s;
}

static void snapshot_print(const struct snapshot *s, char ret[SNAPSHOT_TEXT_MAX])
{
    size_t size = (size_t)snprintf(ret, SNAPSHOT_TEXT_MAX, "%" PRIu64 ":%" PRIu64 ":", s->xmin, s->xmax);
    for (size_t i = 0; i < s->xip_count && size < SNAPSHOT_TEXT_MAX; i++)
        size += (size_t)snprintf(ret + size, SNAPSHOT_TEXT_MAX - size, "%s%" PRIu64, i > 0 ? "," : "", s->xip[i]);
    if (size >= SNAPSHOT_TEXT_MAX)
        die("a snapshot of more than %d bytes", SNAPSHOT_TEXT_MAX);
}

/* ---- What to read ---------------------------------------------------------------------------------- */

/* All that this snapshot can see was read. */
static void round_end(struct log_drainer *d, size_t count, const struct snapshot *upto)
{
    scan_done(d->scan, LANE, count, SCAN_BEGIN);
    d->cursor.at[0] = max64(d->cursor.at[0], d->last);
    snapshot_print(upto, d->cursor.seen[0]);
    d->cursor.seen[1][0] = '\0';
    d->cursor.passed = max64(d->cursor.passed, scan_passed(d->scan, LANE));
    d->has_round = false;
}

/* The next range, as far as it goes in one segment; false: nothing is left of this snapshot. */
static bool range_next(struct log_drainer *d, struct log_range *ret)
{
    struct scan_range ranges[SCAN_RANGES_MAX];
    if (!d->has_round)
        return false;
    size_t count = scan_ranges(d->scan, LANE, ranges);
    for (size_t i = 0; i < count; i++) {
        int64_t from = max64(ranges[i].from, d->cursor.passed + 1), to = min64(ranges[i].to, d->last + 1);
        int64_t segment = from >> d->shift, end = (segment + 1) << d->shift;
        if (from >= to)
            continue;
        *ret = (struct log_range){
            .index = i, .kind = ranges[i].kind, .upto = ranges[i].upto, .unseen = ranges[i].unseen
        };
        ret->from = from;
        ret->to = min64(to, end);
        ret->is_end = to <= end;
        ret->segment = (int)(segment & (LOG_SEGMENTS - 1));
        return true;
    }
    round_end(d, count, ranges[count - 1].upto);
    return false;
}

/* The rows of a range were read to `last`. */
static void range_done(struct log_drainer *d, const struct log_range *range, int64_t last)
{
    bool whole = range->is_end && last == range->to - 1, late = range->kind != SCAN_NEW;
    struct log_cursor *c = &d->cursor;
    size_t at = late && !whole ? 1 : 0;
    snapshot_print(range->upto, c->seen[at]); /* before the scan may forget it */
    if (at == 0)
        c->seen[1][0] = '\0';
    if (!late)
        c->at[0] = max64(c->at[0], last);
    else if (!whole)
        c->at[1] = last;
    scan_done(d->scan, LANE, range->index + whole, whole ? SCAN_BEGIN : last);
    c->passed = max64(c->passed, scan_passed(d->scan, LANE));
}

/* ---- Steps of a transaction -------------------------------------------------------------------------- */

static void step(struct log_drainer *d, const char *name, int count, const char *const *values, const int *lengths,
                 const int *formats, int result_format)
{
    if (!PQsendQueryPrepared(d->pg, name, count, values, lengths, formats, result_format))
        die("log: %s", PQerrorMessage(d->pg));
    d->steps[d->step_count++] = name;
}

static void step_array(struct log_drainer *d, const char *name, const struct pg_array *array)
{
    step(d, name, 1, (const char *[]){ array->bytes }, &array->size, (const int[]){ 1 }, 1);
}

static const char *text_of(int64_t number, char room[24])
{
    snprintf(room, 24, "%" PRId64, number);
    return room;
}

static void step_read(struct log_drainer *d)
{
    static const char *const names[LOG_SEGMENTS] = { "read 0", "read 1", "read 2", "read 3",
                                                     "read 4", "read 5", "read 6", "read 7" };
    static char upto[SNAPSHOT_TEXT_MAX], unseen[SNAPSHOT_TEXT_MAX];
    char from[24], to[24], xmin[24];
    const struct log_range *r = &d->range;
    snapshot_print(r->upto, upto);
    if (r->unseen != NULL)
        snapshot_print(r->unseen, unseen);
    const char *values[] = { text_of(r->from, from), text_of(r->to, to), upto, text_of((int64_t)r->upto->xmin, xmin),
                             r->unseen != NULL ? unseen : NULL };
    step(d, names[r->segment], 5, values, NULL, NULL, 1);
}

static void step_receipt(struct log_drainer *d)
{
    char cycle[24], since[24], passed[24], at[2][24];
    const struct log_cursor *c = &d->next->cursor;
    d->since = d->next->since >= 0 ? d->next->since : d->cycle;
    const char *values[] = { text_of(++d->cycle, cycle),
                             text_of(d->since, since),
                             text_of(c->passed, passed),
                             text_of(c->at[0], at[0]),
                             c->seen[0][0] != '\0' ? c->seen[0] : NULL,
                             c->seen[1][0] != '\0' ? text_of(c->at[1], at[1]) : NULL,
                             c->seen[1][0] != '\0' ? c->seen[1] : NULL,
                             (const char *)d->out->outcomes,
                             d->next->aside_rows.bytes };
    const int lengths[] = { 0, 0, 0, 0, 0, 0, 0, (int)(d->out->count + 7) / 8, d->next->aside_rows.size };
    const int formats[] = { 0, 0, 0, 0, 0, 0, 0, 1, 1 };
    step(d, "receipt", 9, values, lengths, formats, 1);
}

static bool has_rows(const struct log_batch *b)
{
    return b->count > 0 || b->aside_ids.count > 0;
}

/* Outcomes of what is out, the receipt of what is next, and what to read behind it. */
static void send_transaction(struct log_drainer *d, bool reads)
{
    static const char *const moves[LOG_SEGMENTS] = { "move 0", "move 1", "move 2", "move 3",
                                                     "move 4", "move 5", "move 6", "move 7" };
    d->step_count = 0;
    step(d, "begin", 0, NULL, NULL, NULL, 1);
    if (!d->has_round) { /* first, while the transaction has no xid of its own */
        step(d, "last", 0, NULL, NULL, NULL, 0);
        step(d, "round", 0, NULL, NULL, NULL, 0);
    }
    if (reads)
        step_read(d);
    if (d->out->failed.count > 0)
        step_array(d, moves[d->out->segment], &d->out->failed);
    d->waiting += (size_t)d->out->failed.count;
    if (d->out->aside_ids.count > 0)
        step_array(d, "delete", &d->out->aside_ids);
    if (d->waiting > 0 && d->next->aside_ids.count == 0) /* else they would be read again */
        step(d, "due", 0, NULL, NULL, NULL, 1);
    if (has_rows(d->out) || has_rows(d->next))
        step_receipt(d);
    step(d, "commit", 0, NULL, NULL, NULL, 1);
    if (!PQpipelineSync(d->pg))
        die("log: %s", PQerrorMessage(d->pg));
}

/* ---- What comes back --------------------------------------------------------------------------------- */

static int64_t field_seq(const PGresult *r, int row)
{
    uint64_t seq;
    memcpy(&seq, PQgetvalue(r, row, 2), 8);
    return (int64_t)be64toh(seq);
}

static void take_payload(struct log_drainer *d, const PGresult *r, int row)
{
    memcpy(d->sink, PQgetvalue(r, row, 6), min_size((size_t)PQgetlength(r, row, 6), sizeof d->sink));
}

static void batch_clear(struct log_batch *b)
{
    b->count = 0;
    memset(b->outcomes, 0, sizeof b->outcomes);
    pg_array_begin(&b->failed, OID_INT8);
    pg_array_begin(&b->aside_rows, OID_INT8);
    pg_array_begin(&b->aside_ids, OID_UUID);
}

static void take_rows(struct log_drainer *d, struct log_batch *b, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t seq = field_seq(r, i);
        if (strcmp(PQgetvalue(r, i, 5), PGBARE_FLAKY) == 0)
            pg_array_add_i64(&b->failed, seq);
        else
            b->outcomes[b->count / 8] |= (unsigned char)(1u << b->count % 8);
        b->seqs[b->count++] = seq;
        take_payload(d, r, i);
    }
}

static void take_read(struct log_drainer *d, const PGresult *r)
{
    int count = PQntuples(r);
    take_rows(d, d->read, r);
    d->read->segment = d->range.segment;
    range_done(d, &d->range, count == READ_MAX ? field_seq(r, count - 1) : d->range.to - 1);
}

static void take_due(struct log_drainer *d, const PGresult *r)
{
    for (int i = 0; i < PQntuples(r); i++) {
        pg_array_add_i64(&d->read->aside_rows, field_seq(r, i));
        pg_array_add(&d->read->aside_ids, PQgetvalue(r, i, 0), 16);
        take_payload(d, r, i);
    }
    d->waiting -= (size_t)PQntuples(r);
}

static void take_round(struct log_drainer *d, const PGresult *r)
{
    static uint64_t xips[XIPS_MAX];
    struct snapshot now = snapshot_parse(PQgetvalue(r, 0, 0), strtoull(PQgetvalue(r, 0, 1), NULL, 10), xips);
    if (scan_snapshot(d->scan, d->last, &now) != PR_OK)
        die("out of memory");
    d->has_round = true;
}

static void take_result(struct log_drainer *d, const char *name, const PGresult *r)
{
    if (strncmp(name, "read ", 5) == 0)
        take_read(d, r);
    else if (strcmp(name, "due") == 0)
        take_due(d, r);
    else if (strcmp(name, "last") == 0)
        d->last = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    else if (strcmp(name, "round") == 0)
        take_round(d, r);
}

/* ---- Segments ------------------------------------------------------------------------------------------ */

/* False: somebody has a lock on it. */
static bool segment_lock(struct log_drainer *d, int segment)
{
    char sql[128];
    pgbare_run(d->keeper, "BEGIN");
    snprintf(sql, sizeof sql, "LOCK TABLE ONLY log_%d IN ACCESS EXCLUSIVE MODE NOWAIT", segment);
    PGresult *r = PQexec(d->keeper, sql);
    bool locked = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    if (!locked)
        pgbare_run(d->keeper, "ROLLBACK");
    return locked;
}

/* Rows of the next turn of the ring may stand in it; then it is truncated when these were passed, too. */
static void segment_truncate(struct log_drainer *d, int segment, int64_t passed)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT coalesce(max(seq), %" PRId64 ") FROM log_%d", INT64_MAX, segment);
    if (pgbare_number(d->keeper, sql) <= (double)passed) {
        run_format(d->keeper, "TRUNCATE log_%d", segment);
        run_format(d->keeper, "DELETE FROM log_receipt WHERE cycle < %" PRId64, d->since);
        d->truncated++;
    }
    pgbare_run(d->keeper, "COMMIT");
}

/* All at or below this have outcomes on disk. */
static void segments_end(struct log_drainer *d, int64_t passed)
{
    for (int64_t end = (passed + 1) >> d->shift; d->kept < end; d->kept++) {
        int segment = (int)(d->kept & (LOG_SEGMENTS - 1));
        if (seconds_now() < d->look_at)
            return;
        if (!segment_lock(d, segment)) {
            d->look_at = seconds_now() + LOCK_REST_S;
            return;
        }
        segment_truncate(d, segment, passed);
    }
}

/* ---- To begin and to end -------------------------------------------------------------------------------- */

static const char READ[] =
    "SELECT b.id, b.lane, b.seq, b.destination, b.stream, b.type, b.payload FROM log_%d b WHERE b.seq >= $1::bigint"
    " AND b.seq < $2::bigint AND (b.xid < $4::xid8 OR pg_visible_in_snapshot(b.xid, $3::pg_snapshot))"
    " AND ($5::pg_snapshot IS NULL OR NOT pg_visible_in_snapshot(b.xid, $5)) ORDER BY b.seq LIMIT %d";
static const char MOVE[] =
    "INSERT INTO outbox (" SENDER_COLUMNS ", " PGBARE_FATE ") OVERRIDING SYSTEM VALUE"
    " SELECT " SENDER_COLUMNS ", " PGBARE_FATE_FAILED " FROM log_%d WHERE seq = ANY ($1::bigint[])";
static const char RECEIPT[] = "INSERT INTO log_receipt (cycle, since, passed, at0, seen0, at1, seen1, outcomes, rows)"
                              " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
static const char ROUND[] = "SELECT pg_current_snapshot()::text, age(pg_snapshot_xmax(pg_current_snapshot())::xid)";

/* Was a row handed out, as the cursor of a receipt tells it? */
#define HANDED(c)                                                                                                      \
    "(b.seq <= " c ".passed OR (b.seq <= " c ".at0 AND coalesce(pg_visible_in_snapshot(b.xid, " c ".seen0), false))"   \
    " OR (coalesce(b.seq <= " c ".at1 AND pg_visible_in_snapshot(b.xid, " c ".seen1), false)))"
static const char IN_DOUBT[] =
    "SELECT b.id, b.lane, b.seq, b.destination, b.stream, b.type, b.payload FROM log_receipt c"
    " JOIN log_receipt p ON p.cycle = c.since CROSS JOIN log b"
    " WHERE c.cycle = (SELECT max(cycle) FROM log_receipt) AND b.seq > p.passed"
    " AND b.seq <= greatest(c.passed, c.at0, c.at1)"
    " AND " HANDED("c") " AND NOT " HANDED("p") " ORDER BY b.seq";

static void prepare_each(struct log_drainer *d, const char *name, const char *format)
{
    for (int i = 0; i < LOG_SEGMENTS; i++) {
        char name_i[16], sql[2048];
        snprintf(name_i, sizeof name_i, "%s %d", name, i);
        snprintf(sql, sizeof sql, format, i, READ_MAX);
        pgbare_prepare(d->pg, name_i, sql);
    }
}

static void prepare(struct log_drainer *d)
{
    pgbare_run(d->pg,
               "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan");
    pgbare_prepare(d->pg, "begin", "BEGIN");
    pgbare_prepare(d->pg, "last", "SELECT coalesce(pg_sequence_last_value('log_seq'::regclass), 0)");
    pgbare_prepare(d->pg, "round", ROUND);
    prepare_each(d, "read", READ);
    prepare_each(d, "move", MOVE);
    pgbare_prepare(d->pg, "delete", "DELETE FROM outbox WHERE id = ANY ($1::uuid[])");
    pgbare_prepare(d->pg, "due", PGBARE_DUE);
    pgbare_prepare(d->pg, "receipt", RECEIPT);
    pgbare_prepare(d->pg, "commit", "COMMIT");
}

/* What the last receipt has handed out is handed out again: nobody knows what became of it. */
static void resume_in_doubt(struct log_drainer *d, int64_t since)
{
    PGresult *r = pgbare_must(d->pg, PQexecParams(d->pg, IN_DOUBT, 0, NULL, NULL, NULL, NULL, 1));
    if (PQntuples(r) > 0) {
        take_rows(d, d->next, r);
        d->next->segment = (int)(d->next->seqs[0] >> d->shift & (LOG_SEGMENTS - 1));
        d->next->since = since;
        d->repeated += d->next->count;
    }
    d->next->cursor = d->cursor;
    PQclear(r);
}

/* As it was after the read that this cursor tells of. */
static void resume_scan(struct log_drainer *d)
{
    static uint64_t xips[XIPS_MAX];
    const struct log_cursor *c = &d->cursor;
    struct scan_range ranges[SCAN_RANGES_MAX];
    for (int i = 0; i < 2 && c->seen[i][0] != '\0'; i++) {
        struct snapshot seen = snapshot_parse(c->seen[i], 0, xips);
        if (scan_snapshot(d->scan, c->at[0], &seen) != PR_OK)
            die("out of memory");
        if (i == 0)
            scan_done(d->scan, LANE, scan_ranges(d->scan, LANE, ranges), SCAN_BEGIN);
        else
            scan_done(d->scan, LANE, 0, c->at[1]);
    }
}

static void resume(struct log_drainer *d)
{
    PGresult *r = pgbare_must(d->pg, PQexec(d->pg, "SELECT cycle, since, passed, at0, coalesce(at1, 0), seen0, seen1"
                                                   " FROM log_receipt ORDER BY cycle DESC LIMIT 1"));
    int64_t numbers[5];
    for (int i = 0; i < 5; i++)
        numbers[i] = strtoll(PQgetvalue(r, 0, i), NULL, 10);
    d->cycle = numbers[0];
    d->since = numbers[1];
    d->cursor = (struct log_cursor){ .passed = numbers[2], .at = { numbers[3], numbers[4] } };
    for (int i = 0; i < 2; i++)
        snprintf(d->cursor.seen[i], SNAPSHOT_TEXT_MAX, "%s", PQgetvalue(r, 0, 5 + i));
    PQclear(r);
    d->kept = max64(0, (d->cursor.passed >> d->shift) - LOG_SEGMENTS);
    d->waiting = (size_t)pgbare_number(d->pg, "SELECT count(*) FROM outbox WHERE due_at IS NOT NULL");
    resume_scan(d);
    resume_in_doubt(d, d->since);
}

struct log_drainer *logbox_open(const char *database, log_deliver *deliver, void *user)
{
    struct log_drainer *d = calloc(1, sizeof *d);
    if (d == NULL || (d->scan = scan_new(&(struct scan_limits){ .stretch = INT64_MAX })) == NULL)
        die("out of memory");
    d->pg = pgbare_open(database);
    d->keeper = pgbare_open(database);
    d->deliver = deliver;
    d->user = user;
    d->shift = (int)pgbare_number(d->pg, "SELECT obj_description('log'::regclass)");
    d->out = &d->batches[0];
    d->next = &d->batches[1];
    d->read = &d->batches[2];
    for (int i = 0; i < 3; i++) {
        batch_clear(&d->batches[i]);
        d->batches[i].since = -1;
    }
    scan_start(d->scan, LANE);
    resume(d);
    prepare(d);
    if (!PQenterPipelineMode(d->pg))
        die("log: %s", PQerrorMessage(d->pg));
    return d;
}

void logbox_close(struct log_drainer *d)
{
    pgbare_close(d->pg);
    pgbare_close(d->keeper);
    scan_free(d->scan);
    free(d);
}

size_t logbox_done(const struct log_drainer *d)
{
    return d->done;
}

size_t logbox_repeated(const struct log_drainer *d)
{
    return d->repeated;
}

size_t logbox_truncated(const struct log_drainer *d)
{
    return d->truncated;
}

double logbox_server_us(const struct log_drainer *d)
{
    return pgbare_server_us(d->pg) + pgbare_server_us(d->keeper);
}

/* ---- Cycles ------------------------------------------------------------------------------------------------ */

static void take_transaction(struct log_drainer *d)
{
    for (int i = 0; i < d->step_count; i++) {
        PGresult *result = pgbare_must(d->pg, PQgetResult(d->pg));
        take_result(d, d->steps[i], result);
        PQclear(result);
        PQclear(PQgetResult(d->pg)); /* the end of the step */
    }
    PQclear(PQgetResult(d->pg)); /* the end of the batch */
}

/* Its receipt is on disk: now it is sent. */
static bool batch_deliver(struct log_drainer *d, const struct log_batch *b)
{
    d->done += b->count - (size_t)b->failed.count + (size_t)b->aside_ids.count;
    if (d->deliver == NULL)
        return true;
    for (size_t i = 0; i < b->count; i++)
        if ((b->outcomes[i / 8] >> i % 8 & 1) != 0 && !d->deliver(d->user, b->seqs[i]))
            return false;
    for (int i = 0; i < b->aside_rows.count; i++) {
        uint64_t seq;
        memcpy(&seq, b->aside_rows.bytes + 20 + 12 * i + 4, 8);
        if (!d->deliver(d->user, (int64_t)be64toh(seq)))
            return false;
    }
    return true;
}

bool logbox_cycle(struct log_drainer *d)
{
    struct log_batch *told = d->out;
    batch_clear(d->read);
    send_transaction(d, range_next(d, &d->range));
    take_transaction(d);
    d->read->cursor = d->cursor;
    d->read->since = -1;
    if (!batch_deliver(d, d->next))
        return false;
    segments_end(d, told->cursor.passed);
    d->out = d->next;
    d->next = d->read;
    d->read = told;
    return true;
}

double logbox_drain_rate(struct log_drainer *d, size_t count)
{
    size_t before = d->done;
    double begin = seconds_now();
    while (d->done - before < count || has_rows(d->out) || has_rows(d->next))
        logbox_cycle(d);
    return (double)count / (seconds_now() - begin);
}

double logbox_drain_while(struct log_drainer *d, const atomic_bool *wanted)
{
    size_t before = d->done;
    double begin = seconds_now();
    while (atomic_load(wanted))
        logbox_cycle(d);
    return (double)(d->done - before) / (seconds_now() - begin);
}
