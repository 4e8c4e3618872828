#include "transport/broker/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/util.h"
#include "transport/broker/wire.h"

int pipeline_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return config->concurrency <= PIPELINE_CONCURRENCY_MAX
               ? PR_OK
               : error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                           PIPELINE_CONCURRENCY_MAX);
}

int pipeline_init(struct pipeline *p, const struct endpoint_config *config, struct pr_error *reterr)
{
    p->capacity = config->concurrency != 0 ? config->concurrency : PIPELINE_CONCURRENCY;
    p->first_number = 1;
    buf_init(&p->bytes, SIZE_MAX / 4);
    p->out = calloc(p->capacity, sizeof(*p->out));
    p->done = calloc(p->capacity, sizeof(*p->done));
    if (p->out == NULL || p->done == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory for %zu messages", config->name, p->capacity);
    return delivery_queue_init(&p->waiting, p->capacity, reterr);
}

void pipeline_fini(struct pipeline *p)
{
    for (; p->done_count > 0; p->done_count--) {
        delivery_result_fini(&p->done[p->done_first]);
        p->done_first = (p->done_first + 1) % p->capacity;
    }
    delivery_queue_fini(&p->waiting);
    buf_fini(&p->bytes);
    free(p->out);
    free(p->done);
    *p = (struct pipeline){ 0 };
}

/* ---- Results --------------------------------------------------------------------------------------- */

struct delivery_result *pipeline_result(struct pipeline *p)
{
    ASSERT(p->done_count < p->capacity);
    return &p->done[(p->done_first + p->done_count++) % p->capacity];
}

size_t pipeline_take(struct pipeline *p, struct delivery_result *ret, size_t max)
{
    size_t count = 0;
    for (; count < max && p->done_count > 0; count++, p->done_count--) {
        ret[count] = p->done[p->done_first];
        p->done_first = (p->done_first + 1) % p->capacity;
    }
    return count;
}

/* ---- Waiting ----------------------------------------------------------------------------------------- */

size_t pipeline_submit(struct pipeline *p, const struct delivery *const *list, size_t count)
{
    size_t used = p->waiting.count + p->out_count + p->done_count; /* one with a result may count twice */
    return delivery_queue_push(&p->waiting, list, min_size(count, p->capacity - min_size(used, p->capacity)));
}

const struct delivery *pipeline_next(struct pipeline *p, int64_t now_us)
{
    const struct delivery *d;
    bool may_start = false;
    while ((d = delivery_queue_peek(&p->waiting, now_us, &may_start)) != NULL && !may_start) {
        delivery_queue_drop(&p->waiting);
        result_returned(pipeline_result(p), d->token);
    }
    return d;
}

bool pipeline_has_work(const struct pipeline *p)
{
    return p->waiting.count > p->waiting.cancelled;
}

void pipeline_refuse(struct pipeline *p, int64_t now_us, int reason, const char *code, const char *text)
{
    const struct delivery *d;
    while ((d = pipeline_next(p, now_us)) != NULL) {
        delivery_queue_drop(&p->waiting);
        result_unsent(pipeline_result(p), d->token, reason, code, pr_str(text));
    }
}

void pipeline_await(struct pipeline *p, int64_t since_us, int64_t now_us, const char *host, unsigned port)
{
    const struct delivery *d;
    bool may_start = false;
    char text[256];
    snprintf(text, sizeof(text), "%.120s:%u: no connection in time", host, port);
    while ((d = delivery_queue_peek(&p->waiting, now_us, &may_start)) != NULL && !may_start) {
        bool late = p->waiting.cancelled == 0 && now_us < d->start_before_us && d->deadline_us > since_us;
        delivery_queue_drop(&p->waiting);
        if (late)
            result_unsent(pipeline_result(p), d->token, PR_REASON_TRANSPORT_UNAVAILABLE, "", pr_str(text));
        else
            result_returned(pipeline_result(p), d->token);
    }
}

/* ---- Out ------------------------------------------------------------------------------------------------ */

struct pipeline_out *pipeline_at(struct pipeline *p, size_t index)
{
    ASSERT(index < p->out_count);
    return &p->out[(p->out_first + index) % p->capacity];
}

uint64_t pipeline_began(struct pipeline *p, size_t bytes_before)
{
    uint64_t base = p->written_total - p->written;
    const struct delivery *d = p->waiting.ring[p->waiting.first];
    int64_t late_us = min64(d->deadline_us, d->start_before_us);
    delivery_queue_drop(&p->waiting);
    p->check_us = p->out_count > 0 ? min64(p->check_us, late_us) : late_us;
    p->out_count++;
    p->awaited++;
    *pipeline_at(p, p->out_count - 1) = (struct pipeline_out){
        .delivery = d, .begin = base + bytes_before, .end = base + p->bytes.size, .deadline_us = d->deadline_us
    };
    return p->first_number + p->out_count - 1;
}

const struct delivery *pipeline_end(struct pipeline_out *o)
{
    const struct delivery *d = o->delivery;
    o->delivery = NULL;
    return d;
}

/* When it leaves, or is late. */
static void await_no_more(struct pipeline *p, struct pipeline_out *o)
{
    p->awaited -= !o->answered && !o->late;
}

static void drop_first(struct pipeline *p)
{
    p->out_first = (p->out_first + 1) % p->capacity;
    p->out_count--;
    p->first_number++;
}

const struct delivery *pipeline_answer(struct pipeline *p, uint64_t number)
{
    if (number < p->first_number || number - p->first_number >= p->out_count)
        return NULL;
    struct pipeline_out *o = pipeline_at(p, (size_t)(number - p->first_number));
    const struct delivery *d = pipeline_end(o);
    await_no_more(p, o);
    o->answered = true;
    while (p->out_count > 0 && pipeline_at(p, 0)->answered)
        drop_first(p);
    return d;
}

size_t pipeline_unwritten(const struct pipeline *p)
{
    return p->bytes.size - p->written;
}

bool pipeline_write(struct pipeline *p, struct wire *wire)
{
    ssize_t sent = 1;
    while (sent > 0 && wire->state == WIRE_OPEN && (pipeline_unwritten(p) > 0 || wire->held_size > 0)) {
        sent = wire_write(wire, p->bytes.data + p->written, pipeline_unwritten(p));
        if (sent < 0)
            return false;
        p->written += (size_t)sent;
        p->written_total += (uint64_t)sent;
    }
    if (p->written == p->bytes.size) {
        buf_reset(&p->bytes);
        p->written = 0;
    }
    return true;
}

/* ---- Ends ------------------------------------------------------------------------------------------------- */

static bool has_begun(const struct pipeline *p, const struct pipeline_out *o)
{
    return p->written_total > o->begin || o->end == o->begin; /* without bytes here: proton has them */
}

void pipeline_cut(struct pipeline *p)
{
    while (p->out_count > 0) {
        struct pipeline_out *last = pipeline_at(p, p->out_count - 1);
        if (has_begun(p, last))
            break;
        buf_truncate(&p->bytes, (size_t)(last->begin - (p->written_total - p->written)));
        const struct delivery *d = pipeline_end(last);
        await_no_more(p, last);
        if (d != NULL)
            result_returned(pipeline_result(p), d->token);
        p->out_count--;
    }
}

void pipeline_cancel(struct pipeline *p)
{
    delivery_queue_cancel(&p->waiting);
    pipeline_cut(p);
}

void pipeline_lost(struct pipeline *p, const char *code, const char *text)
{
    for (; p->out_count > 0; drop_first(p)) {
        struct pipeline_out *o = pipeline_at(p, 0);
        bool begun = has_begun(p, o);
        const struct delivery *d = pipeline_end(o);
        await_no_more(p, o);
        if (d != NULL && !begun)
            result_unsent(pipeline_result(p), d->token, PR_REASON_TRANSPORT_UNAVAILABLE, code, pr_str(text));
        else if (d != NULL)
            result_failed(pipeline_result(p), d->token, p->written_total >= o->end ? SEND_UNKNOWN : SEND_FAILED,
                          PR_REASON_TRANSPORT_UNAVAILABLE, code, pr_str(text));
    }
    buf_reset(&p->bytes);
    p->written = 0;
    p->written_total = 0;
}

/* A delivery that has its result and no answer yet is awaited until its deadline all the same. */
static int64_t next_look_us(const struct pipeline *p, const struct pipeline_out *o)
{
    if (o->answered || o->late)
        return PR_NEVER;
    return has_begun(p, o) || o->delivery == NULL ? o->deadline_us
                                                  : min64(o->deadline_us, o->delivery->start_before_us);
}

static void become_late(struct pipeline *p, struct pipeline_out *o)
{
    const struct delivery *d = pipeline_end(o);
    await_no_more(p, o);
    o->late = true;
    if (d != NULL)
        result_failed(pipeline_result(p), d->token, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "",
                      PR_STR("no answer in time"));
}

/* Looks at everything that is out, so not with every poll. */
static void give_up_late(struct pipeline *p, int64_t now_us)
{
    p->check_us = PR_NEVER;
    for (size_t i = 0; i < p->out_count; i++) {
        struct pipeline_out *o = pipeline_at(p, i);
        if (o->delivery != NULL && !has_begun(p, o) && !delivery_may_start(o->delivery, now_us)) {
            pipeline_cut(p);
            return;
        }
        if (!o->answered && !o->late && now_us >= o->deadline_us)
            become_late(p, o);
        p->check_us = min64(p->check_us, next_look_us(p, o));
    }
}

bool pipeline_expire(struct pipeline *p, int64_t now_us)
{
    if (p->out_count > 0 && now_us >= p->check_us)
        give_up_late(p, now_us);
    return p->out_count == 0 || p->awaited > 0; /* the first one out is never an answered one */
}

int64_t pipeline_next_us(const struct pipeline *p)
{
    int64_t next_us = p->out_count > 0 ? p->check_us : PR_NEVER;
    if (p->waiting.count > 0) {
        const struct delivery *first = p->waiting.ring[p->waiting.first];
        next_us = min64(next_us, min64(first->deadline_us, first->start_before_us));
    }
    return next_us;
}
