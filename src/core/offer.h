/* What an instance can do for flows, and what a message needs: lines of text that people can read.
 *
 *   offer   "flow NAME VERSION", "activity NAME", "tag TAG", one line each, with tabs between the words
 *   need    "flow NAME VERSION" (VERSION empty: any), or "activity NAME TAG" (TAG empty: none) */
#ifndef CORE_OFFER_H
#define CORE_OFFER_H

#include "base/buf.h"

/* lines that do not fit are left out: work that needs them waits as if no instance could do it */
#define OFFER_BYTES_MAX (64u << 10)

/* Add one line to a buffer of OFFER_BYTES_MAX; words with control characters or invalid UTF-8 are left out. */
void offer_add_flow(struct buf *offer, pr_slice name, pr_slice version);
void offer_add_activity(struct buf *offer, pr_slice name);
void offer_add_tag(struct buf *offer, pr_slice tag);

/* malloc'ed; NULL: out of memory. */
char *need_of_flow(pr_slice name, pr_slice version);
char *need_of_activity(pr_slice name, pr_slice tag);

/* Does this offer meet the need? */
bool offer_has(pr_slice offer, pr_slice need);

#endif
