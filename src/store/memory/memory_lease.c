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
    struct stored_instance *instance = malloc(sizeof(*instance) + cycle->name.size + cycle->offer.size);
    if (instance == NULL)
        return NULL;
    memset(instance, 0, sizeof(*instance));
    instance->id = cycle->instance;
    instance->started_us = now_us;
    instance->name = (pr_slice){ instance->text, cycle->name.size };
    instance->offer = (pr_slice){ instance->text + cycle->name.size, cycle->offer.size };
    if (cycle->name.size > 0)
        memcpy(instance->text, cycle->name.data, cycle->name.size);
    if (cycle->offer.size > 0)
        memcpy(instance->text + cycle->name.size, cycle->offer.data, cycle->offer.size);
    list_init(&instance->receipts);
    list_init(&instance->breakers);
    return instance;
}

/* The fair share of all instances changes: they should look. */
void instance_join(struct box *box, struct stored_instance *instance)
{
    instance->epoch = ++box->memory->epoch;
    list_push_back(&box->instances, &instance->node);
    box_touch(box);
}

/* Without memory for the story the attempt counts all the same. */
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

/* T6: hand-outs without a verdict count as attempts.  Two entries of one row count once, so rows are marked before the
 * first is counted. */
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
    lanes_give(box, instance, LANES_ALL, NULL);
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

static unsigned share_of(const struct box *box, const struct stored_instance *instance)
{
    unsigned count = 0, older = 0;
    list_foreach(node, &box->instances) {
        count++;
        older += LIST_ENTRY(node, struct stored_instance, node)->epoch < instance->epoch;
    }
    ASSERT(count > 0); /* it is one of them */
    return lanes_share(count, older);
}

static bool epoch_lives(const struct box *box, int64_t epoch)
{
    list_foreach(node, &box->instances)
        if (LIST_ENTRY(node, struct stored_instance, node)->epoch == epoch)
            return true;
    return false;
}

void lanes_give(struct box *box, struct stored_instance *instance, uint64_t lanes, const int64_t *to)
{
    lanes &= instance->lanes;
    if (lanes == 0)
        return;
    for (unsigned i = 0; i < LANE_COUNT; i++)
        if (lanes & lane_bit(i)) {
            box->lanes[i].owner = NULL;
            box->lanes[i].passed_to = to != NULL ? to[i] : 0;
        }
    instance->lanes &= ~lanes;
    box_touch(box);
}

/* Takes free lanes that were passed to the instance; and, up to the fair share, those that are free for all.  No lane
 * is taken from an owner (T4). */
void lanes_take(struct box *box, struct stored_instance *instance, uint64_t but)
{
    unsigned share = share_of(box, instance), have = lanes_count(instance->lanes);
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        struct lane *lane = &box->lanes[i];
        if (lane->owner != NULL || (but & lane_bit(i)))
            continue;
        if (lane->passed_to != 0 && !epoch_lives(box, lane->passed_to))
            lane->passed_to = 0;
        if (lane->passed_to != 0 ? lane->passed_to != instance->epoch : have >= share)
            continue;
        lane->owner = instance;
        lane->passed_to = 0;
        instance->lanes |= lane_bit(i);
        have++;
    }
}

uint64_t lanes_asked(const struct box *box, const struct stored_instance *instance, uint64_t kept)
{
    return lanes_above(instance->lanes, kept, share_of(box, instance));
}

int reply_peers(struct memory_session *session, const struct stored_instance *instance)
{
    const struct list *instances = &session->box->instances;
    struct cycle_reply *reply = &session->reply;
    size_t count = 0, at = 0;

    list_foreach(node, instances)
        count++;
    struct peer_offer *peers = arena_alloc_array(&session->arena, count, sizeof(*peers));
    if (peers == NULL)
        return PR_ENOMEM;
    list_foreach(node, instances) {
        const struct stored_instance *other = LIST_ENTRY(node, struct stored_instance, node);
        if (other == instance)
            continue;
        peers[at] = (struct peer_offer){ other->epoch, slice_dup(&session->arena, other->offer) };
        if (peers[at++].offer.data == NULL)
            return PR_ENOMEM;
    }
    reply->peers = peers;
    reply->peer_count = at;
    return PR_OK;
}
