/* endpoint.h - how an endpoint stands, by the store alone: it sends, is paused, or a breaker of it is open. */
#ifndef OPS_ENDPOINT_H
#define OPS_ENDPOINT_H

#include "base/json.h"
#include "ops/watch/check.h"

/* All of it is borrowed from the reply of a QUERY_ENDPOINTS. */
struct endpoint_condition {
    const char *state;                  /* ok, open, half-open, paused */
    int64_t until_us;                   /* paused: its end; open: the next probe; PR_NEVER: until resumed; 0: none */
    const struct breaker_info *breaker; /* the one to tell of; NULL: all are closed */
    size_t others;                      /* breakers that are not closed, beside it */
    uint64_t failed_in_row;             /* its latest attempts, all of which failed; 0: it does not fail */
};
struct endpoint_condition endpoint_condition(const struct query_reply *reply, const struct endpoint_state *e);

const char *breaker_state_now(const struct breaker_info *b, int64_t now_us);  /* for programs: open, half-open */
const char *breaker_state_word(const struct breaker_info *b, int64_t now_us); /* for people: failing */
/* "transport_unavailable (503): connection refused" */
const char *breaker_words(struct arena *arena, const struct breaker_info *b);
void breaker_json(struct json_writer *w, const struct breaker_info *b, int64_t now_us); /* null when there is none */

/* The one endpoint that the routes send it to from its box; empty: none, or several. */
pr_slice message_route(const struct config *config, pr_slice box, const struct pr_message *m);
/* What comes next where that is another answer than the one by which it was parked. */
#define ROUTE_MATCHES_NOW "it continues when postrider run has read the configuration (kill -HUP, or a start)"

/* The configuration's routes, for filters; config must outlive it. */
struct config_routing {
    struct routing routing;
    const struct config *config;
};
struct config_routing config_routing(const struct config *config);

/* What was listed gets the endpoint that the routes choose, where they choose one. */
void messages_see_routes(const struct config *config, struct query_reply *reply);

/* What a message waits for.  Of several that a message waits for, the one that is open; NULL: none. */
const struct breaker_info *message_breaker(const struct config *config, const struct query_reply *reply,
                                           const struct listed *l);

const char *condition_why(struct arena *arena, const struct endpoint_condition *s,
                          const struct endpoint_state *e); /* "" : nothing */
/* "state", "until", "why", "breakers", "failed_in_row", "last_failure" of an object. */
void condition_json(struct json_writer *w, struct arena *arena, const struct query_reply *reply,
                    const struct endpoint_state *e);

/* A warning for each endpoint that does not send.  Returns how many. */
size_t endpoints_check(struct checks *checks, const struct query_reply *reply);

#endif
