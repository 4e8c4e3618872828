/* model.h - a store as simple as it can be: one box in an array, written from the contract
 * alone.  The model test (model_test.c) does random operations on a store and on this, and
 * compares replies and contents. */
#ifndef TEST_STORE_MODEL_H
#define TEST_STORE_MODEL_H

#include "store/store.h"

#define MODEL_ROWS_MAX 512
#define MODEL_RECEIPTS_MAX 64
#define MODEL_TEXT_MAX 24

enum model_place { MODEL_NOWHERE, MODEL_IN_BOX, MODEL_DEAD };

struct model_row {
    enum model_place place;
    pr_id id;
    char destination[MODEL_TEXT_MAX], stream[MODEL_TEXT_MAX], payload[MODEL_TEXT_MAX];
    char error[MODEL_TEXT_MAX], held_by[MODEL_TEXT_MAX], story[MODEL_TEXT_MAX];
    int64_t created_us, due_us, failed_us, died_us;
    int status, attempts, failures, reason, cause, held_for;
    bool released;
    bool dies;     /* while its instance is being buried: one attempt more */
    uint64_t read; /* the cycle of the instance at work whose fresh scan read it; 0: none */
    bool retold;   /* an operator's action added to the story: take it from the store */
    uint64_t row;  /* the store's name, 0: not learned yet */
    int64_t seq;   /* the store's, 0: not learned yet */
};

struct model_receipt {
    uint64_t cycle, row;
    int number;
};

struct model {
    struct model_row rows[MODEL_ROWS_MAX]; /* in the order of storing */
    size_t row_count;
    struct model_receipt receipts[MODEL_RECEIPTS_MAX];
    size_t receipt_count;
    int64_t now_us;
    int64_t seq_last;
};

struct model_row *model_find(struct model *m, pr_id id, const char *destination, enum model_place place);
struct model_row *model_find_row(struct model *m, uint64_t row); /* in the box */

/* PR_OK or PR_DUPLICATE. */
int model_enqueue(struct model *m, const struct pr_message *message);

/* The answer.  SPLIT: the new rows are not learned yet. */
int model_verdict(struct model *m, const struct verdict *verdict);

/* The instance dies, or leaves without open receipts; another joins. */
void model_bury(struct model *m);

struct admin_reply model_admin(struct model *m, enum admin_kind kind, pr_id id);

size_t model_count(const struct model *m, enum model_place place);
bool model_is_fresh(const struct model_row *r);
bool model_is_due(const struct model *m, const struct model_row *r);
/* STATE_COUNT: the contract does not say. */
enum state model_state(const struct model *m, const struct model_row *r);

#endif
