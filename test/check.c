/* check.c - the main program of every test binary, on top of cmocka. */
#include "check.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOW_SECONDS 0.2 /* tests that take longer say so */

/* One test of the running group.  cmocka prints the name after the test has ended, so a
 * skipped test says "name # SKIP why" there: cmocka's own skip line is "not ok".  So does a slow one: "name # 1.23 s". */
struct check_case {
    const struct check_test *test;
    struct CMUnitTest *unit;
    char said[256];
};

/* The sanitizers ask for these by name.  Tests ask for memory that does not exist. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1";
}

static struct check_case *current;
static jmp_buf skip_target;

static struct check_test *tests;
static struct check_test **tests_end = &tests;

void check_register(struct check_test *test)
{
    *tests_end = test;
    tests_end = &test->next;
}

_Noreturn void check_fail(const char *file, int line, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *line_end; (line_end = strchr(text, '\n')) != NULL;)
        *line_end = ' ';
    printf("# %s: %s\n", current->test->name, text);
    _fail(file, line);
    abort(); /* _fail jumps */
}

_Noreturn void check_skip(const char *file, int line, const char *why)
{
    (void)file;
    (void)line;
    snprintf(current->said, sizeof(current->said), "%s # SKIP %s", current->test->name, why);
    current->unit->name = current->said;
    longjmp(skip_target, 1);
}

void check_eq(const char *file, int line, const char *a_text, const char *b_text, intmax_t a, intmax_t b)
{
    if (a != b)
        check_fail(file, line, "%s is %" PRIdMAX ", not %s (%" PRIdMAX ")", a_text, a, b_text, b);
}

void check_str(const char *file, int line, const char *a_text, const char *a, const char *b)
{
    if (a == NULL || b == NULL ? a != b : strcmp(a, b) != 0)
        check_fail(file, line, "%s is \"%s\", not \"%s\"", a_text, a != NULL ? a : "(NULL)", b != NULL ? b : "(NULL)");
}

void check_slice(const char *file, int line, const char *a_text, pr_slice a, pr_slice b)
{
    if (a.size != b.size || (a.size > 0 && memcmp(a.data, b.data, a.size) != 0))
        check_fail(file, line, "%s is \"%.*s\" (%zu bytes), not \"%.*s\" (%zu bytes)", a_text, (int)a.size,
                   a.data != NULL ? a.data : "", a.size, (int)b.size, b.data != NULL ? b.data : "", b.size);
}

void check_ok(const char *file, int line, const char *text, int rc, const struct pr_error *error)
{
    if (rc != PR_OK)
        check_fail(file, line, "%s is %d: %s", text, rc, error != NULL && rc < 0 ? error->text : "");
}

pr_slice check_slice_from_cstr(const char *text)
{
    return (pr_slice){ text, text == NULL ? 0 : strlen(text) };
}

pr_slice check_slice_from_slice(pr_slice slice)
{
    return slice;
}

bool check_aborts(void (*f)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = { 0, 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        close(STDERR_FILENO);
        f(arg);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail();
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static double seconds_of(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void check_run(void **state)
{
    current = *state;
    double began = seconds_of(CLOCK_MONOTONIC), worked = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (setjmp(skip_target) != 0)
        return;
    current->test->run();
    double took = seconds_of(CLOCK_MONOTONIC) - began;
    if (took < SLOW_SECONDS)
        return;
    snprintf(current->said, sizeof(current->said), "%s # %.2f s, %.2f s of this process", current->test->name, took,
             seconds_of(CLOCK_PROCESS_CPUTIME_ID) - worked);
    current->unit->name = current->said;
}

/* The words of the command line; without any every test is meant. */
struct check_words {
    char **words;
    int count;
};

static bool check_is_meant(const struct check_words *words, const char *name)
{
    bool meant = words->count == 0;
    for (int i = 0; i < words->count && !meant; i++)
        meant = strstr(name, words->words[i]) != NULL;
    return meant;
}

static size_t check_count(const struct check_words *words)
{
    size_t count = 0;
    for (const struct check_test *test = tests; test != NULL; test = test->next)
        count += check_is_meant(words, test->name);
    return count;
}

static int check_run_all(const struct check_words *words, size_t count, struct check_case *cases,
                         struct CMUnitTest *units)
{
    size_t i = 0;
    for (const struct check_test *test = tests; test != NULL; test = test->next) {
        if (!check_is_meant(words, test->name))
            continue;
        cases[i] = (struct check_case){ .test = test, .unit = &units[i] };
        units[i] = (struct CMUnitTest){ .name = test->name, .test_func = check_run, .initial_state = &cases[i] };
        i++;
    }
    return _cmocka_run_group_tests("tests", units, count, NULL, NULL);
}

int main(int argc, char **argv)
{
    const struct check_words words = { argv + 1, argc - 1 };
    for (int i = 0; i < words.count; i++)
        if (check_count(&(struct check_words){ &words.words[i], 1 }) == 0) {
            fprintf(stderr, "no test is called like \"%s\"\n", words.words[i]);
            return 2;
        }
    size_t count = check_count(&words);
    struct check_case *cases = calloc(count, sizeof(*cases));
    struct CMUnitTest *units = calloc(count, sizeof(*units));
    if (cases == NULL || units == NULL)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow what went before */
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = check_run_all(&words, count, cases, units);
    free(units);
    free(cases);
    return failed == 0 ? 0 : 1;
}
