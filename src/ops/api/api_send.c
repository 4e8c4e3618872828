/* POST /v1/messages, POST /v1/events: store the messages in the body, all or none. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/api/api.h"
#include "ops/member.h"

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

/* The result for one message, as members of an object. */
struct sent {
    pr_id id;
    bool duplicate;
    uint64_t version; /* of an event; 0: not an event */
};

static const struct member sent_members[] = {
    /* clang-format off */
    MEMBER(sent, "id", ID, id)
    MEMBER(sent, "duplicate", BOOL, duplicate)
    MEMBER_IF(sent, "version", COUNT, version)
    /* clang-format on */
};

/* The version of an event in its stream: it never changes, so it can be read after the commit. */
static bool find_version(struct api *x, const struct pr_message *m, const pr_id *id, uint64_t *ret)
{
    const struct query query = { .kind = QUERY_EVENTS,
                                 .filter = { .state = -1, .stream = m->stream, .ids = id, .id_count = 1 } };
    struct query_reply reply;
    *ret = 0;
    if (!m->event)
        return true;
    if (!api_query(x, &query, &reply))
        return false;
    *ret = reply.event_count > 0 ? reply.events[0].version : 0;
    return true;
}

/* For a single message the members are also at the top level of the answer. */
static void answer_ids(struct api *x, const struct pr_message *messages, const pr_id *ids, const int *answers,
                       size_t count)
{
    static const struct members table = MEMBERS(sent_members);
    struct sent *list = arena_alloc_array(&x->arena, count, sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        list[i] = (struct sent){ .id = ids[i], .duplicate = answers[i] == PR_DUPLICATE };
        if (!find_version(x, &messages[i], &ids[i], &list[i].version))
            return;
    }
    x->status = 202;
    json_begin_object(&x->w);
    if (list != NULL && count == 1)
        members_write(&x->w, &table, &list[0]);
    members_list(&x->w, "messages", &table, list, sizeof *list, list != NULL ? count : 0);
    json_end_object(&x->w);
}

void api_messages_send(struct api *x)
{
    struct pr_message *messages = NULL;
    struct pr_error error;
    size_t count = 0;
    bool appends = slice_eq_cstr(slice_from(x->route->path), "/v1/events");
    pr_slice box = params_get(&x->params, "box");
    box = box.size > 0 ? box : PR_STR("outbox");
    if (config_find_box(x->in.config, box) == NULL) {
        api_error(x, 404, "unknown_box", "add it under boxes: in the configuration", "unknown box \"%.*s\"",
                  SLICE_ARGS(box));
        return;
    }
    int rc = decode_messages(&x->input, &x->arena, &messages, &count, &error);
    for (size_t i = 0; rc == PR_OK && i < count && appends; i++)
        messages[i].event = true;
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
    answer_ids(x, messages, ids, answers, count);
}
