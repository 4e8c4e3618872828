/* Where it is, and what it waits for. */
#include <string.h>

#include "base/slice.h"
#include "core/story.h"
#include "ops/endpoint.h"
#include "ops/flow/flow_view.h"
#include "ops/message.h"
#include "ops/explain/why_context.h"

#define ORDERS_LOOKED 1000 /* in the record, the latest ones */

static const char *ago(const struct why_context *v, int64_t us)
{
    return arena_printf(v->arena, "%s ago (%s)", span_words(v->arena, v->now_us - us), time_words(v->arena, us)).data;
}

/* It was held, and no instance has read it since that ended. */
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

/* Its own state is fine: the endpoint fails. */
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

/* Its stream is sent one message at a time. */
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

/* Limits of the endpoint; the store only knows that there is a rate, not its use. */
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

/* A message of a flow is explained together with it. */
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

/* Who ended it in this box, whatever rows of it exist; and how often it arrived again. */
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

/* The ledger has no story, and counts attempts from the replay on.  The record names the message, unless it was replayed
 * by a filter. */
static void say_replay(struct why_context *v)
{
    const struct query query = { .kind = QUERY_AUDIT, .filter = { .state = -1, .limit = ORDERS_LOOKED } };
    struct query_reply reply;
    struct pr_error ignored;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(v->l->m.id, id);
    if (store_query(v->o->store, &query, v->arena, &reply, &ignored) != PR_OK)
        return;
    for (size_t i = 0; i < reply.audit_count; i++) {
        const struct audit_entry *a = &reply.audit[i];
        if (a->at_us > v->l->died_us || !slice_eq_cstr(a->action, admin_name(ADMIN_DEAD_REPLAY)) ||
            memmem(a->target.data, a->target.size, id, PR_ID_TEXT_SIZE - 1) == NULL)
            continue;
        SAY(v,
            "Before that it was a dead letter, which %s replayed %s%s%s. Its earlier failures are no longer stored: "
            "boxes.%s.keep keeps them.\n",
            clean(v, a->who), ago(v, a->at_us), a->why.size > 0 ? ": " : "", clean(v, a->why), clean(v, v->l->box));
        return;
    }
}

static void say_state(struct why_context *v)
{
    const struct listed *l = v->l;
    bool only_marked = l->ended != 0 && l->instance.size == 0 && l->m.attempts == 0;
    if (l->ended != 0) {
        if (!only_marked) {
            SAY(v, "%s\n", ended_words(v->arena, l, v->now_us));
            say_replay(v);
        }
        return;
    }
    switch (v->l->state) {
    case STATE_READY: say_ready(v); break;
    case STATE_IN_FLIGHT:
        if (why_is_claimed(v))
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

void why_say_where(struct why_context *v)
{
    say_state(v);
    say_flow(v);
    say_marks(v);
}
