/* The commands of a flow function: activities, timers, waits, children, recorded values. */
#include <postrider_flow.h>

#include <string.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "core/id.h"
#include "core/message.h"
#include "flow/flow_id.h"
#include "flow/machine.h"

#define RETRY_FACTOR_MAX 1000.0

static bool is_text(const char *text, size_t max)
{
    pr_slice s = slice_from(text);
    return s.size > 0 && s.size <= max && utf8_valid(s);
}

static pr_task refuse(pr_flow *f, const char *what)
{
    return (pr_task){ f->inert ? PR_SUSPEND : machine_fault(f, PR_EINVAL, "%s", what) };
}

static struct flow_more *new_more(pr_flow *f)
{
    struct flow_more *more = arena_zalloc(f->arena, sizeof(*more));
    if (more == NULL)
        machine_no_memory(f);
    return more;
}

/* ---- Activities ------------------------------------------------------------------------------------ */

static const char *options_defect(const struct pr_activity_options *o)
{
    const struct pr_retry *r = &o->retry;
    if (r->tries < 0 || (int)r->backoff < PR_BACKOFF_NONE || r->backoff > PR_BACKOFF_EXPONENTIAL || r->first_us < 0 ||
        r->max_us < 0)
        return "the retry policy of an activity has a value that is negative or unknown";
    if (!(r->factor >= 0 && r->factor <= RETRY_FACTOR_MAX) || !(r->jitter >= 0 && r->jitter <= 1))
        return "the retry policy of an activity needs a factor of at most 1000 and a jitter of at most 1";
    if (o->timeout_us < 0 || o->schedule_to_start_us < 0)
        return "a timeout of an activity is negative";
    if ((o->tag != NULL && !is_text(o->tag, PR_NAME_MAX)) || (o->session != NULL && !is_text(o->session, PR_NAME_MAX)))
        return "tag and session of an activity must have 1 to 255 bytes of text";
    return NULL;
}

/* Kept for the message that is made of it at the end of this turn. */
static void keep_options(pr_flow *f, int64_t task, const struct pr_activity_options *o)
{
    void *options = f->options;
    if (!machine_grow(f, &options, &f->option_capacity, f->option_count, sizeof(f->options[0])))
        return;
    f->options = options;
    f->options[f->option_count++] = (struct fresh_activity){ .task = (int32_t)task,
                                                             .timeout_us = o->timeout_us,
                                                             .schedule_to_start_us = o->schedule_to_start_us,
                                                             .retry = o->retry };
}

PR_API pr_task pr_activity_with(pr_flow *f, const char *name, pr_slice input, const struct pr_activity_options *options)
{
    struct flow_event wanted = { .kind = FLOW_EVENT_ACTIVITY, .name = slice_from(name), .data = input };
    const char *defect = options != NULL ? options_defect(options) : NULL;
    if (!is_text(name, PR_TYPE_MAX))
        defect = "the name of an activity must have 1 to 255 bytes of text";
    if (defect != NULL || f->inert)
        return refuse(f, defect);
    if (options != NULL && (options->tag != NULL || options->session != NULL)) {
        struct flow_more *more = new_more(f);
        if (more == NULL)
            return (pr_task){ PR_SUSPEND };
        more->tag = slice_dup(f->arena, slice_from(options->tag));
        more->session = slice_dup(f->arena, slice_from(options->session));
        if (more->tag.data == NULL || more->session.data == NULL)
            machine_no_memory(f);
        wanted.more = more;
    }
    int64_t number = machine_begin(f, &wanted);
    if (number > 0 && options != NULL && f->tasks[number - 1].fresh)
        keep_options(f, number, options);
    return (pr_task){ number };
}

PR_API pr_task pr_activity(pr_flow *f, const char *name, pr_slice input)
{
    return pr_activity_with(f, name, input, NULL);
}

PR_API int pr_call(pr_flow *f, const char *name, pr_slice input, pr_slice *ret_output)
{
    return pr_result(f, pr_activity(f, name, input), ret_output, NULL);
}

/* ---- Timers, events, mail ----------------------------------------------------------------------------- */

PR_API pr_task pr_timer_at(pr_flow *f, int64_t at_us)
{
    struct flow_event wanted = { .kind = FLOW_EVENT_TIMER, .value = at_us };
    if (at_us < TIME_MIN_US || at_us > TIME_MAX_US)
        return refuse(f, "the time of a timer must be Unix microseconds of the years 2000 to 2299");
    return (pr_task){ machine_begin(f, &wanted) };
}

PR_API pr_task pr_timer(pr_flow *f, int64_t after_us)
{
    if (after_us < 0 || after_us > TIME_MAX_US - f->now_us)
        return refuse(f, "the delay of a timer must not be negative, and must end before the year 2300");
    return pr_timer_at(f, time_add(f->now_us, after_us));
}

static pr_task wait_for(pr_flow *f, int kind, const char *name)
{
    struct flow_event wanted = { .kind = (uint8_t)kind, .name = slice_from(name) };
    if (!is_text(name, PR_TYPE_MAX))
        return refuse(f, "the name of an event or a mailbox must have 1 to 255 bytes of text");
    return (pr_task){ machine_begin(f, &wanted) };
}

PR_API pr_task pr_event(pr_flow *f, const char *name)
{
    return wait_for(f, FLOW_EVENT_WAIT, name);
}

PR_API pr_task pr_mail(pr_flow *f, const char *name)
{
    return wait_for(f, FLOW_EVENT_WAIT_MAIL, name);
}

/* ---- Children -------------------------------------------------------------------------------------------- */

/* A child without a name of its own gets that of its task, which is unique. */
static void give_id(pr_flow *f, int64_t number, struct flow_more *more)
{
    char text[PR_ID_TEXT_SIZE];
    if (more->id.size > 0)
        return;
    pr_id_format(flow_task_id(f->execution, number), text);
    more->id = slice_dup(f->arena, slice_from(text));
    if (more->id.data == NULL)
        machine_no_memory(f);
}

static int64_t begin_flow(pr_flow *f, int kind, const char *name, pr_slice input, const struct pr_child_options *o)
{
    struct flow_event wanted = { .kind = (uint8_t)kind, .name = slice_from(name), .data = input };
    if (f->inert)
        return PR_SUSPEND;
    if (!is_text(name, PR_TYPE_MAX))
        return machine_fault(f, PR_EINVAL, "the name of a flow must have 1 to 255 bytes of text");
    if (o != NULL &&
        ((o->id != NULL && !is_text(o->id, PR_NAME_MAX)) || (o->version != NULL && !is_text(o->version, PR_NAME_MAX))))
        return machine_fault(f, PR_EINVAL, "id and version of a flow must have 1 to 255 bytes of text");
    struct flow_more *more = new_more(f);
    if (more == NULL)
        return PR_SUSPEND;
    more->id = slice_dup(f->arena, slice_from(o != NULL ? o->id : NULL));
    more->version = slice_dup(f->arena, slice_from(o != NULL ? o->version : NULL));
    if (more->id.data == NULL || more->version.data == NULL)
        machine_no_memory(f);
    wanted.more = more;
    int64_t number = machine_begin(f, &wanted);
    if (number > 0 && f->tasks[number - 1].fresh)
        give_id(f, number, more);
    return number;
}

PR_API pr_task pr_child_with(pr_flow *f, const char *name, pr_slice input, const struct pr_child_options *options)
{
    return (pr_task){ begin_flow(f, FLOW_EVENT_CHILD, name, input, options) };
}

PR_API pr_task pr_child(pr_flow *f, const char *name, pr_slice input)
{
    return pr_child_with(f, name, input, NULL);
}

PR_API int pr_detach(pr_flow *f, const char *name, pr_slice input, const struct pr_child_options *options)
{
    int64_t number = begin_flow(f, FLOW_EVENT_DETACHED, name, input, options);
    return number > 0 ? PR_OK : (int)number;
}

/* ---- Recorded values ---------------------------------------------------------------------------------------- */

PR_API int64_t pr_now(pr_flow *f)
{
    struct flow_event wanted = { .kind = FLOW_EVENT_NOW, .value = f->now_us };
    const struct flow_event *e = machine_command(f, &wanted);
    return e != NULL ? e->value : 0;
}

PR_API uint64_t pr_random(pr_flow *f)
{
    struct flow_event wanted = { .kind = FLOW_EVENT_RANDOM, .value = (int64_t)random_u64(&f->random) };
    const struct flow_event *e = machine_command(f, &wanted);
    return e != NULL ? (uint64_t)e->value : 0;
}

PR_API pr_id pr_uuid(pr_flow *f)
{
    char text[PR_ID_TEXT_SIZE];
    uint64_t random[2] = { random_u64(&f->random), random_u64(&f->random) };
    pr_id id, none = { { 0 } };
    struct flow_more *more = f->inert ? NULL : new_more(f);
    if (more == NULL)
        return none;
    id_make(f->now_us / 1000, (const uint8_t *)random, &id);
    pr_id_format(id, text);
    more->id = slice_dup(f->arena, slice_from(text));
    struct flow_event wanted = { .kind = FLOW_EVENT_UUID, .more = more };
    const struct flow_event *e = machine_command(f, &wanted);
    return e != NULL && pr_id_parse(e->more->id, &id) == PR_OK ? id : none;
}
