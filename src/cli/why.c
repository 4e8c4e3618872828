/* why ID: where it is, what it waits for, since when, what happened, which rule decided, what
 * comes next, and which command would change it (B200).  From the store alone; the
 * configuration adds what the endpoint will do. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "cli/endpoint.h"
#include "cli/message.h"
#include "cli/policy.h"
#include "policy/explain.h"

#include <jansson.h>

struct why {
    struct cli *cli;
    struct arena *arena;
    const struct query_reply *reply; /* it is listed there */
    const struct listed *l;
    int64_t now_us;
    char id[PR_ID_TEXT_SIZE];
    pr_slice endpoint;
    const struct config_endpoint *setting; /* NULL: not known */
    const struct breaker_info *breaker;    /* its endpoint does not send; NULL: it does */
};

static void heading(const struct why *y, const char *text)
{
    printf("\n%s%s%s\n", color_on(COLOR_BOLD, y->cli->color), text, color_off(COLOR_BOLD, y->cli->color));
}

/* Texts of others, fit for the terminal. */
static const char *clean(const struct why *y, pr_slice text)
{
    struct buf b;

    buf_init(&b, OUTPUT_MAX);
    text_clean(&b, text, false);
    const char *copy = slice_dup(y->arena, buf_slice(&b)).data;
    buf_fini(&b);
    ASSERT(copy != NULL);
    return copy;
}

static const char *ordinal(const struct why *y, int n)
{
    const char *suffix = n % 100 / 10 == 1 ? "th"
                         : n % 10 == 1     ? "st"
                         : n % 10 == 2     ? "nd"
                         : n % 10 == 3     ? "rd"
                                           : "th";

    return arena_printf(y->arena, "%d%s", n, suffix).data;
}

static const char *ahead(const struct why *y, int64_t us)
{
    return us > y->now_us ? arena_printf(y->arena, "in %s (%s)", span_words(y->arena, us - y->now_us),
                                         time_words(y->arena, us))
                                .data
                          : "now";
}

static const char *ago(const struct why *y, int64_t us)
{
    return arena_printf(y->arena, "%s ago (%s)", span_words(y->arena, y->now_us - us), time_words(y->arena, us))
        .data;
}

/* ---- Where it is ---- */

static bool query(const struct why *y, const struct query *question, struct query_reply *ret)
{
    struct pr_error err;

    if (store_query(&y->cli->store, question, y->arena, ret, &err) == PR_OK) {
        messages_see_routes(y->cli->config, ret);
        return true;
    }
    cli_say("%s", err.text);
    return false;
}

static bool is_head_of(const struct listed *l, const struct listed *other)
{
    bool sent_there = slice_eq(message_endpoint(other), message_endpoint(l));

    return other->row != l->row && other->m.seq < l->m.seq && sent_there && other->state != STATE_HELD &&
           other->state != STATE_DELAYED && other->state != STATE_DONE;
}

/* What stands before it in its stream: in the box, or (strict) parked or among the dead.  NULL: not found. */
static const struct listed *find_head(const struct why *y)
{
    const enum query_kind kinds[] = { QUERY_MESSAGES, QUERY_DEAD };
    const struct listed *parked = NULL;

    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        struct query question = {
            .kind = kinds[k],
            .filter = { .box = y->l->box, .stream = y->l->m.stream, .state = -1, .limit = 1000 }
        };
        struct query_reply reply;

        if (!query(y, &question, &reply))
            return NULL;
        for (size_t i = 0; i < reply.listed_count; i++) {
            const struct listed *other = &reply.listed[i];

            if (!is_head_of(y->l, other))
                continue;
            if (other->state != STATE_PARKED)
                return other;
            if (parked == NULL)
                parked = other;
        }
        if (parked != NULL)
            return parked;
    }
    return NULL;
}

static bool somebody_works(const struct why *y)
{
    struct query question = { .kind = QUERY_INSTANCES };
    struct query_reply reply;

    if (!query(y, &question, &reply))
        return true;
    for (size_t i = 0; i < reply.instance_count; i++)
        if (slice_eq(reply.instances[i].box, y->l->box) && reply.instances[i].lease_left_us > 0)
            return true;
    return false;
}

static void say_head(const struct why *y)
{
    const struct listed *head = find_head(y);
    char id[PR_ID_TEXT_SIZE];

    if (head == NULL) {
        printf("It is held in stream %s; what it waited for is gone, so it goes on soon.\n",
               clean(y, y->l->m.stream));
        return;
    }
    pr_id_format(head->m.id, id);
    printf("It is held behind %s (%s), which stands before it in stream %s and is %s", id,
           clean(y, head->m.type), clean(y, y->l->m.stream), state_name(head->state));
    const struct breaker_info *b = message_breaker(y->cli->config, y->reply, head);

    if (b != NULL)
        printf(", but endpoint %s is %s (%s)", clean(y, b->endpoint), breaker_state_now(b, y->now_us),
               clean(y, slice_from(breaker_words(y->arena, b))));
    if (head->state == STATE_RETRYING)
        printf(": its next attempt is %s", ahead(y, head->m.due_us));
    printf(".\n");
    if (head->m.reason != PR_REASON_NONE)
        printf("That one failed with %s%s%s.\n", pr_reason_name(head->m.reason),
               head->m.error.size > 0 ? ": " : "", clean(y, head->m.error));
}

static void say_paused(const struct why *y)
{
    struct query question = { .kind = QUERY_ENDPOINTS };
    struct query_reply reply;

    printf("It waits because its endpoint %s is paused", clean(y, y->endpoint));
    for (size_t i = 0; query(y, &question, &reply) && i < reply.endpoint_count; i++) {
        const struct endpoint_state *e = &reply.endpoints[i];

        if (!slice_eq(e->name, y->endpoint))
            continue;
        if (e->by.size > 0)
            printf(" by %s", clean(y, e->by));
        if (e->paused_until_us == PR_NEVER)
            printf(" until somebody resumes it");
        else
            printf(" until %s", time_words(y->arena, e->paused_until_us));
        if (e->why.size > 0)
            printf(": %s", clean(y, e->why));
        break;
    }
    printf(".\n");
}

static void say_parked(const struct why *y)
{
    const struct pr_message *m = &y->l->m;

    if (m->reason == PR_REASON_DESTINATION_MISSING && m->destination.size > 0)
        printf("It is parked: no endpoint \"%s\" is configured. It goes on when the configuration has it.\n",
               clean(y, m->destination));
    else if (m->reason == PR_REASON_DESTINATION_MISSING)
        printf("It is parked: it names no endpoint and no route matches. It goes on when a route does.\n");
    else
        printf("It is parked: nothing happens until a person says so.\n");
}

static void say_dead(const struct why *y)
{
    const struct listed *l = y->l;

    printf("It died %s: ", ago(y, l->died_us));
    if (message_was_poison(l)) /* the last hand-out was not started */
        printf("handed out %d times, and nobody ever said how it ended (a crash, a kill)",
               message_unexplained(&l->m) - 1);
    else if (l->cause == PR_REASON_POISON_MESSAGE)
        printf("it failed %d %s", l->m.failures, l->m.failures == 1 ? "time" : "times");
    else
        printf("%s", message_reason(l));
    if (l->limit > 0)
        printf(", the limit is %d", l->limit);
    printf(".\n");
    if (l->rule.size > 0)
        printf("Decided by: %s.\n", clean(y, l->rule));
    if (l->note.size > 0)
        printf("Note: %s\n", clean(y, l->note));
    if (!pr_id_is_zero(l->edited_as)) {
        char id[PR_ID_TEXT_SIZE];

        pr_id_format(l->edited_as, id);
        printf("It was corrected: %s went in its place.\n", id);
    }
}

/* Its own state is fine: the endpoint is not. */
static void say_open(const struct why *y)
{
    const struct breaker_info *b = y->breaker;

    printf("It waits because endpoint %s is %s", clean(y, b->endpoint), breaker_state_now(b, y->now_us));
    if (b->type.size > 0)
        printf(" for messages of type %s", clean(y, b->type));
    printf(": for %s (since %s) instance %s sends only probes there.\n", span_words(y->arena, y->now_us - b->since_us),
           time_words(y->arena, b->since_us), clean(y, b->instance));
    if (b->probes > 0)
        printf("%d %s failed since then, the latest with %s.\n", b->probes, b->probes == 1 ? "probe" : "probes",
               clean(y, slice_from(breaker_words(y->arena, b))));
    else
        printf("It opened after %s.\n", clean(y, slice_from(breaker_words(y->arena, b))));
}

static void say_where(const struct why *y)
{
    const struct listed *l = y->l;

    switch (l->state) {
    case STATE_READY:
        if (y->breaker != NULL) {
            say_open(y);
            break;
        }
        printf("It is ready and waits for its turn%s.\n",
               somebody_works(y) ? "" : ", but nobody delivers from this box: start postrider run");
        break;
    case STATE_IN_FLIGHT:
        printf("It is on its way right now, attempt %d, sent by instance %s.\n", l->m.attempts + 1,
               clean(y, l->instance));
        break;
    case STATE_DELAYED:
        printf("It waits because its sender said not before %s: %s.\n", time_words(y->arena, l->m.due_us),
               ahead(y, l->m.due_us));
        break;
    case STATE_RETRYING:
        printf("It waits for its %s attempt, %s.\n", ordinal(y, l->m.attempts + 1), ahead(y, l->m.due_us));
        if (y->breaker != NULL)
            say_open(y);
        break;
    case STATE_HELD: say_head(y); break;
    case STATE_PARKED: say_parked(y); break;
    case STATE_PAUSED: say_paused(y); break;
    case STATE_DEAD: say_dead(y); break;
    case STATE_DONE: printf("It is done: delivered %s.\n", ago(y, l->died_us)); break;
    default: printf("It is gone.\n");
    }
    if (l->bad != NULL)
        printf("It cannot be decoded: %s.\n", l->bad);
    if (l->m.expires_us != 0 && l->state != STATE_DEAD && l->state != STATE_DONE)
        printf("It expires %s.\n", l->m.expires_us > y->now_us ? ahead(y, l->m.expires_us)
                                                               : "at its next hand-out: its time is over");
}

/* ---- What happened ---- */

static int64_t time_of(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    int64_t us;

    return text != NULL && time_parse_rfc3339(slice_from(text), &us) == PR_OK ? us : 0;
}

static const char *text_of(const struct why *y, const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);

    return json_is_string(value) ? clean(y, (pr_slice){ json_string_value(value), json_string_length(value) })
                                 : "";
}

/* What was done, in the past tense of people. */
static const char *step_words(const char *step)
{
    static const char *const words[][2] = {
        { "retry", "to be tried again" },
        { "retry_now", "to be tried again at once" },
        { "dead_letter", "dead" },
        { "park", "parked" },
        { "discard", "discarded" },
        { "replay", "replayed" },
        { "edit", "corrected, and sent in place of the one that died" },
    };

    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strcmp(words[i][0], step) == 0)
            return words[i][1];
    return step;
}

static void say_line(const struct why *y, const json_t *line)
{
    const char *endpoint = text_of(y, line, "endpoint"), *reason = text_of(y, line, "reason"),
               *error = text_of(y, line, "error");
    const char *code = text_of(y, line, "code"), *rule = text_of(y, line, "rule"),
               *step = text_of(y, line, "step");
    int64_t at = time_of(line, "at"), next = time_of(line, "next");
    json_int_t attempt = json_integer_value(json_object_get(line, "attempt"));

    printf("  +%-9s", span_words(y->arena, at - y->l->m.created_us));
    if (strcmp(rule, "poison") == 0)
        printf(" not handed out again");
    else if (reason[0] != '\0' && attempt == 0)
        printf(" not sent");
    else if (reason[0] == '\0' && step[0] != '\0')
        printf(" %s", step_words(step));
    else if (attempt > 0)
        printf(" attempt %" JSON_INTEGER_FORMAT "%s%s", attempt, endpoint[0] != '\0' ? " to " : "", endpoint);
    if (reason[0] != '\0') {
        printf("%s: %s", attempt > 0 && strcmp(rule, "poison") != 0 ? " failed" : "", reason);
        if (code[0] != '\0')
            printf(" (%s)", code);
        if (error[0] != '\0')
            printf(": %s", error);
        if (step[0] != '\0')
            printf("; %s", step_words(step));
    } else if (error[0] != '\0') {
        printf(": %s", error);
    }
    if (next > at && next != PR_NEVER)
        printf(" after %s", span_words(y->arena, next - at));
    if (rule[0] != '\0')
        printf(" [by %s]", rule);
    printf("\n");
}

static void say_story(const struct why *y)
{
    const struct pr_message *m = &y->l->m;
    json_t *story = m->story.size > 0 ? json_loadb(m->story.data, m->story.size, 0, NULL) : NULL;
    const json_t *line;
    size_t i;

    heading(y, "What happened");
    printf("  %-10s stored in %s, %s\n", time_words(y->arena, m->created_us) + 11, clean(y, y->l->box),
           ago(y, m->created_us));
    json_array_foreach(story, i, line) say_line(y, line);
    if (json_array_size(story) >= STORY_LINES_MAX)
        printf("  (only the last %d things are kept)\n", STORY_LINES_MAX);
    if (json_array_size(story) == 0 && m->attempts > 0)
        printf("  handed out %d %s, %d failed\n", m->attempts, m->attempts == 1 ? "time" : "times",
               m->failures);
    json_decref(story);
}

/* ---- What comes next ---- */

/* What the engine will do when it goes on failing as it did last (B71). */
static void say_limit(const struct why *y)
{
    const struct pr_message *m = &y->l->m;
    struct failure failure = {
        .message  = m,
        .endpoint = slice_from(y->setting->name),
        .reason   = m->reason,
        .code     = m->code,
        .error    = m->error,
        .failures = m->failures + 1,
        .age_us   = y->now_us - m->created_us,
    };
    struct explanation *x = arena_alloc(y->arena, sizeof(*x));
    const struct explain_line *last;
    struct policy policy;

    ASSERT(x != NULL);
    config_endpoint_policy(y->cli->config, y->setting, &policy);
    policy_explain(&policy, &failure, x);
    if (x->goes_on)
        return;
    last = &x->lines[x->line_count - 1];
    printf("  It failed %d %s; ", m->failures, m->failures == 1 ? "time" : "times");
    if (last->decision.matched == NULL)
        printf("endpoint %s makes it a dead letter at the %s failure.\n", y->setting->name, ordinal(y, last->failure));
    else
        printf("at the %s failure of this kind rule %s says: %s.\n", ordinal(y, last->failure),
               clean(y, last->decision.rule), policy_words(y->cli, &last->decision));
}

/* The one in front of it is dead or parked and holds it: strict. */
static void say_after_head(const struct why *y)
{
    const struct listed *head = find_head(y);
    char id[PR_ID_TEXT_SIZE];

    if (head == NULL || (head->state != STATE_DEAD && head->state != STATE_PARKED)) {
        printf("  When the message before it is delivered%s or discarded it goes on, in order.\n",
               y->setting != NULL && y->setting->ordering == ORDERING_STRICT ? "" : ", dead");
        return;
    }
    pr_id_format(head->m.id, id);
    printf("  Nothing by itself: it goes on, in order, when a person has dealt with the one before it:\n"
           "  postrider %s %s, or postrider %s %s.\n",
           head->state == STATE_DEAD ? "dead replay" : "retry", id,
           head->state == STATE_DEAD ? "dead discard" : "discard", id);
}

static void say_due(const struct why *y)
{
    const struct listed *l = y->l;
    int64_t expires_us = l->m.expires_us;

    if (expires_us != 0 && expires_us <= l->m.due_us) {
        printf("  It expires before its time: it will not be sent.\n");
        return;
    }
    printf("  Attempt %d%s%s, %s%s.\n", l->m.attempts + 1, y->endpoint.size > 0 ? " to " : "",
           clean(y, y->endpoint), ahead(y, l->m.due_us),
           somebody_works(y) ? "" : ", if somebody delivers from this box by then: start postrider run");
}

static void say_probe(const struct why *y)
{
    if (y->breaker->until_us == PR_NEVER)
        printf("  Nothing by itself: the endpoint asked not to be tried again.\n");
    else
        printf("  A probe to %s, %s: this message or another one. When it arrives all go on, in order;\n"
               "  until then no attempt and no failure is counted.\n",
               clean(y, y->breaker->endpoint),
               y->breaker->until_us > y->now_us ? ahead(y, y->breaker->until_us) : "as soon as there is something to send");
}

static void say_next(const struct why *y)
{
    const struct listed *l = y->l;

    heading(y, "What comes next");
    switch (l->state) {
    case STATE_DEAD:
        printf("  Nothing by itself: it stays among the dead letters until a person %s it.\n",
               pr_id_is_zero(l->edited_as) ? "replays, corrects or discards" : "discards");
        break;
    case STATE_DONE: printf("  Nothing: it is kept to be read for a while.\n"); break;
    case STATE_PARKED:
        printf("  %s\n", l->m.reason == PR_REASON_DESTINATION_MISSING
                             ? "It goes on by itself when the configuration knows where."
                             : "Nothing by itself.");
        break;
    case STATE_RETRYING:
    case STATE_DELAYED: say_due(y); break;
    case STATE_HELD: say_after_head(y); break;
    case STATE_PAUSED:
        printf("  It goes on when the endpoint is resumed; nothing is counted meanwhile.\n");
        break;
    case STATE_IN_FLIGHT:
        printf("  Delivered, or what the endpoint's rules say of its failure");
        if (y->setting != NULL && y->setting->timeout_us > 0)
            printf("; without an answer it fails after %s", span_words(y->arena, y->setting->timeout_us));
        printf(".\n  If its instance dies, another one takes over when the lease ends, and counts this attempt.\n");
        break;
    default:
        if (y->breaker != NULL) {
            say_probe(y);
            break;
        }
        printf("  Attempt %d%s%s, as soon as it is its turn.\n", l->m.attempts + 1,
               y->endpoint.size > 0 ? " to " : "", clean(y, y->endpoint));
    }
    if (y->setting != NULL && l->m.failures > 0 && l->state != STATE_DEAD && l->state != STATE_DONE)
        say_limit(y);
}

static void say_command(const struct why *y, const char *command, const char *what)
{
    printf("  postrider %s %s%*s%s\n", command, y->id, (int)(14 - min_size(strlen(command), 13)), "", what);
}

static void say_commands(const struct why *y)
{
    enum state state = y->l->state;

    if (state == STATE_DONE)
        return;
    heading(y, "What would change it");
    if (state == STATE_DEAD) {
        if (pr_id_is_zero(y->l->edited_as)) {
            say_command(y, "dead replay", "deliver it after all, in its old place");
            say_command(y, "dead edit", "correct it first (--data, --header, --to)");
        }
        say_command(y, "dead discard", "delete it for good");
        return;
    }
    if (state == STATE_RETRYING || state == STATE_PARKED || state == STATE_DELAYED)
        say_command(y, "retry", "try now, with new counters");
    if (state == STATE_HELD)
        say_command(y, "release", "let it overtake");
    if (state == STATE_PAUSED)
        printf("  postrider resume %s\n", clean(y, y->endpoint));
    if (y->breaker != NULL)
        printf("  postrider pause %s    send no more probes (--for 5m; then postrider resume %s)\n",
               clean(y, y->breaker->endpoint), clean(y, y->breaker->endpoint));
    if (state != STATE_PARKED)
        say_command(y, "park", "set it aside");
    say_command(y, "discard", "delete it without delivering");
    say_command(y, "dead add", "make it dead (--why TEXT)");
}

static bool is_paused(const struct why *y, pr_slice endpoint)
{
    struct query question = { .kind = QUERY_ENDPOINTS };
    struct query_reply reply;

    if (!query(y, &question, &reply))
        return false;
    for (size_t i = 0; i < reply.endpoint_count; i++)
        if (slice_eq(reply.endpoints[i].name, endpoint))
            return reply.endpoints[i].paused_until_us > y->now_us;
    return false;
}

/* The store does not know the routes: for a message that names no endpoint they say who it waits for. */
static void ask_routes(struct why *y, struct listed *routed)
{
    const struct pr_message *m = &y->l->m;
    pr_slice to = m->destination.size == 0 ? message_route(y->cli->config, m) : (pr_slice){ NULL, 0 };
    bool waits = y->l->state == STATE_READY || y->l->state == STATE_RETRYING;

    if (!waits || to.size == 0)
        return;
    y->endpoint = to;
    if (!is_paused(y, to))
        return;
    *routed = *y->l;
    routed->state = STATE_PAUSED;
    y->l = routed;
    y->breaker = NULL;
}

static void say_all(struct cli *cli, const struct query_reply *reply, const struct listed *l)
{
    struct listed routed;
    int64_t now_us = reply->now_us;
    struct why y = {
        .cli = cli, .arena = &cli->arena, .reply = reply, .l = l, .now_us = now_us, .endpoint = message_endpoint(l),
        .breaker = message_breaker(cli->config, reply, l),
    };

    ask_routes(&y, &routed);
    l = y.l;
    pr_id_format(l->m.id, y.id);
    y.setting = config_find_endpoint(cli->config, y.endpoint);
    printf("%s%s%s: %s", color_on(COLOR_BOLD, cli->color), y.id, color_off(COLOR_BOLD, cli->color),
           clean(&y, l->m.type));
    if (l->m.stream.size > 0)
        printf(", stream %s", clean(&y, l->m.stream));
    printf(", %s %s", l->state == STATE_DEAD ? "was in" : "in", clean(&y, l->box));
    if (y.endpoint.size > 0)
        printf(", for %s", clean(&y, y.endpoint));
    printf(", %s for %s.\n", state_name(l->state),
           span_words(y.arena, now_us - (l->died_us != 0       ? l->died_us
                                         : l->m.failed_us != 0 ? l->m.failed_us
                                                               : l->m.created_us)));
    say_where(&y);
    say_story(&y);
    say_next(&y);
    say_commands(&y);
}

/* The same facts for programs: the message, and the one it waits for. */
static void print_json(struct cli *cli, const struct query_reply *reply, const struct listed *l)
{
    int64_t now_us = reply->now_us;
    const struct breaker_info *breaker = message_breaker(cli->config, reply, l);
    struct why y = { .cli = cli, .arena = &cli->arena, .l = l, .now_us = now_us };
    const struct listed *head = l->state == STATE_HELD ? find_head(&y) : NULL;
    struct json_writer w;
    struct buf line;
    char id[PR_ID_TEXT_SIZE];

    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "message");
    message_json(&w, cli->config, reply, l);
    json_key(&w, "waits_for");
    if (head != NULL) {
        pr_id_format(head->m.id, id);
        json_cstr(&w, id);
    } else {
        json_cstr(&w, NULL);
    }
    json_key(&w, "next_at");
    if (l->m.due_us > now_us && l->m.due_us != PR_NEVER && l->state != STATE_DEAD)
        json_time(&w, l->m.due_us);
    else if (breaker != NULL && breaker->until_us > now_us && breaker->until_us != PR_NEVER)
        json_time(&w, breaker->until_us);
    else
        json_cstr(&w, NULL);
    json_key(&w, "breaker");
    breaker_json(&w, breaker, now_us);
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

int run_why(struct cli *cli)
{
    struct query_reply reply;
    int code = message_find(cli, &reply);

    for (size_t i = 0; code == EXIT_DONE && i < reply.listed_count; i++) {
        if (cli->json) {
            print_json(cli, &reply, &reply.listed[i]);
            continue;
        }
        if (i > 0)
            printf("\n");
        say_all(cli, &reply, &reply.listed[i]);
    }
    return code;
}
