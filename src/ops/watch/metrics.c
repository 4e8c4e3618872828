#include "ops/watch/metrics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "ops/endpoint.h"
#include "ops/explain/routed.h"
#include "ops/watch/watch.h"
#include "runtime/relay/relay.h"
#include "store/store.h"

#define COUNTS_BLOCK 16384

struct metrics {
    pthread_mutex_t lock; /* the thread that asks the store makes others wait, since they need the same counts */
    struct arena arena;   /* of the replies */
    struct query_reply boxes, failing, endpoints, streams, subscriptions, schedules, flows;
    int64_t asked_us; /* monotonic; 0: never */
    bool up, streams_known, schedules_known;
};

struct metrics *metrics_new(void)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    ASSERT(pthread_mutex_init(&m->lock, NULL) == 0);
    arena_init(&m->arena, COUNTS_BLOCK);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    pthread_mutex_destroy(&m->lock);
    arena_fini(&m->arena);
    free(m);
}

static bool ask(struct metrics *m, struct store *store, const struct query *query, struct query_reply *ret)
{
    struct pr_error error;
    return store_query(store, query, &m->arena, ret, &error) == PR_OK;
}

static void refresh(struct metrics *m, const struct runtime_inside *in)
{
    struct pr_error error;
    int64_t now_us = clock_mono_us(clock_system());
    if (m->asked_us != 0 && now_us - m->asked_us < METRICS_FRESH_US)
        return;
    arena_reset(&m->arena);
    m->boxes = m->failing = m->endpoints = m->streams = m->subscriptions = m->schedules = m->flows =
        (struct query_reply){ 0 };
    m->up =
        ask(m, in->store, &(struct query){ .kind = QUERY_BOXES }, &m->boxes) &&
        ask(m, in->store, &(struct query){ .kind = QUERY_FAILING, .near = watch_near(in->config) }, &m->failing) &&
        ask(m, in->store, &(struct query){ .kind = QUERY_ENDPOINTS }, &m->endpoints) &&
        ask(m, in->store, &(struct query){ .kind = QUERY_SUBSCRIPTIONS }, &m->subscriptions) &&
        ask(m, in->store, &(struct query){ .kind = QUERY_FLOWS, .filter = { .state = -1, .limit = 1 } }, &m->flows) &&
        boxes_see_routes(in->store, in->config, &m->endpoints, &m->boxes, NULL, &error) == PR_OK;
    m->streams_known = m->up && ask(m, in->store,
                                    &(struct query){ .kind = QUERY_STREAMS,
                                                     .brief = true,
                                                     .blocked = true,
                                                     .filter = { .state = -1, .limit = COUNT_EXACT_MAX } },
                                    &m->streams);
    m->schedules_known = m->up && watch_failing_schedules(in->store, &m->arena, &m->schedules, &error) == PR_OK;
    m->asked_us = now_us;
}

/* ---- The format ---------------------------------------------------------------------------------- */

static void family(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value; Postrider's own names need no escapes, but names in the store may contain anything. */
static void label(struct buf *b, const char *separator, const char *name, pr_slice value)
{
    buf_addf(b, "%s%s=\"", separator, name);
    for (size_t i = 0; i < value.size; i++) {
        char c = value.data[i];
        if (c == '\\' || c == '"')
            buf_add_char(b, '\\');
        if (c == '\n')
            buf_add_cstr(b, "\\n");
        else
            buf_add_char(b, c);
    }
    buf_add_char(b, '"');
}

/* name{a="x",b="y"} value; a NULL: without labels, b NULL: with one. */
static void sample(struct buf *b, const char *name, const char *label_a, pr_slice a, const char *label_b,
                   pr_slice value_b, double value)
{
    buf_add_cstr(b, name);
    if (label_a != NULL)
        label(b, "{", label_a, a);
    if (label_b != NULL)
        label(b, ",", label_b, value_b);
    buf_addf(b, "%s %.15g\n", label_a != NULL ? "}" : "", value);
}

#define NONE ((pr_slice){ NULL, 0 })

static void sample_1(struct buf *b, const char *name, const char *label_a, pr_slice a, double value)
{
    sample(b, name, label_a, a, NULL, NONE, value);
}

static void histogram(struct buf *b, const char *name, const char *label_a, pr_slice a, const struct histogram *h)
{
    uint64_t sum = 0;
    for (size_t i = 0; i <= HISTOGRAM_BUCKETS; i++) {
        sum += h->buckets[i];
        buf_addf(b, "%s_bucket", name);
        label(b, "{", label_a, a);
        if (i < HISTOGRAM_BUCKETS)
            buf_addf(b, ",le=\"%g\"} %" PRIu64 "\n", (double)histogram_bounds_us[i] / 1e6, sum);
        else
            buf_addf(b, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
    }
    buf_addf(b, "%s_sum", name);
    label(b, "{", label_a, a);
    buf_addf(b, "} %.6f\n%s_count", (double)h->sum_us / 1e6, name);
    label(b, "{", label_a, a);
    buf_addf(b, "} %" PRIu64 "\n", h->count);
}

/* ---- This process --------------------------------------------------------------------------------- */

struct own {
    struct relay_box *boxes;
    size_t box_count;
    struct endpoint_view *endpoints;
    pr_slice *names;
    size_t endpoint_count;
    struct source_status *sources;
    size_t source_count;
    struct flow_counts flows;
};

static bool own_read(struct relay *relay, struct arena *arena, struct own *ret)
{
    ret->box_count = relay_box_count(relay);
    ret->endpoint_count = relay_endpoint_count(relay);
    ret->boxes = arena_alloc_array(arena, ret->box_count, sizeof ret->boxes[0]);
    ret->endpoints = arena_alloc_array(arena, ret->endpoint_count, sizeof ret->endpoints[0]);
    ret->names = arena_alloc_array(arena, ret->endpoint_count, sizeof ret->names[0]);
    ret->source_count = relay_source_count(relay);
    ret->sources = arena_alloc_array(arena, ret->source_count, sizeof ret->sources[0]);
    if (ret->boxes == NULL || ret->endpoints == NULL || ret->names == NULL || ret->sources == NULL)
        return false;
    relay_flow_counts(relay, &ret->flows);
    for (size_t i = 0; i < ret->box_count; i++)
        relay_box(relay, i, &ret->boxes[i]);
    for (size_t i = 0; i < ret->endpoint_count; i++) {
        relay_endpoint(relay, i, &ret->endpoints[i]);
        ret->names[i] = relay_endpoint_name(relay, i);
    }
    for (size_t i = 0; i < ret->source_count; i++)
        relay_source(relay, i, &ret->sources[i]);
    return true;
}

static void write_ends(struct buf *b, const struct own *own)
{
    family(b, "postrider_messages_ended_total", "counter", "Messages that this process finished.");
    for (size_t i = 0; i < own->box_count; i++) {
        const struct engine_counts *c = &own->boxes[i].counts;
        const struct {
            const char *end;
            uint64_t count;
        } ends[] = {
            { "sent", c->sent },
            { "dead", c->dead },
            { "discarded", c->discarded },
            { "expired", c->expired },
            { "duplicate", c->duplicates },
        };
        for (size_t k = 0; k < ARRAY_LENGTH(ends); k++)
            sample(b, "postrider_messages_ended_total", "box", slice_from(own->boxes[i].name), "end",
                   slice_from(ends[k].end), (double)ends[k].count);
    }
}

static void write_categories(struct buf *b, const char *name, const char *help,
                             const uint64_t counts[PR_CATEGORY_POISON + 1])
{
    family(b, name, "counter", help);
    for (int category = PR_CATEGORY_NONE + 1; category <= PR_CATEGORY_POISON; category++)
        sample_1(b, name, "category", slice_from(pr_category_name((enum pr_category)category)),
                 (double)counts[category]);
}

static void write_own_flows(struct buf *b, const struct own *own)
{
    family(b, "postrider_flow_turns_total", "counter", "Turns of flows that this process has run.");
    sample(b, "postrider_flow_turns_total", NULL, NONE, NULL, NONE, (double)own->flows.turns);
    write_categories(b, "postrider_flow_failures_total", "Flows that failed.", own->flows.flow_failures);
    write_categories(b, "postrider_activity_failures_total", "Activities that failed, after their retries.",
                     own->flows.activity_failures);
}

static void write_flows(struct buf *b, const struct metrics *m)
{
    family(b, "postrider_flows", "gauge", "Flows by state.");
    for (int state = FLOW_RUNNING; state < FLOW_CONTINUED; state++)
        sample_1(b, "postrider_flows", "state", slice_from(flow_state_name(state)),
                 (double)m->flows.flow_states[state]);
}

static void write_own_boxes(struct buf *b, const struct own *own)
{
    write_ends(b, own);
    family(b, "postrider_poison_total", "counter", "Messages quarantined after too many attempts without an outcome.");
    for (size_t i = 0; i < own->box_count; i++)
        sample(b, "postrider_poison_total", "box", slice_from(own->boxes[i].name), "kind",
               slice_from(own->boxes[i].kind == BOX_TURNS        ? "flow"
                          : own->boxes[i].kind == BOX_ACTIVITIES ? "activity"
                                                                 : "attempts"),
               (double)own->boxes[i].counts.poison);
    family(b, "postrider_lanes_owned", "gauge", "Lanes of the box that this process serves.");
    for (size_t i = 0; i < own->box_count; i++)
        sample_1(b, "postrider_lanes_owned", "box", slice_from(own->boxes[i].name), own->boxes[i].lanes);
    family(b, "postrider_standby", "gauge", "1 while this process stands by: another instance serves the box.");
    for (size_t i = 0; i < own->box_count; i++)
        sample_1(b, "postrider_standby", "box", slice_from(own->boxes[i].name), own->boxes[i].standby);
    family(b, "postrider_lease_lost_total", "counter", "Times that another instance took the lease.");
    for (size_t i = 0; i < own->box_count; i++)
        sample_1(b, "postrider_lease_lost_total", "box", slice_from(own->boxes[i].name),
                 (double)own->boxes[i].counts.leases_lost);
    family(b, "postrider_verdicts_stale_total", "counter", "Outcomes that arrived too late to count.");
    for (size_t i = 0; i < own->box_count; i++)
        sample_1(b, "postrider_verdicts_stale_total", "box", slice_from(own->boxes[i].name),
                 (double)own->boxes[i].counts.stale);
    family(b, "postrider_commit_to_send_seconds", "histogram", "Time from storing a message to its first attempt.");
    for (size_t i = 0; i < own->box_count; i++)
        histogram(b, "postrider_commit_to_send_seconds", "box", slice_from(own->boxes[i].name),
                  &own->boxes[i].counts.commit_to_send);
    family(b, "postrider_cycle_seconds", "histogram", "Time that the store took for a cycle.");
    for (size_t i = 0; i < own->box_count; i++)
        histogram(b, "postrider_cycle_seconds", "box", slice_from(own->boxes[i].name), &own->boxes[i].cycles);
}

static void write_failures(struct buf *b, const struct own *own)
{
    family(b, "postrider_failures_total", "counter", "Failed attempts of this process, by reason.");
    for (size_t i = 0; i < own->endpoint_count; i++)
        for (size_t k = 0; k < REASON_COUNT; k++)
            if (own->endpoints[i].reasons[k] > 0)
                sample(b, "postrider_failures_total", "endpoint", own->names[i], "reason",
                       slice_from(pr_reason_name(reason_at(k))), (double)own->endpoints[i].reasons[k]);
}

static void write_own_endpoints(struct buf *b, const struct own *own)
{
    family(b, "postrider_sends_total", "counter", "Attempts of this process that had an outcome.");
    for (size_t i = 0; i < own->endpoint_count; i++) {
        sample(b, "postrider_sends_total", "endpoint", own->names[i], "outcome", PR_STR("ok"),
               (double)own->endpoints[i].sent);
        sample(b, "postrider_sends_total", "endpoint", own->names[i], "outcome", PR_STR("failed"),
               (double)own->endpoints[i].failed);
    }
    write_failures(b, own);
    family(b, "postrider_in_flight", "gauge", "Messages that this process is sending.");
    for (size_t i = 0; i < own->endpoint_count; i++)
        sample_1(b, "postrider_in_flight", "endpoint", own->names[i], (double)own->endpoints[i].out);
    family(b, "postrider_send_duration_seconds", "histogram", "Time from the start of an attempt to its outcome.");
    for (size_t i = 0; i < own->endpoint_count; i++)
        histogram(b, "postrider_send_duration_seconds", "endpoint", own->names[i], &own->endpoints[i].durations);
}

static void write_sources(struct buf *b, const struct own *own)
{
    family(b, "postrider_source_up", "gauge", "1 while this process can read the source.");
    for (size_t i = 0; i < own->source_count; i++)
        sample(b, "postrider_source_up", "source", slice_from(own->sources[i].name), "kind",
               slice_from(own->sources[i].kind), own->sources[i].state == SOURCE_RUNNING);
    family(b, "postrider_source_messages_total", "counter", "Messages that this process took from the source.");
    for (size_t i = 0; i < own->source_count; i++) {
        const struct source_counts *c = &own->sources[i].counts;
        const struct {
            const char *outcome;
            uint64_t count;
        } outcomes[] = { { "stored", c->stored }, { "duplicate", c->duplicates }, { "dead", c->dead } };
        for (size_t k = 0; k < ARRAY_LENGTH(outcomes); k++)
            sample(b, "postrider_source_messages_total", "source", slice_from(own->sources[i].name), "outcome",
                   slice_from(outcomes[k].outcome), (double)outcomes[k].count);
    }
}

/* ---- The store -------------------------------------------------------------------------------------- */

static void write_states(struct buf *b, const struct metrics *m)
{
    family(b, "postrider_messages", "gauge", "Messages by state; 10001 means more than 10000.");
    for (size_t i = 0; i < m->boxes.box_count; i++) {
        const struct box_counts *c = &m->boxes.boxes[i];
        const struct {
            const char *state;
            uint64_t count;
        } states[] = { { "ready", c->ready },       { "in-flight", c->in_flight }, { "delayed", c->delayed },
                       { "retrying", c->retrying }, { "held", c->held },           { "parked", c->parked },
                       { "paused", c->paused },     { "dead", c->dead },           { "done", c->done } };
        for (size_t k = 0; k < ARRAY_LENGTH(states); k++)
            sample(b, "postrider_messages", "box", c->name, "state", slice_from(states[k].state),
                   (double)states[k].count);
    }
}

static void write_boxes(struct buf *b, const struct metrics *m)
{
    family(b, "postrider_messages_stored_total", "counter",
           "Messages ever stored in the box by any sender; the same from all instances.");
    for (size_t i = 0; i < m->boxes.box_count; i++)
        sample_1(b, "postrider_messages_stored_total", "box", m->boxes.boxes[i].name, (double)m->boxes.boxes[i].stored);
    write_states(b, m);
    family(b, "postrider_messages_waiting", "gauge",
           "Messages that can be sent now, or after the messages before them.");
    for (size_t i = 0; i < m->boxes.box_count; i++)
        sample_1(b, "postrider_messages_waiting", "box", m->boxes.boxes[i].name,
                 (double)(m->boxes.boxes[i].ready + m->boxes.boxes[i].held + m->boxes.boxes[i].paused));
    family(b, "postrider_messages_scheduled", "gauge",
           "Messages that are not due yet: delayed by their sender, or waiting for a retry.");
    for (size_t i = 0; i < m->boxes.box_count; i++)
        sample_1(b, "postrider_messages_scheduled", "box", m->boxes.boxes[i].name,
                 (double)(m->boxes.boxes[i].delayed + m->boxes.boxes[i].retrying));
    family(b, "postrider_oldest_message_age_seconds", "gauge", "Age of the oldest ready message: the lag.");
    for (size_t i = 0; i < m->boxes.box_count; i++) {
        int64_t oldest_us = m->boxes.boxes[i].oldest_us;
        sample_1(b, "postrider_oldest_message_age_seconds", "box", m->boxes.boxes[i].name,
                 oldest_us != 0 ? (double)max64(m->boxes.now_us - oldest_us, 0) / 1e6 : 0);
    }
}

static void write_subscriptions(struct buf *b, const struct query_reply *r)
{
    family(b, "postrider_subscription_lag_events", "gauge", "Events after the position of a subscription.");
    for (size_t i = 0; i < r->subscription_count; i++)
        sample_1(b, "postrider_subscription_lag_events", "subscription", r->subscriptions[i].name,
                 (double)r->subscriptions[i].lag);
    family(b, "postrider_subscription_held", "gauge", "1 while an instance or a worker has the subscription.");
    for (size_t i = 0; i < r->subscription_count; i++)
        sample_1(b, "postrider_subscription_held", "subscription", r->subscriptions[i].name,
                 r->subscriptions[i].holder.size > 0);
}

static void write_retries(struct buf *b, const struct metrics *m)
{
    static const char *const names[FAILING_BUCKETS] = { "1", "2", "3-5", "6-10", "more" };
    family(b, "postrider_messages_failed", "gauge", "Failed messages in the box, by number of failures.");
    for (size_t i = 0; i < m->failing.failing_count; i++)
        for (size_t k = 0; k < FAILING_BUCKETS; k++)
            sample(b, "postrider_messages_failed", "box", m->failing.failing[i].name, "failures", slice_from(names[k]),
                   (double)m->failing.failing[i].by_failures[k]);
    family(b, "postrider_poison_candidates", "gauge",
           "Messages whose attempts had no outcome and that are one attempt below the limit.");
    for (size_t i = 0; i < m->failing.failing_count; i++)
        sample_1(b, "postrider_poison_candidates", "box", m->failing.failing[i].name,
                 (double)m->failing.failing[i].near_limit);
    family(b, "postrider_next_retry_timestamp_seconds", "gauge",
           "Time of the first planned retry; absent if none is planned.");
    for (size_t i = 0; i < m->failing.failing_count; i++)
        if (m->failing.failing[i].next_us != 0)
            sample_1(b, "postrider_next_retry_timestamp_seconds", "box", m->failing.failing[i].name,
                     (double)m->failing.failing[i].next_us / 1e6);
    family(b, "postrider_last_retry_timestamp_seconds", "gauge",
           "Time of the last planned retry; absent if none is planned.");
    for (size_t i = 0; i < m->failing.failing_count; i++)
        if (m->failing.failing[i].last_us != 0)
            sample_1(b, "postrider_last_retry_timestamp_seconds", "box", m->failing.failing[i].name,
                     (double)m->failing.failing[i].last_us / 1e6);
}

static void write_dead(struct buf *b, const struct metrics *m)
{
    family(b, "postrider_dead_letters", "gauge", "Dead letters by last reason, among the latest 10000.");
    for (size_t i = 0; i < m->failing.failing_count; i++)
        for (size_t k = 0; k < REASON_COUNT; k++)
            if (m->failing.failing[i].dead[k] > 0)
                sample(b, "postrider_dead_letters", "box", m->failing.failing[i].name, "reason",
                       slice_from(pr_reason_name(reason_at(k))), (double)m->failing.failing[i].dead[k]);
}

static void write_streams(struct buf *b, const struct metrics *m)
{
    if (!m->streams_known)
        return;
    if (m->schedules_known) {
        family(b, "postrider_schedules_failing", "gauge", "Schedules that cannot run, 10 at most.");
        sample(b, "postrider_schedules_failing", NULL, NONE, NULL, NONE, (double)m->schedules.listed_count);
    }
    family(b, "postrider_blocked_streams", "gauge", "Streams in which messages wait behind a failed one.");
    for (size_t i = 0; i < m->boxes.box_count; i++) {
        size_t count = 0;
        for (size_t k = 0; k < m->streams.stream_count; k++)
            count += slice_eq(m->streams.streams[k].box, m->boxes.boxes[i].name);
        sample_1(b, "postrider_blocked_streams", "box", m->boxes.boxes[i].name, (double)count);
    }
}

/* One line for each state, 1 for the current one. */
static void write_endpoints(struct buf *b, const struct metrics *m, const struct own *own)
{
    static const char *const states[] = { "ok", "open", "half-open", "paused" };
    family(b, "postrider_endpoint_state", "gauge", "1 for the current state of the endpoint, 0 for the others.");
    for (size_t i = 0; i < own->endpoint_count; i++) {
        struct endpoint_state e = { .name = own->names[i] };
        for (size_t k = 0; k < m->endpoints.endpoint_count; k++)
            if (slice_eq(m->endpoints.endpoints[k].name, e.name))
                e = m->endpoints.endpoints[k];
        const char *state = endpoint_condition(&m->endpoints, &e).state;
        for (size_t k = 0; k < ARRAY_LENGTH(states); k++)
            sample(b, "postrider_endpoint_state", "endpoint", e.name, "state", slice_from(states[k]),
                   strcmp(states[k], state) == 0);
    }
}

static void write_failing(struct buf *b, const struct metrics *m)
{
    family(b, "postrider_endpoint_failed_in_row", "gauge",
           "Attempts since the latest delivery of the endpoint, all of which failed.");
    for (size_t i = 0; i < m->endpoints.endpoint_count; i++)
        if (m->endpoints.endpoints[i].name.size > 0)
            sample_1(b, "postrider_endpoint_failed_in_row", "endpoint", m->endpoints.endpoints[i].name,
                     (double)m->endpoints.endpoints[i].failed_in_row);
}

static void write_store(struct buf *b, const struct metrics *m, const struct own *own)
{
    write_boxes(b, m);
    write_retries(b, m);
    write_flows(b, m);
    write_dead(b, m);
    write_streams(b, m);
    write_endpoints(b, m, own);
    write_failing(b, m);
}

void metrics_write(struct metrics *m, struct runtime *rt, const struct runtime_inside *in, struct buf *b)
{
    struct arena arena;
    struct own own;
    struct pr_error error;
    arena_init(&arena, COUNTS_BLOCK);
    ASSERT(pthread_mutex_lock(&m->lock) == 0);
    refresh(m, in);
    family(b, "postrider_build_info", "gauge", "The version, as a label.");
    sample_1(b, "postrider_build_info", "version", PR_STR(POSTRIDER_VERSION), 1);
    family(b, "postrider_store_up", "gauge", "1 when the store answers and its tables are up to date.");
    sample_1(b, "postrider_store_up", NULL, NONE, runtime_is_ready(rt, &error) == PR_OK);
    family(b, "postrider_inbox_duplicates_total", "counter",
           "Messages for the inbox that this process received and that were already stored or handled.");
    sample_1(b, "postrider_inbox_duplicates_total", NULL, NONE,
             (double)__atomic_load_n(&in->store->inbox_duplicates, __ATOMIC_RELAXED));
    family(b, "postrider_counts_age_seconds", "gauge", "Age of the counts of boxes.");
    sample_1(b, "postrider_counts_age_seconds", NULL, NONE,
             (double)(clock_mono_us(clock_system()) - m->asked_us) / 1e6);
    if (own_read(in->relay, &arena, &own)) {
        write_own_boxes(b, &own);
        write_own_flows(b, &own);
        write_own_endpoints(b, &own);
        write_sources(b, &own);
        if (m->up)
            write_store(b, m, &own);
        if (m->up)
            write_subscriptions(b, &m->subscriptions);
    } else {
        b->error = PR_ENOMEM;
    }
    ASSERT(pthread_mutex_unlock(&m->lock) == 0);
    arena_fini(&arena);
}
