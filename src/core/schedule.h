/* schedule.h - a message that is sent again and again, at the times of a cron expression.
 *
 * A schedule is a row of its box that no endpoint gets: its destination is "schedule:", its stream is its name, its due
 * time is the next time, and its payload, a JSON object, says what to send and when (doc/schedules.md).  When it is
 * due, the owner of its lane stores the message and sets the next time in one transaction (VERDICT_RESCHEDULE).  The id
 * of that message is derived from the schedule and the time, and the verdict is applied only if the due time is still
 * the one that was read: so each time is used exactly once, whichever process crashes when.
 *
 * A row whose id is not derived from its name is a wish (a request) for such a schedule, for applications that can only
 * INSERT.  The owner replaces it by the schedule itself, which also replaces an earlier one of that name.  An order for
 * an existing schedule is a wish, too: the database completes it with what the schedule says (045_schedule_box.sql,
 * 051_scheduler_box.sql).  A wish first gets a due time, now: so it is read after all times of the earlier schedule
 * that have passed by then, and later times belong to the new one. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <postrider.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/cron.h"

#define SCHEDULE_DESTINATION "schedule:"
#define SCHEDULE_TYPE "postrider.schedule" /* type of the row itself */
#define SCHEDULE_NAME_MAX 100
/* a time is missed when it is later than this, unless the schedule says otherwise */
#define SCHEDULE_GRACE_US PR_MINUTES(1)
#define SCHEDULE_TIMES_MAX 100               /* limit of messages per schedule and cycle ... */
#define SCHEDULE_BYTES_MAX ((size_t)4 << 20) /* ... and of their bytes, but always at least one */
#define SCHEDULE_GAP_MAX 1000                /* times that are made up for after a gap; older ones are left out */
#define SCHEDULE_AHEAD_US PR_SECONDS(86400)
#define HEADER_SCHEDULE "postrider-schedule" /* header of what it sends: the name of the schedule */
#define HEADER_SCHEDULE_DUE "postrider-due"  /* header of what it sends: the time that it is for */

enum schedule_missed {
    MISSED_ONCE, /* after a gap send the latest missed time */
    MISSED_SKIP, /* send none */
    MISSED_ALL,  /* send all, SCHEDULE_GAP_MAX at most */
};
const char *schedule_missed_name(enum schedule_missed missed);

struct schedule {
    pr_slice name;
    pr_slice cron_text, zone_name; /* zone empty: UTC */
    enum schedule_missed missed;
    int64_t grace_us;
    bool paused;     /* starts parked */
    bool cancel;     /* of a wish: remove the schedule with this name; only the name counts */
    bool run;        /* of a wish: send its message now; the schedule does not change */
    int64_t move_us; /* of a wish: its next time; 0: from the cron expression */
    pr_slice box;    /* the box for its messages; empty: the box that it is in */
    /* What to send: id, due time and Postrider's own members are empty; stream and destination are those of the
     * message. */
    struct pr_message message;
    pr_slice config;    /* hash of the configuration that contains it; empty: it was made by hand */
    int64_t started_us; /* when the process with that configuration started */
    struct cron cron;   /* parsed from cron_text */
};

/* Is it a schedule, or a wish for one? */
bool schedule_is_row(const struct pr_message *m);
/* [A-Za-z0-9][A-Za-z0-9_.-]*, SCHEDULE_NAME_MAX bytes at most. */
bool schedule_name_is_valid(pr_slice name);
/* The id of the row with this name; and of the message for one of its times. */
void schedule_id(pr_slice name, pr_id *ret);
void schedule_message_id(pr_slice box, pr_slice name, int64_t at_us, pr_id *ret);

/* Decode the JSON object that is the payload of its row; name: of the row, or empty where the object has it.  Texts are
 * in the arena, or in json itself.  Fault PR_EINVAL names the member; PR_ENOMEM.  Does not check that the zone
 * exists. */
PR_MUST_CHECK int schedule_decode(pr_slice name, pr_slice json, struct arena *arena, struct schedule *ret,
                                  struct pr_error *reterr);
/* The inverse: all members that differ from their default; without the name. */
void schedule_encode(const struct schedule *s, struct buf *ret);
/* Only what is sent and when: two schedules with the same text do the same. */
void schedule_encode_meaning(const struct schedule *s, struct buf *ret);
/* The row to store for it, due at due_us (0: its owner computes the time); payload: from schedule_encode(). */
struct pr_message schedule_row(const struct schedule *s, pr_slice payload, int64_t due_us);

/* What to do with a schedule now. */
struct schedule_plan {
    int64_t next_us;
    int64_t times[SCHEDULE_TIMES_MAX]; /* send one message for each */
    size_t count;
    size_t left_out; /* missed times that get no message; at most SCHEDULE_GAP_MAX + 1 */
    bool over_gap;   /* times were left out because there were more than SCHEDULE_GAP_MAX (MISSED_ALL) */
};
/* due_us: of its row; 0: it is new, and begins now. max: maximum number of messages, not 0. */
void schedule_plan(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us, size_t max,
                   struct schedule_plan *ret);
/* Is its next time further away than any cron time can be, because it was computed with a wrong clock?  True beyond one
 * period and one day. */
bool schedule_is_ahead(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us);

/* May its next time be set to to_us?  Fault PR_EINVAL: too far away; longer ago than the grace time; or the schedule is
 * paused. */
PR_MUST_CHECK int schedule_move_check(const struct schedule *s, bool is_paused, const struct zone *zone, int64_t to_us,
                                      int64_t now_us, struct pr_error *reterr);

/* The message for one of its times; box: of the schedule.  Its headers are written into the buf. */
struct pr_message schedule_message(const struct schedule *s, pr_slice box, int64_t at_us, struct buf *headers);

#endif
