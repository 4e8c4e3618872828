/* model_ops.c - the operations of the model test. */
#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS 12
#define LEASE_US PR_SECONDS(36000) /* no lease ends by accident */

static const char *const destinations[] = { "", "a", "b" };
static const char *const streams[] = { "", "s1", "s2" };
static const char *const keys[] = { "a/", "b/", "k1", "k2" }; /* ascending; those of endpoints first */

/* A row of the box: the model's, by a number; NULL: it is empty. */
static struct model_row *pick_row(struct model *m, uint32_t number)
{
    size_t count = model_count(m, MODEL_IN_BOX);
    if (count == 0)
        return NULL;
    size_t wanted = number % count;
    for (size_t i = 0;; i++)
        if (m->rows[i].place == MODEL_IN_BOX && wanted-- == 0)
            return &m->rows[i];
}

static const struct cycle_reply *do_cycle(struct run *run, struct cycle cycle)
{
    cycle.lease_us = LEASE_US;
    int rc = worker_try(run->w, &cycle);
    if (rc != PR_OK) {
        run_wrong(run, "a cycle says %d: %s", rc, run->w->error.text);
        return NULL;
    }
    bool ok = SAME(run, "now", run->w->reply->now_us, run->m.now_us) &&
              SAME(run, "lanes", run->w->lanes, cycle.leave ? 0 : LANES_ALL);
    return ok ? run->w->reply : NULL;
}

static bool op_send(struct run *run, const struct op *op)
{
    char payload[MODEL_TEXT_MAX];
    struct pr_message m = {
        .id = suite_id(op->a % IDS + 1),
        .type = PR_STR("t"),
        .destination = pr_str(destinations[op->b % 3]),
        .stream = pr_str(streams[op->c % 3]),
    };
    static const int64_t dues[] = { 0, 0, 0, 0, -1000, 3000000, 9000000, 0, 0, INT64_MAX };
    int64_t due = dues[op->d % 10];
    m.due_us = due == 0 || due == INT64_MAX ? due : run->m.now_us + due;
    snprintf(payload, sizeof(payload), "%" PRIu32, op->d);
    m.payload = pr_str(payload);
    return SAME(run, "send", suite_offer(run->s, "outbox", m), model_enqueue(&run->m, &m));
}

static bool op_advance(struct run *run, const struct op *op)
{
    int64_t us = op->a % 5 * PR_SECONDS(1) + 1;
    suite_advance(run->s, us);
    run->m.now_us += us;
    return true;
}

static bool op_claim(struct run *run, const struct op *op)
{
    struct receipt_entry entries[3];
    size_t count = 0;
    const uint32_t picks[3] = { op->a, op->b, op->c };
    for (size_t i = 0; i < op->d % 3 + 1; i++) {
        const struct model_row *r = pick_row(&run->m, picks[i]);
        bool twice = r == NULL;
        for (size_t k = 0; k < run->m.receipt_count && !twice; k++)
            twice = run->m.receipts[k].row == r->row;
        if (twice || run->m.receipt_count == MODEL_RECEIPTS_MAX)
            continue;
        entries[count] = (struct receipt_entry){ .row = r->row, .number = r->attempts + 1 };
        run->m.receipts[run->m.receipt_count++] =
            (struct model_receipt){ .cycle = run->w->number, .row = r->row, .number = entries[count].number };
        count++;
    }
    return do_cycle(run, (struct cycle){ .receipt = entries, .receipt_count = count }) != NULL;
}

/* Is every field that a split leaves open at its default, and nobody in its way? */
static bool can_split(struct model *m, const struct model_row *r)
{
    bool plain = r->destination[0] == '\0' && r->attempts == 0 && r->failures == 0 && r->reason == 0 &&
                 r->held_by[0] == '\0' && r->due_us != PR_NEVER;
    for (size_t i = 1; i < 3 && plain; i++)
        plain = model_find(m, r->id, destinations[i], MODEL_IN_BOX) == NULL &&
                model_find(m, r->id, destinations[i], MODEL_DEAD) == NULL;
    return plain;
}

static void make_verdict(struct run *run, uint32_t pick, uint32_t how, struct verdict *ret)
{
    static const pr_slice to[] = { { "a", 1 }, { "b", 1 } };
    static const struct part_holder holders[] = { { .key = { NULL, 0 } }, { { "k2", 2 }, PR_HELD_FOR_STREAM } };
    static const enum verdict_kind kinds[] = {
        VERDICT_COMPLETE, VERDICT_FAIL,     VERDICT_FAIL,        VERDICT_RETURN, VERDICT_ABANDON, VERDICT_RELEASE,
        VERDICT_DISCARD,  VERDICT_EXPIRE,   VERDICT_DEAD_LETTER, VERDICT_PARK,   VERDICT_HOLD,    VERDICT_HOLD,
        VERDICT_SPLIT,    VERDICT_POSTPONE, VERDICT_RESCHEDULE,  VERDICT_ASK
    };
    static const int64_t delays[] = { 0, 2000000, 7000000, INT64_MAX };
    const struct model_row *r = pick_row(&run->m, pick);
    enum verdict_kind kind = kinds[how % ARRAY_LENGTH(kinds)];
    how /= ARRAY_LENGTH(kinds);
    bool nowhere = r == NULL || pick % 16 == 15;
    if (kind == VERDICT_SPLIT && (nowhere || !can_split(&run->m, r)))
        kind = VERDICT_RETURN;
    *ret = (struct verdict){ .kind = kind,
                             .row = 1000000 + pick % 7,
                             .id = suite_id(1),
                             .cause = PR_REASON_POISON_MESSAGE,
                             .held_by = pr_str(keys[2 + how % 2]) };
    if (nowhere)
        return;
    ret->row = r->row;
    ret->id = how % 32 == 31 ? suite_id(IDS + 50) : r->id;
    int numbers[] = { r->attempts + 1, r->attempts + 1, r->attempts + 1, 0, r->attempts, r->attempts + 2 };
    ret->number = numbers[how % 6];
    if (kind != VERDICT_FAIL && kind != VERDICT_POSTPONE && kind != VERDICT_ABANDON && kind != VERDICT_PARK &&
        kind != VERDICT_ASK && ret->number <= r->attempts)
        ret->number = r->attempts + 1; /* only those five look at it */
    ret->delay_us = delays[how / 6 % 4];
    ret->reason = kind == VERDICT_RETURN || kind == VERDICT_RELEASE || how % 5 == 0 ? 0 : (int)(how % 6 + 1);
    ret->due_is_us = how % 8 == 7 ? r->due_us / 2 + 1 : r->due_us;
    ret->due_us = run->m.now_us + delays[how % 3];
    ret->counted = kind == VERDICT_DEAD_LETTER && ret->reason != 0;
    ret->error = how % 3 == 0 ? PR_STR("it's") : PR_STR("no");
    ret->bits = kind == VERDICT_FAIL ? (int)(how % 2) * PR_STATUS_EVENT_STORED : 0;
    ret->story =
        (kind == VERDICT_FAIL || kind == VERDICT_POSTPONE) && how % 7 == 0 ? PR_STR("[{\"a\":1}]") : PR_STR("");
    ret->destinations = to;
    ret->holders = how % 4 == 0 ? holders : NULL;
    ret->destination_count = kind == VERDICT_SPLIT ? 2 : 0;
}

/* Up to four verdicts, and perhaps an effect of the first. */
static bool op_verdicts(struct run *run, const struct op *op)
{
    struct verdict v[4];
    size_t count = op->a % 4 + 1;
    const uint32_t how[4] = { op->b, op->c, op->d, op->a / 5 };
    for (size_t i = 0; i < count; i++) {
        make_verdict(run, how[(i + 1) % 4] / 97, how[i], &v[i]);
        for (size_t k = 0; k < i; k++) /* a split is alone with its row, and who dies has the latest number */
            if (v[k].row == v[i].row &&
                (v[k].kind == VERDICT_SPLIT || v[i].kind == VERDICT_SPLIT || v[i].kind == VERDICT_DEAD_LETTER))
                v[i].row = 1000000;
    }
    char payload[] = "effect";
    struct pr_message message = { .id = suite_id(op->d % IDS + 1),
                                  .type = PR_STR("t"),
                                  .payload = pr_str(payload),
                                  .destination = pr_str(destinations[op->c % 3]) };
    struct effect effect = { .verdict = 0, .box = PR_STR("outbox"), .message = &message };
    bool with_effect = op->d % 5 == 0;

    const struct cycle_reply *r = do_cycle(
        run, (struct cycle){ .verdicts = v, .verdict_count = count, .effects = &effect, .effect_count = with_effect });
    if (r == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        int expected = model_verdict(&run->m, &v[i]);
        if (r->answers[i] != expected)
            return run_wrong(run, "verdict %zu, kind %d, number %d, row %" PRIu64 ", is answered %d; the model says %d",
                             i, (int)v[i].kind, v[i].number, v[i].row, r->answers[i], expected);
    }
    if (with_effect && r->answers[0] == PR_OK)
        (void)model_enqueue(&run->m, &message);
    return true;
}

/* The rows of a reply from one source against what the model expects, in order. */
static bool same_read(struct run *run, const char *what, const struct cycle_reply *r, enum row_from from,
                      struct model_row *const *expected, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct row *row = &r->rows[i];
        if (row->from != from)
            continue;
        if (at == count)
            return run_wrong(run, "%s: more than the %zu rows that the model has", what, count);
        struct model_row *e = expected[at++];
        if (!SAME(run, what, row->row, e->row) || !SAME(run, "attempts as read", row->m.attempts, e->attempts) ||
            !SAME(run, "due as read", row->m.due_us, e->due_us) || !SAME(run, "seq as read", row->m.seq, e->seq))
            return false;
    }
    return SAME(run, what, at, count);
}

/* Rows that satisfy it, sorted by up to three numbers. */
static int compare_due(const void *a, const void *b)
{
    const struct model_row *x = *(struct model_row *const *)a, *y = *(struct model_row *const *)b;
    if (x->due_us != y->due_us)
        return x->due_us < y->due_us ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int compare_seq(const void *a, const void *b)
{
    const struct model_row *x = *(struct model_row *const *)a, *y = *(struct model_row *const *)b;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int compare_row(const void *a, const void *b)
{
    const struct model_row *x = *(struct model_row *const *)a, *y = *(struct model_row *const *)b;
    return (x->row > y->row) - (x->row < y->row);
}

static bool row_is_head(const struct model_row *r)
{
    return r->due_us == PR_NEVER ||
           (r->due_us != 0 && !r->released && ((r->status & PR_STATUS_FAILED) != 0 || r->attempts > 0));
}

static bool same_fresh(struct run *run, const struct cycle_reply *r, size_t limit)
{
    size_t read = 0, left = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        if (r->rows[i].from != ROW_FRESH)
            continue;
        struct model_row *e = model_find_row(&run->m, r->rows[i].row);
        if (e == NULL || !model_is_fresh(e))
            return run_wrong(run, "the fresh scan reads a row that is not fresh");
        if (e->read != 0)
            return run_wrong(run, "the fresh scan reads a row twice");
        e->read = run->w->number - 1;
        read++;
    }
    for (size_t i = 0; i < run->m.row_count; i++)
        left += model_is_fresh(&run->m.rows[i]) && run->m.rows[i].read == 0;
    if (read < limit && left > 0)
        return run_wrong(run, "the fresh scan leaves out %zu rows", left);
    if (r->fresh_end && left > 0)
        return run_wrong(run, "the fresh scan says that it is at its end");
    return read >= limit || r->fresh_end || run_wrong(run, "the fresh scan does not say that it is at its end");
}

static bool op_read(struct run *run, const struct op *op)
{
    struct model_row *due[MODEL_ROWS_MAX];
    size_t count = 0, limit = op->a % 6 + 1;
    int64_t next = PR_NEVER;
    for (size_t i = 0; i < run->m.row_count; i++) {
        struct model_row *r = &run->m.rows[i];
        if (model_is_due(&run->m, r))
            due[count++] = r;
        else if (r->place == MODEL_IN_BOX && r->held_by[0] == '\0' && r->due_us > run->m.now_us)
            next = min64(next, r->due_us);
    }
    qsort(due, count, sizeof(due[0]), compare_due);
    const struct cycle_reply *r =
        do_cycle(run, (struct cycle){ .fresh_rows = limit, .fresh_bytes = SIZE_MAX, .due.rows = 100 });
    return r != NULL && same_read(run, "due row", r, ROW_DUE, due, count) && SAME(run, "due_end", r->due_end, true) &&
           SAME(run, "next_due", r->next_due_us, next) && same_fresh(run, r, limit);
}

static bool op_heads(struct run *run, const struct op *op)
{
    struct model_row *heads[MODEL_ROWS_MAX];
    size_t count = 0;
    uint64_t lanes = op->a % 2 == 0 ? LANES_ALL : (uint64_t)op->b << 32 | op->c;
    for (size_t i = 0; i < run->m.row_count; i++) {
        struct model_row *r = &run->m.rows[i];
        if (r->place == MODEL_IN_BOX && row_is_head(r) && (lanes & lane_bit(lane_of(pr_str(r->stream), r->id))) != 0)
            heads[count++] = r;
    }
    qsort(heads, count, sizeof(heads[0]), compare_row);
    const struct cycle_reply *r = do_cycle(run, (struct cycle){ .heads = { .rows = 100, .lanes = lanes } });
    return r != NULL && same_read(run, "head", r, ROW_HEAD, heads, count) && SAME(run, "heads_end", r->heads_end, true);
}

static bool op_held(struct run *run, const struct op *op)
{
    struct model_row *held[MODEL_ROWS_MAX];
    size_t count = 0, key_count = 0;
    const char *key = keys[op->a % ARRAY_LENGTH(keys)];
    bool used[ARRAY_LENGTH(keys)] = { false };
    for (size_t i = 0; i < run->m.row_count; i++) {
        struct model_row *r = &run->m.rows[i];
        if (r->place != MODEL_IN_BOX || r->held_by[0] == '\0')
            continue;
        if (strcmp(r->held_by, key) == 0)
            held[count++] = r;
        for (size_t k = 0; k < ARRAY_LENGTH(keys); k++)
            used[k] = used[k] || strcmp(r->held_by, keys[k]) == 0;
    }
    qsort(held, count, sizeof(held[0]), compare_seq);
    struct held_read read = { .key = pr_str(key), .rows = 100 };
    const struct cycle_reply *r = do_cycle(
        run, (struct cycle){ .held = &read, .held_count = 1, .held_keys = { .rows = 10, .lanes = LANES_ALL } });
    if (r == NULL || !same_read(run, "held row", r, ROW_HELD, held, count) ||
        !SAME(run, "held_end", r->held_end[0], true))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (used[i]) {
            if (r->held_key_count <= key_count)
                return run_wrong(run, "a key of held rows is not told");
            if (!same_text(run, "held key", r->held_keys[key_count++], keys[i]))
                return false;
        }
    return SAME(run, "held keys", r->held_key_count, key_count);
}

static bool op_reread(struct run *run, const struct op *op)
{
    struct model_row *rows[MODEL_ROWS_MAX];
    size_t count = 0;
    int64_t from = run->m.seq_last > 0 ? (int64_t)(op->a % (uint64_t)run->m.seq_last) : 0;
    int64_t to = from + op->b % 12 + 1;
    for (size_t i = 0; i < run->m.row_count; i++) {
        struct model_row *r = &run->m.rows[i];
        if (model_is_fresh(r) && r->seq >= from && r->seq < to)
            rows[count++] = r;
    }
    qsort(rows, count, sizeof(rows[0]), compare_seq);
    const struct cycle_reply *r =
        do_cycle(run, (struct cycle){ .reread = { .rows = 100, .from_seq = from, .to_seq = to } });
    return r != NULL && same_read(run, "row read again", r, ROW_REREAD, rows, count) &&
           SAME(run, "reread_end", r->reread_end, true);
}

static bool op_admin(struct run *run, const struct op *op)
{
    static const enum admin_kind kinds[] = { ADMIN_RETRY,       ADMIN_PARK,        ADMIN_DISCARD,     ADMIN_DEAD_ADD,
                                             ADMIN_DEAD_REPLAY, ADMIN_DEAD_REPLAY, ADMIN_DEAD_DISCARD };
    pr_id id = suite_id(op->b % (IDS + 1) + 1); /* one of them is nowhere */
    enum admin_kind kind = kinds[op->a % ARRAY_LENGTH(kinds)];
    struct admin admin = { .kind = kind,
                           .filter = FILTER(.ids = &id, .id_count = 1, .box = PR_STR("outbox")),
                           .by = PR_STR("m"),
                           .dry_run = op->c % 6 == 0 };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = store_admin(&run->s->store, &admin, &reply, &error);
    if (rc != PR_OK)
        return run_wrong(run, "an action says %d: %s", rc, error.text);
    static struct model scratch;
    scratch = run->m;
    struct admin_reply wanted = model_admin(admin.dry_run ? &scratch : &run->m, kind, id);
    return SAME(run, "matched", reply.matched, wanted.matched) && SAME(run, "changed", reply.changed, wanted.changed) &&
           SAME(run, "refused", reply.refused, wanted.refused);
}

/* Close the receipts of some cycle. */
static bool op_close(struct run *run, const struct op *op)
{
    if (run->m.receipt_count == 0)
        return true;
    uint64_t cycle = run->m.receipts[op->a % run->m.receipt_count].cycle;
    size_t kept = 0;
    for (size_t i = 0; i < run->m.receipt_count; i++)
        if (run->m.receipts[i].cycle != cycle)
            run->m.receipts[kept++] = run->m.receipts[i];
    run->m.receipt_count = kept;
    return do_cycle(run, (struct cycle){ .closed = &cycle, .closed_count = 1 }) != NULL;
}

/* The number of the last cycle again, now with a verdict that would change much.  It changes
 * nothing, and what its lost answer has read is read again. */
static bool op_repeat(struct run *run, const struct op *op)
{
    struct verdict v;
    size_t limit = op->c % 3;
    make_verdict(run, op->a, op->b, &v);
    run->w->number--;
    for (size_t i = 0; i < run->m.row_count; i++)
        if (run->m.rows[i].read == run->w->number)
            run->m.rows[i].read = 0;
    const struct cycle_reply *r = do_cycle(
        run, (struct cycle){ .verdicts = &v, .verdict_count = 1, .fresh_rows = limit, .fresh_bytes = SIZE_MAX });
    return r != NULL && SAME(run, "replayed", r->replayed, true) && (limit == 0 || same_fresh(run, r, limit));
}

bool run_begin(struct run *run)
{
    worker_renew_identity(run->w);
    model_bury(&run->m);
    const struct cycle_reply *r = do_cycle(run, (struct cycle){ 0 });
    return r != NULL;
}

static bool op_die(struct run *run, const struct op *op)
{
    (void)op;
    struct suite *s = run->s;
    worker_vanish(run->w);
    s->worker_count = 0;
    if (suite_can(s, STORE_CAN_LAST))
        suite_reopen(s);
    suite_advance(s, LEASE_US + 1);
    run->m.now_us += LEASE_US + 1;
    run->w = suite_worker(s, "outbox");
    return run_begin(run);
}

static bool op_leave(struct run *run, const struct op *op)
{
    (void)op;
    uint64_t closed[MODEL_RECEIPTS_MAX];
    for (size_t i = 0; i < run->m.receipt_count; i++)
        closed[i] = run->m.receipts[i].cycle;
    if (do_cycle(run, (struct cycle){ .leave = true, .closed = closed, .closed_count = run->m.receipt_count }) == NULL)
        return false;
    run->m.receipt_count = 0;
    return run_begin(run);
}

bool run_op(struct run *run, const struct op *op)
{
    static bool (*const functions[])(struct run *, const struct op *) = {
        [OP_SEND] = op_send,   [OP_ADVANCE] = op_advance, [OP_CLAIM] = op_claim,   [OP_VERDICTS] = op_verdicts,
        [OP_READ] = op_read,   [OP_HEADS] = op_heads,     [OP_HELD] = op_held,     [OP_REREAD] = op_reread,
        [OP_ADMIN] = op_admin, [OP_CLOSE] = op_close,     [OP_REPEAT] = op_repeat, [OP_DIE] = op_die,
        [OP_LEAVE] = op_leave,
    };
    bool kills = op->kind == OP_VERDICTS || op->kind == OP_ADMIN || op->kind == OP_SEND || op->kind == OP_DIE;
    return functions[op->kind](run, op) && same_box(run) && (!kills || same_dead_letters(run));
}
