/* Boxes and their tables, as a connection has learned them; see link.h. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/link/link.h"

/* Stores before 029_table.sql have no such function, and no tables with other names. */
static const char CAN_ASK[] = "SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                              " WHERE n.nspname = $1 AND p.proname = 'box_tables')";

static int boxes_take(struct link *link, const PGresult *result, struct pr_error *reterr)
{
    size_t count = (size_t)PQntuples(result);
    struct link_box *boxes = calloc(count > 0 ? count : 1, sizeof(*boxes));
    if (boxes == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the names of boxes");
    free(link->boxes);
    link->boxes = boxes;
    link->box_count = 0;
    for (int i = 0; i < (int)count; i++) {
        pr_slice name = field_slice(result, i, 0), table = field_slice(result, i, 1);
        if (!name_is_valid(name) || !name_is_valid(table)) /* not a box */
            continue;
        memcpy(boxes[link->box_count].name, name.data, name.size);
        memcpy(boxes[link->box_count++].table, table.data, table.size);
    }
    return PR_OK;
}

int link_learn(struct link *link, struct pr_error *reterr)
{
    PGresult *result;
    struct args args = { .count = 0 };
    size_t mark = link->result_count;
    arg_text(&args, slice_from(link->conninfo->schema));
    int rc = link_do(link, CAN_ASK, (pr_slice){ NULL, 0 }, &args, &result, reterr);
    if (rc != PR_OK)
        return rc;
    link->knows_boxes = false;
    bool can_ask = field_bool(result, 0, 0);
    if (can_ask)
        rc = link_do(link, "SELECT name, table_name FROM {schema}.box_tables()", (pr_slice){ NULL, 0 }, NULL, &result,
                     reterr);
    if (rc == PR_OK && can_ask)
        rc = boxes_take(link, result, reterr);
    link->knows_boxes = rc == PR_OK && can_ask;
    link_forget_after(link, mark);
    return rc;
}

pr_slice link_table(const struct link *link, pr_slice box)
{
    if (!link->knows_boxes)
        return box;
    for (size_t i = 0; i < link->box_count; i++)
        if (slice_eq_cstr(box, link->boxes[i].name))
            return slice_from(link->boxes[i].table);
    return (pr_slice){ NULL, 0 };
}
