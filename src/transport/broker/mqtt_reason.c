#include "transport/broker/mqtt_reason.h"

#include <stdio.h>

#include "base/util.h"

static const struct mqtt_reason codes[] = {
    { 0x80, "unspecified", "Unspecified error", PR_REASON_REJECTED, NULL },
    { 0x81, "malformed_packet", "Malformed packet", PR_REASON_REJECTED, NULL },
    { 0x82, "protocol_error", "Protocol error", PR_REASON_REJECTED, NULL },
    { 0x83, "implementation_specific", "Implementation specific error", PR_REASON_REJECTED, NULL },
    { MQTT_CODE_VERSION, "unsupported_protocol_version", "Unsupported protocol version", PR_REASON_DEPENDENCY_FAILURE,
      "the broker must support MQTT 5" },
    { 0x85, "client_identifier_not_valid", "Client identifier not valid", PR_REASON_UNAUTHORIZED,
      "change client in its url" },
    { 0x86, "bad_user_name_or_password", "Bad user name or password", PR_REASON_UNAUTHORIZED,
      "check user and password in its url" },
    { MQTT_CODE_NOT_AUTHORIZED, "not_authorized", "Not authorized", PR_REASON_UNAUTHORIZED,
      "check user and password in its url, and their permissions at the broker" },
    { MQTT_CODE_UNAVAILABLE, "server_unavailable", "Server unavailable", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x89, "server_busy", "Server busy", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x8A, "banned", "Banned", PR_REASON_UNAUTHORIZED, NULL },
    { 0x8B, "server_shutting_down", "Server shutting down", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x8C, "bad_authentication_method", "Bad authentication method", PR_REASON_UNAUTHORIZED, NULL },
    { 0x8D, "keep_alive_timeout", "Keep alive timeout", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x8E, "session_taken_over", "Session taken over", PR_REASON_TRANSPORT_UNAVAILABLE,
      "another client has the same name: change client in its url" },
    { 0x90, "topic_name_invalid", "Topic name invalid", PR_REASON_DESTINATION_MISSING, "change the topic in its url" },
    { 0x91, "packet_identifier_in_use", "Packet identifier in use", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x93, "receive_maximum_exceeded", "Receive maximum exceeded", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x95, "packet_too_large", "Packet too large", PR_REASON_MESSAGE_TOO_LARGE,
      "the broker does not accept packets of this size" },
    { 0x96, "message_rate_too_high", "Message rate too high", PR_REASON_RATE_LIMITED, NULL },
    { 0x97, "quota_exceeded", "Quota exceeded", PR_REASON_RATE_LIMITED, NULL },
    { 0x98, "administrative_action", "Administrative action", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x99, "payload_format_invalid", "Payload format invalid", PR_REASON_SERIALIZATION_ERROR, NULL },
    { MQTT_CODE_RETAIN, "retain_not_supported", "Retain not supported", PR_REASON_REJECTED,
      "remove retain from the endpoint's url" },
    { MQTT_CODE_QOS, "qos_not_supported", "QoS not supported", PR_REASON_REJECTED, "the broker must support QoS 1" },
    { 0x9C, "use_another_server", "Use another server", PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
    { 0x9D, "server_moved", "Server moved", PR_REASON_DESTINATION_MISSING, "change the host in its url" },
    { 0x9F, "connection_rate_exceeded", "Connection rate exceeded", PR_REASON_RATE_LIMITED, NULL },
};

const struct mqtt_reason *mqtt_reason_find(int code)
{
    static const struct mqtt_reason closed = { 0, "", "The broker closed the connection",
                                               PR_REASON_TRANSPORT_UNAVAILABLE, NULL },
                                    other = { 0, "", "Unknown reason", PR_REASON_REJECTED, NULL };
    for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
        if (codes[i].code == code)
            return &codes[i];
    return code < MQTT_FAILED ? &closed : &other;
}

void mqtt_reason_describe(const struct mqtt_reason *reason, int code, char ret_text[MQTT_TEXT_SIZE])
{
    snprintf(ret_text, MQTT_TEXT_SIZE, "%s (%d)%s%s", reason->text, code, reason->advice != NULL ? ": " : "",
             reason->advice != NULL ? reason->advice : "");
}
