/* The verdicts of a cycle: as changes (change.c), or within the one batch that also commits. */
#include "base/error.h"
#include "store/postgres/cycle/change.h"
#include "store/postgres/postgres.h"

/* The changes for the verdicts; list NULL: no memory. */
static struct pg_changes changes_of(struct cycle_run *run)
{
    struct pg_session *session = run->session;
    const struct cycle *c = run->cycle;
    if (run->changes == NULL) {
        struct change *list = arena_alloc_array(&session->arena, c->verdict_count, sizeof(list[0]));
        for (size_t i = 0; list != NULL && i < c->verdict_count; i++)
            list[i] = change_of_verdict(&c->verdicts[i], c->keep_us > 0);
        run->changes = list;
    }
    return (struct pg_changes){
        .link = run->link,
        .box = session->box,
        .list = run->changes,
        .count = c->verdict_count,
        .lanes = run->lanes,
        .wall_us = pg_store_wall_us(session->store),
        .keep_us = c->keep_us,
        .arena = &session->arena,
        .arrays = session->arrays,
        .ctids = &session->ctid_cache,
        .wary = session->wary,
        .blocked = run->guards.verdicts,
    };
}

int pg_verdicts_apply(struct cycle_run *run)
{
    struct pg_changes changes = changes_of(run);
    if (changes.list == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", run->cycle->verdict_count);
    int rc = pg_changes_apply(&changes, run->reterr);
    run->session->reply.answers = changes.answers;
    run->session->reply.split_rows = changes.split_rows;
    run->any_busy = changes.any_busy;
    return rc == PR_OK ? pg_ended_add(run) : rc;
}

/* ---- In one batch with the commit --------------------------------------------------------------- */

bool pg_verdicts_fit_one_batch(struct cycle_run *run)
{
    const struct pg_changes changes = changes_of(run);
    return changes.list != NULL && pg_changes_fit_one_batch(&changes);
}

int pg_verdicts_add_one_batch(struct cycle_run *run)
{
    struct pg_changes changes = changes_of(run);
    const struct cycle *c = run->cycle;
    int *answers = arena_alloc_array(&run->session->arena, c->verdict_count, sizeof(answers[0]));
    if (c->verdict_count == 0)
        return PR_OK;
    if (answers == NULL || changes.list == NULL || pg_changes_add_one_batch(&changes) != PR_OK)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", c->verdict_count);
    for (size_t i = 0; i < c->verdict_count; i++)
        answers[i] = PR_OK; /* otherwise there is no reply */
    run->session->reply.answers = answers;
    return pg_ended_add(run);
}
