/* The flows that a program has: names, and several versions of each. */
#ifndef FLOW_REGISTRY_H
#define FLOW_REGISTRY_H

#include "flow/turn.h"

struct flow_registry {
    struct flow_code *codes; /* sorted by name, then by version */
    size_t count, capacity;
};

void flow_registry_init(struct flow_registry *r);
void flow_registry_fini(struct flow_registry *r);

/* version NULL means "1".  The texts are copied.  Fault PR_EINVAL: it is registered already, or a text is invalid;
 * PR_ENOMEM. */
PR_MUST_CHECK int flow_registry_add(struct flow_registry *r, const char *name, const char *version,
                                    pr_flow_function function, void *user, struct pr_error *reterr);
/* NULL: not registered.  version empty: the highest.  Borrowed until the next flow_registry_add(). */
const struct flow_code *flow_registry_find(const struct flow_registry *r, pr_slice name, pr_slice version);

/* Compares versions part by part, separated by dots: numbers by value, and before other texts.  "9" < "10" < "10.1". */
int flow_version_cmp(pr_slice a, pr_slice b);

/* For a turn whose flow this program lacks, with messages of this age: after which time it is handed out again, by the
 * owner of its lane at that time; or -1: it has waited for give_up_us, and is poison.  The delay grows with the age,
 * from a tenth of a second to half a minute. */
int64_t flow_unknown_delay_us(int64_t age_us, int64_t give_up_us);

#endif
