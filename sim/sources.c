/* A source: a broker has messages, and a reader stores them in the box and then acknowledges them.  Unacknowledged
 * messages come again, soon or long after they were handled; in any order, and twice in one batch. */
#include "world.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define PIECE_MAX 8

/* What the broker keeps until it is acknowledged. */
struct unacknowledged {
    struct parcel *parcel;
    int64_t visible_us; /* it is not delivered earlier */
    int times;
    bool acknowledged;
};

struct source {
    struct unacknowledged *list;
    size_t count, published;
    int64_t every_us;
};

static void publish(struct world *w, struct source *s)
{
    struct parcel *p = world_draw_parcel(w);
    p->undecodable = false;
    p->sourced = true;
    p->m.due_us = 0;
    parcel_seal(w, p);
    s->list[s->count++] = (struct unacknowledged){ .parcel = p };
    s->published++;
    w->open_transactions++;
}

/* The latest message with its id. */
static struct parcel *latest(const struct unacknowledged *u)
{
    return u->parcel->copy != NULL ? u->parcel->copy : u->parcel;
}

static void note_brought(struct world *w, const struct unacknowledged *u, int answer)
{
    world_note(w, (struct event){ .kind = EVENT_BROUGHT,
                                  .instance = INSTANCE_NONE,
                                  .message = latest(u)->index,
                                  .destination = world_destination(w, u->parcel->m.destination),
                                  .number = u->times,
                                  .answer = (int16_t)answer });
}

/* The row of a message for several handlers is gone when it was split, so the same message is stored again, as another
 * one with its id; each of its parts is left out, or ends as a duplicate. */
static void bring_again(struct world *w, struct unacknowledged *u)
{
    struct parcel *p = world_parcel(w);
    p->m = u->parcel->m;
    p->sourced = true;
    p->original = u->parcel;
    p->older = u->parcel->copy;
    u->parcel->copy = p;
    parcel_seal(w, p);
    parcel_stored(w, p);
}

/* It is stored, or was; whether the acknowledgement is sent and received is random. */
static void told(struct world *w, struct unacknowledged *u, int answer)
{
    struct random *r = &w->dice[DIE_SOURCES];
    u->times++;
    bool first = !u->parcel->stored && answer == PR_OK;
    if (first)
        parcel_stored(w, u->parcel);
    else
        note_brought(w, u, answer);
    if (!first && answer == PR_OK)
        bring_again(w, u);
    bool again = !w->healed && random_chance(r, w->scenario->brought_again);
    u->visible_us = w->mono_us + random_between(r, 0, w->scenario->safety_us / (u->times < 3 ? 50 : 4));
    u->acknowledged = u->acknowledged || !again;
}

static void forget_acknowledged(struct world *w, struct source *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->list[i].acknowledged)
            s->list[kept++] = s->list[i];
    }
    w->open_transactions -= (unsigned)(s->count - kept);
    s->count = kept;
}

/* One batch: visible messages in any order; one of them twice. */
static size_t take_piece(struct world *w, struct source *s, struct unacknowledged **piece)
{
    struct random *r = &w->dice[DIE_SOURCES];
    size_t count = 0, from = s->count > 0 ? random_below(r, s->count) : 0;
    for (size_t i = 0; i < s->count && count + 1 < PIECE_MAX; i++) {
        struct unacknowledged *u = &s->list[(from + i) % s->count];
        if (u->visible_us <= w->mono_us)
            piece[count++] = u;
    }
    if (count > 0 && random_chance(r, 0.2)) {
        piece[count] = piece[0];
        count++;
    }
    return count;
}

static void store_piece(struct world *w, struct source *s)
{
    struct unacknowledged *piece[PIECE_MAX];
    struct pr_message messages[PIECE_MAX];
    int answers[PIECE_MAX];
    pr_id ids[PIECE_MAX];
    struct pr_error error;
    size_t count = take_piece(w, s, piece);

    for (size_t i = 0; i < count; i++)
        messages[i] = piece[i]->parcel->m;
    if (count == 0 || (!w->healed && random_chance(&w->dice[DIE_SOURCES], 0.1)))
        return; /* the store said no: nothing was acknowledged */
    if (store_enqueue(&w->store, w->scenario->engine.box, messages, count, w->scenario->engine.payload_max, ids,
                      answers, &error) != PR_OK) {
        w->broken = "a source could not store its messages";
        return;
    }
    for (size_t i = 0; i < count; i++)
        told(w, piece[i], answers[i]);
    forget_acknowledged(w, s);
    world_announce(w);
}

static void look(struct world *w, void *arg)
{
    struct source *s = arg;
    size_t left = w->scenario->sourced - s->published, some = random_below(&w->dice[DIE_SOURCES], 4);
    for (size_t i = 0; i < min_size(left, w->healed ? 0 : some); i++)
        publish(w, s);
    store_piece(w, s);
    for (size_t i = 0; w->healed && i < s->count; i++)
        s->list[i].visible_us = 0; /* the broker is in a hurry, too */
    if (s->count > 0 || (!w->healed && s->published < w->scenario->sourced))
        world_at(w, w->mono_us + random_between(&w->dice[DIE_SOURCES], 1, s->every_us), look, s, NULL);
}

void sources_begin(struct world *w)
{
    struct source *s = arena_zalloc(&w->arena, sizeof(*s));
    ASSERT(s != NULL);
    if (w->scenario->sourced == 0)
        return;
    s->list = arena_alloc_array(&w->arena, w->scenario->sourced, sizeof(s->list[0]));
    ASSERT(s->list != NULL);
    s->every_us = w->scenario->safety_us / (w->scenario->sourced + 1);
    world_at(w, w->mono_us, look, s, NULL);
}
