/* Many threads that send at once may be committed together; each gets its own answer. */
#include "suite.h"

#include <pthread.h>
#include <string.h>

#define THREADS 8
#define CALLS 100
#define SHARED 1000 /* ids of the messages that everybody sends */

struct sender {
    struct suite *suite;
    unsigned number;
    int stored, duplicates, refused;
    bool wrong;
};

/* Of each call: one message of our own, one that everybody sends, and now and then a box that is not there. */
static void *sender_run(void *arg)
{
    struct sender *s = arg;
    for (unsigned call = 0; call < CALLS; call++) {
        struct pr_message m[2] = { { .type = PR_STR("own") },
                                   { .type = PR_STR("shared"), .id = suite_id(SHARED + call) } };
        pr_id ids[2];
        int answers[2] = { -1, -1 };
        struct pr_error error;
        bool bad = call % 10 == s->number % 10;
        int rc = store_enqueue(&s->suite->store, bad ? PR_STR("nowhere") : PR_STR("outbox"), m, 2, SUITE_PAYLOAD_MAX,
                               ids, answers, &error);
        if (bad) {
            s->refused += rc < 0 && strstr(error.text, "nowhere") != NULL;
            continue;
        }
        s->wrong |= rc != PR_OK || answers[0] != PR_OK;
        s->stored += (answers[0] == PR_OK) + (answers[1] == PR_OK);
        s->duplicates += answers[1] == PR_DUPLICATE;
    }
    return NULL;
}

STORE_TEST(eight_threads_that_send_at_once_each_get_their_own_answer)
{
    struct worker *w = suite_join(s, "outbox");
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){ .suite = s, .number = i };
        CHECK_EQ(pthread_create(&threads[i], NULL, sender_run, &senders[i]), 0);
    }
    int stored = 0, duplicates = 0, shared = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        stored += senders[i].stored;
        duplicates += senders[i].duplicates;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(!senders[i].wrong);
        CHECK_EQ(senders[i].refused, CALLS / 10);
    }
    CHECK_EQ(stored, THREADS * (CALLS - CALLS / 10) + CALLS);
    CHECK_EQ(stored + duplicates, 2 * THREADS * (CALLS - CALLS / 10));
    const struct cycle_reply *r = CYCLE(w, .fresh_rows = 10000);
    CHECK_EQ(r->row_count, stored);
    for (size_t i = 0; i < r->row_count; i++)
        shared += slice_eq_cstr(r->rows[i].m.type, "shared");
    CHECK_EQ(shared, CALLS);
}
