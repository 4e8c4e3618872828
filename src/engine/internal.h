/* What the files of the engine share.  Nobody outside engine/ includes this.
 *
 *   window.c          items: the rows that are in memory, their slots and their room
 *   stream.c          streams: order, failed heads, held followers
 *   gap.c             gaps: rows that were met and are not in memory, and reading them again
 *   skip.c            ... and new rows that the store need not tell
 *   route.c           where a row goes
 *   receipt.c         what was announced to the store before it was sent
 *   start.c           ... and what the store announces itself, when it reads it
 *   twin.c            rows of one message for one endpoint, where it is to be handled once
 *   choose.c          which rows go out next, and how many at once
 *   load.c            ... and payloads that are so large that they are read only then
 *   run.c             ... and, in a box of turns, which go together
 *   gone.c            rows that are out, and that others have deleted
 *   limits.c          what all engines of a process may do together: rates, concurrency, breakers, the window
 *   breakers.c        the breakers of an endpoint: who waits for them
 *   breaker_results.c ... and what they are asked and learn
 *   report.c          ... and what the store is told of them
 *   left.c            ... and gaps of rows that are left in the store so that others need not wait for them
 *   held_types.c      ... since their type's breaker is not closed
 *   sorts.c           ... since their types are asked for less than others: who gets what
 *   evidence.c        whether an endpoint works for others of a message's type
 *   inline_results.c  what others sent to our endpoints
 *   pause.c           pauses that begin here
 *   fail.c            from a failure to what follows
 *   local.c           messages that go into another box
 *   settled.c         messages that their receivers complete in transactions of their own
 *   settle.c          from results to verdicts, and what a committed verdict changes
 *   plan.c            the next cycle
 *   absorb.c          the store's reply: notices, verdicts, receipts
 *   lanes.c           ... lanes, and what is read when they are opened
 *   peers.c           ... and who else should have them
 *   reads.c           ... rows
 *   orphan.c          ... rows that are held for endpoints that are gone
 *   admit.c           how a row comes in
 *   engine.c          life and death, waiting times, counts */
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

#define FRESH_LOOK_US PR_MILLISECONDS(100) /* how long the engine does other work without a look for fresh rows */
#define PASS_TURN_COMMITS 2 /* how long it only looks for them and writes nothing, by the latest commit: */
#define PASS_TURN_MAX_US PR_MILLISECONDS(200)   /* ... see passes_on() */
#define PASS_BATCHES 4                          /* batches of them in one look then */
#define PASS_OVER_AFTER_US PR_MILLISECONDS(100) /* how long the scan waits for a full endpoint before it reads on */
#define CLOSED_SHARE 64                         /* rows kept in memory for an endpoint that cannot send */
#define STREAM_SHARE_DIVISOR 4 /* a stream takes a quarter of the window at most; the rest is held in the store */
#define STREAM_SHARE_MIN 16
#define HELD_READS_MAX 64                 /* streams woken per cycle */
#define HELD_ROWS 64                      /* followers read per stream and cycle ... */
#define HELD_ROWS_MIN 8                   /* ... at least this number of rows, unless there is no room for them */
#define ORPHAN_READS_MAX 64               /* keys of endpoints that are gone, read per cycle */
#define RECEIPTS_OPEN_MAX 64              /* older ones are carried over */
#define OPENING_ROWS 1000                 /* heads and held keys per cycle */
#define RETRY_MIN_US PR_MILLISECONDS(5)   /* after a store fault: from here, doubled, */
#define RETRY_MAX_US PR_SECONDS(1)        /* ... to here */
#define SORT_TYPES 256                    /* types whose sorts are looked up quickly */
#define INLINE_RESULTS_US PR_SECONDS(1)   /* what others sent is stored within this time */
#define SWEEP_ROW_US 100                  /* a due pass that dropped n rows is not repeated for n of these */
#define BUSY_PAUSE_US PR_MILLISECONDS(20) /* until a row is tried again that somebody else holds */

/* Where an item is.  Each has its list; item_move() is the only one that writes it. */
enum place {
    PLACE_NONE,      /* in no list: being made or about to be freed */
    PLACE_SPLITTING, /* stream->items or endpoint->loose; its row is not stored yet */
    PLACE_WAITING,   /* stream->items or endpoint->loose */
    PLACE_TWIN,      /* e->window.twins: waits for another row of its message, see twin.c */
    PLACE_CHOSEN,    /* e->window.chosen: on the receipt of the cycle being made */
    PLACE_RUN,       /* e->window.runs: it goes with the first of its run, which is chosen, ready or out */
    PLACE_READY,     /* endpoint->ready: its receipt is committed */
    PLACE_OUT,       /* e->window.out: the transport has it */
    PLACE_JUDGED,    /* e->window.judged: its verdict waits for the next cycle */
    PLACE_PLANNED,   /* e->window.planned: its verdict is in the cycle being made */
    PLACE_ZOMBIE,    /* e->window.zombies: not ours any more, but the transport still reads it */
};

struct item_dead { /* why it is dead, see run.c */
    struct delivery_dead d;
    bool counted; /* the latest attempt was a failure */
    char texts[];
};

struct item {
    struct map_node by_row, by_id;
    struct list_node node; /* the list of its place */
    struct list_node on_receipt;
    struct receipt *receipt; /* NULL: on none */
    struct pr_message m;     /* its bytes are behind the struct */
    uint64_t row;
    unsigned lane;
    uint32_t slot, generation;
    enum place place;
    struct endpoint *endpoint;     /* NULL: goes nowhere (bad, unroutable, being split) */
    struct endpoint_breaker *gate; /* of its type at its endpoint; NULL: none */
    struct sort *sort;             /* of its type there; NULL: all askers take all types */
    unsigned ask;                  /* on its way: whom it is for */
    struct stream *stream;         /* NULL: no order */
    size_t bytes;
    size_t over;                        /* bytes of a payload that is not read with its row; 0: it is here */
    size_t load;                        /* on the receipt being made: 1 + its place in cycle.loads; 0: not asked */
    size_t load_room;                   /* of `over`: counted in limits.load_bytes */
    char *loaded;                       /* owned: m.payload, while it is chosen, ready or out; NULL: not loaded */
    int number;                         /* hand-out number */
    uint32_t rate_taken;                /* when it was taken: see rate_take() */
    bool from_due;                      /* its row has a due time */
    struct endpoint_breaker *weighs_on; /* its pending verdict is a failure that this breaker counted; NULL: none did */
    bool outdated;  /* its row may have changed while it was out, by an operator or by its receiver */
    unsigned seat;  /* 1 + its level among suspects; 0: it has none, or others have taken it: see choose.c */
    size_t mark;    /* on the receipt being made: 1 + its place in cycle.marks; 0: not asked */
    bool has_twins; /* it is in window.ids: others of its message may be there */
    bool
        refusable; /* effects have guards, or the order of their rows matters: its stream is freed by the store's answer,
                     * not before */
    bool deferred;                     /* planned, and left out of the cycle after all: see refused.c */
    bool refused;                      /* ... since the database refuses what it brings along ... */
    char *refusal;                     /* ... with these words; owned, may be NULL */
    bool given;                        /* the transport reads it: it is out, or with one that is */
    bool gone, gone_asked, gone_told;  /* its row was deleted by others while it was out, see gone.c */
    struct item *run_first, *run_next; /* see run.c; of the first one run_first is NULL */
    struct item_dead *dead;            /* owned; NULL: it is to be worked */
    struct delivery delivery;
    struct verdict verdict;
    char *texts;                 /* owned: what the slices of verdict point at */
    struct send_effect *effects; /* owned */
    struct item **children;      /* SPLIT: owned array, child i for destination i, NULL: not kept */
    pr_slice *destinations;
    struct part_holder *holders;
    size_t child_count;
    int *answer;                            /* the worker's; borrowed until the verdict is committed */
    enum send_outcome asked;                /* ASK: what its receiver said */
    void (*settled)(void *arg, int answer); /* see struct delivery_result; NULL: nobody is to be told */
    void *settled_arg;
    int settled_as;
};

struct head {
    int64_t seq;
    int64_t due_us; /* store: when it comes back; PR_NEVER: not by itself */
    bool dead;
    bool here; /* it waits in memory: others can line up behind it there */
};

/* The order of one stream at one endpoint. */
struct stream {
    struct map_node node;
    struct endpoint *endpoint;
    unsigned lane;
    struct list items; /* WAITING and SPLITTING, by seq */
    size_t item_count;
    size_t busy;        /* chosen, ready, out, or judged with a failure */
    struct head *heads; /* failed ones that wait elsewhere, by seq; followers do not pass them */
    size_t head_count, head_capacity;
    size_t heads_here;            /* how many of the first ones wait in memory */
    struct head *head_block;      /* owned: heads begins in it, head_capacity counts from its beginning */
    bool held;                    /* rows of it are (or may be) held in the store */
    size_t holds;                 /* HOLD verdicts that are not committed */
    int64_t held_from;            /* no row below this seq is held and not in memory */
    bool held_stop;               /* while absorbing: the rest of it must wait */
    bool shelved;                 /* `ready` is on the shelf of a message type, see breakers.c */
    bool begun;                   /* a session: something of it was done here, see peers.c */
    bool dozing;                  /* its first held row is of a held type or a full sort: not to be read */
    bool mixed;                   /* ... or of another sort than what is here */
    const struct sort *busy_sort; /* of what was chosen last; only compared */
    struct list_node ready;       /* endpoint->ready_streams */
    struct list_node waking;      /* endpoint->waking: held, not blocked, few in memory */
    struct list_node unscanned;   /* e->reading.unscanned: held, and the fresh scan must pass its first held row */
    pr_slice name;                /* bytes are behind the struct */
    pr_slice key;                 /* endpoint/stream, as in held_by */
};

/* Where the rows of a gap are in the store, and so how they are read again. */
enum gap_source {
    GAP_FRESH, /* where the fresh scan met them, and passed them over */
    GAP_HELD,  /* held by the endpoint's key: parts of splits, and what was due */
    GAP_SOURCES,
};

/* Rows of an endpoint that were met once and are not in memory: of one source, from a place up to another.  What the place
 * says is all that is known of them. */
struct gap {
    bool active;
    int64_t from_seq;    /* none before it ... */
    uint64_t after_row;  /* ... and at it none up to this row; GAP_HELD: 0 */
    int64_t to_seq;      /* none from here on; GAP_HELD: not known */
    unsigned await_lane; /* GAP_HELD: the next one waits until the fresh scan of this lane ... */
    int64_t await_seq;   /* ... has come to here */
};

struct left_stream {
    uint64_t hash; /* of its name */
    int64_t first_seq, last_seq;
};

struct stream_set {
    struct left_stream *places; /* owned */
    size_t size, count;
    uint8_t *crowd; /* owned: bits for those that are too many; NULL: none are */
};

/* Rows that were left in the store for the sake of others, and the streams that they are of: see left.c. */
struct left {
    struct gap gaps[GAP_SOURCES];
    struct stream_set streams;
};

/* Message types whose breaker is not closed, at an endpoint that has one for each type. */
struct held_types {
    size_t types;
    size_t count, bytes; /* of their rows in memory */
    bool over;           /* one of them may go again, or has nothing in memory: read what was passed over */
    struct left left;    /* rows of them, and what stands behind these */
};

/* Message types that the same askers take, at an endpoint whose receivers ask for some types only: see sorts.c. */
struct sort {
    unsigned takers;            /* a bit for each ask of engine_set_asks() */
    struct list loose, streams; /* its queue: what may be chosen, as in struct endpoint; the shelf of these streams */
    size_t count, bytes;        /* of its rows in memory */
    bool refused;               /* some found no room since it was renewed */
    struct left left;           /* rows of it, and what stands behind these */
};

/* The same type is of the same sort as long as the asks are the same. */
struct sort_of_type {
    struct sort *sort; /* NULL: an empty place */
    uint8_t size;
    char type[PR_NAME_MAX];
};

/* Who asks for what, when somebody asks for some types only. */
struct sorting {
    bool on;               /* else there are no sorts, and the first ask is all that counts */
    char *types[ASKS_MAX]; /* owned; NULL: nobody */
    bool present[ASKS_MAX];
    size_t room[ASKS_MAX], out[ASKS_MAX];
    struct sort **list;           /* owned */
    size_t count, next, turn;     /* round robin; whose turn it was */
    struct sort_of_type *by_type; /* owned: SORT_TYPES places, by the hash of the type */
    struct sort *reading;         /* for it the gaps were opened; NULL: they are everybody's */
    int64_t joined[GAP_SOURCES];  /* since then: the first place of what else came into them; INT64_MAX: nothing */
    struct stream_set before;     /* ... and the streams that had rows in them then */
};

#define SKIP_TYPES_MAX 16

/* Rows that go to an endpoint whatever else they say, see skip.c: */
struct skips {
    bool named;                  /* those with its name */
    char *types[SKIP_TYPES_MAX]; /* those of these types without a destination; owned */
    size_t count;
    bool planned; /* the cycle being made leaves them out */
};

/* A pause that the store does not know yet. */
struct local_pause {
    int64_t until_us; /* store time; 0: none */
    char *by, *why;   /* owned, may be NULL */
    bool planned;     /* it is in the cycle being made */
};

/* A breaker, who waits for it here, and what the store knows of it.  What it is like is shared by all engines of the process
 * (limits.h); `seen` is what this one has seen of it last, and what follows of it here follows of that. */
struct endpoint_breaker {
    struct map_node node; /* endpoint->breakers */
    struct endpoint *endpoint;
    pr_slice type;                 /* of shared; empty: all types */
    struct shared_breaker *shared; /* counted in its refs, unless it is the endpoint's */
    struct {
        enum breaker_state state;
        int opened;
        int64_t until_us;
    } seen;
    struct list loose, streams;       /* the shelf; empty unless held back */
    bool holds_type;                  /* one of a type: its breaker is not closed */
    size_t count, bytes;              /* ... and its rows in memory */
    struct list_node report;          /* e->plan.reports: the store must learn of it */
    bool stored;                      /* the store has it as open */
    bool planned;                     /* it is in the cycle being made */
    bool burst;                       /* it was seen to open: what failed just before is to come back */
    int64_t since_us;                 /* as in shared, when it was seen to open */
    struct last_failure last_failure; /* the same */
};

struct endpoint {
    const struct endpoint_setting *setting;
    unsigned index;
    struct endpoint_limits *limits;   /* of all engines together ... */
    struct limits_use use;            /* ... and what is ours of them */
    uint64_t changes_seen;            /* ... of breakers */
    struct endpoint_breaker gate;     /* of the whole endpoint ... */
    struct map breakers;              /* ... and of its types, where they have their own */
    struct map proofs;                /* of its types: struct proof, see evidence.c */
    bool heard_evidence;              /* some of them the store is to be told of, see evidence_heard() */
    struct last_failure last_failure; /* the latest one since the last cycle */
    struct local_pause pause;
    int64_t paused_until_us;       /* store time; 0: not */
    struct list ready_streams;     /* streams whose first item may be chosen */
    struct list waking;            /* streams whose held followers are to be read */
    struct list loose;             /* items without order */
    bool loose_next;               /* turn and turn about with the streams */
    struct list ready;             /* receipt committed, to be taken */
    size_t count, bytes;           /* of the window */
    size_t leaving, leaving_bytes; /* of these, while reads are planned: see count_leaving() */
    size_t out;                    /* chosen, ready or out */
    size_t pledged;                /* ... of these, chosen or ready */
    size_t ended;                  /* quick results since the last cycle was planned ... */
    size_t pace;                   /* ... and in one cycle, lately */
    size_t room;                   /* see engine_set_asks(): of all asks */
    bool shut;                     /* when engine_wants_back() was asked last */
    bool tripped;                 /* the breaker of a type opened since then, or nothing is known to be ours any more */
    struct gap gaps[GAP_SOURCES]; /* of rows that found no room: read again when there is some */
    bool gap_lacks_rows; /* what was read of GAP_HELD lacks rows that are still to be held: see hold_is_busy() */
    char *key;           /* "name/": held_by of what is held for it; owned */
    struct held_types held_types;
    struct skips skips;
    struct sorting sorting;
    int64_t full_since_us; /* 0: has room */
    bool slow;             /* the scan reads on past its rows */
    struct tally tally;    /* for the next cycle */
    uint64_t sent, failed, failed_in_row;
    uint64_t reasons[REASON_COUNT];
    struct histogram durations;
};

struct receipt {
    struct list_node node; /* e->window.receipts, oldest first */
    uint64_t number;
    struct list items;
    bool dirty; /* something on it was handed back: carry the rest over */
};

struct hold {
    uint64_t row;
    pr_id id;
    unsigned lane;
    struct stream *stream; /* by whom; NULL: by its endpoint */
    struct endpoint *endpoint;
};

/* Held keys of endpoints that are not there any more, a page at a time. */
struct orphans {
    bool wanted; /* there are (or may be) some behind `after` */
    char after[2 * PR_NAME_MAX + 2];
    size_t after_size;
    char **keys;           /* of this page; owned */
    size_t count, reading; /* the first `reading` are read in the cycle being made */
    bool walking;          /* the next page is */
    int64_t at_us;         /* when to look again */
};

enum opening { OPEN_DONE, OPEN_HEADS, OPEN_DEAD, OPEN_HELD };

/* Who we are to the store: the lease, and the lanes that it gave us.
 * epoch == 0: not joined, and then no lane is ours.  open is a part of lanes; giving is, too.  Nothing is started after
 * the lease's end, by our clock. */
struct membership {
    pr_id instance;
    int64_t epoch;   /* 0: not joined */
    uint64_t number; /* of the last cycle planned */
    int64_t lease_end_us;
    int64_t store_offset_us; /* store time - our time */
    int64_t dedupe_us;       /* of the box: as set, or as the join was told; 0: it has no marks */
    uint64_t lanes;          /* owned */
    uint64_t asked;          /* owned, but others have too few ... */
    uint64_t giving;         /* ... or somebody else can do what is in them: they are to go */
    uint64_t open;           /* owned, and heads and held keys are known */
    size_t lane_busy[LANE_COUNT];
    enum opening opening;
    uint64_t opening_lanes;
    unsigned opening_serial; /* raised whenever an opening begins anew */
    unsigned planned_serial; /* ... of the cycle being made */
    uint64_t opening_row;    /* cursor */
    pr_slice opening_key;    /* cursor; owned */
    char opening_key_bytes[2 * PR_NAME_MAX + 2];
    bool stopping, gave_up, left;
};

/* The rows in memory, and how far each has come: every item is in one slot, in `rows` when it has a row, and in the list
 * of its place (item_move).  count and bytes are those of all slots. */
struct window {
    struct item **slots;
    uint32_t *generations;
    uint32_t *free_slots;
    size_t slot_count, free_count;
    size_t count, bytes;
    size_t leaving, leaving_bytes; /* of these, while reads are planned */
    struct map rows;
    struct map streams;
    struct map ids;    /* items of a box with dedupe */
    size_t head_count; /* in all streams */
    struct list twins, chosen, runs, out, judged, planned, zombies;
    size_t run_count;  /* in PLACE_RUN */
    size_t gone_count; /* of what is out: whose row is gone, and the owner has not heard of it */
    size_t out_count;  /* chosen, ready, out */
    size_t judged_count;
    struct list receipts;
    size_t receipt_count;
    size_t next_endpoint; /* round robin */
};

/* What of the store was read, and what is to be read next: the fresh scan, the due pass, streams that wake up, gaps and
 * orphans.  Every row of an open lane is in memory, ahead of a cursor, in a gap, held by a stream or an orphan's: what is in
 * none of these would never be sent. */
struct reading {
    uint64_t scanned;             /* lanes whose fresh rows were all read once since they were opened */
    int64_t scan_seq[LANE_COUNT]; /* ... and how far that came in the others */
    int64_t scan_held_since_us;   /* full endpoints have slowed the fresh scan since it began; 0: they have not */
    bool fresh_wanted;            /* the last look did not reach the end, or somebody said there is more */
    int64_t fresh_at_us;          /* when fresh rows were asked for last */
    bool fresh_passed;            /* ... and what came was passed over, or is of an endpoint that is slow */
    int64_t pass_until_us;        /* see passes_on() */
    uint64_t restart_lanes;
    int64_t due_after_us; /* cursor of the due pass */
    int64_t due_after_seq;
    uint64_t due_after_row;
    bool due_wanted;
    size_t due_dropped;     /* rows of this pass that found no room */
    int64_t due_restart_us; /* when the pass may begin anew; PR_NEVER: no need */
    int64_t due_restarted_us;
    int64_t next_due_us;       /* store time */
    struct endpoint *catching; /* whose gaps are read in the cycle being made; NULL: nobody's */
    bool reads_held;           /* ... and of these the held rows: the first held read */
    unsigned next_catching;
    size_t gap_count;      /* GAP_NO_ROOM, of all endpoints */
    size_t waking_count;   /* streams in all endpoints' waking */
    struct list unscanned; /* streams */
    size_t next_waking;
    struct orphans orphans;
    int64_t notice_after;
};

/* What the store is to be told next, the cycle being made of it, and when.  While asked, `cycle` and all that begins with
 * planned_ belong to it and stay as they are until it is absorbed or has failed: it may be asked again. */
struct plan {
    struct cycle cycle;
    struct arena arena; /* of the cycle */
    bool asked;
    bool seats_at_risk;    /* of what is chosen or judged, while other engines share them */
    uint64_t judged_seats; /* of suspects whose verdicts are not committed */
    int64_t retry_at_us;
    int64_t retry_delay_us;
    int64_t planned_us;           /* store's clock: when the cycle was first asked */
    int64_t repeated_from_us;     /* the same where it was asked again: it may have landed at any time since; else 0 */
    int64_t cycled_us;            /* when the last one landed */
    int64_t commit_us;            /* how long it took */
    int64_t inline_results_at_us; /* when the totals of others are to be stored; PR_NEVER: there are none */
    struct tally nowhere;         /* what has no endpoint */
    struct send_effect *effects, *planned_effects; /* without a verdict; owned */
    struct hold *holds;
    size_t hold_count, hold_capacity;
    struct hold *planned_holds;
    size_t planned_hold_count, planned_hold_capacity;
    size_t pause_count;                        /* endpoints with a pause that the store does not know */
    struct list reports;                       /* breakers that the store must be told of */
    struct endpoint_breaker **planned_reports; /* as in cycle.breakers; in the arena */
    struct proof **planned_proofs;             /* as in cycle.evidence; in the arena */
    struct receipt *start; /* for what the store puts on the receipt itself; NULL: none was needed */
};

struct known_peer {
    int64_t epoch;
    char *offer; /* owned */
};

/* A lane of ours, as far as others should have it; see peers.c. */
struct lane_move {
    int64_t to;               /* who can do what waits in it: an epoch; 0: it is not to go */
    int64_t since_us;         /* ... and since when */
    int64_t stay_until_us;    /* not before then */
    int64_t until_us;         /* it is going: nothing new is begun in it until then; 0: it is not */
    int64_t keep_until_us;    /* something was done in it that not all can do, or of a session */
    int64_t session_until_us; /* ... of which the next activity may come until then */
};

struct peers {
    struct known_peer *list; /* by epoch; owned */
    size_t count;
    uint64_t serial; /* raised whenever they change */
    bool mixed;      /* some offer something else than we do */
    bool together;   /* lanes change hands all at once */
    struct lane_move moves[LANE_COUNT];
    size_t sessions[LANE_COUNT]; /* streams that were begun here */
};

struct engine {
    struct engine_setting setting;
    struct random random;
    struct endpoint *endpoints;
    size_t endpoint_count, endpoint_room;
    bool any_strict;
    struct limits *limits;       /* of all engines of the process */
    struct limits *own_limits;   /* the same where it is alone; NULL: it is not */
    struct limits_member member; /* among them */
    uint64_t breaker_salt;       /* breakers know messages by row: those of other boxes have the same numbers */
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
/* A place can be drawn twice when the store lost commits (B28): so a row is known by its id as well. */
struct item *item_find(const struct engine *e, uint64_t row, pr_id id);
struct item *item_find_row(const struct engine *e, uint64_t row,
                           const struct item *after); /* any id; after NULL: the first */
int item_set_row(struct engine *e, struct item *item, uint64_t row);
struct item *item_find_token(const struct engine *e, uint64_t token); /* NULL: stale */
uint64_t item_token(const struct item *item);
void item_wait(struct engine *e, struct item *item, bool at_back); /* into its stream or the loose ones */
void item_return(struct engine *e, struct item *item, bool at_back);
void item_tell(struct item *item, int answer);
/* whoever said how it ended, if anybody wants to know */     /* hand back, uncounted */
void item_return_unsent(struct engine *e, struct item *item); /* it was out, and nothing of it was sent */
bool endpoint_is_closed(const struct engine *e, const struct endpoint *ep,
                        int64_t now_us);     /* paused, or its breaker is open */
size_t window_limit(const struct engine *e); /* rows that it may hold now */
size_t window_free(const struct engine *e);  /* ... and that it may take */
size_t endpoint_room(const struct engine *e, const struct endpoint *ep, int64_t now_us);
size_t window_bytes_free(const struct engine *e);
bool window_has_room(const struct engine *e);
void window_await_room(struct engine *e); /* when there is none, and another engine makes some, we are woken */
void window_drop_lanes(struct engine *e, uint64_t lanes, bool also_busy);

/* stream.c */
struct stream *stream_find(const struct engine *e, const struct endpoint *ep, pr_slice name);
struct endpoint *stream_split_key(struct engine *e, pr_slice key, pr_slice *ret_name); /* NULL: no such endpoint */
struct stream *stream_get(struct engine *e, struct endpoint *ep, pr_slice name,
                          unsigned lane);             /* made when missing; NULL: no memory */
void stream_free(struct engine *e, struct stream *s); /* whatever is left of it */
void stream_insert(struct engine *e, struct stream *s, struct item *item);
void stream_update(struct engine *e, struct stream *s); /* after any change; may free s when nothing is left of it */
bool stream_blocks(const struct stream *s, const struct pr_message *m);
bool stream_add_head(struct engine *e, struct stream *s, int64_t seq, int64_t due_us, bool dead);
void stream_set_here(struct stream *s, int64_t seq, bool here); /* when there is such a head */
bool stream_misses_head(const struct stream *s, int64_t seq);   /* an earlier one is not in memory */
void stream_remove_head(struct engine *e, struct stream *s, int64_t seq);
bool stream_ends_before(const struct stream *s, int64_t seq); /* in memory */
void stream_hold_followers(struct engine *e, struct stream *s);
bool stream_has_held_type_at(const struct stream *s, int64_t seq);
void stream_hold_type(struct engine *e, struct stream *s);
bool hold_add(struct engine *e, struct hold hold); /* false: no memory */
bool stream_hold_row(struct engine *e, struct stream *s, uint64_t row, pr_id id, int64_t seq);
void stream_is_held(struct stream *s, int64_t from_seq); /* rows from here on are held in the store */
bool stream_is_ordered(const struct endpoint *ep, pr_slice stream);

/* gap.c */
void gap_widen(struct gap *g, int64_t from_seq, uint64_t after_row, int64_t to_seq);
void gap_open(struct engine *e, struct endpoint *ep, enum gap_source source, const struct gap *g); /* or widen it */
void gap_pass_over(struct engine *e, struct endpoint *ep, const struct row *row);
void gap_hold_from(struct engine *e, struct endpoint *ep, int64_t seq); /* from here on some are held in the store */
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
                                   int64_t from_seq); /* what is before that is read; false: no memory */
bool left_is_open(const struct left *l);
bool left_has_before(const struct left *l, pr_slice stream, int64_t seq); /* may a row of this stream be left there? */
PR_MUST_CHECK bool left_add_stream(struct left *l, pr_slice stream, int64_t seq); /* false: no memory */
void left_fresh(struct left *l, const struct row *row);                           /* passed over by the fresh scan */
void left_held(struct left *l, const struct row *row);                            /* held by its endpoint */
bool left_hides(const struct left *l, const struct endpoint *ep, pr_slice stream, int64_t seq);
void left_forget(struct left *l);
void left_reopen(struct engine *e, struct endpoint *ep,
                 const struct left *l); /* its gaps are gaps of the endpoint now, too */

/* sorts.c */
struct sort *sort_of(struct endpoint *ep, pr_slice type); /* NULL: there are none */
bool sort_is_full(const struct engine *e, const struct endpoint *ep, const struct sort *sort);
size_t sorts_stream_share(const struct engine *e, const struct endpoint *ep,
                          const struct sort *sort); /* rows of one stream in memory at most */
bool sorts_refuse(const struct engine *e, struct endpoint *ep,
                  pr_slice type); /* has it enough of its rows in memory? */
bool sorts_pass_over(struct engine *e, struct endpoint *ep, const struct row *row); /* as those of held_types.c */
bool sorts_take_part(struct engine *e, struct endpoint *ep, const struct row *row);
bool sorts_hide(const struct endpoint *ep, pr_slice stream, int64_t seq);
bool sorts_differ(const struct stream *s, const struct pr_message *m); /* is one of another sort before it? */
bool sorts_want_rows(const struct engine *e, const struct endpoint *ep);
void sorts_joined(struct endpoint *ep, enum gap_source source,
                  int64_t seq);                              /* one came into the gap that is being read */
void sorts_have_read(struct engine *e, struct endpoint *ep); /* a part of the gaps */
void sorts_read_all(struct endpoint *ep);                    /* ... to their end */
void sorts_renew(struct engine *e);
void sorts_forget_endpoint(struct endpoint *ep);
void sorts_forget(struct engine *e);
void sorts_fini(struct endpoint *ep);
void sorts_enter(struct endpoint *ep, struct item *item);
void sorts_leave(struct item *item);
struct item *sorts_candidate(struct engine *e, struct endpoint *ep, int64_t now_us);
void sorts_took(struct endpoint *ep);                                     /* the candidate */
unsigned sorts_asker(const struct endpoint *ep, const struct item *item); /* for which ask it is */
void sorts_check(const struct engine *e, const struct endpoint *ep);
void sorts_set_asks(struct engine *e, struct endpoint *ep, const struct ask *asks, size_t count);

/* held_types.c: of types that have enough of their rows in memory */
void held_types_forget_endpoint(struct endpoint *ep);
void held_types_forget(struct engine *e);
/* Because of its type, or because it stands behind one that was: then it is done, and found again later. */
bool held_types_passes_over(struct engine *e, struct endpoint *ep, const struct row *row);
bool held_types_takes_part(struct engine *e, struct endpoint *ep, const struct row *row);
/* May rows of this stream ("": of none) that stand before this place be out of memory? */
bool endpoint_hides(const struct endpoint *ep, pr_slice stream, int64_t seq);
void streams_wake_dozing(struct engine *e, const struct endpoint *ep);
void held_types_renew(struct engine *e); /* what is held back no more is to be read again; between cycles */

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
void receipt_add(struct receipt *r, struct item *item);
int receipt_plan(struct engine *e, struct arena *arena);
pr_slice item_handler(const struct item *item); /* as marks name it (core/mark.h); it has an endpoint */
int receipt_plan_marks(struct engine *e, struct arena *arena);
void receipt_free_all(struct engine *e);

/* start.c */
void start_plan(struct engine *e, int64_t now_us);                                /* the rest of the cycle is planned */
void start_absorb(struct engine *e, const struct cycle_reply *r, int64_t now_us); /* what was read is in the window */

/* twin.c */
bool twin_enter(struct engine *e, struct item *item); /* false: no memory */
void twin_leave(struct engine *e, struct item *item);
bool place_is_going(enum place place);
bool place_is_on_its_way(enum place place);
bool twin_is_on_its_way(const struct engine *e, const struct item *item);
void twin_await(struct engine *e, struct item *item);       /* put it aside ... */
void twin_return(struct engine *e, struct item *item);      /* ... and back */
void twins_wake(struct engine *e, const struct item *item); /* it is not on its way any more */

/* choose.c */
void choose_pace(struct engine *e);                   /* a cycle is being planned */
void choose_begin(struct item *item, int64_t now_us); /* it is being taken */
void choose_ended(struct engine *e, struct endpoint *ep, int64_t took_us,
                  int64_t now_us);       /* latency: from taking the message to its result */
void choose_unsent(struct item *item);   /* it was taken, and comes back */
void choose_settle(struct endpoint *ep); /* what is out has changed: tell the limits */
/* skip.c */
void skips_learn(struct engine *e, struct endpoint *ep, const struct row *row); /* it was passed over */
void skips_forget(struct endpoint *ep);                                         /* the routes may be others */
void skips_plan(struct engine *e);
void skips_absorb(struct engine *e, const struct cycle_reply *r); /* before the new rows */
/* Do all rows of this type without a destination go to this endpoint, and nowhere else? */
bool route_is_by_type(const struct engine_setting *s, pr_slice type, unsigned endpoint);

/* load.c */
size_t late_bytes(const struct engine *e);
size_t item_payload_size(const struct item *item); /* also while it is in the store */
bool item_is_late(const struct item *item);        /* its payload is to be loaded before it goes out */
bool load_is_possible(struct engine *e, const struct item *item, int64_t now_us);
PR_MUST_CHECK bool load_take_room(struct engine *e, struct item *item, int64_t now_us);
void item_unload(struct engine *e, struct item *item);
PR_MUST_CHECK int loads_plan(struct engine *e, struct arena *arena); /* PR_ENOMEM: nobody is asked */
/* It is chosen: here is its payload.  false: the row is not what it was. */
PR_MUST_CHECK bool load_absorb(struct item *item, const struct cycle_reply *r);

/* Streams and loose ones in turn; NULL where there is none, or its payload has no room. */
struct item *choose_turn(struct engine *e, const struct endpoint *ep, struct item *loose, struct item *ordered,
                         int64_t now_us);
void choose(struct engine *e, int64_t now_us);
bool choose_possible(struct engine *e, int64_t now_us);
/* The store is out of reach: a suspect that could not go anyway holds up no other box. */
void choose_asked(struct engine *e, int64_t now_us);
void choose_answered(struct engine *e);
void choose_seat(struct engine *e, struct item *item, enum place next); /* keep or leave it: the item moves */
void choose_verdict_busy(struct engine *e, struct item *item);
void choose_held_up(struct engine *e);
void choose_over(struct engine *e); /* nobody is chosen any more */
unsigned suspicion(const struct pr_message *m);

bool is_unsendable(const struct engine *e, const struct item *item,
                   int64_t now_us); /* must it be judged without being handed out? */
bool is_too_large(const struct engine *e, const struct item *item);
/* Is its verdict known without anybody else being asked? */
bool is_judged_here(const struct engine *e, const struct item *item, int64_t now_us);
void judge_too_large(struct engine *e, struct item *item, int64_t now_us);

/* run.c */
bool hands_out_runs(const struct engine *e);
void run_gather(struct engine *e, struct item *first, int64_t now_us); /* who goes with it, now that it goes */
struct item *run_detach(struct item *first);                           /* the others; the run is over */
void run_return(struct engine *e, struct item *rest);
void run_follow(struct engine *e, struct item *first, struct item *rest, int64_t now_us); /* the first is judged */
/* It is not to become a dead letter without a word: it was put back, and goes out as a dead one. */
bool run_keeps_dead(struct engine *e, struct item *item, const struct verdict *v);
/* Only one of the run is at fault: it is dead, and all go back, uncounted. */
void run_blame(struct engine *e, struct item *first, const struct delivery_result *result);
void run_bury(struct engine *e, struct item *item, int64_t now_us);
void run_postpone_dead(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void run_check(const struct item *first);

/* gone.c */
void gone_plan(struct engine *e, int64_t now_us);
void gone_absorb(struct engine *e, const struct cycle_reply *r);
void gone_forget(struct engine *e, struct item *item);
void gone_heads(struct engine *e, int64_t now_us); /* with a cycle that has renewed the lease */

/* breakers.c: who waits for them here */
bool breakers_allow(struct endpoint *ep, int64_t now_us); /* may anything be sent there? */
/* The endpoint's own fault: how long messages that met it wait; and it has answered. */
int64_t breakers_set_back(struct endpoint *ep, int64_t now_us);
void breakers_end_setback(struct endpoint *ep);
/* May this one go?  Otherwise it was put aside until its type may. */
bool breakers_allow_or_shelve(struct engine *e, struct endpoint *ep, struct item *item, int64_t now_us);
void breakers_unshelve(struct engine *e, struct endpoint *ep, int64_t now_us); /* those that may go now come back */
bool breakers_are_shut(const struct endpoint *ep);
bool breakers_hold_back(const struct endpoint *ep, const struct item *item);
/* The same, and whether the endpoint has room for it: then it is taken, and the probe of those that are half open. */
bool breakers_start(struct engine *e, struct endpoint *ep, const struct item *item, int64_t now_us);
/* What other engines learnt of the endpoint since we looked. */
void breakers_sync(struct engine *e, struct endpoint *ep);
void breakers_sync_all(struct engine *e);
/* true: the failure is a breaker's and not the message's.  ret_opened: it has opened just now. */
bool breakers_failed(struct engine *e, const struct item *item, const struct failure *f, enum breaker_weight weight,
                     int64_t now_us, bool *ret_opened);
struct endpoint_breaker *breakers_blamed(struct endpoint *ep, const struct item *item,
                                         enum fault fault); /* who counts such a failure */
void breakers_succeeded(struct engine *e, const struct item *item, int64_t now_us);
void breakers_returned(struct engine *e, struct endpoint *ep, const struct item *item);
void breakers_heard(struct engine *e, struct endpoint *ep, const struct engine_inline_result *result, int64_t now_us);
int64_t breakers_next_us(const struct endpoint *ep);
enum breaker_state breakers_state(const struct endpoint *ep);
void endpoint_breaker_init(struct endpoint_breaker *b, struct endpoint *ep, struct shared_breaker *shared);
void endpoint_breaker_release(struct endpoint_breaker *b); /* frees it, when nothing is to be remembered or told */
void breakers_enter(struct engine *e, struct endpoint *ep, struct item *item); /* it is in memory now */
void breakers_leave(struct endpoint *ep, struct item *item);
void breakers_check(const struct endpoint *ep);
/* Has this type, which may not go now, enough of its rows in memory? */
bool breakers_hold_type(const struct engine *e, const struct endpoint *ep, pr_slice type);
void breakers_fini(struct endpoint *ep);
bool breakers_are_per_type(const struct endpoint *ep);
struct endpoint_breaker *endpoint_breaker_get(struct engine *e, struct endpoint *ep,
                                              pr_slice type); /* NULL: no memory, or too many: it has none */
/* With the lock of the endpoint's limits held: may it go; and what follows here of what became of it. */
bool endpoint_breaker_allows(struct endpoint_breaker *b, int64_t now_us);
void endpoint_breaker_look(struct engine *e, struct endpoint_breaker *b);

/* report.c */
char *text_copy(pr_slice text,
                size_t chars); /* clean and cut; malloc'ed, NULL without memory: it goes without its words */
void last_failure_set(struct last_failure *m, const struct failure *f);
void last_failure_copy(struct last_failure *m, const struct last_failure *from);
void report_opened(struct engine *e, struct endpoint_breaker *b); /* also again */
void report_closed(struct engine *e, struct endpoint_breaker *b);
bool report_is_over(const struct endpoint_breaker *b); /* the store knows nothing of it, and need not */
void reports_plan(struct engine *e, int64_t now_us);
void reports_committed(struct engine *e);
void reports_anew(struct engine *e); /* the store has forgotten all of them */

/* evidence.c */
bool evidence_against(const struct engine *e, const struct item *item,
                      int64_t now_us); /* was another of its type delivered since its previous failure? */
void evidence_delivered(struct engine *e, const struct item *item, int64_t now_us);
bool evidence_heard(struct endpoint *ep, pr_slice type, int64_t at_us, int64_t now_us);
void evidence_plan(struct engine *e, int64_t now_us);
void evidence_absorb(struct engine *e, const struct cycle_reply *r);
void evidence_store_again(struct engine *e);
void evidence_fini(struct endpoint *ep);

/* pause.c */
bool endpoint_has_pause(const struct engine *e, const struct endpoint *ep, int64_t now_us);
int64_t endpoint_paused_until(const struct endpoint *ep); /* store time; 0: not */
void endpoint_pause(struct engine *e, struct endpoint *ep, int64_t for_us, pr_slice by, pr_slice why, int64_t now_us);
void endpoint_return_ready(struct engine *e, struct endpoint *ep); /* what is announced and not begun */
void pauses_plan(struct engine *e, int64_t now_us);
void pauses_committed(struct engine *e, bool endpoints_known);
void pauses_drop(struct engine *e);

/* fail.c */
void return_burst(struct engine *e, struct endpoint_breaker *opened); /* what failed in its outage comes back */
void put_back(struct engine *e, struct item *item);
void judge_failure(struct engine *e, struct item *item, const struct delivery_result *result, int64_t now_us);
void poison_beside(struct engine *e, struct item *item, pr_slice error, int64_t now_us);
void item_add_effects(struct engine *e, struct item *item, struct send_effect *effects); /* takes them over */

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
/* The store has answered.  false: it is about to be asked again, or has another verdict now. */
bool settle_asked(struct engine *e, struct item *item, int *answer, bool replayed, int64_t now_us);

/* result.c */
void endpoints_call_back(struct engine *e); /* see engine_wants_back() */
/* The item that is out and that a result or verdict is about; NULL when it is not ours any more. */
struct item *item_find_out(struct engine *e, uint64_t token);
void judge_success(struct engine *e, struct item *item, int bits, int64_t now_us); /* its receiver has done it */

/* settle.c */
void judge_complete(struct engine *e, struct item *item, int bits);
/* v: without row and number.  step and next_us (when it goes on): for its story. */
void judge(struct engine *e, struct item *item, const struct verdict *v, const char *step, int64_t next_us,
           int64_t now_us);
void judge_dead(struct engine *e, struct item *item, int reason, int cause, int limit, pr_slice rule, bool counted,
                pr_slice code, pr_slice error, int64_t now_us);
void judge_dead_letter(struct engine *e, struct item *item, const struct delivery_dead *d, bool counted,
                       int64_t now_us);
void judge_simple(struct engine *e, struct item *item, enum verdict_kind kind, int reason, pr_slice rule,
                  pr_slice error, int64_t now_us);
void judge_duplicate(struct engine *e, struct item *item, int64_t now_us); /* it was handled before */
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
/* A row with a due time behind our cursor may have been stored or moved. */
void due_look_again(struct engine *e, int64_t now_us);

/* lanes.c */
void open_lanes(struct engine *e, uint64_t lanes);
void absorb_lanes(struct engine *e, const struct cycle_reply *r, int64_t now_us);
void lanes_give_up(struct engine *e, int64_t now_us); /* which of them are to go by now? */

/* peers.c */
void peers_absorb(struct engine *e, const struct cycle_reply *r);
void peers_forget(struct engine *e); /* also the lanes that were to go */
void peers_gained(struct engine *e, uint64_t lanes, int64_t now_us);
/* Something was done here that needed this (empty: nothing in particular). */
void peers_did(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
/* It cannot be done here.  When another instance can, its lane is to go there: after which time it may be handed out again, by
 * whoever has it then; -1: nobody can. */
int64_t peers_pass(struct engine *e, const struct item *item, pr_slice need, int64_t now_us);
uint64_t peers_passing(struct engine *e, int64_t now_us);    /* lanes that are to go to somebody */
uint64_t peers_kept(struct engine *e, int64_t now_us);       /* lanes that are not given for the sake of even shares */
uint64_t peers_ready(const struct engine *e, uint64_t idle); /* of lanes that are to go and idle: those that can */
int64_t peers_next_us(const struct engine *e, int64_t now_us);
void peers_stream_ends(struct engine *e, const struct stream *s);
void peers_plan(struct engine *e, int64_t now_us); /* in the cycle being made, which says what it gives */
void absorb_opening(struct engine *e, const struct cycle_reply *r, int64_t now_us);
bool held_key_is_orphan(struct engine *e, pr_slice key); /* neither a stream in order here nor an endpoint */

/* admit.c */
enum admitted { TAKEN, NO_ROOM };
struct target { /* where a row goes, found once */
    unsigned endpoints[TARGETS_MAX];
    size_t count;
};
struct endpoint *find_target(struct engine *e, const struct row *row, struct target *ret); /* NULL: not just one */
enum admitted admit(struct engine *e, const struct row *row, const struct target *target, int64_t now_us);

/* plan.c */
bool plan_held_read(struct engine *e, pr_slice key, int64_t after_seq, size_t rows, struct held_read *reads,
                    size_t *count);

/* reads.c */
bool scan_will_come(const struct engine *e, const struct row *row);
bool row_is_ours(const struct engine *e, const struct row *row);
void absorb_reads(struct engine *e, const struct cycle_reply *r, int64_t now_us);

/* absorb.c */
void engine_forget(struct engine *e); /* lease lost: nothing is ours any more */

/* Do its followers wait for it at this endpoint?  With `available` it retries on its own. */
static inline bool keeps_back(const struct endpoint *ep, const struct pr_message *m)
{
    return message_blocks_stream(m) && ep->setting->ordering != ORDERING_AVAILABLE;
}

/* Has everything fresh before this place been read since the lane was opened? */
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

/* ... that may stand before this one? */
static inline bool endpoint_has_gap_before(const struct endpoint *ep, int64_t seq)
{
    return gap_reaches(&ep->gaps[GAP_FRESH], seq) || gap_reaches(&ep->gaps[GAP_HELD], seq);
}

#endif
