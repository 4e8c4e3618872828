/* mqtt_reason.h - the reason codes of MQTT 5, and ours. */
#ifndef TRANSPORT_MQTT_REASON_H
#define TRANSPORT_MQTT_REASON_H

#include "core/reason.h"

#define MQTT_TEXT_SIZE 512
#define MQTT_FAILED 0x80 /* codes from here on are failures */

struct mqtt_reason {
    int code; /* of CONNACK, PUBACK or DISCONNECT */
    const char *name;
    int reason;
    const char *advice; /* what a person can do; NULL: the code says it all */
};

/* Never NULL. */
const struct mqtt_reason *mqtt_reason_find(int code);
/* For people: what it means, its number, what to do. */
void mqtt_reason_describe(const struct mqtt_reason *reason, int code, char ret_text[MQTT_TEXT_SIZE]);

#endif
