/* listing.h - the rows that a filter finds, for those who ask and for those who order. */
#ifndef STORE_POSTGRES_LISTING_H
#define STORE_POSTGRES_LISTING_H

#include "store/postgres/postgres.h"

enum listing_table { LISTING_BOX, LISTING_DEAD, LISTING_DONE };

/* What is on an open receipt of a living instance. */
struct flight {
    pr_slice box, instance;
    pr_id instance_id;
    uint64_t row;
    int number;
};

/* What is known beside the rows; read once per question, in its transaction. */
struct surroundings {
    int64_t now_us, mono_us;
    size_t payload_max;
    struct flight *flights; /* by box and row */
    size_t flight_count;
    pr_slice *paused;
    size_t paused_count;
    pr_slice *boxes; /* ascending */
    size_t box_count;
};
PR_MUST_CHECK int pg_surroundings_read(struct postgres_store *store, struct link *link, struct arena *arena,
                                       struct surroundings *ret, struct pr_error *reterr);

/* NULL: it is not in flight. */
const struct flight *pg_surroundings_flight(const struct surroundings *s, pr_slice box, uint64_t row, int attempts);
/* The state of a row of this box, with receipts and pauses laid over it.  endpoint: where it goes. */
enum state pg_surroundings_state(const struct surroundings *s, pr_slice box, uint64_t row, const struct pr_message *m,
                                 pr_slice endpoint);

/* Called for each row found, in row order; its slices last until it returns.  0: go on;
 * > 0: stop; < 0: a fault. */
typedef int (*pg_listing_found)(void *arg, const struct listed *listed, struct pr_error *reterr);

/* The rows of one table (and one box; for LISTING_DEAD and LISTING_DONE an empty box is all)
 * that the filter finds, without its limit.  locks: nobody else changes them until the
 * transaction ends.  follower: only those that a release by stream means. */
struct listing {
    enum listing_table table;
    pr_slice box;
    const struct filter *filter;
    bool locks, followers, with_payload;
    bool by_stream; /* through its index.  Nearly all that it finds fits: no more is looked at than a page has
                                     * room for */
    size_t wanted;  /* about how many will be enough; 0: nobody knows */
    pg_listing_found found;
    int (*page_end)(void *arg); /* rows of a page were told: what was added to the link by `found` must
                                                * have run when this returns.  NULL: nothing was */
    void *arg;
};
/* ret_cut (may be NULL): the last row that was looked at where filter.look_max was used up; else 0. */
PR_MUST_CHECK int pg_listing_run(struct link *link, const struct surroundings *s, const struct listing *listing,
                                 uint64_t *ret_cut, struct pr_error *reterr);

/* QUERY_FAILING. */
PR_MUST_CHECK int pg_failing(struct link *link, const struct surroundings *s, const struct query *query,
                             struct arena *arena, struct query_reply *reply, struct pr_error *reterr);

#endif
