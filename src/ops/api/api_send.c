/* POST /v1/messages: store what the body holds, all or none. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "ops/api/api.h"

static bool destinations_are_known(struct api *x, const struct pr_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (messages[i].destination.size > 0 && config_find_endpoint(x->in.config, messages[i].destination) == NULL) {
            api_error(x, 422, "unknown_endpoint",
                      "GET /v1/endpoints lists them; without a destination the routes decide",
                      "unknown endpoint \"%.*s\"", SLICE_ARGS(messages[i].destination));
            return false;
        }
    return true;
}

static void answer_ids(struct api *x, const pr_id *ids, const int *answers, size_t count)
{
    x->status = 202;
    json_begin_object(&x->w);
    json_key(&x->w, "messages");
    json_begin_array(&x->w);
    for (size_t i = 0; i < count; i++) {
        char text[PR_ID_TEXT_SIZE];
        pr_id_format(ids[i], text);
        json_begin_object(&x->w);
        json_key(&x->w, "id");
        json_cstr(&x->w, text);
        json_key(&x->w, "duplicate");
        json_bool(&x->w, answers[i] == PR_DUPLICATE);
        json_end_object(&x->w);
    }
    json_end_array(&x->w);
    json_end_object(&x->w);
}

void api_messages_send(struct api *x)
{
    struct pr_message *messages = NULL;
    struct pr_error error;
    size_t count = 0;
    pr_slice box = params_get(&x->params, "box");
    box = box.size > 0 ? box : PR_STR("outbox");
    if (config_find_box(x->in.config, box) == NULL) {
        api_error(x, 404, "unknown_box", "add it under boxes: in the configuration", "unknown box \"%.*s\"",
                  SLICE_ARGS(box));
        return;
    }
    int rc = decode_messages(&x->input, &x->arena, &messages, &count, &error);
    if (rc == PR_OK && !destinations_are_known(x, messages, count))
        return;
    pr_id *ids = rc == PR_OK ? arena_alloc_array(&x->arena, count, sizeof *ids) : NULL;
    int *answers = rc == PR_OK ? arena_alloc_array(&x->arena, count, sizeof *answers) : NULL;
    if (rc == PR_OK && (ids == NULL || answers == NULL))
        rc = error_set(&error, PR_ENOMEM, "out of memory for %zu messages", count);
    if (rc == PR_OK)
        rc = store_enqueue(x->in.store, box, messages, count, (size_t)x->in.config->payload_max, ids, answers, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    answer_ids(x, ids, answers, count);
}
