/* Querying and notifying flows from outside, through a connection of the client's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "flow/flow_error.h"
#include "lib/flow.h"
#include "lib/lib.h"
#include "runtime/flow/watch.h"
#include "store/store.h"

#define ANSWER_BLOCK 4096
#define WAIT_MIN_US                                                                                                    \
    PR_MILLISECONDS(2) /* pause between looks at a flow that may run elsewhere; half as long again each time ... */
#define WAIT_MAX_US PR_MILLISECONDS(500)
#define WAIT_TOLD_US PR_MILLISECONDS(100) /* turns run in this process, which most likely will wake the waiter */

/* Threads: as the store. */
struct pr_flow_client {
    struct store store;
};

PR_API int pr_flow_client_open(const char *store_url, struct pr_flow_client **ret_client, struct pr_error *reterr)
{
    if (store_url == NULL || ret_client == NULL)
        return lib_missing(store_url == NULL ? "store_url" : "ret_client", reterr);
    struct pr_flow_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a client");
    const struct store_options options = { .url = store_url, .payload_max = LIB_PAYLOAD_MAX };
    int rc = store_open(&options, &client->store, reterr);
    if (rc == PR_OK)
        rc = store_check(&client->store, reterr);
    if (rc < 0) {
        pr_flow_client_close(client);
        return rc;
    }
    *ret_client = client;
    return PR_OK;
}

PR_API void pr_flow_client_close(struct pr_flow_client *client)
{
    if (client == NULL)
        return;
    store_close(&client->store);
    free(client);
}

struct store *lib_flow_store_of(struct pr_flow_client *client)
{
    return &client->store;
}

/* ---- Starts and signals ---------------------------------------------------------------------------------------- */

static int store_one(void *where, const char *box, const struct pr_message *message, struct pr_error *reterr)
{
    struct store *store = where;
    pr_id id;
    int answer = PR_OK;
    int rc = store_enqueue(store, slice_from(box), message, 1, LIB_PAYLOAD_MAX, &id, &answer, reterr);
    return rc < 0 ? rc : answer;
}

/* The watch comes first: once the start is stored, the flow can end at any moment. */
static int store_start(void *where, const char *box, const struct pr_message *message, struct pr_error *reterr)
{
    flow_watch_start(message->stream);
    return store_one(where, box, message, reterr);
}

static int read_row(struct pr_flow_client *client, const char *id, struct arena *arena, const struct flow_row **ret,
                    struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_FLOW, .flow = { .id = slice_from(id) }, .brief = true };
    struct query_reply reply;
    int rc = store_query(&client->store, &query, arena, &reply, reterr);
    *ret = rc == PR_OK && reply.flow_count > 0 ? &reply.flows[0] : NULL;
    return rc;
}

/* Does such a flow exist, so that this start would do nothing? */
static int is_there(struct pr_flow_client *client, const struct pr_flow_start *start, bool *ret,
                    struct pr_error *reterr)
{
    const struct flow_row *row = NULL;
    struct arena arena;

    arena_init(&arena, ANSWER_BLOCK);
    int rc = read_row(client, start->id, &arena, &row, reterr);
    *ret = row != NULL && !(start->restart && flow_has_ended(row));
    arena_fini(&arena);
    return rc;
}

PR_API int pr_flow_start(struct pr_flow_client *client, const struct pr_flow_start *start, char ret_id[PR_FLOW_ID_SIZE],
                         struct pr_error *reterr)
{
    bool there = false;

    if (client == NULL || start == NULL)
        return lib_missing(client == NULL ? "client" : "start", reterr);
    int rc = start->id != NULL ? is_there(client, start, &there, reterr) : PR_OK;
    if (rc < 0)
        return rc;
    if (there) {
        if (ret_id != NULL)
            snprintf(ret_id, PR_FLOW_ID_SIZE, "%s", start->id);
        return PR_DUPLICATE;
    }
    return lib_flow_start_by(store_start, &client->store, NULL, start, true, ret_id, reterr);
}

static int tell(struct pr_flow_client *client, const struct pr_flow_tell *message, struct pr_error *reterr)
{
    if (client == NULL)
        return lib_missing("client", reterr);
    return lib_flow_tell_by(store_one, &client->store, NULL, message, reterr);
}

PR_API int pr_flow_raise(struct pr_flow_client *client, const char *id, const char *event, pr_slice data,
                         struct pr_error *reterr)
{
    return tell(client, &(struct pr_flow_tell){ .id = id, .kind = PR_FLOW_EVENT, .name = event, .data = data }, reterr);
}

PR_API int pr_flow_send(struct pr_flow_client *client, const char *id, const char *mailbox, pr_slice data,
                        struct pr_error *reterr)
{
    return tell(client, &(struct pr_flow_tell){ .id = id, .kind = PR_FLOW_MAIL, .name = mailbox, .data = data },
                reterr);
}

PR_API int pr_flow_cancel(struct pr_flow_client *client, const char *id, const char *why, struct pr_error *reterr)
{
    return tell(client, &(struct pr_flow_tell){ .id = id, .kind = PR_FLOW_CANCEL, .data = slice_from(why) }, reterr);
}

/* ---- Asking ----------------------------------------------------------------------------------------- */

PR_API const char *pr_flow_state_name(enum pr_flow_state state)
{
    return flow_state_name((int)state);
}

_Static_assert((int)PR_FLOW_RUNNING == FLOW_RUNNING && (int)PR_FLOW_CONTINUED == FLOW_CONTINUED, "");

/* Slices are those of the row, or in the arena. */
static struct pr_flow_status status_of(const struct flow_row *row, struct arena *arena)
{
    struct flow_error error = { 0 };
    if (row->error.size > 0 && flow_error_read(row->error, arena, &error) != PR_OK)
        error = (struct flow_error){ .category = PR_CATEGORY_APPLICATION };
    return (struct pr_flow_status){
        .state = (enum pr_flow_state)row->state,
        .id = row->id,
        .name = row->name,
        .version = row->version,
        .input = row->input,
        .output = row->output,
        .custom_status = row->custom_status,
        .status_number = row->status_number,
        .category = error.category,
        .error = error.message,
        .error_json = row->error,
        .parent = row->parent,
        .execution = row->execution,
        .events = row->next,
        .created_us = row->created_us,
        .updated_us = row->updated_us,
    };
}

PR_API int pr_flow_status(struct pr_flow_client *client, const char *id, struct pr_flow_status *ret_status,
                          struct pr_error *reterr)
{
    const struct flow_row *row = NULL;

    if (client == NULL || id == NULL || ret_status == NULL)
        return lib_missing(client == NULL ? "client" : id == NULL ? "id" : "ret_status", reterr);
    *ret_status = (struct pr_flow_status){ 0 };
    struct arena *arena = malloc(sizeof *arena);
    if (arena == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the status of a flow");
    arena_init(arena, ANSWER_BLOCK);
    int rc = read_row(client, id, arena, &row, reterr);
    if (rc == PR_OK && row != NULL) {
        *ret_status = status_of(row, arena);
        ret_status->memory = arena;
        return PR_OK;
    }
    arena_fini(arena);
    free(arena);
    return rc < 0 ? rc : PR_UNKNOWN;
}

PR_API void pr_flow_status_free(struct pr_flow_status *status)
{
    if (status == NULL || status->memory == NULL)
        return;
    arena_fini(status->memory);
    free(status->memory);
    *status = (struct pr_flow_status){ 0 };
}

static bool is_over(const struct pr_flow_status *status, int64_t after_number)
{
    return status->state > PR_FLOW_RUNNING || (after_number >= 0 && status->status_number > after_number);
}

PR_API int pr_flow_wait(struct pr_flow_client *client, const char *id, int64_t after_number, int64_t timeout_us,
                        struct pr_flow_status *ret_status, struct pr_error *reterr)
{
    struct flow_watch watch;
    int64_t pause_us = flow_watch_is_told() ? WAIT_TOLD_US : WAIT_MIN_US;
    int rc;

    if (client == NULL || id == NULL || ret_status == NULL)
        return lib_missing(client == NULL ? "client" : id == NULL ? "id" : "ret_status", reterr);
    int64_t until_us = time_add(clock_mono_us(clock_system()), max64(timeout_us, 0));
    *ret_status = (struct pr_flow_status){ 0 };
    flow_watch_begin(&watch, slice_from(id), after_number);
    if (flow_watch_is_new(&watch)) /* its row does not exist yet, or says that the flow runs */
        (void)flow_watch_wait(&watch, min64(pause_us, max64(timeout_us, 0)));
    for (;;) {
        pr_flow_status_free(ret_status);
        rc = pr_flow_status(client, id, ret_status, reterr);
        if (rc < 0 || (rc == PR_OK && is_over(ret_status, after_number)))
            break;
        int64_t left_us = time_sub(until_us, clock_mono_us(clock_system()));
        if (left_us <= 0) {
            rc = rc == PR_UNKNOWN ? PR_UNKNOWN : PR_TIMEOUT;
            break;
        }
        bool moved = flow_watch_wait(&watch, min64(pause_us, left_us));
        if (moved || atomic_load(&watch.is_here))
            pause_us = WAIT_MAX_US; /* its turns run in this process, which will wake the waiter */
        else
            pause_us = min64(pause_us + pause_us / 2, WAIT_MAX_US);
    }
    flow_watch_end(&watch);
    return rc;
}

static int list_by(struct pr_flow_client *client, const struct query *query, pr_flow_listed each, void *arg,
                   struct pr_error *reterr)
{
    struct query_reply reply;
    struct arena arena;

    arena_init(&arena, ANSWER_BLOCK);
    int rc = store_query(&client->store, query, &arena, &reply, reterr);
    for (size_t i = 0; rc == PR_OK && i < reply.flow_count; i++) {
        const struct pr_flow_status status = status_of(&reply.flows[i], &arena);
        rc = each(arg, &status);
    }
    arena_fini(&arena);
    return rc;
}

PR_API int pr_flow_list(struct pr_flow_client *client, const struct pr_flow_query *q, pr_flow_listed each, void *arg,
                        struct pr_error *reterr)
{
    if (client == NULL || q == NULL || each == NULL)
        return lib_missing(client == NULL ? "client" : q == NULL ? "query" : "each", reterr);
    const struct query query = {
        .kind = QUERY_FLOWS,
        .flow = { .name = slice_from(q->name),
                  .version = slice_from(q->version),
                  .parent = slice_from(q->parent),
                  .state = q->state,
                  .after_us = q->after_us,
                  .after_id = slice_from(q->after_id) },
        .filter = { .state = -1, .since_us = q->since_us, .until_us = q->until_us, .limit = q->max },
    };
    return list_by(client, &query, each, arg, reterr);
}

PR_API int pr_flow_executions(struct pr_flow_client *client, const char *id, pr_flow_listed each, void *arg,
                              struct pr_error *reterr)
{
    if (client == NULL || id == NULL || each == NULL)
        return lib_missing(client == NULL ? "client" : id == NULL ? "id" : "each", reterr);
    const struct query query = { .kind = QUERY_FLOW_EXECUTIONS,
                                 .flow = { .id = slice_from(id) },
                                 .filter = { .state = -1 } };
    return list_by(client, &query, each, arg, reterr);
}

/* Everything about a flow, as a turn sees it. */
static int read_all(struct pr_flow_client *client, const char *id, const pr_id *execution, struct arena *arena,
                    struct query_reply *ret, struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_FLOW, .flow = { .id = slice_from(id) } };
    if (client == NULL || id == NULL)
        return lib_missing(client == NULL ? "client" : "id", reterr);
    if (execution != NULL)
        query.flow.execution = *execution;
    int rc = store_query(&client->store, &query, arena, ret, reterr);
    return rc == PR_OK && ret->flow_count == 0 ? PR_UNKNOWN : rc;
}

static int each_line(pr_slice lines, pr_flow_line each, void *arg)
{
    int rc = PR_OK;
    while (rc == PR_OK && lines.size > 0) {
        const char *end = memchr(lines.data, '\n', lines.size);
        size_t size = end != NULL ? (size_t)(end - lines.data) : lines.size;
        if (size > 0)
            rc = each(arg, (pr_slice){ lines.data, size });
        size += end != NULL;
        lines = (pr_slice){ lines.data + size, lines.size - size };
    }
    return rc;
}

PR_API int pr_flow_history(struct pr_flow_client *client, const char *id, const pr_id *execution, pr_flow_line each,
                           void *arg, struct pr_error *reterr)
{
    struct query_reply reply;
    struct arena arena;

    if (each == NULL)
        return lib_missing("each", reterr);
    arena_init(&arena, ANSWER_BLOCK);
    int rc = read_all(client, id, execution, &arena, &reply, reterr);
    for (size_t i = 0; rc == PR_OK && i < reply.turn_count; i++)
        rc = each_line(reply.turns[i].events, each, arg);
    arena_fini(&arena);
    return rc;
}

static int copy_value(pr_slice value, char **ret_value, size_t *ret_size, struct pr_error *reterr)
{
    char *copy = malloc(value.size + 1);
    if (copy == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a value");
    if (value.size > 0)
        memcpy(copy, value.data, value.size);
    copy[value.size] = '\0';
    *ret_value = copy;
    if (ret_size != NULL)
        *ret_size = value.size;
    return PR_OK;
}

PR_API int pr_flow_value(struct pr_flow_client *client, const char *id, pr_slice key, char **ret_value,
                         size_t *ret_size, struct pr_error *reterr)
{
    struct query_reply reply;
    struct arena arena;

    if (ret_value == NULL)
        return lib_missing("ret_value", reterr);
    arena_init(&arena, ANSWER_BLOCK);
    int rc = read_all(client, id, NULL, &arena, &reply, reterr);
    if (rc == PR_OK) {
        rc = PR_UNKNOWN;
        for (size_t i = 0; i < reply.value_count && rc == PR_UNKNOWN; i++)
            if (slice_eq(reply.values[i].key, key))
                rc = copy_value(reply.values[i].value, ret_value, ret_size, reterr);
    }
    arena_fini(&arena);
    return rc;
}

/* ---- Deleting ----------------------------------------------------------------------------------------- */

PR_API int pr_flow_delete(struct pr_flow_client *client, const char *id, bool force, struct pr_error *reterr)
{
    const pr_slice flow = slice_from(id);
    const struct flow_order order = { .flows = &flow, .flow_count = 1, .force = force };
    const struct admin admin = { .kind = ADMIN_FLOW_DELETE, .filter.state = -1, .flow = &order };
    struct admin_reply reply;

    if (client == NULL || id == NULL)
        return lib_missing(client == NULL ? "client" : "id", reterr);
    int rc = store_admin(&client->store, &admin, &reply, reterr);
    if (rc < 0)
        return rc;
    if (reply.busy > 0)
        return error_set(reterr, PR_EBUSY, "a turn of flow %s is being committed: try again", id);
    return reply.matched == 0 ? PR_UNKNOWN : reply.changed > 0 ? PR_OK : PR_STALE;
}

PR_API int pr_flow_prune(struct pr_flow_client *client, const char *id, int keep, int64_t before_us,
                         uint64_t *ret_count, struct pr_error *reterr)
{
    const pr_slice flow = slice_from(id);
    const struct flow_order order = { .flows = &flow, .flow_count = id != NULL, .keep = keep, .before_us = before_us };
    const struct admin admin = { .kind = ADMIN_FLOW_PRUNE, .filter.state = -1, .flow = &order };
    struct admin_reply reply;

    if (client == NULL)
        return lib_missing("client", reterr);
    int rc = store_admin(&client->store, &admin, &reply, reterr);
    if (rc == PR_OK && ret_count != NULL)
        *ret_count = reply.changed;
    return rc;
}
