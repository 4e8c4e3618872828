/* Schedules: stored as a message that the owner of its box takes up (core/schedule.h). */
#include "core/schedule.h"

#include "base/error.h"
#include "base/slice.h"
#include "lib/lib.h"
#include "runtime/runtime.h"
#include "store/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)PR_MISSED_ONCE == (int)MISSED_ONCE && (int)PR_MISSED_SKIP == (int)MISSED_SKIP &&
                   (int)PR_MISSED_ALL == (int)MISSED_ALL,
               "the same words");

static int check_schedule(const struct pr_schedule *p, struct schedule *s, struct pr_error *reterr)
{
    const struct zone *zone;
    struct pr_message m;
    int rc = cron_parse(s->cron_text, &s->cron, reterr);
    if (rc == PR_OK)
        rc = zone_find(s->zone_name, &zone, reterr);
    if (rc == PR_OK && p->box != NULL)
        rc = lib_box(p->box, &s->box, reterr);
    if (rc == PR_OK)
        rc = lib_message(&s->message, &m, reterr);
    if (rc == PR_OK && schedule_is_row(&s->message))
        rc = error_set(reterr, PR_EINVAL, "destination: a schedule cannot create schedules");
    return rc;
}

int lib_schedule(const struct pr_schedule *p, struct schedule *ret, struct pr_error *reterr)
{
    if (p == NULL || p->name == NULL)
        return lib_missing(p == NULL ? "schedule" : "name", reterr);
    *ret = (struct schedule){ .name = slice_from(p->name),
                              .cron_text = slice_from(p->cron),
                              .zone_name = slice_from(p->zone),
                              .missed = (enum schedule_missed)p->missed,
                              .grace_us = p->grace_us != 0 ? p->grace_us : SCHEDULE_GRACE_US,
                              .paused = p->paused,
                              .cancel = p->cron == NULL,
                              .message = p->message };
    ret->message.id = (pr_id){ { 0 } };
    ret->message.due_us = ret->message.expires_us = 0;
    if (!schedule_name_is_valid(ret->name))
        return error_set(reterr, PR_EINVAL,
                         "name: \"%.64s\" is not valid; write letters, digits, _ - and ., at most %d", p->name,
                         SCHEDULE_NAME_MAX);
    if ((unsigned)p->missed > PR_MISSED_ALL)
        return error_set(reterr, PR_EINVAL, "missed: %d is not a value of enum pr_missed", (int)p->missed);
    if (ret->grace_us < PR_SECONDS(1))
        return error_set(reterr, PR_EINVAL, "grace_us: %lld is less than a second", (long long)ret->grace_us);
    return ret->cancel ? PR_OK : check_schedule(p, ret, reterr);
}

/* Stores a message in the box outbox. */
typedef int send_one(void *arg, const struct pr_message *message, struct pr_error *reterr);

static int send_wish(const struct pr_schedule *p, send_one *send, void *arg, struct pr_error *reterr)
{
    struct schedule s;
    struct buf json;
    int rc = lib_schedule(p, &s, reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&json, LIB_PAYLOAD_MAX);
    schedule_encode(&s, &json);
    struct pr_message wish = schedule_row(&s, buf_slice(&json), 0);
    wish.id = (pr_id){ { 0 } };
    rc = buf_failed(&json) == PR_OK ? send(arg, &wish, reterr)
                                    : error_set(reterr, PR_ENOMEM, "out of memory for a schedule");
    buf_fini(&json);
    return rc;
}

static int send_sqlite(void *arg, const struct pr_message *message, struct pr_error *reterr)
{
    return pr_send_sqlite(arg, message, NULL, reterr);
}

struct pg_target {
    struct pg_conn *conn;
    char box[2 * BOX_NAME_MAX + 2]; /* "schema.outbox", or "outbox" */
};

static int send_pg(void *arg, const struct pr_message *message, struct pr_error *reterr)
{
    struct pg_target *target = arg;
    return pr_send_pg_box(target->conn, target->box, message, NULL, reterr);
}

PR_API int pr_schedule_sqlite(struct sqlite3 *db, const struct pr_schedule *schedule, struct pr_error *reterr)
{
    return send_wish(schedule, send_sqlite, db, reterr);
}

PR_API int pr_schedule_pg(struct pg_conn *conn, const struct pr_schedule *schedule, struct pr_error *reterr)
{
    struct pg_target target = { .conn = conn, .box = LIB_BOX_DEFAULT };
    const char *dot = schedule != NULL && schedule->box != NULL ? strchr(schedule->box, '.') : NULL;
    if (dot == NULL)
        return send_wish(schedule, send_pg, &target, reterr);
    if (dot - schedule->box > BOX_NAME_MAX)
        return error_set(reterr, PR_EINVAL, "box: the name of the schema has more than %d bytes", BOX_NAME_MAX);
    struct pr_schedule inside = *schedule;
    inside.box = dot + 1;
    (void)snprintf(target.box, sizeof(target.box), "%.*s.%s", (int)(dot - schedule->box), schedule->box,
                   LIB_BOX_DEFAULT);
    return send_wish(&inside, send_pg, &target, reterr);
}

/* ---- In the store of an engine ------------------------------------------------------------------ */

static int enter(struct pr_engine *engine, struct runtime_inside *ret, struct pr_error *reterr)
{
    return engine != NULL ? runtime_enter(lib_runtime(engine), ret, reterr) : lib_missing("engine", reterr);
}

static int order(struct pr_engine *engine, const char *name, enum schedule_order kind, int64_t to_us,
                 struct pr_error *reterr)
{
    struct runtime_inside in;
    int rc = enter(engine, &in, reterr);
    if (rc != PR_OK)
        return rc;
    rc = name != NULL && name[0] != '\0'
             ? schedule_order(in.store, slice_from(name), kind, to_us, PR_STR("program"), (pr_slice){ NULL, 0 }, reterr)
             : lib_missing("name", reterr);
    runtime_leave(lib_runtime(engine));
    return rc;
}

PR_API int pr_engine_schedule(struct pr_engine *engine, const struct pr_schedule *schedule, struct pr_error *reterr)
{
    struct runtime_inside in;
    struct schedule s;
    int rc = lib_schedule(schedule, &s, reterr);
    if (rc == PR_OK && s.cancel)
        return order(engine, schedule->name, SCHEDULE_CANCEL, 0, reterr);
    if (rc == PR_OK)
        rc = enter(engine, &in, reterr);
    if (rc != PR_OK)
        return rc;
    rc = schedule_put(in.store, PR_STR(LIB_BOX_DEFAULT), &s, true, (size_t)in.config->payload_max, reterr);
    runtime_leave(lib_runtime(engine));
    return rc;
}

PR_API int pr_engine_schedule_pause(struct pr_engine *engine, const char *name, struct pr_error *reterr)
{
    return order(engine, name, SCHEDULE_PAUSE, 0, reterr);
}

PR_API int pr_engine_schedule_resume(struct pr_engine *engine, const char *name, struct pr_error *reterr)
{
    return order(engine, name, SCHEDULE_RESUME, 0, reterr);
}

PR_API int pr_engine_schedule_cancel(struct pr_engine *engine, const char *name, struct pr_error *reterr)
{
    return order(engine, name, SCHEDULE_CANCEL, 0, reterr);
}

PR_API int pr_engine_schedule_move(struct pr_engine *engine, const char *name, int64_t due_us, struct pr_error *reterr)
{
    return order(engine, name, SCHEDULE_MOVE, due_us, reterr);
}

PR_API int pr_engine_schedule_run(struct pr_engine *engine, const char *name, pr_id *ret_id, struct pr_error *reterr)
{
    struct runtime_inside in;
    struct schedule_info *list;
    struct arena arena;
    size_t count;
    int rc = enter(engine, &in, reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&arena, ARENA_BLOCK_MIN);
    rc = schedules_find(in.store, slice_from(name), &arena, &list, &count, reterr);
    if (rc == PR_OK && (count == 0 || name == NULL))
        rc = error_set(reterr, PR_ENOTFOUND, "unknown schedule \"%.100s\"", name != NULL ? name : "");
    if (rc == PR_OK)
        rc = schedule_run_now(in.store, &list[0], (size_t)in.config->payload_max, ret_id, reterr);
    arena_fini(&arena);
    runtime_leave(lib_runtime(engine));
    return rc;
}

/* ---- Looking ------------------------------------------------------------------------------------- */

_Static_assert((int)PR_SCHEDULE_ACTIVE == (int)SCHEDULE_ACTIVE && (int)PR_SCHEDULE_PAUSED == (int)SCHEDULE_PAUSED &&
                   (int)PR_SCHEDULE_NEW == (int)SCHEDULE_NEW && (int)PR_SCHEDULE_FAILING == (int)SCHEDULE_FAILING &&
                   (int)PR_SCHEDULE_DEAD == (int)SCHEDULE_DEAD,
               "the same states");

/* The list as the caller gets it, and the memory of its texts. */
struct kept_list {
    struct pr_schedule_list list;
    struct arena arena;
};

static struct pr_schedule_info info_of(const struct schedule_info *s)
{
    return (struct pr_schedule_info){ .name = s->s.name,
                                      .cron = s->s.cron_text,
                                      .zone = s->s.zone_name,
                                      .missed = (enum pr_missed)s->s.missed,
                                      .grace_us = s->s.grace_us,
                                      .state = (enum pr_schedule_state)s->state,
                                      .next_us = s->next_us,
                                      .in_config = s->s.config.size > 0,
                                      .box = s->s.box.size > 0 ? s->s.box : s->row->box,
                                      .message = s->s.message,
                                      .error = s->error };
}

static int list_fill(struct kept_list *kept, struct store *store, const char *name, struct pr_error *reterr)
{
    struct schedule_info *found;
    size_t count;
    int rc = schedules_find(store, slice_from(name), &kept->arena, &found, &count, reterr);
    struct pr_schedule_info *entries =
        rc == PR_OK ? arena_alloc_array(&kept->arena, count + 1, sizeof(entries[0])) : NULL;
    if (rc != PR_OK || entries == NULL)
        return rc != PR_OK ? rc : error_set(reterr, PR_ENOMEM, "out of memory for %zu schedules", count);
    for (size_t i = 0; i < count; i++)
        entries[i] = info_of(&found[i]);
    kept->list = (struct pr_schedule_list){ entries, count };
    return PR_OK;
}

PR_API int pr_engine_schedules(struct pr_engine *engine, const char *name, struct pr_schedule_list **ret_list,
                               struct pr_error *reterr)
{
    struct runtime_inside in;
    struct kept_list *kept = calloc(1, sizeof(*kept));
    int rc = kept != NULL ? enter(engine, &in, reterr) : error_set(reterr, PR_ENOMEM, "out of memory for schedules");
    if (rc != PR_OK) {
        free(kept);
        return rc;
    }
    arena_init(&kept->arena, ARENA_BLOCK_MIN);
    rc = list_fill(kept, in.store, name, reterr);
    runtime_leave(lib_runtime(engine));
    if (rc == PR_OK)
        *ret_list = &kept->list;
    else
        pr_schedule_list_free(&kept->list);
    return rc;
}

PR_API void pr_schedule_list_free(struct pr_schedule_list *list)
{
    struct kept_list *kept = (struct kept_list *)list; /* the list is its first member */
    if (kept == NULL)
        return;
    arena_fini(&kept->arena);
    free(kept);
}
