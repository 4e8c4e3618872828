/* What people order for rows, and what each order leaves behind: the same in every store. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "base/buf.h"
#include "core/cycle.h"

/* What people do.  Each is one transaction, which also writes down who, when, what, why and how many. */
enum admin_kind {
    ADMIN_RETRY,   /* due = now, counters 0, not held, parked no more; open receipts forget it */
    ADMIN_RELEASE, /* followers: released = true, held_by = NULL, due = now; the head is not touched (by id it is
                         * refused).  By stream: every row of it that is held, or that a failed head of the same
                         * destination is before */
    ADMIN_PARK,
    ADMIN_RESCHEDULE, /* due = until_us, not held, parked no more */
    ADMIN_DISCARD,
    ADMIN_DEAD_ADD,    /* by hand, with why; without a cause its reason is it (PR_REASON_REJECTED when none), without an
                         * error why is.  What has no destination died for the endpoint that the filter's routes give it,
                         * if they give one */
    ADMIN_DEAD_REPLAY, /* (of flows: see people/flow_order.h) back to the box and the place it came from, new life: due = now, counters 0, bits | Failed,
                         * released as it was.  Refused: its id was sent again; its endpoint has handled it (core/mark.h); or (by id; a filter does not find them) it
                         * was edited */
    ADMIN_DEAD_DISCARD,
    ADMIN_DEAD_EDIT, /* one id, or row: what replay would make, changed as edit says, with a new id (made) and the old one
                         * as its causation_id.  The original stays and says edited_as.  Refused: it was edited before */
    ADMIN_DEAD_NOTE,   /* why is put behind its note, with who said it; and into its story, which goes with the message
                         * when it is replayed, and is there when it dies again */
    ADMIN_DEAD_IMPORT, /* letters are put among the dead letters as they are, with a new row.  Refused: that id
                         * (for that destination) is there already, in the box or dead; its endpoint has handled it
                         * (core/mark.h); its box is unknown */
    ADMIN_FLOW_DELETE, /* flows that have ended, or, forced, any: with their children, histories, key-values, mail and rows in
                         * the boxes of flows */
    ADMIN_FLOW_PRUNE, /* executions of flows before their current ones */
    ADMIN_PAUSE,      /* filter.endpoint, until_us: the later end wins */
    ADMIN_RESUME,
    ADMIN_SUBSCRIPTION_RESET,  /* subscription, position: who has it loses it */
    ADMIN_SUBSCRIPTION_REMOVE, /* subscription */
    /* Not done by a store, only recorded there: with an outcome. */
    ADMIN_ENDPOINT_TEST, /* filter.endpoint */
    ADMIN_REPLAY_STOP,   /* filter.ids: the replay's */
    ADMIN_REPLAY_RESUME,
    ADMIN_SCHEDULE_ADD, /* filter.ids: the schedule's */
    ADMIN_SCHEDULE_RUN,
    ADMIN_FLOW_CANCEL, /* flow: its flows */
    ADMIN_FLOW_RESTART,
    ADMIN_FLOW_RESUME,
};

/* May an order for many rows be carried out in steps, each a transaction of its own? */
enum action_steps { STEPS_NONE, STEPS_BOX, STEPS_DEAD };

struct action {
    const char *name;        /* in the audit; of orders about rows of a box also the last word of its routes */
    const char *step;        /* what it is called in the story; NULL: it leaves no line */
    enum notice_kind notice; /* the notice to running instances */
    bool on_dead;            /* it looks among the dead letters, and not in the boxes */
    enum action_steps steps;
};
const struct action *action_of(enum admin_kind kind);
/* False: no order has that name. */
bool action_find(pr_slice name, enum admin_kind *ret);

/* What is different in an edited message; NULL: as it was. */
struct dead_edit {
    const pr_slice *payload, *headers, *destination, *type;
};

/* One person's order, as far as it is about what becomes of a row. */
struct row_order {
    enum admin_kind kind;
    pr_slice by, why;
    int64_t due_us; /* RESCHEDULE */
    int cause;      /* DEAD_ADD; 0: the row's own reason */
    const struct verdict
        *verdict; /* DEAD_ADD: how it died before it was stored, which its row says already; NULL: by hand */
    const struct dead_edit *edit; /* DEAD_EDIT */
    pr_id made;                   /* DEAD_EDIT: the id of the corrected message */
};

#define NOTE_TEXT_MAX 8192   /* what one person says */
#define NOTE_BYTES_MAX 16384 /* ... with who said it */
#define NOTE_KEPT_MAX 65536  /* characters of all notes of a dead letter: the latest */

/* The end of it that is kept, at whole characters. */
pr_slice note_kept(pr_slice note);

/* The corrected message: what EDIT puts in the place of a dead letter.  Its story is the caller's; cause: room for the
 * text of the old id. */
struct pr_message message_edited(const struct pr_message *dead, const struct row_order *order,
                                 char cause[PR_ID_TEXT_SIZE]);

#endif
