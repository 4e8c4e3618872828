/* Senders.  A transaction draws its seqs when it inserts, and may commit much later, in another order, or never. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
#include "store/memory/memory.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define TRANSACTION_MAX 10                    /* messages */
#define LOSS_AFTER_MAX_US PR_MILLISECONDS(20) /* so that some of it is read, and some of that announced */

/* ---- Parcels ------------------------------------------------------------------------------ */

static struct parcel *parcel_new(struct world *w)
{
    if (w->parcel_count == w->parcel_capacity) {
        w->parcel_capacity = max_size(256, 2 * (size_t)w->parcel_capacity);
        w->parcels = realloc(w->parcels, w->parcel_capacity * sizeof(struct parcel *));
        ASSERT(w->parcels != NULL);
    }
    struct parcel *p = arena_zalloc(&w->arena, sizeof(*p));
    ASSERT(p != NULL);
    p->index = w->parcel_count++;
    w->parcels[p->index] = p;
    return p;
}

struct parcel *world_parcel(struct world *w)
{
    struct parcel *p = parcel_new(w);

    uint8_t bytes[10];
    uint64_t random = random_u64(&w->dice[DIE_IDS]);
    memcpy(bytes, &random, 6);
    memcpy(bytes + 6, &p->index, 4); /* so that world_find() needs no map */
    id_make(world_wall_us(w) / 1000, bytes, &p->m.id);
    return p;
}

/* Raised by a rule, or a dead letter on its way to another endpoint. */
struct parcel *world_adopt(struct world *w, const struct pr_message *m)
{
    struct parcel *p = parcel_new(w);
    char *block = arena_alloc(&w->arena, message_bytes(m) + 1);

    ASSERT(block != NULL);
    message_copy(m, block, &p->m);
    p->settles = w->scenario->settled > 0 && random_chance(&w->dice[DIE_HANDLERS], w->scenario->settled);
    parcel_seal(w, p);
    int rc = map_insert(&w->adopted, &p->adopted, hash_bytes(0, &m->id, sizeof(m->id)));
    ASSERT(rc == PR_OK);
    return p;
}

struct parcel *world_find(struct world *w, pr_id id)
{
    uint32_t index;
    memcpy(&index, id.bytes + 12, sizeof(index));
    if (index < w->parcel_count && pr_id_equal(w->parcels[index]->m.id, id))
        return w->parcels[index];
    for (struct map_node *n = map_first(&w->adopted, hash_bytes(0, &id, sizeof(id))); n != NULL; n = map_next_same(n))
        if (pr_id_equal(MAP_ENTRY(n, struct parcel, adopted)->m.id, id))
            return MAP_ENTRY(n, struct parcel, adopted);
    return NULL;
}

const struct parcel *parcel_next_of_id(const struct parcel *p, const struct parcel *after)
{
    const struct parcel *original = p->original != NULL ? p->original : p;
    return after == NULL ? original : after == original ? original->copy : after->older;
}

/* Of several messages with one id, a part, or its dead letter, belongs to the latest that was split for its endpoint:
 * while it exists, no other is made. */
static struct parcel *latest_with_part(const struct world *w, const struct parcel *original, const struct pr_message *m)
{
    uint16_t destination = world_destination(w, m->destination);
    struct parcel *p = destination != DESTINATION_NONE && destination <= SIM_ENDPOINTS_MAX ? original->copy : NULL;
    while (p != NULL && (p->parts >> destination & 1) == 0)
        p = p->older;
    return p;
}

/* If the id is damaged its payload identifies it; and of several with one id the destination. */
struct parcel *parcel_of(struct world *w, const struct pr_message *m)
{
    struct parcel *p = world_find(w, m->id), *part = p != NULL ? latest_with_part(w, p, m) : NULL;
    uint32_t index;
    if (part != NULL)
        return part;
    if (p != NULL && p->copy != NULL && slice_eq(m->destination, p->copy->m.destination))
        return p->copy;
    if (p != NULL || m->payload.size < sizeof(index))
        return p;
    memcpy(&index, m->payload.data, sizeof(index));
    return index < w->parcel_count ? w->parcels[index] : NULL;
}

void parcel_seal(struct world *w, struct parcel *p)
{
    p->digest = message_digest(&p->m);
    p->delayed = p->m.due_us > world_wall_us(w);
}

void parcel_stored(struct world *w, struct parcel *p)
{
    if (p->place == 0)
        p->place = ++w->places;
    p->stored = true;
    world_note(w, (struct event){ .kind = EVENT_COMMIT,
                                  .instance = INSTANCE_NONE,
                                  .message = p->index,
                                  .destination = world_destination(w, p->m.destination),
                                  .what = p->delayed,
                                  .flag = p->undecodable,
                                  .answer = p->corrects != NULL,
                                  .number = (int32_t)p->place,
                                  .value = p->m.due_us,
                                  .extra = p->digest });
}

static void hear_of_it(struct world *w, void *arg)
{
    struct instance *in = arg;
    in->changed = true;
    instance_wake(in, w->mono_us);
}

/* A wake-up can be lost; then the owner finds the message within poll_us. */
void world_announce(struct world *w)
{
    for (unsigned i = 0; i < w->scenario->instances; i++) {
        struct instance *in = &w->instances[i];
        if (in->state != INSTANCE_UP)
            continue;
        if (random_chance(&w->dice[DIE_WAKES], w->faults.wake_lost))
            world_at(w, w->mono_us + random_between(&w->dice[DIE_WAKES], 1, w->scenario->engine.poll_us), hear_of_it,
                     in, in);
        else
            hear_of_it(w, in);
    }
}

/* A sender's call.  It can store messages although its answer gets lost: then the sender repeats it, with the same
 * ids. */
static int send_call(struct world *w, const struct pr_message *messages, size_t count, pr_id *ids, int *answers)
{
    struct pr_error error;
    struct random *r = &w->dice[DIE_SENDS];
    int *again = calloc(count, sizeof(*again));
    int rc;

    ASSERT(again != NULL);
    rc = store_enqueue(&w->store, w->scenario->engine.box, messages, count, w->scenario->engine.payload_max, ids,
                       answers, &error);
    while (rc == PR_OK && random_chance(r, w->faults.send_again)) {
        rc = store_enqueue(&w->store, w->scenario->engine.box, messages, count, w->scenario->engine.payload_max, ids,
                           again, &error);
        for (size_t i = 0; i < count && rc == PR_OK; i++)
            if (again[i] == PR_OK)
                w->broken = "a message was stored twice";
    }
    free(again);
    return rc;
}

int world_store(struct world *w, struct parcel *const *parcels, size_t count)
{
    struct pr_message *messages = calloc(count, sizeof(*messages));
    int *answers = calloc(count, sizeof(*answers));
    pr_id *ids = calloc(count, sizeof(*ids));
    ASSERT(messages != NULL && answers != NULL && ids != NULL);
    for (size_t i = 0; i < count; i++)
        messages[i] = parcels[i]->m;
    int rc = send_call(w, messages, count, ids, answers);
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        if (answers[i] == PR_OK)
            parcel_stored(w, parcels[i]);
        else if (parcels[i]->original != NULL)
            world_note(
                w, (struct event){ .kind = EVENT_REFUSED, .instance = INSTANCE_NONE, .message = parcels[i]->index });
    }
    free(messages);
    free(answers);
    free(ids);
    if (rc == PR_OK)
        world_announce(w);
    return rc;
}

/* ---- What senders write --------------------------------------------------------------------- */

static pr_slice draw_payload(struct world *w, const struct parcel *p)
{
    size_t size = 4 + random_below(&w->dice[DIE_PAYLOADS], w->scenario->payload_max);
    char *data = arena_alloc(&w->arena, size + 8);
    ASSERT(data != NULL);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t bytes = random_u64(&w->dice[DIE_PAYLOADS]);
        memcpy(data + i, &bytes, 8);
    }
    memcpy(data, &p->index, 4); /* a row whose id is damaged is known by this */
    return PR_BYTES(data, size);
}

static struct parcel *draw_parcel(struct world *w)
{
    const struct scenario *s = w->scenario;
    struct random *r = &w->dice[DIE_MESSAGES], *delays = &w->dice[DIE_DELAYS], *expiry = &w->dice[DIE_EXPIRY];
    struct parcel *p = world_parcel(w);
    struct pr_message *m = &p->m;

    m->type = scenario_type((unsigned)random_below(r, s->crowded ? 3 : SIM_TYPES));
    m->payload = draw_payload(w, p);
    if (!random_chance(r, s->no_stream))
        m->stream = arena_printf(&w->arena, "s%u", (unsigned)random_below(r, s->streams));
    if (random_chance(r, s->to_nowhere))
        m->destination = PR_STR("nowhere");
    else if (random_chance(r, s->to_endpoint))
        m->destination = s->endpoints[random_below(r, s->engine.endpoint_count)].name;
    if (random_chance(r, 0.3))
        m->headers = scenario_headers(1 + (unsigned)random_below(&w->dice[DIE_ORIGINS], SIM_HEADERS - 1));
    m->source = scenario_source((unsigned)random_below(&w->dice[DIE_ORIGINS], SIM_SOURCES));
    if (random_chance(r, 0.3))
        m->subject = PR_STR("\xc3\xa4 subject");
    if (random_chance(delays, s->delayed))
        m->due_us = world_wall_us(w) + random_between(delays, 1, s->delay_max_us);
    if (random_chance(expiry, s->expiring))
        m->expires_us = world_wall_us(w) + random_between(expiry, 1, s->expire_max_us);
    p->poison = random_chance(&w->dice[DIE_POISON], w->faults.poison);
    p->bad = random_chance(&w->dice[DIE_BAD], w->faults.bad);
    p->undecodable = random_chance(&w->dice[DIE_UNDECODABLE], w->faults.undecodable);
    p->settles = s->settled > 0 && random_chance(&w->dice[DIE_HANDLERS], s->settled);
    return p;
}

struct parcel *world_draw_parcel(struct world *w)
{
    return draw_parcel(w);
}

/* The message that its handler sends when it has handled it: stored with the verdict, or not at all. */
static void draw_effect(struct world *w, struct parcel *p)
{
    if (!random_chance(&w->dice[DIE_EFFECTS], w->scenario->with_effect) || !scenario_is_whole(w->scenario, &p->m))
        return;
    p->typed = random_chance(&w->dice[DIE_EFFECTS], 0.5)
                   ? 1 + (unsigned)random_below(&w->dice[DIE_EFFECTS], SIM_EFFECT_KEYS)
                   : 0;
    if (p->typed > 0)
        return;
    p->effect = draw_parcel(w);
    p->effect->undecodable = false;
    parcel_seal(w, p->effect);
}

/* ---- The same again ------------------------------------------------------------------------------ */

static void copy_arrives(struct world *w, void *arg)
{
    struct parcel *p = arg;
    struct memory_tx *tx = NULL;
    w->open_transactions--;
    parcel_seal(w, p);
    if (!w->scenario->sqlite && random_chance(&w->dice[DIE_COPIES], 0.5))
        tx = memory_tx_begin(&w->store); /* a plain INSERT: nobody looks */
    if (tx == NULL) {
        if (world_store(w, &p, 1) != PR_OK)
            w->broken = "a sender could not store its message";
        return;
    }
    int rc = memory_tx_insert(tx, w->scenario->engine.box, &p->m);
    ASSERT(rc == PR_OK);
    memory_tx_commit(tx);
    parcel_stored(w, p);
    world_announce(w);
}

/* Its sender does not know that it sent it already, and names the endpoint that the routes would choose, or the other
 * way round; possibly in another stream, and so in another lane. */
static void draw_copy(struct world *w, struct parcel *p)
{
    const struct scenario *s = w->scenario;
    struct random *r = &w->dice[DIE_COPIES];
    unsigned targets[SIM_ENDPOINTS_MAX], same[SIM_ENDPOINTS_MAX];
    if (!random_chance(r, s->copied) || scenario_targets(s, &p->m, targets) != 1)
        return;
    struct parcel *copy = world_parcel(w);
    copy->m = p->m;
    copy->original = p;
    copy->settles = s->settled > 0 && random_chance(r, s->settled);
    copy->m.due_us = 0; /* what has a due time, be it over, has left the order of its stream */
    copy->m.payload = draw_payload(w, copy);
    copy->m.destination = slice_is_empty(p->m.destination) ? s->endpoints[targets[0]].name : (pr_slice){ NULL, 0 };
    if (random_chance(r, 0.5))
        copy->m.stream = arena_printf(&w->arena, "s%u", (unsigned)random_below(r, s->streams));
    if (scenario_targets(s, &copy->m, same) != 1 || same[0] != targets[0])
        return; /* nobody sends it */
    if (!slice_eq(scenario_handler(s, &copy->m), scenario_handler(s, &p->m)))
        return; /* an override sends it elsewhere: its handler is another one (core/mark.h) */
    p->copy = copy;
}

/* At the same moment, soon, or long after it was handled. */
static void copy_send(struct world *w, struct parcel *p)
{
    struct random *r = &w->dice[DIE_COPIES];
    const int64_t within_us[] = { PR_MILLISECONDS(2), PR_SECONDS(2), w->scenario->safety_us / 4 };
    if (p->copy == NULL || !p->stored)
        return;
    w->open_transactions++;
    world_at(w, w->mono_us + random_between(r, 0, within_us[random_below(r, ARRAY_LENGTH(within_us))]), copy_arrives,
             p->copy, NULL);
}

/* ---- Transactions ------------------------------------------------------------------------------ */

struct transaction {
    struct memory_tx *memory; /* NULL: stored at the end, in the order of the commits */
    struct parcel *parcels[TRANSACTION_MAX];
    size_t count;
    bool rollback;
};

/* Bypasses all checks, like an INSERT by hand. */
static int plant_sqlite(struct world *w, const struct pr_message *m)
{
    struct pr_error error;
    struct conn *conn;
    int rc = store_people(w->store.self, false, &conn, &error);
    return rc == PR_OK ? message_insert(conn, w->scenario->engine.box, m, world_wall_us(w), &error) : rc;
}

static void plant_undecodable(struct world *w, struct parcel *p)
{
    static const char *const defects[] = { "the id is damaged", "headers are not an object" };
    const char *defect = defects[random_below(&w->dice[DIE_UNDECODABLE], ARRAY_LENGTH(defects))];
    p->place = ++w->places;
    p->m.due_us = 0;
    if (w->scenario->sqlite)
        p->m.headers = PR_STR("[\"no object\"]");
    parcel_seal(w, p);
    int rc =
        w->scenario->sqlite ? plant_sqlite(w, &p->m) : memory_plant(&w->store, w->scenario->engine.box, &p->m, defect);
    ASSERT(rc == PR_OK);
    parcel_stored(w, p);
}

static void message_lost(void *arg, const struct pr_message *m)
{
    struct world *w = arg;
    struct parcel *p = parcel_of(w, m);
    if (p == NULL) {
        w->broken = "a row was lost that nobody sent";
        return;
    }
    p->stored = false;
    world_note(w, (struct event){ .kind = EVENT_UNSTORED, .instance = INSTANCE_NONE, .message = p->index });
}

/* Connections end with the server that lost the commits: what was on its way over one does not arrive any more. */
void world_lose(struct world *w)
{
    for (unsigned i = 0; i < SIM_INSTANCES_MAX; i++) {
        w->instances[i].late_number = 0;
        w->instances[i].loss_unheard = true;
    }
    (void)memory_lose(&w->store, false, message_lost, w);
}

static void lose_commits(struct world *w, void *arg)
{
    (void)arg;
    if (!w->healed)
        world_lose(w);
}

static void transaction_end(struct world *w, void *arg)
{
    struct transaction *t = arg;
    w->open_transactions--;
    if (t->memory != NULL)
        (t->rollback ? memory_tx_rollback : memory_tx_commit)(t->memory);
    for (size_t i = 0; i < t->count; i++) {
        struct parcel *p = t->parcels[i];
        if (t->rollback)
            world_note(w, (struct event){ .kind = EVENT_ROLLBACK, .instance = INSTANCE_NONE, .message = p->index });
        else if (t->memory != NULL)
            parcel_stored(w, p);
    }
    if (!t->rollback && t->memory == NULL && world_store(w, t->parcels, t->count) != PR_OK)
        w->broken = "a sender could not store its messages";
    if (!t->rollback && t->memory != NULL)
        world_announce(w);
    for (size_t i = 0; i < t->count; i++)
        copy_send(w, t->parcels[i]);
    if (t->memory != NULL && random_chance(&w->dice[DIE_LOSSES], w->faults.lost))
        world_at(w, w->mono_us + random_between(&w->dice[DIE_LOSSES], 0, LOSS_AFTER_MAX_US), lose_commits, NULL, NULL);
}

static void transaction_begin(struct world *w)
{
    struct transaction *t = arena_zalloc(&w->arena, sizeof(*t));
    ASSERT(t != NULL);
    t->rollback = random_chance(&w->dice[DIE_ROLLBACKS], w->faults.rollback);
    bool by_call = w->scenario->sqlite || random_chance(&w->dice[DIE_SENDS], w->faults.send_again);
    t->memory = by_call ? NULL : memory_tx_begin(&w->store);
    ASSERT(by_call || t->memory != NULL);
    size_t count = (size_t)random_between(&w->dice[DIE_TRANSACTIONS], 1, TRANSACTION_MAX);
    for (size_t i = 0; i < count && w->produced < w->scenario->messages; i++, w->produced++) {
        struct parcel *p = draw_parcel(w);
        if (p->undecodable) {
            plant_undecodable(w, p);
            continue;
        }
        parcel_seal(w, p);
        draw_effect(w, p);
        draw_copy(w, p);
        if (inline_send_fails(w, p))
            continue;
        if (t->memory != NULL) {
            p->place = ++w->places;
            int rc = memory_tx_insert(t->memory, w->scenario->engine.box, &p->m);
            ASSERT(rc == PR_OK);
        }
        t->parcels[t->count++] = p;
    }
    w->open_transactions++;
    int64_t open_us =
        random_chance(&w->dice[DIE_LATE_COMMITS], w->faults.late)
            ? random_between(&w->dice[DIE_LATE_COMMITS], 1, min64(PR_MINUTES(360), w->scenario->safety_us / 4))
            : random_between(&w->dice[DIE_TRANSACTIONS], 0, PR_MILLISECONDS(5));
    world_at(w, w->mono_us + open_us, transaction_end, t, NULL);
}

static void produce(struct world *w, void *arg)
{
    int64_t mean_us = *(int64_t *)arg;
    if (w->produced >= w->scenario->messages || w->healed)
        return;
    transaction_begin(w);
    int64_t wait_us = random_chance(&w->dice[DIE_SENDERS], 0.3)
                          ? 0
                          : (int64_t)(-log(1 - random_double(&w->dice[DIE_SENDERS])) * (double)mean_us);
    world_at(w, w->mono_us + wait_us, produce, arg, NULL);
}

void workload_begin(struct world *w)
{
    const struct scenario *s = w->scenario;
    int64_t *mean_us = arena_alloc(&w->arena, sizeof(*mean_us));
    ASSERT(mean_us != NULL);
    *mean_us = (int64_t)((double)s->safety_us * 0.7 * random_double(&w->dice[DIE_SENDERS]) * (TRANSACTION_MAX / 2.0) /
                         ((double)s->messages / s->producers + 1));
    for (unsigned i = 0; i < s->producers; i++)
        world_at(w, w->mono_us, produce, mean_us, NULL);
}
