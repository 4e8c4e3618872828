#include "ops/watch/watch.h"

#include <string.h>

#include "base/hash.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/schedule.h"
#include "ops/endpoint.h"
#include "ops/explain/words.h"
#include "runtime/flow/flows.h"

#define BLOCKED_AFTER_US PR_MINUTES(10)
#define BLOCKED_LOOKED_MAX 50 /* blocked streams that are checked, those with most rows behind their head first */
#define BLOCKED_NAMED_MAX 3
#define UNREAD_LOOKED_MAX 100
#define UNKNOWN_AFTER_US PR_SECONDS(2) /* longer than lanes take to come to an instance that has the code */
#define UNKNOWN_LOOKED_MAX 100
#define NEAR_DEFAULT 4 /* without a configured endpoint: one less than the default limit */

int watch_near(const struct config *config)
{
    int near = config->endpoint_count > 0 ? INT32_MAX : NEAR_DEFAULT;
    for (size_t i = 0; i < config->endpoint_count; i++)
        near = config->endpoints[i].max_attempts - 1 < near ? config->endpoints[i].max_attempts - 1 : near;
    return near > 1 ? near : 1;
}

/* A paused endpoint or an open breaker has a warning of its own, and its messages are not stuck. */
static bool all_endpoints_send(const struct status *s)
{
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++)
        if (s->endpoints.endpoints[i].paused_until_us > s->endpoints.now_us)
            return false;
    return s->endpoints.breaker_count == 0;
}

void watch_see(struct watch_past *past, const struct status *s)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];
        total += e->sent + e->failed + e->dead + e->discarded + e->expired + e->duplicates;
    }
    if (past->known && past->total == total)
        return;
    past->known = true;
    past->total = total;
    past->since_us = s->endpoints.now_us;
}

/* Messages that wait for their turn at an endpoint with a rate are not stuck, and such an endpoint may have nothing in
 * flight at any time: but in each of its periods one goes out. */
static bool rate_may_explain(const struct status *s)
{
    int64_t span_us = 0;
    for (size_t i = 0; i < s->config->endpoint_count; i++) {
        const struct rate_setting *rate = &s->config->endpoints[i].rate;
        if (rate->count > 0)
            span_us = max64(span_us, rate->period_us / rate->count + 1);
    }
    if (span_us == 0)
        return false;
    if (s->past == NULL || !s->past->known)
        return true;
    return s->endpoints.now_us - s->past->since_us <= max64(s->config->watch.stuck_us, 2 * span_us);
}

static const struct instance_info *idle_owner(const struct status *s, pr_slice box)
{
    const struct instance_info *found = NULL;
    for (size_t i = 0; i < s->instances.instance_count; i++) {
        const struct instance_info *n = &s->instances.instances[i];
        if (!slice_eq(n->box, box) || n->lanes == 0 || n->lease_left_us <= 0)
            continue;
        if (n->in_flight > 0)
            return NULL;
        found = n;
    }
    return found;
}

void watch_progress(struct status *s)
{
    bool explained = !all_endpoints_send(s) || rate_may_explain(s);
    for (size_t i = 0; i < s->boxes.box_count && !explained; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];
        const struct instance_info *n = idle_owner(s, b->name);
        int64_t age_us = b->oldest_us != 0 ? s->boxes.now_us - b->oldest_us : 0;
        int64_t stuck_us = s->config->watch.stuck_us;
        if (n != NULL && b->ready > 0 && age_us > stuck_us && s->instances.now_us - n->started_us > stuck_us)
            checks_warn(&s->checks, "progress", b->name,
                        "instance %.*s has the lease of %.*s but sends nothing, although a message has been ready for "
                        "%s: check its log, then restart it",
                        SLICE_ARGS(n->name), SLICE_ARGS(b->name), span_words(s->checks.arena, age_us));
    }
}

/* Does this endpoint take messages at any time?  Endpoints with a rate, paused or failing ones have reasons to let them
 * wait. */
static bool endpoint_is_free(const struct status *s, pr_slice name)
{
    const struct config_endpoint *c = config_find_endpoint(s->config, name);
    if (c == NULL || c->rate.count > 0)
        return false;
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];
        if (slice_eq(e->name, name))
            return s->in_flight[i] == 0 && strcmp(endpoint_condition(&s->endpoints, e).state, "ok") == 0;
    }
    return true;
}

static bool box_is_worked(const struct status *s, pr_slice box)
{
    for (size_t i = 0; i < s->instances.instance_count; i++) {
        const struct instance_info *n = &s->instances.instances[i];
        if (slice_eq(n->box, box) && n->lanes > 0 && n->lease_left_us > 0 &&
            s->instances.now_us - n->started_us > s->config->watch.stuck_us)
            return true;
    }
    return false;
}

void watch_unread(struct status *s, const struct listed *oldest)
{
    int64_t age_us = s->boxes.now_us - message_ready_since(&oldest->m);
    char id[PR_ID_TEXT_SIZE];
    if (oldest->state != STATE_READY || age_us <= s->config->watch.stuck_us || oldest->endpoint.size == 0 ||
        !endpoint_is_free(s, oldest->endpoint) || !box_is_worked(s, oldest->box))
        return;
    pr_id_format(oldest->m.id, id);
    checks_warn(&s->checks, "unread", oldest->box,
                "message %s has been ready for %s and nobody has read it, although its endpoint %.*s is idle: "
                "postrider why %s; if it stays, check the log of the instance and restart it",
                id, span_words(s->checks.arena, age_us), SLICE_ARGS(oldest->endpoint), id);
}

static void ask_unread(struct status *s)
{
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];
        struct query query = {
            .kind = QUERY_MESSAGES,
            .brief = true,
            .filter = { .box = b->name, .state = STATE_READY, .limit = UNREAD_LOOKED_MAX, .look_max = LOOK_MAX }
        };
        struct query_reply reply;
        struct pr_error err;
        if (b->ready == 0 || b->oldest_us == 0 || s->boxes.now_us - b->oldest_us <= s->config->watch.stuck_us ||
            store_query(s->store, &query, s->checks.arena, &reply, &err) != PR_OK)
            continue;
        messages_see_routes(s->config, &reply);
        size_t before = s->checks.count;
        for (size_t k = 0; k < reply.listed_count && s->checks.count == before; k++) {
            if (reply.listed[k].endpoint.size == 0)
                reply.listed[k].endpoint = reply.listed[k].m.destination;
            watch_unread(s, &reply.listed[k]);
        }
    }
}

/* ---- Subscriptions ---- */

bool subscription_is_held(const struct subscription_info *n, int64_t now_us)
{
    return n->holder.size > 0 && n->until_us > now_us;
}

/* Since when the position has not moved, as far as this process has seen; remembers this look. */
static int64_t still_since(struct watch_past *past, const struct subscription_info *n, int64_t now_us)
{
    uint64_t name = hash_slice(0, n->name);
    size_t i = 0;
    while (i < past->subscription_count && past->subscriptions[i].name != name)
        i++;
    if (i == WATCH_SUBSCRIPTIONS_MAX)
        return now_us;
    struct subscription_past *p = &past->subscriptions[i];
    if (i == past->subscription_count || p->position != n->position)
        *p = (struct subscription_past){ name, n->position, now_us };
    past->subscription_count += i == past->subscription_count;
    return p->since_us;
}

void watch_subscription(struct status *s, const struct subscription_info *n, int64_t first_us)
{
    int64_t now_us = s->subscriptions.now_us, stuck_us = s->config->watch.stuck_us;
    int64_t since_us = s->past != NULL ? still_since(s->past, n, now_us) : now_us;
    const char *name = text_clean_copy(s->checks.arena, n->name);
    const char *wait = count_words(s->checks.arena, n->lag, "event waits", "events wait");
    if (n->lag == 0 || now_us - first_us <= stuck_us)
        return;
    if (!subscription_is_held(n, now_us))
        checks_warn(&s->checks, "subscription", n->name,
                    "nobody reads subscription %s: %s, the first for %s: start the program that reads it. If it is not "
                    "needed any more: postrider events subscriptions remove %s",
                    name, wait, span_words(s->checks.arena, now_us - first_us),
                    shell_argument(s->checks.arena, n->name));
    else if (now_us - since_us > stuck_us)
        checks_warn(&s->checks, "subscription", n->name,
                    "%s has subscription %s but has not moved it for %s, and %s: check its log for an event that fails "
                    "(postrider events list --after %llu --limit 1), then restart it",
                    text_clean_copy(s->checks.arena, n->holder), name, span_words(s->checks.arena, now_us - since_us),
                    wait, (unsigned long long)n->position);
}

static void watch_subscriptions(struct status *s)
{
    for (size_t i = 0; i < s->subscriptions.subscription_count; i++) {
        const struct subscription_info *n = &s->subscriptions.subscriptions[i];
        const struct query query = { .kind = QUERY_EVENTS,
                                     .filter = { .state = -1, .after = n->position, .limit = 1 } };
        struct query_reply reply;
        struct pr_error err;
        if (n->lag > 0 && store_query(s->store, &query, s->checks.arena, &reply, &err) == PR_OK &&
            reply.event_count > 0)
            watch_subscription(s, n, reply.events[0].created_us);
    }
}

static void watch_outcomes(struct status *s)
{
    for (size_t i = 0; i < s->failing.failing_count; i++) {
        const struct box_failing *f = &s->failing.failing[i];
        if (f->near_limit > 0)
            checks_warn(
                &s->checks, "poison", f->name,
                "%s in %.*s: attempted repeatedly without an outcome, close to the limit: they may crash the process. "
                "To see them: postrider list --box %.*s --state retrying; to set one aside: postrider park ID",
                count_words(s->checks.arena, f->near_limit, "message", "messages"), SLICE_ARGS(f->name),
                SLICE_ARGS(f->name));
    }
}

static void watch_age(struct status *s)
{
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];
        int64_t age_us = b->oldest_us != 0 ? s->boxes.now_us - b->oldest_us : 0;
        if (age_us > s->config->watch.oldest_us)
            checks_warn(
                &s->checks, "age", b->name,
                "the oldest ready message in %.*s has waited for %s: postrider list --box %.*s --state ready --limit 1",
                SLICE_ARGS(b->name), span_words(s->checks.arena, age_us), SLICE_ARGS(b->name));
    }
}

/* The minimum time that the head of a stream has been failing: its delays, and the time since its latest failure. */
static int64_t failing_us(const struct status *s, const struct stream_info *i)
{
    const struct config_endpoint *e = config_find_endpoint(s->config, i->endpoint);
    int64_t since_us = max64(s->boxes.now_us - i->since_us, 0);
    return i->failures > 0 ? time_add(retry_spent_us(e != NULL ? &e->retry : &retry_default, i->failures - 1), since_us)
                           : since_us;
}

/* Where the stream is blocked, in words. */
static const char *stream_words(struct status *s, const struct stream_info *stream)
{
    pr_slice text = arena_printf(s->checks.arena, "stream \"%.*s\"%s%.*s in %.*s", SLICE_ARGS(stream->stream),
                                 stream->endpoint.size > 0 ? " of endpoint " : "", SLICE_ARGS(stream->endpoint),
                                 SLICE_ARGS(stream->box));
    return text.data != NULL ? text.data : "a stream";
}

static bool warn_of_stream(struct status *s, const struct stream_info *stream)
{
    const struct config_endpoint *e = config_find_endpoint(s->config, stream->endpoint);
    const char *where = stream_words(s, stream);
    const char *wait = count_words(s->checks.arena, stream->waiting, "message waits", "messages wait");
    char id[PR_ID_TEXT_SIZE];

    if (stream->waiting == 0)
        return false;
    pr_id_format(stream->head, id);
    if (stream->head_state == STATE_DEAD)
        checks_warn(&s->checks, "blocked", slice_from(id),
                    "%s in %s behind the dead letter %s: postrider why %s; postrider dead replay %s sends it first, "
                    "postrider dead discard %s lets them continue",
                    wait, where, id, id, id, id);
    else if (stream->head_state == STATE_PARKED && !stream->head_yields)
        checks_warn(&s->checks, "blocked", slice_from(id),
                    "%s in %s behind message %s, which is parked: postrider why %s; postrider retry %s sends it "
                    "first, postrider discard %s lets them continue",
                    wait, where, id, id, id, id);
    else if (stream->head_state == STATE_RETRYING && failing_us(s, stream) >= BLOCKED_AFTER_US)
        checks_warn(&s->checks, "blocked", slice_from(id),
                    "message %s has been failing for %s and holds up %s in %s: postrider why %s; postrider %s %s lets "
                    "them continue",
                    id, span_words(s->checks.arena, failing_us(s, stream)),
                    count_words(s->checks.arena, stream->waiting, "message", "messages"), where, id,
                    e != NULL && e->ordering == ORDERING_STRICT ? "discard" : "park", id);
    else
        return false;
    return true;
}

void watch_streams(struct status *s, const struct stream_info *streams, size_t count)
{
    size_t named = 0;
    for (size_t i = 0; i < count && named < BLOCKED_NAMED_MAX; i++)
        named += warn_of_stream(s, &streams[i]);
}

static void watch_blocked(struct status *s)
{
    struct query query = { .kind = QUERY_STREAMS,
                           .blocked = true,
                           .filter = { .state = -1, .limit = BLOCKED_LOOKED_MAX } };
    struct query_reply reply;
    struct pr_error err;
    if (store_query(s->store, &query, s->checks.arena, &reply, &err) == PR_OK)
        watch_streams(s, reply.streams, reply.stream_count);
}

static void watch_deaths(struct status *s)
{
    int64_t within_us = s->config->watch.deaths_within_us;
    uint64_t many = (uint64_t)s->config->watch.deaths;
    struct query query = { .kind = QUERY_DEAD_COUNT,
                           .filter = { .state = -1, .since_us = s->boxes.now_us - within_us } };
    struct query_reply reply;
    struct pr_error err;
    uint64_t dead = 0;
    for (size_t i = 0; i < s->boxes.box_count; i++)
        dead += s->boxes.boxes[i].dead;
    if (dead < many || store_query(s->store, &query, s->checks.arena, &reply, &err) != PR_OK || reply.total < many)
        return;
    checks_warn(&s->checks, "dying", PR_STR("store"), "%s in the last %s: postrider dead groups",
                count_words(s->checks.arena, reply.total, "new dead letter", "new dead letters"),
                span_words(s->checks.arena, within_us));
}

void watch_facts(struct status *s, const struct store_facts *facts)
{
    if (facts->horizon.size > 0)
        checks_warn(&s->checks, "horizon", PR_STR("store"), "%.*s", SLICE_ARGS(facts->horizon));
    if (facts->locked.size > 0)
        checks_warn(&s->checks, "locked", PR_STR("store"), "nothing can be stored or delivered: %.*s",
                    SLICE_ARGS(facts->locked));
    if (facts->disk_free_bytes >= 0 && facts->disk_free_bytes < DISK_EMPTY_BYTES)
        checks_add(&s->checks, "disk", CHECK_ERROR,
                   "%lld MiB free: make room now, or no message can be stored or delivered",
                   (long long)(facts->disk_free_bytes >> 20));
    else if (facts->disk_free_bytes >= 0 && facts->disk_free_bytes < DISK_LOW_BYTES)
        checks_warn(&s->checks, "disk", PR_STR("store"), "%lld MiB free: running low",
                    (long long)(facts->disk_free_bytes >> 20));
}

static void ask_facts(struct status *s)
{
    struct query query = { .kind = QUERY_FACTS, .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;
    if (store_query(s->store, &query, s->checks.arena, &reply, &err) == PR_OK)
        watch_facts(s, &reply.facts);
}

int watch_failing_schedules(struct store *store, struct arena *arena, struct query_reply *ret, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .filter = { .endpoint = PR_STR(SCHEDULE_DESTINATION),
                                             .state = STATE_RETRYING,
                                             .limit = SCHEDULES_NAMED_MAX,
                                             .look_max = LOOK_MAX } };
    return store_query(store, &query, arena, ret, reterr);
}

static void watch_schedules(struct status *s)
{
    struct query_reply reply;
    struct pr_error err;
    if (watch_failing_schedules(s->store, s->checks.arena, &reply, &err) != PR_OK)
        return;
    for (size_t i = 0; i < reply.listed_count; i++)
        checks_warn(&s->checks, "schedule", reply.listed[i].m.stream, "schedule %s cannot run: %s: postrider schedules",
                    text_clean_copy(s->checks.arena, reply.listed[i].m.stream),
                    text_clean_copy(s->checks.arena, reply.listed[i].m.error));
}

/* Turns and activities whose code no instance has.  Where instances have different code one is put back for a moment,
 * until another gets it. */
static void watch_unknown(struct status *s, pr_slice box, enum box_kind kind)
{
    const struct query query = { .kind = QUERY_MESSAGES,
                                 .brief = true,
                                 .filter = { .box = box,
                                             .state = STATE_RETRYING,
                                             .reason = PR_REASON_DEPENDENCY_FAILURE,
                                             .limit = UNKNOWN_LOOKED_MAX,
                                             .look_max = LOOK_MAX } };
    struct query_reply reply;
    struct pr_error err;
    char id[PR_ID_TEXT_SIZE];
    if (store_query(s->store, &query, s->checks.arena, &reply, &err) != PR_OK)
        return;
    for (size_t i = 0; i < reply.listed_count; i++) {
        const struct pr_message *m = &reply.listed[i].m;
        int64_t since_us = flow_unknown_since_us(m);
        if (since_us == 0 || s->boxes.now_us - since_us < UNKNOWN_AFTER_US)
            continue;
        pr_id_format(m->id, id);
        checks_warn(&s->checks, "unknown", box,
                    "a message (and maybe others) has waited in %.*s for %s: %s. Start a program that has the code, or "
                    "see what else helps: postrider why %s",
                    SLICE_ARGS(box), span_words(s->checks.arena, s->boxes.now_us - since_us),
                    text_clean_copy(s->checks.arena, m->error),
                    kind == BOX_TURNS ? shell_argument(s->checks.arena, m->stream) : id);
        return;
    }
}

static void watch_flows(struct status *s)
{
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct config_box *box = config_find_box(s->config, s->boxes.boxes[i].name);
        if (box != NULL && (box->kind == BOX_TURNS || box->kind == BOX_ACTIVITIES) && s->boxes.boxes[i].retrying > 0)
            watch_unknown(s, s->boxes.boxes[i].name, box->kind);
    }
}

void watch_check(struct status *s)
{
    struct query query = { .kind = QUERY_FAILING, .near = watch_near(s->config) };
    struct pr_error err;
    if (store_query(s->store, &query, s->checks.arena, &s->failing, &err) == PR_OK)
        watch_outcomes(s);
    if (s->past != NULL)
        watch_see(s->past, s);
    size_t before = s->checks.count;
    watch_progress(s);
    if (s->checks.count == before) /* it reports the same of a whole box */
        ask_unread(s);
    watch_age(s);
    watch_blocked(s);
    watch_deaths(s);
    watch_schedules(s);
    watch_flows(s);
    watch_subscriptions(s);
    ask_facts(s);
}
