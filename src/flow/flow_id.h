/* Ids that are computed, so that a second attempt meets the first one's rows, and that what belongs to a flow is
 * found by key.  All are UUIDv8. */
#ifndef FLOW_FLOW_ID_H
#define FLOW_FLOW_ID_H

#include <postrider.h>

/* The start of a flow by this id: two of them meet in the box. */
pr_id flow_start_id(pr_slice flow);
/* The message of a task: of its activity, of its timer, of the start of its child; number counts from 1. */
pr_id flow_task_id(pr_id execution, int64_t number);
/* The message that says how it ended, and the one that cancels a child; number 0: the one that cancels the execution, as the one before it was. */
pr_id flow_result_id(pr_id execution, int64_t number);
pr_id flow_cancel_id(pr_id execution, int64_t number);
/* The index-th piece of mail that goes over to this execution. */
pr_id flow_mail_id(pr_id execution, int64_t index);
/* The message that makes a flow go on whose execution failed: two of them meet in the box. */
pr_id flow_resume_id(pr_id execution);
/* The message that makes an execution begin that continues another one. */
pr_id flow_continue_id(pr_id execution);

#endif
