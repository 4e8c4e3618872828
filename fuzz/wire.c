/* wire.c - a wire whose data is an input, in place of transport/wire.c: a broker's bytes, without a socket.
 *
 * The input is cut into pieces at each line that is "~".  Between two pieces there is nothing to read once, so that
 * pending output is written: an answer can follow its question.  After the last piece the broker closes the connection,
 * and accepts no other.
 *
 * The inbox of a client of NATS has an unpredictable name; an input has zeros in its place. */
#include "wire.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/util.h"
#include "transport/broker/wire.h"

#include "fuzz.h"

static const char separator[] = "\n~\n";

#define INBOX "_INBOX."

static struct {
    char *bytes;    /* our copy */
    pr_slice rest;  /* of it, from the current piece on */
    size_t piece;   /* bytes of it that are still to be read */
    bool paused;    /* before it */
    bool connected; /* once is enough */
} feed;

static void begin_piece(void)
{
    const char *end = feed.rest.size > 0 ? memmem(feed.rest.data, feed.rest.size, separator, 3) : NULL;
    feed.piece = end != NULL ? (size_t)(end - feed.rest.data) : feed.rest.size;
}

void fuzz_wire_feed(pr_slice bytes)
{
    free(feed.bytes);
    feed.bytes = input_cstr(bytes);
    feed.rest = (pr_slice){ feed.bytes, bytes.size };
    feed.paused = feed.connected = false;
    begin_piece();
}

static bool failed(struct wire *w, const char *why)
{
    snprintf(w->why, sizeof(w->why), "%s", why);
    w->code = "";
    wire_close(w);
    return false;
}

int wire_init(struct wire *w, const struct endpoint_config *config, const struct broker_url *url, bool tls,
              struct pr_error *reterr)
{
    (void)config;
    (void)reterr;
    FUZZ_CHECK(!tls);
    w->fd = -1;
    w->code = "";
    w->host = url->host.data;
    w->port = url->port;
    return PR_OK;
}

void wire_init_like(struct wire *w, const struct wire *like, const char *host, unsigned port)
{
    (void)like;
    *w = (struct wire){ .fd = -1, .code = "", .host = host, .port = port };
}

void wire_fini(struct wire *w)
{
    w->state = WIRE_CLOSED;
}

/* Always readable: nobody waits. */
static int ready_fd(void)
{
    static int fd = -1;
    if (fd < 0)
        fd = eventfd(1, EFD_CLOEXEC);
    return fd;
}

bool wire_connect(struct wire *w)
{
    if (feed.connected)
        return failed(w, "no other connection");
    feed.connected = true;
    w->fd = ready_fd();
    w->state = WIRE_CONNECTING;
    return true;
}

bool wire_progress(struct wire *w)
{
    w->state = WIRE_OPEN;
    return true;
}

bool wire_secure(struct wire *w)
{
    return failed(w, "there is no TLS here");
}

void wire_close(struct wire *w)
{
    w->fd = -1;
    w->held_size = 0;
    w->state = WIRE_CLOSED;
}

short wire_events(const struct wire *w, bool has_bytes)
{
    (void)w;
    (void)has_bytes;
    return POLLIN;
}

/* "SUB _INBOX.0123...*": its name for all the zeros that are still to come. */
static void learn_inbox(const char *data, size_t size)
{
    static const char zeros[] = INBOX "00000000000000000000000000000000";
    const char *sub = memmem(data, size, "SUB " INBOX, 4 + strlen(INBOX));
    if (sub == NULL || (size_t)(sub - data) + 4 + sizeof(zeros) > size)
        return;
    char *at = feed.bytes + (feed.rest.data - feed.bytes), *end = at + feed.rest.size;
    while ((at = memmem(at, (size_t)(end - at), zeros, sizeof(zeros) - 1)) != NULL)
        memcpy(at, sub + 4, sizeof(zeros) - 1);
}

ssize_t wire_write(struct wire *w, const void *data, size_t size)
{
    learn_inbox(data, size);
    (void)w;
    volatile unsigned char sum = 0; /* each byte is there to be read */
    for (size_t i = 0; i < size; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
    return (ssize_t)size;
}

ssize_t wire_read(struct wire *w, void *ret, size_t size)
{
    FUZZ_CHECK(w->state == WIRE_OPEN);
    if (feed.piece == 0 && feed.rest.size > 0 && !feed.paused) {
        size_t skip = min_size(feed.rest.size, sizeof(separator) - 1);
        feed.rest = (pr_slice){ feed.rest.data + skip, feed.rest.size - skip };
        feed.paused = true;
        begin_piece();
        return 0;
    }
    feed.paused = false;
    if (feed.piece == 0 && feed.rest.size == 0) {
        failed(w, "it closed the connection");
        return -1;
    }
    size = min_size(size, feed.piece);
    memcpy(ret, feed.rest.data, size);
    feed.rest = (pr_slice){ feed.rest.data + size, feed.rest.size - size };
    feed.piece -= size;
    return (ssize_t)size;
}
