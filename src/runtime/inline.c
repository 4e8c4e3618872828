#include "runtime/inline.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/story.h"
#include "policy/raised.h"

#define NEW_MAX 64 /* messages that one failure can lead to: raised ones, and those of calls */
#define POLL_US PR_SECONDS(1)
#define TEXT_BYTES_MAX (256 * 1024)

/* The transport of one endpoint. */
struct inline_transport {
    pthread_mutex_t lock;
    struct transport transport; /* opened for the first message */
};

struct inliner {
    struct inliner_options options;
    struct engine_setting routing;
    struct inline_transport *lanes; /* by endpoint */
    struct inliner_counts counts;
};

/* One message on its way. */
struct inline_send {
    struct inliner *in;
    size_t endpoint;
    pr_slice box;
    struct pr_message m;
    struct failure failure;
    struct decision decision;
    struct send_effect *made, **made_end; /* messages to be stored with the end of it */
    const struct rule_step *beside[RULE_STEPS_MAX + 1];
    size_t beside_count;
    struct buf code, error, story; /* of the failures so far; e->m points there */
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

static void keep(struct inline_send *e, struct send_effect *effects)
{
    for (*e->made_end = effects; *e->made_end != NULL; e->made_end = &(*e->made_end)->next)
        ;
}

static void drop_made(struct inline_send *e)
{
    struct delivery_result rest = { .effects = e->made };
    delivery_result_fini(&rest);
    e->made = NULL;
    e->made_end = &e->made;
}

/* The message (NULL: not any more) and those that were made, in one transaction per box. */
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

static int store_until(struct inline_send *e, int64_t due_us, struct pr_error *reterr)
{
    struct pr_message m = e->m;
    m.due_us = due_us;
    return store_all(e, &m, reterr);
}

/* ---- Sending ---------------------------------------------------------------------------------- */

static void fail_now(struct delivery_result *ret, int reason, const char *text)
{
    *ret = (struct delivery_result){ .outcome = SEND_FAILED, .reason = reason, .error = strdup(text), .unsent = true };
}

static void tell(const struct inline_send *e, struct engine_inline_result news)
{
    news.endpoint = (unsigned)e->endpoint;
    news.type = e->m.type;
    news.message = hash_bytes(0, &e->m.id, sizeof e->m.id) | 1;
    e->in->options.tell(e->in->options.tell_arg, e->box, &news);
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
    ASSERT(pthread_mutex_unlock(&lane->lock) == 0);
    if (ret->outcome == SEND_RETURNED) /* nobody stops it: it was not sent */
        fail_now(ret, PR_REASON_TRANSPORT_UNAVAILABLE, "it was not started");
}

/* ---- Deciding ----------------------------------------------------------------------------------- */

static bool ask_function(struct inline_send *e, struct call_answer *ret)
{
    const struct decision *d = &e->decision;
    *ret = (struct call_answer){ 0 };
    if (program_call(e->in->options.caller, d->by->call, &e->failure, d->rule, ret) != PR_OK)
        return false;
    keep(e, ret->effects);
    return ret->decided;
}

static double draw_jitter(void)
{
    struct random random;
    uint64_t seed = 0;
    if (random_bytes_os(&seed, sizeof seed) < 0)
        return 0;
    random_init(&random, seed);
    return random_double(&random);
}

/* As the engine decides (engine/fail.c): the policy, and the functions that it asks. */
static void decide(struct inline_send *e)
{
    struct decision *d = &e->decision;
    double draw = draw_jitter();
    struct call_answer answer;
    policy_decide(&endpoint_of(e)->policy, &e->failure, draw, d);
    while (d->step == STEP_CALL) {
        e->beside[e->beside_count++] = d->by;
        if (ask_function(e, &answer)) {
            d->step = answer.step;
            d->delay_us = max64(min64(max64(answer.delay_us, e->failure.retry_after_us), RETRY_DELAY_MAX_US), 0);
            d->cause = e->failure.reason;
            return;
        }
        policy_decide_after(d, &e->failure, draw, d);
    }
    if (d->by != NULL)
        e->beside[e->beside_count++] = d->by;
    if (d->by != NULL && d->by->call.size > 0)
        (void)ask_function(e, &answer);
}

/* ---- What follows --------------------------------------------------------------------------------- */

static struct raised raised_of(const struct inline_send *e)
{
    struct raised a = { .failure = &e->failure,
                        .rule = e->decision.rule,
                        .box = e->box,
                        .attempts = e->failure.failures,
                        .at_us = store_time(e->in->options.store) };
    pr_id_new(&a.id);
    return a;
}

static void pause_endpoint(struct inline_send *e, int64_t for_us, pr_slice by)
{
    struct store *store = e->in->options.store;
    struct admin admin = { .kind = ADMIN_PAUSE,
                           .filter = { .endpoint = endpoint_of(e)->name, .state = -1 },
                           .by = by,
                           .why = e->failure.error,
                           .until_us = for_us == PR_NEVER ? PR_NEVER : time_add(store_time(store), for_us) };
    struct admin_reply reply;
    struct pr_error error;
    if (store_admin(store, &admin, &reply, &error) != PR_OK)
        log_emit(e->in->options.log, LOG_ERROR, "pause_failed", LOG_SLICE("endpoint", endpoint_of(e)->name),
                 LOG_STR("error", error.text));
}

static void do_beside(struct inline_send *e)
{
    for (size_t i = 0; i < e->beside_count; i++) {
        const struct rule_step *s = e->beside[i];
        struct pr_error by;
        if (s->pause_us > 0) {
            error_set(&by, 0, "rule %.*s", SLICE_ARGS(e->decision.rule));
            pause_endpoint(e, s->pause_us, pr_str(by.text));
        }
        if (s->raise != NULL && !message_was_raised(&e->m)) {
            struct raised a = raised_of(e);
            keep(e, raised_raise(&a, s->raise));
        }
    }
}

/* Into the table: by way of the box, parked, so that at no time it is nowhere. */
static int bury(struct inline_send *e, struct pr_error *reterr)
{
    struct pr_error by;
    struct admin_reply reply;
    int rc = store_until(e, PR_NEVER, reterr);
    if (rc != PR_OK)
        return rc;
    error_set(&by, 0, "rule %.*s", SLICE_ARGS(e->decision.rule));
    struct admin admin = { .kind = ADMIN_DEAD_ADD,
                           .filter = { .ids = &e->m.id, .id_count = 1, .state = -1 },
                           .cause = e->failure.reason,
                           .by = pr_str(by.text),
                           .why = e->failure.error };
    return store_admin(e->in->options.store, &admin, &reply, reterr);
}

static int end_dead(struct inline_send *e, struct pr_error *reterr)
{
    const struct rule_step *s = e->decision.by;
    atomic_fetch_add(&e->in->counts.dead, 1);
    tell(e, (struct engine_inline_result){ .dead = 1 });
    if (s != NULL && s->step == STEP_DEAD_LETTER && s->to.size > 0 && !message_was_moved(&e->m)) {
        struct raised a = raised_of(e);
        struct send_effect *moved = raised_move(&a, s->to);
        if (moved != NULL) {
            keep(e, moved);
            return store_all(e, NULL, reterr);
        }
    }
    return bury(e, reterr);
}

static int end_discarded(struct inline_send *e, struct pr_error *reterr)
{
    char id[PR_ID_TEXT_SIZE];
    int rc = store_all(e, NULL, reterr);
    if (rc != PR_OK)
        return rc;
    pr_id_format(e->m.id, id);
    atomic_fetch_add(&e->in->counts.discarded, 1);
    tell(e, (struct engine_inline_result){ .discarded = 1 });
    log_emit(e->in->options.log, LOG_WARN, "discarded", LOG_SLICE("box", e->box), LOG_STR("id", id),
             LOG_SLICE("endpoint", endpoint_of(e)->name), LOG_STR("reason", pr_reason_name(e->failure.reason)),
             LOG_SLICE("error", e->failure.error), LOG_SLICE("rule", e->decision.rule));
    return PR_OK;
}

/* As the engine would write it (B30); the next attempt knows of it, and it is stored when it cannot be sent. */
static void note_failure(struct inline_send *e, int bits)
{
    const struct failure *f = &e->failure;
    const struct decision *d = &e->decision;
    bool again = d->step == STEP_RETRY || d->step == STEP_RETRY_NOW || d->step == STEP_POSTPONE;
    int64_t now = store_time(e->in->options.store);
    struct buf before = e->story;

    buf_reset(&e->code);
    buf_reset(&e->error);
    utf8_clean(&e->code, utf8_cut(f->code, CODE_CHARS_MAX));
    utf8_clean(&e->error, utf8_cut(f->error, PR_ERROR_MAX));
    const struct story_line line = { .at_us = now,
                                     .attempt = f->failures,
                                     .endpoint = f->endpoint,
                                     .reason = f->reason,
                                     .code = buf_slice(&e->code),
                                     .error = buf_slice(&e->error),
                                     .rule = d->rule,
                                     .step = step_name(d->step),
                                     .next_us = again ? time_add(now, d->delay_us) : 0 };
    buf_init(&e->story, TEXT_BYTES_MAX);
    story_append(buf_slice(&before), &line, &e->story);
    buf_fini(&before);
    e->m.status |= bits | PR_STATUS_FAILED;
    if (d->step != STEP_POSTPONE)
        e->m.attempts = e->m.failures = f->failures;
    e->m.reason = f->reason;
    e->m.failed_us = now;
    e->m.code = buf_failed(&e->code) == 0 ? buf_slice(&e->code) : (pr_slice){ NULL, 0 };
    e->m.error = buf_failed(&e->error) == 0 ? buf_slice(&e->error) : (pr_slice){ NULL, 0 };
    e->m.story = buf_failed(&e->story) == 0 ? buf_slice(&e->story) : (pr_slice){ NULL, 0 };
}

static int end_failed(struct inline_send *e, enum pr_sent *ret_sent, struct pr_error *reterr)
{
    do_beside(e);
    *ret_sent = PR_SENT_STORED;
    switch (e->decision.step) {
    case STEP_DEAD_LETTER: *ret_sent = PR_SENT_DEAD; return end_dead(e, reterr);
    case STEP_DISCARD: *ret_sent = PR_SENT_DISCARDED; return end_discarded(e, reterr);
    case STEP_PARK: e->m.parked_by = PR_PARKED_BY_RULE; return store_until(e, PR_NEVER, reterr);
    case STEP_RETRY:
    case STEP_RETRY_NOW:
    case STEP_POSTPONE: return store_until(e, time_add(store_time(e->in->options.store), e->decision.delay_us), reterr);
    case STEP_PAUSE:
    case STEP_CALL: break;
    }
    return store_until(e, 0, reterr);
}

static void take_failure(struct inline_send *e, const struct delivery_result *result, int failures)
{
    e->failure = (struct failure){
        .message = &e->m,
        .endpoint = endpoint_of(e)->name,
        .reason = reason_is_known(result->reason) ? result->reason : PR_REASON_UNKNOWN,
        .code = pr_str(result->code),
        .error = pr_str(result->error),
        .failures = failures,
        .retry_after_us = result->retry_after_us,
        .unsent = result->unsent,
        .postpone_us = endpoint_of(e)->breaker.open_us,
    };
    enum breaker_weight weight = failure_weight(&endpoint_of(e)->policy, &e->failure);
    e->beside_count = 0;
    drop_made(e);
    decide(e);
    if (result->disable) {
        pause_endpoint(e, PR_NEVER, PR_STR("endpoint"));
        if (e->decision.matched == NULL)
            e->decision.step = STEP_PAUSE;
    }
    atomic_fetch_add(&e->in->counts.failed, 1);
    tell(e, (struct engine_inline_result){ .failed = 1,
                                           .asked = !result->unsent || weight != WEIGHS_NOTHING,
                                           .fault = failure_fault(&e->failure),
                                           .weight = weight,
                                           .reason = e->failure.reason,
                                           .retry_after_us = result->retry_after_us });
}

static int run(struct inline_send *e, enum pr_sent *ret_sent, struct pr_error *reterr)
{
    struct delivery_result result = { 0 };
    int rc = PR_OK;
    for (int attempt = 1;; attempt++) {
        send_once(e, attempt, &result);
        if (result.outcome == SEND_OK) {
            *ret_sent = PR_SENT_DELIVERED;
            atomic_fetch_add(&e->in->counts.sent, 1);
            tell(e, (struct engine_inline_result){ .sent = 1, .asked = true });
            keep(e, result.effects);
            result.effects = NULL;
            rc = store_all(e, NULL, reterr);
            break;
        }
        take_failure(e, &result, attempt);
        if (e->decision.step != STEP_PAUSE) /* that puts it back, uncounted */
            note_failure(e, result.bits);
        if (e->decision.step != STEP_RETRY_NOW || e->decision.delay_us > 0 || attempt > RETRY_NOW_MAX) {
            rc = end_failed(e, ret_sent, reterr);
            break;
        }
        do_beside(e);
        rc = store_all(e, NULL, reterr);
        delivery_result_fini(&result);
        result = (struct delivery_result){ 0 };
        if (rc != PR_OK)
            break;
    }
    delivery_result_fini(&result);
    drop_made(e);
    buf_fini(&e->code);
    buf_fini(&e->error);
    buf_fini(&e->story);
    return rc;
}

/* ---- May it go now? ----------------------------------------------------------------------------------- */

/* The one inline endpoint that it goes to, or SIZE_MAX. */
static size_t find_endpoint(const struct inliner *in, pr_slice box, const struct pr_message *m)
{
    const struct config_box *known = config_find_box(in->options.config, box);
    struct engine_setting routing = in->routing;
    unsigned targets[2];
    routing.box = box;
    routing.kind = known != NULL ? known->kind : BOX_OUTBOX;
    size_t count = engine_route(&routing, m, targets, ARRAY_LENGTH(targets));
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

/* Others of its stream that are stored go first; what is known already goes through the box, which says so. */
static int must_be_stored(struct inliner *in, pr_slice box, const struct pr_message *m, size_t endpoint, bool known_id,
                          bool *ret, struct pr_error *reterr)
{
    int64_t now = store_time(in->options.store);
    int rc = PR_OK;
    *ret = endpoint == SIZE_MAX || m->due_us > now || message_is_expired(m, now) ||
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
    e.made_end = &e.made;
    if (rc < 0)
        return rc;
    buf_init(&e.code, TEXT_BYTES_MAX);
    buf_init(&e.error, TEXT_BYTES_MAX);
    buf_init(&e.story, TEXT_BYTES_MAX);
    e.m.status = e.m.attempts = e.m.failures = e.m.reason = e.m.parked_by = 0; /* not the sender's part */
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
