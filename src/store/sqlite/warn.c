/* warn.c - which warnings are new, for all instances together. */
#include "base/error.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })

static int warn_one(struct conn *conn, const struct warnings *warnings, size_t i, int64_t now_us, bool *ret_new,
                    struct pr_error *reterr)
{
    pr_slice name = warnings->names[i];
    int changed = 0;
    int rc = conn_do(conn, "UPDATE postrider_raised_warning SET seen_at = ?2 WHERE name = ?1", NO_BOX,
                     VALUES(V_TEXT(name), V_INT(now_us)), &changed, reterr);
    *ret_new = rc == PR_OK && changed == 0;
    if (*ret_new)
        rc = conn_do(conn, "INSERT INTO postrider_raised_warning (name, began_at, seen_at) VALUES (?1, ?2, ?2)", NO_BOX,
                     VALUES(V_TEXT(name), V_INT(now_us)), NULL, reterr);
    if (rc == PR_OK && *ret_new && warnings->messages != NULL)
        rc = message_insert(conn, warnings->box, &warnings->messages[i], now_us, reterr);
    return rc < 0 ? rc : PR_OK; /* a duplicate is there already */
}

int sqlite_warn(void *self, const struct warnings *warnings, int64_t calm_us, bool *ret_new, struct pr_error *reterr)
{
    struct sqlite_store *store = self;
    struct conn *conn;
    int rc = store_people(store, false, &conn, reterr);
    if (rc != PR_OK)
        return rc;
    conn_lock(conn);
    int64_t now_us = store_wall_us(store);
    rc = conn_begin(conn, true, reterr);
    if (rc == PR_OK)
        rc = conn_do(conn, "DELETE FROM postrider_raised_warning WHERE seen_at < ?1", NO_BOX,
                     VALUES(V_INT(time_sub(now_us, calm_us))), NULL, reterr);
    for (size_t i = 0; i < warnings->count && rc == PR_OK; i++)
        rc = warn_one(conn, warnings, i, now_us, &ret_new[i], reterr);
    if (rc == PR_OK)
        rc = conn_commit(conn, reterr);
    if (rc != PR_OK)
        conn_rollback(conn);
    conn_unlock(conn);
    if (rc == PR_OK)
        store_wake(store);
    return rc;
}
