/* Turns and activities as messages of boxes: one at a time, sessions, tags, cancellation, versions, restarts. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "crowd.h"

static int echo(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)context;
    (void)user;
    *ret_output = input;
    return PR_OK;
}

static void raise_event(struct crowd *c, const char *id, const char *event, const char *data)
{
    struct pr_error error;
    CHECK_OK(pr_flow_raise(c->client, id, event, pr_str(data), &error), &error);
}

/* ---- Turns ------------------------------------------------------------------------------------------------ */

static atomic_int in_turn, most_in_turn, turns;

static int one_at_a_time(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    int now = ++in_turn, seen = 0, rc = PR_OK;
    turns++;
    if (now > most_in_turn)
        most_in_turn = now;
    usleep(500);
    for (int i = 0; rc == PR_OK && i < atoi(crowd_text(input)); i++) {
        rc = pr_result(f, pr_event(f, "go"), NULL, NULL);
        seen += rc == PR_OK;
    }
    in_turn--;
    *ret_output = pr_flow_printf(f, "%d", seen);
    return rc;
}

TEST(one_turn_at_a_time_takes_all_that_is_there) /* B120, B121 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "busy", one_at_a_time);
    crowd_begin(&c, "busy", "b-1", "50");
    for (int i = 0; i < 40; i++) /* before anybody works */
        raise_event(&c, "b-1", "go", "");
    turns = most_in_turn = 0;
    crowd_start(&c);
    for (int i = 0; i < 10; i++)
        raise_event(&c, "b-1", "go", "");
    CHECK_STR(crowd_end(&c, "b-1", PR_FLOW_COMPLETED), "50");
    CHECK_EQ(most_in_turn, 1);
    CHECK(turns <= 11);
    crowd_fini(&c);
}

/* ---- Tags and sessions ---------------------------------------------------------------------------------------- */

static int needs_gpu(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_result(f, pr_activity_with(f, "echo", input, &(struct pr_activity_options){ .tag = "gpu" }), ret_output,
                     NULL);
}

TEST(an_activity_with_a_tag_waits_for_who_offers_it) /* B113 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "gpu", needs_gpu);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    crowd_begin(&c, "gpu", "g-1", "x");
    stand_wait(&c.stand,
               "SELECT count(*) FROM activities WHERE error = 'activity echo needs gpu, which this instance does not "
               "offer' AND attempts = 0",
               1);
    crowd_stop(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "gpu", needs_gpu);
    crowd_activity(&c, "echo", echo);
    CHECK_EQ(pr_engine_offer(c.engine, "gpu"), PR_OK);
    crowd_start(&c);
    CHECK_STR(crowd_end(&c, "g-1", PR_FLOW_COMPLETED), "x");
    crowd_fini(&c);
}

static atomic_int in_session, most_in_session, session_calls;
static char session_order[64];

static int in_order(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    int now = ++in_session;
    (void)user;
    CHECK_SLICE(pr_activity_info(context)->session, "s");
    if (now > most_in_session)
        most_in_session = now;
    session_order[session_calls++] = input.data[0];
    usleep(1000);
    in_session--;
    *ret_output = input;
    return PR_OK;
}

static int with_session(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct pr_activity_options options = { .session = "s" };
    pr_task tasks[10];
    (void)input;
    for (int i = 0; i < 10; i++)
        tasks[i] = pr_activity_with(f, "in_order", pr_flow_printf(f, "%d", i), &options);
    *ret_output = PR_STR("done");
    return pr_all(f, 10, tasks);
}

TEST(activities_of_a_session_run_one_after_the_other) /* B114 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "session", with_session);
    crowd_activity(&c, "in_order", in_order);
    most_in_session = session_calls = 0;
    crowd_start(&c);
    crowd_begin(&c, "session", "s-1", "");
    CHECK_STR(crowd_end(&c, "s-1", PR_FLOW_COMPLETED), "done");
    CHECK_EQ(most_in_session, 1);
    CHECK_EQ(session_calls, 10);
    CHECK_EQ(memcmp(session_order, "0123456789", 10), 0);
    crowd_fini(&c);
}

/* ---- Cancellation ------------------------------------------------------------------------------------------------ */

static atomic_bool saw_cancel, is_running;

static int long_work(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)user;
    is_running = true;
    while (!pr_activity_should_stop(context))
        test_pause();
    saw_cancel = pr_activity_is_cancelled(context);
    if (!saw_cancel)
        return pr_activity_fail(context, PR_CATEGORY_APPLICATION, true, "told to stop");
    *ret_output = input;
    return PR_OK;
}

static int gives_up(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    pr_task work = pr_activity(f, "long", input), stop = pr_event(f, "stop");
    int first = pr_any(f, 2, (pr_task[]){ work, stop });
    if (first < 0)
        return first;
    pr_cancel(f, work);
    *ret_output = PR_STR("stopped");
    return pr_result(f, pr_event(f, "end"), NULL, NULL);
}

TEST(a_running_activity_learns_of_its_cancellation_and_its_result_is_dropped) /* B128, B129 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "lease: 3s\n");
    crowd_flow(&c, "gives_up", gives_up);
    crowd_activity(&c, "long", long_work);
    saw_cancel = is_running = false;
    crowd_start(&c);
    crowd_begin(&c, "gives_up", "c-1", "");
    while (!is_running)
        test_pause();
    raise_event(&c, "c-1", "stop", "");
    stand_wait(&c.stand, "SELECT count(*) FROM activities", 0);
    for (int64_t until_us = test_now_us() + PR_SECONDS(20); !saw_cancel && test_now_us() < until_us;)
        test_pause();
    CHECK(saw_cancel);
    raise_event(&c, "c-1", "end", "");
    CHECK_STR(crowd_end(&c, "c-1", PR_FLOW_COMPLETED), "stopped");
    CHECK(strstr(crowd_events(&c, "c-1"), "result") == NULL);
    crowd_fini(&c);
}

/* ---- What is for nobody --------------------------------------------------------------------------------------------- */

static void send_turn(struct crowd *c, const char *type, const char *stream, const char *headers)
{
    struct pr_error error;
    struct pr_sender *sender;
    const struct pr_message m = { .type = pr_str(type), .stream = pr_str(stream), .headers = pr_str(headers) };
    CHECK_OK(pr_sender_open(c->stand.url, &sender, &error), &error);
    CHECK_OK(pr_sender_send(sender, "turns", &m, NULL, &error), &error);
    pr_sender_close(sender);
}

static int waits(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    return pr_result(f, pr_event(f, "go"), ret_output, NULL);
}

TEST(results_for_others_are_ignored_and_what_cannot_be_decoded_is_a_dead_letter) /* B131, B132 */
{
    static const char other[] = "{\"execution\":\"018f0000-0000-7000-8000-000000000000\",\"task\":1}";
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "waits", waits);
    crowd_start(&c);
    crowd_begin(&c, "waits", "w-1", "");
    send_turn(&c, "result", "w-1", other);    /* of another execution */
    send_turn(&c, "result", "nobody", other); /* of no flow */
    send_turn(&c, "result", "w-1", "{}");     /* of nothing */
    send_turn(&c, "nonsense", "nobody", NULL);
    stand_wait(&c.stand, "SELECT count(*) FROM {dead} WHERE box = 'turns'", 2);
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0);
    raise_event(&c, "w-1", "go", "on");
    CHECK_STR(crowd_end(&c, "w-1", PR_FLOW_COMPLETED), "on");
    CHECK_STR(crowd_events(&c, "w-1"), "started, wait go, event go, completed");
    crowd_fini(&c);
}

/* A start that says that nothing is stored of its flow is believed once. */
TEST(a_start_for_a_flow_that_is_there_is_ignored_also_when_it_says_otherwise) /* B112, B123 */
{
    static const char lie[] = "{\"name\":\"waits\",\"unheard_of\":true}";
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "waits", waits);
    crowd_start(&c);
    crowd_begin(&c, "waits", "w-1", "");
    stand_wait(&c.stand, "SELECT count(*) FROM turns",
               0); /* a turn takes all that is there: the event would come first */
    send_turn(&c, "start", "w-1", lie);
    raise_event(&c, "w-1", "go", "on");
    CHECK_STR(crowd_end(&c, "w-1", PR_FLOW_COMPLETED), "on");
    send_turn(&c, "start", "w-1", lie);
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0);
    CHECK_STR(crowd_end(&c, "w-1", PR_FLOW_COMPLETED), "on");
    CHECK_STR(crowd_events(&c, "w-1"), "started, wait go, event go, completed");
    crowd_fini(&c);
}

/* ---- Versions and restarts --------------------------------------------------------------------------------------------- */

static int first_version(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    *ret_output = PR_STR("1");
    return pr_result(f, pr_event(f, "go"), NULL, NULL);
}

static int second_version(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)input;
    *ret_output = PR_STR("2");
    return pr_call(f, "echo", PR_STR(""), NULL);
}

#define OPEN_FLOWS 1000

TEST(after_a_restart_a_thousand_open_flows_go_on_with_their_own_version) /* B110, B164 */
{
    struct crowd c;
    char id[32];
    crowd_init(&c);
    crowd_engine(&c, "");
    CHECK_EQ(pr_engine_flow(c.engine, "f", "1", first_version, NULL), PR_OK);
    crowd_start(&c);
    for (int i = 0; i < OPEN_FLOWS; i++) {
        snprintf(id, sizeof id, "o-%d", i);
        crowd_begin(&c, "f", id, "");
    }
    stand_wait(&c.stand, "SELECT count(*) FROM turns", 0);
    crowd_stop(&c);
    crowd_engine(&c, "");
    CHECK_EQ(pr_engine_flow(c.engine, "f", "2", second_version, NULL), PR_OK);
    CHECK_EQ(pr_engine_flow(c.engine, "f", "1", first_version, NULL), PR_OK);
    CHECK_EQ(pr_engine_flow(c.engine, "f", "1", first_version, NULL), PR_EINVAL); /* once */
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    for (int i = 0; i < OPEN_FLOWS; i++) {
        snprintf(id, sizeof id, "o-%d", i);
        raise_event(&c, id, "go", "");
    }
    crowd_begin(&c, "f", "new", "");
    for (int i = 0; i < OPEN_FLOWS; i++) {
        snprintf(id, sizeof id, "o-%d", i);
        CHECK_STR(crowd_end(&c, id, PR_FLOW_COMPLETED), "1");
    }
    CHECK_STR(crowd_end(&c, "new", PR_FLOW_COMPLETED), "2"); /* the highest */
    crowd_fini(&c);
}

TEST(a_flow_that_nobody_knows_waits_uncounted_and_fails_in_the_end) /* B110 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "flows: {unknown: 1s}\n");
    crowd_flow(&c, "waits", waits);
    crowd_start(&c);
    crowd_begin(&c, "stranger", "x-1", "");
    stand_wait(&c.stand, "SELECT count(*) FROM turns WHERE attempts = 0 AND error LIKE 'this instance does not know%'",
               1);
    CHECK_STR(crowd_end(&c, "x-1", PR_FLOW_FAILED), "no instance knows flow stranger");
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM {dead} WHERE box = 'turns' AND stream = 'x-1'"), 1);
    crowd_begin(&c, "stranger", "x-2", ""); /* each waits for itself */
    stand_wait(&c.stand, "SELECT count(*) FROM turns WHERE stream = 'x-2' AND code LIKE 'unknown since %'", 1);
    CHECK_STR(crowd_end(&c, "x-2", PR_FLOW_FAILED), "no instance knows flow stranger");
    crowd_fini(&c);
}

TEST(the_time_of_an_unknown_flow_goes_on_over_restarts) /* B110 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "flows: {unknown: 1h}\n");
    crowd_flow(&c, "waits", waits);
    crowd_start(&c);
    crowd_begin(&c, "stranger", "x-1", "");
    stand_wait(&c.stand, "SELECT count(*) FROM turns WHERE code LIKE 'unknown since %'", 1);
    crowd_stop(&c);
    stand_do(&c.stand, "UPDATE turns SET code = 'unknown since 2020-01-01T00:00:00Z'");
    crowd_engine(&c, "flows: {unknown: 1h}\n");
    crowd_flow(&c, "waits", waits);
    crowd_start(&c);
    CHECK_STR(crowd_end(&c, "x-1", PR_FLOW_FAILED), "no instance knows flow stranger");
    crowd_fini(&c);
}

/* ---- Poison as people make it --------------------------------------------------------------------------------------------- */

TEST(a_hand_back_counts_nothing) /* B149 */
{
    struct crowd c;
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "gives_up", gives_up);
    crowd_activity(&c, "long", long_work);
    crowd_begin(&c, "gives_up", "h-1", "");
    is_running = false;
    crowd_start(&c);
    while (!is_running)
        test_pause();
    crowd_stop(&c); /* it is asked to stop, and says that it has not done its work */
    CHECK_EQ(stand_int(&c.stand, "SELECT count(*) FROM activities WHERE attempts = 0 AND failures = 0"), 1);
    crowd_fini(&c);
}

/* ---- Metrics ------------------------------------------------------------------------------------------------------------- */

static unsigned free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, size), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static const char *read_metrics(unsigned port)
{
    static char text[1 << 20];
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    static const char request[] = "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    size_t size = 0;
    ssize_t got;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(write(fd, request, sizeof request - 1), (ssize_t)sizeof request - 1);
    while ((got = read(fd, text + size, sizeof text - 1 - size)) > 0)
        size += (size_t)got;
    close(fd);
    text[size] = '\0';
    return text;
}

static int fails(struct pr_activity_context *context, pr_slice input, pr_slice *ret_output, void *user)
{
    (void)input;
    (void)ret_output;
    (void)user;
    return pr_activity_fail(context, PR_CATEGORY_INFRASTRUCTURE, false, "no disk");
}

static int calls_fails(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, "fails", input, ret_output);
}

TEST(metrics_count_flows_turns_and_failures_by_category) /* B148 */
{
    struct crowd c;
    char config[64];
    unsigned port = free_port();
    crowd_init(&c);
    snprintf(config, sizeof config, "http: {listen: \"127.0.0.1:%u\"}\n", port);
    crowd_engine(&c, config);
    crowd_flow(&c, "echoes", second_version);
    crowd_flow(&c, "fails", calls_fails);
    crowd_activity(&c, "echo", echo);
    crowd_activity(&c, "fails", fails);
    crowd_start(&c);
    crowd_begin(&c, "echoes", "m-1", "");
    crowd_begin(&c, "fails", "m-2", "");
    CHECK_STR(crowd_end(&c, "m-1", PR_FLOW_COMPLETED), "2");
    CHECK_STR(crowd_end(&c, "m-2", PR_FLOW_FAILED), "no disk");
    const char *text = read_metrics(port);
    CHECK(strstr(text, "postrider_flow_turns_total 4\n") != NULL);
    CHECK(strstr(text, "postrider_flows{state=\"completed\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_flows{state=\"failed\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_flow_failures_total{category=\"infrastructure\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_activity_failures_total{category=\"infrastructure\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_activity_failures_total{category=\"application\"} 0\n") != NULL);
    CHECK(strstr(text, "postrider_poison_total{box=\"turns\",kind=\"flow\"} 0\n") != NULL);
    CHECK(strstr(text, "postrider_poison_total{box=\"activities\",kind=\"activity\"} 0\n") != NULL);
    crowd_fini(&c);
}

/* A message that was handed out as often as it may be, as after that many crashes. */
TEST(poison_is_counted_by_its_kind) /* B148 */
{
    struct crowd c;
    char config[64];
    unsigned port = free_port();
    crowd_init(&c);
    crowd_engine(&c, "");
    crowd_flow(&c, "gpu", needs_gpu);
    crowd_start(&c);
    crowd_begin(&c, "gpu", "q-1", "x");
    stand_wait(&c.stand, "SELECT count(*) FROM activities", 1);
    crowd_stop(&c);
    crowd_begin(&c, "gpu", "q-2", "x");
    stand_do(&c.stand, "UPDATE activities SET attempts = 5");
    stand_do(&c.stand, "UPDATE turns SET attempts = 5");
    snprintf(config, sizeof config, "http: {listen: \"127.0.0.1:%u\"}\n", port);
    crowd_engine(&c, config);
    crowd_flow(&c, "gpu", needs_gpu);
    crowd_activity(&c, "echo", echo);
    crowd_start(&c);
    CHECK_STR(crowd_end(&c, "q-1", PR_FLOW_FAILED), "poison: activity echo#1 exceeded 6 attempts (max 5)");
    CHECK_STR(crowd_end(&c, "q-2", PR_FLOW_FAILED), "poison: flow q-2 exceeded 6 attempts (max 5)");
    usleep(100000); /* a view is published when the box rests */
    const char *text = read_metrics(port);
    CHECK(strstr(text, "postrider_poison_total{box=\"turns\",kind=\"flow\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_poison_total{box=\"activities\",kind=\"activity\"} 1\n") != NULL);
    CHECK(strstr(text, "postrider_flow_failures_total{category=\"poison\"} 2\n") != NULL);
    CHECK(strstr(text, "postrider_activity_failures_total{category=\"poison\"} 1\n") != NULL);
    crowd_fini(&c);
}
