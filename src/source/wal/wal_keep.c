/* Letters on their way into their boxes.
 *
 * They are stored in the order of commits, in batches: one transaction for many small ones of the senders, or for a
 * part of a large one: so memory stays bounded, and nothing is visible before all of a sender's transaction is.  The
 * place in the log up to which all are stored is committed with them.  It decides after a crash: letters before it are
 * not stored again, even if the slot, which is confirmed later, sends them again.
 *
 * A letter that cannot be decoded becomes a dead letter with its bytes (B9).  So does one that the database refuses (a
 * constraint of the application): then the batch is repeated, one letter at a time. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
#include "core/letter.h"
#include "source/wal/wal_inside.h"

#define BATCH_LETTERS_MAX 1000
#define BATCH_BYTES_MAX ((size_t)4 << 20)
#define LETTER_ARENA_BYTES 16384

void wal_keep_init(struct wal_keep *keep, struct postgres_store *store, const struct wal_setting *setting,
                   struct link *sql)
{
    *keep = (struct wal_keep){ .store = store, .setting = setting, .sql = sql };
    batch_init(&keep->batch);
    bury_init(&keep->bury);
    arena_init(&keep->arena, LETTER_ARENA_BYTES);
    arena_init(&keep->box_names, ARENA_BLOCK_MIN);
}

void wal_keep_fini(struct wal_keep *keep)
{
    batch_fini(&keep->batch);
    bury_fini(&keep->bury);
    arena_fini(&keep->arena);
    arena_fini(&keep->box_names);
}

/* Pointers to the previous names are cleared. */
static int boxes_read(struct wal_keep *keep, struct pr_error *reterr)
{
    const struct link *sql = keep->sql;
    int rc = link_learn(keep->sql, reterr);
    if (rc != PR_OK)
        return rc;
    ASSERT(keep->count == 0);
    keep->box = NO_BOX;
    arena_reset(&keep->box_names);
    keep->box_count = 0;
    keep->boxes = arena_alloc_array(&keep->box_names, sql->box_count, sizeof(keep->boxes[0]));
    for (size_t i = 0; i < sql->box_count && keep->boxes != NULL; i++) {
        keep->boxes[i] = slice_dup(&keep->box_names, slice_from(sql->boxes[i].name));
        keep->box_count += keep->boxes[i].data != NULL;
    }
    return keep->box_count == sql->box_count ? PR_OK
                                             : error_set(reterr, PR_ENOMEM, "out of memory for the names of boxes");
}

int wal_keep_begin(struct wal_keep *keep, const char *slot, struct pr_error *reterr)
{
    PGresult *r;
    struct args args = { .count = 0 };
    arg_text(&args, slice_from(slot));
    int rc = link_do(keep->sql,
                     "SELECT c.system_identifier, (SELECT max(place) - '0/0'::pg_lsn FROM {schema}.wal_place"
                     " WHERE slot = $1 AND system = c.system_identifier)::bigint FROM pg_control_system() c",
                     NO_BOX, &args, &r, reterr);
    if (rc != PR_OK)
        return rc;
    keep->slot = slot;
    keep->system = field_i64(r, 0, 0);
    keep->stored = (wal_place)field_i64(r, 0, 1);
    rc = boxes_read(keep, reterr);
    link_forget(keep->sql);
    return rc;
}

/* ---- Into the box ------------------------------------------------------------------------------------ */

static void open_transaction(struct wal_keep *keep)
{
    if (keep->open)
        return;
    link_add_begin(keep->sql);
    keep->open = true;
    keep->kept = (struct source_counts){ 0 };
}

static void batch_forget(struct wal_keep *keep)
{
    batch_begin(&keep->batch, keep->sql->pg);
    keep->count = keep->bytes = 0;
}

static int flush(struct wal_keep *keep, struct pr_error *reterr)
{
    struct args args;
    PGresult *stored = NULL;
    size_t mark = keep->sql->result_count;
    if (keep->count == 0)
        return PR_OK;
    batch_args(&keep->batch, pg_store_wall_us(keep->store), &args);
    open_transaction(keep);
    link_add(keep->sql, PG_MESSAGE_INSERT, keep->box, &args, &stored);
    int rc = link_run(keep->sql, reterr);
    if (rc == PR_OK) {
        keep->kept.stored += (size_t)PQntuples(stored);
        keep->kept.duplicates += keep->count - (size_t)PQntuples(stored);
    } else {
        keep->careful |= link_is_refusal(keep->sql);
    }
    link_forget_after(keep->sql, mark); /* a transaction may have any number of batches */
    batch_forget(keep);
    return rc;
}

static int add(struct wal_keep *keep, pr_slice box, const struct pr_message *m, struct pr_error *reterr)
{
    if (!slice_eq(box, keep->box)) {
        int rc = flush(keep, reterr);
        if (rc != PR_OK)
            return rc;
        keep->box = box;
    }
    if (keep->count == 0)
        batch_forget(keep);
    batch_add(&keep->batch, m);
    keep->count++;
    keep->bytes += message_bytes(m);
    return keep->count >= BATCH_LETTERS_MAX || keep->bytes >= BATCH_BYTES_MAX ? flush(keep, reterr) : PR_OK;
}

/* ---- Dead letters --------------------------------------------------------------------------------------- */

/* clang-format off */
static const char DEAD_INSERT[] = BURY_WITH("", "") "v.payload, v.payload_bytes" BURY_REST BURY_END;
/* clang-format on */

static int bury(struct wal_keep *keep, pr_slice box, pr_id id, const struct wal_event *event, const char *why,
                struct pr_error *reterr)
{
    struct args args;
    pr_slice error = slice_from(why);
    const struct pr_message m = { .id = id,
                                  .source = arena_printf(&keep->arena, "wal:%s", keep->setting->prefix),
                                  .payload = event->content };
    int64_t now_us = pg_store_wall_us(keep->store);
    int rc = flush(keep, reterr);
    if (rc != PR_OK)
        return rc;
    bury_begin(&keep->bury, keep->sql->pg);
    rc = bury_add(&keep->bury, &m, error, error, NO_BOX, now_us != 0 ? now_us : clock_wall_us(clock_system()));
    if (rc != PR_OK)
        return error_set(reterr, rc, "out of memory for a dead letter");
    bury_args(&keep->bury, now_us, &args);
    open_transaction(keep);
    link_add(keep->sql, DEAD_INSERT, box, &args, NULL);
    rc = link_run(keep->sql, reterr);
    if (rc == PR_OK) {
        char place[WAL_PLACE_TEXT_SIZE], text[256];
        keep->kept.dead++;
        wal_place_format(event->place, place);
        snprintf(text, sizeof(text), "at %s: %.200s", place, why);
        undecodable_note(&keep->undecodable, text);
        undecodable_log_line(&keep->undecodable, keep->store->log, "wal", box, clock_mono_us(clock_system()));
    }
    return rc;
}

/* A letter that the database may refuse: only this one is undone then. */
static int add_carefully(struct wal_keep *keep, pr_slice box, const struct pr_message *m, const struct wal_event *event,
                         struct pr_error *reterr)
{
    struct pr_error why;
    int rc = flush(keep, reterr);
    open_transaction(keep);
    if (rc == PR_OK)
        rc = link_run(keep->sql, reterr);
    if (rc == PR_OK)
        rc = link_script(keep->sql, "SAVEPOINT letter", reterr);
    if (rc == PR_OK)
        rc = add(keep, box, m, reterr);
    if (rc != PR_OK)
        return rc;
    rc = flush(keep, &why);
    if (rc == PR_OK)
        return link_script(keep->sql, "RELEASE SAVEPOINT letter", reterr);
    if (!link_is_refusal(keep->sql))
        return error_set(reterr, rc, "%s", why.text);
    rc = link_script(keep->sql, "ROLLBACK TO SAVEPOINT letter", reterr);
    return rc == PR_OK ? bury(keep, box, m->id, event, why.text, reterr) : rc;
}

/* ---- One letter --------------------------------------------------------------------------------------------- */

/* PREFIX is Postrider's, and PREFIX:BOX names the box.  False: it belongs to another program. */
static bool is_ours(const struct wal_keep *keep, pr_slice prefix, pr_slice *ret_named)
{
    pr_slice own = slice_from(keep->setting->prefix);
    if (!slice_starts_with(prefix, own) || (prefix.size > own.size && prefix.data[own.size] != ':'))
        return false;
    *ret_named = prefix.size > own.size ? (pr_slice){ prefix.data + own.size + 1, prefix.size - own.size - 1 } : NO_BOX;
    return true;
}

static pr_slice box_find(const struct wal_keep *keep, pr_slice name)
{
    for (size_t i = 0; i < keep->box_count; i++)
        if (slice_eq(name, keep->boxes[i]))
            return keep->boxes[i];
    return NO_BOX;
}

/* The box may have been created a moment ago. */
static int box_get(struct wal_keep *keep, pr_slice name, pr_slice *ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    *ret = box_find(keep, name);
    if (ret->size > 0)
        return PR_OK;
    rc = flush(keep, reterr);
    if (rc == PR_OK)
        rc = boxes_read(keep, reterr);
    *ret = box_find(keep, name);
    return rc;
}

/* The same letter always gets the same id: from its place in the log. */
static pr_id id_of_place(const struct wal_keep *keep, wal_place place, int64_t at_us)
{
    uint8_t bits[10];
    uint64_t server = hash_u64((uint64_t)keep->system);
    pr_id id;
    bits[0] = (uint8_t)server; /* of these bytes id_make() keeps 4, 8 and 6 bits */
    bits[1] = (uint8_t)(place >> 56);
    bits[2] = (uint8_t)(server >> 8);
    for (int i = 0; i < 7; i++)
        bits[3 + i] = (uint8_t)(place >> (48 - 8 * i));
    id_make(at_us / 1000, bits, &id);
    return id;
}

/* PR_OK, or why it is not a message; PR_ENOMEM. */
static int letter_check(struct wal_keep *keep, const struct wal_event *event, pr_slice named, pr_slice box,
                        struct pr_message *ret, struct pr_error *why)
{
    if (!event->with_transaction)
        return error_set(why, PR_EINVAL,
                         "it was emitted outside of its transaction, which may have been rolled back: use"
                         " pg_logical_emit_message(true, ...)");
    if (box.size == 0)
        return error_set(why, PR_EINVAL, "unknown box \"%.*s\"", (int)min_size(named.size, BOX_NAME_MAX), named.data);
    int rc = letter_read(event->content, &keep->arena, ret, why);
    return rc == PR_OK ? message_check(ret, keep->store->payload_max, why) : rc;
}

int wal_keep_letter(struct wal_keep *keep, const struct wal_event *event, int64_t at_us, struct pr_error *reterr)
{
    struct pr_message m;
    struct pr_error why;
    pr_slice named, box = slice_from(keep->setting->box);
    if (!is_ours(keep, event->prefix, &named))
        return PR_OK;
    arena_reset(&keep->arena);
    int rc = named.size > 0 ? box_get(keep, named, &box, reterr) : PR_OK;
    if (rc != PR_OK)
        return rc;
    pr_id id = id_of_place(keep, event->place, at_us);
    rc = letter_check(keep, event, named, box, &m, &why);
    if (rc == PR_ENOMEM)
        return error_set(reterr, rc, "%s", why.text);
    if (rc != PR_OK)
        return bury(keep, box.size > 0 ? box : slice_from(keep->setting->box), id, event, why.text, reterr);
    if (pr_id_is_zero(m.id))
        m.id = id;
    return keep->careful ? add_carefully(keep, box, &m, event, reterr) : add(keep, box, &m, reterr);
}

/* ---- The place ------------------------------------------------------------------------------------------------ */

static void add_place(struct wal_keep *keep, wal_place place, struct args *now, struct args *before)
{
    *now = *before = (struct args){ .count = 0 };
    arg_text(now, slice_from(keep->slot));
    arg_i64(now, keep->system);
    arg_i64(now, (int64_t)place);
    link_add(keep->sql, "INSERT INTO {schema}.wal_place VALUES ($1, $2, '0/0'::pg_lsn + $3) ON CONFLICT DO NOTHING",
             NO_BOX, now, NULL);
    arg_text(before, slice_from(keep->slot));
    arg_i64(before, keep->system);
    arg_i64(before, (int64_t)keep->stored);
    link_add(keep->sql, "DELETE FROM {schema}.wal_place WHERE slot = $1 AND system = $2 AND place = '0/0'::pg_lsn + $3",
             NO_BOX, before, NULL);
}

int wal_keep_commit(struct wal_keep *keep, wal_place place, struct pr_error *reterr)
{
    struct args now, before;
    int rc = flush(keep, reterr);
    if (rc != PR_OK || !keep->open)
        return rc;
    FAILPOINT("wal.before_commit");
    if (place > keep->stored)
        add_place(keep, place, &now, &before);
    link_add_commit(keep->sql);
    rc = link_run(keep->sql, reterr);
    FAILPOINT("wal.after_commit");
    if (rc != PR_OK)
        return rc;
    link_forget(keep->sql);
    keep->open = false;
    keep->stored = place > keep->stored ? place : keep->stored;
    pg_store_wake(keep->store);
    return PR_OK;
}

void wal_keep_drop(struct wal_keep *keep)
{
    keep->open = false;
    link_rollback(keep->sql);
    link_forget(keep->sql);
    batch_forget(keep);
}
