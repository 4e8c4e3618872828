/* pipeline.h - many deliveries on one connection at once: waiting, out, answered.
 *
 *    waiting --> out (its bytes: buffered, on the wire) --> answered --> its result is polled
 *
 * Deliveries that are out are in a ring, in the order of their start, each under a number that is never reused.
 *
 *   L1  A delivery is on the wire from its first byte on.  Until then it can be cut off again: it was never
 *       started.  Deliveries behind it in the buffer are cut off with it.
 *   L2  A message that was not written completely does not arrive: it failed.  One that was written completely
 *       and not answered may have arrived: UNKNOWN.
 *   L3  A delivery that was given up at its deadline keeps its place: its answer may still come. */
#ifndef TRANSPORT_BROKER_PIPELINE_H
#define TRANSPORT_BROKER_PIPELINE_H

#include "base/buf.h"
#include "transport/delivery.h"

#define PIPELINE_CONCURRENCY 1000
#define PIPELINE_CONCURRENCY_MAX 100000
#define PIPELINE_BUFFERED_MAX (256u << 10) /* unwritten bytes, above which no message is added */

struct wire;

struct pipeline_out {
    const struct delivery *delivery; /* NULL: it has its result */
    uint64_t begin, end;             /* positions of its bytes, counted from the beginning of the connection */
    int64_t deadline_us;             /* its delivery's */
    bool answered;                   /* only its place remains, since earlier ones are not answered */
    bool late;                       /* its deadline has passed: its answer is not awaited */
};

struct pipeline {
    struct delivery_queue waiting;
    struct buf bytes;       /* from `written` on still to be written */
    size_t written;         /* of bytes */
    uint64_t written_total; /* since the connection began */
    struct pipeline_out *out;
    size_t capacity, out_first, out_count;
    uint64_t first_number; /* of the first one out */
    size_t awaited;        /* of those that are out, neither answered nor late */
    int64_t check_us;      /* while something is out: nothing is late before this time */
    struct delivery_result *done;
    size_t done_first, done_count;
};

/* concurrency 0: PIPELINE_CONCURRENCY.  PR_OK or PR_ENOMEM; afterwards safe to fini. */
PR_MUST_CHECK int pipeline_init(struct pipeline *p, const struct endpoint_config *config, struct pr_error *reterr);
void pipeline_fini(struct pipeline *p); /* safe on a zeroed one */
/* PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int pipeline_check(const struct endpoint_config *config, struct pr_error *reterr);

size_t pipeline_submit(struct pipeline *p, const struct delivery *const *list, size_t count);
struct delivery_result *pipeline_result(struct pipeline *p); /* room for a result to be polled */
size_t pipeline_take(struct pipeline *p, struct delivery_result *ret, size_t max);

/* The next delivery that may start; those that may not any more are returned.  It stays in the queue. */
const struct delivery *pipeline_next(struct pipeline *p, int64_t now_us);
bool pipeline_has_work(const struct pipeline *p); /* is there a delivery that was not cancelled? */
/* All waiting deliveries fail, or are returned. */
void pipeline_refuse(struct pipeline *p, int64_t now_us, int reason, const char *code, const char *text);
/* A connection has been under construction since then: deliveries whose deadline has passed fail, since the other side
 * is late. */
void pipeline_await(struct pipeline *p, int64_t since_us, int64_t now_us, const char *host, unsigned port);

/* The delivery of pipeline_next() is out: its bytes were added since the buffer had this size.  Returns its number. */
uint64_t pipeline_began(struct pipeline *p, size_t bytes_before);
size_t pipeline_unwritten(const struct pipeline *p); /* bytes */
/* Writes as much as the wire takes; false: it failed. */
PR_MUST_CHECK bool pipeline_write(struct pipeline *p, struct wire *wire);

struct pipeline_out *pipeline_at(struct pipeline *p, size_t index);
/* The delivery gets its result, and its place remains until it is answered: returns the delivery, NULL: it had its
 * result. */
const struct delivery *pipeline_end(struct pipeline_out *o);
/* An answer has arrived; returns the delivery that waits for it, NULL: none does, or the number is unknown. */
const struct delivery *pipeline_answer(struct pipeline *p, uint64_t number);

/* L1: returns those that have not begun. */
void pipeline_cut(struct pipeline *p);
void pipeline_cancel(struct pipeline *p);
/* L2: every delivery that is out gets its result, and the buffer is emptied.  Whatever ended the connection, none of
 * them is to blame: the reason is TRANSPORT_UNAVAILABLE. */
void pipeline_lost(struct pipeline *p, const char *code, const char *text);
/* L3.  False: answers are missing, and no delivery waits for them any more. */
PR_MUST_CHECK bool pipeline_expire(struct pipeline *p, int64_t now_us);
/* When to call that again; possibly too early. */
int64_t pipeline_next_us(const struct pipeline *p);

#endif
