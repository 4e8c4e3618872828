/* mqtt_reason.h - the reason codes of MQTT 5 as Postrider's reasons. */
#ifndef TRANSPORT_BROKER_MQTT_REASON_H
#define TRANSPORT_BROKER_MQTT_REASON_H

#include "core/reason.h"

#define MQTT_TEXT_SIZE 512
#define MQTT_FAILED 0x80 /* codes from here on are failures */

/* Codes with a special meaning for the transport. */
#define MQTT_CODE_VERSION 0x84
#define MQTT_CODE_NOT_AUTHORIZED 0x87
#define MQTT_CODE_UNAVAILABLE 0x88
#define MQTT_CODE_RETAIN 0x9A
#define MQTT_CODE_QOS 0x9B

struct mqtt_reason {
    int code; /* of CONNACK, PUBACK or DISCONNECT */
    const char *name, *text;
    int reason;
    const char *advice; /* advice for a person; NULL: the code is sufficient */
};

/* Never NULL; for a code that is not a failure: that the connection was closed. */
const struct mqtt_reason *mqtt_reason_find(int code);
/* For people: its meaning, its number, advice. */
void mqtt_reason_describe(const struct mqtt_reason *reason, int code, char ret_text[MQTT_TEXT_SIZE]);

#endif
