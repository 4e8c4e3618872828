/* ranking.h - the order of listings, groups and streams for people: what matters most comes first.  Stores find the
 * rows; they are ranked here, the same for all stores. */
#ifndef STORE_PEOPLE_RANKING_H
#define STORE_PEOPLE_RANKING_H

#include "store/store.h"

/* The limit is reached, and there are more: the next page begins after the last one. */
void reply_is_full(struct query_reply *reply);
/* filter.look_max was reached at this row (0: it was not).  Of several tables the first one counts. */
void reply_is_cut(struct query_reply *reply, pr_slice box, uint64_t row);

/* Adds a dead letter to its group.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int groups_take(struct query_reply *reply, const struct listed *letter, struct arena *arena);
/* With a filter by reason and this many groups: how many letters of each group are looked at. */
int64_t groups_look_of_reason(int64_t groups);
/* There were more letters than this. */
void groups_are_cut(struct query_reply *reply, size_t looked);
/* A store's dead letters of one stream, found by its index, in the order of their rows. */
typedef int (*letter_found)(void *arg, const struct listed *letter, struct pr_error *reterr);
typedef int (*letters_find)(const void *store, const struct filter *filter, letter_found found, void *arg,
                            uint64_t *ret_cut);
/* Groups with a filter by stream: all its letters are looked at, up to GROUP_LOOK_STREAM. */
PR_MUST_CHECK int groups_of_stream(const struct query *query, struct query_reply *reply, struct arena *arena,
                                   letters_find find, const void *store);
/* The largest first, then the latest; cut to the filter's limit. */
void groups_rank(const struct query *query, struct query_reply *reply);

/* Heads as they are found; grows in the arena. */
struct stream_list {
    struct arena *arena;
    const struct filter *filter; /* the question's */
    struct stream_info *list;
    size_t count, capacity;
    size_t known; /* how many heads at the front are in order: streams_settle() */
};

/* A copy of it in the arena, or NULL: no memory. */
struct stream_info *streams_add(struct stream_list *streams, const struct stream_info *stream);
/* Adds a head that is in its box, if the filter matches.  Where its row has no endpoint, because a person parked it
 * before it was ever handed out, the routes decide by m: its type, source, stream and headers are sufficient.  PR_OK or
 * PR_ENOMEM. */
PR_MUST_CHECK int streams_add_head(struct stream_list *streams, const struct stream_info *head,
                                   const struct pr_message *m);
/* The head of a row that is one, without `waiting`. */
struct stream_info stream_of_row(pr_slice box, const struct pr_message *m, enum state state, int64_t now_us);
/* Of several candidates in a stream the first is its head, and those that yield come last: drops the others, and sorts
 * the rest. */
void streams_settle(struct stream_list *streams);
/* Since when a head that is in its box is in trouble. */
int64_t stream_since(int64_t failed_us, int64_t created_us, int64_t due_us, pr_slice story);
/* The head that this box, endpoint and stream are held behind, among those present at streams_settle(); NULL: none is
 * in the box.  A head whose endpoint neither its row nor a route gives counts for any endpoint.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_find(struct stream_list *streams, const struct stream_info *held,
                               struct stream_info **ret_head);
/* Can rows that are held in the stream of this head (NULL: it has none in its box) be waiting for an earlier dead
 * letter?  If it is unknown whether the stream is strict, rows are assumed not to wait for parked heads unless it
 * is. */
bool stream_may_wait_for_dead(const struct stream_list *streams, const struct stream_info *head);
/* Is this dead letter, which died at this endpoint (empty: a person added it before it was handed out), at the endpoint
 * that the others are held for?  If unknown, because no route matches it, the answer is yes. */
bool stream_waits_for_letter(const struct stream_list *streams, const struct stream_info *held, pr_slice endpoint,
                             const struct pr_message *letter);
/* One row is held in its stream, and came back: is it the stream's head (NULL: it has none)? */
bool stream_is_alone(const struct stream_info *head);
/* `held` rows are held in its stream, possibly including the head. */
void stream_set_waiting(struct stream_info *head, uint64_t held);
/* Makes the dead letter the head, in the place of this one (NULL: of none).  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_put(struct stream_list *streams, struct stream_info *head, const struct stream_info *dead);
/* Those with most rows behind them first, then the longest in trouble; cut to the filter's limit.  PR_OK or
 * PR_ENOMEM. */
PR_MUST_CHECK int streams_rank(const struct stream_list *streams, const struct query *query, struct query_reply *reply);

/* held_by of the rows behind it: "endpoint/stream", in the arena; data NULL: no memory. */
pr_slice stream_key(struct arena *arena, const struct stream_info *stream);
/* The reverse; the stream is empty where the key has none. */
void stream_key_split(pr_slice key, pr_slice *ret_endpoint, pr_slice *ret_stream);
bool stream_is_asked(const struct filter *filter, const struct stream_info *stream);
/* Does the filter select a single stream?  Then its key finds all held rows. */
bool stream_is_one(const struct filter *filter);

#endif
