#include "transport/delivery.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"

void result_ok(struct delivery_result *ret, uint64_t token)
{
    *ret = (struct delivery_result){ .token = token, .outcome = SEND_OK, .bits = PR_STATUS_PUBLISHED };
}

void result_returned(struct delivery_result *ret, uint64_t token)
{
    *ret = (struct delivery_result){ .token = token, .outcome = SEND_RETURNED };
}

/* A malloc'ed copy, or NULL. */
static char *clean_text(pr_slice text)
{
    struct buf b;
    buf_init(&b, (size_t)PR_ERROR_MAX * 4);
    utf8_clean(&b, utf8_cut(text, PR_ERROR_MAX));
    char *copy = buf_failed(&b) ? NULL : strndup(buf_slice(&b).data, b.size);
    buf_fini(&b);
    return copy;
}

/* Never ends inside a character.  Without memory it is empty. */
static void clean_code(pr_slice code, char ret[RESULT_CODE_SIZE])
{
    struct buf b;
    buf_init(&b, (size_t)RESULT_CODE_SIZE * 4);
    utf8_clean(&b, utf8_cut(code, RESULT_CODE_SIZE));
    pr_slice clean = utf8_cut_bytes(buf_slice(&b), RESULT_CODE_SIZE - 1);
    if (!buf_failed(&b) && clean.size > 0)
        memcpy(ret, clean.data, clean.size);
    ret[buf_failed(&b) ? 0 : clean.size] = '\0';
    buf_fini(&b);
}

void result_failed(struct delivery_result *ret, uint64_t token, enum send_outcome outcome, int reason, const char *code,
                   pr_slice error)
{
    ASSERT(outcome == SEND_FAILED || outcome == SEND_UNKNOWN);
    *ret = (struct delivery_result){ .token = token, .outcome = outcome, .reason = reason };
    clean_code(slice_from(code), ret->code);
    ret->error = error.size > 0 ? clean_text(error) : NULL;
}

void result_unsent(struct delivery_result *ret, uint64_t token, int reason, const char *code, pr_slice error)
{
    result_failed(ret, token, SEND_FAILED, reason, code, error);
    ret->unsent = true;
}

struct send_effect *effect_of(const struct pr_message *handled, pr_slice box, const struct pr_message *message)
{
    struct pr_message m = *message;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(handled->id, id);
    if (m.correlation_id.size == 0)
        m.correlation_id = handled->correlation_id;
    if (m.causation_id.size == 0)
        m.causation_id = slice_from(id);
    struct send_effect *e = malloc(sizeof(*e) + box.size + message_bytes(&m));
    if (e == NULL)
        return NULL;
    char *block = (char *)(e + 1);
    memcpy(block, box.data, box.size);
    *e = (struct send_effect){ .box = { block, box.size } };
    message_copy(&m, block + box.size, &e->message);
    if (pr_id_is_zero(e->message.id))
        pr_id_new(&e->message.id);
    return e;
}

void delivery_result_fini(struct delivery_result *result)
{
    free(result->error);
    free(result->output);
    free(result->need);
    effects_free(result->effects);
    if (result->settled != NULL)
        result->settled(result->settled_arg, PR_STALE);
    result->error = NULL;
    result->output = NULL;
    result->need = NULL;
    result->effects = NULL;
    result->settled = NULL;
}

bool wait_until(int fd, short events, int wake_fd, const struct clock *clock, int64_t deadline_us)
{
    struct pollfd fds[2] = { { .fd = fd, .events = events }, { .fd = wake_fd, .events = POLLIN } };
    for (;;) {
        int64_t left_us = max64(time_sub(deadline_us, clock_mono_us(clock)), 0);
        struct timespec left = { .tv_sec = left_us / 1000000, .tv_nsec = (long)(left_us % 1000000) * 1000 };
        int n = ppoll(fds, ARRAY_LENGTH(fds), &left, NULL);
        if (n >= 0)
            return n > 0 && fds[0].revents != 0;
        ASSERT(errno == EINTR || errno == ENOMEM);
        if (left_us == 0)
            return false;
    }
}

int delivery_queue_init(struct delivery_queue *q, size_t capacity, struct pr_error *reterr)
{
    *q = (struct delivery_queue){ .ring = calloc(capacity, sizeof(*q->ring)), .capacity = capacity };
    return q->ring != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for %zu deliveries", capacity);
}

void delivery_queue_fini(struct delivery_queue *q)
{
    free(q->ring);
    *q = (struct delivery_queue){ 0 };
}

size_t delivery_queue_push(struct delivery_queue *q, const struct delivery *const *list, size_t count)
{
    size_t taken = min_size(count, q->capacity - q->count);
    for (size_t i = 0; i < taken; i++)
        q->ring[(q->first + q->count++) % q->capacity] = list[i];
    return taken;
}

void delivery_queue_cancel(struct delivery_queue *q)
{
    q->cancelled = q->count;
}

const struct delivery *delivery_queue_peek(const struct delivery_queue *q, int64_t now_us, bool *ret_may_start)
{
    if (q->count == 0)
        return NULL;
    const struct delivery *d = q->ring[q->first];
    *ret_may_start = q->cancelled == 0 && delivery_may_start(d, now_us);
    return d;
}

void delivery_queue_drop(struct delivery_queue *q)
{
    ASSERT(q->count > 0);
    q->first = (q->first + 1) % q->capacity;
    q->count--;
    q->cancelled -= q->cancelled > 0;
}
