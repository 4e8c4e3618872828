/* redis: each message is one XADD to a stream, many of them on the wire at once.
 *
 *   redis://user:password@host:6379/DB?stream=orders.{type}&maxlen=100000
 *
 * Everything happens in the caller's thread.  The bytes of commands stand in one buffer, and the
 * deliveries whose bytes were put there in a ring, in the same order; answers come in that order, too.
 *
 *    waiting --> out (its bytes: buffered, on the wire) --> answered
 *
 *   R1  A delivery is on the wire from its first byte on; cancel() cuts the buffer before the first
 *       command of which nothing was written.
 *   R2  A command of which not every byte was written is not carried out: it failed.  One that was
 *       written whole and not answered may have been carried out: UNKNOWN.
 *   R3  An answer belongs to the oldest one out, also when that was given up at its deadline. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker_url.h"
#include "transport/cloudevents.h"
#include "transport/delivery.h"
#include "transport/envelope.h"
#include "transport/own_headers.h"
#include "transport/reconnect.h"
#include "transport/template.h"

#define REDIS_PORT 6379
#define REDIS_CONCURRENCY 1000
#define REDIS_CONCURRENCY_MAX 100000
#define REDIS_BUFFERED_MAX (4u << 20) /* bytes of commands that are not written yet, before one more is added */
#define REDIS_CONNECT_US PR_SECONDS(5) /* for the connection and the greeting */
#define REDIS_READ_SIZE 65536

enum redis_state { REDIS_DOWN, REDIS_CONNECTING, REDIS_GREETING, REDIS_UP };

struct redis_out {
    const struct delivery *delivery; /* NULL: given up, its answer is not wanted any more */
    uint64_t begin, end;             /* its bytes, counted from the beginning of the connection */
};

struct redis {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct arena arena;   /* the url */
    struct arena scratch; /* one command */
    struct broker_url url;
    pr_slice stream, maxlen;
    enum envelope envelope;

    enum redis_state state;
    int fd;
    redisReader *reader;
    struct reconnect reconnect;
    int64_t give_up_us; /* connecting, greeting: until then */
    unsigned greetings; /* answers to come before the first message may go */
    char why[256];      /* why it is down */
    int why_reason;

    struct buf bytes;       /* commands, from `written` on still to be written */
    size_t written;         /* of bytes */
    uint64_t written_total; /* since the connection began */
    struct buf json;        /* structured */
    struct delivery_queue waiting;
    struct redis_out *out; /* a ring */
    size_t capacity, out_first, out_count;
    struct delivery_result *done; /* results that poll has not taken yet, a ring of the same size */
    size_t done_first, done_count;
};

/* ---- The url --------------------------------------------------------------------------------- */

static const char *const params[] = { "stream", "maxlen", "plain", NULL };

static int redis_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                     struct pr_error *reterr)
{
    int64_t number;
    int rc = broker_url_parse(config, REDIS_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_plain(config, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_number(config, ret, "maxlen", 0, 1, INT64_MAX / 16, &number, reterr);
    if (rc == PR_OK)
        rc = template_check(config->name, "stream", broker_url_param(ret, "stream", ""), reterr);
    for (size_t i = 0; rc == PR_OK && i < ret->path.size; i++)
        if (ret->path.data[i] < '0' || ret->path.data[i] > '9' || i == 4)
            rc = error_set(reterr, PR_ECONFIG,
                           "endpoint %s: the url is wrong: behind the host stands the number of a database",
                           config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    if (rc == PR_OK && config->concurrency > REDIS_CONCURRENCY_MAX)
        rc = error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency is at most %d", config->name,
                       REDIS_CONCURRENCY_MAX);
    return rc;
}

static int redis_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    struct arena arena;
    struct broker_url url;
    arena_init(&arena, 1024);
    int rc = redis_url(config, &arena, &url, reterr);
    arena_fini(&arena);
    return rc;
}

static int rediss_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return error_set(
        reterr, PR_ECONFIG,
        "endpoint %s: this version of hiredis knows no TLS: write redis:// and put a TLS tunnel in front",
        config->name);
}

/* ---- Results ---------------------------------------------------------------------------------- */

static struct delivery_result *done_add(struct redis *r)
{
    ASSERT(r->done_count < r->capacity);
    return &r->done[(r->done_first + r->done_count++) % r->capacity];
}

static size_t done_take(struct redis *r, struct delivery_result *ret, size_t max)
{
    size_t count = 0;
    for (; count < max && r->done_count > 0; count++, r->done_count--) {
        ret[count] = r->done[r->done_first];
        r->done_first = (r->done_first + 1) % r->capacity;
    }
    return count;
}

static struct redis_out *out_at(struct redis *r, size_t index)
{
    ASSERT(index < r->out_count);
    return &r->out[(r->out_first + index) % r->capacity];
}

static void out_drop_first(struct redis *r)
{
    r->out_first = (r->out_first + 1) % r->capacity;
    r->out_count--;
}

/* The words at the beginning of an error say what it is. */
static int reason_of(pr_slice error)
{
    static const struct {
        const char *word;
        int reason;
    } known[] = {
        { "OOM", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "READONLY", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "LOADING", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "MASTERDOWN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "CLUSTERDOWN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "TRYAGAIN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "NOREPLICAS", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "MISCONF", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "BUSY", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "NOAUTH", PR_REASON_UNAUTHORIZED },
        { "NOPERM", PR_REASON_UNAUTHORIZED },
        { "WRONGPASS", PR_REASON_UNAUTHORIZED },
        { "WRONGTYPE", PR_REASON_DESTINATION_MISSING },
        { "MOVED", PR_REASON_DESTINATION_MISSING },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        size_t size = strlen(known[i].word);
        if (slice_starts_with(error, pr_str(known[i].word)) && (error.size == size || error.data[size] == ' '))
            return known[i].reason;
    }
    return PR_REASON_REJECTED;
}

static void code_of(pr_slice error, char ret[RESULT_CODE_SIZE])
{
    size_t size = 0;
    while (size < error.size && error.data[size] != ' ' && size < RESULT_CODE_SIZE - 1)
        size++;
    memcpy(ret, error.data, size);
    ret[size] = '\0';
}

/* ---- The connection ---------------------------------------------------------------------------- */

static void redis_drop_connection(struct redis *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->reader != NULL)
        redisReaderFree(r->reader);
    r->fd = -1;
    r->reader = NULL;
    r->state = REDIS_DOWN;
    buf_reset(&r->bytes);
    r->written = 0;
    r->written_total = 0;
    r->greetings = 0;
}

/* Everything out gets its result (R2). */
static void redis_lost(struct redis *r, int reason, const char *what)
{
    snprintf(r->why, sizeof(r->why), "%s:%u: %s", r->url.host.data, r->url.port, what);
    r->why_reason = reason;
    for (; r->out_count > 0; out_drop_first(r)) {
        const struct redis_out *o = out_at(r, 0);
        if (o->delivery != NULL)
            result_failed(done_add(r), o->delivery->token,
                          r->written_total >= o->end ? SEND_UNKNOWN : SEND_FAILED,
                          PR_REASON_TRANSPORT_UNAVAILABLE, "", pr_str(r->why));
    }
    redis_drop_connection(r);
}

/* False: no memory, and nothing was added. */
static bool add_command(struct redis *r, size_t count, const char **args, const size_t *sizes)
{
    char *command;
    size_t before = r->bytes.size;
    int size = redisFormatCommandArgv(&command, (int)count, args, sizes);
    if (size < 0)
        return false;
    buf_add(&r->bytes, command, (size_t)size);
    redisFreeCommand(command);
    if (buf_failed(&r->bytes) == 0)
        return true;
    buf_truncate(&r->bytes, before);
    return false;
}

/* AUTH and SELECT, both only when they are wanted; their answers come before all others. */
static void redis_greet(struct redis *r)
{
    const struct broker_url *u = &r->url;
    bool good = true;
    if (u->password.size > 0) {
        const char *auth[] = { "AUTH", u->user.size > 0 ? u->user.data : u->password.data, u->password.data };
        size_t sizes[] = { 4, u->user.size > 0 ? u->user.size : u->password.size, u->password.size };
        good &= add_command(r, u->user.size > 0 ? 3 : 2, auth, sizes);
        r->greetings++;
    }
    if (u->path.size > 0) {
        const char *select[] = { "SELECT", u->path.data };
        size_t sizes[] = { 6, u->path.size };
        good &= add_command(r, 2, select, sizes);
        r->greetings++;
    }
    r->state = r->greetings > 0 ? REDIS_GREETING : REDIS_UP;
    if (!good)
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, "no memory");
}

static void redis_connected(struct redis *r)
{
    int error = 0, one = 1;
    socklen_t size = sizeof(error);
    if (getsockopt(r->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    r->reader = error == 0 ? redisReaderCreate() : NULL;
    if (r->reader == NULL) {
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, strerror(error != 0 ? error : ENOMEM));
        return;
    }
    (void)setsockopt(r->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower without */
    redis_greet(r);
}

static void redis_connect(struct redis *r, int64_t now_us)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
    char port[8];

    reconnect_tried(&r->reconnect, now_us);
    redis_drop_connection(r);
    snprintf(port, sizeof(port), "%u", r->url.port);
    int rc = getaddrinfo(r->url.host.data, port, &hints, &found);
    if (rc != 0) {
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, gai_strerror(rc));
        return;
    }
    int error = 0;
    for (const struct addrinfo *a = found; a != NULL && r->fd < 0; a = a->ai_next) {
        r->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (r->fd < 0 || (connect(r->fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)) {
            error = errno;
            if (r->fd >= 0)
                close(r->fd);
            r->fd = -1;
        }
    }
    freeaddrinfo(found);
    if (r->fd < 0) {
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, strerror(error));
        return;
    }
    r->state = REDIS_CONNECTING;
    r->give_up_us = now_us + REDIS_CONNECT_US;
}

/* ---- One message -------------------------------------------------------------------------------- */

struct command {
    const char **args;
    size_t *sizes;
    size_t count, capacity;
};

static void arg_add(struct command *c, pr_slice value)
{
    ASSERT(c->count < c->capacity);
    c->args[c->count] = value.data != NULL ? value.data : "";
    c->sizes[c->count++] = value.size;
}

static void field_add(struct command *c, pr_slice name, pr_slice value)
{
    arg_add(c, name);
    arg_add(c, value);
}

static bool is_own_field(pr_slice name)
{
    return name.size > 0 && !slice_starts_with(name, PR_STR("ce_")) && !slice_eq_cstr(name, "data") &&
           !slice_eq_cstr(name, "content-type");
}

/* Names of attributes with ce_ before them; NULL data: no memory. */
static pr_slice attribute_name(struct redis *r, const char *name)
{
    return arena_printf(&r->scratch, "ce_%s", name);
}

static int add_fields(struct redis *r, const struct pr_message *m, struct command *c, struct pr_error *reterr)
{
    struct own_header *headers;
    size_t header_count;
    int rc = own_headers_read(m, &r->scratch, &headers, &header_count, reterr);
    struct cloudevent *event = arena_alloc(&r->scratch, sizeof(*event)); /* its texts outlive this function */

    if (rc != PR_OK)
        return rc;
    c->capacity = 8 + 2 * (CLOUDEVENTS_ATTRIBUTES_MAX + 2 + header_count);
    c->args = arena_alloc_array(&r->scratch, c->capacity, sizeof(*c->args));
    c->sizes = arena_alloc_array(&r->scratch, c->capacity, sizeof(*c->sizes));
    if (c->args == NULL || c->sizes == NULL || event == NULL)
        return PR_ENOMEM;

    struct buf key;
    buf_init(&key, BROKER_URL_MAX + 4096);
    template_fill(&key, r->stream, m);
    pr_slice stream = slice_dup(&r->scratch, buf_slice(&key));
    rc = buf_failed(&key) == PR_ETOOBIG ? error_set(reterr, PR_EINVAL, "the name of the stream is too long")
                                        : buf_failed(&key);
    buf_fini(&key);
    if (rc != PR_OK || stream.data == NULL)
        return rc != PR_OK ? rc : PR_ENOMEM;

    arg_add(c, PR_STR("XADD"));
    arg_add(c, stream);
    if (r->maxlen.size > 0) {
        arg_add(c, PR_STR("MAXLEN"));
        arg_add(c, PR_STR("~"));
        arg_add(c, r->maxlen);
    }
    arg_add(c, PR_STR("*"));
    if (r->envelope == ENVELOPE_BINARY) {
        cloudevent_init(event, m, r->config->source);
        for (size_t i = 0; i < event->count; i++) {
            pr_slice name = attribute_name(r, event->attributes[i].name);
            if (name.data == NULL)
                return PR_ENOMEM;
            field_add(c, name, event->attributes[i].value);
        }
    }
    if (r->envelope != ENVELOPE_RAW)
        field_add(c, PR_STR("content-type"),
                  r->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE)
                                                     : cloudevent_content_type(m));
    for (size_t i = 0; i < header_count; i++)
        if (is_own_field(headers[i].name))
            field_add(c, headers[i].name, headers[i].value);
    pr_slice data = m->payload;
    if (r->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&r->json);
        cloudevent_write_json(&r->json, m, r->config->source);
        if (buf_failed(&r->json) != 0)
            return PR_ENOMEM;
        data = buf_slice(&r->json);
    }
    field_add(c, PR_STR("data"), data);
    return PR_OK;
}

/* Put its bytes into the buffer; false: it has its result already. */
static bool redis_begin(struct redis *r, const struct delivery *d)
{
    struct command command = { 0 };
    struct pr_error error = { 0 };

    arena_reset(&r->scratch);
    int rc = add_fields(r, d->message, &command, &error);
    if (rc == PR_EINVAL) {
        result_failed(done_add(r), d->token, SEND_FAILED, PR_REASON_SERIALIZATION_ERROR, "",
                      pr_str(error.text));
        return false;
    }
    size_t size = r->bytes.size;
    if (rc != PR_OK || !add_command(r, command.count, command.args, command.sizes)) {
        result_returned(done_add(r), d->token); /* no memory: later, then */
        return false;
    }
    uint64_t base = r->written_total - r->written;
    r->out[(r->out_first + r->out_count++) % r->capacity] =
        (struct redis_out){ .delivery = d, .begin = base + size, .end = base + r->bytes.size };
    return true;
}

/* While the connection is down everything that waits fails at once, with the reason why. */
static void redis_start_waiting(struct redis *r, int64_t now_us)
{
    const struct delivery *d;
    bool may_start;
    while (r->waiting.count > 0 && (d = delivery_queue_peek(&r->waiting, now_us, &may_start)) != NULL) {
        if (may_start && r->state != REDIS_DOWN &&
            (r->state != REDIS_UP || r->bytes.size - r->written >= REDIS_BUFFERED_MAX))
            return;
        delivery_queue_drop(&r->waiting);
        if (!may_start)
            result_returned(done_add(r), d->token);
        else if (r->state == REDIS_DOWN)
            result_failed(done_add(r), d->token, SEND_FAILED, r->why_reason, "", pr_str(r->why));
        else
            redis_begin(r, d);
    }
}

/* ---- Writing and reading -------------------------------------------------------------------------- */

static void redis_write(struct redis *r)
{
    while (r->fd >= 0 && r->state != REDIS_CONNECTING && r->written < r->bytes.size) {
        ssize_t sent = send(r->fd, r->bytes.data + r->written, r->bytes.size - r->written, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (sent < 0) {
            redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, strerror(errno));
            return;
        }
        r->written += (size_t)sent;
        r->written_total += (uint64_t)sent;
    }
    if (r->written == r->bytes.size) {
        buf_reset(&r->bytes);
        r->written = 0;
    }
}

static void take_greeting(struct redis *r, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        char text[200];
        snprintf(text, sizeof(text), "%.*s", (int)min_size(reply->len, sizeof(text) - 1), reply->str);
        int reason = reason_of((pr_slice){ reply->str, reply->len });
        redis_lost(r, reason == PR_REASON_REJECTED ? PR_REASON_UNAUTHORIZED : reason, text);
    } else if (--r->greetings == 0) {
        r->state = REDIS_UP;
    }
}

static void take_answer(struct redis *r, const redisReply *reply)
{
    if (r->state == REDIS_GREETING) {
        take_greeting(r, reply);
        return;
    }
    if (r->out_count == 0) {
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, "it answers what nobody asked");
        return;
    }
    const struct delivery *d = out_at(r, 0)->delivery;
    out_drop_first(r);
    reconnect_worked(&r->reconnect);
    if (d == NULL)
        return; /* R3 */
    if (reply->type == REDIS_REPLY_ERROR) {
        char code[RESULT_CODE_SIZE];
        pr_slice error = { reply->str, reply->len };
        code_of(error, code);
        result_failed(done_add(r), d->token, SEND_FAILED, reason_of(error), code, error);
    } else {
        result_ok(done_add(r), d->token);
    }
}

static void redis_read(struct redis *r)
{
    char chunk[REDIS_READ_SIZE];
    while (r->reader != NULL) {
        ssize_t got = recv(r->fd, chunk, sizeof(chunk), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got <= 0) {
            redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE,
                       got == 0 ? "it closed the connection" : strerror(errno));
            return;
        }
        void *reply = NULL;
        int rc = redisReaderFeed(r->reader, chunk, (size_t)got);
        while (rc == REDIS_OK && r->reader != NULL &&
               (rc = redisReaderGetReply(r->reader, &reply)) == REDIS_OK && reply != NULL) {
            take_answer(r, reply);
            freeReplyObject(reply);
        }
        if (rc != REDIS_OK && r->reader != NULL)
            redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, r->reader->errstr);
    }
}

/* ---- Deadlines --------------------------------------------------------------------------------------- */

/* Give up what is too late; a connection on which nobody is awaited any more, and which owes answers,
 * is not worth keeping. */
static void redis_expire(struct redis *r, int64_t now_us)
{
    size_t awaited = 0;
    for (size_t i = 0; i < r->out_count; i++) {
        struct redis_out *o = out_at(r, i);
        if (o->delivery != NULL && now_us >= o->delivery->deadline_us) {
            bool on_the_wire = r->written_total > o->begin;
            result_failed(done_add(r), o->delivery->token, on_the_wire ? SEND_UNKNOWN : SEND_FAILED,
                          PR_REASON_TIMEOUT_EXCEEDED, "", PR_STR("no answer in time"));
            o->delivery = NULL;
        }
        awaited += o->delivery != NULL;
    }
    if (r->out_count > 0 && awaited == 0)
        redis_lost(r, PR_REASON_TIMEOUT_EXCEEDED, "no answer in time");
    if ((r->state == REDIS_CONNECTING || r->state == REDIS_GREETING) && now_us >= r->give_up_us)
        redis_lost(r, PR_REASON_TRANSPORT_UNAVAILABLE, "no answer in time");
}

static int64_t redis_next_us(struct redis *r)
{
    int64_t next_us = PR_NEVER;
    for (size_t i = 0; i < r->out_count; i++)
        if (out_at(r, i)->delivery != NULL)
            next_us = min64(next_us, out_at(r, i)->delivery->deadline_us);
    if (r->state == REDIS_CONNECTING || r->state == REDIS_GREETING)
        next_us = min64(next_us, r->give_up_us);
    return next_us;
}

/* ---- The transport ------------------------------------------------------------------------------------ */

static int redis_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct redis *r = self;
    r->config = config;
    r->clock = config_clock(config);
    r->fd = -1;
    r->capacity = config->concurrency != 0 ? config->concurrency : REDIS_CONCURRENCY;
    arena_init(&r->arena, 1024);
    arena_init(&r->scratch, 4096);
    buf_init(&r->bytes, SIZE_MAX / 4);
    buf_init(&r->json, ENVELOPE_JSON_MAX);
    r->why_reason = PR_REASON_TRANSPORT_UNAVAILABLE;
    int rc = redis_url(config, &r->arena, &r->url, reterr);
    if (rc != PR_OK)
        return rc;
    r->stream = broker_url_param(&r->url, "stream", config->name);
    r->maxlen = broker_url_param(&r->url, "maxlen", "");
    (void)envelope_parse(config->envelope, &r->envelope); /* redis_url() has */
    r->out = calloc(r->capacity, sizeof(*r->out));
    r->done = calloc(r->capacity, sizeof(*r->done));
    if (r->out == NULL || r->done == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: no memory for %zu messages", config->name,
                         r->capacity);
    return delivery_queue_init(&r->waiting, r->capacity, reterr);
}

static void redis_close(void *self)
{
    struct redis *r = self;
    redis_drop_connection(r);
    for (; r->done_count > 0; r->done_count--) {
        delivery_result_fini(&r->done[r->done_first]);
        r->done_first = (r->done_first + 1) % r->capacity;
    }
    delivery_queue_fini(&r->waiting);
    buf_fini(&r->bytes);
    buf_fini(&r->json);
    arena_fini(&r->arena);
    arena_fini(&r->scratch);
    free(r->out);
    free(r->done);
}

static size_t redis_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct redis *r = self;
    size_t room = r->capacity - r->waiting.count - r->out_count - r->done_count;
    return delivery_queue_push(&r->waiting, list, min_size(count, room));
}

/* Everything that can be done without waiting. */
static void redis_work(struct redis *r)
{
    int64_t now_us = clock_mono_us(r->clock);
    if (r->state == REDIS_DOWN && r->waiting.count > r->waiting.cancelled &&
        reconnect_may(&r->reconnect, now_us))
        redis_connect(r, now_us);
    redis_expire(r, now_us);
    redis_start_waiting(r, now_us);
    redis_write(r);
    redis_read(r);
    redis_start_waiting(r, now_us); /* what an answer made room for, or a lost connection fails */
    redis_write(r);
}

static bool redis_wait(struct redis *r, int64_t deadline_us)
{
    short events = r->state == REDIS_CONNECTING || r->written < r->bytes.size ? POLLIN | POLLOUT : POLLIN;
    bool ready = wait_until(r->fd, events, r->config->wake_fd, r->clock, min64(deadline_us, redis_next_us(r)));
    if (ready && r->state == REDIS_CONNECTING)
        redis_connected(r);
    return ready;
}

static size_t redis_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct redis *r = self;
    bool woken = false;
    for (;;) {
        redis_work(r);
        int64_t now_us = clock_mono_us(r->clock);
        size_t count = done_take(r, ret, max);
        if (count > 0 || woken || now_us >= deadline_us)
            return count;
        woken = !redis_wait(r, deadline_us) && clock_mono_us(r->clock) < min64(deadline_us, redis_next_us(r));
    }
}

/* R1 */
static void redis_cancel(void *self)
{
    struct redis *r = self;
    delivery_queue_cancel(&r->waiting);
    while (r->out_count > 0) {
        const struct redis_out *last = out_at(r, r->out_count - 1);
        if (r->written_total > last->begin)
            break;
        buf_truncate(&r->bytes, (size_t)(last->begin - (r->written_total - r->written)));
        if (last->delivery != NULL)
            result_returned(done_add(r), last->delivery->token);
        r->out_count--;
    }
}

#define REDIS_OPS(name, check_function)                                                                        \
    {                                                                                                          \
        .scheme = (name), .size = sizeof(struct redis), .promises = TRANSPORT_REMOTE,                          \
        .concurrency = REDIS_CONCURRENCY, .check = (check_function), .open = redis_open, .close = redis_close, \
        .submit = redis_submit, .poll = redis_poll, .cancel = redis_cancel,                                    \
    }

const struct transport_ops transport_redis = REDIS_OPS("redis", redis_check);
const struct transport_ops transport_rediss = REDIS_OPS("rediss", rediss_check);
