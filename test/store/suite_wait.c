/* Waking up: in real time, since wait() uses it. */
#include "suite.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LONG_US PR_SECONDS(30) /* longer than any test may take */
#define SOON_US PR_SECONDS(10) /* a busy machine is slow; a lost wake-up is slower */

static int64_t real_us(void)
{
    return clock_mono_us(clock_system());
}

struct sender {
    struct suite *suite;
    int wake_fd; /* -1: enqueue instead */
    int rc;
};

static void *sender_run(void *arg)
{
    struct sender *sender = arg;
    if (sender->wake_fd >= 0) {
        sender->rc = eventfd_write(sender->wake_fd, 1);
        return NULL;
    }
    struct pr_message m = { .type = PR_STR("t") };
    pr_id id;
    struct pr_error error;
    sender->rc = store_enqueue(&sender->suite->store, PR_STR("outbox"), &m, 1, SUITE_PAYLOAD_MAX, &id, NULL, &error);
    return NULL;
}

STORE_TEST(a_wait_ends_soon_after_another_thread_has_stored_a_message)
{
    struct worker *w = suite_join(s, "outbox");
    CHECK_EQ(CYCLE(w, .fresh_rows = 10)->row_count, 0);
    struct sender sender = { .suite = s, .wake_fd = -1 };
    pthread_t thread;
    int64_t start = real_us();
    CHECK_EQ(pthread_create(&thread, NULL, sender_run, &sender), 0);
    size_t count = 0;
    while (count == 0 && real_us() - start < SOON_US) {
        store_wait(&w->session, -1, LONG_US);
        count = CYCLE(w, .fresh_rows = 10)->row_count;
    }
    int64_t took = real_us() - start;
    pthread_join(thread, NULL);
    CHECK_EQ(sender.rc, PR_OK);
    CHECK_EQ(count, 1);
    CHECK(took < SOON_US);
}

STORE_TEST(a_message_stored_between_cycle_and_wait_is_not_slept_over)
{
    struct worker *w = suite_join(s, "outbox");
    for (int i = 0; i < 20; i++) {
        while (CYCLE(w, .fresh_rows = 10)->row_count > 0)
            ;
        SEND(s, "outbox");
        int64_t start = real_us();
        CHECK_EQ(store_wait(&w->session, -1, LONG_US), 1);
        CHECK(real_us() - start < SOON_US);
    }
}

STORE_TEST(a_wait_ends_when_its_wake_fd_is_readable_and_does_not_read_it)
{
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sender sender = { .suite = s, .wake_fd = fd };
    pthread_t thread;
    int64_t start = real_us();
    CHECK_EQ(pthread_create(&thread, NULL, sender_run, &sender), 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    while (poll(&p, 1, 0) == 0 && real_us() - start < SOON_US)
        store_wait(&w->session, fd, LONG_US);
    int64_t took = real_us() - start;
    pthread_join(thread, NULL);
    CHECK(took < SOON_US);
    CHECK(store_wait(&w->session, fd, LONG_US) != WAIT_TIMEOUT); /* still readable */
    /* Once it has looked, a server tells that its owner woke it and that nothing is new. */
    bool is_server = suite_can(s, STORE_CAN_PROCESSES) && suite_can(s, STORE_CAN_COMMIT_LATE);
    int outcome = is_server ? WAIT_LOOK_AGAIN : WAIT_WOKEN;
    for (start = real_us(); outcome == WAIT_LOOK_AGAIN && real_us() - start < SOON_US;) {
        CYCLE(w, .fresh_rows = 10);
        outcome = store_wait(&w->session, fd, LONG_US);
    }
    CHECK_EQ(outcome, WAIT_WOKEN);
    eventfd_t value = 0;
    CHECK_EQ(eventfd_read(fd, &value), 0);
    CHECK_EQ(value, 1);
    close(fd);
}

STORE_TEST(a_wait_ends_with_its_timeout)
{
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    int64_t start = real_us();
    while (store_wait(&w->session, -1, PR_MILLISECONDS(20)) != 0) /* it may wake for nothing, but not for ever */
        CHECK(real_us() - start < SOON_US);
    CHECK(real_us() - start >= PR_MILLISECONDS(15));
    CHECK(real_us() - start < SOON_US);
}

STORE_TEST(an_operators_action_wakes)
{
    struct worker *w = suite_join(s, "outbox");
    pr_id id = SEND(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    while (store_wait(&w->session, -1, PR_MILLISECONDS(5)) != 0)
        CYCLE(w, .fresh_rows = 10);
    ADMIN_ID(s, ADMIN_PARK, id);
    int64_t start = real_us();
    CHECK_EQ(store_wait(&w->session, -1, LONG_US), 1);
    CHECK(real_us() - start < SOON_US);
}

/* With a cycle in between that does not look for rows: it has seen the commit, and must not be taken for a look. */
static void check_another_opening_wakes(struct suite *s, struct worker *w, bool renews_between)
{
    struct store other = { 0 };
    const struct store_options options = { .url = s->url, .clock = &s->clock, .payload_max = SUITE_PAYLOAD_MAX };
    CHECK_OK(store_open(&options, &other, &s->error), &s->error);
    struct pr_message m = { .type = PR_STR("t") };
    pr_id id;
    int rc = store_enqueue(&other, PR_STR("outbox"), &m, 1, SUITE_PAYLOAD_MAX, &id, NULL, &s->error);
    if (renews_between)
        CYCLE(w, .force_write = true);
    int64_t start = real_us();
    size_t count = 0;
    while (count == 0 && real_us() - start < SOON_US) {
        store_wait(&w->session, -1, LONG_US);
        count = CYCLE(w, .fresh_rows = 10)->row_count;
    }
    int64_t took = real_us() - start;
    store_close(&other);
    CHECK_OK(rc, &s->error);
    CHECK_EQ(count, 1);
    CHECK(took < SOON_US);
}

STORE_TEST(a_message_stored_through_another_opening_of_the_store_wakes)
{
    suite_needs(s, STORE_CAN_PROCESSES);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    check_another_opening_wakes(s, w, false);
}

/* What an idle engine does every few seconds. */
STORE_TEST(a_message_wakes_also_after_a_cycle_that_only_renewed_the_lease)
{
    suite_needs(s, STORE_CAN_PROCESSES);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    CYCLE(w, .force_write = true);
    check_another_opening_wakes(s, w, false);
}

STORE_TEST(a_message_wakes_also_when_the_lease_was_renewed_after_it_was_stored)
{
    suite_needs(s, STORE_CAN_PROCESSES);
    struct worker *w = suite_join(s, "outbox");
    CYCLE(w, .fresh_rows = 10);
    check_another_opening_wakes(s, w, true);
}
