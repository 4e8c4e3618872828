/* endpoint.h - the state of an endpoint, from the store alone: active, paused, or with an open breaker. */
#ifndef OPS_ENDPOINT_H
#define OPS_ENDPOINT_H

#include "base/json.h"
#include "ops/watch/check.h"

/* Everything is borrowed from the reply of a QUERY_ENDPOINTS. */
struct endpoint_condition {
    const char *state;                  /* ok, open, half-open, paused */
    int64_t until_us;                   /* paused: its end; open: the next probe; PR_NEVER: until resumed; 0: none */
    const struct breaker_info *breaker; /* the breaker to report; NULL: all are closed */
    size_t others;                      /* number of other breakers that are not closed */
    uint64_t failed_in_row;             /* failures since its latest success; 0: none */
};
struct endpoint_condition endpoint_condition(const struct query_reply *reply, const struct endpoint_state *e);

const char *breaker_state_now(const struct breaker_info *b, int64_t now_us);  /* for programs: open, half-open */
const char *breaker_state_word(const struct breaker_info *b, int64_t now_us); /* for people: failing */
/* "transport_unavailable (503): connection refused" */
const char *breaker_words(struct arena *arena, const struct breaker_info *b);
void breaker_json(struct json_writer *w, const struct breaker_info *b, int64_t now_us); /* null if NULL */

/* The only endpoint that the routes choose for it in its box; empty: none, or several. */
pr_slice message_route(const struct config *config, pr_slice box, const struct pr_message *m);
/* The next step of a parked message that a route matches by now. */
#define ROUTE_MATCHES_NOW "it continues when postrider run has read the configuration (kill -HUP, or a start)"

/* The configuration's routes, for filters; config must outlive it. */
struct config_routing {
    struct routing routing;
    const struct config *config;
};
struct config_routing config_routing(const struct config *config);

/* Fills in the endpoint that the routes choose for listed messages, if there is only one. */
void messages_see_routes(const struct config *config, struct query_reply *reply);

/* The breaker that a message waits for, the open one if there are several; NULL: none. */
const struct breaker_info *message_breaker(const struct config *config, const struct query_reply *reply,
                                           const struct listed *l);

const char *condition_why(struct arena *arena, const struct endpoint_condition *s,
                          const struct endpoint_state *e); /* "" : nothing */
/* "state", "until", "why", "breakers", "failed_in_row", "last_failure" of an object. */
void condition_json(struct json_writer *w, struct arena *arena, const struct query_reply *reply,
                    const struct endpoint_state *e);

/* Adds a warning for each endpoint that does not send.  Returns how many. */
size_t endpoints_check(struct checks *checks, const struct query_reply *reply);

#endif
