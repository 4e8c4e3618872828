/* /v1/schedules: see doc/schedules.md. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "ops/api/api.h"
#include "ops/schedule.h"

static bool answered_fault(struct api *x, int rc, struct pr_error *error)
{
    if (rc >= 0)
        return false;
    error->code = rc;
    if (rc == PR_ENOTFOUND)
        api_error(x, 404, "not_found", "GET /v1/schedules lists them", "%s", error->text);
    else
        api_fault(x, error);
    return true;
}

/* Those of this name; empty: all.  False: answered. */
static bool find(struct api *x, pr_slice name, struct schedule_info **ret, size_t *ret_count)
{
    struct pr_error error;
    int rc = schedules_find(x->in.store, name, &x->arena, ret, ret_count, &error);
    if (rc == PR_OK && name.size > 0 && *ret_count == 0)
        rc = error_set(&error, PR_ENOTFOUND, "unknown schedule \"%.*s\"", SLICE_ARGS(name));
    return !answered_fault(x, rc, &error);
}

void api_schedules(struct api *x)
{
    struct schedule_info *list;
    size_t count;
    if (!find(x, (pr_slice){ NULL, 0 }, &list, &count))
        return;
    json_begin_object(&x->w);
    json_key(&x->w, "schedules");
    json_begin_array(&x->w);
    for (size_t i = 0; i < count; i++)
        schedule_json(&x->w, &list[i], api_now(x));
    json_end_array(&x->w);
    json_end_object(&x->w);
}

void api_schedule(struct api *x)
{
    struct schedule_info *list;
    size_t count;
    if (find(x, x->part, &list, &count))
        schedule_json(&x->w, &list[0], api_now(x));
}

/* ---- Changes -------------------------------------------------------------------------------- */

static bool record(struct api *x, enum admin_kind kind, pr_slice name)
{
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    pr_id id;
    schedule_id(name, &id);
    const struct admin admin = { .kind = kind,
                                 .filter = { .ids = &id, .id_count = 1, .state = -1 },
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")),
                                 .outcome = &outcome };
    return api_record(x, &admin);
}

/* The members of the schedule in the body, as JSON.  NULL: no memory. */
static char *schedule_text(const struct api *x)
{
    json_t *copy = json_copy(x->json);
    char *text = NULL;
    if (copy != NULL && (json_object_get(copy, "why") == NULL || json_object_del(copy, "why") == 0))
        text = json_dumps(copy, JSON_COMPACT);
    json_decref(copy);
    return text;
}

static bool targets_are_known(struct api *x, const struct schedule *s)
{
    if (s->run || s->move_us != 0) {
        api_error(x, 400, "invalid", "POST /v1/schedules/NAME/run and /reschedule are for one that exists",
                  "%s: a new schedule cannot have it", s->run ? "run" : "due");
        return false;
    }
    if (s->box.size > 0 && config_find_box(x->in.config, s->box) == NULL) {
        api_error(x, 404, "unknown_box", "add it under boxes: in the configuration", "unknown box \"%.*s\"",
                  SLICE_ARGS(s->box));
        return false;
    }
    if (s->message.destination.size == 0 || config_find_endpoint(x->in.config, s->message.destination) != NULL)
        return true;
    api_error(x, 404, "unknown_endpoint", "GET /v1/endpoints lists them; without a destination the routes decide",
              "unknown endpoint \"%.*s\"", SLICE_ARGS(s->message.destination));
    return false;
}

void api_schedule_add(struct api *x)
{
    struct pr_error error;
    struct schedule s;
    struct schedule_info *there;
    size_t count;
    char *text = schedule_text(x);
    int rc = text != NULL ? schedule_decode((pr_slice){ NULL, 0 }, slice_from(text), &x->arena, &s, &error)
                          : error_set(&error, PR_ENOMEM, "out of memory for the schedule");
    if (rc == PR_OK && !targets_are_known(x, &s)) {
        free(text);
        return;
    }
    if (rc == PR_OK)
        rc = schedules_find(x->in.store, s.name, &x->arena, &there, &count, &error);
    if (rc == PR_OK)
        rc = schedule_put(x->in.store, PR_STR("outbox"), &s, true, (size_t)x->in.config->payload_max, &error);
    if (!answered_fault(x, rc, &error) && record(x, ADMIN_SCHEDULE_ADD, s.name)) {
        x->status = 202;
        json_begin_object(&x->w);
        json_put_slice(&x->w, "name", s.name);
        json_put_bool(&x->w, "replaces", count > 0);
        json_end_object(&x->w);
    }
    free(text);
}

void api_schedule_run(struct api *x)
{
    struct schedule_info *list;
    struct pr_error error;
    size_t count;
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    if (!find(x, x->part, &list, &count))
        return;
    int rc = schedule_run_now(x->in.store, &list[0], (size_t)x->in.config->payload_max, &id, &error);
    if (answered_fault(x, rc, &error) || !record(x, ADMIN_SCHEDULE_RUN, x->part))
        return;
    pr_id_format(id, text);
    x->status = 202;
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "id", text);
    json_end_object(&x->w);
}

static enum schedule_order order_of(const struct api *x)
{
    const char *word = strrchr(x->route->path, '/') + 1;
    return strcmp(word, "pause") == 0    ? SCHEDULE_PAUSE
           : strcmp(word, "resume") == 0 ? SCHEDULE_RESUME
           : strcmp(word, "cancel") == 0 ? SCHEDULE_CANCEL
                                         : SCHEDULE_MOVE;
}

void api_schedule_change(struct api *x)
{
    enum schedule_order order = order_of(x);
    struct schedule_info *list;
    struct pr_error error;
    size_t count;
    int64_t to_us = 0;
    if (!api_take_due(x, &to_us) || !find(x, x->part, &list, &count))
        return;
    bool comes_back = order == SCHEDULE_CANCEL && schedules_have_config(list, count);
    int rc = schedule_order(x->in.store, x->part, order, to_us, x->who, slice_from(body_text(x, "why")), &error);
    if (answered_fault(x, rc, &error))
        return;
    if (order == SCHEDULE_CANCEL) {
        json_begin_object(&x->w);
        json_put_slice(&x->w, "name", x->part);
        json_put_bool(&x->w, "cancelled", true);
        if (comes_back)
            json_put_cstr(&x->w, "hint", SCHEDULE_COMES_BACK);
        json_end_object(&x->w);
    } else if (find(x, x->part, &list, &count)) {
        schedule_json(&x->w, &list[0], api_now(x));
    }
}
