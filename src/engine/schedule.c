/* Schedules (core/schedule.h): rows that only time acts on.
 *
 * Nothing outside gets them, so they have no endpoint, no receipt and no turn in a stream: they are judged when they
 * are read.  The verdict sets the next time, provided that the row still has the time that was read, and brings the
 * messages as effects. */
#include "core/schedule.h"

#include <stdlib.h>

#include "engine/internal.h"

#define ZONE_MISSING_US PR_MINUTES(1) /* until a schedule is looked at again whose time zone is unknown here */
#define ARENA_BLOCK 4096

/* ---- Effects --------------------------------------------------------------------------------- */

static int add_effect(struct item *item, const struct send_effect *effect)
{
    struct send_effect *copy;
    int rc = effects_copy(effect, &copy);
    if (rc == PR_OK)
        effects_append(&item->effects, copy);
    return rc;
}

static int add_message(struct item *item, const struct schedule *s, pr_slice box, int64_t at_us, struct buf *headers)
{
    struct send_effect effect = { .box = s->box.size > 0 ? s->box : box };
    buf_reset(headers);
    effect.message = schedule_message(s, box, at_us, headers);
    return buf_failed(headers) == PR_OK ? add_effect(item, &effect) : buf_failed(headers);
}

static int add_messages(struct item *item, const struct schedule *s, pr_slice box, const struct schedule_plan *plan)
{
    struct buf headers;
    int rc = PR_OK;
    buf_init(&headers, PR_HEADERS_MAX);
    for (size_t i = 0; i < plan->count && rc == PR_OK; i++)
        rc = add_message(item, s, box, plan->times[i], &headers);
    buf_fini(&headers);
    return rc;
}

/* ---- Verdicts ----------------------------------------------------------------------------------- */

/* The reason for people, in its story and in the log. */
static void say_left_out(const struct schedule *s, const struct schedule_plan *plan, struct pr_error *ret)
{
    size_t count = min_size(plan->left_out, SCHEDULE_GAP_MAX);
    error_set(ret, 0, "schedule %.*s: %s%zu %s missed and %s no message%s", SLICE_ARGS(s->name),
              plan->left_out > SCHEDULE_GAP_MAX ? "more than " : "", count, count == 1 ? "time was" : "times were",
              count == 1 ? "gets" : "get", plan->over_gap ? ": after a gap at most 1,000 are sent late" : "");
}

/* PR_ETOOBIG: its headers leave no room for those that the schedule adds. */
static int judge_times(struct engine *e, struct item *item, const struct row *row, const struct schedule *s,
                       const struct zone *zone, int64_t now_us)
{
    struct pr_error text = { .code = 0 };
    struct schedule_plan plan;
    size_t max = max_size(1, SCHEDULE_BYTES_MAX / (message_bytes(&s->message) + 1));
    /* A schedule that was postponed because its zone was missing runs for the latest time before that. */
    int64_t due_us = row->m.due_us != 0 && message_has_failed(&row->m)
                         ? min64(row->m.due_us, cron_latest(&s->cron, zone, row->m.created_us, row->m.due_us, 1))
                         : row->m.due_us;
    struct verdict v = { .kind = VERDICT_RESCHEDULE, .due_is_us = row->m.due_us };

    schedule_plan(s, zone, due_us, store_now(e, now_us), max, &plan);
    v.due_us = row->m.due_us == 0 && s->paused ? PR_NEVER : plan.next_us;
    if (v.due_us == PR_NEVER)
        plan.count = plan.left_out = 0;
    if (plan.left_out > 0) {
        say_left_out(s, &plan, &text);
        v.error = pr_str(text.text);
        v.rule = pr_str(schedule_missed_name(s->missed));
    }
    judge(e, item, &v, "missed", plan.next_us, now_us);
    if (plan.left_out == 0)
        item->verdict.story = (pr_slice){ NULL, 0 }; /* it ran as planned: the story has nothing to add */
    return add_messages(item, s, e->setting.box, &plan);
}

/* A new wish is queued behind rows that are due by now. */
static void judge_new_wish(struct engine *e, struct item *item, int64_t now_us)
{
    const struct verdict v = { .kind = VERDICT_RESCHEDULE, .due_us = store_now(e, now_us) };

    judge(e, item, &v, "", 0, now_us);
    item->verdict.story = (pr_slice){ NULL, 0 };
}

/* A wish: the schedule itself replaces it, and an earlier schedule of the same name. */
static int replace(struct engine *e, struct item *item, const struct schedule *s, pr_slice payload, int64_t due_us)
{
    struct send_effect made = { .box = e->setting.box, .message = schedule_row(s, payload, due_us) };
    struct send_effect gone = { .box = e->setting.box, .effect = { .kind = EFFECT_DELETE, .id = made.message.id } };

    int rc = add_effect(item, &gone);
    return rc == PR_OK && !s->cancel ? add_effect(item, &made) : rc;
}

/* Only the next time differs, and the schedule's payload does not say so. */
static int replace_moved(struct engine *e, struct item *item, const struct schedule *s)
{
    struct buf json;
    buf_init(&json, PR_PAYLOAD_MAX);
    schedule_encode(s, &json);
    int rc = buf_failed(&json);
    if (rc == PR_OK)
        rc = replace(e, item, s, buf_slice(&json), s->move_us);
    buf_fini(&json);
    e->reading.due_restart_us = 0; /* that time may have come already */
    return rc;
}

static int judge_wish(struct engine *e, struct item *item, const struct row *row, const struct schedule *s,
                      const struct zone *zone)
{
    const struct schedule_plan now = { .times = { row->m.due_us }, .count = 1 };

    judge_complete(e, item, 0);
    if (s->run)
        return add_messages(item, s, e->setting.box, &now);
    if (s->move_us != 0)
        return replace_moved(e, item, s);
    return replace(e, item, s, row->m.payload,
                   s->paused || s->cancel ? PR_NEVER : cron_next(&s->cron, zone, row->m.due_us));
}

static bool replaces(const struct item *item)
{
    for (const struct send_effect *s = item->effects; s != NULL; s = s->next)
        if (s->effect.kind == EFFECT_DELETE)
            return true;
    return false;
}

/* Is a wish of the same name about to replace it?  Then it does not run any more. */
static bool is_replaced(const struct engine *e, const struct row *row, pr_id own)
{
    list_foreach(node, &e->window.judged) {
        const struct item *item = LIST_ENTRY(node, struct item, node);
        if (item->verdict.kind == VERDICT_COMPLETE && item->endpoint == NULL && schedule_is_row(&item->m) &&
            slice_eq(item->m.stream, row->m.stream) && !pr_id_equal(item->m.id, own) && replaces(item))
            return true;
    }
    return false;
}

static void judge_wrong(struct engine *e, struct item *item, const char *error, int64_t now_us)
{
    judge_dead(e, item, PR_REASON_VALIDATION_FAILURE, PR_REASON_VALIDATION_FAILURE, 0, PR_STR("schedule"), true,
               PR_STR("schedule"), pr_str(error), now_us);
}

static void judge_zone_missing(struct engine *e, struct item *item, const char *error, int64_t now_us)
{
    judge_simple(e, item, VERDICT_POSTPONE, PR_REASON_DEPENDENCY_FAILURE, PR_STR("schedule"), pr_str(error), now_us);
    item->verdict.delay_us = ZONE_MISSING_US;
    item->verdict.passable = true; /* nothing waits behind it */
}

static int find_zone(const struct engine *e, pr_slice name, const struct zone **ret, struct pr_error *reterr)
{
    *ret = NULL;
    if (e->setting.find_zone != NULL)
        return e->setting.find_zone(name, ret, reterr);
    return name.size == 0 ? PR_OK : error_set(reterr, PR_EINVAL, "only UTC is available here");
}

/* Outcome PR_STALE: it is about to be replaced. */
static int judge_schedule(struct engine *e, struct item *item, const struct row *row, struct arena *arena,
                          int64_t now_us)
{
    const struct zone *zone;
    struct schedule s;
    struct pr_error error;
    pr_id own;

    if (row->over > 0)
        error_set(&error, 0, "the schedule has %zu bytes, at most %zu are allowed", row->over,
                  e->plan.cycle.payload_max);
    int rc = row->over > 0 ? PR_EINVAL : schedule_decode(row->m.stream, row->m.payload, arena, &s, &error);
    if (rc == PR_ENOMEM)
        return rc;
    if (rc != PR_OK) {
        judge_wrong(e, item, error.text, now_us);
        return PR_OK;
    }
    schedule_id(s.name, &own);
    bool wish = !pr_id_equal(own, row->m.id);
    if (!wish && s.cancel) {
        judge_wrong(e, item, "cancel is only allowed in a schedule request", now_us);
        return PR_OK;
    }
    if (find_zone(e, s.zone_name, &zone, &error) != PR_OK) {
        judge_zone_missing(e, item, error.text, now_us);
        return PR_OK;
    }
    if (s.box.size > 0 && e->setting.knows_box != NULL && !e->setting.knows_box(e->setting.knows_box_arg, s.box)) {
        error_set(&error, 0, "box: unknown box \"%.*s\"; add it under boxes: in the configuration", SLICE_ARGS(s.box));
        judge_wrong(e, item, error.text, now_us);
        return PR_OK;
    }
    if (wish && row->m.due_us == 0) {
        judge_new_wish(e, item, now_us);
        return PR_OK;
    }
    if (!wish && is_replaced(e, row, own))
        return PR_STALE;
    if (wish && s.move_us != 0 &&
        schedule_move_check(&s, s.paused, zone, s.move_us, store_now(e, now_us), &error) != PR_OK) {
        judge_wrong(e, item, error.text, now_us);
        return PR_OK;
    }
    rc = wish ? judge_wish(e, item, row, &s, zone) : judge_times(e, item, row, &s, zone, now_us);
    if (rc != PR_ETOOBIG)
        return rc;
    judge_wrong(e, item, "its headers have reached their limit: no room for " HEADER_SCHEDULE, now_us);
    return PR_OK;
}

enum admitted admit_schedule(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row light = *row;
    struct arena arena;

    light.m.payload = light.m.headers = (pr_slice){ NULL, 0 };
    struct item *item = item_new(e, &light, NULL);
    if (item == NULL)
        return NO_ROOM;
    arena_init(&arena, ARENA_BLOCK);
    int rc = judge_schedule(e, item, row, &arena, now_us);
    arena_fini(&arena);
    if (rc == PR_OK)
        return TAKEN;
    item_free(e, item);
    return rc == PR_STALE ? TAKEN : NO_ROOM; /* no memory: it is read again */
}
