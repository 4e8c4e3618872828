/* relay.h - all boxes of one store, served with one configuration: from new to stopped, once. */
#ifndef RUNTIME_RELAY_H
#define RUNTIME_RELAY_H

#include <stdatomic.h>

#include "runtime/threads/box_loop.h"
#include "runtime/config/config.h"
#include "runtime/inline.h"
#include "runtime/config/setting.h"
#include "runtime/threads/source_thread.h"
#include "store/store.h"

struct relay_options { /* everything is borrowed until free */
    const struct config *config;
    const struct program *program;
    struct store *store;
    struct log *log;
    struct feed *feed;
    struct pull *pull;                                         /* where claimers get messages */
    const atomic_bool *stops;                                  /* the runtime is about to stop: waits must end */
    void (*on_fault)(void *arg, const struct pr_error *fault); /* called from a box's thread */
    void *on_fault_arg;
};

struct relay;

/* Checks everything that can be checked without running; nothing runs yet. */
PR_MUST_CHECK int relay_new(const struct relay_options *options, struct relay **ret_relay, struct pr_error *reterr);
void relay_free(struct relay *r);    /* stop it first; waits for running handlers and requests */
bool relay_is_over(struct relay *r); /* after a stop: none of these runs */

PR_MUST_CHECK int relay_start(struct relay *r, struct pr_error *reterr);
/* PR_OK, PR_TIMEOUT. */
int relay_stop(struct relay *r, int64_t timeout_us);
/* Switches to a configuration with the same rest_digest, boxes and front: what has not changed is not touched.  PR_OK:
 * config is borrowed until free, and relay_follow() must be called next.  Outcome PR_STALE: a new relay is required.
 * Fault: config is invalid. */
PR_MUST_CHECK int relay_retune(struct relay *r, const struct config *config, struct pr_error *reterr);
/* From now on people see the new configuration; call it while nobody else reads the relay.  The old one is taken
 * over. */
void relay_follow(struct relay *r, struct config *old, const struct config *config);
void relay_let_go(struct relay *r); /* ... and closes sources that have ended, when others may read the relay again */
/* PR_OK, PR_TIMEOUT; PR_STALE: a box has ended. */
int relay_drain(struct relay *r, int64_t timeout_us);

int relay_is_live(struct relay *r, struct pr_error *reterr);
int relay_is_ready(struct relay *r, struct pr_error *reterr); /* from what the boxes met, without asking the store */
/* What people should know though it is ready: enum runtime_note, and the text in reterr. */
int relay_note(struct relay *r, struct pr_error *reterr);
void relay_counts(struct relay *r, struct pr_engine_counts *counts); /* adds to counts */

/* A box, for metrics; the name is borrowed until free. */
struct relay_box {
    const char *name;
    enum box_kind kind;
    struct engine_counts counts;
    struct histogram cycles;
    int lanes;
    bool standby; /* another instance serves it */
};
size_t relay_box_count(const struct relay *r);
void relay_box(struct relay *r, size_t index, struct relay_box *ret);

/* What this process has run for flows. */
void relay_flow_counts(const struct relay *r, struct flow_counts *ret);

size_t relay_source_count(const struct relay *r);
void relay_source(struct relay *r, size_t index, struct source_status *ret);

/* For endpoints with mode: inline; sends while the relay runs. */
struct inliner *relay_inliner(const struct relay *r);
bool relay_has_box(const struct relay *r, pr_slice name);
/* Can every endpoint for claimers be found?  false while boxes begin or end. */
bool relay_is_claimable(struct relay *r);

/* Totals over all boxes, for the endpoints of the configuration. */
size_t relay_endpoint_count(const struct relay *r);
pr_slice relay_endpoint_name(const struct relay *r, size_t index);
bool relay_has_endpoint(const struct relay *r, pr_slice name);
void relay_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view);
/* Newest first; returns how many. */
size_t relay_incidents(struct relay *r, bool deaths, struct incident *ret, size_t max);

#endif
