#include "transport/broker/amqp_greeting.h"

#include "base/error.h"
#include "base/util.h"

static amqp_table_entry_t capability(const char *name)
{
    return (amqp_table_entry_t){ .key = amqp_cstring_bytes(name),
                                 .value = { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1 } };
}

int amqp_put_start_ok(struct buf *b, const struct broker_url *url, const char *name, struct arena *scratch)
{
    amqp_table_entry_t capabilities[] = { capability("connection.blocked"), capability("basic.nack"),
                                          capability("publisher_confirms"), capability("consumer_cancel_notify"),
                                          capability("authentication_failure_close") };
    amqp_table_entry_t properties[] = {
        { .key = amqp_cstring_bytes("product"),
          .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("postrider") } },
        { .key = amqp_cstring_bytes("connection_name"),
          .value = { .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(name) } },
        { .key = amqp_cstring_bytes("capabilities"),
          .value = { .kind = AMQP_FIELD_KIND_TABLE, .value.table = { ARRAY_LENGTH(capabilities), capabilities } } },
    };
    bool named = url->user.size > 0;
    pr_slice login = arena_printf(scratch, "%c%s%c%s", '\0', named ? url->user.data : "guest", '\0',
                                  named ? url->password.data : "guest");
    if (login.data == NULL)
        return PR_ENOMEM;
    amqp_connection_start_ok_t start_ok = { .client_properties = { ARRAY_LENGTH(properties), properties },
                                            .mechanism = amqp_cstring_bytes("PLAIN"),
                                            .response = frame_bytes(login),
                                            .locale = amqp_cstring_bytes("en_US") };
    frame_put_method(b, 0, AMQP_CONNECTION_START_OK_METHOD, &start_ok);
    return buf_failed(b);
}

int amqp_put_tune_ok(struct buf *b, uint32_t frame_max, uint16_t heartbeat_s, pr_slice vhost, struct amqp_terms *ret,
                     struct pr_error *reterr)
{
    if (frame_max != 0 && frame_max < FRAME_MIN)
        return error_set(reterr, PR_EINVAL, "it proposes frame_max %u; the protocol's least is %d", (unsigned)frame_max,
                         FRAME_MIN);
    amqp_connection_tune_ok_t tune_ok = { .channel_max = AMQP_CHANNEL,
                                          .frame_max = frame_max == 0 || frame_max > FRAME_MAX ? FRAME_MAX : frame_max,
                                          .heartbeat =
                                              heartbeat_s > AMQP_HEARTBEAT_S ? AMQP_HEARTBEAT_S : heartbeat_s };
    amqp_connection_open_t open = { .virtual_host = frame_bytes(vhost) };
    *ret = (struct amqp_terms){ .frame_max = tune_ok.frame_max, .heartbeat_us = tune_ok.heartbeat * PR_SECONDS(1) };
    frame_put_method(b, 0, AMQP_CONNECTION_TUNE_OK_METHOD, &tune_ok);
    frame_put_method(b, 0, AMQP_CONNECTION_OPEN_METHOD, &open);
    return PR_OK;
}
