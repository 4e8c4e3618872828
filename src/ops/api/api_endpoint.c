/* Endpoints: their state, and pause, resume, test. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "ops/endpoint.h"
#include "ops/reply.h"
#include "ops/api/api.h"
#include "ops/replay/pace.h"
#include "runtime/relay/relay.h"
#include "transport/transport.h"

#define TEST_TYPE "postrider.test"

/* What this process currently handles. */
static void here(struct api *x, pr_slice name)
{
    struct endpoint_view view = { 0 };
    for (size_t i = 0; i < relay_endpoint_count(x->in.relay); i++)
        if (slice_eq(relay_endpoint_name(x->in.relay, i), name))
            relay_endpoint(x->in.relay, i, &view);
    json_put_uint(&x->w, "in_flight", view.out);
    json_put_uint(&x->w, "waiting_in_memory", view.waiting);
}

static void endpoint_json(struct api *x, const struct query_reply *reply, const struct endpoint_state *e,
                          const struct pace *rate)
{
    const struct config_endpoint *c = config_find_endpoint(x->in.config, e->name);
    json_begin_object(&x->w);
    json_put_slice(&x->w, "name", e->name);
    json_key(&x->w, "transport"); /* not the URL: it may contain a password */
    if (c != NULL)
        json_slice(&x->w, transport_scheme(c->url));
    else
        json_cstr(&x->w, NULL); /* it is no longer in the configuration */
    condition_json(&x->w, &x->arena, reply, e);
    reply_write(&x->w, REPLY_ENDPOINT, e);
    pace_json(&x->w, rate);
    here(x, e->name);
    json_end_object(&x->w);
}

static const struct endpoint_state *find(const struct query_reply *reply, pr_slice name)
{
    for (size_t i = 0; i < reply->endpoint_count; i++)
        if (slice_eq(reply->endpoints[i].name, name))
            return &reply->endpoints[i];
    return NULL;
}

void api_endpoints(struct api *x)
{
    struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply reply;
    const struct pace unknown = { .over_us = 0 };
    if (!api_query(x, &query, &reply))
        return;
    struct pace *rates = arena_alloc_array(&x->arena, reply.endpoint_count, sizeof *rates);
    if (rates == NULL) {
        api_error(x, 503, "no_memory", "", "out of memory for the endpoints");
        return;
    }
    paces_look(x->paces, &reply, rates);
    json_begin_object(&x->w);
    json_key(&x->w, "endpoints");
    json_begin_array(&x->w);
    for (size_t i = 0; i < x->in.config->endpoint_count; i++) {
        const struct endpoint_state fresh = { .name = slice_from(x->in.config->endpoints[i].name) };
        const struct endpoint_state *e = find(&reply, fresh.name);
        endpoint_json(x, &reply, e != NULL ? e : &fresh, e != NULL ? &rates[e - reply.endpoints] : &unknown);
    }
    for (size_t i = 0; i < reply.endpoint_count; i++)
        if (reply.endpoints[i].name.size > 0 && config_find_endpoint(x->in.config, reply.endpoints[i].name) == NULL)
            endpoint_json(x, &reply, &reply.endpoints[i], &rates[i]);
    json_end_array(&x->w);
    json_end_object(&x->w);
}

static bool is_known(struct api *x)
{
    if (config_find_endpoint(x->in.config, x->part) != NULL)
        return true;
    api_error(x, 404, "not_found", "see GET /v1/endpoints", "unknown endpoint \"%.*s\"", SLICE_ARGS(x->part));
    return false;
}

static void order(struct api *x, const struct admin *admin)
{
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = store_admin(x->in.store, admin, &reply, &error);
    if (rc == PR_OK) {
        api_report_change(x, admin, &reply);
        return;
    }
    error.code = rc;
    api_fault(x, &error);
}

void api_endpoint_pause(struct api *x)
{
    const char *span = body_text(x, "for");
    int64_t for_us = PR_NEVER;
    struct admin admin = { .kind = ADMIN_PAUSE,
                           .filter = { .endpoint = x->part, .state = -1 },
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")) };
    if (!is_known(x))
        return;
    if (span != NULL && (duration_parse(slice_from(span), &for_us) != PR_OK || for_us <= 0)) {
        api_error(x, 400, "invalid", "use 30s, 5m or 24h; omit it to pause until resumed",
                  "for: \"%.60s\" is not a duration", span);
        return;
    }
    admin.until_us = for_us == PR_NEVER ? PR_NEVER : time_add(api_now(x), for_us);
    order(x, &admin);
}

void api_endpoint_resume(struct api *x)
{
    const struct admin admin = { .kind = ADMIN_RESUME,
                                 .filter = { .endpoint = x->part, .state = -1 },
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")) };
    if (is_known(x))
        order(x, &admin);
}

/* A message of a type of its own, delivered like all others: its story shows the result. */
void api_endpoint_test(struct api *x)
{
    struct pr_message m = { .type = PR_STR(TEST_TYPE),
                            .destination = x->part,
                            .source = PR_STR("postrider"),
                            .payload = PR_STR("{\"test\":true}") };
    const struct admin_reply outcome = { .matched = 1, .changed = 1 };
    const struct admin admin = { .kind = ADMIN_ENDPOINT_TEST,
                                 .filter = { .endpoint = x->part, .state = -1 },
                                 .by = x->who,
                                 .why = slice_from(body_text(x, "why")),
                                 .outcome = &outcome };
    struct pr_error error;
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    if (!is_known(x) || !api_record(x, &admin)) /* first: nothing is sent without a record */
        return;
    int rc = store_enqueue(x->in.store, PR_STR("outbox"), &m, 1, (size_t)x->in.config->payload_max, &id, NULL, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    pr_id_format(id, text);
    x->status = 202;
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "id", text);
    json_put_cstr(&x->w, "type", TEST_TYPE);
    json_end_object(&x->w);
}
