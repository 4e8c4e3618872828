/* ranking.h - the order of listings, groups and streams for people: what matters most comes first.  Stores find the rows;
 * they are ordered here, the same for all stores. */
#ifndef STORE_PEOPLE_RANKING_H
#define STORE_PEOPLE_RANKING_H

#include "store/store.h"

/* The limit is reached, and there are more: go on after the last one. */
void reply_is_full(struct query_reply *reply);
/* filter.look_max was used up at this row (0: it was not).  Of several tables the first one counts. */
void reply_is_cut(struct query_reply *reply, pr_slice box, uint64_t row);

/* One more dead letter of its group.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int groups_take(struct query_reply *reply, const struct listed *letter, struct arena *arena);
/* How many of each group are looked at for one reason, where there are this many groups. */
int64_t groups_look_of_reason(int64_t groups);
/* There were more than this. */
void groups_are_cut(struct query_reply *reply, size_t looked);
/* A store's dead letters of one stream, found by its index, in the order of their rows. */
typedef int (*letter_found)(void *arg, const struct listed *letter, struct pr_error *reterr);
typedef int (*letters_find)(const void *store, const struct filter *filter, letter_found found, void *arg,
                            uint64_t *ret_cut);
/* The groups of the stream that is asked for: all of it is looked at, to GROUP_LOOK_STREAM. */
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
    size_t known; /* how many of the first are in order: streams_settle() */
};

/* A copy of it in the arena, or NULL: no memory. */
struct stream_info *streams_add(struct stream_list *streams, const struct stream_info *stream);
/* A head that is in its box, when it is asked for.  Where its row does not say for which endpoint, because a person parked
 * it before it was ever handed out, the routes say it of m: its type, source, stream and headers are enough.
 * PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_add_head(struct stream_list *streams, const struct stream_info *head,
                                   const struct pr_message *m);
/* The head of a row that is one, without `waiting`. */
struct stream_info stream_of_row(pr_slice box, const struct pr_message *m, enum state state, int64_t now_us);
/* Of several in a stream the first is its head, those that yield come last: drop the others, and put the rest in order. */
void streams_settle(struct stream_list *streams);
/* Since when a head that is in its box is in trouble. */
int64_t stream_since(int64_t failed_us, int64_t created_us, int64_t due_us, pr_slice story);
/* The head that this box, endpoint and stream are held behind, among those that were there when it was settled; NULL: none is
 * in the box.  One that neither its row nor a route gives an endpoint is taken for it.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_find(struct stream_list *streams, const struct stream_info *held,
                               struct stream_info **ret_head);
/* Can those that are held in the stream of this head (NULL: it has none in its box) be waiting for a dead letter before it?
 * Where nobody knows whether it is strict, they do not wait for what is parked unless it is. */
bool stream_may_wait_for_dead(const struct stream_list *streams, const struct stream_info *head);
/* Is this dead letter, which died for this endpoint (empty: a person put it there before it was handed out), one of the
 * endpoint that the others are held for?  Where nobody knows, because no route fits it, it is. */
bool stream_waits_for_letter(const struct stream_list *streams, const struct stream_info *held, pr_slice endpoint,
                             const struct pr_message *letter);
/* One row is held in its stream, and came back: is it the head of it (NULL: it has none)? */
bool stream_is_alone(const struct stream_info *head);
/* `held` rows are held in its stream, maybe the head among them. */
void stream_set_waiting(struct stream_info *head, uint64_t held);
/* The dead letter is the head, in the place of this one (NULL: of none).  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_put(struct stream_list *streams, struct stream_info *head, const struct stream_info *dead);
/* Those with most behind them first, then the longest in trouble; cut to the filter's limit.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int streams_rank(const struct stream_list *streams, const struct query *query, struct query_reply *reply);

/* held_by of those behind it: "endpoint/stream", in the arena; data NULL: no memory. */
pr_slice stream_key(struct arena *arena, const struct stream_info *stream);
/* The other way round; the stream is empty where the key is of none. */
void stream_key_split(pr_slice key, pr_slice *ret_endpoint, pr_slice *ret_stream);
bool stream_is_asked(const struct filter *filter, const struct stream_info *stream);
/* Is one alone asked for?  Then its key says all of what is held. */
bool stream_is_one(const struct filter *filter);

#endif
