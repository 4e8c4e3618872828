/* pace.h - how fast endpoints take messages, by two looks at the totals in the store: so all instances are in it. */
#ifndef OPS_REPLAY_PACE_H
#define OPS_REPLAY_PACE_H

#include "base/json.h"
#include "store/store.h"

#define PACE_SPAN_US PR_SECONDS(10) /* who asks often gets the rate of the last span, or of up to two */

struct pace {
    double sent, failed; /* in a second */
    int64_t over_us;     /* 0: not known */
};

/* "rates": {...}, or null when they are not known. */
void pace_json(struct json_writer *w, const struct pace *rate);

/* Earlier looks, kept for those who ask again and again.  Threads: any, new and free excepted. */
struct paces;
struct paces *paces_new(void); /* NULL: no memory */
void paces_free(struct paces *paces);
/* What came of each endpoint since an earlier look; ret has room for reply->endpoint_count. */
void paces_look(struct paces *paces, const struct query_reply *reply, struct pace *ret);

#endif
