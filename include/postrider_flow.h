/* postrider_flow.h - long-running work as an ordinary C function that survives crashes.
 *
 *   Values        the input and output of flow functions
 *   Activities    work that is done elsewhere, with its retries
 *   Waiting       timers, events, mail, other flows; all, any, cancel
 *   Ending        fail, continue as new
 *   Recorded      time, ids and randomness that are the same on every replay
 *   Visible       custom status, key-values, log
 *   Activity      functions for the function of an activity
 *   Program       which flows and activities an engine runs
 *   Client        start flows, send them messages, query them
 *   Checking      is new code compatible with running flows?
 *
 * A flow function is called from the top on every turn, with everything that has happened so far.  Calls that it made
 * before are answered from its history, by position; the first wait for something that has not happened yet returns
 * PR_SUSPEND, and the function returns that.  It is called again when something happens.
 *
 *     static int checkout(pr_flow *f, pr_slice order, pr_slice *ret_output)
 *     {
 *         pr_task pay  = pr_activity(f, "charge", order);
 *         pr_task late = pr_timer(f, PR_SECONDS(30));
 *
 *         int first = pr_any(f, 2, (pr_task[]){ pay, late });      index, or negative
 *         if (first < 0)
 *             return first;
 *         if (first == 1)
 *             return pr_flow_fail(f, "payment timed out");
 *
 *         struct pr_error why;
 *         int rc = pr_result(f, pay, ret_output, &why);
 *         if (rc == PR_FAILED)                                     poison, too: the flow may compensate
 *             return pr_call(f, "refund", order, ret_output);
 *         return rc;
 *     }
 *
 * Rules for flow functions: the same history must lead to the same calls.  So no clock, no randomness, no I/O, no
 * global state except through the functions here; and a negative result of a wait is returned at once.  After
 * PR_SUSPEND the flow is inert: every further call returns PR_SUSPEND and does nothing, so a forgotten check does no
 * harm.
 *
 * Memory:  everything that these functions return, and that a flow function returns, lives until the turn ends;
 * pr_flow_alloc()
 *          allocates more of it.  Arguments are copied.
 * Threads: a flow belongs to the thread that its function was called on, until it returns. */
#ifndef POSTRIDER_FLOW_H
#define POSTRIDER_FLOW_H

#include <postrider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values ---------------------------------------------------------------- */

typedef struct pr_flow pr_flow;

/* Something that was begun and will end.  Copy it freely; it is meaningless outside its flow. */
typedef struct {
    int64_t number;
} pr_task;

/* In addition to enum pr_result.  Negative, so that "if (rc < 0) return rc;" is right for all of them. */
enum pr_flow_result {
    PR_SUSPEND = -64,    /* nothing to do until something happens: return it */
    PR_ECANCELLED = -65, /* the flow was cancelled: clean up and return it, then it ends as cancelled */
    PR_CONTINUED = -66,  /* result of pr_continue_as_new(): return it */
};

/* Returns PR_OK with its output; the result of pr_flow_fail(), pr_continue_as_new() or a wait; or a fault of the
 * functions here.  All but PR_OK, PR_SUSPEND, PR_ECANCELLED and PR_CONTINUED end the flow as failed. */
typedef int (*pr_flow_function)(pr_flow *flow, pr_slice input, pr_slice *ret_output);

PR_API pr_slice pr_flow_id(const pr_flow *flow);
PR_API pr_slice pr_flow_name(const pr_flow *flow);
PR_API pr_slice pr_flow_version(const pr_flow *flow);
PR_API pr_id pr_flow_execution(const pr_flow *flow); /* changes with pr_continue_as_new() */
PR_API void *pr_flow_user(const pr_flow *flow);      /* the pointer that the function was registered with */

PR_API void *pr_flow_alloc(pr_flow *flow, size_t size); /* NULL: no memory */
PR_API pr_slice pr_flow_printf(pr_flow *flow, const char *format, ...) PR_PRINTF(2, 3);

#define PR_FLOW_TASKS_MAX 10000 /* open at once; one more is PR_ETOOBIG when it is waited for */

/* ---- Activities -------------------------------------------------------------
 *
 * An activity is work that may do anything.  It is done at least once, its result is recorded once.
 */

enum pr_backoff { PR_BACKOFF_NONE, PR_BACKOFF_FIXED, PR_BACKOFF_LINEAR, PR_BACKOFF_EXPONENTIAL };

/* When an activity that failed is retried.  All zero: never. */
struct pr_retry {
    int tries;               /* maximum, including the first; 0 and 1: no retries */
    enum pr_backoff backoff; /* NONE: at once */
    int64_t
        first_us;   /* before the second try: FIXED always, LINEAR times the failures, EXPONENTIAL times factor each */
    int64_t max_us; /* of one wait; 0: no limit */
    double factor;  /* EXPONENTIAL; 0: 2 */
    double jitter;  /* 0.1: up to 10 % longer, but not over max_us */
};

struct pr_activity_options {
    struct pr_retry retry;
    int64_t timeout_us;           /* of one try; 0: the configuration's */
    int64_t schedule_to_start_us; /* it fails if it has not begun within this time; 0: no limit */
    const char *tag;              /* only workers that offer this tag get it; NULL: any */
    const char *session;          /* activities of one session run one after the other, in one instance; NULL: none */
};

/* Begin an activity; get its result with pr_result(). */
PR_API pr_task pr_activity(pr_flow *flow, const char *name, pr_slice input);
PR_API pr_task pr_activity_with(pr_flow *flow, const char *name, pr_slice input,
                                const struct pr_activity_options *options);
/* Begin one and wait for it: PR_OK, PR_FAILED, or negative.  If the flow function returns the PR_FAILED, the flow fails
 * with the activity's error. */
PR_API PR_MUST_CHECK int pr_call(pr_flow *flow, const char *name, pr_slice input, pr_slice *ret_output);

/* ---- Waiting ------------------------------------------------------------------ */

/* Ends after this time, counted from this turn; its due time is recorded once. */
PR_API pr_task pr_timer(pr_flow *flow, int64_t after_us);
PR_API pr_task pr_timer_at(pr_flow *flow, int64_t at_us);

/* The next event of this name that no other wait has taken; earlier events count.  Its result is the event's data.
 * Events belong to the execution: the remaining ones are dropped when it continues as new. */
PR_API pr_task pr_event(pr_flow *flow, const char *name);
/* The same from a mailbox: first in, first out, and remaining mail moves to the next execution.  Mail of a cancelled
 * wait that the code has not seen goes to the next wait. */
PR_API pr_task pr_mail(pr_flow *flow, const char *name);

struct pr_child_options {
    const char *id;      /* NULL: generated */
    const char *version; /* NULL: the highest version of the program that runs the child */
};
/* Another flow, and its result.  It is cancelled with this one. */
PR_API pr_task pr_child(pr_flow *flow, const char *name, pr_slice input);
PR_API pr_task pr_child_with(pr_flow *flow, const char *name, pr_slice input, const struct pr_child_options *options);
/* Start a flow without waiting for it.  PR_OK, PR_SUSPEND, or PR_EINVAL. */
PR_API PR_MUST_CHECK int pr_detach(pr_flow *flow, const char *name, pr_slice input,
                                   const struct pr_child_options *options);

/* Wait until all have ended, successfully or not, or were cancelled: PR_OK, or negative. */
PR_API PR_MUST_CHECK int pr_all(pr_flow *flow, size_t count, const pr_task *tasks);
/* Wait for the first: its index, or negative.  When several have ended it is the one that ended first.  The others
 * continue, unless they are cancelled. */
PR_API PR_MUST_CHECK int pr_any(pr_flow *flow, size_t count, const pr_task *tasks);
/* Wait for one: PR_OK and its output; PR_FAILED: *reterr (may be NULL) has the reason; or negative.  ret_output may be
 * NULL; it is empty where there is no output.  An activity or a child that failed for a reason that no code can repair
 * (infrastructure, configuration) ends the flow. */
PR_API PR_MUST_CHECK int pr_result(pr_flow *flow, pr_task task, pr_slice *ret_output, struct pr_error *reterr);
/* The task is not needed any more: an activity is withdrawn, a child is cancelled.  After that its result is PR_FAILED,
 * even if it has ended meanwhile; a task whose end a wait has reported is not changed.  Tasks that are open when the
 * flow function returns are cancelled automatically. */
PR_API void pr_cancel(pr_flow *flow, pr_task task);
/* Has the flow seen that it is cancelled?  It sees it once, as PR_ECANCELLED of a wait; later waits work as before. */
PR_API bool pr_is_cancelled(const pr_flow *flow);

enum pr_category {
    PR_CATEGORY_NONE,
    PR_CATEGORY_INFRASTRUCTURE, /* the infrastructure failed */
    PR_CATEGORY_CONFIGURATION,  /* an error of the program, including nondeterminism */
    PR_CATEGORY_APPLICATION,    /* the code reported it */
    PR_CATEGORY_POISON,         /* handed out too often without an outcome */
};
PR_API const char *pr_category_name(enum pr_category category);

/* Why a task failed.  PR_OK, or PR_UNKNOWN: it has not failed, or was not waited for. */
struct pr_task_error {
    enum pr_category category;
    bool retryable;
    pr_slice message;
    pr_slice json; /* all details, with a poisoned message in it */
};
PR_API PR_MUST_CHECK int pr_task_error(const pr_flow *flow, pr_task task, struct pr_task_error *ret_error);

/* ---- Ending ------------------------------------------------------------------- */

/* Returns PR_FAILED, for "return pr_flow_fail(...)". */
PR_API int pr_flow_fail(pr_flow *flow, const char *format, ...) PR_PRINTF(2, 3);
/* Start over with this input and an empty history; status, key-values and mail stay.  version: NULL is the same one.
 * Returns PR_CONTINUED, for "return pr_continue_as_new(...)". */
PR_API int pr_continue_as_new(pr_flow *flow, pr_slice input, const char *version);

/* ---- Recorded ------------------------------------------------------------------
 *
 * Each call is recorded once and costs nothing but its line in the history.  In an inert flow they give zeros.
 */
PR_API int64_t pr_now(pr_flow *flow);
PR_API pr_id pr_uuid(pr_flow *flow);
PR_API uint64_t pr_random(pr_flow *flow);

/* ---- Visible -------------------------------------------------------------------- */

#define PR_CUSTOM_STATUS_MAX 262144 /* bytes */
/* A text for readers and waiters outside.  PR_OK, PR_SUSPEND, or PR_ETOOBIG: nothing changed. */
PR_API PR_MUST_CHECK int pr_set_status(pr_flow *flow, pr_slice status);
PR_API PR_MUST_CHECK int pr_clear_status(pr_flow *flow);
PR_API pr_slice pr_get_status(const pr_flow *flow); /* empty: none */

/* Key-values of the flow, stored with the turn, sorted by key.  A key is a text of 1 to PR_STATE_KEY_MAX bytes. */
#define PR_STATE_KEY_MAX 255
#define PR_STATE_KEYS_MAX 1024
#define PR_STATE_VALUE_MAX 65536    /* bytes of one value */
#define PR_STATE_SIZE_MAX (1 << 20) /* bytes of all keys and values */
PR_API PR_MUST_CHECK int pr_state_get(const pr_flow *flow, pr_slice key, pr_slice *ret_value); /* PR_OK, PR_UNKNOWN */
/* PR_OK, PR_SUSPEND, PR_EINVAL, or PR_ETOOBIG: nothing changed. */
PR_API PR_MUST_CHECK int pr_state_set(pr_flow *flow, pr_slice key, pr_slice value);
PR_API void pr_state_clear(pr_flow *flow, pr_slice key);
PR_API void pr_state_clear_all(pr_flow *flow);
PR_API size_t pr_state_count(const pr_flow *flow);
PR_API void pr_state_at(const pr_flow *flow, size_t index, pr_slice *ret_key, pr_slice *ret_value); /* by key */

/* Does this call repeat an earlier turn? */
PR_API bool pr_is_replaying(const pr_flow *flow);
/* A line of the log, once: not again when the flow is replayed. */
PR_API void pr_flow_log(pr_flow *flow, const char *format, ...) PR_PRINTF(2, 3);

/* ---- Activity ----------------------------------------------------------------------
 *
 * The function of an activity returns PR_OK with its output, or what pr_activity_fail() returned.  It may be called again
 * for the same number: pr_activity_info() has what makes an idempotency key.
 */
struct pr_activity_context;

typedef int (*pr_activity_function)(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output,
                                    void *user);

struct pr_activity_info {
    pr_slice flow;
    pr_id execution;
    int64_t number; /* of the task; with the execution it identifies this activity in the whole store */
    pr_slice name, tag, session;
    int attempt; /* 1 is the first */
    /* Another program ran the session's activities so far (it ended, was lost, or its lane moved): its state in memory
     * is not available here.  Set for the first activity that begins here.  session_from: the name of its instance. */
    bool session_moved;
    pr_slice session_from;
};
PR_API const struct pr_activity_info *pr_activity_info(const struct pr_activity_context *context);
/* Has its flow ended, or cancelled it?  Finish soon: the result is dropped. */
PR_API bool pr_activity_is_cancelled(const struct pr_activity_context *context);
/* The same, or its time is over, or the engine stops: return soon. */
PR_API bool pr_activity_should_stop(const struct pr_activity_context *context);
PR_API void *pr_activity_alloc(struct pr_activity_context *context, size_t size); /* lives until its result is stored */
/* This try failed.  retryable false: no retry, whatever the retry policy is.  Returns PR_FAILED. */
PR_API int pr_activity_fail(struct pr_activity_context *context, enum pr_category category, bool retryable,
                            const char *format, ...) PR_PRINTF(4, 5);

/* ---- Program -------------------------------------------------------------------------
 *
 * What an engine runs; before pr_engine_start() only.  An engine that has flows serves the box `turns`, one that has activities the
 * box `activities`: both can be in one program, or in several.  A name and version is registered once (PR_EINVAL).
 */

/* version NULL: "1".  A running flow keeps its version: keep the function as long as there are such flows. */
PR_API PR_MUST_CHECK int pr_engine_flow(struct pr_engine *engine, const char *name, const char *version,
                                        pr_flow_function function, void *user);
PR_API PR_MUST_CHECK int pr_engine_activity(struct pr_engine *engine, const char *name, pr_activity_function function,
                                            void *user);
/* Activities that need this tag can run here, too. */
PR_API PR_MUST_CHECK int pr_engine_offer(struct pr_engine *engine, const char *tag);

/* ---- Client ----------------------------------------------------------------------------
 *
 * Start flows, send them signals, query them: from any program that reaches the store.
 */
struct pr_flow_start {
    const char *name;
    const char *version; /* NULL: the highest version of the program that runs the flow */
    const char *id;      /* NULL: generated */
    pr_slice input;
    bool restart;   /* restart a flow that has ended */
    int64_t due_us; /* not before; 0: now */
};
#define PR_FLOW_ID_SIZE (PR_NAME_MAX + 1)

/* In your own transaction: the flow begins if and only if it commits.  box NULL: "turns"; see pr_send_sqlite_box() and
 * pr_send_pg_box().  ret_id may be NULL.  Outcome PR_DUPLICATE: it was started already, and its first turn has not run
 * yet.  A running flow ignores another start. */
PR_API PR_MUST_CHECK int pr_flow_start_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_start *start,
                                              char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_start_pg(struct pg_conn *conn, const char *box, const struct pr_flow_start *start,
                                          char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr);

/* A message for a flow.  The flow need not exist yet: then it is kept for a time (`flows.keep_mail`). */
enum pr_flow_message { PR_FLOW_EVENT, PR_FLOW_MAIL, PR_FLOW_CANCEL };
struct pr_flow_tell {
    const char *id; /* of the flow */
    enum pr_flow_message kind;
    const char *name; /* of the event or the mailbox */
    pr_slice data;    /* CANCEL: why */
    pr_id message;    /* zero: generated; the same again, while it waits, is PR_DUPLICATE */
};
PR_API PR_MUST_CHECK int pr_flow_tell_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_tell *tell,
                                             struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_tell_pg(struct pg_conn *conn, const char *box, const struct pr_flow_tell *tell,
                                         struct pr_error *reterr);

/* A client has a connection of its own.  Threads: any. */
struct pr_flow_client;
PR_API PR_MUST_CHECK int pr_flow_client_open(const char *store_url, struct pr_flow_client **ret_client,
                                             struct pr_error *reterr);
PR_API void pr_flow_client_close(struct pr_flow_client *client); /* NULL is allowed */

/* Committed when they return.  Outcome PR_DUPLICATE: such a flow exists, or is about to begin; nothing changed. */
PR_API PR_MUST_CHECK int pr_flow_start(struct pr_flow_client *client, const struct pr_flow_start *start,
                                       char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_raise(struct pr_flow_client *client, const char *id, const char *event, pr_slice data,
                                       struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_send(struct pr_flow_client *client, const char *id, const char *mailbox, pr_slice data,
                                      struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_cancel(struct pr_flow_client *client, const char *id, const char *why,
                                        struct pr_error *reterr);

enum pr_flow_state {
    PR_FLOW_RUNNING = 1,
    PR_FLOW_COMPLETED,
    PR_FLOW_FAILED,
    PR_FLOW_CANCELLED,
    PR_FLOW_CONTINUED, /* an earlier execution of a flow that continued as new */
};
PR_API const char *pr_flow_state_name(enum pr_flow_state state); /* "running", ... */

struct pr_flow_status { /* its slices live until pr_flow_status_free() */
    enum pr_flow_state state;
    pr_slice id, name, version, input, output;
    pr_slice custom_status;
    int64_t status_number;     /* incremented by each change of it; 0: never set */
    enum pr_category category; /* FAILED, CANCELLED: why */
    pr_slice error;            /* ... as text */
    pr_slice error_json;       /* ... all details */
    pr_slice parent;           /* empty: none */
    pr_id execution;
    int64_t events; /* of its history */
    int64_t created_us, updated_us;
    void *memory;
};
/* PR_OK; PR_UNKNOWN: no such flow (or its first turn has not run yet). */
PR_API PR_MUST_CHECK int pr_flow_status(struct pr_flow_client *client, const char *id,
                                        struct pr_flow_status *ret_status, struct pr_error *reterr);
PR_API void pr_flow_status_free(struct pr_flow_status *status); /* a zeroed one is allowed */

/* Waits until it has ended: PR_OK; PR_TIMEOUT: *ret_status has its state; PR_UNKNOWN: it did not begin in time.
 * after_number >= 0: also until its status_number is greater.  A flow that runs in this process is noticed at once;
 * otherwise it is polled less and less often, at least twice a second. */
PR_API PR_MUST_CHECK int pr_flow_wait(struct pr_flow_client *client, const char *id, int64_t after_number,
                                      int64_t timeout_us, struct pr_flow_status *ret_status, struct pr_error *reterr);

struct pr_flow_query { /* all given members must match */
    int state;         /* enum pr_flow_state; 0: any */
    const char *name, *version, *parent;
    int64_t since_us, until_us; /* created; 0: no bound */
    size_t max;                 /* 0: 100 */
    int64_t after_us;           /* older than the last one seen: its created_us ... */
    const char *after_id;       /* ... and its id */
};
/* Newest first; the status is borrowed for the call.  Anything but PR_OK ends the list, and is returned. */
typedef int (*pr_flow_listed)(void *arg, const struct pr_flow_status *flow);
PR_API PR_MUST_CHECK int pr_flow_list(struct pr_flow_client *client, const struct pr_flow_query *query,
                                      pr_flow_listed each, void *arg, struct pr_error *reterr);
/* Its executions, the current one first. */
PR_API PR_MUST_CHECK int pr_flow_executions(struct pr_flow_client *client, const char *id, pr_flow_listed each,
                                            void *arg, struct pr_error *reterr);

/* The history of an execution (NULL: of the current one), line by line: each is a JSON object.  PR_OK, PR_UNKNOWN. */
typedef int (*pr_flow_line)(void *arg, pr_slice line);
PR_API PR_MUST_CHECK int pr_flow_history(struct pr_flow_client *client, const char *id, const pr_id *execution,
                                         pr_flow_line each, void *arg, struct pr_error *reterr);
/* A key-value of the flow: PR_OK, and *ret_value is to be freed with free(); PR_UNKNOWN. */
PR_API PR_MUST_CHECK int pr_flow_value(struct pr_flow_client *client, const char *id, pr_slice key, char **ret_value,
                                       size_t *ret_size, struct pr_error *reterr);

/* Deletes the flow with its children and everything that belongs to them.  PR_OK; PR_UNKNOWN: no such flow; PR_STALE:
 * it is running, and force is false.  Fault PR_EBUSY: a turn is being committed; try again. */
PR_API PR_MUST_CHECK int pr_flow_delete(struct pr_flow_client *client, const char *id, bool force,
                                        struct pr_error *reterr);
/* Deletes executions before the current one: of this flow (NULL: of all), except the latest keep of each (-1: no
 * limit), that ended before this time (0: any time). */
PR_API PR_MUST_CHECK int pr_flow_prune(struct pr_flow_client *client, const char *id, int keep, int64_t before_us,
                                       uint64_t *ret_count, struct pr_error *reterr);

/* ---- Checking ----------------------------------------------------------------------------
 *
 * Before new code is deployed: replay what flows have behind them, and see which would diverge.  In the program itself, in a
 * unit test, or by `postrider flow check` with a shared object that has the function pr_flow_register().
 */
struct pr_flow_set;                                    /* flows without an engine */
PR_API struct pr_flow_set *pr_flow_set_new(void);      /* NULL: no memory */
PR_API void pr_flow_set_free(struct pr_flow_set *set); /* NULL is allowed */
/* As pr_engine_flow(). */
PR_API PR_MUST_CHECK int pr_flow_set_add(struct pr_flow_set *set, const char *name, const char *version,
                                         pr_flow_function function, void *user);
/* Defined by a shared object for `postrider flow check`, not by the library.  PR_OK, or it is refused. */
PR_API int pr_flow_register(struct pr_flow_set *set);

enum pr_flow_fit {
    PR_FLOW_FITS,
    PR_FLOW_DIVERGES,
    PR_FLOW_LACKS,   /* the set lacks the name or version: the flow would wait */
    PR_FLOW_DAMAGED, /* its history cannot be read */
};
struct pr_flow_checked { /* borrowed for the call */
    enum pr_flow_fit outcome;
    pr_slice id; /* empty: a history without a store */
    pr_slice name, version;
    pr_id execution;
    int64_t event;            /* DIVERGES: the number of the event that differs ... */
    pr_slice expected, found; /* ... the history's command there, and the code's */
    pr_slice why;             /* a text; empty: it fits */
};
/* Anything but PR_OK ends the check, and is returned. */
typedef int (*pr_flow_check_each)(void *arg, const struct pr_flow_checked *checked);
/* One flow, or (NULL) all running ones.  PR_OK: all fit; PR_FAILED: some do not; PR_UNKNOWN: no such flow.  each may be
 * NULL. */
PR_API PR_MUST_CHECK int pr_flow_check(struct pr_flow_client *client, const struct pr_flow_set *set, const char *id,
                                       pr_flow_check_each each, void *arg, struct pr_error *reterr);
/* A history, as `postrider flow export` prints it; needs no store. */
PR_API PR_MUST_CHECK int pr_flow_check_history(const struct pr_flow_set *set, pr_slice lines, pr_flow_check_each each,
                                               void *arg, struct pr_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
