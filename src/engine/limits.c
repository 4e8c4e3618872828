#include "engine/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "engine/engine.h"

#define WINDOW_MIN 64   /* with a smaller window nothing flows */
#define LEAST_DIVISOR 2 /* half of the window is divided evenly; the other half goes to the engines that need it */

/* ---- Life ------------------------------------------------------------------------------------- */

static size_t room_for(const struct limits_setting *s)
{
    return s->endpoint_count + ENDPOINTS_SPARE;
}

size_t limits_lock_count(const struct limits_setting *setting)
{
    return room_for(setting) + 1;
}

/* In each engine every endpoint must be able to hold something while all others hold their share. */
static void window_init(struct limits *l)
{
    struct limits_setting *s = &l->setting;
    size_t parts = s->engines > 1 ? LEAST_DIVISOR * s->engines : 1;

    l->least_count = max_size(s->window_count / parts, WINDOW_MIN + 4 * s->endpoint_count);
    s->window_count = max_size(s->window_count, s->engines * l->least_count);
    s->window_bytes = max_size(s->window_bytes, 4 * min_size(s->payload_max, LATE_BYTES));
    l->least_bytes = s->window_bytes / parts;
}

struct limits *limits_new(const struct limits_setting *setting)
{
    struct limits *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->setting = *setting;
    l->endpoint_room = room_for(setting);
    l->endpoints = calloc(l->endpoint_room, sizeof(*l->endpoints));
    list_init(&l->members);
    if (l->endpoints == NULL) {
        free(l);
        return NULL;
    }
    window_init(l);
    for (size_t i = 0; i < l->endpoint_room; i++) {
        struct endpoint_limits *ep = &l->endpoints[i];
        ep->limits = l;
        ep->index = (unsigned)i;
        list_init(&ep->line);
        map_init(&ep->breakers);
    }
    return l;
}

void last_failure_fini(struct last_failure *m)
{
    free(m->code);
    free(m->error);
    *m = (struct last_failure){ 0 };
}

void limits_free(struct limits *l)
{
    if (l == NULL)
        return;
    ASSERT(list_is_empty(&l->members));
    for (size_t i = 0; i < l->endpoint_room; i++) {
        last_failure_fini(&l->endpoints[i].gate.last_failure);
        map_fini(&l->endpoints[i].breakers); /* the engines have returned their breakers */
    }
    free(l->endpoints);
    free(l);
}

bool limits_are_shared(const struct limits *l)
{
    return l->setting.engines > 1;
}

static void lock(const struct limits *l, size_t index)
{
    if (l->setting.lock != NULL)
        l->setting.lock(l->setting.lock_arg, index);
}

static void unlock(const struct limits *l, size_t index)
{
    if (l->setting.unlock != NULL)
        l->setting.unlock(l->setting.lock_arg, index);
}

void limits_lock(struct endpoint_limits *l)
{
    lock(l->limits, l->index);
}

void limits_unlock(struct endpoint_limits *l)
{
    unlock(l->limits, l->index);
}

void limits_join(struct limits *l, struct limits_member *m)
{
    lock(l, l->endpoint_room);
    list_push_back(&l->members, &m->node);
    unlock(l, l->endpoint_room);
}

void limits_leave(struct limits *l, struct limits_member *m)
{
    lock(l, l->endpoint_room);
    list_remove(&m->node);
    unlock(l, l->endpoint_room);
}

void limits_wake_all(struct limits *l)
{
    lock(l, l->endpoint_room);
    list_foreach(node, &l->members) {
        const struct limits_member *m = LIST_ENTRY(node, struct limits_member, node);
        if (m->wake != NULL)
            m->wake(m->wake_arg);
    }
    unlock(l, l->endpoint_room);
}

/* ---- Suspects --------------------------------------------------------------------------------- */

static void suspects_changed(struct limits *l)
{
    if (limits_are_shared(l) && atomic_load(&l->suspects_wait) && atomic_exchange(&l->suspects_wait, false))
        limits_wake_all(l);
}

/* Takes over the seats of engines whose cycle has been under way for too long: their store may not answer for
 * minutes. */
static void take_seats(struct limits *l, struct limits_member *m, int64_t now_us)
{
    m->look_us = PR_NEVER;
    lock(l, l->endpoint_room);
    list_foreach(node, &l->members) {
        struct limits_member *other = LIST_ENTRY(node, struct limits_member, node);
        int64_t since_us = atomic_load(&other->cycle_since_us);
        uint64_t seats = atomic_load(&other->seats);
        bool holds_up = (seats != 0 && seats != SEATS_TAKEN) || atomic_load(&other->suspect_waits);
        if (other == m || since_us == 0 || !holds_up)
            continue;
        if (now_us - since_us < LIMITS_SEAT_US) {
            m->look_us = min64(m->look_us, since_us + LIMITS_SEAT_US);
            continue;
        }
        seats = atomic_exchange(&other->seats, SEATS_TAKEN);
        suspect_limit_leave_all(&l->suspects, seats != SEATS_TAKEN ? seats : 0);
        if (atomic_exchange(&other->suspect_waits, false))
            suspect_limit_wait_over(&l->suspects);
    }
    unlock(l, l->endpoint_room);
}

bool limits_suspect_may_enter(struct limits *l, struct limits_member *m, unsigned level, int64_t now_us)
{
    m->look_us = PR_NEVER;
    if (suspect_limit_allows(&l->suspects, level))
        return true;
    atomic_store(&l->suspects_wait, true); /* and look again: a seat may have become free in between */
    if (limits_are_shared(l))
        take_seats(l, m, now_us);
    return suspect_limit_allows(&l->suspects, level);
}

void limits_suspect_leave(struct limits *l, unsigned level)
{
    suspect_limit_leave(&l->suspects, level);
    suspects_changed(l);
}

void limits_suspect_waits(struct limits *l, struct limits_member *m, bool waits)
{
    if (atomic_exchange(&m->suspect_waits, waits) == waits)
        return;
    if (waits) {
        suspect_limit_wait(&l->suspects);
        return;
    }
    suspect_limit_wait_over(&l->suspects);
    suspects_changed(l);
}

void limits_seats_at_risk(struct limits *l, struct limits_member *m, uint64_t seats, int64_t now_us)
{
    if (!limits_are_shared(l))
        return;
    atomic_store(&m->seats, seats);
    atomic_store(&m->cycle_since_us, max64(now_us, 1));
    if (seats != 0)
        suspects_changed(l); /* engines that wait for them now know for how long */
}

bool limits_seats_kept(struct limits *l, struct limits_member *m)
{
    if (!limits_are_shared(l))
        return true;
    atomic_store(&m->cycle_since_us, 0);
    return atomic_exchange(&m->seats, 0) != SEATS_TAKEN;
}

static bool change_seats(struct limits_member *m, uint64_t change)
{
    uint64_t seats = atomic_load(&m->seats);

    do {
        if (seats == SEATS_TAKEN)
            return false;
    } while (!atomic_compare_exchange_weak(&m->seats, &seats, seats + change));
    return true;
}

bool limits_seat_at_risk(struct limits *l, struct limits_member *m, unsigned level)
{
    bool counted = change_seats(m, suspect_limit_seat(level));
    suspects_changed(l);
    return counted;
}

bool limits_seat_kept(struct limits_member *m, unsigned level)
{
    return change_seats(m, -suspect_limit_seat(level));
}

/* ---- The line --------------------------------------------------------------------------------- */

static void wake(const struct limits_use *use)
{
    if (use->wake != NULL)
        use->wake(use->wake_arg);
}

/* There may be room: for the first in line that has less than its share, or else for all.  An engine that kept others
 * waiting may be stuck, and is not relied on. */
static void wake_line(const struct endpoint_limits *l)
{
    bool found = false;

    list_foreach(node, &l->line) {
        const struct limits_use *use = LIST_ENTRY(node, struct limits_use, line);
        if (!use->entitled)
            continue;
        wake(use);
        found = use->blocks_since_us == 0;
        if (found)
            return;
    }
    list_foreach(node, &l->line)
        wake(LIST_ENTRY(node, struct limits_use, line));
}

static bool is_user(const struct limits_use *use)
{
    return use->slots > 0 || use->waits;
}

static void enter_line(struct endpoint_limits *l, struct limits_use *use, bool entitled)
{
    use->entitled = entitled;
    if (use->waits)
        return;
    l->users += !is_user(use);
    use->waits = true;
    list_push_back(&l->line, &use->line);
}

static void leave_line(struct endpoint_limits *l, struct limits_use *use)
{
    if (!use->waits)
        return;
    use->waits = use->entitled = false;
    use->blocks_since_us = 0;
    list_remove(&use->line);
    l->users -= !is_user(use);
}

void limits_wait_over(struct endpoint_limits *l, struct limits_use *use)
{
    if (!use->waits)
        return;
    leave_line(l, use);
    use->look_us = PR_NEVER;
    wake_line(l);
}

/* Uses that wait with less than their share, other than this one. */
struct rivals {
    size_t before; /* those before it in line: each is left room for one */
    bool any;
};

static bool is_stuck(const struct limits_use *use, int64_t now_us)
{
    return use->blocks_since_us != 0 && now_us - use->blocks_since_us >= LIMITS_TURN_US;
}

static struct rivals rivals_of(const struct endpoint_limits *l, const struct limits_use *use, int64_t now_us)
{
    struct rivals r = { 0 };
    bool behind = false;

    list_foreach(node, &l->line) {
        const struct limits_use *other = LIST_ENTRY(node, struct limits_use, line);
        behind = behind || other == use;
        if (other == use || !other->entitled || is_stuck(other, now_us))
            continue;
        r.before += !behind;
        r.any = true;
    }
    return r;
}

/* Blames the first in line from now on; returns when that one counts no more. */
static int64_t blame_first(struct endpoint_limits *l, const struct limits_use *use, int64_t now_us)
{
    int64_t look_us = PR_NEVER;

    list_foreach(node, &l->line) {
        struct limits_use *other = LIST_ENTRY(node, struct limits_use, line);
        if (other == use)
            break;
        if (!other->entitled || is_stuck(other, now_us))
            continue;
        if (other->blocks_since_us == 0)
            other->blocks_since_us = now_us;
        look_us = min64(look_us, other->blocks_since_us + LIMITS_TURN_US);
    }
    return look_us;
}

/* ---- Rate and concurrency --------------------------------------------------------------------- */

/* Tokens that are missing are missing by the new rate, too. */
static void follow_rate(struct endpoint_limits *l, const struct rate_setting *s)
{
    const struct rate_setting *old = &l->rate_setting;

    if (old->count == s->count && old->period_us == s->period_us)
        return;
    if (old->count > 0 && s->count > 0)
        rate_retune(&l->rate, old, s);
    else
        l->rate = (struct rate){ .at_us = l->rate.at_us };
    l->rate_setting = *s;
}

static bool has_slots(const struct endpoint_limits *l, const struct endpoint_setting *s)
{
    return s->concurrency_shared && s->concurrency > 0 && limits_are_shared(l->limits);
}

/* Does it use as much of the concurrency as is its share while all engines need some? */
static bool has_share(const struct endpoint_limits *l, const struct limits_use *use, const struct endpoint_setting *s)
{
    size_t users = max_size(l->users + !is_user(use), 1);
    return has_slots(l, s) && use->slots >= (s->concurrency + users - 1) / users;
}

/* An engine that has all the slots may have some more messages wait at its transport: no other engine's can begin
 * meanwhile. */
static bool fits(const struct endpoint_limits *l, const struct limits_use *use, const struct endpoint_setting *s,
                 size_t left, int64_t now_us)
{
    if (has_slots(l, s) && use->slots < s->concurrency && l->slots + left >= s->concurrency)
        return false;
    return rate_allows(&l->rate, &s->rate, l->pledged + left, now_us);
}

bool limits_may_take(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                     int64_t now_us)
{
    follow_rate(l, &s->rate);
    if (!limits_are_shared(l->limits))
        return rate_allows(&l->rate, &s->rate, l->pledged, now_us);

    struct rivals rivals = rivals_of(l, use, now_us);
    bool sated = has_share(l, use, s);

    use->blocks_since_us = 0;
    use->look_us = PR_NEVER;
    if (!(sated && rivals.any) && fits(l, use, s, rivals.before, now_us))
        return true;
    if (rivals.before > 0 && fits(l, use, s, 0, now_us))
        use->look_us = blame_first(l, use, now_us);
    enter_line(l, use, !sated);
    return false;
}

void limits_taken(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s)
{
    leave_line(l, use);
    if (has_slots(l, s) && use->slots < s->concurrency) {
        l->users += !is_user(use);
        use->slots++;
        l->slots++;
    }
    use->pledged++;
    l->pledged++;
    if (!list_is_empty(&l->line) && (!has_slots(l, s) || l->slots < s->concurrency))
        wake_line(l);
}

uint32_t limits_begin(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s,
                      int64_t now_us)
{
    follow_rate(l, &s->rate);
    ASSERT(use->pledged > 0 && l->pledged > 0);
    use->pledged--;
    l->pledged--;
    return rate_take(&l->rate, &s->rate, now_us);
}

void limits_pass(struct endpoint_limits *l, struct limits_use *use, const struct endpoint_setting *s, int64_t now_us)
{
    follow_rate(l, &s->rate);
    leave_line(l, use);
    (void)rate_take(&l->rate, &s->rate, now_us);
    if (!list_is_empty(&l->line))
        wake_line(l);
}

void limits_unsent(struct endpoint_limits *l, const struct endpoint_setting *s, uint32_t taken)
{
    follow_rate(l, &s->rate);
    rate_give_back(&l->rate, &s->rate, taken);
    if (s->rate.count > 0)
        wake_line(l);
}

void limits_settle(struct endpoint_limits *l, struct limits_use *use, size_t out, size_t pledged)
{
    bool room = use->pledged > pledged || use->slots > out;

    l->pledged += pledged - use->pledged;
    use->pledged = pledged;
    if (use->slots > out) {
        l->slots -= use->slots - out;
        use->slots = out;
        l->users -= !is_user(use);
    }
    if (room)
        wake_line(l);
}

int64_t limits_next_us(struct endpoint_limits *l, const struct limits_use *use, const struct endpoint_setting *s,
                       int64_t now_us)
{
    size_t before = use->waits ? rivals_of(l, use, now_us).before : 0;
    int64_t next_us = PR_NEVER;

    follow_rate(l, &s->rate);
    if (s->rate.count > 0)
        next_us = rate_next_us(&l->rate, &s->rate, l->pledged + before);
    return next_us > now_us ? min64(next_us, use->look_us) : use->look_us;
}

/* ---- Breakers --------------------------------------------------------------------------------- */

struct shared_breaker *limits_breaker_get(struct endpoint_limits *l, pr_slice type)
{
    uint64_t hash = hash_slice(0, type);
    struct shared_breaker *b;

    for (struct map_node *n = map_first(&l->breakers, hash); n != NULL; n = map_next_same(n)) {
        b = MAP_ENTRY(n, struct shared_breaker, node);
        if (slice_eq(b->type, type)) {
            b->refs++;
            return b;
        }
    }
    b = calloc(1, sizeof(*b) + type.size);
    if (b == NULL)
        return NULL;
    b->refs = 1;
    memcpy(b + 1, type.data, type.size);
    b->type = (pr_slice){ (const char *)(b + 1), type.size };
    if (map_insert(&l->breakers, &b->node, hash) == PR_OK)
        return b;
    free(b);
    return NULL;
}

void limits_breaker_put(struct endpoint_limits *l, struct shared_breaker *b)
{
    ASSERT(b->refs > 0);
    if (--b->refs > 0)
        return;
    map_remove(&l->breakers, &b->node);
    last_failure_fini(&b->last_failure);
    free(b);
}

void limits_breaker_changed(struct endpoint_limits *l)
{
    atomic_fetch_add(&l->changes, 1);
    if (limits_are_shared(l->limits))
        limits_wake_all(l->limits);
}

/* ---- The window ------------------------------------------------------------------------------- */

/* Its least, and what others leave of the shared rest. */
static size_t window_of(size_t all, size_t least, size_t engines, size_t over, size_t mine)
{
    size_t rest = all - least * engines, own = mine > least ? mine - least : 0;
    size_t others = over > own ? over - own : 0;
    return least + (rest > others ? rest - others : 0);
}

size_t limits_window_count(const struct limits *l, size_t mine)
{
    const struct limits_setting *s = &l->setting;
    if (!limits_are_shared(l))
        return s->window_count;
    return window_of(s->window_count, l->least_count, s->engines, atomic_load(&l->over_count), mine);
}

size_t limits_window_bytes(const struct limits *l, size_t mine)
{
    const struct limits_setting *s = &l->setting;
    if (!limits_are_shared(l))
        return s->window_bytes;
    return window_of(s->window_bytes, l->least_bytes, s->engines, atomic_load(&l->over_bytes), mine);
}

static bool window_moves(_Atomic size_t *over, size_t least, size_t before, size_t after)
{
    size_t had = before > least ? before - least : 0, has = after > least ? after - least : 0;

    if (had != has)
        atomic_fetch_add(over, has - had); /* has may be less: the difference wraps around */
    return has < had;
}

void limits_window_changed(struct limits *l, size_t before, size_t after, size_t bytes_before, size_t bytes_after)
{
    if (!limits_are_shared(l))
        return;
    bool room = window_moves(&l->over_count, l->least_count, before, after);
    room |= window_moves(&l->over_bytes, l->least_bytes, bytes_before, bytes_after);
    if (room && atomic_load(&l->window_waits) && atomic_exchange(&l->window_waits, false))
        limits_wake_all(l);
}

/* ---- Large payloads ------------------------------------------------------------------------------ */

#define LOAD_FIRST_US PR_SECONDS(1) /* an endpoint whose payload found no room is waited for no longer than this */

bool limits_may_load(struct limits *l, const void *who, size_t bytes, size_t window, bool take, int64_t now_us)
{
    lock(l, l->endpoint_room);
    bool behind = l->load_first != NULL && l->load_first != who && now_us < l->load_first_until;
    bool fits = l->load_bytes == 0 || l->load_bytes + bytes + window <= l->setting.window_bytes;
    if (!fits && !behind) {
        l->load_first = who;
        l->load_first_until = now_us + LOAD_FIRST_US;
    }
    if (fits && !behind && take) {
        l->load_bytes += bytes;
        l->load_first = NULL;
    }
    l->loads_wait |= !fits || behind;
    unlock(l, l->endpoint_room);
    return fits && !behind;
}

void limits_unload(struct limits *l, size_t bytes)
{
    lock(l, l->endpoint_room);
    ASSERT(l->load_bytes >= bytes);
    l->load_bytes -= bytes;
    bool wake = l->loads_wait && limits_are_shared(l);
    l->loads_wait = false;
    unlock(l, l->endpoint_room);
    if (wake)
        limits_wake_all(l);
}
