#include "runtime/flow/flows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "runtime/flow/internal.h"
#include "runtime/flow/watch.h"

static pr_slice box_of_kind(const struct config *config, enum box_kind kind)
{
    for (size_t i = 0; i < config->box_count; i++)
        if (config->boxes[i].kind == kind)
            return slice_from(config->boxes[i].name);
    return (pr_slice){ "", 0 };
}

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
    atomic_store(&f->clock_offset_us, clock_wall_us(clock_system()) - clock_mono_us(clock_system()));
    flow_watch_teller(options->program->flows.count > 0);
    *ret = f;
    return PR_OK;
}

void flows_close(struct flows *f)
{
    if (f == NULL)
        return;
    flow_watch_teller(-(int)(f->options.program->flows.count > 0));
    hot_fini(&f->hot);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void flows_clock(struct flows *f, int64_t store_now_us)
{
    atomic_store(&f->clock_offset_us, store_now_us - clock_mono_us(clock_system()));
}

int64_t flows_now_us(const struct flows *f)
{
    return clock_mono_us(clock_system()) + atomic_load(&f->clock_offset_us);
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
        text = NULL; /* it goes without words */
    va_end(args);
    free(context->error);
    context->error = text;
    context->retry_after_us = after_us;
    return PR_EBUSY;
}

int64_t flows_unknown_us(struct flows *f, pr_slice name, pr_slice version)
{
    uint64_t hash = hash_bytes(hash_bytes(0, name.data, name.size), version.data, version.size);
    int64_t now_us = clock_mono_us(clock_system()), since_us = -1;

    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    for (size_t i = 0; i < min_size(f->unknown_count, UNKNOWN_MAX) && since_us < 0; i++)
        if (f->unknown[i].hash == hash)
            since_us = f->unknown[i].since_us;
    if (since_us < 0)
        f->unknown[f->unknown_count++ % UNKNOWN_MAX] = (struct unknown_flow){ hash, since_us = now_us };
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
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
