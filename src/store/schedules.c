#include "store/schedules.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"

#define PAGE_ROWS 1000
#define SCHEDULES_MAX 100000
#define SPEC_BYTES_MAX ((size_t)PR_PAYLOAD_MAX)
#define BY_CLOCK "clock" /* recorded in the audit as the author of corrections after a wrong clock */

const char *schedule_state_name(enum schedule_state state)
{
    static const char *const names[] = { [SCHEDULE_ACTIVE] = "active",
                                         [SCHEDULE_PAUSED] = "paused",
                                         [SCHEDULE_NEW] = "new",
                                         [SCHEDULE_FAILING] = "failing",
                                         [SCHEDULE_DEAD] = "dead" };
    return names[state];
}

/* ---- Finding ---------------------------------------------------------------------------------- */

struct finder {
    struct store *store;
    struct arena *arena;
    struct schedule_info *list;
    size_t count, room;
    bool known; /* without new rows, which would require reading a whole backlog */
    struct pr_error *reterr;
};

static int no_memory(const struct finder *f)
{
    return error_set(f->reterr, PR_ENOMEM, "out of memory for %zu schedules", f->count);
}

static struct schedule_info *info_new(struct finder *f)
{
    if (f->count == f->room) {
        size_t room = f->room * 2 + 16;
        struct schedule_info *list = arena_alloc_array(f->arena, room, sizeof(list[0]));
        if (list == NULL)
            return NULL;
        for (size_t i = 0; i < f->count; i++)
            list[i] = f->list[i];
        f->list = list;
        f->room = room;
    }
    return &f->list[f->count++];
}

static enum schedule_state state_of(const struct schedule_info *info)
{
    const struct pr_message *m = &info->row->m;
    if (info->row->state == STATE_DEAD)
        return SCHEDULE_DEAD;
    if (m->due_us == PR_NEVER)
        return SCHEDULE_PAUSED;
    if (message_has_failed(m) || info->error.size > 0)
        return SCHEDULE_FAILING;
    return info->wish || m->due_us == 0 ? SCHEDULE_NEW : SCHEDULE_ACTIVE;
}

static int found(struct finder *f, const struct listed *row)
{
    struct schedule_info *info = info_new(f);
    struct pr_error why;
    const struct zone *zone;
    pr_id own;
    if (info == NULL)
        return no_memory(f);
    *info = (struct schedule_info){ .row = row };
    int rc = schedule_decode(row->m.stream, row->m.payload, f->arena, &info->s, &why);
    if (rc == PR_OK)
        rc = zone_find(info->s.zone_name, &zone, &why);
    if (rc == PR_ENOMEM)
        return no_memory(f);
    if (rc != PR_OK)
        info->error = slice_dup(f->arena, slice_from(why.text));
    info->s.name = row->m.stream;
    schedule_id(info->s.name, &own);
    info->wish = !pr_id_equal(own, row->m.id);
    info->state = state_of(info);
    bool failing = info->state == SCHEDULE_FAILING || info->state == SCHEDULE_DEAD;
    if (failing && row->m.error.size > 0)
        info->error = row->m.error;
    info->next_us = info->state == SCHEDULE_ACTIVE || info->state == SCHEDULE_FAILING ? row->m.due_us : 0;
    return PR_OK;
}

/* Reads page after page. */
static int find_all(struct finder *f, enum query_kind kind, pr_slice name)
{
    struct query query = { .kind = kind,
                           .filter = { .endpoint = PR_STR(SCHEDULE_DESTINATION),
                                       .stream = name,
                                       .state = -1,
                                       .not_fresh = f->known,
                                       .limit = PAGE_ROWS } };
    struct query_reply reply = { .more = true };
    int rc = PR_OK;
    while (rc == PR_OK && reply.more && f->count < SCHEDULES_MAX) {
        rc = store_query(f->store, &query, f->arena, &reply, f->reterr);
        for (size_t i = 0; i < reply.listed_count && rc == PR_OK; i++)
            rc = found(f, &reply.listed[i]);
        query.filter.after = reply.next;
        query.filter.after_box = kind == QUERY_MESSAGES ? reply.next_box : (pr_slice){ NULL, 0 };
    }
    return rc;
}

static int find(struct finder *f, pr_slice name, struct schedule_info **ret, size_t *ret_count)
{
    int rc = find_all(f, QUERY_MESSAGES, name);
    if (rc == PR_OK)
        rc = find_all(f, QUERY_DEAD, name);
    *ret = f->list;
    *ret_count = f->count;
    return rc;
}

int schedules_find(struct store *store, pr_slice name, struct arena *arena, struct schedule_info **ret,
                   size_t *ret_count, struct pr_error *reterr)
{
    struct finder f = { .store = store, .arena = arena, .reterr = reterr };
    return find(&f, name, ret, ret_count);
}

int schedules_find_known(struct store *store, struct arena *arena, struct schedule_info **ret, size_t *ret_count,
                         struct pr_error *reterr)
{
    struct finder f = { .store = store, .arena = arena, .known = true, .reterr = reterr };
    return find(&f, (pr_slice){ NULL, 0 }, ret, ret_count);
}

/* ---- Storing ------------------------------------------------------------------------------------ */

static int put_row(struct store *store, pr_slice box, struct pr_message *row, bool replace, size_t payload_max,
                   struct pr_error *reterr)
{
    int answer = PR_OK;
    int rc = store_enqueue(store, box, row, 1, payload_max, NULL, &answer, reterr);
    if (rc != PR_OK || answer == PR_OK || !replace)
        return rc != PR_OK ? rc : answer;
    row->id = (pr_id){ { 0 } }; /* a wish: its owner replaces the existing schedule with it */
    row->due_us = 0;
    return store_enqueue(store, box, row, 1, payload_max, NULL, NULL, reterr);
}

int schedule_put(struct store *store, pr_slice box, const struct schedule *s, bool replace, size_t payload_max,
                 struct pr_error *reterr)
{
    const struct zone *zone;
    struct buf json;
    int rc = zone_find(s->zone_name, &zone, reterr);
    if (rc != PR_OK)
        return rc;
    buf_init(&json, SPEC_BYTES_MAX);
    schedule_encode(s, &json);
    int64_t due_us = s->paused ? PR_NEVER : cron_next(&s->cron, zone, store_time(store));
    struct pr_message row = schedule_row(s, buf_slice(&json), due_us);
    rc = buf_failed(&json) == PR_OK ? put_row(store, box, &row, replace, payload_max, reterr)
                                    : error_set(reterr, PR_ENOMEM, "out of memory for a schedule");
    buf_fini(&json);
    return rc;
}

int schedule_run_now(struct store *store, const struct schedule_info *info, size_t payload_max, pr_id *ret_id,
                     struct pr_error *reterr)
{
    struct buf headers;
    if (info->s.cron_text.size == 0)
        return error_set(reterr, PR_EINVAL, "schedule %.*s cannot be read: %.*s", SLICE_ARGS(info->s.name),
                         SLICE_ARGS(info->error));
    buf_init(&headers, PR_HEADERS_MAX);
    struct pr_message m = schedule_message(&info->s, info->row->box, store_time(store), &headers);
    pr_slice box = info->s.box.size > 0 ? info->s.box : info->row->box;
    int rc = buf_failed(&headers) == PR_OK
                 ? store_enqueue(store, box, &m, 1, payload_max, ret_id, NULL, reterr)
                 : error_set(reterr, PR_ETOOBIG, "its headers have no room for those of the schedule");
    buf_fini(&headers);
    return rc;
}

/* ---- Orders ---------------------------------------------------------------------------------------- */

static int order_row(struct store *store, const struct schedule_info *info, enum admin_kind kind, int64_t due_us,
                     pr_slice by, pr_slice why, struct admin_reply *ret, struct pr_error *reterr)
{
    const struct admin admin = { .kind = kind,
                                 .filter = { .ids = &info->row->m.id,
                                             .id_count = 1,
                                             .box = info->row->box,
                                             .endpoint = PR_STR(SCHEDULE_DESTINATION),
                                             .state = -1 },
                                 .until_us = due_us,
                                 .by = by,
                                 .why = why };
    return store_admin(store, &admin, ret, reterr);
}

/* When the schedule continues; 0: at once. */
static int64_t next_from(const struct schedule_info *info, int64_t now_us)
{
    const struct zone *zone;
    struct pr_error why;
    if (info->wish || info->error.size > 0 || zone_find(info->s.zone_name, &zone, &why) != PR_OK)
        return 0;
    return cron_next(&info->s.cron, zone, now_us);
}

static int check_move(const struct schedule_info *info, int64_t to_us, int64_t now_us, struct pr_error *reterr)
{
    const struct zone *zone;
    if (info->wish)
        return error_set(reterr, PR_EINVAL, "schedule %.*s is new: no running instance has read it yet",
                         SLICE_ARGS(info->s.name));
    int rc = zone_find(info->s.zone_name, &zone, reterr);
    return rc == PR_OK ? schedule_move_check(&info->s, info->state == SCHEDULE_PAUSED, zone, to_us, now_us, reterr)
                       : rc;
}

static int order_one(struct store *store, const struct schedule_info *info, enum schedule_order order, int64_t to_us,
                     pr_slice by, pr_slice why, struct pr_error *reterr)
{
    struct admin_reply reply = { 0 };
    int64_t now_us = store_time(store), next_us;
    int rc = PR_OK;
    switch (order) {
    case SCHEDULE_PAUSE: return order_row(store, info, ADMIN_PARK, 0, by, why, &reply, reterr);
    case SCHEDULE_CANCEL:
        return order_row(store, info, info->state == SCHEDULE_DEAD ? ADMIN_DEAD_DISCARD : ADMIN_DISCARD, 0, by, why,
                         &reply, reterr);
    case SCHEDULE_RESUME:
        if (info->state != SCHEDULE_PAUSED)
            return PR_OK;
        next_us = next_from(info, now_us);
        return order_row(store, info, next_us != 0 ? ADMIN_RESCHEDULE : ADMIN_RETRY, next_us, by, why, &reply, reterr);
    case SCHEDULE_MOVE:
        rc = check_move(info, to_us, now_us, reterr);
        return rc == PR_OK ? order_row(store, info, ADMIN_RESCHEDULE, to_us, by, why, &reply, reterr) : rc;
    }
    return rc;
}

int schedule_order(struct store *store, pr_slice name, enum schedule_order order, int64_t to_us, pr_slice by,
                   pr_slice why, struct pr_error *reterr)
{
    struct schedule_info *list;
    struct arena arena;
    size_t count, done = 0;
    arena_init(&arena, ARENA_BLOCK_MIN);
    int rc = schedules_find(store, name, &arena, &list, &count, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        if (list[i].state == SCHEDULE_DEAD && order != SCHEDULE_CANCEL)
            continue;
        rc = order_one(store, &list[i], order, to_us, by, why, reterr);
        done++;
    }
    if (rc == PR_OK && done == 0)
        rc = error_set(reterr, PR_ENOTFOUND, "unknown schedule \"%.*s\"", SLICE_ARGS(name));
    arena_fini(&arena);
    return rc;
}

static int take_back(struct store *store, const struct schedule_info *info, bool *ret_taken, struct pr_error *reterr)
{
    const struct zone *zone;
    struct admin_reply reply = { 0 };
    int64_t now_us = store_time(store);
    *ret_taken = false;
    if (info->state != SCHEDULE_ACTIVE || zone_find(info->s.zone_name, &zone, reterr) != PR_OK ||
        !schedule_is_ahead(&info->s, zone, info->next_us, now_us))
        return PR_OK;
    *ret_taken = true;
    return order_row(store, info, ADMIN_RESCHEDULE, cron_next(&info->s.cron, zone, now_us), PR_STR(BY_CLOCK),
                     PR_STR("its next run was too far in the future: a clock was wrong"), &reply, reterr);
}

int schedules_take_back(struct store *store, size_t *ret_count, struct pr_error *reterr)
{
    struct schedule_info *list;
    struct arena arena;
    size_t count;
    *ret_count = 0;
    arena_init(&arena, ARENA_BLOCK_MIN);
    int rc = schedules_find_known(store, &arena, &list, &count, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        bool taken;
        rc = take_back(store, &list[i], &taken, reterr);
        *ret_count += taken;
    }
    arena_fini(&arena);
    return rc;
}
