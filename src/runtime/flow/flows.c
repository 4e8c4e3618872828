#include "runtime/flow/flows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/id.h"
#include "core/offer.h"
#include "core/story.h"
#include "runtime/flow/internal.h"
#include "runtime/flow/watch.h"

/* The code of a message that was put back because no instance knew its flow; followed by the time. */
#define UNKNOWN_SINCE "unknown since "

static pr_slice box_of_kind(const struct config *config, enum box_kind kind)
{
    for (size_t i = 0; i < config->box_count; i++)
        if (config->boxes[i].kind == kind)
            return slice_from(config->boxes[i].name);
    return (pr_slice){ "", 0 };
}

/* ---- Time and randomness ---------------------------------------------------------------------------- */

static const struct clock *clock_of(const struct flows *f)
{
    return f->options.clock != NULL ? f->options.clock : clock_system();
}

int64_t flows_now_us(const struct flows *f)
{
    return clock_mono_us(clock_of(f)) + atomic_load(&f->clock_offset_us);
}

uint64_t flows_random(struct flows *f)
{
    uint64_t bits;

    if (f->options.random != NULL)
        bits = random_u64(f->options.random);
    else if (random_bytes_os(&bits, sizeof(bits)) < 0)
        bits = (uint64_t)flows_now_us(f);
    return bits;
}

pr_id flows_new_id(struct flows *f)
{
    uint64_t bits[2] = { 0 };
    uint8_t bytes[10];
    pr_id id;

    if (f->options.random == NULL) {
        pr_id_new(&id); /* ids ascend within this program */
        return id;
    }
    bits[0] = flows_random(f);
    bits[1] = flows_random(f);
    memcpy(bytes, bits, sizeof(bytes));
    id_make(flows_now_us(f) / 1000, bytes, &id);
    return id;
}

/* ---- What we offer, and what others do ------------------------------------------------------------- */

static int make_offers(struct flows *f, struct pr_error *reterr)
{
    const struct program *p = f->options.program;

    buf_init(&f->turns_offer, OFFER_BYTES_MAX);
    buf_init(&f->activities_offer, OFFER_BYTES_MAX);
    for (size_t i = 0; i < p->flows.count; i++)
        offer_add_flow(&f->turns_offer, p->flows.codes[i].name, p->flows.codes[i].version);
    for (size_t i = 0; i < p->tag_count; i++)
        offer_add_tag(&f->activities_offer, p->tags[i]);
    for (size_t i = 0; i < p->activity_count; i++)
        offer_add_activity(&f->activities_offer, p->activities[i].name);
    return buf_failed(&f->turns_offer) == PR_OK && buf_failed(&f->activities_offer) == PR_OK
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "out of memory for flows");
}

pr_slice flows_offer(const struct flows *f, enum box_kind kind)
{
    return buf_slice(kind == BOX_TURNS ? &f->turns_offer : &f->activities_offer);
}

static void forget_peers(struct flows *f)
{
    for (size_t i = 0; i < f->peer_count; i++)
        free(f->peers[i]);
    free(f->peers);
    f->peers = NULL;
    f->peer_count = 0;
}

/* Without memory they count as offering nothing. */
void flows_peers(struct flows *f, enum box_kind kind, const pr_slice *offers, size_t count, bool mixed)
{
    atomic_store(kind == BOX_TURNS ? &f->turns_mixed : &f->activities_mixed, mixed);
    if (kind != BOX_TURNS)
        return;
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    forget_peers(f);
    f->peers = calloc(count + 1, sizeof(f->peers[0]));
    for (size_t i = 0; f->peers != NULL && i < count; i++)
        if ((f->peers[f->peer_count] = strndup(offers[i].data, offers[i].size)) != NULL)
            f->peer_count++;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}

bool flows_others_have(struct flows *f, const char *need)
{
    bool have = false;

    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    for (size_t i = 0; need != NULL && i < f->peer_count; i++)
        have |= offer_has(slice_from(f->peers[i]), slice_from(need));
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
    return have;
}

/* ---- Life ------------------------------------------------------------------------------------------ */

int flows_open(const struct flows_options *options, struct flows **ret, struct pr_error *reterr)
{
    struct flows *f = calloc(1, sizeof *f);
    if (f == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for flows");
    f->options = *options;
    f->setting = &options->config->flows;
    f->turns_box = box_of_kind(options->config, BOX_TURNS);
    f->activities_box = box_of_kind(options->config, BOX_ACTIVITIES);
    hot_init(&f->hot, (size_t)f->setting->cache_bytes);
    list_init(&f->running);
    ASSERT(pthread_mutex_init(&f->lock, NULL) == 0);
    atomic_store(&f->clock_offset_us, clock_wall_us(clock_of(f)) - clock_mono_us(clock_of(f)));
    pr_id_format(flows_new_id(f), f->holder);
    flow_watch_teller(options->program->flows.count > 0);
    int rc = make_offers(f, reterr);
    if (rc == PR_OK)
        *ret = f;
    else
        flows_close(f);
    return rc;
}

void flows_close(struct flows *f)
{
    if (f == NULL)
        return;
    flow_watch_teller(-(int)(f->options.program->flows.count > 0));
    hot_fini(&f->hot);
    buf_fini(&f->turns_offer);
    buf_fini(&f->activities_offer);
    forget_peers(f);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void flows_clock(struct flows *f, int64_t store_now_us)
{
    atomic_store(&f->clock_offset_us, store_now_us - clock_mono_us(clock_of(f)));
}

void flows_lost_lanes(struct flows *f, uint64_t lanes)
{
    hot_drop_lanes(&f->hot, lanes);
}

/* ---- What handlers of ours say ------------------------------------------------------------------- */

int flow_postpone(struct pr_context *context, int64_t after_us, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL; /* it goes without a text */
    va_end(args);
    free(context->error);
    context->error = text;
    context->retry_after_us = after_us;
    return PR_EBUSY;
}

int64_t flow_unknown_since_us(const struct pr_message *m)
{
    const pr_slice words = PR_STR(UNKNOWN_SINCE);
    int64_t since_us;

    if (!slice_starts_with(m->code, words) || !story_was_postponed(m->story) ||
        time_parse_rfc3339((pr_slice){ m->code.data + words.size, m->code.size - words.size }, &since_us) != PR_OK)
        return 0;
    return since_us;
}

/* now_us: nobody put it back since a person or another failure touched it. */
static int64_t unknown_since_us(const struct pr_message *m, int64_t now_us)
{
    int64_t since_us = flow_unknown_since_us(m);
    return since_us > 0 ? min64(since_us, now_us) : now_us;
}

int64_t flow_unknown_us(struct flows *f, struct pr_context *context)
{
    const int64_t now_us = flows_now_us(f);
    char since[TIME_TEXT_SIZE];
    int64_t since_us = now_us;

    for (const struct delivery *d = context->delivery; d != NULL; d = d->run_next)
        since_us = min64(since_us, unknown_since_us(d->message, now_us));
    time_format_rfc3339(since_us, since);
    snprintf(context->code, sizeof(context->code), UNKNOWN_SINCE "%s", since);
    return now_us - since_us;
}

bool flow_add_effect(struct pr_context *context, const struct effect *effect)
{
    struct send_effect one = { .box = effect->box, .effect = *effect };
    if (effect->message != NULL)
        one.message = *effect->message;
    one.effect.message = NULL;
    struct send_effect *copy = send_effect_copy(&one);
    if (copy == NULL)
        return false;
    *context->effects_end = copy;
    context->effects_end = &copy->next;
    context->effect_count++;
    return true;
}

/* ---- Counts ------------------------------------------------------------------------------------------ */

void flows_count_failure(struct flows *f, bool of_flow, enum pr_category category)
{
    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    (of_flow ? f->counts.flow_failures : f->counts.activity_failures)[category]++;
    if (category == PR_CATEGORY_POISON)
        (*(of_flow ? &f->counts.poison_flows : &f->counts.poison_activities))++;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
}

void flows_counts(const struct flows *f, struct flow_counts *ret)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&f->lock;
    ASSERT(pthread_mutex_lock(lock) == 0);
    *ret = f->counts;
    ASSERT(pthread_mutex_unlock(lock) == 0);
}
