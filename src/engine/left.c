/* Rows that are left in the store so that others, which can go, need not wait for them.
 *
 * Like all rows that find no room they stay where they are, and only places are remembered (gap.c).  But these
 * have gaps of their own, and it is known of which streams rows were left: only their rows are left behind with them,
 * and all others go on.  Later the endpoint is simply without room for them from those places on. */
#include <stdlib.h>

#include "engine/internal.h"

/* ---- Sets of streams --------------------------------------------------------------------------------
 *
 * Open addressing, by their hashes; 0 is an empty place. */

#define STREAMS_MIN 64
#define STREAMS_MAX ((size_t)1 << 20) /* places; half of them are used at most */
#define CROWD_BITS 65536              /* for those beyond: two streams with the same bit, and one waits without need */

static uint64_t *find_place(const struct stream_set *set, uint64_t hash)
{
    size_t at = hash & (set->size - 1);

    while (set->places[at] != 0 && set->places[at] != hash)
        at = (at + 1) & (set->size - 1);
    return &set->places[at];
}

static uint64_t stream_hash(pr_slice stream)
{
    uint64_t hash = hash_slice(0, stream);
    return hash != 0 ? hash : 1;
}

static bool crowd_has(const struct stream_set *set, uint64_t hash)
{
    return set->crowd != NULL && (set->crowd[hash % CROWD_BITS / 8] >> hash % 8 & 1) != 0;
}

static bool crowd_add(struct stream_set *set, uint64_t hash)
{
    if (set->crowd == NULL)
        set->crowd = calloc(1, CROWD_BITS / 8);
    if (set->crowd != NULL)
        set->crowd[hash % CROWD_BITS / 8] |= (uint8_t)(1u << hash % 8);
    return set->crowd != NULL;
}

static bool set_grow(struct stream_set *set)
{
    struct stream_set grown = *set;

    grown.size = set->size == 0 ? STREAMS_MIN : set->size * 2;
    grown.places = calloc(grown.size, sizeof *grown.places);
    if (grown.places == NULL)
        return false;
    for (size_t i = 0; i < set->size; i++)
        if (set->places[i] != 0)
            *find_place(&grown, set->places[i]) = set->places[i];
    free(set->places);
    *set = grown;
    return true;
}

static bool set_has(const struct stream_set *set, uint64_t hash)
{
    return (set->size > 0 && *find_place(set, hash) != 0) || crowd_has(set, hash);
}

static bool set_add(struct stream_set *set, uint64_t hash)
{
    if (set_has(set, hash))
        return true;
    if (set->count * 2 == set->size && set->size == STREAMS_MAX)
        return crowd_add(set, hash);
    if (set->count * 2 == set->size && !set_grow(set))
        return false;
    *find_place(set, hash) = hash;
    set->count++;
    return true;
}

void stream_set_fini(struct stream_set *set)
{
    free(set->places);
    free(set->crowd);
    *set = (struct stream_set){ .count = 0 };
}

bool stream_set_join(struct stream_set *set, const struct stream_set *more)
{
    bool fits = true;

    for (size_t i = 0; i < more->size; i++)
        fits = fits && (more->places[i] == 0 || set_add(set, more->places[i]));
    for (size_t bit = 0; bit < CROWD_BITS && more->crowd != NULL; bit++)
        fits = fits && (!crowd_has(more, bit) || crowd_add(set, bit));
    return fits;
}

/* ---- What was left ----------------------------------------------------------------------------------- */

bool left_is_open(const struct left *l)
{
    return l->gaps[GAP_FRESH].active || l->gaps[GAP_HELD].active;
}

bool left_has_stream(const struct left *l, pr_slice stream)
{
    return set_has(&l->streams, stream_hash(stream));
}

bool left_add_stream(struct left *l, pr_slice stream)
{
    return set_add(&l->streams, stream_hash(stream));
}

void left_fresh(struct left *l, const struct row *row)
{
    gap_widen(&l->gaps[GAP_FRESH], row->m.seq, row->row - 1, row->m.seq + 1);
}

void left_held(struct left *l, const struct row *row)
{
    gap_widen(&l->gaps[GAP_HELD], row->m.seq, 0, INT64_MAX);
}

bool left_hides(const struct left *l, const struct endpoint *ep, pr_slice stream, int64_t seq)
{
    return (gap_reaches(&l->gaps[GAP_FRESH], seq) || gap_reaches(&l->gaps[GAP_HELD], seq)) &&
           stream_is_ordered(ep, stream) && left_has_stream(l, stream);
}

void left_forget(struct left *l)
{
    l->gaps[GAP_FRESH].active = l->gaps[GAP_HELD].active = false;
    stream_set_fini(&l->streams);
}

void left_reopen(struct engine *e, struct endpoint *ep, const struct left *l)
{
    for (enum gap_source source = 0; source < GAP_SOURCES; source++)
        if (l->gaps[source].active)
            gap_open(e, ep, source, &l->gaps[source]);
}
