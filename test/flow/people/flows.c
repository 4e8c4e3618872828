/* Flows of the host as a shared object, as `postrider flow check` takes them: unchanged, or (CHANGED) with a typical
 * mistake. */
#include <postrider_flow.h>

static int patient(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int rc = pr_set_status(f, PR_STR("waiting"));
    if (rc == PR_OK)
        rc = pr_state_set(f, PR_STR("input"), input);
    if (rc != PR_OK)
        return rc;
#ifdef CHANGED
    return pr_call(f, "say", input, ret_output);
#else
    return pr_result(f, pr_event(f, "go"), ret_output, NULL);
#endif
}

static int greet(pr_flow *f, pr_slice name, pr_slice *ret_output)
{
    return pr_call(f, "say", name, ret_output);
}

int pr_flow_register(struct pr_flow_set *set)
{
    int rc = pr_flow_set_add(set, "patient", NULL, patient, NULL);
    return rc == PR_OK ? pr_flow_set_add(set, "greet", NULL, greet, NULL) : rc;
}
