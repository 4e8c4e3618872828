/* A view as numbers for people, and as an object for programs. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "cli/top/view.h"
#include "ops/member.h"
#include "ops/reply.h"
#include "ops/status.h"

static const char *made(pr_slice text)
{
    ASSERT(text.data != NULL);
    return text.data;
}

const char *count_grouped(struct arena *arena, uint64_t count)
{
    if (count < 1000)
        return made(arena_printf(arena, "%" PRIu64, count));
    return made(arena_printf(arena, "%" PRIu64 ",%03" PRIu64, count / 1000, count % 1000));
}

const char *count_human(struct arena *arena, uint64_t count)
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = { { 1000000000, "G" }, { 1000000, "M" }, { 1000, "k" } };

    if (count < 100000)
        return count_grouped(arena, count);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (count < units[i].unit)
            continue;
        if (count / units[i].unit < 100)
            return made(arena_printf(arena, "%" PRIu64 ".%" PRIu64 "%s", count / units[i].unit,
                                     count % units[i].unit * 10 / units[i].unit, units[i].name));
        return made(arena_printf(arena, "%" PRIu64 "%s", count / units[i].unit, units[i].name));
    }
    return "";
}

const char *count_bounded(struct arena *arena, uint64_t count)
{
    return count > COUNT_EXACT_MAX ? "10,000+" : count_grouped(arena, count);
}

const char *rate_human(struct arena *arena, bool known, double rate)
{
    if (!known)
        return "-";
    if (rate <= 0)
        return "0";
    if (rate < 0.1)
        return "<0.1";
    if (rate < 9.95)
        return made(arena_printf(arena, "%.1f", rate));
    return count_human(arena, (uint64_t)(rate + 0.5));
}

/* ---- For programs ---- */

static void json_rates(struct json_writer *w, const struct view_rates *r)
{
    const struct {
        const char *key;
        double value;
    } all[] = { { "sent_per_second", r->sent }, { "failed_per_second", r->failed }, { "dead_per_second", r->dead } };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        json_key(w, all[i].key);
        if (r->known)
            json_double(w, all[i].value);
        else
            json_cstr(w, NULL);
    }
}

static void json_endpoint(struct json_writer *w, const struct view_endpoint *e)
{
    static const char *const states[] = { "open", "half-open", "paused", "ok", "not configured" };

    json_begin_object(w);
    json_put_slice(w, "name", e->name);
    json_put_cstr(w, "state", states[e->state]);
    member_time(w, "until", e->until_us);
    member_text(w, "why", e->why);
    json_put_uint(w, "sent", e->sent);
    json_put_uint(w, "failed", e->failed);
    json_put_uint(w, "dead", e->dead);
    json_rates(w, &e->rates);
    json_end_object(w);
}

static void json_lists(struct json_writer *w, const struct top_view *v)
{
    struct status boxes = { .boxes = { .boxes = v->boxes, .box_count = v->box_count, .now_us = v->now_us } };

    status_boxes_json(w, &boxes);
    json_key(w, "endpoints");
    json_begin_array(w);
    for (size_t i = 0; i < v->endpoint_count; i++)
        json_endpoint(w, &v->endpoints[i]);
    json_end_array(w);
    json_key(w, "groups");
    json_begin_array(w);
    for (size_t i = 0; i < v->group_count; i++)
        group_json(w, &v->groups[i]);
    json_end_array(w);
    json_key(w, "streams");
    json_begin_array(w);
    for (size_t i = 0; i < v->stream_count; i++)
        stream_json(w, &v->streams[i]);
    json_end_array(w);
}

void view_json(const struct top_view *v, struct buf *ret)
{
    struct json_writer w;

    json_init(&w, ret);
    json_begin_object(&w);
    json_put_time(&w, "at", v->now_us);
    json_rates(&w, &v->rates);
    json_put_uint(&w, "backlog", v->backlog);
    json_put_bool(&w, "backlog_exact", v->backlog_exact);
    json_put_double(&w, "oldest_age_seconds", v->oldest_us != 0 ? (double)(v->now_us - v->oldest_us) / 1e6 : 0);
    json_put_uint(&w, "instances", v->instance_count);
    json_lists(&w, v);
    json_end_object(&w);
}
