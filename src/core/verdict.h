/* What is known of each kind of verdict beside its change (change.h); and its words, as they are stored. */
#ifndef CORE_VERDICT_H
#define CORE_VERDICT_H

#include "core/cycle.h"
#include "core/story.h"

/* For which orderings do followers wait behind a row that ended so? */
enum verdict_blocks { BLOCKS_NOBODY, BLOCKS_UNLESS_AVAILABLE, BLOCKS_STRICT };

struct verdict_traits {
    const char *name; /* in stories, and in the simulator's history */
    bool comes_back;  /* at its due time, which may lie before the place that the due pass has reached */
    enum verdict_blocks blocks;
};
const struct verdict_traits *verdict_traits(enum verdict_kind kind);

/* Its error and code clean and cut, its rule, and the story with one line more: where, when and what comes next is the
 * line's, what happened is the verdict's.  They are in one block that v points into afterwards; free() it.
 * NULL: no memory, and v goes without its words, which is better than not at all. */
char *verdict_write_texts(struct verdict *v, pr_slice story, struct story_line line);

#endif
