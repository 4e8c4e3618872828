#include "runtime/incident.h"

#include <stdio.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "policy/policy.h"

static void text_copy(char *ret, size_t size, pr_slice text)
{
    snprintf(ret, size, "%.*s", SLICE_ARGS(utf8_cut_bytes(text, size - 1)));
}

static void ring_add(struct incident_ring *ring, const struct incident *incident)
{
    ring->entries[ring->count++ % INCIDENTS_MAX] = *incident;
}

/* The step that was taken, or NULL when the verdict is not about a failure. */
static const char *verdict_step(const struct verdict *v)
{
    switch (v->kind) {
    case VERDICT_FAIL: return step_name(v->delay_us == PR_NEVER ? STEP_PARK : STEP_RETRY);
    case VERDICT_PARK: return v->reason != PR_REASON_NONE ? step_name(STEP_PARK) : NULL;
    case VERDICT_DISCARD: return v->reason != PR_REASON_NONE ? step_name(STEP_DISCARD) : NULL;
    case VERDICT_DEAD_LETTER: return step_name(STEP_DEAD_LETTER);
    default: return NULL;
    }
}

bool incident_note(struct incident_ring *failures, struct incident_ring *deaths, const struct verdict *verdict,
                   int64_t store_now_us, uint64_t number)
{
    const char *step = verdict_step(verdict);
    if (step == NULL)
        return false;
    struct incident i = { .at_us = store_now_us,
                          .number = number,
                          .id = verdict->id,
                          .attempt = verdict->number,
                          .reason = verdict->reason };
    text_copy(i.endpoint, sizeof i.endpoint, verdict->endpoint);
    text_copy(i.error, sizeof i.error, verdict->error);
    text_copy(i.rule, sizeof i.rule, verdict->rule);
    text_copy(i.step, sizeof i.step, slice_from(step));
    if (verdict->kind == VERDICT_FAIL && verdict->delay_us != PR_NEVER)
        i.next_us = time_add(store_now_us, verdict->delay_us);
    ring_add(failures, &i);
    if (verdict->kind == VERDICT_DEAD_LETTER)
        ring_add(deaths, &i);
    return true;
}

size_t incident_list(const struct incident_ring *ring, struct incident *ret, size_t max)
{
    size_t count = min_size(min_size(ring->count, INCIDENTS_MAX), max);
    for (size_t i = 0; i < count; i++)
        ret[i] = ring->entries[(ring->count - 1 - i) % INCIDENTS_MAX];
    return count;
}
