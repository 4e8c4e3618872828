/* The pipeline on a wire that takes little: what has begun, what has not, and the result of each delivery. */
#include "transport/broker/pipeline.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "transport/broker/wire.h"

#define COUNT 4
#define SIZE 100000 /* bytes of a message: the wire takes some of them, and a part of one */

static struct pipeline p;
static struct wire wire;
static int other_side;
static struct pr_message message;
static struct delivery deliveries[COUNT];

static size_t written_messages(void)
{
    return (size_t)(p.written_total / SIZE);
}

/* Four are out; the wire is full in the middle of one. */
static void begin(void)
{
    static const char bytes[SIZE];
    static const struct endpoint_config config = { .name = "test" };
    struct pr_error error;
    int fds[2];
    memset(&p, 0, sizeof(p));
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    wire = (struct wire){ .host = "test", .fd = fds[0], .state = WIRE_OPEN };
    other_side = fds[1];
    int small = SIZE;
    CHECK_EQ(setsockopt(wire.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    CHECK_OK(pipeline_init(&p, &config, &error), &error);
    for (size_t i = 0; i < COUNT; i++) {
        const struct delivery *d = &deliveries[i];
        deliveries[i] = (struct delivery){ &message, .token = i, .deadline_us = 1000, .start_before_us = 500 };
        CHECK_EQ(pipeline_submit(&p, &d, 1), 1);
        CHECK(pipeline_next(&p, 0) == d);
        size_t before = p.bytes.size;
        buf_add(&p.bytes, bytes, sizeof(bytes));
        CHECK_EQ(pipeline_began(&p, before), i + 1);
    }
    CHECK(pipeline_write(&p, &wire));
    CHECK(p.written_total % SIZE != 0);
    CHECK(written_messages() < COUNT - 1);
}

static void end(void)
{
    pipeline_fini(&p);
    wire_fini(&wire);
    close(other_side);
}

/* Those from `first` on have their results, and only those. */
static void check_results(size_t first, enum send_outcome outcome_of[COUNT])
{
    struct delivery_result results[COUNT];
    size_t count = pipeline_take(&p, results, COUNT);
    bool seen[COUNT] = { false };
    CHECK_EQ(count, COUNT - first);
    for (size_t i = 0; i < count; i++) {
        CHECK(results[i].token >= first && !seen[results[i].token]);
        seen[results[i].token] = true;
        CHECK_EQ(results[i].outcome, outcome_of[results[i].token]);
        delivery_result_fini(&results[i]);
    }
}

static enum send_outcome outcomes[COUNT];

static void expect(enum send_outcome whole, enum send_outcome part, enum send_outcome nothing)
{
    for (size_t i = 0; i < COUNT; i++)
        outcomes[i] = i < written_messages() ? whole : i == written_messages() ? part : nothing;
}

/* What is left of the buffer is the rest of the one that has begun. */
static void check_cut(void)
{
    CHECK_EQ(p.out_count, written_messages() + 1);
    CHECK_EQ(p.written_total + pipeline_unwritten(&p), (written_messages() + 1) * SIZE);
}

TEST(pipeline_cancels_what_has_not_begun) /* L1, P4, B23 */
{
    begin();
    pipeline_cancel(&p);
    expect(SEND_OK, SEND_OK, SEND_RETURNED);
    check_results(written_messages() + 1, outcomes);
    check_cut();
    end();
}

TEST(pipeline_returns_what_may_not_begin_any_more) /* L1 */
{
    begin();
    CHECK(pipeline_expire(&p, 499));
    CHECK_EQ(p.out_count, COUNT);
    CHECK_EQ(pipeline_next_us(&p), 500);
    CHECK(pipeline_expire(&p, 500));
    expect(SEND_OK, SEND_OK, SEND_RETURNED);
    check_results(written_messages() + 1, outcomes);
    check_cut();
    end();
}

TEST(pipeline_knows_what_may_have_arrived) /* L2, P5 */
{
    begin();
    expect(SEND_UNKNOWN, SEND_FAILED, SEND_FAILED);
    pipeline_lost(&p, "", "gone");
    check_results(0, outcomes);
    CHECK_EQ(p.out_count, 0);
    CHECK_EQ(pipeline_unwritten(&p), 0);
    end();
}

TEST(pipeline_gives_up_each_at_its_own_deadline) /* L3 */
{
    struct delivery_result result;
    begin();
    pipeline_cancel(&p);
    while (pipeline_take(&p, &result, 1) > 0)
        delivery_result_fini(&result);
    CHECK(p.out_count >= 2); /* one whole, and the one that has begun */
    pipeline_at(&p, 0)->deadline_us = 2000;
    CHECK(pipeline_expire(&p, 1000));
    CHECK_EQ(pipeline_next_us(&p), 2000);
    for (size_t i = 1; i < p.out_count; i++) {
        CHECK_EQ(pipeline_take(&p, &result, 1), 1);
        CHECK_EQ(result.outcome, SEND_UNKNOWN);
        CHECK_EQ(result.token, i);
        delivery_result_fini(&result);
    }
    CHECK(pipeline_expire(&p, 1999));
    CHECK_EQ(pipeline_take(&p, &result, 1), 0);
    CHECK(!pipeline_expire(&p, 2000)); /* nobody waits any more */
    CHECK(pipeline_answer(&p, 1) == NULL);
    end();
}

/* RabbitMQ returns a message before it confirms it: between the two nobody may find the connection useless. */
TEST(pipeline_awaits_the_answer_of_one_that_has_its_result)
{
    struct delivery_result result;
    begin();
    pipeline_cancel(&p);
    while (pipeline_take(&p, &result, 1) > 0)
        delivery_result_fini(&result);
    for (size_t i = 0; i < p.out_count; i++)
        CHECK(pipeline_end(pipeline_at(&p, i)) == &deliveries[i]);
    CHECK(pipeline_expire(&p, 999));
    CHECK_EQ(pipeline_next_us(&p), 1000);
    CHECK(!pipeline_expire(&p, 1000)); /* it never came */
    CHECK_EQ(pipeline_take(&p, &result, 1), 0);
    end();
}

TEST(pipeline_takes_answers_in_any_order_and_late) /* L3 */
{
    begin();
    CHECK(pipeline_answer(&p, 2) == &deliveries[1]);
    CHECK(pipeline_answer(&p, 2) == NULL);
    CHECK(pipeline_answer(&p, 99) == NULL);
    CHECK_EQ(p.out_count, COUNT); /* it waits for the first */
    pipeline_cancel(&p);
    CHECK(!pipeline_expire(&p, 1000)); /* nobody waits for the first any more */
    CHECK(pipeline_answer(&p, 1) == NULL);
    CHECK(p.first_number > 2);
    end();
}
