#include "store/requests.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "core/headers.h"
#include "core/message.h"

#define EXPIRY_SURE_US PR_SECONDS(5)

const char *request_state_name(enum request_state state)
{
    static const char *const names[] = { [REQUEST_REPLIED] = "replied",
                                         [REQUEST_WAITING] = "waiting",
                                         [REQUEST_DEAD] = "dead",
                                         [REQUEST_GONE] = "gone",
                                         [REQUEST_UNKNOWN] = "unknown" };
    return names[state];
}

/* It has expired and is not handed out, so nobody will get it, even where no worker asks for messages.  A hand-out at
 * the last moment is in the store by then. */
static bool has_expired(const struct listed *l, int64_t now_us)
{
    return l->m.expires_us != 0 && now_us > time_add(l->m.expires_us, EXPIRY_SURE_US) && l->state != STATE_IN_FLIGHT &&
           l->state != STATE_DONE;
}

static enum request_state state_of(const struct listed *l, int64_t now_us)
{
    if (l->state == STATE_DEAD)
        return REQUEST_DEAD;
    return l->state == STATE_GONE || has_expired(l, now_us) ? REQUEST_GONE : REQUEST_WAITING;
}

static int ask(struct store *store, pr_id id, bool ended, struct arena *arena, struct query_reply *ret,
               struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_ID,
                                 .ended = ended,
                                 .filter = { .ids = &id, .id_count = 1, .state = -1, .look_max = LOOK_MAX } };
    return store_query(store, &query, arena, ret, reterr);
}

int request_look(struct store *store, pr_id id, struct arena *arena, struct request_info *ret, struct pr_error *reterr)
{
    struct query_reply reply;
    pr_id wanted;
    *ret = (struct request_info){ .state = REQUEST_UNKNOWN };
    reply_id(id, &wanted);
    int rc = ask(store, wanted, false, arena, &reply, reterr);
    for (size_t i = 0; rc == PR_OK && i < reply.listed_count; i++)
        if (slice_eq(reply.listed[i].m.destination, PR_STR(REPLY_DESTINATION))) {
            *ret = (struct request_info){ .state = REQUEST_REPLIED, .reply = &reply.listed[i] };
            return PR_OK;
        }
    if (rc == PR_OK)
        rc = ask(store, id, true, arena, &reply, reterr);
    for (size_t i = 0; rc == PR_OK && i < reply.listed_count; i++)
        if (ret->request == NULL || state_of(&reply.listed[i], reply.now_us) < ret->state)
            *ret =
                (struct request_info){ .state = state_of(&reply.listed[i], reply.now_us), .request = &reply.listed[i] };
    return rc;
}

int request_was_sent(struct store *store, pr_id id, bool *ret, struct pr_error *reterr)
{
    struct request_info info = { .state = REQUEST_UNKNOWN };
    struct arena arena;
    int rc = PR_OK;
    arena_init(&arena, ARENA_BLOCK_MIN);
    if (!pr_id_is_zero(id))
        rc = request_look(store, id, &arena, &info, reterr);
    *ret = info.state != REQUEST_UNKNOWN;
    arena_fini(&arena);
    return rc;
}

int request_message(const struct pr_message *m, pr_slice reply_to, struct buf *headers, struct pr_message *ret,
                    struct pr_error *reterr)
{
    if (slice_contains(reply_to, PR_STR("\"")) || slice_contains(reply_to, PR_STR("\\")))
        return error_set(reterr, PR_EINVAL, "reply_to: \"%.*s\" is not the name of an endpoint", SLICE_ARGS(reply_to));
    if (m->headers.size > 0 && !slice_is_json_object(m->headers))
        return error_set(reterr, PR_EINVAL, "headers: must be a JSON object");
    headers_set(m->headers, &(const struct header){ HEADER_REPLY_TO, reply_to }, 1, headers);
    *ret = *m;
    ret->headers = buf_slice(headers);
    if (pr_id_is_zero(ret->id))
        pr_id_new(&ret->id);
    return buf_failed(headers) == PR_OK ? PR_OK
                                        : error_set(reterr, PR_ETOOBIG, "headers: no room for " HEADER_REPLY_TO);
}
