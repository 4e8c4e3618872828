/* To be preloaded: the disk is full for SQLite's log, which is what a transaction writes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int is_log(int fd)
{
    char name[64], path[4096];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof(path));
    return length > 4 && memcmp(path + length - 4, "-wal", 4) == 0;
}

static ssize_t put(int fd, const void *data, size_t size, off_t at)
{
    if (!is_log(fd))
        return syscall(SYS_pwrite64, fd, data, size, at);
    errno = ENOSPC;
    return -1;
}

/* By its other name, pwrite64, since files are large here. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    return put(fd, data, size, at);
}
