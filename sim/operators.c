/* People: they look at messages, and act at random.  The rows that they touched are recorded in the history as the
 * store shows them afterwards. */
#include "world.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

static void note_seen(struct world *w, const struct parcel *p, const struct listed *row)
{
    world_note(w, (struct event){ .kind = EVENT_SEEN,
                                  .instance = INSTANCE_NONE,
                                  .message = p->index,
                                  .destination = world_destination(w, row->m.destination),
                                  .what = (uint16_t)row->state,
                                  .number = row->m.attempts,
                                  .value = row->m.failures,
                                  .flag = (uint16_t)((row->m.released ? SEEN_RELEASED : 0) |
                                                     (row->m.due_us == PR_NEVER          ? SEEN_PARKED
                                                      : row->m.due_us > world_wall_us(w) ? SEEN_NOT_DUE
                                                                                         : 0) |
                                                     (pr_id_is_zero(row->edited_as) ? 0 : SEEN_CORRECTED)),
                                  .answer = row->bad != NULL,
                                  .extra = message_digest(&row->m) });
}

static void note_admin(struct world *w, enum event_kind kind, const struct parcel *p, uint16_t what)
{
    world_note(w,
               (struct event){ .kind = (uint8_t)kind, .instance = INSTANCE_NONE, .message = p->index, .what = what });
}

/* Also for all others with its id, which an order by id includes. */
static void note_admin_of_id(struct world *w, enum event_kind kind, const struct parcel *p, uint16_t what)
{
    note_admin(w, kind, p, what);
    for (const struct parcel *twin = parcel_next_of_id(p, NULL); twin != NULL; twin = parcel_next_of_id(p, twin))
        if (twin != p && twin->stored)
            note_admin(w, kind, twin, what);
}

static void world_show(struct world *w, const struct parcel *p)
{
    struct arena arena;
    struct query_reply reply;
    struct pr_error error;
    struct query query = { .kind = QUERY_ID, .filter = { .ids = &p->m.id, .id_count = 1, .state = -1 } };

    arena_init(&arena, 4096);
    int rc = store_query(&w->store, &query, &arena, &reply, &error);
    ASSERT(rc == PR_OK);
    for (size_t i = 0; i < reply.listed_count; i++)
        if (slice_eq(reply.listed[i].box, w->scenario->engine.box))
            note_seen(w, parcel_of(w, &reply.listed[i].m), &reply.listed[i]);
    arena_fini(&arena);
    note_admin_of_id(w, EVENT_ADMIN_END, p, 0);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define SHOWN_MAX 1000000 /* all of them */

/* A row that was found, in the list of its message. */
struct shown {
    struct shown *next;
    const struct listed *row;
};

struct operator_view {
    struct arena arena;
    struct shown **first; /* of each message */
};

/* In the order in which a query by id would find them: the box, dead letters, done. */
static void view_init(struct world *w, pr_slice stream, struct operator_view *v)
{
    const struct filter filter = { .box = w->scenario->engine.box, .state = -1, .stream = stream, .limit = SHOWN_MAX };
    struct query queries[] = {
        { .kind = QUERY_MESSAGES, .filter = filter },
        { .kind = QUERY_DEAD, .filter = filter },
        { .kind = QUERY_MESSAGES, .filter = filter },
    };
    queries[0].filter.state = STATE_DONE;
    arena_init(&v->arena, 1 << 16);
    v->first = arena_alloc_array(&v->arena, (size_t)w->parcel_count + 1, sizeof(struct shown *));
    ASSERT(v->first != NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(queries); i++) {
        struct query_reply reply;
        int rc = store_query(&w->store, &queries[i], &v->arena, &reply, NULL);
        ASSERT(rc == PR_OK);
        for (size_t k = reply.listed_count; k-- > 0;) {
            const struct parcel *p = parcel_of(w, &reply.listed[k].m);
            struct shown *one = arena_alloc(&v->arena, sizeof(*one));
            ASSERT(one != NULL);
            if (p == NULL)
                continue; /* its id is damaged */
            *one = (struct shown){ v->first[p->index], &reply.listed[k] };
            v->first[p->index] = one;
        }
    }
}

static void view_show(struct world *w, const struct operator_view *v, const struct parcel *p)
{
    for (const struct shown *one = v->first[p->index]; one != NULL; one = one->next)
        note_seen(w, p, one->row);
    note_admin(w, EVENT_ADMIN_END, p, 0);
}

void world_show_all(struct world *w)
{
    struct operator_view v;
    view_init(w, (pr_slice){ NULL, 0 }, &v);
    for (uint32_t i = 0; i < w->parcel_count; i++) {
        if (!w->parcels[i]->stored)
            continue;
        note_admin(w, EVENT_ADMIN, w->parcels[i], UINT16_MAX);
        view_show(w, &v, w->parcels[i]);
    }
    arena_fini(&v.arena);
}

/* ---- Acting ------------------------------------------------------------------------------------ */

static void admin_do(struct world *w, const struct admin *admin)
{
    struct admin_reply reply;
    struct pr_error error;
    int rc = store_admin(&w->store, admin, &reply, &error);
    while (rc == PR_OK && random_chance(&w->dice[DIE_ORDERS], w->faults.order_again))
        rc = store_admin(&w->store, admin, &reply, &error);
    if (rc != PR_OK && rc != PR_ENOTFOUND)
        w->broken = "an operator's command failed";
    world_announce(w);
}

/* Records before the action which messages it may touch, and afterwards their states. */
void world_admin(struct world *w, enum admin_kind kind, const struct parcel *p)
{
    struct admin admin = { .kind = kind,
                           .filter = { .box = w->scenario->engine.box, .ids = &p->m.id, .id_count = 1, .state = -1 },
                           .by = PR_STR("sim"),
                           .why = PR_STR("dice") };
    note_admin_of_id(w, EVENT_ADMIN, p, (uint16_t)kind);
    admin_do(w, &admin);
    world_show(w, p);
}

enum share { SHARE_ALL, SHARE_ODD, SHARE_EVEN };

/* The messages of a stream: all of them, or every other one. */
static void admin_stream(struct world *w, enum admin_kind kind, pr_slice stream, enum share share)
{
    struct operator_view v;
    size_t count = 0, met = 0;
    struct arena arena;
    struct admin admin = { .kind = kind,
                           .filter = { .box = w->scenario->engine.box, .stream = stream, .state = -1 },
                           .by = PR_STR("sim"),
                           .why = PR_STR("dice") };
    arena_init(&arena, 4096);
    pr_id *ids = arena_alloc_array(&arena, w->parcel_count, sizeof(ids[0]));
    const struct parcel **meant = arena_alloc_array(&arena, w->parcel_count, sizeof(meant[0]));
    ASSERT(ids != NULL && meant != NULL);
    for (uint32_t i = 0; i < w->parcel_count; i++) {
        const struct parcel *p = w->parcels[i];
        if (!p->stored || !slice_eq(p->m.stream, stream) || (share != SHARE_ALL && met++ % 2 != (share == SHARE_ODD)))
            continue;
        note_admin(w, EVENT_ADMIN, p, (uint16_t)kind);
        ids[count] = p->m.id;
        meant[count++] = p;
    }
    if (share != SHARE_ALL) {
        admin.filter.ids = ids;
        admin.filter.id_count = count;
    }
    if (share == SHARE_ALL || count > 0)
        admin_do(w, &admin);
    view_init(w, stream, &v);
    for (size_t i = 0; i < count; i++)
        view_show(w, &v, meant[i]);
    arena_fini(&v.arena);
    arena_fini(&arena);
}

static void admin_endpoint(struct world *w, enum admin_kind kind, unsigned endpoint, int64_t until_us)
{
    struct admin admin = { .kind = kind,
                           .filter = { .endpoint = w->scenario->endpoints[endpoint].name, .state = -1 },
                           .by = PR_STR("sim"),
                           .why = PR_STR("dice"),
                           .until_us = until_us };
    world_note(w, (struct event){ .kind = EVENT_ADMIN,
                                  .instance = INSTANCE_NONE,
                                  .message = MESSAGE_NONE,
                                  .what = (uint16_t)kind,
                                  .number = (int32_t)endpoint,
                                  .value = until_us });
    admin_do(w, &admin);
}

void world_pause(struct world *w, unsigned endpoint, int64_t until_us)
{
    admin_endpoint(w, ADMIN_PAUSE, endpoint, until_us);
}

void world_resume(struct world *w, unsigned endpoint)
{
    admin_endpoint(w, ADMIN_RESUME, endpoint, 0);
}

void operator_act(struct world *w, struct random *r)
{
    unsigned endpoint = (unsigned)random_below(r, w->scenario->engine.endpoint_count);
    const struct parcel *p = w->parcel_count > 0 ? w->parcels[random_below(r, w->parcel_count)] : NULL;
    if (random_chance(r, 0.15)) {
        int64_t until_us =
            random_chance(r, 0.3) ? PR_NEVER : world_wall_us(w) + random_between(r, 1, w->scenario->safety_us / 10);
        world_pause(w, endpoint, until_us);
    } else if (random_chance(r, 0.15)) {
        world_resume(w, endpoint);
    } else if (p != NULL && p->stored && random_chance(r, 0.2) && !slice_is_empty(p->m.stream)) {
        static const enum admin_kind kinds[] = { ADMIN_RELEASE, ADMIN_RETRY, ADMIN_DEAD_REPLAY };
        admin_stream(w, kinds[random_below(r, 3)], p->m.stream, SHARE_ALL);
    } else if (p != NULL && p->stored) {
        world_admin(w, (enum admin_kind)random_below(r, ADMIN_DEAD_EDIT), p);
    }
}

/* The corrected message as the store has it; its place is that of the letter. */
static void take_corrected(struct world *w, const struct parcel *letter, struct parcel *made)
{
    struct arena arena;
    struct query_reply reply;
    struct query query = { .kind = QUERY_ID, .filter = { .ids = &made->m.id, .id_count = 1, .state = -1 } };

    arena_init(&arena, 4096);
    int rc = store_query(&w->store, &query, &arena, &reply, NULL);
    ASSERT(rc == PR_OK);
    if (reply.listed_count == 1) {
        char *block = arena_alloc(&w->arena, message_bytes(&reply.listed[0].m) + 1);
        ASSERT(block != NULL);
        message_copy(&reply.listed[0].m, block, &made->m);
        made->corrects = letter;
        made->place = letter->place;
        parcel_seal(w, made);
        parcel_stored(w, made);
    }
    arena_fini(&arena);
}

/* A message to several endpoints has a letter for each of them: those are not corrected. */
static bool can_be_corrected(const struct world *w, const struct parcel *p, const struct listed *letter)
{
    return p != NULL && !p->undecodable && pr_id_is_zero(letter->edited_as) && scenario_is_whole(w->scenario, &p->m);
}

void operator_edit(struct world *w, struct random *r)
{
    struct arena arena;
    struct query_reply reply;
    struct query query = { .kind = QUERY_DEAD,
                           .filter = { .box = w->scenario->engine.box, .state = -1, .limit = SHOWN_MAX } };

    arena_init(&arena, 1 << 14);
    int rc = store_query(&w->store, &query, &arena, &reply, NULL);
    ASSERT(rc == PR_OK);
    const struct listed *letter = reply.listed_count > 0 ? &reply.listed[random_below(r, reply.listed_count)] : NULL;
    const struct parcel *p = letter != NULL ? world_find(w, letter->m.id) : NULL;
    if (letter != NULL && can_be_corrected(w, p, letter)) {
        struct parcel *made = world_parcel(w);
        pr_slice payload = arena_printf(&w->arena, "corrected %u", made->index);
        struct dead_edit edit = { .payload = &payload };
        struct admin admin = { .kind = ADMIN_DEAD_EDIT,
                               .filter = { .ids = &p->m.id, .id_count = 1, .state = -1 },
                               .by = PR_STR("sim"),
                               .why = PR_STR("dice"),
                               .edit = &edit,
                               .made = made->m.id };
        note_admin(w, EVENT_ADMIN, p, ADMIN_DEAD_EDIT);
        admin_do(w, &admin);
        world_show(w, p);
        take_corrected(w, p, made);
    }
    arena_fini(&arena);
}

/* A person exports a dead letter and imports it later, as with `dead export`, `dead discard` and `dead import`. */
struct exported {
    const struct parcel *parcel;
    struct listed letter;
};

static void import_letter(struct world *w, void *arg)
{
    const struct exported *x = arg;
    int answers[2];
    const struct listed letters[2] = { x->letter, x->letter }; /* the file was read twice */
    struct admin admin = { .kind = ADMIN_DEAD_IMPORT,
                           .by = PR_STR("sim"),
                           .why = PR_STR("dice"),
                           .letters = letters,
                           .letter_count = 2,
                           .answers = answers };
    note_admin(w, EVENT_ADMIN, x->parcel, ADMIN_DEAD_IMPORT);
    admin_do(w, &admin);
    if (answers[1] == PR_OK)
        w->broken = "a dead letter was imported twice";
    world_show(w, x->parcel);
}

void operator_export(struct world *w, struct random *r)
{
    struct arena arena;
    struct query_reply reply;
    struct query query = { .kind = QUERY_DEAD,
                           .filter = { .box = w->scenario->engine.box, .state = -1, .limit = SHOWN_MAX } };

    arena_init(&arena, 1 << 14);
    int rc = store_query(&w->store, &query, &arena, &reply, NULL);
    ASSERT(rc == PR_OK);
    const struct listed *letter = reply.listed_count > 0 ? &reply.listed[random_below(r, reply.listed_count)] : NULL;
    const struct parcel *p = letter != NULL ? world_find(w, letter->m.id) : NULL;
    if (letter != NULL && can_be_corrected(w, p, letter)) {
        struct exported *x = arena_zalloc(&w->arena, sizeof(*x));
        char *block = arena_alloc(&w->arena, message_bytes(&letter->m) + 1);
        ASSERT(x != NULL && block != NULL);
        *x = (struct exported){ .parcel = p, .letter = *letter };
        message_copy(&letter->m, block, &x->letter.m);
        x->letter.box = w->scenario->engine.box;
        x->letter.endpoint = slice_dup(&w->arena, letter->endpoint);
        x->letter.rule = slice_dup(&w->arena, letter->rule);
        x->letter.note = slice_dup(&w->arena, letter->note);
        x->letter.fingerprint = slice_dup(&w->arena, letter->fingerprint);
        if (random_chance(r, 0.8)) /* or it is still there, and refused */
            world_admin(w, ADMIN_DEAD_DISCARD, p);
        if (random_chance(r, 0.5))
            import_letter(w, x);
    }
    arena_fini(&arena);
}

/* Two people, each with a share of the same stream: they do not bring messages back in the order of their places. */
void operators_share(struct world *w, struct random *r)
{
    static const enum admin_kind kinds[] = { ADMIN_DEAD_ADD, ADMIN_DEAD_REPLAY, ADMIN_DEAD_REPLAY, ADMIN_RETRY,
                                             ADMIN_PARK };
    if (w->parcel_count == 0)
        return;
    pr_slice stream = w->parcels[random_below(r, w->parcel_count)]->m.stream;
    bool odd = random_chance(r, 0.5);
    for (int i = 0; i < 2 && !slice_is_empty(stream); i++, odd = !odd)
        admin_stream(w, kinds[random_below(r, ARRAY_LENGTH(kinds))], stream, odd ? SHARE_ODD : SHARE_EVEN);
}
