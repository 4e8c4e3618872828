#include "ops/explain/message_why.h"

#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/story.h"
#include "ops/endpoint.h"
#include "ops/reply.h"
#include "ops/flow/flow_view.h"
#include "ops/message.h"
#include "ops/explain/ended_words.h"
#include "ops/explain/queue_position.h"
#include "ops/explain/schedule_why.h"
#include "ops/explain/words.h"
#include "policy/explain.h"

#define WHY_TEXT_MAX (1u << 20) /* errors and notes are in it */

/* What is known while sentences are made. */
struct why_context {
    struct message_why *o;
    struct arena *arena;
    const struct listed *l;
    int64_t now_us;
    const struct config_endpoint *setting; /* NULL: not known */
    const struct endpoint_state *pause;    /* its endpoint is paused; NULL: it is not */
    uint64_t workers;                      /* live instances of its box */
    struct queue_position turn;            /* of what is ready */
    const struct listed *aside;            /* parked before it, but nobody waits for that; NULL: none */
    struct buf text;
    struct query_reply endpoints, instances, head_parts;
};

#define SAY(v, ...) buf_addf(&(v)->text, __VA_ARGS__)

static const char *clean(const struct why_context *v, pr_slice text)
{
    return text_clean_copy(v->arena, text);
}

static const char *ordinal(const struct why_context *v, int n)
{
    return ordinal_words(v->arena, n);
}

static const char *in_time(const struct why_context *v, int64_t us)
{
    return us > v->now_us
               ? arena_printf(v->arena, "in %s (%s)", span_words(v->arena, us - v->now_us), time_words(v->arena, us))
                     .data
               : "now";
}

static const char *ago(const struct why_context *v, int64_t us)
{
    return arena_printf(v->arena, "%s ago (%s)", span_words(v->arena, v->now_us - us), time_words(v->arena, us)).data;
}

/* ---- What the store knows beside it ------------------------------------------------------------- */

static bool is_in_box(const struct listed *l)
{
    return l->state != STATE_DEAD && l->state != STATE_DONE && l->state != STATE_GONE;
}

/* The endpoint at which it is held. */
static pr_slice held_at(const struct listed *l)
{
    const pr_slice endpoint = held_endpoint(l->m.held_by);
    return endpoint.size > 0 ? endpoint : message_endpoint(l);
}

/* Of the head's parts, which may be on their way to several, the one that others wait for; or, before the routes have
 * decided, all of it. */
static const struct listed *choose_part(const struct query_reply *parts, const struct stream_info *stream)
{
    const struct listed *undecided = NULL;
    for (size_t i = 0; i < parts->listed_count; i++) {
        const struct listed *l = &parts->listed[i];
        bool there = stream->head_state == STATE_DEAD ? l->state == STATE_DEAD : is_in_box(l);
        if (!there || !slice_eq(l->box, stream->box))
            continue;
        if (slice_eq(message_endpoint(l), stream->endpoint))
            return l;
        if (l->m.destination.size == 0)
            undecided = l;
    }
    return undecided;
}

/* What the store says of its stream; NULL: nothing. */
static int ask_head(struct why_context *v, pr_slice endpoint, const struct listed **ret, struct pr_error *reterr)
{
    const struct config_routing routing = config_routing(v->o->config);
    const struct query question = { .kind = QUERY_STREAMS,
                                    .filter = { .box = v->l->box,
                                                .stream = v->l->m.stream,
                                                .endpoint = endpoint,
                                                .state = -1,
                                                .routing = &routing.routing } };
    struct query_reply streams;
    *ret = NULL;
    int rc = store_query(v->o->store, &question, v->arena, &streams, reterr);
    if (rc != PR_OK || streams.stream_count == 0)
        return rc;
    const struct query parts = { .kind = QUERY_ID,
                                 .filter = { .state = -1, .ids = &streams.streams[0].head, .id_count = 1 } };
    rc = store_query(v->o->store, &parts, v->arena, &v->head_parts, reterr);
    if (rc == PR_OK)
        *ret = choose_part(&v->head_parts, &streams.streams[0]);
    return rc;
}

/* What holds it up: in the box, or (strict) parked or among the dead.  Where the ordering is not known it may be strict.  A
 * head whose counters a person set back is none to the store, but goes first all the same. */
static int find_head(struct why_context *v, struct pr_error *reterr)
{
    const pr_slice endpoint = held_at(v->l);
    const struct config_endpoint *setting = config_find_endpoint(v->o->config, endpoint);
    const struct listed *head;
    int rc = ask_head(v, endpoint, &head, reterr);
    if (rc != PR_OK)
        return rc;
    if (head != NULL && head->m.seq < v->l->m.seq) {
        bool strict = setting == NULL || setting->ordering == ORDERING_STRICT;
        if (strict || (head->state != STATE_PARKED && head->state != STATE_DEAD))
            v->o->head = head;
        else if (head->state == STATE_PARKED)
            v->aside = head;
    }
    if (v->o->head != NULL)
        return PR_OK;
    struct queue_position turn = { .before = NULL };
    rc = turn_look_before(v->o->store, v->o->config, v->arena, v->l, endpoint, &turn, reterr);
    v->o->head = turn.before;
    return rc;
}

static const struct endpoint_state *find_pause(const struct why_context *v, pr_slice endpoint)
{
    for (size_t i = 0; i < v->endpoints.endpoint_count; i++)
        if (slice_eq(v->endpoints.endpoints[i].name, endpoint))
            return v->endpoints.endpoints[i].paused_until_us > v->now_us ? &v->endpoints.endpoints[i] : NULL;
    return NULL;
}

/* The store does not know the routes: for a message that names no endpoint they say who it waits for. */
static void ask_routes(struct why_context *v)
{
    struct message_why *o = v->o;
    const struct pr_message *m = &v->l->m;
    pr_slice to = m->destination.size == 0 ? message_route(o->config, v->l->box, m) : (pr_slice){ NULL, 0 };
    bool waits = o->state == STATE_READY || o->state == STATE_RETRYING;
    if (!waits || to.size == 0)
        return;
    o->endpoint = to;
    if (find_pause(v, to) == NULL)
        return;
    o->state = STATE_PAUSED;
    o->breaker = NULL;
}

static int look_around(struct why_context *v, struct pr_error *reterr)
{
    struct message_why *o = v->o;
    const struct query endpoints = { .kind = QUERY_ENDPOINTS, .filter.state = -1 },
                       instances = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    int rc = store_query(o->store, &endpoints, v->arena, &v->endpoints, reterr);
    if (rc == PR_OK)
        rc = store_query(o->store, &instances, v->arena, &v->instances, reterr);
    if (rc == PR_OK && v->l->state == STATE_HELD)
        rc = find_head(v, reterr);
    if (rc != PR_OK)
        return rc;
    for (size_t i = 0; i < v->instances.instance_count; i++)
        v->workers += slice_eq(v->instances.instances[i].box, v->l->box) && v->instances.instances[i].lease_left_us > 0;
    o->endpoint = v->l->state == STATE_HELD ? held_at(v->l) : message_endpoint(v->l);
    o->breaker = message_breaker(o->config, o->reply, v->l);
    ask_routes(v);
    v->pause = find_pause(v, o->endpoint);
    v->setting = config_find_endpoint(o->config, o->endpoint);
    if (o->state != STATE_READY || o->breaker != NULL || v->workers == 0)
        return PR_OK;
    rc = turn_look(o->store, o->config, v->arena, v->l, v->setting, v->workers, &v->turn, reterr);
    o->head = v->turn.before;
    return rc;
}

/* ---- For whom a command is ----------------------------------------------------------------------- */

/* Its id, and its endpoint where the same id is on its way (or dead) for others, too: those are not meant.  The reply is
 * one of its id. */
static const char *name_part(const struct why_context *v, const struct query_reply *reply, const struct listed *l,
                             pr_slice endpoint)
{
    char id[PR_ID_TEXT_SIZE];
    size_t parts = 0;
    for (size_t i = 0; i < reply->listed_count; i++)
        parts += l->state == STATE_DEAD ? reply->listed[i].state == STATE_DEAD : is_in_box(&reply->listed[i]);
    pr_id_format(l->m.id, id);
    bool several = parts > 1 && endpoint.size > 0;
    return arena_printf(v->arena, "%s%s%s", id, several ? " --endpoint " : "",
                        several ? shell_quote(v->arena, endpoint) : "")
        .data;
}

/* ---- Where it is ------------------------------------------------------------------------------ */

/* It was held, and nobody has looked at it since that is over. */
static void say_free(struct why_context *v)
{
    char id[PR_ID_TEXT_SIZE];
    if (v->aside == NULL) {
        SAY(v, "It is held in stream %s, but the message before it is gone.\n", clean(v, v->l->m.stream));
        return;
    }
    pr_id_format(v->aside->m.id, id);
    SAY(v,
        "It is held in stream %s, but the message before it, %s (%s), is parked: a parked message only blocks its "
        "stream when the ordering is strict.\n",
        clean(v, v->l->m.stream), id, clean(v, v->aside->m.type));
}

static void say_head(struct why_context *v)
{
    const struct listed *head = v->o->head;
    char id[PR_ID_TEXT_SIZE];
    if (head == NULL) {
        say_free(v);
        return;
    }
    pr_id_format(head->m.id, id);
    SAY(v, "It is held behind %s (%s), the message before it in stream %s, which is %s", id, clean(v, head->m.type),
        clean(v, v->l->m.stream), state_name(head->state));
    const struct breaker_info *b = message_breaker(v->o->config, v->o->reply, head);
    if (b != NULL)
        SAY(v, ", but endpoint %s is %s (%s)", clean(v, b->endpoint), breaker_state_word(b, v->now_us),
            clean(v, slice_from(breaker_words(v->arena, b))));
    if (head->state == STATE_RETRYING)
        SAY(v, ": its next attempt is %s", in_time(v, head->m.due_us));
    SAY(v, ".\n");
    if (head->m.reason != PR_REASON_NONE)
        SAY(v, "That message failed with %s%s%s.\n", pr_reason_name(head->m.reason), head->m.error.size > 0 ? ": " : "",
            clean(v, head->m.error));
}

static void say_paused(struct why_context *v)
{
    const struct endpoint_state *e = v->pause;
    SAY(v, "It waits because its endpoint %s is paused", clean(v, v->o->endpoint));
    if (e != NULL && e->by.size > 0)
        SAY(v, " by %s", clean(v, e->by));
    if (e != NULL && e->paused_until_us == PR_NEVER)
        SAY(v, " until you resume it");
    else if (e != NULL)
        SAY(v, " until %s", time_words(v->arena, e->paused_until_us));
    if (e != NULL && e->why.size > 0)
        SAY(v, ": %s", clean(v, e->why));
    SAY(v, ".\n");
}

static void say_parked(struct why_context *v)
{
    const struct pr_message *m = &v->l->m;
    if (message_awaits_route(m) && m->destination.size > 0)
        SAY(v, "It is parked: no endpoint \"%s\" is configured. It continues when the configuration has one.\n",
            clean(v, m->destination));
    else if (message_awaits_route(m) && message_route(v->o->config, v->l->box, m).size > 0)
        SAY(v, "It is parked: no route matched it, but one does now. " ROUTE_MATCHES_NOW ".\n");
    else if (message_awaits_route(m))
        SAY(v, "It is parked: it names no endpoint, and no route matches. It continues when a route matches.\n");
    else
        SAY(v, "It is parked: nothing happens until you retry or discard it.\n");
}

static void say_dead(struct why_context *v)
{
    const struct listed *l = v->l;
    char id[PR_ID_TEXT_SIZE];
    SAY(v, "It died %s: ", ago(v, l->died_us));
    if (message_was_poison(l)) /* the last hand-out was not started */
        SAY(v, "%d attempts started, and none had an outcome (a crash, a kill)", message_unexplained(&l->m) - 1);
    else if (l->cause == PR_REASON_POISON_MESSAGE)
        SAY(v, "retries used up, it failed %d %s", l->m.failures, l->m.failures == 1 ? "time" : "times");
    else
        SAY(v, "%s", message_reason(l));
    if (l->limit > 0)
        SAY(v, "; the limit is %d", l->limit);
    SAY(v, ".\n");
    if (l->rule.size > 0)
        SAY(v, "Decided by %s.\n", clean(v, l->rule));
    if (l->note.size > 0)
        SAY(v, "Note: %s\n", clean(v, l->note));
    if (pr_id_is_zero(l->edited_as))
        return;
    pr_id_format(l->edited_as, id);
    SAY(v, "It was corrected: %s was sent instead.\n", id);
}

/* Its own state is fine: the endpoint is not. */
static void say_open(struct why_context *v)
{
    const struct breaker_info *b = v->o->breaker;
    const char *why = clean(v, slice_from(breaker_words(v->arena, b)));
    SAY(v, "It waits because endpoint %s is %s", clean(v, b->endpoint), breaker_state_word(b, v->now_us));
    if (b->type.size > 0)
        SAY(v, " for messages of type %s", clean(v, b->type));
    SAY(v, ": for %s (since %s) instance %s has sent only probes there.\n",
        span_words(v->arena, v->now_us - b->since_us), time_words(v->arena, b->since_us), clean(v, b->instance));
    if (b->probes > 0)
        SAY(v, "%d %s failed since then, the latest with %s.\n", b->probes, b->probes == 1 ? "probe" : "probes", why);
    else
        SAY(v, "It failed with %s.\n", why);
}

/* Its stream goes one at a time. */
static void say_before(struct why_context *v)
{
    const struct listed *before = v->turn.before;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(before->m.id, id);
    SAY(v, "It is ready, but %s (%s) is before it in stream %s and is ", id, clean(v, before->m.type),
        clean(v, v->l->m.stream));
    if (before->state == STATE_IN_FLIGHT)
        SAY(v, "being sent right now by instance %s.\n", clean(v, before->instance));
    else
        SAY(v, "ready, too.\n");
}

/* Limits of the endpoint; of a rate the store knows only that there is one. */
static void say_limits(struct why_context *v)
{
    const struct config_endpoint *e = v->setting;
    if (e == NULL)
        return;
    if (v->turn.room > 0 && v->turn.out >= v->turn.room)
        SAY(v, "It waits for a free slot: %llu %s way to endpoint %s, whose concurrency is %d%s.\n",
            (unsigned long long)v->turn.out, v->turn.out == 1 ? "message is on its" : "messages are on their", e->name,
            e->concurrency, v->workers > 1 ? " in each instance" : "");
    if (e->rate.count > 0)
        SAY(v,
            "Endpoint %s has a rate limit of %lld per %s. When it is used up, the message waits for the next period.\n",
            e->name, (long long)e->rate.count, span_words(v->arena, e->rate.period_us));
}

static void say_ready(struct why_context *v)
{
    if (v->o->breaker != NULL)
        say_open(v);
    else if (v->turn.before != NULL)
        say_before(v);
    else
        SAY(v, "It is ready and waits for its turn%s.\n",
            v->workers > 0 ? "" : ", but no instance delivers from this box: start postrider run");
    if (v->o->breaker == NULL)
        say_limits(v);
}

/* What comes next of what is ready, and who could change that. */
static void say_turn(struct why_context *v)
{
    const struct config_endpoint *e = v->setting;
    if (v->turn.before != NULL)
        SAY(v, "It continues, in order, when that message has ended: messages of a stream are sent one at a time.\n");
    else
        SAY(v, "Attempt %d%s%s, as soon as it is its turn.\n", v->l->m.attempts + 1,
            v->o->endpoint.size > 0 ? " to " : "", clean(v, v->o->endpoint));
    bool full = v->turn.room > 0 && v->turn.out >= v->turn.room, rated = e != NULL && e->rate.count > 0;
    if (e != NULL && (full || rated))
        SAY(v, "A larger %s%s%s of endpoint %s in the configuration sends more; kill -HUP reloads it.\n",
            full ? "concurrency" : "", full && rated ? " or " : "", rated ? "rate" : "", e->name);
}

static bool is_pulled(const struct why_context *v)
{
    return v->setting != NULL && strcmp(v->setting->url, "pull:") == 0;
}

/* Who has ended it in this box, whatever rows of it there are; and how often it came again. */
static void say_marks(struct why_context *v)
{
    const struct query_reply *r = v->o->reply;
    for (size_t i = 0; i < r->mark_count; i++)
        if (slice_eq(r->marks[i].box, v->l->box))
            SAY(v, "%s\n", mark_words(v->arena, &r->marks[i], v->now_us));
    for (size_t i = 0; i < r->again_count; i++)
        if (slice_eq(r->again[i].box, v->l->box))
            SAY(v, "%s\n", again_words(v->arena, &r->again[i], v->now_us));
}

static void say_where(struct why_context *v)
{
    const struct listed *l = v->l;
    bool only_marked = l->ended != 0 && l->instance.size == 0 && l->m.attempts == 0;
    if (l->ended != 0) {
        if (!only_marked)
            SAY(v, "%s\n", ended_words(v->arena, l, v->now_us));
        return;
    }
    switch (v->o->state) {
    case STATE_READY: say_ready(v); break;
    case STATE_IN_FLIGHT:
        if (is_pulled(v))
            SAY(v, "A worker has claimed it from instance %s, attempt %d.\n", clean(v, l->instance), l->m.attempts + 1);
        else
            SAY(v, "It is being sent right now, attempt %d, by instance %s.\n", l->m.attempts + 1,
                clean(v, l->instance));
        break;
    case STATE_DELAYED:
        SAY(v, "It waits because its sender scheduled it for %s: %s.\n", time_words(v->arena, l->m.due_us),
            in_time(v, l->m.due_us));
        break;
    case STATE_RETRYING:
        SAY(v, "It waits for its %s attempt, %s.\n", ordinal(v, l->m.attempts + 1), in_time(v, l->m.due_us));
        if (v->o->breaker != NULL)
            say_open(v);
        break;
    case STATE_HELD: say_head(v); break;
    case STATE_PARKED: say_parked(v); break;
    case STATE_PAUSED: say_paused(v); break;
    case STATE_DEAD: say_dead(v); break;
    case STATE_DONE: SAY(v, "It is done: delivered %s.\n", ago(v, l->died_us)); break;
    default: SAY(v, "It no longer exists.\n");
    }
    if (l->bad != NULL)
        SAY(v, "It cannot be decoded: %s.\n", l->bad);
    if (l->m.expires_us != 0 && l->state != STATE_DEAD && l->state != STATE_DONE)
        SAY(v, "It expires %s.\n",
            l->m.expires_us > v->now_us ? in_time(v, l->m.expires_us) : "before its next attempt: its time is over");
}

/* ---- What comes next -------------------------------------------------------------------------- */

/* Blame needs evidence: what happens with it, and without. */
static void say_blame(struct why_context *v, const struct explanation *x)
{
    const struct explain_line *last = &x->lines[x->line_count - 1];
    SAY(v,
        "from the %s failure on it is a dead letter when endpoint %s took another message of type %s since its "
        "previous "
        "failure.\nOtherwise it is retried",
        ordinal(v, last->failure), v->setting->name, clean(v, v->l->m.type));
    if (x->gives_up)
        SAY(v, ", and becomes a dead letter after failing for %s", span_words(v->arena, v->setting->retry.give_up_us));
    SAY(v, ".\n");
}

/* What the engine will do when it goes on failing as it did last (B71). */
static void say_limit(struct why_context *v)
{
    const struct pr_message *m = &v->l->m;
    const struct failure failure = {
        .message = m,
        .endpoint = slice_from(v->setting->name),
        .reason = m->reason,
        .code = m->code,
        .error = m->error,
        .failures = m->failures + 1,
        .age_us = v->now_us - m->created_us,
        .unsent = story_was_postponed(m->story),
    };
    struct explanation *x = arena_alloc(v->arena, sizeof *x);
    struct policy policy;
    if (x == NULL)
        return;
    config_endpoint_policy(v->o->config, v->setting, &policy);
    policy_explain(&policy, &v->setting->breaker, &failure, x);
    const struct explain_line *last = &x->lines[x->line_count - 1];
    if (last->decision.step == STEP_POSTPONE)
        SAY(v, "The endpoint is at fault, not the message: no failure is counted, and it is retried until the endpoint "
               "works again.\n");
    if (x->goes_on || m->failures == 0)
        return;
    SAY(v, "It failed %d %s; ", m->failures, m->failures == 1 ? "time" : "times");
    if (x->needs_evidence)
        say_blame(v, x);
    else if (last->decision.matched == NULL)
        SAY(v, "endpoint %s makes it a dead letter at the %s failure.\n", v->setting->name, ordinal(v, last->failure));
    else
        SAY(v, "at the %s failure of this kind rule %s decides: %s.\n", ordinal(v, last->failure),
            clean(v, last->decision.rule), decision_words(v->arena, &last->decision));
}

static void say_after_head(struct why_context *v)
{
    const struct listed *head = v->o->head;
    if (head == NULL) {
        SAY(v, "It continues, in order, %s.\n",
            v->workers > 0 ? "soon" : "as soon as an instance delivers from this box: start postrider run");
        return;
    }
    if (head->state != STATE_DEAD && head->state != STATE_PARKED) {
        SAY(v, "It continues, in order, when the message before it is delivered%s or discarded.\n",
            v->setting != NULL && v->setting->ordering == ORDERING_STRICT ? "" : ", dead");
        if (head->state == STATE_RETRYING)
            v->o->next_us = head->m.due_us;
        return;
    }
    const char *which = name_part(v, &v->head_parts, head, message_endpoint(head));
    SAY(v, /* strict: it holds it until a person says so */
        "Nothing happens by itself. It continues, in order, after you handle the message before it:\n"
        "postrider %s %s, or postrider %s %s.\n",
        head->state == STATE_DEAD ? "dead replay" : "retry", which,
        head->state == STATE_DEAD ? "dead discard" : "discard", which);
}

static void say_due(struct why_context *v)
{
    const struct pr_message *m = &v->l->m;
    v->o->next_us = m->due_us;
    if (m->expires_us != 0 && m->expires_us <= m->due_us)
        SAY(v, "It expires before it is due: it will not be sent.\n");
    else
        SAY(v, "Attempt %d%s%s, %s%s.\n", m->attempts + 1, v->o->endpoint.size > 0 ? " to " : "",
            clean(v, v->o->endpoint), in_time(v, m->due_us),
            v->workers > 0 ? "" : ", if an instance delivers from this box by then: start postrider run");
}

static void say_probe(struct why_context *v)
{
    const struct breaker_info *b = v->o->breaker;
    if (b->until_us == PR_NEVER) {
        SAY(v, "Nothing happens by itself: the endpoint asked for no more attempts.\n");
        return;
    }
    v->o->next_us = b->until_us;
    SAY(v,
        "A probe to %s, %s: this message or another one. When the probe is delivered, all continue in order;\n"
        "until then no attempt and no failure is counted.\n",
        clean(v, b->endpoint),
        b->until_us > v->now_us ? in_time(v, b->until_us) : "as soon as there is something to send");
}

static void say_end_of_pause(struct why_context *v)
{
    if (v->pause != NULL)
        v->o->next_us = v->pause->paused_until_us;
    SAY(v, "It continues when the endpoint is resumed%s%s; nothing is counted meanwhile.\n",
        v->pause != NULL && v->pause->paused_until_us != PR_NEVER ? ", which happens by itself " : "",
        v->pause != NULL && v->pause->paused_until_us != PR_NEVER ? in_time(v, v->pause->paused_until_us) : "");
}

static void say_in_flight(struct why_context *v)
{
    if (is_pulled(v)) {
        SAY(v,
            "It ends as its worker says: complete, fail, abandon or release. If the worker says nothing and does not "
            "renew "
            "its claim, the message\n"
            "comes back after %s, and this attempt counts.\n",
            span_words(v->arena, v->setting->timeout_us));
        return;
    }
    SAY(v, "It is delivered, or the endpoint's rules decide about its failure");
    if (v->setting != NULL && v->setting->timeout_us > 0)
        SAY(v, "; without an answer it fails after %s", span_words(v->arena, v->setting->timeout_us));
    SAY(v, ".\n"
           "If its instance dies, another one takes over when the lease ends, and this attempt counts.\n");
}

static void say_next(struct why_context *v)
{
    const struct listed *l = v->l;
    enum state state = v->o->state;
    if (l->ended != 0) {
        SAY(v, "Nothing: it has ended, and its content is no longer stored.\n");
        return;
    }
    switch (state) {
    case STATE_DEAD:
        SAY(v, "Nothing happens by itself: it stays a dead letter until you %s it.\n",
            pr_id_is_zero(l->edited_as) ? "replay, correct or discard" : "discard");
        break;
    case STATE_DONE: SAY(v, "Nothing: it only stays readable for a while.\n"); break;
    case STATE_PARKED:
        SAY(v, "%s\n",
            message_awaits_route(&l->m) ? "It continues by itself when the configuration has a destination for it."
                                        : "Nothing happens by itself.");
        break;
    case STATE_RETRYING:
    case STATE_DELAYED: say_due(v); break;
    case STATE_HELD: say_after_head(v); break;
    case STATE_PAUSED: say_end_of_pause(v); break;
    case STATE_IN_FLIGHT: say_in_flight(v); break;
    default:
        if (v->o->breaker != NULL)
            say_probe(v);
        else
            say_turn(v);
    }
    bool goes_on = state != STATE_DEAD && state != STATE_DONE && state != STATE_PARKED;
    if (v->setting != NULL && (l->m.failures > 0 || story_was_postponed(l->m.story)) && goes_on)
        say_limit(v);
}

/* ---- What would change it --------------------------------------------------------------------- */

static void add(struct why_context *v, const char *command, const char *what, const char *target)
{
    ASSERT(v->o->command_count < WHY_COMMANDS_MAX);
    v->o->commands[v->o->command_count++] =
        (struct message_why_command){ arena_printf(v->arena, "postrider %s %s", command, target).data, what };
}

/* What cannot be decoded dies again when it is replayed. */
static void add_dead_commands(struct why_context *v, const char *which)
{
    if (!pr_id_is_zero(v->l->edited_as)) {
        ; /* the corrected one is another message */
    } else if (v->l->m.type.size == 0) {
        add(v, "dead edit", "give it a type, and send it (or --data, --file, --header, --to)",
            arena_printf(v->arena, "%s --type TYPE", which).data);
    } else {
        if (v->l->bad == NULL)
            add(v, "dead replay", "deliver it after all, in its old place", which);
        add(v, "dead edit", "correct it first (or --file, --header, --to)",
            arena_printf(v->arena, "%s --data 'TEXT'", which).data);
    }
    add(v, "dead discard", "delete it permanently", which);
}

static void add_commands(struct why_context *v)
{
    const struct message_why *o = v->o;
    enum state state = o->state;
    if (state == STATE_DONE || state == STATE_GONE)
        return;
    const char *which = name_part(v, o->reply, v->l, o->endpoint);
    if (state == STATE_DEAD) {
        add_dead_commands(v, which);
        return;
    }
    if (state == STATE_RETRYING || state == STATE_PARKED || state == STATE_DELAYED)
        add(v, "retry", "try it now, with counters reset", which);
    if (state == STATE_HELD && o->head != NULL)
        add(v, "release", "let it overtake", which);
    if (v->turn.before != NULL) {
        char before[PR_ID_TEXT_SIZE];
        pr_id_format(v->turn.before->m.id, before);
        add(v, "why", "explain that message", before);
    }
    if (state == STATE_PAUSED)
        add(v, "resume", "start sending to it again, now", shell_argument(v->arena, o->endpoint));
    if (o->breaker != NULL)
        add(v, "pause", "stop the probes (--for 5m; then postrider resume)",
            shell_argument(v->arena, o->breaker->endpoint));
    if (state != STATE_PARKED)
        add(v, "park", "set it aside", which);
    if (state == STATE_DELAYED)
        add(v, "reschedule", "set another time", arena_printf(v->arena, "%s --due 2h", which).data);
    add(v, "discard", "delete it without delivering", which);
    add(v, "dead add", "move it to the dead letters; give the reason",
        arena_printf(v->arena, "%s --why 'TEXT'", which).data);
}

/* A message of a flow means nothing without it. */
static void say_flow(struct why_context *v)
{
    const char *words = flow_of_message(v->arena, v->o->config, v->l->box, &v->l->m);
    if (words != NULL)
        SAY(v, "It is %s.\n", words);
    const struct config_box *box = config_find_box(v->o->config, v->l->box);
    const char *session = box != NULL && box->kind == BOX_ACTIVITIES
                              ? session_words(v->o->store, v->arena, v->l->m.stream, v->now_us)
                              : NULL;
    if (session != NULL)
        SAY(v, "Its %s.\n", session);
}

/* ---- All of it -------------------------------------------------------------------------------- */

static const char *take_text(struct why_context *v)
{
    const char *text = slice_dup(v->arena, buf_slice(&v->text)).data;
    buf_reset(&v->text);
    return text;
}

int message_why_make(struct message_why *o, struct pr_error *reterr)
{
    struct why_context v = { .o = o, .arena = o->arena, .l = o->listed, .now_us = o->reply->now_us };
    o->state = v.l->state;
    o->head = NULL;
    o->next_us = 0;
    o->command_count = 0;
    int rc = look_around(&v, reterr);
    if (rc != PR_OK)
        return rc;
    if (schedule_why_make(o, v.workers)) {
        if (o->next_us == PR_NEVER || o->next_us <= v.now_us)
            o->next_us = 0;
        return PR_OK;
    }
    buf_init(&v.text, WHY_TEXT_MAX);
    say_where(&v);
    say_flow(&v);
    say_marks(&v);
    o->now = take_text(&v);
    say_next(&v);
    o->next = take_text(&v);
    add_commands(&v);
    if (o->next_us == PR_NEVER || o->next_us <= v.now_us)
        o->next_us = 0;
    bool failed = buf_failed(&v.text) != PR_OK || o->now == NULL || o->next == NULL;
    buf_fini(&v.text);
    return failed ? error_set(reterr, PR_ENOMEM, "out of memory for the answer") : PR_OK;
}

/* Lines as one text. */
static void member_lines(struct json_writer *w, const struct message_why *o, const char *key, const char *lines)
{
    pr_slice text = slice_trim(slice_from(lines));
    char *copy = arena_dup(o->arena, text.data, text.size);
    for (size_t i = 0; copy != NULL && i < text.size; i++)
        if (copy[i] == '\n')
            copy[i] = ' ';
    member_text(w, key, (pr_slice){ copy, copy != NULL ? text.size : 0 });
}

static const struct member command_members[] = {
    /* clang-format off */
    MEMBER(message_why_command, "command", CSTR, command)
    MEMBER(message_why_command, "what", CSTR, what)
    /* clang-format on */
};

void why_commands_json(struct json_writer *w, const struct message_why_command *commands, size_t count)
{
    static const struct members members = MEMBERS(command_members);
    members_list(w, "commands", &members, commands, sizeof(*commands), count);
}

void message_why_json(struct json_writer *w, const struct message_why *o)
{
    char id[PR_ID_TEXT_SIZE] = "";
    if (o->head != NULL)
        pr_id_format(o->head->m.id, id);
    member_text(w, "waits_for", slice_from(id));
    member_lines(w, o, "now", o->now);
    json_key(w, "next");
    json_begin_object(w);
    member_lines(w, o, "what", o->next);
    member_time(w, "at", o->next_us);
    json_end_object(w);
    json_key(w, "breaker");
    breaker_json(w, o->breaker, o->reply->now_us);
    reply_list(w, "handled", REPLY_MARK, o->reply->marks, sizeof(*o->reply->marks), o->reply->mark_count);
    reply_list(w, "again", REPLY_AGAIN, o->reply->again, sizeof(*o->reply->again), o->reply->again_count);
    why_commands_json(w, o->commands, o->command_count);
}
