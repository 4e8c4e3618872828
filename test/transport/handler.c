/* What a handler may return, and what happens when it does not stop. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "check.h"
#include "transport/handler_context.h"
#include "transport/transport.h"

#define SOON_US PR_MILLISECONDS(500) /* of deadlines that are to pass: a busy machine has called the handler by then */

static const struct pr_message message = {
    .type = { "order.created", 13 }, .payload = { "{}", 2 }, .correlation_id = { "c-1", 3 }, .attempts = 2
};

static int64_t now(void)
{
    return clock_mono_us(clock_system());
}

struct sending {
    struct endpoint_config config;
    struct transport transport;
    struct delivery delivery;
};

static void start(struct sending *s, pr_handler handler, void *user, int64_t timeout_us)
{
    const struct delivery *list = &s->delivery;
    struct pr_error error;
    *s = (struct sending){ .config = { .name = "test",
                                       .url = "handler:test",
                                       .wake_fd = -1,
                                       .concurrency = 1,
                                       .timeout_us = timeout_us,
                                       .handler = handler,
                                       .handler_user = user },
                           .delivery = { .message = &message,
                                         .token = 42,
                                         .attempt = 3,
                                         .start_before_us = INT64_MAX,
                                         .deadline_us = now() + timeout_us } };
    CHECK_OK(transport_open(&s->config, &s->transport, &error), &error);
    CHECK_EQ(transport_submit(&s->transport, &list, 1), 1);
}

static struct delivery_result finish(struct sending *s)
{
    struct delivery_result result;
    int64_t end_us = now() + PR_SECONDS(20);
    while (transport_poll(&s->transport, &result, 1, end_us) == 0)
        CHECK(now() < end_us);
    transport_close(&s->transport);
    CHECK_EQ(result.token, 42);
    return result;
}

static struct delivery_result run(pr_handler handler, void *user)
{
    struct sending s;
    start(&s, handler, user, PR_SECONDS(20));
    return finish(&s);
}

static void check_failed(struct delivery_result *r, int reason, const char *code, const char *error)
{
    CHECK_EQ(r->outcome, SEND_FAILED);
    CHECK_EQ(r->reason, reason);
    CHECK_STR(r->code, code);
    CHECK_STR(r->error, error);
    delivery_result_fini(r);
}

/* ---- Verdicts ------------------------------------------------------------------------------- */

static int look_and_succeed(struct pr_context *context, const struct pr_message *m, void *user)
{
    *(bool *)user = slice_eq_cstr(m->type, "order.created") && slice_eq_cstr(m->payload, "{}") && m->attempts == 3 &&
                    !pr_should_stop(context);
    return PR_OK;
}

TEST(handler_gets_the_message_and_completes_it)
{
    bool seen = false;
    struct delivery_result r = run(look_and_succeed, &seen);
    CHECK(seen);
    CHECK_EQ(r.outcome, SEND_OK);
    CHECK_EQ(r.bits, PR_STATUS_PUBLISHED);
    CHECK(r.effects == NULL && r.error == NULL);
}

static int fail_with_words(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    (void)user;
    (void)!pr_fail(context, PR_REASON_REJECTED, "forget this");
    pr_reached(context, PR_STATUS_EVENT_STORED | PR_STATUS_FAILED);
    return pr_fail(context, PR_REASON_VALIDATION_FAILURE, "no customer %d", 7);
}

TEST(handler_fails_with_reason_and_text) /* B37 */
{
    struct delivery_result r = run(fail_with_words, NULL);
    CHECK_EQ(r.bits, PR_STATUS_EVENT_STORED);
    CHECK_EQ(r.retry_after_us, 0);
    check_failed(&r, PR_REASON_VALIDATION_FAILURE, "", "no customer 7");
}

static int fail_later(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    return pr_fail_retry_after(context, PR_REASON_RATE_LIMITED, *(int64_t *)user, "slow down");
}

TEST(handler_says_when_to_come_back) /* B74 */
{
    int64_t after_us = PR_SECONDS(7), before_us = -5;
    struct delivery_result r = run(fail_later, &after_us);
    CHECK_EQ(r.retry_after_us, PR_SECONDS(7));
    check_failed(&r, PR_REASON_RATE_LIMITED, "", "slow down");
    r = run(fail_later, &before_us);
    CHECK_EQ(r.retry_after_us, 0);
    delivery_result_fini(&r);
}

static int fail_dirty(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    return pr_fail(context, (enum pr_reason)4711, "%s", (const char *)user);
}

TEST(handler_failure_text_is_cleaned_and_cut) /* B30, B31, D5 */
{
    static char long_text[3 * PR_ERROR_MAX + 1];
    for (size_t i = 0; i + 3 < sizeof(long_text); i += 3)
        memcpy(&long_text[i], "\xe2\x82\xac", 3);
    struct delivery_result r = run(fail_dirty, (char[]){ "bad \xff\xc3 \"'\\\n" });
    check_failed(&r, PR_REASON_UNKNOWN, "", "bad \xef\xbf\xbd\xef\xbf\xbd \"'\\\n");
    long_text[0] = 'x'; /* and two bytes of a character whose first is gone */
    r = run(fail_dirty, long_text);
    CHECK(utf8_valid(slice_from(r.error)));
    CHECK_SLICE(utf8_cut(slice_from(r.error), PR_ERROR_MAX), slice_from(r.error));
    CHECK(strlen(r.error) > 2 * PR_ERROR_MAX);
    delivery_result_fini(&r);
}

static int return_number(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    (void)m;
    return *(int *)user;
}

TEST(handler_that_returns_a_number_has_thrown)
{
    int numbers[] = { -5, PR_FAILED, 1234567 };
    struct delivery_result r = run(return_number, &numbers[0]);
    check_failed(&r, PR_REASON_HANDLER_EXCEPTION, "-5", "the handler returned -5");
    r = run(return_number, &numbers[1]); /* without pr_fail() */
    check_failed(&r, PR_REASON_HANDLER_EXCEPTION, "5", "the handler returned 5");
    r = run(return_number, &numbers[2]);
    check_failed(&r, PR_REASON_HANDLER_EXCEPTION, "1234567", "the handler returned 1234567");
}

/* ---- Effects ---------------------------------------------------------------------------------- */

static pr_id some_id;

static int send_effects(struct pr_context *context, const struct pr_message *m, void *user)
{
    struct pr_error error;
    char payload[] = "first";
    (void)m;
    struct pr_message effect = { .id = some_id, .type = PR_STR("a"), .payload = PR_BYTES(payload, 5) };
    ASSERT(pr_effect_send(context, &effect) == PR_OK);
    memset(payload, 'x', 5); /* it was copied */
    effect = (struct pr_message){ .type = PR_STR("b"), .stream = PR_STR("s") };
    ASSERT(pr_effect_send_box(context, "ledger", &effect, &error) == PR_OK);
    return *(int *)user;
}

TEST(handler_effects_are_handed_over_in_order) /* B93 */
{
    int ok = PR_OK;
    pr_id_new(&some_id);
    struct delivery_result r = run(send_effects, &ok);
    CHECK_EQ(r.outcome, SEND_OK);
    struct send_effect *first = r.effects, *second = first != NULL ? first->next : NULL;
    CHECK(second != NULL && second->next == NULL);
    CHECK_SLICE(first->box, "outbox");
    CHECK_SLICE(first->message.type, "a");
    CHECK_SLICE(first->message.payload, "first");
    CHECK(pr_id_equal(first->message.id, some_id));
    CHECK_SLICE(second->box, "ledger");
    CHECK_SLICE(second->message.stream, "s");
    CHECK(!pr_id_is_zero(second->message.id)); /* one was made */
    char handled[PR_ID_TEXT_SIZE];
    pr_id_format(message.id, handled);
    CHECK_SLICE(second->message.causation_id, handled);
    CHECK_SLICE(second->message.correlation_id, "c-1"); /* as what it handles */
    delivery_result_fini(&r);
}

TEST(handler_effects_of_a_failure_do_not_count)
{
    int failed = -1;
    struct delivery_result r = run(send_effects, &failed);
    CHECK_EQ(r.outcome, SEND_FAILED);
    CHECK(r.effects == NULL);
    delivery_result_fini(&r);
}

static int send_what_is_no_message(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m, (void)user;
    pr_effect_send(context, &(struct pr_message){ .type = PR_STR("") });
    return PR_OK; /* it did not look */
}

/* Else its message would be done, and what belongs to it never sent. */
TEST(handler_that_loses_an_effect_has_failed) /* B93 */
{
    struct delivery_result r = run(send_what_is_no_message, NULL);
    CHECK_EQ(r.outcome, SEND_FAILED);
    CHECK_EQ(r.reason, PR_REASON_HANDLER_EXCEPTION);
    CHECK(strstr(r.error, "pr_effect_send: type is empty") != NULL);
    CHECK(r.effects == NULL);
    CHECK_EQ(pr_effect_send(NULL, &(struct pr_message){ .type = PR_STR("a") }), PR_EINVAL);
    delivery_result_fini(&r);
}

static int send_wrong_effects(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    struct pr_error *errors = user;
    struct pr_message effect = { .type = PR_STR("a") };
    errors[0].code = pr_effect_send_box(context, "no such; box", &effect, &errors[0]);
    errors[1].code = pr_effect_send_box(context, NULL, &(struct pr_message){ .type = PR_STR("") }, &errors[1]);
    for (int i = 0; i < HANDLER_EFFECTS_MAX; i++)
        ASSERT(pr_effect_send_box(context, NULL, &effect, NULL) == PR_OK);
    errors[2].code = pr_effect_send_box(context, NULL, &effect, &errors[2]);
    return PR_OK;
}

TEST(handler_effects_are_checked_and_limited)
{
    struct pr_error errors[3] = { 0 };
    struct delivery_result r = run(send_wrong_effects, errors);
    CHECK_EQ(errors[0].code, PR_EINVAL);
    CHECK_EQ(errors[1].code, PR_EINVAL);
    CHECK_EQ(errors[2].code, PR_ETOOBIG);
    for (int i = 0; i < 3; i++)
        CHECK(errors[i].text[0] != '\0');
    delivery_result_fini(&r);
}

/* ---- Stopping ------------------------------------------------------------------------------------ */

static sem_t entered, may_leave;

/* Runs until it is asked to stop, then returns *user. */
static int until_asked(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    while (!pr_should_stop(context))
        usleep(1000);
    return *(int *)user;
}

TEST(handler_is_asked_to_stop_at_its_deadline)
{
    struct sending s;
    int gives_up = -9, goes_through = PR_OK;
    int64_t begin_us = now();
    start(&s, until_asked, &gives_up, SOON_US);
    struct delivery_result r = finish(&s);
    CHECK(now() - begin_us >= SOON_US);
    check_failed(&r, PR_REASON_TIMEOUT_EXCEEDED, "-9",
                 "the handler returned -9 when it was asked to stop at its deadline");

    /* What it has done late is done. */
    start(&s, until_asked, &goes_through, SOON_US);
    r = finish(&s);
    CHECK_EQ(r.outcome, SEND_OK);
}

static int fail_when_asked(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)user;
    sem_post(&entered);
    (void)!until_asked(context, m, &(int){ 0 });
    return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "half done");
}

TEST(handler_that_gives_up_because_of_cancel_has_not_failed) /* B38 */
{
    struct sending s;
    sem_init(&entered, 0, 0);
    start(&s, fail_when_asked, NULL, PR_SECONDS(20));
    sem_wait(&entered);
    transport_cancel(&s.transport);
    struct delivery_result r = finish(&s);
    CHECK_EQ(r.outcome, SEND_RETURNED);
    CHECK(r.error == NULL);

    /* At its deadline its own words count. */
    start(&s, fail_when_asked, NULL, SOON_US);
    r = finish(&s);
    check_failed(&r, PR_REASON_DEPENDENCY_FAILURE, "", "half done");
}

static int fail_after_the_deadline(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)m;
    sem_post(&entered);
    while (!pr_should_stop(context) || now() < *(int64_t *)user)
        usleep(1000);
    return pr_fail(context, PR_REASON_DEPENDENCY_FAILURE, "half done");
}

TEST(handler_that_is_late_as_well_has_failed)
{
    struct sending s;
    int64_t end_us = now() + SOON_US + PR_MILLISECONDS(100);
    sem_init(&entered, 0, 0);
    start(&s, fail_after_the_deadline, &end_us, SOON_US);
    sem_wait(&entered);
    transport_cancel(&s.transport);
    struct delivery_result r = finish(&s);
    check_failed(&r, PR_REASON_DEPENDENCY_FAILURE, "", "half done");
}

/* The first call gives up when it is asked to; the others must not be asked. */
static int be_asked_once(struct pr_context *context, const struct pr_message *m, void *user)
{
    atomic_int *calls = user;
    (void)m;
    sem_post(&entered);
    if (atomic_fetch_add(calls, 1) == 0)
        return until_asked(context, m, &(int){ -1 });
    return pr_should_stop(context) ? -1 : PR_OK;
}

TEST(handler_cancel_does_not_stop_what_comes_later)
{
    struct sending s;
    struct delivery more[2];
    const struct delivery *list[2] = { &more[0], &more[1] };
    struct delivery_result r;
    atomic_int calls = 0;
    sem_init(&entered, 0, 0);
    start(&s, be_asked_once, &calls, PR_SECONDS(20));
    sem_wait(&entered);
    transport_cancel(&s.transport);
    more[0] = more[1] = s.delivery;
    CHECK_EQ(transport_poll(&s.transport, &r, 1, now() + PR_SECONDS(10)), 1);
    CHECK_EQ(r.outcome, SEND_RETURNED);
    CHECK_EQ(transport_submit(&s.transport, list, 2), 2);
    CHECK_EQ(transport_poll(&s.transport, &r, 1, now() + PR_SECONDS(10)), 1);
    CHECK_EQ(r.outcome, SEND_OK);
    r = finish(&s);
    CHECK_EQ(r.outcome, SEND_OK);
}

static int wait_for_leave(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    (void)m;
    (void)user;
    sem_post(&entered);
    sem_wait(&may_leave);
    return PR_OK;
}

TEST(handler_cancel_returns_what_waits_and_lets_the_running_one_finish)
{
    struct sending s;
    struct delivery second;
    const struct delivery *list = &second;
    struct delivery_result r;
    sem_init(&entered, 0, 0);
    sem_init(&may_leave, 0, 0);
    start(&s, wait_for_leave, NULL, PR_SECONDS(20));
    sem_wait(&entered);
    second = s.delivery;
    second.token = 43;
    CHECK_EQ(transport_submit(&s.transport, &list, 1), 1); /* behind the one that runs */
    transport_cancel(&s.transport);
    CHECK_EQ(transport_poll(&s.transport, &r, 1, now() + PR_SECONDS(10)), 1);
    CHECK_EQ(r.token, 43);
    CHECK_EQ(r.outcome, SEND_RETURNED);
    sem_post(&may_leave);
    r = finish(&s);
    CHECK_EQ(r.outcome, SEND_OK);
    CHECK_EQ(sem_trywait(&entered), -1); /* the second never started */
}

TEST(handler_runs_as_many_at_once_as_it_may)
{
    struct endpoint_config config = { .name = "test",
                                      .url = "handler:test",
                                      .wake_fd = -1,
                                      .concurrency = 8,
                                      .timeout_us = PR_SECONDS(20),
                                      .handler = wait_for_leave };
    struct transport transport;
    struct delivery deliveries[8];
    const struct delivery *list[8];
    struct delivery_result results[8];
    size_t done = 0;
    sem_init(&entered, 0, 0);
    sem_init(&may_leave, 0, 0);
    CHECK_OK(transport_open(&config, &transport, NULL), NULL);
    for (size_t i = 0; i < 8; i++) {
        deliveries[i] = (struct delivery){
            .message = &message, .token = i, .start_before_us = INT64_MAX, .deadline_us = INT64_MAX
        };
        list[i] = &deliveries[i];
    }
    CHECK_EQ(transport_submit(&transport, list, 8), 8);
    for (size_t i = 0; i < 8; i++)
        sem_wait(&entered); /* all of them are inside */
    for (size_t i = 0; i < 8; i++)
        sem_post(&may_leave);
    while (done < 8)
        done += transport_poll(&transport, results, 8, now() + PR_SECONDS(10));
    transport_close(&transport);
}

static _Atomic int64_t told_us; /* the time, as these tests tell it */

static int64_t told_now_us(void *arg)
{
    (void)arg;
    return told_us;
}

/* Goes on at each post, and says whether it should stop. */
static int ask_twice(struct pr_context *context, const struct pr_message *m, void *user)
{
    bool *answers = user;
    (void)m;
    for (int i = 0; i < 2; i++) {
        sem_post(&entered);
        sem_wait(&may_leave);
        answers[i] = pr_should_stop(context);
    }
    return PR_OK;
}

/* While it waits for a thread its time does not run: a neighbour that is slow, but not late, must not
 * make it late, and in the end kill the process. */
TEST(handler_has_its_full_time_whoever_ran_before_it)
{
    const struct clock clock = { .wall_us = told_now_us, .mono_us = told_now_us };
    bool answers[2] = { true, false };
    struct endpoint_config config = { .name = "test",
                                      .url = "handler:test",
                                      .wake_fd = -1,
                                      .concurrency = 1,
                                      .timeout_us = PR_SECONDS(100),
                                      .handler = ask_twice,
                                      .handler_user = answers,
                                      .clock = &clock };
    struct delivery deliveries[2];
    const struct delivery *list[2] = { &deliveries[0], &deliveries[1] };
    struct delivery_result results[2];
    struct transport transport;
    size_t done = 0;
    sem_init(&entered, 0, 0);
    sem_init(&may_leave, 0, 0);
    told_us = PR_SECONDS(1000);
    for (size_t i = 0; i < 2; i++)
        deliveries[i] = (struct delivery){
            .message = &message, .token = i, .start_before_us = INT64_MAX, .deadline_us = PR_SECONDS(1100)
        };
    CHECK_OK(transport_open(&config, &transport, NULL), NULL);
    CHECK_EQ(transport_submit(&transport, list, 2), 2);
    sem_wait(&entered);
    sem_post(&may_leave);
    sem_wait(&entered);
    told_us = PR_SECONDS(1090); /* the first took nearly all of its time */
    sem_post(&may_leave);
    sem_wait(&entered); /* the second */
    told_us = PR_SECONDS(1180);
    sem_post(&may_leave);
    sem_wait(&entered);
    CHECK(!answers[0]);
    told_us = PR_SECONDS(1191);
    sem_post(&may_leave);
    while (done < 2)
        done += transport_poll(&transport, results + done, 2 - done, told_us + PR_SECONDS(10));
    CHECK(answers[1]);
    transport_close(&transport);
}

static int never_return(struct pr_context *context, const struct pr_message *m, void *user)
{
    (void)context;
    (void)m;
    (void)user;
    for (;;)
        pause();
    return PR_OK;
}

/* In a child: the handler overruns; the words go to a pipe. */
static void overrun(int fd, bool with_log)
{
    struct log log = { .level = LOG_INFO, .write = log_write_fd, .arg = &fd };
    struct sending s = { .config = { .name = "stuck",
                                     .url = "handler:test",
                                     .wake_fd = -1,
                                     .concurrency = 1,
                                     .timeout_us = SOON_US,
                                     .handler = never_return,
                                     .log = with_log ? &log : NULL },
                         .delivery = {
                             .message = &message, .start_before_us = INT64_MAX, .deadline_us = now() + SOON_US } };
    const struct delivery *list = &s.delivery;
    struct delivery_result result;
    dup2(fd, STDERR_FILENO);
    if (transport_open(&s.config, &s.transport, NULL) != PR_OK || transport_submit(&s.transport, &list, 1) != 1)
        _exit(1);
    transport_poll(&s.transport, &result, 1, now() + PR_SECONDS(20));
    _exit(2); /* no result may come */
}

static void check_overrun(bool with_log)
{
    int fds[2], status;
    char text[4096] = "";
    int64_t begin_us = now();
    CHECK(pipe(fds) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        overrun(fds[1], with_log);
    close(fds[1]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 70);
    CHECK(now() - begin_us >= SOON_US + PR_SECONDS(1)); /* the deadline, and a second of grace */
    CHECK(strstr(text, "handler_overran") != NULL);
    CHECK(strstr(text, "stuck") != NULL);
    CHECK(strstr(text, "pr_should_stop()") != NULL);
}

TEST(handler_that_does_not_stop_ends_the_process) /* blueprint 5.3 */
{
    check_overrun(true);
    check_overrun(false);
}

TEST(handler_without_a_function_is_a_wrong_config)
{
    const struct endpoint_config config = { .name = "orders", .url = "handler:orders", .wake_fd = -1 };
    struct endpoint_config greedy = {
        .name = "orders", .url = "handler:orders", .wake_fd = -1, .handler = never_return, .concurrency = 100000
    };
    struct pr_error error;
    CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
    CHECK(strstr(error.text, "orders") != NULL && strstr(error.text, "pr_engine_handle_named()") != NULL);
    CHECK_EQ(transport_check(&greedy, &error), PR_ECONFIG);
}
