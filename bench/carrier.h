/* carrier.h - one transport in the benchmark: its other side, and a raw producer.
 *
 * The raw producer is the shortest honest program for the same job, in one thread: the same client library, the same
 * acknowledgements, as many messages on their way at once, the same body and headers. */
#ifndef BENCH_CARRIER_H
#define BENCH_CARRIER_H

#include <stdio.h>

#include "base/time.h"
#include "bench.h"
#include "transport/server.h" /* of the tests: real servers in folders of their own */

#define CARRIER_SOURCE "postrider-bench"
#define CARRIER_TYPE "bench.message"

/* Where the messages of one transport go. */
struct site {
    const struct bench *bench;
    struct server server;  /* as far as it has one */
    struct helper *helper; /* or one of our own programs */
    char sink[1024];       /* the endpoint, as it stands in the configuration */
    char address[512];     /* what the raw producer wants to know of it */
};

struct carrier {
    const char *name, *raw_name; /* of the measurements */
    size_t messages;             /* of a turn: about a second's worth, or more */
    /* Starts the other side.  NULL: it is there; else why this one is left out. */
    const char *(*open)(struct site *site);
    void (*close)(struct site *site);
    void (*clear)(struct site *site); /* between turns: away with what has arrived; may be NULL */
    /* Messages a second, from a connection that is there to the last acknowledgement. */
    double (*raw_rate)(struct site *site, size_t count);
};

extern const struct carrier carrier_file, carrier_exec, carrier_http, carrier_http_slow;
extern const struct carrier carrier_redis, carrier_amqp, carrier_amqp1, carrier_nats, carrier_kafka, carrier_mqtt;

/* What is different in each message, and what is the same. */
struct raw_message {
    char id[PR_ID_TEXT_SIZE], time[TIME_TEXT_SIZE];
    int64_t created_us;
};
void raw_message_make(struct raw_message *ret);
const char *raw_payload(void); /* BENCH_PAYLOAD bytes, and a NUL */

/* ---- One of our own programs on the other side: it says in its first line where it is, and ends with its input. */

struct helper;
/* name: in the folder of the tests.  NULL: it is not built. */
struct helper *helper_start(const struct bench *b, const char *name, const char *option, char *ret_line, size_t size);
void helper_stop(struct helper *helper); /* NULL is fine */

#endif
