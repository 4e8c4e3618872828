/* postrider_flow.h - long-running work as an ordinary C function that survives crashes.
 *
 *   Values        what flow functions are given and return
 *   Activities    work that is done elsewhere, with its retries
 *   Waiting       timers, events, mail, other flows; all, any, cancel
 *   Ending        fail, continue as new
 *   Recorded      time, ids and randomness that are the same on every replay
 *   Visible       custom status, key-values, log
 *   Activity      what the function of an activity may ask and say
 *   Program       which flows and activities an engine runs
 *   Client        start flows, tell them something, ask about them
 *   Checking      would new code still fit to flows that are running?
 *
 * A flow function is called from the top on every turn, with all that happened so far.  What it called before is answered
 * from its history, by position; the first wait for something that has not happened yet returns PR_SUSPEND, and the
 * function returns that.  It is called again when something happens.
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
 * Rules for flow functions: the same history must lead to the same calls.  So no clock, no randomness, no I/O, no global
 * state but through the functions here; and what a wait returned, if negative, is returned at once.  After
 * PR_SUSPEND the flow is inert: every further call says PR_SUSPEND and does nothing, so a forgotten check cannot do harm.
 *
 * Memory:  all that these functions give, and all that a flow function returns, lives until the turn ends; pr_flow_alloc()
 *          gives more of it.  What is passed in is copied.
 * Threads: a flow belongs to the thread that its function was called on, until it returns.
 */
#ifndef POSTRIDER_FLOW_H
#define POSTRIDER_FLOW_H

#include <postrider.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values ---------------------------------------------------------------- */

typedef struct pr_flow pr_flow;

/* Something that was begun and ends some time.  Copy it freely; it is meaningless outside its flow. */
typedef struct {
    int64_t number;
} pr_task;

/* Beside enum pr_result.  Negative, so that "if (rc < 0) return rc;" is right for all of them. */
enum pr_flow_result {
    PR_SUSPEND = -64,    /* nothing to do until something happens: return it */
    PR_ECANCELLED = -65, /* the flow was cancelled: clean up and return it, then it ends as cancelled */
    PR_CONTINUED = -66,  /* what pr_continue_as_new() returned: return it */
};

/* It returns PR_OK with its output; what pr_flow_fail(), pr_continue_as_new() or a wait returned; or a fault of the
 * functions here.  All but PR_OK, PR_SUSPEND, PR_ECANCELLED and PR_CONTINUED end the flow as failed. */
typedef int (*pr_flow_function)(pr_flow *flow, pr_slice input, pr_slice *ret_output);

PR_API pr_slice pr_flow_id(const pr_flow *flow);
PR_API pr_slice pr_flow_name(const pr_flow *flow);
PR_API pr_slice pr_flow_version(const pr_flow *flow);
PR_API pr_id pr_flow_execution(const pr_flow *flow); /* changes with pr_continue_as_new() */
PR_API void *pr_flow_user(const pr_flow *flow);      /* what the function was registered with */

PR_API void *pr_flow_alloc(pr_flow *flow, size_t size); /* NULL: no memory */
PR_API pr_slice pr_flow_printf(pr_flow *flow, const char *format, ...) PR_PRINTF(2, 3);

#define PR_FLOW_TASKS_MAX 10000 /* open at once; one more is PR_ETOOBIG when it is waited for */

/* ---- Activities -------------------------------------------------------------
 *
 * An activity is work that may do anything.  It is done at least once, its result is recorded once.
 */

enum pr_backoff { PR_BACKOFF_NONE, PR_BACKOFF_FIXED, PR_BACKOFF_LINEAR, PR_BACKOFF_EXPONENTIAL };

/* When an activity that failed is tried again.  All zero: never. */
struct pr_retry {
    int tries;               /* at most, the first included; 0 and 1: it is not tried again */
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
    int64_t schedule_to_start_us; /* it fails if nobody begins it in this time; 0: it waits */
    const char *tag;              /* only workers that offer this tag get it; NULL: any */
    const char *session;          /* those of one session run one after the other, in one instance; NULL: none */
};

/* Begin an activity; its result is pr_result()'s. */
PR_API pr_task pr_activity(pr_flow *flow, const char *name, pr_slice input);
PR_API pr_task pr_activity_with(pr_flow *flow, const char *name, pr_slice input,
                                const struct pr_activity_options *options);
/* Begin one and wait for it: PR_OK, PR_FAILED, or negative.  PR_FAILED that the flow function returns fails the flow with the
 * activity's error. */
PR_API PR_MUST_CHECK int pr_call(pr_flow *flow, const char *name, pr_slice input, pr_slice *ret_output);

/* ---- Waiting ------------------------------------------------------------------ */

/* Ends after this time, counted from this turn; its due time is recorded once. */
PR_API pr_task pr_timer(pr_flow *flow, int64_t after_us);
PR_API pr_task pr_timer_at(pr_flow *flow, int64_t at_us);

/* The next event of this name that nobody waited for yet; events that came before count.  Its result is the event's data.
 * Events belong to the execution: those that are left when it continues as new are gone. */
PR_API pr_task pr_event(pr_flow *flow, const char *name);
/* The same from a mailbox: first in, first out, and what is left goes over to the next execution.  What a cancelled wait
 * was given and nobody saw goes to the next one. */
PR_API pr_task pr_mail(pr_flow *flow, const char *name);

struct pr_child_options {
    const char *id;      /* NULL: one is made */
    const char *version; /* NULL: the highest that the program has which runs it */
};
/* Another flow; its result is that flow's.  It is cancelled with this one. */
PR_API pr_task pr_child(pr_flow *flow, const char *name, pr_slice input);
PR_API pr_task pr_child_with(pr_flow *flow, const char *name, pr_slice input, const struct pr_child_options *options);
/* Start a flow and forget it.  PR_OK, PR_SUSPEND, or PR_EINVAL. */
PR_API PR_MUST_CHECK int pr_detach(pr_flow *flow, const char *name, pr_slice input,
                                   const struct pr_child_options *options);

/* Wait until all have ended, well or not, or were cancelled: PR_OK, or negative. */
PR_API PR_MUST_CHECK int pr_all(pr_flow *flow, size_t count, const pr_task *tasks);
/* Wait for the first: its index, or negative.  When several have ended it is the one that ended first.  The others go on,
 * unless they are cancelled. */
PR_API PR_MUST_CHECK int pr_any(pr_flow *flow, size_t count, const pr_task *tasks);
/* Wait for one: PR_OK and its output; PR_FAILED: *reterr (may be NULL) says why; or negative.  ret_output may be NULL; it is
 * empty where there is no output.
 * An activity or a child that failed for a reason that no code can repair (infrastructure, configuration) ends the flow. */
PR_API PR_MUST_CHECK int pr_result(pr_flow *flow, pr_task task, pr_slice *ret_output, struct pr_error *reterr);
/* It is not needed any more: an activity is taken back, a child is cancelled.  After that its result is PR_FAILED, also
 * when it has ended meanwhile; nothing happens to what a wait has told to have ended.  What is open when the flow function
 * returns is cancelled without it. */
PR_API void pr_cancel(pr_flow *flow, pr_task task);
/* Has the flow seen that it is cancelled?  It sees it once, as PR_ECANCELLED of a wait; waits after that work as before. */
PR_API bool pr_is_cancelled(const pr_flow *flow);

enum pr_category {
    PR_CATEGORY_NONE,
    PR_CATEGORY_INFRASTRUCTURE, /* the machinery around it could not */
    PR_CATEGORY_CONFIGURATION,  /* the program is not what it should be; nondeterminism, too */
    PR_CATEGORY_APPLICATION,    /* the code said so */
    PR_CATEGORY_POISON,         /* it was handed out too often without an outcome */
};
PR_API const char *pr_category_name(enum pr_category category);

/* Why a task failed.  PR_OK, or PR_UNKNOWN: it has not failed, or nobody waited for it. */
struct pr_task_error {
    enum pr_category category;
    bool retryable;
    pr_slice message;
    pr_slice json; /* all that is known, with a poisoned message in it */
};
PR_API PR_MUST_CHECK int pr_task_error(const pr_flow *flow, pr_task task, struct pr_task_error *ret_error);

/* ---- Ending ------------------------------------------------------------------- */

/* Returns PR_FAILED, for "return pr_flow_fail(...)". */
PR_API int pr_flow_fail(pr_flow *flow, const char *format, ...) PR_PRINTF(2, 3);
/* Start again with this input and an empty history; status, key-values and mail stay.  version: NULL is the same one.
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
/* A text that others read and wait for.  PR_OK, PR_SUSPEND, or PR_ETOOBIG: nothing changed. */
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

/* Does this call repeat what an earlier turn did? */
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
    int64_t number; /* of the task; with the execution it names this activity in the whole store */
    pr_slice name, tag, session;
    int attempt; /* 1 is the first */
    /* Another program did the session's activities so far (it ended, was lost, or its lane moved): what that one kept in memory is not
     * here.  Told to the first activity that is begun here.  session_from: the name of its instance. */
    bool session_moved;
    pr_slice session_from;
};
PR_API const struct pr_activity_info *pr_activity_info(const struct pr_activity_context *context);
/* Has its flow ended, or cancelled it?  Finish soon: the result is dropped. */
PR_API bool pr_activity_is_cancelled(const struct pr_activity_context *context);
/* The same, or its time is over, or the engine stops: return soon. */
PR_API bool pr_activity_should_stop(const struct pr_activity_context *context);
PR_API void *pr_activity_alloc(struct pr_activity_context *context, size_t size); /* lives until its result is stored */
/* This try failed.  retryable false: whatever the retry policy says, it is not tried again.  Returns PR_FAILED. */
PR_API int pr_activity_fail(struct pr_activity_context *context, enum pr_category category, bool retryable,
                            const char *format, ...) PR_PRINTF(4, 5);

/* ---- Program -------------------------------------------------------------------------
 *
 * What an engine runs; before pr_engine_start() only.  An engine that has flows serves the box `turns`, one that has activities the
 * box `activities`: both can be in one program, or in several.  A name and version is registered once (PR_EINVAL).
 */

/* version NULL: "1".  A flow that is running stays on its version: keep the function as long as there are such flows. */
PR_API PR_MUST_CHECK int pr_engine_flow(struct pr_engine *engine, const char *name, const char *version,
                                        pr_flow_function function, void *user);
PR_API PR_MUST_CHECK int pr_engine_activity(struct pr_engine *engine, const char *name, pr_activity_function function,
                                            void *user);
/* Activities that need this tag are done here, too. */
PR_API PR_MUST_CHECK int pr_engine_offer(struct pr_engine *engine, const char *tag);

/* ---- Client ----------------------------------------------------------------------------
 *
 * Start flows, tell them something, ask about them: from any program that reaches the store.
 */
struct pr_flow_start {
    const char *name;
    const char *version; /* NULL: the highest that the program has which runs it */
    const char *id;      /* NULL: one is made */
    pr_slice input;
    bool restart;   /* start one that has ended again */
    int64_t due_us; /* not before; 0: now */
};
#define PR_FLOW_ID_SIZE (PR_NAME_MAX + 1)

/* In your own transaction: the flow begins if and only if it commits.  box NULL: "turns"; see pr_send_sqlite_box() and
 * pr_send_pg_box().  ret_id may be NULL.
 * Outcome PR_DUPLICATE: it was started already, and its first turn has not come yet.  A flow that runs ignores another start. */
PR_API PR_MUST_CHECK int pr_flow_start_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_start *start,
                                              char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_start_pg(struct pg_conn *conn, const char *box, const struct pr_flow_start *start,
                                          char ret_id[PR_FLOW_ID_SIZE], struct pr_error *reterr);

/* Something for a flow.  It need not exist yet: then it is kept for a time (`flows.keep_mail`). */
enum pr_flow_message { PR_FLOW_EVENT, PR_FLOW_MAIL, PR_FLOW_CANCEL };
struct pr_flow_tell {
    const char *id; /* of the flow */
    enum pr_flow_message kind;
    const char *name; /* of the event or the mailbox */
    pr_slice data;    /* CANCEL: why */
    pr_id message;    /* zero: one is made; the same again, while it waits, is PR_DUPLICATE */
};
PR_API PR_MUST_CHECK int pr_flow_tell_sqlite(struct sqlite3 *db, const char *box, const struct pr_flow_tell *tell,
                                             struct pr_error *reterr);
PR_API PR_MUST_CHECK int pr_flow_tell_pg(struct pg_conn *conn, const char *box, const struct pr_flow_tell *tell,
                                         struct pr_error *reterr);

/* A client has a connection of its own.  Threads: any. */
struct pr_flow_client;
PR_API PR_MUST_CHECK int pr_flow_client_open(const char *store_url, struct pr_flow_client **ret_client,
                                             struct pr_error *reterr);
PR_API void pr_flow_client_close(struct pr_flow_client *client); /* NULL is fine */

/* Committed when they return.  Outcome PR_DUPLICATE: there is such a flow, or it is about to begin; nothing changed. */
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
    PR_FLOW_CONTINUED, /* an earlier execution of one that continued as new */
};
PR_API const char *pr_flow_state_name(enum pr_flow_state state); /* "running", ... */

struct pr_flow_status { /* its slices live until pr_flow_status_free() */
    enum pr_flow_state state;
    pr_slice id, name, version, input, output;
    pr_slice custom_status;
    int64_t status_number;     /* raised by each change of it; 0: never set */
    enum pr_category category; /* FAILED, CANCELLED: why */
    pr_slice error;            /* ... in words */
    pr_slice error_json;       /* ... all that is known */
    pr_slice parent;           /* empty: none */
    pr_id execution;
    int64_t events; /* of its history */
    int64_t created_us, updated_us;
    void *memory;
};
/* PR_OK; PR_UNKNOWN: there is no such flow (or its first turn has not been yet). */
PR_API PR_MUST_CHECK int pr_flow_status(struct pr_flow_client *client, const char *id,
                                        struct pr_flow_status *ret_status, struct pr_error *reterr);
PR_API void pr_flow_status_free(struct pr_flow_status *status); /* a zeroed one is fine */

/* Until it has ended: PR_OK; PR_TIMEOUT: *ret_status says how far it is; PR_UNKNOWN: it did not begin in this time.
 * after_number >= 0: also when its status_number is greater.  What runs in this process is heard of at once; else it is looked
 * at ever more seldom, twice a second at least. */
PR_API PR_MUST_CHECK int pr_flow_wait(struct pr_flow_client *client, const char *id, int64_t after_number,
                                      int64_t timeout_us, struct pr_flow_status *ret_status, struct pr_error *reterr);

struct pr_flow_query { /* all of what is given must fit */
    int state;         /* enum pr_flow_state; 0: any */
    const char *name, *version, *parent;
    int64_t since_us, until_us; /* created; 0: whenever */
    size_t max;                 /* 0: 100 */
    int64_t after_us;           /* older than the last one seen: its created_us ... */
    const char *after_id;       /* ... and its id */
};
/* The newest first; the status is borrowed for the call.  Anything but PR_OK ends it, and is returned. */
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

/* With its children and all that belongs to them.  PR_OK; PR_UNKNOWN: no such flow; PR_STALE: it runs, and force is false.
 * Fault PR_EBUSY: one of them is in the middle of a turn; try again. */
PR_API PR_MUST_CHECK int pr_flow_delete(struct pr_flow_client *client, const char *id, bool force,
                                        struct pr_error *reterr);
/* Executions before the current one go: of this flow (NULL: of all), but for the latest keep of each (-1: any number), that ended before
 * this time (0: whenever). */
PR_API PR_MUST_CHECK int pr_flow_prune(struct pr_flow_client *client, const char *id, int keep, int64_t before_us,
                                       uint64_t *ret_count, struct pr_error *reterr);

/* ---- Checking ----------------------------------------------------------------------------
 *
 * Before new code is deployed: replay what flows have behind them, and see which would diverge.  In the program itself, in a
 * unit test, or by `postrider flow check` with a shared object that has the function pr_flow_register().
 */
struct pr_flow_set;                                    /* flows without an engine */
PR_API struct pr_flow_set *pr_flow_set_new(void);      /* NULL: no memory */
PR_API void pr_flow_set_free(struct pr_flow_set *set); /* NULL is fine */
/* As pr_engine_flow(). */
PR_API PR_MUST_CHECK int pr_flow_set_add(struct pr_flow_set *set, const char *name, const char *version,
                                         pr_flow_function function, void *user);
/* What a shared object for `postrider flow check` defines; the library does not.  PR_OK, or it is refused. */
PR_API int pr_flow_register(struct pr_flow_set *set);

enum pr_flow_fit {
    PR_FLOW_FITS,
    PR_FLOW_DIVERGES,
    PR_FLOW_LACKS,   /* the set has no such name and version: the flow would wait */
    PR_FLOW_DAMAGED, /* its history cannot be read */
};
struct pr_flow_checked { /* borrowed for the call */
    enum pr_flow_fit outcome;
    pr_slice id; /* empty: the history was given */
    pr_slice name, version;
    pr_id execution;
    int64_t event;            /* DIVERGES: the number of the event that differs ... */
    pr_slice expected, found; /* ... what the history has there, and what the code did */
    pr_slice why;             /* in words; empty: it fits */
};
/* Anything but PR_OK ends it, and is returned. */
typedef int (*pr_flow_check_each)(void *arg, const struct pr_flow_checked *checked);
/* One flow, or (NULL) all that are running.  PR_OK: all fit; PR_FAILED: some do not; PR_UNKNOWN: no such flow.  each may be
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
