/* A fault leaves a line in the log, and the process still ends by its signal. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "check.h"
#include "runtime/threads/crash.h"
#include "runtime/threads/thread.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true /* whose handlers stay */
#else
#define SANITIZED false
#endif

/* Read at run time, so that no compiler sees what is wrong with it. */
static volatile uintptr_t nowhere = 8;

static void touch_nothing(void)
{
    *(volatile int *)nowhere = 1;
}

static void do_abort(void)
{
    abort();
}

static int deeper(volatile char *above)
{
    volatile char here[4096];
    here[0] = above != NULL ? above[0] : 0;
    return here[0] == 1 ? 0 : deeper(here) + here[0]; /* it never is */
}

static void fill_the_stack(void)
{
    printf("%d", deeper(NULL));
}

static void send_it(void)
{
    raise(SIGFPE);
}

static const struct fault_case {
    void (*fault)(void);
    int signal;
    const char *name;
} cases[] = { { touch_nothing, SIGSEGV, "SIGSEGV" },
              { do_abort, SIGABRT, "SIGABRT" },
              { fill_the_stack, SIGSEGV, "SIGSEGV" },
              { send_it, SIGFPE, "SIGFPE" } };

static const char *endpoint; /* NULL: a thread that does not send */

static void *run(void *arg)
{
    const struct fault_case *c = arg;
    struct crash_thread t;
    if (endpoint != NULL)
        crash_thread_begin(&t, endpoint);
    pthread_setname_np(pthread_self(), "box"); /* whoever starts a thread may name it too late for us */
    c->fault();
    crash_thread_end();
    return NULL;
}

/* The line of a child that dies like this. */
static void die(const struct fault_case *c, enum log_format format, char ret[2048])
{
    int pipes[2], status;
    CHECK_EQ(pipe(pipes), 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct rlimit none = { 0, 0 };
        struct pr_error error;
        pthread_t thread;
        setrlimit(RLIMIT_CORE, &none);
        if (!SANITIZED) /* cmocka has handlers of its own */
            for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
                signal(cases[i].signal, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        crash_report_to(pipes[1], format);
        if (thread_start(&thread, THREAD_STACK_SEND, "box", run, (void *)(uintptr_t)c, &error) == PR_OK)
            pthread_join(thread, NULL);
        _exit(0);
    }
    close(pipes[1]);
    size_t size = 0;
    ssize_t got;
    while ((got = read(pipes[0], ret + size, 2047 - size)) > 0)
        size += (size_t)got;
    ret[size] = '\0';
    close(pipes[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), c->signal);
}

static void check_has(const char *line, const char *text)
{
    CHECK_STR(strstr(line, text) != NULL ? text : line, text);
}

TEST(crash_of_a_sender_names_its_endpoint_in_the_log) /* B206 */
{
    char line[2048], want[64];
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (SANITIZED && cases[i].signal != SIGABRT)
            continue;
        endpoint = "an-endpoint-with-a-long-name";
        die(&cases[i], LOG_LOGFMT, line);
        snprintf(want, sizeof(want), "signal=\"%s\"", cases[i].name);
        check_has(line, "time=20");
        check_has(line, " level=error event=crash ");
        check_has(line, want);
        check_has(line, "endpoint=\"an-endpoint-with-a-long-name\"");
        check_has(line, "counts as an attempt");
        CHECK(strchr(line, '\n') == line + strlen(line) - 1);
    }
}

TEST(crash_in_another_thread_names_the_thread_in_json) /* B206 */
{
    char line[2048];
    endpoint = NULL;
    die(&cases[1], LOG_JSON, line);
    CHECK(strncmp(line, "{\"time\":\"20", 11) == 0);
    check_has(line, ",\"level\":\"error\",\"event\":\"crash\",\"signal\":\"SIGABRT\",\"thread\":\"box\",");
    CHECK_STR(line + strlen(line) - 3, "\"}\n");
}
