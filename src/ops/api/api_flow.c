/* /v1/flows: start, notify, query, wait, delete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "ops/api/api.h"
#include "ops/flow/flow_view.h"
#include "ops/reply.h"
#include "ops/status.h"

#define WAIT_DEFAULT_US PR_SECONDS(30)
#define WAIT_MAX_US PR_SECONDS(60)
#define MARK_SIZE 32

static struct flow_teller teller(struct api *x)
{
    return (struct flow_teller){ .store = x->in.store,
                                 .config = x->in.config,
                                 .arena = &x->arena,
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")) };
}

static void fault(struct api *x, int rc, struct pr_error *error)
{
    error->code = rc;
    api_fault(x, error);
}

static void not_found(struct api *x)
{
    api_error(x, 404, "not_found", "see GET /v1/flows", "unknown flow \"%.*s\"", SLICE_ARGS(x->part));
}

/* ---- Starts and signals ------------------------------------------------------------------------------------------- */

/* NAME: a JSON string as text, other JSON as written; or NAME_base64.  False: answered. */
static bool body_bytes(struct api *x, const char *name, pr_slice *ret)
{
    char coded[32];
    struct buf bytes;
    const json_t *value = json_object_get(x->json, name);
    (void)snprintf(coded, sizeof coded, "%s_base64", name);
    const char *base64 = body_text(x, coded);
    *ret = (pr_slice){ json_string_value(value), json_string_length(value) };
    if (value != NULL && base64 != NULL) {
        api_error(x, 400, "invalid", "", "%s and %s cannot be combined", name, coded);
        return false;
    }
    if (value != NULL && ret->data == NULL) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        *ret = text != NULL ? slice_dup(&x->arena, slice_from(text)) : (pr_slice){ NULL, 0 };
        free(text);
    }
    if (base64 == NULL)
        return true;
    buf_init(&bytes, (size_t)x->in.config->payload_max);
    bool right = base64_decode(&bytes, slice_from(base64)) == PR_OK;
    *ret = right ? slice_dup(&x->arena, buf_slice(&bytes)) : *ret;
    buf_fini(&bytes);
    if (!right)
        api_error(x, 400, "invalid", "", "%s: not valid base64, or too large", coded);
    return right;
}

/* The id of the message, for clients that repeat a request.  False: answered. */
static bool body_message_id(struct api *x, pr_id *ret)
{
    const char *text = body_text(x, "message");
    *ret = (pr_id){ { 0 } };
    if (text == NULL || pr_id_parse(slice_from(text), ret) == PR_OK)
        return true;
    api_error(x, 400, "invalid", "ids look like 0190163d-8694-739b-aea5-966c26f8ad91",
              "message: \"%.60s\" is not an id", text);
    return false;
}

/* The execution is created by the first turn: it is only known if such a flow exists already. */
void api_flow_start(struct api *x)
{
    const struct flow_teller t = teller(x);
    struct turn_message start = { .kind = TURN_START,
                                  .flow = slice_from(body_text(x, "id")),
                                  .name = slice_from(body_text(x, "name")),
                                  .version = slice_from(body_text(x, "version")),
                                  .restart = body_true(x, "restart") };
    const char *due = body_text(x, "due_at");
    const struct flow_row *row = NULL;
    struct flow_tell_result result;
    struct pr_error error;
    char execution[PR_ID_TEXT_SIZE] = "";
    if (!body_bytes(x, "input", &start.data))
        return;
    if (due != NULL && !time_or_span(slice_from(due), 1, api_now(x), &start.due_us)) {
        api_error(x, 400, "invalid", "use 5m or 2024-01-31T12:00:00Z", "due_at: \"%.60s\" is not a time", due);
        return;
    }
    int rc = flow_tell(&t, &start, (pr_id){ { 0 } }, &result, &error);
    if (rc == PR_OK && result.duplicate)
        rc = flow_read_row(x->in.store, result.flow, &x->arena, &row, &error);
    if (rc != PR_OK) {
        fault(x, rc, &error);
        return;
    }
    if (row != NULL)
        pr_id_format(row->execution, execution);
    x->status = result.duplicate ? 200 : 201;
    json_begin_object(&x->w);
    reply_write(&x->w, REPLY_TOLD, &result);
    member_text(&x->w, "execution", slice_from(execution));
    json_end_object(&x->w);
}

void api_flow_tell(struct api *x)
{
    const struct flow_teller t = teller(x);
    const bool event = slice_ends_with(slice_from(x->route->path), PR_STR("/raise"));
    struct turn_message message = { .kind = event ? TURN_EVENT : TURN_MAIL,
                                    .flow = x->part,
                                    .name = slice_from(body_text(x, "name")) };
    struct flow_tell_result result;
    struct pr_error error;
    pr_id id;
    if (!body_bytes(x, "data", &message.data) || !body_message_id(x, &id))
        return;
    int rc = flow_tell(&t, &message, id, &result, &error);
    if (rc != PR_OK) {
        fault(x, rc, &error);
        return;
    }
    x->status = 202;
    result.flow = x->part;
    json_begin_object(&x->w);
    reply_write(&x->w, REPLY_TOLD, &result);
    json_end_object(&x->w);
}

static void answer_changed(struct api *x)
{
    x->status = 202;
    json_begin_object(&x->w);
    member_text(&x->w, "id", x->part);
    json_end_object(&x->w);
}

void api_flow_cancel(struct api *x)
{
    const struct flow_teller t = teller(x);
    struct pr_error error;
    int rc = flow_cancel(&t, x->part, &error);
    if (rc == PR_OK)
        answer_changed(x);
    else if (rc == PR_UNKNOWN)
        not_found(x);
    else if (rc == PR_STALE)
        api_error(x, 409, "ended", "", "flow \"%.*s\" has ended", SLICE_ARGS(x->part));
    else
        fault(x, rc, &error);
}

static void retried_json(struct api *x, const struct flow_retried *r)
{
    json_begin_object(&x->w);
    member_text(&x->w, "id", x->part);
    reply_write(&x->w, REPLY_RETRIED, r);
    json_end_object(&x->w);
}

void api_flow_retry(struct api *x)
{
    const struct flow_teller t = teller(x);
    struct flow_retried retried;
    struct pr_error error;
    bool restart = body_true(x, "restart");
    if (restart && body_true(x, "dry_run")) {
        api_error(x, 400, "invalid", "", "restart and dry_run cannot be combined");
        return;
    }
    int rc = restart ? flow_restart(&t, x->part, slice_from(body_text(x, "version")), &error)
                     : flow_retry(&t, x->part, body_true(x, "dry_run"), &retried, &error);
    if (rc == PR_OK && restart)
        answer_changed(x);
    else if (rc == PR_OK)
        retried_json(x, &retried);
    else if (rc == PR_UNKNOWN)
        not_found(x);
    else if (rc == PR_STALE && restart)
        api_error(x, 409, "running", "cancel it first", "flow \"%.*s\" is running", SLICE_ARGS(x->part));
    else if (rc == PR_STALE)
        api_error(x, 409, "ended", "\"restart\": true starts it from the beginning",
                  "flow \"%.*s\" has ended and did not fail", SLICE_ARGS(x->part));
    else
        fault(x, rc, &error);
}

/* ---- Asking -------------------------------------------------------------------------------------------- */

/* Parses "CREATED:ID", the end of a page.  False: invalid. */
static bool take_after(pr_slice text, struct flow_filter *filter)
{
    const char *colon = text.size > 0 ? memchr(text.data, ':', text.size) : NULL;
    char number[MARK_SIZE] = "", *end;
    size_t size = colon != NULL ? (size_t)(colon - text.data) : 0;
    if (size == 0 || size >= sizeof number)
        return false;
    memcpy(number, text.data, size);
    filter->after_us = strtoll(number, &end, 10);
    filter->after_id = (pr_slice){ colon + 1, text.size - size - 1 };
    return *end == '\0' && filter->after_us > 0;
}

/* False: answered. */
static bool flow_params(struct api *x, struct query *query)
{
    const pr_slice state = params_get(&x->params, "state"), after = params_get(&x->params, "after");
    if (!api_filter(x, "name version parent state after", &query->filter))
        return false;
    query->flow = (struct flow_filter){ .name = params_get(&x->params, "name"),
                                        .version = params_get(&x->params, "version"),
                                        .parent = params_get(&x->params, "parent"),
                                        .state = flow_state_parse(state) };
    if (state.size > 0 && (query->flow.state == 0 || query->flow.state == FLOW_CONTINUED)) {
        api_error(x, 400, "invalid", "use running, completed, failed or cancelled", "state: unknown state \"%.*s\"",
                  SLICE_ARGS(state));
        return false;
    }
    if (after.size > 0 && !take_after(after, &query->flow)) {
        api_error(x, 400, "invalid", "", "after: must be `next` of the previous page");
        return false;
    }
    return true;
}

static void flows_json(struct api *x, const struct query_reply *reply)
{
    json_key(&x->w, "flows");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply->flow_count; i++) {
        json_begin_object(&x->w);
        flow_row_json(&x->w, &reply->flows[i]);
        json_end_object(&x->w);
    }
    json_end_array(&x->w);
    json_put_bool(&x->w, "more", reply->more);
}

void api_flows(struct api *x)
{
    struct query query = { .kind = QUERY_FLOWS };
    struct query_reply reply;
    if (!flow_params(x, &query) || !api_query(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    flows_json(x, &reply);
    if (reply.more) {
        const struct flow_row *last = &reply.flows[reply.flow_count - 1];
        member_text(&x->w, "next",
                    arena_printf(&x->arena, "%lld:%.*s", (long long)last->created_us, SLICE_ARGS(last->id)));
    }
    flow_states_json(&x->w, "states", &reply);
    json_end_object(&x->w);
}

void api_flow_executions(struct api *x)
{
    struct query query = { .kind = QUERY_FLOW_EXECUTIONS, .flow = { .id = x->part } };
    struct query_reply reply;
    if (!api_filter(x, "", &query.filter) || !api_query(x, &query, &reply))
        return;
    if (reply.flow_count == 0) {
        not_found(x);
        return;
    }
    json_begin_object(&x->w);
    flows_json(x, &reply);
    json_end_object(&x->w);
}

void api_flow(struct api *x)
{
    struct flow_view view = { .store = x->in.store, .config = x->in.config, .arena = &x->arena, .id = x->part };
    struct pr_error error;
    int rc = flow_view_make(&view, &error);
    if (rc == PR_OK)
        flow_view_json(&x->w, &view);
    else if (rc == PR_UNKNOWN)
        not_found(x);
    else
        fault(x, rc, &error);
    flow_view_fini(&view);
}

static void history_json(struct api *x, const struct flow_view *view)
{
    char execution[PR_ID_TEXT_SIZE];
    pr_id_format(view->history.execution, execution);
    json_begin_object(&x->w);
    member_text(&x->w, "id", x->part);
    member_text(&x->w, "execution", slice_from(execution));
    json_key(&x->w, "events");
    json_begin_array(&x->w);
    for (size_t i = 0; i < view->history.count; i++)
        flow_event_json(&x->w, &view->history.events[i], i + 1);
    json_end_array(&x->w);
    member_text(&x->w, "damaged", slice_from(view->damaged));
    json_end_object(&x->w);
}

void api_flow_history(struct api *x)
{
    struct flow_view view = { .store = x->in.store, .config = x->in.config, .arena = &x->arena, .id = x->part };
    const pr_slice execution = params_get(&x->params, "execution");
    struct pr_error error;
    if (execution.size > 0 && pr_id_parse(execution, &view.execution) != PR_OK) {
        api_error(x, 400, "invalid", "see GET /v1/flows/{id}/executions", "execution: \"%.*s\" is not an id",
                  SLICE_ARGS(execution));
        return;
    }
    int rc = flow_view_read(&view, &error);
    if (execution.size > 0)
        view.history.execution = view.execution;
    if (rc != PR_OK)
        fault(x, rc, &error);
    else if (view.row == NULL || (execution.size > 0 && view.history.count == 0))
        not_found(x);
    else
        history_json(x, &view);
    flow_view_fini(&view);
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

static int look(void *arg, struct arena *arena, const struct flow_row **ret, struct pr_error *reterr)
{
    struct api *x = arg;
    struct runtime_inside in;
    int rc = runtime_enter(x->rt, &in, reterr); /* only for this look: a reload need not wait for it */
    if (rc != PR_OK)
        return rc;
    rc = flow_read_row(in.store, x->part, arena, ret, reterr);
    runtime_leave(x->rt);
    return rc;
}

static bool is_gone(void *arg)
{
    const struct api *x = arg;
    char byte;
    return x->fd >= 0 && recv(x->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* False: answered. */
static bool wait_params(struct api *x, struct flow_waiter *w)
{
    const pr_slice timeout = params_get(&x->params, "timeout"), after = params_get(&x->params, "after_number");
    char number[MARK_SIZE] = "", *end = number;
    w->timeout_us = WAIT_DEFAULT_US;
    w->after_number = -1;
    if (timeout.size > 0 &&
        (duration_parse(timeout, &w->timeout_us) != PR_OK || w->timeout_us < 0 || w->timeout_us > WAIT_MAX_US)) {
        api_error(x, 400, "invalid", "use a duration such as 30s", "timeout: not a duration of at most %d s",
                  (int)(WAIT_MAX_US / PR_SECONDS(1)));
        return false;
    }
    if (after.size == 0)
        return true;
    if (after.size < sizeof number) {
        memcpy(number, after.data, after.size);
        w->after_number = strtoll(number, &end, 10);
    }
    if (end != number && *end == '\0' && w->after_number >= 0)
        return true;
    api_error(x, 400, "invalid", "", "after_number: must be a status_number that was seen");
    return false;
}

static void wait_for(struct api *x, struct flow_waiter *w)
{
    const struct flow_row *row = NULL;
    struct pr_error error;
    int rc = flow_wait_for(w, &row, &error);
    if (rc < 0) {
        fault(x, rc, &error);
        return;
    }
    if (rc == PR_UNKNOWN) {
        not_found(x);
        return;
    }
    json_begin_object(&x->w);
    flow_row_json(&x->w, row);
    json_put_bool(&x->w, "timeout", rc == PR_TIMEOUT);
    json_end_object(&x->w);
}

void api_flow_wait(struct api *x)
{
    struct arena arena;
    struct flow_waiter w = { .flow = x->part, .look = look, .is_gone = is_gone, .arg = x, .arena = &arena };
    if (!wait_params(x, &w))
        return;
    if (!api_wait_begin(x))
        return;
    arena_init(&arena, 4096);
    wait_for(x, &w);
    arena_fini(&arena);
    api_wait_end(x);
}

/* ---- Deleting ------------------------------------------------------------------------------------------ */

void api_flow_delete(struct api *x)
{
    const pr_slice force = params_get(&x->params, "force");
    const struct flow_order order = { .flows = &x->part,
                                      .flow_count = 1,
                                      .force = slice_eq_cstr(force, "1") || slice_eq_cstr(force, "true"),
                                      .turns = flow_box(x->in.config, BOX_TURNS),
                                      .activities = flow_box(x->in.config, BOX_ACTIVITIES) };
    const struct admin admin = { .kind = ADMIN_FLOW_DELETE,
                                 .filter.state = -1,
                                 .by = x->who,
                                 .why = params_get(&x->params, "why"),
                                 .flow = &order };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = store_admin(x->in.store, &admin, &reply, &error);
    if (rc < 0)
        fault(x, rc, &error);
    else if (reply.missing > 0)
        not_found(x);
    else if (reply.busy > 0)
        api_error(x, 503, "busy", "retry the request", "a turn of flow \"%.*s\" is being committed",
                  SLICE_ARGS(x->part));
    else if (reply.refused > 0)
        api_error(x, 409, "running", "cancel it first, or use force=1", "flow \"%.*s\" is running",
                  SLICE_ARGS(x->part));
    else
        api_report_change(x, &admin, &reply);
}

void api_flow_prune(struct api *x)
{
    const json_t *keep = json_object_get(x->json, "keep");
    const char *before = body_text(x, "before");
    const pr_slice id = slice_from(body_text(x, "id"));
    struct flow_order order = { .flows = &id, .flow_count = id.size > 0, .keep = -1 };
    const struct admin admin = { .kind = ADMIN_FLOW_PRUNE,
                                 .filter.state = -1,
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")),
                                 .dry_run = body_true(x, "dry_run"),
                                 .flow = &order };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    if (keep != NULL)
        order.keep = json_integer_value(keep);
    if (keep == NULL && before == NULL) {
        api_error(x, 400, "invalid", "", "give keep or before");
        return;
    }
    if (order.keep < 0 && keep != NULL) {
        api_error(x, 400, "invalid", "", "keep: must not be negative");
        return;
    }
    if (before != NULL && !time_or_span(slice_from(before), -1, api_now(x), &order.before_us)) {
        api_error(x, 400, "invalid", "use 30d or 2024-01-31T12:00:00Z", "before: \"%.60s\" is not a time", before);
        return;
    }
    int rc = store_admin(x->in.store, &admin, &reply, &error);
    if (rc < 0)
        fault(x, rc, &error);
    else
        api_report_change(x, &admin, &reply);
}
