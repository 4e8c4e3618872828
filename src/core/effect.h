/* Effects: what is stored in the same transaction as a verdict, beside the row itself.
 *
 * An effect belongs to one verdict of its cycle and is applied only when that verdict was; or to none (EFFECT_ALWAYS).
 * Some kinds have a guard, which is a number that must still be what the sender saw.  All guards of a cycle are compared
 * before anything of it is written:
 *
 *   kind      guard                                          when it does not hold
 *   MESSAGE   none; an id that is there is PR_DUPLICATE      -
 *   ... of an event that expects a version: as EVENT
 *   EVENT     its stream has `expected` events               PR_STALE; PR_DUPLICATE when the stream has its id
 *   HISTORY   the execution has `expected` events            PR_STALE
 *   STATE     none                                           -
 *   DELETE    none; PR_UNKNOWN when there is no such row     -
 *   SEEN      there is no mark of (box, id, handler)         PR_STALE
 *   FLOW      its row is at (id, expected)                   PR_STALE
 *   EXECUTION none                                           -
 *   MAIL      none; an id that is kept already is PR_DUPLICATE; to remove what is not there is PR_UNKNOWN
 *
 * A refused effect (PR_STALE) is left out; with takes_verdict the verdict is refused with it (ANSWER_REFUSED; by a mark:
 * ANSWER_HANDLED), and nothing of that delivery is written.  A guard that somebody else holds in an open transaction, or that an earlier
 * verdict of the same cycle has, is busy: its verdict is ANSWER_BUSY and is asked again.  Several effects of one verdict
 * with one guard are appended behind each other; the first one's `expected` counts.  A message that is an event of a stream
 * which another verdict has the guard of is busy, too: it would come in between. */
#ifndef CORE_EFFECT_H
#define CORE_EFFECT_H

#include "base/arena.h"
#include "core/flow_row.h"

#include <postrider.h>

enum effect_kind {
    EFFECT_MESSAGE, /* box, message (its id is set) */
    EFFECT_EVENT,   /* message: appended to the events of its stream */
    EFFECT_HISTORY, /* key: the execution; value: `count` events in one row */
    EFFECT_STATE,   /* key: the flow; name; value, or data NULL: removed */
    EFFECT_DELETE,  /* box, id: its rows go, whatever their destinations */
    EFFECT_SEEN,    /* box, id, key: the handler; outcome, alone, keep_us: see core/mark.h */
    EFFECT_FLOW, /* flow: the whole row as it is from now on; id: the execution, and expected: the number of its events,
                      * that the turn saw.  id zero: there must be no row, or, flow->restarts, one that has ended */
    EFFECT_EXECUTION, /* flow: of an execution that began and ended in one turn, as it ended: the row of its flow is the next one's */
    EFFECT_MAIL, /* key: the flow; message: kept for keep_us, until the flow begins; message NULL: all that is kept goes */
    EFFECT_KINDS
};

#define EFFECT_ALWAYS SIZE_MAX
#define EFFECT_ANY (-1) /* expected: append to whatever is there */

struct effect {
    size_t verdict; /* index into the cycle's verdicts, or EFFECT_ALWAYS */
    pr_slice box;
    const struct pr_message *message;
    enum effect_kind kind;
    bool takes_verdict;      /* a refusal takes the verdict with it; of a MESSAGE it always does */
    int64_t expected, count; /* of a MESSAGE it is in the message */
    pr_slice key, name, value;
    pr_id id;
    const struct flow_row *flow; /* FLOW, EXECUTION */
    int outcome;                 /* SEEN: enum ended_as */
    bool alone;                  /* SEEN: its message was addressed to nobody by name, and this was its only handler */
    int64_t keep_us;             /* SEEN, MAIL: it goes so long after now; 0: never */
};

/* Is its guard the number of events of its message's stream? */
static inline bool effect_guards_stream(const struct effect *e)
{
    return e->kind == EFFECT_EVENT || (e->kind == EFFECT_MESSAGE && e->message->event && e->message->expects_version);
}

static inline bool effect_has_guard(const struct effect *e)
{
    return effect_guards_stream(e) || e->kind == EFFECT_HISTORY || e->kind == EFFECT_SEEN || e->kind == EFFECT_FLOW;
}

/* What the guard of an effect goes by: a stream, an execution, a handler, a flow. */
pr_slice effect_guard_key(const struct effect *e);
/* Do two of them have the same guard? */
bool effect_same_guard(const struct effect *a, const struct effect *b);
uint64_t effect_guard_hash(const struct effect *e);

/* What the guard of each effect says. */
struct effect_guards {
    size_t *first; /* of each effect: the first one with the same guard; SIZE_MAX: it has none */
    int *answers;  /* of each: PR_OK, PR_DUPLICATE, PR_STALE, ANSWER_BUSY */
    int *
        verdicts; /* of each verdict: PR_OK, ANSWER_HANDLED, ANSWER_REFUSED, ANSWER_BUSY: the first of them that holds */
    bool any;     /* one of them has a guard */
};

/* The first step: which guards are shared.  Answers are PR_OK, or ANSWER_BUSY where an earlier verdict has the guard.
 * Fault PR_ENOMEM. */
PR_MUST_CHECK int effect_guards_init(struct effect_guards *g, const struct effect *effects, size_t count,
                                     size_t verdict_count, struct arena *arena);
/* The last step, when the store has filled in the other answers: what they do to the verdicts. */
void effect_guards_settle(struct effect_guards *g, const struct effect *effects, size_t count);
/* What a guard of this effect says when `found` is its number. */
int effect_guard_answer(const struct effect *e, int64_t found);
/* The fault PR_ECONFLICT where such an answer is that of an effect by itself: its stream has `found` events. */
int effect_version_conflict(const struct effect *e, int64_t found, struct pr_error *reterr);
/* The same of a flow: of the row that is there only execution, next and state are looked at; NULL: there is none. */
int effect_flow_answer(const struct effect *e, const struct flow_row *found);

/* Verdicts that go with the one before them (verdict.joined): when `leader` was not applied, neither are they.  Its answer
 * is theirs when it is busy, and ANSWER_REFUSED otherwise. */
int joined_answer(int leader);

#endif
