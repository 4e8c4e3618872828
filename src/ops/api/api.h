/* api.h - one request and its answer, independent of HTTP: what the functions of the route table use. */
#ifndef OPS_API_API_H
#define OPS_API_API_H

#include <jansson.h>

#include "base/buf.h"
#include "base/json.h"
#include "source/decode.h"
#include "ops/endpoint.h"
#include "ops/api/query.h"
#include "ops/api/route.h"
#include "runtime/runtime.h"

#define API_HEADERS_MAX 64      /* of CloudEvents in a request */
#define ANSWER_MAX (256u << 20) /* bytes: a page of the largest payloads is refused instead of exhausting the memory */

struct claimed;
struct gate;
struct metrics;
struct replays;
struct paces;

struct api {
    /* The request: */
    const struct api_route *route;
    pr_slice part; /* the value for {id} or {name}, decoded */
    struct params params;
    struct decode_input input; /* content type and body; for messages the headers, too */
    struct decode_header headers[API_HEADERS_MAX];
    json_t *json; /* the body of BODY_JSON, an object; NULL: none */
    enum role role;
    pr_slice who; /* author for the audit */
    struct runtime *rt;
    int fd; /* the client's connection; -1: none */
    struct gate *gate;
    struct metrics *metrics;
    struct replays *replays;
    struct paces *paces;
    struct runtime_inside in;      /* entered while answer() runs, unless the route is public */
    struct config_routing routing; /* routes of its configuration: for filters */
    struct arena arena;
    /* Called when the answer did not reach the client, to undo its effects.  NULL: nothing to undo. */
    void (*unsent)(struct api *x);
    struct claimed *claimed; /* state of unsent */

    /* The answer: */
    unsigned status;
    const char *content_type;
    struct buf out;
    struct json_writer w;
};

/* Zero it first. */
void api_init(struct api *x);
void api_fini(struct api *x);

/* Replaces the whole answer by this error.  hint may be "". */
void api_error(struct api *x, unsigned status, const char *code, const char *hint, const char *format, ...)
    PR_PRINTF(5, 6);
/* ... by a fault. */
void api_fault(struct api *x, const struct pr_error *error);

/* Asks the store.  False: the answer is its fault. */
bool api_query(struct api *x, const struct query *query, struct query_reply *ret);
/* The path's part as an id.  False: answered. */
bool api_id(struct api *x, pr_id *ret);
/* A dead letter, by its id or as "row-N" if the id is damaged; *ret_id must live as long as the filter. */
bool api_letter(struct api *x, pr_id *ret_id, struct filter *ret_filter);
int64_t api_now(struct api *x); /* the store's time */

/* A filter that matches everything, and knows the routes. */
/* Does the box exist?  False: answered.  An empty name means all boxes. */
bool api_box_is_there(struct api *x, pr_slice box);
struct filter api_filter_init(struct api *x);
/* Parameters as a filter; only those of a filter and names in `more` (separated by blanks) are allowed.  False:
 * answered. */
bool api_filter(struct api *x, const char *more, struct filter *ret);

/* ---- Requests that wait: few at a time, fewer from one address (gate.h) ---- */

bool api_wait_begin(struct api *x); /* false: too many requests wait already; answered */
void api_wait_end(struct api *x);
/* Has the client (a struct api) closed its end?  Then it must not get anything. */
bool api_is_gone(void *x);
/* A member of the body, or a parameter, that is a duration; NULL: *ret_us is unchanged.  False: answered. */
bool api_span(struct api *x, const char *name, const json_t *value, int64_t max_us, int64_t *ret_us);

/* ---- The JSON body (body.c); false or NULL: not there.  Wrong types are answered by body_check(). */

/* "string", "array", "object", "boolean", "integer"; NULL: any. */
const char *body_field_type(const struct api_route *route, pr_slice name);
/* Are all members known to the route, and all required ones present?  False: answered. */
bool body_check(struct api *x);
const char *body_text(const struct api *x, const char *name); /* NULL: missing */
bool body_true(const struct api *x, const char *name);
/* "payload" (a JSON value, as written), "payload_text" or "payload_base64"; *ret_given: is it present? */
PR_MUST_CHECK int body_payload(struct api *x, pr_slice *ret, bool *ret_given, struct pr_error *reterr);
/* Which part of a message to several endpoints; empty: missing.  An empty value is refused, since it would mean all.
 * False: answered. */
bool body_endpoint(struct api *x, pr_slice *ret);
/* "ids" or "filter" as one filter; with ids it may have the endpoint.  False: answered. */
bool body_filter(struct api *x, struct filter *ret);

/* ---- The functions of the routes ---- */

void api_messages_send(struct api *x);
void api_messages_list(struct api *x);
void api_message(struct api *x);
void api_message_change(struct api *x);  /* one: retry release park discard dead note */
void api_messages_change(struct api *x); /* many: retry release park discard */
void api_dead_list(struct api *x);
void api_dead_groups(struct api *x);
void api_dead_change(struct api *x); /* replay discard */
void api_dead_edit(struct api *x);
void api_dead_export(struct api *x);
void api_dead_import(struct api *x);
void api_replays(struct api *x);
void api_replay(struct api *x);
void api_replay_change(struct api *x); /* stop resume */
void api_endpoints(struct api *x);
void api_endpoint_pause(struct api *x);
void api_endpoint_resume(struct api *x);
void api_endpoint_test(struct api *x);
void api_claims(struct api *x);
void api_claims_end(struct api *x); /* complete fail abandon release */
void api_claims_renew(struct api *x);
void api_streams(struct api *x);
void api_streams_release(struct api *x);
void api_boxes(struct api *x);
void api_instances(struct api *x);
void api_status(struct api *x);
void api_list(struct api *x); /* audit */
void api_events(struct api *x);
void api_subscription_claim(struct api *x);
void api_subscription_move(struct api *x);   /* acknowledge release */
void api_subscription_change(struct api *x); /* reset remove */
void api_snapshot(struct api *x);
void api_snapshot_save(struct api *x);
/* Looks repeatedly until *found, the time is over, or the client is gone.  False: answered. */
bool api_look_for(struct api *x, int64_t wait_us, bool (*one)(struct api *x, void *arg), void *arg, const bool *found);
void api_request(struct api *x);
void api_request_send(struct api *x);
void api_schedules(struct api *x);
void api_schedule(struct api *x);
void api_schedule_add(struct api *x);
void api_schedule_run(struct api *x);
void api_schedule_change(struct api *x); /* pause resume cancel reschedule */
void api_flow_start(struct api *x);
void api_flows(struct api *x);
void api_flow(struct api *x);
void api_flow_history(struct api *x);
void api_flow_executions(struct api *x);
void api_flow_tell(struct api *x); /* raise send */
void api_flow_cancel(struct api *x);
void api_flow_retry(struct api *x);
void api_flow_wait(struct api *x);
void api_flow_delete(struct api *x);
void api_flow_prune(struct api *x);
void api_metrics(struct api *x);
void api_health(struct api *x);
void api_live(struct api *x);
void api_ready(struct api *x);
void api_openapi(struct api *x);

struct admin;
/* Does the body ask for a replay that continues after the answer?  If so, starts it. */
bool api_replay_is_long(const struct api *x);
void api_replay_start(struct api *x, const struct admin *admin);

/* "to" as a time; missing: unchanged.  False: answered. */
bool api_take_due(struct api *x, int64_t *ret_us);
/* The result of a change, as an object; also for clients of the feed. */
struct admin_reply;
void api_report_change(struct api *x, const struct admin *admin, const struct admin_reply *reply);
/* Records in the audit what was done without the store's own orders.  False: answered with the fault. */
bool api_record(struct api *x, const struct admin *admin);
/* A page of messages, in an open object: "messages":[...],"more":...,"next":...} */
void api_page(struct api *x, const struct query_reply *reply, bool of_boxes);
/* ... its end: "more", "next" and the brace. */
void api_page_end(struct api *x, const struct query_reply *reply, bool of_boxes);

#endif
