/* Which warnings are new, for all instances together. */
#include "base/error.h"
#include "store/postgres/message.h"
#include "store/postgres/postgres.h"

/* Who comes second waits for the first, and then finds it there: a row that was inserted has no xmax. */
static const char WARN[] = "INSERT INTO {schema}.raised_warning (name, began_at, seen_at) VALUES ($1, $2, $2)"
                           " ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at RETURNING xmax = '0'::xid";

static void add_message(struct postgres_store *store, struct batch *batch, pr_slice box,
                        const struct pr_message *message)
{
    struct args args;
    batch_begin(batch);
    batch_add(batch, message);
    batch_args(batch, pg_store_wall_us(store), &args);
    link_add(store->people, PG_MESSAGE_INSERT, box, &args, NULL);
}

static int warn_all(struct postgres_store *store, const struct warnings *warnings, int64_t calm_us, bool *ret_new,
                    struct pr_error *reterr)
{
    struct batch batch;
    struct link *link = store->people;
    PGresult *r = NULL;
    struct args now = { .count = 0 };
    int rc = link_ensure(link, reterr);
    if (rc != PR_OK)
        return rc;
    link_add_begin(link);
    arg_time(&now, pg_store_wall_us(store));
    link_add(link, "SELECT " NOW("$1"), NO_BOX, &now, &r);
    rc = link_run(link, reterr);
    int64_t now_us = rc == PR_OK ? field_time(r, 0, 0) : 0;
    if (rc == PR_OK) {
        struct args calm = { .count = 0 };
        arg_time(&calm, max64(time_sub(now_us, calm_us), 1));
        rc = link_do(link, "DELETE FROM {schema}.raised_warning WHERE seen_at < $1", NO_BOX, &calm, &r, reterr);
    }
    batch_init(&batch);
    for (size_t i = 0; i < warnings->count && rc == PR_OK; i++) {
        struct args args = { .count = 0 };
        arg_text(&args, warnings->names[i]);
        arg_time(&args, now_us);
        rc = link_do(link, WARN, NO_BOX, &args, &r, reterr);
        if (rc == PR_OK)
            ret_new[i] = field_bool(r, 0, 0);
        if (rc == PR_OK && ret_new[i] && warnings->messages != NULL) {
            add_message(store, &batch, warnings->box, &warnings->messages[i]);
            rc = link_run(link, reterr);
        }
    }
    batch_fini(&batch);
    if (rc == PR_OK) {
        link_add_commit(link);
        rc = link_run(link, reterr);
    }
    link_rollback(link);
    link_forget(link);
    return rc;
}

int pg_warn(void *self, const struct warnings *warnings, int64_t calm_us, bool *ret_new, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    pthread_mutex_lock(&store->people_lock);
    int rc = warn_all(store, warnings, calm_us, ret_new, reterr);
    pthread_mutex_unlock(&store->people_lock);
    if (rc == PR_OK)
        pg_store_wake(store);
    return rc;
}
