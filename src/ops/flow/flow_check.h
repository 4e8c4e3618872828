/* flow_check.h - is new code compatible with existing flows?  Replays stored histories; nothing is stored. */
#ifndef OPS_FLOW_FLOW_CHECK_H
#define OPS_FLOW_FLOW_CHECK_H

#include "flow/registry.h"
#include "store/store.h"

enum flow_check_outcome {
    FLOW_CHECK_FITS,
    FLOW_CHECK_DIVERGES,
    FLOW_CHECK_LACKS,   /* the code has no such name and version */
    FLOW_CHECK_DAMAGED, /* the history cannot be read */
};
const char *flow_check_name(enum flow_check_outcome outcome); /* "fits", ... */

/* The result for one history; borrowed for the call. */
struct flow_checked {
    pr_slice flow; /* empty: the history comes from a file */
    pr_slice name, version;
    pr_id execution;
    enum flow_check_outcome outcome;
    int64_t event; /* DIVERGES: where ... */
    pr_slice expected, found;
    pr_slice why; /* a text; empty if it fits */
};
/* Anything but PR_OK ends it. */
typedef int (*flow_check_each)(void *arg, const struct flow_checked *checked);

/* Lines as stored.  Fault PR_ENOMEM, PR_EINVAL: it is empty. */
PR_MUST_CHECK int flow_check_lines(const struct flow_registry *code, pr_slice lines, flow_check_each each, void *arg,
                                   struct pr_error *reterr);
/* One flow, or (empty) all running ones.  Outcome PR_UNKNOWN: no such flow. */
PR_MUST_CHECK int flow_check_stored(struct store *store, const struct flow_registry *code, pr_slice flow,
                                    flow_check_each each, void *arg, struct pr_error *reterr);

#endif
