/* listing.h - the rows that match a filter, for questions and for orders. */
#ifndef STORE_PEOPLE_LISTING_H
#define STORE_PEOPLE_LISTING_H

#include "store/people/listing_context.h"
#include "store/store.h"

enum listing_table { LISTING_BOX, LISTING_DEAD, LISTING_DONE };

/* Whether rows are locked until the transaction ends (where writers are serial they always are), and what happens with
 * rows that another transaction has locked. */
enum listing_lock { LISTING_LOCK_NONE, LISTING_LOCK_WAIT, LISTING_LOCK_SKIP };

/* Called for each row found, in row order; its slices are valid until it returns.  PR_OK: continue; LISTING_STOP; or a
 * fault. */
enum { LISTING_STOP = 1 };
typedef int (*listing_found)(void *arg, const struct listed *listed, struct pr_error *reterr);

/* The rows of one table (and one box; for LISTING_DEAD and LISTING_DONE an empty box means all) that match the filter,
 * ignoring its limit. */
struct listing {
    enum listing_table table;
    pr_slice box;
    const struct filter *filter;
    enum listing_lock lock;
    bool followers; /* only rows that a release by stream applies to, where the database can tell */
    bool with_payload;
    /* through its index.  Nearly all that it finds match: no more rows are looked at than fit on a page */
    bool by_stream;
    size_t wanted; /* about how many will be enough; 0: unknown */
    listing_found found;
    /* called after the rows of a page were given to found(), and none of them is being read any more; may be NULL */
    int (*page_end)(void *arg);
    void *arg;
};
/* ret_cut (may be NULL): the last row looked at where filter.look_max was reached; else 0. */
PR_MUST_CHECK int listing_run(struct sql *sql, const struct listing_context *s, const struct listing *listing,
                              uint64_t *ret_cut);

#endif
