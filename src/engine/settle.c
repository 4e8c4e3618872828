/* From results to verdicts, and what a committed verdict changes.
 *
 * A success frees its stream at once: the next message may be announced in the very cycle that completes this one.  A
 * failure does not: its followers go on (or are held) only when its verdict is committed, because until then no other
 * instance would know that it failed. (E5) */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "core/fingerprint.h"
#include "core/verdict.h"
#include "engine/internal.h"

/* ---- Effects ---------------------------------------------------------------------------- */

bool effects_can_refuse(const struct send_effect *effects)
{
    for (; effects != NULL; effects = effects->next) {
        struct effect effect = effects->effect;
        effect.message = &effects->message;
        if (effect_has_guard(&effect))
            return true;
    }
    return false;
}

void item_drop_verdict(struct item *item)
{
    free(item->texts);
    item->texts = NULL;
    effects_free(item->effects);
    item->effects = NULL;
    free(item->children);
    free(item->destinations);
    free(item->holders);
    item->children = NULL;
    item->destinations = NULL;
    item->holders = NULL;
    item->child_count = 0;
    item->weighs_on = NULL;
    memset(&item->verdict, 0, sizeof(item->verdict));
}

/* ---- Writing a verdict --------------------------------------------------------------------- */

static pr_slice endpoint_name(const struct item *item)
{
    return item->endpoint != NULL ? item->endpoint->setting->name : item->m.destination;
}

/* Fills in row, id and number. */
static void name_verdict(struct item *item)
{
    item->verdict.row = item->row;
    item->verdict.id = item->m.id;
    item->verdict.number = item->number;
    item->verdict.attempts = item->m.attempts;
    item->verdict.endpoint = endpoint_name(item);
}

void judge_complete(struct engine *e, struct item *item, int bits)
{
    struct stream *s = item->stream;

    item_drop_verdict(item);
    item->verdict = (struct verdict){ .kind = VERDICT_COMPLETE, .bits = bits | PR_STATUS_PUBLISHED };
    name_verdict(item);
    item_move(e, item, PLACE_JUDGED);
    if (s != NULL && !item->refusable) {
        s->busy--;
        stream_remove_head(e, s, item->m.seq);
        item->stream = NULL;
        stream_update(e, s);
    }
}

static bool ends_undone(enum verdict_kind kind)
{
    return kind == VERDICT_DEAD_LETTER || kind == VERDICT_EXPIRE || kind == VERDICT_DISCARD;
}

static void judge_now(struct engine *e, struct item *item, const struct verdict *v, const char *step, int64_t next_us,
                      int64_t now_us)
{
    const struct story_line line = {
        .at_us = store_now(e, now_us),
        .attempt = item->number,
        .endpoint = endpoint_name(item),
        .step = step,
        .next_us = next_us,
    };

    item_drop_verdict(item);
    item->verdict = *v;
    name_verdict(item);
    item->texts = verdict_write_texts(&item->verdict, item->m.story, line);
    item_move(e, item, PLACE_JUDGED);
    if (e->setting.on_dead != NULL && ends_undone(v->kind))
        item->effects = e->setting.on_dead(e->setting.on_dead_arg, &item->m, &item->verdict);
}

void judge(struct engine *e, struct item *item, const struct verdict *v, const char *step, int64_t next_us,
           int64_t now_us)
{
    if (!run_keeps_dead(e, item, v))
        judge_now(e, item, v, step, next_us, now_us);
}

static struct verdict dead_verdict(const struct item *item, const struct delivery_dead *d, bool counted)
{
    struct verdict v = {
        .kind = VERDICT_DEAD_LETTER,
        .reason = d->reason,
        .code = d->code,
        .error = d->error,
        .rule = d->rule,
        .cause = d->cause,
        .limit = d->limit,
        .counted = counted,
    };

    fingerprint(endpoint_name(item), item->m.type, d->reason, d->error, v.fingerprint);
    return v;
}

void judge_dead_letter(struct engine *e, struct item *item, const struct delivery_dead *d, bool counted, int64_t now_us)
{
    const struct verdict v = dead_verdict(item, d, counted);

    judge_now(e, item, &v, "dead_letter", 0, now_us);
}

void judge_dead(struct engine *e, struct item *item, int reason, int cause, int limit, pr_slice rule, bool counted,
                pr_slice code, pr_slice error, int64_t now_us)
{
    const struct delivery_dead d = {
        .cause = cause, .reason = reason, .limit = limit, .rule = rule, .code = code, .error = error
    };
    const struct verdict v = dead_verdict(item, &d, counted);

    judge(e, item, &v, "dead_letter", 0, now_us);
}

void judge_simple(struct engine *e, struct item *item, enum verdict_kind kind, int reason, pr_slice rule,
                  pr_slice error, int64_t now_us)
{
    const struct verdict v = { .kind = kind, .reason = reason, .rule = rule, .error = error };

    judge(e, item, &v, verdict_traits(kind)->name, kind == VERDICT_PARK ? PR_NEVER : 0, now_us);
}

void judge_duplicate(struct engine *e, struct item *item, int64_t now_us)
{
    judge_simple(e, item, VERDICT_DUPLICATE, PR_REASON_NONE, PR_STR("dedupe"),
                 PR_STR("it was handled before, or is a dead letter"), now_us);
}

/* ---- After the commit -------------------------------------------------------------------------- */

/* Does a message that ended so keep blocking its stream? */
static bool keeps_blocking(const struct item *item)
{
    const enum verdict_blocks blocks = verdict_traits(item->verdict.kind)->blocks;
    if (blocks == BLOCKS_NOBODY || item->verdict.passable)
        return false;
    const enum ordering ordering = item->endpoint->setting->ordering;
    return blocks == BLOCKS_STRICT ? ordering == ORDERING_STRICT : ordering != ORDERING_AVAILABLE;
}

static void settle_stream(struct engine *e, struct item *item, bool applied, int64_t now_us)
{
    struct stream *s = item->stream;
    bool known = true;

    if (s == NULL)
        return;
    s->busy--;
    if (applied && item->outdated && keeps_blocking(item)) {
        known = false; /* a person changed it meanwhile: only the store knows whether others wait for it */
        stream_remove_head(e, s, item->m.seq);
    } else if (applied && keeps_blocking(item)) {
        known = stream_add_head(e, s, item->m.seq, time_add(store_now(e, now_us), item->verdict.delay_us),
                                item->verdict.kind == VERDICT_DEAD_LETTER);
        stream_set_here(s, item->m.seq, false);
        stream_hold_followers(e, s);
    } else {
        stream_remove_head(e, s, item->m.seq);
    }
    item->stream = NULL;
    stream_update(e, s);
    if (!known)
        open_lanes(e, lane_bit(item->lane)); /* or there is no memory: read it from the store again */
}

/* A message that moved to another endpoint counts as a dead letter, though it is not in the table. */
static bool is_dead(const struct verdict *v)
{
    return v->kind == VERDICT_DEAD_LETTER || (v->kind == VERDICT_DISCARD && v->moved_to.size > 0);
}

static bool is_discarded(const struct verdict *v)
{
    return v->kind == VERDICT_DISCARD && v->moved_to.size == 0;
}

/* The stored totals change in the transaction of the verdict itself, so that no crash can come between them; sign -1
 * takes a count back when the verdict turned out to be stale. */
void verdict_tally(struct engine *e, const struct item *item, int sign)
{
    struct tally *t = item->endpoint != NULL ? &item->endpoint->tally : &e->plan.nowhere;

    t->failed += item->verdict.kind == VERDICT_FAIL || item->verdict.counted ? sign : 0;
    /* otherwise it went nowhere */
    t->sent += item->verdict.kind == VERDICT_COMPLETE && item->endpoint != NULL ? sign : 0;
    t->dead += is_dead(&item->verdict) ? sign : 0;
    t->discarded += is_discarded(&item->verdict) ? sign : 0;
    t->expired += item->verdict.kind == VERDICT_EXPIRE ? sign : 0;
    t->duplicates += item->verdict.kind == VERDICT_DUPLICATE ? sign : 0;
}

static void settle_counts(struct engine *e, const struct item *item)
{
    enum verdict_kind kind = item->verdict.kind;
    bool failed = kind == VERDICT_FAIL || item->verdict.counted;

    e->counts.sent += kind == VERDICT_COMPLETE && item->endpoint != NULL;
    e->counts.failed += failed;
    e->counts.dead += is_dead(&item->verdict);
    e->counts.discarded += is_discarded(&item->verdict);
    e->counts.expired += kind == VERDICT_EXPIRE;
    e->counts.duplicates += kind == VERDICT_DUPLICATE;
    e->counts.parked += kind == VERDICT_PARK;
    if (item->endpoint == NULL)
        return;
    item->endpoint->sent += kind == VERDICT_COMPLETE;
    item->endpoint->failed += failed;
    item->endpoint->failed_in_row = kind == VERDICT_COMPLETE ? 0 : item->endpoint->failed_in_row + failed;
    if (failed)
        item->endpoint->reasons[reason_index(item->verdict.reason)]++;
}

/* Or is its lane read again because of a notice in this very cycle? */
static bool is_open(const struct engine *e, const struct item *item)
{
    return (e->membership.open & lane_bit(item->lane)) != 0;
}

/* The rows of a split have numbers now.  Parts that are not kept in memory are held in the store: whether a stream or a
 * full endpoint holds them was noted when the message was read.  A destination that had the message already has no row
 * of this split, and nothing waits for it. */
static void settle_split(struct engine *e, struct item *parent, bool applied, const uint64_t *split_rows)
{
    for (size_t i = 0; i < parent->child_count; i++) {
        e->counts.duplicates += applied && split_rows[i] == 0; /* the store has counted it for its endpoint */
        struct item *child = parent->children[i];
        struct stream *s = child != NULL ? child->stream : NULL;
        struct endpoint *ep = child != NULL ? child->endpoint : NULL;

        if (child == NULL)
            continue;
        bool stays = is_open(e, child) && !child->outdated;
        if (applied && split_rows[i] != 0 && stays && item_set_row(e, child, split_rows[i]) == PR_OK) {
            child->place = PLACE_WAITING; /* it stays in the queue that it is in */
            e->membership.lane_busy[child->lane]--;
        } else {
            if (applied && split_rows[i] != 0)
                gap_hold_from(e, ep, child->m.seq); /* no memory, or earlier rows were dropped: read it again */
            item_free(e, child);
        }
        if (s != NULL)
            stream_update(e, s);
    }
    if (applied)
        e->counts.split++;
}

void settle_committed(struct engine *e, struct item *item, int answer, const uint64_t *split_rows, int64_t now_us)
{
    bool applied = answer == PR_OK;

    if (item->answer != NULL)
        *item->answer = answer;
    item_report_answer(item, answer);
    if (item->verdict.kind == VERDICT_COMPLETE && item->endpoint != NULL)
        evidence_delivered(e, item, now_us);
    if (applied) {
        settle_counts(e, item);
    } else {
        e->counts.stale++;
        verdict_tally(e, item, -1);
    }
    if (item->verdict.kind == VERDICT_SPLIT)
        settle_split(e, item, applied, split_rows);
    settle_stream(e, item, applied, now_us);
    if (item->receipt != NULL)
        receipt_leave(item, false);
    item_free(e, item);
}
