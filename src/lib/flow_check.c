/* Does new code still match stored histories? */
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "lib/flow.h"
#include "lib/flow_set.h"
#include "lib/lib.h"
#include "ops/flow/flow_check.h"

PR_API struct pr_flow_set *pr_flow_set_new(void)
{
    struct pr_flow_set *set = calloc(1, sizeof *set);
    if (set != NULL)
        flow_registry_init(&set->registry);
    return set;
}

PR_API void pr_flow_set_free(struct pr_flow_set *set)
{
    if (set == NULL)
        return;
    flow_registry_fini(&set->registry);
    free(set);
}

PR_API int pr_flow_set_add(struct pr_flow_set *set, const char *name, const char *version, pr_flow_function function,
                           void *user)
{
    struct pr_error ignored;
    if (set == NULL || name == NULL || function == NULL)
        return PR_EINVAL;
    return flow_registry_add(&set->registry, name, version, function, user, &ignored);
}

_Static_assert((int)PR_FLOW_FITS == FLOW_CHECK_FITS && (int)PR_FLOW_DAMAGED == FLOW_CHECK_DAMAGED, "");

struct replay_check {
    pr_flow_check_each each;
    void *arg;
    bool differs;
};

static int tell(void *arg, const struct flow_checked *c)
{
    struct replay_check *check = arg;
    const struct pr_flow_checked checked = { .outcome = (enum pr_flow_fit)c->outcome,
                                             .id = c->flow,
                                             .name = c->name,
                                             .version = c->version,
                                             .execution = c->execution,
                                             .event = c->event,
                                             .expected = c->expected,
                                             .found = c->found,
                                             .why = c->why };
    check->differs |= c->outcome != FLOW_CHECK_FITS;
    return check->each != NULL ? check->each(check->arg, &checked) : PR_OK;
}

PR_API int pr_flow_check(struct pr_flow_client *client, const struct pr_flow_set *set, const char *id,
                         pr_flow_check_each each, void *arg, struct pr_error *reterr)
{
    struct replay_check check = { .each = each, .arg = arg };
    if (client == NULL || set == NULL)
        return lib_missing(client == NULL ? "client" : "set", reterr);
    int rc = flow_check_stored(lib_flow_store_of(client), &set->registry, slice_from(id), tell, &check, reterr);
    return rc == PR_OK && check.differs ? PR_FAILED : rc;
}

PR_API int pr_flow_check_history(const struct pr_flow_set *set, pr_slice lines, pr_flow_check_each each, void *arg,
                                 struct pr_error *reterr)
{
    struct replay_check check = { .each = each, .arg = arg };
    if (set == NULL)
        return lib_missing("set", reterr);
    int rc = flow_check_lines(&set->registry, lines, tell, &check, reterr);
    return rc == PR_OK && check.differs ? PR_FAILED : rc;
}
