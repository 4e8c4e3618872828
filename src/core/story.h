/* The story of a message: the last 16 things that happened to it, as a JSON array. */
#ifndef CORE_STORY_H
#define CORE_STORY_H

#include "base/buf.h"

#define STORY_BYTES_MAX (1u << 20) /* far more than 16 lines with a text each */

struct story_line {
    int64_t at_us;
    int attempt;
    pr_slice endpoint;
    int reason;           /* 0: omitted */
    pr_slice code, error; /* empty: omitted */
    pr_slice rule;        /* who decided: a rule's name, "retry", "poison", or a person */
    pr_slice instance;    /* the instance that had the message; empty: omitted */
    const char *step;     /* what was done: retry, dead_letter, park, ... */
    int64_t next_us;      /* when it continues; 0: omitted */
};

/* People's notes are meant for other people, so the latest of them are kept when other lines are dropped. */
#define STORY_NOTE "note"
#define STORY_NOTES_KEPT 4

/* A hand-out with unknown outcome, because its instance died (T6 of store.h): when it was handed out, the attempt, the
 * endpoint if known, and the instance. */
#define STORY_LOST "lost"

/* Write story with line appended, without the oldest lines if there are too many, into ret.  A story that cannot be
 * parsed counts as empty. */
void story_append(pr_slice story, const struct story_line *line, struct buf *ret);

/* The endpoint of the latest line that names one, as a slice of the story; empty: none. (Names of endpoints need no
 * escapes.) */
pr_slice story_endpoint(pr_slice story);

/* Is its latest line a postponement, an uncounted failure of the endpoint? */
bool story_was_postponed(pr_slice story);

/* When it was last parked; 0: not in the story. */
int64_t story_parked_us(pr_slice story);

/* Append that the hand-out `attempt` at at_us was lost. */
void story_append_lost(pr_slice story, int64_t at_us, int attempt, pr_slice endpoint, pr_slice instance,
                       struct buf *ret);
/* How many of its lines record a lost hand-out, and (ret_lines, may be NULL) how many lines it has. */
int story_count_lost(pr_slice story, int *ret_lines);

#endif
