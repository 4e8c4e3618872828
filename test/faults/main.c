#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

#include "program.h"

int record_open(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        exit(2);
    }
    return fd;
}

/* A write that SIGKILL interrupts ends with a page: so lines are all of one length, which divides that of a
 * page, and no line is ever torn.  Blanks behind its first letter fill it up. */
void record(int fd, const char *format, ...)
{
    char text[LINE_BYTES + 1], line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size < 2 || size > LINE_BYTES)
        abort();
    memset(line, ' ', sizeof line);
    line[0] = text[0];
    memcpy(line + LINE_BYTES - (size - 1), text + 1, (size_t)size - 1);
    if (write(fd, line, sizeof line) != (ssize_t)sizeof line)
        abort(); /* a history with holes would prove nothing */
}

bool file_exists(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    struct rlimit no_core = { 0, 0 };
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody outlives the test */
    if (argc >= 3 && getenv("FAULTS_VFS") != NULL)
        vfs_install(argv[2]);
    if (argc == 3 && strcmp(argv[1], "work") == 0)
        return work(argv[2]);
    if (argc == 4 && strcmp(argv[1], "produce") == 0)
        return produce(argv[2], strtoull(argv[3], NULL, 10));
    fprintf(stderr, "usage: postrider-faults work DIR | produce DIR SEED\n");
    return 2;
}
