/* question.h - one question of a person on its way through the port.
 *
 *   sql.c         the port (store/sql.h)             statement_list.h  all statements, for both databases
 *   question.c    the transaction                    listing_context.c    receipts, pauses, boxes
 *   listing.c     rows that match a filter           messages.c        listings, by id, counts of dead letters
 *   counts.c      how many are in which state        overview.c        audit, instances, breakers, failures
 *   groups.c      dead letters by fingerprint        streams.c         streams in trouble
 *   ranking.c     what matters most comes first      warn.c, import.c  writing warnings and imported letters
 *   ended.c       what the ledger knows of an id     events.c          the event store
 *   session.c       sessions of activities, and who runs them
 *   subscription.c  readers of all events, and snapshots
 *   flows.c       flows                              flow_order.c      orders about them
 *
 * To add a question: its kind and its reply in store.h, its statement in statement_list.h, its function and its line in
 * overview.c. */
#ifndef STORE_PEOPLE_QUESTION_H
#define STORE_PEOPLE_QUESTION_H

#include "store/people/listing_context.h"
#include "store/sql.h"
#include "store/store.h"

#define LIMIT_DEFAULT 100

struct question {
    struct sql *sql;
    struct arena *arena; /* allocates the reply */
    const struct query *query;
    struct query_reply *reply;
    struct listing_context s;
    bool lacks_memory; /* something of the reply is missing */
};

static inline size_t question_limit(const struct question *q)
{
    return q->query->filter.limit > 0 ? q->query->filter.limit : LIMIT_DEFAULT;
}

int question_no_memory(struct question *q);
/* A text of the current row, copied; without memory the question fails at its end. */
pr_slice question_text(struct question *q, const struct rows *rows, int column);

/* See store_query(). */
PR_MUST_CHECK int people_query(const struct store *store, const struct query *query, struct arena *arena,
                               struct query_reply *ret_reply, struct pr_error *reterr);
/* See store_admin(). */
PR_MUST_CHECK int people_admin(const struct store *store, const struct admin *admin, struct admin_reply *ret_reply,
                               struct pr_error *reterr);
/* See store_warn(). */
PR_MUST_CHECK int people_warn(const struct store *store, const struct warnings *warnings, int64_t calm_us,
                              bool *ret_new, struct pr_error *reterr);
/* See store_note_sources(). */
PR_MUST_CHECK int people_note_sources(const struct store *store, pr_slice instance, pr_slice lines,
                                      struct pr_error *reterr);

/* See store_take(), store_position(). */
PR_MUST_CHECK int people_take(const struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                              const struct position_move *move, int *answers, struct pr_error *reterr);
PR_MUST_CHECK int people_position(const struct store *store, pr_slice source, struct arena *arena, pr_slice *ret,
                                  struct pr_error *reterr);

/* Runs in the transaction that question.c has begun. */
PR_MUST_CHECK int question_answer(struct question *q);
PR_MUST_CHECK int question_messages(struct question *q);
PR_MUST_CHECK int question_dead(struct question *q);
PR_MUST_CHECK int question_id(struct question *q);
/* Appends to the entries listed already; the list has room for `capacity` entries. */
PR_MUST_CHECK int question_ended(struct question *q, size_t capacity);
/* Of the id; and, where nothing else remains of the message, as an entry of the listing. */
PR_MUST_CHECK int question_marks(struct question *q);
PR_MUST_CHECK int question_flow(struct question *q);
PR_MUST_CHECK int question_flows(struct question *q);
PR_MUST_CHECK int question_flow_executions(struct question *q);
PR_MUST_CHECK int question_dead_count(struct question *q);
PR_MUST_CHECK int question_groups(struct question *q);
PR_MUST_CHECK int question_boxes(struct question *q);
PR_MUST_CHECK int question_rows(struct question *q);
PR_MUST_CHECK int question_streams(struct question *q);
PR_MUST_CHECK int question_breakers(struct question *q);
PR_MUST_CHECK int question_events(struct question *q);

PR_MUST_CHECK int question_subscriptions(struct question *q);
/* A person's order about a subscription, and its outcome. */
PR_MUST_CHECK int order_subscription(struct sql *sql, const struct admin *admin, struct admin_reply *reply);
/* See store_subscription(), store_snapshot_save(), store_snapshot_load(). */
PR_MUST_CHECK int people_subscription(const struct store *store, const struct subscription_call *call,
                                      struct arena *arena, struct subscription_info *ret, struct pr_error *reterr);
PR_MUST_CHECK int people_snapshot_save(const struct store *store, pr_slice stream, int64_t version, pr_slice data,
                                       struct pr_error *reterr);
PR_MUST_CHECK int people_snapshot_load(const struct store *store, pr_slice stream, struct arena *arena,
                                       int64_t *ret_version, pr_slice *ret_data, struct pr_error *reterr);

/* See store_session_hold(), store_session_look(). */
PR_MUST_CHECK int people_session_hold(const struct store *store, pr_slice session, pr_slice holder, pr_slice instance,
                                      struct arena *arena, pr_slice *ret_from, struct pr_error *reterr);
PR_MUST_CHECK int people_session_look(const struct store *store, pr_slice session, struct arena *arena,
                                      struct session_info *ret, struct pr_error *reterr);

/* Before all events are read: events committed since get their places, in a transaction of its own. */
PR_MUST_CHECK int events_place(const struct store *store, int64_t *ret_placed, struct pr_error *reterr);

#endif
