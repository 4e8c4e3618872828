/* pipeline.h - many deliveries on one connection at once: waiting, out, answered.
 *
 *    waiting --> out (its bytes: buffered, on the wire) --> answered --> its result is polled
 *
 * What is out stands in a ring, in the order in which it began, each under a number that is never used twice.
 *
 *   L1  A delivery is on the wire from its first byte on.  Until then it can be cut off again: it was never
 *       started.  What stands behind it in the buffer is cut off with it.
 *   L2  A message of which not every byte was written does not arrive: it failed.  One that was written whole
 *       and not answered may have arrived: UNKNOWN.
 *   L3  A delivery that was given up at its deadline keeps its place: its answer may still come. */
#ifndef TRANSPORT_BROKER_PIPELINE_H
#define TRANSPORT_BROKER_PIPELINE_H

#include "base/buf.h"
#include "transport/delivery.h"

#define PIPELINE_CONCURRENCY 1000
#define PIPELINE_CONCURRENCY_MAX 100000
#define PIPELINE_BUFFERED_MAX (256u << 10) /* bytes not written yet, before one more message is added */

struct wire;

struct pipeline_out {
    const struct delivery *delivery; /* NULL: it has its result */
    uint64_t begin, end;             /* its bytes, counted from the beginning of the connection */
    int64_t deadline_us;             /* its delivery's */
    bool answered;                   /* and only stands in for those before it */
    bool late;                       /* its deadline has passed: nobody waits for its answer */
};

struct pipeline {
    struct delivery_queue waiting;
    struct buf bytes;       /* from `written` on still to be written */
    size_t written;         /* of bytes */
    uint64_t written_total; /* since the connection began */
    struct pipeline_out *out;
    size_t capacity, out_first, out_count;
    uint64_t first_number; /* of the first one out */
    size_t awaited;        /* of those out: neither answered nor late */
    int64_t check_us;      /* while something is out: none of it is late before */
    struct delivery_result *done;
    size_t done_first, done_count;
};

/* concurrency 0: PIPELINE_CONCURRENCY.  PR_OK or PR_ENOMEM; afterwards safe to fini. */
PR_MUST_CHECK int pipeline_init(struct pipeline *p, const struct endpoint_config *config, struct pr_error *reterr);
void pipeline_fini(struct pipeline *p); /* safe on a zeroed one */
/* PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int pipeline_check(const struct endpoint_config *config, struct pr_error *reterr);

size_t pipeline_submit(struct pipeline *p, const struct delivery *const *list, size_t count);
struct delivery_result *pipeline_result(struct pipeline *p); /* room for one that is to be polled */
size_t pipeline_take(struct pipeline *p, struct delivery_result *ret, size_t max);

/* The next one that may start; those that may not any more are returned.  It stays in waiting. */
const struct delivery *pipeline_next(struct pipeline *p, int64_t now_us);
bool pipeline_has_work(const struct pipeline *p); /* is there one that was not cancelled? */
/* All that wait fail, or are returned. */
void pipeline_refuse(struct pipeline *p, int64_t now_us, int reason, const char *code, const char *text);
/* A connection is being made since then: who waits for it beyond his deadline fails, since the other side is late. */
void pipeline_await(struct pipeline *p, int64_t since_us, int64_t now_us, const char *host, unsigned port);

/* The one of pipeline_next() is out: its bytes were added since the buffer had this size.  Its number. */
uint64_t pipeline_began(struct pipeline *p, size_t bytes_before);
size_t pipeline_unwritten(const struct pipeline *p); /* bytes */
/* As much as the wire takes; false: it failed. */
PR_MUST_CHECK bool pipeline_write(struct pipeline *p, struct wire *wire);

struct pipeline_out *pipeline_at(struct pipeline *p, size_t index);
/* It gets its result, and its place stays until it is answered: its delivery, NULL: it had its result. */
const struct delivery *pipeline_end(struct pipeline_out *o);
/* Its answer is here; the delivery that waits for it, NULL: none does, or there is no such number. */
const struct delivery *pipeline_answer(struct pipeline *p, uint64_t number);

/* L1: those that have not begun are returned. */
void pipeline_cut(struct pipeline *p);
void pipeline_cancel(struct pipeline *p);
/* L2: everything out gets its result, and the buffer is empty.  Whatever ended the connection, none of them is to
 * blame: the reason is TRANSPORT_UNAVAILABLE. */
void pipeline_lost(struct pipeline *p, const char *code, const char *text);
/* L3.  False: answers are owed, and nobody waits for any of them. */
PR_MUST_CHECK bool pipeline_expire(struct pipeline *p, int64_t now_us);
/* When to call that again; at times too early. */
int64_t pipeline_next_us(const struct pipeline *p);

#endif
