/* A relay beside those who send: the box loop obeys policy/courtesy.h, and loses nothing by it. */
#include <time.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "policy/courtesy.h"
#include "runtime/program.h"
#include "runtime/relay.h"

#define MESSAGES 6000
#define CONFIG "store: \"memory:\"\nbatch: 60\nendpoints: {e: {url: \"null:\"}}\n" /* so about a hundred cycles */
#define SENT_EACH 3   /* between two cycles, by others: far fewer than are drained */
#define CYCLE_US 2000 /* a server far away */
#define WAIT_US PR_SECONDS(60)

/* The memory store, as if it were one that tells how much comes in. */
static struct {
    int64_t drawn, ended_us, took_us;
    int cycles, rests; /* of the outbox */
} telling;

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

static int telling_cycle(void *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                         struct pr_error *reterr)
{
    static struct cycle_reply told;
    if (!slice_eq(cycle->box, PR_STR("outbox")))
        return store_memory.cycle(session, cycle, ret_reply, reterr);
    int64_t begun_us = now_us();
    telling.cycles++;
    telling.rests += telling.ended_us > 0 && begun_us - telling.ended_us >= telling.took_us * COURTESY_SHARE_MAX;
    nanosleep(&(struct timespec){ .tv_nsec = CYCLE_US * 1000 }, NULL);
    int rc = store_memory.cycle(session, cycle, ret_reply, reterr);
    if (rc == PR_OK) {
        told = **ret_reply;
        telling.drawn += SENT_EACH;
        told.drawn = MESSAGES + telling.drawn;
        *ret_reply = &told;
    }
    telling.ended_us = now_us();
    telling.took_us = telling.ended_us - begun_us;
    return rc;
}

static void no_fault(void *arg, const struct pr_error *fault)
{
    (void)arg;
    check_fail(__FILE__, __LINE__, "%s", fault->text);
}

static void fill(struct store *store)
{
    static struct pr_message messages[MESSAGES];
    static pr_id ids[MESSAGES];
    struct pr_error error;
    for (size_t i = 0; i < MESSAGES; i++)
        messages[i] = (struct pr_message){ .type = PR_STR("t"), .destination = PR_STR("e") };
    CHECK_OK(store_enqueue(store, PR_STR("outbox"), messages, MESSAGES, 1000, ids, NULL, &error), &error);
}

TEST(while_others_send_a_backlog_is_drained_with_rests_between_the_cycles)
{
    static const struct program program;
    static struct store_ops ops;
    struct store store;
    struct config *config;
    struct relay *relay;
    struct pr_engine_counts counts = { 0 };
    struct pr_error error;

    CHECK_OK(config_load_text(PR_STR(CONFIG), "test", &config, &error), &error);
    CHECK_OK(store_open(&(struct store_options){ .url = "memory:", .payload_max = 1000 }, &store, &error), &error);
    ops = *store.ops;
    ops.cycle = telling_cycle;
    store.ops = &ops;
    CHECK_OK(store_migrate(&store, NULL, 0, &error), &error);
    fill(&store);
    struct relay_options options = { .config = config, .program = &program, .store = &store, .on_fault = no_fault };
    CHECK_OK(relay_new(&options, &relay, &error), &error);
    CHECK_OK(relay_start(relay, &error), &error);
    CHECK_EQ(relay_drain(relay, WAIT_US), PR_OK);
    relay_counts(relay, &counts);
    CHECK_EQ(counts.sent, MESSAGES);
    CHECK_EQ(relay_stop(relay, WAIT_US), PR_OK);
    relay_free(relay);
    store_close(&store);
    config_free(config);
    CHECK(telling.rests > telling.cycles / 4); /* the first ones are for finding out */
}
