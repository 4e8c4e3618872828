/* What an HTTP source reads before it has authenticated the sender: a connection that is given bytes, without a
 * socket. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/slice.h"
#include "check.h"
#include "source/http/listener.h"

#define HEAD "POST /h HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHUNKS 40000
#define AT_ONCE_MAX ((size_t)1 << 20)

static struct listener l;
static struct door d = { .options = { .path = "/h", .token = "", .body_max = AT_ONCE_MAX } };
static struct http_conn c;

static void begin(void)
{
    CHECK_EQ(pthread_mutex_init(&l.lock, NULL), 0);
    list_init(&l.doors);
    d.node = (struct list_node){ 0 };
    list_push_back(&l.doors, &d.node);
    c = (struct http_conn){ .fd = -1 };
    buf_init(&c.in, AT_ONCE_MAX);
    buf_init(&c.head, HEAD_BYTES_MAX + READ_SIZE);
    buf_init(&c.out, HEAD_BYTES_MAX);
}

static void end(void)
{
    buf_fini(&c.in);
    buf_fini(&c.head);
    buf_fini(&c.body);
    buf_fini(&c.out);
    list_remove(&d.node);
    pthread_mutex_destroy(&l.lock);
}

/* As the listener does, so many bytes with each look. */
static enum read_result give(pr_slice bytes, size_t piece)
{
    enum read_result result = READ_MORE;
    for (size_t at = 0; at < bytes.size && result == READ_MORE; at += piece) {
        size_t size = bytes.size - at < piece ? bytes.size - at : piece;
        buf_add(&c.in, bytes.data + at, size);
        CHECK_EQ(buf_failed(&c.in), 0);
        result = conn_read(&l, &c);
    }
    return result;
}

static double cpu_seconds(void)
{
    struct timespec t;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds_in_pieces_of(pr_slice bytes, size_t piece)
{
    begin();
    CHECK_EQ(give(PR_STR(HEAD), READ_SIZE), READ_MORE);
    double from = cpu_seconds();
    CHECK_EQ(give(bytes, piece), READ_WHOLE);
    double seconds = cpu_seconds() - from;
    CHECK_EQ(c.request.body.size, CHUNKS);
    end();
    return seconds;
}

/* What is read for a chunk does not depend on what came with it. */
TEST(http_a_body_in_chunks_of_one_byte_costs_what_its_bytes_cost) /* B206 */
{
    struct buf bytes;
    buf_init(&bytes, AT_ONCE_MAX);
    for (size_t i = 0; i < CHUNKS; i++)
        buf_add_cstr(&bytes, "1\r\na\r\n");
    buf_add_cstr(&bytes, "0\r\n\r\n");
    double pieces = seconds_in_pieces_of(buf_slice(&bytes), 1024);
    double whole = seconds_in_pieces_of(buf_slice(&bytes), bytes.size);
    if (whole > 8 * pieces)
        check_fail(__FILE__, __LINE__, "%.4f s in pieces, %.4f s at once", pieces, whole);
    buf_fini(&bytes);
}

static void refused(const char *chunks, const char *again, size_t times)
{
    enum read_result result = READ_MORE;
    begin();
    CHECK_EQ(give(PR_STR(HEAD), READ_SIZE), READ_MORE);
    CHECK_EQ(give(slice_from(chunks), READ_SIZE), READ_MORE);
    for (size_t i = 0; i < times && result == READ_MORE; i++)
        result = give(slice_from(again), READ_SIZE);
    CHECK_EQ(result, READ_ANSWER);
    CHECK(strstr(c.out.data, "HTTP/1.1 400 ") == c.out.data && !c.keeps);
    end();
}

#define TEN "x=0123456"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

TEST(http_what_stands_around_the_chunks_of_a_body_has_a_limit) /* B206 */
{
    refused("1\r\na\r\n0\r\n", HUNDRED "\r\n", 1000);              /* trailers */
    refused("1\r\na\r\n", "1;" HUNDRED HUNDRED "\r\na\r\n", 1000); /* extensions */
}

TEST(http_a_head_in_very_many_pieces_is_refused) /* B206 */
{
    char head[4096];
    begin();
    int size = snprintf(head, sizeof(head), "POST /h HTTP/1.1\r\nHost: h\r\nx-long: %01000d\r\n\r\n", 7);
    CHECK_EQ(give((pr_slice){ head, (size_t)size }, 1), READ_ANSWER);
    CHECK(strstr(c.out.data, "HTTP/1.1 408 ") == c.out.data);
    end();
    begin();
    CHECK_EQ(give((pr_slice){ head, (size_t)size }, 8), READ_WHOLE); /* slow, but not so many */
    end();
}
