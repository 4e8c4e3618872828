/* runtime.h - the engine with threads around it: delivers what is in the boxes of a store.
 *
 *     new -> program_add_* -> start -> (drain, reload, status) -> stop -> free
 *
 * One thread per box runs its engine (box_loop.h), one per endpoint that has something to send owns
 * its transport (transport_thread.h), and the layer above answers on http.listen (struct runtime_front).  All of them together,
 * working by one configuration on one store, are a relay (relay.h); a reload replaces it.
 *
 * Threads: after start every function may be called from any thread, free excepted. */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "base/arena.h"
#include "base/log.h"
#include "base/time.h"
#include "policy/breaker.h"
#include <postrider_flow.h>
#include "core/histogram.h"
#include "core/reason.h"
#include "runtime/config/config.h"
#include "runtime/feed.h"
#include "runtime/incident.h"

struct runtime;

/* Answers on http.listen, and watches; provided by the layer above.  start is called before messages flow (if the
 * configuration has something for it to do), stop after the last ones; both may wait for requests. */
struct runtime_front {
    int (*start)(struct runtime *rt, const struct config *config, struct log *log, void **ret_self,
                 struct pr_error *reterr);
    /* Another configuration with the same http.listen (and watchdogs, or none, as before) applies from now on. */
    int (*retune)(void *self, const struct config *config, struct pr_error *reterr);
    void (*stop)(void *self);           /* NULL is allowed */
    unsigned (*port)(const void *self); /* 0: none */
};

struct runtime_options {
    struct log *log; /* borrowed until free; may be NULL */
    /* start creates or upgrades the tables; otherwise it returns PR_ESCHEMA with advice */
    bool migrate;
    const struct runtime_front *front; /* NULL: no API, whatever the configuration says */
};

/* Takes the configuration over on success (and only then): runtime_free() frees it.  NULL: a fault. */
struct runtime *runtime_new(struct config *config, const struct runtime_options *options, struct pr_error *reterr);
/* Stops first if it still runs.  Waits for handlers that are still running: a process that must end after a stop that
 * returned PR_TIMEOUT exits without it. */
void runtime_free(struct runtime *rt);

/* What the program brings along (program.h); NULL when it has been started: it is too late then. */
struct program *runtime_program(struct runtime *rt);

/* Opens and checks the store, checks every endpoint, starts the threads.  After a fault nothing runs. */
PR_MUST_CHECK int runtime_start(struct runtime *rt, struct pr_error *reterr);

/* Waits until nothing is left to do right now: PR_OK, PR_TIMEOUT, or the fault that stopped it.  Rows of adopted tables
 * count when they are in their box. */
PR_MUST_CHECK int runtime_drain(struct runtime *rt, int64_t timeout_us, struct pr_error *reterr);

/* Finishes or hands back everything; ends within timeout_us.  PR_TIMEOUT: something was still running and was handed
 * back as abandoned (it counts as an attempt).  May be called twice. */
int runtime_stop(struct runtime *rt, int64_t timeout_us);

/* Switches to another configuration.  Everything that can be checked is checked first: after a fault the old one stays
 * in force, and config remains the caller's.  On success it is taken over.  Where a running relay can follow all
 * changes, unchanged endpoints keep their connections and the messages being sent; other changes require a stop. */
PR_MUST_CHECK int runtime_reload(struct runtime *rt, struct config *config, struct pr_error *reterr);

/* Pausing and resuming an endpoint, by the program.  PR_OK; PR_ENOTFOUND: the configuration has no such endpoint. */
PR_MUST_CHECK int runtime_pause(struct runtime *rt, pr_slice endpoint, int64_t for_us, pr_slice why,
                                struct pr_error *reterr);
PR_MUST_CHECK int runtime_resume(struct runtime *rt, pr_slice endpoint, struct pr_error *reterr);

/* Sends at once if the endpoint has mode: inline, otherwise stores: see pr_engine_send(). */
PR_MUST_CHECK int runtime_send(struct runtime *rt, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                               enum pr_sent *ret_sent, struct pr_error *reterr);

/* The current configuration; borrowed until the next reload. */
const struct config *runtime_config(const struct runtime *rt);

/* The current store, configuration and so on, borrowed until leave; reloads and stops wait for that, so be short.
 * Fault PR_EINVAL: it is not running. */
struct store;
struct relay;
struct runtime_inside {
    const struct config *config;
    struct store *store;
    struct relay *relay;
};
PR_MUST_CHECK int runtime_enter(struct runtime *rt, struct runtime_inside *ret, struct pr_error *reterr);
void runtime_leave(struct runtime *rt);

/* What happens, from the start to the end of the runtime, across reloads. */
struct feed *runtime_feed(struct runtime *rt);
/* Where claimers get messages, likewise. */
struct pull *runtime_pull(struct runtime *rt);
/* If true, an endpoint that is not found there does not exist.  False: boxes may be starting or ending. */
bool runtime_is_claimable(struct runtime *rt);

/* ---- How it is doing ------------------------------------------------------------------- */

/* Becomes readable when a fault has stopped it (and stays so); for poll(). */
int runtime_fault_fd(const struct runtime *rt);
/* PR_OK, or the fault that stopped it. */
int runtime_fault(struct runtime *rt, struct pr_error *reterr);

/* The port of http.listen; 0: none. */
unsigned runtime_http_port(struct runtime *rt);

/* What people should know of a runtime that is ready. */
enum runtime_note {
    NOTE_NONE,
    NOTE_STANDBY,  /* another instance serves a box: normal, but good to know */
    NOTE_ENDPOINT, /* every attempt at an endpoint fails */
    NOTE_SOURCE,   /* a source cannot be read */
};

/* Do all loops make progress?  Is the store reachable, and the schema right?  PR_OK or a fault.  Ready with a text in
 * reterr: it works, but people should know this; its code is an enum runtime_note. */
int runtime_is_live(struct runtime *rt, struct pr_error *reterr);
int runtime_is_ready(struct runtime *rt, struct pr_error *reterr);
/* false: no such source, or it is not running. */
bool runtime_source(struct runtime *rt, size_t index, struct source_status *ret);

void runtime_counts(struct runtime *rt, struct pr_engine_counts *ret_counts);

/* One endpoint, summed over all boxes. */
struct runtime_endpoint {
    const char *name;
    enum breaker_state breaker;
    int64_t paused_until_us; /* store time; 0: not paused */
    size_t waiting, out;
    uint64_t sent, failed; /* since the start or the last reload */
};

struct runtime_status {
    struct pr_engine_counts counts;
    struct runtime_endpoint *endpoints;
    size_t endpoint_count;
    struct incident *failures; /* newest first, at most INCIDENTS_MAX */
    size_t failure_count;
    struct incident *deaths;
    size_t death_count;
    bool ready;
    char trouble[PR_ERROR_TEXT_SIZE]; /* the store's fault; "": none */
};

/* A picture for people; allocated in the arena.  Fault PR_ENOMEM. */
PR_MUST_CHECK int runtime_status(struct runtime *rt, struct arena *arena, struct runtime_status *ret);

/* For processes of Postrider's own: fewer malloc arenas, so that many threads need little memory. */
void runtime_tune_process(void);

#endif
