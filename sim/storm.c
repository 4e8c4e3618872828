/* See storm.h. */
#include "storm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/slice.h"
#include "base/util.h"
#include "dice.h"
#include "life.h"

#define STORM_US PR_SECONDS(20)
#define HEALTHY_EVERY_US PR_MILLISECONDS(100)
#define HEALTHY_MAX (STORM_US / HEALTHY_EVERY_US)
#define SLOWER 1.2     /* this is allowed, */
#define CYCLES_SPARE 4 /* ... and spare cycles: it is a matter of luck which one a message meets */
#define HEAP_MAX 1500

struct storm_life {
    struct scenario scenario;
    struct world w;
    bool wild;
    pr_id ids[HEALTHY_MAX];
    int64_t sent_us[HEALTHY_MAX], took_us[HEALTHY_MAX];
    unsigned healthy;
};

/* e0 accepts everything; e1 refuses everything in the second life. */
static void judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    struct storm_life *l = w->user;
    char text[16];
    f->answer_us = PR_MILLISECONDS(1);
    if (endpoint == 1 && l->wild) {
        *f = (struct fate){ .outcome = SEND_FAILED, .reason = PR_REASON_TRANSPORT_UNAVAILABLE, .answer_us = 1000 };
        return;
    }
    if (endpoint == 1)
        return;
    snprintf(text, sizeof(text), "%.*s", (int)d->message->payload.size, d->message->payload.data);
    unsigned long index = strtoul(text, NULL, 10);
    if (index < HEALTHY_MAX && l->took_us[index] == 0)
        l->took_us[index] = w->mono_us + f->answer_us - l->sent_us[index];
}

static void send_healthy(struct world *w, void *arg)
{
    struct storm_life *l = arg;
    char text[16];
    if (l->healthy == HEALTHY_MAX)
        return;
    snprintf(text, sizeof(text), "%u", l->healthy);
    l->sent_us[l->healthy] = w->mono_us;
    l->ids[l->healthy++] = world_send_to(w, "e0", "", text);
    world_at(w, w->mono_us + HEALTHY_EVERY_US, send_healthy, l, NULL);
}

static void draw(struct scenario *s, uint64_t seed, unsigned *ret_heap, int64_t *ret_cycle_us)
{
    struct random r;
    die_init(&r, seed, "storm");
    scenario_calm(s);
    s->seed = seed;
    s->engine.endpoint_count = 2;
    s->engine.window_count = (size_t)random_between(&r, 50, 500);
    s->engine.batch = (size_t)random_between(&r, 10, 100);
    s->endpoints[1] = s->endpoints[0];
    s->endpoints[1].name = scenario_endpoint(1);
    s->endpoints[1].policy.retry = (struct retry_setting){ .base_us = random_between(&r, 1, 2000) * 1000,
                                                           .factor = 1 + random_double(&r),
                                                           .cap_us = PR_SECONDS(60),
                                                           .failures = 1000 };
    s->endpoints[1].concurrency = random_chance(&r, 0.3) ? 0 : (unsigned)random_between(&r, 1, 20);
    s->endpoints[0].concurrency = random_chance(&r, 0.5) ? 0 : (unsigned)random_between(&r, 1, 20);
    *ret_heap = (unsigned)random_between(&r, 200, HEAP_MAX);
    *ret_cycle_us = random_between(&r, 200, 5000);
}

/* The average delay; messages that did not arrive count as if they had at the end. */
static int64_t live(struct storm_life *l, uint64_t seed, bool wild, struct storm *ret)
{
    unsigned heap;
    int64_t sum_us = 0;

    *l = (struct storm_life){ .wild = wild };
    draw(&l->scenario, seed, &heap, &ret->cycle_us);
    world_init_with(&l->w, &l->scenario);
    l->w.quiet = true;
    l->w.cycle_us = ret->cycle_us;
    l->w.judge = judge;
    l->w.user = l;
    for (unsigned i = 0; i < heap; i++)
        world_send_to(&l->w, "e1", "", "heap");
    send_healthy(&l->w, l);
    world_run_for(&l->w, STORM_US + PR_SECONDS(1));
    ret->missing = 0;
    for (unsigned i = 0; i < l->healthy; i++) {
        ret->missing += l->took_us[i] == 0;
        sum_us += l->took_us[i] != 0 ? l->took_us[i] : l->w.mono_us - l->sent_us[i];
    }
    ret->healthy = l->healthy;
    world_fini(&l->w);
    return sum_us / l->healthy;
}

void storm_live(uint64_t seed, struct storm *ret)
{
    static struct storm_life l;
    ret->calm_us = live(&l, seed, false, ret);
    ret->wild_us = live(&l, seed, true, ret);
}

bool storm_check(const struct storm *s, struct breach *ret)
{
    *ret = (struct breach){ 0 };
    if (s->missing == 0 && (double)s->wild_us <= SLOWER * (double)s->calm_us + (double)(CYCLES_SPARE * s->cycle_us))
        return true;
    ret->invariant = "I13";
    snprintf(ret->text, sizeof(ret->text),
             "messages of a healthy endpoint took %" PRId64 " us beside one that fails, and %" PRId64
             " us beside one that works; %u of %u did not arrive",
             s->wild_us, s->calm_us, s->missing, s->healthy);
    return false;
}

bool storm_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    struct storm storm;
    storm_live(life->seed, &storm);
    counts->hash = (uint64_t)storm.calm_us * 31 + (uint64_t)storm.wild_us;
    return storm_check(&storm, ret);
}
