/* A chunked body for a source.  In whatever pieces it arrives, it is read the same; and a body that is accepted is the
 * same as in an independent reader. */
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "source/http/listener.h"

#include "fuzz.h"

#define BODY_MAX 4096
#define HEAD "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

static struct door the_door = { .options = { .path = "/p", .token = "", .body_max = BODY_MAX } };
static struct listener the_listener = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* As the listener does it: bytes come, and what can be understood is.  *ret_used: how many until it was decided. */
static enum read_result feed(struct http_conn *c, pr_slice bytes, size_t step, size_t *ret_used)
{
    enum read_result result = READ_MORE;
    *c = (struct http_conn){ .fd = -1 };
    buf_init(&c->in, HEAD_BYTES_MAX + READ_SIZE);
    buf_init(&c->head, HEAD_BYTES_MAX + READ_SIZE);
    buf_init(&c->out, HEAD_BYTES_MAX);
    buf_add_cstr(&c->in, HEAD);
    FUZZ_CHECK(conn_read(&the_listener, c) == READ_MORE && c->state == CONN_BODY);
    *ret_used = 0;
    while (result == READ_MORE && *ret_used < bytes.size) {
        size_t part = min_size(min_size(step, READ_SIZE), bytes.size - *ret_used);
        buf_add(&c->in, bytes.data + *ret_used, part);
        *ret_used += part;
        result = conn_read(&the_listener, c);
        FUZZ_CHECK(buf_failed(&c->in) == 0 && c->body.size <= BODY_MAX);
    }
    *ret_used -= result == READ_WHOLE ? c->in.size : 0; /* the next request */
    return result;
}

static void conn_end(struct http_conn *c)
{
    buf_fini(&c->in);
    buf_fini(&c->head);
    buf_fini(&c->body);
    buf_fini(&c->out);
}

static bool take(pr_slice *rest, const char *wanted)
{
    size_t size = strlen(wanted);
    if (rest->size < size || memcmp(rest->data, wanted, size) != 0)
        return false;
    *rest = (pr_slice){ rest->data + size, rest->size - size };
    return true;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Up to CR LF. */
static bool skip_line(pr_slice *rest)
{
    while (rest->size > 0 && !take(rest, "\r\n"))
        *rest = (pr_slice){ rest->data + 1, rest->size - 1 };
    return true;
}

/* The body of bytes that are whole, read in the plainest way. */
static bool read_plainly(pr_slice rest, struct buf *ret)
{
    for (;;) {
        uint64_t size = 0;
        bool has_digit = false;
        for (int digit; rest.size > 0 && (digit = digit_of(rest.data[0])) >= 0; has_digit = true) {
            size = size * 16 + (unsigned)digit;
            rest = (pr_slice){ rest.data + 1, rest.size - 1 };
        }
        if (!has_digit || !skip_line(&rest) || size > rest.size)
            return false;
        if (size == 0)
            break;
        buf_add(ret, rest.data, (size_t)size);
        rest = (pr_slice){ rest.data + size, rest.size - (size_t)size };
        if (!take(&rest, "\r\n"))
            return false;
    }
    while (rest.size > 0 && !take(&rest, "\r\n"))
        skip_line(&rest);
    return rest.size == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_conn whole, pieces;
    struct buf plain;
    size_t used, used_again, step = size > 0 ? data[0] % 64u + 1 : 1;
    pr_slice bytes = PR_BYTES((const char *)data + (size > 0), size - (size > 0));
    if (the_listener.doors.head.next == NULL) {
        list_init(&the_listener.doors);
        list_push_back(&the_listener.doors, &the_door.node);
    }
    enum read_result result = feed(&whole, bytes, SIZE_MAX, &used);
    FUZZ_CHECK(feed(&pieces, bytes, step, &used_again) == result);
    if (result == READ_ANSWER)
        FUZZ_CHECK(whole.out.size > 0 && !whole.keeps && !pieces.keeps);
    if (result == READ_WHOLE) {
        buf_init(&plain, BODY_MAX);
        FUZZ_CHECK(used == used_again && whole.body.size == pieces.body.size);
        FUZZ_CHECK(whole.body.size == 0 || memcmp(whole.body.data, pieces.body.data, whole.body.size) == 0);
        FUZZ_CHECK(read_plainly((pr_slice){ bytes.data, used }, &plain) && plain.size == whole.body.size);
        FUZZ_CHECK(plain.size == 0 || memcmp(plain.data, whole.body.data, plain.size) == 0);
        buf_fini(&plain);
    }
    conn_end(&whole);
    conn_end(&pieces);
    return 0;
}
