/* What the files of the engine share.  Nothing outside engine/ includes this.
 *
 *   window.c          items: the rows that are in memory, their slots and their room
 *   stream.c          streams: order, failed heads, held followers
 *   gap.c             gaps: rows that the engine met and does not have in memory, and reading them again
 *   skip.c            new rows that the store need not read, since their endpoint has a gap
 *   route.c           where a row goes
 *   receipt.c         receipts: what is announced to the store before it is sent
 *   start.c           receipts that the store writes for rows in the same cycle that reads them
 *   twin.c            rows of one message for one endpoint, in a box with dedupe
 *   choose.c          which rows go out next, and how many at once
 *   load.c            payloads that are so large that they are read only when chosen
 *   run.c             runs: rows of a box of turns that go out together
 *   gone.c            rows that are out and that others have deleted
 *   limits.c          what the engines of a process share: rates, concurrency, breakers, the window
 *   breakers.c        the breakers of an endpoint: who waits for them
 *   breaker_results.c what breakers are asked, and the results that they get
 *   report.c          breakers and failures, as reported to the store
 *   left.c            gaps of rows that are left in the store so that others need not wait for them
 *   held_types.c      rows left because the breaker of their type is not closed
 *   sorts.c           rows left because their types are asked for less than others; how sorts share
 *   evidence.c        whether an endpoint works for other messages of a type
 *   inline_results.c  results of inline sends to the endpoints of this engine
 *   pause.c           pauses that begin in this engine
 *   fail.c            from a failure to what follows
 *   local.c           messages that go into another box
 *   settled.c         messages that their receivers complete in their own transactions
 *   settle.c          from results to verdicts, and what a committed verdict changes
 *   plan.c            the next cycle
 *   absorb.c          the store's reply: notices, verdicts, receipts
 *   lanes.c           lanes, and what is read when they are opened
 *   peers.c           the other instances, and which of them should have a lane
 *   reads.c           the rows of a reply
 *   orphan.c          rows that are held for endpoints that no longer exist
 *   admit.c           how a row gets into memory
 *   result.c          hand-outs to transports, and their results
 *   worker_verdict.c  verdicts that a worker in C gives itself
 *   wait.c            when the engine must be called again
 *   view.c            counts and views for others, and the checks of the invariants
 *   engine.c          life and death of an engine */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/slice.h"
#include "core/ask.h"
#include "core/lane.h"
#include "core/message.h"
#include "core/reason.h"
#include "core/verdict.h"
#include "engine/engine.h"

/* How long the engine may do other work before it looks for fresh rows again. */
#define FRESH_LOOK_US PR_MILLISECONDS(100)
/* How long the engine only looks for fresh rows and commits nothing, in durations of the latest commit ... */
#define PASS_TURN_COMMITS 2
#define PASS_TURN_MAX_US PR_MILLISECONDS(200)   /* ... and at most; see passes_on() */
#define PASS_BATCHES 4                          /* batches of fresh rows in one such look */
#define PASS_OVER_AFTER_US PR_MILLISECONDS(100) /* how long the scan waits for a full endpoint before it reads on */
#define CLOSED_SHARE 64                         /* rows kept in memory for an endpoint that cannot send */
#define STREAM_SHARE_DIVISOR 4 /* a stream takes a quarter of the window at most; the rest is held in the store */
#define STREAM_SHARE_MIN 16
#define HELD_READS_MAX 64               /* new rows of a stream are held once it takes this fraction of the window */
#define HELD_ROWS 64                    /* followers read per stream and cycle: at most ... */
#define HELD_ROWS_MIN 8                 /* ... and at least this many, unless there is no room for them */
#define ORPHAN_READS_MAX 64             /* keys of removed endpoints, read per cycle */
#define RECEIPTS_OPEN_MAX 64            /* open receipts; older ones are carried over */
#define OPENING_ROWS 1000               /* heads and held keys per cycle */
#define RETRY_MIN_US PR_MILLISECONDS(5) /* first pause after a store fault; doubled with each fault ... */
#define RETRY_MAX_US PR_SECONDS(1)      /* ... up to this */
#define SORT_TYPES 256                  /* types whose sort is found without a search */
#define INLINE_RESULTS_US PR_SECONDS(1) /* results of inline sends are stored within this time */
/* A due pass that dropped n rows is repeated after n times this at the earliest. */
#define SWEEP_ROW_US 100
#define BUSY_PAUSE_US PR_MILLISECONDS(20) /* until a row is tried again that another transaction has locked */

/* Where an item is.  Each place has its list; item_move() is the only function that writes it. */
enum place {
    PLACE_NONE,      /* in no list: being made or about to be freed */
    PLACE_SPLITTING, /* stream->items or endpoint->loose; a part of a split whose row is not stored yet */
    PLACE_WAITING,   /* stream->items or endpoint->loose */
    PLACE_TWIN,      /* e->window.twins: waits for another row of its message, see twin.c */
    PLACE_CHOSEN,    /* e->window.chosen: on the receipt of the cycle being made */
    PLACE_RUN,       /* e->window.runs: goes with the leader of its run, which is chosen, ready or out */
    PLACE_READY,     /* endpoint->ready: its receipt is committed */
    PLACE_OUT,       /* e->window.out: the transport has it */
    PLACE_JUDGED,    /* e->window.judged: its verdict waits for the next cycle */
    PLACE_PLANNED,   /* e->window.planned: its verdict is in the cycle being made */
    PLACE_ZOMBIE,    /* e->window.zombies: no longer this engine's, but the transport still reads it */
};

struct item_dead { /* why an item is dead, see run.c */
    struct delivery_dead d;
    bool counted; /* the latest attempt counted as a failure */
    char texts[];
};

struct item {
    struct map_node by_row, by_id;
    struct list_node node; /* in the list of its place */
    struct list_node on_receipt;
    struct receipt *receipt; /* NULL: on no receipt */
    uint64_t receipt_number; /* of the last receipt that it left */
    struct pr_message m;     /* its bytes are stored behind the struct */
    uint64_t row;
    unsigned lane;
    uint32_t slot, generation;
    enum place place;
    struct endpoint *endpoint;     /* NULL: none (undecodable, unroutable, or being split) */
    struct endpoint_breaker *gate; /* the breaker of its type at its endpoint; NULL: none */
    struct sort *sort;             /* the sort of its type there; NULL: all asks are for all types */
    unsigned ask;                  /* index of the ask that it goes out for */
    struct stream *stream;         /* NULL: unordered */
    size_t bytes;
    size_t over; /* size of a payload that is not read with its row; 0: the payload is in m */
    /* on the receipt being made: 1 + index in cycle.loads; 0: its payload is not requested */
    size_t load;
    size_t load_room;    /* the part of `over` that is counted in limits.load_bytes */
    char *loaded;        /* owned: m.payload, while the item is chosen, ready or out; NULL: not loaded */
    int number;          /* number of the hand-out */
    uint32_t rate_taken; /* when its rate token was taken: see rate_take() */
    bool from_due;       /* its row has a due time */
    /* The breaker that counted the failure of its pending verdict; NULL: none did. */
    struct endpoint_breaker *weighs_on;
    bool outdated;  /* its row may have changed while it was out, through an operator or its receiver */
    unsigned seat;  /* 1 + its level among suspects; 0: it has no seat, or other engines have taken it: see choose.c */
    size_t mark;    /* on the receipt being made: 1 + index in cycle.marks; 0: its mark is not requested */
    bool has_twins; /* it is in window.ids, where other rows of its message may be */
    /* Its effects have guards, or the order of their rows matters: only the store's answer frees its stream. */
    bool refusable;
    bool deferred;                        /* planned, but then left out of the cycle: see refused.c */
    bool refused;                         /* deferred because the database refuses its effects ... */
    char *refusal;                        /* ... for this reason; owned, may be NULL */
    bool given;                           /* the transport reads it: it is out, or in the run of an item that is */
    bool gone, gone_asked, gone_reported; /* its row was deleted by others while it was out, see gone.c */
    struct item *run_first, *run_next;    /* see run.c; run_first of the leader itself is NULL */
    struct item_dead *dead;               /* owned; NULL: not dead */
    struct delivery delivery;
    struct verdict verdict;
    char *texts;                 /* owned: the bytes of the verdict's slices */
    struct send_effect *effects; /* owned */
    struct item **children;      /* SPLIT: owned array, child i for destination i, NULL: not kept in memory */
    pr_slice *destinations;
    struct part_holder *holders;
    size_t child_count;
    int *answer;                            /* the worker's; borrowed until the verdict is committed */
    enum send_outcome asked;                /* ASK: the outcome that its receiver reported */
    void (*settled)(void *arg, int answer); /* see struct delivery_result; NULL: no callback */
    void *settled_arg;
    int settled_as;
};

struct head {
    int64_t seq;
    int64_t due_us; /* store time when it comes back; PR_NEVER: not by itself */
    bool dead;
    bool here; /* it waits in memory, so that followers can be queued behind it there */
};

/* The order of one stream at one endpoint. */
struct stream {
    struct map_node node;
    struct endpoint *endpoint;
    unsigned lane;
    struct list items; /* WAITING and SPLITTING, by seq */
    size_t item_count;
    size_t busy;        /* number of items chosen, ready, out, or judged with a failure */
    struct head *heads; /* failed rows that wait elsewhere, by seq; followers do not pass them */
    size_t head_count, head_capacity;
    size_t heads_here; /* how many heads at the front wait in memory */
    /* owned: the allocation that heads points into; head_capacity counts from its beginning */
    struct head *head_block;
    bool held;                    /* rows of it are (or may be) held in the store */
    size_t holds;                 /* HOLD verdicts that are not committed yet */
    int64_t held_from;            /* rows before this seq are not held in the store */
    bool held_stop;               /* while absorbing a reply: its further rows must wait */
    bool shelved;                 /* `ready` is linked into the shelf of a message type, see breakers.c */
    bool begun;                   /* a session: an activity of it ran here, see peers.c */
    bool dozing;                  /* its first held row is of a held type or of a full sort: it is not read */
    bool mixed;                   /* ... or of another sort than the rows in memory */
    const struct sort *busy_sort; /* sort of the item chosen last; only compared */
    struct list_node ready;       /* in endpoint->ready_streams */
    struct list_node waking;      /* in endpoint->waking: held, not blocked, few rows in memory */
    /* In e->reading.unscanned: held, and the fresh scan must pass its first held row first. */
    struct list_node unscanned;
    pr_slice name; /* stored behind the struct */
    pr_slice key;  /* endpoint/stream, as in held_by */
};

/* Where the rows of a gap are in the store, and so how they are read again. */
enum gap_source {
    GAP_FRESH, /* among the fresh rows: the scan met them and passed over them */
    GAP_HELD,  /* held under the endpoint's key: parts of splits, and rows that were due */
    GAP_SOURCES,
};

/* Rows of an endpoint that were met once and are not in memory: of one source, between two places.  Nothing else is
 * known of them. */
struct gap {
    bool active;
    int64_t from_seq;    /* no row before this seq ... */
    uint64_t after_row;  /* ... and none at it up to this row; GAP_HELD: 0 */
    int64_t to_seq;      /* no row from this seq on; GAP_HELD: not known */
    unsigned await_lane; /* GAP_HELD: the next row waits until the fresh scan of this lane ... */
    int64_t await_seq;   /* ... has reached this seq */
};

struct left_stream {
    uint64_t hash; /* hash of the stream's name */
    int64_t first_seq, last_seq;
};

struct stream_set {
    struct left_stream *places; /* owned */
    size_t size, count;
    uint8_t *crowd; /* owned: bits for the streams beyond the limit of `places`; NULL: there are none */
};

/* Rows that were left in the store so that others need not wait for them, and their streams: see left.c. */
struct left {
    struct gap gaps[GAP_SOURCES];
    struct stream_set streams;
};

/* Message types whose breaker is not closed, at an endpoint that has a breaker for each type. */
struct held_types {
    size_t types;
    size_t count, bytes; /* of their rows in memory */
    bool over;           /* a held type may go again, or has no rows in memory: read the left rows */
    struct left left;    /* rows of held types, and the rows behind these */
};

/* Message types that the same asks accept, at an endpoint whose receivers ask for some types only: see sorts.c. */
struct sort {
    unsigned takers; /* one bit for each ask of engine_set_asks() */
    /* Its queue, as in struct endpoint: items without order, and the shelf of its streams. */
    struct list loose, streams;
    size_t count, bytes; /* of its rows in memory */
    bool refused;        /* some of its rows found no room since it was renewed */
    struct left left;    /* rows of this sort, and the rows behind these */
};

/* Cache of the sort of a type, valid as long as the asks stay the same. */
struct sort_of_type {
    struct sort *sort; /* NULL: unused */
    uint8_t size;
    char type[PR_NAME_MAX];
};

/* The sorts of an endpoint with an ask for some types only. */
struct sorting {
    bool on;               /* false: there are no sorts, and only the first ask counts */
    char *types[ASKS_MAX]; /* owned; NULL: this ask is absent */
    bool present[ASKS_MAX];
    size_t room[ASKS_MAX], out[ASKS_MAX];
    struct sort **list;           /* owned */
    size_t count, next, turn;     /* round robin; `turn` is the sort chosen from last */
    struct sort_of_type *by_type; /* owned: SORT_TYPES entries, by the hash of the type */
    struct sort *reading;         /* the sort whose gaps became gaps of the endpoint to be read; NULL: none */
    int64_t joined[GAP_SOURCES];  /* since then: first place of other rows that joined these gaps; INT64_MAX: none */
    struct stream_set before;     /* ... and the streams that had rows in the gaps at that time */
};

#define SKIP_TYPES_MAX 16

/* Which new rows go to an endpoint for certain, see skip.c: */
struct skips {
    bool named;                  /* rows with its name as their destination */
    char *types[SKIP_TYPES_MAX]; /* rows of these types without a destination; owned */
    size_t count;
    bool planned; /* the cycle being made skips them */
};

/* A pause that the store does not know yet. */
struct local_pause {
    int64_t until_us; /* store time; 0: none */
    char *by, *why;   /* owned, may be NULL */
    bool planned;     /* in the cycle being made */
};

/* A breaker, the items that wait for it here, and what the store knows of it.  Its state is shared by all engines of
 * the process (limits.h); `seen` is the state that this engine saw last, and that this engine's queues reflect. */
struct endpoint_breaker {
    struct map_node node; /* endpoint->breakers */
    struct endpoint *endpoint;
    pr_slice type;                 /* slice of shared; empty: all types */
    struct shared_breaker *shared; /* holds one of its refs, except for the endpoint's own breaker */
    struct {
        enum breaker_state state;
        int opened;
        int64_t until_us;
    } seen;
    struct list loose, streams;       /* the shelf: items and streams that wait for the breaker */
    bool holds_type;                  /* a breaker of a type that is not closed */
    size_t count, bytes;              /* ... and of the type's rows in memory */
    struct list_node report;          /* in e->plan.reports: the store must learn of a change */
    bool stored;                      /* the store has it as open */
    bool planned;                     /* in the cycle being made */
    bool burst;                       /* it was seen to open: messages that failed just before come back */
    int64_t since_us;                 /* copied from shared when it was seen to open */
    struct last_failure last_failure; /* copied likewise */
};

struct endpoint {
    const struct endpoint_setting *setting;
    unsigned index;
    struct endpoint_limits *limits; /* the endpoint's limits over all engines ... */
    struct limits_use use;          /* ... and what this engine uses of them */
    uint64_t changes_seen;          /* limits->changes up to which this engine has looked */
    struct endpoint_breaker gate;   /* the breaker of the whole endpoint ... */
    struct map breakers;            /* ... and those of its types, where types have their own */
    struct map proofs;              /* evidence of its types: struct proof, see evidence.c */
    /* evidence came from outside this engine that the store must get, see evidence_from_outside() */
    bool has_outside_evidence;
    struct last_failure last_failure; /* the latest failure since the last cycle */
    struct local_pause pause;
    int64_t paused_until_us;       /* store time; 0: not paused */
    struct list ready_streams;     /* streams whose first item may be chosen */
    struct list waking;            /* streams whose held followers are to be read */
    struct list loose;             /* items without order */
    bool loose_next;               /* alternates between loose items and streams */
    struct list ready;             /* items whose receipt is committed, to be taken */
    size_t count, bytes;           /* of its items in the window */
    size_t leaving, leaving_bytes; /* the part of these that leaves with the cycle being planned: see count_leaving() */
    size_t out;                    /* number of items chosen, ready or out */
    size_t pledged;                /* ... of these, chosen or ready */
    size_t ended;                  /* quick results since the last cycle was planned ... */
    size_t pace;                   /* ... and per cycle recently */
    size_t room;                   /* the sum of all asks, see engine_set_asks() */
    bool shut;                     /* whether it could not send when engine_wants_back() was called last */
    /* Since then the breaker of a type opened, or the engine lost track of what is its own. */
    bool tripped;
    struct gap gaps[GAP_SOURCES]; /* rows that found no room: read again when there is some */
    /* What was read of GAP_HELD lacks rows whose hold is not committed: see hold_is_busy(). */
    bool gap_lacks_rows;
    char *key; /* "name/": held_by of rows held for it; owned */
    struct held_types held_types;
    struct skips skips;
    struct sorting sorting;
    int64_t full_since_us; /* since when it is full; 0: it has room */
    bool slow;             /* the scan reads on past its rows */
    struct tally tally;    /* its counts for the next cycle */
    uint64_t sent, failed, failed_in_row;
    uint64_t reasons[REASON_COUNT];
    struct histogram durations;
};

struct receipt {
    struct list_node node; /* in e->window.receipts, oldest first */
    uint64_t number;
    struct list items;
    bool dirty; /* something on it was handed back: close it and carry the rest over */
};

struct hold {
    uint64_t row;
    pr_id id;
    unsigned lane;
    struct stream *stream; /* the stream that holds the row; NULL: its endpoint */
    struct endpoint *endpoint;
};

/* Held keys of endpoints that no longer exist, a page at a time. */
struct orphans {
    bool wanted; /* there are (or may be) such keys behind `after` */
    char after[2 * PR_NAME_MAX + 2];
    size_t after_size;
    char **keys;           /* keys of this page; owned */
    size_t count, reading; /* the first `reading` keys are read in the cycle being made */
    bool walking;          /* the cycle being made reads the next page */
    int64_t at_us;         /* when to look again */
};

enum opening { OPEN_DONE, OPEN_HEADS, OPEN_DEAD, OPEN_HELD };

/* What the store knows of this instance: its lease, and its lanes.  epoch == 0: not joined, and without lanes.  open
 * and giving are subsets of lanes.  Nothing is started after the end of the lease by the local clock. */
struct membership {
    pr_id instance;
    int64_t epoch;   /* 0: not joined */
    uint64_t number; /* number of the last cycle planned */
    int64_t lease_end_us;
    int64_t store_offset_us; /* store time minus local time */
    int64_t dedupe_us;       /* as set, or as the join answered; 0: the box has no marks */
    uint64_t lanes;          /* lanes that this instance owns */
    uint64_t asked;          /* of these: other instances have too few lanes ... */
    uint64_t giving;         /* ... or can run what waits in them: the lanes are to be given */
    uint64_t open;           /* owned lanes whose heads and held keys are known */
    size_t lane_busy[LANE_COUNT];
    enum opening opening;
    uint64_t opening_lanes;
    unsigned opening_serial; /* incremented whenever an opening starts over */
    unsigned planned_serial; /* its value in the cycle being made */
    uint64_t opening_row;    /* cursor */
    pr_slice opening_key;    /* cursor; its bytes are owned */
    char opening_key_bytes[2 * PR_NAME_MAX + 2];
    bool stopping, gave_up, left;
};

/* The rows in memory and their progress: every item has a slot, is in `rows` when it has a row, and in the list of its
 * place (item_move).  count and bytes are totals over all slots. */
struct window {
    struct item **slots;
    uint32_t *generations;
    uint32_t *free_slots;
    size_t slot_count, free_count;
    size_t count, bytes;
    size_t leaving, leaving_bytes; /* the part of these that leaves with the cycle being planned */
    struct map rows;
    struct map streams;
    struct map ids;    /* items of a box with dedupe, by id */
    size_t head_count; /* failed heads in all streams */
    struct list twins, chosen, runs, out, judged, planned, zombies;
    size_t run_count;  /* items in PLACE_RUN */
    size_t gone_count; /* items that are out, whose row is gone, and that engine_gone() has not reported */
    size_t out_count;  /* items chosen, ready or out */
    size_t judged_count;
    struct list receipts;
    size_t receipt_count;
    size_t next_endpoint; /* round robin */
};

/* What was read from the store, and what is to be read next: the fresh scan, the due pass, streams that wake up, gaps
 * and orphans.  Every row of an open lane is in memory, ahead of a cursor, in a gap, held by a stream, or an orphan: a
 * row in none of these would never be sent. */
struct reading {
    uint64_t scanned;             /* lanes whose fresh rows have all been read once since they were opened */
    int64_t scan_seq[LANE_COUNT]; /* the place that this has reached in the other lanes */
    int64_t scan_held_since_us;   /* since when full endpoints slow the fresh scan; 0: they do not */
    bool fresh_wanted;            /* the last look did not reach the end, or the owner said that there are more */
    int64_t fresh_at_us;          /* when fresh rows were last asked for */
    bool fresh_passed;            /* ... and the rows that came were passed over, or are of a slow endpoint */
    int64_t pass_until_us;        /* see passes_on() */
    uint64_t restart_lanes;
    int64_t due_after_us; /* cursor of the due pass */
    int64_t due_after_seq;
    uint64_t due_after_row;
    bool due_wanted;
    size_t due_dropped;     /* rows of this pass that found no room */
    int64_t due_restart_us; /* when the pass may start over; PR_NEVER: it need not */
    int64_t due_restarted_us;
    int64_t next_due_us;       /* store time */
    struct endpoint *catching; /* the endpoint whose gaps are read in the cycle being made; NULL: none */
    bool reads_held;           /* ... GAP_HELD is among them: it is the first held read */
    unsigned next_catching;
    size_t gap_count;      /* gaps of rows without room, at all endpoints */
    size_t waking_count;   /* streams in the lists `waking` of all endpoints */
    struct list unscanned; /* streams */
    size_t next_waking;
    struct orphans orphans;
    int64_t notice_after;
};

/* What the next cycle must report to the store, the cycle that is made of it, and when.  While `asked`, `cycle` and all members
 * that begin with planned_ stay as they are until the cycle is absorbed or has failed, since it may be asked again. */
struct plan {
    struct cycle cycle;
    struct arena arena; /* memory of the cycle */
    bool asked;
    bool seats_at_risk;    /* chosen or judged suspects have seats that other engines may need */
    uint64_t judged_seats; /* seats of suspects whose verdicts are not committed */
    int64_t retry_at_us;
    int64_t retry_delay_us;
    int64_t planned_us; /* store time when the cycle was first asked */
    /* The same for a cycle that was asked again, which may have landed at any time since; else 0. */
    int64_t repeated_from_us;
    int64_t cycled_us;            /* when the last cycle landed */
    int64_t commit_us;            /* how long that took */
    int64_t inline_results_at_us; /* when the results of inline sends must be stored; PR_NEVER: there are none */
    struct tally nowhere;         /* counts of messages without an endpoint */
    struct send_effect *effects, *planned_effects; /* effects that belong to no verdict; owned */
    struct hold *holds;
    size_t hold_count, hold_capacity;
    struct hold *planned_holds;
    size_t planned_hold_count, planned_hold_capacity;
    size_t pause_count;                        /* endpoints with a pause that the store does not know */
    struct list reports;                       /* breakers whose changes the store must get */
    struct endpoint_breaker **planned_reports; /* same order as cycle.breakers; in the arena */
    struct proof **planned_proofs;             /* same order as cycle.evidence; in the arena */
    struct receipt *start; /* the receipt for rows that the store announces itself; NULL: none was needed */
};

struct known_peer {
    int64_t epoch;
    char *offer; /* owned */
};

/* A lane of this instance that another instance should have; see peers.c. */
struct lane_move {
    int64_t to;            /* epoch of the instance that can run what waits in the lane; 0: the lane stays */
    int64_t since_us;      /* ... and since when it should have it */
    int64_t stay_until_us; /* the lane is not given before */
    int64_t until_us;      /* the lane is being given: nothing new is begun in it until then; 0: it is not */
    /* The lane is kept until then: it ran something that not all instances can run, or a session. */
    int64_t keep_until_us;
    int64_t session_until_us; /* the next activity of a session in it may come until then */
};

struct peers {
    struct known_peer *list; /* by epoch; owned */
    size_t count;
    uint64_t serial; /* incremented whenever the list changes */
    bool mixed;      /* some instance offers something else than this one */
    bool together;   /* all lanes change hands together */
    struct lane_move moves[LANE_COUNT];
    size_t sessions[LANE_COUNT]; /* number of streams begun here, by lane */
};

struct engine {
    struct engine_setting setting;
    struct random random;
    struct endpoint *endpoints;
    size_t endpoint_count, endpoint_room;
    bool any_strict;
    struct limits *limits;       /* shared by all engines of the process */
    struct limits *own_limits;   /* the same where the engine has its own; NULL: they are shared */
    struct limits_member member; /* this engine's entry in them */
    uint64_t breaker_salt;       /* breakers identify messages by row, and rows of other boxes have the same numbers */
    struct membership membership;
    struct window window;
    struct reading reading;
    struct plan plan;
    struct peers peers;
    struct engine_counts counts;
};

/* window.c */
int window_init(struct engine *e, struct pr_error *reterr);
void window_fini(struct engine *e);
struct item *item_new(struct engine *e, const struct row *row, struct endpoint *ep); /* NULL: no memory */
void item_free(struct engine *e, struct item *item);                                 /* out of every list and map */
void item_move(struct engine *e, struct item *item, enum place place);
/* By row and id: a row number can be drawn twice when the store lost commits (B28). */
struct item *item_find(const struct engine *e, uint64_t row, pr_id id);
struct item *item_find_row(const struct engine *e, uint64_t row,
                           const struct item *after); /* any id; after NULL: the first */
int item_set_row(struct engine *e, struct item *item, uint64_t row);
struct item *item_find_token(const struct engine *e, uint64_t token); /* NULL: stale */
uint64_t item_token(const struct item *item);
void item_wait(struct engine *e, struct item *item, bool at_back);   /* into its stream or the loose items */
void item_return(struct engine *e, struct item *item, bool at_back); /* hand back, uncounted */
void item_report_answer(struct item *item, int answer);              /* calls item->settled, unless it is NULL */
void item_return_unsent(struct engine *e, struct item *item);        /* it was out, and nothing of it was sent */
bool endpoint_is_closed(const struct engine *e, const struct endpoint *ep,
                        int64_t now_us);     /* the endpoint is paused, or its breaker is open */
size_t window_limit(const struct engine *e); /* rows that the window may hold now */
size_t window_free(const struct engine *e);  /* ... and how many more it may take */
size_t endpoint_room(const struct engine *e, const struct endpoint *ep, int64_t now_us);
size_t window_bytes_free(const struct engine *e);
bool window_has_room(const struct engine *e);
void window_await_room(struct engine *e); /* when there is none: the engine is woken when another one makes room */
void window_drop_lanes(struct engine *e, uint64_t lanes, bool also_busy);

/* stream.c */
struct stream *stream_find(const struct engine *e, const struct endpoint *ep, pr_slice name);
struct endpoint *stream_split_key(struct engine *e, pr_slice key, pr_slice *ret_name); /* NULL: no such endpoint */
struct stream *stream_get(struct engine *e, struct endpoint *ep, pr_slice name,
                          unsigned lane);             /* made when missing; NULL: no memory */
void stream_free(struct engine *e, struct stream *s); /* with everything that is left of it */
void stream_insert(struct engine *e, struct stream *s, struct item *item);
void stream_update(struct engine *e, struct stream *s); /* after any change; may free s when it has become empty */
bool stream_blocks(const struct stream *s, const struct pr_message *m);
bool stream_add_head(struct engine *e, struct stream *s, int64_t seq, int64_t due_us, bool dead);
void stream_set_here(struct stream *s, int64_t seq, bool here); /* no-op when there is no such head */
bool stream_misses_head(const struct stream *s, int64_t seq);   /* is an earlier head not in memory? */
void stream_remove_head(struct engine *e, struct stream *s, int64_t seq);
bool stream_ends_before(const struct stream *s, int64_t seq); /* are all its rows in memory before seq? */
void stream_hold_followers(struct engine *e, struct stream *s);
bool stream_has_held_type_at(const struct stream *s, int64_t seq);
void stream_hold_type(struct engine *e, struct stream *s);
bool hold_add(struct engine *e, struct hold hold); /* false: no memory */
bool stream_hold_row(struct engine *e, struct stream *s, uint64_t row, pr_id id, int64_t seq);
void stream_is_held(struct stream *s, int64_t from_seq); /* rows from this seq on are held in the store */
bool stream_is_ordered(const struct endpoint *ep, pr_slice stream);

/* gap.c */
void gap_widen(struct gap *g, int64_t from_seq, uint64_t after_row, int64_t to_seq);
/* opens the gap, or widens it */
void gap_open(struct engine *e, struct endpoint *ep, enum gap_source source, const struct gap *g);
void gap_pass_over(struct engine *e, struct endpoint *ep, const struct row *row);
/* some rows from this seq on are held in the store */
void gap_hold_from(struct engine *e, struct endpoint *ep, int64_t seq);
bool gap_hold_row(struct engine *e, struct endpoint *ep, const struct row *row); /* false: no memory */
void gaps_forget(struct engine *e);
void gap_close(struct engine *e, struct endpoint *ep, enum gap_source source);
void gaps_forget_endpoint(struct engine *e, struct endpoint *ep);
bool gaps_can_read(const struct engine *e, int64_t now_us);
void gaps_plan(struct engine *e, struct held_read *reads, size_t *count, int64_t now_us);
void gaps_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* left.c */
void stream_set_fini(struct stream_set *set);
PR_MUST_CHECK bool stream_set_join(struct stream_set *set, const struct stream_set *more,
                                   int64_t from_seq); /* rows before from_seq are read; false: no memory */
bool left_is_open(const struct left *l);
/* May a row of this stream be left before seq? */
bool left_has_before(const struct left *l, pr_slice stream, int64_t seq);
PR_MUST_CHECK bool left_add_stream(struct left *l, pr_slice stream, int64_t seq); /* false: no memory */
/* A row that the fresh scan passed over. */
void left_fresh(struct left *l, const struct row *row);
/* A row that is held by its endpoint. */
void left_held(struct left *l, const struct row *row);
bool left_hides(const struct left *l, const struct endpoint *ep, pr_slice stream, int64_t seq);
void left_forget(struct left *l);
void left_reopen(struct engine *e, struct endpoint *ep,
                 const struct left *l); /* its gaps become gaps of the endpoint */

/* sorts.c */
struct sort *sort_of(struct endpoint *ep, pr_slice type); /* NULL: there are none */
bool sort_is_full(const struct engine *e, const struct endpoint *ep, const struct sort *sort);
size_t sorts_stream_share(const struct engine *e, const struct endpoint *ep,
                          const struct sort *sort); /* rows of one stream that may be in memory */
bool sorts_refuse(const struct engine *e, struct endpoint *ep,
                  pr_slice type); /* does the sort of this type have enough rows in memory? */
bool sorts_pass_over(struct engine *e, struct endpoint *ep, const struct row *row); /* like held_types_passes_over() */
bool sorts_take_part(struct engine *e, struct endpoint *ep, const struct row *row);
bool sorts_hide(const struct endpoint *ep, pr_slice stream, int64_t seq);
bool sorts_differ(const struct stream *s, const struct pr_message *m); /* is a row of another sort before it? */
bool sorts_want_rows(const struct engine *e, const struct endpoint *ep);
void sorts_joined(struct endpoint *ep, enum gap_source source,
                  int64_t seq);                              /* a row joined the gap that is being read */
void sorts_have_read(struct engine *e, struct endpoint *ep); /* a part of the gaps was read */
void sorts_read_all(struct endpoint *ep);                    /* the gaps were read to their ends */
void sorts_renew(struct engine *e);
void sorts_forget_endpoint(struct endpoint *ep);
void sorts_forget(struct engine *e);
void sorts_fini(struct endpoint *ep);
void sorts_enter(struct endpoint *ep, struct item *item);
void sorts_leave(struct item *item);
struct item *sorts_candidate(struct engine *e, struct endpoint *ep, int64_t now_us);
void sorts_took(struct endpoint *ep); /* the candidate was taken */
/* index of the ask that the item goes out for */
unsigned sorts_asker(const struct endpoint *ep, const struct item *item);
void sorts_check(const struct engine *e, const struct endpoint *ep);
void sorts_set_asks(struct engine *e, struct endpoint *ep, const struct ask *asks, size_t count);

/* held_types.c: types with enough rows in memory whose breaker is not closed */
void held_types_forget_endpoint(struct endpoint *ep);
void held_types_forget(struct engine *e);
/* Is the row left in the store because of its type, or because it stands behind one that was?  If so, the caller is
 * done with it. */
bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row);
bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row);
/* May rows of this stream ("": unordered) that stand before this place be out of memory? */
bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq);
void streams_wake_dozing(struct engine *e, const struct endpoint *ep);
/* types that are no longer held back are to be read again; only between cycles */
void held_types_renew(struct engine *e);

/* orphan.c */
void orphans_found(struct engine *e, pr_slice after);
bool orphans_can_read(const struct engine *e, int64_t now_us);
void orphans_plan(struct engine *e, struct held_read *reads, size_t *count);
void orphans_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);
void orphans_forget(struct engine *e);

/* route.c: the endpoints of a row; returns how many, writes at most max. */
#define TARGETS_MAX 64 /* endpoints of one message */
size_t route_message(const struct engine *e, const struct pr_message *m, unsigned *ret, size_t max);

/* receipt.c */
void receipt_leave(struct item *item, bool handed_back);
void receipt_return(struct engine *e, struct item *item); /* the item is handed back */
void receipt_add(struct receipt *r, struct item *item);
int receipt_plan(struct engine *e, struct arena *arena);
/* The name of its handler in marks (core/mark.h); the item must have an endpoint. */
pr_slice item_handler(const struct item *item);
int receipt_plan_marks(struct engine *e, struct arena *arena);
void receipt_free_all(struct engine *e);

/* start.c */
/* call it after the rest of the cycle is planned */
void start_plan(struct engine *e, int64_t now_us);
/* call it when the rows are in the window */
void start_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* twin.c */
bool twin_enter(struct engine *e, struct item *item); /* false: no memory */
void twin_leave(struct engine *e, struct item *item);
bool place_is_going(enum place place);
bool place_is_on_its_way(enum place place);
bool twin_is_on_its_way(const struct engine *e, const struct item *item);
void twin_await(struct engine *e, struct item *item);       /* put it aside until twins_wake() */
void twin_return(struct engine *e, struct item *item);      /* ... and back into its queue */
void twins_wake(struct engine *e, const struct item *item); /* the item is no longer on its way */

/* choose.c */
void choose_pace(struct engine *e);                   /* when a cycle is planned */
void choose_begin(struct item *item, int64_t now_us); /* the item is being taken */
void choose_ended(struct engine *e, struct endpoint *ep, int64_t took_us,
                  int64_t now_us);       /* latency: from taking the message to its result */
void choose_unsent(struct item *item);   /* it was taken, and comes back unsent */
void choose_settle(struct endpoint *ep); /* the number of items out has changed: inform the limits */
/* skip.c */
void skips_learn(struct engine *e, struct endpoint *ep, const struct row *row); /* the row was passed over */
void skips_forget(struct endpoint *ep);                                         /* the routes may have changed */
void skips_plan(struct engine *e);
void skips_absorb(struct engine *e, const struct cycle_reply *r); /* before the new rows are absorbed */
/* Do all rows of this type without a destination go to this endpoint and to no other? */
bool route_is_by_type(const struct engine_setting *s, pr_slice type, unsigned endpoint);

/* load.c */
size_t late_bytes(const struct engine *e);
size_t item_payload_size(const struct item *item); /* also while the payload is in the store */
bool item_is_late(const struct item *item);        /* its payload must be loaded before it goes out */
bool load_is_possible(struct engine *e, const struct item *item, int64_t now_us);
PR_MUST_CHECK bool load_take_room(struct engine *e, struct item *item, int64_t now_us);
void item_unload(struct engine *e, struct item *item);
PR_MUST_CHECK int loads_plan(struct engine *e, struct arena *arena); /* PR_ENOMEM: no payload is requested */
/* Gives a chosen item its payload.  false: the row is not the one that was read. */
PR_MUST_CHECK bool load_absorb(struct item *item, const struct cycle_reply *r);

/* Alternates between streams and loose items; NULL: neither has one, or its payload has no room. */
struct item *choose_turn(struct engine *e, const struct endpoint *ep, struct item *loose, struct item *ordered,
                         int64_t now_us);
void choose(struct engine *e, int64_t now_us);
bool choose_possible(struct engine *e, int64_t now_us);
/* A cycle goes to the store, which may be unreachable: suspects of this engine that could not go out anyway must not
 * hold up other boxes. */
void choose_asked(struct engine *e, int64_t now_us);
void choose_answered(struct engine *e);
/* keeps or frees its seat when the item moves */
void choose_seat(struct engine *e, struct item *item, enum place next);
void choose_verdict_busy(struct engine *e, struct item *item);
void choose_held_up(struct engine *e);
void choose_over(struct engine *e); /* choosing has ended */
/* Chooses this item, if it is its turn. */
void choose_this(struct engine *e, struct item *item, int64_t now_us);
/* How many may be out at once at an endpoint with a limit (setting.concurrency). */
size_t endpoint_limit(const struct engine *e, const struct endpoint *ep);
unsigned suspicion(const struct pr_message *m);

bool is_unsendable(const struct engine *e, const struct item *item,
                   int64_t now_us); /* must it get a verdict without being handed out? */
bool is_too_large(const struct engine *e, const struct item *item);
/* Is its verdict known without calling anything outside? */
bool is_judged_here(const struct engine *e, const struct item *item, int64_t now_us);
void judge_too_large(struct engine *e, struct item *item, int64_t now_us);

/* run.c */
bool hands_out_runs(const struct engine *e);
void run_gather(struct engine *e, struct item *first, int64_t now_us); /* adds the items that go out with `first` */
/* returns the items behind the leader; the run is over */
struct item *run_detach(struct item *first);
void run_return(struct engine *e, struct item *rest);
/* after the verdict of the first */
void run_follow(struct engine *e, struct item *first, struct item *rest, int64_t now_us);
/* true: instead of becoming a dead letter, the item was put back and goes out once more with the reason of its
 * death. */
bool run_keeps_dead(struct engine *e, struct item *item, const struct verdict *v);
/* Only one message of the run is at fault: it is dead, and all others are handed back uncounted. */
void run_blame(struct engine *e, struct item *first, const struct delivery_result *result);
void run_bury(struct engine *e, struct item *item, int64_t now_us);
void run_postpone_dead(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void run_check(const struct item *first);

/* gone.c */
void gone_plan(struct engine *e, int64_t now_us);
void gone_absorb(struct engine *e, const struct cycle_reply *r);
void gone_forget(struct engine *e, struct item *item);
void gone_heads(struct engine *e, int64_t now_us); /* after a cycle that renewed the lease */

/* breakers.c: breakers, and the items that wait for them */
bool breakers_allow(struct endpoint *ep, int64_t now_us); /* may anything be sent to the endpoint? */
/* How long messages wait that met a failure of the endpoint as a whole; and the endpoint has answered. */
int64_t breakers_set_back(struct endpoint *ep, int64_t now_us);
void breakers_end_setback(struct endpoint *ep);
/* May this item go?  If not, it was put on the shelf of its type. */
bool breakers_allow_or_shelve(struct engine *e, struct endpoint *ep, struct item *item, int64_t now_us);
/* takes items off the shelves that may go now */
void breakers_unshelve(struct engine *e, struct endpoint *ep, int64_t now_us);
bool breakers_are_shut(const struct endpoint *ep);
bool breakers_hold_back(const struct endpoint *ep, const struct item *item);
/* The same, and whether the endpoint has room: then the item is taken, and is the probe of breakers that are half
 * open. */
bool breakers_start(struct engine *e, struct endpoint *ep, const struct item *item, int64_t now_us);
/* Takes over what other engines learnt of the endpoint since the last call. */
void breakers_sync(struct engine *e, struct endpoint *ep);
void breakers_sync_all(struct engine *e);
/* true: the failure belongs to a breaker and not to the message.  When it opens, breakers_sync() takes the burst back. */
bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, enum breaker_weight weight,
                     int64_t now_us);
struct endpoint_breaker *breakers_blamed(struct endpoint *ep, const struct item *item,
                                         enum fault fault); /* the breaker that counts such a failure */
void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us);
void breakers_returned(struct engine *e, struct endpoint *ep, const struct item *item);
void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *result, int64_t now_us);
int64_t breakers_next_us(const struct endpoint *ep);
enum breaker_state breakers_state(const struct endpoint *ep);
void endpoint_breaker_init(struct endpoint_breaker *b, struct endpoint *ep, struct shared_breaker *shared);
void endpoint_breaker_release(struct endpoint_breaker *b); /* frees it when there is nothing to remember or to report */
void breakers_enter(struct engine *e, struct endpoint *ep, struct item *item); /* the item has come into memory */
void breakers_leave(struct endpoint *ep, struct item *item);
void breakers_check(const struct endpoint *ep);
/* Does this type, which may not go now, have enough rows in memory? */
bool breakers_hold_type(const struct engine *e, const struct endpoint *ep, pr_slice type);
void breakers_fini(struct endpoint *ep);
bool breakers_are_per_type(const struct endpoint *ep);
/* NULL: the type has no breaker, since there is no memory or there are too many */
struct endpoint_breaker *endpoint_breaker_get(struct engine *e, struct endpoint *ep, pr_slice type);
/* With the lock of the endpoint's limits held: may it go?  And: apply here what the shared breaker has become. */
bool endpoint_breaker_allows(struct endpoint_breaker *b, int64_t now_us);
void endpoint_breaker_look(struct engine *e, struct endpoint_breaker *b);

/* report.c */
char *text_copy(pr_slice text, size_t chars); /* clean and cut; malloc'ed; NULL without memory */
void last_failure_set(struct last_failure *m, const struct failure *f);
void last_failure_copy(struct last_failure *m, const struct last_failure *from);
void report_opened(struct engine *e, struct endpoint_breaker *b); /* also when it opens again */
void report_closed(struct engine *e, struct endpoint_breaker *b);
bool report_is_over(const struct endpoint_breaker *b); /* the store knows nothing of it, and need not */
void reports_plan(struct engine *e, int64_t now_us);
void reports_committed(struct engine *e);
void reports_anew(struct engine *e); /* the store has forgotten all of them */

/* evidence.c */
bool evidence_against(const struct engine *e, const struct item *item,
                      int64_t now_us); /* was another message of its type delivered since its previous failure? */
void evidence_delivered(struct engine *e, const struct item *item, int64_t now_us);
bool evidence_from_outside(struct endpoint *ep, pr_slice type, int64_t at_us, int64_t now_us);
void evidence_plan(struct engine *e, int64_t now_us);
void evidence_absorb(struct engine *e, const struct cycle_reply *r);
void evidence_store_again(struct engine *e);
void evidence_fini(struct endpoint *ep);

/* pause.c */
bool endpoint_has_pause(const struct engine *e, const struct endpoint *ep, int64_t now_us);
int64_t endpoint_paused_until(const struct endpoint *ep); /* store time; 0: not paused */
void endpoint_pause(struct engine *e, struct endpoint *ep, int64_t for_us, pr_slice by, pr_slice why, int64_t now_us);
/* hands back items that are announced and not begun */
void endpoint_return_ready(struct engine *e, struct endpoint *ep);
void pauses_plan(struct engine *e, int64_t now_us);
void pauses_committed(struct engine *e, bool endpoints_known);
void pauses_drop(struct engine *e);

/* messages that failed in the same outage come back */
void return_burst(struct engine *e, struct endpoint_breaker *opened); /* what failed in its outage comes back */
void put_back(struct engine *e, struct item *item);
void judge_failure(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void poison_beside(struct engine *e, struct item *item, pr_slice error, int64_t now_us);
void item_add_effects(struct engine *e, struct item *item, struct send_effect *effects); /* takes over the effects */

/* refused.c */
void settle_deferred(struct engine *e, struct item *item, bool leader_is_refused, int64_t now_us);
void plan_verdicts_again(struct engine *e); /* plan.c; without those that are deferred */

/* local.c */
bool endpoint_is_local(const struct endpoint *ep);
void judge_local(struct engine *e, struct item *item, int64_t now_us);

/* reply.c */
enum admitted admit_reply(struct engine *e, const struct row *row, int64_t now_us);

/* schedule.c */
enum admitted admit_schedule(struct engine *e, const struct row *row, int64_t now_us);

/* settled.c */
void judge_asking(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
/* The store has answered.  false: the item is asked again, or has another verdict now. */
bool settle_asked(struct engine *e, struct item *item, int *answer, bool replayed, int64_t now_us);

/* result.c */
void endpoints_call_back(struct engine *e); /* see engine_wants_back() */
/* The item that is out and that a result or verdict is about; NULL: it is no longer out here. */
struct item *item_find_out(struct engine *e, uint64_t token);
void judge_success(struct engine *e, struct item *item, int bits, int64_t now_us); /* its receiver has handled it */

/* settle.c */
void judge_complete(struct engine *e, struct item *item, int bits);
/* v: without row and number.  step and next_us (when the item is tried again) go into its story. */
void judge(struct engine *e, struct item *item, const struct verdict *v, const char *step, int64_t next_us,
           int64_t now_us);
void judge_dead(struct engine *e, struct item *item, int reason, int cause, int limit, pr_slice rule, bool counted,
                pr_slice code, pr_slice error, int64_t now_us);
void judge_dead_letter(struct engine *e, struct item *item, const struct delivery_dead *d, bool counted,
                       int64_t now_us);
void judge_simple(struct engine *e, struct item *item, enum verdict_kind kind, int reason, pr_slice rule,
                  pr_slice error, int64_t now_us);
void judge_duplicate(struct engine *e, struct item *item, int64_t now_us); /* its message was handled before */
void settle_committed(struct engine *e, struct item *item, int answer, const uint64_t *split_rows, int64_t now_us);
void item_drop_verdict(struct item *item);
void verdict_tally(struct engine *e, const struct item *item, int sign);
bool effects_can_refuse(const struct send_effect *effects);

/* engine.c */
void engine_new_instance(struct engine *e);
void read_all_anew(struct engine *e);

/* plan.c */
int64_t renew_at_us(const struct engine *e);
int64_t look_at_us(const struct engine *e);
bool wants_cycle(struct engine *e, int64_t now_us);
/* A row with a due time behind the due pass's cursor may have been stored or moved. */
void due_look_again(struct engine *e, int64_t now_us);

/* lanes.c */
void open_lanes(struct engine *e, uint64_t lanes);
void absorb_lanes(struct engine *e, const struct cycle_reply *r, int64_t now_us);
void lanes_give_up(struct engine *e, int64_t now_us); /* gives the lanes that are ready to go */

/* peers.c */
void peers_absorb(struct engine *e, const struct cycle_reply *r);
void peers_forget(struct engine *e); /* also the moves of lanes */
void peers_gained(struct engine *e, uint64_t lanes, int64_t now_us);
/* Something ran here that needed this ability (empty: none in particular). */
void peers_did(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
/* The item cannot run here.  When another instance can run it, its lane is to move there: returns after which time it
 * may be handed out again, by the owner of the lane at that time; -1: no instance can run it. */
int64_t peers_pass(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
uint64_t peers_passing(struct engine *e, int64_t now_us); /* lanes that are to move to another instance */
uint64_t peers_kept(struct engine *e, int64_t now_us);    /* lanes that are not given away to even out shares */
/* lanes that are to move and can do so now, given the idle ones */
uint64_t peers_ready(const struct engine *e, uint64_t idle);
int64_t peers_next_us(const struct engine *e, int64_t now_us);
void peers_stream_ends(struct engine *e, const struct stream *s);
void peers_plan(struct engine *e, int64_t now_us); /* in the cycle being made: which lanes are given */
void absorb_opening(struct engine *e, const struct cycle_reply *r, int64_t now_us);
bool held_key_is_orphan(struct engine *e, pr_slice key); /* neither a stream that is ordered here nor an endpoint */

/* admit.c */
enum admitted { TAKEN, NO_ROOM };
struct target { /* where a row goes, looked up once */
    unsigned endpoints[TARGETS_MAX];
    size_t count;
};
struct endpoint *find_target(struct engine *e, const struct row *row, struct target *ret); /* NULL: none, or several */
enum admitted admit(struct engine *e, const struct row *row, const struct target *target, int64_t now_us);

/* plan.c */
bool plan_held_read(struct engine *e, pr_slice key, int64_t after_seq, size_t rows, struct held_read *reads,
                    size_t *count);

/* reads.c */
bool scan_will_come(const struct engine *e, const struct row *row);
bool row_is_ours(const struct engine *e, const struct row *row);
void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* absorb.c */
void engine_forget(struct engine *e); /* lease lost: the engine forgets all rows */

/* Does a failed row block its followers at this endpoint?  With ordering `available` it is retried on its own. */
static inline bool keeps_back(const struct endpoint *ep, const struct pr_message *m)
{
    return message_blocks_stream(m) && ep->setting->ordering != ORDERING_AVAILABLE;
}

/* Have all fresh rows before this place been read since the lane was opened? */
static inline bool scan_has_passed(const struct engine *e, unsigned lane, int64_t seq)
{
    return (e->reading.scanned & lane_bit(lane)) != 0 || e->reading.scan_seq[lane] >= seq;
}

static inline int64_t store_now(const struct engine *e, int64_t now_us)
{
    return now_us + e->membership.store_offset_us;
}

/* May a row at this place be in the gap? */
static inline bool gap_reaches(const struct gap *g, int64_t seq)
{
    return g->active && seq >= g->from_seq;
}

/* Are there rows of this endpoint that were read once and found no room in memory? */
static inline bool endpoint_has_gap(const struct endpoint *ep)
{
    return ep->gaps[GAP_FRESH].active || ep->gaps[GAP_HELD].active;
}

/* ... and may one of them stand before this seq? */
static inline bool endpoint_has_gap_before(const struct endpoint *ep, int64_t seq)
{
    return gap_reaches(&ep->gaps[GAP_FRESH], seq) || gap_reaches(&ep->gaps[GAP_HELD], seq);
}

#endif
