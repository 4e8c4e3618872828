/* model_run.h - one run of the model test: operations on a store and on the model. */
#ifndef TEST_STORE_MODEL_RUN_H
#define TEST_STORE_MODEL_RUN_H

#include "model.h"
#include "suite.h"

#include <inttypes.h>

/*    NAME       weight */
#define OP_KINDS(X)                                                                                                    \
    X(SEND, 20)                                                                                                        \
    X(ADVANCE, 8)                                                                                                      \
    X(CLAIM, 12)                                                                                                       \
    X(VERDICTS, 30)                                                                                                    \
    X(READ, 10)                                                                                                        \
    X(HEADS, 4)                                                                                                        \
    X(HELD, 4)                                                                                                         \
    X(REREAD, 3)                                                                                                       \
    X(ADMIN, 12)                                                                                                       \
    X(CLOSE, 5)                                                                                                        \
    X(REPEAT, 4)                                                                                                       \
    X(DIE, 2)                                                                                                          \
    X(LEAVE, 1)

enum op_kind {
#define X(name, weight) OP_##name,
    OP_KINDS(X)
#undef X
        OP_COUNT
};

/* The numbers are read relative to what is there: every part of a sequence is one, too. */
struct op {
    enum op_kind kind;
    uint32_t a, b, c, d;
};

struct run {
    struct suite *s;
    struct worker *w;
    struct model m;
    char failure[512];
};

/* Say what is wrong, the first time; false. */
bool run_wrong(struct run *run, const char *format, ...) PR_PRINTF(2, 3);

#define SAME(run, what, got, wanted)                                                                                   \
    ((int64_t)(got) == (int64_t)(wanted) ||                                                                            \
     run_wrong((run), "%s is %" PRId64 ", the model says %" PRId64, (what), (int64_t)(got), (int64_t)(wanted)))

bool same_text(struct run *run, const char *what, pr_slice got, const char *wanted);

/* Are box and dead letters of the store those of the model?  (model_same.c) */
bool same_box(struct run *run);
bool same_dead_letters(struct run *run);

/* Do it on both and compare the answers.  (model_ops.c) */
bool run_begin(struct run *run); /* an instance joins */
bool run_op(struct run *run, const struct op *op);

#endif
