/* delivery.h - what the transports share: whether a delivery may start, results, and waiting. */
#ifndef TRANSPORT_DELIVERY_H
#define TRANSPORT_DELIVERY_H

#include "base/util.h"
#include "transport/transport.h"

/* False: it must not start any more, and is RETURNED.  A delivery whose deadline passes before it starts is not late by
 * its own fault, so it is returned, too. */
static inline bool delivery_may_start(const struct delivery *d, int64_t now_us)
{
    return now_us < d->start_before_us && now_us < d->deadline_us;
}

#define DELIVERY_WAIT_PART 4 /* the fraction of its time that may pass before it starts ... */
/* ... but at least this, since a busy machine has delays of its own */
#define DELIVERY_WAIT_MIN_US PR_MILLISECONDS(100)

/* Has it waited for its turn so long that a normal answer would come after its deadline?  Then it is RETURNED, and
 * handed out again with its full time. */
static inline bool delivery_has_waited(int64_t since_us, const struct endpoint_config *config, int64_t now_us)
{
    return time_sub(now_us, since_us) > max64(config->timeout_us / DELIVERY_WAIT_PART, DELIVERY_WAIT_MIN_US);
}

void result_ok(struct delivery_result *ret, uint64_t token);
void result_returned(struct delivery_result *ret, uint64_t token);
/* outcome is FAILED or UNKNOWN; the text is copied, cleaned and cut to PR_ERROR_MAX characters.  Without memory the
 * result has no text. */
void result_failed(struct delivery_result *ret, uint64_t token, enum send_outcome outcome, int reason, const char *code,
                   pr_slice error);
/* FAILED, and nothing was transmitted: the endpoint could not be reached, or the message could not be represented. */
void result_unsent(struct delivery_result *ret, uint64_t token, int reason, const char *code, pr_slice error);

/* A message that the handler of another one sends with its verdict: it is linked to that one, unless it has links of
 * its own, and gets an id.  One block, see struct send_effect; NULL: no memory.  The message must be checked. */
struct send_effect *effect_of(const struct pr_message *handled, pr_slice box, const struct pr_message *message);

/* The message's own timeout; 0: none. */
static inline int64_t message_timeout_us(const struct endpoint_config *config, const struct pr_message *message)
{
    return config->message_timeout != NULL ? config->message_timeout(message) : 0;
}

static inline const struct clock *config_clock(const struct endpoint_config *config)
{
    return config->clock != NULL ? config->clock : clock_system();
}

/* Waits until fd shows events, wake_fd becomes readable (-1: ignored), or deadline_us.  True when fd is ready. */
bool wait_until(int fd, short events, int wake_fd, const struct clock *clock, int64_t deadline_us);

/* Deliveries that were taken and not started: a ring of fixed size, first in, first out. */
struct delivery_queue {
    const struct delivery **ring;
    size_t capacity, first, count;
    size_t cancelled; /* how many of the first ones must not start any more */
};

PR_MUST_CHECK int delivery_queue_init(struct delivery_queue *q, size_t capacity, struct pr_error *reterr);
void delivery_queue_fini(struct delivery_queue *q); /* safe on a zeroed one */
/* Takes as many as there is room for, from the front; returns how many. */
size_t delivery_queue_push(struct delivery_queue *q, const struct delivery *const *list, size_t count);
void delivery_queue_cancel(struct delivery_queue *q); /* all deliveries in it now */

/* The first one, which stays in the queue, and whether it may start; NULL: empty. */
const struct delivery *delivery_queue_peek(const struct delivery_queue *q, int64_t now_us, bool *ret_may_start);
void delivery_queue_drop(struct delivery_queue *q); /* removes the first one; must not be empty */

#endif
