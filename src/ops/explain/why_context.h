/* why_context.h - the facts about a message while the sentences of message_why.h are made, and the files that make
 * them. */
#ifndef OPS_EXPLAIN_WHY_CONTEXT_H
#define OPS_EXPLAIN_WHY_CONTEXT_H

#include "base/buf.h"
#include "base/util.h"
#include "ops/explain/ended_words.h"
#include "ops/explain/message_why.h"
#include "ops/explain/queue_position.h"
#include "ops/explain/words.h"

struct why_context {
    struct message_why *o;
    struct arena *arena;
    const struct listed *l;
    int64_t now_us;
    const struct config_endpoint *setting; /* NULL: unknown */
    const struct endpoint_state *pause;    /* the pause of its endpoint; NULL: not paused */
    uint64_t workers;                      /* live instances of its box */
    struct queue_position turn;            /* for a ready message */
    const struct listed *aside;            /* parked before it, without blocking it; NULL: none */
    struct buf text;
    struct query_reply endpoints, instances, head_parts;
};

#define SAY(v, ...) buf_addf(&(v)->text, __VA_ARGS__)

static inline const char *clean(const struct why_context *v, pr_slice text)
{
    return text_clean_copy(v->arena, text);
}

static inline const char *ordinal(const struct why_context *v, int n)
{
    return ordinal_words(v->arena, n);
}

static inline const char *in_time(const struct why_context *v, int64_t us)
{
    return us > v->now_us
               ? arena_printf(v->arena, "in %s (%s)", span_words(v->arena, us - v->now_us), time_words(v->arena, us))
                     .data
               : "now";
}

static inline bool is_in_box(const struct listed *l)
{
    return l->state != STATE_DEAD && l->state != STATE_DONE && l->state != STATE_GONE;
}

/* Does its endpoint hand out only what workers claim? */
bool why_is_claimed(const struct why_context *v);

/* Reads further facts from the store and the configuration (why_context.c). */
PR_MUST_CHECK int why_look_around(struct why_context *v, struct pr_error *reterr);
/* How a command names it: its id, and its endpoint if other parts of it are on their way (or dead), too, which the
 * command must not change.  The reply is one of its id. */
const char *why_name(const struct why_context *v, const struct query_reply *reply, const struct listed *l,
                     pr_slice endpoint);

void why_say_where(struct why_context *v);    /* where it is, and what it waits for (why_where.c) */
void why_say_next(struct why_context *v);     /* what happens next, and when (why_next.c) */
void why_add_commands(struct why_context *v); /* what would change that (why_commands.c) */

#endif
