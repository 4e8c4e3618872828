/* reconnect.h - when a transport may try to connect: at once after a connection that worked was lost, then at most once
 * a second, to spare a server that is restarting. */
#ifndef TRANSPORT_BROKER_RECONNECT_H
#define TRANSPORT_BROKER_RECONNECT_H

#include <postrider.h>

#define RECONNECT_EVERY_US PR_SECONDS(1)

/* Zeroed: may try at once. */
struct reconnect {
    int64_t next_us; /* not before; monotonic */
};

static inline bool reconnect_may(const struct reconnect *r, int64_t now_us)
{
    return now_us >= r->next_us;
}

/* An attempt begins. */
static inline void reconnect_tried(struct reconnect *r, int64_t now_us)
{
    r->next_us = now_us + RECONNECT_EVERY_US;
}

/* When the current attempt began. */
static inline int64_t reconnect_tried_us(const struct reconnect *r)
{
    return r->next_us - RECONNECT_EVERY_US;
}

/* The other side worked: when the connection is lost, the next attempt comes at once.  A connection that is merely
 * accepted and then dropped does not count. */
static inline void reconnect_worked(struct reconnect *r)
{
    r->next_us = 0;
}

#endif
