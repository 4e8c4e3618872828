/* One turn of a flow: its waiting messages, its history (kept from the turn before, or read), its code, and the
 * resulting effects of the verdict. */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "core/offer.h"
#include "flow/machine.h"
#include "flow/turn_message.h"
#include "runtime/flow/internal.h"
#include "runtime/flow/watch.h"

#define TURN_BLOCK ((size_t)8 << 10)
#define AGAIN_US PR_SECONDS(1)       /* pause after a fault of the store, or without memory */
#define GATHER_TASKS 64              /* a flow that waits for more tasks than this ... */
#define GATHER_US PR_MILLISECONDS(2) /* ... does not run for each result alone: every turn replays all of them */

/* The state of a turn from the call to the store's answer. */
struct turn_job {
    struct flows *flows;
    struct arena arena;
    struct hot_flow *hot;    /* owned; NULL: the flow is unknown, or has ended */
    struct hot_flow *failed; /* owned; of a flow that is resumed: as it was when it failed */
    pr_slice flow;
    const struct pr_message **messages; /* the run */
    size_t count;
    struct query_reply stored; /* the result of the query, if the flow was read */
    struct flow_turn_out out;
};

static void job_free(struct turn_job *job)
{
    hot_flow_free(job->hot);
    hot_flow_free(job->failed);
    arena_fini(&job->arena);
    free(job);
}

/* The turn does not run now: what is cached about the flow is still true. */
static void job_drop(struct turn_job *job)
{
    if (job->hot != NULL && job->hot->history.count > 0 && job->out.kind != FLOW_TURN_DONE)
        hot_put(&job->flows->hot, job->hot);
    else
        hot_flow_free(job->hot);
    job->hot = NULL;
    job_free(job);
}

static bool job_take_run(struct turn_job *job, const struct delivery *first)
{
    for (const struct delivery *d = first; d != NULL; d = d->run_next)
        job->count++;
    job->messages = arena_alloc_array(&job->arena, job->count, sizeof(job->messages[0]));
    if (job->messages == NULL)
        return false;
    size_t i = 0;
    for (const struct delivery *d = first; d != NULL; d = d->run_next)
        job->messages[i++] = d->message;
    job->flow = first->message->stream;
    return true;
}

static struct turn_job *job_new(struct flows *f, const struct delivery *first)
{
    struct turn_job *job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    job->flows = f;
    arena_init(&job->arena, TURN_BLOCK);
    if (!job_take_run(job, first)) {
        job_free(job);
        return NULL;
    }
    return job;
}

/* ---- What is known of it ---------------------------------------------------------------------------- */

static bool is_first_turn(const struct flow_row *row)
{
    return row == NULL || flow_has_ended(row) || row->next == 0;
}

/* Decodes the stored history; *ret_damaged says why it cannot be used. */
static int decode(struct turn_job *job, const struct flow_row *row, struct hot_flow **ret, pr_slice *ret_damaged)
{
    struct pr_error error = { 0 };
    int rc = PR_OK;
    *ret = hot_flow_new(row);
    if (*ret == NULL)
        return PR_ENOMEM;
    struct flow_history *h = &(*ret)->history;
    for (size_t i = 0; rc == PR_OK && i < job->stored.turn_count; i++)
        rc = flow_history_decode(h, job->stored.turns[i].events, &error);
    if (rc == PR_ENOMEM)
        return rc;
    if (rc != PR_OK)
        *ret_damaged = slice_dup(&job->arena, slice_from(error.text));
    else if (h->count != (size_t)row->next)
        *ret_damaged = arena_printf(&job->arena, "its history has %zu events, but its row says %lld", h->count,
                                    (long long)row->next);
    if (rc != PR_OK || h->count != (size_t)row->next) {
        hot_flow_free(*ret);
        *ret = NULL;
    }
    return PR_OK;
}

static int read_failed(struct turn_job *job, struct flow_turn_in *in)
{
    bool resumes;
    int rc = flow_turn_resumes(in->row, job->messages, job->count, &job->arena, &resumes);
    if (rc == PR_OK && resumes)
        rc = decode(job, in->row, &job->failed, &in->damaged);
    in->history = job->failed != NULL ? &job->failed->history : NULL;
    return rc;
}

static int read_flow(struct turn_job *job, struct flow_turn_in *in, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = job->flow } };
    int rc = store_query(job->flows->options.store, &query, &job->arena, &job->stored, reterr);
    if (rc < 0)
        return rc;
    in->row = job->stored.flow_count > 0 ? &job->stored.flows[0] : NULL;
    if (!is_first_turn(in->row)) {
        rc = decode(job, in->row, &job->hot, &in->damaged);
        in->history = job->hot != NULL ? &job->hot->history : NULL;
        return rc;
    }
    struct flow_value *values = arena_alloc_array(&job->arena, job->stored.value_count, sizeof(*values));
    const struct pr_message **mail = arena_alloc_array(&job->arena, job->stored.mail_count, sizeof(mail[0]));
    if (values == NULL || mail == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a flow");
    for (size_t i = 0; i < job->stored.value_count; i++)
        values[i] = (struct flow_value){ job->stored.values[i].key, job->stored.values[i].value };
    for (size_t i = 0; i < job->stored.mail_count; i++)
        mail[i] = &job->stored.mail[i];
    in->state = values;
    in->state_count = job->stored.value_count;
    in->mail = mail;
    in->mail_count = job->stored.mail_count;
    return read_failed(job, in);
}

static bool has_start(const struct turn_job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (slice_eq_cstr(job->messages[i]->type, turn_message_type(TURN_START)))
            return true;
    return false;
}

/* Is it the start of a flow with a newly generated id, and is this its first hand-out?  Then nothing is stored about the
 * flow, and nothing needs to be read.  If that is wrong, the guard of the turn refuses it, the message comes again, and its
 * story says so.  But mail may have come while the start waited for its time: no guard finds that. */
static bool is_unheard_of(struct turn_job *job)
{
    const struct pr_message *m = job->messages[0];
    struct turn_message start;
    struct pr_error ignored;

    return m->attempts == 0 && m->failures == 0 && m->due_us == 0 && m->story.size == 0 &&
           slice_eq_cstr(m->type, turn_message_type(TURN_START)) &&
           turn_message_read(m, &job->arena, &start, &ignored) == PR_OK && start.unheard_of;
}

/* The cache is trusted, since the guard of the turn finds out when it is wrong; but a needless start makes no turn, and
 * it is not needless if the flow was deleted meanwhile. */
static int find_flow(struct turn_job *job, struct flow_turn_in *in, struct pr_error *reterr)
{
    job->hot = hot_take(&job->flows->hot, job->flow);
    if (job->hot != NULL && has_start(job)) {
        hot_flow_free(job->hot);
        job->hot = NULL;
    } else if (job->hot == NULL && is_unheard_of(job))
        return PR_OK;
    if (job->hot == NULL)
        return read_flow(job, in, reterr);
    in->row = job->hot->row;
    in->history = &job->hot->history;
    return PR_OK;
}

/* ---- When the store has answered --------------------------------------------------------------------- */

static void write_log(const struct turn_job *job)
{
    for (const struct flow_log_line *line = job->out.log; line != NULL; line = line->next)
        log_emit(job->flows->options.log, line->warning ? LOG_WARN : LOG_INFO, "flow", LOG_SLICE("flow", job->flow),
                 LOG_SLICE("name", job->out.row->name), LOG_SLICE("text", line->text));
}

static void count_turn(struct turn_job *job)
{
    struct flows *f = job->flows;
    struct flow_error error;

    ASSERT(pthread_mutex_lock(&f->lock) == 0);
    f->counts.turns++;
    ASSERT(pthread_mutex_unlock(&f->lock) == 0);
    if (job->out.row->state == FLOW_FAILED && flow_error_read(job->out.row->error, &job->arena, &error) == PR_OK)
        flows_count_failure(f, true, error.category);
}

/* The next turn need not read the flow. */
static void keep_hot(struct turn_job *job)
{
    const struct flow_row *row = job->out.row;
    struct pr_error error;

    if (flow_has_ended(row) || !pr_id_equal(row->execution, job->out.execution))
        return; /* or it continues as another execution, which has no history yet */
    if (job->hot == NULL)
        job->hot = hot_flow_new(row);
    if (job->hot == NULL ||
        flow_history_append(&job->hot->history, job->out.events, job->out.event_count, &error) != PR_OK ||
        !hot_flow_set_row(job->hot, row))
        return; /* it will be read again */
    hot_put(&job->flows->hot, job->hot);
    job->hot = NULL;
}

static void turn_settled(void *arg, int answer)
{
    struct turn_job *job = arg;

    if (answer == PR_OK && job->out.kind == FLOW_TURN_DONE) {
        count_turn(job);
        write_log(job);
        keep_hot(job);
        flow_watch_tell(job->flow, flow_has_ended(job->out.row), job->out.row->status_number);
    } else if (answer == PR_OK) {
        job_drop(job);
        return;
    }
    job_free(job);
}

/* ---- The turn ------------------------------------------------------------------------------------------ */

static int add_effects(struct pr_context *context, const struct flow_turn_out *out)
{
    for (size_t i = 0; i < out->effect_count; i++)
        if (!flow_add_effect(context, &out->effects[i]))
            return PR_ENOMEM;
    return PR_OK;
}

/* More results are coming, and each turn replays everything: let some accumulate.  They wait for the end of this
 * turn. */
static void gather(const struct turn_job *job)
{
    const struct flow_history *h = job->hot != NULL ? &job->hot->history : NULL;
    const struct timespec pause = { .tv_nsec = GATHER_US * 1000 };
    size_t open = 0;

    if (h == NULL || h->task_count <= GATHER_TASKS || job->out.kind != FLOW_TURN_DONE || flow_has_ended(job->out.row))
        return;
    for (size_t i = 0; i < h->task_count && open <= GATHER_TASKS + job->count; i++)
        open += h->tasks[i].state == FLOW_TASK_OPEN;
    if (open > GATHER_TASKS + job->count)
        nanosleep(&pause, NULL);
}

/* The first message that cannot be decoded becomes a dead letter; the others of its run come again without it. */
static int refuse_bad(struct turn_job *job, struct pr_context *context)
{
    const struct flow_bad_message *bad = &job->out.bad[0];

    log_emit(job->flows->options.log, LOG_WARN, "turn_undecodable", LOG_SLICE("flow", job->flow),
             LOG_SLICE("error", bad->why));
    const struct delivery *d = context->delivery;
    for (size_t i = 0; i < bad->index; i++)
        d = d->run_next;
    context->blamed = d->token;
    int rc = pr_fail(context, PR_REASON_POISON_MESSAGE, "%.*s", SLICE_ARGS(bad->error));
    job_drop(job);
    return rc;
}

static int unknown(struct turn_job *job, struct pr_context *context, const struct flow_turn_in *in)
{
    struct flows *f = job->flows;
    pr_slice name, version;
    int64_t after_us = AGAIN_US;

    int rc = flow_turn_code(in->row, job->messages, job->count, &job->arena, &name, &version);
    if (rc == PR_OK) {
        context->need = need_of_flow(name, version);
        after_us = flow_unknown_delay_us(flow_unknown_us(f, context),
                                         flows_others_have(f, context->need) ? PR_NEVER : f->setting->unknown_us);
    }
    if (rc != PR_OK)
        rc = flow_postpone(context, after_us, "out of memory for a turn");
    else if (after_us < 0)
        rc = pr_fail(context, PR_REASON_POISON_MESSAGE, "no instance knows flow %.*s%s%.*s", SLICE_ARGS(name),
                     version.size > 0 ? " version " : "", SLICE_ARGS(version));
    else
        rc = flow_postpone(context, after_us, "this instance does not know flow %.*s%s%.*s", SLICE_ARGS(name),
                           version.size > 0 ? " version " : "", SLICE_ARGS(version));
    job_drop(job);
    return rc;
}

/* Why the run is dead: too many hand-outs without an outcome, or it was given up here. */
static struct flow_dead dead_of(const struct delivery_dead *d)
{
    struct flow_dead dead = { .category = PR_CATEGORY_CONFIGURATION, .error = d->error };
    if (slice_eq(d->rule, PR_STR("poison")))
        dead = (struct flow_dead){ .category = PR_CATEGORY_POISON,
                                   .count = d->attempts - d->failures + 1,
                                   .limit = d->limit };
    return dead;
}

static int take_turn(struct turn_job *job, struct pr_context *context)
{
    struct flows *f = job->flows;
    struct flow_dead dead;
    struct pr_error error = { 0 };
    pr_slice name, version;
    struct flow_turn_in in = {
        .flow = job->flow,
        .messages = job->messages,
        .count = job->count,
        .now_us = flows_now_us(f),
        .turns_box = f->turns_box,
        .activities_box = f->activities_box,
        .keep_mail_us = f->setting->keep_mail_us,
        .arena = &job->arena,
    };

    in.seed = flows_random(f);
    in.new_execution = flows_new_id(f);
    in.next_execution = flows_new_id(f);
    int rc = find_flow(job, &in, &error);
    if (rc == PR_OK && context->delivery->dead != NULL) {
        dead = dead_of(context->delivery->dead);
        in.dead = &dead;
    } else if (rc == PR_OK && flow_turn_code(in.row, in.messages, in.count, in.arena, &name, &version) == PR_OK) {
        in.code = flow_registry_find(&f->options.program->flows, name, version);
    }
    if (rc == PR_OK)
        rc = flow_turn(&in, &job->out, &error);
    if (rc == PR_OK && job->out.bad_count > 0 && in.dead == NULL)
        return refuse_bad(job, context);
    if (rc == PR_OK && job->out.kind == FLOW_TURN_UNKNOWN)
        return unknown(job, context, &in);
    if (rc == PR_OK)
        rc = add_effects(context, &job->out);
    if (rc == PR_OK && in.code != NULL && atomic_load(&f->turns_mixed))
        context->need = need_of_flow(in.code->name, in.code->version);
    if (rc != PR_OK) {
        rc = flow_postpone(context, AGAIN_US, "the turn could not be run: %s",
                           error.text[0] != '\0' ? error.text : "out of memory");
        job_free(job);
        return rc;
    }
    context->settled = turn_settled;
    context->settled_arg = job;
    gather(job);
    return PR_OK;
}

int flow_run_turn(struct pr_context *context, const struct pr_message *message, void *user)
{
    struct turn_job *job = job_new(user, context->delivery);

    (void)message; /* the delivery contains the whole run */
    if (job == NULL)
        return flow_postpone(context, AGAIN_US, "out of memory for a turn");
    return take_turn(job, context);
}
