/* state.h - what an engine has in memory: items, streams and their gaps, endpoints with their breakers, receipts; and itself, in
 * four parts: membership, window, reading, plan. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

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
    struct proof *latest_proof;     /* that was asked for; never freed before the endpoint */
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
    bool stores_in_box;    /* the cycle that is absorbed has effects that go into its own box */
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

#endif
