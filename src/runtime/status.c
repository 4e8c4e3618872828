/* The runtime's state, for people. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "runtime/inside.h"

int runtime_fault_fd(const struct runtime *rt)
{
    return rt->fault_fd;
}

int runtime_fault(struct runtime *rt, struct pr_error *reterr)
{
    ASSERT(pthread_mutex_lock(&rt->fault_lock) == 0);
    int rc = rt->fault.code;
    if (rc != PR_OK && reterr != NULL)
        *reterr = rt->fault;
    ASSERT(pthread_mutex_unlock(&rt->fault_lock) == 0);
    return rc;
}

unsigned runtime_http_port(struct runtime *rt)
{
    read_lock(rt);
    unsigned port = rt->front != NULL ? rt->options.front->port(rt->front) : 0;
    read_unlock(rt);
    return port;
}

int runtime_is_live(struct runtime *rt, struct pr_error *reterr)
{
    read_lock(rt);
    int rc = rt->state == RUNTIME_RUNNING ? relay_is_live(rt->relay, reterr)
                                          : error_set(reterr, PR_EINVAL, "it is not running");
    read_unlock(rt);
    return rc;
}

bool runtime_source(struct runtime *rt, size_t index, struct source_status *ret)
{
    read_lock(rt);
    bool found = rt->state == RUNTIME_RUNNING && index < relay_source_count(rt->relay);
    if (found)
        relay_source(rt->relay, index, ret);
    read_unlock(rt);
    return found;
}

int runtime_is_ready(struct runtime *rt, struct pr_error *reterr)
{
    read_lock(rt);
    int rc = rt->state == RUNTIME_RUNNING ? relay_is_ready(rt->relay, reterr)
                                          : error_set(reterr, PR_EINVAL, "it is not running");
    if (rc == PR_OK)
        rc = store_check(rt->store, reterr);
    if (rc == PR_OK && reterr != NULL) {
        error_clear(reterr);
        (void)relay_note(rt->relay, reterr);
    }
    read_unlock(rt);
    return rc;
}

void runtime_counts(struct runtime *rt, struct pr_engine_counts *ret_counts)
{
    read_lock(rt);
    *ret_counts = rt->past;
    if (rt->relay != NULL)
        relay_counts(rt->relay, ret_counts);
    read_unlock(rt);
}

static int status_endpoints(struct relay *relay, struct arena *arena, struct runtime_status *ret)
{
    ret->endpoint_count = relay_endpoint_count(relay);
    ret->endpoints = arena_alloc_array(arena, ret->endpoint_count, sizeof ret->endpoints[0]);
    if (ret->endpoints == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < ret->endpoint_count; i++) {
        struct endpoint_view v;
        pr_slice name = slice_dup(arena, relay_endpoint_name(relay, i));
        if (name.data == NULL)
            return PR_ENOMEM;
        relay_endpoint(relay, i, &v);
        ret->endpoints[i] = (struct runtime_endpoint){ .name = name.data,
                                                       .breaker = v.breaker,
                                                       .paused_until_us = v.paused_until_us,
                                                       .waiting = v.waiting,
                                                       .out = v.out,
                                                       .sent = v.sent,
                                                       .failed = v.failed };
    }
    return PR_OK;
}

static int status_incidents(struct relay *relay, struct arena *arena, struct runtime_status *ret)
{
    ret->failures = arena_alloc_array(arena, INCIDENTS_MAX, sizeof ret->failures[0]);
    ret->deaths = arena_alloc_array(arena, INCIDENTS_MAX, sizeof ret->deaths[0]);
    if (ret->failures == NULL || ret->deaths == NULL)
        return PR_ENOMEM;
    ret->failure_count = relay_incidents(relay, false, ret->failures, INCIDENTS_MAX);
    ret->death_count = relay_incidents(relay, true, ret->deaths, INCIDENTS_MAX);
    return PR_OK;
}

int runtime_status(struct runtime *rt, struct arena *arena, struct runtime_status *ret)
{
    struct pr_error error = { 0 };
    *ret = (struct runtime_status){ 0 };
    runtime_counts(rt, &ret->counts);
    read_lock(rt);
    int rc = PR_OK;
    if (rt->relay != NULL) {
        ret->ready = relay_is_ready(rt->relay, &error) == PR_OK;
        rc = status_endpoints(rt->relay, arena, ret);
        if (rc == PR_OK)
            rc = status_incidents(rt->relay, arena, ret);
    }
    read_unlock(rt);
    memcpy(ret->trouble, error.text, sizeof ret->trouble);
    return rc;
}
