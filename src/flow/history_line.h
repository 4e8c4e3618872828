/* One event of a history as one line of JSON. */
#ifndef FLOW_HISTORY_LINE_H
#define FLOW_HISTORY_LINE_H

#include "flow/history.h"

struct buf;

/* The line must be event number n.  The event's slices are in the arena, never in the line.  Fault PR_ECORRUPT: the
 * text names number and key; PR_ENOMEM. */
PR_MUST_CHECK int flow_line_read(pr_slice line, size_t n, struct arena *arena, struct flow_event *ret,
                                 struct pr_error *reterr);
void flow_line_write(struct buf *b, const struct flow_event *e, size_t n);

#endif
