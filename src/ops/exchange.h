/* exchange.h - one request and its answer, without HTTP: what the functions of the route table work with. */
#ifndef OPS_EXCHANGE_H
#define OPS_EXCHANGE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/json.h"
#include "ops/decode.h"
#include "ops/query.h"
#include "ops/route.h"
#include "runtime/runtime.h"

#define ANSWER_MAX (256u << 20) /* bytes: a page of the largest payloads is refused, not a reason to die */

struct metrics;

struct exchange {
    /* Asked: */
    const struct route   *route;
    pr_slice              part;    /* in the place of {id} or {name}, decoded */
    struct params         params;
    struct decode_input   input;   /* content type and body; for messages the headers, too */
    json_t               *json;    /* the body of BODY_JSON, an object; NULL: there is none */
    enum role             role;
    bool                  open;    /* nobody needs a token */
    pr_slice              who;     /* for the audit */
    struct runtime       *rt;
    struct metrics       *metrics;
    struct runtime_inside in;      /* entered while answer() runs, unless the route is for anybody */
    struct arena          arena;

    /* Answered: */
    unsigned           status;
    const char        *content_type;
    struct buf         out;
    struct json_writer w;
};

/* Zero it first. */
void exchange_init(struct exchange *x);
void exchange_fini(struct exchange *x);

/* The whole answer is this error; what was written before is forgotten.  hint may be "". */
void exchange_error(struct exchange *x, unsigned status, const char *code, const char *hint, const char *format, ...)
    PR_PRINTF(5, 6);
/* ... by a fault. */
void exchange_fault(struct exchange *x, const struct pr_error *error);

/* Ask the store.  False: the fault is the answer. */
bool exchange_query(struct exchange *x, const struct query *query, struct query_reply *ret);
/* The part as an id.  False: answered. */
bool exchange_id(struct exchange *x, pr_id *ret);
int64_t exchange_now(struct exchange *x); /* the store's time */

/* Parameters as a filter; others than names in `more` (separated by blanks) are refused.  False: answered. */
bool exchange_filter(struct exchange *x, const char *more, struct filter *ret);

/* ---- The JSON body (body.c); false or NULL: not there.  Wrong types are answered by body_check(). */

/* Are all members known to the route, and is what it needs there?  False: answered. */
bool        body_check(struct exchange *x);
const char *body_text(const struct exchange *x, const char *name);  /* NULL: not there */
bool        body_true(const struct exchange *x, const char *name);
/* "ids" and "filter" as one filter; at least one of them is needed.  False: answered. */
bool        body_filter(struct exchange *x, struct filter *ret);

/* ---- The functions of the routes ---- */

void api_messages_send(struct exchange *x);
void api_messages_list(struct exchange *x);
void api_message(struct exchange *x);
void api_message_change(struct exchange *x); /* retry release park discard */
void api_dead_list(struct exchange *x);
void api_dead_groups(struct exchange *x);
void api_dead_change(struct exchange *x); /* replay discard */
void api_dead_edit(struct exchange *x);
void api_endpoints(struct exchange *x);
void api_endpoint_pause(struct exchange *x);
void api_endpoint_resume(struct exchange *x);
void api_endpoint_test(struct exchange *x);
void api_streams(struct exchange *x);
void api_streams_release(struct exchange *x);
void api_instances(struct exchange *x);
void api_status(struct exchange *x);
void api_audit(struct exchange *x);
void api_metrics(struct exchange *x);
void api_live(struct exchange *x);
void api_ready(struct exchange *x);
void api_openapi(struct exchange *x);

/* What was done, as an object; everybody who listens is told. */
struct admin;
struct admin_reply;
void api_report_change(struct exchange *x, const struct admin *admin, const struct admin_reply *reply);
/* A page of messages: {"messages":[...],"more":...,"next":...} */
void api_page(struct exchange *x, const struct query_reply *reply);

#endif
