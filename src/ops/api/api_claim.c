/* /v1/claims: workers in any language claim messages, and report how each ended. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "base/util.h"
#include "ops/member.h"
#include "ops/message.h"
#include "ops/api/api.h"
#include "transport/delivery.h"
#include "transport/pull/pull.h"

#define WAIT_MAX_US PR_SECONDS(60)
#define COMMIT_WAIT_US PR_SECONDS(30) /* then the answer is "pending" */
#define EFFECTS_MAX 1000              /* messages that one claim may send */
#define STATUS_MAX 0x7fff             /* bits that a worker may set */

static int64_t now_us(void)
{
    return clock_wall_us(clock_system());
}

/* ---- Claiming --------------------------------------------------------------------------------- */

/* The messages that one request has claimed: copies, in order. */
struct claimed {
    struct claimed_one {
        pr_slice token;
        int64_t expires_us;
        struct listed listed;
    } * list;
    pr_slice *tokens;
    size_t count;
};

static bool keep_claim(void *arg, const struct pull_claim *claim)
{
    struct api *x = arg;
    struct claimed *all = x->claimed;
    struct claimed_one *c = &all->list[all->count];
    char *block = arena_alloc(&x->arena, message_bytes(claim->message) + 1);
    *c = (struct claimed_one){ .token = slice_dup(&x->arena, slice_from(claim->token)),
                               .expires_us = time_add(now_us(), claim->left_us),
                               .listed = { .box = slice_dup(&x->arena, claim->box),
                                           .endpoint = slice_dup(&x->arena, claim->endpoint),
                                           .row = claim->row,
                                           .state = STATE_IN_FLIGHT } };
    if (block == NULL || c->token.data == NULL || c->listed.box.data == NULL || c->listed.endpoint.data == NULL)
        return false;
    message_copy(claim->message, block, &c->listed.m);
    c->listed.m.attempts = claim->attempt;
    all->tokens[all->count++] = c->token;
    return true;
}

static const struct member claim_members[] = {
    /* clang-format off */
    MEMBER(claimed_one, "token", STRING, token)
    MEMBER(claimed_one, "attempt", INT, listed.m.attempts)
    MEMBER(claimed_one, "expires_at", TIME, expires_us)
    /* clang-format on */
};

static void claim_json(struct api *x, const struct claimed_one *c)
{
    static const struct members table = MEMBERS(claim_members);
    json_begin_object(&x->w);
    members_write(&x->w, &table, c);
    json_key(&x->w, "message");
    message_claimed_json(&x->w, &c->listed);
    json_end_object(&x->w);
}

static void give_back(struct api *x)
{
    pull_give_back(runtime_pull(x->rt), x->claimed->tokens, x->claimed->count);
}

static int claim(struct api *x, const struct pull_request *request, struct pr_error *reterr)
{
    struct claimed *all = arena_zalloc(&x->arena, sizeof *all);
    if (all == NULL || (all->list = arena_alloc_array(&x->arena, request->max, sizeof *all->list)) == NULL ||
        (all->tokens = arena_alloc_array(&x->arena, request->max, sizeof *all->tokens)) == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu claims", request->max);
    x->claimed = all;
    x->unsent = give_back;
    return pull_take(runtime_pull(x->rt), request, keep_claim, x, reterr);
}

/* The tags that the claimer offers.  False: answered. */
static bool tags_decode(struct api *x, struct pull_request *request)
{
    const json_t *list = json_object_get(x->json, "tags");
    size_t count = json_array_size(list);
    pr_slice *tags = arena_alloc_array(&x->arena, count, sizeof *tags);
    if (tags == NULL) {
        api_error(x, 503, "no_memory", "", "out of memory for %zu tags", count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        tags[i] = slice_from(json_string_value(json_array_get(list, i)));
        if (tags[i].size == 0) {
            api_error(x, 400, "invalid", "", "tags: each must be a string such as gpu");
            return false;
        }
    }
    request->tags = tags;
    request->tag_count = count;
    return true;
}

static int by_text(const void *a, const void *b)
{
    return slice_cmp(*(const pr_slice *)a, *(const pr_slice *)b);
}

/* Joins the types in a canonical order, so that equal asks share their state.  False: answered. */
static bool types_join(struct api *x, pr_slice *types, size_t count, pr_slice *ret)
{
    size_t size = 0;
    char *at;
    qsort(types, count, sizeof *types, by_text);
    for (size_t i = 0; i < count; i++)
        size += types[i].size + 1;
    if (size > ASK_BYTES_MAX) {
        api_error(x, 400, "invalid", "use patterns such as order.*, or a route to an endpoint for these workers",
                  "types: at most %zu bytes together", ASK_BYTES_MAX);
        return false;
    }
    ret->data = at = arena_alloc(&x->arena, size + 1);
    ret->size = size;
    if (at == NULL) {
        api_error(x, 503, "no_memory", "", "out of memory for %zu types", count);
        return false;
    }
    for (size_t i = 0; i < count; i++, at += types[i - 1].size + 1) {
        memcpy(at, types[i].data, types[i].size);
        at[types[i].size] = '\n';
    }
    return true;
}

/* The types that the claimer accepts.  False: answered. */
static bool types_decode(struct api *x, struct pull_request *request)
{
    const json_t *list = json_object_get(x->json, "types");
    size_t count = json_array_size(list);
    pr_slice *types = arena_alloc_array(&x->arena, count, sizeof *types);
    struct pr_error error;
    if (list == NULL)
        return true;
    if (types == NULL) {
        api_error(x, 503, "no_memory", "", "out of memory for %zu types", count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *type = json_array_get(list, i);
        types[i] = (pr_slice){ json_string_value(type), json_string_length(type) };
        if (types[i].size == 0 || memchr(types[i].data, '\n', types[i].size) != NULL) {
            api_error(x, 400, "invalid", "", "types: each must be a pattern such as order.*");
            return false;
        }
        if (glob_check(types[i], &error) < 0) {
            api_error(x, 400, "invalid", "", "types: %s", error.text);
            return false;
        }
    }
    if (count == 0) {
        api_error(x, 400, "invalid", "leave it out to get messages of all types", "types: must not be empty");
        return false;
    }
    return types_join(x, types, count, &request->types);
}

void api_claims(struct api *x)
{
    const json_t *max = json_object_get(x->json, "max");
    struct pull_request request = {
        .box = slice_from(body_text(x, "box")), .max = 1, .is_gone = api_is_gone, .is_gone_arg = x
    };
    struct pr_error error;
    if (!body_endpoint(x, &request.endpoint) ||
        !api_span(x, "wait", json_object_get(x->json, "wait"), WAIT_MAX_US, &request.wait_us))
        return;
    if (max != NULL && (json_integer_value(max) < 1 || json_integer_value(max) > PULL_MAX)) {
        api_error(x, 400, "invalid", "", "max: must be 1 to %d", PULL_MAX);
        return;
    }
    if (!tags_decode(x, &request) || !types_decode(x, &request))
        return;
    request.max = max != NULL ? (size_t)json_integer_value(max) : request.max;
    request.box = request.box.size > 0 ? request.box : PR_STR("inbox");
    if (!api_wait_begin(x))
        return;
    int rc = claim(x, &request, &error);
    api_wait_end(x);
    if (rc == PR_ENOTFOUND && !runtime_is_claimable(x->rt)) { /* on 404 a worker gives up */
        api_error(x, 503, "not_running", "try again soon", "it is starting or stopping");
        return;
    }
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    json_begin_object(&x->w);
    json_key(&x->w, "claims");
    json_begin_array(&x->w);
    for (size_t i = 0; i < x->claimed->count; i++)
        claim_json(x, &x->claimed->list[i]);
    json_end_array(&x->w);
    json_end_object(&x->w);
}

/* ---- Ending ----------------------------------------------------------------------------------- */

static const char *text_of(const json_t *claim, const char *name)
{
    return json_string_value(json_object_get(claim, name));
}

/* Is it an object, and are its members known and of the right types?  False: answered. */
static bool claim_is_right(struct api *x, json_t *claim, const char *const *members, size_t count)
{
    const char *key;
    json_t *value;
    if (!json_is_object(claim) || !json_is_string(json_object_get(claim, "token"))) {
        api_error(x, 400, "invalid", "", "claims: each entry needs a token");
        return false;
    }
    json_object_foreach(claim, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(key, members[i]) != 0)
            i++;
        bool right = strcmp(key, "effects") == 0             ? json_is_array(value)
                     : strcmp(key, "status") == 0            ? json_is_integer(value)
                     : strcmp(key, "release_followers") == 0 ? json_is_boolean(value)
                     : strcmp(key, "retryable") == 0         ? json_is_boolean(value)
                                                             : json_is_string(value);
        if (i < count && right)
            continue;
        api_error(x, 400, "invalid", "see GET /openapi.json", "claims: %s \"%.60s\"",
                  i < count ? "wrong type of" : "unknown member", key);
        return false;
    }
    return true;
}

static int effect_decode(struct api *x, json_t *object, struct pull_effect *ret, struct pr_error *reterr)
{
    const char *box = text_of(object, "box");
    if (box == NULL && json_object_get(object, "box") != NULL)
        return error_set(reterr, PR_EINVAL, "effects: box must be the name of a box");
    json_t *message = json_is_object(object) ? json_copy(object) : json_incref(object);
    ret->box = box != NULL ? slice_dup(&x->arena, slice_from(box)) : PR_STR("outbox");
    if (json_is_object(message))
        json_object_del(message, "box");
    int rc = decode_plain(message, now_us(), &x->arena, &ret->message, reterr);
    json_decref(message);
    if (rc == PR_OK && !name_is_valid(ret->box))
        rc = error_set(reterr, PR_EINVAL, "box: \"%.60s\" is not a valid box name", box);
    return rc == PR_OK ? message_check(&ret->message, PR_PAYLOAD_MAX, reterr) : rc;
}

/* Before anything is ended: a completion that cannot be stored would become a failure. */
static int check_boxes(struct api *x, const struct pull_effect *effects, size_t count, struct pr_error *reterr)
{
    struct runtime_inside in;
    int rc = runtime_enter(x->rt, &in, reterr);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        if (config_find_box(in.config, effects[i].box) == NULL)
            rc = error_set(reterr, PR_EINVAL, "effects: unknown box \"%.*s\"; add it under boxes: in the configuration",
                           SLICE_ARGS(effects[i].box));
    runtime_leave(x->rt);
    return rc;
}

/* Messages that are stored with the verdict.  False: answered. */
static bool effects_decode(struct api *x, const json_t *list, struct pull_verdict *v)
{
    size_t count = json_array_size(list);
    struct pull_effect *effects = arena_alloc_array(&x->arena, count, sizeof *effects);
    struct pr_error error = { 0 };
    int rc = effects != NULL ? PR_OK : error_set(&error, PR_ENOMEM, "out of memory for %zu messages", count);
    if (count > EFFECTS_MAX)
        rc = error_set(&error, PR_ETOOBIG, "effects: at most %d messages", EFFECTS_MAX);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        rc = effect_decode(x, json_array_get(list, i), &effects[i], &error);
    if (rc == PR_OK)
        rc = check_boxes(x, effects, count, &error);
    v->effects = effects;
    v->effect_count = count;
    if (rc == PR_OK)
        return true;
    error.code = rc;
    api_fault(x, &error);
    return false;
}

static bool fail_decode(struct api *x, const json_t *claim, struct delivery_result *ret)
{
    const char *reason = text_of(claim, "reason"), *error = text_of(claim, "error"), *code = text_of(claim, "code");
    int number = reason != NULL ? (int)reason_parse(slice_from(reason)) : PR_REASON_UNKNOWN;
    int64_t after_us = 0;
    if (number == PR_REASON_NONE) {
        api_error(x, 400, "invalid", "use handler_exception, validation_failure, dependency_failure, ...",
                  "reason: \"%.60s\" is unknown", reason);
        return false;
    }
    if (!api_span(x, "retry_after", json_object_get(claim, "retry_after"), PR_SECONDS(86400), &after_us))
        return false;
    result_failed(ret, 0, SEND_FAILED, number, code != NULL ? code : "", slice_from(error));
    ret->retry_after_us = after_us;
    ret->release_followers = json_is_true(json_object_get(claim, "release_followers"));
    ret->final = json_is_false(json_object_get(claim, "retryable"));
    return true;
}

/* The output of an activity of a flow: a text, or bytes as base64.  False: answered. */
static bool output_decode(struct api *x, const json_t *claim, enum send_outcome outcome, struct delivery_result *ret)
{
    const json_t *text = json_object_get(claim, "output"), *coded = json_object_get(claim, "output_base64");
    pr_slice output = { json_string_value(text), json_string_length(text) };
    if (text == NULL && coded == NULL)
        return true;
    if (outcome != SEND_OK || (text != NULL && coded != NULL)) {
        api_error(x, 400, "invalid", "",
                  outcome != SEND_OK ? "output: only with complete" : "output: use output or output_base64, not both");
        return false;
    }
    struct buf bytes;
    buf_init(&bytes, PR_PAYLOAD_MAX);
    bool right = coded == NULL ||
                 base64_decode(&bytes, (pr_slice){ json_string_value(coded), json_string_length(coded) }) == PR_OK;
    if (coded != NULL)
        output = buf_slice(&bytes);
    ret->output = right && buf_failed(&bytes) == 0 ? output_copy(output) : NULL;
    ret->output_size = output.size;
    if (!right)
        api_error(x, 400, "invalid", "", "output_base64: not valid base64");
    else if (ret->output == NULL)
        api_error(x, 503, "no_memory", "", "out of memory for an output");
    buf_fini(&bytes);
    return ret->output != NULL;
}

static enum send_outcome outcome_of(const struct api *x)
{
    const char *verb = strrchr(x->route->path, '/');
    return strcmp(verb, "/complete") == 0  ? SEND_OK
           : strcmp(verb, "/fail") == 0    ? SEND_FAILED
           : strcmp(verb, "/abandon") == 0 ? SEND_ABANDONED
                                           : SEND_RELEASED;
}

static bool verdict_decode(struct api *x, json_t *claim, enum send_outcome outcome, struct pull_verdict *v)
{
    static const char *const members[] = { "token",       "status",    "reason",       "error",
                                           "code",        "effects",   "output",       "release_followers",
                                           "retry_after", "retryable", "output_base64" };
    if (!claim_is_right(x, claim, members, ARRAY_LENGTH(members)))
        return false;
    *v = (struct pull_verdict){ .token = slice_from(text_of(claim, "token")), .result.outcome = outcome };
    if (outcome == SEND_FAILED && !fail_decode(x, claim, &v->result))
        return false;
    if (outcome == SEND_ABANDONED && text_of(claim, "error") != NULL)
        v->result.error = strdup(text_of(claim, "error"));
    json_int_t status = json_integer_value(json_object_get(claim, "status"));
    if (status < 0 || status > STATUS_MAX) {
        api_error(x, 400, "invalid", "", "status: must be 0 to %d", STATUS_MAX);
        return false;
    }
    v->result.bits = (int)status;
    if (!output_decode(x, claim, outcome, &v->result))
        return false;
    if (json_object_get(claim, "effects") == NULL)
        return true;
    if (outcome == SEND_OK)
        return effects_decode(x, json_object_get(claim, "effects"), v);
    api_error(x, 400, "invalid", "", "effects: only with complete");
    return false;
}

static const char *const answers[] = { [PULL_OK] = "ok",       [PULL_FAILED] = "failed",   [PULL_CONFLICT] = "conflict",
                                       [PULL_STALE] = "stale", [PULL_UNKNOWN] = "unknown", [PULL_PENDING] = "pending" };

static const char *answer_word(int answer)
{
    return answers[answer];
}

static int word_answer(pr_slice name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(answers); i++)
        if (slice_eq_cstr(name, answers[i]))
            return (int)i;
    return PULL_UNKNOWN;
}

static const struct member_words words_of_answers = { .name = answer_word, .parse = word_answer };

/* The result for one claim. */
struct claim_result {
    pr_slice token;
    enum pull_answer answer;
    const char *error;  /* NULL: none */
    int64_t expires_us; /* of a renewed claim; 0: not renewed */
};

static const struct member result_members[] = {
    /* clang-format off */
    MEMBER(claim_result, "token", STRING, token)
    MEMBER_NAME(claim_result, "result", words_of_answers, answer)
    MEMBER_IF(claim_result, "error", CSTR, error)
    MEMBER_IF(claim_result, "expires_at", TIME, expires_us)
    /* clang-format on */
};

static void result_json(struct api *x, const struct claim_result *result)
{
    static const struct members table = MEMBERS(result_members);
    members_object(&x->w, &table, result);
}

/* The list of claims; NULL: answered. */
static json_t *claims_of(struct api *x)
{
    json_t *claims = json_object_get(x->json, "claims");
    size_t count = json_array_size(claims);
    if (count > 0 && count <= PULL_MAX)
        return claims;
    api_error(x, 400, "invalid", "", "claims: needs 1 to %d entries", PULL_MAX);
    return NULL;
}

/* The stream of a conflict, and its current version. */
static const char *conflict_words(struct api *x, const struct pull_verdict *v)
{
    struct runtime_inside in;
    struct pr_error error = { .code = PR_OK };
    int rc = runtime_enter(x->rt, &in, &error);
    bool entered = rc == PR_OK;
    for (size_t i = 0; i < v->effect_count && rc == PR_OK; i++) {
        const struct pr_message *m = &v->effects[i].message;
        const struct query query = { .kind = QUERY_EVENTS,
                                     .brief = true,
                                     .filter = { .stream = m->stream, .state = -1 } };
        struct query_reply reply = { .total = 0 };
        if (!m->expects_version)
            continue;
        rc = store_query(in.store, &query, &x->arena, &reply, &error);
        if (rc == PR_OK)
            rc = message_expectation(m, false, (int64_t)reply.total, &error);
    }
    if (entered)
        runtime_leave(x->rt);
    const char *words = rc == PR_ECONFLICT ? arena_dup(&x->arena, error.text, strlen(error.text) + 1) : NULL;
    return words != NULL ? words : "a stream was at another version than expected: read it again";
}

void api_claims_end(struct api *x)
{
    json_t *claims = claims_of(x);
    size_t count = json_array_size(claims), decoded = 0;
    struct pull_verdict *verdicts = arena_alloc_array(&x->arena, count, sizeof *verdicts);
    struct pr_error error;
    if (claims == NULL)
        return;
    if (verdicts == NULL) {
        api_error(x, 503, "no_memory", "", "out of memory for %zu claims", count);
        return;
    }
    memset(verdicts, 0, count * sizeof *verdicts);
    while (decoded < count && verdict_decode(x, json_array_get(claims, decoded), outcome_of(x), &verdicts[decoded]))
        decoded++;
    if (decoded < count) { /* all or none: the error is the answer */
        for (size_t i = 0; i <= decoded; i++)
            delivery_result_fini(&verdicts[i].result);
        return;
    }
    int rc = pull_end(runtime_pull(x->rt), verdicts, count, COMMIT_WAIT_US, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    json_begin_object(&x->w);
    json_key(&x->w, "results");
    json_begin_array(&x->w);
    for (size_t i = 0; i < count; i++) {
        const struct pull_verdict *v = &verdicts[i];
        result_json(x, &(struct claim_result){ .token = v->token,
                                               .answer = v->answer,
                                               .error = v->answer == PULL_CONFLICT ? conflict_words(x, v) : NULL });
    }
    json_end_array(&x->w);
    json_end_object(&x->w);
}

void api_claims_renew(struct api *x)
{
    static const char *const members[] = { "token" };
    json_t *claims = claims_of(x);
    int64_t span_us = 0, left_us = 0;
    if (claims == NULL || !api_span(x, "for", json_object_get(x->json, "for"), PR_SECONDS(86400), &span_us))
        return;
    for (size_t i = 0; i < json_array_size(claims); i++)
        if (!claim_is_right(x, json_array_get(claims, i), members, ARRAY_LENGTH(members)))
            return;
    json_begin_object(&x->w);
    json_key(&x->w, "results");
    json_begin_array(&x->w);
    for (size_t i = 0; i < json_array_size(claims); i++) {
        pr_slice token = slice_from(text_of(json_array_get(claims, i), "token"));
        enum pull_answer answer = pull_renew(runtime_pull(x->rt), token, span_us, &left_us);
        result_json(x, &(struct claim_result){ .token = token,
                                               .answer = answer,
                                               .expires_us = answer == PULL_OK ? time_add(now_us(), left_us) : 0 });
    }
    json_end_array(&x->w);
    json_end_object(&x->w);
}
