/* Between an engine and its receivers: sends that fail, that arrive without an answer, that are answered after the
 * lease, twice, never, or that kill their instance. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/util.h"

struct faulty_send {
    struct instance *in;
    uint64_t life;
    const struct delivery *delivery; /* the engine's, until the answer */
    uint64_t token;
    struct parcel *parcel;
    uint64_t digest; /* as it was when it went out */
    unsigned endpoint;
    uint16_t destination, session;
    int number;
    int64_t taken_us;
    unsigned recalls; /* of its endpoint, when it was taken */
    struct fate fate;
    bool answered;
    bool settles; /* its receiver is a handler that completes it in a transaction of its own */
};

/* The payload and all attributes, except the destination. */
uint64_t message_digest(const struct pr_message *m)
{
    const pr_slice parts[] = { m->type,         m->stream,      m->source,    m->subject,
                               m->content_type, m->headers,     m->payload,   m->correlation_id,
                               m->causation_id, m->traceparent, m->tracestate };
    uint64_t digest = hash_bytes(m->event, &m->id, sizeof(m->id));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        digest = hash_slice(digest + parts[i].size, parts[i]);
    return digest;
}

/* ---- Fate ------------------------------------------------------------------------------- */

static void fail_with(struct fate *f, enum send_outcome outcome, int reason, bool arrives)
{
    f->outcome = outcome;
    f->reason = reason;
    f->arrives = arrives;
}

static const int transient_reasons[] = { PR_REASON_TRANSPORT_UNAVAILABLE, PR_REASON_TIMEOUT_EXCEEDED,
                                         PR_REASON_DEPENDENCY_FAILURE, PR_REASON_RATE_LIMITED };
static const int permanent_reasons[] = { PR_REASON_REJECTED, PR_REASON_VALIDATION_FAILURE, PR_REASON_UNAUTHORIZED,
                                         PR_REASON_HANDLER_EXCEPTION, PR_REASON_UNKNOWN };

static int draw_reason(struct random *r, const int *reasons, size_t count)
{
    return reasons[random_below(r, count)];
}

static void draw_outcome(struct world *w, const struct parcel *p, unsigned endpoint, struct fate *f)
{
    const struct faults *faults = &w->faults;
    const struct receiver *receiver = &w->receivers[endpoint];
    struct random *dice = w->dice;

    if (receiver->down && (receiver->type.size == 0 || slice_eq(receiver->type, p->m.type))) {
        fail_with(f, receiver->hangs ? SEND_UNKNOWN : SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, false);
        f->answer_us = receiver->hangs ? PR_MINUTES(600) : PR_MILLISECONDS(1);
        f->unsent = receiver->away;
        if (receiver->stranger) {
            f->reason = PR_REASON_UNAUTHORIZED;
            f->code = "401";
        }
    } else if (p->bad && !w->healed) {
        /* What nobody knows, or its content. */
        fail_with(f, SEND_FAILED, p->index % 2 == 0 ? PR_REASON_DEPENDENCY_FAILURE : PR_REASON_VALIDATION_FAILURE,
                  false);
    } else if (random_chance(&dice[DIE_SEND_FAILS], faults->send_fail)) {
        fail_with(f, SEND_FAILED,
                  draw_reason(&dice[DIE_SEND_FAILS], transient_reasons, ARRAY_LENGTH(transient_reasons)), false);
        f->retry_after_us =
            random_chance(&dice[DIE_SEND_FAILS], 0.1) ? random_between(&dice[DIE_SEND_FAILS], 1, PR_SECONDS(60)) : 0;
    } else if (random_chance(&dice[DIE_SEND_REJECTS], faults->send_reject)) {
        fail_with(f, SEND_FAILED,
                  draw_reason(&dice[DIE_SEND_REJECTS], permanent_reasons, ARRAY_LENGTH(permanent_reasons)), false);
        f->unsent = p->index % 5 == 0;
    } else if (random_chance(&dice[DIE_ANSWERS_LOST], faults->answer_lost)) {
        fail_with(f, random_chance(&dice[DIE_ANSWERS_LOST], 0.8) ? SEND_UNKNOWN : SEND_FAILED,
                  PR_REASON_TIMEOUT_EXCEEDED, true);
    } else if (random_chance(&dice[DIE_ANSWERS_LATE], faults->answer_late)) {
        f->answer_us = random_between(&dice[DIE_ANSWERS_LATE], 1, 2 * w->scenario->engine.lease_us);
    }
    f->twice = f->arrives && random_chance(&dice[DIE_DUPLICATES], faults->duplicate);
    f->crash = p->poison && !w->healed;
    if (f->outcome != SEND_OK && random_chance(&dice[DIE_STATUS_BITS], 0.2))
        f->bits = PR_STATUS_EVENT_STORED;
}

static void draw_fate(struct world *w, const struct parcel *p, const struct delivery *d, unsigned endpoint,
                      struct fate *f)
{
    struct random *r = &w->dice[DIE_SEND_TIMES];
    *f = (struct fate){ .outcome = SEND_OK, .arrives = true };
    if (w->faults.slow && random_chance(r, 0.5)) {
        f->start_us = !w->healed && random_chance(r, 0.1) ? random_between(r, 0, w->scenario->engine.lease_us)
                                                          : random_between(r, 0, 10000);
        f->answer_us = random_between(r, 1, PR_SECONDS(1));
    } else {
        f->answer_us = random_between(r, 1, PR_MILLISECONDS(20));
    }
    if (w->judge != NULL)
        w->judge(w, d, endpoint, f);
    else
        draw_outcome(w, p, endpoint, f);
    f->arrive_us = f->arrives && f->answer_us > 0 ? random_between(&w->dice[DIE_ARRIVALS], 0, f->answer_us) : 0;
}

/* ---- The way ------------------------------------------------------------------------------- */

static void faulty_send_note(struct world *w, const struct faulty_send *f, enum event_kind kind, uint16_t what,
                             uint64_t extra)
{
    world_note(w, (struct event){ .kind = (uint8_t)kind,
                                  .instance = (uint8_t)f->in->index,
                                  .session = f->session,
                                  .message = f->parcel->index,
                                  .destination = f->destination,
                                  .number = f->number,
                                  .what = what,
                                  .value = f->taken_us,
                                  .extra = extra });
}

static struct send_effect *make_effect(const struct parcel *effect)
{
    size_t bytes = message_bytes(&effect->m);
    struct send_effect *block = calloc(1, sizeof(*block) + bytes);
    ASSERT(block != NULL);
    message_copy(&effect->m, (char *)(block + 1), &block->message);
    block->box = PR_STR("outbox");
    return block;
}

static void faulty_send_answer(struct world *w, void *arg)
{
    struct faulty_send *f = arg;
    f->answered = true;
    f->in->taken[f->endpoint]--;
    if (w->scenario->worker)
        f->fate.outcome = worker_draw(w, f->fate.outcome);
    struct delivery_result result = { .token = f->token,
                                      .outcome = f->fate.outcome,
                                      .reason = f->fate.reason,
                                      .bits = f->fate.bits,
                                      .retry_after_us = f->fate.retry_after_us,
                                      .disable = f->fate.disable,
                                      .unsent = f->fate.unsent };
    if (f->fate.outcome == SEND_OK && f->parcel->effect != NULL && !w->scenario->worker)
        result.effects = make_effect(f->parcel->effect);
    if (f->fate.outcome == SEND_OK && f->parcel->typed > 0 && !w->scenario->worker)
        result.effects = effects_make(w, f->parcel);
    if (f->fate.outcome == SEND_FAILED || f->fate.outcome == SEND_UNKNOWN) {
        snprintf(result.code, sizeof(result.code), "%s", f->fate.code != NULL ? f->fate.code : "sim");
        result.error = strdup("the dice said no");
        ASSERT(result.error != NULL);
    }
    const struct event event = { .kind = EVENT_RESULT,
                                 .instance = (uint8_t)f->in->index,
                                 .session = f->session,
                                 .message = f->parcel->index,
                                 .destination = f->destination,
                                 .number = f->number,
                                 .what = (uint16_t)f->fate.outcome,
                                 .flag = f->fate.unsent ||
                                         (f->fate.code != NULL && f->fate.reason == PR_REASON_UNAUTHORIZED),
                                 .value = f->fate.reason,
                                 .extra = f->endpoint };
    world_note(w, event);
    if (w->scenario->worker)
        worker_judge(w, f->in, &result, f->fate.outcome == SEND_OK ? f->parcel->effect : NULL, event);
    else
        engine_result(f->in->engine, instance_now(f->in), &result);
    free(result.error);
    while (result.effects != NULL) {
        struct send_effect *next = result.effects->next;
        free(result.effects);
        result.effects = next;
    }
    instance_wake(f->in, w->mono_us);
}

/* It has run, and its process may die before it reports that. */
static void faulty_send_settle(struct world *w, struct faulty_send *f)
{
    struct event event = { .kind = EVENT_SETTLED,
                           .instance = (uint8_t)f->in->index,
                           .session = f->session,
                           .message = f->parcel->index,
                           .destination = f->destination,
                           .number = f->number,
                           .what = (uint16_t)f->endpoint };
    enum send_outcome outcome = handler_run(w, f->endpoint, f->delivery, &event);
    if (f->fate.outcome == SEND_SETTLED)
        f->fate.outcome = outcome;
    if (event.answer == PR_OK && random_chance(&w->dice[DIE_HANDLERS], w->faults.handler))
        instance_crash(w, f->in);
}

static void faulty_send_arrive(struct world *w, void *arg)
{
    struct faulty_send *f = arg;
    bool alive = f->in->life == f->life;
    if (f->settles && (!alive || f->answered))
        return; /* it died with its process; or it has not got so far */
    if (!alive && f->fate.arrive_us > 0 && random_chance(&w->dice[DIE_ARRIVALS], 0.5))
        return; /* it was not on the wire yet */
    /* Until it was answered the delivery must stay readable: read it again here. */
    uint64_t digest = alive && !f->answered ? message_digest(f->delivery->message) : f->digest;
    f->parcel->arrivals++;
    w->arrivals++;
    faulty_send_note(w, f, EVENT_ARRIVE, (uint16_t)f->endpoint, digest);
    if (f->fate.twice) {
        faulty_send_note(w, f, EVENT_ARRIVE, (uint16_t)f->endpoint, digest);
        f->parcel->arrivals++;
    }
    if (f->settles)
        faulty_send_settle(w, f);
}

static void faulty_send_crash(struct world *w, void *arg)
{
    struct faulty_send *f = arg;
    f->parcel->crashes++;
    instance_crash(w, f->in);
}

static void faulty_send_start(struct world *w, void *arg)
{
    struct faulty_send *f = arg;
    const struct delivery *d = f->delivery;
    int64_t now_us = instance_now(f->in), left_us = d->deadline_us - now_us;

    if (now_us > d->start_before_us || f->in->stopping || f->recalls != f->in->recalls[f->endpoint]) {
        f->fate = (struct fate){ .outcome = SEND_RETURNED };
        faulty_send_answer(w, f);
        return;
    }
    if (left_us <= 0) { /* it waited too long in the transport: it was never sent */
        fail_with(&f->fate, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, false);
        faulty_send_note(w, f, EVENT_START, (uint16_t)f->endpoint, message_digest(d->message));
        faulty_send_answer(w, f);
        return;
    }
    if (f->fate.answer_us > left_us) { /* the transport gives up: nobody knows whether it arrived */
        f->fate.answer_us = left_us;
        fail_with(&f->fate, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, f->fate.arrives);
        f->fate.arrive_us = min64(f->fate.arrive_us, f->fate.answer_us - f->settles);
    }
    f->digest = message_digest(d->message);
    f->parcel->starts++;
    w->starts++;
    faulty_send_note(w, f, EVENT_START, (uint16_t)f->endpoint, f->digest);
    if (f->fate.crash)
        world_at(w, w->mono_us + random_between(&w->dice[DIE_POISON], 0, 1000), faulty_send_crash, f, f->in);
    if (f->fate.arrives)
        world_at(w, w->mono_us + f->fate.arrive_us, faulty_send_arrive, f, NULL);
    world_at(w, w->mono_us + f->fate.answer_us, faulty_send_answer, f, f->in);
}

void transport_submit_sim(struct world *w, struct instance *in, unsigned endpoint, const struct delivery *d)
{
    struct faulty_send *f = arena_zalloc(&w->arena, sizeof(*f));
    ASSERT(f != NULL);
    struct parcel *p = parcel_of(w, d->message);
    if (p == NULL) {
        w->broken = "a message was sent that nobody stored";
        return;
    }
    in->taken[endpoint]++;
    *f = (struct faulty_send){ .in = in,
                               .life = in->life,
                               .delivery = d,
                               .token = d->token,
                               .parcel = p,
                               .endpoint = endpoint,
                               .destination = world_destination(w, d->message->destination),
                               .number = d->attempt,
                               .session = in->session_number,
                               .taken_us = w->mono_us,
                               .recalls = in->recalls[endpoint] };
    draw_fate(w, p, d, endpoint, &f->fate);
    f->settles = p->settles && f->fate.arrives;
    if (f->settles) { /* it runs first, and says how it ended then */
        f->fate.answer_us = max64(f->fate.answer_us, 2);
        f->fate.arrive_us = min64(f->fate.arrive_us, f->fate.answer_us - 1);
        f->fate.outcome = f->fate.outcome == SEND_OK ? SEND_SETTLED : f->fate.outcome;
    }
    if (f->fate.start_us > 0)
        world_at(w, w->mono_us + f->fate.start_us, faulty_send_start, f, in);
    else
        faulty_send_start(w, f);
}
