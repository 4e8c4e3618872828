#include "cli/top/top_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "cli/command/why.h"
#include "ops/endpoint.h"

#define STEP_ROWS 1000 /* dead letters in one transaction; also the API's limit */

/* ---- Orders ---- */

static struct admin admin_for(const struct top_job *e)
{
    const struct order *o = &e->order;
    struct admin admin = { .filter.state = -1, .by = e->by };

    switch (o->kind) {
    case ORDER_PAUSE:
    case ORDER_RESUME:
        admin.kind = o->kind == ORDER_PAUSE ? ADMIN_PAUSE : ADMIN_RESUME;
        admin.filter.endpoint = slice_from(o->name);
        admin.until_us = o->kind == ORDER_PAUSE ? PR_NEVER : 0;
        break;
    case ORDER_REPLAY_GROUP:
        admin.kind = ADMIN_DEAD_REPLAY;
        admin.filter.fingerprint = slice_from(o->name);
        break;
    default:
        admin.kind = o->kind == ORDER_RETRY ? ADMIN_RETRY : ADMIN_DEAD_REPLAY;
        admin.filter.ids = &o->id;
        admin.filter.id_count = 1;
    }
    return admin;
}

/* In steps.  Letters that die again meanwhile are excluded: otherwise they would be replayed endlessly. */
static int replay_group(struct top_job *e, struct admin *admin, struct admin_reply *sum)
{
    struct admin_reply step;
    int rc;

    admin->filter.limit = STEP_ROWS;
    do {
        step = (struct admin_reply){ 0 };
        rc = store_admin(&e->cli->store, admin, &step, &e->error);
        sum->changed += step.changed;
        sum->refused += step.refused;
        admin->filter.after = step.last_row;
        if (admin->filter.newest_row == 0)
            admin->filter.newest_row = step.newest_row;
    } while (rc == PR_OK && step.more);
    if (rc != PR_OK && sum->changed > 0)
        (void)error_set(&e->error, rc, "only %" PRIu64 " were replayed: %s", sum->changed, e->error.text);
    return rc;
}

static void report(struct top_job *e, const struct admin_reply *r)
{
    const struct order *o = &e->order;
    const char *done = o->kind == ORDER_RETRY ? "retried" : "replayed";

    if (o->kind == ORDER_PAUSE)
        (void)snprintf(e->said, sizeof(e->said), "%.200s %s", o->name,
                       r->changed > 0 ? "is paused until resumed" : "was already paused");
    else if (o->kind == ORDER_RESUME)
        (void)snprintf(e->said, sizeof(e->said), "%.200s %s", o->name,
                       r->changed > 0 ? "is resumed" : "was not paused");
    else if (r->changed == 0)
        e->rc = error_set(&e->error, PR_ENOTFOUND, "nothing was %s: %s", done,
                          r->refused > 0 ? "its state does not allow it" : "it no longer exists");
    else if (r->refused > 0)
        (void)snprintf(e->said, sizeof(e->said), "%" PRIu64 " %s, %" PRIu64 " refused", r->changed, done, r->refused);
    else
        (void)snprintf(e->said, sizeof(e->said), "%" PRIu64 " %s", r->changed, done);
}

static void run_order(struct top_job *e)
{
    struct admin admin = admin_for(e);
    struct admin_reply reply = { 0 };

    e->rc = e->order.kind == ORDER_REPLAY_GROUP ? replay_group(e, &admin, &reply)
                                                : store_admin(&e->cli->store, &admin, &reply, &e->error);
    if (e->rc == PR_OK)
        report(e, &reply);
}

/* ---- Open ---- */

static void say_group(struct top_job *e, struct arena *arena, FILE *out)
{
    for (size_t i = 0; e->before != NULL && e->pane == PANE_GROUPS && i < e->before->group_count; i++) {
        const struct dead_group *g = &e->before->groups[i];

        if (memcmp(&g->sample, &e->id, sizeof(e->id)) != 0)
            continue;
        fprintf(out, "Group %.*s: %s dead %s, the first %s ago, the latest %s ago. One of them:\n\n",
                SLICE_ARGS(g->fingerprint), count_bounded(arena, g->count), g->count == 1 ? "letter" : "letters",
                span_words(arena, e->before->now_us - g->first_us), span_words(arena, e->before->now_us - g->last_us));
    }
}

static void say_message(struct top_job *e, struct cli *cli, FILE *out)
{
    struct query query = { .kind = QUERY_ID,
                           .ended = true,
                           .filter = { .state = -1, .ids = &e->id, .id_count = 1, .routing = &cli->routing.routing } };
    struct query_reply reply;

    e->rc = store_query(&cli->store, &query, &cli->arena, &reply, &e->error);
    if (e->rc != PR_OK)
        return;
    messages_see_routes(cli->config, &reply);
    say_group(e, &cli->arena, out);
    for (size_t i = 0; e->rc == PR_OK && i < reply.listed_count; i++) {
        fprintf(out, "%s", i > 0 ? "\n" : "");
        e->rc = why_print(cli, &reply, &reply.listed[i], out, &e->error);
    }
    if (reply.listed_count == 0)
        fprintf(out, "It no longer exists: it ended longer ago than `ended` (default 24h) keeps.\n");
}

static const struct view_endpoint *find_endpoint(const struct top_job *e)
{
    for (size_t i = 0; e->before != NULL && i < e->before->endpoint_count; i++)
        if (slice_eq_cstr(e->before->endpoints[i].name, e->name))
            return &e->before->endpoints[i];
    return NULL;
}

static void say_state(const struct view_endpoint *n, struct arena *arena, int64_t now_us, FILE *out)
{
    switch (n->state) {
    case VIEW_OPEN:
    case VIEW_HALF_OPEN:
        fprintf(out, "It has been failing for %s: its messages wait, and no failures are counted.",
                span_words(arena, now_us - n->since_us));
        if (n->until_us > now_us && n->until_us != PR_NEVER)
            fprintf(out, " The next probe is in %s.\n", span_words(arena, n->until_us - now_us));
        else
            fprintf(out, " The next message is the probe.\n");
        break;
    case VIEW_PAUSED:
        if (n->until_us == PR_NEVER)
            fprintf(out, "It is paused until you resume it.\n");
        else
            fprintf(out, "It is paused for another %s.\n", span_words(arena, n->until_us - now_us));
        break;
    case VIEW_SENDS: fprintf(out, "It is active.\n"); break;
    default: fprintf(out, "It is not in the configuration.\n");
    }
    if (n->why.size > 0)
        fprintf(out, "%.*s\n", SLICE_ARGS(n->why));
}

static void say_last_failure(const struct view_endpoint *n, struct arena *arena, int64_t now_us, FILE *out)
{
    if (n->last_failed_us == 0) {
        fprintf(out, "\nIt never failed.\n");
        return;
    }
    fprintf(out, "\nThe latest failure was %s ago: %s%s%.*s\n", span_words(arena, now_us - n->last_failed_us),
            pr_reason_name(n->last_reason), n->last_error.size > 0 ? ": " : "", SLICE_ARGS(n->last_error));
}

static void say_endpoint(struct top_job *e, struct cli *cli, FILE *out)
{
    const struct view_endpoint *n = find_endpoint(e);
    struct arena *arena = &cli->arena;

    if (n == NULL) {
        fprintf(out, "It is no longer in the list.\n");
        return;
    }
    fprintf(out, "Endpoint %s\n\n", e->name);
    say_state(n, arena, e->before->now_us, out);
    fprintf(out, "\nSent %s, failed %s, dead %s.\n", count_human(arena, n->sent), count_human(arena, n->failed),
            count_human(arena, n->dead));
    say_last_failure(n, arena, e->before->now_us, out);
    fprintf(out,
            "\nMore about it\n"
            "  postrider list --endpoint %s\n"
            "  postrider dead groups --endpoint %s\n"
            "  postrider endpoints test %s\n",
            shell_quote(arena, slice_from(e->name)), shell_quote(arena, slice_from(e->name)),
            shell_argument(arena, slice_from(e->name)));
}

static void run_open(struct top_job *e)
{
    struct cli own = *e->cli; /* with an arena that is freed here */
    size_t size = 0;
    FILE *out = open_memstream(&e->text, &size);

    if (out == NULL) {
        e->rc = error_set(&e->error, PR_ENOMEM, "out of memory for the text");
        return;
    }
    own.color = false;
    arena_init(&own.arena, 65536);
    if (pr_id_is_zero(e->id))
        say_endpoint(e, &own, out);
    else
        say_message(e, &own, out);
    arena_fini(&own.arena);
    if (fclose(out) != 0 && e->rc == PR_OK)
        e->rc = error_set(&e->error, PR_ENOMEM, "out of memory for the text");
}

void top_job_run(struct top_job *e)
{
    e->rc = PR_OK;
    switch (e->kind) {
    case TOP_JOB_LOOK:
        e->rc = view_ask(e->view, &e->cli->store, e->config, e->before, clock_mono_us(clock_system()), &e->error);
        break;
    case TOP_JOB_ORDER: run_order(e); break;
    default: run_open(e);
    }
}
