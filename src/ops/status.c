/* One screen, from the store alone: so it is correct whether or not the daemon runs. */
#include "ops/status.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/story.h"
#include "ops/endpoint.h"
#include "ops/flow/flow_tell.h"
#include "ops/reply.h"
#include "ops/explain/routed.h"
#include "ops/watch/watch.h"
#include "ops/explain/words.h"

static int ask(struct status *s, enum query_kind kind, struct query_reply *ret, struct pr_error *reterr)
{
    struct query query = { .kind = kind, .filter.state = -1 };

    return store_query(s->store, &query, s->checks.arena, ret, reterr);
}

/* ---- Endpoints ---- */

/* The store knows endpoints that have sent or were paused; the others of the configuration are added. */
static int ask_endpoints(struct status *s, struct pr_error *reterr)
{
    struct query_reply *r = &s->endpoints;
    int code = ask(s, QUERY_ENDPOINTS, r, reterr);

    if (code != PR_OK)
        return code;
    struct endpoint_state *all =
        arena_alloc_array(s->checks.arena, r->endpoint_count + s->config->endpoint_count, sizeof(*all));
    if (all == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the endpoints");
    size_t known = r->endpoint_count, count = known;
    for (size_t i = 0; i < known; i++)
        all[i] = r->endpoints[i];
    for (size_t i = 0; i < s->config->endpoint_count; i++) {
        pr_slice name = slice_from(s->config->endpoints[i].name);
        size_t at = 0;

        while (at < known && !slice_eq(all[at].name, name))
            at++;
        if (at == known)
            all[count++] = (struct endpoint_state){ .name = name };
    }
    r->endpoints = all;
    r->endpoint_count = count;
    return PR_OK;
}

/* ---- What is in flight, by endpoint ---- */

static void tally(struct status *s, struct query_reply *page)
{
    messages_see_routes(s->config, page);
    for (size_t i = 0; i < page->listed_count; i++) {
        const struct listed *l = &page->listed[i];
        pr_slice name = l->endpoint.size > 0 ? l->endpoint : l->m.destination;

        for (size_t j = 0; j < s->endpoints.endpoint_count; j++)
            s->in_flight[j] += slice_eq(s->endpoints.endpoints[j].name, name);
    }
}

static int count_in_flight(struct status *s, pr_slice box, struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_MESSAGES,
                           .brief = true,
                           .filter = { .box = box, .state = STATE_IN_FLIGHT, .limit = COUNT_EXACT_MAX } };
    struct query_reply page;
    struct arena arena;

    arena_init(&arena, 65536);
    int code = store_query(s->store, &query, &arena, &page, reterr);
    if (code == PR_OK)
        tally(s, &page);
    arena_fini(&arena);
    return code;
}

/* ---- Checks ---- */

static bool box_has_instance(const struct query_reply *instances, pr_slice box)
{
    for (size_t i = 0; i < instances->instance_count; i++)
        if (slice_eq(instances->instances[i].box, box) && instances->instances[i].lease_left_us > 0)
            return true;
    return false;
}

/* A box outside of the configuration was created by a person, and counts as used. */
static bool box_is_used(const struct config *config, pr_slice box)
{
    const struct config_box *known = config_find_box(config, box);
    return known == NULL || known->used;
}

void boxes_hide_unused(const struct config *config, struct query_reply *boxes, const struct query_reply *instances)
{
    size_t kept = 0;

    for (size_t i = 0; i < boxes->box_count; i++) {
        const struct box_counts *b = &boxes->boxes[i];
        uint64_t rows = b->ready + b->in_flight + b->delayed + b->retrying + b->held + b->parked + b->paused + b->dead;

        if (rows > 0 || box_is_used(config, b->name) || box_has_instance(instances, b->name))
            boxes->boxes[kept++] = *b;
    }
    boxes->box_count = kept;
}

/* Messages wait, and no instance serves the box: what must be started or configured for them. */
static void check_unserved(struct status *s, const struct box_counts *b, const char *wait)
{
    const struct config_box *box = config_find_box(s->config, b->name);

    if (box != NULL && box->kind == BOX_TURNS)
        checks_add(&s->checks, "instance", CHECK_WARN,
                   "%s in %.*s but no program that runs flows has this store open: start the one that registers them",
                   wait, SLICE_ARGS(b->name));
    else if (box_is_used(s->config, b->name))
        checks_add(&s->checks, "instance", CHECK_WARN, "%s in %.*s but no instance is running: start postrider run",
                   wait, SLICE_ARGS(b->name));
    else if (box->kind == BOX_ACTIVITIES)
        checks_add(&s->checks, "instance", CHECK_WARN,
                   "%s in %.*s, a box that the configuration does not use: start the program that registers the "
                   "activities, or add a route with box: %.*s to an endpoint",
                   wait, SLICE_ARGS(b->name), SLICE_ARGS(b->name));
    else
        checks_add(
            &s->checks, "instance", CHECK_WARN,
            "%s in %.*s, a box that the configuration does not use: add a route with box: %.*s, or name it under "
            "boxes",
            wait, SLICE_ARGS(b->name), SLICE_ARGS(b->name));
}

static void check_box(struct status *s, const struct box_counts *b)
{
    uint64_t waits = b->ready + b->delayed + b->retrying + b->held;

    if (waits > 0 && !box_has_instance(&s->instances, b->name))
        check_unserved(s, b, count_words(s->checks.arena, waits, "message waits", "messages wait"));
    if (b->dead > 0)
        checks_add(&s->checks, "dead", CHECK_WARN, "%s from %.*s: postrider dead list --box %.*s",
                   count_words(s->checks.arena, b->dead, "dead letter", "dead letters"), SLICE_ARGS(b->name),
                   SLICE_ARGS(b->name));
}

/* Parked because their destination is unknown: only a person can change that. */
static int check_destinations(struct status *s, const struct box_counts *b, struct pr_error *reterr)
{
    struct query query = {
        .kind = QUERY_MESSAGES,
        .filter = { .box = b->name, .state = STATE_PARKED, .reason = PR_REASON_DESTINATION_MISSING, .limit = 1 }
    };
    struct query_reply reply;

    if (b->parked == 0)
        return PR_OK;
    int rc = store_query(s->store, &query, s->checks.arena, &reply, reterr);
    if (rc != PR_OK)
        return rc;
    if (reply.listed_count > 0 && !message_awaits_route(&reply.listed[0].m))
        checks_add(&s->checks, "destination", CHECK_WARN,
                   "messages in %.*s are parked because their endpoint does not know the destination: postrider list "
                   "--box %.*s --reason destination_missing",
                   SLICE_ARGS(b->name), SLICE_ARGS(b->name));
    else if (reply.listed_count > 0 && reply.listed[0].m.destination.size > 0)
        checks_add(&s->checks, "destination", CHECK_WARN,
                   "messages in %.*s are parked: no endpoint \"%.*s\" (and maybe others); add it to the configuration. "
                   "To see them: postrider list --box %.*s --reason destination_missing",
                   SLICE_ARGS(b->name), SLICE_ARGS(reply.listed[0].m.destination), SLICE_ARGS(b->name));
    else if (reply.listed_count > 0)
        checks_add(&s->checks, "destination", CHECK_WARN,
                   "messages in %.*s are parked: no route matches \"%.*s\" (and maybe others); add a route to the "
                   "configuration. To see them: postrider list --box %.*s --reason destination_missing",
                   SLICE_ARGS(b->name), SLICE_ARGS(reply.listed[0].m.type), SLICE_ARGS(b->name));
    return PR_OK;
}

void checks_add_source(struct checks *checks, pr_slice words)
{
    const char *text = text_clean_copy(checks->arena, words);
    for (size_t i = 0; i < checks->count; i++)
        if (strcmp(checks->items[i].text, text) == 0)
            return;
    checks_add(checks, "source", CHECK_WARN, "%s", text);
}

/* From what live processes have stored: a source belongs to a process, and not to the store. */
static void check_sources(struct status *s)
{
    for (size_t i = 0; i < s->instances.instance_count; i++) {
        const struct instance_info *n = &s->instances.instances[i];
        pr_slice rest = n->lease_left_us > 0 ? n->sources : (pr_slice){ NULL, 0 };
        while (rest.size > 0) {
            const char *end = memchr(rest.data, '\n', rest.size);
            size_t size = end != NULL ? (size_t)(end - rest.data) : rest.size;
            checks_add_source(&s->checks, (pr_slice){ rest.data, size });
            size = min_size(size + 1, rest.size);
            rest = (pr_slice){ rest.data + size, rest.size - size };
        }
    }
}

static int check_all(struct status *s, struct pr_error *reterr)
{
    int code = PR_OK;

    checks_add(&s->checks, "store", CHECK_FINE, "reachable, its tables are up to date");
    for (size_t i = 0; i < s->boxes.box_count && code == PR_OK; i++) {
        check_box(s, &s->boxes.boxes[i]);
        code = check_destinations(s, &s->boxes.boxes[i], reterr);
    }
    (void)endpoints_check(&s->checks, &s->endpoints);
    check_sources(s);
    if (s->routed_unknown)
        checks_add(&s->checks, "counts", CHECK_WARN,
                   "a box has more than %d messages, and routes lead to a paused endpoint, so READY is estimated from "
                   "the first messages; postrider list shows the state of each message",
                   COUNT_EXACT_MAX);
    watch_check(s);
    checks_add_wal(&s->checks, s->config, s->store, &s->slots, &s->slot_count);
    return code;
}

/* How many are in each state; the newest ones are listed. */
static int ask_flows(struct status *s, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOWS, .filter = { .state = -1, .limit = 1 } };

    return store_query(s->store, &query, s->checks.arena, &s->flows, reterr);
}

static int collect(struct status *s, struct pr_error *reterr)
{
    int code = ask(s, QUERY_BOXES, &s->boxes, reterr);

    if (code == PR_OK)
        code = ask_endpoints(s, reterr);
    if (code == PR_OK)
        code = ask(s, QUERY_INSTANCES, &s->instances, reterr);
    if (code == PR_OK)
        code = ask(s, QUERY_SUBSCRIPTIONS, &s->subscriptions, reterr);
    if (code == PR_OK)
        code = ask_flows(s, reterr);
    if (code != PR_OK)
        return code;
    boxes_hide_unused(s->config, &s->boxes, &s->instances);
    s->in_flight = arena_alloc_array(s->checks.arena, s->endpoints.endpoint_count, sizeof(*s->in_flight));
    if (s->in_flight == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the endpoints");
    for (size_t i = 0; i < s->boxes.box_count && code == PR_OK; i++)
        if (s->boxes.boxes[i].in_flight > 0)
            code = count_in_flight(s, s->boxes.boxes[i].name, reterr);
    if (code == PR_OK)
        code = boxes_see_routes(s->store, s->config, &s->endpoints, &s->boxes, &s->routed_unknown, reterr);
    return code != PR_OK ? code : check_all(s, reterr);
}

/* Which program did the store wait for in vain? */
static void say_lock(struct status *s, struct pr_error *reterr)
{
    struct query_reply reply;
    struct pr_error why;

    if (ask(s, QUERY_FACTS, &reply, &why) == PR_OK && reply.facts.locked.size > 0)
        error_set(reterr, PR_EBUSY, "nothing can be stored or delivered: %.*s", SLICE_ARGS(reply.facts.locked));
}

int status_collect(struct status *s, struct pr_error *reterr)
{
    int code = collect(s, reterr);

    if (code == PR_EBUSY)
        say_lock(s, reterr);
    return code;
}

/* ---- JSON ---- */

void status_boxes_json(struct json_writer *w, const struct status *s)
{
    json_key(w, "boxes");
    json_begin_array(w);
    for (size_t i = 0; i < s->boxes.box_count; i++) {
        const struct box_counts *b = &s->boxes.boxes[i];
        const struct box_reply row = { .counts = *b,
                                       .exact = box_counts_exact(b),
                                       .oldest_age_us =
                                           b->oldest_us != 0 ? max64(s->boxes.now_us - b->oldest_us, 0) : 0 };
        json_begin_object(w);
        reply_write(w, REPLY_BOX, &row);
        json_end_object(w);
    }
    json_end_array(w);
}

void flow_states_json(struct json_writer *w, const char *key, const struct query_reply *flows)
{
    json_key(w, key);
    json_begin_object(w);
    reply_write(w, REPLY_FLOW_STATES, flows);
    json_end_object(w);
}

void status_endpoints_json(struct json_writer *w, const struct status *s)
{
    json_key(w, "endpoints");
    json_begin_array(w);
    for (size_t i = 0; i < s->endpoints.endpoint_count; i++) {
        const struct endpoint_state *e = &s->endpoints.endpoints[i];
        /* Messages that ended before they were routed are counted there: "(not routed)" for people. */
        if (e->name.size == 0)
            continue;

        json_begin_object(w);
        json_put_slice(w, "name", e->name);
        condition_json(w, s->checks.arena, &s->endpoints, e);
        reply_write(w, REPLY_ENDPOINT, e);
        json_put_uint(w, "in_flight", s->in_flight[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

void status_instances_json(struct json_writer *w, const struct status *s)
{
    reply_list(w, "instances", REPLY_INSTANCE, s->instances.instances, sizeof(*s->instances.instances),
               s->instances.instance_count);
}

static const struct member slot_members[] = {
    /* clang-format off */
    MEMBER(wal_report, "name", STRING, slot)
    MEMBER(wal_report, "there", BOOL, there)
    MEMBER(wal_report, "active", BOOL, active)
    MEMBER(wal_report, "lag_bytes", NUMBER, lag)
    /* clang-format on */
};

void status_json(struct json_writer *w, const struct status *s)
{
    static const struct members slots = MEMBERS(slot_members);
    json_begin_object(w);
    json_put_cstr(w, "health", check_state_name(checks_health(&s->checks)));
    checks_json(&s->checks, w);
    status_boxes_json(w, s);
    status_endpoints_json(w, s);
    flow_states_json(w, "flows", &s->flows);
    status_instances_json(w, s);
    reply_list_write(w, QUERY_SUBSCRIPTIONS, &s->subscriptions);
    members_list(w, "slots", &slots, s->slots, sizeof(*s->slots), s->slot_count);
    json_end_object(w);
}
