#include "ops/api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "ops/api/gate_places.h"

#define REQUEST_BLOCK 16384

void api_init(struct api *x)
{
    arena_init(&x->arena, REQUEST_BLOCK);
    buf_init(&x->out, ANSWER_MAX);
    json_init(&x->w, &x->out);
    x->status = 200;
    x->content_type = "application/json";
}

void api_fini(struct api *x)
{
    json_decref(x->json);
    buf_fini(&x->out);
    arena_fini(&x->arena);
}

/* Both version numbers of a conflict; NULL: not a conflict. */
static void write_error(struct api *x, unsigned status, const char *code, const char *hint, const char *text,
                        const struct pr_error *conflict)
{
    buf_reset(&x->out);
    json_init(&x->w, &x->out);
    x->status = status;
    x->content_type = "application/json";
    json_begin_object(&x->w);
    json_key(&x->w, "error");
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "code", code);
    json_put_cstr(&x->w, "message", text);
    json_put_cstr(&x->w, "hint", hint);
    if (conflict != NULL) {
        json_put_int(&x->w, "expected_version", conflict->expected_version);
        json_put_int(&x->w, "version", conflict->version);
    }
    json_end_object(&x->w);
    json_end_object(&x->w);
}

void api_error(struct api *x, unsigned status, const char *code, const char *hint, const char *format, ...)
{
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_error(x, status, code, hint, text, NULL);
}

void api_fault(struct api *x, const struct pr_error *error)
{
    static const struct {
        int fault;
        unsigned status;
        const char *code, *hint;
    } kinds[] = {
        { PR_EINVAL, 400, "invalid", "" },
        { PR_ETOOBIG, 413, "too_large", "" },
        { PR_ENOTFOUND, 404, "not_found", "" },
        { PR_EUNSUPPORTED, 415, "unsupported", "" },
        { PR_EBUSY, 503, "busy", "retry the request" },
        { PR_EFULL, 507, "full", "free some disk space for the store" },
        { PR_ENOMEM, 503, "no_memory", "request less, or try again" },
        { PR_EUNCERTAIN, 503, "uncertain", "the request may have succeeded: repeat it with the same id" },
    };
    if (error->code == PR_ECONFLICT) {
        write_error(x, 409, "version_conflict", "read the stream from the version that you know before you retry",
                    error->text, error);
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].fault == error->code) {
            api_error(x, kinds[i].status, kinds[i].code, kinds[i].hint, "%s", error->text);
            return;
        }
    api_error(x, 503, "store", "see GET /health/ready", "%s", error->text);
}

bool api_query(struct api *x, const struct query *query, struct query_reply *ret)
{
    struct pr_error error;
    int rc = store_query(x->in.store, query, &x->arena, ret, &error);
    if (rc == PR_OK)
        return true;
    error.code = rc;
    api_fault(x, &error);
    return false;
}

bool api_id(struct api *x, pr_id *ret)
{
    if (pr_id_parse(x->part, ret) == PR_OK)
        return true;
    api_error(x, 400, "invalid", "ids look like 0190163d-8694-739b-aea5-966c26f8ad91", "\"%.*s\" is not a message id",
              SLICE_ARGS(x->part));
    return false;
}

bool api_letter(struct api *x, pr_id *ret_id, struct filter *ret_filter)
{
    pr_slice part = x->part;
    struct pr_error error;
    bool by_row = slice_starts_with(part, PR_STR("row-"));
    if (by_row) {
        part = (pr_slice){ part.data + 4, part.size - 4 };
        if (filter_set(ret_filter, PR_STR("row"), part, api_now(x), &error) == PR_OK)
            return true;
        error.code = PR_EINVAL;
        api_fault(x, &error);
        return false;
    }
    ret_filter->ids = ret_id;
    ret_filter->id_count = 1;
    return api_id(x, ret_id);
}

int64_t api_now(struct api *x)
{
    return store_time(x->in.store);
}

bool api_box_is_there(struct api *x, pr_slice box)
{
    struct query query = { .kind = QUERY_BOXES, .brief = true, .filter.state = -1 };
    struct query_reply reply;
    if (box.size == 0 || config_find_box(x->in.config, box) != NULL)
        return true;
    if (!api_query(x, &query, &reply))
        return false;
    for (size_t i = 0; i < reply.box_count; i++) /* the box exists, though this process does not serve it */
        if (slice_eq(reply.boxes[i].name, box))
            return true;
    api_error(x, 404, "unknown_box", "see GET /v1/boxes", "unknown box \"%.*s\"", SLICE_ARGS(box));
    return false;
}

struct filter api_filter_init(struct api *x)
{
    x->routing = config_routing(x->in.config);
    return (struct filter){ .state = -1, .routing = &x->routing.routing };
}

bool api_filter(struct api *x, const char *more, struct filter *ret)
{
    struct pr_error error;
    int64_t now_us = api_now(x);
    *ret = api_filter_init(x);
    ret->look_max = LOOK_MAX;
    for (size_t i = 0; i < x->params.count; i++) {
        const struct param *p = &x->params.list[i];
        if (word_is_in(p->name, more))
            continue;
        int rc = filter_set(ret, p->name, p->value, now_us, &error);
        ASSERT(rc != PR_UNKNOWN); /* the route table lists the parameters of a filter */
        if (rc < 0) {
            api_fault(x, &error);
            return false;
        }
    }
    return api_box_is_there(x, ret->box);
}

/* ---- Requests that wait ---- */

bool api_wait_begin(struct api *x)
{
    enum wait_room room = gate_wait_begin(x->gate, x->fd);
    if (room == WAIT_GRANTED)
        return true;
    api_error(x, 503, "too_many", "try again in a second, or request more per call (max)",
              "%d requests%s are already waiting", room == WAIT_FULL ? WAITING_MAX : WAITING_PER_ADDRESS,
              room == WAIT_FULL ? "" : " from this address");
    return false;
}

void api_wait_end(struct api *x)
{
    gate_wait_end(x->gate, x->fd);
}

bool api_is_gone(void *arg)
{
    const struct api *x = arg;
    char byte;
    return x->fd >= 0 && recv(x->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool api_span(struct api *x, const char *name, const json_t *value, int64_t max_us, int64_t *ret_us)
{
    const char *text = json_string_value(value);
    if (value == NULL ||
        (text != NULL && duration_parse(slice_from(text), ret_us) == PR_OK && *ret_us >= 0 && *ret_us <= max_us))
        return true;
    api_error(x, 400, "invalid", "use a duration such as 500ms or 20s", "%s: not a duration of at most %d s", name,
              (int)(max_us / PR_SECONDS(1)));
    return false;
}
