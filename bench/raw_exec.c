/* exec: programs that run on, each with one line at a time. */
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "carrier.h"
#include "raw_line.h"

#define WORKERS 4 /* as many as an endpoint has when nobody says otherwise */

extern char **environ;

/* Says "ok" to each line at once. */
static const char *const program[] = { "stdbuf", "-oL", "sed", "s/.*/ok/", NULL };

struct raw_worker {
    pid_t pid;
    int fd; /* both ways */
};

static const char *exec_open(struct site *site)
{
    if (!server_is_installed("stdbuf") || !server_is_installed("sed"))
        return "stdbuf or sed is not installed";
    snprintf(site->sink, sizeof site->sink, "{url: \"exec:%s %s %s %s?mode=lines\", source: " CARRIER_SOURCE "}",
             program[0], program[1], program[2], program[3]);
    return NULL;
}

static void exec_close(struct site *site)
{
    (void)site;
}

static void worker_start(struct raw_worker *w)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        die("cannot make a pair of sockets");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (posix_spawnp(&w->pid, program[0], &actions, NULL, (char *const *)(uintptr_t)program, environ) != 0)
        die("cannot start %s", program[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    w->fd = ends[0];
}

static void worker_stop(struct raw_worker *w)
{
    close(w->fd);
    waitpid(w->pid, NULL, 0);
}

static void worker_tell(const struct raw_worker *w)
{
    char line[RAW_LINE_MAX];
    size_t size = raw_line_make(line);
    if (write(w->fd, line, size) != (ssize_t)size)
        die("a program takes no line");
}

static void worker_hear(const struct raw_worker *w)
{
    char answer[16];
    ssize_t got = read(w->fd, answer, sizeof answer);
    if (got != 3 || memcmp(answer, "ok\n", 3) != 0)
        die("a program does not answer");
}

static double exec_raw_rate(struct site *site, size_t count)
{
    struct raw_worker workers[WORKERS];
    struct pollfd fds[WORKERS];
    size_t told = WORKERS, heard = 0;
    (void)site;
    for (size_t i = 0; i < WORKERS; i++) {
        worker_start(&workers[i]);
        fds[i] = (struct pollfd){ .fd = workers[i].fd, .events = POLLIN };
    }
    double begin = seconds_now();
    for (size_t i = 0; i < WORKERS; i++)
        worker_tell(&workers[i]);
    while (heard < count) {
        if (poll(fds, WORKERS, -1) < 0)
            die("cannot wait for programs");
        for (size_t i = 0; i < WORKERS; i++) {
            if (fds[i].revents == 0)
                continue;
            worker_hear(&workers[i]);
            heard++;
            if (told++ < count)
                worker_tell(&workers[i]);
        }
    }
    double rate = (double)count / (seconds_now() - begin);
    for (size_t i = 0; i < WORKERS; i++)
        worker_stop(&workers[i]);
    return rate;
}

const struct carrier carrier_exec = {
    .name = "transport_exec",
    .raw_name = "raw_exec",
    .messages = 100000,
    .open = exec_open,
    .close = exec_close,
    .raw_rate = exec_raw_rate,
};
