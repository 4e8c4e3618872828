/* Effects: what is stored in the same transaction as a verdict, in addition to the row itself.
 *
 * An effect belongs to one verdict of its cycle and is applied only if that verdict is; or to none (EFFECT_ALWAYS).
 * Some kinds have a guard, a number that must still be what the sender of the effect saw.  All guards of a cycle are
 * compared before any effect is written:
 *
 *     kind      guard                                          when it does not hold
 *     MESSAGE   none; an existing id is PR_DUPLICATE           -
 *     ... of an event that expects a version: as EVENT
 *     EVENT     its stream has `expected` events               PR_STALE; PR_DUPLICATE when the stream has its id
 *     HISTORY   the execution has `expected` events            PR_STALE
 *     STATE     none                                           -
 *     DELETE    none; PR_UNKNOWN when there is no such row     -
 *     SEEN      there is no mark of (box, id, handler)         PR_STALE
 *     FLOW      its row is at (id, expected)                   PR_STALE
 *     EXECUTION none                                           -
 *     MAIL      none; an id that is kept already is PR_DUPLICATE; removing mail that does not exist is PR_UNKNOWN
 *
 * A refused effect (PR_STALE) is left out; with takes_verdict, its verdict is refused with it (ANSWER_REFUSED; by a
 * mark: ANSWER_HANDLED), and nothing of that delivery is written.  A guard is busy when another open transaction has
 * locked it, or an earlier verdict of the same cycle uses it: its verdict is answered ANSWER_BUSY and is asked again.
 * Several effects of one verdict with the same guard are appended in their order; `expected` of the first one counts.
 * A message that is an event is also busy when another verdict uses the guard of its stream: otherwise it could come
 * between that verdict's events. */
#ifndef CORE_EFFECT_H
#define CORE_EFFECT_H

#include "base/arena.h"
#include "core/flow_row.h"

#include <postrider.h>

enum effect_kind {
    EFFECT_MESSAGE, /* box, message (its id is set) */
    EFFECT_EVENT,   /* message: appended to the events of its stream */
    EFFECT_HISTORY, /* key: the execution; value: one row with `count` events */
    EFFECT_STATE,   /* key: the flow; name; value, data NULL: remove it */
    EFFECT_DELETE,  /* box, id: deletes all its rows, whatever their destinations */
    EFFECT_SEEN,    /* box, id, key (the handler), outcome, alone, keep_us: see core/mark.h */
    /* flow: the complete new row; id and expected: the execution and its number of events that the turn saw. id zero:
     * there must be no row, or, with flow->restarts, only one that has ended. */
    EFFECT_FLOW,
    /* flow: the final state of an execution that began and ended in one turn; the row of the flow belongs to the next
     * one */
    EFFECT_EXECUTION,
    /* key: the flow; message: kept for keep_us until the flow begins; message NULL: all kept mail is removed */
    EFFECT_MAIL,
    EFFECT_KINDS
};

#define EFFECT_ALWAYS SIZE_MAX
#define EFFECT_ANY (-1) /* expected: append, whatever the number is */

struct effect {
    size_t verdict; /* index into the cycle's verdicts, or EFFECT_ALWAYS */
    pr_slice box;
    const struct pr_message *message;
    enum effect_kind kind;
    bool takes_verdict;      /* a refusal also refuses the verdict; for a MESSAGE it always does */
    int64_t expected, count; /* for a MESSAGE, the expected version is in the message */
    pr_slice key, name, value;
    pr_id id;
    const struct flow_row *flow; /* FLOW, EXECUTION */
    int outcome;                 /* SEEN: enum ended_as */
    bool alone;                  /* SEEN: the message named no destination, and this was its only handler */
    int64_t keep_us;             /* SEEN, MAIL: kept for this time; 0: forever */
};

/* Is its guard the number of events in its message's stream? */
static inline bool effect_guards_stream(const struct effect *e)
{
    return e->kind == EFFECT_EVENT || (e->kind == EFFECT_MESSAGE && e->message->event && e->message->expects_version);
}

static inline bool effect_has_guard(const struct effect *e)
{
    return effect_guards_stream(e) || e->kind == EFFECT_HISTORY || e->kind == EFFECT_SEEN || e->kind == EFFECT_FLOW;
}

/* The name in the guard of an effect: a stream, an execution, a handler or a flow. */
pr_slice effect_guard_key(const struct effect *e);
/* Do both effects have the same guard? */
bool effect_same_guard(const struct effect *a, const struct effect *b);
uint64_t effect_guard_hash(const struct effect *e);

/* The answers of the guards of a cycle's effects. */
struct effect_guards {
    size_t *first; /* per effect: the index of the first one with the same guard; SIZE_MAX: it has none */
    int *answers;  /* per effect: PR_OK, PR_DUPLICATE, PR_STALE, ANSWER_BUSY */
    /* per verdict: PR_OK, ANSWER_HANDLED, ANSWER_REFUSED or ANSWER_BUSY: of these the first that applies */
    int *verdicts;
    bool any; /* at least one effect has a guard */
};

/* First step: find shared guards.  Answers are PR_OK, or ANSWER_BUSY where an earlier verdict has the same guard.
 * Fault PR_ENOMEM. */
PR_MUST_CHECK int effect_guards_init(struct effect_guards *g, const struct effect *effects, size_t count,
                                     size_t verdict_count, struct arena *arena);
/* Last step, after the store has set the other answers: derive the answers of the verdicts. */
void effect_guards_settle(struct effect_guards *g, const struct effect *effects, size_t count);
/* The answer of this effect's guard when its current number is `found`. */
int effect_guard_answer(const struct effect *e, int64_t found);
/* Set the fault PR_ECONFLICT for an effect that stands alone, when the stream has `found` events. */
int effect_version_conflict(const struct effect *e, int64_t found, struct pr_error *reterr);
/* The answer for a FLOW effect; of the existing row only execution, next and state are read; NULL: there is none. */
int effect_flow_answer(const struct effect *e, const struct flow_row *found);

/* The answer for verdicts joined to a `leader` (verdict.joined) that was not applied: ANSWER_BUSY when the leader is
 * busy, and ANSWER_REFUSED otherwise. */
int joined_answer(int leader);

#endif
