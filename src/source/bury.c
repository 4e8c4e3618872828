#include "source/bury.h"

#include "base/slice.h"

_Static_assert(PR_REASON_SERIALIZATION_ERROR == 5, "BURY_REASON says so, too");

static const enum oid types[BURY_ARRAYS] = { OID_TIME, OID_TEXT, OID_TEXT, OID_JSON, OID_TEXT };

void bury_init(struct bury *b)
{
    batch_init(&b->batch);
    for (size_t i = 0; i < BURY_ARRAYS; i++)
        array_init(&b->arrays[i]);
    b->count = 0;
}

void bury_fini(struct bury *b)
{
    batch_fini(&b->batch);
    for (size_t i = 0; i < BURY_ARRAYS; i++)
        array_fini(&b->arrays[i]);
}

void bury_begin(struct bury *b, const PGconn *pg)
{
    batch_begin(&b->batch, pg);
    for (size_t i = 0; i < BURY_ARRAYS; i++)
        array_begin(&b->arrays[i], types[i]);
    b->count = 0;
}

int bury_add(struct bury *b, const struct pr_message *m, pr_slice error, pr_slice why, pr_slice note, int64_t now_us)
{
    struct undecodable u;
    int rc = undecodable_init(&u, m, error, why, now_us);
    if (rc != PR_OK)
        return rc;
    batch_add(&b->batch, m);
    array_time(&b->arrays[BURY_CREATED], m->created_us);
    array_text(&b->arrays[BURY_ERROR], u.verdict.error);
    array_text_or_null(&b->arrays[BURY_NOTE], note);
    array_text_or_null(&b->arrays[BURY_STORY], u.verdict.story);
    array_text(&b->arrays[BURY_PRINT], slice_from(u.print));
    b->count++;
    undecodable_fini(&u);
    return PR_OK;
}

void bury_args(struct bury *b, int64_t now_us, struct args *ret)
{
    batch_args(&b->batch, now_us, ret);
    for (size_t i = 0; i < BURY_ARRAYS; i++)
        arg_array(ret, &b->arrays[i]);
}
