/* New messages, in group commits when several threads send (store/senders.h).  The threads share one connection: one
 * statement holds all messages of a call, all calls travel in one batch, and a batch that was sent when the connection
 * was lost before its COMMIT is sent again. */
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "store/postgres/postgres.h"

#define NO_RIGHT "42501" /* insufficient_privilege */

_Static_assert(6 * SENDERS_TOGETHER_MAX + 3 <= LINK_STEPS_MAX,
               "three statements each, which may have to be prepared first");

/* It failed before it was stored.  A row that existed already belongs to another transaction and is not changed. */
static const char KEEP_FAILURE[] =
    "WITH kept AS (UPDATE {box} b SET status = b.status | $3, attempts = $4, failures = $5, failure_reason = $6, code "
    "= $7,"
    " error = $8, failed_at = $9, story = $10::json, parked_by = $12 WHERE b.id = $1 AND b.destination = $2 AND b.xid "
    "= "
    "pg_current_xact_id()"
    " RETURNING " HANDLE " AS handle, b.seq, b.stream, b.destination)"
    " INSERT INTO {schema}.control (box, kind, \"row\", seq, stream, endpoint)"
    " SELECT {box_name}, $11, handle, seq, stream, destination FROM kept WHERE $11 IS NOT NULL";

static void add_failure(struct postgres_store *store, pr_slice box, const struct pr_message *m)
{
    struct args args = { .count = 0 };
    arg_id(&args, m->id);
    arg_text(&args, m->destination);
    arg_i32(&args, m->status);
    arg_i32(&args, m->attempts);
    arg_i32(&args, m->failures);
    arg_i32(&args, m->reason);
    arg_text_or_null(&args, m->code);
    arg_text_or_null(&args, m->error);
    arg_time(&args, m->failed_us);
    arg_text_or_null(&args, m->story);
    if (m->stream.size > 0 && m->due_us != 0) {
        arg_i32(&args, m->due_us == PR_NEVER ? NOTICE_PARKED : NOTICE_FAILED);
        link_add(store->sender, "LOCK TABLE {schema}.control IN EXCLUSIVE MODE", NO_BOX, NULL, NULL);
    } else {
        arg_null(&args, OID_INT4);
    }
    arg_i32(&args, m->parked_by);
    link_add(store->sender, KEEP_FAILURE, box, &args, NULL);
}

static void add_request(struct postgres_store *store, const struct sending *request, PGresult **ret)
{
    struct args args;
    batch_begin(&store->batch, store->sender->pg);
    for (size_t i = 0; i < request->count; i++)
        batch_add(&store->batch, &request->messages[i]);
    batch_args(&store->batch, pg_store_wall_us(store), &args);
    link_add(store->sender, store->sees_no_marks ? PG_MESSAGE_SEND : PG_MESSAGE_INSERT, request->box, &args, ret);
    if (message_has_failed(&request->messages[0]))
        add_failure(store, request->box, &request->messages[0]);
}

static bool expects_versions(const struct sending *request)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->messages[i].expects_version)
            return true;
    return false;
}

/* One message, after the version that it expects was compared; and its answer. */
static int store_one(struct postgres_store *store, const struct sending *request, size_t i, struct pr_error *reterr)
{
    const struct pr_message *m = &request->messages[i];
    const struct sending one = { .box = request->box, .messages = m, .count = 1 };
    PGresult *result = NULL;
    int answer = PR_OK, rc = PR_OK;
    if (m->expects_version) {
        struct args args = { .count = 0 };
        arg_text(&args, m->stream);
        arg_id(&args, m->id);
        rc = link_do(store->sender, "SELECT {schema}.expect_version($1, $2)", NO_BOX, &args, &result, reterr);
        if (rc == PR_OK)
            answer = message_expectation(m, field_is_null(result, 0, 0),
                                         field_is_null(result, 0, 0) ? 0 : field_i64(result, 0, 0), reterr);
        rc = rc != PR_OK ? rc : answer < 0 ? answer : PR_OK;
    }
    if (rc == PR_OK && answer == PR_OK) {
        add_request(store, &one, &result);
        rc = link_run(store->sender, reterr);
        if (rc == PR_OK)
            batch_answers(result, m, 1, &answer);
    }
    if (request->answers != NULL)
        request->answers[i] = answer;
    return rc;
}

static int store_one_by_one(struct postgres_store *store, const struct sending *request, struct pr_error *reterr)
{
    int rc = link_run(store->sender, reterr); /* earlier statements must come first */
    for (size_t i = 0; i < request->count && rc == PR_OK; i++)
        rc = store_one(store, request, i, reterr);
    return rc;
}

static int commit_once(struct postgres_store *store, struct sending *const *requests, size_t count,
                       struct pr_error *reterr)
{
    struct link *link = store->sender;
    PGresult *results[SENDERS_TOGETHER_MAX] = { NULL };
    int rc = link_ensure(link, reterr);
    if (rc != PR_OK)
        return rc;
    link_add_begin(link);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        if (expects_versions(requests[i]))
            rc = store_one_by_one(store, requests[i], reterr);
        else
            add_request(store, requests[i], &results[i]);
    FAILPOINT("store.enqueue.before_commit");
    if (rc == PR_OK) {
        link_add_commit(link);
        rc = link_run(link, reterr);
    }
    FAILPOINT("store.enqueue.after_commit");
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        if (requests[i]->answers != NULL && results[i] != NULL)
            batch_answers(results[i], requests[i]->messages, requests[i]->count, requests[i]->answers);
    for (size_t i = 0; i < count && rc == PR_OK && !store->sees_no_marks; i++)
        pg_marks_note_again(link, requests[i], pg_store_wall_us(store));
    link_rollback(link);
    link_forget(link);
    return rc;
}

/* The role of an application has no right on the marks: a handled message is recognised when its turn comes. */
static bool may_not_see_marks(struct postgres_store *store)
{
    bool denied = !store->sees_no_marks && strcmp(store->sender->state, NO_RIGHT) == 0;
    store->sees_no_marks |= denied;
    return denied;
}

static int pg_commit(void *self, struct sending *const *requests, size_t count, struct pr_error *reterr)
{
    struct postgres_store *store = self;
    int rc = commit_once(store, requests, count, reterr);
    bool lost = rc != PR_OK && !link_is_up(store->sender) && store->sender->retry_wait_us == 0;
    if (rc != PR_OK && link_is_uncertain(store->sender))
        rc = error_set(reterr, PR_EUNCERTAIN,
                       "the connection was lost during the commit: the messages may be stored;"
                       " send them again with the same ids");
    else if (lost || (rc != PR_OK && (link_should_retry(store->sender) || may_not_see_marks(store))))
        rc = commit_once(store, requests, count, reterr);
    if (rc == PR_OK)
        pg_store_wake(store);
    return rc;
}

int pg_enqueue(void *self, pr_slice box, const struct pr_message *messages, size_t count, int *answers,
               struct pr_error *reterr)
{
    struct postgres_store *store = self;
    return senders_enqueue(&store->senders, pg_commit, store, box, messages, count, answers, reterr);
}
