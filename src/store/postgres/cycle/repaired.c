/* Rows that were changed by plain SQL (B19): the trigger of 023_repaired_box.sql inserts a line for each transaction.
 *
 * Lines are recognised by their existence, since they are committed in any order.  A session that sees new ones informs
 * its engine at once; and with its next cycle it turns all of them into one notice, for all instances that have not
 * looked meanwhile. */
#include "base/error.h"
#include "store/postgres/postgres.h"

int pg_repairs_take(struct cycle_run *run, int64_t lines)
{
    struct pg_session *session = run->session;
    struct cycle_reply *reply = &session->reply;
    bool joins = run->cycle->notice_after == 0;                          /* and has read nothing yet */
    bool lost = !joins && session->repaired_cycle == run->cycle->number; /* the reply that reported it was lost */
    if (lines != session->repaired)
        session->repaired_cycle = joins || lines == 0 ? 0 : run->cycle->number;
    bool known = lines == session->repaired && !lost;
    session->repaired = lines;
    if (joins || known || (lines == 0 && !lost))
        return PR_OK;
    log_emit(session->store->log, LOG_INFO, "rows_repaired", LOG_SLICE("box", session->box));
    reply->notices[reply->notice_count++] = (struct notice){ .number = reply->notice_last, .kind = NOTICE_REPAIRED };
    return PR_OK;
}

/* Notices must be committed in the order of their numbers.  While another transaction writes one, this one does not
 * wait, but tries again later. */
void pg_repairs_tell(struct pg_session *session)
{
    struct link *link = session->link;
    struct args args = { .count = 0 };
    if (session->repaired == 0)
        return;
    pg_prefetch_drop(session);
    arg_text(&args, session->box);
    arg_i32(&args, NOTICE_REPAIRED);
    link_add_begin(link);
    link_add(link, "LOCK TABLE {schema}.control IN EXCLUSIVE MODE NOWAIT", NO_BOX, NULL, NULL);
    link_add(
        link,
        "WITH lines AS (DELETE FROM {schema}.repaired WHERE box = $1 RETURNING 1)"
        " INSERT INTO {schema}.control (box, kind, \"row\", seq) SELECT $1, $2, 0, 0 WHERE EXISTS (SELECT FROM lines)",
        NO_BOX, &args, NULL);
    link_add_commit(link);
    if (link_run(link, NULL) != PR_OK)
        link_rollback(link);
}
