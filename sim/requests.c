/* See requests.h. */
#include "requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/id.h"
#include "dice.h"
#include "engine/engine.h"
#include "life.h"

#define RUNNERS 2
#define OUT_MAX 16
#define LATE_MAX 64
#define LEASE_US PR_SECONDS(30)
#define POLL_US PR_SECONDS(10)
#define FAULTS_US PR_MINUTES(40)
#define LATE_US PR_MINUTES(20) /* that a reply from elsewhere is on its way at most */
#define CALM_US PR_MINUTES(60) /* everybody is up, and nothing breaks any more */
#define START_US INT64_C(1700000000000000)
#define BATCH 5
#define SPINS_MAX 10000 /* cycles of one instance at one moment */
#define BOX PR_STR("outbox")

struct request_runner {
    bool up;
    struct engine *engine;
    struct store_session session;
    struct engine_setting setting;
    const struct delivery *out[OUT_MAX];
    size_t out_count;
};

/* A reply that comes from elsewhere, such as through a broker. */
struct late {
    unsigned request, answer;
    int64_t at_us;
};

struct request_stage {
    struct random dice, ids;
    enum request_bug bug;
    int64_t now_us;
    struct clock clock;
    struct store store;
    struct arena arena;
    struct request_runner runners[RUNNERS];
    struct endpoint_setting endpoint;
    bool faults, purges; /* something may break; nothing happens any more but that replies go */
    pr_id requests[REQUESTS_MAX];
    unsigned request_count;
    struct late late[LATE_MAX];
    size_t late_count;
    struct request_checker checker;
    struct request_life_counts *counts;
};

static int64_t now(void *arg)
{
    return START_US + ((struct request_stage *)arg)->now_us;
}

static pr_id fresh_id(struct request_stage *s)
{
    uint8_t bytes[10] = { 0 };
    uint64_t random = random_u64(&s->ids);
    pr_id id;
    memcpy(bytes, &random, sizeof(random));
    id_make(now(s) / 1000, bytes, &id);
    return id;
}

/* ---- Callers ---------------------------------------------------------------------------------------- */

static struct request_info look(struct request_stage *s, unsigned request)
{
    struct request_info info;
    struct pr_error error;
    ASSERT(request_look(&s->store, s->requests[request], &s->arena, &info, &error) == PR_OK);
    unsigned answer = 0;
    if (info.state == REQUEST_REPLIED) {
        char text[16];
        snprintf(text, sizeof(text), "%.*s", (int)min_size(info.reply->m.payload.size, 10), info.reply->m.payload.data);
        answer = (unsigned)strtoul(text, NULL, 10);
        s->counts->told++;
    }
    request_told(&s->checker, request, answer, s->now_us);
    s->counts->hash = hash_u64(s->counts->hash ^ answer ^ (uint64_t)request << 20 ^ (uint64_t)info.state << 40);
    return info;
}

/* Stored once; a caller without an answer looks for the request first, and sends it again if there is no trace of
 * it. */
static void send_request(struct request_stage *s, unsigned request)
{
    struct pr_message m = { .id = s->requests[request], .type = PR_STR("ask"), .destination = PR_STR("e0") };
    struct pr_error error;
    struct buf headers;
    buf_init(&headers, PR_HEADERS_MAX);
    if (request % 8 == 7)
        m.expires_us = now(s) + PR_SECONDS(20);
    ASSERT(request_message(&m, (pr_slice){ NULL, 0 }, &headers, &m, &error) == PR_OK);
    ASSERT(store_enqueue(&s->store, BOX, &m, 1, 1 << 20, NULL, NULL, &error) == PR_OK);
    buf_fini(&headers);
}

static void caller_step(struct request_stage *s)
{
    if (s->request_count < REQUESTS_MAX && random_chance(&s->dice, 0.4)) {
        s->requests[s->request_count] = fresh_id(s);
        send_request(s, s->request_count++);
        s->counts->requests++;
    } else if (s->request_count > 0) {
        unsigned request = (unsigned)random_below(&s->dice, s->request_count);
        if (look(s, request).state == REQUEST_WAITING && random_chance(&s->dice, 0.3))
            send_request(s, request); /* the same id again: a duplicate, or done */
    }
}

/* ---- Replies ------------------------------------------------------------------------------------------ */

static unsigned number_of(const struct request_stage *s, pr_id id)
{
    unsigned i = 0;
    while (i < s->request_count && !pr_id_equal(s->requests[i], id))
        i++;
    ASSERT(i < s->request_count);
    return i;
}

static unsigned answer(struct request_stage *s, unsigned request)
{
    s->counts->answers++;
    return request_answered(&s->checker, request, s->now_us);
}

/* As a source stores it: a message of its own, which names the request in a header. */
static void arrives(struct request_stage *s, const struct late *late)
{
    char id[PR_ID_TEXT_SIZE], headers[100], payload[16];
    struct pr_error error;
    pr_id_format(s->requests[late->request], id);
    snprintf(headers, sizeof(headers), "{\"" HEADER_REPLY "\":\"%s\"}", id);
    snprintf(payload, sizeof(payload), "%u", late->answer);
    const struct pr_message m = {
        .id = fresh_id(s), .type = PR_STR("answer"), .headers = pr_str(headers), .payload = pr_str(payload)
    };
    ASSERT(store_enqueue(&s->store, BOX, &m, 1, 1 << 20, NULL, NULL, &error) == PR_OK);
}

static void arrivals(struct request_stage *s)
{
    for (size_t i = 0; i < s->late_count;) {
        if (s->late[i].at_us > s->now_us) {
            i++;
            continue;
        }
        arrives(s, &s->late[i]);
        s->late[i] = s->late[--s->late_count];
    }
}

/* The handler's answer goes elsewhere, and comes back from there: once or several times, possibly with another
 * answer. */
static void reply_from_elsewhere(struct request_stage *s, unsigned request)
{
    unsigned given = answer(s, request);
    for (uint64_t n = random_between(&s->dice, 1, 3); n > 0 && s->late_count < LATE_MAX; n--) {
        s->late[s->late_count++] = (struct late){ request, given, s->now_us + random_between(&s->dice, 0, LATE_US) };
        if (random_chance(&s->dice, 0.3) && s->checker.answer_count < ANSWERS_MAX / 2)
            given = answer(s, request);
    }
}

/* The effect of pr_reply(): stored with the verdict. */
static struct send_effect *reply_with_verdict(struct request_stage *s, pr_id id, unsigned request)
{
    char text[PR_ID_TEXT_SIZE], payload[16];
    struct send_effect *copy;
    snprintf(payload, sizeof(payload), "%u", answer(s, request));
    const struct pr_message m = { .type = PR_STR("answer"), .payload = pr_str(payload) };
    const struct send_effect effect = { .box = BOX, .message = reply_row(&m, id, text) };
    ASSERT(effects_copy(&effect, &copy) == PR_OK);
    return copy;
}

static void handler_answers(struct request_stage *s, struct request_runner *r)
{
    const struct delivery *d = r->out[--r->out_count];
    unsigned request = number_of(s, d->message->id);
    struct delivery_result result = { .token = d->token, .outcome = SEND_OK };
    bool room = s->checker.answer_count < ANSWERS_MAX / 2 && s->late_count < LATE_MAX / 2;
    if (s->faults && random_chance(&s->dice, 0.2)) {
        result.outcome = SEND_FAILED;
        result.reason = PR_REASON_HANDLER_EXCEPTION;
    } else if (room && request % 2 == 0 && random_chance(&s->dice, 0.8))
        reply_from_elsewhere(s, request);
    else
        result.effects = reply_with_verdict(s, d->message->id, request);
    engine_result(r->engine, s->now_us, &result);
    effects_free(result.effects);
}

/* ---- Instances ------------------------------------------------------------------------------------------ */

static void runner_start(struct request_stage *s, struct request_runner *r)
{
    struct pr_error error;
    *r = (struct request_runner){ .up = true };
    r->setting = (struct engine_setting){ .box = BOX,
                                          .name = PR_STR("sim"),
                                          .instance = fresh_id(s),
                                          .lease_us = LEASE_US,
                                          .batch = BATCH,
                                          .window_count = 1000,
                                          .window_bytes = 64 << 20,
                                          .payload_max = 1 << 20,
                                          .poll_us = POLL_US,
                                          .retention = { .ended_us = REPLY_KEEP_US },
                                          .seed = random_u64(&s->ids),
                                          .endpoints = &s->endpoint,
                                          .endpoint_count = 1 };
    r->engine = engine_new(&r->setting, &error);
    ASSERT(r->engine != NULL && store_session_open(&s->store, r->setting.box, &r->session, &error) == PR_OK);
}

static void runner_drop(struct request_stage *s, struct request_runner *r)
{
    engine_free(r->engine);
    store_session_close(&r->session);
    r->up = false;
    s->counts->crashes++;
}

static int land(struct request_stage *s, struct request_runner *r, const struct cycle *cycle,
                const struct cycle_reply **ret)
{
    struct cycle changed = *cycle;
    struct pr_error error;
    if (s->purges && cycle->verdict_count > BATCH && s->checker.breach->invariant == NULL)
        *s->checker.breach = (struct breach){ .invariant = "I46", .text = "a cycle removes more than a batch" };
    if (s->bug == REQUEST_BUG_LOST && random_chance(&s->dice, 0.2))
        changed.effect_count = 0;
    s->counts->cycles++;
    return store_cycle(&r->session, &changed, ret, &error);
}

/* One cycle with all its possible faults.  false: none is planned, or the instance is gone. */
static bool runner_cycle(struct request_stage *s, struct request_runner *r, bool first)
{
    const struct cycle *cycle;
    const struct cycle_reply *reply;
    if (!engine_plan(r->engine, s->now_us, first, &cycle))
        return false;
    double luck = s->faults ? random_double(&s->dice) : 1;
    int rc = luck < 0.02 || (luck >= 0.04 && luck < 0.05) ? PR_EUNCERTAIN : land(s, r, cycle, &reply);
    if (luck >= 0.04 && luck < 0.06) { /* killed, before the commit or behind it */
        runner_drop(s, r);
        return false;
    }
    if (luck < 0.04)
        rc = PR_EUNCERTAIN; /* half of them have landed */
    if (rc == PR_OK)
        engine_absorb(r->engine, s->now_us, s->now_us, reply);
    else
        engine_cycle_failed(r->engine, s->now_us, rc);
    return true;
}

static void runner_run(struct request_stage *s, struct request_runner *r)
{
    unsigned spins = 0;
    while (r->up && runner_cycle(s, r, spins == 0))
        ASSERT(++spins < SPINS_MAX);
    if (!r->up)
        return;
    r->out_count += engine_take(r->engine, s->now_us, 0, r->out + r->out_count, OUT_MAX - r->out_count);
    while (r->out_count > 0 && (!s->faults || random_chance(&s->dice, 0.7)))
        handler_answers(s, r);
}

/* ---- Mistakes, for tests ------------------------------------------------------------------------------------ */

static void discard_reply(struct request_stage *s, const struct request_info *info)
{
    struct admin_reply gone;
    const struct admin admin = { .kind = ADMIN_DISCARD,
                                 .filter = { .box = BOX, .ids = &info->reply->m.id, .id_count = 1, .state = -1 } };
    ASSERT(store_admin(&s->store, &admin, &gone, NULL) == PR_OK);
}

static void plant(struct request_stage *s)
{
    if (s->request_count == 0 || (s->bug != REQUEST_BUG_OTHER && s->bug != REQUEST_BUG_SHORT))
        return;
    unsigned request = (unsigned)random_below(&s->dice, s->request_count);
    struct request_info info = look(s, request);
    if (info.state != REQUEST_REPLIED)
        return;
    discard_reply(s, &info);
    if (s->bug == REQUEST_BUG_OTHER)
        arrives(s, &(struct late){ .request = request, .answer = answer(s, request) });
}

/* ---- A life ------------------------------------------------------------------------------------------------- */

static void something_happens(struct request_stage *s)
{
    struct request_runner *r = &s->runners[random_below(&s->dice, RUNNERS)];
    uint64_t what = random_below(&s->dice, 20);
    if (what < 14)
        caller_step(s);
    else if (what == 14 && r->up)
        runner_drop(s, r);
    else if (what == 15)
        plant(s);
    else
        for (unsigned i = 0; i < RUNNERS; i++)
            if (!s->runners[i].up)
                runner_start(s, &s->runners[i]);
}

static void run_until(struct request_stage *s, int64_t until_us, int64_t pause_us)
{
    while (s->now_us < until_us && s->checker.breach->invariant == NULL) {
        arrivals(s);
        for (unsigned i = 0; i < RUNNERS; i++)
            runner_run(s, &s->runners[i]);
        if (s->faults)
            something_happens(s);
        s->now_us += random_between(&s->dice, 1, pause_us);
        arena_reset(&s->arena);
    }
}

static void look_at_all(struct request_stage *s, bool over)
{
    for (unsigned i = 0; i < s->request_count && s->checker.breach->invariant == NULL; i++) {
        struct request_info info = look(s, i);
        bool ended = info.state == REQUEST_DEAD || info.state == REQUEST_GONE;
        if (!over)
            request_over(&s->checker, i, ended);
        else if (info.state == REQUEST_REPLIED && s->checker.breach->invariant == NULL)
            *s->checker.breach = (struct breach){ .invariant = "I46", .text = "a reply is there after two days" };
        arena_reset(&s->arena);
    }
}

static void heal(struct request_stage *s)
{
    s->faults = false;
    for (unsigned i = 0; i < RUNNERS; i++)
        if (!s->runners[i].up)
            runner_start(s, &s->runners[i]);
}

static void live(struct request_stage *s)
{
    s->faults = true;
    run_until(s, FAULTS_US, PR_SECONDS(10));
    heal(s);
    run_until(s, FAULTS_US + LATE_US + CALM_US, PR_SECONDS(30));
    look_at_all(s, false);
    s->purges = true;
    if (s->bug == REQUEST_BUG_LONG) /* nobody works on the box */
        s->now_us += 2 * REPLY_KEEP_US;
    else
        run_until(s, s->now_us + 2 * REPLY_KEEP_US, PR_MINUTES(30));
    look_at_all(s, true);
}

bool requests_live(uint64_t seed, bool sqlite, enum request_bug bug, struct request_life_counts *counts,
                   struct breach *ret)
{
    static struct request_stage s; /* it is large */
    struct pr_error error;
    s = (struct request_stage){ .bug = bug, .counts = counts, .now_us = PR_SECONDS(1) };
    s.endpoint = (struct endpoint_setting){
        .name = PR_STR("e0"), .max_attempts = 50, .timeout_us = PR_SECONDS(20), .ordering = ORDERING_AVAILABLE
    };
    request_checker_init(&s.checker, ret);
    die_init(&s.dice, seed, "requests");
    die_init(&s.ids, seed, "request ids");
    arena_init(&s.arena, 65536);
    s.clock = (struct clock){ .wall_us = now, .mono_us = now, .arg = &s };
    const struct store_options options = {
        .url = sqlite ? "sqlite::memory:" : "memory:", .clock = &s.clock, .payload_max = 1 << 20
    };
    ASSERT(store_open(&options, &s.store, &error) == PR_OK && store_migrate(&s.store, NULL, 0, &error) == PR_OK);
    for (unsigned i = 0; i < RUNNERS; i++)
        runner_start(&s, &s.runners[i]);
    live(&s);
    for (unsigned i = 0; i < RUNNERS; i++)
        if (s.runners[i].up)
            runner_drop(&s, &s.runners[i]);
    counts->simulated_us += s.now_us;
    store_close(&s.store);
    arena_fini(&s.arena);
    return ret->invariant == NULL;
}

bool requests_life(const struct life *life, struct life_counts *counts, struct breach *ret)
{
    struct request_life_counts own = { 0 };
    bool good = requests_live(life->seed, life->sqlite, REQUEST_BUG_NONE, &own, ret);
    counts->hash = counts->hash * 31 + own.hash;
    counts->messages += own.requests;
    counts->sends += own.answers;
    counts->crashes += own.crashes;
    counts->cycles += own.cycles;
    counts->simulated_us += (double)own.simulated_us;
    return good;
}
