/* The clock, the calendar of events, instances and their loop.  See world.h. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/memory/memory.h"

/* ---- Time --------------------------------------------------------------------------- */

int64_t world_wall_us(const struct world *w)
{
    return WORLD_START_US + w->mono_us + (int64_t)((double)w->mono_us * w->scenario->faults.drift) + w->wall_offset_us;
}

static int64_t clock_wall(void *arg)
{
    return world_wall_us(arg);
}

static int64_t clock_mono(void *arg)
{
    const struct world *w = arg;
    return w->mono_us;
}

void world_step_clock(struct world *w, int64_t by_us)
{
    int64_t before_us = world_wall_us(w);
    world_foreach(x, w)
    {
        x->wall_offset_us += by_us;
        world_note(x,
                   (struct event){
                       .kind = EVENT_CLOCK, .message = MESSAGE_NONE, .instance = INSTANCE_NONE, .value = before_us });
    }
}

void world_note(struct world *w, struct event event)
{
    if (w->quiet)
        return;
    event.at_us = w->mono_us;
    event.wall_us = world_wall_us(w);
    history_add(&w->history, &event);
}

void world_at(struct world *w, int64_t at_us, world_fn fn, void *arg, struct instance *owner)
{
    struct world *first = w->first;
    struct sim_event *h = first->free_happenings;
    if (h != NULL)
        first->free_happenings = h->next_free;
    else
        h = arena_alloc(&first->arena, sizeof(*h));
    ASSERT(h != NULL);
    *h =
        (struct sim_event){ .world = w, .fn = fn, .arg = arg, .owner = owner, .life = owner != NULL ? owner->life : 0 };
    int rc = heap_insert(&first->calendar, &h->node, max64(at_us, w->mono_us));
    ASSERT(rc == PR_OK);
}

static void world_set_time(struct world *w, int64_t mono_us)
{
    world_foreach(x, w) x->mono_us = mono_us;
}

bool world_next(struct world *w, int64_t until_us)
{
    w = w->first;
    struct heap_node *node = heap_min(&w->calendar);
    if (node == NULL || node->key > until_us || world_is_broken(w))
        return false;
    struct sim_event *h = HEAP_ENTRY(node, struct sim_event, node);
    heap_remove(&w->calendar, node);
    world_set_time(w, node->key);
    w->happened++;
    if (h->owner != NULL && h->owner->life == h->life && instance_is_frozen(h->owner)) {
        int rc = heap_insert(&w->calendar, &h->node, h->owner->frozen_until_us);
        ASSERT(rc == PR_OK);
        return true;
    }
    if (h->owner == NULL || h->owner->life == h->life)
        h->fn(h->world, h->arg);
    h->next_free = w->free_happenings;
    w->free_happenings = h;
    return true;
}

void world_run_until(struct world *w, int64_t until_us)
{
    while (world_next(w, until_us))
        ;
    world_set_time(w, max64(w->mono_us, until_us));
}

void world_run_for(struct world *w, int64_t us)
{
    world_run_until(w, w->mono_us + us);
}

/* ---- Instances ------------------------------------------------------------------------------- */

bool instance_is_frozen(const struct instance *in)
{
    return in->frozen_until_us > in->world->mono_us;
}

int64_t instance_now(const struct instance *in)
{
    return in->world->mono_us + in->offset_us;
}

static void instance_note(struct instance *in, enum event_kind kind)
{
    bool tuned = kind == EVENT_UP || kind == EVENT_RETUNE;
    world_note(in->world, (struct event){ .kind = (uint8_t)kind,
                                          .what = tuned ? (uint16_t)in->config : 0,
                                          .instance = (uint8_t)in->index,
                                          .session = in->session_number,
                                          .message = MESSAGE_NONE });
}

static void wake_up(struct world *w, void *arg)
{
    struct instance *in = arg;
    if (in->wake_us > w->mono_us)
        return; /* another wake-up took its place */
    in->wake_us = PR_NEVER;
    instance_pump(w, in);
}

void instance_wake(struct instance *in, int64_t at_us)
{
    at_us = max64(at_us, in->world->mono_us);
    if (in->state != INSTANCE_UP || at_us == PR_NEVER || in->wake_us <= at_us)
        return;
    in->wake_us = at_us;
    world_at(in->world, at_us, wake_up, in, in);
}

/* Another engine, which shares its limits, made room. */
static void made_room(void *arg)
{
    struct instance *in = arg;
    instance_wake(in, in->world->mono_us);
}

/* The endpoints of a configuration in new memory, with room for one more.  Removed ones keep their numbers, as after a
 * reload. */
static struct endpoint_setting *copy_endpoints(struct world *w, unsigned config)
{
    const struct scenario *s = w->scenario;
    size_t count = s->engine.endpoint_count;
    struct endpoint_setting *endpoints = arena_alloc(&w->arena, (count + 1) * sizeof(*endpoints));
    ASSERT(endpoints != NULL);
    for (unsigned i = 0; i < count; i++) {
        endpoints[i] = s->endpoints[i];
        endpoints[i].gone = !config_has(s, config, i);
    }
    return endpoints;
}

/* A starting engine does not know removed endpoints.  (Where limits are shared all engines use the same numbers.) */
static void read_config(struct world *w, struct instance *in)
{
    const struct scenario *s = w->scenario;
    in->config = in->wanted;
    in->setting = s->engine;
    if (in->config == 0)
        return;
    config_routes(s, in->config, &in->setting);
    in->setting.endpoints = copy_endpoints(w, in->config);
    if (s->other.lacks == s->engine.endpoint_count && s->engine.endpoint_count > 1 && !s->limits_shared)
        in->setting.endpoint_count--;
}

void instance_start(struct world *w, struct instance *in)
{
    ASSERT(in->state == INSTANCE_DOWN);
    struct pr_error error;
    in->life++;
    read_config(w, in);
    in->setting.seed = random_u64(&w->dice[DIE_STARTS]);
    for (size_t i = 0; i < sizeof(in->setting.instance.bytes); i++)
        in->setting.instance.bytes[i] = (uint8_t)random_u64(&w->dice[DIE_STARTS]);
    in->setting.limits = w->limits;
    in->setting.wake = made_room;
    in->setting.wake_arg = in;
    in->engine = engine_new(&in->setting, &error);
    ASSERT(in->engine != NULL);
    int rc = store_session_open(&w->store, in->setting.box, &in->session, &error);
    ASSERT(rc == PR_OK);
    in->state = INSTANCE_UP;
    in->wake_us = PR_NEVER;
    in->asking = in->stopping = in->unanswered = false;
    in->late_number = 0;
    in->loss_unheard = false;
    in->changed = true;
    in->frozen_until_us = 0;
    memset(in->taken, 0, sizeof(in->taken));
    memset(in->asks, 0, sizeof(in->asks));
    in->asked = 0;
    in->session_id = (pr_id){ { 0 } };
    in->session_number = 0;
    in->verdicts = NULL;
    instance_note(in, EVENT_UP);
    instance_wake(in, w->mono_us);
}

/* Its memory is gone: the store learns nothing, and no later event finds it. */
static void instance_drop(struct instance *in)
{
    engine_free(in->engine);
    in->engine = NULL;
    store_session_close(&in->session);
    in->state = INSTANCE_DOWN;
    in->life++;
    in->wake_us = PR_NEVER;
    in->frozen_until_us = 0;
}

void instance_crash(struct world *w, struct instance *in)
{
    if (in->state == INSTANCE_DOWN)
        return;
    w->crashes++;
    instance_note(in, EVENT_CRASH);
    instance_drop(in);
}

static void thaw(struct world *w, void *arg)
{
    struct instance *in = arg;
    if (instance_is_frozen(in))
        return;
    instance_note(in, EVENT_THAW);
    instance_pump(w, in);
}

void instance_freeze(struct world *w, struct instance *in, int64_t us)
{
    if (in->state == INSTANCE_DOWN || instance_is_frozen(in))
        return;
    instance_note(in, EVENT_FREEZE);
    in->frozen_until_us = w->mono_us + us;
    world_at(w, in->frozen_until_us, thaw, in, in);
}

static void stop_limit(struct world *w, void *arg)
{
    struct instance *in = arg;
    if (!in->stopping)
        return;
    instance_note(in, EVENT_GIVE_UP);
    engine_give_up(in->engine, instance_now(in));
    instance_pump(w, in);
}

/* The store does not answer, or the engine does not end: it is killed. */
static void stop_kill(struct world *w, void *arg)
{
    instance_crash(w, arg);
}

void instance_stop(struct world *w, struct instance *in, int64_t limit_us)
{
    if (in->state == INSTANCE_DOWN || instance_is_frozen(in) || in->stopping)
        return;
    instance_note(in, EVENT_STOP);
    in->stopping = true;
    engine_stop(in->engine, instance_now(in));
    world_at(w, w->mono_us + limit_us, stop_limit, in, in);
    world_at(w, w->mono_us + limit_us + PR_MINUTES(1), stop_kill, in, in);
    instance_wake(in, w->mono_us);
}

/* With the pauses of endpoints that are new to it. */
static void engine_follow(struct world *w, struct instance *in, const struct engine_setting *setting, bool reread)
{
    const struct query query = { .kind = QUERY_ENDPOINTS, .filter.state = -1 };
    struct query_reply states = { 0 };
    struct arena arena;
    arena_init(&arena, 1 << 12);
    int rc = setting->endpoint_count > in->setting.endpoint_count
                 ? store_query(&w->store, &query, &arena, &states, NULL)
                 : PR_OK;
    if (rc == PR_OK)
        rc = engine_retune(in->engine, setting, states.endpoints, states.endpoint_count, reread);
    ASSERT(rc == PR_OK);
    arena_fini(&arena);
}

/* The same settings at another address; once with one more endpoint, which gets nothing. */
bool instance_retune(struct world *w, struct instance *in)
{
    const struct scenario *s = w->scenario;
    struct random *r = &w->dice[DIE_RETUNES];
    size_t count = s->engine.endpoint_count;

    if (in->state == INSTANCE_DOWN || instance_is_frozen(in) || in->asking || in->unanswered || in->stopping)
        return false;
    struct endpoint_setting *endpoints = copy_endpoints(w, in->wanted);
    struct engine_setting *setting = arena_dup(&w->arena, &in->setting, sizeof(in->setting));
    ASSERT(setting != NULL);
    config_routes(s, in->wanted, setting);
    setting->routes = arena_dup(&w->arena, setting->routes, sizeof(s->routes));
    ASSERT(setting->routes != NULL);
    for (size_t i = 0; i < count; i++) {
        endpoints[i].concurrency = random_chance(r, 0.5) ? 0 : (unsigned)random_between(r, 1, 8);
        endpoints[i].timeout_us = random_between(r, PR_SECONDS(1), PR_MINUTES(5));
    }
    endpoints[count] = endpoints[0];
    endpoints[count].name = PR_STR("spare");
    setting->endpoints = endpoints;
    setting->endpoint_count = max_size(in->setting.endpoint_count, count + random_below(r, 2));
    engine_follow(w, in, setting, random_chance(r, 0.5) || in->wanted != in->config);
    in->setting = *setting;
    in->config = in->wanted;
    instance_note(in, EVENT_RETUNE);
    instance_wake(in, w->mono_us);
    return true;
}

/* ---- The loop of an engine's owner --------------------------------------------------------------- */

/* How many the transport of this endpoint accepts now. */
static size_t room_at(const struct instance *in, unsigned endpoint, size_t max)
{
    unsigned room = in->world->scenario->room[endpoint];
    return room == 0 ? max : min_size(max, room - min_size(room, in->taken[endpoint]));
}

static void instance_send(struct world *w, struct instance *in)
{
    const struct delivery *list[16];
    for (unsigned e = 0; e < min_size(w->scenario->engine.endpoint_count, in->setting.endpoint_count); e++) {
        size_t count;
        in->recalls[e] += engine_wants_back(in->engine, instance_now(in), e);
        while ((count = engine_take(in->engine, instance_now(in), e, list, room_at(in, e, ARRAY_LENGTH(list)))) > 0)
            for (size_t i = 0; i < count; i++)
                transport_submit_sim(w, in, e, list[i]);
    }
}

/* The engine may never hold more than its window (I14): each new maximum goes into the history. */
static void instance_sample(struct world *w, struct instance *in)
{
    struct engine_counts counts;
    if (w->scenario->check)
        engine_check(in->engine);
    engine_counts(in->engine, &counts);
    if (counts.window_count <= in->window_count && counts.window_bytes <= in->window_bytes &&
        counts.streams + counts.heads <= in->places)
        return;
    in->places = max_size(in->places, counts.streams + counts.heads);
    in->window_count = max_size(in->window_count, counts.window_count);
    in->window_bytes = max_size(in->window_bytes, counts.window_bytes);
    world_note(w, (struct event){ .kind = EVENT_WINDOW,
                                  .instance = (uint8_t)in->index,
                                  .session = in->session_number,
                                  .message = MESSAGE_NONE,
                                  .number = (int32_t)counts.window_count,
                                  .value = (int64_t)counts.window_bytes,
                                  .extra = counts.streams + counts.heads });
}

static void instance_hear(struct instance *in)
{
    in->asking = false;
    in->unanswered = in->rc != PR_OK && in->rc != PR_ELEASE;
    if (in->rc == PR_OK) {
        engine_absorb(in->engine, in->asked_us, instance_now(in), in->reply);
    } else {
        if (in->rc != PR_EINVAL)
            engine_cycle_failed(in->engine, instance_now(in), in->rc);
        else if (engine_cycle_refused(in->engine, instance_now(in), "the table refuses it"))
            in->unanswered = false; /* another cycle is asked */
    }
    worker_hear(in->world, in);
    instance_sample(in->world, in);
}

#define HEARD_LATE_US PR_MILLISECONDS(100)

static void hear(struct world *w, void *arg)
{
    if (instance_now(arg) - ((struct instance *)arg)->asked_us > HEARD_LATE_US)
        instance_note(arg, EVENT_HEARD);
    instance_hear(arg);
    instance_pump(w, arg);
}

static int64_t cycle_takes_us(struct world *w)
{
    if (w->cycle_us > 0)
        return w->cycle_us;
    if (!w->faults.slow || random_chance(&w->dice[DIE_CYCLE_TIMES], 0.7))
        return 0;
    return !w->healed && random_chance(&w->dice[DIE_CYCLE_TIMES], 0.02)
               ? random_between(&w->dice[DIE_CYCLE_TIMES], 0, 2 * w->scenario->engine.lease_us)
               : random_between(&w->dice[DIE_CYCLE_TIMES], 1, PR_MILLISECONDS(50));
}

/* One cycle; false: none is planned now, or it takes its time, or it was the last. */
static bool instance_cycle(struct world *w, struct instance *in)
{
    const struct cycle *cycle;
    asks_tell(in);
    if (!engine_plan(in->engine, instance_now(in), in->changed, &cycle))
        return false;
    in->changed = false;
    in->asked_us = instance_now(in);
    in->asking = true;
    w->cycles++;
    in->rc = faulty_cycle(w, in, cycle, &in->reply);
    if (in->rc == INSTANCE_DIED)
        return false;
    int64_t takes_us = cycle_takes_us(w);
    if (takes_us > 0) {
        world_at(w, w->mono_us + takes_us, hear, in, in);
        return false;
    }
    instance_hear(in);
    return true;
}

void instance_pump(struct world *w, struct instance *in)
{
    if (in->state == INSTANCE_DOWN || instance_is_frozen(in))
        return;
    uint64_t life = in->life;
    for (int spins = 0;; spins++) {
        instance_send(w, in);
        if (in->life != life || in->asking || !instance_cycle(w, in))
            break;
        if (spins > SPIN_MAX) {
            w->broken = "an engine makes cycles without end";
            return;
        }
    }
    if (in->life != life)
        return;
    if (engine_stopped(in->engine)) {
        instance_drop(in);
        return;
    }
    if (in->asking)
        return; /* its answer is the next wake-up */
    if (in->config != in->wanted && instance_retune(w, in))
        return;
    int64_t next_us = engine_next_us(in->engine, instance_now(in));
    if (next_us != PR_NEVER)
        instance_wake(in, max64(next_us - in->offset_us, w->mono_us + 1));
}

/* ---- Life --------------------------------------------------------------------------------------- */

static void world_share_limits(struct world *w)
{
    const struct engine_setting *engine = &w->scenario->engine;
    const struct limits_setting setting = {
        .engines = w->scenario->instances,
        .endpoint_count = engine->endpoint_count,
        .window_count = engine->window_count,
        .window_bytes = engine->window_bytes,
        .payload_max = engine->payload_max,
    };
    w->limits = limits_new(&setting);
    ASSERT(w->limits != NULL);
}

bool world_is_alone(const struct world *w)
{
    return w->first->next == NULL;
}

bool world_is_broken(const struct world *w)
{
    world_foreach(x, w) if (x->broken != NULL) return true;
    return false;
}

struct world *world_of_box(struct world *w, pr_slice box)
{
    world_foreach(x, w) if (slice_eq(x->scenario->engine.box, box)) return x;
    return NULL;
}

/* Without a die, since the number of calls is not determined. */
static bool row_is_held(void *arg, uint64_t row)
{
    const struct world *w = arg;
    if (w->faults.row_held == 0) /* the world has healed */
        return false;
    uint64_t moment = (uint64_t)(w->mono_us / w->faults.row_held_us);
    uint64_t hash = hash_u64(hash_u64(w->scenario->seed) ^ hash_u64(row) ^ moment);
    return (double)(hash >> 11) * 0x1p-53 < w->faults.row_held;
}

static void world_open_store(struct world *w)
{
    struct pr_error error;
    w->clock = (struct clock){ clock_wall, clock_mono, w };
    struct store_options options = { .url = w->scenario->sqlite ? "sqlite::memory:" : "memory:",
                                     .clock = &w->clock,
                                     .payload_max = w->scenario->engine.payload_max };
    int rc = store_open(&options, &w->store, &error);
    ASSERT(rc == PR_OK);
    rc = store_migrate(&w->store, NULL, 0, &error);
    ASSERT(rc == PR_OK);
    if (w->faults.row_held > 0)
        memory_hold_rows(&w->store, row_is_held, w);
}

static void world_begin(struct world *w, const struct scenario *scenario, struct world *first)
{
    *w = (struct world){ .scenario = scenario, .faults = scenario->faults, .first = first };
    dice_init(w->dice, scenario->seed);
    arena_init(&w->arena, 1 << 16);
    history_init(&w->history);
    heap_init(&w->calendar);
    map_init(&w->rows);
    map_init(&w->adopted);
    if (first == w)
        world_open_store(w);
    else
        w->store = first->store;
    for (unsigned i = 0; i < SIM_INSTANCES_MAX; i++)
        w->instances[i] =
            (struct instance){ .world = w,
                               .index = i,
                               .wake_us = PR_NEVER,
                               .offset_us = (int64_t)(scenario->limits_shared ? 1 : i + 1) * PR_SECONDS(1000003) };
    if (scenario->limits_shared)
        world_share_limits(w);
    for (unsigned i = 0; i < scenario->instances; i++)
        instance_start(w, &w->instances[i]);
}

void world_init_with(struct world *w, const struct scenario *scenario)
{
    world_begin(w, scenario, w);
}

void world_init_beside(struct world *w, const struct scenario *scenario, struct world *first)
{
    struct world *last = first;
    world_begin(w, scenario, first);
    while (last->next != NULL)
        last = last->next;
    last->next = w;
    w->mono_us = first->mono_us;
    w->wall_offset_us = first->wall_offset_us;
}

void world_init(struct world *w, uint64_t seed)
{
    static struct scenario calm; /* never written after the first time, but for its seed */
    scenario_calm(&calm);
    calm.seed = seed;
    calm.check = true;
    world_init_with(w, &calm);
}

void world_fini(struct world *w)
{
    for (unsigned i = 0; i < SIM_INSTANCES_MAX; i++)
        if (w->instances[i].state == INSTANCE_UP)
            instance_drop(&w->instances[i]);
    limits_free(w->limits);
    if (w->first == w)
        store_close(&w->store);
    heap_fini(&w->calendar);
    map_fini(&w->rows);
    map_fini(&w->adopted);
    history_fini(&w->history);
    free(w->parcels);
    arena_fini(&w->arena);
}
