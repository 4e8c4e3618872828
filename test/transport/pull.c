/* Claims without HTTP: who has which messages, and handing them back. */
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "check.h"
#include "flow/turn_message.h"
#include "transport/pull/pull.h"
#include "transport/transport.h"

#define E PR_STR("worker")
#define B PR_STR("inbox")

static const struct pr_message message = { .type = PR_STR("t"), .payload = PR_STR("{}") };

struct stand {
    struct pull *pull;
    struct pull_shelf *shelf;
    struct delivery delivery;
    int old_fd, new_fd; /* of two box loops, the second of which is there when the first one stops */
};

static void stand_init(struct stand *s)
{
    struct pr_error error;
    int64_t later_us = clock_mono_us(clock_system()) + PR_SECONDS(60);
    *s = (struct stand){ .old_fd = eventfd(0, EFD_NONBLOCK), .new_fd = eventfd(0, EFD_NONBLOCK) };
    s->delivery = (struct delivery){
        .message = &message, .token = 7, .attempt = 1, .deadline_us = later_us, .start_before_us = later_us
    };
    CHECK_OK(pull_new(&s->pull, &error), &error);
    CHECK_OK(pull_attach(s->pull, E, B, true, false, s->old_fd, &error), &error);
    s->shelf = pull_shelf_find(s->pull, E, B);
    CHECK(s->shelf != NULL);
}

static void stand_fini(struct stand *s)
{
    pull_free(s->pull);
    close(s->old_fd);
    close(s->new_fd);
}

static void offer(struct stand *s)
{
    const struct delivery *list[] = { &s->delivery };
    static const struct endpoint_config config = { .name = "e", .timeout_us = PR_SECONDS(60) };
    CHECK_EQ(pull_shelf_offer(s->shelf, &config, s, list, 1), 1);
}

static bool keep_token(void *arg, const struct pull_claim *claim)
{
    snprintf(arg, PULL_TOKEN_SIZE, "%s", claim->token);
    return true;
}

static bool keep_nothing(void *arg, const struct pull_claim *claim)
{
    (void)arg, (void)claim;
    return false;
}

static void take(struct stand *s, pull_visit visit, char token[PULL_TOKEN_SIZE])
{
    struct pr_error error;
    token[0] = '\0';
    CHECK_OK(pull_take(s->pull, &(struct pull_request){ .box = B, .max = 1 }, visit, token, &error), &error);
}

/* The outcome of the only delivery; -1: it has not ended. */
static int ended(struct stand *s)
{
    struct delivery_result r;
    int64_t next_us;
    if (pull_shelf_collect(s->shelf, s, &r, 1, &next_us) == 0)
        return -1;
    CHECK_EQ(r.token, 7);
    int outcome = (int)r.outcome;
    delivery_result_fini(&r);
    return outcome;
}

TEST(pull_late_stop_of_an_old_box_loop_leaves_the_new_ones_claims)
{
    struct stand s;
    struct pr_error error;
    char token[PULL_TOKEN_SIZE];
    int64_t left_us;
    stand_init(&s);
    CHECK_OK(pull_attach(s.pull, E, B, true, false, s.new_fd, &error), &error);
    offer(&s);
    take(&s, keep_token, token);
    pull_detach(s.pull, E, B, s.old_fd);
    CHECK_EQ(ended(&s), -1);
    CHECK_EQ(pull_renew(s.pull, slice_from(token), 0, &left_us), PULL_OK);
    pull_detach(s.pull, E, B, s.new_fd);
    CHECK_EQ(ended(&s), SEND_ABANDONED);
    CHECK_EQ(pull_renew(s.pull, slice_from(token), 0, &left_us), PULL_STALE);
    stand_fini(&s);
}

TEST(pull_claim_that_did_not_reach_its_claimer_goes_back_uncounted)
{
    struct stand s;
    char token[PULL_TOKEN_SIZE];
    stand_init(&s);
    offer(&s);
    take(&s, keep_token, token);
    const pr_slice tokens[] = { PR_STR("nonsense"), slice_from(token) };
    pull_give_back(s.pull, tokens, 2);
    CHECK_EQ(ended(&s), SEND_RETURNED);
    pull_give_back(s.pull, tokens, 2); /* once */
    CHECK_EQ(ended(&s), -1);
    offer(&s);
    take(&s, keep_nothing, token); /* it has no memory */
    CHECK_EQ(ended(&s), SEND_RETURNED);
    stand_fini(&s);
}

/* It would keep the room that its claimer has, and no other message would come. */
TEST(pull_activity_whose_tag_nobody_who_waits_offers_makes_room) /* B113 */
{
    static const pr_slice gpu = PR_STR("gpu");
    const struct activity_message activity = {
        .name = PR_STR("render"), .flow = PR_STR("film"), .execution = { { 1 } }, .task = 1, .tag = gpu
    };
    struct stand s;
    struct arena arena;
    struct pr_message tagged;
    struct pr_error error;
    char token[PULL_TOKEN_SIZE];
    stand_init(&s);
    arena_init(&arena, 1024);
    CHECK_EQ(activity_message_make(&activity, &arena, &tagged), PR_OK);
    CHECK_OK(pull_attach(s.pull, E, B, true, true, s.new_fd, &error), &error);
    s.delivery.message = &tagged;
    offer(&s); /* nobody waits */
    take(&s, keep_token, token);
    CHECK_EQ(token[0], '\0');
    CHECK_EQ(ended(&s), SEND_POSTPONED);
    offer(&s);
    const struct pull_request has_gpu = { .box = B, .max = 1, .tags = &gpu, .tag_count = 1 };
    CHECK_OK(pull_take(s.pull, &has_gpu, keep_token, token, &error), &error);
    CHECK(token[0] != '\0');
    CHECK_EQ(ended(&s), -1);
    pull_detach(s.pull, E, B, s.new_fd);
    CHECK_EQ(ended(&s), SEND_ABANDONED);
    arena_fini(&arena);
    stand_fini(&s);
}

static void settle(struct stand *s, int answer)
{
    struct delivery_result r;
    int64_t next_us, end_us = clock_mono_us(clock_system()) + PR_SECONDS(20);
    while (pull_shelf_collect(s->shelf, s, &r, 1, &next_us) == 0)
        CHECK(clock_mono_us(clock_system()) < end_us);
    r.settled(r.settled_arg, answer);
    r.settled = NULL;
    delivery_result_fini(&r);
}

static void *end_claim(void *arg)
{
    struct pr_error error;
    struct pull_verdict *v = ((void **)arg)[1];
    CHECK_OK(pull_end(((void **)arg)[0], v, 1, PR_SECONDS(20), &error), &error);
    return NULL;
}

TEST(pull_verdict_is_answered_with_what_it_became)
{
    static const struct {
        int committed;
        enum pull_answer answer;
    } cases[] = { { PR_OK, PULL_OK }, { PR_STALE, PULL_STALE }, { PR_EINVAL, PULL_FAILED } };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct stand s;
        char token[PULL_TOKEN_SIZE];
        pthread_t thread;
        stand_init(&s);
        offer(&s);
        take(&s, keep_token, token);
        struct pull_verdict v = { .token = slice_from(token), .result.outcome = SEND_OK };
        void *args[] = { s.pull, &v };
        CHECK_EQ(pthread_create(&thread, NULL, end_claim, args), 0);
        settle(&s, cases[i].committed);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(v.answer, cases[i].answer);
        stand_fini(&s);
    }
}
