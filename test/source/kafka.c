/* kafka as a source, with librdkafka's mock brokers: the suite's other side, and tests of Kafka alone. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../transport/kafka_cluster.h"
#include "base/slice.h"
#include "check.h"
#include "core/id.h"
#include "world.h"

static struct kafka_cluster cluster; /* one for all tests; each has a topic and a group of its own */
static char topic[32];

static void cluster_gone(void)
{
    kafka_cluster_stop(&cluster);
}

static void kafka_start(struct world *w)
{
    static unsigned count;
    if (cluster.pid == 0) {
        kafka_cluster_start(&cluster, 1);
        atexit(cluster_gone);
    }
    snprintf(topic, sizeof(topic), "orders-%u", ++count);
    kafka_cluster_tell(&cluster, "topic %s 1", topic);
    snprintf(w->url, sizeof(w->url), "kafka://%s/%s?group=%s", cluster.servers, topic, topic);
}

static void log_nothing(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk;
    (void)level;
    (void)facility;
    (void)text;
}

static rd_kafka_t *client(rd_kafka_type_t kind)
{
    char why[256] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, log_nothing);
    CHECK_EQ(rd_kafka_conf_set(conf, "bootstrap.servers", cluster.servers, why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "group.id", topic, why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "linger.ms", "0", why, sizeof(why)), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "message.max.bytes", "20000000", why, sizeof(why)), RD_KAFKA_CONF_OK);
    rd_kafka_t *rk = rd_kafka_new(kind, conf, why, sizeof(why));
    CHECK_STR(why, "");
    return rk;
}

static void publish_at(const struct post *p, const char *key, int64_t time_ms) /* 0: now */
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
    char name[80];
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER);
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
        snprintf(name, sizeof(name), "ce_%s", p->attributes[i].name);
        rd_kafka_header_add(headers, name, -1, p->attributes[i].value.data, (ssize_t)p->attributes[i].value.size);
    }
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++)
        rd_kafka_header_add(headers, p->headers[i].name, -1, p->headers[i].value.data,
                            (ssize_t)p->headers[i].value.size);
    if (p->content_type != NULL)
        rd_kafka_header_add(headers, "content-type", -1, p->content_type, -1);
    CHECK_EQ(rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0),
                               RD_KAFKA_V_VALUE((void *)(uintptr_t)p->body.data, p->body.size),
                               RD_KAFKA_V_KEY((void *)(uintptr_t)key, strlen(key)), RD_KAFKA_V_HEADERS(headers),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_TIMESTAMP(time_ms), RD_KAFKA_V_END),
             RD_KAFKA_RESP_ERR_NO_ERROR);
    CHECK_EQ(rd_kafka_flush(rk, 20000), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_destroy(rk);
}

static void publish(const struct post *p, const char *key)
{
    publish_at(p, key, 0);
}

static void kafka_publish(struct world *w, const struct post *p)
{
    (void)w;
    publish(p, "");
}

/* The mock brokers keep what they have in memory: they go, and not their process. */
static void kafka_restart(struct world *w)
{
    kafka_cluster_tell(&cluster, "down");
    WAIT_FOR(world_status(w).state == SOURCE_FAILING);
    kafka_cluster_tell(&cluster, "up");
}

static int64_t kafka_left(struct world *w)
{
    int64_t low = 0, high = 0;
    (void)w;
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0);
    CHECK_EQ(rd_kafka_query_watermark_offsets(rk, topic, 0, &low, &high, 10000), RD_KAFKA_RESP_ERR_NO_ERROR);
    CHECK_EQ(rd_kafka_committed(rk, list, 10000), RD_KAFKA_RESP_ERR_NO_ERROR);
    int64_t committed = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(rk);
    return high - (committed < 0 ? 0 : committed);
}

static const struct harness harness = {
    .kind = "kafka",
    .is_batched = true,
    .is_positioned = true,
    .has_headers = true,
    .start = kafka_start,
    .publish = kafka_publish,
    .restart = kafka_restart,
    .left = kafka_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is Kafka's own ------------------------------------------------------------------------------ */

static struct world w;

TEST(kafka_key_is_the_stream_and_the_topic_the_type_of_what_says_nothing_else)
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    publish(&p, "order-7");
    publish(&p, "\xff\xfe");
    world_run(&w, 1000);
    const struct query_reply *rows = world_rows(&w, 2);
    CHECK_SLICE(rows->listed[0].m.stream, "order-7");
    CHECK_SLICE(rows->listed[0].m.type, topic);
    CHECK_SLICE(rows->listed[1].m.stream, "");
    world_fini(&w);
}

/* The mock brokers cannot delete a topic: that its time is in the id tells a record from the one that had its offset. */
TEST(kafka_record_without_an_id_has_one_of_its_offset_and_its_time)
{
    struct post p = { .body = PR_STR("{}") };
    char position[160];
    pr_id wanted;
    world_init(&w);
    publish_at(&p, "", INT64_C(1700000000123));
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER);
    char *id = rd_kafka_clusterid(rk, 20000);
    CHECK(id != NULL);
    snprintf(position, sizeof(position), "%s/%s/0/0/1700000000123", id, topic);
    rd_kafka_mem_free(rk, id);
    rd_kafka_destroy(rk);
    id_from_position(slice_from(w.config.name), slice_from(position), &wanted);
    world_run(&w, 1000);
    CHECK(pr_id_equal(world_rows(&w, 1)->listed[0].m.id, wanted));
    world_fini(&w);
}

/* Its answer is more than the source lets itself be sent: it asks again with a larger limit, and keeps the first bytes.  The mock
 * brokers drop what is old when they have 5 MiB: so what comes behind it is published when it was read. */
TEST(kafka_record_that_is_larger_than_an_answer_may_be_is_a_dead_letter_and_what_is_behind_it_arrives) /* B91 */
{
    static char body[5000000];
    char place[64];
    struct post large = { .body = { body, sizeof(body) } }, good = { .body = PR_STR("{\"n\":1}") };
    memset(body, '1', sizeof(body));
    world_init(&w);
    world_run(&w, 1000);
    for (size_t i = 0; i < 2; i++) {
        publish(&large, "order-7");
        WAIT_FOR(world_status(&w).counts.dead == i + 1);
        publish(&good, "order-7");
        world_rows(&w, i + 1);
    }
    const struct listed *l = &world_dead(&w, 2)->listed[0];
    CHECK(slice_contains(l->m.error, PR_STR("it has 5000000 bytes, which is too large")));
    CHECK(slice_contains(l->m.error, PR_STR("raise limits.payload")));
    CHECK(l->m.payload.size >= 100000 && l->m.payload.size < 1000000);
    snprintf(place, sizeof(place), "\"kafka-record\":\"%s/0/0\"", topic);
    CHECK(slice_contains(l->m.headers, slice_from(place)));
    WAIT_FOR(kafka_left(&w) == 0);
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
    world_fini(&w);
}

/* The group has a place from when it began, not from its first record on: what comes while nobody reads is new, too. */
TEST(kafka_group_that_begins_with_new_records_gets_those_that_came_while_nobody_read) /* B91 */
{
    struct post old = { .body = PR_STR("{\"n\":1}") }, missed = { .body = PR_STR("{\"n\":2}") };
    size_t size;
    world_init(&w);
    size = strlen(w.url);
    snprintf(w.url + size, sizeof(w.url) - size, "&start=new");
    publish(&old, "");
    world_run(&w, 1000);
    WAIT_FOR(kafka_left(&w) == 0);
    world_stop(&w);
    publish(&missed, "");
    world_run(&w, 1000);
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.payload, "{\"n\":2}");
    world_fini(&w);
}

/* An error of the library stands in its queue behind good records: they are stored before it begins anew. */
TEST(kafka_records_that_came_with_an_error_are_stored_before_it_is_told) /* B91, B206 */
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    world_run(&w, 1000);
    publish(&p, "");
    (void)world_rows(&w, 1);
    world_mood(STORE_REFUSES); /* the source is busy with a batch: the library reads on */
    publish(&p, "");
    WAIT_FOR(world_refusals() > 0);
    publish(&p, "");
    publish(&p, "");
    kafka_cluster_tell(&cluster, "error 1 1 INVALID_MSG"); /* of a fetch */
    usleep(1500000);                                       /* until it has read on: nobody can look at its queue */
    world_mood(STORE_FINE);
    WAIT_FOR(strstr(world_status(&w).trouble.text, "Fetch") != NULL);
    CHECK_EQ(world_status(&w).counts.stored, 4);
    (void)world_rows(&w, 4);
    world_fini(&w);
}
