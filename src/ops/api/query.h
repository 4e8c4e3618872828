/* query.h - the query part of a URL, and filters in it or in a JSON body. */
#ifndef OPS_API_QUERY_H
#define OPS_API_QUERY_H

#include "base/http_head.h"
#include "base/arena.h"
#include "base/units.h"
#include "base/url.h"
#include "store/store.h"

#define PARAMS_MAX HEAD_PARAMS_MAX
#define LIST_LIMIT_MAX 1000 /* messages of one page, which includes payloads */

struct param {
    pr_slice name, value; /* decoded */
};
struct params {
    struct param list[PARAMS_MAX];
    size_t count;
};

/* Parses "a=1&b=2".  Fault PR_EINVAL (too many, repeated, badly encoded), PR_ENOMEM. */
PR_MUST_CHECK int params_parse(pr_slice text, struct arena *arena, struct params *ret, struct pr_error *reterr);
bool word_is_in(pr_slice name, const char *words); /* words are separated by blanks */
/* PR_EINVAL: one of them is not among the known words. */
PR_MUST_CHECK int params_check(const struct params *params, const char *known, struct pr_error *reterr);
pr_slice params_get(const struct params *params, const char *name); /* empty: missing */

/* Sets a member of a filter: box state endpoint type stream reason error fingerprint since until row limit after.
 * Outcome PR_UNKNOWN: no such member.  Fault PR_EINVAL. */
PR_MUST_CHECK int filter_set(struct filter *filter, pr_slice name, pr_slice value, int64_t now_us,
                             struct pr_error *reterr);

/* A stream's mark for paging, as text: "3-1731690000000000-5f1c2ab09d3e7746". */
#define STREAM_MARK_SIZE 64
void stream_mark_format(const struct stream_info *stream, char ret[STREAM_MARK_SIZE]);
bool stream_mark_parse(pr_slice text, struct stream_mark *ret);

#endif
