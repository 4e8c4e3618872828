/* broker.h - what all sources at brokers share: when to read, to store, to acknowledge, to wait.
 *
 *     read a batch --> store it, one commit --> acknowledge it --> ...
 *          ^                  |                     |
 *          '---- pause <------'---- connection <----'          unacknowledged messages come again
 *
 * When the box holds more rows than limits.waiting, the connection is closed until there is room. */
#ifndef SOURCE_BROKER_BROKER_H
#define SOURCE_BROKER_BROKER_H

#include "source/broker/intake.h"
#include "transport/broker/broker_url.h"

#define BROKER_WAIT_US PR_SECONDS(5) /* the longest that receive waits for a first message */

struct broker {
    const struct broker_ops *ops;
    struct source *source;
    struct endpoint_config config; /* in the form that the transports' modules use */
    struct arena arena;            /* of the url */
    struct broker_url url;
    struct intake intake;
    void *self;
    int64_t looked_us; /* when the rows of the box were counted; 0: never */
    int64_t room;      /* rows that fitted then, minus those stored since */
};

struct broker_ops {
    const char *kind;
    size_t size; /* of self, which is zeroed */
    /* PR_OK or PR_ECONFIG, PR_ENOMEM. */
    int (*parse)(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                 struct pr_error *reterr);
    /* Checks that the url alone does not allow; may be NULL.  PR_OK or PR_ECONFIG, PR_ENOMEM. */
    int (*check)(const struct source_config *config, const struct broker_url *url, struct arena *arena,
                 struct pr_error *reterr);
    /* The name of what it reads, for people and for ids: "orders". */
    pr_slice (*address)(const struct broker_url *url);

    /* Does not connect.  After a fault self must still be safe to pass to close. */
    int (*open)(void *self, struct broker *broker, struct pr_error *reterr);
    void (*close)(void *self);
    /* Connects if needed, waits for a message (at most BROKER_WAIT_US, or until wake_fd is readable) and adds available
     * messages.  PR_OK, even without any; or a fault. */
    int (*receive)(void *self, struct intake *in, int wake_fd, struct pr_error *reterr);
    /* Received messages are committed (S1).  A fault: the broker may not know it. */
    int (*acknowledge)(void *self, struct pr_error *reterr);
    /* Ends the connection; unacknowledged messages must come again. */
    void (*drop)(void *self);
};

PR_MUST_CHECK int broker_check(const struct broker_ops *ops, const struct source_config *config, struct arena *arena,
                               const char **ret_name, struct pr_error *reterr);

/* start= in a url: where a reader begins that is new to the broker: at the first existing message ("first", the
 * default), or at the first new one ("new"). */
PR_MUST_CHECK int broker_check_start(const struct endpoint_config *config, const struct broker_url *url,
                                     struct pr_error *reterr);
bool broker_starts_at_first(const struct broker_url *url);

/* The maximum number of bytes that one message, with everything around it, may occupy: twice what the box accepts, so
 * that a message that is somewhat too large becomes a dead letter with all its bytes and headers.  Of an even larger
 * one the first bytes are kept (received.missing), and the others are read and dropped. */
size_t broker_message_max(const struct broker *b);

/* The methods of every source with a url. */
int broker_open(struct source *source, const struct broker_ops *ops, void **ret_self, struct pr_error *reterr);
void broker_run(void *self, int wake_fd);
void broker_close(void *self);

#endif
