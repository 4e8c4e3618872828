/* lib.h - what the files of the public interface share. */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include <postrider.h>

#define LIB_BOX_DEFAULT "outbox"

/* Senders know no configuration: what an engine finds over its own limit becomes a dead letter. */
#define LIB_PAYLOAD_MAX PR_PAYLOAD_MAX

/* The name, or "outbox" for NULL.  Fault PR_EINVAL: that is no name of a box. */
PR_MUST_CHECK int lib_box(const char *box, pr_slice *ret_box, struct pr_error *reterr);

/* A checked copy, with an id. */
PR_MUST_CHECK int lib_message(const struct pr_message *message, struct pr_message *ret_message,
                              struct pr_error *reterr);

/* pr_complete_*() has done it. */
void lib_completed(struct pr_context *context);

/* What a sender over somebody else's connection does with a checked message: its outcome or fault. */
typedef int lib_store_one(void *sender, const struct pr_message *message, struct pr_error *reterr);
/* Checks it, stores it, and tells its id. */
PR_MUST_CHECK int lib_send(lib_store_one *store_one, void *sender, const struct pr_message *message, pr_id *ret_id,
                           struct pr_error *reterr);

struct store;
struct store *lib_sender_store(struct pr_sender *sender);
struct runtime;
struct runtime *lib_runtime(struct pr_engine *engine);

/* The schedule that a caller describes, checked; a NULL cron: that it be cancelled.  Its texts are the caller's. */
struct schedule;
PR_MUST_CHECK int lib_schedule(const struct pr_schedule *schedule, struct schedule *ret, struct pr_error *reterr);

/* For an argument that must be there. */
int lib_missing(const char *argument, struct pr_error *reterr);

#endif
