#include "transport/broker/session.h"

#include <stdio.h>

#include "base/util.h"

int session_check(session_url *parse, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct arena arena;
    struct broker_url url;
    arena_init(&arena, 1024);
    int rc = parse(config, &arena, &url, reterr);
    arena_fini(&arena);
    return rc;
}

int session_init(struct broker_session *s, const struct session_ops *ops, void *self, session_url *parse,
                 const struct endpoint_config *config, struct pr_error *reterr)
{
    s->ops = ops;
    s->self = self;
    s->config = config;
    s->clock = config_clock(config);
    s->why_reason = PR_REASON_TRANSPORT_UNAVAILABLE;
    arena_init(&s->arena, 1024);
    return parse(config, &s->arena, &s->url, reterr);
}

int session_open(struct broker_session *s, bool tls, struct pr_error *reterr)
{
    int rc = wire_init(&s->wire, s->config, &s->url, tls, reterr);
    return rc == PR_OK ? pipeline_init(&s->pipeline, s->config, reterr) : rc;
}

/* ---- It comes and goes --------------------------------------------------------------------------------- */

static bool is_greeting(const struct broker_session *s)
{
    return s->state == SESSION_CONNECTING || s->state == SESSION_GREETING;
}

static void drop(struct broker_session *s)
{
    wire_close(&s->wire);
    s->ops->drop(s->self);
    s->state = SESSION_DOWN;
}

void session_fini(struct broker_session *s)
{
    s->ops->drop(s->self);
    wire_fini(&s->wire);
    pipeline_fini(&s->pipeline);
    arena_fini(&s->arena);
}

void session_lost(struct broker_session *s, int reason, const char *code, const char *what)
{
    bool login = reason == PR_REASON_UNAUTHORIZED && s->state != SESSION_UP;
    snprintf(s->why, sizeof(s->why), "%.400s%s", what, login ? ": " BROKER_LOGIN_ADVICE : "");
    snprintf(s->why_code, sizeof(s->why_code), "%s", code);
    s->why_reason = reason;
    pipeline_lost(&s->pipeline, code, s->why);
    if (is_greeting(s)) /* now: an attempt that took long is followed by the next one at once */
        pipeline_refuse(&s->pipeline, clock_mono_us(s->clock), reason, code, s->why);
    drop(s);
}

void session_failed(struct broker_session *s, int reason, const char *code, const char *what)
{
    char text[sizeof(s->why)];
    snprintf(text, sizeof(text), "%s:%u: %s", s->url.host.data, s->url.port, what);
    session_lost(s, reason, code, text);
}

void session_wire_lost(struct broker_session *s)
{
    session_lost(s, PR_REASON_TRANSPORT_UNAVAILABLE, s->wire.code, s->wire.why);
}

void session_begin_greeting(struct broker_session *s, int64_t now_us)
{
    s->give_up_us = now_us + SESSION_GREETING_US;
    s->prolonged = false;
}

size_t session_read(struct broker_session *s, void *ret, size_t size)
{
    if (s->wire.state != WIRE_OPEN || s->read_bytes >= SESSION_READ_MAX)
        return 0;
    if (size == 0) {
        session_failed(s, PR_REASON_TRANSPORT_UNAVAILABLE, "", "an answer that is too large");
        return 0;
    }
    ssize_t got = wire_read(&s->wire, ret, size);
    if (got < 0)
        session_wire_lost(s);
    s->read_bytes += got > 0 ? (size_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

void session_secure(struct broker_session *s)
{
    if (!wire_secure(&s->wire))
        session_wire_lost(s);
    else
        s->state = SESSION_CONNECTING;
}

static void begin(struct broker_session *s, int64_t now_us)
{
    reconnect_tried(&s->reconnect, now_us);
    drop(s);
    if (!wire_connect(&s->wire)) {
        session_wire_lost(s);
        return;
    }
    s->state = SESSION_CONNECTING;
    session_begin_greeting(s, now_us);
}

static void progress(struct broker_session *s)
{
    if (!wire_progress(&s->wire)) {
        session_wire_lost(s);
    } else if (s->wire.state == WIRE_OPEN) {
        s->state = SESSION_GREETING;
        s->ops->greet(s->self);
    }
}

/* ---- Deadlines --------------------------------------------------------------------------------------------- */

/* A connection whose missing answers nothing waits for is closed, unless there is a known reason. */
static void expire(struct broker_session *s, int64_t now_us)
{
    bool owes = !pipeline_expire(&s->pipeline, now_us);
    bool held = s->ops->is_held != NULL && s->ops->is_held(s->self);
    if ((owes && !held) || (is_greeting(s) && now_us >= s->give_up_us))
        session_failed(s, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no answer in time");
    else if (s->ops->expire != NULL && s->wire.state == WIRE_OPEN)
        s->ops->expire(s->self, now_us);
}

static int64_t next_us(struct broker_session *s)
{
    int64_t next = pipeline_next_us(&s->pipeline);
    if (is_greeting(s))
        next = min64(next, s->give_up_us);
    return s->ops->next_us != NULL ? min64(next, s->ops->next_us(s->self)) : next;
}

/* ---- Work ---------------------------------------------------------------------------------------------------- */

size_t session_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct broker_session *s = self;
    bool idle = s->pipeline.waiting.count + s->pipeline.out_count == 0;
    if (idle && is_greeting(s) && !s->prolonged) { /* nobody has polled meanwhile: its answer may be here */
        s->give_up_us = clock_mono_us(s->clock) + SESSION_GREETING_US;
        s->prolonged = true;
    }
    return pipeline_submit(&s->pipeline, list, count);
}

/* Does everything that is possible without waiting.  Reading comes first: messages must not be given to a connection
 * that was closed while nobody polled. */
static void work(struct broker_session *s)
{
    int64_t now_us = clock_mono_us(s->clock);
    s->read_bytes = 0;
    if (s->wire.state == WIRE_OPEN)
        s->ops->read(s->self, now_us);
    if (s->state == SESSION_DOWN && pipeline_has_work(&s->pipeline) && reconnect_may(&s->reconnect, now_us))
        begin(s, now_us);
    expire(s, now_us);
    if (is_greeting(s))
        pipeline_await(&s->pipeline, s->give_up_us - SESSION_GREETING_US, now_us, s->url.host.data, s->url.port);
    if (s->wire.state == WIRE_OPEN)
        s->ops->send(s->self, now_us);
    if (s->state == SESSION_DOWN)
        pipeline_refuse(&s->pipeline, now_us, s->why_reason, s->why_code, s->why);
    else
        (void)pipeline_next(&s->pipeline, now_us); /* returns those that may not start any more */
}

/* True: there is something to do, or it is time. */
static bool wait(struct broker_session *s, int64_t deadline_us)
{
    if (s->read_bytes >= SESSION_READ_MAX)
        return true; /* there is more, possibly inside TLS where poll() cannot see it */
    short events = wire_events(&s->wire, s->wire.state == WIRE_OPEN && s->ops->has_bytes(s->self));
    int64_t until_us = min64(deadline_us, next_us(s));
    bool ready = wait_until(s->wire.fd, events, s->config->wake_fd, s->clock, until_us);
    if (ready && s->state == SESSION_CONNECTING)
        progress(s);
    return ready || clock_mono_us(s->clock) >= until_us;
}

size_t session_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct broker_session *s = self;
    bool woken = false;
    for (;;) {
        work(s);
        size_t count = pipeline_take(&s->pipeline, ret, max);
        if (count > 0 || woken || clock_mono_us(s->clock) >= deadline_us)
            return count;
        woken = !wait(s, deadline_us);
    }
}

void session_cancel(void *self)
{
    struct broker_session *s = self;
    pipeline_cancel(&s->pipeline);
}
