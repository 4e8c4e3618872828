/* amqp as a source, with RabbitMQ: the suite's other side, and tests of AMQP alone. */
#include <amqp.h>
#include <stdio.h>
#include <string.h>

#include "../transport/rabbitmq.h"
#include "base/slice.h"
#include "check.h"
#include "rabbit.h"

static void rabbit_start(struct world *w)
{
    unsigned port = rabbitmq()->port;
    rabbitmq_queue(RABBIT_QUEUE, amqp_empty_table);
    snprintf(w->url, sizeof(w->url), "amqp://127.0.0.1:%u/?queue=orders", port);
}

static amqp_bytes_t bytes_of(pr_slice s)
{
    return (amqp_bytes_t){ s.size, (void *)(uintptr_t)s.data };
}

static void publish(const struct post *p, amqp_table_entry_t more)
{
    static char names[POST_PAIRS_MAX][64];
    amqp_table_entry_t entries[2 * POST_PAIRS_MAX + 1];
    amqp_basic_properties_t properties = { ._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG,
                                           .delivery_mode = 2 };
    int n = 0;
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
        snprintf(names[i], sizeof(names[i]), "cloudEvents%c%s", i % 2 == 0 ? '_' : ':', p->attributes[i].name);
        entries[n].key = amqp_cstring_bytes(names[i]);
        entries[n++].value =
            (amqp_field_value_t){ .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes_of(p->attributes[i].value) };
    }
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++) {
        entries[n].key = amqp_cstring_bytes(p->headers[i].name);
        entries[n++].value =
            (amqp_field_value_t){ .kind = AMQP_FIELD_KIND_UTF8, .value.bytes = bytes_of(p->headers[i].value) };
    }
    if (more.key.len > 0)
        entries[n++] = more;
    properties.headers = (amqp_table_t){ n, entries };
    if (p->content_type != NULL) {
        properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
        properties.content_type = amqp_cstring_bytes(p->content_type);
    }
    if (p->message_id != NULL) {
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = amqp_cstring_bytes(p->message_id);
    }
    amqp_connection_state_t c = rabbitmq_ask();
    amqp_confirm_select(c, 1);
    CHECK_EQ(amqp_get_rpc_reply(c).reply_type, AMQP_RESPONSE_NORMAL);
    CHECK_EQ(
        amqp_basic_publish(c, 1, amqp_empty_bytes, amqp_cstring_bytes("orders"), 1, 0, &properties, bytes_of(p->body)),
        AMQP_STATUS_OK);
    amqp_frame_t frame;
    CHECK_EQ(amqp_simple_wait_frame(c, &frame), AMQP_STATUS_OK);
    CHECK_EQ(frame.payload.method.id, AMQP_BASIC_ACK_METHOD);
    rabbitmq_leave(c);
}

static void rabbit_publish(struct world *w, const struct post *p)
{
    (void)w;
    publish(p, (amqp_table_entry_t){ .key = amqp_empty_bytes });
}

static const struct harness harness = {
    .kind = "amqp",
    .has_headers = true,
    .has_ids = true,
    .start = rabbit_start,
    .publish = rabbit_publish,
    .restart = rabbit_restart,
    .left = rabbit_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is AMQP's own ------------------------------------------------------------------------------- */

static struct world w;

TEST(amqp_headers_of_other_kinds_are_text_and_tables_are_left_out)
{
    amqp_table_entry_t inner = { .key = amqp_cstring_bytes("x"),
                                 .value = { .kind = AMQP_FIELD_KIND_I32, .value.i32 = 1 } };
    amqp_table_entry_t entries[] = {
        { .key = amqp_cstring_bytes("number"), .value = { .kind = AMQP_FIELD_KIND_I64, .value.i64 = -7 } },
        { .key = amqp_cstring_bytes("truth"), .value = { .kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1 } },
        { .key = amqp_cstring_bytes("table"),
          .value = { .kind = AMQP_FIELD_KIND_TABLE, .value.table = { 1, &inner } } },
        { .key = amqp_cstring_bytes("at"), .value = { .kind = AMQP_FIELD_KIND_TIMESTAMP, .value.u64 = 1706702400 } },
        { .key = amqp_cstring_bytes("half"), .value = { .kind = AMQP_FIELD_KIND_F64, .value.f64 = 0.5 } },
    };
    const char *texts[] = { "{\"number\":\"-7\"}", "{\"truth\":\"true\"}", "",
                            "{\"at\":\"2024-01-31T12:00:00.000000Z\"}", "{\"half\":\"0.5\"}" };
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        publish(&p, entries[i]);
    world_run(&w, 1000);
    const struct query_reply *rows = world_rows(&w, sizeof(entries) / sizeof(entries[0]));
    for (size_t i = 0; i < rows->listed_count; i++) {
        CHECK_SLICE(rows->listed[i].m.headers, texts[i]);
        CHECK_SLICE(rows->listed[i].m.type, "orders");
    }
    world_fini(&w);
}

TEST(amqp_queue_that_is_not_there_and_a_wrong_password_are_told_and_what_to_do)
{
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "amqp://127.0.0.1:%u/?queue=nosuch", rabbitmq()->port);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "create the queue, or check queue in its url") != NULL);
    world_stop(&w);
    snprintf(w.url, sizeof(w.url), "amqp://guest:wrong@127.0.0.1:%u/?queue=orders", rabbitmq()->port);
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "check user and password in its url") != NULL);
    CHECK(strstr(world_status(&w).trouble.text, "wrong") == NULL);
    world_fini(&w);
}
