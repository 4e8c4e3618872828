#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/message.h"
#include "lib/lib.h"
#include "store/store.h"

/* Threads: none of its own.  The store commits the messages of several threads together. */
struct pr_sender {
    struct store store;
};

struct store *lib_sender_store(struct pr_sender *sender)
{
    return &sender->store;
}

PR_API int pr_sender_open(const char *store_url, struct pr_sender **ret_sender, struct pr_error *reterr)
{
    if (store_url == NULL || ret_sender == NULL)
        return lib_missing(store_url == NULL ? "store_url" : "ret_sender", reterr);
    struct pr_sender *sender = calloc(1, sizeof *sender);
    if (sender == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a sender");
    const struct store_options options = { .url = store_url, .payload_max = LIB_PAYLOAD_MAX };
    int rc = store_open(&options, &sender->store, reterr);
    if (rc == PR_OK)
        rc = store_check(&sender->store, reterr); /* reports missing tables now, not at the first send */
    if (rc < 0) {
        pr_sender_close(sender);
        return rc;
    }
    *ret_sender = sender;
    return PR_OK;
}

PR_API void pr_sender_close(struct pr_sender *sender)
{
    if (sender == NULL)
        return;
    store_close(&sender->store);
    free(sender);
}

PR_API int pr_sender_send(struct pr_sender *sender, const char *box, const struct pr_message *message, pr_id *ret_id,
                          struct pr_error *reterr)
{
    pr_slice name;
    pr_id id;
    int answer = PR_OK;
    if (sender == NULL || message == NULL)
        return lib_missing(sender == NULL ? "sender" : "message", reterr);
    int rc = lib_box(box, &name, reterr);
    if (rc == PR_OK)
        rc = store_enqueue(&sender->store, name, message, 1, LIB_PAYLOAD_MAX, &id, &answer, reterr);
    if (rc < 0)
        return rc;
    if (ret_id != NULL)
        *ret_id = id;
    return answer;
}

PR_API int pr_sender_send_many(struct pr_sender *sender, const char *box, const struct pr_message *messages,
                               size_t count, pr_id *ret_ids, size_t *ret_stored, struct pr_error *reterr)
{
    pr_slice name;
    if (sender == NULL || (messages == NULL && count > 0))
        return lib_missing(sender == NULL ? "sender" : "messages", reterr);
    int rc = lib_box(box, &name, reterr);
    if (rc < 0)
        return rc;
    pr_id *ids = calloc(count + 1, sizeof ids[0]);
    int *answers = calloc(count + 1, sizeof answers[0]);
    if (ids == NULL || answers == NULL)
        rc = error_set(reterr, PR_ENOMEM, "out of memory for %zu messages", count);
    else if (count > 0)
        rc = store_enqueue(&sender->store, name, messages, count, LIB_PAYLOAD_MAX, ids, answers, reterr);
    if (rc == PR_OK) {
        size_t stored = 0;
        for (size_t i = 0; i < count; i++)
            stored += answers[i] == PR_OK;
        if (ret_stored != NULL)
            *ret_stored = stored;
        if (ret_ids != NULL && count > 0)
            memcpy(ret_ids, ids, count * sizeof ids[0]);
    }
    free(ids);
    free(answers);
    return rc;
}
