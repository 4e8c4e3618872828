/* See schedules.h. */
#include "schedules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/id.h"
#include "dice.h"
#include "engine/engine.h"
#include "life.h"
#include "runtime/threads/schedule_follow.h"
#include "store/schedules.h"

#define RUNNERS 3
#define LEASE_US PR_MINUTES(10)
#define POLL_US PR_MINUTES(1)
#define FOLLOW_US PR_MINUTES(30)       /* at most, from an instance's look at the store until it stores its schedules */
#define GRACE_US (PR_MINUTES(60) * 12) /* longer than anybody's lanes stand still */
#define FAULTS_US (PR_MINUTES(60) * 50)   /* then everybody is up and nothing breaks any more ... */
#define CALM_US (PR_MINUTES(60) * 24 * 4) /* ... so long, and the last day of it must be complete */
#define YEAR_US (PR_MINUTES(60) * 24 * 365)
#define NAME "s"
#define ZONE "Europe/Berlin"
#define FIRINGS_MAX 20000
#define STEPS_MAX 64
#define SEGMENTS_MAX 256
#define SPINS_MAX 10000 /* cycles of one instance at one moment */

struct runner {
    bool up;
    struct engine *engine;
    struct store_session session;
    struct engine_setting setting;
    unsigned version; /* of its configuration */
    int64_t started_us;
    struct schedule_follow follow;
    int64_t follow_us; /* when it stores what its look has found; PR_NEVER: it has */
};

struct firing {
    int64_t at_us;   /* the time that it is for */
    int64_t mono_us; /* when it was found */
};

/* The configuration of the stored row, over an interval of the wall clock. */
struct segment {
    unsigned version;
    int64_t from_us, until_us; /* until: when another one was deployed; PR_NEVER: it is the last */
};

struct stage {
    struct random dice, ids;
    enum schedule_bug bug;
    int64_t mono_us, wall_offset_us;
    struct clock clock;
    struct store store;
    struct runner runners[RUNNERS];
    struct endpoint_setting endpoint;
    bool faults, steps; /* something may break; the clock may jump */
    const struct zone *zone;
    struct config_schedule versions[2];
    bool cancels;        /* the second version has no schedule at all */
    unsigned deployed;   /* the version of the latest start, of those that have stored theirs */
    int64_t deployed_us; /* that start; 0: none yet */
    struct segment segments[SEGMENTS_MAX];
    size_t segment_count;
    struct firing *firings;
    size_t firing_count;
    struct {
        int64_t mono_us, wall_us;
    } jumps[STEPS_MAX];
    size_t jump_count;
    struct schedule_life_counts *counts;
    struct breach *breach;
};

static void broken(struct stage *s, const char *format, ...) PR_PRINTF(2, 3);
static void broken(struct stage *s, const char *format, ...)
{
    va_list args;
    if (s->breach->invariant != NULL)
        return;
    s->breach->invariant = "I39";
    va_start(args, format);
    (void)vsnprintf(s->breach->text, sizeof(s->breach->text), format, args);
    va_end(args);
}

static int64_t stage_mono(void *arg)
{
    return ((struct stage *)arg)->mono_us;
}

static int64_t stage_wall(void *arg)
{
    const struct stage *s = arg;
    return s->mono_us + s->wall_offset_us;
}

/* ---- What is in the store --------------------------------------------------------------------- */

static bool is_open(const struct stage *s)
{
    return s->segment_count > 0 && s->segments[s->segment_count - 1].until_us == PR_NEVER;
}

static void segment_end(struct stage *s)
{
    if (is_open(s))
        s->segments[s->segment_count - 1].until_us = stage_wall(s);
}

/* Does the row have the configuration that was deployed last?  Its times from now on are still to come. */
static void look_at_row(struct stage *s)
{
    struct schedule_info *list;
    struct arena arena;
    size_t count;
    bool active = false;
    arena_init(&arena, 4096);
    ASSERT(schedules_find(&s->store, PR_STR(NAME), &arena, &list, &count, NULL) == PR_OK);
    for (size_t i = 0; i < count; i++) {
        active |= list[i].state == SCHEDULE_ACTIVE && slice_eq_cstr(list[i].s.cron_text, s->versions[s->deployed].cron);
        if (list[i].state == SCHEDULE_DEAD || list[i].state == SCHEDULE_FAILING)
            broken(s, "the schedule is %s: %.*s", schedule_state_name(list[i].state), SLICE_ARGS(list[i].error));
    }
    if (active && !is_open(s)) {
        ASSERT(s->segment_count < SEGMENTS_MAX);
        s->segments[s->segment_count++] =
            (struct segment){ .version = s->deployed, .from_us = stage_wall(s), .until_us = PR_NEVER };
    }
    arena_fini(&arena);
}

static void note_firing(struct stage *s, const struct pr_message *m)
{
    static const char key[] = "\"" HEADER_SCHEDULE_DUE "\":\"";
    char text[1024];
    int64_t at_us = 0;
    snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(m->headers));
    char *due = strstr(text, key);
    char *end = due != NULL ? strchr(due + strlen(key), '"') : NULL;
    if (end != NULL)
        *end = '\0';
    if (end == NULL || time_parse_rfc3339(slice_from(due + strlen(key)), &at_us) != PR_OK) {
        broken(s, "a message of the schedule has the headers %s", text);
        return;
    }
    ASSERT(s->firing_count < FIRINGS_MAX);
    s->firings[s->firing_count++] = (struct firing){ at_us, s->mono_us };
    s->counts->fired++;
    s->counts->hash = hash_u64(s->counts->hash ^ (uint64_t)at_us ^ (uint64_t)s->mono_us << 20);
}

/* Takes sent messages out of the store: so no id keeps a second message of the same time away. */
static void collect(struct stage *s)
{
    struct query query = { .kind = QUERY_MESSAGES, .filter = { .box = PR_STR("inbox"), .state = -1, .limit = 1000 } };
    struct query_reply reply = { .more = true };
    struct arena arena;
    arena_init(&arena, 4096);
    while (reply.more) {
        ASSERT(store_query(&s->store, &query, &arena, &reply, NULL) == PR_OK);
        for (size_t i = 0; i < reply.listed_count; i++) {
            struct admin_reply gone;
            const struct admin discard = {
                .kind = ADMIN_DISCARD,
                .filter = { .box = PR_STR("inbox"), .ids = &reply.listed[i].m.id, .id_count = 1, .state = -1 }
            };
            note_firing(s, &reply.listed[i].m);
            ASSERT(store_admin(&s->store, &discard, &gone, NULL) == PR_OK);
        }
    }
    arena_fini(&arena);
}

/* ---- Instances ----------------------------------------------------------------------------------- */

static int no_zone(pr_slice name, const struct zone **ret, struct pr_error *reterr)
{
    (void)name, (void)reterr;
    *ret = NULL;
    return PR_OK;
}

/* Only by the times of their starts, regardless of speed.  After a clock jump only the instance itself knows. */
static bool is_to_count(const struct stage *s, const struct runner *r)
{
    return s->jump_count == 0 ? r->started_us >= s->deployed_us : !r->follow.is_late;
}

static void note_deployed(struct stage *s, const struct runner *r)
{
    if (!is_to_count(s, r))
        return;
    if (r->version != s->deployed || s->deployed_us == 0) {
        segment_end(s);
        s->counts->deploys++;
    }
    s->deployed = r->version;
    s->deployed_us = r->started_us;
}

static void runner_look(struct stage *s, struct runner *r)
{
    struct pr_error error;
    if (schedule_follow_look(&r->follow, &error) != PR_OK)
        broken(s, "the configuration could not be compared: %s", error.text);
    if (s->bug == SCHEDULE_BUG_LATE && r->follow.is_late) { /* it takes itself for the latest */
        r->follow.started_us = stage_wall(s);
        ASSERT(schedule_follow_look(&r->follow, &error) == PR_OK);
    }
}

/* The result of the look is stored; others may have stored theirs since. */
static void runner_follow(struct stage *s, struct runner *r)
{
    struct pr_error error;
    size_t taken_back;
    int rc = schedule_follow_store(&r->follow, &error);
    if (rc == PR_STALE) {
        s->counts->overtaken++;
        runner_look(s, r);
        rc = schedule_follow_store(&r->follow, &error);
    }
    if (rc == PR_OK)
        rc = schedules_take_back(&s->store, &taken_back, &error);
    if (rc != PR_OK)
        broken(s, "the configuration could not be stored: %s", rc == PR_STALE ? "two looks were in vain" : error.text);
    note_deployed(s, r);
    r->follow_us = PR_NEVER;
}

static void runner_start(struct stage *s, struct runner *r, unsigned version)
{
    struct pr_error error;
    uint8_t bytes[10];
    uint64_t random = random_u64(&s->ids);
    s->mono_us++; /* no two start at the same time */
    memcpy(bytes, &random, 8);
    memset(bytes + 8, 0, 2);
    r->setting = (struct engine_setting){ .box = PR_STR("outbox"),
                                          .name = PR_STR("sim"),
                                          .lease_us = LEASE_US,
                                          .batch = 100,
                                          .window_count = 1000,
                                          .window_bytes = 64 << 20,
                                          .payload_max = 1 << 20,
                                          .poll_us = POLL_US,
                                          .seed = random,
                                          .find_zone = s->bug == SCHEDULE_BUG_ZONE ? no_zone : zone_find,
                                          .endpoints = &s->endpoint,
                                          .endpoint_count = 1 };
    id_make(s->mono_us / 1000, bytes, &r->setting.instance);
    r->engine = engine_new(&r->setting, &error);
    ASSERT(r->engine != NULL && store_session_open(&s->store, r->setting.box, &r->session, &error) == PR_OK);
    r->up = true;
    r->version = version;
    r->started_us = s->mono_us;
    r->follow = (struct schedule_follow){ .store = &s->store,
                                          .list = &s->versions[version],
                                          .count = version == 1 && s->cancels ? 0 : 1,
                                          .started_us = stage_wall(s),
                                          .payload_max = 1 << 20 };
    schedule_follow_init(&r->follow);
    runner_look(s, r);
    r->follow_us = s->mono_us + (random_chance(&s->dice, 0.5) ? random_between(&s->dice, 1, FOLLOW_US) : 0);
}

static void runner_drop(struct stage *s, struct runner *r)
{
    engine_free(r->engine);
    store_session_close(&r->session);
    schedule_follow_fini(&r->follow);
    r->up = false;
    s->counts->crashes++;
}

/* ---- Cycles ---------------------------------------------------------------------------------------- */

static bool has_message(const struct cycle *c)
{
    for (size_t i = 0; i < c->effect_count; i++)
        if (c->effects[i].kind == EFFECT_MESSAGE && slice_eq(c->effects[i].box, PR_STR("inbox")))
            return true;
    return false;
}

static void store_again(struct stage *s, const struct cycle *c)
{
    for (size_t i = 0; i < c->effect_count; i++)
        if (c->effects[i].kind == EFFECT_MESSAGE && slice_eq(c->effects[i].box, PR_STR("inbox")))
            ASSERT(store_enqueue(&s->store, PR_STR("inbox"), c->effects[i].message, 1, 1 << 20, NULL, NULL, NULL) ==
                   PR_OK);
}

static int land(struct stage *s, struct runner *r, const struct cycle *cycle, const struct cycle_reply **ret)
{
    struct cycle changed = *cycle;
    struct pr_error error;
    bool wrong = s->bug != SCHEDULE_BUG_NONE && has_message(cycle) && random_chance(&s->dice, 0.05);
    if (wrong && s->bug == SCHEDULE_BUG_LOST)
        changed.effect_count = 0;
    int rc = store_cycle(&r->session, &changed, ret, &error);
    s->counts->cycles++;
    collect(s);
    if (rc == PR_OK && wrong && s->bug == SCHEDULE_BUG_TWICE) {
        store_again(s, cycle);
        collect(s);
    }
    if (rc == PR_OK && cycle->verdict_count > 0)
        look_at_row(s);
    return rc;
}

/* One cycle with all its possible faults.  false: none is planned, or the instance is gone. */
static bool runner_cycle(struct stage *s, struct runner *r, bool first)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    if (!engine_plan(r->engine, s->mono_us, first, &cycle))
        return false;
    double luck = s->faults ? random_double(&s->dice) : 1;
    if (luck < 0.01) {
        engine_cycle_failed(r->engine, s->mono_us, PR_ESTORE);
        return true;
    }
    int rc = luck < 0.02 || (luck >= 0.03 && luck < 0.035) ? PR_EUNCERTAIN : land(s, r, cycle, &reply);
    if (luck >= 0.03 && luck < 0.04) { /* killed, before the commit or behind it */
        runner_drop(s, r);
        return false;
    }
    if (luck < 0.03)
        rc = PR_EUNCERTAIN; /* half of them have landed */
    if (rc == PR_OK)
        engine_absorb(r->engine, s->mono_us, s->mono_us, reply);
    else
        engine_cycle_failed(r->engine, s->mono_us, rc);
    return true;
}

static void run_all(struct stage *s)
{
    for (unsigned i = 0; i < RUNNERS; i++) {
        unsigned spins = 0;
        if (s->runners[i].up && s->runners[i].follow_us <= s->mono_us)
            runner_follow(s, &s->runners[i]);
        while (s->runners[i].up && runner_cycle(s, &s->runners[i], spins == 0))
            if (++spins > SPINS_MAX) {
                broken(s, "an instance makes cycles without end");
                return;
            }
    }
}

/* ---- Time -------------------------------------------------------------------------------------------- */

static void step_clock(struct stage *s)
{
    static const int64_t steps[] = { PR_MINUTES(60), YEAR_US, PR_MINUTES(60) * 24 * 3 };
    int64_t by_us = steps[random_below(&s->dice, ARRAY_LENGTH(steps))];
    if (s->jump_count == STEPS_MAX)
        return;
    s->wall_offset_us += random_chance(&s->dice, 0.5) ? by_us : -by_us;
    s->jumps[s->jump_count].mono_us = s->mono_us;
    s->jumps[s->jump_count++].wall_us = stage_wall(s);
    s->counts->steps++;
}

static void something_happens(struct stage *s)
{
    struct runner *r = &s->runners[random_below(&s->dice, RUNNERS)];
    switch (random_below(&s->dice, 6)) {
    case 0:
        if (r->up)
            runner_drop(s, r);
        break;
    case 1: /* a rolling deploy: this one comes back with the other configuration */
        if (r->up)
            runner_drop(s, r);
        runner_start(s, r, 1 - s->deployed);
        break;
    case 2:
        if (s->steps)
            step_clock(s);
        break;
    default: /* a supervisor: whoever is down is started again */
        for (unsigned i = 0; i < RUNNERS; i++)
            if (!s->runners[i].up)
                runner_start(s, &s->runners[i], s->deployed);
    }
}

static int64_t next_event(const struct stage *s, int64_t until_us)
{
    int64_t next_us = until_us;
    for (unsigned i = 0; i < RUNNERS; i++)
        if (s->runners[i].up)
            next_us = min64(next_us, min64(s->runners[i].follow_us, engine_next_us(s->runners[i].engine, s->mono_us)));
    return max64(next_us, s->mono_us + 1);
}

static void run_until(struct stage *s, int64_t until_us)
{
    int64_t fault_us = s->faults ? s->mono_us : PR_NEVER;
    while (s->mono_us < until_us && s->breach->invariant == NULL) {
        run_all(s);
        s->mono_us = next_event(s, min64(until_us, fault_us));
        if (s->mono_us < fault_us)
            continue;
        something_happens(s);
        fault_us = s->mono_us + random_between(&s->dice, 1, PR_MINUTES(15)) + PR_SECONDS(1);
    }
}

/* The end of a rolling deploy: all start within a moment, the first with the other configuration.  The order of their
 * stores is random. */
static void heal(struct stage *s)
{
    s->faults = false;
    for (unsigned i = 0; i < RUNNERS; i++) {
        if (s->runners[i].up)
            runner_drop(s, &s->runners[i]);
        runner_start(s, &s->runners[i], i == 0 ? 1 : 0);
    }
}

/* ---- What should have been ------------------------------------------------------------------------------ */

static bool local_fits(const struct cron *c, int64_t local_s)
{
    struct tm tm;
    time_t t = (time_t)local_s;
    gmtime_r(&t, &tm);
    bool day = (c->days >> tm.tm_mday & 1) != 0, weekday = (c->weekdays >> tm.tm_wday & 1) != 0;
    return (c->minutes >> tm.tm_min & 1) != 0 && (c->hours >> tm.tm_hour & 1) != 0 &&
           (c->months >> (tm.tm_mon + 1) & 1) != 0 && (c->any_day || c->any_weekday ? day && weekday : day || weekday);
}

/* Is this minute a time of the schedule, by the wall clock and what it left out? */
static bool is_time(const struct stage *s, const struct cron *c, int64_t unix_s)
{
    int64_t offset = zone_offset(s->zone, unix_s), before = zone_offset(s->zone, unix_s - 1);
    for (int64_t local = unix_s + before; local < unix_s + offset; local += 60) /* left out */
        if (local_fits(c, local))
            return true;
    if (!local_fits(c, unix_s + offset))
        return false;
    for (int64_t earlier = unix_s - 60; earlier >= unix_s - 3 * 3600; earlier -= 60)
        if (earlier + zone_offset(s->zone, earlier) == unix_s + offset)
            return false; /* shown before */
    return true;
}

static const struct cron *cron_of(const struct stage *s, unsigned version)
{
    return &s->versions[version].meaning.cron;
}

static size_t firings_of(const struct stage *s, int64_t at_us)
{
    size_t count = 0;
    for (size_t i = 0; i < s->firing_count; i++)
        count += s->firings[i].at_us == at_us;
    return count;
}

/* Did the clock go back behind this time in between? */
static bool went_back(const struct stage *s, int64_t at_us, int64_t from_us, int64_t to_us)
{
    for (size_t i = 0; i < s->jump_count; i++)
        if (s->jumps[i].mono_us >= from_us && s->jumps[i].mono_us <= to_us && s->jumps[i].wall_us < at_us)
            return true;
    return false;
}

static void check_firings(struct stage *s)
{
    char at[TIME_TEXT_SIZE];
    for (size_t i = 0; i < s->firing_count; i++) {
        const struct firing *f = &s->firings[i];
        time_format_rfc3339(f->at_us, at);
        if (f->at_us % PR_MINUTES(1) != 0 || (!is_time(s, cron_of(s, 0), f->at_us / PR_SECONDS(1)) &&
                                              !is_time(s, cron_of(s, 1), f->at_us / PR_SECONDS(1))))
            broken(s, "%s is no time of the schedule (\"%s\" or \"%s\")", at, s->versions[0].cron, s->versions[1].cron);
        for (size_t k = 0; k < i; k++)
            if (s->firings[k].at_us == f->at_us && !went_back(s, f->at_us, s->firings[k].mono_us, f->mono_us))
                broken(s, "%s was sent twice, and the clock never went back behind it", at);
    }
}

static void check_range(struct stage *s, unsigned version, int64_t from_us, int64_t until_us)
{
    char at[TIME_TEXT_SIZE];
    for (int64_t t = from_us / PR_MINUTES(1) + 1; t * PR_MINUTES(1) < until_us; t++)
        if (is_time(s, cron_of(s, version), t * 60) && firings_of(s, t * PR_MINUTES(1)) == 0) {
            time_format_rfc3339(t * PR_MINUTES(1), at);
            broken(s, "%s is a time of \"%s\" and was never sent", at, s->versions[version].cron);
            return;
        }
}

static void check_complete(struct stage *s)
{
    int64_t now_us = stage_wall(s);
    if (s->jump_count == 0 && !s->cancels) /* what was due when it was cancelled, and had no owner, is cancelled, too */
        for (size_t i = 0; i < s->segment_count; i++)
            check_range(s, s->segments[i].version, s->segments[i].from_us,
                        min64(s->segments[i].until_us, now_us - PR_MINUTES(2)));
    check_range(s, 0, now_us - PR_MINUTES(60) * 24, now_us - PR_MINUTES(2)); /* whatever the clock did: it goes on */
}

/* ---- A life ------------------------------------------------------------------------------------------------ */

static void set_version(struct stage *s, unsigned version, const char *cron)
{
    struct config_schedule *c = &s->versions[version];
    struct pr_error error;
    *c = (struct config_schedule){ .name = NAME, .cron = cron };
    c->meaning = (struct schedule){ .name = PR_STR(NAME),
                                    .cron_text = slice_from(cron),
                                    .zone_name = s->zone != NULL ? PR_STR(ZONE) : (pr_slice){ NULL, 0 },
                                    .missed = (enum schedule_missed)random_below(&s->dice, 3),
                                    .grace_us = GRACE_US,
                                    .box = PR_STR("inbox"),
                                    .message = { .type = PR_STR("tick") } };
    ASSERT(cron_parse(c->meaning.cron_text, &c->meaning.cron, &error) == PR_OK);
}

static void draw(struct stage *s)
{
    static const char *const crons[] = { "*/20 * * * *", "30 2 * * *",    "15,45 1-3 * * *", "0 * * * *",
                                         "0 0,2 * * *",  "*/7 2 * * sun", "59 1 * * *",      "5 3 28,29 * *" };
    static const int64_t starts[] = { INT64_C(1774692000000000),
                                      INT64_C(1792839600000000) }; /* days before the changes */
    const struct zone *zone;
    unsigned first = (unsigned)random_below(&s->dice, ARRAY_LENGTH(crons));
    s->wall_offset_us = starts[random_below(&s->dice, 2)];
    s->zone = zone_find(PR_STR(ZONE), &zone, &(struct pr_error){ 0 }) == PR_OK ? zone : NULL;
    s->steps = random_chance(&s->dice, 0.4);
    s->cancels = random_chance(&s->dice, 0.3);
    set_version(s, 0, crons[first]);
    set_version(s, 1, crons[(first + 1 + random_below(&s->dice, ARRAY_LENGTH(crons) - 1)) % ARRAY_LENGTH(crons)]);
    s->endpoint = (struct endpoint_setting){ .name = PR_STR("e0"), .max_attempts = 5, .timeout_us = PR_SECONDS(1) };
}

static void stage_open(struct stage *s, bool sqlite)
{
    struct pr_error error;
    s->clock = (struct clock){ .wall_us = stage_wall, .mono_us = stage_mono, .arg = s };
    const struct store_options options = {
        .url = sqlite ? "sqlite::memory:" : "memory:", .clock = &s->clock, .payload_max = 1 << 20
    };
    s->firings = calloc(FIRINGS_MAX, sizeof(s->firings[0]));
    ASSERT(s->firings != NULL && store_open(&options, &s->store, &error) == PR_OK &&
           store_migrate(&s->store, NULL, 0, &error) == PR_OK);
}

static void stage_close(struct stage *s)
{
    for (unsigned i = 0; i < RUNNERS; i++)
        if (s->runners[i].up)
            runner_drop(s, &s->runners[i]);
    store_close(&s->store);
    free(s->firings);
}

bool schedules_live(uint64_t seed, bool sqlite, enum schedule_bug bug, struct schedule_life_counts *counts,
                    struct breach *ret)
{
    struct stage s = { .bug = bug, .counts = counts, .breach = ret, .mono_us = PR_SECONDS(1) };
    *ret = (struct breach){ 0 };
    die_init(&s.dice, seed, "schedules");
    die_init(&s.ids, seed, "schedule ids");
    draw(&s);
    stage_open(&s, sqlite);
    for (unsigned i = 0; i < RUNNERS; i++)
        runner_start(&s, &s.runners[i], 0);
    s.faults = true;
    run_until(&s, FAULTS_US);
    heal(&s);
    run_until(&s, FAULTS_US + CALM_US);
    if (ret->invariant == NULL)
        check_firings(&s);
    if (ret->invariant == NULL)
        check_complete(&s);
    counts->simulated_us += s.mono_us;
    stage_close(&s);
    return ret->invariant == NULL;
}

bool schedules_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    struct schedule_life_counts own = { 0 };
    bool good = schedules_live(life->seed, life->sqlite, SCHEDULE_BUG_NONE, &own, ret);
    counts->hash = counts->hash * 31 + own.hash;
    counts->messages += own.fired;
    counts->sends += own.fired;
    counts->crashes += own.crashes;
    counts->cycles += own.cycles;
    counts->simulated_us += (double)own.simulated_us;
    return good;
}
