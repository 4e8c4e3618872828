/* relay.h - all boxes of one store, worked by one configuration: from new to stopped, once. */
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
    struct pull *pull;                                         /* where claimers find messages */
    const atomic_bool *stops;                                  /* it is about to be stopped: nobody waits any more */
    void (*on_fault)(void *arg, const struct pr_error *fault); /* from a box's thread */
    void *on_fault_arg;
};

struct relay;

/* Checks everything that can be checked without running; nothing runs yet. */
PR_MUST_CHECK int relay_new(const struct relay_options *options, struct relay **ret_relay, struct pr_error *reterr);
void relay_free(struct relay *r);    /* stop it first; waits for handlers and requests that are still running */
bool relay_is_over(struct relay *r); /* after a stop: none of these runs */

PR_MUST_CHECK int relay_start(struct relay *r, struct pr_error *reterr);
/* PR_OK, PR_TIMEOUT. */
int relay_stop(struct relay *r, int64_t timeout_us);
/* Let all go on by a configuration that has the same rest_digest, boxes and front: what has not changed is not touched.
 * PR_OK: config is borrowed until free, and relay_follow() comes next.  Outcome PR_STALE: it takes a new relay.  Fault: config
 * is wrong. */
PR_MUST_CHECK int relay_retune(struct relay *r, const struct config *config, struct pr_error *reterr);
/* Show it to people from now on, when nobody else looks at the relay.  old, by which it worked, is taken over. */
void relay_follow(struct relay *r, struct config *old, const struct config *config);
void relay_let_go(struct relay *r); /* ... and close sources that have ended, when anybody may look again */
/* PR_OK, PR_TIMEOUT; PR_STALE: a box has ended. */
int relay_drain(struct relay *r, int64_t timeout_us);

int relay_is_live(struct relay *r, struct pr_error *reterr);
int relay_is_ready(struct relay *r, struct pr_error *reterr); /* by what the boxes met; asks nobody */
/* What people should know though it works: enum runtime_note, and the words in reterr. */
int relay_note(struct relay *r, struct pr_error *reterr);
void relay_counts(struct relay *r, struct pr_engine_counts *counts); /* adds to counts */

/* A box, for metrics; the name is borrowed until free. */
struct relay_box {
    const char *name;
    enum box_kind kind;
    struct engine_counts counts;
    struct histogram cycles;
    int lanes;
    bool standby; /* somebody else works it */
};
size_t relay_box_count(const struct relay *r);
void relay_box(struct relay *r, size_t index, struct relay_box *ret);

/* What this process has done for flows. */
void relay_flow_counts(const struct relay *r, struct flow_counts *ret);

size_t relay_source_count(const struct relay *r);
void relay_source(struct relay *r, size_t index, struct source_status *ret);

/* For endpoints with mode: inline; sends while the relay runs. */
struct inliner *relay_inliner(const struct relay *r);
bool relay_has_box(const struct relay *r, pr_slice name);
/* Every endpoint for claimers can be found: false while boxes begin or end. */
bool relay_is_claimable(struct relay *r);

/* Sums over the boxes, of the endpoints that the configuration has. */
size_t relay_endpoint_count(const struct relay *r);
pr_slice relay_endpoint_name(const struct relay *r, size_t index);
bool relay_has_endpoint(const struct relay *r, pr_slice name);
void relay_endpoint(struct relay *r, size_t index, struct endpoint_view *ret_view);
/* The newest first; returns how many. */
size_t relay_incidents(struct relay *r, bool deaths, struct incident *ret, size_t max);

#endif
