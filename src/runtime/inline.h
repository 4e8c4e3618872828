/* inline.h - endpoints with `mode: inline`: a message is sent in the caller's thread, by the same rules, and stored
 * only if it could not be sent.
 *
 * Nothing is recorded before the send, so a crash in between loses a message whose caller got no answer; use `durable`
 * to avoid that.  A message that is stored after all is stored with the failures that it had here: its steps continue,
 * and its stream waits for it. */
#ifndef RUNTIME_INLINE_H
#define RUNTIME_INLINE_H

#include <stdatomic.h>

#include "runtime/config/setting.h"
#include "store/store.h"

struct inliner_options { /* everything is borrowed until free */
    const struct config *config;
    const struct setting *setting;
    struct store *store;
    struct caller *caller;
    struct log *log;
    size_t payload_max;
    /* Is the endpoint closed right now, so that nothing may be sent there? */
    bool (*is_closed)(void *arg, size_t endpoint);
    void *is_closed_arg;
    /* Reports the result of a send, for the breaker and the stored totals. */
    void (*tell)(void *arg, pr_slice box, const struct engine_inline_result *result);
    void *tell_arg;
};

struct inliner_counts {
    atomic_uint_fast64_t sent, failed, dead, discarded;
};

struct inliner;

/* Opens nothing yet.  NULL: no memory. */
struct inliner *inliner_new(const struct inliner_options *options);
void inliner_free(struct inliner *in);

/* Sends or stores.  message->id may be zero.  PR_OK, PR_DUPLICATE, or a fault: nothing was sent or stored.  May be
 * called from any thread; sends to one endpoint wait for each other. */
PR_MUST_CHECK int inliner_send(struct inliner *in, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                               enum pr_sent *ret_sent, struct pr_error *reterr);

const struct inliner_counts *inliner_counts(const struct inliner *in);

#endif
