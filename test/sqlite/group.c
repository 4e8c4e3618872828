/* Many threads that send at once are committed together, and each gets its own answer. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

#define THREADS 8
#define CALLS 100

struct sender {
    struct fixture *f;
    unsigned number;
    int stored, duplicates, refused;
    bool wrong;
};

static pr_id shared_id(unsigned call)
{
    pr_id id = { { 0 } };
    id.bytes[6] = 0x70;
    id.bytes[8] = 0x80;
    memcpy(id.bytes + 12, &call, sizeof(call));
    return id;
}

/* Of each call: one message of our own, one that everybody sends, and now and then a box that is not there. */
static void *sender_run(void *arg)
{
    struct sender *s = arg;
    for (unsigned call = 0; call < CALLS; call++) {
        struct pr_message m[2] = { { .type = PR_STR("own") },
                                   { .type = PR_STR("shared"), .id = shared_id(call) } };
        pr_id ids[2];
        int answers[2] = { -1, -1 };
        struct pr_error error;
        bool bad = call % 10 == s->number % 10;
        int rc = store_enqueue(&s->f->store, bad ? PR_STR("nowhere") : PR_STR("outbox"), m, 2, PAYLOAD_MAX, ids,
                               answers, &error);
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

TEST(eight_threads_that_send_at_once_each_get_their_own_answer)
{
    struct fixture *f = fixture_open("");
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){ .f = f, .number = i };
        CHECK_EQ(pthread_create(&threads[i], NULL, sender_run, &senders[i]), 0);
    }
    int stored = 0, duplicates = 0;
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
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox"), stored);
    CHECK_EQ(fixture_int(f, "SELECT count(*) FROM outbox WHERE type = 'shared'"), CALLS);
    fixture_close(f);
}
