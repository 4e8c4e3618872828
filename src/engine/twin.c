/* Twins: rows of one message for one handler, in a box with dedupe (core/mark.h).
 *
 * The one that ends first decides, and the others end as duplicates: so while one of them is on its way, from its
 * choice to its committed verdict, the others wait.  The id acts as a second stream, besides the real one.  This spares
 * the endpoint a duplicate; that no message ends twice is ensured by the store. */
#include "core/mark.h"
#include "engine/internal.h"

pr_slice item_handler(const struct item *item)
{
    return mark_handler(item->m.destination, item->endpoint->setting->name);
}

static uint64_t id_hash(pr_id id)
{
    return hash_bytes(0, id.bytes, sizeof(id.bytes));
}

bool twin_enter(struct engine *e, struct item *item)
{
    if (e->membership.dedupe_us == 0 || item->endpoint == NULL || pr_id_is_zero(item->m.id))
        return true;
    item->has_twins = map_insert(&e->window.ids, &item->by_id, id_hash(item->m.id)) == PR_OK;
    return item->has_twins;
}

void twin_leave(struct engine *e, struct item *item)
{
    if (item->has_twins)
        map_remove(&e->window.ids, &item->by_id);
    item->has_twins = false;
}

/* The next item, from n on, that is another row of the same message for the same handler. */
static struct item *next_twin(struct map_node *n, const struct item *item)
{
    for (; n != NULL; n = map_next_same(n)) {
        struct item *other = MAP_ENTRY(n, struct item, by_id);
        if (other != item && pr_id_equal(other->m.id, item->m.id) && slice_eq(item_handler(other), item_handler(item)))
            return other;
    }
    return NULL;
}

bool place_is_on_its_way(enum place place)
{
    return place == PLACE_CHOSEN || place == PLACE_RUN || place == PLACE_READY || place == PLACE_OUT ||
           place == PLACE_JUDGED || place == PLACE_PLANNED;
}

bool twin_is_on_its_way(const struct engine *e, const struct item *item)
{
    if (!item->has_twins)
        return false;
    struct item *twin = next_twin(map_first(&e->window.ids, item->by_id.hash), item);
    while (twin != NULL && !place_is_on_its_way(twin->place))
        twin = next_twin(map_next_same(&twin->by_id), item);
    return twin != NULL;
}

/* Its stream waits with it. */
void twin_await(struct engine *e, struct item *item)
{
    struct stream *s = item->stream;

    ASSERT(item->place == PLACE_WAITING);
    item_move(e, item, PLACE_TWIN);
    if (s == NULL)
        return;
    s->busy++;
    stream_update(e, s);
}

void twin_return(struct engine *e, struct item *item)
{
    struct stream *s = item->stream;

    ASSERT(item->place == PLACE_TWIN);
    item_wait(e, item, false);
    if (s == NULL)
        return;
    s->busy--;
    stream_update(e, s);
}

void twins_wake(struct engine *e, const struct item *item)
{
    struct item *twin = item->has_twins ? next_twin(map_first(&e->window.ids, item->by_id.hash), item) : NULL;

    for (; twin != NULL; twin = next_twin(map_next_same(&twin->by_id), item))
        if (twin->place == PLACE_TWIN)
            twin_return(e, twin);
}
