/* Properties of each kind of verdict other than its change (change.h), and the texts that are stored with it. */
#ifndef CORE_VERDICT_H
#define CORE_VERDICT_H

#include "core/cycle.h"
#include "core/story.h"

/* For which orderings do followers wait behind a row that ended this way? */
enum verdict_blocks { BLOCKS_NOBODY, BLOCKS_UNLESS_AVAILABLE, BLOCKS_STRICT };

struct verdict_traits {
    const char *name; /* in stories, and in the simulator's history */
    bool comes_back;  /* comes back at its due time, which may be earlier than the cursor of the due pass */
    enum verdict_blocks blocks;
};
const struct verdict_traits *verdict_traits(enum verdict_kind kind);

/* Clean and cut its error and code, and write its rule and the story with one more line: where, when and what comes
 * next are taken from line, what happened from the verdict.  All are in one block that v points into; free() it.  NULL:
 * out of memory: v has no texts then, but can still be applied. */
char *verdict_write_texts(struct verdict *v, pr_slice story, struct story_line line);

#endif
