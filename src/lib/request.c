/* Requests and their replies: see core/request.h. */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/headers.h"
#include "core/message.h"
#include "lib/lib.h"
#include "store/requests.h"
#include "transport/handler_context.h"

/* ---- Asking ------------------------------------------------------------------------------------ */

typedef int send_one(void *arg, const char *box, const struct pr_message *m, struct pr_error *reterr);

static int send_request(send_one *send, void *arg, const char *box, const struct pr_message *message,
                        const char *reply_to, pr_id *ret_id, struct pr_error *reterr)
{
    struct buf headers;
    struct pr_message m;
    if (message == NULL)
        return lib_missing("message", reterr);
    buf_init(&headers, PR_HEADERS_MAX);
    int rc = request_message(message, slice_from(reply_to), &headers, &m, reterr);
    if (rc == PR_OK)
        rc = send(arg, box, &m, reterr);
    if (rc >= 0 && ret_id != NULL)
        *ret_id = m.id;
    buf_fini(&headers);
    return rc;
}

static int send_sqlite(void *arg, const char *box, const struct pr_message *m, struct pr_error *reterr)
{
    return pr_send_sqlite_box(arg, box, m, NULL, reterr);
}

static int send_pg(void *arg, const char *box, const struct pr_message *m, struct pr_error *reterr)
{
    return pr_send_pg_box(arg, box, m, NULL, reterr);
}

static int send_sender(void *arg, const char *box, const struct pr_message *m, struct pr_error *reterr)
{
    return pr_sender_send(arg, box, m, NULL, reterr);
}

PR_API int pr_request_sqlite(struct sqlite3 *db, const char *box, const struct pr_message *message,
                             const char *reply_to, pr_id *ret_id, struct pr_error *reterr)
{
    return send_request(send_sqlite, db, box, message, reply_to, ret_id, reterr);
}

PR_API int pr_request_pg(struct pg_conn *conn, const char *box, const struct pr_message *message, const char *reply_to,
                         pr_id *ret_id, struct pr_error *reterr)
{
    return send_request(send_pg, conn, box, message, reply_to, ret_id, reterr);
}

PR_API int pr_request(struct pr_sender *sender, const char *box, const struct pr_message *message, const char *reply_to,
                      int64_t timeout_us, pr_id *ret_id, struct pr_reply **ret_reply, struct pr_error *reterr)
{
    bool was_sent = false;
    if (sender == NULL || message == NULL)
        return lib_missing(sender == NULL ? "sender" : "message", reterr);
    pr_id id = message->id;
    int rc = request_was_sent(lib_sender_store(sender), id, &was_sent, reterr);
    if (rc >= 0 && !was_sent)
        rc = send_request(send_sender, sender, box, message, reply_to, &id, reterr);
    if (rc < 0)
        return rc;
    if (ret_id != NULL)
        *ret_id = id;
    return pr_request_resume(sender, id, timeout_us, ret_reply, reterr);
}

/* ---- Waiting ------------------------------------------------------------------------------------- */

static int keep_reply(const struct listed *l, struct pr_reply **ret, struct pr_error *reterr)
{
    size_t bytes = message_bytes(&l->m);
    struct pr_reply *reply = malloc(sizeof(*reply) + bytes);
    if (reply == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a reply of %zu bytes", bytes);
    message_copy(&l->m, (char *)(reply + 1), &reply->message);
    *ret = reply;
    return PR_OK;
}

/* Outcome PR_TIMEOUT: not yet. */
static int look_once(struct store *store, pr_id id, struct pr_reply **ret, struct pr_error *reterr)
{
    struct request_info info;
    struct arena arena;
    arena_init(&arena, ARENA_BLOCK_MIN);
    int rc = request_look(store, id, &arena, &info, reterr);
    if (rc == PR_OK && info.state == REQUEST_REPLIED)
        rc = keep_reply(info.reply, ret, reterr);
    else if (rc == PR_OK && (info.state == REQUEST_DEAD || info.state == REQUEST_GONE))
        rc = error_set(reterr, PR_ENOTFOUND, "no reply will come: the request %s",
                       info.state == REQUEST_DEAD ? "is a dead letter" : "was discarded or has expired");
    else if (rc == PR_OK)
        rc = PR_TIMEOUT;
    arena_fini(&arena);
    return rc;
}

PR_API int pr_request_resume(struct pr_sender *sender, pr_id id, int64_t timeout_us, struct pr_reply **ret_reply,
                             struct pr_error *reterr)
{
    const struct clock *clock = clock_system();
    int64_t end_us = time_add(clock_mono_us(clock), max64(timeout_us, 0)), pause_us = REQUEST_LOOK_MIN_US, left_us;
    if (sender == NULL || ret_reply == NULL)
        return lib_missing(sender == NULL ? "sender" : "ret_reply", reterr);
    int rc = look_once(lib_sender_store(sender), id, ret_reply, reterr);
    while (rc == PR_TIMEOUT && (left_us = end_us - clock_mono_us(clock)) > 0) {
        (void)usleep((useconds_t)min64(pause_us, left_us));
        pause_us = min64(2 * pause_us, REQUEST_LOOK_MAX_US);
        rc = look_once(lib_sender_store(sender), id, ret_reply, reterr);
    }
    return rc;
}

PR_API void pr_reply_free(struct pr_reply *reply)
{
    free(reply);
}

/* ---- Replying -------------------------------------------------------------------------------------- */

/* To another store: an ordinary message to that endpoint, which names its request. */
static int reply_elsewhere(struct pr_context *context, const struct pr_message *row, pr_slice endpoint,
                           struct pr_error *reterr)
{
    struct pr_message m = *row;
    struct buf headers;
    buf_init(&headers, PR_HEADERS_MAX);
    headers_set(row->headers, &(const struct header){ HEADER_REPLY, row->correlation_id }, 1, &headers);
    m.headers = buf_slice(&headers);
    m.destination = endpoint;
    int rc = buf_failed(&headers) == PR_OK ? pr_effect_send_box(context, NULL, &m, reterr)
                                           : error_set(reterr, PR_ETOOBIG, "headers: no room for " HEADER_REPLY);
    buf_fini(&headers);
    return rc;
}

PR_API int pr_reply(struct pr_context *context, const struct pr_message *message, struct pr_error *reterr)
{
    char text[PR_ID_TEXT_SIZE];
    if (context == NULL || message == NULL)
        return lib_missing(context == NULL ? "context" : "message", reterr);
    const struct pr_message *request = context->delivery->message;
    pr_slice to = header_find(request->headers, HEADER_REPLY_TO);
    if (to.data == NULL)
        return error_set(reterr, PR_EINVAL,
                         "no reply was requested for this message: it has no header " HEADER_REPLY_TO);
    struct pr_message row = reply_row(message, request->id, text);
    row.causation_id = row.correlation_id;
    return to.size > 0 ? reply_elsewhere(context, &row, to, reterr) : pr_effect_send_box(context, NULL, &row, reterr);
}
