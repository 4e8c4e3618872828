/* Flows whose processes die: by an activity, by a turn, or at any point in between.  Real processes, under a supervisor that
 * starts them again. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crowd.h"

#define MAX_ATTEMPTS 5
#define DEATHS_MAX 60
#define HEALTHY 100

struct killed {
    struct crowd crowd;
    char calls[160]; /* a file: see worker.c */
    const char *more;
    pid_t worker;
    int deaths;
};

static void worker_start(struct killed *k, const char *fail_point)
{
    k->worker = fork();
    CHECK(k->worker >= 0);
    if (k->worker != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fail_point != NULL)
        setenv("POSTRIDER_FAILPOINT", fail_point, 1);
    execl(getenv("FLOW_WORKER"), "flow-worker", k->crowd.stand.url, k->calls, k->more, (char *)NULL);
    _exit(127);
}

static void worker_end(struct killed *k)
{
    int status;
    kill(k->worker, SIGKILL);
    CHECK_EQ(waitpid(k->worker, &status, 0), k->worker);
    k->worker = 0;
}

static void killed_init(struct killed *k, const char *more)
{
    memset(k, 0, sizeof *k);
    crowd_init(&k->crowd);
    k->more = more;
    snprintf(k->calls, sizeof k->calls, "/tmp/flow-calls-%ld-%p", (long)getpid(), (void *)k);
    unlink(k->calls);
}

static void killed_fini(struct killed *k)
{
    if (k->worker != 0)
        worker_end(k);
    unlink(k->calls);
    crowd_fini(&k->crowd);
}

struct numbers {
    int running, ended;
};

static int count_flow(void *arg, const struct pr_flow_status *flow)
{
    struct numbers *n = arg;
    ++*(flow->state == PR_FLOW_RUNNING ? &n->running : &n->ended);
    return PR_OK;
}

/* One look: of two, the second would know of flows that had not begun in the first. */
static struct numbers count_flows(struct killed *k)
{
    struct numbers n = { 0 };
    struct pr_error error;
    const struct pr_flow_query query = { .max = 10000 };
    CHECK_OK(pr_flow_list(k->crowd.client, &query, count_flow, &n, &error), &error);
    return n;
}

/* Start the worker whenever it has died, until so many flows have ended and none runs. */
static void supervise(struct killed *k, int ended)
{
    int64_t deadline_us = test_now_us() + PR_SECONDS(90);
    int status;
    for (;;) {
        struct numbers n = count_flows(k);
        if (n.ended >= ended && n.running == 0)
            return;
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "of %d flows %d have ended and %d run", ended, n.ended, n.running);
        if (k->worker == 0)
            worker_start(k, NULL);
        if (waitpid(k->worker, &status, WNOHANG) == k->worker) {
            CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 70); /* the watchdog's */
            CHECK(++k->deaths <= DEATHS_MAX);
            k->worker = 0;
        }
        test_pause();
    }
}

/* Lines that begin so. */
static int calls_of(const struct killed *k, const char *what)
{
    char line[512];
    int count = 0;
    FILE *file = fopen(k->calls, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strncmp(line, what, strlen(what)) == 0;
    if (file != NULL)
        fclose(file);
    return count;
}

static void begin_healthy(struct killed *k)
{
    char id[32];
    for (int i = 0; i < HEALTHY; i++) {
        snprintf(id, sizeof id, "healthy-%d", i);
        crowd_begin(&k->crowd, "plain", id, id);
    }
}

static void check_healthy(struct killed *k)
{
    char id[32];
    for (int i = 0; i < HEALTHY; i++) {
        snprintf(id, sizeof id, "healthy-%d", i);
        CHECK_STR(crowd_end(&k->crowd, id, PR_FLOW_COMPLETED), id);
    }
}

static const char quick_lease[] = "lease: 300ms\n";

TEST(an_activity_that_kills_its_worker_is_a_failed_result) /* B140, B141, B142, B143, B145, B146, B147 */
{
    struct killed k;
    killed_init(&k, quick_lease);
    crowd_begin(&k.crowd, "compensates", "saga", "");
    begin_healthy(&k);
    supervise(&k, HEALTHY + 1);
    CHECK_STR(crowd_end(&k.crowd, "saga", PR_FLOW_COMPLETED),
              "poison: poison: activity deadly#1 exceeded 6 attempts (max 5)");
    CHECK_EQ(calls_of(&k, "deadly "), MAX_ATTEMPTS); /* it runs at the limit, and not beyond */
    CHECK_EQ(k.deaths, MAX_ATTEMPTS);
    check_healthy(&k);
    CHECK_EQ(stand_int(&k.crowd.stand, "SELECT count(*) FROM {dead}"), 1);
    CHECK_EQ(stand_int(&k.crowd.stand, "SELECT count(*) FROM {dead} WHERE type = 'deadly' AND box = 'activities'"), 1);
    CHECK_EQ(stand_int(&k.crowd.stand, "SELECT count(*) FROM activities"), 0);
    killed_fini(&k);
}

TEST(a_flow_whose_turn_kills_its_worker_ends_as_failed) /* B140, B141, B142, B144, B146, B147 */
{
    struct killed k;
    killed_init(&k, quick_lease);
    crowd_begin(&k.crowd, "parent", "above", "later");
    begin_healthy(&k);
    supervise(&k, HEALTHY + 2);
    CHECK_STR(crowd_end(&k.crowd, "child", PR_FLOW_FAILED), "poison: flow child exceeded 6 attempts (max 5)");
    CHECK_STR(crowd_end(&k.crowd, "above", PR_FLOW_COMPLETED), "poison: flow child exceeded 6 attempts (max 5)");
    CHECK_EQ(k.deaths, MAX_ATTEMPTS);
    check_healthy(&k);
    CHECK_EQ(stand_int(&k.crowd.stand, "SELECT count(*) FROM {dead} WHERE box = 'turns' AND stream = 'child'"), 1);
    stand_wait(&k.crowd.stand, "SELECT count(*) FROM activities", 0); /* what was open went with it */
    struct pr_error error;
    struct pr_flow_status status;
    CHECK_EQ(pr_flow_status(k.crowd.client, "child", &status, &error), PR_OK);
    CHECK_EQ(status.category, PR_CATEGORY_POISON);
    CHECK(strstr(crowd_text(status.error_json), "\"kind\":\"flow\"") != NULL);
    CHECK(strstr(crowd_text(status.error_json), "\"content\":{") != NULL);
    pr_flow_status_free(&status);
    killed_fini(&k);
}

TEST(a_flow_whose_very_first_message_is_poison_ends_as_failed) /* B144 */
{
    struct killed k;
    killed_init(&k, quick_lease);
    crowd_begin(&k.crowd, "suicidal", "first", "now");
    supervise(&k, 1);
    CHECK_STR(crowd_end(&k.crowd, "first", PR_FLOW_FAILED), "poison: flow first exceeded 6 attempts (max 5)");
    CHECK_EQ(k.deaths, MAX_ATTEMPTS);
    CHECK_STR(crowd_events(&k.crowd, "first"), "started, failed");
    killed_fini(&k);
}

TEST(an_endless_turn_and_an_endless_activity_are_poison_too) /* B140 */
{
    struct killed k;
    killed_init(&k, "lease: 300ms\nflows: {turn_timeout: 100ms, activity_timeout: 100ms, max_attempts: 1}\n");
    crowd_begin(&k.crowd, "suicidal", "turn", "loop");
    supervise(&k, 1);
    CHECK_STR(crowd_end(&k.crowd, "turn", PR_FLOW_FAILED), "poison: flow turn exceeded 2 attempts (max 1)");
    crowd_begin(&k.crowd, "compensates", "activity", "loop");
    supervise(&k, 2);
    CHECK_STR(crowd_end(&k.crowd, "activity", PR_FLOW_COMPLETED),
              "poison: poison: activity deadly#1 exceeded 2 attempts (max 1)");
    killed_fini(&k);
}

TEST(timers_outlive_the_process_that_began_them_and_the_one_that_saw_them_fire) /* B101, B163 */
{
    struct killed k;
    killed_init(&k, quick_lease);
    crowd_begin(&k.crowd, "naps", "nap", "woke");
    worker_start(&k, NULL);
    stand_wait(&k.crowd.stand, "SELECT count(*) FROM turns WHERE type = 'timer'", 3);
    worker_end(&k); /* before they are due */
    CHECK_EQ(count_flows(&k).running, 1);
    worker_start(&k, NULL);
    stand_wait(&k.crowd.stand, "SELECT count(*) FROM turns WHERE type = 'timer'", 0);
    worker_end(&k); /* after they fired, whatever has become of the work behind them */
    supervise(&k, 1);
    CHECK_STR(crowd_end(&k.crowd, "nap", PR_FLOW_COMPLETED), "woke");
    CHECK_STR(crowd_events(&k.crowd, "nap"),
              "started, timer, timer, timer, fired, fired, fired, activity echo, result, completed");
    killed_fini(&k);
}

/* ---- At any point -------------------------------------------------------------------------------------------- */

TEST(a_crash_at_any_point_loses_nothing_and_records_each_result_once) /* B163 */
{
    static const char *const points[] = { "runtime.before_cycle",      "runtime.after_cycle",
                                          "runtime.before_send",       "runtime.after_send",
                                          "store.cycle.before_commit", "store.cycle.after_commit" };
    struct killed k;
    int flows = 0;
    killed_init(&k, quick_lease);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        for (int at = 1; at <= 13; at += 3) {
            char point[96], id[64];
            snprintf(point, sizeof point, "%s:%d", points[i], at);
            snprintf(id, sizeof id, "f-%zu-%d", i, at);
            crowd_begin(&k.crowd, "steps", id, "x");
            k.deaths = 0;
            worker_start(&k, point);
            supervise(&k, flows += 2); /* its child, too */
            CHECK(k.deaths <= 1);
            CHECK_STR(crowd_end(&k.crowd, id, PR_FLOW_COMPLETED), "done");
            const char *events = crowd_events(&k.crowd, id);
            CHECK(strcmp(events, "started, activity echo, result, timer, fired, activity echo, child plain, result, "
                                 "child_end, completed") == 0 ||
                  strcmp(events, "started, activity echo, result, timer, fired, activity echo, child plain, child_end, "
                                 "result, completed") == 0);
            snprintf(point, sizeof point, "echo %s ", id);
            CHECK(calls_of(&k, point) >= 2 && calls_of(&k, point) <= 3);
            worker_end(&k);
        }
    killed_fini(&k);
}
