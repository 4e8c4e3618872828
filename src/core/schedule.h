/* schedule.h - a message that is sent again and again, at the times of a cron expression.
 *
 * A schedule is a row of its box that no endpoint gets: its destination is "schedule:", its stream is its name, its due time
 * is the next time, and its payload says what to send and when, as a JSON object (doc/schedules.md).  When it is due, the
 * owner of its lane stores the message and sets the next time in one transaction (VERDICT_RESCHEDULE).  The id of that
 * message comes from the schedule and the time, and the verdict holds only while the due time is the one that was read: so
 * each time is used once, whichever process crashes when.
 *
 * A row whose id is not the one of its name is a wish for such a schedule: who can only INSERT makes one by it.  The owner
 * puts the schedule itself in its place, instead of an earlier one of that name.  An order for a schedule that exists is a wish, too: the
 * database completes it to what the schedule says (045_schedule_box.sql, 051_scheduler_box.sql).  First it gets a due time, now: so it is read
 * behind all times of the earlier one that have come by then, and those after it belong to the new one. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <postrider.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/cron.h"

#define SCHEDULE_DESTINATION "schedule:"
#define SCHEDULE_TYPE "postrider.schedule" /* of the row itself */
#define SCHEDULE_NAME_MAX 100
#define SCHEDULE_GRACE_US PR_MINUTES(1)      /* later than this a time was missed, unless the schedule says otherwise */
#define SCHEDULE_TIMES_MAX 100               /* messages of one schedule in one cycle ... */
#define SCHEDULE_BYTES_MAX ((size_t)4 << 20) /* ... and bytes, but always one */
#define SCHEDULE_GAP_MAX 1000                /* times that are made up for after a gap; older ones are left out */
#define SCHEDULE_AHEAD_US PR_SECONDS(86400)
#define HEADER_SCHEDULE "postrider-schedule" /* of what it sends: its name ... */
#define HEADER_SCHEDULE_DUE "postrider-due"  /* ... and the time that this one is for */

enum schedule_missed {
    MISSED_ONCE, /* after a gap the latest of the times that were missed */
    MISSED_SKIP, /* none of them */
    MISSED_ALL,  /* all of them, SCHEDULE_GAP_MAX at most */
};
const char *schedule_missed_name(enum schedule_missed missed);

struct schedule {
    pr_slice name;
    pr_slice cron_text, zone_name; /* zone empty: UTC */
    enum schedule_missed missed;
    int64_t grace_us;
    bool paused;               /* as it begins: parked */
    bool cancel;               /* of a wish: that there be none of this name; only the name counts */
    bool run;                  /* of a wish: that its message be sent now; the schedule stays as it is */
    int64_t move_us;           /* of a wish: its next time; 0: as the times say */
    pr_slice box;              /* where its messages go; empty: the box that it is in */
    struct pr_message message; /* of these: id, due time and Postrider's part are empty; stream and destination are the
                                * message's own */
    pr_slice config;    /* the configuration that has it, as a hash of what it says; empty: it was made by hand */
    int64_t started_us; /* ... and when the process with that configuration started */
    struct cron cron;   /* what cron_text means */
};

/* Is it a schedule, or a wish for one? */
bool schedule_is_row(const struct pr_message *m);
/* [A-Za-z0-9][A-Za-z0-9_.-]*, SCHEDULE_NAME_MAX bytes at most. */
bool schedule_name_is_valid(pr_slice name);
/* The id of the row of this name; and of the message for one of its times. */
void schedule_id(pr_slice name, pr_id *ret);
void schedule_message_id(pr_slice box, pr_slice name, int64_t at_us, pr_id *ret);

/* From the JSON object that its row has as payload; name: of the row, or empty where the object has it.  Texts are in
 * the arena, or in json itself.  Fault PR_EINVAL names the member; PR_ENOMEM.  Whether the zone exists is not looked at. */
PR_MUST_CHECK int schedule_decode(pr_slice name, pr_slice json, struct arena *arena, struct schedule *ret,
                                  struct pr_error *reterr);
/* The same back: all that is not the default; without the name. */
void schedule_encode(const struct schedule *s, struct buf *ret);
/* Only what says when and what is sent: two with the same text do the same. */
void schedule_encode_meaning(const struct schedule *s, struct buf *ret);
/* The row to be stored for it, to be due at due_us (0: its owner computes it); payload: of schedule_encode(). */
struct pr_message schedule_row(const struct schedule *s, pr_slice payload, int64_t due_us);

/* What is to be done with a schedule now. */
struct schedule_plan {
    int64_t next_us;
    int64_t times[SCHEDULE_TIMES_MAX]; /* send a message for each */
    size_t count;
    size_t left_out; /* times that were missed and get no message; at most SCHEDULE_GAP_MAX + 1 */
    bool over_gap;   /* ... since there were more than SCHEDULE_GAP_MAX (MISSED_ALL) */
};
/* due_us: of its row; 0: it is new, and begins now.  max: messages at most, not 0. */
void schedule_plan(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us, size_t max,
                   struct schedule_plan *ret);
/* Is its next time further away than it can be, because a clock was wrong when it was computed?  By more than a period
 * and a day. */
bool schedule_is_ahead(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us);

/* Can its next time be set to to_us?  Fault PR_EINVAL: it is too far away, or longer ago than the grace time; or it is paused. */
PR_MUST_CHECK int schedule_move_check(const struct schedule *s, bool is_paused, const struct zone *zone, int64_t to_us,
                                      int64_t now_us, struct pr_error *reterr);

/* The message for one of its times; box: of the schedule.  Its headers are written into the buf. */
struct pr_message schedule_message(const struct schedule *s, pr_slice box, int64_t at_us, struct buf *headers);

#endif
