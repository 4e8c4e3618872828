#include "transport/bundle.h"

#include "base/error.h"

void bundle_init(struct bundle *b, const uint64_t *streams, size_t count)
{
    ASSERT(count > 0 && count <= BUNDLE_MAX);
    b->count = count;
    b->judged_count = b->reported_count = 0;
    for (size_t i = 0; i < count; i++) {
        b->streams[i] = streams[i];
        b->ends[i] = BUNDLE_WAITS;
    }
    b->left[0] = (struct bundle_part){ 0, (uint16_t)count };
    b->left_count = 1;
}

/* The only place that writes an end. (G1) */
static void end(struct bundle *b, size_t place, enum bundle_end how)
{
    ASSERT(b->ends[place] == BUNDLE_WAITS);
    b->ends[place] = (uint8_t)how;
    b->judged[b->judged_count++] = (uint16_t)place;
}

/* G3.  If two streams have the same hash, the later one goes next time. */
static void return_followers(struct bundle *b, size_t place)
{
    for (size_t i = place + 1; i < b->count && b->streams[place] != 0; i++)
        if (b->streams[i] == b->streams[place] && b->ends[i] == BUNDLE_WAITS)
            end(b, i, BUNDLE_RETURNED);
}

static size_t list_part(const struct bundle *b, uint16_t *ret_places)
{
    const struct bundle_part *part = &b->left[b->left_count - 1];
    size_t count = 0;

    for (size_t i = part->first; i < (size_t)part->first + part->count; i++)
        if (b->ends[i] == BUNDLE_WAITS)
            ret_places[count++] = (uint16_t)i;
    return count;
}

size_t bundle_next(struct bundle *b, uint16_t *ret_places)
{
    size_t count = 0;

    while (b->left_count > 0 && (count = list_part(b, ret_places)) == 0)
        b->left_count--;
    return count;
}

/* The first half goes first: it has the earlier messages of each stream. */
static void halve(struct bundle *b, const uint16_t *places, size_t count)
{
    struct bundle_part part = b->left[--b->left_count];
    uint16_t split = places[(count + 1) / 2];

    ASSERT(b->left_count + 2 <= BUNDLE_PARTS_MAX);
    b->left[b->left_count++] = (struct bundle_part){ split, (uint16_t)(part.first + part.count - split) };
    b->left[b->left_count++] = (struct bundle_part){ part.first, (uint16_t)(split - part.first) };
}

void bundle_answer(struct bundle *b, enum bundle_answer answer)
{
    uint16_t places[BUNDLE_MAX];
    size_t count = bundle_next(b, places);

    ASSERT(count > 0);
    if (answer == BUNDLE_REFUSED && count > 1) {
        halve(b, places, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        end(b, places[i], answer == BUNDLE_TAKEN ? BUNDLE_DONE : BUNDLE_FAILED);
    b->left_count--;
    if (answer == BUNDLE_REFUSED)
        return_followers(b, places[0]);
    if (answer == BUNDLE_DOWN)
        bundle_stop(b);
}

void bundle_give_back(struct bundle *b, size_t place)
{
    end(b, place, BUNDLE_RETURNED);
    return_followers(b, place);
}

void bundle_stop(struct bundle *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->ends[i] == BUNDLE_WAITS)
            end(b, i, BUNDLE_RETURNED);
    b->left_count = 0;
}

bool bundle_tell(struct bundle *b, size_t *ret_place, enum bundle_end *ret_end)
{
    if (b->reported_count == b->judged_count)
        return false;
    *ret_place = b->judged[b->reported_count++];
    *ret_end = (enum bundle_end)b->ends[*ret_place];
    return true;
}
