/* lib.h - what the files of the public interface share. */
#ifndef LIB_LIB_H
#define LIB_LIB_H

#include <postrider.h>

#define LIB_BOX_DEFAULT "outbox"

/* Senders know no configuration: a message above an engine's own limit becomes a dead letter. */
#define LIB_PAYLOAD_MAX PR_PAYLOAD_MAX

/* The name, or "outbox" for NULL.  Fault PR_EINVAL: not a valid name of a box. */
PR_MUST_CHECK int lib_box(const char *box, pr_slice *ret_box, struct pr_error *reterr);

/* A checked copy, with an id. */
PR_MUST_CHECK int lib_message(const struct pr_message *message, struct pr_message *ret_message,
                              struct pr_error *reterr);

/* pr_complete_*() has completed it. */
void lib_completed(struct pr_context *context);

/* How a sender over the caller's connection stores a checked message: outcome or fault. */
typedef int lib_store_one(void *sender, const struct pr_message *message, struct pr_error *reterr);
/* Checks the message, stores it, and returns its id. */
PR_MUST_CHECK int lib_send(lib_store_one *store_one, void *sender, const struct pr_message *message, pr_id *ret_id,
                           struct pr_error *reterr);

struct store;
struct store *lib_sender_store(struct pr_sender *sender);
struct runtime;
struct runtime *lib_runtime(struct pr_engine *engine);

/* The schedule that a caller describes, checked; cron NULL: it is cancelled.  Its texts are the caller's. */
struct schedule;
PR_MUST_CHECK int lib_schedule(const struct pr_schedule *schedule, struct schedule *ret, struct pr_error *reterr);

/* The fault of a missing argument. */
int lib_missing(const char *argument, struct pr_error *reterr);

#endif
