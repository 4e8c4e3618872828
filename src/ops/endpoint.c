#include "ops/endpoint.h"

#include <string.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/reason.h"
#include "ops/member.h"
#include "ops/reply.h"
#include "ops/explain/words.h"

#define FAILING_LATELY_US PR_SECONDS(86400)

/* ---- Breakers ---- */

static bool is_open(const struct breaker_info *b, int64_t now_us)
{
    return b->until_us > now_us;
}

const char *breaker_state_now(const struct breaker_info *b, int64_t now_us)
{
    return is_open(b, now_us) ? "open" : "half-open";
}

const char *breaker_state_word(const struct breaker_info *b, int64_t now_us)
{
    return is_open(b, now_us) ? "failing" : "failing (probing)";
}

/* Open before half-open, then the one whose probe is next. */
static const struct breaker_info *worse(const struct breaker_info *a, const struct breaker_info *b, int64_t now_us)
{
    if (a == NULL || is_open(a, now_us) != is_open(b, now_us))
        return a == NULL || !is_open(a, now_us) ? b : a;
    return b->until_us < a->until_us ? b : a;
}

static const char *failure_words(struct arena *arena, int reason, pr_slice code, pr_slice error)
{
    const char *text =
        arena_printf(arena, "%s%s%.*s%s%s%.*s", reason != PR_REASON_NONE ? pr_reason_name(reason) : "failed",
                     code.size > 0 ? " (" : "", SLICE_ARGS(code), code.size > 0 ? ")" : "", error.size > 0 ? ": " : "",
                     SLICE_ARGS(error))
            .data;
    ASSERT(text != NULL);
    return text;
}

const char *breaker_words(struct arena *arena, const struct breaker_info *b)
{
    return failure_words(arena, b->reason, b->code, b->error);
}

void breaker_json(struct json_writer *w, const struct breaker_info *b, int64_t now_us)
{
    if (b == NULL) {
        json_cstr(w, NULL);
        return;
    }
    json_begin_object(w);
    json_put_cstr(w, "state", breaker_state_now(b, now_us));
    reply_write(w, REPLY_BREAKER, b);
    json_end_object(w);
}

/* ---- What a message waits for ---- */

static const struct breaker_info *breaker_of(const struct query_reply *reply, const struct listed *l, pr_slice endpoint)
{
    const struct breaker_info *found = NULL;

    for (size_t i = 0; i < reply->breaker_count; i++) {
        const struct breaker_info *b = &reply->breakers[i];

        if (slice_eq(b->endpoint, endpoint) && slice_eq(b->box, l->box) &&
            (b->type.size == 0 || slice_eq(b->type, l->m.type)) && (b->lanes & lane_bit(l->lane)) != 0)
            found = worse(found, b, reply->now_us);
    }
    return found;
}

static bool fits(const char *glob, pr_slice text)
{
    return glob[0] == '\0' || slice_glob(slice_from(glob), text);
}

static bool route_fits(const struct config *config, const struct config_route *r, pr_slice box,
                       const struct pr_message *m)
{
    return config_takes_box(config, r->box, box) && fits(r->type, m->type) && fits(r->source, m->source) &&
           fits(r->stream, m->stream) && route_headers_match(r->headers, r->header_count, m);
}

/* The n-th of the endpoints that the routes choose for it, each once. */
static pr_slice nth_route(const struct config *config, pr_slice box, const struct pr_message *m, size_t n)
{
    const char *found[ENDPOINTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *r = &config->routes[i];

        for (size_t k = 0; k < r->to_count && route_fits(config, r, box, m); k++) {
            size_t j = 0;

            while (j < count && strcmp(found[j], r->to[k]) != 0)
                j++;
            if (j == n && j == count)
                return slice_from(r->to[k]);
            if (j == count)
                found[count++] = r->to[k];
        }
    }
    return (pr_slice){ NULL, 0 };
}

pr_slice message_route(const struct config *config, pr_slice box, const struct pr_message *m)
{
    return nth_route(config, box, m, 1).size == 0 ? nth_route(config, box, m, 0) : (pr_slice){ NULL, 0 };
}

static pr_slice config_route(const struct routing *routing, pr_slice box, const struct pr_message *m, size_t n)
{
    return nth_route(((const struct config_routing *)routing)->config, box, m, n);
}

static bool config_is_strict(const struct routing *routing, pr_slice endpoint)
{
    const struct config_endpoint *e = config_find_endpoint(((const struct config_routing *)routing)->config, endpoint);
    return e != NULL && e->ordering == ORDERING_STRICT;
}

struct config_routing config_routing(const struct config *config)
{
    return (struct config_routing){ { config_route, config_is_strict }, config };
}

void messages_see_routes(const struct config *config, struct query_reply *reply)
{
    for (size_t i = 0; i < reply->listed_count; i++) {
        struct listed *l = &reply->listed[i];

        if (l->endpoint.size == 0 && l->m.destination.size == 0)
            l->endpoint = message_route(config, l->box, &l->m);
    }
}

/* The breaker, among those of the endpoints that the routes choose, that it waits for first. */
static const struct breaker_info *breaker_by_route(const struct config *config, const struct query_reply *reply,
                                                   const struct listed *l)
{
    for (size_t i = 0; i < config->route_count; i++) {
        const struct config_route *r = &config->routes[i];

        if (!route_fits(config, r, l->box, &l->m))
            continue;
        for (size_t k = 0; k < r->to_count; k++) {
            const struct breaker_info *b = breaker_of(reply, l, slice_from(r->to[k]));

            if (b != NULL)
                return b;
        }
    }
    return NULL;
}

const struct breaker_info *message_breaker(const struct config *config, const struct query_reply *reply,
                                           const struct listed *l)
{
    if (reply->breaker_count == 0 || (l->state != STATE_READY && l->state != STATE_RETRYING))
        return NULL;
    return l->m.destination.size > 0 ? breaker_of(reply, l, l->m.destination) : breaker_by_route(config, reply, l);
}

/* ---- How it stands ---- */

/* A few failures are normal, and old failures say nothing about now. */
static bool is_failing_lately(const struct endpoint_state *e, int64_t now_us)
{
    return e->failed_in_row >= ENDPOINT_FAILING_MIN && now_us - e->last_failed_us < FAILING_LATELY_US;
}

struct endpoint_condition endpoint_condition(const struct query_reply *reply, const struct endpoint_state *e)
{
    struct endpoint_condition s = { .state = "ok" };
    size_t count = 0;

    for (size_t i = 0; i < reply->breaker_count; i++) {
        if (!slice_eq(reply->breakers[i].endpoint, e->name))
            continue;
        s.breaker = worse(s.breaker, &reply->breakers[i], reply->now_us);
        count++;
    }
    s.others = count > 0 ? count - 1 : 0;
    if (e->paused_until_us > reply->now_us) {
        s.state = "paused";
        s.until_us = e->paused_until_us;
    } else if (s.breaker != NULL) {
        s.state = breaker_state_now(s.breaker, reply->now_us);
        s.until_us = s.breaker->until_us;
    } else if (is_failing_lately(e, reply->now_us)) {
        s.failed_in_row = e->failed_in_row;
    }
    return s;
}

static bool is_paused(const struct endpoint_condition *s)
{
    return s->state[0] == 'p';
}

const char *condition_why(struct arena *arena, const struct endpoint_condition *s, const struct endpoint_state *e)
{
    pr_slice text = { "", 0 };

    if (is_paused(s))
        text = arena_printf(arena, "%s%.*s%s%.*s", e->by.size > 0 ? "by " : "", SLICE_ARGS(e->by),
                            e->by.size > 0 && e->why.size > 0 ? ": " : "", SLICE_ARGS(e->why));
    else if (s->breaker != NULL && s->breaker->type.size > 0)
        text = arena_printf(arena, "for type %.*s: %s", SLICE_ARGS(s->breaker->type), breaker_words(arena, s->breaker));
    else if (s->breaker != NULL)
        text = pr_str(breaker_words(arena, s->breaker));
    else if (s->failed_in_row > 0)
        text = arena_printf(arena, "the last %llu attempts all failed: %s", (unsigned long long)s->failed_in_row,
                            failure_words(arena, e->last_reason, e->last_code, e->last_error));
    ASSERT(text.data != NULL);
    return text.data;
}

void condition_json(struct json_writer *w, struct arena *arena, const struct query_reply *reply,
                    const struct endpoint_state *e)
{
    const struct endpoint_condition s = endpoint_condition(reply, e);
    const struct condition_reply condition = {
        .state = slice_from(s.state),
        .until_us = s.until_us,
        .by = is_paused(&s) ? e->by : (pr_slice){ NULL, 0 },
        .why = is_paused(&s) ? e->why : slice_from(condition_why(arena, &s, e)),
    };
    reply_write(w, REPLY_CONDITION, &condition);
    json_key(w, "breakers");
    json_begin_array(w);
    for (size_t i = 0; i < reply->breaker_count; i++)
        if (slice_eq(reply->breakers[i].endpoint, e->name))
            breaker_json(w, &reply->breakers[i], reply->now_us);
    json_end_array(w);
    json_key(w, "last_failure");
    if (e->last_failed_us == 0) {
        json_cstr(w, NULL);
        return;
    }
    json_begin_object(w);
    reply_write(w, REPLY_FAILURE, e);
    json_end_object(w);
}

/* ---- Checks ---- */

static void check_breaker(struct checks *checks, const struct endpoint_condition *s, const struct endpoint_state *e,
                          int64_t now_us)
{
    const char *next = !is_open(s->breaker, now_us) ? "the next message is a probe"
                       : s->breaker->until_us == PR_NEVER
                           ? "not sending any more"
                           : arena_printf(checks->arena, "not sending until %s",
                                          clock_words(checks->arena, s->breaker->until_us, now_us))
                                 .data;

    checks_warn(
        checks, "breaker", e->name,
        "%.*s: failing, %s (circuit breaker). It has been failing for %s; its messages wait, and no failures are "
        "counted. %.300s. To stop the probes: postrider pause %s",
        SLICE_ARGS(e->name), next, span_words(checks->arena, now_us - s->breaker->since_us),
        condition_why(checks->arena, s, e), shell_argument(checks->arena, e->name));
}

/* If the messages are at fault, testing the endpoint finds nothing. */
static void check_failing(struct checks *checks, const struct endpoint_condition *s, const struct endpoint_state *e,
                          int64_t now_us)
{
    pr_slice next =
        reason_fault(e->last_reason, e->last_code, false) == FAULT_CONTENT
            ? arena_printf(checks->arena,
                           "The reason is the messages' content, not the endpoint. To see which messages, and why: "
                           "postrider dead list --endpoint %s, postrider why ID",
                           shell_quote(checks->arena, e->name))
            : arena_printf(checks->arena,
                           "Check that it is up and that its settings are right: postrider endpoints test %s",
                           shell_argument(checks->arena, e->name));

    checks_warn(checks, "failing", e->name, "%.*s: %.400s (%s ago). %.*s", SLICE_ARGS(e->name),
                condition_why(checks->arena, s, e), span_words(checks->arena, now_us - e->last_failed_us),
                SLICE_ARGS(next));
}

size_t endpoints_check(struct checks *checks, const struct query_reply *reply)
{
    size_t found = 0;

    for (size_t i = 0; i < reply->endpoint_count; i++) {
        const struct endpoint_state *e = &reply->endpoints[i];
        struct endpoint_condition s = endpoint_condition(reply, e);

        if (is_paused(&s))
            checks_add(checks, "paused", CHECK_WARN, "%.*s: paused by %.*s%s%.300s. To send again: postrider resume %s",
                       SLICE_ARGS(e->name), SLICE_ARGS(e->by), e->why.size > 0 ? ": " : "",
                       slice_dup(checks->arena, e->why).data, shell_argument(checks->arena, e->name));
        else if (s.breaker != NULL)
            check_breaker(checks, &s, e, reply->now_us);
        else if (s.failed_in_row > 0)
            check_failing(checks, &s, e, reply->now_us);
        found += is_paused(&s) || s.breaker != NULL || s.failed_in_row > 0;
    }
    return found;
}
