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

/* Who answers on http.listen, and watches; the layer above brings it along.  start is called before messages flow (where
 * the configuration has something for it to do), stop when they do no more; both may wait for requests. */
struct runtime_front {
    int (*start)(struct runtime *rt, const struct config *config, struct log *log, void **ret_self,
                 struct pr_error *reterr);
    /* Another configuration with the same http.listen (and watchdogs, or none, as before) holds from now on. */
    int (*retune)(void *self, const struct config *config, struct pr_error *reterr);
    void (*stop)(void *self);           /* NULL is fine */
    unsigned (*port)(const void *self); /* 0: none */
};

struct runtime_options {
    struct log *log;                   /* borrowed until free; may be NULL */
    bool migrate;                      /* start makes or upgrades the tables; otherwise it refuses with PR_ESCHEMA
                          * and says what to do */
    const struct runtime_front *front; /* NULL: nobody listens, whatever the configuration says */
};

/* Takes the config over on success (and only then): runtime_free() frees it.  NULL: a fault. */
struct runtime *runtime_new(struct config *config, const struct runtime_options *options, struct pr_error *reterr);
/* Stops first when it still runs.  Waits for handlers that are still running: a process that
 * must be gone after a stop that said PR_TIMEOUT exits without it. */
void runtime_free(struct runtime *rt);

/* What the program brings along (program.h); NULL when it has been started: it is too late then. */
struct program *runtime_program(struct runtime *rt);

/* Open and check the store, check every endpoint, start the threads.  On a fault nothing runs. */
PR_MUST_CHECK int runtime_start(struct runtime *rt, struct pr_error *reterr);

/* Wait until nothing is left to do right now: PR_OK, PR_TIMEOUT, or the fault that stopped it.  Rows
 * of adopted tables count when they are in their box. */
PR_MUST_CHECK int runtime_drain(struct runtime *rt, int64_t timeout_us, struct pr_error *reterr);

/* Finish or hand back everything; ends within timeout_us.  PR_TIMEOUT: something was still
 * running and was handed back as abandoned (it counts as an attempt).  May be called twice. */
int runtime_stop(struct runtime *rt, int64_t timeout_us);

/* Work by another configuration.  Everything that can be checked is checked first: on a fault
 * the old one goes on, and config stays the caller's.  On success it is taken over.  Where nothing is other but what a running
 * relay can follow, endpoints that are the same keep their connections and what they are sending; anything else takes a stop. */
PR_MUST_CHECK int runtime_reload(struct runtime *rt, struct config *config, struct pr_error *reterr);

/* People's hands on an endpoint, by the program.  PR_OK; PR_ENOTFOUND: the config has no such endpoint. */
PR_MUST_CHECK int runtime_pause(struct runtime *rt, pr_slice endpoint, int64_t for_us, pr_slice why,
                                struct pr_error *reterr);
PR_MUST_CHECK int runtime_resume(struct runtime *rt, pr_slice endpoint, struct pr_error *reterr);

/* Send now where an endpoint has mode: inline, store elsewhere: see pr_engine_send(). */
PR_MUST_CHECK int runtime_send(struct runtime *rt, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                               enum pr_sent *ret_sent, struct pr_error *reterr);

/* The configuration by which it works; borrowed until the next reload. */
const struct config *runtime_config(const struct runtime *rt);

/* What it works with right now, borrowed until leave; a reload or a stop waits for that, so be short.
 * Fault PR_EINVAL: it does not run. */
struct store;
struct relay;
struct runtime_inside {
    const struct config *config;
    struct store *store;
    struct relay *relay;
};
PR_MUST_CHECK int runtime_enter(struct runtime *rt, struct runtime_inside *ret, struct pr_error *reterr);
void runtime_leave(struct runtime *rt);

/* What happens, from the start to the end of the runtime, over all reloads. */
struct feed *runtime_feed(struct runtime *rt);
/* Where claimers find messages, likewise. */
struct pull *runtime_pull(struct runtime *rt);
/* Who does not find an endpoint there looks for one that does not exist.  False: it may be that boxes begin or end. */
bool runtime_is_claimable(struct runtime *rt);

/* ---- How it is doing ------------------------------------------------------------------- */

/* Becomes readable when a fault has stopped it (and stays so); for poll(). */
int runtime_fault_fd(const struct runtime *rt);
/* PR_OK, or the fault that stopped it. */
int runtime_fault(struct runtime *rt, struct pr_error *reterr);

/* The port of http.listen; 0: it does not listen. */
unsigned runtime_http_port(struct runtime *rt);

/* What people should know of one that is ready. */
enum runtime_note {
    NOTE_NONE,
    NOTE_STANDBY,  /* another instance works a box: as it should be, but good to know */
    NOTE_ENDPOINT, /* nothing gets through to an endpoint */
    NOTE_SOURCE,   /* a source cannot be read */
};

/* Are all loops going round?  Is the store reachable, and the schema right?  PR_OK or a fault.  Ready with a text in
 * reterr: it works, and people should know of this; its code is an enum runtime_note. */
int runtime_is_live(struct runtime *rt, struct pr_error *reterr);
int runtime_is_ready(struct runtime *rt, struct pr_error *reterr);
/* false: there is no such source, or it is not running. */
bool runtime_source(struct runtime *rt, size_t index, struct source_status *ret);

void runtime_counts(struct runtime *rt, struct pr_engine_counts *ret_counts);

/* One endpoint, all boxes together. */
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
    struct incident *failures; /* the newest first, INCIDENTS_MAX at most */
    size_t failure_count;
    struct incident *deaths;
    size_t death_count;
    bool ready;
    char trouble[PR_ERROR_TEXT_SIZE]; /* what the store says; "" when it is fine */
};

/* A picture for people; everything in it lives in the arena.  Fault PR_ENOMEM. */
PR_MUST_CHECK int runtime_status(struct runtime *rt, struct arena *arena, struct runtime_status *ret);

/* For processes that are all ours: fewer malloc arenas, so that many threads stay small. */
void runtime_tune_process(void);

#endif
