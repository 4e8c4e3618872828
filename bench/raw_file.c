/* file: lines appended in pieces, each synced. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "carrier.h"
#include "raw_line.h"

#define WINDOW 1024 /* lines of a piece */

static const char *file_open(struct site *site)
{
    snprintf(site->address, sizeof site->address, "%s", bench_path(site->bench, "sink.jsonl"));
    snprintf(site->sink, sizeof site->sink, "{url: \"file:%s\", source: " CARRIER_SOURCE "}", site->address);
    return NULL;
}

static void file_clear(struct site *site)
{
    unlink(site->address);
}

static double file_raw_rate(struct site *site, size_t count)
{
    static char piece[WINDOW * RAW_LINE_MAX];
    int fd = open(site->address, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    double begin = seconds_now();
    for (size_t done = 0; done < count;) {
        size_t lines = min_size(WINDOW, count - done), size = 0;
        for (size_t i = 0; i < lines; i++)
            size += raw_line_make(piece + size);
        if (write(fd, piece, size) != (ssize_t)size || fsync(fd) != 0)
            die("cannot write %s", site->address);
        done += lines;
    }
    double rate = (double)count / (seconds_now() - begin);
    close(fd);
    return rate;
}

const struct carrier carrier_file = {
    .name = "transport_file",
    .raw_name = "raw_file",
    .messages = 200000,
    .open = file_open,
    .close = file_clear,
    .clear = file_clear,
    .raw_rate = file_raw_rate,
};
