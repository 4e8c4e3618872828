/* The data exchanged between engine and store, one cycle at a time: rows go out, verdicts come in.
 *
 * Plain data, so that the engine depends on this conversation and not on a store.  What a store must do with it is
 * specified in store/store.h. */
#ifndef CORE_CYCLE_H
#define CORE_CYCLE_H

#include <postrider.h>

#include "base/slice.h"
#include "core/effect.h"

/* ---- Rows --------------------------------------------------------------------------- */

enum row_from { ROW_FRESH, ROW_DUE, ROW_HELD, ROW_REREAD, ROW_HEAD };

/* New rows that the store need not read: those with this destination; or, when destination is empty, those without a
 * destination and with this type, except replies. */
struct fresh_skip {
    pr_slice destination, type;
};
bool fresh_is_skipped(const struct fresh_skip *skips, size_t count, const struct pr_message *m);

struct row {
    struct pr_message m; /* slices are borrowed until the next cycle() of the session */
    uint64_t row;        /* the store's name for the row: unique in its box while the row exists, > 0 */
    unsigned lane;
    enum row_from from;
    bool dead;       /* ROW_HEAD only: it is a dead letter (strict streams wait behind it) */
    const char *bad; /* why the row cannot be decoded, or NULL. m then has what could be read */
    size_t over;     /* size of a payload larger than cycle.payload_max, which was not read; 0: the payload is in m */
};

/* ---- The cycle ---------------------------------------------------------------------- */

enum verdict_kind {
    VERDICT_COMPLETE, /* the row leaves the box (to `done`, when the box keeps completed rows) */
    VERDICT_FAIL,     /* attempts = number, failures + 1, status | bits | Failed, due = now + delay */
    /* Tried again later, and nothing is counted, since the message is not at fault: due = now + delay, status | Failed;
     * reason, code, error and failed_at as for FAIL; attempts and failures stay. */
    VERDICT_POSTPONE,
    VERDICT_RETURN,  /* handed back: nothing is written */
    VERDICT_ABANDON, /* attempts = number; due = now + delay */
    VERDICT_RELEASE, /* released = true, held_by = NULL, due = now; counters and status stay */
    VERDICT_DISCARD, /* the row is deleted */
    VERDICT_EXPIRE,  /* the row is deleted: it has expired */
    /* The row moves to dead_letter: attempts = number, status | bits | Failed. reason, code and error stay when reason
     * is 0; failed_at stays unless counted. */
    VERDICT_DEAD_LETTER,
    VERDICT_PARK,       /* due = PR_NEVER; with a reason: attempts, failures and reason as for FAIL */
    VERDICT_HOLD,       /* held_by = key, for fresh and due rows that must wait for others; not a hand-out. due stays */
    VERDICT_RESCHEDULE, /* for schedules: due = due_us, provided that it is still due_is_us; not a hand-out */
    VERDICT_DUPLICATE,  /* the row is deleted: its message was handled before (core/mark.h) */
    /* Writes nothing.  The receiver says that it has completed the message in its own transaction.  PR_UNKNOWN means
     * that it has; PR_OK that the row is still there as it was handed out. */
    VERDICT_ASK,
    /* The row, which is due, is replaced by one row per destination: same id and seq, counters 0, no due time, released
     * like the original, held_by = its part_holder. */
    VERDICT_SPLIT,
};

/* FAIL, POSTPONE, ABANDON, PARK and RELEASE also clear held_by: a row with a due time comes back through the due index.
 * With number 0 (not handed out) attempts are not compared, and attempts and failures stay; so ABANDON with number 0
 * and delay 0 brings back a row that is parked for want of an endpoint.  A row that was parked while it was handed out
 * stays parked: FAIL, POSTPONE, ABANDON and RELEASE with a number write everything else.
 *
 * A verdict says how one row ended that was handed out (or, for HOLD, SPLIT, DISCARD, EXPIRE, PARK and DEAD_LETTER,
 * possibly only read).
 *
 *   Answer  PR_OK           it was applied.
 *           PR_UNKNOWN      no such row: nothing changed.
 *           PR_STALE        the row changed hands or got another verdict: nothing changed.  For FAIL, POSTPONE,
 *                           ABANDON, PARK, DISCARD and DEAD_LETTER with a number: attempts are no longer number - 1.
 *                           For HOLD: it was released or parked.  For verdicts that park without a number: it is parked
 *                           already.  For ABANDON without a number: it is parked and waits for a person, see
 *                           message_awaits_route().
 *           ANSWER_BUSY     another open transaction has locked the row or a guard of its effects: nothing changed.
 *                           Ask again.  Rows of a HOLD or a SPLIT are then missing from what the same cycle reads.
 *           ANSWER_REFUSED  a guard of its effects does not hold (core/effect.h): nothing changed.
 *           ANSWER_HANDLED  the same, and the guard is the mark of its message: the message was handled before.
 *
 * A SPLIT leaves out destinations that have this id already, and answers 0 as their row.  FAIL or POSTPONE without a
 * reason is PR_REASON_UNKNOWN.  Verdicts are applied in their order; a SPLIT must be the only verdict about its row. */
enum { ANSWER_BUSY = 16, ANSWER_REFUSED = 17, ANSWER_HANDLED = 18 }; /* in addition to enum pr_result */

/* What a part of a split initially waits for. */
struct part_holder {
    pr_slice key; /* held_by; empty: wait for room at the endpoint, under the key "destination/" */
    int held_for; /* enum pr_held_for; with an empty key always PR_HELD_FOR_ENDPOINT */
};

struct verdict {
    enum verdict_kind kind;
    uint64_t row; /* must match together with id */
    pr_id id;
    int number;                /* the number of the hand-out, which is attempts + 1 at that time; 0: not handed out */
    int attempts;              /* hand-outs before this one, as read with the row: for the ledger (core/ended.h) */
    int bits;                  /* status bits reached: OR-ed into status */
    int reason;                /* FAIL, POSTPONE, PARK, DEAD_LETTER: enum pr_reason, of the latest real failure */
    pr_slice code, error;      /* clean UTF-8, cut to PR_ERROR_MAX characters */
    int64_t due_is_us, due_us; /* RESCHEDULE */
    int64_t delay_us;          /* FAIL, POSTPONE, ABANDON: due = store's now + delay; PR_NEVER parks */
    pr_slice story;            /* the complete new story; empty: unchanged */
    pr_slice held_by;          /* HOLD */
    int held_for;              /* HOLD: enum pr_held_for; 0: held for its stream */
    int cause; /* DEAD_LETTER: why it is dead (PR_REASON_POISON_MESSAGE when retries or attempts ran out) */
    /* Joined to the nearest verdict before it that is not joined: when that one is not applied, the answer to this one
     * is ANSWER_BUSY when that one is busy, and ANSWER_REFUSED otherwise. */
    bool joined;
    bool passable; /* FAIL, POSTPONE: released = true, so that its followers may overtake it */
    /* COMPLETE: applied only if attempts are still number - 1, else PR_STALE.  ASK: if the row is gone, the message was
     * delivered. */
    bool fenced;
    /* DEAD_LETTER: it counts as a failure of the message, so failures + 1.  Other kinds: it counts as a failure of its
     * endpoint. */
    bool counted;
    pr_slice rule; /* DEAD_LETTER: the rule that decided */
    int limit;     /* DEAD_LETTER: the limit that was reached; 0: none */
    /* DEAD_LETTER, COMPLETE, DISCARD, EXPIRE, DUPLICATE: the endpoint it was for (destination may be '') */
    pr_slice endpoint;
    pr_slice moved_to; /* DISCARD: an effect replaces the row by one for this endpoint; empty: the message ends here */
    char fingerprint[17];              /* DEAD_LETTER; empty string otherwise */
    const pr_slice *destinations;      /* SPLIT */
    const struct part_holder *holders; /* SPLIT: one for each part; NULL: all wait for room at their endpoints */
    size_t destination_count;
};

/* A row that is about to be sent, and its hand-out number. */
struct receipt_entry {
    uint64_t row;
    int number;
};

/* A row of the box, and the message that it must have. */
struct row_name {
    uint64_t row;
    pr_id id;
};

/* A question: has this handler (an endpoint) ended the message before, or does it have a dead letter of it? */
struct mark_key {
    pr_id id;
    pr_slice handler;
};

/* What the verdicts of this cycle add to the stored totals of one endpoint ('' for none).  Negative numbers correct a
 * verdict of an earlier cycle that was counted and then found to be stale. */
struct tally {
    pr_slice endpoint;
    int64_t sent, failed, dead, discarded, expired, duplicates;
    int reason;           /* of the latest failure, also one that no message counts; 0: none.  Stored ... */
    pr_slice code, error; /* ... with the store's now, in place of the previous failure */
};

/* Nothing is sent to an endpoint for a while, because a rule or the endpoint itself said so.  A pause holds for all
 * boxes and survives restarts; of two pauses the later end wins; all instances get a notice. */
struct pause {
    pr_slice endpoint;
    int64_t for_us;   /* by the store's clock; PR_NEVER: until resumed */
    pr_slice by, why; /* shown to people */
};

/* The breaker of an endpoint, or of one message type at it, has opened in this instance, has reopened after a failed
 * probe, or has closed.  Each instance has its own breakers: the store keeps them with the instance until they close,
 * and deletes them with it. */
struct breaker_change {
    pr_slice endpoint;
    pr_slice type;  /* empty: the breaker of the whole endpoint */
    bool open;      /* false: it has closed, and the remaining members are empty */
    int64_t age_us; /* time since it first opened */
    int64_t for_us; /* time until the next probe, by the store's clock; PR_NEVER: no probe */
    int probes;     /* probes that failed since it opened */
    int reason;     /* of the failure that opened it, or of the latest probe */
    pr_slice code, error;
};

/* A message of this type was delivered to this endpoint ('' for types beyond those that an instance remembers). */
struct evidence {
    pr_slice endpoint, type;
};

/* How long the store keeps data that is only history, by the store's clock. */
struct retention {
    int64_t dead_us, audit_us; /* dead letters; the audit of people's orders; 0: forever */
    /* the ledger of ended messages (core/ended.h); 0: it is not written, and existing entries are deleted */
    int64_t ended_us;
};

struct held_read {
    pr_slice key;       /* rows with this held_by, in seq order */
    int64_t after_seq;  /* exclusive */
    uint64_t after_row; /* rows with the same seq are in row order */
    size_t rows;
};

#define DEDUPE_OF_BOX (-1) /* the caller does not know how long its box keeps marks */

struct cycle {
    /* The instance. epoch 0: join as a new instance (number must be 1). */
    pr_slice box;
    pr_id instance;
    int64_t epoch;
    uint64_t number;
    int64_t lease_us;
    pr_slice name;       /* shown to people */
    bool leave;          /* apply everything, then hand back all lanes and remove the instance */
    uint64_t lanes_give; /* lanes to hand back: nothing of them is in flight */
    /* LANE_COUNT epochs: for each of lanes_give the instance that it is passed to; 0: any.  While that instance lives,
     * only it takes the lane, and it does so even beyond its share.  NULL: all 0. */
    const int64_t *lanes_to;
    uint64_t lanes_keep; /* owned lanes that the store must not ask back (reply.lanes_asked), whatever the shares */
    pr_slice offer;      /* on join: what this instance can do (core/offer.h); the store passes it on to the others */
    bool peers;          /* report the other instances of this box */
    bool force_write;    /* renew the lease in this cycle, however much time it has left */

    /* Changes. */
    const struct verdict *verdicts;
    size_t verdict_count;
    const struct effect *effects;
    size_t effect_count;
    const struct receipt_entry *receipt; /* exactly what this cycle hands out; empty: no receipt is written */
    size_t receipt_count;
    size_t receipt_carried; /* the first ones were on earlier receipts; the others are new hand-outs */
    const uint64_t *closed; /* numbers of earlier cycles whose receipts are to be deleted */
    size_t closed_count;
    const struct tally *tallies;
    size_t tally_count;
    const struct pause *pauses;
    size_t pause_count;
    const struct breaker_change *breakers; /* each breaker at most once */
    size_t breaker_count;
    const struct evidence *delivered; /* recent deliveries, of all boxes: the store keeps its now for each */
    size_t delivered_count;
    int64_t keep_us; /* > 0: how long completed rows stay in `done` */
    /* > 0: how long messages that end in this box stay marked (core/mark.h).  Passed on join; the store keeps it with
     * the box.  DEDUPE_OF_BOX: the value of the box stays, and the reply to a join returns it. */
    int64_t dedupe_us;
    struct retention retention;

    /* Reads; they see the changes above. rows 0: no such read. */
    size_t fresh_rows, fresh_bytes; /* stops when either is reached; at least one row */
    uint64_t restart_lanes;         /* the scan of fresh rows of these lanes starts over */
    const struct fresh_skip *skips; /* new rows that the store may leave out, because the engine has no room for them */
    size_t skip_count;
    /* > 0: hand out the new rows that this cycle reads, provided that there are at most this many, none was handed out
     * before, no two have the same stream (start_runs: they may), none has one of the streams of start_not, and no
     * notice that is missing from the reply was committed before them.  The store then puts all of them on the receipt
     * of this cycle, with number 1, and says so in reply.started.  Such a cycle has no other receipt, and no effects
     * that go into its own box.  A store need not support this. */
    size_t start_fresh;
    bool start_runs;
    const pr_slice *start_not;
    size_t start_not_count;
    struct {
        size_t rows;
        int64_t after_due_us, after_seq;
        uint64_t after_row;
    } due; /* In the order (due, seq, row): rows with due <= now that are not held.  The cursor is exclusive. */
    /* [from, to) in (seq, row) order: rows that are fresh and not held; rows of from_seq only if row > after_row. */
    struct {
        size_t rows;
        int64_t from_seq, to_seq;
        uint64_t after_row;
    } reread;
    struct {
        size_t rows;
        uint64_t lanes;
        uint64_t after_row;
    } heads; /* In row order, without payload: rows with message_blocks_stream(), or parked (due = PR_NEVER). */
    /* Heads are the dead letters of the box that have a stream instead (row is their id in dead_letter, and so is
     * after_row). */
    bool heads_dead;
    /* Distinct values of held_by, ascending.  An endpoint's own key may be included although it has no rows in these
     * lanes. */
    struct {
        size_t rows;
        uint64_t lanes;
        pr_slice after;
    } held_keys;
    const struct held_read *held;
    size_t held_count;
    const struct mark_key *marks; /* of messages on the receipt that are about to be sent */
    size_t mark_count;
    const struct row_name *alive; /* rows that are handed out: do they still exist? */
    size_t alive_count;
    const struct row_name *loads; /* payloads of rows that came without them and are about to be sent */
    size_t load_count;
    const struct evidence *evidence; /* when was one of these last delivered, by any instance? */
    size_t evidence_count;
    int64_t notice_after; /* read operators' notices with a greater number; 0 on join: none, only notice_last is set */
    size_t payload_max;   /* larger payloads are not read with their rows: see row.over and loads */
};

enum notice_kind {
    NOTICE_GONE,     /* the row, or the dead letter, was discarded by a person */
    NOTICE_DUE,      /* rows got an earlier due time (retry, release, replay): read the due rows again */
    NOTICE_PARKED,   /* the row was parked, or made a dead letter by a person: strict streams wait behind it */
    NOTICE_ENDPOINT, /* an endpoint was paused or resumed: see endpoints */
    NOTICE_RELOAD,   /* many rows changed (the order had a filter): read everything again */
    NOTICE_FAILED,   /* a row was stored that had failed before: others of its stream wait behind it */
    /* Rows were changed by a repair, past the engine: read everything again, also rows that were handed out and not yet
     * sent. */
    NOTICE_REPAIRED,
};

struct notice {
    int64_t number;
    enum notice_kind kind;
    uint64_t row; /* 0: more than one row */
    int64_t seq;
    pr_slice stream, endpoint; /* endpoint: the row's destination, or the endpoint that changed */
};

#define ENDPOINT_FAILING_MIN 3 /* failures in a row from which on an endpoint is failing: fewer are ordinary */

struct endpoint_state {
    pr_slice name;
    int64_t paused_until_us; /* 0: not paused; PR_NEVER: until resumed */
    pr_slice by, why;
    uint64_t sent, failed, dead, discarded, expired, duplicates;
    uint64_t failed_in_row; /* failed attempts since the latest delivery */
    int64_t last_failed_us; /* 0: never */
    int last_reason;
    pr_slice last_code, last_error;
};

/* Is any of its verdicts joined to another? */
static inline bool cycle_has_joined(const struct cycle *c)
{
    for (size_t i = 0; i < c->verdict_count; i++)
        if (c->verdicts[i].joined)
            return true;
    return false;
}

/* Does one of its effects go into its own box? */
static inline bool cycle_stores_in_box(const struct cycle *c)
{
    for (size_t i = 0; i < c->effect_count; i++)
        if (slice_eq(c->effects[i].box, c->box))
            return true;
    return false;
}

/* Another instance of the box. */
struct peer_offer {
    int64_t epoch;
    pr_slice offer; /* as passed on join: it never changes during an epoch */
};

/* The outcome of cycle.start_fresh. */
enum started {
    STARTED_NONE,    /* this cycle has no receipt */
    STARTED_ALL,     /* all new rows of this reply are on its receipt */
    STARTED_UNKNOWN, /* there may be a receipt with unknown rows: none of them was sent, and it is to be closed */
};

struct cycle_reply {
    int64_t now_us; /* the store's clock */
    int64_t epoch;
    int64_t lease_left_us; /* after this cycle; the engine counts from the time before it called */
    /* This cycle number was applied before: split_rows are not known, and answers (which may be NULL) only say which
     * verdicts were busy or refused.  The reads were repeated: the fresh scan went back to where it stood before this
     * number. */
    bool replayed;
    /* Commits may have been lost since the previous reply: this one came over another connection, from another server
     * or file, or place numbers are assigned again.  A row that was read before counts only when it is read again with
     * its id.  Only the carried-over part of the receipt was written. */
    bool history_changed;
    uint64_t lanes_owned;
    uint64_t lanes_asked;           /* owned lanes that another instance should have: hand them back when idle */
    bool lanes_together;            /* lanes change hands all at once, or not at all */
    const struct peer_offer *peers; /* other living instances, by epoch; NULL: not asked */
    size_t peer_count;

    int *answers; /* per verdict: PR_OK, PR_UNKNOWN, PR_STALE, ANSWER_BUSY, ANSWER_REFUSED, ANSWER_HANDLED */
    /* Per effect, see core/effect.h; PR_UNKNOWN also when its verdict was not applied.  NULL: not known. */
    int *effect_answers;
    uint64_t *split_rows; /* per destination of every SPLIT, in the order of verdicts; 0: not applied */

    struct row *rows; /* everything that was read, in the order of the reads above */
    size_t row_count;
    bool fresh_end; /* there are no more new rows for now */
    struct {
        int64_t from_seq, to_seq;
    } skipped; /* [from, to): all new rows that were left out are in this range; from == to: none */
    /* With cycle.skips, per lane: up to this place no more new rows can appear, except those that commit late.  NULL,
     * or INT64_MIN of a lane: only up to its last new row. */
    const int64_t *passed;
    enum started started;
    bool due_end;
    int64_t next_due_us; /* the first due time after now, not counting parked rows; PR_NEVER: none */
    bool reread_end, heads_end, held_keys_end;
    bool *held_end; /* per held_read */
    pr_slice *held_keys;
    size_t held_key_count;
    int64_t dedupe_us; /* of the box; only in the reply to a cycle with epoch 0 and DEDUPE_OF_BOX */
    bool *marked;      /* per element of cycle.marks; NULL: none is marked */
    bool *gone;        /* per element of cycle.alive; NULL: none is gone */
    /* Per element of cycle.loads, each malloc'ed; data NULL: the row no longer exists.  A caller that takes one over
     * sets its data to NULL; the session frees the rest.  They are handed over, not copied, because they are large. */
    pr_slice *loaded;
    size_t loaded_count;
    int64_t *evidence; /* per element of cycle.evidence: the store's time; 0: never, or long ago */

    struct notice *notices;
    size_t notice_count;
    int64_t notice_last;  /* cursor for the next cycle */
    bool endpoints_known; /* endpoints below is the complete list: on join and after NOTICE_ENDPOINT */
    struct endpoint_state *endpoints;
    size_t endpoint_count;
};

/* Free the payloads that the caller has not taken over. */
void cycle_reply_free_loaded(struct cycle_reply *reply);

#endif
