/* The exec transport: exit codes, answers, children that crash, hang or leave children behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "transport/exec/exec.h"
#include "world.h"

static struct world w;
static char subjects[64][64];

static size_t add(const char *subject)
{
    size_t i = world_add(&w, "", PR_STR("{}"), WISH_OK);
    snprintf(subjects[i], sizeof(subjects[i]), "%s", subject);
    w.messages[i].subject = slice_from(subjects[i]);
    return i;
}

static size_t descriptors(void)
{
    size_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL)
        count++;
    closedir(d);
    return count;
}

/* A file that the worker left; until the next call. */
static const char *left(const char *name)
{
    static char text[65536];
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", harness_folder(), name);
    FILE *f = fopen(path, "re");
    text[f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

TEST(exec_maps_every_exit_code)
{
    static const struct {
        int code;
        enum send_outcome outcome;
        int reason;
    } table[] = {
        { 0, SEND_OK, 0 },
        { 1, SEND_FAILED, PR_REASON_HANDLER_EXCEPTION },
        { 64, SEND_FAILED, PR_REASON_REJECTED },
        { 65, SEND_FAILED, PR_REASON_VALIDATION_FAILURE },
        { 66, SEND_FAILED, PR_REASON_VALIDATION_FAILURE },
        { 67, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 68, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 69, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE },
        { 70, SEND_FAILED, PR_REASON_HANDLER_EXCEPTION },
        { 71, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 74, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 75, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE },
        { 76, SEND_FAILED, PR_REASON_REJECTED },
        { 77, SEND_FAILED, PR_REASON_UNAUTHORIZED },
        { 78, SEND_FAILED, PR_REASON_REJECTED },
        { 127, SEND_FAILED, PR_REASON_DESTINATION_MISSING },
        { 255, SEND_FAILED, PR_REASON_HANDLER_EXCEPTION },
    };
    world_init(&w, &harness_exec, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        char subject[32];
        snprintf(subject, sizeof(subject), "exit:%d", table[i].code);
        add(subject);
    }
    world_run(&w);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        char code[16];
        snprintf(code, sizeof(code), "%d", table[i].code);
        CHECK_STR(w.results[i].code, table[i].code != 0 ? code : "");
        CHECK_EQ(w.results[i].outcome, table[i].outcome);
        CHECK_EQ(w.results[i].reason, table[i].reason);
    }
    world_fini(&w);
}

TEST(exec_error_ends_with_what_the_program_said)
{
    world_init(&w, &harness_exec, 0);
    add("say:no such customer");
    add("crash");
    world_run(&w);
    CHECK_STR(w.results[0].error, "the program reported 1: no such customer");
    CHECK_EQ(w.results[1].outcome, SEND_UNKNOWN);
    CHECK_STR(w.results[1].code, "SIGKILL");
    world_fini(&w);
}

TEST(exec_gives_the_attributes_and_nothing_of_ours) /* B206 */
{
    setenv("POSTRIDER_STORE", "secret", 1);
    setenv("CE_SUBJECT", "stale", 1);
    setenv("BILLING_KEY", "secret too", 1);
    setenv("BILLING_KEY_NAME", "shown", 1);
    static const char *const used[] = { "BILLING_KEY" };
    world_prepare(&w, &harness_exec, 0);
    w.config.secret_variables = used;
    w.config.secret_variable_count = 1;
    world_open(&w);
    size_t i = add("env");
    w.messages[i].headers = PR_STR("{\"x\":\"1\"}");
    world_run(&w);
    unsetenv("POSTRIDER_STORE");
    unsetenv("CE_SUBJECT");
    unsetenv("BILLING_KEY");
    unsetenv("BILLING_KEY_NAME");
    CHECK(strstr(left("env"), "BILLING_KEY_NAME=shown\n") != NULL);
    CHECK(strstr(left("env"), "CE_SPECVERSION=1.0\n") != NULL);
    CHECK(strstr(left("env"), "CE_SUBJECT=env\n") != NULL);
    CHECK(strstr(left("env"), "CE_DATACONTENTTYPE=application/json\n") != NULL);
    CHECK(strstr(left("env"), "POSTRIDER_HEADERS={\"x\":\"1\"}\n") != NULL);
    CHECK(strstr(left("env"), "secret") == NULL);
    CHECK(strstr(left("env"), "stale") == NULL);
    world_fini(&w);
}

TEST(exec_leaves_no_zombie_and_no_descriptor)
{
    int open_for_all = open("/dev/null", O_RDONLY); /* as other people's libraries do */
    size_t before = descriptors();
    for (int lines = 0; lines < 2; lines++) {
        world_init(&w, lines ? &harness_lines : &harness_exec, 0);
        add("fds");
        add("crash");
        for (size_t i = 0; i < 20; i++)
            add("");
        world_run(&w);
        CHECK_STR(left("fds"), "0 1 2 ");
        world_fini(&w);
    }
    CHECK_EQ(descriptors(), before);
    close(open_for_all);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* Until the program has begun and has a child of its own. */
static void wait_for_family(void)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (left("family")[0] == '\0') {
        CHECK(world_now() < end_us);
        world_poll(&w, PR_MILLISECONDS(5));
    }
}

TEST(exec_kills_the_whole_family_at_the_deadline)
{
    world_init(&w, &harness_exec, 2);
    size_t i = add("family");
    world_submit(&w);
    wait_for_family();
    pid_t grandchild = (pid_t)atoi(left("family"));
    w.deliveries[i].deadline_us = world_now();
    world_collect(&w);
    CHECK_EQ(w.results[i].outcome, SEND_UNKNOWN);
    CHECK_EQ(w.results[i].reason, PR_REASON_TIMEOUT_EXCEEDED);
    /* It is a zombie of somebody else at most: signals find no living one. */
    char path[64], state = 'R';
    int64_t end_us = world_now() + WORLD_WAIT_US;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)grandchild);
    for (FILE *f; state != 'Z' && state != 'X' && (f = fopen(path, "re")) != NULL; fclose(f)) {
        CHECK(world_now() < end_us);
        CHECK_EQ(fscanf(f, "%*d %*s %c", &state), 1);
        usleep(1000);
    }
    world_fini(&w);
}

/* As process 1 of a container, which becomes the parent of what programs leave behind. */
TEST(exec_reaps_what_programs_leave_behind_where_nobody_else_does)
{
    siginfo_t zombie;
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    world_init(&w, &harness_exec, 2);
    size_t i = add("family");
    world_submit(&w);
    wait_for_family();
    w.deliveries[i].deadline_us = world_now();
    world_collect(&w);
    for (int64_t end_us = world_now() + WORLD_WAIT_US;
         waitid(P_ALL, 0, &zombie, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;) {
        CHECK(world_now() < end_us);
        world_poll(&w, PR_MILLISECONDS(5));
    }
    world_fini(&w);
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

/* Its program would be killed for the time in which it had not begun. */
TEST(exec_returns_what_waited_too_long_for_a_program)
{
    world_prepare(&w, &harness_exec, 1);
    w.config.timeout_us = WORLD_SOON_US;
    world_open(&w);
    size_t slow = add("family"), late = add("exit:0");
    world_submit(&w);
    int64_t long_us = world_now() + w.config.timeout_us / 2; /* more than a quarter */
    wait_for_family();
    while (world_now() < long_us)
        world_poll(&w, PR_MILLISECONDS(5));
    w.deliveries[slow].deadline_us = world_now();
    world_collect(&w);
    CHECK_EQ(w.results[slow].reason, PR_REASON_TIMEOUT_EXCEEDED);
    CHECK_EQ(w.results[late].outcome, SEND_RETURNED);
    world_fini(&w);
}

TEST(exec_says_when_there_is_no_such_program)
{
    world_prepare(&w, &harness_exec, 0);
    w.config.url = "exec:/nonexistent/program";
    world_open(&w);
    add("");
    world_run(&w);
    CHECK_EQ(w.results[0].reason, PR_REASON_DESTINATION_MISSING);
    CHECK_STR(w.results[0].code, "ENOENT");
    CHECK_STR(w.results[0].error, "/nonexistent/program: No such file or directory");
    world_fini(&w);
}

TEST(exec_does_not_run_where_ends_are_forgotten)
{
    struct endpoint_config config = { .name = "x", .url = "exec:true", .wake_fd = -1 };
    struct transport transport = { 0 };
    struct pr_error error;

    signal(SIGCHLD, SIG_IGN);
    int rc = transport_open(&config, &transport, &error);
    signal(SIGCHLD, SIG_DFL);
    CHECK_EQ(rc, PR_ECONFIG);
    CHECK_OK(transport_open(&config, &transport, &error), &error);
    transport_close(&transport);
}

TEST(exec_lines_answer_in_words)
{
    static const struct {
        const char *answer;
        enum send_outcome outcome;
        int reason;
    } table[] = {
        { "say:ok", SEND_OK, 0 },
        { "say:{}", SEND_OK, 0 },
        { "say:{\"reason\":\"rate_limited\",\"retry_after\":2.5}", SEND_FAILED, PR_REASON_RATE_LIMITED },
        { "say:{\"error\":\"no\"}", SEND_FAILED, PR_REASON_HANDLER_EXCEPTION },
        { "say:{\"reason\":\"nonsense\"}", SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION },
        { "say:{\"id\":\"another\"}", SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION },
        { "say:debug output", SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION },
        { "exit:3", SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION },
        { "", SEND_OK, 0 },
        { "say:{\"reason\":\"rejected\",\"error\":\"bad\\u0000byte\"}", SEND_FAILED, PR_REASON_REJECTED },
        { "say:{\"reason\":\"rejected\\u0000\"}", SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION },
    };
    world_init(&w, &harness_lines, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        add(table[i].answer);
    world_run(&w);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        CHECK_EQ(w.results[i].outcome, table[i].outcome);
        CHECK_EQ(w.results[i].reason, table[i].reason);
    }
    CHECK_EQ(w.results[2].retry_after_us, PR_MILLISECONDS(2500));
    CHECK(strstr(w.results[9].error, "byte") != NULL); /* and what is behind the NUL is not lost either */
    CHECK_STR(w.results[7].code, "3");
    world_fini(&w);
}

/* How many programs there were: they are in the names of what they kept. */
static size_t programs(void)
{
    char seen[64][16];
    size_t count = 0;
    DIR *d = opendir(harness_folder());
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char pid[16];
        size_t i = 0;
        if (sscanf(e->d_name, "%*[^.].%15[0-9]", pid) != 1)
            continue;
        while (i < count && strcmp(seen[i], pid) != 0)
            i++;
        if (i == count)
            snprintf(seen[count++], sizeof(seen[0]), "%s", pid);
    }
    closedir(d);
    return count;
}

/* Only the message in its hands; the next one finds a new program. */
TEST(exec_crash_of_a_program_of_lines_costs_one_message)
{
    world_init(&w, &harness_lines, 1);
    for (size_t i = 0; i < 30; i++)
        add(i == 10 ? "crash" : "");
    world_run(&w);
    for (size_t i = 0; i < 30; i++)
        CHECK_EQ(w.results[i].outcome, i == 10 ? SEND_UNKNOWN : SEND_OK);
    CHECK_EQ(programs(), 2);
    world_fini(&w);
}

/* The second answer must not become that of the next message. */
TEST(exec_ends_a_program_of_lines_that_answers_twice)
{
    world_init(&w, &harness_lines, 1);
    add("twice");
    add("fail");
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    CHECK_EQ(w.results[1].reason, PR_REASON_VALIDATION_FAILURE);
    CHECK_EQ(programs(), 2);
    world_fini(&w);
}

TEST(exec_reads_words_as_they_are_quoted)
{
    static const struct {
        const char *url, *why;
    } table[] = {
        { "exec:", "the program is missing" },
        { "exec:  ?mode=lines", "the program is missing" },
        { "exec:a 'b", "unbalanced quote in the url" },
        { "exec:a?mode=line", "mode must be message or lines" },
    };
    struct pr_error error;
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct endpoint_config config = { .name = "x", .url = table[i].url };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, table[i].why) != NULL);
    }
    world_prepare(&w, &harness_exec, 0);
    w.config.url = "exec:sh -c 'test \"$0 $1\" = \"a b c\\d\" || { echo \"$0|$1\"; exit 1; }' \"a b\" c\\\\d";
    world_open(&w);
    add("");
    world_run(&w);
    CHECK_STR(w.results[0].error, NULL);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    world_fini(&w);
}
