#include "source/broker/talk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "source/broker/broker.h"
#include "transport/delivery.h"

#define TALK_READ_SIZE 65536
#define TALK_OUT_MAX ((size_t)64 << 20) /* far more than acknowledgements have */
#define TALK_SAY_US PR_SECONDS(5)
#define TALK_LEAVE_US PR_MILLISECONDS(500)

static int64_t now(void)
{
    return clock_mono_us(clock_system());
}

int talk_init(struct talk *t, const struct endpoint_config *config, const struct broker_url *url, bool tls,
              size_t in_max, struct pr_error *reterr)
{
    t->in_max = in_max;
    buf_init(&t->in, in_max + 2 * TALK_READ_SIZE);
    buf_init(&t->out, TALK_OUT_MAX);
    return wire_init(&t->wire, config, url, tls, reterr);
}

void talk_fini(struct talk *t)
{
    wire_fini(&t->wire);
    buf_fini(&t->in);
    buf_fini(&t->out);
}

void talk_drop(struct talk *t)
{
    wire_close(&t->wire);
    buf_reset(&t->in);
    buf_reset(&t->out);
    t->used = t->written = 0;
    t->is_cutting = false;
    t->skip = 0;
}

static enum talk_end lost(struct talk *t)
{
    snprintf(t->why, sizeof(t->why), "%s", t->wire.why);
    talk_drop(t);
    return TALK_LOST;
}

/* ---- Connecting ------------------------------------------------------------------------------------ */

static enum talk_end greet(struct talk *t, int wake_fd)
{
    int64_t until_us = now() + TALK_GREETING_US;
    while (t->wire.state != WIRE_OPEN) {
        if (source_rest(wake_fd, 0))
            return TALK_WOKEN;
        if (now() >= until_us) {
            snprintf(t->why, sizeof(t->why), "%s:%u: no answer in time", t->wire.host, t->wire.port);
            talk_drop(t);
            return TALK_LOST;
        }
        if (wait_until(t->wire.fd, wire_events(&t->wire, false), wake_fd, clock_system(), until_us) &&
            !wire_progress(&t->wire))
            return lost(t);
    }
    t->heard_us = t->said_us = now();
    return TALK_BYTES;
}

enum talk_end talk_connect(struct talk *t, int wake_fd)
{
    talk_drop(t);
    return wire_connect(&t->wire) ? greet(t, wake_fd) : lost(t);
}

enum talk_end talk_secure(struct talk *t, int wake_fd)
{
    return wire_secure(&t->wire) ? greet(t, wake_fd) : lost(t);
}

/* ---- Bytes ------------------------------------------------------------------------------------------- */

/* Writes as much as the wire takes now. */
static bool flush(struct talk *t)
{
    while (t->written < t->out.size || t->wire.held_size > 0) {
        ssize_t rc = wire_write(&t->wire, t->out.data + t->written, t->out.size - t->written);
        if (rc < 0)
            return false;
        if (rc == 0)
            return true;
        t->written += (size_t)rc;
        t->said_us = now();
    }
    buf_reset(&t->out);
    t->written = 0;
    return true;
}

static bool has_bytes(const struct talk *t)
{
    return t->written < t->out.size;
}

static void forget_understood(struct talk *t)
{
    memmove(t->in.data, t->in.data + t->used, t->in.size - t->used);
    buf_truncate(&t->in, t->in.size - t->used);
    t->used = 0;
}

enum talk_end talk_look(struct talk *t)
{
    char bytes[TALK_READ_SIZE];
    if (buf_failed(&t->out) != 0) {
        snprintf(t->why, sizeof(t->why), "out of memory");
        talk_drop(t);
        return TALK_LOST;
    }
    if (!flush(t))
        return lost(t);
    ssize_t got = wire_read(&t->wire, bytes, sizeof(bytes));
    if (got < 0)
        return lost(t);
    if (got == 0)
        return TALK_TIMEOUT;
    t->heard_us = now();
    size_t skipped = (size_t)min64(got, (int64_t)min_size(t->skip, INT64_MAX)), more = (size_t)got - skipped;
    t->skip -= skipped;
    if (t->in.size + more > t->in_max)
        forget_understood(t);
    t->is_over = t->in.size + more > t->in_max + TALK_READ_SIZE;
    buf_add(&t->in, bytes + skipped, more);
    if (!t->is_over && buf_failed(&t->in) == 0)
        return TALK_BYTES;
    snprintf(t->why, sizeof(t->why),
             t->is_over ? "%s:%u: it sends more than %zu bytes at once: " INTAKE_SIZE_ADVICE
                        : "%s:%u: out of memory for the %zu bytes that it sends",
             t->wire.host, t->wire.port, t->in_max);
    talk_drop(t);
    return TALK_LOST;
}

enum talk_end talk_wait(struct talk *t, int wake_fd, int64_t deadline_us)
{
    for (;;) {
        enum talk_end end = talk_look(t);
        if (end != TALK_TIMEOUT)
            return end;
        if (wake_fd >= 0 && source_rest(wake_fd, 0))
            return TALK_WOKEN;
        if (now() >= deadline_us)
            return TALK_TIMEOUT;
        (void)wait_until(t->wire.fd, wire_events(&t->wire, has_bytes(t)), wake_fd, clock_system(), deadline_us);
    }
}

bool talk_say(struct talk *t)
{
    int64_t until_us = now() + TALK_SAY_US;
    while (talk_is_open(t) && (has_bytes(t) || t->wire.held_size > 0)) {
        if (!flush(t)) {
            (void)lost(t);
            return false;
        }
        if (now() >= until_us) {
            snprintf(t->why, sizeof(t->why), "%s:%u: it does not read what is sent", t->wire.host, t->wire.port);
            talk_drop(t);
            return false;
        }
        if (has_bytes(t))
            (void)wait_until(t->wire.fd, wire_events(&t->wire, true), -1, clock_system(), until_us);
    }
    return talk_is_open(t);
}

void talk_leave(struct talk *t)
{
    int64_t until_us = now() + TALK_LEAVE_US;
    while (talk_is_open(t) && talk_wait(t, -1, until_us) == TALK_BYTES)
        talk_understood(t, t->in.size - t->used);
    talk_drop(t);
}

pr_slice talk_heard(const struct talk *t)
{
    return t->in.size > 0 ? (pr_slice){ t->in.data + t->used, t->in.size - t->used } : (pr_slice){ NULL, 0 };
}

void talk_understood(struct talk *t, size_t size)
{
    t->used += size;
    ASSERT(t->used <= t->in.size);
    if (t->used == t->in.size) {
        buf_reset(&t->in);
        t->used = 0;
    } else if (t->used > TALK_READ_SIZE && t->used > t->in.size / 2) { /* rarely, so that the cost stays linear */
        forget_understood(t);
    }
}

bool talk_cut(struct talk *t, size_t keep, uint64_t drop)
{
    if (!t->is_cutting) {
        size_t from = t->used + keep, gone = min_size(t->in.size - from, drop);
        memmove(t->in.data + from, t->in.data + from + gone, t->in.size - from - gone);
        buf_truncate(&t->in, t->in.size - gone);
        t->skip = drop - gone;
    }
    t->is_cutting = t->skip > 0;
    return !t->is_cutting;
}

/* ---- Faults ------------------------------------------------------------------------------------------- */

int talk_fault(struct talk *t, struct pr_error *reterr, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    talk_drop(t);
    return error_set(reterr, PR_EIO, "%s:%u: %s", t->wire.host, t->wire.port, text);
}

int talk_ended(struct talk *t, enum talk_end end, struct pr_error *reterr)
{
    if (end == TALK_LOST)
        return error_set(reterr, PR_EIO, "%s", t->why);
    talk_drop(t);
    if (end == TALK_WOKEN)
        return error_set(reterr, PR_EBUSY, "the source is being stopped");
    return error_set(reterr, PR_EIO, "%s:%u: no answer in time", t->wire.host, t->wire.port);
}
