/* query.c - people's questions: one read transaction each. */
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/ranking.h"
#include "store/sqlite/overview.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define LIMIT_DEFAULT 100
#define LISTED_FIRST 16
#define WAL_BYTES_MUCH (256LL << 20)

struct question {
    struct sqlite_store *store;
    struct conn *conn;
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

/* ---- Listings ------------------------------------------------------------------------- */

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

/* One table for each id of the filter, or once. */
static int list_table(struct question *q, enum listing_table table, pr_slice box, const struct filter *filter)
{
    struct listing listing = {
        .table = table, .box = box, .filter = filter, .with_payload = q->with_payload, .found = listed_add, .arg = q
    };
    uint64_t cut = 0;
    int rc = PR_OK;
    if (q->reply->more) /* here the next page begins */
        return PR_OK;
    if (filter->id_count == 0)
        rc = listing_run(q->conn, &q->s, &listing, &cut, q->reterr);
    for (size_t i = 0; i < filter->id_count && rc == PR_OK; i++) {
        listing.id = &filter->ids[i];
        rc = listing_run(q->conn, &q->s, &listing, &cut, q->reterr);
    }
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
    if (asked->id_count == 0)
        return error_set(q->reterr, PR_EINVAL, "which id?");
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
    int64_t count = 0;
    if (filter_is_time(filter) && !q->replayable) { /* the watchdogs ask this, and the index says it */
        int rc =
            conn_int(q->conn,
                     "SELECT count(*) FROM (SELECT 1 FROM postrider_dead_letter INDEXED BY postrider_dead_letter_died"
                     " WHERE died_at >= ?1 AND died_at < ?2 LIMIT ?3)",
                     NO_BOX,
                     VALUES(V_INT(filter->since_us), V_INT(filter->until_us != 0 ? filter->until_us : INT64_MAX),
                            V_INT(COUNT_EXACT_MAX + 1)),
                     &count, q->reterr);
        q->reply->total = (uint64_t)count;
        return rc;
    }
    const struct listing listing = {
        .table = LISTING_DEAD, .box = filter->box, .filter = filter, .found = count_one_more, .arg = q
    };
    return listing_run(q->conn, &q->s, &listing, NULL, q->reterr);
}

/* ---- Instances -------------------------------------------------------------------------- */

static int instance_take(struct question *q, sqlite3_stmt *statement, struct instance_info *info)
{
    bool this_boot = slice_eq_cstr(column_slice(statement, 7), q->store->boot_id);
    pr_slice id = column_slice(statement, 0);
    *info = (struct instance_info){
        .box = slice_dup(q->arena, column_slice(statement, 1)),
        .name = slice_dup(q->arena, column_slice(statement, 2)),
        .version = slice_dup(q->arena, column_slice(statement, 3)),
        .epoch = sqlite3_column_int64(statement, 4),
        .lanes = sqlite3_column_int(statement, 5),
        .lease_left_us = this_boot ? max64(0, sqlite3_column_int64(statement, 6) - store_mono_us(q->store)) : 0,
        .started_us = sqlite3_column_int64(statement, 8),
    };
    memcpy(info->id.bytes, id.data, min_size(id.size, sizeof(info->id.bytes)));
    return info->box.data != NULL && info->name.data != NULL && info->version.data != NULL ? PR_OK : no_memory(q);
}

static int query_instances(struct question *q)
{
    int64_t room;
    sqlite3_stmt *statement;
    int rc = conn_int(q->conn, "SELECT count(*) FROM postrider_instance", NO_BOX, NULL, 0, &room, q->reterr);
    if (rc != PR_OK)
        return rc;
    q->reply->instances = arena_alloc_array(q->arena, (size_t)room, sizeof(*q->reply->instances));
    if (q->reply->instances == NULL)
        return no_memory(q);
    rc = conn_bind(q->conn,
                   "SELECT id, box, name, version, epoch, lanes, lease_end, boot_id, started_at FROM postrider_instance"
                   " ORDER BY box, epoch LIMIT ?1",
                   NO_BOX, VALUES(V_INT(room)), &statement, q->reterr);
    if (rc != PR_OK)
        return rc;
    while ((rc = conn_step(q->conn, statement, q->reterr)) > 0) {
        rc = instance_take(q, statement, &q->reply->instances[q->reply->instance_count++]);
        if (rc != PR_OK)
            break;
    }
    sqlite3_reset(statement);
    for (size_t i = 0; i < q->reply->instance_count && rc == PR_OK; i++)
        q->reply->instances[i].in_flight = flights_count(q->conn, &q->s, NO_BOX, &q->reply->instances[i].id);
    return rc;
}

/* ---- Facts ------------------------------------------------------------------------------- */

static void facts_warn(struct store_facts *facts, pr_slice text)
{
    if (facts->warning_count < ARRAY_LENGTH(facts->warnings) && text.data != NULL)
        facts->warnings[facts->warning_count++] = text;
}

static int64_t file_bytes(struct question *q, const char *suffix)
{
    struct stat info;
    pr_slice path = arena_printf(q->arena, "%s%s", q->store->location.path, suffix);
    return path.data != NULL && stat(path.data, &info) == 0 ? (int64_t)info.st_size : 0;
}

static int query_facts(struct question *q)
{
    struct store_facts *facts = &q->reply->facts;
    int64_t version;
    int rc = schema_version(q->conn, &version, q->reterr);
    if (rc != PR_OK)
        return rc;
    facts->schema_version = (int)version;
    facts->schema_wanted = schema_wanted();
    facts->software = arena_printf(q->arena, "SQLite %s", sqlite3_libversion());
    if (facts->software.data == NULL)
        return no_memory(q);

    int64_t log_bytes = q->store->location.memory ? 0 : file_bytes(q, "-wal");
    facts->bytes = q->store->location.memory ? 0 : file_bytes(q, "") + log_bytes;
    if (q->store->location.memory)
        facts_warn(facts, PR_STR("messages are lost when the process ends: use a file to keep them"));
    else if (sqlite3_libversion_number() < 3051003)
        facts_warn(facts,
                   arena_printf(q->arena,
                                "SQLite %s can damage a database when two connections write and checkpoint at once"
                                " (rare, mended in 3.51.3): let applications set PRAGMA wal_autocheckpoint = 0",
                                sqlite3_libversion()));
    if (!q->store->location.full)
        facts_warn(facts, PR_STR("synchronous=normal: a power loss can undo the latest commits: use synchronous=full"));
    if (log_bytes > WAL_BYTES_MUCH) {
        facts->horizon = arena_printf(q->arena,
                                      "the log %s-wal has %lld MiB: a reader that stays open keeps it from being"
                                      " emptied, find and end it",
                                      q->store->location.path, (long long)(log_bytes >> 20));
        facts_warn(facts, facts->horizon);
    }
    return PR_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static int query_inside(struct question *q, const struct query *query)
{
    if (query->kind == QUERY_FACTS) { /* also when there are no tables */
        q->s.now_us = store_wall_us(q->store);
        return query_facts(q);
    }
    int rc = surroundings_read(q->store, q->conn, q->arena, &q->s, q->reterr);
    if (rc != PR_OK)
        return rc;
    if (query->kind == QUERY_MESSAGES || query->kind == QUERY_ID || query->kind == QUERY_ENDPOINTS)
        rc = breakers_read(q->store, q->conn, q->arena, q->reply, q->reterr);
    if (rc != PR_OK)
        return rc;
    const struct overview overview = {
        .conn = q->conn,
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
    case QUERY_BOXES: return overview_boxes(&overview);
    case QUERY_ENDPOINTS:
        return endpoints_read(q->conn, q->arena, &q->reply->endpoints, &q->reply->endpoint_count, q->reterr);
    case QUERY_INSTANCES: return query_instances(q);
    case QUERY_DEAD_COUNT: return query_dead_count(q, &query->filter);
    case QUERY_DEAD_GROUPS: return overview_groups(&overview);
    case QUERY_STREAMS: return overview_streams(&overview);
    case QUERY_AUDIT: return overview_audit(&overview);
    case QUERY_FAILING: return sqlite_failing(q->conn, &q->s, query, q->arena, q->reply, q->reterr);
    case QUERY_FACTS: break;
    }
    return error_set(q->reterr, PR_EINVAL, "there is no question of kind %d", (int)query->kind);
}

int sqlite_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                 struct pr_error *reterr)
{
    struct query_reply reply = { .now_us = 0 };
    struct question q = {
        .store = self,
        .arena = arena,
        .reply = &reply,
        .limit = query->filter.limit > 0 ? query->filter.limit : LIMIT_DEFAULT,
        .with_payload = !query->brief,
        .replayable = query->replayable,
        .reterr = reterr,
    };
    int rc = store_people(q.store, false, &q.conn, reterr);
    if (rc != PR_OK)
        return rc;
    conn_lock(q.conn);
    rc = conn_begin(q.conn, false, reterr);
    if (rc == PR_OK)
        rc = query_inside(&q, query);
    conn_rollback(q.conn); /* nothing was changed */
    conn_unlock(q.conn);
    reply.now_us = q.s.now_us;
    if (rc >= PR_OK)
        *ret_reply = reply;
    return rc < 0 ? rc : PR_OK;
}
