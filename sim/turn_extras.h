/* What turns of the simulator bring along beside the row and the history of their flow: mail for a flow that has not begun,
 * and executions that began and ended within the turn.  The numbers of its messages say which, so that the history, which says
 * which turns are committed, says what must be there: no more and no less (I21). */
#ifndef SIM_TURN_EXTRAS_H
#define SIM_TURN_EXTRAS_H

#include "base/arena.h"
#include "core/delivery.h"
#include "store/store.h"

/* For the run that begins with this delivery; NULL: none. */
struct send_effect *turn_extras_make(const struct delivery *first);
/* NULL: all is as this history says; else what is wrong. */
const char *turn_extras_check(struct store *store, pr_slice flow, const struct flow_turn_row *turns, size_t count,
                              struct arena *arena);
/* The number at *at in the events of a turn, which goes on behind it. */
unsigned turn_read_number(pr_slice events, size_t *at);

#endif
