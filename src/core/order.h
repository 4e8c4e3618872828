/* People's orders about rows, and what each order leaves behind: the same in every store. */
#ifndef CORE_ORDER_H
#define CORE_ORDER_H

#include "base/buf.h"
#include "core/cycle.h"

/* Each order is one transaction, which also records who gave it, when, what, why, and how many rows it changed. */
enum admin_kind {
    ADMIN_RETRY, /* due = now, counters 0, not held, not parked any more; open receipts forget the row */
    /* Followers: released = true, held_by = NULL, due = now; the head is not changed (by id it is refused).  By stream:
     * all of its rows that are held, or that come behind a failed head of the same destination. */
    ADMIN_RELEASE,
    ADMIN_PARK,
    ADMIN_RESCHEDULE, /* due = until_us, not held, not parked any more */
    ADMIN_DISCARD,
    /* By a person, with why.  Without a cause, its reason is the cause (PR_REASON_REJECTED if none); without an error,
     * why is the error.  A row without a destination died for the endpoint that the filter's routes give it, if any. */
    ADMIN_DEAD_ADD,
    /* (For flows see people/flow_order.h.) Back to its box and its place there, as if new: due = now, counters 0,
     * status | Failed, released as before.  Refused when its id was sent again; when its endpoint has handled it
     * (core/mark.h); or when it was edited (only by id; a filter does not find edited ones). */
    ADMIN_DEAD_REPLAY,
    ADMIN_DEAD_DISCARD,
    /* One id, or row: what a replay would make, changed as `edit` says, with a new id (made) and the old one as its
     * causation_id.  The original stays, with edited_as.  Refused when it was edited before. */
    ADMIN_DEAD_EDIT,
    /* why is appended to its note, with the name of the person; and to its story, which goes along when the message is
     * replayed and dies again. */
    ADMIN_DEAD_NOTE,
    /* Letters are added to the dead letters as they are, with a new row.  Refused when this id (for this destination)
     * exists already, in the box or dead; when its endpoint has handled it (core/mark.h); when its box is unknown. */
    ADMIN_DEAD_IMPORT,
    /* Flows that have ended, or with `forced` any, including their children, histories, key-values, mail and rows in
     * the boxes of flows. */
    ADMIN_FLOW_DELETE,
    ADMIN_FLOW_PRUNE, /* executions before the current one of flows */
    ADMIN_PAUSE,      /* filter.endpoint, until_us: of two pauses the later end wins */
    ADMIN_RESUME,
    ADMIN_SUBSCRIPTION_RESET,  /* subscription, position: its current reader loses it */
    ADMIN_SUBSCRIPTION_REMOVE, /* subscription */
    /* Not carried out by a store, only recorded there, with an outcome. */
    ADMIN_ENDPOINT_TEST, /* filter.endpoint */
    ADMIN_REPLAY_STOP,   /* filter.ids: the replay's id */
    ADMIN_REPLAY_RESUME,
    ADMIN_SCHEDULE_ADD, /* filter.ids: the schedule's id */
    ADMIN_SCHEDULE_RUN,
    ADMIN_FLOW_CANCEL, /* flow: filter of its flows */
    ADMIN_FLOW_RESTART,
    ADMIN_FLOW_RESUME,
};

/* May an order about many rows be carried out in steps, each a transaction of its own? */
enum action_steps { STEPS_NONE, STEPS_BOX, STEPS_DEAD };

struct action {
    const char *name;        /* in the audit; for orders about rows of a box also the last word of its routes */
    const char *step;        /* its name in the story; NULL: it leaves no line there */
    enum notice_kind notice; /* the kind of notice for running instances */
    bool on_dead;            /* it selects dead letters, not rows of boxes */
    enum action_steps steps;
};
const struct action *action_of(enum admin_kind kind);
/* False: no order has this name. */
bool action_find(pr_slice name, enum admin_kind *ret);

/* The changes to an edited message; NULL: unchanged. */
struct dead_edit {
    const pr_slice *payload, *headers, *destination, *type;
};

/* The part of a person's order that decides what becomes of a row. */
struct row_order {
    enum admin_kind kind;
    pr_slice by, why;
    int64_t due_us; /* RESCHEDULE */
    int cause;      /* DEAD_ADD; 0: the row's own reason */
    /* DEAD_ADD: the verdict by which it died before it was stored (its row has the reason already); NULL: a person did
     * it */
    const struct verdict *verdict;
    const struct dead_edit *edit; /* DEAD_EDIT */
    pr_id made;                   /* DEAD_EDIT: the new id of the corrected message */
};

#define NOTE_TEXT_MAX 8192   /* one person's text */
#define NOTE_BYTES_MAX 16384 /* one person's text with the name */
#define NOTE_KEPT_MAX 65536  /* characters of all notes of a dead letter: the latest are kept */

/* The end of the note that is kept, cut at a character boundary. */
pr_slice note_kept(pr_slice note);

/* The corrected message that EDIT makes of a dead letter.  The caller sets its story; cause: room for the text of the
 * old id. */
struct pr_message message_edited(const struct pr_message *dead, const struct row_order *order,
                                 char cause[PR_ID_TEXT_SIZE]);

#endif
