/* Instances and lanes: joining, leases, fair shares, and burying the dead. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/story.h"
#include "store/memory/memory_model.h"

struct stored_instance *instance_find(const struct box *box, pr_id id)
{
    list_foreach(node, &box->instances) {
        struct stored_instance *instance = LIST_ENTRY(node, struct stored_instance, node);
        if (pr_id_equal(instance->id, id))
            return instance;
    }
    return NULL;
}

struct stored_instance *instance_new(const struct cycle *cycle, int64_t now_us)
{
    struct stored_instance *instance = malloc(sizeof(*instance) + cycle->name.size);
    if (instance == NULL)
        return NULL;
    memset(instance, 0, sizeof(*instance));
    instance->id = cycle->instance;
    instance->started_us = now_us;
    instance->name = (pr_slice){ instance->text, cycle->name.size };
    if (cycle->name.size > 0)
        memcpy(instance->text, cycle->name.data, cycle->name.size);
    list_init(&instance->receipts);
    list_init(&instance->breakers);
    return instance;
}

/* Everybody's share changes: let them look. */
void instance_join(struct box *box, struct stored_instance *instance)
{
    instance->epoch = ++box->memory->epoch;
    list_push_back(&box->instances, &instance->node);
    box_touch(box);
}

/* Without memory for it the attempt counts all the same. */
static void row_tell_lost(struct stored_row *row, int64_t at_us, pr_slice instance)
{
    struct buf story;
    buf_init(&story, STORY_BYTES_MAX);
    story_append_lost(row->m.story, at_us, row->m.attempts, row->m.destination, instance, &story);
    if (buf_failed(&story) == PR_OK)
        row_own(row, OWN_STORY, buf_slice(&story));
    else
        buf_fini(&story);
}

/* T6: what was handed out and has no verdict counts as an attempt.  Two entries of one row count as
 * one, so they are marked before the first is counted. */
static void receipts_count_attempts(struct box *box, const struct stored_instance *instance)
{
    list_foreach(node, &instance->receipts) {
        const struct stored_receipt *receipt = LIST_ENTRY(node, struct stored_receipt, node);
        for (size_t i = 0; i < receipt->count; i++) {
            struct stored_row *row = row_find(box, receipt->entries[i].row);
            if (row != NULL && row->m.attempts == receipt->entries[i].number - 1)
                row->counted = true;
        }
    }
    list_foreach(node, &instance->receipts) {
        const struct stored_receipt *receipt = LIST_ENTRY(node, struct stored_receipt, node);
        for (size_t i = 0; i < receipt->count; i++) {
            struct stored_row *row = row_find(box, receipt->entries[i].row);
            if (row == NULL || !row->counted)
                continue;
            row_unplace(row); /* attempts decide whether it is a head */
            row->m.attempts++;
            row->counted = false;
            row_place(row);
            row_tell_lost(row, receipt->at_us, instance->name);
        }
    }
}

void instance_bury(struct box *box, struct stored_instance *instance)
{
    receipts_count_attempts(box, instance);
    list_foreach(node, &instance->receipts) {
        list_remove(node);
        free(LIST_ENTRY(node, struct stored_receipt, node));
    }
    instance_forget_breakers(instance);
    lanes_give(box, instance, LANES_ALL);
    list_remove(&instance->node);
    free(instance->answers);
    free(instance);
    box_touch(box);
}

void instance_bury_expired(struct box *box, const struct stored_instance *but)
{
    int64_t mono_us = clock_mono_us(box->memory->clock);
    list_foreach(node, &box->instances) {
        struct stored_instance *instance = LIST_ENTRY(node, struct stored_instance, node);
        if (instance != but && instance->lease_end <= mono_us)
            instance_bury(box, instance);
    }
}

void instance_renew(struct box *box, struct stored_instance *instance, const struct cycle *cycle, bool joined)
{
    int64_t mono_us = clock_mono_us(box->memory->clock);
    int64_t left_us = instance->lease_end - mono_us;
    if (joined || cycle->force_write || left_us < cycle->lease_us / 3 * 2)
        instance->lease_end = time_add(mono_us, cycle->lease_us);
}

/* ---- Lanes -------------------------------------------------------------------------------- */

/* Shares differ by one at most; the older instances have the larger ones, so that a newcomer
 * moves as few lanes as possible. */
static unsigned lanes_share(const struct box *box, const struct stored_instance *instance)
{
    unsigned count = 0, older = 0;
    list_foreach(node, &box->instances) {
        count++;
        older += LIST_ENTRY(node, struct stored_instance, node)->epoch < instance->epoch;
    }
    ASSERT(count > 0); /* it is one of them */
    return LANE_COUNT / count + (older < LANE_COUNT % count);
}

static unsigned lanes_count(uint64_t lanes)
{
    return (unsigned)__builtin_popcountll(lanes);
}

void lanes_give(struct box *box, struct stored_instance *instance, uint64_t lanes)
{
    lanes &= instance->lanes;
    if (lanes == 0)
        return;
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (lanes & lane_bit(i))
            box->lanes[i].owner = NULL;
    instance->lanes &= ~lanes;
    box_touch(box);
}

/* Free lanes, up to the fair share; nothing is taken from anybody (T4). */
void lanes_take(struct box *box, struct stored_instance *instance, uint64_t but)
{
    unsigned share = lanes_share(box, instance), have = lanes_count(instance->lanes);
    for (unsigned i = 0; i < LANE_COUNT && have < share; i++) {
        if (box->lanes[i].owner != NULL || (but & lane_bit(i)))
            continue;
        box->lanes[i].owner = instance;
        instance->lanes |= lane_bit(i);
        have++;
    }
}

/* The highest ones of those above the share: the same ones until they are given. */
uint64_t lanes_asked(const struct box *box, const struct stored_instance *instance)
{
    unsigned share = lanes_share(box, instance);
    uint64_t kept = 0;
    for (unsigned i = 0; i < LANE_COUNT && share > 0; i++) {
        if (instance->lanes & lane_bit(i)) {
            kept |= lane_bit(i);
            share--;
        }
    }
    return instance->lanes & ~kept;
}
