#include "flow/flow_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "core/id.h"

pr_id flow_start_id(pr_slice flow)
{
    pr_id id;
    id_from_event(PR_STR("start"), flow, &id);
    return id;
}

/* An id from an execution and a number: the one place that composes them. */
static pr_id numbered(const char *what, pr_id execution, int64_t number)
{
    char text[PR_ID_TEXT_SIZE + 24];
    pr_id id;
    pr_id_format(execution, text);
    snprintf(text + PR_ID_TEXT_SIZE - 1, sizeof(text) - PR_ID_TEXT_SIZE + 1, "/%" PRId64, number);
    id_from_event(slice_from(what), slice_from(text), &id);
    return id;
}

pr_id flow_task_id(pr_id execution, int64_t number)
{
    return numbered("task", execution, number);
}

pr_id flow_result_id(pr_id execution, int64_t number)
{
    return numbered("result", execution, number);
}

pr_id flow_cancel_id(pr_id execution, int64_t number)
{
    return numbered("cancel", execution, number);
}

pr_id flow_resume_id(pr_id execution)
{
    return numbered("resume", execution, 0);
}

pr_id flow_continue_id(pr_id execution)
{
    return numbered("continue", execution, 0);
}

pr_id flow_mail_id(pr_id execution, int64_t index)
{
    return numbered("mail", execution, index);
}
