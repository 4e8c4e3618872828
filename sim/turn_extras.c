/* See turn_extras.h. */
#include "turn_extras.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define MAIL_MAX 512

static bool brings_mail(unsigned number)
{
    return number % 3 == 0;
}

static bool brings_mail_twice(unsigned number)
{
    return number % 6 == 0;
}

/* The flow begins: kept mail is removed.  Its turn keeps none then. */
static bool takes_mail(unsigned number)
{
    return number % 20 == 11;
}

static bool brings_execution(unsigned number)
{
    return number % 7 == 4;
}

static pr_id id_of(uint8_t kind, unsigned number)
{
    return (pr_id){ { kind, (uint8_t)(number >> 8), (uint8_t)number } };
}

static pr_id mail_id(unsigned number)
{
    return id_of(4, number);
}

static pr_id execution_id(unsigned number)
{
    return id_of(5, number);
}

/* "w/f0" has not begun, and only f0 writes to it. */
static pr_slice waiting_flow(pr_slice flow, char name[8])
{
    int size = snprintf(name, 8, "w/%.*s", SLICE_ARGS(flow));
    return (pr_slice){ name, (size_t)size };
}

unsigned turn_read_number(pr_slice events, size_t *at)
{
    unsigned number = 0;
    for (; *at < events.size && events.data[*at] != '\n'; (*at)++)
        number = number * 10 + (unsigned)(events.data[*at] - '0');
    (*at)++;
    return number;
}

/* ---- Bringing ------------------------------------------------------------------------------------- */

static void bring(struct send_effect **list, const struct send_effect *effect)
{
    struct send_effect *copy = send_effect_copy(effect);
    ASSERT(copy != NULL);
    copy->next = NULL;
    effects_append(list, copy);
}

static void bring_mail(struct send_effect **list, pr_slice flow, unsigned number)
{
    char name[8];
    struct send_effect mail = { .effect = { .kind = EFFECT_MAIL, .key = waiting_flow(flow, name) } };
    if (number % 2 == 0)
        mail.effect.keep_us = PR_SECONDS(86400) * 365;
    mail.message = (struct pr_message){ .id = mail_id(number), .type = PR_STR("mail"), .payload = PR_STR("hello") };
    bring(list, &mail);
    if (brings_mail_twice(number))
        bring(list, &mail);
}

static void take_mail(struct send_effect **list, pr_slice flow)
{
    char name[8];
    bring(list, &(struct send_effect){ .effect = { .kind = EFFECT_MAIL, .key = waiting_flow(flow, name) } });
}

static void bring_execution(struct send_effect **list, pr_slice flow, unsigned number)
{
    const struct flow_row row = { .id = flow,
                                  .name = PR_STR("sim"),
                                  .version = PR_STR("1"),
                                  .execution = execution_id(number),
                                  .state = FLOW_CONTINUED };
    bring(list, &(struct send_effect){ .effect = { .kind = EFFECT_EXECUTION, .flow = &row } });
}

struct send_effect *turn_extras_make(const struct delivery *first)
{
    struct send_effect *list = NULL;
    pr_slice flow = first->message->stream;
    bool takes = false;
    for (const struct delivery *d = first; d != NULL; d = d->run_next)
        takes |= takes_mail(turn_read_number(d->message->payload, &(size_t){ 0 }));
    if (takes)
        take_mail(&list, flow);
    for (const struct delivery *d = first; d != NULL; d = d->run_next) {
        unsigned number = turn_read_number(d->message->payload, &(size_t){ 0 });
        if (!takes && brings_mail(number))
            bring_mail(&list, flow, number);
        if (brings_execution(number))
            bring_execution(&list, flow, number);
    }
    return list;
}

/* ---- Checking --------------------------------------------------------------------------------------- */

/* The expected content when exactly these turns are committed. */
struct expected {
    pr_id mail[MAIL_MAX], executions[MAIL_MAX];
    size_t mail_count, execution_count;
};

static void expect_turn(struct expected *x, pr_slice events)
{
    bool takes = false;
    for (size_t at = 0; at < events.size;)
        takes |= takes_mail(turn_read_number(events, &at));
    if (takes)
        x->mail_count = 0;
    for (size_t at = 0; at < events.size;) {
        unsigned number = turn_read_number(events, &at);
        ASSERT(x->mail_count < MAIL_MAX && x->execution_count < MAIL_MAX);
        if (!takes && brings_mail(number))
            x->mail[x->mail_count++] = mail_id(number);
        if (brings_execution(number))
            x->executions[x->execution_count++] = execution_id(number);
    }
}

static size_t find_id(const pr_id *ids, size_t count, pr_id id)
{
    size_t at = 0;
    while (at < count && !pr_id_equal(ids[at], id))
        at++;
    return at;
}

static void ask(struct store *store, enum query_kind kind, pr_slice flow, struct arena *arena, struct query_reply *ret)
{
    const struct query query = { .kind = kind, .flow.id = flow, .filter = { .state = -1, .limit = 1000 } };
    int rc = store_query(store, &query, arena, ret, NULL);
    ASSERT(rc == PR_OK);
}

const char *turn_extras_check(struct store *store, pr_slice flow, const struct flow_turn_row *turns, size_t count,
                              struct arena *arena)
{
    struct expected x = { .mail_count = 0 };
    struct query_reply reply;
    char name[8];
    size_t ended = 0;
    for (size_t i = 0; i < count; i++)
        expect_turn(&x, turns[i].events);
    ask(store, QUERY_FLOW, waiting_flow(flow, name), arena, &reply);
    for (size_t i = 0; i < reply.mail_count; i++)
        if (find_id(x.mail, x.mail_count, reply.mail[i].id) == x.mail_count)
            return "mail is kept that no turn has left there";
    if (reply.mail_count != x.mail_count)
        return reply.mail_count < x.mail_count ? "the mail of a turn is missing" : "the mail of a turn is kept twice";
    ask(store, QUERY_FLOW_EXECUTIONS, flow, arena, &reply);
    for (size_t i = 0; i < reply.flow_count; i++)
        ended += find_id(x.executions, x.execution_count, reply.flows[i].execution) < x.execution_count;
    if (ended != x.execution_count)
        return "an execution that ended within a turn is missing, or there twice";
    if (reply.flow_count != ended + (count > 0))
        return "an execution is there that no turn has ended";
    return NULL;
}
