#include "runtime/inline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/change.h"
#include "core/verdict.h"
#include "runtime/effects.h"

#define NEW_MAX 64 /* messages that one failure can cause: raised ones, and those of calls */
#define POLL_US PR_SECONDS(1)

#define PROOFS_MAX 64 /* types of one endpoint with evidence at once; older ones are forgotten */

/* The transport of one endpoint. */
struct inline_transport {
    pthread_mutex_t lock;
    struct transport transport; /* opened for the first message */
    struct {
        uint64_t type;        /* hash of the type */
        int64_t delivered_us; /* the store's time */
    } proofs[PROOFS_MAX];     /* deliveries here by type */
};

struct inliner {
    struct inliner_options options;
    struct engine_setting routing;
    struct inline_transport *lanes; /* by endpoint */
    struct inliner_counts counts;
};

/* One message being sent. */
struct inline_send {
    struct inliner *in;
    size_t endpoint;
    pr_slice box;
    struct pr_message m;
    struct send_effect *made; /* messages to be stored when it ends */
    char *texts;              /* texts of the failures so far, which m points to.  NULL: none */
};

/* A failure of it, and what follows. */
struct inline_failure {
    struct failure_case of;
    struct consequences follows;
    struct verdict verdict;
};

struct inliner *inliner_new(const struct inliner_options *options)
{
    const struct setting *s = options->setting;
    struct inliner *in = calloc(1, sizeof *in);
    if (in == NULL)
        return NULL;
    in->options = *options;
    in->routing = (struct engine_setting){ .endpoints = s->endpoints,
                                           .endpoint_count = s->endpoint_count,
                                           .routes = s->routes,
                                           .route_count = s->route_count,
                                           .overrides = s->overrides,
                                           .override_count = s->override_count };
    in->lanes = calloc(s->endpoint_count + 1, sizeof in->lanes[0]);
    if (in->lanes == NULL) {
        free(in);
        return NULL;
    }
    for (size_t i = 0; i < s->endpoint_count; i++)
        ASSERT(pthread_mutex_init(&in->lanes[i].lock, NULL) == 0);
    return in;
}

void inliner_free(struct inliner *in)
{
    if (in == NULL)
        return;
    for (size_t i = 0; i < in->options.setting->endpoint_count; i++) {
        transport_close(&in->lanes[i].transport);
        pthread_mutex_destroy(&in->lanes[i].lock);
    }
    free(in->lanes);
    free(in);
}

const struct inliner_counts *inliner_counts(const struct inliner *in)
{
    return &in->counts;
}

static const struct endpoint_setting *endpoint_of(const struct inline_send *e)
{
    return &e->in->options.setting->endpoints[e->endpoint];
}

/* ---- Storing -------------------------------------------------------------------------------- */

static void drop_made(struct inline_send *e)
{
    effects_free(e->made);
    e->made = NULL;
}

/* Stores the message (NULL: not any more) and the new ones, in one transaction per box. */
static int store_all(struct inline_send *e, const struct pr_message *own, struct pr_error *reterr)
{
    struct pr_message list[NEW_MAX + 1];
    pr_id ids[NEW_MAX + 1];
    int answers[NEW_MAX + 1] = { PR_OK };
    size_t count = 0;
    bool first_is_own = own != NULL;

    if (own != NULL)
        list[count++] = *own;
    for (const struct send_effect *f = e->made; f != NULL && count <= NEW_MAX; f = f->next)
        if (slice_eq(f->box, e->box))
            list[count++] = f->message;
    int rc = PR_OK;
    if (count > 0)
        rc = (first_is_own ? store_enqueue_failed : store_enqueue)(e->in->options.store, e->box, list, count,
                                                                   PR_PAYLOAD_MAX, ids, answers, reterr);
    for (const struct send_effect *f = e->made; f != NULL && rc == PR_OK; f = f->next)
        if (!slice_eq(f->box, e->box))
            rc = store_enqueue(e->in->options.store, f->box, &f->message, 1, PR_PAYLOAD_MAX, ids, NULL, reterr);
    return rc == PR_OK && first_is_own ? answers[0] : rc;
}

/* ---- Sending ---------------------------------------------------------------------------------- */

static void fail_now(struct delivery_result *ret, int reason, const char *text)
{
    *ret = (struct delivery_result){ .outcome = SEND_FAILED, .reason = reason, .error = strdup(text), .unsent = true };
}

static void tell(const struct inline_send *e, struct engine_inline_result result)
{
    result.endpoint = (unsigned)e->endpoint;
    result.type = e->m.type;
    result.at_us = store_time(e->in->options.store);
    result.message = hash_bytes(0, &e->m.id, sizeof e->m.id) | 1;
    e->in->options.tell(e->in->options.tell_arg, e->box, &result);
}

static void carry(struct inline_transport *lane, const struct endpoint_config *config, const struct delivery *delivery,
                  struct delivery_result *ret)
{
    struct pr_error error;
    if (lane->transport.ops == NULL && transport_open(config, &lane->transport, &error) != PR_OK) {
        lane->transport = (struct transport){ 0 };
        fail_now(ret, PR_REASON_TRANSPORT_UNAVAILABLE, error.text);
        return;
    }
    if (transport_submit(&lane->transport, &delivery, 1) != 1) {
        fail_now(ret, PR_REASON_TRANSPORT_UNAVAILABLE, "the transport accepts no messages now");
        return;
    }
    while (transport_poll(&lane->transport, ret, 1, time_add(clock_mono_us(clock_system()), POLL_US)) == 0)
        ;
}

/* Evidence against failing messages of the same type (see engine/evidence.c). */
static void note_proof(const struct inline_send *e, struct inline_transport *lane)
{
    uint64_t type = hash_slice(0, e->m.type);
    lane->proofs[type % PROOFS_MAX].type = type;
    lane->proofs[type % PROOFS_MAX].delivered_us = store_time(e->in->options.store);
}

/* Was another message of its type delivered since its previous failure? */
static bool is_proven(const struct inline_send *e)
{
    struct inline_transport *lane = &e->in->lanes[e->endpoint];
    uint64_t type = hash_slice(0, e->m.type);
    ASSERT(pthread_mutex_lock(&lane->lock) == 0);
    bool proven = e->m.failed_us > 0 && lane->proofs[type % PROOFS_MAX].type == type &&
                  lane->proofs[type % PROOFS_MAX].delivered_us > e->m.failed_us;
    ASSERT(pthread_mutex_unlock(&lane->lock) == 0);
    return proven;
}

static void send_once(struct inline_send *e, int attempt, struct delivery_result *ret)
{
    struct inline_transport *lane = &e->in->lanes[e->endpoint];
    int64_t now = clock_mono_us(clock_system());
    const struct delivery delivery = { .message = &e->m,
                                       .token = 1,
                                       .attempt = attempt,
                                       .deadline_us = time_add(now, endpoint_of(e)->timeout_us),
                                       .start_before_us = PR_NEVER };
    size_t payload_max = endpoint_of(e)->payload_max;
    if (payload_max > 0 && e->m.payload.size > payload_max) {
        fail_now(ret, PR_REASON_MESSAGE_TOO_LARGE,
                 "the payload is larger than the endpoint's max_payload; it was not sent");
        return;
    }
    ASSERT(pthread_mutex_lock(&lane->lock) == 0);
    carry(lane, &e->in->options.setting->transports[e->endpoint], &delivery, ret);
    if (ret->outcome == SEND_OK)
        note_proof(e, lane);
    ASSERT(pthread_mutex_unlock(&lane->lock) == 0);
    if (ret->outcome == SEND_RETURNED) /* nothing stops it: it was not sent */
        fail_now(ret, PR_REASON_TRANSPORT_UNAVAILABLE, "it was not started");
    effects_check(e->in->options.config, e->in->options.store, true, ret);
}

/* ---- Deciding ----------------------------------------------------------------------------------- */

static double draw_jitter(void)
{
    struct random random;
    uint64_t seed = 0;
    if (random_bytes_os(&seed, sizeof seed) < 0)
        return 0;
    random_init(&random, seed);
    return random_double(&random);
}

static pr_id new_id(void *arg)
{
    (void)arg;
    pr_id id;
    pr_id_new(&id);
    return id;
}

static void decide(struct inline_send *e, const struct delivery_result *result, struct inline_failure *ret)
{
    const struct endpoint_setting *setting = endpoint_of(e);
    int64_t now_us = store_time(e->in->options.store);
    ret->of = (struct failure_case){
        .policy = &setting->policy,
        .failure = failure_of(&e->m, setting->name, result, now_us),
        .attempts = e->m.attempts + 1,
        .disable = result->disable,
        .box = e->box,
        .now_us = now_us,
        .draw = draw_jitter(),
        .call = program_call,
        .call_arg = e->in->options.caller,
        .new_id = new_id,
    };
    ret->of.failure.postpone_us = setting->breaker.open_us;
    ret->of.failure.proven = is_proven(e);
    failure_decide(&ret->of, &ret->follows);
    ret->verdict = failure_verdict(&ret->of, &ret->follows, result->bits);
    ret->verdict.id = e->m.id;
    ret->verdict.number = ret->of.attempts;
}

/* Later attempts consider the failure, and it is stored if the message cannot be sent (B30). */
static void note_failure(struct inline_send *e, struct inline_failure *f)
{
    const struct story_line line = { .at_us = f->of.now_us,
                                     .attempt = f->of.attempts,
                                     .endpoint = endpoint_of(e)->name,
                                     .step = step_name(f->follows.decision.step),
                                     .next_us = failure_next_us(&f->of, &f->follows) };
    char *texts = verdict_write_texts(&f->verdict, e->m.story, line);
    const struct change change = change_of_verdict(&f->verdict, false);
    change_write(&change, &e->m, f->of.now_us);
    e->m.code = f->verdict.code;
    e->m.error = f->verdict.error;
    e->m.story = f->verdict.story;
    free(e->texts);
    e->texts = texts;
}

static void tell_failure(struct inline_send *e, const struct inline_failure *f)
{
    const struct failure *failure = &f->of.failure;
    enum breaker_weight weight = failure_weight(f->of.policy, failure);
    atomic_fetch_add(&e->in->counts.failed, 1);
    tell(e, (struct engine_inline_result){ .failed = 1,
                                           .asked = !failure->unsent || weight != WEIGHS_NOTHING,
                                           .fault = failure_fault(failure),
                                           .weight = weight,
                                           .reason = failure->reason,
                                           .retry_after_us = failure->retry_after_us });
}

/* ---- What follows --------------------------------------------------------------------------------- */

static void pause_endpoint(struct inline_send *e, int64_t for_us, pr_slice by, pr_slice why)
{
    struct store *store = e->in->options.store;
    struct admin admin = { .kind = ADMIN_PAUSE,
                           .filter = { .endpoint = endpoint_of(e)->name, .state = -1 },
                           .by = by,
                           .why = why,
                           .until_us = for_us == PR_NEVER ? PR_NEVER : time_add(store_time(store), for_us) };
    struct admin_reply reply;
    struct pr_error error;
    if (store_admin(store, &admin, &reply, &error) != PR_OK)
        log_emit(e->in->options.log, LOG_ERROR, "pause_failed", LOG_SLICE("endpoint", endpoint_of(e)->name),
                 LOG_STR("error", error.text));
}

static void do_side_actions(struct inline_send *e, struct inline_failure *f)
{
    for (size_t i = 0; i < f->follows.pause_count; i++)
        pause_endpoint(e, f->follows.pauses[i].for_us, f->follows.pauses[i].by, f->of.failure.error);
    effects_append(&e->made, f->follows.effects);
    f->follows.effects = NULL;
}

/* Makes it a dead letter: through the box, parked, so that it always exists somewhere. */
static int bury(struct inline_send *e, const struct inline_failure *f, struct pr_error *reterr)
{
    struct pr_error by;
    struct admin_reply reply;
    e->m.due_us = PR_NEVER;
    e->m.parked_by = PR_PARKED_BY_RULE;
    int rc = store_all(e, &e->m, reterr);
    if (rc != PR_OK)
        return rc;
    error_set(&by, 0, "rule %.*s", SLICE_ARGS(f->verdict.rule));
    struct admin admin = { .kind = ADMIN_DEAD_ADD,
                           .filter = { .ids = &e->m.id, .id_count = 1, .state = -1 },
                           .verdict = &f->verdict,
                           .by = pr_str(by.text),
                           .why = f->verdict.error };
    return store_admin(e->in->options.store, &admin, &reply, reterr);
}

static int end_dead(struct inline_send *e, const struct inline_failure *f, struct pr_error *reterr)
{
    atomic_fetch_add(&e->in->counts.dead, 1);
    tell(e, (struct engine_inline_result){ .dead = 1 });
    return f->verdict.kind == VERDICT_DEAD_LETTER ? bury(e, f, reterr) : store_all(e, NULL, reterr);
}

static int end_discarded(struct inline_send *e, const struct inline_failure *f, struct pr_error *reterr)
{
    char id[PR_ID_TEXT_SIZE];
    int rc = store_all(e, NULL, reterr);
    if (rc != PR_OK)
        return rc;
    pr_id_format(e->m.id, id);
    atomic_fetch_add(&e->in->counts.discarded, 1);
    tell(e, (struct engine_inline_result){ .discarded = 1 });
    log_emit(e->in->options.log, LOG_WARN, "discarded", LOG_SLICE("box", e->box), LOG_STR("id", id),
             LOG_SLICE("endpoint", endpoint_of(e)->name), LOG_STR("reason", pr_reason_name(f->verdict.reason)),
             LOG_SLICE("error", f->verdict.error), LOG_SLICE("rule", f->verdict.rule));
    return PR_OK;
}

static int end_failed(struct inline_send *e, const struct inline_failure *f, enum pr_sent *ret_sent,
                      struct pr_error *reterr)
{
    bool dead = f->follows.decision.step == STEP_DEAD_LETTER;
    *ret_sent = PR_SENT_STORED;
    if (dead || f->verdict.kind == VERDICT_DISCARD) {
        *ret_sent = dead ? PR_SENT_DEAD : PR_SENT_DISCARDED;
        return dead ? end_dead(e, f, reterr) : end_discarded(e, f, reterr);
    }
    if (f->verdict.kind == VERDICT_RETURN) /* it continues when its endpoint does */
        e->m.due_us = 0;
    return store_all(e, &e->m, reterr);
}

/* PR_OK and *ret_again: it is sent again at once. */
static int run_failed(struct inline_send *e, const struct delivery_result *result, bool *ret_again,
                      enum pr_sent *ret_sent, struct pr_error *reterr)
{
    struct inline_failure f;
    drop_made(e);
    decide(e, result, &f);
    tell_failure(e, &f);
    do_side_actions(e, &f);
    if (f.verdict.kind != VERDICT_RETURN) /* a return puts it back, uncounted */
        note_failure(e, &f);
    *ret_again =
        f.follows.decision.step == STEP_RETRY_NOW && f.follows.decision.delay_us == 0 && f.of.attempts <= RETRY_NOW_MAX;
    return *ret_again ? store_all(e, NULL, reterr) : end_failed(e, &f, ret_sent, reterr);
}

static int run(struct inline_send *e, enum pr_sent *ret_sent, struct pr_error *reterr)
{
    int rc = PR_OK;
    for (bool again = true; again && rc == PR_OK;) {
        struct delivery_result result = { 0 };
        send_once(e, e->m.attempts + 1, &result);
        again = false;
        if (result.outcome == SEND_OK) {
            *ret_sent = PR_SENT_DELIVERED;
            atomic_fetch_add(&e->in->counts.sent, 1);
            tell(e, (struct engine_inline_result){ .sent = 1, .asked = true });
            drop_made(e);
            e->made = result.effects;
            result.effects = NULL;
            rc = store_all(e, NULL, reterr);
        } else {
            rc = run_failed(e, &result, &again, ret_sent, reterr);
        }
        delivery_result_fini(&result);
    }
    drop_made(e);
    free(e->texts);
    return rc;
}

/* ---- May it go now? ----------------------------------------------------------------------------------- */

/* The only inline endpoint that the message goes to, or SIZE_MAX. */
static size_t find_endpoint(const struct inliner *in, pr_slice box, const struct pr_message *m)
{
    const struct config_box *known = config_find_box(in->options.config, box);
    struct engine_setting routing = in->routing;
    unsigned targets[2];
    routing.box = box;
    routing.kind = known != NULL ? known->kind : BOX_OUTBOX;
    size_t count = engine_route(&routing, m, targets, ARRAY_LENGTH(targets));
    if (known != NULL && known->dedupe_us > 0)
        return SIZE_MAX; /* only the box knows whether it was handled */
    return count == 1 && in->options.setting->is_inline[targets[0]] ? targets[0] : SIZE_MAX;
}

static int is_listed(struct inliner *in, enum query_kind kind, const struct filter *filter, bool *ret,
                     struct pr_error *reterr)
{
    struct query query = { .kind = kind, .filter = *filter };
    struct query_reply reply;
    struct arena arena;
    arena_init(&arena, 4096);
    int rc = store_query(in->options.store, &query, &arena, &reply, reterr);
    *ret = rc == PR_OK && reply.listed_count > 0;
    arena_fini(&arena);
    return rc;
}

/* Stored messages of its stream go first; a known id goes through the box, which reports the duplicate. */
static int must_be_stored(struct inliner *in, pr_slice box, const struct pr_message *m, size_t endpoint, bool known_id,
                          bool *ret, struct pr_error *reterr)
{
    int64_t now = store_time(in->options.store);
    int rc = PR_OK;
    *ret = endpoint == SIZE_MAX || m->event || m->due_us > now || message_is_expired(m, now) ||
           in->options.is_closed(in->options.is_closed_arg, endpoint);
    if (!*ret && known_id)
        rc = is_listed(in, QUERY_ID, &(struct filter){ .ids = &m->id, .id_count = 1, .state = -1 }, ret, reterr);
    if (rc == PR_OK && !*ret && m->stream.size > 0)
        rc = is_listed(in, QUERY_MESSAGES, &(struct filter){ .box = box, .stream = m->stream, .state = -1, .limit = 1 },
                       ret, reterr);
    return rc;
}

int inliner_send(struct inliner *in, pr_slice box, const struct pr_message *message, pr_id *ret_id,
                 enum pr_sent *ret_sent, struct pr_error *reterr)
{
    struct inline_send e = { .in = in, .endpoint = find_endpoint(in, box, message), .box = box, .m = *message };
    bool stored = false, known_id = !pr_id_is_zero(message->id);
    int rc = message_check(message, in->options.payload_max, reterr);
    if (rc < 0)
        return rc;
    e.m.status = e.m.attempts = e.m.failures = e.m.reason = e.m.parked_by = 0; /* these are not the sender's fields */
    e.m.failed_us = 0;
    e.m.code = e.m.error = e.m.story = (pr_slice){ NULL, 0 };
    if (!known_id)
        pr_id_new(&e.m.id);
    if (e.endpoint != SIZE_MAX)
        e.m.destination = endpoint_of(&e)->name;
    e.m.created_us = store_time(in->options.store);
    rc = must_be_stored(in, box, &e.m, e.endpoint, known_id, &stored, reterr);
    if (rc < 0)
        return rc;
    if (stored) {
        e.m.destination = message->destination;
        *ret_sent = PR_SENT_STORED;
        rc = store_all(&e, &e.m, reterr);
    } else {
        rc = run(&e, ret_sent, reterr);
    }
    if (rc >= 0 && ret_id != NULL)
        *ret_id = e.m.id;
    return rc;
}
