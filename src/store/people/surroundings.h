/* surroundings.h - what is known beside the rows: who has which on a receipt, what is paused, which boxes there are.
 * Read once per question or order, in its transaction. */
#ifndef STORE_PEOPLE_SURROUNDINGS_H
#define STORE_PEOPLE_SURROUNDINGS_H

#include "core/state.h"
#include "store/sql.h"

/* What is on an open receipt of a living instance. */
struct flight {
    pr_slice box, instance;
    uint64_t row;
    int number;
};

struct surroundings {
    int64_t now_us, mono_us; /* the store's clocks */
    struct flight *flights;  /* by box and row */
    size_t flight_count;
    pr_slice *paused; /* endpoints, ascending */
    size_t paused_count;
    pr_slice *boxes;  /* ascending */
    pr_slice *tables; /* theirs */
    size_t box_count;
};
PR_MUST_CHECK int surroundings_read(struct sql *sql, struct arena *arena, struct surroundings *ret);

/* NULL: it is not in flight. */
const struct flight *surroundings_flight(const struct surroundings *s, pr_slice box, uint64_t row, int attempts);
/* The state of a row of this box, with receipts and pauses laid over it.  endpoint: where it goes. */
enum state surroundings_state(const struct surroundings *s, pr_slice box, uint64_t row, const struct pr_message *m,
                              pr_slice endpoint);

/* Room for one more in the list, which has so many; it may have moved.  NULL: no memory.  *capacity begins with 0. */
void *list_room(struct arena *arena, void *list, size_t count, size_t *capacity, size_t size);

#endif
