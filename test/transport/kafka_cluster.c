#include "kafka_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

void kafka_cluster_stop(struct kafka_cluster *c)
{
    int status;
    if (c->pid == 0)
        return;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, 0);
    fclose(c->to);
    fclose(c->from);
    *c = (struct kafka_cluster){ 0 };
}

void kafka_cluster_start(struct kafka_cluster *c, unsigned brokers)
{
    int in[2], out[2];
    const char *program = getenv("KAFKA_MOCK");
    char count[16], *colon;
    if (program == NULL)
        SKIP("KAFKA_MOCK is not set");
    snprintf(count, sizeof(count), "%u", brokers);
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    c->pid = fork();
    CHECK(c->pid >= 0);
    if (c->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(program, program, count, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c->to = fdopen(in[1], "w");
    c->from = fdopen(out[0], "r");
    CHECK(fgets(c->servers, sizeof(c->servers), c->from) != NULL);
    c->servers[strcspn(c->servers, "\n")] = '\0';
    CHECK((colon = strrchr(c->servers, ':')) != NULL);
    c->port = (unsigned)atoi(colon + 1);
}

void kafka_cluster_tell(struct kafka_cluster *c, const char *format, ...)
{
    char answer[64];
    va_list args;
    va_start(args, format);
    vfprintf(c->to, format, args);
    va_end(args);
    fputc('\n', c->to);
    fflush(c->to);
    CHECK(fgets(answer, sizeof(answer), c->from) != NULL);
    CHECK_STR(answer, "ok\n");
}
