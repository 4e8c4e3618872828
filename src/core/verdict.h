/* The words of a verdict, as they are stored. */
#ifndef CORE_VERDICT_H
#define CORE_VERDICT_H

#include "core/cycle.h"
#include "core/story.h"

/* Its error and code clean and cut, its rule, and the story with one line more: where, when and what comes next is the
 * line's, what happened is the verdict's.  They are in one block that v points into afterwards; free() it.
 * NULL: no memory, and v goes without its words, which is better than not at all. */
char *verdict_write_texts(struct verdict *v, pr_slice story, struct story_line line);

#endif
