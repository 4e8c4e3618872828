/* world.h - one transport, the messages for it, and a harness that knows the other side. */
#ifndef TEST_TRANSPORT_WORLD_H
#define TEST_TRANSPORT_WORLD_H

#include <jansson.h>

#include "base/buf.h"
#include "transport/transport.h"

#define WORLD_MESSAGES_MAX 600
#define WORLD_SOON_US PR_SECONDS(1) /* of deadlines that are to pass: a busy machine has begun by then */
#define WORLD_WAIT_US PR_SECONDS(20)

/* What a message shall meet on the other side. */
enum wish {
    WISH_OK,
    WISH_FAIL,        /* a clear no */
    WISH_LOSE_ANSWER, /* it arrives, and we never hear of it */
    WISH_HANG,        /* it arrives, and nothing happens any more */
    WISH_COUNT
};

struct world;

struct harness {
    const char *name;
    unsigned wishes;                /* bit per wish that it can fulfil */
    bool exact;                     /* arrivals have the whole payload */
    bool starts_early;              /* deliveries start before the first poll */
    void (*start)(struct world *w); /* fills w->config */
    void (*stop)(struct world *w);
    void (*make)(struct world *w, struct pr_message *m, enum wish wish); /* writes the wish on it */
    /* Adds an arrival for each message that is there, in order.  NULL: nobody can tell. */
    void (*arrivals)(struct world *w);
    /* Around every call of the transport; may be NULL. */
    void (*enter)(struct world *w);
    void (*leave)(struct world *w);
};

extern const struct harness harness_null, harness_console, harness_handler, harness_http, harness_batch, harness_redis,
    harness_amqp, harness_amqp1, harness_nats, harness_kafka, harness_mqtt, harness_exec, harness_lines, harness_file;

/* The folder of the last of these three. */
const char *harness_folder(void);

struct peer;
struct peer *harness_http_peer(struct world *w);

struct arrival {
    pr_id id;
    char *payload; /* NULL when the harness is not exact */
    size_t size;
};

struct world {
    const struct harness *harness;
    void *other_side; /* the harness's own */
    struct endpoint_config config;
    struct transport transport;
    int wake_fd;

    struct pr_message messages[WORLD_MESSAGES_MAX];
    struct delivery deliveries[WORLD_MESSAGES_MAX];
    struct delivery_result results[WORLD_MESSAGES_MAX];
    unsigned result_counts[WORLD_MESSAGES_MAX];
    size_t message_count, taken, answered;

    struct arrival arrivals[WORLD_MESSAGES_MAX * 2];
    size_t arrival_count;
};

void world_init(struct world *w, const struct harness *harness, unsigned concurrency);
/* The same in two steps, so that the config can be changed in between. */
void world_prepare(struct world *w, const struct harness *harness, unsigned concurrency);
void world_open(struct world *w);
void world_fini(struct world *w);

int64_t world_now(void); /* the monotonic clock */

/* Add a message that is to be sent; its index.  payload is borrowed. */
size_t world_add(struct world *w, const char *stream, pr_slice payload, enum wish wish);
/* Offer what was not taken yet; how many were taken. */
size_t world_submit(struct world *w);
/* Poll once, until at most so long from now; how many results came. */
size_t world_poll(struct world *w, int64_t wait_us);
/* Poll until all that were taken have their result. */
void world_collect(struct world *w);
/* Submit and poll until all have their result. */
void world_run(struct world *w);
void world_cancel(struct world *w);

void world_look(struct world *w);                    /* ask the other side what is there */
size_t world_arrived(struct world *w, size_t index); /* how often, at the last look */
void world_arrival_add(struct world *w, pr_id id, pr_slice payload);
/* The payload as it was sent, of an event in JSON. */
void world_event_payload(const json_t *event, struct buf *ret);

#endif
