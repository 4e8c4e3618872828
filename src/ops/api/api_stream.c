/* Streams, and the audit. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/state.h"
#include "ops/api/api.h"
#include "ops/message.h"
#include "ops/reply.h"

void api_streams(struct api *x)
{
    pr_slice after = params_get(&x->params, "after"), blocked = params_get(&x->params, "blocked");
    struct query query = { .kind = QUERY_STREAMS, .blocked = word_is_in(blocked, "1 true") };
    struct query_reply reply;
    char next[STREAM_MARK_SIZE];
    if (!api_filter(x, "blocked after", &query.filter) || !api_box_is_there(x, query.filter.box))
        return;
    if (blocked.size > 0 && !query.blocked && !word_is_in(blocked, "0 false")) {
        api_error(x, 400, "invalid", "", "blocked: must be 1 or 0");
        return;
    }
    if (after.size > 0 && !stream_mark_parse(after, &query.after_stream)) {
        api_error(x, 400, "invalid", "", "after: must be `next` of the previous page");
        return;
    }
    if (!api_query(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    json_key(&x->w, "streams");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply.stream_count; i++)
        stream_json(&x->w, &reply.streams[i]);
    json_end_array(&x->w);
    json_put_bool(&x->w, "more", reply.more);
    json_key(&x->w, "next"); /* for ?after= */
    if (reply.more && reply.stream_count > 0)
        stream_mark_format(&reply.streams[reply.stream_count - 1], next);
    json_cstr(&x->w, reply.more && reply.stream_count > 0 ? next : NULL);
    json_end_object(&x->w);
}

void api_streams_release(struct api *x)
{
    struct admin admin = { .kind = ADMIN_RELEASE,
                           .filter = { .state = -1,
                                       .stream = slice_from(body_text(x, "stream")),
                                       .box = slice_from(body_text(x, "box")),
                                       .endpoint = slice_from(body_text(x, "endpoint")) },
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run") };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = admin.filter.stream.size > 0 ? store_admin(x->in.store, &admin, &reply, &error)
                                          : error_set(&error, PR_EINVAL, "stream is empty");
    if (rc == PR_OK) {
        api_report_change(x, &admin, &reply);
        return;
    }
    error.code = rc;
    api_fault(x, &error);
}

/* A question whose answer is a list (reply.h); the last word of the path is its name. */
void api_list(struct api *x)
{
    struct query query = { .kind = QUERY_AUDIT };
    struct query_reply reply;
    bool found = reply_list_find(slice_from(strrchr(x->route->path, '/') + 1), &query.kind);
    ASSERT(found);
    if (!api_filter(x, "", &query.filter) || !api_query(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    reply_list_write(&x->w, query.kind, &reply);
    json_put_bool(&x->w, "more", reply.more);
    json_end_object(&x->w);
}
