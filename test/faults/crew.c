#include "crew.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_US PR_SECONDS(90)
#define STOP_US PR_SECONDS(10) /* B14 */

/* ---- The place -------------------------------------------------------------------------------- */

static void path_of(const struct crew *c, const char *name, char ret[512])
{
    snprintf(ret, 512, "%s/%s", c->place.dir, name);
}

void crew_configure(const struct crew *c, const struct crew_setting *s)
{
    char path[512];
    path_of(c, "config.yaml", path);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fprintf(file, "store: \"%s?%s\"\n%sendpoints: {all: {url: \"handler:*\", breaker: off, %s}}\n", c->place.url,
            s->options != NULL ? s->options : "busy=10s", s->root != NULL ? s->root : "", s->endpoint);
    CHECK_EQ(fclose(file), 0);
}

static void crew_settle(struct crew *c, const struct crew_setting *setting)
{
    char path[512];
    path_of(c, "deaths", path);
    c->deaths = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    CHECK(c->deaths >= 0);
    crew_configure(c, setting);
}

void crew_init_empty(struct crew *c, const struct crew_setting *setting)
{
    memset(c, 0, sizeof *c);
    place_init_empty(&c->place);
    crew_settle(c, setting);
}

void crew_init(struct crew *c, const struct crew_setting *setting)
{
    memset(c, 0, sizeof *c);
    place_init(&c->place);
    place_do(&c->place, "CREATE TABLE app (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, stream TEXT, "
                        "digest TEXT, type TEXT)");
    crew_settle(c, setting);
}

void crew_fini(struct crew *c)
{
    for (size_t i = 0; i < CREW_MAX; i++)
        if (c->members[i] > 0)
            crew_kill(c, c->members[i]);
    close(c->deaths);
    if (getenv("FAULTS_KEEP") == NULL)
        place_fini(&c->place);
}

void crew_touch(const struct crew *c, const char *name)
{
    char path[512];
    path_of(c, name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

void crew_remove(const struct crew *c, const char *name)
{
    char path[512];
    path_of(c, name, path);
    CHECK_EQ(unlink(path), 0);
}

/* ---- Processes ----------------------------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
    char text[32];
    snprintf(text, sizeof text, "%d", value);
    if (value != 0)
        setenv(name, text, 1);
}

_Noreturn static void become(const struct crew *c, const struct crew_order *o)
{
    const char *program = getenv("FAULTS_PROGRAM");
    char seed[32], path[512];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
    if (o->fail_point != NULL)
        setenv("POSTRIDER_FAILPOINT", o->fail_point, 1);
    set_number("FAULTS_SIGNAL", o->signal);
    set_number("FAULTS_AFTER", o->signal_after);
    if (o->failing_disk)
        setenv("FAULTS_VFS", "1", 1);
    path_of(c, "errors", path); /* what a dying process says is not part of the test's output */
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (program == NULL || fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(126);
    execl(program, program, o->role, c->place.dir, strcmp(o->role, "produce") == 0 ? seed : (char *)NULL, (char *)NULL);
    _exit(127);
}

pid_t crew_start(struct crew *c, const struct crew_order *order)
{
    size_t slot = 0;
    while (slot < CREW_MAX && c->members[slot] != 0)
        slot++;
    CHECK(slot < CREW_MAX);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        become(c, order);
    c->members[slot] = pid;
    return pid;
}

pid_t crew_work(struct crew *c)
{
    return crew_start(c, &(struct crew_order){ .role = "work" });
}

/* Dying on purpose (a handler that overran, a crash) is a death as well. */
static void note_death(struct crew *c, pid_t pid, int status)
{
    char line[32];
    int size = snprintf(line, sizeof line, "K %d\n", (int)pid);
    for (size_t i = 0; i < CREW_MAX; i++)
        if (c->members[i] == pid)
            c->members[i] = 0;
    if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0)
        CHECK_EQ(write(c->deaths, line, (size_t)size), size);
    c->killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static pid_t reap(struct crew *c, pid_t which, int64_t timeout_us, int *ret_status)
{
    int64_t deadline_us = test_now_us() + timeout_us;
    for (;;) {
        pid_t pid = waitpid(which, ret_status, WNOHANG);
        CHECK(pid >= 0 || errno == ECHILD);
        if (pid > 0) {
            note_death(c, pid, *ret_status);
            return pid;
        }
        if (test_now_us() >= deadline_us)
            return 0;
        test_pause();
    }
}

pid_t crew_reap(struct crew *c, int64_t timeout_us, int *ret_status)
{
    return reap(c, -1, timeout_us, ret_status);
}

int crew_wait(struct crew *c, pid_t pid, int64_t timeout_us)
{
    int status = 0;
    if (reap(c, pid, timeout_us, &status) == 0)
        check_fail(__FILE__, __LINE__, "process %d has not ended after %lld ms", (int)pid,
                   (long long)timeout_us / 1000);
    return status;
}

void crew_kill(struct crew *c, pid_t pid)
{
    kill(pid, SIGKILL);
    crew_wait(c, pid, WAIT_US);
}

void crew_end(struct crew *c, pid_t pid)
{
    kill(pid, SIGTERM);
    int status = crew_wait(c, pid, STOP_US);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        check_fail(__FILE__, __LINE__, "process %d ended with status 0x%x after SIGTERM", (int)pid, (unsigned)status);
}

/* ---- What they did ------------------------------------------------------------------------------- */

int crew_lines(const struct crew *c, const char *file, const char *word, const char *word2)
{
    char path[512], line[8192];
    int count = 0;
    path_of(c, file, path);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        count += strstr(line, word) != NULL && strstr(line, word2) != NULL;
    if (f != NULL)
        fclose(f);
    return count;
}

void crew_wait_lines(const struct crew *c, const char *file, const char *word, const char *word2, int count)
{
    int64_t deadline_us = test_now_us() + WAIT_US;
    while (crew_lines(c, file, word, word2) < count) {
        if (test_now_us() > deadline_us)
            check_fail(__FILE__, __LINE__, "%s has %d lines with \"%s\" and \"%s\" after 30 s, not %d", file,
                       crew_lines(c, file, word, word2), word, word2, count);
        test_pause();
    }
}

int crew_ask_checker(const struct crew *c, int max_attempts, char *ret_text, size_t size)
{
    char command[1200];
    snprintf(command, sizeof command, "'%s' '%s' %d", getenv("FAULTS_CHECKER"), c->place.dir, max_attempts);
    FILE *out = popen(command, "r");
    CHECK(out != NULL);
    ret_text[fread(ret_text, 1, size - 1, out)] = '\0';
    while (fgetc(out) != EOF) /* what does not fit */
        ;
    return pclose(out);
}

void crew_judge(const struct crew *c, int max_attempts)
{
    char text[1600];
    int status = crew_ask_checker(c, max_attempts, text, sizeof text);
    if (status != 0)
        check_fail(__FILE__, __LINE__, "%s: %s", c->place.dir, text);
    printf("# %s", text);
}
