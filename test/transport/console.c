/* What the console prints, and what it does without a reader. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "transport/transport.h"

static const struct endpoint_config config = { .name = "out", .url = "console:", .wake_fd = -1 };

/* Send one message with the standard output being fd; the result.  No CHECKs inside: they print. */
static struct delivery_result send_to(int fd, const struct pr_message *m, int64_t timeout_us)
{
    struct transport transport;
    struct delivery_result result = { .outcome = SEND_RETURNED, .reason = -1 };
    int64_t now_us = clock_mono_us(clock_system());
    struct delivery delivery = {
        .message = m, .token = 1, .attempt = 1, .start_before_us = INT64_MAX, .deadline_us = now_us + timeout_us
    };
    const struct delivery *list = &delivery;

    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    dup2(fd, STDOUT_FILENO);
    if (transport_open(&config, &transport, NULL) == PR_OK) {
        transport_submit(&transport, &list, 1);
        while (transport_poll(&transport, &result, 1, now_us + PR_SECONDS(10)) == 0 &&
               clock_mono_us(clock_system()) < now_us + PR_SECONDS(10))
            ;
        transport_close(&transport);
    }
    dup2(saved, STDOUT_FILENO);
    close(saved);
    return result;
}

static void check_line(const struct pr_message *m, const char *wanted)
{
    int fds[2];
    char line[8192] = "";
    CHECK(pipe(fds) == 0);
    struct delivery_result r = send_to(fds[1], m, PR_SECONDS(10));
    close(fds[1]);
    CHECK(read(fds[0], line, sizeof(line) - 1) > 0);
    close(fds[0]);
    CHECK_EQ(r.outcome, SEND_OK);
    CHECK_STR(line, wanted);
}

#define ID "01890a5d-ac96-774b-bcce-b302099a8057"
static struct pr_message message(pr_slice payload)
{
    struct pr_message m = { .type = PR_STR("order.created"), .payload = payload };
    CHECK_EQ(pr_id_parse(PR_STR(ID), &m.id), PR_OK);
    return m;
}

TEST(console_prints_one_line_per_message)
{
    struct pr_message m = message(PR_STR("{\"a\":1}"));
    check_line(&m, ID " order.created - 7 {\"a\":1}\n");
    m.stream = PR_STR("order-7");
    check_line(&m, ID " order.created order-7 7 {\"a\":1}\n");
    m.payload = PR_STR("");
    check_line(&m, ID " order.created order-7 0\n");
}

TEST(console_lets_no_message_steer_the_terminal)
{
    struct pr_message m = message(PR_STR("{\n\t\"a\": 1}\r\n"));
    check_line(&m, ID " order.created - 12 {  \"a\": 1}  \n");
    m.payload = PR_STR("\x1b[2J");
    check_line(&m, ID " order.created - 4\n");
    m.payload = PR_STR("\xc2\x9b"
                       "2J"); /* the same as one character */
    check_line(&m, ID " order.created - 4\n");
    m.payload = PR_STR("\xff\xfe");
    check_line(&m, ID " order.created - 2\n");
    m.payload = PR_STR("");
    m.type = PR_STR("a\nb\x1b");
    check_line(&m, ID " a b\xef\xbf\xbd - 0\n");
}

TEST(console_cuts_long_payloads_between_characters)
{
    static char payload[2000];
    char wanted[4096];
    payload[0] = 'x';
    for (size_t i = 1; i + 1 < sizeof(payload); i += 2)
        memcpy(&payload[i], "\xc3\xa4", 2);
    struct pr_message m = message(PR_BYTES(payload, 1999));
    snprintf(wanted, sizeof(wanted), ID " order.created - 1999 %.511s...\n", payload);
    check_line(&m, wanted);
}

TEST(console_fails_when_its_reader_is_gone)
{
    int fds[2];
    struct pr_message m = message(PR_STR("{}"));
    signal(SIGPIPE, SIG_DFL); /* which would kill us */
    CHECK(pipe(fds) == 0);
    close(fds[0]);
    struct delivery_result r = send_to(fds[1], &m, PR_SECONDS(10));
    close(fds[1]);
    CHECK_EQ(r.outcome, SEND_FAILED);
    CHECK_EQ(r.reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_STR(r.code, "EPIPE");
    delivery_result_fini(&r);

    int full = open("/dev/full", O_WRONLY);
    CHECK(full >= 0);
    r = send_to(full, &m, PR_SECONDS(10));
    close(full);
    CHECK_EQ(r.reason, PR_REASON_TRANSPORT_UNAVAILABLE);
    CHECK_STR(r.code, "ENOSPC");
    delivery_result_fini(&r);
}

TEST(console_gives_up_when_nobody_reads)
{
    int fds[2];
    char filler[4096] = { 0 };
    struct pr_message m = message(PR_STR("{}"));
    CHECK(pipe(fds) == 0);
    CHECK(fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(fds[1], filler, sizeof(filler)) > 0)
        ;
    CHECK(fcntl(fds[1], F_SETFL, 0) == 0);
    struct delivery_result r = send_to(fds[1], &m, PR_MILLISECONDS(500));
    close(fds[0]);
    close(fds[1]);
    CHECK_EQ(r.outcome, SEND_FAILED);
    CHECK_EQ(r.reason, PR_REASON_TIMEOUT_EXCEEDED);
    delivery_result_fini(&r);
}
