/* Rows that are left in the store so that others, which can go, need not wait for them.
 *
 * Like all rows without room they stay where they are, and only places are remembered (gap.c).  But they have gaps of
 * their own, which remember the streams of these rows: only rows of those streams are left with them, and all others go
 * on.  Later these gaps become ordinary gaps of the endpoint, which has no room from those places on. */
#include <stdlib.h>

#include "engine/internal.h"

/* ---- Sets of streams --------------------------------------------------------------------------------
 *
 * Hash tables with open addressing; a hash of 0 is an empty entry.  An entry has the range of places between which rows
 * of the stream were left: a row before the first of them waits for none of them, and when all have been read again,
 * no row does. */

#define STREAMS_MIN 64
#define STREAMS_MAX ((size_t)1 << 19) /* entries; at most half of them are used */
#define CROWD_BITS 65536              /* filter for further streams: when two share a bit, one may wait without need */

static struct left_stream *find_place(const struct stream_set *set, uint64_t hash)
{
    size_t at = hash & (set->size - 1);

    while (set->places[at].hash != 0 && set->places[at].hash != hash)
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
        if (set->places[i].hash != 0)
            *find_place(&grown, set->places[i].hash) = set->places[i];
    free(set->places);
    *set = grown;
    return true;
}

static struct left_stream *set_find(const struct stream_set *set, uint64_t hash)
{
    struct left_stream *place = set->size > 0 ? find_place(set, hash) : NULL;
    return place != NULL && place->hash != 0 ? place : NULL;
}

static bool set_add(struct stream_set *set, const struct left_stream *more)
{
    struct left_stream *known = set_find(set, more->hash);

    if (known != NULL) {
        known->first_seq = min64(known->first_seq, more->first_seq);
        known->last_seq = max64(known->last_seq, more->last_seq);
        return true;
    }
    if (set->count * 2 == set->size && set->size == STREAMS_MAX)
        return crowd_add(set, more->hash);
    if (set->count * 2 == set->size && !set_grow(set))
        return false;
    *find_place(set, more->hash) = *more;
    set->count++;
    return true;
}

void stream_set_fini(struct stream_set *set)
{
    free(set->places);
    free(set->crowd);
    *set = (struct stream_set){ .count = 0 };
}

bool stream_set_join(struct stream_set *set, const struct stream_set *more, int64_t from_seq)
{
    bool fits = true;

    for (size_t i = 0; i < more->size; i++)
        if (more->places[i].hash != 0 && more->places[i].last_seq >= from_seq)
            fits = fits && set_add(set, &more->places[i]);
    for (size_t bit = 0; bit < CROWD_BITS && more->crowd != NULL; bit++)
        fits = fits && (!crowd_has(more, bit) || crowd_add(set, bit));
    return fits;
}

/* ---- What was left ----------------------------------------------------------------------------------- */

bool left_is_open(const struct left *l)
{
    return l->gaps[GAP_FRESH].active || l->gaps[GAP_HELD].active;
}

static bool is_left_from(const struct left *l, int64_t seq)
{
    return gap_reaches(&l->gaps[GAP_FRESH], seq) || gap_reaches(&l->gaps[GAP_HELD], seq);
}

bool left_has_before(const struct left *l, pr_slice stream, int64_t seq)
{
    uint64_t hash = stream_hash(stream);
    const struct left_stream *known = set_find(&l->streams, hash);

    if (!is_left_from(l, seq))
        return false;
    return (known != NULL && known->first_seq < seq && is_left_from(l, known->last_seq)) ||
           crowd_has(&l->streams, hash);
}

bool left_add_stream(struct left *l, pr_slice stream, int64_t seq)
{
    return set_add(&l->streams, &(struct left_stream){ stream_hash(stream), seq, seq });
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
    return left_is_open(l) && stream_is_ordered(ep, stream) && left_has_before(l, stream, seq);
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
