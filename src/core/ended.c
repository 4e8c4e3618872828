#include "core/ended.h"

#include <string.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

#define MS_PER_MINUTE 60000
#define ID_BYTES sizeof(((pr_id *)NULL)->bytes)

static const char *const names[] = {
    [ENDED_DELIVERED] = "delivered", [ENDED_DISCARDED] = "discarded", [ENDED_EXPIRED] = "expired",
    [ENDED_BY_PERSON] = "discarded", [ENDED_DUPLICATE] = "duplicate",
};

const char *ended_name(int as)
{
    return as > 0 && as < (int)ARRAY_LENGTH(names) ? names[as] : NULL;
}

int ended_parse(pr_slice name)
{
    /* of two values with the same name, the first */
    for (int as = ENDED_DELIVERED; as < (int)ARRAY_LENGTH(names); as++)
        if (slice_eq_cstr(name, names[as]))
            return as;
    return 0;
}

int64_t ended_bucket(pr_id id)
{
    const uint8_t *b = id.bytes;
    int64_t ms = 0;
    if (b[6] >> 4 != 7 || b[8] >> 6 != 2) /* another version, or another variant */
        return ENDED_BUCKET_NONE;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | b[i];
    return ms / MS_PER_MINUTE;
}

bool ended_of_verdict(const struct verdict *v, bool keeps, struct ended *ret)
{
    enum ended_as as;
    if ((v->kind == VERDICT_COMPLETE || (v->kind == VERDICT_ASK && v->fenced)) && !keeps)
        as = ENDED_DELIVERED;
    else if (v->kind == VERDICT_DISCARD && v->moved_to.size == 0)
        as = ENDED_DISCARDED;
    else if (v->kind == VERDICT_EXPIRE)
        as = ENDED_EXPIRED;
    else if (v->kind == VERDICT_DUPLICATE)
        as = ENDED_DUPLICATE;
    else
        return false;
    *ret = (struct ended){
        .id = v->id, .endpoint = v->endpoint, .as = as, .attempt = v->number != 0 ? v->number : v->attempts
    };
    return true;
}

bool ended_is_so(const struct verdict *v, int answer)
{
    return answer == (v->kind == VERDICT_ASK ? PR_UNKNOWN : PR_OK);
}

size_t verdict_part_count(const struct verdict *v)
{
    return v->kind == VERDICT_SPLIT ? v->destination_count : 0;
}

size_t ended_part_count(const struct cycle *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->verdict_count; i++)
        count += verdict_part_count(&c->verdicts[i]);
    return count;
}

/* Add the parts that splits left out; returns how many. */
static size_t add_left_out(const struct cycle *c, const int *answers, const uint64_t *split_rows, struct ended *list)
{
    size_t count = 0;
    for (size_t i = 0; split_rows != NULL && i < c->verdict_count; i++) {
        const struct verdict *v = &c->verdicts[i];
        size_t parts = verdict_part_count(v);
        for (size_t k = 0; k < parts; k++)
            if (answers[i] == PR_OK && split_rows[k] == 0)
                list[count++] =
                    (struct ended){ .id = v->id, .box = c->box, .endpoint = v->destinations[k], .as = ENDED_DUPLICATE };
        split_rows += parts;
    }
    return count;
}

struct ended *ended_of_cycle(const struct cycle *c, const int *answers, const uint64_t *split_rows, struct arena *arena,
                             size_t *ret_count)
{
    struct ended *list = arena_alloc(arena, (c->verdict_count + ended_part_count(c)) * sizeof(list[0]));
    size_t count = 0;
    for (size_t i = 0; list != NULL && i < c->verdict_count; i++)
        if (ended_is_so(&c->verdicts[i], answers[i]) && ended_of_verdict(&c->verdicts[i], c->keep_us > 0, &list[count]))
            list[count++].box = c->box;
    *ret_count = list != NULL ? count + add_left_out(c, answers, split_rows, list + count) : 0;
    return list;
}

struct tally *ended_tallies(const struct cycle *c, const int *answers, const uint64_t *split_rows, struct arena *arena,
                            size_t *ret_count)
{
    size_t parts = ended_part_count(c);
    struct ended *list = arena_alloc(arena, (parts + 1) * sizeof(list[0]));
    struct tally *tallies = arena_alloc_array(arena, parts + 1, sizeof(tallies[0]));
    if (list == NULL || tallies == NULL)
        return NULL;
    size_t count = 0, left_out = add_left_out(c, answers, split_rows, list);
    for (size_t i = 0; i < left_out; i++) {
        size_t k = 0;
        while (k < count && !slice_eq(tallies[k].endpoint, list[i].endpoint))
            k++;
        tallies[k].endpoint = list[i].endpoint;
        tallies[k].duplicates++;
        count += k == count;
    }
    *ret_count = count;
    return tallies;
}

/* ---- Grouping ------------------------------------------------------------------------------------ */

struct ended_grouping {
    struct arena *arena;
    struct ended_entry *entries;
    size_t count, capacity; /* usually few entries: the list grows */
    uint32_t *table;        /* index of an entry + 1, by hash; 0: free */
    size_t room;
};

static bool is_of(const struct ended_entry *entry, const struct ended *e, int64_t bucket)
{
    return entry->bucket == bucket && entry->as == e->as && entry->attempt == e->attempt &&
           slice_eq(entry->endpoint, e->endpoint) && slice_eq(entry->box, e->box);
}

#define NO_ENTRY SIZE_MAX

static bool entries_grow(struct ended_grouping *g)
{
    size_t capacity = g->capacity > 0 ? 2 * g->capacity : 8;
    struct ended_entry *entries = arena_alloc_array(g->arena, capacity, sizeof(entries[0]));
    if (entries == NULL)
        return false;
    if (g->count > 0)
        memcpy(entries, g->entries, g->count * sizeof(entries[0]));
    g->entries = entries;
    g->capacity = capacity;
    return true;
}

/* The entry for e, nearly always that of its predecessor.  NO_ENTRY: out of memory. */
static size_t entry_find(struct ended_grouping *g, const struct ended *e, size_t predecessor)
{
    const int64_t bucket = ended_bucket(e->id);
    if (g->count > 0 && is_of(&g->entries[predecessor], e, bucket))
        return predecessor;
    size_t at = hash_slice((uint64_t)bucket * 31 + (uint64_t)e->attempt, e->endpoint) & (g->room - 1);
    for (; g->table[at] != 0; at = (at + 1) & (g->room - 1))
        if (is_of(&g->entries[g->table[at] - 1], e, bucket))
            return g->table[at] - 1;
    if (g->count == g->capacity && !entries_grow(g))
        return NO_ENTRY;
    g->entries[g->count] = (struct ended_entry){
        .bucket = bucket, .box = e->box, .endpoint = e->endpoint, .as = e->as, .attempt = e->attempt
    };
    g->table[at] = (uint32_t)++g->count;
    return g->count - 1;
}

struct ended_entry *ended_group(const struct ended *list, size_t count, struct arena *arena, size_t *ret_count)
{
    struct ended_grouping g = { .arena = arena, .room = 16 };
    while (g.room < 2 * count)
        g.room *= 2;
    g.table = arena_alloc_array(arena, g.room, sizeof(g.table[0]));
    uint32_t *entry_of = arena_alloc(arena, count * sizeof(entry_of[0]));
    char *ids = arena_alloc(arena, count * ID_BYTES);
    if (g.table == NULL || entry_of == NULL || ids == NULL || !entries_grow(&g))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t entry = entry_find(&g, &list[i], i > 0 ? entry_of[i - 1] : 0);
        if (entry == NO_ENTRY)
            return NULL;
        entry_of[i] = (uint32_t)entry;
        g.entries[entry].ids.size += ID_BYTES;
    }
    /* each entry has its range now; sizes restart at 0 and count again as ids are added */
    for (size_t k = 0; k < g.count; k++) {
        g.entries[k].ids.data = ids;
        ids += g.entries[k].ids.size;
        g.entries[k].ids.size = 0;
    }
    for (size_t i = 0; i < count; i++) {
        pr_slice *to = &g.entries[entry_of[i]].ids;
        memcpy((char *)(uintptr_t)to->data + to->size, list[i].id.bytes, ID_BYTES);
        to->size += ID_BYTES;
    }
    *ret_count = g.count;
    return g.entries;
}

bool ended_holds(pr_slice ids, pr_id id)
{
    for (size_t at = 0; at + ID_BYTES <= ids.size; at += ID_BYTES)
        if (memcmp(ids.data + at, id.bytes, ID_BYTES) == 0)
            return true;
    return false;
}
