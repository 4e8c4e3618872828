/* The snapshot: how far the sequence came, and which transactions had ended by then.
 *
 * S1 requires a snapshot whose xmax is above the xid of every transaction that had one when it was taken.  PostgreSQL's
 * is not: its xmax is one above the last transaction that has ended, so transactions that were begun later and still
 * run are at or above it.  So the next xid is read, too, after the snapshot was taken, and those in between count as
 * running: none of them had ended by then.  age() gives the next xid without using one up, in a transaction that has
 * none itself.  When effects go into this box, the transaction does have one: then a row that is written in a
 * subtransaction right after the snapshot shows it (its xmin is a new xid).
 *
 * And S1 requires a last value that is not above what was drawn.  The column last_value of a sequence may be: while
 * nextval() writes its log record, the row holds the value of the record, 32 numbers ahead, and a SELECT reads it
 * without the lock.  pg_sequence_last_value() takes the lock. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/postgres.h"

#define XIDS_BETWEEN_MAX (1u << 16) /* more come from a transaction with subtransactions: see snapshot_shorten() */

static const char LAST[] =
    "SELECT coalesce(pg_sequence_last_value(tableoid), 0), pg_relation_filenode(tableoid)::bigint,"
    " coalesce(pg_relation_filenode('{box}'::regclass), 0)::bigint, current_setting('track_counts')::boolean AND"
    " has_function_privilege('pg_stat_get_xact_tuples_deleted(oid)', 'EXECUTE') AND NOT"
    " (SELECT relhassubclass FROM pg_class WHERE oid = '{box}'::regclass) FROM {box_seq}"; /* NULL: none was drawn */

static const char ROUND[] = "SELECT pg_current_snapshot()::text, age(pg_snapshot_xmax(pg_current_snapshot())::xid),"
                            " pg_postmaster_start_time(), pg_current_xact_id_if_assigned()::text";

void pg_snapshot_add(struct cycle_run *run)
{
    link_add(run->link, LAST, run->session->box, NULL, &run->last);
    link_add(run->link, ROUND, NO_BOX, NULL, &run->snapshot);
}

void pg_snapshot_print(struct buf *b, const struct snapshot *s)
{
    buf_addf(b, "%llu:%llu:", (unsigned long long)s->xmin, (unsigned long long)s->xmax);
    for (size_t i = 0; i < s->xip_count; i++)
        buf_addf(b, "%s%llu", i > 0 ? "," : "", (unsigned long long)s->xip[i]);
}

/* For deletions of rows where they were written.  Without memory they are deleted in another way. */
static void latest_note(struct pg_session *session, const struct cycle_run *run, const struct snapshot *now)
{
    struct ctid_cache *cache = &session->ctid_cache;
    buf_reset(&cache->latest.text);
    pg_snapshot_print(&cache->latest.text, now);
    cache->latest.number = buf_failed(&cache->latest.text) == PR_OK ? session->snapshot_number : 0;
    cache->latest.connection = run->link->generation;
    cache->latest.file = field_i64(run->last, 0, 2);
    cache->latest.is_counted = field_bool(run->last, 0, 3) && cache->latest.file != 0;
}

/* Parses "xmin:xmax:xid,xid", and adds the xids between xmax and next; without own.  Outcome CYCLE_ANEW: these are too
 * many. */
static int snapshot_read(struct cycle_run *run, uint64_t own, struct snapshot *ret)
{
    pr_slice text = field_slice(run->snapshot, 0, 0);
    char *at = arena_alloc(&run->session->arena, text.size + 1);
    size_t room = 0;
    if (at == NULL)
        return PR_ENOMEM;
    memcpy(at, text.data, text.size);
    at[text.size] = '\0';
    for (size_t i = 0; i < text.size; i++)
        room += at[i] == ',' || at[i] == ':';
    uint64_t xmin = strtoull(at, &at, 10);
    uint64_t xmax = strtoull(at + 1, &at, 10);
    uint64_t next = xmax + (uint64_t)field_int(run->snapshot, 0, 1);
    if (own != 0) /* the mark's 32 bits, above the transaction's own */
        next = own + (uint32_t)((uint32_t)field_i64(run->mark, 0, 0) - (uint32_t)own);
    if (next < xmax || next - xmax > XIDS_BETWEEN_MAX)
        return CYCLE_ANEW;
    uint64_t *xip = arena_alloc_array(&run->session->arena, room + (size_t)(next - xmax), sizeof(xip[0]));
    if (xip == NULL)
        return PR_ENOMEM;
    *ret = (struct snapshot){ .xmin = xmin, .xmax = next, .xip = xip };
    while (*at != '\0' && at[1] != '\0') {
        uint64_t xid = strtoull(at + 1, &at, 10);
        if (xid != own)
            xip[ret->xip_count++] = xid;
    }
    for (uint64_t xid = xmax; xid < next; xid++)
        if (xid != own)
            xip[ret->xip_count++] = xid;
    return PR_OK;
}

/* For wait(): did a transaction that ran then end? */
static int running_remember(struct pg_session *session, const struct snapshot *now)
{
    uint64_t *running = realloc(session->running, (now->xip_count + 1) * sizeof(running[0]));
    if (running == NULL)
        return PR_ENOMEM;
    if (now->xip_count > 0)
        memcpy(running, now->xip, now->xip_count * sizeof(running[0]));
    session->running = running;
    session->running_count = now->xip_count;
    return PR_OK;
}

/* A transaction has used up many xids, and none has ended since.  So this one ends: then xmax is above them all.  The
 * cycle starts over. */
static int snapshot_shorten(struct cycle_run *run)
{
    link_rollback(run->link);
    int rc = link_is_up(run->link) ? link_script(run->link, "SELECT pg_catalog.pg_current_xact_id()", run->reterr)
                                   : error_set(run->reterr, PR_ESTORE, "the connection to the server was lost");
    return rc == PR_OK ? CYCLE_ANEW : rc;
}

/* S5: numbers are drawn again (TRUNCATE ... RESTART IDENTITY), or the sequence was set back. */
static void history_ends(struct cycle_run *run)
{
    scan_forget(run->session->scan);
    run->anew = true;
}

int pg_snapshot_take(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    struct snapshot now;
    int64_t last = field_i64(run->last, 0, 0);
    int64_t start = field_time(run->snapshot, 0, 2);
    pr_slice own_text = field_slice(run->snapshot, 0, 3);
    uint64_t own = own_text.size > 0 ? strtoull(own_text.data, NULL, 10) : 0;
    int64_t file = field_i64(run->last, 0, 1);

    ASSERT(own == 0 || run->mark != NULL); /* age() would return this transaction's own */
    int rc = snapshot_read(run, own, &now);
    if (rc == CYCLE_ANEW)
        return snapshot_shorten(run);
    if (session->server_start != start || session->scanned_by != run->link->generation)
        scan_forget(session->scan); /* S5; and a crash under the same postmaster ends all connections */
    else if (session->seq_file != file || (rc == PR_OK && scan_goes_back(session->scan, last, &now)))
        history_ends(run);
    session->server_start = start;
    session->seq_file = file;
    session->scanned_by = run->link->generation;
    if (rc == PR_OK)
        rc = running_remember(session, &now);
    if (rc == PR_OK)
        rc = scan_snapshot(session->scan, last, &now);
    if (rc == PR_ENOMEM)
        return error_set(run->reterr, rc, "out of memory for a snapshot");
    session->seen_last = last;
    session->seen_file = file;
    session->snapshot_number++;
    latest_note(session, run, &now);
    run->has_snapshot = rc == PR_OK;
    return rc;
}
