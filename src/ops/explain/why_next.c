/* What happens to it next, and when. */
#include "base/slice.h"
#include "core/story.h"
#include "ops/message.h"
#include "ops/explain/why_context.h"
#include "policy/explain.h"

/* The next step of a ready message, and what could speed it up. */
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

/* What the engine will do if it fails again as it did last (B71). */
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
    const char *which = why_name(v, &v->head_parts, head, message_endpoint(head));
    SAY(v, /* strict: it blocks until a person decides */
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
    if (why_is_claimed(v)) {
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

void why_say_next(struct why_context *v)
{
    const struct listed *l = v->l;
    enum state state = v->l->state;
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
