/* Which flows a program has: names, and several versions of each. */
#ifndef FLOW_REGISTRY_H
#define FLOW_REGISTRY_H

#include "flow/turn.h"

struct flow_registry {
    struct flow_code *codes; /* sorted by name, then by version */
    size_t count, capacity;
};

void flow_registry_init(struct flow_registry *r);
void flow_registry_fini(struct flow_registry *r);

/* version NULL is "1".  The texts are copied.  Fault PR_EINVAL: it is there already, or a text is wrong; PR_ENOMEM. */
PR_MUST_CHECK int flow_registry_add(struct flow_registry *r, const char *name, const char *version,
                                    pr_flow_function function, void *user, struct pr_error *reterr);
/* NULL: there is none.  version empty: the highest.  Borrowed until the next flow_registry_add(). */
const struct flow_code *flow_registry_find(const struct flow_registry *r, pr_slice name, pr_slice version);

/* Versions are compared part by part, between dots: numbers by their value and before other texts.  "9" < "10" < "10.1". */
int flow_version_cmp(pr_slice a, pr_slice b);

/* A turn whose flow this program lacks, for messages that wait so long already: after which time it is looked at again, by
 * whoever has it then; or -1: it has waited for give_up_us, and is poison.  It grows with the age, from a tenth of a second to half a minute. */
int64_t flow_unknown_delay_us(int64_t age_us, int64_t give_up_us);

#endif
