#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"
#include "lib/lib.h"
#include "store/sqlite/send.h"
#include "store/store.h"

int lib_missing(const char *argument, struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL, "%s is NULL", argument);
}

int lib_box(const char *box, pr_slice *ret_box, struct pr_error *reterr)
{
    pr_slice name = slice_from(box != NULL ? box : LIB_BOX_DEFAULT);
    if (!name_is_valid(name))
        return error_set(reterr, PR_EINVAL, "box \"%.64s\" is not a valid name: use letters, digits and _, at most %d",
                         name.data, BOX_NAME_MAX);
    *ret_box = name;
    return PR_OK;
}

int lib_message(const struct pr_message *message, struct pr_message *ret_message, struct pr_error *reterr)
{
    if (message == NULL)
        return lib_missing("message", reterr);
    int rc = message_check(message, LIB_PAYLOAD_MAX, reterr);
    if (rc < 0)
        return rc;
    *ret_message = *message;
    if (pr_id_is_zero(message->id))
        pr_id_new(&ret_message->id);
    return PR_OK;
}

PR_API int pr_send_sqlite_box(struct sqlite3 *db, const char *box, const struct pr_message *message, pr_id *ret_id,
                              struct pr_error *reterr)
{
    pr_slice name;
    struct pr_message m;
    if (db == NULL)
        return lib_missing("db", reterr);
    int rc = lib_box(box, &name, reterr);
    if (rc == PR_OK)
        rc = lib_message(message, &m, reterr);
    if (rc == PR_OK)
        rc = sqlite_send(db, name, &m, reterr);
    if (rc >= 0 && ret_id != NULL)
        *ret_id = m.id;
    return rc;
}

PR_API int pr_send_sqlite(struct sqlite3 *db, const struct pr_message *message, pr_id *ret_id, struct pr_error *reterr)
{
    return pr_send_sqlite_box(db, NULL, message, ret_id, reterr);
}

struct pr_sqlite_sender {
    struct sqlite_sender sender;
};

PR_API int pr_sqlite_sender_new(struct sqlite3 *db, const char *box, struct pr_sqlite_sender **ret_sender,
                                struct pr_error *reterr)
{
    pr_slice name;
    if (db == NULL || ret_sender == NULL)
        return lib_missing(db == NULL ? "db" : "ret_sender", reterr);
    int rc = lib_box(box, &name, reterr);
    if (rc < 0)
        return rc;
    struct pr_sqlite_sender *sender = calloc(1, sizeof(*sender));
    if (sender == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a sender");
    rc = sqlite_sender_init(&sender->sender, db, name, reterr);
    if (rc < 0)
        free(sender);
    else
        *ret_sender = sender;
    return rc;
}

PR_API void pr_sqlite_sender_free(struct pr_sqlite_sender *sender)
{
    if (sender != NULL)
        sqlite_sender_fini(&sender->sender);
    free(sender);
}

int lib_send(lib_store_one *store_one, void *sender, const struct pr_message *message, pr_id *ret_id,
             struct pr_error *reterr)
{
    struct pr_message m;
    if (sender == NULL)
        return lib_missing("sender", reterr);
    int rc = lib_message(message, &m, reterr);
    if (rc == PR_OK)
        rc = store_one(sender, &m, reterr);
    if (rc >= 0 && ret_id != NULL)
        *ret_id = m.id;
    return rc;
}

static int store_one(void *sender, const struct pr_message *message, struct pr_error *reterr)
{
    struct pr_sqlite_sender *s = sender;
    return sqlite_sender_send(&s->sender, message, reterr);
}

PR_API int pr_sqlite_sender_send(struct pr_sqlite_sender *sender, const struct pr_message *message, pr_id *ret_id,
                                 struct pr_error *reterr)
{
    return lib_send(store_one, sender, message, ret_id, reterr);
}

PR_API int pr_store_init(const char *store_url, struct pr_error *reterr)
{
    struct store store = { 0 };
    if (store_url == NULL)
        return lib_missing("store_url", reterr);
    int rc = store_open(&(struct store_options){ .url = store_url, .payload_max = LIB_PAYLOAD_MAX }, &store, reterr);
    if (rc < 0)
        return rc;
    rc = store_migrate(&store, NULL, 0, reterr);
    store_close(&store);
    return rc;
}
