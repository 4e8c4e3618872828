/* Dead letters. */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "ops/api.h"
#include "ops/member.h"
#include "ops/row.h"

void api_dead_list(struct api *x)
{
    struct query query = { .kind = QUERY_DEAD };
    struct query_reply reply;
    if (api_filter(x, "", &query.filter) && api_query(x, &query, &reply))
        api_page(x, &reply);
}

void group_json(struct json_writer *w, const struct dead_group *g)
{
    char id[PR_ID_TEXT_SIZE];
    int reason = g->reason != PR_REASON_NONE ? g->reason : g->cause;
    pr_id_format(g->sample, id);
    json_begin_object(w);
    member_text(w, "fingerprint", g->fingerprint);
    json_key(w, "count");
    json_uint(w, g->count);
    json_key(w, "first_at");
    json_time(w, g->first_us);
    json_key(w, "last_at");
    json_time(w, g->last_us);
    member_text(w, "box", g->box);
    member_text(w, "endpoint", g->endpoint);
    member_text(w, "type", g->type);
    json_key(w, "reason");
    json_cstr(w, reason != PR_REASON_NONE ? pr_reason_name(reason) : NULL);
    member_text(w, "error", g->error);
    json_key(w, "sample");
    json_cstr(w, id);
    json_end_object(w);
}

void api_dead_groups(struct api *x)
{
    struct query query = { .kind = QUERY_DEAD_GROUPS };
    struct query_reply reply;
    if (!api_filter(x, "", &query.filter) || !api_query(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    json_key(&x->w, "groups");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply.group_count; i++)
        group_json(&x->w, &reply.groups[i]);
    json_end_array(&x->w);
    json_key(&x->w, "more");
    json_bool(&x->w, reply.more);
    json_end_object(&x->w);
}

static void order(struct api *x, const struct admin *admin)
{
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = store_admin(x->in.store, admin, &reply, &error);
    if (rc == PR_OK && admin->filter.id_count == 1 && reply.missing == 1)
        rc = error_set(&error, PR_ENOTFOUND, "there is no such dead letter");
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    } else if (admin->filter.id_count == 1 && reply.refused == 1) {
        api_error(x, 409, "refused", "its id was sent anew, or a corrected message took its place",
                  "it was refused");
    } else {
        api_report_change(x, admin, &reply);
    }
}

void api_dead_change(struct api *x)
{
    bool replay = slice_ends_with(slice_from(x->route->path), PR_STR("/replay"));
    struct admin admin = { .kind = replay ? ADMIN_DEAD_REPLAY : ADMIN_DEAD_DISCARD,
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run") };
    if (body_filter(x, &admin.filter))
        order(x, &admin);
}

/* A JSON value is the new payload as it is written, "payload_text" is it as it is. */
static bool edit_texts(struct api *x, pr_slice ret[3], struct dead_edit *edit)
{
    const json_t *json = json_object_get(x->json, "payload"), *headers = json_object_get(x->json, "headers");
    const char *plain = body_text(x, "payload_text"), *destination = body_text(x, "destination");
    char *made = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    ret[0] = slice_dup(&x->arena, slice_from(made != NULL ? made : plain));
    free(made);
    made = headers != NULL ? json_dumps(headers, JSON_COMPACT) : NULL;
    ret[1] = slice_dup(&x->arena, slice_from(made));
    free(made);
    ret[2] = slice_from(destination);
    edit->payload = json != NULL || plain != NULL ? &ret[0] : NULL;
    edit->headers = headers != NULL ? &ret[1] : NULL;
    edit->destination = destination != NULL ? &ret[2] : NULL;
    return ret[0].data != NULL && ret[1].data != NULL;
}

void api_dead_edit(struct api *x)
{
    pr_id id;
    pr_slice texts[3];
    struct dead_edit edit = { 0 };
    struct admin admin = { .kind = ADMIN_DEAD_EDIT,
                           .filter = { .state = -1, .ids = &id, .id_count = 1 },
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run"),
                           .edit = &edit };
    if (!api_id(x, &id))
        return;
    if (!edit_texts(x, texts, &edit)) {
        api_error(x, 503, "no_memory", "", "no memory for the new message");
        return;
    }
    if (edit.payload == NULL && edit.headers == NULL && edit.destination == NULL)
        api_error(x, 400, "invalid", "payload, payload_text, headers or destination",
                  "nothing would be different");
    else if (edit.destination != NULL && config_find_endpoint(x->in.config, *edit.destination) == NULL)
        api_error(x, 422, "unknown_endpoint", "GET /v1/endpoints lists them", "there is no endpoint \"%.*s\"",
                  SLICE_ARGS(*edit.destination));
    else
        order(x, &admin);
}
