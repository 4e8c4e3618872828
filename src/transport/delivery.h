/* delivery.h - what the transports share: may a delivery start, how did it end, and waiting. */
#ifndef TRANSPORT_DELIVERY_H
#define TRANSPORT_DELIVERY_H

#include "base/util.h"
#include "transport/transport.h"

/* False: it must not start any more, and is RETURNED.  A delivery whose deadline passes before
 * it starts was not late itself, so it is returned, too. */
static inline bool delivery_may_start(const struct delivery *d, int64_t now_us)
{
    return now_us < d->start_before_us && now_us < d->deadline_us;
}

#define DELIVERY_WAIT_PART 4                      /* of its time: the part that may pass before it starts ... */
#define DELIVERY_WAIT_MIN_US PR_MILLISECONDS(100) /* ... or that, since a busy machine is late by itself */

/* It waited for its turn so long that a usual answer would come after its deadline.  It is RETURNED, and is handed
 * out again with all of its time. */
static inline bool delivery_has_waited(int64_t since_us, const struct endpoint_config *config, int64_t now_us)
{
    return time_sub(now_us, since_us) > max64(config->timeout_us / DELIVERY_WAIT_PART, DELIVERY_WAIT_MIN_US);
}

void result_ok(struct delivery_result *ret, uint64_t token);
void result_returned(struct delivery_result *ret, uint64_t token);
/* outcome is FAILED or UNKNOWN; the text is copied, cleaned and cut to PR_ERROR_MAX characters.
 * Without memory the result has no text. */
void result_failed(struct delivery_result *ret, uint64_t token, enum send_outcome outcome, int reason, const char *code,
                   pr_slice error);
/* FAILED, and nothing of it went to the other side: the endpoint could not be reached, or the message not be written. */
void result_unsent(struct delivery_result *ret, uint64_t token, int reason, const char *code, pr_slice error);

/* A message that whoever handled another one sends with its verdict: it belongs to that one, unless it says otherwise, and
 * has an id.  One block, see struct send_effect; NULL: no memory.  The message was checked. */
struct send_effect *effect_of(const struct pr_message *handled, pr_slice box, const struct pr_message *message);

/* How long this message may take, where it says so itself; 0: it does not. */
static inline int64_t message_timeout_us(const struct endpoint_config *config, const struct pr_message *message)
{
    return config->message_timeout != NULL ? config->message_timeout(message) : 0;
}

static inline const struct clock *config_clock(const struct endpoint_config *config)
{
    return config->clock != NULL ? config->clock : clock_system();
}

/* Wait until fd shows events, wake_fd becomes readable (-1: none of it), or deadline_us.
 * True when fd is ready. */
bool wait_until(int fd, short events, int wake_fd, const struct clock *clock, int64_t deadline_us);

/* Deliveries that were taken and not started: a ring of fixed size, first in, first out. */
struct delivery_queue {
    const struct delivery **ring;
    size_t capacity, first, count;
    size_t cancelled; /* how many of the first ones are not to start any more */
};

PR_MUST_CHECK int delivery_queue_init(struct delivery_queue *q, size_t capacity, struct pr_error *reterr);
void delivery_queue_fini(struct delivery_queue *q); /* safe on a zeroed one */
/* As many as there is room for; returns how many, from the front. */
size_t delivery_queue_push(struct delivery_queue *q, const struct delivery *const *list, size_t count);
void delivery_queue_cancel(struct delivery_queue *q); /* all that are in it now */

/* The first one, which stays in, and whether it may start; NULL: empty. */
const struct delivery *delivery_queue_peek(const struct delivery_queue *q, int64_t now_us, bool *ret_may_start);
void delivery_queue_drop(struct delivery_queue *q); /* the first one; must not be empty */

#endif
