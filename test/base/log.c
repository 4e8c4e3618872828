#include "base/log.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "check.h"

static int64_t zero(void *arg)
{
    (void)arg;
    return 0;
}

static const struct clock clock_zero = { .wall_us = zero, .mono_us = zero };

static void to_buf(void *arg, const char *line, size_t size)
{
    buf_add(arg, line, size);
}

static struct log log_to(struct buf *b, enum log_format format)
{
    buf_init(b, 1 << 20);
    return (struct log){ .level = LOG_INFO, .format = format, .clock = &clock_zero, .write = to_buf, .arg = b };
}

TEST(log_writes_logfmt)
{
    struct buf b;
    struct log log = log_to(&b, LOG_LOGFMT);
    log_emit(&log, LOG_WARN, "endpoint_open", LOG_STR("endpoint", "a"), LOG_INT("failures", -3),
             LOG_BOOL("probe", true), LOG_TIME("until", INT64_MAX), LOG_DURATION("after", 90000000));
    CHECK_SLICE(buf_slice(&b), "time=1970-01-01T00:00:00.000000Z level=warn event=endpoint_open endpoint=a "
                               "failures=-3 probe=true until=infinity after=1m30s\n");
    buf_fini(&b);
}

TEST(log_writes_json)
{
    struct buf b;
    struct log log = log_to(&b, LOG_JSON);
    log_emit(&log, LOG_ERROR, "x", LOG_STR("a", "q\"\n"), LOG_INT("n", 3), LOG_BOOL("f", false), LOG_TIME("t", 0));
    CHECK_SLICE(buf_slice(&b), "{\"time\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"error\",\"event\":\"x\","
                               "\"a\":\"q\\\"\\n\",\"n\":3,\"f\":false,\"t\":\"1970-01-01T00:00:00.000000Z\"}\n");
    buf_fini(&b);
}

TEST(log_quotes_what_would_break_a_line)
{
    struct buf b;
    struct log log = log_to(&b, LOG_LOGFMT);
    log.clock = NULL;
    log_emit(&log, LOG_INFO, "x", LOG_STR("a", "two words"), LOG_STR("b", ""), LOG_STR("c", NULL), LOG_STR("d", "k=v"),
             LOG_SLICE("e", PR_STR("\xff\n")), LOG_STR("f", "plain/text:1"));
    CHECK_SLICE(buf_slice(&b), "level=info event=x a=\"two words\" b=\"\" c=\"\" d=\"k=v\" e=\"\xef\xbf\xbd\\n\" "
                               "f=plain/text:1\n");
    buf_fini(&b);
}

TEST(log_drops_what_is_below_its_level)
{
    struct buf b;
    struct log log = log_to(&b, LOG_LOGFMT);
    log_emit(&log, LOG_DEBUG, "x");
    CHECK_SLICE(buf_slice(&b), "");
    CHECK(!log_is_enabled(&log, LOG_DEBUG));
    CHECK(log_is_enabled(&log, LOG_INFO));
    log.level = LOG_NONE;
    log_emit(&log, LOG_ERROR, "x");
    log_emit(&log, LOG_NONE, "x");
    CHECK_SLICE(buf_slice(&b), "");
    buf_fini(&b);
}

TEST(log_may_be_missing)
{
    log_emit(NULL, LOG_ERROR, "x", LOG_INT("n", 1));
    struct log nowhere = { .level = LOG_DEBUG };
    log_emit(&nowhere, LOG_ERROR, "x");
    CHECK(!log_is_enabled(NULL, LOG_ERROR));
}

TEST(log_cuts_long_values_and_leaves_out_what_does_not_fit)
{
    struct buf b;
    struct log log = log_to(&b, LOG_JSON);
    static char large[LOG_VALUE_MAX + 100];
    memset(large, '\x01', sizeof(large)); /* six bytes each when escaped */
    pr_slice value = PR_BYTES(large, sizeof(large));
    log_emit(&log, LOG_INFO, "x", LOG_SLICE("a", value), LOG_SLICE("b", value), LOG_SLICE("c", value), LOG_INT("d", 1));
    CHECK(b.size <= LOG_LINE_MAX);
    CHECK(memmem(b.data, b.size, "\"b\":", 4) != NULL);
    CHECK(memmem(b.data, b.size, "\"c\":", 4) == NULL);
    CHECK(slice_ends_with(buf_slice(&b), PR_STR(",\"d\":1}\n")));
    buf_fini(&b);
}

TEST(log_knows_its_levels_by_name)
{
    for (int i = LOG_DEBUG; i <= LOG_NONE; i++) {
        enum log_level level;
        CHECK_EQ(log_level_parse(slice_from(log_level_name((enum log_level)i)), &level), PR_OK);
        CHECK_EQ(level, i);
    }
    enum log_level level = LOG_WARN;
    CHECK_EQ(log_level_parse(PR_STR("WARN"), &level), PR_UNKNOWN);
    CHECK_EQ(level, LOG_WARN);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_emit(arg, LOG_INFO, "x", LOG_INT("i", 7), LOG_STR("text", "some words to make it longer"));
    return NULL;
}

TEST(log_lines_of_many_threads_do_not_mix)
{
    int pipe_fds[2];
    CHECK_EQ(pipe(pipe_fds), 0);
    struct log log = { .level = LOG_INFO, .write = log_write_fd, .arg = &pipe_fds[1] };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, log_many, &log), 0);

    const char *line = "level=info event=x i=7 text=\"some words to make it longer\"\n";
    size_t size = strlen(line);
    for (int i = 0; i < 800; i++) {
        char got[128];
        size_t have = 0;
        while (have < size) {
            ssize_t n = read(pipe_fds[0], got + have, size - have);
            CHECK(n > 0);
            have += (size_t)n;
        }
        CHECK_SLICE(PR_BYTES(got, size), line);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
