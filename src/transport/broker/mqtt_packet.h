/* mqtt_packet.h - packets of MQTT 5 for a client that publishes, or that subscribes once: writing them to a buffer, and
 * reading them from unchecked bytes. */
#ifndef TRANSPORT_BROKER_MQTT_PACKET_H
#define TRANSPORT_BROKER_MQTT_PACKET_H

#include <sys/types.h>

#include "base/buf.h"
#include "transport/broker/inbox.h"

#define MQTT_STRING_MAX 65535            /* bytes of a topic, a property or a password: the protocol's limit */
#define MQTT_PACKET_MAX 268435455        /* bytes after the fixed header: the protocol's limit */
#define MQTT_ANSWER_MAX (INBOX_SIZE - 8) /* bytes of an answer that we accept; announced in CONNECT */

/* ---- Writing: errors stick in the buffer ---- */

struct mqtt_login {
    pr_slice client, user, password; /* client empty: the broker makes a name; no user: no password */
    unsigned keepalive_s;
    /* For subscribers; 0: the session starts clean, and the others are not sent. */
    uint32_t expiry_s;    /* how long the broker keeps the session, and messages in it, after the connection */
    uint16_t receive_max; /* messages that may be unacknowledged at once */
};
void mqtt_put_connect(struct buf *b, const struct mqtt_login *login);
void mqtt_put_ping(struct buf *b);
void mqtt_put_disconnect(struct buf *b);

/* Properties of a message, in a buffer of their own. */
void mqtt_put_content_type(struct buf *properties, pr_slice type);
void mqtt_put_user_property(struct buf *properties, pr_slice name, pr_slice value);

struct mqtt_publish {
    pr_slice topic, properties, body;
    uint16_t id; /* never 0 */
    bool retain;
};
/* QoS 1.  Returns the size of the packet, 0: it exceeds the limit, and nothing was added. */
size_t mqtt_publish_size(const struct mqtt_publish *p);
void mqtt_put_publish(struct buf *b, const struct mqtt_publish *p);

/* To one filter, with QoS 1; retained messages only when the subscription is new. */
void mqtt_put_subscribe(struct buf *b, uint16_t id, pr_slice filter);
void mqtt_put_puback(struct buf *b, uint16_t id);

/* Can MQTT carry the string: UTF-8 without control characters, and not too long? */
bool mqtt_is_string(pr_slice text);
/* Can one publish to it: no wildcard, and a valid string? */
bool mqtt_is_topic(pr_slice topic);

/* ---- Reading ---- */

enum mqtt_kind {
    MQTT_CONNACK = 2,
    MQTT_PUBLISH = 3,
    MQTT_PUBACK = 4,
    MQTT_SUBACK = 9,
    MQTT_PINGRESP = 13,
    MQTT_DISCONNECT = 14
};

struct mqtt_answer {
    enum mqtt_kind kind;
    uint8_t code; /* of all kinds except PINGRESP */
    uint16_t id;  /* PUBACK: which message */
    /* CONNACK: the broker's limits, or the protocol's defaults. */
    uint16_t receive_max; /* messages at once */
    uint32_t packet_max;  /* bytes; 0: no limit */
    uint16_t keepalive_s; /* 0: as requested */
    bool takes_qos1, takes_retain;
};

/* The first packet in these bytes: returns its size; 0: it is incomplete.  PR_EINVAL: not a packet, or not one that a
 * broker may send to a client without subscriptions; *reterr has the reason. */
PR_MUST_CHECK ssize_t mqtt_answer_read(pr_slice bytes, struct mqtt_answer *ret, struct pr_error *reterr);

/* A message, borrowed from the bytes. */
struct mqtt_arrival {
    struct mqtt_answer answer; /* SUBACK: code is that of the one filter */
    pr_slice topic, body, content_type, correlation;
    pr_slice properties; /* including user properties, for mqtt_user_property() */
    uint16_t id;         /* 0: QoS 0, no acknowledgement */
    uint64_t missing;    /* bytes at the end of the body that were left out */
};
/* The same for subscribers: PUBLISH and SUBACK, too.  Of a packet larger than `max` only `max` bytes are needed:
 * `missing` is the number of bytes after them. */
PR_MUST_CHECK ssize_t mqtt_arrival_read(pr_slice bytes, size_t max, struct mqtt_arrival *ret, struct pr_error *reterr);
/* Cuts the next user property off the properties; false: the end. */
bool mqtt_user_property(pr_slice *properties, pr_slice *ret_name, pr_slice *ret_value);

#endif
