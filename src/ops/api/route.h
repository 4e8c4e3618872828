/* route.h - the table of all requests: the server finds its functions here, and the OpenAPI document is generated from
 * it. */
#ifndef OPS_API_ROUTE_H
#define OPS_API_ROUTE_H

#include "ops/api/authz.h"

struct api;

enum route_kind {
    ROUTE_JSON,   /* answers with JSON */
    ROUTE_TEXT,   /* /metrics */
    ROUTE_EVENTS, /* server-sent events */
};
enum route_body {
    BODY_NONE,
    BODY_JSON,     /* an object; it may be omitted if no member is required */
    BODY_MESSAGES, /* CloudEvents or plain JSON */
};

struct api_route {
    const char *method; /* GET, POST, DELETE */
    const char *path;   /* "/v1/messages/{id}/retry" */
    enum role role;     /* the least role that is allowed; ROLE_NONE: public */
    enum route_kind kind;
    enum route_body body;
    void (*answer)(struct api *x);
    const char *summary;  /* a sentence */
    const char *params;   /* names of query parameters, separated by blanks; "" : none */
    const char *fields;   /* names of the members of a JSON body; '*' after a required one */
    const char *statuses; /* statuses of its answers, in addition to those of every route */
    bool waits;           /* it may take long: a reload does not wait for it, and x->in is not available */
};

extern const struct api_route routes[];
extern const size_t route_count;

/* The value for {id} or {name}: at most one, decoded by the caller. */
enum route_found { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };
/* HEAD is treated as GET.  *ret_route and *ret_part only when found; *ret_allow (a text for Allow) when the method is
 * wrong. */
enum route_found route_find(const char *method, pr_slice path, const struct api_route **ret_route, pr_slice *ret_part,
                            const char **ret_allow);

#endif
