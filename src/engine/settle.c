/* From results to verdicts, and what a committed verdict changes.
 *
 * A success frees its stream at once: the next message may be announced in the very cycle
 * that completes this one.  A failure does not: its followers go on (or are held) only when
 * its verdict is committed, because until then nobody else would know that it failed. (E5) */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "core/fingerprint.h"
#include "core/story.h"
#include "engine/internal.h"

#define TEXTS_MAX (256 * 1024) /* story, error, code, rule of one verdict */

/* ---- Effects ---------------------------------------------------------------------------- */

static pr_slice put_slice(char **at, pr_slice s)
{
    pr_slice put = { s.data != NULL ? *at : NULL, s.size };
    if (s.size > 0)
        memcpy(*at, s.data, s.size);
    *at += s.size;
    return put;
}

static struct send_effect *effect_copy(const struct send_effect *f)
{
    const struct effect *e = &f->effect;
    size_t bytes = f->box.size + e->key.size + e->name.size + e->value.size;
    struct send_effect *copy = malloc(sizeof(*copy) + bytes + message_bytes(&f->message));
    if (copy == NULL)
        return NULL;
    char *at = (char *)(copy + 1);
    *copy = (struct send_effect){ .effect = *e, .box = put_slice(&at, f->box) };
    copy->effect.key = put_slice(&at, e->key);
    copy->effect.name = put_slice(&at, e->name);
    copy->effect.value = put_slice(&at, e->value);
    message_copy(&f->message, at, &copy->message);
    return copy;
}

int effects_copy(const struct send_effect *effects, struct send_effect **ret)
{
    struct send_effect **tail = ret;

    *ret = NULL;
    for (; effects != NULL; effects = effects->next) {
        struct send_effect *copy = effect_copy(effects);
        if (copy == NULL) {
            effects_free(*ret);
            *ret = NULL;
            return PR_ENOMEM;
        }
        *tail = copy;
        tail = &copy->next;
    }
    return PR_OK;
}

bool effects_can_refuse(const struct send_effect *effects)
{
    for (; effects != NULL; effects = effects->next)
        if (effect_has_guard(&effects->effect))
            return true;
    return false;
}

void effects_free(struct send_effect *effects)
{
    while (effects != NULL) {
        struct send_effect *next = effects->next;
        free(effects);
        effects = next;
    }
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

struct telling {
    int reason;
    pr_slice code, error, rule;
    const char *step;
    int64_t next_us; /* store time; 0: none */
};

static pr_slice endpoint_name(const struct item *item)
{
    return item->endpoint != NULL ? item->endpoint->setting->name : item->m.destination;
}

/* The texts of a verdict in one block that belongs to the item.  Without memory the verdict goes
 * without its words: better than not at all. */
static void write_texts(struct engine *e, struct item *item, const struct telling *t, int64_t now_us)
{
    struct verdict *v = &item->verdict;
    struct buf b;
    size_t code_at, rule_at, story_at;
    struct story_line line;
    struct buf clean;

    buf_init(&b, TEXTS_MAX);
    buf_init(&clean, TEXTS_MAX);
    utf8_clean(&clean, utf8_cut(t->error, PR_ERROR_MAX));
    buf_add_slice(&b, buf_slice(&clean));
    code_at = b.size;
    utf8_clean(&b, utf8_cut(t->code, CODE_CHARS_MAX));
    rule_at = b.size;
    buf_add_slice(&b, t->rule);
    story_at = b.size;
    line = (struct story_line){
        .at_us = store_now(e, now_us),
        .attempt = item->number,
        .endpoint = endpoint_name(item),
        .reason = t->reason,
        .code = t->code,
        .error = buf_slice(&clean),
        .rule = t->rule,
        .step = t->step,
        .next_us = t->next_us,
    };
    story_append(item->m.story, &line, &b);
    if (buf_failed(&b) == 0 && buf_failed(&clean) == 0) {
        item->texts = b.data;
        v->error = (pr_slice){ b.data, code_at };
        v->code = (pr_slice){ b.data + code_at, rule_at - code_at };
        v->rule = (pr_slice){ b.data + rule_at, story_at - rule_at };
        v->story = (pr_slice){ b.data + story_at, b.size - story_at };
    } else {
        buf_fini(&b);
    }
    buf_fini(&clean);
}

static void begin_verdict(struct item *item, enum verdict_kind kind)
{
    item_drop_verdict(item);
    item->verdict = (struct verdict){
        .kind = kind,
        .row = item->row,
        .id = item->m.id,
        .number = item->number,
        .endpoint = endpoint_name(item),
    };
}

void judge_complete(struct engine *e, struct item *item, int bits)
{
    struct stream *s = item->stream;

    begin_verdict(item, VERDICT_COMPLETE);
    item->verdict.bits = bits | PR_STATUS_PUBLISHED;
    item_move(e, item, PLACE_JUDGED);
    if (s != NULL && !item->refusable) {
        s->busy--;
        stream_remove_head(e, s, item->m.seq);
        item->stream = NULL;
        stream_update(e, s);
    }
}

void judge_dead(struct engine *e, struct item *item, int reason, int cause, int limit, pr_slice rule, bool counted,
                pr_slice code, pr_slice error, int64_t now_us)
{
    struct telling t = { reason, code, error, rule, "dead_letter", 0 };

    begin_verdict(item, VERDICT_DEAD_LETTER);
    item->verdict.reason = reason;
    item->verdict.cause = cause;
    item->verdict.limit = limit;
    item->verdict.counted = counted;
    fingerprint(endpoint_name(item), item->m.type, reason, error, item->verdict.fingerprint);
    write_texts(e, item, &t, now_us);
    item_move(e, item, PLACE_JUDGED);
}

void judge_simple(struct engine *e, struct item *item, enum verdict_kind kind, int reason, pr_slice rule,
                  pr_slice error, int64_t now_us)
{
    static const char *const steps[] = {
        [VERDICT_ABANDON] = "abandon", [VERDICT_POSTPONE] = "postpone", [VERDICT_RELEASE] = "release",
        [VERDICT_DISCARD] = "discard", [VERDICT_EXPIRE] = "expire",     [VERDICT_PARK] = "park",
    };
    struct telling t = { reason, (pr_slice){ 0 }, error, rule, steps[kind], kind == VERDICT_PARK ? PR_NEVER : 0 };

    begin_verdict(item, kind);
    item->verdict.reason = reason;
    write_texts(e, item, &t, now_us);
    item_move(e, item, PLACE_JUDGED);
}

/* By a decision about a failure; next_us: when it goes on, for its story. */
void judge_step(struct engine *e, struct item *item, enum verdict_kind kind, const struct failure *f,
                const struct decision *d, int64_t next_us, int64_t now_us)
{
    struct telling t = { f->reason, f->code, f->error, d->rule, step_name(d->step), next_us };

    begin_verdict(item, kind);
    item->verdict.reason = f->reason;
    item->verdict.counted = kind != VERDICT_FAIL;
    write_texts(e, item, &t, now_us);
    item_move(e, item, PLACE_JUDGED);
}

/* ---- After the commit -------------------------------------------------------------------------- */

/* Which streams wait behind a message that ended so? */
static bool keeps_blocking(const struct item *item)
{
    switch (item->verdict.kind) {
    case VERDICT_FAIL:
    case VERDICT_POSTPONE:
    case VERDICT_ABANDON: return item->endpoint->setting->ordering != ORDERING_AVAILABLE;
    case VERDICT_DEAD_LETTER:
    case VERDICT_PARK: return item->endpoint->setting->ordering == ORDERING_STRICT;
    default: return false;
    }
}

static void settle_stream(struct engine *e, struct item *item, bool applied)
{
    struct stream *s = item->stream;
    bool known = true;

    if (s == NULL)
        return;
    s->busy--;
    if (applied && item->outdated && keeps_blocking(item)) {
        known = false; /* a person changed it meanwhile: the store knows whether others wait for it */
        stream_remove_head(e, s, item->m.seq);
    } else if (applied && keeps_blocking(item)) {
        known = stream_add_head(e, s, item->m.seq, item->verdict.kind == VERDICT_DEAD_LETTER);
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

/* What moved to another endpoint is a dead letter, only not in the table. */
static bool is_dead(const struct verdict *v)
{
    return v->kind == VERDICT_DEAD_LETTER || (v->kind == VERDICT_DISCARD && v->moved_to.size > 0);
}

static bool is_discarded(const struct verdict *v)
{
    return v->kind == VERDICT_DISCARD && v->moved_to.size == 0;
}

/* The stored totals change in the transaction of the verdict itself, so that no crash can come
 * between them; sign -1 takes a count back when the verdict turned out to be stale. */
void verdict_tally(struct engine *e, const struct item *item, int sign)
{
    struct tally *t = item->endpoint != NULL ? &item->endpoint->tally : &e->plan.nowhere;

    t->failed += item->verdict.kind == VERDICT_FAIL || item->verdict.counted ? sign : 0;
    t->sent += item->verdict.kind == VERDICT_COMPLETE ? sign : 0;
    t->dead += is_dead(&item->verdict) ? sign : 0;
    t->discarded += is_discarded(&item->verdict) ? sign : 0;
    t->expired += item->verdict.kind == VERDICT_EXPIRE ? sign : 0;
}

static void settle_counts(struct engine *e, const struct item *item)
{
    enum verdict_kind kind = item->verdict.kind;
    bool failed = kind == VERDICT_FAIL || item->verdict.counted;

    e->counts.sent += kind == VERDICT_COMPLETE;
    e->counts.failed += failed;
    e->counts.dead += is_dead(&item->verdict);
    e->counts.discarded += is_discarded(&item->verdict);
    e->counts.expired += kind == VERDICT_EXPIRE;
    e->counts.parked += kind == VERDICT_PARK;
    if (item->endpoint == NULL)
        return;
    item->endpoint->sent += kind == VERDICT_COMPLETE;
    item->endpoint->failed += failed;
    item->endpoint->failed_in_row = kind == VERDICT_COMPLETE ? 0 : item->endpoint->failed_in_row + failed;
    if (failed)
        item->endpoint->reasons[reason_index(item->verdict.reason)]++;
}

/* Or is its lane read anew since this very cycle told of something that people did? */
static bool is_open(const struct engine *e, const struct item *item)
{
    return (e->membership.open & lane_bit(item->lane)) != 0;
}

/* The rows of a split have names now.  Those that are not kept in memory are held in the store: who is in
 * their way, or that their endpoint is behind, was noted when they were met.  What a destination had already
 * has no row of this split, and nobody waits for it. */
static void settle_split(struct engine *e, struct item *parent, bool applied, const uint64_t *split_rows)
{
    for (size_t i = 0; i < parent->child_count; i++) {
        struct item *child = parent->children[i];
        struct stream *s = child != NULL ? child->stream : NULL;
        struct endpoint *ep = child != NULL ? child->endpoint : NULL;

        if (child == NULL)
            continue;
        if (applied && split_rows[i] != 0 && is_open(e, child) && item_set_row(e, child, split_rows[i]) == PR_OK) {
            child->place = PLACE_WAITING; /* it stays in the queue that it is in */
            e->membership.lane_busy[child->lane]--;
        } else {
            if (applied && split_rows[i] != 0)
                gap_hold_from(e, ep, child->m.seq); /* no memory, or what is before it was dropped: read it again */
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
    item_tell(item, answer);
    if (item->verdict.kind == VERDICT_COMPLETE)
        evidence_delivered(e, item, now_us);
    if (applied) {
        settle_counts(e, item);
    } else {
        e->counts.stale++;
        verdict_tally(e, item, -1);
    }
    if (item->verdict.kind == VERDICT_SPLIT)
        settle_split(e, item, applied, split_rows);
    settle_stream(e, item, applied);
    if (item->receipt != NULL)
        receipt_leave(item, false);
    item_free(e, item);
}
