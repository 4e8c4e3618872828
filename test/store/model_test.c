/* The model test: random operations on a store and on the model, compared after each.
 *
 * A sequence is a seed; an operation is a kind and four numbers that are read relative to what
 * is there, so every part of a sequence is a sequence, too.  A failing one is shrunk by
 * leaving out operations while it still fails, and printed with its seed.
 *
 *   MODEL_SEQUENCES=n  how many (default MODEL_SEQUENCES_DEFAULT)
 *   MODEL_SEED=n       only this one */
#include "model_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#if defined(__SANITIZE_ADDRESS__)
#define MODEL_SEQUENCES_DEFAULT 40
#else
#define MODEL_SEQUENCES_DEFAULT 300
#endif
#define MODEL_FILE_SHARE 10 /* a file is that much slower than memory */
#define MODEL_POSTGRES 10   /* sequences on a server, which is slower still */
#define OPS 200

static const struct {
    const char *name;
    unsigned weight;
} op_kinds[] = {
#define X(name, weight) { #name, weight },
    OP_KINDS(X)
#undef X
};

/* The index of the operation that fails, or count; the text is in failure. */
static size_t run_ops(const struct op *ops, size_t count, char failure[512])
{
    static struct run run;
    memset(&run, 0, sizeof(run));
    run.s = suite_open();
    run.w = suite_worker(run.s, "outbox");
    run.m.now_us = run.s->wall_us;
    bool ok = run_begin(&run);
    size_t i = 0;
    while (ok && i < count && (ok = run_op(&run, &ops[i])))
        i++;
    memcpy(failure, run.failure, sizeof(run.failure));
    suite_close(run.s);
    return ok ? count : i;
}

static void make_ops(uint64_t seed, struct op ops[OPS])
{
    struct random random;
    unsigned total = 0;
    for (size_t i = 0; i < OP_COUNT; i++)
        total += op_kinds[i].weight;
    random_init(&random, seed);
    for (size_t i = 0; i < OPS; i++) {
        uint64_t pick = random_below(&random, total);
        unsigned kind = 0;
        while (pick >= op_kinds[kind].weight)
            pick -= op_kinds[kind++].weight;
        ops[i] = (struct op){ .kind = (enum op_kind)kind,
                              .a = (uint32_t)random_u64(&random),
                              .b = (uint32_t)random_u64(&random),
                              .c = (uint32_t)random_u64(&random),
                              .d = (uint32_t)random_u64(&random) };
    }
}

/* Leave out pieces, large ones first, while it still fails; the new count. */
static size_t shrink(struct op *ops, size_t count, char failure[512])
{
    for (size_t piece = count / 2; piece > 0; piece /= 2)
        for (size_t at = 0; at + piece <= count;) {
            struct op fewer[OPS];
            memcpy(fewer, ops, at * sizeof(ops[0]));
            memcpy(fewer + at, ops + at + piece, (count - at - piece) * sizeof(ops[0]));
            char text[512];
            size_t failed = run_ops(fewer, count - piece, text);
            if (failed == count - piece) {
                at += piece;
                continue;
            }
            count = failed + 1; /* what comes after the failure is of no use */
            memcpy(ops, fewer, count * sizeof(ops[0]));
            memcpy(failure, text, sizeof(text));
        }
    return count;
}

static void run_seed(uint64_t seed)
{
    struct op ops[OPS];
    char failure[512];
    make_ops(seed, ops);
    size_t failed = run_ops(ops, OPS, failure);
    if (failed == OPS)
        return;
    size_t count = shrink(ops, failed + 1, failure);
    for (size_t i = 0; i < count; i++)
        printf("# %2zu %-8s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", i + 1, op_kinds[ops[i].kind].name,
               ops[i].a, ops[i].b, ops[i].c, ops[i].d);
    check_fail(__FILE__, __LINE__, "MODEL_SEED=%" PRIu64 ": after these %zu operations %s", seed, count, failure);
}

TEST(a_store_does_what_the_model_does_whatever_the_order_of_operations)
{
    const char *seed = getenv("MODEL_SEED"), *sequences = getenv("MODEL_SEQUENCES"), *store = getenv("SUITE_STORE");
    if (seed != NULL) {
        run_seed(strtoull(seed, NULL, 10));
        return;
    }
    uint64_t count = sequences != NULL ? strtoull(sequences, NULL, 10) : MODEL_SEQUENCES_DEFAULT;
    if (sequences == NULL && store != NULL && strcmp(store, "sqlite") == 0)
        count /= MODEL_FILE_SHARE;
    if (sequences == NULL && store != NULL && strcmp(store, "postgres") == 0)
        count = min_size(count, MODEL_POSTGRES);
    for (uint64_t i = 1; i <= count; i++)
        run_seed(i);
}
