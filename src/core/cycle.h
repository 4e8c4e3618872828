/* The words between engine and store: rows out, verdicts in, one cycle at a time.
 *
 * Plain data, so that the engine knows the conversation and not the store.  What a store must
 * do with it is said in store/store.h. */
#ifndef CORE_CYCLE_H
#define CORE_CYCLE_H

#include <postrider.h>

#include "core/effect.h"

/* ---- Rows --------------------------------------------------------------------------- */

enum row_from { ROW_FRESH, ROW_DUE, ROW_HELD, ROW_REREAD, ROW_HEAD };

/* New rows that need not be told: of this destination; or, where that is empty, of those without one, of this type, unless they are
 * replies. */
struct fresh_skip {
    pr_slice destination, type;
};
bool fresh_is_skipped(const struct fresh_skip *skips, size_t count, const struct pr_message *m);

struct row {
    struct pr_message m; /* slices are borrowed until the next cycle() of the session */
    uint64_t row;        /* the store's name for it: unique in its box while it lives, > 0 */
    unsigned lane;
    enum row_from from;
    bool dead;       /* ROW_HEAD only: it is a dead letter (strict streams wait behind it) */
    const char *bad; /* why it cannot be decoded, or NULL.  m then holds what could be read */
    size_t over;     /* bytes of a payload over cycle.payload_max, which then stays in the store; 0: m has it */
};

/* ---- The cycle ---------------------------------------------------------------------- */

enum verdict_kind {
    VERDICT_COMPLETE, /* the row leaves the box (into `done` when the box keeps) */
    VERDICT_FAIL,     /* attempts = number, failures + 1, bits | Failed, due = now + delay */
    VERDICT_POSTPONE, /* later, and nothing is counted (not the message's fault): due = now + delay, bits | Failed; reason,
                          * code, error, failed_at as with FAIL; attempts and failures stay */
    VERDICT_RETURN,      /* handed back: nothing is written */
    VERDICT_ABANDON,     /* attempts = number; due = now + delay */
    VERDICT_RELEASE,     /* released = true, held_by = NULL, due = now; counters and status untouched */
    VERDICT_DISCARD,     /* the row is deleted */
    VERDICT_EXPIRE,      /* the row is deleted: its time was over */
    VERDICT_DEAD_LETTER, /* the row moves to dead_letter; attempts = number, bits | Failed; reason, code and
                          * error stay when reason is 0, failed_at stays unless counted */
    VERDICT_PARK,        /* due = PR_NEVER; attempts, failures, reason as with FAIL when reason is set */
    VERDICT_HOLD,        /* held_by = key (fresh and due rows that others go before; not a hand-out).  due stays */
    VERDICT_RESCHEDULE, /* a row that is worked by its time alone: due = due_us, if it is still due_is_us; not a hand-out */
    VERDICT_DUPLICATE, /* the row is deleted: its message was handled before (core/mark.h) */
    VERDICT_ASK, /* nothing is written.  Somebody says that he has completed it in a transaction of his own: PR_UNKNOWN
                          * means that it is so; PR_OK: the row is still there as it was handed out */
    VERDICT_SPLIT, /* the row, whose time has come, is replaced by one per destination: same id and seq,
                          * counters 0, no due time, released as it is, held_by = its holder */
};

/* FAIL, POSTPONE, ABANDON, PARK and RELEASE also clear held_by: what has a due time comes back through the due
 * index.  number 0 (not handed out): no check against attempts, and attempts and failures stay; so
 * ABANDON with number 0 and delay 0 brings back a row that is parked for want of an endpoint.  One that was parked while it was out stays
 * parked: with a number FAIL, POSTPONE, ABANDON and RELEASE write all the rest.
 *
 * What one claimed (or, for HOLD, SPLIT, DISCARD, EXPIRE, PARK, DEAD_LETTER, merely read)
 * row ended as.
 *
 * Answer  PR_OK       it was applied.
 *         PR_UNKNOWN  no such row: nothing changed.
 *         PR_STALE    the row changed hands or was judged meanwhile: nothing changed.  That is, of FAIL, POSTPONE,
 *                     ABANDON, PARK, DISCARD and DEAD_LETTER with a number: its attempts are not number - 1 any more;
 *                     of HOLD: it was released or parked; of what parks without a number: it is parked; of ABANDON
 *                     without a number that unparks: it waits for a person, see message_awaits_route().
 *         ANSWER_BUSY somebody else holds the row, or a guard of its effects, in an open transaction: nothing
 *                     changed.  Ask again.
 *         ANSWER_REFUSED  a guard of its effects does not hold (core/effect.h): nothing changed.
 *         ANSWER_HANDLED  the same, and the guard is the mark of its message: somebody handled it before.
 *
 * A SPLIT leaves alone what a destination has of this id already, and tells 0 for it.  FAIL or
 * POSTPONE without a reason is PR_REASON_UNKNOWN.  Verdicts are applied in their order; a SPLIT is alone with its row. */
enum { ANSWER_BUSY = 16, ANSWER_REFUSED = 17, ANSWER_HANDLED = 18 }; /* beside enum pr_result */

/* What a part of a split waits for from the beginning. */
struct part_holder {
    pr_slice key; /* held_by; empty: room at its endpoint, by the key "destination/" ... */
    int held_for; /* ... enum pr_held_for; of an empty key PR_HELD_FOR_ENDPOINT, whatever it says */
};

struct verdict {
    enum verdict_kind kind;
    uint64_t row; /* with id: both must match */
    pr_id id;
    int number;                /* the hand-out number = attempts + 1 when it was claimed; 0: not handed out */
    int attempts;              /* hand-outs before this one, as they were read: for the ledger (core/ended.h) */
    int bits;                  /* status bits reached: OR-ed in */
    int reason;                /* FAIL, POSTPONE, PARK, DEAD_LETTER: enum pr_reason, of the latest real failure */
    pr_slice code, error;      /* already clean UTF-8 and cut to PR_ERROR_MAX characters */
    int64_t due_is_us, due_us; /* RESCHEDULE */
    int64_t delay_us;          /* FAIL, POSTPONE, ABANDON: due = store's now + delay; PR_NEVER parks */
    pr_slice story;            /* the whole new story; empty: unchanged */
    pr_slice held_by;          /* HOLD ... */
    int held_for;              /* ... enum pr_held_for; 0: its stream */
    int cause; /* DEAD_LETTER: why it is dead (PR_REASON_POISON_MESSAGE when retries or attempts ran out) */
    bool
        joined; /* it goes with the nearest verdict before it that is not joined: when that one is not applied, this one
                            * is ANSWER_BUSY with it, or ANSWER_REFUSED */
    bool passable; /* FAIL, POSTPONE: its followers may overtake it: released = true, so that it holds up nobody */
    bool fenced;   /* COMPLETE: only if its attempts are number - 1 still, else PR_STALE.  ASK: what was completed so
                            * has been delivered when it is gone */
    bool counted;  /* DEAD_LETTER: this was a failure verdict, so failures + 1.  Others: it is counted as a
                            * failure of its endpoint */
    pr_slice rule; /* DEAD_LETTER: which rule decided */
    int limit;     /* DEAD_LETTER: the limit that was reached, 0 none */
    pr_slice
        endpoint; /* DEAD_LETTER, COMPLETE, DISCARD, EXPIRE, DUPLICATE: where it was going (destination may be '') */
    pr_slice moved_to;                 /* DISCARD: an effect takes its place at this endpoint; empty: it is gone */
    char fingerprint[17];              /* DEAD_LETTER; empty string otherwise */
    const pr_slice *destinations;      /* SPLIT */
    const struct part_holder *holders; /* SPLIT: of each part; NULL: all wait for room at their endpoints */
    size_t destination_count;
};

/* What is about to be started: the row and its hand-out number. */
struct receipt_entry {
    uint64_t row;
    int number;
};

/* A row of the box, and the message that it must have. */
struct row_name {
    uint64_t row;
    pr_id id;
};

/* Whose mark is asked for: has this handler (an endpoint) ended the message before, or has it a dead letter of it? */
struct mark_key {
    pr_id id;
    pr_slice handler;
};

/* What the verdicts of this cycle come to for one endpoint ('' for none): added to the stored
 * totals.  Negative: a verdict of an earlier cycle was counted and then turned out to be stale. */
struct tally {
    pr_slice endpoint;
    int64_t sent, failed, dead, discarded, expired, duplicates;
    int reason;           /* of the latest failure, also one that counts for no message; 0: none.  It is kept */
    pr_slice code, error; /* ... with the store's now, instead of the one before */
};

/* An endpoint is not to be sent to for a while: a rule, or the endpoint itself, said so.  It holds for
 * all boxes and survives restarts; of two pauses the later end wins; all instances get a notice. */
struct pause {
    pr_slice endpoint;
    int64_t for_us;   /* by the store's clock; PR_NEVER: until resumed */
    pr_slice by, why; /* for people */
};

/* The breaker of an endpoint, or of one message type of it, has opened in this instance, has opened again after
 * a failed probe, or has closed.  Each instance has its own: the store keeps them beside the instance until they
 * close, and forgets them with it. */
struct breaker_change {
    pr_slice endpoint;
    pr_slice type;  /* empty: of the whole endpoint */
    bool open;      /* false: it has closed, and the rest is empty */
    int64_t age_us; /* how long ago it opened first */
    int64_t for_us; /* the next probe may go after this time, by the store's clock; PR_NEVER: never */
    int probes;     /* that failed since it opened */
    int reason;     /* of the failure that opened it, or of the latest probe */
    pr_slice code, error;
};

/* A message of this type was delivered to this endpoint ('' for types beyond what an instance remembers). */
struct evidence {
    pr_slice endpoint, type;
};

/* How long the store keeps what nobody works on any more, by the store's clock. */
struct retention {
    int64_t dead_us, audit_us; /* dead letters, what people did; 0: for ever */
    int64_t ended_us; /* the ledger of what has ended (core/ended.h); 0: it is not written, and what is in it goes */
};

struct held_read {
    pr_slice key;       /* rows with this held_by, in seq order */
    int64_t after_seq;  /* exclusive */
    uint64_t after_row; /* rows of one seq are in row order */
    size_t rows;
};

#define DEDUPE_OF_BOX (-1) /* the caller does not know how long the marks of its box are kept */

struct cycle {
    /* Who.  epoch 0: join as a new instance (number must be 1). */
    pr_slice box;
    pr_id instance;
    int64_t epoch;
    uint64_t number;
    int64_t lease_us;
    pr_slice name;           /* for people */
    bool leave;              /* apply, then hand back all lanes and be gone */
    uint64_t lanes_give;     /* lanes handed back: nothing of them is in flight */
    const int64_t *lanes_to; /* LANE_COUNT epochs: of lanes_give, whom a lane is passed to (0: anybody's): while that
                                * instance lives nobody else takes it, and it does so whatever its share is; NULL: nobody */
    uint64_t lanes_keep;     /* lanes that are not to be asked for, however many others have */
    pr_slice offer;   /* on join: what this instance can do (core/offer.h); the store passes it on to the others */
    bool peers;       /* who else works this box? */
    bool force_write; /* renew the lease in this cycle whatever time is left */

    /* Changes. */
    const struct verdict *verdicts;
    size_t verdict_count;
    const struct effect *effects;
    size_t effect_count;
    const struct receipt_entry *receipt; /* of this cycle: exact; empty: none is written */
    size_t receipt_count;
    size_t receipt_carried; /* the first ones were on earlier receipts; the others are to be started */
    const uint64_t *closed; /* numbers of earlier cycles whose receipts are deleted */
    size_t closed_count;
    const struct tally *tallies;
    size_t tally_count;
    const struct pause *pauses;
    size_t pause_count;
    const struct breaker_change *breakers; /* one breaker at most once */
    size_t breaker_count;
    const struct evidence *delivered; /* just now, of all boxes: the store's now is kept of each */
    size_t delivered_count;
    int64_t keep_us; /* > 0: how long completed rows stay in `done` */
    int64_t
        dedupe_us; /* > 0: how long what ends in this box stays marked (core/mark.h); passed to the store on join, which
                        * keeps it with the box.  DEDUPE_OF_BOX: what the box has stays, and the reply to a join has it */
    struct retention retention;

    /* Reads; they see the changes above.  rows 0: not asked for. */
    size_t fresh_rows, fresh_bytes; /* stops at whichever is reached; at least one row */
    uint64_t restart_lanes;         /* the scan of fresh rows of these lanes starts over */
    const struct fresh_skip *skips; /* new rows that may be left out: whoever asks has no room for them */
    size_t skip_count;
    /* > 0: the new rows that this cycle reads are to be started, if they are this many at most, none was handed out before, no
     * two are of one stream, and no notice was committed before them that is not in the reply.  Then the store puts all of
     * them on the receipt of this cycle, with number 1, and says so in reply.started.  Such a cycle changes nothing else.  A
     * store need not do it. */
    size_t start_fresh;
    struct {
        size_t rows;
        int64_t after_due_us, after_seq;
        uint64_t after_row;
    } due; /* order (due, seq, row);
                                                * due <= now, not held; the cursor is exclusive */
    struct {
        size_t rows;
        int64_t from_seq, to_seq;
        uint64_t after_row;
    } reread; /* [from, to) in (seq, row) order,
                                                * fresh and not held; rows of from_seq only if row > after_row */
    struct {
        size_t rows;
        uint64_t lanes;
        uint64_t after_row;
    } heads;         /* in row order: rows with message_blocks_stream()
                                                * or parked (due = PR_NEVER), without payload */
    bool heads_dead; /* heads: the dead letters of the box that have a stream instead (row = their
                                                * id in dead_letter, and after_row is one of those) */
    struct {
        size_t rows;
        uint64_t lanes;
        pr_slice after;
    } held_keys; /* distinct held_by, ascending; an
                                                * endpoint's own key comes also when it only may have rows in these lanes */
    const struct held_read *held;
    size_t held_count;
    const struct mark_key *marks; /* of what is on the receipt and about to be started */
    size_t mark_count;
    const struct row_name *alive; /* are these rows, which are out, still there? */
    size_t alive_count;
    const struct row_name *loads; /* payloads of rows that came without them: they are about to be started */
    size_t load_count;
    const struct evidence *evidence; /* when was one of these delivered last, by anybody? */
    size_t evidence_count;
    int64_t notice_after; /* operators' notices with a greater number; 0 on join:
                                                * none, only notice_last is set */
    size_t payload_max;   /* larger payloads are not read with their rows: row.over, loads */
};

enum notice_kind {
    NOTICE_GONE,     /* the row, or the dead letter, was discarded by hand */
    NOTICE_DUE,      /* rows got an earlier due time (retry, release, replay): look again */
    NOTICE_PARKED,   /* the row was parked, or made dead by hand: strict streams wait behind it */
    NOTICE_ENDPOINT, /* an endpoint was paused or resumed: see endpoints */
    NOTICE_RELOAD,   /* much has changed (a filter was used): read everything again */
    NOTICE_FAILED,   /* a row was stored that had failed before: others of its stream wait behind it */
    NOTICE_REPAIRED, /* what rows say was changed past us: read everything again, also what was handed out and has not
                      * started */
};

struct notice {
    int64_t number;
    enum notice_kind kind;
    uint64_t row; /* 0: more than one */
    int64_t seq;
    pr_slice stream, endpoint; /* endpoint: the row's destination, or the endpoint */
};

#define ENDPOINT_FAILING_MIN 3 /* attempts in a row that all failed: fewer are ordinary */

struct endpoint_state {
    pr_slice name;
    int64_t paused_until_us; /* 0: not paused; PR_NEVER: until resumed */
    pr_slice by, why;
    uint64_t sent, failed, dead, discarded, expired, duplicates;
    uint64_t failed_in_row; /* attempts since the latest delivery, all of which failed; 0: that one was the latest */
    int64_t last_failed_us; /* 0: it never failed */
    int last_reason;
    pr_slice last_code, last_error;
};

/* Is a verdict of it joined to another? */
static inline bool cycle_has_joined(const struct cycle *c)
{
    for (size_t i = 0; i < c->verdict_count; i++)
        if (c->verdicts[i].joined)
            return true;
    return false;
}

/* Another instance of the box. */
struct peer_offer {
    int64_t epoch;
    pr_slice offer; /* as it was passed on join: it stays the same as long as the epoch does */
};

/* What became of cycle.start_fresh? */
enum started {
    STARTED_NONE,    /* there is no receipt of this cycle */
    STARTED_ALL,     /* all new rows of this reply are on it */
    STARTED_UNKNOWN, /* there may be one, and nobody knows what is on it: none of it was started, and it is to be closed */
};

struct cycle_reply {
    int64_t now_us; /* the store's clock */
    int64_t epoch;
    int64_t lease_left_us; /* after this cycle; the engine counts it from before it asked */
    bool replayed; /* this number was applied before; split_rows are not known, and of answers (which may be NULL)
                            * only who was busy or refused.  It has
                             * read again: the fresh scan went back to where it stood before this number */
    bool
        history_changed; /* commits may have been lost since the reply before this one: it came over another connection,
                             * from another server or file, or places are drawn again.  What was read before counts only when it
                             * is read again, by its id.  Of the receipt only what was carried over is written */
    uint64_t lanes_owned;
    uint64_t lanes_asked;           /* owned lanes that somebody else should have: give them when idle */
    bool lanes_together;            /* they change hands all at once, or not at all */
    const struct peer_offer *peers; /* others who live, by epoch; NULL: not asked */
    size_t peer_count;

    int *answers; /* per verdict: PR_OK, PR_UNKNOWN, PR_STALE, ANSWER_BUSY, ANSWER_REFUSED, ANSWER_HANDLED */
    int *
        effect_answers; /* per effect, see core/effect.h; PR_UNKNOWN also when its verdict was not applied.  NULL: not known */
    uint64_t *split_rows; /* per destination of every SPLIT, in order of verdicts; 0: not applied */

    struct row *rows; /* everything that was read, in the order asked */
    size_t row_count;
    bool fresh_end; /* nothing more is there right now */
    struct {
        int64_t from_seq, to_seq;
    } skipped; /* [from, to): new rows were left out, all of them here; from == to: none */
    const int64_t
        *passed; /* with cycle.skips, per lane: up to here nothing new is to come but what commits late; NULL, or
                            * INT64_MIN of a lane: no further than to its last new row */
    enum started started;
    bool due_end;
    int64_t next_due_us; /* the first due time after now, PR_NEVER: none (parked rows do not count) */
    bool reread_end, heads_end, held_keys_end;
    bool *held_end; /* per held_read */
    pr_slice *held_keys;
    size_t held_key_count;
    int64_t dedupe_us; /* of the box; only of a cycle with epoch 0 and DEDUPE_OF_BOX */
    bool *marked;      /* per question of marks; NULL: none is */
    bool *gone;        /* per question of alive; NULL: none is */
    /* Per question of loads, each malloc'ed; data NULL: there is no such row any more.  A caller that takes one over sets data to
     * NULL, and the rest is freed by the session.  One copy, since they are large. */
    pr_slice *loaded;
    size_t loaded_count;
    int64_t *evidence; /* per question: the store's time; 0: never, or long ago */

    struct notice *notices;
    size_t notice_count;
    int64_t notice_last;  /* cursor for the next cycle */
    bool endpoints_known; /* endpoints below is the whole list: on join and after NOTICE_ENDPOINT */
    struct endpoint_state *endpoints;
    size_t endpoint_count;
};

/* What nobody has taken over. */
void cycle_reply_free_loaded(struct cycle_reply *reply);

#endif
