/* Runs: what waits in one stream of a box of turns goes out as one delivery, and has one result.
 *
 * The first message leads: it has the seat among suspects, the place at its endpoint and the token.  The others follow
 * it (PLACE_RUN) from the choice to the result; each is on the receipt with its own hand-out number, since hand-outs
 * are counted for each message.  The result ends the run: each message has a verdict, and verdicts with effects are
 * joined to the leader's, so that all are applied or refused together.
 *
 * A message that was handed out twice without an outcome goes alone, so that the guilty one is found.  A message that
 * exceeds its limits is not made a dead letter here, since a flow waits for it.  It is handed out once more with the
 * reason of its death, and becomes a dead letter together with what follows for the flow. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define RUN_COUNT_MAX 256
#define RUN_BYTES_MAX ((size_t)4 << 20)
#define RUN_UNEXPLAINED_MAX 2       /* hand-outs without an outcome; from then on a message goes alone */
#define DEAD_AGAIN_US PR_SECONDS(1) /* until a dead message is handed out again whose receiver failed */

bool hands_out_runs(const struct engine *e)
{
    return e->setting.kind == BOX_TURNS;
}

/* ---- From the choice to the result ---------------------------------------------------------- */

/* May it join the run of `first`?  All earlier items of its stream did. */
static bool run_takes(const struct engine *e, const struct item *first, const struct item *item, int64_t now_us)
{
    const struct stream *s = first->stream;
    bool held_before = s->held && s->held_from <= item->m.seq && !item->m.released;

    return item->place == PLACE_WAITING && !item->outdated && item->dead == NULL &&
           suspicion(&item->m) <= suspicion(&first->m) && message_unexplained(&item->m) < RUN_UNEXPLAINED_MAX &&
           !stream_misses_head(s, item->m.seq) && !held_before && !is_unsendable(e, item, now_us);
}

void run_gather(struct engine *e, struct item *first, int64_t now_us)
{
    struct stream *s = first->stream;
    struct item *last = first;
    size_t count = 1, bytes = first->bytes;

    if (!hands_out_runs(e) || s == NULL || first->dead != NULL || first->m.released ||
        message_unexplained(&first->m) >= RUN_UNEXPLAINED_MAX)
        return;
    list_foreach(node, &s->items) {
        struct item *item = LIST_ENTRY(node, struct item, node);
        bytes += item->bytes;
        if (count++ == RUN_COUNT_MAX || bytes > RUN_BYTES_MAX || item_is_late(item) ||
            !run_takes(e, first, item, now_us))
            return;
        s->busy++;
        item->number = item->m.attempts + 1;
        item_move(e, item, PLACE_RUN);
        item->run_first = first;
        last = last->run_next = item;
    }
}

struct item *run_detach(struct item *first)
{
    struct item *rest = first->run_next;

    first->run_next = NULL;
    for (struct item *item = rest; item != NULL; item = item->run_next)
        item->run_first = NULL;
    return rest;
}

/* Hands them back uncounted; the first one is handed back by its own result. */
void run_return(struct engine *e, struct item *rest)
{
    for (struct item *item = rest, *next; item != NULL; item = next) {
        struct stream *s = item->stream;
        next = item->run_next;
        item->run_next = item->run_first = NULL;
        receipt_leave(item, true);
        item_wait(e, item, true);
        e->counts.returned++;
        s->busy--;
        stream_update(e, s);
    }
}

/* ---- The result ------------------------------------------------------------------------------- */

static void run_complete(struct engine *e, const struct item *first, struct item *rest)
{
    for (struct item *item = rest, *next; item != NULL; item = next) {
        next = item->run_next;
        item->run_next = NULL;
        item->refusable = first->refusable;
        judge_complete(e, item, first->verdict.bits);
        item->verdict.joined = first->effects != NULL;
    }
}

/* The other items get the first one's verdict, with their own counters. */
static void run_judge(struct engine *e, const struct item *first, struct item *rest, int64_t now_us)
{
    for (struct item *item = rest, *next; item != NULL; item = next) {
        struct verdict v = first->verdict;
        next = item->run_next;
        item->run_next = NULL;
        v.story = (pr_slice){ NULL, 0 };
        judge(e, item, &v, verdict_traits(v.kind)->name,
              v.delay_us > 0 && v.delay_us != PR_NEVER ? store_now(e, now_us) + v.delay_us : 0, now_us);
        item->weighs_on = first->weighs_on;
    }
}

void run_follow(struct engine *e, struct item *first, struct item *rest, int64_t now_us)
{
    if (rest == NULL)
        return;
    if (first->place != PLACE_JUDGED || first->verdict.kind == VERDICT_ASK)
        run_return(e, rest);
    else if (first->verdict.kind == VERDICT_COMPLETE)
        run_complete(e, first, rest);
    else
        run_judge(e, first, rest, now_us);
}

/* ---- The dead ----------------------------------------------------------------------------------- */

static pr_slice put_text(char **at, pr_slice text)
{
    pr_slice put = { *at, text.size };

    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return put;
}

/* Without memory it will be found dead once more. */
static void set_dead(struct item *item, const struct delivery_dead *d, bool counted)
{
    struct item_dead *dead = malloc(sizeof(*dead) + d->rule.size + d->code.size + d->error.size);
    if (dead == NULL)
        return;
    char *at = dead->texts;
    dead->counted = counted;
    dead->d = *d;
    dead->d.attempts = item->m.attempts + counted;
    dead->d.failures = item->m.failures + counted;
    dead->d.rule = put_text(&at, d->rule);
    dead->d.code = put_text(&at, d->code);
    dead->d.error = put_text(&at, d->error);
    free(item->dead);
    item->dead = dead;
}

bool run_keeps_dead(struct engine *e, struct item *item, const struct verdict *v)
{
    if (!hands_out_runs(e) || v->kind != VERDICT_DEAD_LETTER || item->endpoint == NULL)
        return false;
    const struct delivery_dead d = {
        .cause = v->cause, .reason = v->reason, .limit = v->limit, .rule = v->rule, .code = v->code, .error = v->error
    };
    set_dead(item, &d, v->counted);
    put_back(e, item);
    return true;
}

/* The others are treated as if they had never gone out. */
void run_blame(struct engine *e, struct item *first, const struct delivery_result *result)
{
    const struct delivery_dead d = { .cause = result->reason,
                                     .reason = result->reason,
                                     .rule = PR_STR("receiver"),
                                     .code = pr_str(result->code),
                                     .error = pr_str(result->error) };
    for (struct item *item = first; item != NULL; item = item->run_next)
        if (item_token(item) == result->blamed)
            set_dead(item, &d, true);
    item_return_unsent(e, first);
}

void run_bury(struct engine *e, struct item *item, int64_t now_us)
{
    const struct delivery_dead *d = &item->dead->d;

    e->counts.poison += d->cause == PR_REASON_POISON_MESSAGE && !item->dead->counted;
    judge_dead_letter(e, item, d, item->dead->counted, now_us);
}

/* Its receiver could not even store what follows from its death. */
void run_postpone_dead(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us)
{
    breakers_returned(e, item->endpoint, item);
    judge_simple(e, item, VERDICT_POSTPONE, PR_REASON_DEPENDENCY_FAILURE, PR_STR("receiver"), pr_str(result->error),
                 now_us);
    item->verdict.delay_us = DEAD_AGAIN_US;
}

/* ---- For engine_check ---------------------------------------------------------------------------- */

void run_check(const struct item *first)
{
    size_t count = 1, bytes = first->bytes;
    const struct item *last = first;

    for (const struct item *item = first->run_next; item != NULL; last = item, item = item->run_next) {
        ASSERT(item->place == PLACE_RUN && item->run_first == first && item->stream == first->stream);
        ASSERT(item->m.seq >= last->m.seq && item->number == item->m.attempts + 1 && item->dead == NULL);
        ASSERT(first->place == PLACE_CHOSEN || item->receipt == first->receipt);
        bytes += item->bytes;
        count++;
    }
    ASSERT(count <= RUN_COUNT_MAX && (count == 1 || bytes <= RUN_BYTES_MAX));
    if (first->stream != NULL)
        ASSERT(first->stream->busy == count);
}
