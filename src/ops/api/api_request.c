/* /v1/requests: see doc/requests.md. */
#include "base/error.h"
#include "base/slice.h"
#include "ops/api/api.h"
#include "ops/message.h"
#include "store/requests.h"

#define WAIT_MAX_US PR_SECONDS(60)
#define LOOK_BLOCK 4096

struct asking {
    pr_id id;
    struct request_info info;
    struct arena arena; /* of one look, which reads the request again */
    bool over;          /* nothing will change any more */
};

static bool look(struct api *x, void *arg)
{
    struct asking *a = arg;
    struct pr_error error;
    arena_reset(&a->arena);
    int rc = request_look(x->in.store, a->id, &a->arena, &a->info, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    }
    a->over = rc < 0 || a->info.state != REQUEST_WAITING;
    return rc >= 0;
}

static void answer(struct api *x, const struct asking *a)
{
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(a->id, id);
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "id", id);
    json_put_cstr(&x->w, "state", request_state_name(a->info.state));
    json_key(&x->w, "reply");
    if (a->info.reply != NULL)
        message_claimed_json(&x->w, a->info.reply);
    else
        json_cstr(&x->w, NULL);
    json_end_object(&x->w);
}

void api_request(struct api *x)
{
    struct asking a = { .over = false };
    pr_slice wait = params_get(&x->params, "wait");
    json_t *text = wait.size > 0 ? json_stringn(wait.data, wait.size) : NULL;
    int64_t wait_us = 0;
    bool right = api_id(x, &a.id) && api_span(x, "wait", text, WAIT_MAX_US, &wait_us);
    json_decref(text);
    arena_init(&a.arena, LOOK_BLOCK);
    if (right && api_look_for(x, wait_us, look, &a, &a.over)) {
        if (a.info.state == REQUEST_UNKNOWN)
            api_error(x, 404, "not_found", "it was never sent, or its reply has expired (kept for a day)",
                      "unknown request %.*s", SLICE_ARGS(x->part));
        else
            answer(x, &a);
    }
    arena_fini(&a.arena);
}

/* ---- Sending ----------------------------------------------------------------------------------- */

struct request_sending {
    struct asking asking;
    pr_slice box;
    struct pr_message m;
    bool done;
};

/* Takes the members of the message from the body.  False: answered. */
static bool take_message(struct api *x, struct buf *headers, struct request_sending *s)
{
    struct pr_error error;
    struct pr_message plain;
    json_t *own = json_copy(x->json);
    int rc = own != NULL ? PR_OK : error_set(&error, PR_ENOMEM, "out of memory for the request");
    for (size_t i = 0; own != NULL && i < 3; i++)
        (void)json_object_del(own, (const char *[]){ "wait", "reply_to", "box" }[i]);
    if (rc == PR_OK)
        rc = decode_plain(own, api_now(x), &x->arena, &plain, &error);
    if (rc == PR_OK)
        rc = request_message(&plain, slice_from(body_text(x, "reply_to")), headers, &s->m, &error);
    json_decref(own);
    if (rc == PR_OK)
        return true;
    error.code = rc;
    api_fault(x, &error);
    return false;
}

static bool targets_are_known(struct api *x, const struct request_sending *s)
{
    if (config_find_box(x->in.config, s->box) == NULL) {
        api_error(x, 404, "unknown_box", "add it under boxes: in the configuration", "unknown box \"%.*s\"",
                  SLICE_ARGS(s->box));
        return false;
    }
    if (s->m.destination.size == 0 || config_find_endpoint(x->in.config, s->m.destination) != NULL)
        return true;
    api_error(x, 422, "unknown_endpoint", "GET /v1/endpoints lists them; without a destination the routes decide",
              "unknown endpoint \"%.*s\"", SLICE_ARGS(s->m.destination));
    return false;
}

static bool send_once(struct api *x, void *arg)
{
    struct request_sending *s = arg;
    struct pr_error error;
    struct buf headers;
    buf_init(&headers, PR_HEADERS_MAX);
    bool right = take_message(x, &headers, s) && targets_are_known(x, s), was_sent = false;
    int rc = PR_OK;
    s->asking.id = s->m.id;
    if (right && json_object_get(x->json, "id") != NULL) /* without one it gets a new id */
        rc = request_was_sent(x->in.store, s->m.id, &was_sent, &error);
    if (right && rc >= 0 && !was_sent)
        rc = store_enqueue(x->in.store, s->box, &s->m, 1, (size_t)x->in.config->payload_max, &s->asking.id, NULL,
                           &error);
    buf_fini(&headers);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    }
    s->done = true;
    return right && rc >= 0;
}

void api_request_send(struct api *x)
{
    struct request_sending s = { .box = slice_from(body_text(x, "box")) };
    int64_t wait_us = 0;
    s.box = s.box.size > 0 ? s.box : PR_STR("outbox");
    if (!api_span(x, "wait", json_object_get(x->json, "wait"), WAIT_MAX_US, &wait_us) ||
        !api_look_for(x, 0, send_once, &s, &s.done))
        return;
    arena_init(&s.asking.arena, LOOK_BLOCK);
    if (api_look_for(x, wait_us, look, &s.asking, &s.asking.over)) {
        x->status = s.asking.info.state == REQUEST_REPLIED ? 200 : 202;
        answer(x, &s.asking);
    }
    arena_fini(&s.asking.arena);
}
