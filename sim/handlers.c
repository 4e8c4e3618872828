/* Receivers that complete messages in their own transactions, with their own writes (pr_complete_sqlite() and
 * PR_SETTLED): that transaction commits, is rolled back, or ends in an unknown way; and a report of "settled" may be
 * wrong.  The writes of such a handler are one row of its own table for each commit: the SETTLED events of the
 * history. */
#include "world.h"

#include "base/error.h"
#include "core/completion.h"
#include "store/memory/memory.h"
#include "store/sqlite/send.h"
#include "store/sqlite/sqlite.h"

static int complete_sqlite(struct world *w, const struct completion *c, bool commits)
{
    struct pr_error error;
    struct conn *conn;
    int rc = store_people(w->store.self, false, &conn, &error);
    if (rc == PR_OK)
        rc = conn_script(conn, "BEGIN IMMEDIATE", &error);
    ASSERT(rc == PR_OK);
    int answer = sqlite_complete(conn->db, c, &error);
    rc = conn_script(conn, answer == PR_OK && commits ? "COMMIT" : "ROLLBACK", &error);
    ASSERT(rc == PR_OK);
    return answer;
}

/* PR_OK: it is committed, with all writes of the handler. */
static int complete(struct world *w, const struct completion *c, bool commits)
{
    if (w->scenario->sqlite)
        return complete_sqlite(w, c, commits);
    return commits ? memory_complete(&w->store, c) : PR_OK;
}

enum send_outcome handler_run(struct world *w, unsigned endpoint, const struct delivery *d, struct event *event)
{
    struct random *r = &w->dice[DIE_HANDLERS];
    bool rolled_back = random_chance(r, w->faults.handler), unknown = random_chance(r, w->faults.handler);
    const struct completion c = { .box = w->scenario->engine.box,
                                  .endpoint = w->scenario->endpoints[endpoint].name,
                                  .destination = d->message->destination,
                                  .row = d->row,
                                  .id = d->message->id,
                                  .number = d->attempt,
                                  .keep_us = w->scenario->engine.keep_us,
                                  .dedupe_us = w->scenario->engine.dedupe_us };
    int answer = complete(w, &c, !rolled_back);
    if (answer < 0)
        w->broken = "a handler could not complete its message";
    event->answer = (int16_t)(rolled_back ? PR_FAILED : answer);
    world_note(w, *event);
    if (unknown)
        return SEND_UNCERTAIN;
    return answer == PR_STALE ? SEND_STALE : SEND_SETTLED;
}
