#include "store/box_table.h"

#include "base/error.h"
#include "base/slice.h"

pr_slice box_table(const struct store_box *box)
{
    return box->table != NULL ? slice_from(box->table) : (pr_slice){ NULL, 0 };
}

int box_keeps_table(pr_slice box, pr_slice has, pr_slice wanted, struct pr_error *reterr)
{
    if (wanted.size == 0 || slice_eq(has, wanted))
        return PR_OK;
    return error_set(
        reterr, PR_ECONFIG,
        "boxes.%.*s.table is \"%.*s\", but the box already has the table \"%.*s\", which cannot be changed: "
        "set it back, or add a box with another name",
        SLICE_ARGS(box), SLICE_ARGS(wanted), SLICE_ARGS(has));
}

int box_shares_table(pr_slice box, pr_slice table, pr_slice other, struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL,
                     "\"%.*s\" is already the table of the box \"%.*s\"; name another with boxes.%.*s.table",
                     SLICE_ARGS(table), SLICE_ARGS(other), SLICE_ARGS(box));
}

int box_table_is_taken(pr_slice box, const char *where, pr_slice table, const char *or_else, struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL,
                     "%s already has a table \"%.*s\" that Postrider did not create; name another with "
                     "boxes.%.*s.table%s",
                     where, SLICE_ARGS(table), SLICE_ARGS(box), or_else);
}
