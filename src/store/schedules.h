/* schedules.h - people's questions and orders about schedules (core/schedule.h), expressed as questions and orders
 * about their rows. */
#ifndef STORE_SCHEDULES_H
#define STORE_SCHEDULES_H

#include "core/schedule.h"
#include "store/store.h"

enum schedule_state {
    SCHEDULE_ACTIVE,
    SCHEDULE_PAUSED,
    SCHEDULE_NEW,     /* stored, and not seen by a running instance: it is a wish, or has no time yet */
    SCHEDULE_FAILING, /* its time zone is unknown to the instance that should run it */
    SCHEDULE_DEAD,    /* it cannot be decoded: its row is a dead letter */
};
const char *schedule_state_name(enum schedule_state state);

struct schedule_info {
    const struct listed *row;
    struct schedule s; /* if it cannot be decoded, only the name is set */
    enum schedule_state state;
    int64_t next_us; /* 0: none */
    pr_slice error;  /* why it fails, is dead, or cannot be decoded here; empty: no error */
    bool wish;
};

/* All schedules in the order of their boxes and rows, dead ones last; name empty: all names.  In the arena. */
PR_MUST_CHECK int schedules_find(struct store *store, pr_slice name, struct arena *arena, struct schedule_info **ret,
                                 size_t *ret_count, struct pr_error *reterr);
/* All schedules with a due time, without new ones: finding those would read every waiting row. */
PR_MUST_CHECK int schedules_find_known(struct store *store, struct arena *arena, struct schedule_info **ret,
                                       size_t *ret_count, struct pr_error *reterr);

/* Stores the schedule, or, where replace is set and it exists already, a wish for it.  Its zone must exist.  Outcome
 * PR_DUPLICATE: it exists, and replace is not set. */
PR_MUST_CHECK int schedule_put(struct store *store, pr_slice box, const struct schedule *s, bool replace,
                               size_t payload_max, struct pr_error *reterr);
/* Sends the schedule's message now, in addition to its times; ret_id: of the message. */
PR_MUST_CHECK int schedule_run_now(struct store *store, const struct schedule_info *info, size_t payload_max,
                                   pr_id *ret_id, struct pr_error *reterr);

enum schedule_order { SCHEDULE_PAUSE, SCHEDULE_RESUME, SCHEDULE_CANCEL, SCHEDULE_MOVE };
/* to_us: MOVE: its next time.  Fault PR_EINVAL: that is later than a period and a day from now, or earlier than the
 * grace time allows, or the schedule is paused; PR_ENOTFOUND. */
PR_MUST_CHECK int schedule_order(struct store *store, pr_slice name, enum schedule_order order, int64_t to_us,
                                 pr_slice by, pr_slice why, struct pr_error *reterr);

/* Schedules whose next time is too far in the future to be right get their next time from now; ret_count: how many. */
PR_MUST_CHECK int schedules_take_back(struct store *store, size_t *ret_count, struct pr_error *reterr);

#endif
