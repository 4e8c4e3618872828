/* See history.h. */
#include "history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "core/ended.h"
#include "core/cycle.h"
#include "core/delivery.h"
#include "core/order.h"
#include "core/state.h"
#include "core/verdict.h"

static const char *const event_names[] = {
#define X(name, text) #name,
    EVENTS(X)
#undef X
};

static const char *const event_texts[] = {
#define X(name, text) text,
    EVENTS(X)
#undef X
};

static const char *const outcome_names[] = { "ok",       "failed",    "unknown", "returned",  "abandoned",
                                             "released", "postponed", "settled", "uncertain", "stale" };
const char *event_name(enum event_kind kind)
{
    return event_names[kind];
}

void history_init(struct history *h)
{
    *h = (struct history){ .hash = 1 };
}

void history_fini(struct history *h)
{
    free(h->events);
    *h = (struct history){ 0 };
}

void history_add(struct history *h, const struct event *event)
{
    if (h->count == h->capacity) {
        h->capacity = h->capacity == 0 ? 4096 : h->capacity * 2;
        h->events = realloc(h->events, h->capacity * sizeof(*h->events));
        ASSERT(h->events != NULL);
    }
    h->events[h->count++] = *event;
    h->hash = hash_bytes(h->hash, event, sizeof(*event));
    if (h->trace != NULL && h->name != NULL)
        fprintf(h->trace, "%-7s", h->name);
    if (h->trace != NULL)
        history_print(h->trace, h->count - 1, event);
}

/* What the field `what` means for this kind of event, in a word. */
static const char *event_word(const struct event *e)
{
    switch (e->kind) {
    case EVENT_VERDICT: return verdict_traits((enum verdict_kind)e->what)->name;
    case EVENT_RESULT: return e->what < sizeof(outcome_names) / sizeof(*outcome_names) ? outcome_names[e->what] : "?";
    case EVENT_ADMIN: return e->what == UINT16_MAX ? "all" : action_of((enum admin_kind)e->what)->name;
    case EVENT_ENDED: return ended_name(e->what) != NULL ? ended_name(e->what) : "";
    case EVENT_SEEN:
    case EVENT_UNDRAINED: return e->what < STATE_COUNT ? state_name((enum state)e->what) : "?";
    default: return "";
    }
}

void history_print(FILE *out, size_t index, const struct event *e)
{
    fprintf(out, "%6zu %14.6f s  %-9s", index, (double)e->at_us / 1e6, event_names[e->kind]);
    if (e->instance != INSTANCE_NONE)
        fprintf(out, " i%u/s%u", e->instance, e->session);
    if (e->message != MESSAGE_NONE) {
        fprintf(out, " m%" PRIu32, e->message);
        if (e->destination == DESTINATION_UNKNOWN)
            fputs("->?", out);
        else if (e->destination != DESTINATION_NONE)
            fprintf(out, "->e%u", e->destination - 1);
    }
    fprintf(out, " %s", event_word(e));
    fprintf(out,
            " what=%u number=%" PRId32 " value=%" PRId64 " answer=%d extra=%" PRIx64 " flag=%u wall=%" PRId64
            "  # %s\n",
            e->what, e->number, e->value, e->answer, e->extra, e->flag, e->wall_us, event_texts[e->kind]);
}
