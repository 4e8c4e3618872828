/* Dead letters. */
#include <stdlib.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "ops/api/api.h"
#include "ops/flow/flow_tell.h"
#include "ops/change.h"
#include "ops/member.h"
#include "ops/message.h"
#include "ops/reply.h"

void api_dead_list(struct api *x)
{
    struct query query = { .kind = QUERY_DEAD };
    struct query_reply reply;
    if (!api_filter(x, "", &query.filter) || !api_query(x, &query, &reply))
        return;
    /* Counts all matches; only with the first page, since each page would count again. */
    struct query count = { .kind = QUERY_DEAD_COUNT, .filter = query.filter };
    struct query_reply counted = { 0 };
    if (query.filter.after == 0 && !api_query(x, &count, &counted))
        return;
    json_begin_object(&x->w);
    if (query.filter.after == 0)
        member_count(&x->w, "total", counted.total);
    api_page(x, &reply, false);
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
    json_put_bool(&x->w, "more", reply.more);
    json_put_bool(&x->w, "cut",
                  reply.cut); /* only the latest letters of each group were looked at, and older ones may match */
    if (reply.cut) {
        json_put_uint(&x->w, "looked_at", reply.looked); /* letters of each group; with a stream, of the stream */
    }
    json_end_object(&x->w);
}

static void order(struct api *x, const struct admin *admin)
{
    struct admin_reply reply = { 0 };
    struct pr_error error;
    bool one = admin->filter.id_count == 1 || (admin->kind == ADMIN_DEAD_EDIT && admin->filter.row != 0);
    int rc = change_run(x->in.store, admin, &reply, &error);
    if (rc == PR_OK && one && reply.matched == 0)
        rc = error_set(&error, PR_ENOTFOUND, "no such dead letter");
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    } else if (one && reply.handled == 1 && reply.handled_us == 0) {
        api_error(x, 409, "handled", "\"again\": true in the body runs it all the same",
                  "its flow continued or ended without it");
    } else if (one && reply.handled == 1) {
        char when[TIME_TEXT_SIZE];
        time_format_rfc3339(reply.handled_us, when);
        api_error(x, 409, "handled", "\"again\": true in the body replays it all the same",
                  "its message was handled at %s", when);
    } else if (one && reply.refused == 1) {
        api_error(x, 409, "refused", "the box has a newer message with its id, or a corrected message replaced it",
                  "the replay was refused");
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
                           .dry_run = body_true(x, "dry_run"),
                           .turns = flow_box(x->in.config, BOX_TURNS),
                           .again = body_true(x, "again") };
    if (!body_filter(x, &admin.filter))
        return;
    if (replay && !admin.dry_run && api_replay_is_long(x))
        api_replay_start(x, &admin);
    else
        order(x, &admin);
}

static int edit_parts(struct api *x, pr_slice ret[4], struct dead_edit *edit, struct pr_error *reterr)
{
    const json_t *headers = json_object_get(x->json, "headers");
    const char *destination = body_text(x, "destination"), *type = body_text(x, "type");
    bool given;
    int rc = body_payload(x, &ret[0], &given, reterr);
    if (rc != PR_OK)
        return rc;
    char *made = headers != NULL ? json_dumps(headers, JSON_COMPACT) : NULL;
    ret[1] = slice_dup(&x->arena, slice_from(made));
    free(made);
    ret[2] = slice_from(destination);
    ret[3] = slice_from(type);
    if (ret[1].data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the new message");
    edit->payload = given ? &ret[0] : NULL;
    edit->headers = headers != NULL ? &ret[1] : NULL;
    edit->destination = destination != NULL ? &ret[2] : NULL;
    edit->type = type != NULL ? &ret[3] : NULL;
    if (!given && headers == NULL && destination == NULL && type == NULL)
        return error_set(reterr, PR_EINVAL,
                         "nothing to change: give payload, payload_text, payload_base64, headers, destination or type");
    return change_check_edit(edit, (size_t)x->in.config->payload_max, reterr);
}

/* Did it die at one endpoint only?  If it is not dead, the order itself reports that. */
static bool is_one(struct api *x, const struct filter *filter)
{
    const struct query query = { .kind = QUERY_ID, .filter = *filter };
    struct query_reply reply;
    const struct listed *any;
    if (filter->row != 0)
        return true;
    if (!api_query(x, &query, &reply))
        return false;
    if (message_count_dead(&reply, filter->endpoint, &any) <= 1)
        return true;
    api_error(x, 409, "ambiguous",
              arena_printf(&x->arena, "give endpoint: one of %s", message_dead_endpoints(&x->arena, &reply)).data,
              "the message died at several endpoints");
    return false;
}

void api_dead_edit(struct api *x)
{
    pr_id id;
    pr_slice parts[4];
    struct dead_edit edit = { 0 };
    struct admin admin = { .kind = ADMIN_DEAD_EDIT,
                           .filter = { .state = -1 },
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run"),
                           .edit = &edit };
    struct pr_error error;
    if (!api_letter(x, &id, &admin.filter) || !body_endpoint(x, &admin.filter.endpoint) || !is_one(x, &admin.filter))
        return;
    int rc = edit_parts(x, parts, &edit, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    if (edit.destination != NULL && config_find_endpoint(x->in.config, *edit.destination) == NULL)
        api_error(x, 422, "unknown_endpoint", "see GET /v1/endpoints", "unknown endpoint \"%.*s\"",
                  SLICE_ARGS(*edit.destination));
    else
        order(x, &admin);
}
