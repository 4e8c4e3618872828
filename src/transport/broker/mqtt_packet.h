/* mqtt_packet.h - packets of MQTT 5, as a client needs them that publishes, or that subscribes once: written to a buffer, and
 * read from bytes that nobody has checked yet. */
#ifndef TRANSPORT_BROKER_MQTT_PACKET_H
#define TRANSPORT_BROKER_MQTT_PACKET_H

#include <sys/types.h>

#include "base/buf.h"
#include "transport/broker/inbox.h"

#define MQTT_STRING_MAX 65535            /* bytes of a topic, a property or a password: so it is in the protocol */
#define MQTT_PACKET_MAX 268435455        /* bytes behind the first ones: as large as a packet can say */
#define MQTT_ANSWER_MAX (INBOX_SIZE - 8) /* bytes of what we take; we say so in CONNECT */

/* ---- Writing: errors stick in the buffer ---- */

struct mqtt_login {
    pr_slice client, user, password; /* client empty: the broker makes a name; no user: no password */
    unsigned keepalive_s;
    /* Of who subscribes; 0: a session begins clean, nothing is said about the others. */
    uint32_t expiry_s;    /* how long the session is kept after the connection, with what waits in it */
    uint16_t receive_max; /* messages that may be out to us at once */
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
/* QoS 1.  The size of the packet, 0: it is larger than a packet can be, and nothing was added. */
size_t mqtt_publish_size(const struct mqtt_publish *p);
void mqtt_put_publish(struct buf *b, const struct mqtt_publish *p);

/* To one filter, QoS 1; retained messages only when the subscription is new. */
void mqtt_put_subscribe(struct buf *b, uint16_t id, pr_slice filter);
void mqtt_put_puback(struct buf *b, uint16_t id);

/* Is it a string that MQTT can carry: UTF-8 without control characters, and not too long? */
bool mqtt_is_string(pr_slice text);
/* Can one publish to it?  It has no wildcard, and is a string. */
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
    uint8_t code; /* of all but PINGRESP */
    uint16_t id;  /* PUBACK: which message */
    /* CONNACK: what the broker takes, with the protocol's defaults. */
    uint16_t receive_max; /* messages at once */
    uint32_t packet_max;  /* bytes; 0: no limit */
    uint16_t keepalive_s; /* 0: as we said */
    bool takes_qos1, takes_retain;
};

/* The first packet in these bytes: how many it has; 0: it is not whole yet.
 * PR_EINVAL: that is no packet, or none that a broker may send to who subscribes to nothing; *reterr says why. */
PR_MUST_CHECK ssize_t mqtt_answer_read(pr_slice bytes, struct mqtt_answer *ret, struct pr_error *reterr);

/* A message, borrowed from the bytes. */
struct mqtt_arrival {
    struct mqtt_answer answer; /* of which kind it is; SUBACK: code is that of the one filter */
    pr_slice topic, body, content_type, correlation;
    pr_slice properties; /* user properties among others, for mqtt_user_property() */
    uint16_t id;         /* to be acknowledged; 0: QoS 0 */
    uint64_t missing;    /* bytes of the body that are left out */
};
/* The same for who has subscribed: PUBLISH and SUBACK, too.  Of a packet of more than `max` bytes only so many need to be here:
 * `missing` says how many follow them. */
PR_MUST_CHECK ssize_t mqtt_arrival_read(pr_slice bytes, size_t max, struct mqtt_arrival *ret, struct pr_error *reterr);
/* The next user property, cut off from the properties; false: there are no more. */
bool mqtt_user_property(pr_slice *properties, pr_slice *ret_name, pr_slice *ret_value);

#endif
