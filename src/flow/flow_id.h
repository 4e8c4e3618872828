/* Computed ids, so that a second attempt meets the rows of the first one, and that the rows of a flow are found by key.
 * All are UUIDv8. */
#ifndef FLOW_FLOW_ID_H
#define FLOW_FLOW_ID_H

#include <postrider.h>

/* The start of a flow: two starts with this id collide in the box. */
pr_id flow_start_id(pr_slice flow);
/* The message of a task: of its activity, of its timer, of the start of its child; numbers start at 1. */
pr_id flow_task_id(pr_id execution, int64_t number);
/* The message with the result of a task, and the one that cancels a child; number 0: the one that cancels the
 * execution, if the previous execution was cancelled. */
pr_id flow_result_id(pr_id execution, int64_t number);
pr_id flow_cancel_id(pr_id execution, int64_t number);
/* The index-th piece of mail that moves to this execution. */
pr_id flow_mail_id(pr_id execution, int64_t index);
/* The message that resumes a flow whose execution failed: two of them collide in the box. */
pr_id flow_resume_id(pr_id execution);
/* The message that begins the execution after a continue-as-new. */
pr_id flow_continue_id(pr_id execution);

#endif
