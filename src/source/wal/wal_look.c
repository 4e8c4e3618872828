/* The state of publication and slot, for people; and people's orders about them. */
#include <stdio.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/util.h"
#include "source/wal/wal_inside.h"

#define MAKE_US PR_SECONDS(60) /* how long a person waits for transactions that are open */

struct looker {
    struct link *sql;
    struct arena *arena;
    struct wal_report *reports;
    size_t count;
};

static int report(struct looker *l, pr_slice slot, const struct wal_slot_state *state, enum wal_level level,
                  pr_slice text)
{
    struct wal_report *r = &l->reports[l->count++];
    *r = (struct wal_report){ .slot = slice_dup(l->arena, slot), .level = level, .text = text };
    if (state != NULL) {
        r->there = state->there;
        r->active = state->active;
        r->lag = state->lag;
    }
    return r->slot.data != NULL && text.data != NULL ? PR_OK : PR_ENOMEM;
}

/* In the largest whole unit: people do not count bytes. */
static const char *size_words(struct arena *arena, int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit + 1 < ARRAY_LENGTH(units); unit++)
        value /= 1024;
    pr_slice text = arena_printf(arena, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text.data != NULL ? text.data : "?";
}

/* ---- One slot ------------------------------------------------------------------------------------------- */

static int look_configured(struct looker *l, const struct wal_setting *setting, pr_slice slot,
                           const struct wal_slot_state *s, pr_slice lost_after)
{
    const char *lag = size_words(l->arena, s->lag), *limit = size_words(l->arena, setting->max_lag);
    if (!s->there)
        return report(l, slot, s, WAL_ERROR,
                      PR_STR("the slot does not exist: postrider init creates it, and so does postrider run"));
    if (s->lost)
        return report(l, slot, s, WAL_ERROR,
                      PR_STR("the server has dropped the log that the slot needs (max_slot_wal_keep_size): "
                             "messages"
                             " emitted in it are lost; postrider run creates a new slot"));
    if (s->lag > setting->max_lag)
        return report(
            l, slot, s, WAL_ERROR,
            arena_printf(l->arena, "the server keeps %s of its log for the slot, over max_lag (%s), %s", lag, limit,
                         s->active
                             ? "though it is read: see the log of postrider run"
                             : "and nobody reads it: start postrider run, or drop it with postrider init --drop-slot"));
    if (lost_after.size > 0)
        return report(
            l, slot, s, WAL_ERROR,
            arena_printf(l->arena,
                         "the slot was gone and was created again: messages emitted after %.*s and before that were"
                         " not read; postrider init confirms that you know",
                         SLICE_ARGS(lost_after)));
    if (!s->active)
        return report(l, slot, s, WAL_WARN,
                      arena_printf(l->arena,
                                   "nobody reads the slot, and the server keeps %s of its log: start postrider run",
                                   lag));
    if (s->lag > setting->max_lag / 2)
        return report(l, slot, s, WAL_WARN,
                      arena_printf(l->arena, "the server keeps %s of its log for the slot; max_lag is %s", lag, limit));
    return report(l, slot, s, WAL_FINE, arena_printf(l->arena, "read, %s behind", size_words(l->arena, s->unread)));
}

static int look_forgotten(struct looker *l, pr_slice slot, const struct wal_slot_state *s)
{
    if (!s->there)
        return PR_OK;
    return report(l, slot, s, WAL_WARN,
                  arena_printf(l->arena,
                               "the slot is not in the configuration, and the server keeps %s of its log for it:"
                               " postrider init --drop-slot",
                               size_words(l->arena, s->lag)));
}

/* ---- All of them ------------------------------------------------------------------------------------------ */

static int look_at_slots(struct looker *l, const struct wal_setting *setting, const struct wal_names *names,
                         struct pr_error *reterr)
{
    PGresult *slots;
    bool found = false;
    int rc = link_do(l->sql, "SELECT slot, lost_after::text FROM {schema}.wal_slot ORDER BY slot", NO_BOX, NULL, &slots,
                     reterr);
    if (rc != PR_OK)
        return rc;
    l->reports = arena_alloc_array(l->arena, (size_t)PQntuples(slots) + 2, sizeof(l->reports[0]));
    if (l->reports == NULL)
        return PR_ENOMEM;
    for (int i = 0; i < PQntuples(slots) && rc == PR_OK; i++) {
        struct wal_slot_state state;
        pr_slice name = field_slice(slots, i, 0);
        bool known = setting != NULL && setting->letters && slice_eq_cstr(name, names->slot);
        rc = wal_slot_look(l->sql, name.data, &state, reterr);
        if (rc == PR_OK)
            rc = known ? look_configured(l, setting, name, &state, field_slice(slots, i, 1))
                       : look_forgotten(l, name, &state);
        found |= known;
    }
    if (rc == PR_OK && setting != NULL && setting->letters && !found)
        rc = look_configured(l, setting, slice_from(names->slot), &(struct wal_slot_state){ .there = false }, NO_BOX);
    return rc;
}

static bool is_read(const struct looker *l, const char *slot)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->reports[i].active && slice_eq_cstr(l->reports[i].slot, slot))
            return true;
    return false;
}

/* Would the server accept a replication connection? */
static int try_connection(const struct conninfo *conninfo, struct pr_error *reterr)
{
    struct wal_link link = { .conninfo = conninfo, .wake_fd = -1 };
    int rc = wal_link_open(&link, reterr);
    wal_link_close(&link);
    return rc;
}

static int look_inside(struct looker *l, const struct wal_setting *setting, struct pr_error *reterr)
{
    struct wal_names names;
    struct pr_error why;
    int rc = setting != NULL ? wal_names_make(l->sql, setting, &names, reterr) : PR_OK;
    if (rc == PR_OK)
        rc = look_at_slots(l, setting, &names, reterr);
    if (rc != PR_OK || setting == NULL || is_read(l, names.slot))
        return rc;
    rc = wal_server_check(l->sql, &why);
    if (rc == PR_OK)
        rc = try_connection(l->sql->conninfo, &why);
    return rc == PR_OK ? PR_OK
                       : report(l, slice_from(names.slot), NULL, WAL_ERROR, slice_dup(l->arena, slice_from(why.text)));
}

int wal_look(struct store *any, const struct wal_setting *setting, struct arena *arena, struct wal_report **ret,
             size_t *ret_count, struct pr_error *reterr)
{
    int rc = source_needs_postgres(SOURCE_WAL, any, reterr);
    if (rc != PR_OK)
        return rc;
    struct postgres_store *store = any->self;
    struct looker l = { .sql = store->people, .arena = arena };
    pthread_mutex_lock(&store->people_lock);
    rc = link_ensure(l.sql, reterr);
    if (rc == PR_OK)
        rc = look_inside(&l, setting, reterr);
    link_forget(l.sql);
    pthread_mutex_unlock(&store->people_lock);
    if (rc == PR_ENOMEM)
        return error_set(reterr, rc, "out of memory for a report");
    if (rc == PR_OK) {
        *ret = l.reports;
        *ret_count = l.count;
    }
    return rc;
}

/* ---- Orders ------------------------------------------------------------------------------------------------- */

static int make(struct postgres_store *store, const struct wal_setting *setting, struct pr_error *reterr)
{
    struct wal_names names;
    struct wal_link link = { .conninfo = &store->conninfo, .wake_fd = -1 };
    struct args args = { .count = 0 };
    struct link *sql = store->people;
    int rc = wal_names_make(sql, setting, &names, reterr);
    if (rc == PR_OK)
        rc = wal_server_check(sql, reterr);
    if (rc == PR_OK)
        rc = wal_publication_make(sql, setting, &names, reterr);
    if (rc == PR_OK)
        rc = wal_link_open(&link, reterr);
    if (rc == PR_OK && setting->letters)
        rc = wal_slot_make(sql, &link, &names, MAKE_US, store->log, reterr);
    wal_link_close(&link);
    arg_text(&args, slice_from(names.slot));
    if (rc == PR_OK) /* a person who creates it knows what was lost */
        rc = link_do(sql, "UPDATE {schema}.wal_slot SET lost_after = NULL WHERE slot = $1 AND lost_after IS NOT NULL",
                     NO_BOX, &args, NULL, reterr);
    return rc;
}

static int drop(struct link *sql, struct pr_error *reterr)
{
    PGresult *slots;
    int rc = link_do(sql, "SELECT slot, quote_ident(publication) FROM {schema}.wal_slot ORDER BY slot", NO_BOX, NULL,
                     &slots, reterr);
    for (int i = 0; rc == PR_OK && i < PQntuples(slots); i++) {
        char line[256];
        struct args args = { .count = 0 };
        arg_text(&args, field_slice(slots, i, 0));
        rc = link_do(sql,
                     "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = "
                     "$1::text::name",
                     NO_BOX, &args, NULL, reterr);
        if (rc != PR_OK)
            return error_set(reterr, rc, "%s: first stop every postrider run that uses it", reterr->text);
        snprintf(line, sizeof(line), "DROP PUBLICATION IF EXISTS %.*s", SLICE_ARGS(field_slice(slots, i, 1)));
        rc = link_script(sql, line, reterr);
        if (rc == PR_OK)
            rc = link_do(sql,
                         "WITH places AS (DELETE FROM {schema}.wal_place WHERE slot = $1)"
                         " DELETE FROM {schema}.wal_slot WHERE slot = $1",
                         NO_BOX, &args, NULL, reterr);
    }
    return rc;
}

int wal_order(struct store *any, const struct wal_setting *setting, enum wal_order order, struct pr_error *reterr)
{
    struct postgres_store *store = any->self;
    struct pr_error why;
    int rc = source_needs_postgres(SOURCE_WAL, any, reterr);
    if (rc != PR_OK)
        return rc;
    pthread_mutex_lock(&store->people_lock);
    rc = link_ensure(store->people, &why);
    if (rc == PR_OK)
        rc = order == WAL_MAKE ? make(store, setting, &why) : drop(store->people, &why);
    link_forget(store->people);
    pthread_mutex_unlock(&store->people_lock);
    return rc == PR_OK ? PR_OK : error_set(reterr, rc, "%s", why.text);
}
