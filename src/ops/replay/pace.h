/* pace.h - the rates of endpoints, from two looks at the totals in the store: they include all instances. */
#ifndef OPS_REPLAY_PACE_H
#define OPS_REPLAY_PACE_H

#include "base/json.h"
#include "store/store.h"

#define PACE_SPAN_US PR_SECONDS(10) /* frequent callers get the rate over the last one or two of these spans */

struct pace {
    double sent, failed; /* per second */
    int64_t over_us;     /* 0: unknown */
};

/* "rates": {...}, or null when unknown. */
void pace_json(struct json_writer *w, const struct pace *rate);

/* Earlier looks, kept for repeated questions.  Threads: any, except for new and free. */
struct paces;
struct paces *paces_new(void); /* NULL: no memory */
void paces_free(struct paces *paces);
/* The rate of each endpoint since an earlier look; ret has room for reply->endpoint_count. */
void paces_look(struct paces *paces, const struct query_reply *reply, struct pace *ret);

#endif
