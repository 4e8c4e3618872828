/* A worker is an engine without transports: its messages go to the caller, and the caller's verdicts come back.
 * Everything happens in the caller's thread, inside pr_worker_cycle().
 *
 * A claim is a message that the caller has.  It ends with a committed verdict, or when the lease is lost. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/completion.h"
#include "core/message.h"
#include "engine/engine.h"
#include "lib/lib.h"
#include "lib/worker.h"
#include "runtime/effects.h"
#include "runtime/config/config.h"
#include "store/sqlite/send.h"
#include "store/store.h"
#include "transport/delivery.h"

#define WORKER_LEASE_US PR_SECONDS(15)
#define WORKER_ATTEMPTS 5
#define WORKER_BATCH 1000
#define WORKER_WINDOW 10000
#define WORKER_WINDOW_BYTES (64u << 20)
#define WORKER_POLL_US PR_MILLISECONDS(200)
#define WORKER_CLOSE_US PR_SECONDS(5) /* how long close tries to hand claims back */
#define WORKER_TAKE_MAX 256
#define WORKER_AGAIN_US PR_MILLISECONDS(20)

#define ANSWER_PENDING (-1000) /* the engine has the verdict, the store not yet */

struct worker_claim {
    struct map_node node; /* by number */
    uint64_t number;      /* the caller's name for the claim */
    uint64_t token;       /* the engine's name for it; the message belongs to the engine, too */
    uint64_t row;         /* ... and the store's, for this hand-out: */
    int attempt;
    const struct pr_message *message; /* borrowed until it is judged */
    bool judged;
    int answer; /* set by the engine when the verdict is committed */
};

struct pr_worker {
    struct store store;
    struct store_session session;
    struct endpoint_setting endpoint; /* the only one, for all messages; its concurrency changes with each call */
    struct route override;
    unsigned to;
    struct engine_setting setting;
    struct engine *engine;
    struct map claims;
    /* number of the first claim; random, so that claims of another worker are not mistaken for this one's */
    uint64_t first;
    uint64_t issued;
    bool lost;    /* the lease is lost: all claims are void, and forgotten by the next call */
    bool changed; /* the store may have something new */
    char *name, *box, *url;
    struct config *config; /* the configuration of its endpoint; NULL: none */
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* ---- Claims ------------------------------------------------------------------------------- */

static uint64_t number_hash(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15);
}

static struct worker_claim *claim_find(const struct pr_worker *w, uint64_t number)
{
    for (struct map_node *n = map_first(&w->claims, number_hash(number)); n != NULL; n = map_next_same(n)) {
        struct worker_claim *c = MAP_ENTRY(n, struct worker_claim, node);
        if (c->number == number)
            return c;
    }
    return NULL;
}

static void claim_free(struct pr_worker *w, struct worker_claim *c)
{
    map_remove(&w->claims, &c->node);
    free(c);
}

static struct worker_claim *claim_new(struct pr_worker *w, const struct delivery *d)
{
    struct worker_claim *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->token = d->token;
    c->row = d->row;
    c->number = w->first + w->issued;
    c->attempt = d->attempt;
    c->message = d->message;
    if (map_insert(&w->claims, &c->node, number_hash(c->number)) < 0) {
        free(c);
        return NULL;
    }
    w->issued++;
    return c;
}

static bool was_handed_out(const struct pr_worker *w, uint64_t number)
{
    return number - w->first < w->issued;
}

static void hand_back(struct pr_worker *w, uint64_t token)
{
    engine_result(w->engine, now_us(), &(struct delivery_result){ .token = token, .outcome = SEND_RETURNED });
}

/* Hands back every claim without a verdict, uncounted. */
static void claims_hand_back(struct pr_worker *w)
{
    map_foreach(node, &w->claims) {
        struct worker_claim *c = MAP_ENTRY(node, struct worker_claim, node);
        if (!c->judged)
            hand_back(w, c->token);
        c->judged = true;
    }
}

static void claims_forget(struct pr_worker *w)
{
    map_foreach(node, &w->claims)
        claim_free(w, MAP_ENTRY(node, struct worker_claim, node));
}

/* ---- Open and close ------------------------------------------------------------------------- */

static int parse_ordering(const char *text, enum ordering *ret, struct pr_error *reterr)
{
    static const char *const names[] = { [ORDERING_FIFO] = "fifo",
                                         [ORDERING_STRICT] = "strict",
                                         [ORDERING_AVAILABLE] = "available",
                                         [ORDERING_NONE] = "none" };
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum ordering)i;
            return PR_OK;
        }
    }
    return error_set(reterr, PR_EINVAL, "ordering \"%.32s\" is unknown; use one of fifo, strict, available, none",
                     text);
}

static const struct rule_step *find_call(const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < rules[i].step_count; k++)
            if (rules[i].steps[k].call.size > 0)
                return &rules[i].steps[k];
    return NULL;
}

/* The endpoint whose settings the worker uses. */
static int worker_follow(struct pr_worker *w, const struct config_endpoint *e, const struct pr_worker_options *options,
                         struct pr_error *reterr)
{
    const struct config_box *box = config_find_box(w->config, slice_from(w->box));
    const struct rule_step *call = find_call(e->rules, e->rule_count);
    if (call == NULL)
        call = find_call(w->config->rules, w->config->rule_count);
    if (call != NULL)
        return error_set(reterr, PR_ECONFIG, "a rule calls \"%.*s\": functions need an engine, a worker has none",
                         SLICE_ARGS(call->call));
    config_endpoint_policy(w->config, e, &w->endpoint.policy);
    w->endpoint.name = slice_from(e->name);
    w->endpoint.ordering = e->ordering;
    w->endpoint.rate = e->rate;
    w->endpoint.payload_max = (size_t)e->payload_max;
    if (options->max_attempts == 0)
        w->endpoint.max_attempts = e->max_attempts;
    w->setting.retention = w->config->retention;
    w->setting.keep_us = box != NULL ? box->keep_us : 0;
    w->setting.dedupe_us = box != NULL ? box->dedupe_us : DEDUPE_OF_BOX;
    return PR_OK;
}

static int worker_configure(struct pr_worker *w, const struct pr_worker_options *options, struct pr_error *reterr)
{
    if (options->config == NULL && options->endpoint == NULL)
        return PR_OK;
    if (options->config == NULL || options->endpoint == NULL)
        return lib_missing(options->config == NULL ? "config" : "endpoint", reterr);
    int rc = config_load_text(slice_from(options->config), "config", &w->config, reterr);
    if (rc < 0)
        return rc;
    const struct config_endpoint *e = config_find_endpoint(w->config, slice_from(options->endpoint));
    return e != NULL ? worker_follow(w, e, options, reterr)
                     : error_set(reterr, PR_ECONFIG, "the configuration has no endpoint \"%.64s\"", options->endpoint);
}

static bool worker_knows_box(void *arg, pr_slice box)
{
    struct pr_worker *w = arg;
    return box_is_known(NULL, &w->store, box);
}

static int worker_set(struct pr_worker *w, const struct pr_worker_options *options, struct pr_error *reterr)
{
    pr_slice box;
    int rc = lib_box(options->box, &box, reterr);
    if (rc < 0)
        return rc;
    if (options->lease_us < 0 || options->max_attempts < 0)
        return error_set(reterr, PR_EINVAL, "lease_us and max_attempts must not be negative");
    w->box = strdup(box.data);
    w->name = strdup(options->name != NULL ? options->name : "worker");
    w->url = strdup(options->store_url);
    if (w->box == NULL || w->name == NULL || w->url == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a worker");
    w->endpoint = (struct endpoint_setting){
        .name = PR_STR("worker"),
        .max_attempts = options->max_attempts > 0 ? options->max_attempts : WORKER_ATTEMPTS,
        .policy = { .retry = retry_default },
        /* The caller has its own timeout; no breaker: the caller decides about each message. */
        .timeout_us = PR_NEVER / 2,
        .concurrency = 1,
    };
    w->override = (struct route){ .box = slice_from(w->box), .to = &w->to, .to_count = 1 };
    w->setting = (struct engine_setting){
        .find_zone = zone_find,
        .knows_box = worker_knows_box,
        .knows_box_arg = w,
        .box = slice_from(w->box),
        .name = slice_from(w->name),
        .lease_us = options->lease_us > 0 ? options->lease_us : WORKER_LEASE_US,
        .batch = WORKER_BATCH,
        .window_count = WORKER_WINDOW,
        .window_bytes = WORKER_WINDOW_BYTES,
        .payload_max = LIB_PAYLOAD_MAX,
        .poll_us = WORKER_POLL_US,
        .dedupe_us = DEDUPE_OF_BOX, /* as the box's configuration says, if any */
        .endpoints = &w->endpoint,
        .endpoint_count = 1,
        .overrides = &w->override,
        .override_count = 1,
    };
    pr_id_new(&w->setting.instance);
    if (random_bytes_os(&w->setting.seed, sizeof w->setting.seed) < 0)
        w->setting.seed = (uint64_t)now_us(); /* only jitter depends on it */
    rc = worker_configure(w, options, reterr);
    if (rc < 0 || (options->ordering == NULL && w->config != NULL))
        return rc;
    return parse_ordering(options->ordering != NULL ? options->ordering : "fifo", &w->endpoint.ordering, reterr);
}

static int worker_connect(struct pr_worker *w, const char *url, struct pr_error *reterr)
{
    const struct store_options options = { .url = url, .payload_max = LIB_PAYLOAD_MAX };
    struct pr_error fault;
    int rc = store_open(&options, &w->store, reterr);
    if (rc == PR_OK)
        rc = store_check(&w->store, reterr);
    if (rc == PR_OK)
        rc = store_session_open(&w->store, w->setting.box, &w->session, reterr);
    if (rc < 0)
        return rc;
    w->engine = engine_new(&w->setting, &fault);
    return w->engine != NULL ? PR_OK : error_set(reterr, fault.code, "%s", fault.text);
}

PR_API int pr_worker_open(const struct pr_worker_options *options, struct pr_worker **ret_worker,
                          struct pr_error *reterr)
{
    if (options == NULL || ret_worker == NULL)
        return lib_missing(options == NULL ? "options" : "ret_worker", reterr);
    if (options->store_url == NULL)
        return lib_missing("store_url", reterr);
    struct pr_worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a worker");
    map_init(&w->claims);
    int rc = random_bytes_os(&w->first, sizeof w->first);
    if (rc < 0)
        (void)error_set(reterr, rc, "the operating system provides no random numbers");
    if (rc == PR_OK)
        rc = worker_set(w, options, reterr);
    if (rc == PR_OK)
        rc = worker_connect(w, options->store_url, reterr);
    if (rc < 0) {
        pr_worker_close(w);
        return rc;
    }
    *ret_worker = w;
    return PR_OK;
}

enum worker_step { WORKER_IDLE = 0, WORKER_MADE_CYCLE = 1 };

/* Makes one cycle, if the engine plans one now; or returns a fault. */
static int worker_step(struct pr_worker *w, struct pr_error *reterr)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    int64_t asked = now_us();
    if (!engine_plan(w->engine, asked, w->changed, &cycle))
        return WORKER_IDLE;
    int rc = store_cycle(&w->session, cycle, &reply, reterr);
    if (rc < 0) {
        if (rc != PR_EINVAL || reterr == NULL)
            engine_cycle_failed(w->engine, now_us(), rc);
        else if (engine_cycle_refused(w->engine, now_us(), reterr->text))
            return WORKER_MADE_CYCLE; /* one of its verdicts is answered PR_FAILED */
        w->lost |= rc == PR_ELEASE;
        return rc;
    }
    w->changed = false;
    engine_absorb(w->engine, asked, now_us(), reply);
    return WORKER_MADE_CYCLE;
}

static void worker_leave(struct pr_worker *w)
{
    int64_t deadline_us = time_add(now_us(), WORKER_CLOSE_US);
    claims_hand_back(w);
    engine_stop(w->engine, now_us());
    while (!engine_stopped(w->engine) && now_us() < deadline_us) {
        int rc = worker_step(w, NULL);
        if (rc < 0 && rc != PR_EBUSY && rc != PR_EUNCERTAIN)
            break; /* the lease will end by itself */
        if (rc <= 0)
            store_wait(&w->session, -1, WORKER_AGAIN_US);
    }
}

PR_API void pr_worker_close(struct pr_worker *worker)
{
    if (worker == NULL)
        return;
    if (worker->engine != NULL)
        worker_leave(worker);
    engine_free(worker->engine);
    claims_forget(worker); /* after the engine, which writes answers into them */
    map_fini(&worker->claims);
    store_session_close(&worker->session);
    store_close(&worker->store);
    config_free(worker->config);
    free(worker->name);
    free(worker->url);
    free(worker->box);
    free(worker);
}

/* ---- The cycle -------------------------------------------------------------------------------- */

static int check_verdict(const struct pr_verdict *v, size_t index, struct pr_error *reterr)
{
    struct pr_error why;
    pr_slice box;
    if ((unsigned)v->kind > PR_VERDICT_SETTLED)
        return error_set(reterr, PR_EINVAL, "verdict %zu: unknown kind %d", index, (int)v->kind);
    if (v->retry_after_us < 0)
        return error_set(reterr, PR_EINVAL, "verdict %zu: retry_after_us must not be negative", index);
    if (v->effects == NULL && v->effect_count > 0)
        return error_set(reterr, PR_EINVAL, "verdict %zu: effects is NULL", index);
    int rc = lib_box(v->effect_box, &box, &why);
    for (size_t i = 0; i < v->effect_count && rc == PR_OK; i++)
        rc = message_check(&v->effects[i], LIB_PAYLOAD_MAX, &why);
    return rc == PR_OK ? PR_OK : error_set(reterr, rc, "verdict %zu: effects: %s", index, why.text);
}

/* The engine keeps the verdict, and sets the answer when it is committed. */
static int judge(struct pr_worker *w, const struct pr_verdict *verdict, struct pr_error *reterr)
{
    struct worker_claim *c = claim_find(w, verdict->claim);
    if (c == NULL || c->judged) /* no longer this worker's; or judged before, in a call that failed */
        return PR_OK;
    struct pr_verdict v = *verdict;
    v.claim = c->token;
    struct pr_message *effects = calloc(v.effect_count + 1, sizeof effects[0]);
    int rc = effects != NULL ? PR_OK : PR_ENOMEM;
    for (size_t i = 0; i < v.effect_count && rc == PR_OK; i++) {
        effects[i] = v.effects[i];
        if (pr_id_is_zero(effects[i].id))
            pr_id_new(&effects[i].id);
    }
    v.effects = effects;
    if (rc == PR_OK)
        rc = engine_judge(w->engine, now_us(), &v, &c->answer);
    free(effects);
    if (rc < 0)
        return error_set(reterr, rc, "out of memory for a verdict");
    c->judged = true;
    if (c->answer == PR_OK && v.kind != PR_VERDICT_RETURN) /* a return needs no commit */
        c->answer = ANSWER_PENDING;
    return PR_OK;
}

static bool is_answered(const struct pr_worker *w, const struct pr_verdict *verdicts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct worker_claim *c = claim_find(w, verdicts[i].claim);
        if (c != NULL && c->judged && c->answer == ANSWER_PENDING)
            return false;
    }
    return true;
}

/* A claim ends with its answer; a second verdict on it is stale. */
static void answer(struct pr_worker *w, const struct pr_verdict *verdicts, size_t count, int *answers)
{
    for (size_t i = 0; i < count; i++) {
        struct worker_claim *c = claim_find(w, verdicts[i].claim);
        if (answers != NULL)
            answers[i] = c != NULL ? c->answer : was_handed_out(w, verdicts[i].claim) ? PR_STALE : PR_UNKNOWN;
        if (c != NULL)
            claim_free(w, c);
    }
}

static size_t take(struct pr_worker *w, struct pr_claimed *ret_claimed, size_t max)
{
    const struct delivery *list[WORKER_TAKE_MAX];
    size_t got = 0, count;
    while ((count = engine_take(w->engine, now_us(), 0, list, min_size(max - got, WORKER_TAKE_MAX))) > 0) {
        for (size_t i = 0; i < count; i++) {
            const struct worker_claim *c = claim_new(w, list[i]);
            if (c == NULL) {
                hand_back(w, list[i]->token);
                continue;
            }
            ret_claimed[got++] =
                (struct pr_claimed){ .claim = c->number, .message = list[i]->message, .attempt = list[i]->attempt };
        }
    }
    return got;
}

static void untake(struct pr_worker *w, const struct pr_claimed *claimed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct worker_claim *c = claim_find(w, claimed[i].claim);
        hand_back(w, c->token);
        claim_free(w, c);
    }
}

/* Makes cycles until every verdict has its answer and max messages, or all there are, were taken. */
static int work(struct pr_worker *w, const struct pr_verdict *verdicts, size_t verdict_count,
                struct pr_claimed *ret_claimed, size_t max, size_t *ret_count, struct pr_error *reterr)
{
    size_t got = 0, open = 0;
    bool answered;
    int rc;
    map_foreach(node, &w->claims)
        open += !MAP_ENTRY(node, struct worker_claim, node)->judged;
    /* The engine announces no more messages to the store than the caller can take, so that none counts as handed out
     * that was not. */
    w->endpoint.concurrency = (unsigned)min_size(max_size(open + max, 1), WORKER_WINDOW);
    do {
        rc = worker_step(w, reterr);
        if (rc >= 0 && got < max)
            got += take(w, ret_claimed + got, max - got);
        answered = is_answered(w, verdicts, verdict_count);
    } while (rc == WORKER_MADE_CYCLE && (got < max || !answered));

    if (rc == WORKER_IDLE && !answered)
        rc = error_set(reterr, PR_EBUSY,
                       "the store did not accept the previous verdicts; call again with the same ones");
    if (rc < 0)
        untake(w, ret_claimed, got);
    else
        *ret_count = got;
    return rc < 0 ? rc : PR_OK;
}

PR_API int pr_worker_cycle(struct pr_worker *worker, const struct pr_verdict *verdicts, size_t verdict_count,
                           int *answers, struct pr_claimed *ret_claimed, size_t max, size_t *ret_count,
                           struct pr_error *reterr)
{
    size_t count = 0;
    if (worker == NULL || (verdicts == NULL && verdict_count > 0) || (ret_claimed == NULL && max > 0))
        return lib_missing(worker == NULL                          ? "worker"
                           : verdicts == NULL && verdict_count > 0 ? "verdicts"
                                                                   : "ret_claimed",
                           reterr);
    int rc = PR_OK;
    for (size_t i = 0; i < verdict_count && rc == PR_OK; i++)
        rc = check_verdict(&verdicts[i], i, reterr);
    if (rc < 0)
        return rc;
    if (worker->lost) {
        claims_hand_back(worker);
        claims_forget(worker);
        worker->lost = false;
    }
    for (size_t i = 0; i < verdict_count && rc == PR_OK; i++)
        rc = judge(worker, &verdicts[i], reterr);
    if (rc == PR_OK)
        rc = work(worker, verdicts, verdict_count, ret_claimed, max, &count, reterr);
    if (rc < 0)
        return rc;
    answer(worker, verdicts, verdict_count, answers);
    if (ret_count != NULL)
        *ret_count = count;
    return PR_OK;
}

/* ---- In the caller's own transaction ------------------------------------------------------------ */

static struct send_effect *effects_of(const struct pr_verdict *v, const struct pr_message *handled)
{
    struct send_effect *list = NULL;
    for (size_t i = 0; i < v->effect_count; i++) {
        struct send_effect *one =
            effect_of(handled, slice_from(v->effect_box != NULL ? v->effect_box : LIB_BOX_DEFAULT), &v->effects[i]);
        if (one == NULL) {
            effects_free(list);
            return NULL;
        }
        effects_append(&list, one);
    }
    return list;
}

int worker_complete(struct pr_worker *w, const struct pr_verdict *v, worker_end *end, void *conn,
                    struct pr_error *reterr)
{
    int rc = check_verdict(v, 0, reterr);
    if (rc == PR_OK && v->kind != PR_VERDICT_COMPLETE)
        rc = error_set(reterr, PR_EINVAL, "the verdict is not PR_VERDICT_COMPLETE");
    if (rc < 0)
        return rc;
    const struct worker_claim *c = w->lost ? NULL : claim_find(w, v->claim);
    bool open = c != NULL && !c->judged;
    if (!open)
        return was_handed_out(w, v->claim) ? PR_STALE : PR_UNKNOWN;
    struct completion completion = { .box = slice_from(w->box),
                                     .endpoint = w->endpoint.name,
                                     .row = c->row,
                                     .id = c->message->id,
                                     .number = c->attempt,
                                     .bits = v->status & ~PR_STATUS_FAILED,
                                     .keep_us = w->setting.keep_us,
                                     .dedupe_us = engine_dedupe_us(w->engine),
                                     .destination = c->message->destination };
    struct send_effect *effects = effects_of(v, c->message);
    if (effects == NULL && v->effect_count > 0)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu messages", v->effect_count);
    completion.effects = effects;
    rc = end(conn, w->url, &completion, reterr);
    effects_free(effects);
    return rc;
}

static int end_sqlite(void *conn, const char *url, const struct completion *completion, struct pr_error *reterr)
{
    (void)url;
    return sqlite_complete(conn, completion, reterr);
}

PR_API int pr_worker_complete_sqlite(struct pr_worker *worker, const struct pr_verdict *verdict, struct sqlite3 *db,
                                     struct pr_error *reterr)
{
    if (worker == NULL || verdict == NULL || db == NULL)
        return lib_missing(worker == NULL ? "worker" : verdict == NULL ? "verdict" : "db", reterr);
    return worker_complete(worker, verdict, end_sqlite, db, reterr);
}

PR_API void pr_worker_wait(struct pr_worker *worker, int64_t timeout_us)
{
    if (worker == NULL)
        return;
    int64_t now = now_us();
    int64_t left_us = min64(timeout_us, time_sub(engine_next_us(worker->engine, now), now));
    if (left_us > 0 && store_wait(&worker->session, -1, left_us) == WAIT_LOOK_AGAIN)
        worker->changed = true;
}
