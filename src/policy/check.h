/* Rules that do not do what their author intends: rules that can never match, rules behind others which match
 * everything, steps that are never reached, and endless loops.
 *
 * The check is exact about reasons, classes, endpoints, sizes, ages and failures, and conservative about texts: what it
 * reports is true, but it does not find everything. */
#ifndef POLICY_CHECK_H
#define POLICY_CHECK_H

#include "base/buf.h"
#include "policy/policy.h"

enum finding_kind {
    FINDING_NEVER,       /* the rule can never match */
    FINDING_UNREACHABLE, /* other rules match everything that it could match */
    FINDING_STEP,        /* a step is never reached */
    FINDING_ENDLESS,     /* it never ends, or goes in a circle */
    FINDING_POISON,      /* it would retry a message that killed its process, which never happens */
};

struct finding {
    enum finding_kind kind;
    const struct rule *rule;
    pr_slice endpoint;        /* owner of the rule; empty: a global one */
    const struct rule *other; /* UNREACHABLE: the rule that takes its matches, if it is only one */
    size_t step;              /* STEP, ENDLESS: its index */
    pr_slice to;              /* ENDLESS: the endpoint that closes the circle */
};

const char *finding_kind_name(enum finding_kind kind); /* "never_matches", "unreachable", ... */

/* Adds what is wrong with the rule, to follow its name in one line: "is never reached: ...". */
void finding_describe(const struct finding *finding, struct buf *ret);

/* An endpoint and its policy; the global rules are the same in all of them. */
struct checked_endpoint {
    pr_slice name;
    const struct policy *policy;
};

/* Calls found() for each finding, in the order of the rules: the endpoints' own, then the global ones. */
void policy_check(const struct checked_endpoint *endpoints, size_t endpoint_count, const struct rule *global,
                  size_t global_count, void (*found)(void *arg, const struct finding *finding), void *arg);

#endif
