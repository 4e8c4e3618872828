/* policy replay: what the policy of a configuration would have done to past failures.  They are in the stories of dead
 * letters, of waiting messages, and of delivered ones that their box keeps.
 *
 * A message that the new policy would have ended earlier would not have failed again: its later failures are shown as
 * such and counted separately. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/command/message.h"
#include "cli/command/policy.h"
#include "cli/output/table.h"

#include <jansson.h>

#define PAGE 100 /* pages include payloads, so they are small */
#define PAIRS_MAX 64

struct pair {
    char before[16], after[16];
    uint64_t count;
};

struct policy_replay {
    struct cli *cli;
    struct filter filter; /* since_us: of failures */
    uint64_t messages, failures, same, changed, never;
    struct pair pairs[PAIRS_MAX];
    size_t pair_count;
};

/* One line of a story. */
struct happened {
    int64_t at_us;
    const char *endpoint, *reason, *code, *error, *rule, *step;
};

static const char *text_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text != NULL ? text : "";
}

/* Only failures that a policy decided about: not actions of operators, stops or the poison limit. */
static bool was_failure(const json_t *line, struct happened *ret)
{
    static const char *const steps[] = { "retry", "retry_now", "dead_letter", "discard", "park" };
    static const char *const others[] = { "poison", "undecodable", "routes", "worker", "expires", "stop" };

    *ret = (struct happened){ .endpoint = text_of(line, "endpoint"),
                              .reason = text_of(line, "reason"),
                              .code = text_of(line, "code"),
                              .error = text_of(line, "error"),
                              .rule = text_of(line, "rule"),
                              .step = text_of(line, "step") };
    if (ret->reason[0] == '\0' || time_parse_rfc3339(slice_from(text_of(line, "at")), &ret->at_us) != PR_OK)
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        if (strcmp(others[i], ret->rule) == 0)
            return false;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++)
        if (strcmp(steps[i], ret->step) == 0)
            return true;
    return false;
}

static void count_pair(struct policy_replay *r, const char *before, const char *after)
{
    struct pair *p = NULL;

    for (size_t i = 0; i < r->pair_count && p == NULL; i++)
        if (strcmp(r->pairs[i].before, before) == 0 && strcmp(r->pairs[i].after, after) == 0)
            p = &r->pairs[i];
    if (p == NULL && r->pair_count < PAIRS_MAX) {
        p = &r->pairs[r->pair_count++];
        (void)snprintf(p->before, sizeof(p->before), "%s", before);
        (void)snprintf(p->after, sizeof(p->after), "%s", after);
    }
    if (p != NULL)
        p->count++;
}

static void print_json(const struct listed *l, const struct happened *h, int failure, const struct decision *d,
                       bool changed)
{
    struct json_line line;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(l->m.id, id);
    struct json_writer *w = line_begin(&line);
    json_begin_object(w);
    json_put_cstr(w, "id", id);
    json_put_cstr(w, "endpoint", h->endpoint);
    json_put_int(w, "failure", failure);
    json_put_time(w, "at", h->at_us);
    json_put_cstr(w, "reason", h->reason);
    json_key(w, "happened");
    json_begin_object(w);
    json_put_cstr(w, "rule", h->rule);
    json_put_cstr(w, "action", h->step);
    json_end_object(w);
    json_key(w, "would");
    if (d != NULL) {
        json_begin_object(w);
        policy_json_decision(w, d);
        json_end_object(w);
    } else {
        json_cstr(w, NULL); /* it would not have failed again */
    }
    json_put_bool(w, "changed", changed);
    json_end_object(w);
    line_end(&line);
}

/* true: the new policy ends the message here. */
static bool replay_failure(struct policy_replay *r, const struct listed *l, const struct happened *h, int failure)
{
    const struct config_endpoint *endpoint = config_find_endpoint(r->cli->config, slice_from(h->endpoint));
    struct policy policy = { .global = r->cli->config->rules,
                             .global_count = r->cli->config->rule_count,
                             .retry = retry_default };
    struct decision d;
    struct failure f = {
        .message = &l->m,
        .endpoint = slice_from(h->endpoint),
        .reason = reason_parse(slice_from(h->reason)),
        .code = slice_from(h->code),
        .error = slice_from(h->error),
        .failures = failure,
        .age_us = max64(h->at_us - l->m.created_us, 0),
    };

    f.reason = f.reason != PR_REASON_NONE ? f.reason : PR_REASON_UNKNOWN;
    if (endpoint != NULL)
        config_endpoint_policy(r->cli->config, endpoint, &policy);
    policy_decide(&policy, &f, 0, &d);
    bool changed = strcmp(step_name(d.step), h->step) != 0;
    r->failures++;
    r->same += !changed;
    r->changed += changed;
    count_pair(r, h->step, step_name(d.step));
    if (r->cli->json)
        print_json(l, h, failure, &d, changed);
    return step_is_end(d.step);
}

static void replay_message(struct policy_replay *r, const struct listed *l)
{
    json_t *story = l->m.story.size > 0 ? json_loadb(l->m.story.data, l->m.story.size, 0, NULL) : NULL;
    const json_t *line;
    struct happened h;
    size_t i;
    int in_story = 0, number;
    bool any = false, over = false;

    json_array_foreach(story, i, line) in_story += was_failure(line, &h);
    /* Old lines are dropped, so they are numbered backwards from the last one. */
    number = (int)max64(l->m.failures - in_story, 0);
    json_array_foreach(story, i, line)
    {
        if (!was_failure(line, &h))
            continue;
        number++;
        if (h.at_us < r->filter.since_us || (r->filter.until_us != 0 && h.at_us >= r->filter.until_us))
            continue;
        any = true;
        if (over) {
            r->never++;
            if (r->cli->json)
                print_json(l, &h, number, NULL, true);
            continue;
        }
        over = replay_failure(r, l, &h, number);
    }
    r->messages += any;
    json_decref(story);
}

/* state -1: waiting messages. */
static int replay_pages(struct policy_replay *r, enum query_kind kind, int state, pr_slice box)
{
    struct query query = { .kind = kind, .filter = r->filter };
    struct arena arena;
    int code = EXIT_DONE;

    query.filter.box = box;
    query.filter.state = state;
    query.filter.limit = PAGE;
    query.filter.until_us = 0;
    if (kind == QUERY_MESSAGES) /* stored before, failed since */
        query.filter.since_us = 0;
    arena_init(&arena, 65536);
    for (;;) {
        struct query_reply page;
        struct pr_error err;

        if (store_query(&r->cli->store, &query, &arena, &page, &err) != PR_OK) {
            code = cli_fault(&err);
            break;
        }
        for (size_t i = 0; i < page.listed_count; i++)
            if (page.listed[i].m.story.size > 0)
                replay_message(r, &page.listed[i]);
        if (!page.more || page.listed_count == 0)
            break;
        query.filter.after = page.listed[page.listed_count - 1].row;
        arena_reset(&arena);
    }
    arena_fini(&arena);
    return code;
}

static int replay_boxes(struct policy_replay *r)
{
    struct query query = { .kind = QUERY_BOXES, .brief = true, .filter.state = -1 };
    struct query_reply boxes;
    struct pr_error err;
    int code = EXIT_DONE;

    if (store_query(&r->cli->store, &query, &r->cli->arena, &boxes, &err) != PR_OK)
        return cli_fault(&err);
    for (size_t i = 0; i < boxes.box_count && code == EXIT_DONE; i++) {
        if (r->filter.box.size > 0 && !slice_eq(r->filter.box, boxes.boxes[i].name))
            continue;
        code = replay_pages(r, QUERY_DEAD, -1, boxes.boxes[i].name);
        if (code == EXIT_DONE)
            code = replay_pages(r, QUERY_MESSAGES, -1, boxes.boxes[i].name);
        if (code == EXIT_DONE)
            code = replay_pages(r, QUERY_MESSAGES, STATE_DONE, boxes.boxes[i].name);
    }
    return code;
}

static void print_people(struct policy_replay *r)
{
    struct table t;

    printf("%s of %s: %" PRIu64 " would have ended the same, %" PRIu64 " otherwise",
           count_words(&r->cli->arena, r->failures + r->never, "failure", "failures"),
           count_words(&r->cli->arena, r->messages, "message", "messages"), r->same, r->changed);
    if (r->never > 0)
        printf(", and %" PRIu64 " would not have occurred", r->never);
    printf(".\n"
           "Only dead letters, waiting messages and delivered messages that their box keeps (boxes.NAME.keep) are "
           "included; others have no history left.\n");
    if (r->pair_count == 0)
        return;
    printf("\n");
    table_init(&t, &r->cli->arena, "HAPPENED|WOULD|>FAILURES");
    for (size_t i = 0; i < r->pair_count; i++) {
        const struct pair *p = &r->pairs[i];
        enum color color = strcmp(p->before, p->after) == 0 ? COLOR_DIM : COLOR_YELLOW;

        table_add(&t, color, slice_from(p->before));
        table_add(&t, color, slice_from(p->after));
        table_addf(&t, color, "%" PRIu64, p->count);
    }
    table_print(&t, stdout, 0, r->cli->color);
}

int run_policy_replay(struct cli *cli)
{
    struct policy_replay r = { .cli = cli };
    int code = cli_open_filtered(cli, &r.filter);

    if (code == EXIT_DONE)
        code = replay_boxes(&r);
    if (code == EXIT_DONE && !cli->json)
        print_people(&r);
    return code;
}
