#include "transport/process/parcel.h"

#include <errno.h>
#include <postrider_flow.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "core/reason.h"

/* ---- Writing ---------------------------------------------------------------------------------------- */

static void begin(struct buf *out)
{
    uint64_t size = 0;
    buf_reset(out);
    buf_add(out, &size, sizeof(size));
}

static void end(struct buf *out)
{
    uint64_t size = out->size - sizeof(size);
    if (buf_failed(out) == 0)
        memcpy(out->data, &size, sizeof(size));
}

static void put_slice(struct buf *out, pr_slice s)
{
    uint64_t size = s.size;
    buf_add(out, &size, sizeof(size));
    buf_add(out, s.data, s.size);
    buf_add_char(out, '\0'); /* so that the reader has a C string */
}

/* The struct, then all its texts. */
static void put_message(struct buf *out, const struct pr_message *m)
{
    struct pr_message copy;
    size_t size = message_bytes(m), at = out->size + sizeof(copy);
    buf_add(out, m, sizeof(*m));
    char *block = malloc(size + 1);
    if (block == NULL) {
        buf_truncate(out, 0); /* not a complete parcel */
        return;
    }
    message_copy(m, block, &copy);
    buf_add(out, block, size);
    free(block);
    ASSERT(buf_failed(out) != 0 || out->size == at + size);
}

void parcel_write_job(struct buf *out, const struct parcel_job *job)
{
    begin(out);
    buf_add(out, job, sizeof(*job));
    put_message(out, &job->message);
    put_slice(out, job->name);
    put_slice(out, job->box);
    put_slice(out, job->store_url);
    end(out);
}

void parcel_write_result(struct buf *out, const struct delivery_result *result)
{
    begin(out);
    buf_add(out, result, sizeof(*result));
    put_slice(out, slice_from(result->error));
    put_slice(out, (pr_slice){ result->output, result->output != NULL ? result->output_size : 0 });
    for (const struct send_effect *e = result->effects; e != NULL; e = e->next) {
        buf_add(out, e, sizeof(*e));
        put_message(out, &e->message);
        put_slice(out, e->box);
        put_slice(out, e->effect.key);
        put_slice(out, e->effect.name);
        put_slice(out, e->effect.value);
    }
    end(out);
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

struct parcel_cursor {
    const char *at, *end;
    bool bad;
};

static const char *take(struct parcel_cursor *c, size_t size)
{
    if (c->bad || (size_t)(c->end - c->at) < size) {
        c->bad = true;
        return NULL;
    }
    c->at += size;
    return c->at - size;
}

static void take_struct(struct parcel_cursor *c, void *ret, size_t size)
{
    const char *from = take(c, size);
    if (from != NULL)
        memcpy(ret, from, size);
}

static pr_slice take_slice(struct parcel_cursor *c)
{
    uint64_t size = 0;
    take_struct(c, &size, sizeof(size));
    const char *data = size < SIZE_MAX ? take(c, (size_t)size + 1) : NULL;
    return (pr_slice){ data != NULL ? data : "", data != NULL ? (size_t)size : 0 };
}

/* A bool with another value must not even be read. */
static void check_bool(struct parcel_cursor *c, const bool *flag)
{
    unsigned char byte;
    memcpy(&byte, flag, sizeof(byte));
    c->bad |= byte > 1;
}

static void take_message(struct parcel_cursor *c, struct pr_message *ret)
{
    take_struct(c, ret, sizeof(*ret));
    if (c->bad)
        return;
    check_bool(c, &ret->event);
    check_bool(c, &ret->expects_version);
    check_bool(c, &ret->released);
    c->bad |= !message_is_within(ret, (size_t)(c->end - c->at));
    const char *block = c->bad ? NULL : take(c, message_bytes(ret));
    if (block != NULL)
        message_rebase(ret, block);
}

bool parcel_read_job(struct buf *in, struct parcel_job *ret)
{
    struct parcel_cursor c = { in->data, in->data + in->size, false };
    take_struct(&c, ret, sizeof(*ret));
    take_message(&c, &ret->message);
    ret->name = take_slice(&c);
    ret->box = take_slice(&c);
    ret->store_url = take_slice(&c);
    ret->delivery.message = &ret->message;
    return !c.bad && c.at == c.end;
}

static pr_slice keep(char **at, pr_slice s)
{
    pr_slice kept = { *at, s.size };
    memcpy(*at, s.data, s.size);
    *at += s.size;
    return kept;
}

static bool is_name(pr_slice s)
{
    return s.size > 0 && s.size <= PR_NAME_MAX;
}

/* Could a handler have made this effect? */
static bool is_possible(const struct send_effect *e)
{
    switch (e->effect.kind) {
    case EFFECT_MESSAGE: return name_is_valid(e->box) && message_check(&e->message, PR_PAYLOAD_MAX, NULL) == PR_OK;
    case EFFECT_EVENT:
        return e->message.stream.size > 0 && e->effect.expected >= EFFECT_ANY &&
               message_check(&e->message, PR_PAYLOAD_MAX, NULL) == PR_OK;
    case EFFECT_STATE: return is_name(e->effect.key) && is_name(e->effect.name);
    default: return false;
    }
}

/* One block, as made by effect_of() and pr_effect_set(). */
static struct send_effect *take_effect(struct parcel_cursor *c)
{
    struct send_effect raw;
    struct pr_message m;
    take_struct(c, &raw, sizeof(raw));
    take_message(c, &m);
    pr_slice box = take_slice(c), key = take_slice(c), name = take_slice(c), value = take_slice(c);
    struct send_effect *e =
        c->bad ? NULL : malloc(sizeof(*e) + box.size + key.size + name.size + value.size + message_bytes(&m) + 1);
    if (e == NULL) {
        c->bad = true;
        return NULL;
    }
    char *at = (char *)(e + 1);
    bool has_value = raw.effect.value.data != NULL; /* without one it is removed */
    *e = (struct send_effect){ .effect = { .kind = raw.effect.kind,
                                           .takes_verdict = raw.effect.kind == EFFECT_EVENT,
                                           .expected = raw.effect.expected } };
    e->box = keep(&at, box);
    e->effect.key = keep(&at, key);
    e->effect.name = keep(&at, name);
    e->effect.value = keep(&at, value);
    if (!has_value)
        e->effect.value = (pr_slice){ NULL, 0 };
    message_copy(&m, at, &e->message);
    c->bad |= !is_possible(e);
    return e;
}

static void check_result(struct parcel_cursor *c, struct delivery_result *r)
{
    check_bool(c, &r->release_followers);
    check_bool(c, &r->disable);
    check_bool(c, &r->unsent);
    check_bool(c, &r->final);
    c->bad |= (unsigned)r->outcome > SEND_STALE || (r->reason != PR_REASON_NONE && !reason_is_known(r->reason)) ||
              r->retry_after_us < 0 || r->category < 0 || r->category > PR_CATEGORY_POISON ||
              memchr(r->code, '\0', sizeof(r->code)) == NULL;
}

bool parcel_read_result(const struct buf *in, struct delivery_result *ret)
{
    struct parcel_cursor c = { in->data, in->data + in->size, false };
    *ret = (struct delivery_result){ .token = 0 };
    take_struct(&c, ret, sizeof(*ret));
    bool has_output = ret->output != NULL; /* which may be empty */
    ret->effects = NULL;
    ret->error = ret->output = ret->need = NULL; /* pointers of the other process */
    ret->blamed = 0;                             /* it had only one message */
    ret->settled = NULL;
    ret->settled_arg = NULL;
    check_result(&c, ret);
    pr_slice error = take_slice(&c), output = take_slice(&c);
    ret->output_size = output.size;
    struct send_effect **last = &ret->effects;
    while (!c.bad && c.at < c.end) {
        struct send_effect *e = take_effect(&c);
        if (e != NULL) {
            *last = e;
            last = &e->next;
        }
    }
    if (!c.bad && error.size > 0)
        ret->error = strndup(error.data, error.size);
    if (!c.bad && has_output) {
        ret->output = output_copy(output);
        c.bad = ret->output == NULL;
    }
    if (c.bad)
        delivery_result_fini(ret);
    return !c.bad;
}

/* ---- On the socket --------------------------------------------------------------------------------------- */

bool parcel_send(int fd, const struct buf *parcel)
{
    if (buf_failed(parcel) != 0 || parcel->size < sizeof(uint64_t))
        return false;
    for (size_t sent = 0; sent < parcel->size;) {
        ssize_t n = send(fd, parcel->data + sent, parcel->size - sent, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR)
            return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool receive_all(int fd, void *ret, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t n = recv(fd, (char *)ret + got, size - got, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool parcel_receive(int fd, struct buf *ret)
{
    char bytes[65536];
    uint64_t size;
    buf_reset(ret);
    if (!receive_all(fd, &size, sizeof(size)) ||
        size > ret->max) /* larger: a handler wrote to a descriptor that is not its own */
        return false;
    while (size > 0) {
        size_t part = (size_t)min64((int64_t)size, (int64_t)sizeof(bytes));
        if (!receive_all(fd, bytes, part))
            return false;
        buf_add(ret, bytes, part);
        size -= part;
    }
    return buf_failed(ret) == 0;
}
