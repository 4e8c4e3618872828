/* Messages: lists, one with what comes next, and changes of one. */
#include "ops/message.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/endpoint.h"
#include "ops/api/api.h"
#include "ops/change.h"
#include "ops/reply.h"
#include "ops/explain/ended_words.h"
#include "ops/explain/message_why.h"
#include "ops/flow/flow_tell.h"

void api_page(struct api *x, const struct query_reply *reply, bool of_boxes)
{
    json_key(&x->w, "messages");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply->listed_count; i++)
        message_json(&x->w, x->in.config, reply, &reply->listed[i]);
    json_end_array(&x->w);
    api_page_end(x, reply, of_boxes);
}

void api_page_end(struct api *x, const struct query_reply *reply, bool of_boxes)
{
    json_put_bool(&x->w, "more", reply->more);
    json_put_bool(&x->w, "cut", reply->cut); /* matches may follow after the rows that were looked at */
    json_key(&x->w, "next");                 /* for ?after= */
    if (!reply->more)
        json_cstr(&x->w, NULL);
    else if (of_boxes && params_get(&x->params, "box").size == 0) /* rows are counted in each box */
        json_slice(&x->w, arena_printf(&x->arena, "%.*s:%" PRIu64, SLICE_ARGS(reply->next_box), reply->next));
    else
        json_uint(&x->w, reply->next);
    json_end_object(&x->w);
}

/* The query, as a command would make it: with what only the routes know. */
static bool query_messages(struct api *x, const struct query *query, struct query_reply *ret)
{
    if (!api_query(x, query, ret))
        return false;
    messages_see_routes(x->in.config, ret);
    return true;
}

void api_messages_list(struct api *x)
{
    struct query query = { .kind = QUERY_MESSAGES };
    struct query_reply reply;
    if (!api_filter(x, "", &query.filter) || !api_box_is_there(x, query.filter.box) ||
        !query_messages(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    api_page(x, &reply, true);
}

/* ---- One ------------------------------------------------------------------------------------- */

/* One delivery: the message, and "next" with an explanation. */
static bool delivery_json(struct api *x, const struct query_reply *reply, const struct listed *l)
{
    struct message_why o = {
        .store = x->in.store, .config = x->in.config, .arena = &x->arena, .reply = reply, .listed = l
    };
    struct pr_error error;
    int rc = message_why_make(&o, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return false;
    }
    json_begin_object(&x->w);
    json_key(&x->w, "message");
    message_json(&x->w, x->in.config, reply, l);
    message_why_json(&x->w, &o);
    json_end_object(&x->w);
    return true;
}

/* endpoint may be empty: none. */
static void not_found(struct api *x, const char *where, pr_slice endpoint, const char *hint)
{
    api_error(x, 404, "not_found", hint, "no %s %.*s%s%.*s", where, SLICE_ARGS(x->part),
              endpoint.size > 0 ? " to " : "", SLICE_ARGS(endpoint));
}

void api_message(struct api *x)
{
    pr_id id;
    struct query query = { .kind = QUERY_ID, .filter = api_filter_init(x), .ended = true };
    struct query_reply reply;
    query.filter.ids = &id;
    query.filter.id_count = 1;
    if (!api_id(x, &id) || !query_messages(x, &query, &reply))
        return;
    if (reply.listed_count == 0) {
        not_found(x, "message", query.filter.endpoint, ended_missing_words(&x->arena, &reply));
        return;
    }
    json_begin_object(&x->w);
    json_key(&x->w, "deliveries"); /* one for each endpoint */
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (!delivery_json(x, &reply, &reply.listed[i]))
            return;
    json_end_array(&x->w);
    member_time(&x->w, "searched_from", reply.ended_from_us); /* of ended messages; null: all */
    json_end_object(&x->w);
}

/* ---- Changes ---------------------------------------------------------------------------------- */

void api_report_change(struct api *x, const struct admin *admin, const struct admin_reply *r)
{
    struct happening what = { .kind = HAPPENING_CHANGED, .at_us = api_now(x) };
    pr_slice text = arena_printf(&x->arena, "%s: %llu changed, by %.*s", admin_name(admin->kind),
                                 (unsigned long long)r->changed, SLICE_ARGS(admin->by));
    struct admin_reply further = { .made = r->made };
    if (r->more) {
        further.last_row = r->last_row;
        further.newest_row = r->newest_row;
    }
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "action", admin_name(admin->kind));
    reply_write(&x->w, REPLY_CHANGE, r);
    if (admin->kind == ADMIN_DEAD_REPLAY)
        reply_write(&x->w, REPLY_HANDLED, r);
    reply_write(&x->w, REPLY_MISSING, r);
    json_put_bool(&x->w, "dry_run", admin->dry_run);
    reply_write(&x->w, REPLY_FURTHER, &further);
    json_end_object(&x->w);
    if (admin->dry_run)
        return;
    if (admin->filter.id_count == 1)
        what.id = admin->filter.ids[0];
    happening_text(what.endpoint, sizeof what.endpoint, admin->filter.endpoint);
    happening_text(what.box, sizeof what.box, admin->filter.box);
    happening_text(what.error, sizeof what.error, text);
    feed_put(runtime_feed(x->rt), &what);
}

bool api_record(struct api *x, const struct admin *admin)
{
    struct admin_reply reply;
    struct pr_error error;
    int rc = store_admin(x->in.store, admin, &reply, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    }
    return rc >= 0;
}

/* The last word of the path is the order's name, except for dead letters: /messages/{id}/dead, /dead/{id}/note. */
static enum admin_kind change_kind(const struct api *x)
{
    const pr_slice path = slice_from(x->route->path);
    enum admin_kind kind = ADMIN_DEAD_ADD;
    if (slice_ends_with(path, PR_STR("/note")))
        return ADMIN_DEAD_NOTE;
    bool found = action_find(slice_from(strrchr(path.data, '/') + 1), &kind);
    ASSERT(found || slice_ends_with(path, PR_STR("/dead")));
    return kind;
}

/* The cause: a known reason, or none. */
static bool take_cause(struct api *x, struct admin *admin)
{
    const char *word = body_text(x, "reason");
    admin->cause = word != NULL ? (int)reason_parse(slice_from(word)) : 0;
    if (word == NULL || admin->cause != PR_REASON_NONE)
        return true;
    api_error(x, 400, "invalid", "for example rejected", "reason: unknown reason \"%.60s\"", word);
    return false;
}

bool api_take_due(struct api *x, int64_t *ret_us)
{
    const char *text = body_text(x, "to");
    if (text == NULL || (time_or_span(slice_from(text), 1, api_now(x), ret_us) && *ret_us != 0 && *ret_us != PR_NEVER &&
                         time_is_plausible(*ret_us)))
        return true;
    api_error(x, 400, "invalid", "for example 5m, or 2024-01-31T12:00:00Z", "to: \"%.60s\" is not a time", text);
    return false;
}

/* One message, or dead letter, by its id; of a message to several endpoints all parts, or that of the endpoint. */
void api_message_change(struct api *x)
{
    pr_id id;
    enum admin_kind kind = change_kind(x);
    struct admin admin = { .kind = kind,
                           .filter = api_filter_init(x),
                           .by = x->who,
                           .why = slice_from(body_text(x, kind == ADMIN_DEAD_NOTE ? "text" : "why")),
                           .turns = flow_box(x->in.config, BOX_TURNS),
                           .dry_run = body_true(x, "dry_run") };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    if (kind != ADMIN_DEAD_NOTE) {
        admin.filter.ids = &id;
        admin.filter.id_count = 1;
    }
    bool named = kind == ADMIN_DEAD_NOTE ? api_letter(x, &id, &admin.filter) : api_id(x, &id);
    if (!named || !body_endpoint(x, &admin.filter.endpoint) || !take_cause(x, &admin) ||
        !api_take_due(x, &admin.until_us))
        return;
    int rc = store_admin(x->in.store, &admin, &reply, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    } else if (reply.missing > 0 || reply.matched == 0) {
        not_found(x, admin.kind == ADMIN_DEAD_NOTE ? "dead letter" : "message", admin.filter.endpoint,
                  "it has ended or was never stored; GET /v1/messages/ID shows which");
    } else if (reply.changed == 0 && reply.refused > 0) {
        api_error(x, 409, "refused", "GET /v1/messages/ID shows its state",
                  "the state of message %.*s does not allow it", SLICE_ARGS(x->part));
    } else {
        api_report_change(x, &admin, &reply);
    }
}

/* Many of them, by ids or by filter. */
void api_messages_change(struct api *x)
{
    struct admin admin = { .kind = change_kind(x),
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .turns = flow_box(x->in.config, BOX_TURNS),
                           .dry_run = body_true(x, "dry_run") };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    if (!body_filter(x, &admin.filter) || !api_take_due(x, &admin.until_us))
        return;
    int rc = change_run(x->in.store, &admin, &reply, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
    } else {
        api_report_change(x, &admin, &reply);
    }
}
