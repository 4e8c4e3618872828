/* A transport carries messages to one kind of destination.
 *
 * The caller allocates `size` zeroed bytes and passes them as self.  Calls on one self come from one thread and never
 * overlap.  submit and cancel do not block; poll may, until deadline_us (monotonic clock).
 *
 * What every transport promises (test/transport holds each to it):
 *   P1  Each submitted delivery gets exactly one result, whatever happens to the other side.
 *   P2  Deliveries of one stream that are submitted in order arrive in order (promise ORDERED);
 *       the engine never has two of one stream out at once unless the transport says ORDERED.
 *   P3  A payload arrives byte for byte.
 *   P4  After cancel() no delivery goes out that is not on the wire yet; everything gets its result.
 *   P5  The result of a delivery that may have arrived is UNKNOWN, never a plain failure.
 *   P6  A failing delivery costs its neighbours nothing. */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include "base/arena.h"
#include "base/log.h"
#include "base/time.h"
#include "core/delivery.h"
#include "core/message.h"
#include "core/reason.h"

#define TRANSPORT_BATCHES 4 /* batches at once: few, so that they fill up while others are out */
#define TRANSPORT_BATCH_MESSAGES 100
#define TRANSPORT_BATCH_BYTES ((size_t)256 * 1024)

struct network {
    uint8_t address[16];
    unsigned prefix;
    bool v6;
}; /* v4 in the first 4 bytes */

/* The settings of an endpoint for its transport.  Borrowed until close. */
struct endpoint_config {
    const char *name;
    const char *role; /* its name in faults; NULL: "endpoint" */
    const char *url;
    const char *source;      /* CloudEvents source when the message has none */
    const char *envelope;    /* binary, structured, batch, raw */
    unsigned batch_messages; /* envelope batch: maximum number of messages in one request; 0: a default */
    size_t batch_bytes;      /* ... and their total size, except for a single larger message; 0: a default */
    int64_t timeout_us;
    unsigned concurrency;    /* maximum number of deliveries (or batches) at once; 0: the transport's own */
    const char *ca;          /* a file of certificates to trust instead of the system's; NULL, "": none */
    const char *cert, *key;  /* files: the client's own certificate and its key; NULL, "": none */
    const char *const *sign; /* secrets of Standard Webhooks; http only */
    size_t sign_count;
    const char *method, *proxy; /* http only: of requests; NULL, "": POST, none */
    const struct endpoint_header {
        pr_slice name, value;
    } * headers; /* http only: of every request */
    size_t header_count;
    const char *const *secret_variables; /* variables of the environment that programs of exec do not get */
    size_t secret_variable_count;
    const struct network *allow_networks;
    size_t allow_network_count;
    pr_handler handler; /* handler transport: resolved by the runtime */
    void *handler_user;
    struct launcher *launcher; /* ... which runs in processes of its own; NULL: in threads */
    /* The message's own timeout; 0: timeout_us.  May be NULL. */
    int64_t (*message_timeout)(const struct pr_message *message);
    size_t answer_max;     /* > 0: the answer to a message is its result (delivery_result.output); the maximum size */
    struct pull *pull;     /* pull transport: where claimers get messages; NULL: there are no claimers */
    const char *box;       /* the box of the messages; NULL: none */
    const char *store_url; /* of that box, and for handlers that complete messages themselves: */
    int64_t keep_us, dedupe_us, lease_us; /* ... the box's keep and dedupe, and the lease of its instance */
    const struct clock *clock;            /* NULL: the system's */
    struct log *log;
    int wake_fd; /* eventfd that wakes a blocking poll early; -1: none.  Read by the caller */
};

/* "endpoint orders", for faults. */
struct endpoint_title {
    char text[160];
};
struct endpoint_title endpoint_title(const struct endpoint_config *config);

enum transport_promise {
    TRANSPORT_ORDERED = 1, /* keeps the order of submission per stream: several of one stream may be out */
    TRANSPORT_LOSSY = 2,   /* SEND_OK does not mean durable */
    TRANSPORT_REMOTE = 4,  /* goes over a network */
    TRANSPORT_ASKED = 8,   /* takes only messages that its receivers ask for: see pull.h */
    TRANSPORT_LOCAL = 16,  /* another box: the engine itself delivers, and nothing is submitted */
};

struct transport_ops {
    const char *scheme; /* "http" serves http://... */
    size_t size;
    unsigned promises; /* the promises that the conformance suite checks */
    /* deliveries that it can take at once by default; the engine hands out no more, so that only deliveries that really
     * start are on a receipt */
    unsigned concurrency;

    /* Checks the url without connecting: PR_OK or PR_ECONFIG with what is wrong.  May be NULL. */
    int (*check)(const struct endpoint_config *config, struct pr_error *reterr);

    /* Need not connect.  After a fault self must still be safe to pass to close. */
    int (*open)(void *self, const struct endpoint_config *config, struct pr_error *reterr);
    void (*close)(void *self);

    /* Takes as many as there is room for, from the front; returns how many. */
    size_t (*submit)(void *self, const struct delivery *const *list, size_t count);

    /* Results of submitted deliveries, in any order, each exactly once, even if the other side went away meanwhile
     * (UNKNOWN when it may have arrived).  Returns early when wake_fd becomes readable. */
    size_t (*poll)(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us);

    /* After this returns, no delivery may go out that is not on the wire yet; every delivery still gets its result by
     * poll (RETURNED when it had not started). */
    void (*cancel)(void *self);
};

/* The table of the built-in transports, and of known ones that are not built in. */
const struct transport_ops *transport_find(pr_slice scheme); /* NULL: not built in */
/* Is the scheme known ("amqp is not built in", as opposed to "unknown scheme")? */
bool transport_is_known_scheme(pr_slice scheme);
pr_slice transport_scheme(const char *url);
/* The box of "box:NAME"; empty: it is another url. */
pr_slice transport_box(const char *url);

/* The only caller of the methods. */
struct transport {
    const struct transport_ops *ops;
    void *self;
    size_t out; /* submitted and not yet answered */
};
int transport_check(const struct endpoint_config *config, struct pr_error *reterr);
/* How many deliveries are out at once under full load; the endpoint must be checked. */
size_t transport_capacity(const struct endpoint_config *config);
int transport_open(const struct endpoint_config *config, struct transport *ret, struct pr_error *reterr);
void transport_close(struct transport *transport); /* out must be 0, or results are lost; safe on a zeroed one */
size_t transport_submit(struct transport *transport, const struct delivery *const *list, size_t count);
size_t transport_poll(struct transport *transport, struct delivery_result *ret, size_t max, int64_t deadline_us);
void transport_cancel(struct transport *transport);
void delivery_result_fini(struct delivery_result *result); /* frees error and effects */

extern const struct transport_ops transport_null;
extern const struct transport_ops transport_console;
extern const struct transport_ops transport_handler;
extern const struct transport_ops transport_http;
extern const struct transport_ops transport_https;
extern const struct transport_ops transport_exec;
extern const struct transport_ops transport_file;
extern const struct transport_ops transport_pull;
extern const struct transport_ops transport_local_box;
extern const struct transport_ops transport_redis, transport_rediss;
extern const struct transport_ops transport_amqp, transport_amqps; /* with librabbitmq */
extern const struct transport_ops transport_amqp1;                 /* with libqpid-proton */
extern const struct transport_ops transport_nats;
extern const struct transport_ops transport_kafka; /* with librdkafka */
extern const struct transport_ops transport_mqtt, transport_mqtts;

#endif
