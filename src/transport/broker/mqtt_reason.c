#include "transport/broker/mqtt_reason.h"

#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdio.h>

#include "base/util.h"

static const struct mqtt_reason codes[] = {
    { MQTT_RC_UNSPECIFIED, "unspecified", PR_REASON_REJECTED, NULL },
    { MQTT_RC_MALFORMED_PACKET, "malformed_packet", PR_REASON_REJECTED, NULL },
    { MQTT_RC_PROTOCOL_ERROR, "protocol_error", PR_REASON_REJECTED, NULL },
    { MQTT_RC_IMPLEMENTATION_SPECIFIC, "implementation_specific", PR_REASON_REJECTED, NULL },
    { MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION, "unsupported_protocol_version", PR_REASON_DEPENDENCY_FAILURE,
      "the broker must know MQTT 5" },
    { MQTT_RC_CLIENTID_NOT_VALID, "client_identifier_not_valid", PR_REASON_UNAUTHORIZED,
      "change client in the endpoint's url" },
    { MQTT_RC_BAD_USERNAME_OR_PASSWORD, "bad_user_name_or_password", PR_REASON_UNAUTHORIZED,
      "look at user and password in the endpoint's url" },
    { MQTT_RC_NOT_AUTHORIZED, "not_authorized", PR_REASON_UNAUTHORIZED,
      "look at user and password in the endpoint's url, and at what the broker allows them" },
    { MQTT_RC_SERVER_UNAVAILABLE, "server_unavailable", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_SERVER_BUSY, "server_busy", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_BANNED, "banned", PR_REASON_UNAUTHORIZED, NULL },
    { MQTT_RC_SERVER_SHUTTING_DOWN, "server_shutting_down", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_BAD_AUTHENTICATION_METHOD, "bad_authentication_method", PR_REASON_UNAUTHORIZED, NULL },
    { MQTT_RC_KEEP_ALIVE_TIMEOUT, "keep_alive_timeout", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_SESSION_TAKEN_OVER, "session_taken_over", PR_REASON_TRANSPORT_UNAVAILABLE,
      "another client has the same name: change client in the endpoint's url" },
    { MQTT_RC_TOPIC_NAME_INVALID, "topic_name_invalid", PR_REASON_DESTINATION_MISSING,
      "change the topic in the endpoint's url" },
    { MQTT_RC_PACKET_ID_IN_USE, "packet_identifier_in_use", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_RECEIVE_MAXIMUM_EXCEEDED, "receive_maximum_exceeded", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_PACKET_TOO_LARGE, "packet_too_large", PR_REASON_MESSAGE_TOO_LARGE,
      "the broker takes no packet of this size" },
    { MQTT_RC_MESSAGE_RATE_TOO_HIGH, "message_rate_too_high", PR_REASON_RATE_LIMITED, NULL },
    { MQTT_RC_QUOTA_EXCEEDED, "quota_exceeded", PR_REASON_RATE_LIMITED, NULL },
    { MQTT_RC_ADMINISTRATIVE_ACTION, "administrative_action", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_PAYLOAD_FORMAT_INVALID, "payload_format_invalid", PR_REASON_SERIALIZATION_ERROR, NULL },
    { MQTT_RC_RETAIN_NOT_SUPPORTED, "retain_not_supported", PR_REASON_REJECTED,
      "take retain out of the endpoint's url" },
    { MQTT_RC_QOS_NOT_SUPPORTED, "qos_not_supported", PR_REASON_REJECTED, "the broker must take QoS 1" },
    { MQTT_RC_USE_ANOTHER_SERVER, "use_another_server", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { MQTT_RC_SERVER_MOVED, "server_moved", PR_REASON_DESTINATION_MISSING, "change the host in the endpoint's url" },
    { MQTT_RC_CONNECTION_RATE_EXCEEDED, "connection_rate_exceeded", PR_REASON_RATE_LIMITED, NULL },
};

const struct mqtt_reason *mqtt_reason_find(int code)
{
    static const struct mqtt_reason other = { 0, "", PR_REASON_REJECTED, NULL };
    for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
        if (codes[i].code == code)
            return &codes[i];
    return &other;
}

void mqtt_reason_describe(const struct mqtt_reason *reason, int code, char ret_text[MQTT_TEXT_SIZE])
{
    snprintf(ret_text, MQTT_TEXT_SIZE, "%s (%d)%s%s", mosquitto_reason_string(code), code,
             reason->advice != NULL ? ": " : "", reason->advice != NULL ? reason->advice : "");
}
