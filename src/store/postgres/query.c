/* People's questions: one read transaction each. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/postgres/overview.h"
#include "store/ranking.h"

#define LIMIT_DEFAULT 100
#define LISTED_FIRST 16

struct question {
    struct postgres_store *store;
    struct link *link;
    struct arena *arena;
    struct query_reply *reply;
    struct surroundings s;
    size_t limit, capacity;
    bool with_payload, replayable;
    struct pr_error *reterr;
};

static int no_memory(struct question *q)
{
    return error_set(q->reterr, PR_ENOMEM, "no memory for the answer");
}

/* ---- Listings ----------------------------------------------------------------------------------- */

static struct listed *listed_room(struct question *q)
{
    struct query_reply *reply = q->reply;
    if (reply->listed_count < q->capacity)
        return &reply->listed[reply->listed_count];
    size_t capacity = q->capacity > 0 ? q->capacity * 2 : LISTED_FIRST;
    struct listed *listed = arena_alloc_array(q->arena, capacity, sizeof(*listed));
    if (listed == NULL)
        return NULL;
    if (reply->listed_count > 0)
        memcpy(listed, reply->listed, reply->listed_count * sizeof(*listed));
    reply->listed = listed;
    q->capacity = capacity;
    return &reply->listed[reply->listed_count];
}

static int listed_add(void *arg, const struct listed *found, struct pr_error *reterr)
{
    (void)reterr;
    struct question *q = arg;
    if (q->reply->listed_count == q->limit) {
        reply_is_full(q->reply);
        return 1;
    }
    struct listed *l = listed_room(q);
    char *block = arena_alloc(q->arena, message_bytes(&found->m));
    if (l == NULL || block == NULL)
        return no_memory(q);
    *l = *found;
    message_copy(&found->m, block, &l->m);
    pr_slice *const slices[] = { &l->box, &l->endpoint, &l->rule, &l->fingerprint, &l->note, &l->instance };
    for (size_t i = 0; i < ARRAY_LENGTH(slices); i++) {
        *slices[i] = slice_dup(q->arena, *slices[i]);
        if (slices[i]->data == NULL)
            return no_memory(q);
    }
    q->reply->listed_count++;
    return PR_OK;
}

static int list_table(struct question *q, enum listing_table table, pr_slice box, const struct filter *filter)
{
    const struct listing listing = {
        .table = table,
        .box = box,
        .filter = filter,
        .with_payload = q->with_payload,
        .wanted = q->limit - q->reply->listed_count + 1,
        .found = listed_add,
        .arg = q,
    };
    uint64_t cut = 0;
    if (q->reply->more) /* here the next page begins */
        return PR_OK;
    int rc = pg_listing_run(q->link, &q->s, &listing, &cut, q->reterr);
    reply_is_cut(q->reply, box, cut);
    return rc;
}

static int list_boxes(struct question *q, const struct filter *filter)
{
    struct filter here;
    int rc = PR_OK;
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++)
        if (filter_of_box(filter, q->s.boxes[i], &here))
            rc = list_table(q, LISTING_BOX, q->s.boxes[i], &here);
    return rc;
}

static int query_messages(struct question *q, const struct filter *filter)
{
    if (filter->state == STATE_DEAD)
        return list_table(q, LISTING_DEAD, filter->box, filter);
    if (filter->state == STATE_DONE)
        return list_table(q, LISTING_DONE, filter->box, filter);
    return list_boxes(q, filter);
}

static int query_id(struct question *q, const struct filter *asked)
{
    const struct filter filter = { .state = -1, .ids = asked->ids, .id_count = 1, .routing = asked->routing };
    int rc = list_boxes(q, &filter);
    if (rc == PR_OK)
        rc = list_table(q, LISTING_DEAD, NO_BOX, &filter);
    return rc == PR_OK ? list_table(q, LISTING_DONE, NO_BOX, &filter) : rc;
}

static int count_one_more(void *arg, const struct listed *found, struct pr_error *reterr)
{
    (void)reterr;
    struct question *q = arg;
    q->reply->total += !q->replayable || pr_id_is_zero(found->edited_as);
    return q->reply->total > COUNT_EXACT_MAX;
}

static int query_dead_count(struct question *q, const struct filter *filter)
{
    if (filter_is_time(filter) && !q->replayable) { /* the watchdogs ask this, and the index says it */
        PGresult *r;
        struct args args = { .count = 0 };
        arg_time(&args, max64(filter->since_us, 1));
        arg_time(&args, filter->until_us != 0 ? filter->until_us : PR_NEVER);
        arg_i64(&args, COUNT_EXACT_MAX + 1);
        int rc = link_do(q->link,
                         "SELECT count(*) FROM (SELECT FROM {schema}.dead_letter WHERE died_at >= $1 AND died_at < $2"
                         " ORDER BY died_at LIMIT $3) d",
                         NO_BOX, &args, &r, q->reterr);
        if (rc == PR_OK)
            q->reply->total = (uint64_t)field_i64(r, 0, 0);
        return rc;
    }
    const struct listing listing = {
        .table = LISTING_DEAD,
        .box = filter->box,
        .filter = filter,
        .found = count_one_more,
        .arg = q,
    };
    return pg_listing_run(q->link, &q->s, &listing, NULL, q->reterr);
}

/* ---- Counts ------------------------------------------------------------------------------------- */

/* As state_of_row(), with receipts and pauses laid over it; each sort of rows by its own index. */
#define COUNTED(sort, held_by, destination, from)                                                                      \
    "(SELECT " sort " AS sort, " HANDLE " AS handle, b.due_at, " held_by                                               \
    " AS held_by, b.status, b.attempts, " destination " AS destination, b.created_at FROM " from ")"
/* Where nothing is paused, this index has it all, and not a row is read. */
#define DUE_BY_INDEX                                                                                                   \
    COUNTED("2", "NULL", "''", "{box} b WHERE b.due_at < 'infinity' AND b.held_by IS NULL ORDER BY b.due_at LIMIT $5")
#define DUE_BY_ROW                                                                                                     \
    COUNTED("2", "NULL", "b.destination", "{box} b WHERE b.due_at < 'infinity' AND b.held_by IS NULL LIMIT $5")

/* Rows that receipts name, each found through its index; f(handle, number). */
#define IN_FLIGHT                                                                                                      \
    "f CROSS JOIN LATERAL (SELECT b.attempts FROM {box} b WHERE b.lane = (f.handle & 63)::smallint AND b.seq = "       \
    "f.handle >> 6"                                                                                                    \
    " AND b.due_at IS NULL AND b.held_by IS NULL UNION ALL SELECT b.attempts FROM {box} b"                             \
    " WHERE coalesce(b.row_id, b.seq) = f.handle >> 6 AND (b.due_at IS NOT NULL OR b.held_by IS NOT NULL)) r"          \
    " WHERE f.number > r.attempts"

/* ways: the first key of each endpoint, "endpoint/" where parts wait for it alone; what waits in its streams is passed over
 * ('0' comes next after '/'). */
#define COUNTS(due)                                                                                                                                                                                                    \
    "WITH RECURSIVE ways(key) AS ((SELECT b.held_by FROM {box} b WHERE b.held_by > '' ORDER BY b.held_by LIMIT 1) "                                                                                                    \
    "UNION ALL"                                                                                                                                                                                                        \
    " SELECT (SELECT b.held_by FROM {box} b WHERE b.held_by >= CASE WHEN strpos(w.key, '/') > 0"                                                                                                                       \
    " THEN split_part(w.key, '/', 1) || '0' ELSE w.key || chr(1) END ORDER BY b.held_by LIMIT 1) FROM ways w WHERE "                                                                                                   \
    "w.key IS NOT NULL),"                                                                                                                                                                                              \
    " f AS (SELECT u.handle, max(u.number) AS number FROM {schema}.claim c JOIN {schema}.instance i ON i.id = "                                                                                                        \
    "c.instance,"                                                                                                                                                                                                      \
    " unnest(c.rows, c.numbers) AS u(handle, number) WHERE c.box = {box_name} GROUP BY u.handle),"                                                                                                                     \
    " rows AS (" COUNTED("1", "NULL", "b.destination",                                                                                                                                                                 \
                         "{box} b WHERE b.due_at IS NULL AND b.held_by IS NULL LIMIT $3") " UNION ALL " due                                                                                                            \
                                                                                          " UNION ALL " COUNTED(                                                                                                       \
                                                                                              "3", "b.held_by",                                                                                                        \
                                                                                              "b.destination",                                                                                                         \
                                                                                              "ways w CROSS JOIN "                                                                                                     \
                                                                                              "LATERAL (SELECT * "                                                                                                     \
                                                                                              "FROM {box} b WHERE "                                                                                                    \
                                                                                              "b.held_by = w.key "                                                                                                     \
                                                                                              "LIMIT $2) b"                                                                                                            \
                                                                                              " WHERE strpos(w.key, "                                                                                                  \
                                                                                              "'/') = length(w.key) "                                                                                                  \
                                                                                              "LIMIT $2") "),"                                                                                                         \
                                                                                                          " states "                                                                                                   \
                                                                                                          "AS "                                                                                                        \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "r.sort, "                                                                                                   \
                                                                                                          "CASE WHEN "                                                                                                 \
                                                                                                          "f.number "                                                                                                  \
                                                                                                          "> "                                                                                                         \
                                                                                                          "r."                                                                                                         \
                                                                                                          "attempts "                                                                                                  \
                                                                                                          "THEN "                                                                                                      \
                                                                                                          "'in-"                                                                                                       \
                                                                                                          "flight' "                                                                                                   \
                                                                                                          "WHEN "                                                                                                      \
                                                                                                          "r.due_at "                                                                                                  \
                                                                                                          "= "                                                                                                         \
                                                                                                          "'infinity'"                                                                                                 \
                                                                                                          " THEN "                                                                                                     \
                                                                                                          "'parked'"                                                                                                   \
                                                                                                          " WHEN "                                                                                                     \
                                                                                                          "strpos(r."                                                                                                  \
                                                                                                          "held_by, "                                                                                                  \
                                                                                                          "'/') < "                                                                                                    \
                                                                                                          "length(r."                                                                                                  \
                                                                                                          "held_by) "                                                                                                  \
                                                                                                          "THEN "                                                                                                      \
                                                                                                          "'held'"                                                                                                     \
                                                                                                          " WHEN "                                                                                                     \
                                                                                                          "r.due_at "                                                                                                  \
                                                                                                          "> $1 AND "                                                                                                  \
                                                                                                          "(r.status "                                                                                                 \
                                                                                                          "& 32768) "                                                                                                  \
                                                                                                          "= 0 AND "                                                                                                   \
                                                                                                          "r."                                                                                                         \
                                                                                                          "attempts "                                                                                                  \
                                                                                                          "= 0 THEN "                                                                                                  \
                                                                                                          "'delayed'"                                                                                                  \
                                                                                                          " WHEN "                                                                                                     \
                                                                                                          "r."                                                                                                         \
                                                                                                          "destinatio"                                                                                                 \
                                                                                                          "n = ANY "                                                                                                   \
                                                                                                          "($4::text["                                                                                                 \
                                                                                                          "]) THEN "                                                                                                   \
                                                                                                          "'paused' "                                                                                                  \
                                                                                                          "WHEN "                                                                                                      \
                                                                                                          "r.due_at "                                                                                                  \
                                                                                                          "> $1 THEN "                                                                                                 \
                                                                                                          "'retrying'"                                                                                                 \
                                                                                                          " ELSE "                                                                                                     \
                                                                                                          "'ready' "                                                                                                   \
                                                                                                          "END AS "                                                                                                    \
                                                                                                          "state, "                                                                                                    \
                                                                                                          "greatest("                                                                                                  \
                                                                                                          "r.created_"                                                                                                 \
                                                                                                          "at, "                                                                                                       \
                                                                                                          "r.due_at) "                                                                                                 \
                                                                                                          "AS since"                                                                                                   \
                                                                                                          " FROM "                                                                                                     \
                                                                                                          "rows r "                                                                                                    \
                                                                                                          "LEFT JOIN "                                                                                                 \
                                                                                                          "f ON "                                                                                                      \
                                                                                                          "f.handle "                                                                                                  \
                                                                                                          "= "                                                                                                         \
                                                                                                          "r.handle)"                                                                                                  \
                                                                                                          " SELECT "                                                                                                   \
                                                                                                          "state, "                                                                                                    \
                                                                                                          "count(*), "                                                                                                 \
                                                                                                          "min(since)"                                                                                                 \
                                                                                                          ", sort "                                                                                                    \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "states "                                                                                                    \
                                                                                                          "GROUP BY "                                                                                                  \
                                                                                                          "sort, "                                                                                                     \
                                                                                                          "state"                                                                                                      \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'in-"                                                                                                       \
                                                                                                          "flight', "                                                                                                  \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "count(*) "                                                                                                  \
                                                                                                          "FROM"                                                                                                       \
                                                                                                          " " IN_FLIGHT                                                                                                \
                                                                                                          "), NULL, "                                                                                                  \
                                                                                                          "NULL" /* These are told by their index alone: it is read where it lies together, rows lie far apart. */     \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'parked', "                                                                                                 \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "count(*) "                                                                                                  \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "{box} b "                                                                                                   \
                                                                                                          "WHERE "                                                                                                     \
                                                                                                          "b.due_at "                                                                                                  \
                                                                                                          "= "                                                                                                         \
                                                                                                          "'infinity'"                                                                                                 \
                                                                                                          " AND "                                                                                                      \
                                                                                                          "b.held_by "                                                                                                 \
                                                                                                          "IS NULL"                                                                                                    \
                                                                                                          " LIMIT "                                                                                                    \
                                                                                                          "10001) "                                                                                                    \
                                                                                                          "p), NULL, "                                                                                                 \
                                                                                                          "NULL"                                                                                                       \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'held', "                                                                                                   \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "count(*) "                                                                                                  \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "{box} b "                                                                                                   \
                                                                                                          "WHERE "                                                                                                     \
                                                                                                          "b.held_by "                                                                                                 \
                                                                                                          "IS NOT "                                                                                                    \
                                                                                                          "NULL"                                                                                                       \
                                                                                                          " AND "                                                                                                      \
                                                                                                          "strpos(b."                                                                                                  \
                                                                                                          "held_by, "                                                                                                  \
                                                                                                          "'/') < "                                                                                                    \
                                                                                                          "length(b."                                                                                                  \
                                                                                                          "held_by) "                                                                                                  \
                                                                                                          "LIMIT "                                                                                                     \
                                                                                                          "10001) "                                                                                                    \
                                                                                                          "h), NULL, "                                                                                                 \
                                                                                                          "NULL"                                                                                                       \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'stored', "                                                                                                 \
                                                                                                          "CASE WHEN "                                                                                                 \
                                                                                                          "is_called "                                                                                                 \
                                                                                                          "THEN "                                                                                                      \
                                                                                                          "last_"                                                                                                      \
                                                                                                          "value "                                                                                                     \
                                                                                                          "ELSE 0 "                                                                                                    \
                                                                                                          "END, "                                                                                                      \
                                                                                                          "NULL, "                                                                                                     \
                                                                                                          "NULL FROM "                                                                                                 \
                                                                                                          "{box_seq}" /* Fresh ones are oldest first in each lane; those that are in flight stand at its beginning. */ \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'oldest', "                                                                                                 \
                                                                                                          "0, "                                                                                                        \
                                                                                                          "min(o."                                                                                                     \
                                                                                                          "created_"                                                                                                   \
                                                                                                          "at), NULL "                                                                                                 \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "generate_"                                                                                                  \
                                                                                                          "series(0, "                                                                                                 \
                                                                                                          "63) lane "                                                                                                  \
                                                                                                          "CROSS "                                                                                                     \
                                                                                                          "JOIN "                                                                                                      \
                                                                                                          "LATERAL "                                                                                                   \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "b.created_"                                                                                                 \
                                                                                                          "at FROM"                                                                                                    \
                                                                                                          " (SELECT "                                                                                                  \
                                                                                                          "b.created_"                                                                                                 \
                                                                                                          "at, "                                                                                                       \
                                                                                                          "b."                                                                                                         \
                                                                                                          "destinatio"                                                                                                 \
                                                                                                          "n, "                                                                                                        \
                                                                                                          "b.row_id, "                                                                                                 \
                                                                                                          "b.seq, "                                                                                                    \
                                                                                                          "b.lane "                                                                                                    \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "{box} b "                                                                                                   \
                                                                                                          "WHERE "                                                                                                     \
                                                                                                          "b.lane = "                                                                                                  \
                                                                                                          "lane.lane:"                                                                                                 \
                                                                                                          ":smallint "                                                                                                 \
                                                                                                          "AND "                                                                                                       \
                                                                                                          "b.due_at "                                                                                                  \
                                                                                                          "IS NULL "                                                                                                   \
                                                                                                          "AND "                                                                                                       \
                                                                                                          "b.held_by "                                                                                                 \
                                                                                                          "IS NULL "                                                                                                   \
                                                                                                          "ORDER BY "                                                                                                  \
                                                                                                          "b.seq "                                                                                                     \
                                                                                                          "LIMIT "                                                                                                     \
                                                                                                          "200) b"                                                                                                     \
                                                                                                          " LEFT "                                                                                                     \
                                                                                                          "JOIN f ON "                                                                                                 \
                                                                                                          "f.handle "                                                                                                  \
                                                                                                          "= " HANDLE                                                                                                  \
                                                                                                          " WHERE "                                                                                                    \
                                                                                                          "f.handle "                                                                                                  \
                                                                                                          "IS NULL "                                                                                                   \
                                                                                                          "AND "                                                                                                       \
                                                                                                          "b."                                                                                                         \
                                                                                                          "destinatio"                                                                                                 \
                                                                                                          "n <> ALL "                                                                                                  \
                                                                                                          "($4::text["                                                                                                 \
                                                                                                          "]) LIMIT "                                                                                                  \
                                                                                                          "1) o"                                                                                                       \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'dead', "                                                                                                   \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "count(*) "                                                                                                  \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "{schema}."                                                                                                  \
                                                                                                          "dead_"                                                                                                      \
                                                                                                          "letter "                                                                                                    \
                                                                                                          "WHERE box "                                                                                                 \
                                                                                                          "= "                                                                                                         \
                                                                                                          "{box_name}"                                                                                                 \
                                                                                                          " LIMIT "                                                                                                    \
                                                                                                          "10001) "                                                                                                    \
                                                                                                          "d), NULL, "                                                                                                 \
                                                                                                          "NULL"                                                                                                       \
                                                                                                          " UNION "                                                                                                    \
                                                                                                          "ALL "                                                                                                       \
                                                                                                          "SELECT "                                                                                                    \
                                                                                                          "'done', "                                                                                                   \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "count(*) "                                                                                                  \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "(SELECT "                                                                                                   \
                                                                                                          "FROM "                                                                                                      \
                                                                                                          "{schema}."                                                                                                  \
                                                                                                          "done "                                                                                                      \
                                                                                                          "WHERE box "                                                                                                 \
                                                                                                          "= "                                                                                                         \
                                                                                                          "{box_name}"                                                                                                 \
                                                                                                          " AND "                                                                                                      \
                                                                                                          "keep_"                                                                                                      \
                                                                                                          "until > $1"                                                                                                 \
                                                                                                          " LIMIT "                                                                                                    \
                                                                                                          "10001) "                                                                                                    \
                                                                                                          "d), NULL, "                                                                                                 \
                                                                                                          "NULL"

static const char COUNTS_BY_INDEX[] = COUNTS(DUE_BY_INDEX);
static const char COUNTS_PAUSED[] = COUNTS(DUE_BY_ROW);

/* Rows that are not fresh lie far apart, where they must be read at all. */
static int64_t due_look(bool has_pauses)
{
    return has_pauses ? COUNT_EXACT_MAX : LOOK_MAX;
}

/* What was counted, in a column each: name, count, since, and of rows that were looked at their sort. */
static void take_count(struct box_counts *counts, const PGresult *r, int i)
{
    uint64_t *const places[STATE_COUNT] = {
        [STATE_READY] = &counts->ready,     [STATE_IN_FLIGHT] = &counts->in_flight,
        [STATE_DELAYED] = &counts->delayed, [STATE_RETRYING] = &counts->retrying,
        [STATE_HELD] = &counts->held,       [STATE_PARKED] = &counts->parked,
        [STATE_PAUSED] = &counts->paused,   [STATE_DEAD] = &counts->dead,
        [STATE_DONE] = &counts->done,
    };
    const pr_slice name = field_slice(r, i, 0);
    const int64_t count = field_i64(r, i, 1), since_us = field_time(r, i, 2);
    if (slice_eq_cstr(name, "stored")) {
        counts->stored = (uint64_t)count;
        return;
    }
    if ((slice_eq_cstr(name, "oldest") || slice_eq_cstr(name, "ready")) && since_us != 0)
        counts->oldest_us = counts->oldest_us == 0 ? since_us : min64(counts->oldest_us, since_us);
    if (slice_eq_cstr(name, "oldest"))
        return;
    enum state state = state_parse(name);
    ASSERT(state < STATE_COUNT && places[state] != NULL);
    if (state != STATE_IN_FLIGHT || field_is_null(r, i, 3)) /* those are told by the receipts */
        *places[state] = (uint64_t)min64((int64_t)*places[state] + count, COUNT_EXACT_MAX + 1);
}

static void take_counts(struct box_counts *counts, const PGresult *r, bool has_pauses)
{
    const int64_t most[] = { has_pauses ? LOOK_MAX : INT64_MAX, due_look(has_pauses), LOOK_MAX / 2 };
    int64_t rows[ARRAY_LENGTH(most)] = { 0 };
    for (int i = 0; i < PQntuples(r); i++) {
        take_count(counts, r, i);
        if (!field_is_null(r, i, 3))
            rows[field_int(r, i, 3) - 1] += field_i64(r, i, 1);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(most); i++)
        counts->partial |= rows[i] > most[i];
}

static int query_boxes(struct question *q)
{
    struct args args = { .count = 0 };
    struct array paused;
    q->reply->boxes = arena_alloc_array(q->arena, q->s.box_count, sizeof(*q->reply->boxes));
    if (q->reply->boxes == NULL)
        return no_memory(q);
    arg_time(&args, q->s.now_us);
    arg_i64(&args, LOOK_MAX / 2 + 1);
    /* Without pauses all fresh ones are ready or in flight: then there is no need to look at many. */
    arg_i64(&args, q->s.paused_count > 0 ? LOOK_MAX + 1 : (int64_t)(COUNT_EXACT_MAX + 1 + q->s.flight_count));
    array_init(&paused);
    array_begin(&paused, OID_TEXT);
    for (size_t i = 0; i < q->s.paused_count; i++)
        array_text(&paused, q->s.paused[i]);
    arg_array(&args, &paused);
    arg_i64(&args, due_look(q->s.paused_count > 0) + 1);
    int rc = PR_OK;
    for (size_t i = 0; i < q->s.box_count && rc == PR_OK; i++) {
        struct box_counts *counts = &q->reply->boxes[q->reply->box_count++];
        PGresult *r;
        counts->name = q->s.boxes[i];
        rc = link_do(q->link, q->s.paused_count > 0 ? COUNTS_PAUSED : COUNTS_BY_INDEX, counts->name, &args, &r,
                     q->reterr);
        if (rc == PR_OK)
            take_counts(counts, r, q->s.paused_count > 0);
    }
    array_fini(&paused);
    return rc;
}

/* ---- Instances and endpoints ---------------------------------------------------------------------- */

/* Those on its receipts that are still there and have no verdict. */
static int in_flight_of(struct question *q, struct instance_info *info)
{
    PGresult *r;
    struct args args = { .count = 0 };
    arg_id(&args, info->id);
    int rc =
        link_do(q->link,
                "SELECT count(*) FROM (SELECT u.handle, max(u.number) AS number FROM {schema}.claim c,"
                " unnest(c.rows, c.numbers) AS u(handle, number) WHERE c.instance = $1 GROUP BY u.handle) " IN_FLIGHT,
                info->box, &args, &r, q->reterr);
    if (rc == PR_OK)
        info->in_flight = (uint64_t)field_i64(r, 0, 0);
    return rc;
}

static int query_instances(struct question *q)
{
    PGresult *r;
    int rc = link_do(q->link,
                     "SELECT id, box, name, version, epoch, lanes, lease_end, started_at FROM {schema}.instance"
                     " ORDER BY box, epoch",
                     NO_BOX, NULL, &r, q->reterr);
    if (rc != PR_OK)
        return rc;
    q->reply->instances = arena_alloc_array(q->arena, (size_t)PQntuples(r), sizeof(*q->reply->instances));
    if (q->reply->instances == NULL)
        return no_memory(q);
    for (int i = 0; i < PQntuples(r) && rc == PR_OK; i++) {
        struct instance_info *info = &q->reply->instances[q->reply->instance_count++];
        *info = (struct instance_info){
            .id = field_id(r, i, 0),
            .box = slice_dup(q->arena, field_slice(r, i, 1)),
            .name = slice_dup(q->arena, field_slice(r, i, 2)),
            .version = slice_dup(q->arena, field_slice(r, i, 3)),
            .epoch = field_i64(r, i, 4),
            .lanes = __builtin_popcountll((uint64_t)field_i64(r, i, 5)),
            .lease_left_us = max64(0, field_time(r, i, 6) - q->s.mono_us),
            .started_us = field_time(r, i, 7),
        };
        if (info->box.data == NULL || info->name.data == NULL || info->version.data == NULL)
            return no_memory(q);
        rc = in_flight_of(q, info);
    }
    return rc;
}

static int query_endpoints(struct question *q)
{
    PGresult *r;
    int rc = link_do(q->link, PG_ENDPOINTS, NO_BOX, NULL, &r, q->reterr);
    return rc == PR_OK ? pg_endpoints_take(r, q->arena, &q->reply->endpoints, &q->reply->endpoint_count, q->reterr)
                       : rc;
}

/* ---- Facts --------------------------------------------------------------------------------------- */

static void facts_warn(struct store_facts *facts, pr_slice text)
{
    if (facts->warning_count < ARRAY_LENGTH(facts->warnings) && text.data != NULL)
        facts->warnings[facts->warning_count++] = text;
}

static const char FACTS[] = "SELECT current_setting('server_version'), " NOW(
    "$2") ","
          " (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace n"
          " ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'),"
          " (SELECT extract(epoch FROM max(now() - xact_start))::bigint FROM pg_stat_activity WHERE datname = "
          "current_database()),"
          " (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND prepared < now() - "
          "interval '10 minutes'),"
          " current_setting('autovacuum') = 'off', current_setting('fsync') = 'off'";

static int query_facts(struct question *q)
{
    struct store_facts *facts = &q->reply->facts;
    PGresult *r;
    struct args args = { .count = 0 };
    int rc = pg_schema_version(q->link, &facts->schema_version, q->reterr);
    arg_text(&args, slice_from(q->store->conninfo.schema));
    arg_time(&args, pg_store_wall_us(q->store));
    if (rc == PR_OK)
        rc = link_do(q->link, FACTS, NO_BOX, &args, &r, q->reterr);
    if (rc != PR_OK)
        return rc;
    facts->schema_wanted = pg_schema_wanted();
    facts->software = arena_printf(q->arena, "PostgreSQL %.*s", SLICE_ARGS(field_slice(r, 0, 0)));
    if (facts->software.data == NULL)
        return no_memory(q);
    q->s.now_us = field_time(r, 0, 1);
    facts->bytes = field_i64(r, 0, 2);
    if (field_i64(r, 0, 3) > 600)
        facts_warn(facts, arena_printf(q->arena,
                                       "a transaction has been open for %lld minutes: its own messages wait for it,"
                                       " and nothing can be cleaned up behind it; see pg_stat_activity",
                                       (long long)field_i64(r, 0, 3) / 60));
    if (field_i64(r, 0, 4) > 0)
        facts_warn(facts,
                   arena_printf(q->arena, "%lld prepared transactions are older than 10 minutes: see pg_prepared_xacts",
                                (long long)field_i64(r, 0, 4)));
    if (facts->warning_count > 0)
        facts->horizon = facts->warnings[0];
    if (field_bool(r, 0, 5))
        facts_warn(facts, PR_STR("autovacuum is off: switch it on, or the tables grow for ever"));
    if (field_bool(r, 0, 6))
        facts_warn(facts, PR_STR("fsync is off: a crash of the server can lose or damage messages"));
    if (q->link->pooled)
        facts_warn(facts, PR_STR("a pooler is in between: statements cannot be prepared, which costs some speed"));
    return PR_OK;
}

/* ---- The whole ------------------------------------------------------------------------------------ */

static int query_inside(struct question *q, const struct query *query)
{
    if (query->kind == QUERY_FACTS) /* also when there are no tables */
        return query_facts(q);
    int rc = pg_surroundings_read(q->store, q->link, q->arena, &q->s, q->reterr);
    if (rc != PR_OK)
        return rc;
    if (query->kind == QUERY_MESSAGES || query->kind == QUERY_ID || query->kind == QUERY_ENDPOINTS)
        rc = pg_breakers_read(q->store, q->link, q->arena, q->reply, q->reterr);
    if (rc != PR_OK)
        return rc;
    const struct overview overview = {
        .link = q->link,
        .arena = q->arena,
        .s = &q->s,
        .query = query,
        .reply = q->reply,
        .reterr = q->reterr,
    };
    switch (query->kind) {
    case QUERY_MESSAGES: return query_messages(q, &query->filter);
    case QUERY_DEAD: return list_table(q, LISTING_DEAD, query->filter.box, &query->filter);
    case QUERY_ID: return query_id(q, &query->filter);
    case QUERY_BOXES: return query_boxes(q);
    case QUERY_ENDPOINTS: return query_endpoints(q);
    case QUERY_INSTANCES: return query_instances(q);
    case QUERY_DEAD_COUNT: return query_dead_count(q, &query->filter);
    case QUERY_DEAD_GROUPS: return pg_overview_groups(&overview);
    case QUERY_STREAMS: return pg_overview_streams(&overview);
    case QUERY_AUDIT: return pg_overview_audit(&overview);
    case QUERY_FAILING: return pg_failing(q->link, &q->s, query, q->arena, q->reply, q->reterr);
    case QUERY_FACTS: break;
    }
    return error_set(q->reterr, PR_EINVAL, "there is no question of kind %d", (int)query->kind);
}

static int query_once(struct question *q, const struct query *query)
{
    int rc = link_ensure(q->link, q->reterr);
    if (rc != PR_OK)
        return rc;
    link_add_begin(q->link);
    rc = link_run(q->link, q->reterr);
    if (rc == PR_OK)
        rc = query_inside(q, query);
    link_rollback(q->link); /* nothing was changed */
    link_forget(q->link);
    return rc;
}

int pg_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
             struct pr_error *reterr)
{
    struct postgres_store *store = self;
    struct query_reply reply = { .now_us = 0 };
    struct question q = {
        .store = store,
        .link = store->people,
        .arena = arena,
        .reply = &reply,
        .limit = query->filter.limit > 0 ? query->filter.limit : LIMIT_DEFAULT,
        .with_payload = !query->brief,
        .replayable = query->replayable,
        .reterr = reterr,
    };
    pthread_mutex_lock(&store->people_lock);
    int rc = query_once(&q, query);
    if (rc < 0 && (link_should_retry(q.link) || !link_is_up(q.link))) { /* the server was restarted meanwhile */
        reply = (struct query_reply){ .now_us = 0 };
        q.capacity = 0;
        rc = query_once(&q, query);
    }
    pthread_mutex_unlock(&store->people_lock);
    reply.now_us = q.s.now_us;
    if (rc >= PR_OK)
        *ret_reply = reply;
    return rc < 0 ? rc : PR_OK;
}
