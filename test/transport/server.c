#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "check.h"

#define START_US PR_SECONDS(120)
#define PORT_MIN 10000
#define PORT_COUNT 20000

static struct sockaddr_in loopback(unsigned port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

/* Below those that the system gives to whoever asks for any: nobody gets it before its server is up. */
unsigned server_free_port(void)
{
    for (;;) {
        uint16_t number;
        CHECK_EQ(getrandom(&number, sizeof(number), 0), sizeof(number));
        unsigned port = PORT_MIN + number % PORT_COUNT;
        struct sockaddr_in address = loopback(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        bool free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
        if (free)
            return port;
    }
}

void server_prepare(struct server *s)
{
    *s = (struct server){ .port = server_free_port() };
    const char *parent = getenv("TMPDIR");
    snprintf(s->folder, sizeof(s->folder), "%s/postrider-test-XXXXXX", parent != NULL ? parent : "/tmp");
    CHECK(mkdtemp(s->folder) != NULL);
    CHECK_EQ(chmod(s->folder, 0755), 0); /* some servers leave root's rights behind */
}

void server_arg(struct server *s, const char *format, ...)
{
    va_list args;
    CHECK(s->arg_count < SERVER_ARGS_MAX - 1);
    va_start(args, format);
    vsnprintf(s->args[s->arg_count++], sizeof(s->args[0]), format, args);
    va_end(args);
}

static bool takes_connections(unsigned port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bool yes = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return yes;
}

static void become(struct server *s)
{
    char *argv[SERVER_ARGS_MAX] = { NULL };
    char log[sizeof(s->folder) + 8];
    for (size_t i = 0; i < s->arg_count; i++)
        argv[i] = s->args[i];
    snprintf(log, sizeof(log), "%s/log", s->folder);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* never outlive the test */
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 || chdir(s->folder) < 0)
        _exit(126);
    execvp(argv[0], argv);
    _exit(127);
}

void server_start(struct server *s)
{
    CHECK_EQ(s->pid, 0);
    s->pid = fork();
    CHECK(s->pid >= 0);
    if (s->pid == 0)
        become(s);
    int64_t until_us = clock_mono_us(clock_system()) + START_US;
    while (!takes_connections(s->port)) {
        int status;
        CHECK_EQ(waitpid(s->pid, &status, WNOHANG), 0); /* it is still there */
        CHECK(clock_mono_us(clock_system()) < until_us);
        usleep(5000);
    }
}

void server_stop(struct server *s, int signal)
{
    int status;
    if (s->pid == 0)
        return;
    kill(s->pid, signal);
    if (signal == SIGSTOP || signal == SIGCONT)
        return;
    CHECK_EQ(waitpid(s->pid, &status, 0), s->pid);
    s->pid = 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

void server_remove(struct server *s)
{
    server_stop(s, SIGKILL);
    if (s->folder[0] != '\0')
        nftw(s->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *s = (struct server){ 0 };
}

bool server_is_installed(const char *program)
{
    char command[128];
    snprintf(command, sizeof(command), "command -v %s > /dev/null 2>&1", program);
    return system(command) == 0;
}
