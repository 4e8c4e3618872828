#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "base/slice.h"
#include "core/message.h"
#include "lib/lib.h"
#include "lib/unit.h"
#include "store/sqlite/send.h"

#define UNIT_MAX 1000000                    /* messages in one transaction: more is certainly a loop that went wrong */
#define UNIT_BOX_MAX (2 * BOX_NAME_MAX + 1) /* "schema.box" */
#define STORE_MAX 256                       /* passed to the database at once */

struct unit_message { /* one block with its box and its bytes behind it */
    struct list_node node;
    struct pr_message message;
    char box[UNIT_BOX_MAX + 1];
    char bytes[];
};

struct pr_unit {
    struct list messages;
    size_t count;
};

PR_API struct pr_unit *pr_unit_new(void)
{
    struct pr_unit *unit = calloc(1, sizeof *unit);
    if (unit != NULL)
        list_init(&unit->messages);
    return unit;
}

static void unit_clear(struct pr_unit *unit)
{
    struct list_node *node;
    while ((node = list_pop_front(&unit->messages)) != NULL)
        free(LIST_ENTRY(node, struct unit_message, node));
    unit->count = 0;
}

PR_API void pr_unit_free(struct pr_unit *unit)
{
    if (unit == NULL)
        return;
    unit_clear(unit);
    free(unit);
}

/* "box" or "schema.box": whether the database has schemas is known when it is stored. */
static int unit_box(const char *box, pr_slice *ret_box, struct pr_error *reterr)
{
    const char *dot = box != NULL ? strchr(box, '.') : NULL;
    pr_slice name = { NULL, 0 };
    if (dot != NULL && !name_is_valid((pr_slice){ box, (size_t)(dot - box) }))
        return error_set(reterr, PR_EINVAL, "box \"%.64s\": the part before the dot is not a valid schema name", box);
    int rc = lib_box(dot != NULL ? dot + 1 : box, &name, reterr);
    if (rc == PR_OK)
        *ret_box = dot != NULL ? slice_from(box) : name;
    return rc;
}

PR_API int pr_unit_add(struct pr_unit *unit, const char *box, const struct pr_message *message, pr_id *ret_id,
                       struct pr_error *reterr)
{
    pr_slice name = { NULL, 0 };
    if (unit == NULL || message == NULL)
        return lib_missing(unit == NULL ? "unit" : "message", reterr);
    int rc = unit_box(box, &name, reterr);
    if (rc == PR_OK)
        rc = message_check(message, LIB_PAYLOAD_MAX, reterr);
    if (rc < 0)
        return rc;
    if (unit->count == UNIT_MAX)
        return error_set(reterr, PR_ETOOBIG, "a unit holds at most %d messages", UNIT_MAX);
    struct unit_message *m = malloc(sizeof *m + message_bytes(message));
    if (m == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a message of %zu bytes", message_bytes(message));

    m->node = (struct list_node){ 0 };
    memcpy(m->box, name.data, name.size);
    m->box[name.size] = '\0';
    message_copy(message, m->bytes, &m->message);
    if (pr_id_is_zero(m->message.id))
        pr_id_new(&m->message.id);
    list_push_back(&unit->messages, &m->node);
    unit->count++;
    if (ret_id != NULL)
        *ret_id = m->message.id;
    return PR_OK;
}

PR_API size_t pr_unit_count(const struct pr_unit *unit)
{
    return unit != NULL ? unit->count : 0;
}

/* Stores the messages from *node on that go to the same box, as far as there is room, with one statement, since
 * preparing it costs more than inserting.  *node: the first one that is left, or NULL. */
static int store_next(const struct pr_unit *unit, struct list_node **node, struct pr_message some[STORE_MAX],
                      unit_storer store, void *connection, struct pr_error *reterr)
{
    const char *box = LIST_ENTRY(*node, struct unit_message, node)->box;
    size_t count = 0;
    for (; *node != NULL && count < STORE_MAX; *node = list_next(&unit->messages, *node)) {
        const struct unit_message *m = LIST_ENTRY(*node, struct unit_message, node);
        if (strcmp(m->box, box) != 0)
            break;
        some[count++] = m->message;
    }
    return store(connection, slice_from(box), some, count, reterr);
}

int unit_store(struct pr_unit *unit, unit_storer store, void *connection, struct pr_error *reterr)
{
    if (unit->count == 0)
        return PR_OK;
    struct pr_message *some = calloc(STORE_MAX, sizeof *some);
    if (some == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory to store %zu messages", unit->count);
    int rc = PR_OK;
    for (struct list_node *node = list_first(&unit->messages); node != NULL && rc == PR_OK;)
        rc = store_next(unit, &node, some, store, connection, reterr);
    free(some);
    if (rc == PR_OK)
        unit_clear(unit);
    return rc;
}

static int store_sqlite_some(void *db, pr_slice box, const struct pr_message *messages, size_t count,
                             struct pr_error *reterr)
{
    return sqlite_send_many(db, box, messages, count, NULL, reterr);
}

PR_API int pr_unit_store_sqlite(struct pr_unit *unit, struct sqlite3 *db, struct pr_error *reterr)
{
    if (unit == NULL || db == NULL)
        return lib_missing(unit == NULL ? "unit" : "db", reterr);
    if (unit->count > 0 && sqlite3_get_autocommit(db)) /* outside of a transaction they would be committed one by one */
        return error_set(reterr, PR_EINVAL, "no transaction is open: run BEGIN before storing a unit");
    return unit_store(unit, store_sqlite_some, db, reterr);
}
