/* Writing changes to rows: one statement for each sort of change, whatever their number.
 *
 * Changes are applied in their order, which matters only among those of one message.  So they are sent in waves: the
 * first change of each id in the first wave, the second in the second.  Usually there is one wave, and it travels with
 * the rest of the first batch.
 *
 * A row is found by its id, through the key, and by its handle among those of that id.  Deletions, nearly all changes,
 * use the ctid at which the row was seen (ctid_cache.c): this avoids the search in the key.  When one of the rows is
 * not there any more, the cycle starts over, with keys.
 *
 * No cycle waits for a row in a user's open transaction: rows to be updated are locked with SKIP LOCKED, and skipped
 * ones are answered ANSWER_BUSY.  Rows that are only deleted are not locked before, which would cost as much again;
 * when a deletion runs into a lock, the cycle starts over and locks all rows like this (wary). */
#include "store/postgres/cycle/change.h"

#include <endian.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/postgres.h"

enum group {
    GROUP_DELETE_BY_CTID,
    GROUP_DELETE, /* without guards */
    GROUP_DELETE_GUARDED,
    GROUP_KEEP,
    GROUP_DEAD,
    GROUP_UPDATE,
    GROUP_SPLIT,
    GROUP_PROBE,
    GROUP_COUNT
};

#define WAVE_NEVER UINT_MAX

struct change_plan {
    struct pg_changes *changes;
    unsigned char *groups;      /* of each change */
    size_t counts[GROUP_COUNT]; /* of changes in each group */
    unsigned *waves;            /* of each change; NULL: they are all of the first */
    unsigned wave_count;
    size_t *split_first; /* of each change: index of its first part in split_rows */
    PGresult *results[GROUP_COUNT];
    size_t by_ctid; /* rows that must be at the ctids where they were seen */
    bool or_stop;   /* in the one batch that commits */
};

/* ---- Which statement ------------------------------------------------------------------------- */

static bool is_owned(const struct pg_changes *p, const struct change *c)
{
    return (p->lanes & lane_bit((unsigned)(c->row & (LANE_COUNT - 1)))) != 0;
}

static enum group delete_group(const struct pg_changes *p, const struct change *c)
{
    if (c->guards != 0 || p->wary)
        return GROUP_DELETE_GUARDED;
    return p->ctids != NULL && pg_ctid_cache_find(p->ctids, (int64_t)c->row) != NULL ? GROUP_DELETE_BY_CTID
                                                                                     : GROUP_DELETE;
}

static enum group group_of(const struct pg_changes *p, const struct change *c)
{
    if (!is_owned(p, c))
        return GROUP_PROBE;
    switch (c->fate) {
    case FATE_STAYS: return c->sets == 0 && c->bits == 0 && c->guards == 0 ? GROUP_PROBE : GROUP_UPDATE;
    case FATE_GONE: return delete_group(p, c);
    case FATE_DONE: return GROUP_KEEP;
    case FATE_DEAD: return GROUP_DEAD;
    case FATE_SPLIT: return GROUP_SPLIT;
    case FATE_BACK:
    case FATE_COPIED: break;
    }
    ASSERT(!"a change of a row of a box");
    return GROUP_PROBE;
}

/* Before each wave: a row that the previous one has changed is no longer where it was seen. */
static void plan_groups(struct change_plan *plan)
{
    const struct pg_changes *p = plan->changes;
    memset(plan->counts, 0, sizeof(plan->counts));
    for (size_t i = 0; i < p->count; i++) {
        plan->groups[i] = (unsigned char)group_of(p, &p->list[i]);
        plan->counts[plan->groups[i]]++;
    }
}

/* The n-th change of an id belongs to wave n: a table of the latest one of each id. */
static int plan_waves(struct change_plan *plan)
{
    const struct pg_changes *p = plan->changes;
    size_t room = 16;
    while (room < 2 * p->count)
        room *= 2;
    uint32_t *latest = arena_alloc_array(p->arena, room, sizeof(latest[0]));
    if (latest == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < p->count; i++) {
        size_t at = hash_bytes(0, p->list[i].id.bytes, sizeof(pr_id)) & (room - 1);
        while (latest[at] != 0 && !pr_id_equal(p->list[latest[at] - 1].id, p->list[i].id))
            at = (at + 1) & (room - 1);
        if (p->blocked != NULL && p->blocked[i] != PR_OK) {
            plan->waves[i] = WAVE_NEVER;
            p->answers[i] = p->blocked[i];
            continue;
        }
        plan->waves[i] = latest[at] != 0 ? plan->waves[latest[at] - 1] + 1 : 0;
        plan->wave_count = plan->waves[i] + 1 > plan->wave_count ? plan->waves[i] + 1 : plan->wave_count;
        latest[at] = (uint32_t)i + 1;
    }
    return PR_OK;
}

static int plan_make(struct change_plan *plan)
{
    struct pg_changes *p = plan->changes;
    size_t destinations = 0;
    plan->groups = arena_alloc_array(p->arena, p->count, sizeof(plan->groups[0]));
    plan->waves = arena_alloc_array(p->arena, p->count, sizeof(plan->waves[0]));
    plan->split_first = arena_alloc_array(p->arena, p->count, sizeof(plan->split_first[0]));
    p->answers = arena_alloc_array(p->arena, p->count, sizeof(p->answers[0]));
    if (plan->groups == NULL || plan->waves == NULL || plan->split_first == NULL || p->answers == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < p->count; i++) {
        p->answers[i] = PR_UNKNOWN;
        plan->split_first[i] = destinations;
        destinations += p->list[i].destination_count;
    }
    p->split_rows = arena_alloc_array(p->arena, destinations, sizeof(p->split_rows[0]));
    return p->split_rows != NULL ? plan_waves(plan) : PR_ENOMEM;
}

/* ---- The statements -------------------------------------------------------------------------- */

/* clang-format off */
#define SAME_ROW "b.id = v.id AND " HANDLE " = v.handle"

/* In the one batch that also commits, a statement fails unless it has changed all of its rows. */
#define ALL_OR_STOP(changed, number)                                                                                   \
    " SELECT CASE WHEN count(*) = " number " THEN 1"                                                        \
    " ELSE ('postrider begins this cycle anew: rows found ' || count(*))::int END FROM " changed

/* Only their number is returned: it must be all of them, or the cycle starts over.  IS TRUE keeps the list from
 * becoming a join: it should be a hash table that rows are compared with. */
static const char DELETE_BY_CTID[] =
    "DELETE FROM {box} b WHERE b.ctid = ANY ($1)"
    " AND ((" HANDLE ", b.id) IN (SELECT v.handle, v.id FROM unnest($2, $3) AS v(handle, id))) IS TRUE";
/* A scan by ctid returns rows in the order of pages.  Comparing handles and ids as two strings in this order costs the server
 * less than the hash table. */
static const char DELETE_BY_CTID_OR_STOP[] =
    "WITH gone AS (DELETE FROM {box} b WHERE b.ctid = ANY ($1) RETURNING " HANDLE " AS handle, b.id)"
    " SELECT CASE WHEN string_agg(int8send(handle), '') = $2 AND string_agg(uuid_send(id), '') = $3 THEN 1"
    " ELSE ('postrider begins this cycle anew: rows found ' || count(*))::int END FROM gone";

/* RETURNING costs more than the deletion itself.  So rows that still lie where the transaction named in their `xid` wrote
 * them (fresh.c) are deleted without it.  Nothing else can lie there if that transaction had ended when the latest snapshot
 * was taken, which was before the row was read: whatever has taken the place of a row that is gone was written later.  Only
 * a table that is written anew (VACUUM FULL) keeps transactions and changes places; then it has another file.  ONLY: tables
 * that inherit from the box have rows in the same places (snapshot.c).  How many rows were deleted is the difference of the
 * server's own count before and after. */
#define DELETED "pg_stat_get_xact_tuples_deleted('{box}'::regclass)"
static const char DELETED_BEFORE[] = "SELECT set_config('postrider.deleted', " DELETED "::text, true)";
static const char DELETE_WHERE_WRITTEN[] = "DELETE FROM ONLY {box} b WHERE b.ctid = ANY ($1)"
                                           " AND b.xmin = b.xid::xid AND pg_visible_in_snapshot(b.xid, $2::pg_snapshot)";
#define DELETED_SINCE DELETED " - current_setting('postrider.deleted')::bigint"
static const char DELETED_OR_STOP[] =
    "SELECT CASE WHEN " DELETED_SINCE " = $1 AND pg_relation_filenode('{box}'::regclass)::bigint = $2 THEN 1"
    " ELSE ('postrider begins this cycle anew: rows found ' || " DELETED_SINCE ")::int END";
#define WRITTEN_MIN 100 /* fewer rows cost less in one statement than in three */

#define DELETE_ROWS_OF "DELETE FROM {box} b USING unnest($1, $2, $3) AS v(ord, handle, id) WHERE " SAME_ROW " RETURNING v.ord, 1"
static const char DELETE_ROWS[] = DELETE_ROWS_OF;
static const char DELETE_ROWS_OR_STOP[] = "WITH gone AS (" DELETE_ROWS_OF ")" ALL_OR_STOP("gone", "$4::bigint");

static const char PROBE_ROWS[] =
    "SELECT v.ord, 1 FROM unnest($1, $2, $3) AS v(ord, handle, id) JOIN {box} b ON " SAME_ROW;

/* The members of a change, in the order of put_change(), and $1 the time of a test. */
#define CHANGES                                                                                             \
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16," \
    " $17, $18, $19, $20, $21, $22, $23, $24, $25) AS v(ord, handle, id, guards, expected, sets, attempts, bits, reason, code, error,"     \
    " delay, held_by, story, endpoint, cause, limit_reached, rule, fingerprint, note, due_is, due_us, held_for,"                 \
    " parked_by))"
/* The rows that no other transaction has locked; they are locked now. */
#define FREE_LOCKED ", free AS MATERIALIZED (SELECT v.* FROM v JOIN {box} b ON " SAME_ROW " FOR UPDATE OF b SKIP LOCKED)"
#define FREE_ALL ", free AS (SELECT * FROM v)"

_Static_assert(GUARD_ATTEMPTS == 1 && GUARD_NOT_PARKED == 2 && GUARD_NOT_RELEASED == 4 && GUARD_MAY_UNPARK == 8 &&
                   GUARD_DUE == 16,
               "the statements say so, too");
_Static_assert(SET_ATTEMPTS == 1 && ADD_FAILURE == 2 && SET_NEW_COUNT == 4 && SET_REASON == 8 && SET_FAILED_AT == 16 &&
                   SET_DUE == 32 && KEEP_PARKED == 64 && SET_HELD == 128 && SET_RELEASED == 256 && SET_STORY == 512 &&
                   SET_ERROR == 1024 && SET_DUE_AT == 4096,
               "the statements say so, too");
_Static_assert(PR_PARKED_BY_ROUTE == 1, "the statements say so, too");
#define PARKED "b.due_at IS NOT DISTINCT FROM 'infinity'"
#define HOLDS                                                                                               \
    "(v.guards & 1 = 0 OR b.attempts = v.expected) AND (v.guards & 2 = 0 OR NOT " PARKED ")"                  \
    " AND (v.guards & 16 = 0 OR b.due_at IS NOT DISTINCT FROM v.due_is) AND (v.guards & 4 = 0 OR NOT b.released) AND (v.guards & 8 = 0 OR NOT " PARKED " OR (b.parked_by = 1) IS TRUE)"
#define AT_NOW NOW("$1")

/* TIME_MAX_US: a box refuses later times (062_check_box.sql), and a cycle must not fail. */
#define LATEST " '2299-12-31 23:59:59.999999+00'"

/* least(): COUNTER_MAX; one damaged number must not stop the cycle. */
#define NEW_attempts "CASE WHEN v.sets & 4 <> 0 THEN 0 WHEN v.sets & 1 <> 0 THEN v.attempts ELSE b.attempts END"
#define NEW_failures "CASE WHEN v.sets & 4 <> 0 THEN 0 ELSE least(b.failures, 1000000000) + (v.sets & 2 <> 0)::int END"
#define NEW_status "b.status | v.bits"
#define NEW_failure_reason "CASE WHEN v.sets & 8 <> 0 THEN v.reason ELSE b.failure_reason END"
#define NEW_code "CASE WHEN v.sets & 8 <> 0 THEN v.code ELSE b.code END"
#define NEW_error "CASE WHEN v.sets & 1024 <> 0 THEN v.error ELSE b.error END"
#define NEW_failed_at "CASE WHEN v.sets & 16 <> 0 THEN " AT_NOW " ELSE b.failed_at END"
#define NEW_story "CASE WHEN v.sets & 512 <> 0 THEN v.story ELSE b.story END"
#define NEW_DUE                                                                                             \
    "CASE WHEN v.sets & 4096 <> 0 THEN v.due_us WHEN v.sets & 32 = 0 OR (v.sets & 64 <> 0 AND " PARKED ") THEN b.due_at"                            \
    " WHEN v.delay = 9223372036854775807 THEN 'infinity'"                                                      \
    " ELSE least(" AT_NOW " + least(v.delay, 8000000000000000000) * interval '1 microsecond'," LATEST ") END"
/* change_parked_by() */
#define NEW_PARKED_BY                                                                                       \
    "CASE WHEN v.sets & 4128 = 0 OR (v.sets & 4096 = 0 AND v.sets & 64 <> 0 AND " PARKED ") THEN b.parked_by"  \
    " ELSE v.parked_by END"

/* Rows that were changed (1), that could have been changed (2), and, if some are missing, those that exist (3). */
#define ANSWERS(changed)                                                                                    \
    " SELECT ord, 1 FROM " changed " UNION ALL SELECT ord, 2 FROM free"                                        \
    " UNION ALL SELECT v.ord, 3 FROM v WHERE (SELECT count(*) FROM free) < (SELECT count(*) FROM v)"           \
    " AND EXISTS (SELECT FROM {box} b WHERE " SAME_ROW ")"

#define UPDATE_ROWS(answers)                                                                                           \
    CHANGES FREE_LOCKED                                                                                                \
    ", done AS (UPDATE {box} b SET attempts = " NEW_attempts OUTCOME_COLUMNS(FATE_SET)                                                \
    ", due_at = " NEW_DUE ", held_by = CASE WHEN v.sets & 128 <> 0 THEN v.held_by ELSE b.held_by END"                  \
    ", held_for = CASE WHEN v.sets & 128 <> 0 THEN v.held_for ELSE b.held_for END, parked_by = " NEW_PARKED_BY         \
    ", released = b.released OR v.sets & 256 <> 0"                                                                     \
    " FROM free v WHERE " SAME_ROW " AND " HOLDS " RETURNING v.ord)" answers

#define DELETE_GUARDED(answers)                                                                                        \
    CHANGES FREE_LOCKED                                                                                                \
    ", gone AS (DELETE FROM {box} b USING free v WHERE " SAME_ROW " AND " HOLDS " AND " AT_NOW " IS NOT NULL"          \
    " RETURNING v.ord)" answers

/* A row that ends, with its new values and the old ones. */
#define ENDED(free)                                                                                         \
    CHANGES free ", gone AS (DELETE FROM {box} b USING free v WHERE " SAME_ROW " AND " HOLDS                   \
    " RETURNING v.ord, v.endpoint AS ended_at, v.cause, v.limit_reached, v.rule, v.fingerprint, v.note, "      \
    NEW_attempts " AS new_attempts" OUTCOME_COLUMNS(OUTCOME_RETURNED) ", b.*)"
#define OUTCOME_RETURNED(kind, column, ...) ", " NEW_##column " AS new_" #column
#define ENDED_COLUMNS MESSAGE_MOVED("", COLUMN_NAME) ", attempts" OUTCOME_COLUMNS(FATE_NAME) ", endpoint"
#define OUTCOME_OF_G(kind, column, ...) ", g.new_" #column
#define ENDED_VALUES                                                                                        \
    MESSAGE_MOVED("g.", COLUMN_OF_G) ", g.new_attempts" OUTCOME_COLUMNS(OUTCOME_OF_G) ", coalesce(g.ended_at, g.destination)"

#define KEEP_ROWS(free, answers)                                                                            \
    ENDED(free) ", kept AS (INSERT INTO {schema}.done (box, " ENDED_COLUMNS ", done_at, keep_until)"           \
    " SELECT {box_name}, " ENDED_VALUES ", " AT_NOW ", " AT_NOW " + $26::bigint * interval '1 microsecond'"    \
    " FROM gone g)" answers

#define DEAD_ROWS(answers)                                                                                             \
    ENDED(FREE_LOCKED) ", dead AS (INSERT INTO {schema}.dead_letter (box, xid, " ENDED_COLUMNS                         \
    ", cause, limit_reached, rule, fingerprint, note, died_at) SELECT {box_name}, g.xid, " ENDED_VALUES                \
    ", g.cause, g.limit_reached, g.rule, g.fingerprint, g.note, " AT_NOW " FROM gone g)" answers

/* A part that exists already, in the box or dead, is left out.  Parts have the place of the whole and a row_id of their
 * own. */
static const char SPLIT_ROWS[] =
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)"
    " AS v(ord, handle, id, part, destination, holder, held_for)),"
    " gone AS (DELETE FROM {box} b USING (SELECT DISTINCT ord, handle, id FROM v) v WHERE " SAME_ROW
    " RETURNING v.ord, b.*),"
    " parts AS MATERIALIZED (SELECT g.*, v.part, v.destination AS new_destination,"
    " coalesce(v.holder, v.destination || '/') AS holder, v.held_for AS waits_for,"
    " nextval('{box_seq}') AS place FROM gone g JOIN v ON v.ord = g.ord WHERE" MESSAGE_IS_NOT_DEAD("v") "),"
    " made AS (INSERT INTO {box} (xid, row_id, destination, held_by, held_for, status, story, released, " MESSAGE_BACK("", COLUMN_NAME) ")"
    " OVERRIDING SYSTEM VALUE SELECT p.xid, p.place, p.new_destination, p.holder, p.waits_for, p.status,"
    " p.story, p.released, " MESSAGE_BACK("p.", COLUMN_OF_P) " FROM parts p ORDER BY p.part"
    UNLESS_IN_BOX " RETURNING row_id)"
    " SELECT g.ord, 1, NULL::int, NULL::bigint FROM gone g"
    " UNION ALL SELECT p.ord, 1, p.part, m.row_id << 6 | p.lane FROM made m JOIN parts p ON p.place = m.row_id";
/* clang-format on */

/* ---- Their parameters -------------------------------------------------------------------------- */

#define KEY_TYPES OID_INT4, OID_INT8, OID_UUID
#define CHANGE_TYPES                                                                                                   \
    KEY_TYPES, OID_INT4, OID_INT4, OID_INT4, OID_INT4, OID_INT4, OID_INT2, OID_TEXT, OID_TEXT, OID_INT8, OID_TEXT,     \
        OID_JSON, OID_TEXT, OID_INT2, OID_INT4, OID_TEXT, OID_TEXT, OID_TEXT, OID_TIME, OID_TIME, OID_INT4, OID_INT4

static const enum oid types[GROUP_COUNT][CHANGE_ARRAYS] = {
    [GROUP_DELETE_BY_CTID] = { OID_TID, OID_INT8, OID_UUID },
    [GROUP_DELETE] = { KEY_TYPES },
    [GROUP_DELETE_GUARDED] = { CHANGE_TYPES },
    [GROUP_KEEP] = { CHANGE_TYPES },
    [GROUP_DEAD] = { CHANGE_TYPES },
    [GROUP_UPDATE] = { CHANGE_TYPES },
    [GROUP_SPLIT] = { KEY_TYPES, OID_INT4, OID_TEXT, OID_TEXT, OID_INT4 },
    [GROUP_PROBE] = { KEY_TYPES },
};

static const char *statement_of(enum group group, bool wary)
{
    static const char *const statements[GROUP_COUNT] = {
        [GROUP_DELETE_BY_CTID] = DELETE_BY_CTID,
        [GROUP_DELETE] = DELETE_ROWS,
        [GROUP_DELETE_GUARDED] = DELETE_GUARDED(ANSWERS("gone")),
        [GROUP_KEEP] = KEEP_ROWS(FREE_ALL, " SELECT ord, 1 FROM gone"),
        [GROUP_DEAD] = DEAD_ROWS(ANSWERS("gone")),
        [GROUP_UPDATE] = UPDATE_ROWS(ANSWERS("done")),
        [GROUP_SPLIT] = SPLIT_ROWS,
        [GROUP_PROBE] = PROBE_ROWS,
    };
    static const char keep_wary[] = KEEP_ROWS(FREE_LOCKED, ANSWERS("gone"));
    return wary && group == GROUP_KEEP ? keep_wary : statements[group];
}

/* NULL: the answers must be known before the commit.  The last parameter is the number of rows. */
static const char *const or_stop[GROUP_COUNT] = {
    [GROUP_DELETE_BY_CTID] = DELETE_BY_CTID_OR_STOP,
    [GROUP_DELETE] = DELETE_ROWS_OR_STOP,
    [GROUP_DELETE_GUARDED] = DELETE_GUARDED(ALL_OR_STOP("gone", "$26::bigint")),
    [GROUP_KEEP] = KEEP_ROWS(FREE_ALL, ALL_OR_STOP("gone", "$27::bigint")),
    [GROUP_DEAD] = DEAD_ROWS(ALL_OR_STOP("gone", "$26::bigint")),
    [GROUP_UPDATE] = UPDATE_ROWS(ALL_OR_STOP("done", "$26::bigint")),
};

static bool is_whole(enum group group)
{
    return group == GROUP_DELETE_GUARDED || group == GROUP_KEEP || group == GROUP_DEAD || group == GROUP_UPDATE;
}

static void put_key(struct array *a, size_t ord, const struct change *c)
{
    array_i32(&a[0], (int)ord);
    array_i64(&a[1], (int64_t)c->row);
    array_id(&a[2], c->id);
}

/* The columns of CHANGES. */
static void put_change(struct array *a, size_t ord, const struct change *c)
{
    put_key(a, ord, c);
    array_i32(&a[3], (int)c->guards);
    array_i32(&a[4], c->attempts_are);
    array_i32(&a[5], (int)c->sets);
    array_i32(&a[6], c->attempts);
    array_i32(&a[7], c->bits);
    array_i16(&a[8], c->reason);
    array_text_or_null(&a[9], c->code);
    array_text_or_null(&a[10], c->error);
    array_i64(&a[11], c->delay_us);
    array_text_or_null(&a[12], c->held_by);
    array_text_or_null(&a[13], c->story);
    array_text_or_null(&a[14], c->endpoint);
    array_i16(&a[15], c->cause);
    array_i32(&a[16], c->limit);
    array_text(&a[17], c->rule);
    array_text(&a[18], slice_from(c->fingerprint));
    array_text_or_null(&a[19], c->note);
    array_time(&a[20], c->due_is_us);
    array_time(&a[21], time_plausible(c->due_us));
    array_i32(&a[22], c->held_for);
    array_i32(&a[23], c->parked_by);
}

static void put_split(const struct change_plan *plan, struct array *a, size_t ord, const struct change *c)
{
    for (size_t i = 0; i < c->destination_count; i++) {
        put_key(a, ord, c);
        array_i32(&a[3], (int)(plan->split_first[ord] + i));
        array_text(&a[4], c->destinations[i]);
        const struct part_holder holder = change_part_holder(c, i);
        array_text_or_null(&a[5], holder.key);
        array_i32(&a[6], holder.held_for);
    }
}

static void put_ctid(const struct pg_changes *p, const struct change *c)
{
    const struct ctid_slot *seen = pg_ctid_cache_find(p->ctids, (int64_t)c->row);
    ASSERT(seen != NULL);
    array_tid(&p->arrays[0], seen->tid);
    array_i64(&p->arrays[1], (int64_t)c->row);
    array_id(&p->arrays[2], c->id);
}

static void put(struct change_plan *plan, enum group group, size_t ord)
{
    struct array *a = plan->changes->arrays;
    const struct change *c = &plan->changes->list[ord];
    if (group == GROUP_DELETE_BY_CTID) {
        put_ctid(plan->changes, c);
        plan->by_ctid++;
    } else if (group == GROUP_SPLIT) {
        put_split(plan, a, ord, c);
    } else if (is_whole(group)) {
        put_change(a, ord, c);
        if (group == GROUP_UPDATE && plan->changes->ctids != NULL) /* it gets another ctid */
            pg_ctid_cache_forget_row(plan->changes->ctids, (int64_t)c->row);
    } else {
        put_key(a, ord, c);
    }
}

/* ---- Waves -------------------------------------------------------------------------------------- */

/* A row as DELETE_BY_CTID_OR_STOP compares it. */
struct seen_row {
    struct tid tid;
    uint64_t handle;
    pr_id id;
};

static int compare_seen(const void *a, const void *b)
{
    const struct seen_row *x = a, *y = b;
    return memcmp(x->tid.wire, y->tid.wire, sizeof(x->tid.wire));
}

/* The row as it was seen, if it must still lie where its transaction wrote it. */
static const struct ctid_slot *where_written(const struct change_plan *plan, size_t i)
{
    const struct pg_changes *p = plan->changes;
    const struct ctid_slot *seen =
        plan->groups[i] == GROUP_DELETE_BY_CTID ? pg_ctid_cache_find(p->ctids, (int64_t)p->list[i].row) : NULL;
    if (seen == NULL || seen->snapshot == 0 || !pr_id_equal(seen->id, p->list[i].id))
        return NULL;
    bool counts = seen->snapshot == p->ctids->latest.number && p->ctids->latest.is_counted &&
                  p->ctids->latest.connection == p->link->generation && !p->link->pooled;
    return counts ? seen : NULL;
}

/* Takes these rows out of their group. */
static void add_where_written(struct change_plan *plan)
{
    struct pg_changes *p = plan->changes;
    struct args args = { .count = 0 }, count_args = { .count = 0 };
    size_t count = 0;
    for (size_t i = 0; i < p->count; i++)
        count += where_written(plan, i) != NULL;
    if (count < WRITTEN_MIN)
        return;
    array_begin(&p->arrays[0], OID_TID);
    for (size_t i = 0; i < p->count; i++) {
        const struct ctid_slot *seen = where_written(plan, i);
        if (seen == NULL)
            continue;
        array_tid(&p->arrays[0], seen->tid);
        plan->groups[i] = GROUP_COUNT;
        plan->counts[GROUP_DELETE_BY_CTID]--;
    }
    arg_array(&args, &p->arrays[0]);
    arg_literal(&args, p->ctids->latest.text.data);
    arg_i64(&count_args, (int64_t)count);
    arg_i64(&count_args, p->ctids->latest.file);
    link_add(p->link, DELETED_BEFORE, p->box, NULL, NULL);
    link_add(p->link, DELETE_WHERE_WRITTEN, p->box, &args, NULL);
    link_add(p->link, DELETED_OR_STOP, p->box, &count_args, NULL);
}

static int add_by_ctid_or_stop(struct change_plan *plan)
{
    struct pg_changes *p = plan->changes;
    struct args args = { .count = 0 };
    size_t count = 0, most = plan->counts[GROUP_DELETE_BY_CTID];
    struct seen_row *rows = arena_alloc_array(p->arena, most, sizeof(rows[0]));
    uint64_t *handles = arena_alloc_array(p->arena, most, sizeof(handles[0]));
    pr_id *ids = arena_alloc_array(p->arena, most, sizeof(ids[0]));
    if (rows == NULL || handles == NULL || ids == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < p->count; i++) {
        if (plan->groups[i] != GROUP_DELETE_BY_CTID)
            continue;
        const struct ctid_slot *seen = pg_ctid_cache_find(p->ctids, (int64_t)p->list[i].row);
        ASSERT(seen != NULL);
        rows[count++] = (struct seen_row){ .handle = htobe64(p->list[i].row), .id = p->list[i].id, .tid = seen->tid };
    }
    qsort(rows, count, sizeof(rows[0]), compare_seen);
    array_begin(&p->arrays[0], OID_TID);
    for (size_t i = 0; i < count; i++) {
        array_tid(&p->arrays[0], rows[i].tid);
        handles[i] = rows[i].handle;
        ids[i] = rows[i].id;
    }
    arg_array(&args, &p->arrays[0]);
    arg_bytes(&args, (pr_slice){ (const char *)handles, count * sizeof(handles[0]) });
    arg_bytes(&args, (pr_slice){ (const char *)ids, count * sizeof(ids[0]) });
    link_add(p->link, DELETE_BY_CTID_OR_STOP, p->box, &args, NULL);
    return PR_OK;
}

static bool is_of(const struct change_plan *plan, size_t i, enum group group, unsigned wave)
{
    return plan->groups[i] == group && (plan->waves == NULL || plan->waves[i] == wave);
}

static void add_group(struct change_plan *plan, enum group group, unsigned wave)
{
    struct pg_changes *p = plan->changes;
    struct args args = { .count = 0 };
    size_t columns = 0;

    plan->results[group] = NULL;
    if (plan->counts[group] == 0)
        return;
    for (; columns < CHANGE_ARRAYS && types[group][columns] != 0; columns++)
        array_begin(&p->arrays[columns], types[group][columns]);
    for (size_t i = 0; i < p->count; i++)
        if (is_of(plan, i, group, wave))
            put(plan, group, i);
    if (p->arrays[0].count == 0)
        return;
    if (is_whole(group))
        arg_time(&args, p->wall_us);
    for (size_t i = 0; i < columns; i++)
        arg_array(&args, &p->arrays[i]);
    if (group == GROUP_KEEP)
        arg_i64(&args, min64(p->keep_us, INT64_C(8000000000000000000)));
    if (plan->or_stop)
        arg_i64(&args, (int64_t)p->arrays[0].count);
    link_add(p->link, plan->or_stop ? or_stop[group] : statement_of(group, p->wary), p->box, &args,
             plan->or_stop ? NULL : &plan->results[group]);
}

/* The answer for a row from what a statement returned (see ANSWERS); of several the one with the highest rank
 * decides. */
static int answer_of(int returned, int before)
{
    static const int answers[] = { 0, PR_OK, PR_STALE, ANSWER_BUSY };
    static const int ranks[] = { 0, 3, 2, 1 };
    int rank_before = before == PR_OK ? 3 : before == PR_STALE ? 2 : before == ANSWER_BUSY ? 1 : 0;
    return ranks[returned] > rank_before ? answers[returned] : before;
}

static void take_group(struct change_plan *plan, enum group group)
{
    const PGresult *r = plan->results[group];
    struct pg_changes *p = plan->changes;
    for (int i = 0; r != NULL && i < PQntuples(r); i++) {
        size_t ord = (size_t)field_int(r, i, 0);
        if (group == GROUP_PROBE)
            p->answers[ord] = is_owned(p, &p->list[ord]) ? PR_OK : PR_STALE;
        else
            p->answers[ord] = answer_of(field_int(r, i, 1), p->answers[ord]);
        if (group == GROUP_SPLIT && !field_is_null(r, i, 2))
            p->split_rows[field_int(r, i, 2)] = (uint64_t)field_i64(r, i, 3);
    }
}

/* Outcome CYCLE_ANEW: one of the rows was not where it was seen. */
static int take_by_ctid(struct change_plan *plan, unsigned wave)
{
    struct pg_changes *p = plan->changes;
    if (plan->results[GROUP_DELETE_BY_CTID] == NULL)
        return PR_OK;
    if (strtoull(PQcmdTuples(plan->results[GROUP_DELETE_BY_CTID]), NULL, 10) != plan->by_ctid) {
        pg_ctid_cache_forget(p->ctids);
        return CYCLE_ANEW;
    }
    for (size_t i = 0; i < p->count; i++)
        if (is_of(plan, i, GROUP_DELETE_BY_CTID, wave))
            p->answers[i] = PR_OK;
    return PR_OK;
}

int pg_changes_apply(struct pg_changes *p, struct pr_error *reterr)
{
    struct change_plan plan = { .changes = p };
    int rc = plan_make(&plan);
    if (rc != PR_OK)
        return error_set(reterr, rc, "out of memory for %zu changes", p->count);
    for (unsigned wave = 0; wave == 0 || (wave < plan.wave_count && rc == PR_OK); wave++) {
        plan.by_ctid = 0;
        plan_groups(&plan);
        for (int group = 0; group < GROUP_COUNT; group++)
            add_group(&plan, (enum group)group, wave);
        rc = link_run(p->link, reterr);
        for (int group = GROUP_DELETE_BY_CTID + 1; group < GROUP_COUNT && rc == PR_OK; group++)
            take_group(&plan, (enum group)group);
        if (rc == PR_OK)
            rc = take_by_ctid(&plan, wave);
    }
    for (size_t i = 0; i < p->count && rc == PR_OK; i++)
        p->any_busy = p->any_busy || (p->answers[i] == ANSWER_BUSY && (p->blocked == NULL || p->blocked[i] == PR_OK));
    return rc;
}

/* ---- In one batch with the commit --------------------------------------------------------------- */

bool pg_changes_fit_one_batch(const struct pg_changes *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (or_stop[group_of(p, &p->list[i])] == NULL)
            return false;
    return !p->wary;
}

/* No waves: a row that is listed twice is missing the second time. */
int pg_changes_add_one_batch(struct pg_changes *p)
{
    struct change_plan plan = { .changes = p, .or_stop = true };
    plan.groups = arena_alloc_array(p->arena, p->count, sizeof(plan.groups[0]));
    if (plan.groups == NULL)
        return PR_ENOMEM;
    plan_groups(&plan);
    add_where_written(&plan);
    if (plan.counts[GROUP_DELETE_BY_CTID] > 0 && add_by_ctid_or_stop(&plan) != PR_OK)
        return PR_ENOMEM;
    for (int group = GROUP_DELETE_BY_CTID + 1; group < GROUP_COUNT; group++)
        add_group(&plan, (enum group)group, 0);
    return PR_OK;
}
