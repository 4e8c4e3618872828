/* The parts of a memory store.  Everything here is guarded by memory->mutex, and every function except those of the
 * contract is called with it held.
 *
 * Invariants, asserted by memory_check():
 *   M1  A row of a box is in exactly one of: its lane's fresh or due index, the held index.
 *   M2  It is in its lane's heads exactly when it blocks a stream or is parked.
 *   M3  (id, destination) is unique in a box with its dead letters, except for plain INSERTs.
 *   M4  A lane's owner is an instance of the box, and has the lane in its mask.
 *   M5  Rows of open transactions are in no index: a snapshot that is taken now sees all
 *       rows that are.
 *
 * Changes are made in two steps: first all memory is allocated, then nothing can fail.  So a cycle or an operator's
 * action lands whole or not at all. */
#ifndef STORE_MEMORY_MEMORY_MODEL_H
#define STORE_MEMORY_MEMORY_MODEL_H

#include <pthread.h>

#include "base/error.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "core/change.h"
#include "core/ended.h"
#include "engine/scan.h"
#include "store/memory/memory.h"
#include "store/memory/memory_tree.h"

#define NOTICES_KEPT 1024 /* an instance that is further behind reads everything again */
#define NOTICES_MAX 256   /* in one reply */
#define AUDIT_KEPT 1000
#define KEPT_LISTS 1024    /* hash lists of what effects have stored */
#define DONE_PURGE_MAX 256 /* in one cycle */
#define ENDED_KEPT 100000  /* messages that have ended: the latest */

/* ---- Rows ------------------------------------------------------------------------------- */

/* Texts that change during a row's life; each is an allocation of its own. */
enum own { OWN_CODE, OWN_ERROR, OWN_STORY, OWN_HELD_BY, OWN_PAYLOAD, OWN_COUNT };

/* What is stored about a row that left the box: a dead letter, or done. */
struct after_life {
    int cause, limit;
    int64_t at_us, forget_us;
    pr_slice endpoint, rule, note; /* in text */
    pr_id edited_as;               /* zero: not edited */
    char fingerprint[17];
    char text[];
};

struct stored_row {
    struct pr_message m;
    uint64_t row; /* numbers are unique in the store, over boxes, dead letters and done */
    uint64_t xid;
    unsigned lane;
    const char *bad; /* whatever the payload limit is; NULL: nothing */
    struct box *box;
    struct after_life *after; /* NULL: it is in the box */
    struct map_node by_row, by_id;
    struct list_node order; /* of box->rows, dead or done, by row */
    struct tree_node place; /* in fresh, due or held; of a dead letter: in box->dead_heads */
    struct tree_node head;
    const struct stored_instance *in_flight; /* valid while handed_out_stamp is the store's */
    uint64_t handed_out_stamp;
    bool counted;              /* while its instance is being buried: one attempt more */
    struct kept_effect *event; /* the event to append when the row is committed; NULL: none */
    char *own[OWN_COUNT];
    char block[];
};

/* ---- Boxes ------------------------------------------------------------------------------ */

struct stored_receipt {
    struct list_node node;
    uint64_t cycle;
    int64_t at_us;
    size_t count;
    struct receipt_entry entries[];
};

struct stored_breaker {
    struct list_node node;
    int64_t since_us, until_us;
    int probes, reason;
    pr_slice endpoint, type, code, error; /* in text */
    char text[];
};

struct stored_instance {
    struct list_node node;
    pr_id id;
    int64_t epoch;
    uint64_t last; /* number of the latest cycle that landed */
    uint64_t lanes;
    int64_t lease_end; /* monotonic */
    int64_t started_us;
    struct list receipts;
    int *answers;         /* to the verdicts of its latest cycle, if guards could refuse them; malloc'ed, or NULL */
    struct list breakers; /* those that are not closed */
    pr_slice name, offer; /* in text */
    char text[];
};

struct lane {
    struct stored_instance *owner;
    /* The lane is free and reserved for the instance with this epoch, if it lives; 0: free for all. */
    int64_t passed_to;
    struct tree fresh; /* (seq, row): no due time, not held */
    struct tree due;   /* (due, seq, row): not held */
    struct tree heads; /* (row) */
};

struct box {
    struct list_node node;
    struct memory *memory;
    int64_t last_seq, durable_seq;
    struct lane lanes[LANE_COUNT];
    struct tree held; /* (held_by, seq, row) */
    struct list rows;
    struct map by_row, by_id;
    struct list dead;
    struct map dead_by_id;
    struct tree dead_heads; /* (row): those with a stream */
    struct list done;       /* in the order in which they are forgotten, nearly */
    struct list instances;  /* by epoch */
    struct list sessions;
    uint64_t generation;        /* counts changes, for waiting sessions */
    struct map marks;           /* struct stored_mark, by id */
    struct list mark_order;     /* the same, by until_us */
    struct map again;           /* struct stored_again, by id */
    struct list again_order;    /* the same, by until_us, nearly */
    int64_t dedupe_us;          /* as the latest join set it; 0: arriving messages are not compared with marks */
    struct map_node anchors[4]; /* keep the maps from being empty, so that inserting cannot fail */
    size_t name_size;
    char name[BOX_NAME_MAX + 1];
};

/* ---- The store ---------------------------------------------------------------------------- */

struct stored_endpoint {
    struct list_node node;
    int64_t paused_until_us;
    pr_slice by, why; /* malloc'ed */
    uint64_t sent, failed, dead, discarded, expired, duplicates, failed_in_row;
    int64_t last_failed_us;
    int last_reason;
    pr_slice last_code, last_error; /* malloc'ed */
    pr_slice name;
    char text[];
};

struct stored_notice {
    struct list_node node;
    const struct box *box; /* NULL: for all */
    struct notice n;
    char text[];
};

struct audit {
    struct list_node node;
    uint64_t number;
    int64_t at_us;
    enum admin_kind kind;
    uint64_t matched, changed, refused;
    pr_slice by, why, target; /* in text */
    char text[];
};

/* A message that has ended. */
struct stored_ended {
    struct list_node node; /* of memory->ended, by time */
    int64_t at_us;
    struct ended e;
    pr_slice by; /* the instance, or who; as the others in text */
    char text[];
};

/* A record that a handler has ended a message. */
struct stored_mark {
    struct map_node by_id;
    struct list_node order;
    pr_id id;
    int64_t at_us, until_us;
    int outcome;
    bool alone;
    pr_slice handler; /* in text */
    char text[];
};

/* A message that arrived again, and was not stored. */
struct stored_again {
    struct map_node by_id;
    struct list_node order;
    pr_id id;
    uint64_t times;
    int64_t at_us, until_us;
    pr_slice destination; /* in text */
    char text[];
};

struct memory_tx {
    struct list_node node;
    struct memory *memory;
    uint64_t xid; /* 0: none drawn */
    struct list rows;
};

/* What an effect has stored: an event, a row of history, a value. */
struct kept_effect {
    struct list_node node; /* of memory->kept, by kind and key */
    enum effect_kind kind;
    int64_t number, count; /* number of entries before it, and in it */
    pr_id id;
    pr_slice box, key, name, value; /* in text */
    /* Events: */
    struct list_node all; /* of memory->events */
    uint64_t place;       /* 0: not assigned yet */
    uint64_t row;         /* the row that stored it, or the last row before it: the event is lost with that row */
    int64_t at_us;
    pr_slice headers, content_type; /* in text */
    char text[];
};

struct stored_subscription {
    struct list_node node;
    struct subscription_info info; /* its holder is malloc'ed; its name is in text */
    char text[];
};

struct stored_position {
    struct list_node node;
    pr_slice source, position; /* in text */
    char text[];
};

/* A flow, or an execution of one before its current one. */
struct stored_flow {
    struct list_node node;
    struct flow_row *row; /* behind this struct */
};

/* Mail for a flow that has not begun. */
struct stored_mail {
    struct list_node node; /* of memory->mail, in the order of arrival */
    int64_t until_us;      /* PR_NEVER: no limit */
    pr_slice flow;         /* in text, as the message's */
    struct pr_message m;
    char text[];
};

struct memory {
    pthread_mutex_t mutex;
    const struct clock *clock;
    size_t payload_max;
    uint64_t next_xid, next_row, durable_row;
    uint64_t history; /* incremented when commits were lost */
    int64_t epoch;
    struct list boxes;
    struct list open; /* transactions */
    struct list endpoints;
    struct list evidence;
    struct list ended;
    size_t ended_count;
    struct list notices;
    int64_t notice_last;
    struct list audit;
    size_t audit_count;
    uint64_t audit_last;
    uint64_t handed_out_stamp;
    struct list kept[KEPT_LISTS];
    struct list events; /* all of them, in the order of their commits */
    uint64_t event_places;
    struct list subscriptions;
    struct list positions;
    struct list flows[KEPT_LISTS]; /* by id */
    struct list executions;        /* before the current ones, in the order of their ends */
    struct list mail;
    memory_row_is_held *is_held; /* NULL: no row is locked */
    void *is_held_arg;
    /* For a store with a name: guarded by the registry's mutex. */
    struct list_node node;
    unsigned users;
    char *name;
};

struct memory_session {
    struct list_node node;
    struct box *box;
    struct arena arena; /* the reply */
    struct scan *scan;
    struct scan_pending pending[LANE_COUNT];
    uint64_t pending_number;
    struct cycle_reply reply;
    size_t row_capacity;
    uint64_t generation;             /* the box's generation that it has seen */
    uint64_t history, reply_history; /* memory->history as of the latest reply that arrived, and of the latest reply */
    uint64_t reply_number;           /* its cycle */
    int event_fd;                    /* -1: the session has never waited */
};

/* memory.c */
struct box *box_find(struct memory *memory, pr_slice name); /* NULL: none */
pr_slice box_name(const struct box *box);
void box_touch(struct box *box); /* wakes sessions that wait for changes */

/* memory_row.c */
struct pr_message sender_part(const struct pr_message *message, int64_t now_us);
struct stored_row *row_new(struct box *box, const struct pr_message *message); /* NULL: no memory */
/* The same for a sent message: with its event, if it is one. */
struct stored_row *row_new_sent(struct box *box, const struct pr_message *message);
void row_free(struct stored_row *row);
struct stored_row *row_find(const struct box *box, uint64_t number);
struct stored_row *row_find_id(const struct box *box, pr_id id, pr_slice destination);
struct stored_row *dead_find_id(const struct box *box, pr_id id, pr_slice destination);
/* The rows with an id one by one, in the order of their rows; NULL: no more.  dead: among the dead letters. */
struct stored_row *row_next_of_id(const struct box *box, bool dead, pr_id id, uint64_t after_row);
void row_link(struct stored_row *row);    /* into its box, with a new number */
void row_unlink(struct stored_row *row);  /* out of it */
void row_unplace(struct stored_row *row); /* before due, held_by, status, released change ... */
void row_place(struct stored_row *row);   /* ... and after */
/* text.data was malloc'ed, or is NULL; the row takes it over. */
void row_own(struct stored_row *row, enum own which, pr_slice text);
/* malloc'ed copy; the empty text is {NULL, 0}.  False: no memory. */
bool text_dup(pr_slice text, pr_slice *ret);
/* A dead letter's, with another note; NULL: no memory. */
struct after_life *after_life_copy(const struct after_life *old, pr_slice note);
struct after_life *after_life_new(pr_slice endpoint, pr_slice rule, pr_slice note);
void row_bury_dead(struct stored_row *row, struct after_life *after); /* box -> dead letters */
void row_keep_done(struct stored_row *row, struct after_life *after); /* box -> done */
void dead_link(struct stored_row *row, struct after_life *after);     /* a new dead letter */
void dead_unlink(struct stored_row *row);
void dead_set_edited(struct stored_row *row, pr_id by);
void done_purge(struct box *box, int64_t now_us, size_t max);

/* memory_tx.c */
int memory_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
                   struct pr_error *reterr);
/* The same, with the mutex held. */
int memory_enqueue_locked(struct memory *memory, pr_slice box, const struct pr_message *messages, size_t count,
                          int *answers, struct pr_error *reterr);

/* memory_loss.c */
void memory_flush(struct memory *memory); /* this change, and all before it, are durable */

/* memory_lease.c */
struct stored_instance *instance_find(const struct box *box, pr_id id);
struct stored_instance *instance_new(const struct cycle *cycle, int64_t now_us); /* in no box yet */
void instance_join(struct box *box, struct stored_instance *instance);
void instance_bury(struct box *box, struct stored_instance *instance); /* T6; frees it */
void instance_bury_expired(struct box *box, const struct stored_instance *but);
void instance_renew(struct box *box, struct stored_instance *instance, const struct cycle *cycle, bool joined);
void lanes_give(struct box *box, struct stored_instance *instance, uint64_t lanes, const int64_t *to);
void lanes_take(struct box *box, struct stored_instance *instance, uint64_t but);
uint64_t lanes_asked(const struct box *box, const struct stored_instance *instance, uint64_t kept);
/* The other instances, into the reply.  Fault PR_ENOMEM. */
PR_MUST_CHECK int reply_peers(struct memory_session *session, const struct stored_instance *instance);

/* memory_breaker.c */
struct stored_breaker *breaker_new(const struct breaker_change *change, int64_t now_us); /* NULL: no memory */
/* Takes *open over; NULL: it has closed. */
void breaker_apply(struct stored_instance *instance, const struct breaker_change *change, struct stored_breaker **open);
void instance_forget_breakers(struct stored_instance *instance);
int breakers_copy(const struct memory *memory, struct arena *arena, struct breaker_info **ret, size_t *ret_count);

/* memory_evidence.c */
int evidence_prepare(struct memory *memory, const struct cycle *cycle);
void evidence_apply(struct memory *memory, const struct cycle *cycle, int64_t now_us); /* what was prepared */
int evidence_answer(struct memory_session *session, const struct cycle *cycle);
void evidence_forget(struct memory *memory);

/* memory_ended.c */
struct stored_ended *stored_ended_new(const struct ended *e, pr_slice by, int64_t now_us); /* NULL: no memory */
void stored_ended_add(struct memory *memory, struct stored_ended *entry);
void ended_purge(struct memory *memory, int64_t before_us, size_t max);
void ended_forget(struct memory *memory);

/* memory that a change may need, allocated before anything is changed */
struct change_memory { /* what a change may need, taken before anything is changed */
    pr_slice text[OWN_COUNT];
    struct after_life *after;
    struct stored_row **rows; /* in the arena; FATE_SPLIT: one per destination */
    size_t row_count;
};
PR_MUST_CHECK int change_take(const struct stored_row *row, const struct change *change, struct arena *arena,
                              struct change_memory *ret); /* the arena is for splits */
void change_memory_fini(struct change_memory *memory);    /* frees what was not used */
/* Applies a change for which change_holds(); the row may be gone afterwards. */
void change_apply(struct stored_row *row, const struct change *change, struct change_memory *memory, int64_t now_us,
                  int64_t keep_us, uint64_t *split_rows);

/* memory that an effect may need, allocated before anything is changed */
struct effect_memory {        /* what an effect may need, taken before anything is changed */
    struct box *box;          /* MESSAGE, DELETE, SEEN */
    struct stored_row *row;   /* MESSAGE */
    struct stored_mark *mark; /* SEEN */
    struct kept_effect *kept;
    struct stored_flow *flow; /* FLOW */
    struct stored_mail *mail; /* MAIL */
};
PR_MUST_CHECK int effect_take(struct memory *memory, const struct effect *effect, int64_t now_us,
                              struct effect_memory *ret, struct pr_error *reterr); /* Fault PR_ENOTFOUND: its box */
void effect_memory_fini(struct effect_memory *memory);                             /* what was not used */
void effects_compare(struct memory *memory, const struct effect *effects, size_t count, struct effect_guards *guards);
int effect_apply(struct memory *memory, const struct effect *effect, struct effect_memory *m); /* the answer */
void kept_free_all(struct memory *memory);
struct list *kept_list(struct memory *memory, enum effect_kind kind, pr_slice key);

/* memory_flow.c */
PR_MUST_CHECK int flow_take(struct memory *memory, const struct effect *e, int64_t now_us, struct effect_memory *ret);
void flow_memory_fini(struct effect_memory *m);
struct stored_flow *flow_find(const struct memory *memory, pr_slice id);                /* NULL: none */
int flow_apply(struct memory *memory, const struct effect *e, struct effect_memory *m); /* FLOW and MAIL: the answer */
void mail_purge(struct memory *memory, int64_t now_us);
void flows_init(struct memory *memory);
void flows_free(struct memory *memory);
int memory_query_flow(struct memory *memory, const struct flow_filter *filter, bool brief, struct arena *arena,
                      struct query_reply *reply);
int memory_query_executions(struct memory *memory, const struct flow_filter *filter, struct arena *arena,
                            struct query_reply *reply);

/* memory_event.c */
struct kept_effect *event_new(const struct pr_message *message, int64_t now_us); /* NULL: no memory */
/* How many events a stream has; *ret_known: this id is among them. */
int64_t events_count(struct memory *memory, pr_slice stream, pr_id id, bool *ret_known);
void event_append(struct memory *memory, struct kept_effect *event, uint64_t row); /* takes it over */
void row_append_event(struct stored_row *row); /* appends the event of a row that was linked, if it has one */
void events_lose(struct memory *memory);       /* events that are not durable */
int events_copy(struct memory *memory, const struct query *query, size_t limit, struct arena *arena,
                struct query_reply *reply);

/* memory_subscription.c */
int memory_subscription(void *self, const struct subscription_call *call, struct arena *arena,
                        struct subscription_info *ret, struct pr_error *reterr);
void subscriptions_free(struct memory *memory);

/* memory_position.c */
int memory_take(void *self, pr_slice box, const struct pr_message *messages, size_t count,
                const struct position_move *move, int *answers, struct pr_error *reterr);
int memory_position(void *self, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr);
void positions_free(struct memory *memory);

/* memory_mark.c */
struct stored_mark *mark_new(const struct effect *effect, int64_t now_us); /* NULL: no memory */
struct stored_mark *mark_find(const struct box *box, pr_id id, pr_slice handler);
struct stored_mark *mark_next_of_id(const struct box *box, pr_id id,
                                    const struct stored_mark *after); /* NULL: the first */
/* Has an arriving message been handled? */
bool mark_has_handled(const struct box *box, pr_id id, pr_slice destination);
/* In a box with dedupe the message arrived again, and was not stored; without memory this is not recorded. */
void again_note(struct box *box, const struct pr_message *message, int64_t now_us);
struct stored_again *again_next_of_id(const struct box *box, pr_id id,
                                      const struct stored_again *after); /* NULL: the first */
void mark_link(struct box *box, struct stored_mark *mark);
void mark_drop(struct box *box, struct stored_mark *mark);
void marks_purge(struct box *box, int64_t now_us, int64_t dedupe_us, size_t max);
void marks_free(struct box *box);
int marks_answer(struct memory_session *session, const struct cycle *cycle);
int loads_answer(struct memory_session *session, const struct cycle *cycle); /* see cycle.loads */
int gone_answer(struct memory_session *session, const struct cycle *cycle);  /* see cycle.alive */

/* memory_cycle.c */
int memory_cycle(void *self, const struct cycle *cycle, const struct cycle_reply **ret_reply, struct pr_error *reterr);

/* memory_read.c */
int reply_read(struct memory_session *session, const struct cycle *cycle, uint64_t owned, int64_t now_us);
void scan_settle(struct memory_session *session, const struct cycle *cycle); /* the last reply has arrived */

/* memory_notice.c */
struct stored_notice *notice_new(const struct box *box, enum notice_kind kind, const struct stored_row *row,
                                 pr_slice endpoint);
void notice_add(struct memory *memory, struct stored_notice *notice);
int reply_notices(struct memory_session *session, const struct cycle *cycle);
struct stored_endpoint *endpoint_find(const struct memory *memory, pr_slice name);
struct stored_endpoint *endpoint_new(pr_slice name);
int endpoints_copy(const struct memory *memory, struct arena *arena, struct endpoint_state **ret, size_t *ret_count);
void endpoint_free(struct stored_endpoint *endpoint);
/* These take over the texts. */
void endpoint_set_failure(struct stored_endpoint *endpoint, const struct tally *tally, pr_slice *code, pr_slice *error,
                          int64_t now_us);
void endpoint_set_pause(struct stored_endpoint *endpoint, int64_t until_us, pr_slice *by, pr_slice *why);
bool endpoint_is_paused(const struct memory *memory, pr_slice name, int64_t now_us);
struct audit *audit_new(const struct admin *admin, int64_t now_us);
void audit_add(struct memory *memory, struct audit *audit, const struct admin_reply *reply);

/* memory_filter.c */
void handed_out_mark(struct memory *memory); /* so that row_state() knows which rows are in flight */
/* filter: for its routing; may be NULL. */
enum state row_state(const struct memory *memory, const struct stored_row *row, const struct filter *filter,
                     int64_t now_us);
bool filter_matches(const struct filter *filter, const struct stored_row *row, enum state state);
pr_slice row_endpoint(const struct stored_row *row);

/* memory_query.c, memory_admin.c */
int memory_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                 struct pr_error *reterr);
int memory_admin(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr);

static inline int64_t memory_now(const struct memory *memory)
{
    return clock_wall_us(memory->clock);
}

#endif
