/* schedules.h - people's questions and orders about schedules (core/schedule.h), as questions and orders about their rows. */
#ifndef STORE_SCHEDULES_H
#define STORE_SCHEDULES_H

#include "core/schedule.h"
#include "store/store.h"

enum schedule_state {
    SCHEDULE_ACTIVE,
    SCHEDULE_PAUSED,
    SCHEDULE_NEW,     /* stored, and no running instance has seen it yet: it is a wish, or has no time */
    SCHEDULE_FAILING, /* its time zone is not known where it was to run */
    SCHEDULE_DEAD,    /* it cannot be read: the row is among the dead letters */
};
const char *schedule_state_name(enum schedule_state state);

struct schedule_info {
    const struct listed *row;
    struct schedule s; /* where it cannot be read, the name alone */
    enum schedule_state state;
    int64_t next_us; /* 0: none */
    pr_slice error;  /* why it fails, is dead, or cannot be read here; empty: nothing is wrong */
    bool wish;
};

/* All of them, in the order of their boxes and rows, the dead ones last; name empty: all names.  In the arena. */
PR_MUST_CHECK int schedules_find(struct store *store, pr_slice name, struct arena *arena, struct schedule_info **ret,
                                 size_t *ret_count, struct pr_error *reterr);
/* All that have a due time: not those that their owner has not met yet.  Finding these takes a look at each row that waits. */
PR_MUST_CHECK int schedules_find_known(struct store *store, struct arena *arena, struct schedule_info **ret,
                                       size_t *ret_count, struct pr_error *reterr);

/* Store it, or a wish for it where replace is set and there is one already.  Its zone must exist.
 * Outcome PR_DUPLICATE: there is one, and replace is not set. */
PR_MUST_CHECK int schedule_put(struct store *store, pr_slice box, const struct schedule *s, bool replace,
                               size_t payload_max, struct pr_error *reterr);
/* Send its message now, beside its times; ret_id: of the message. */
PR_MUST_CHECK int schedule_run_now(struct store *store, const struct schedule_info *info, size_t payload_max,
                                   pr_id *ret_id, struct pr_error *reterr);

enum schedule_order { SCHEDULE_PAUSE, SCHEDULE_RESUME, SCHEDULE_CANCEL, SCHEDULE_MOVE };
/* to_us: MOVE: its next time.  Fault PR_EINVAL: it is further away than a period and a day, or longer ago than the grace time, or the
 * schedule is paused; PR_ENOTFOUND. */
PR_MUST_CHECK int schedule_order(struct store *store, pr_slice name, enum schedule_order order, int64_t to_us,
                                 pr_slice by, pr_slice why, struct pr_error *reterr);

/* Those whose next time is further away than it can be get their next time from now; ret_count: how many. */
PR_MUST_CHECK int schedules_take_back(struct store *store, size_t *ret_count, struct pr_error *reterr);

#endif
