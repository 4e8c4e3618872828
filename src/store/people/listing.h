/* listing.h - the rows that a filter finds, for those who ask and for those who order. */
#ifndef STORE_PEOPLE_LISTING_H
#define STORE_PEOPLE_LISTING_H

#include "store/people/listing_context.h"
#include "store/store.h"

enum listing_table { LISTING_BOX, LISTING_DEAD, LISTING_DONE };

/* Whether nobody else may change the rows until the transaction ends (where writers are serial this is so anyway), and
 * what becomes of rows that somebody holds. */
enum listing_lock { LISTING_LOCK_NONE, LISTING_LOCK_WAIT, LISTING_LOCK_SKIP };

/* Called for each row found, in row order; its slices last until it returns.  PR_OK: go on; LISTING_STOP; or a fault. */
enum { LISTING_STOP = 1 };
typedef int (*listing_found)(void *arg, const struct listed *listed, struct pr_error *reterr);

/* The rows of one table (and one box; for LISTING_DEAD and LISTING_DONE an empty box is all) that the filter finds,
 * without its limit. */
struct listing {
    enum listing_table table;
    pr_slice box;
    const struct filter *filter;
    enum listing_lock lock;
    bool followers; /* only those that a release by stream means, where the database can say it */
    bool with_payload;
    bool
        by_stream; /* through its index.  Nearly all that it finds fits: no more is looked at than a page has room for */
    size_t wanted; /* about how many will be enough; 0: nobody knows */
    listing_found found;
    int (*page_end)(
        void *arg); /* the rows of a page were given to found(), and none of them is being read any more; may be NULL */
    void *arg;
};
/* ret_cut (may be NULL): the last row that was looked at where filter.look_max was used up; else 0. */
PR_MUST_CHECK int listing_run(struct sql *sql, const struct listing_context *s, const struct listing *listing,
                              uint64_t *ret_cut);

#endif
