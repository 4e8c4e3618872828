/* The state of the daemon: status, instances, health. */
#include "base/error.h"
#include "base/buf.h"
#include "ops/api/api.h"
#include "ops/explain/routed.h"
#include "ops/status.h"
#include "runtime/threads/source_thread.h"

static bool collect(struct api *x, struct status *s)
{
    struct pr_error error;
    *s = (struct status){ .config = x->in.config, .store = x->in.store, .checks.arena = &x->arena };
    int rc = status_collect(s, &error);
    if (rc == PR_OK)
        return true;
    error.code = rc;
    api_fault(x, &error);
    return false;
}

/* The sources of this process: the store learns of them later, or not while it does not answer. */
static void check_sources(struct api *x, struct checks *checks)
{
    struct source_status source;
    struct buf words;
    buf_init(&words, SOURCES_TEXT_MAX);
    for (size_t i = 0; runtime_source(x->rt, i, &source); i++) {
        if (!source_is_failing(&source))
            continue;
        buf_reset(&words);
        source_describe(&source, &words);
        if (buf_failed(&words) == PR_OK)
            checks_add_source(checks, buf_slice(&words));
    }
    buf_fini(&words);
}

static void check_here(struct api *x, struct status *s)
{
    struct pr_error error = { 0 };
    check_sources(x, &s->checks);
    if (runtime_is_ready(x->rt, &error) != PR_OK)
        checks_add(&s->checks, "ready", CHECK_ERROR, "%s", error.text);
    else if (error.code == NOTE_STANDBY)
        checks_add(&s->checks, "standby", CHECK_FINE, "%s", error.text);
}

void api_status(struct api *x)
{
    struct status *s = arena_zalloc(&x->arena, sizeof *s);
    if (s == NULL)
        api_error(x, 503, "no_memory", "", "out of memory for the status");
    else if (collect(x, s)) {
        check_here(x, s);
        status_json(&x->w, s);
    }
}

/* Only the checks: every warning with its advice. */
void api_health(struct api *x)
{
    struct status *s = arena_zalloc(&x->arena, sizeof *s);
    if (s == NULL)
        api_error(x, 503, "no_memory", "", "out of memory for the status");
    else if (collect(x, s)) {
        check_here(x, s);
        json_begin_object(&x->w);
        json_put_cstr(&x->w, "status", check_state_name(checks_health(&s->checks)));
        checks_json(&s->checks, &x->w);
        json_end_object(&x->w);
    }
}

/* All existing boxes, including unused ones, without counting. */
static void api_box_names(struct api *x)
{
    struct query_reply boxes;
    if (!api_query(x, &(struct query){ .kind = QUERY_BOXES, .brief = true, .filter.state = -1 }, &boxes))
        return;
    json_begin_object(&x->w);
    json_key(&x->w, "boxes");
    json_begin_array(&x->w);
    for (size_t i = 0; i < boxes.box_count; i++) {
        json_begin_object(&x->w);
        json_put_slice(&x->w, "name", boxes.boxes[i].name);
        json_end_object(&x->w);
    }
    json_end_array(&x->w);
    json_end_object(&x->w);
}

/* Without the checks of the status, which look at messages: for clients that ask every second. */
void api_boxes(struct api *x)
{
    struct status s = { .config = x->in.config };
    struct query_reply endpoints;
    struct pr_error error;
    if (params_get(&x->params, "names").size > 0) {
        api_box_names(x);
        return;
    }
    if (!api_query(x, &(struct query){ .kind = QUERY_BOXES, .filter.state = -1 }, &s.boxes) ||
        !api_query(x, &(struct query){ .kind = QUERY_INSTANCES, .filter.state = -1 }, &s.instances) ||
        !api_query(x, &(struct query){ .kind = QUERY_ENDPOINTS, .filter.state = -1 }, &endpoints))
        return;
    boxes_hide_unused(x->in.config, &s.boxes, &s.instances);
    int rc = boxes_see_routes(x->in.store, x->in.config, &endpoints, &s.boxes, NULL, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    json_begin_object(&x->w);
    status_boxes_json(&x->w, &s);
    json_end_object(&x->w);
}

void api_instances(struct api *x)
{
    struct status s = { .config = x->in.config };
    struct query query = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    if (!api_query(x, &query, &s.instances))
        return;
    json_begin_object(&x->w);
    status_instances_json(&x->w, &s);
    json_end_object(&x->w);
}

/* ---- Health: for probes, which have no token; only those who may see the rest see why ------------- */

static void health(struct api *x, int rc, const struct pr_error *error)
{
    x->status = rc == PR_OK ? 200 : 503;
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "status", rc != PR_OK ? "error" : error->code > NOTE_STANDBY ? "warn" : "ok");
    if (error->text[0] != '\0' && x->role != ROLE_NONE)
        json_put_cstr(&x->w, "why", error->text);
}

void api_live(struct api *x)
{
    struct pr_error error = { 0 };
    health(x, runtime_is_live(x->rt, &error), &error);
    json_end_object(&x->w);
}

void api_ready(struct api *x)
{
    struct pr_error error = { 0 };
    int rc = runtime_is_ready(x->rt, &error);
    health(x, rc, &error);
    json_end_object(&x->w);
}
