/* What people learn about an endpoint through the store: its latest failure, and which of its breakers are not closed.
 *
 * A breaker is reported once when it opens, opens again or closes, with the next cycle: the report stays in that cycle
 * until the cycle has landed, whatever its answer.  A new instance reports all that are not closed, since the store
 * forgot them with the former instance.  Half-open is not reported: it follows from the time alone. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "engine/internal.h"

#define CODE_CHARS 64
#define REPORTS_MAX 256 /* in one cycle; the others follow with the next */

char *text_copy(pr_slice text, size_t chars)
{
    struct buf b;
    char *copy;

    buf_init(&b, 8 * chars);
    utf8_clean(&b, utf8_cut(text, chars));
    copy = buf_failed(&b) == 0 ? strndup(buf_slice(&b).data, b.size) : NULL;
    buf_fini(&b);
    return copy;
}

/* ---- Failures --------------------------------------------------------------------------------- */

void last_failure_set(struct last_failure *m, const struct failure *f)
{
    last_failure_fini(m);
    m->reason = f->reason;
    m->code = text_copy(f->code, CODE_CHARS);
    m->error = text_copy(f->error, PR_ERROR_MAX);
}

void last_failure_copy(struct last_failure *m, const struct last_failure *from)
{
    last_failure_fini(m);
    m->reason = from->reason;
    m->code = from->code != NULL ? strdup(from->code) : NULL;
    m->error = from->error != NULL ? strdup(from->error) : NULL;
}

/* ---- Breakers --------------------------------------------------------------------------------- */

static void report_add(struct engine *e, struct endpoint_breaker *b)
{
    if (!list_is_linked(&b->report))
        list_push_back(&e->plan.reports, &b->report);
}

static void report_drop(struct endpoint_breaker *b)
{
    if (list_is_linked(&b->report))
        list_remove(&b->report);
}

void report_opened(struct engine *e, struct endpoint_breaker *b)
{
    b->since_us = b->shared->since_us;
    last_failure_copy(&b->last_failure, &b->shared->last_failure);
    report_add(e, b);
}

void report_closed(struct engine *e, struct endpoint_breaker *b)
{
    last_failure_fini(&b->last_failure);
    if (b->stored || b->planned)
        report_add(e, b);
    else
        report_drop(b); /* it was never reported as open */
}

bool report_is_over(const struct endpoint_breaker *b)
{
    return !b->stored && !b->planned && !list_is_linked(&b->report);
}

static int failed_probes(const struct endpoint_breaker *b)
{
    return b->seen.opened > 0 ? b->seen.opened - 1 : 0;
}

static struct breaker_change change_of(struct engine *e, const struct endpoint_breaker *b, int64_t now_us)
{
    struct breaker_change c = { .endpoint = b->endpoint->setting->name, .type = b->type };

    if (b->seen.state == BREAKER_CLOSED)
        return c;
    c.open = true;
    c.age_us = max64(now_us - b->since_us, 0);
    c.for_us = b->seen.until_us == PR_NEVER ? PR_NEVER : max64(b->seen.until_us - now_us, 0);
    c.probes = failed_probes(b);
    c.reason = b->last_failure.reason;
    c.code = slice_dup(&e->plan.arena, pr_str(b->last_failure.code));
    c.error = slice_dup(&e->plan.arena, pr_str(b->last_failure.error));
    return c;
}

void reports_plan(struct engine *e, int64_t now_us)
{
    struct breaker_change *changes;
    size_t count = 0;

    if (list_is_empty(&e->plan.reports))
        return;
    changes = arena_alloc(&e->plan.arena, REPORTS_MAX * sizeof(*changes));
    e->plan.planned_reports = arena_alloc(&e->plan.arena, REPORTS_MAX * sizeof(struct endpoint_breaker *));
    if (changes == NULL || e->plan.planned_reports == NULL)
        return; /* they stay for the next cycle */
    while (count < REPORTS_MAX && !list_is_empty(&e->plan.reports)) {
        struct endpoint_breaker *b = LIST_ENTRY(list_pop_front(&e->plan.reports), struct endpoint_breaker, report);

        b->planned = true;
        changes[count] = change_of(e, b, now_us);
        e->plan.planned_reports[count] = b;
        count++;
    }
    e->plan.cycle.breakers = changes;
    e->plan.cycle.breaker_count = count;
}

void reports_committed(struct engine *e)
{
    for (size_t i = 0; i < e->plan.cycle.breaker_count; i++) {
        struct endpoint_breaker *b = e->plan.planned_reports[i];

        b->planned = false;
        b->stored = e->plan.cycle.breakers[i].open;
        endpoint_breaker_release(b);
    }
}

static void report_anew(struct engine *e, struct endpoint_breaker *b)
{
    b->stored = b->planned = false;
    if (b->seen.state != BREAKER_CLOSED)
        report_add(e, b);
    else
        report_drop(b);
    endpoint_breaker_release(b);
}

void reports_anew(struct engine *e)
{
    for (size_t i = 0; i < e->endpoint_count; i++) {
        struct endpoint *ep = &e->endpoints[i];

        report_anew(e, &ep->gate);
        map_foreach(node, &ep->breakers)
            report_anew(e, MAP_ENTRY(node, struct endpoint_breaker, node));
    }
}

/* ---- Looking in ------------------------------------------------------------------------------- */

static void view_add(const struct endpoint_breaker *b, struct breaker_view *ret, size_t max, size_t *count)
{
    if (b->seen.state == BREAKER_CLOSED)
        return;
    if (*count < max)
        ret[*count] = (struct breaker_view){ b->endpoint->index,   b->type,
                                             failed_probes(b),     b->last_failure.reason,
                                             b->last_failure.code, b->last_failure.error };
    ++*count;
}

size_t engine_breakers(const struct engine *e, struct breaker_view *ret, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < e->endpoint_count; i++) {
        view_add(&e->endpoints[i].gate, ret, max, &count);
        map_foreach(node, &e->endpoints[i].breakers)
            view_add(MAP_ENTRY(node, struct endpoint_breaker, node), ret, max, &count);
    }
    return count;
}

bool engine_breakers_are_stored(const struct engine *e)
{
    return list_is_empty(&e->plan.reports);
}
