#include "cli/output/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static int failure; /* errno; 0: none */

/* Also ends when the reader goes away. */
static void wait_for_room(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

    (void)poll(&out, 1, -1); /* interrupted: it is tried again */
}

static ssize_t output_write(void *cookie, const char *data, size_t size)
{
    size_t done = 0;

    (void)cookie;
    while (done < size && failure == 0) {
        ssize_t n = write(STDOUT_FILENO, data + done, size - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN)
            wait_for_room();
        else if (errno != EINTR)
            failure = errno;
    }
    return failure == 0 ? (ssize_t)size : 0;
}

void output_open(void)
{
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = output_write });

    if (out == NULL)
        return; /* the default is used */
    if (isatty(STDOUT_FILENO))
        (void)setvbuf(out, NULL, _IOLBF, BUFSIZ);
    stdout = out;
}

bool output_is_over(void)
{
    return failure != 0;
}

int output_end(void)
{
    int flushed = fflush(stdout) == 0 ? 0 : errno;

    return failure != 0 ? failure : flushed;
}
