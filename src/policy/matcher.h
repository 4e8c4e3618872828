/* The condition of a rule on a failure: a tree of matchers.
 *
 * Texts: code, type, endpoint and stream are globs over the whole text, `contains` looks for a part of the error,
 * `glob` is one over all of it.  Everything is case-sensitive.  A list means "one of them"; ranges include both ends.
 * There are no regular expressions: the time that a glob takes is bounded by its length times that of the text. */
#ifndef POLICY_MATCHER_H
#define POLICY_MATCHER_H

#include <postrider.h>

#define MATCHER_DEPTH_MAX 8  /* nesting of and, or, not */
#define MATCHER_LIST_MAX 64  /* texts of one matcher, parts of one and/or */
#define MATCHER_TEXT_MAX 255 /* bytes of a text to search for; globs have their own limits (base/glob.h) */

struct failure;

enum matcher_kind {
    MATCH_ALL,    /* every part; without parts: always true */
    MATCH_ANY,    /* one of the parts */
    MATCH_NOT,    /* not the one part */
    MATCH_REASON, /* mask of matcher_reason_bit() */
    MATCH_CLASS,  /* mask of 1 << enum reason_class */
    MATCH_CODE,   /* globs */
    MATCH_TYPE,
    MATCH_ENDPOINT,
    MATCH_STREAM,
    MATCH_ERROR,    /* globs */
    MATCH_CONTAINS, /* parts of the error */
    MATCH_SIZE,     /* bytes of the payload, min..max */
    MATCH_AGE,      /* microseconds since it was stored */
    MATCH_FAILURES, /* including this one */
};

struct matcher {
    enum matcher_kind kind;
    uint32_t mask;
    int64_t min, max;
    const pr_slice *texts;
    size_t text_count;
    const struct matcher *parts;
    size_t part_count;
};

uint32_t matcher_reason_bit(int reason);

bool matcher_matches(const struct matcher *matcher, const struct failure *failure);

/* The same walk in three values, for callers that know a failure only in part. */
enum maybe { MAYBE_NO, MAYBE, MAYBE_YES };
typedef enum maybe (*matcher_leaf)(const struct matcher *leaf, const void *arg);
enum maybe matcher_walk(const struct matcher *matcher, matcher_leaf leaf, const void *arg);

#endif
