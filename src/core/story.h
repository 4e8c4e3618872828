/* The story of a message: the last 16 things that happened to it, a JSON array. */
#ifndef CORE_STORY_H
#define CORE_STORY_H

#include "base/buf.h"

#define STORY_BYTES_MAX (1u << 20) /* 16 lines with a text each are far below */

struct story_line {
    int64_t at_us;
    int attempt;
    pr_slice endpoint;
    int reason;           /* 0: left out */
    pr_slice code, error; /* empty: left out */
    pr_slice rule;        /* what decided: a rule's name, "retry", "poison", an operator */
    pr_slice instance;    /* that had it in hand; empty: left out */
    const char *step;     /* what was done: retry, dead_letter, park, ... */
    int64_t next_us;      /* when it goes on; 0: left out */
};

/* What a person noted down is there for the next person, so of these the latest are kept when other lines are
 * dropped. */
#define STORY_NOTE "note"
#define STORY_NOTES_KEPT 4

/* A hand-out whose outcome nobody knows, since its instance died with it (T6 of store.h): when it was handed out, the attempt, the
 * endpoint where it is known, and the instance. */
#define STORY_LOST "lost"

/* Write story with line appended, the oldest lines dropped, into ret.  A story that cannot
 * be read is started from empty. */
void story_append(pr_slice story, const struct story_line *line, struct buf *ret);

/* The endpoint of the latest line that names one, in the story itself; empty: none does.  (Their names
 * need no escapes.) */
pr_slice story_endpoint(pr_slice story);

/* Is its latest line a postponement: the endpoint's fault, uncounted? */
bool story_was_postponed(pr_slice story);

/* When it was parked last; 0: it does not say. */
int64_t story_parked_us(pr_slice story);

/* That the hand-out `attempt` at at_us was lost, appended to a story. */
void story_append_lost(pr_slice story, int64_t at_us, int attempt, pr_slice endpoint, pr_slice instance,
                       struct buf *ret);
/* How many of its lines say that a hand-out was lost, and (ret_lines, may be NULL) how many lines it has. */
int story_count_lost(pr_slice story, int *ret_lines);

#endif
