/* The promises of every source at a broker (S1 to S6 of source.h), written once for all of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/slice.h"
#include "check.h"
#include "world.h"

#define ID "0190163d-8694-739b-aea5-966c26f8ad91"
#define PLENTY 1000000
#define LAST 999999 /* of numbered messages, and those behind it */
#define ROUNDS 4

static struct world w;

static struct post event(const char *id, pr_slice body)
{
    struct post p = { .attributes = { { "specversion", PR_STR("1.0") },
                                      { "type", PR_STR("order.created") },
                                      { "source", PR_STR("/shop") } },
                      .content_type = "application/json",
                      .body = body };
    p.attributes[3] = (struct pair){ "id", slice_from(id) };
    return p;
}

static struct post numbered(unsigned number)
{
    static char id[40], body[40];
    snprintf(id, sizeof(id), "0190163d-8694-739b-aea5-%012x", number);
    snprintf(body, sizeof(body), "{\"number\":%u}", number);
    struct post p = event(id, slice_from(body));
    p.attributes[4] = (struct pair){ "partitionkey", PR_STR("one") };
    return p;
}

static void publish(const struct post *p)
{
    w.harness->publish(&w, p);
}

/* Nothing comes again: all was acknowledged.  Returns how many dead letters it took to see that. */
static size_t check_acknowledged(void)
{
    size_t dead = 0;
    if (w.runs)
        world_stop(&w);
    if (w.harness->left(&w) >= 0) {
        WAIT_FOR(w.harness->left(&w) == 0); /* some brokers take their time to count */
        return 0;
    }
    /* An acknowledgement that nobody answers can be lost with its connection, and then all comes again, once. */
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct post last = numbered(LAST + round); /* what comes again comes before it */
        publish(&last);
        world_run(&w, PLENTY);
        WAIT_FOR(world_has(&w, last.body));
        WAIT_FOR(world_status(&w).counts.stored == 1); /* counted after the commit */
        dead += world_status(&w).counts.dead;
        bool again = world_status(&w).counts.duplicates > 0 || world_status(&w).counts.dead > 0;
        world_stop(&w);
        if (!again)
            return dead;
    }
    check_fail(__FILE__, __LINE__, "it comes again and again");
    return dead;
}

TEST(an_event_arrives_once_with_every_attribute_and_every_byte) /* B91 */
{
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    struct post p = event(ID, (pr_slice){ bytes, sizeof(bytes) });
    p.content_type = "application/octet-stream";
    p.attributes[4] = (struct pair){ "partitionkey", PR_STR("order-7") };
    p.attributes[5] = (struct pair){ "subject", PR_STR("caf\xc3\xa9 100%") };
    p.attributes[6] = (struct pair){ "correlationid", PR_STR("c-1") };
    p.attributes[7] = (struct pair){ "expirytime", PR_STR("2099-01-01T00:00:00Z") };
    p.attributes[8] = (struct pair){ "tenant", PR_STR("seven") };
    p.attributes[9] = (struct pair){ "traceparent", PR_STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") };
    if (harness_here->has_headers)
        p.headers[0] = (struct pair){ "x-own", PR_STR("o w n") };
    world_init(&w);
    publish(&p);
    world_run(&w, PLENTY);
    const struct pr_message *m = &world_rows(&w, 1)->listed[0].m;
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(m->id, id);
    CHECK_STR(id, ID);
    CHECK_SLICE(m->type, "order.created");
    CHECK_SLICE(m->source, "/shop");
    CHECK_SLICE(m->stream, "order-7");
    CHECK_SLICE(m->subject, "caf\xc3\xa9 100%");
    CHECK_SLICE(m->correlation_id, "c-1");
    CHECK_SLICE(m->content_type, "application/octet-stream");
    CHECK_SLICE(m->traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    CHECK_EQ(m->expires_us, INT64_C(4070908800000000));
    CHECK(slice_contains(m->headers, PR_STR("\"tenant\":\"seven\"")));
    if (w.harness->has_headers)
        CHECK(slice_contains(m->headers, PR_STR("\"x-own\":\"o w n\"")));
    CHECK_SLICE(m->payload, ((pr_slice){ bytes, sizeof(bytes) }));
    WAIT_FOR(world_status(&w).counts.stored == 1);
    check_acknowledged();
    world_fini(&w);
}

TEST(a_structured_event_keeps_its_data_as_it_was_written)
{
    struct post p = { .content_type = "application/cloudevents+json; charset=utf-8",
                      .body = PR_STR("{\"specversion\":\"1.0\",\"id\":\"7\",\"type\":\"a\",\"source\":\"/s\",\"data\":"
                                     "{\"amount\": 1.10, \"n\": 12345678901234567890},\"tenant\":\"t\"}") };
    world_init(&w);
    publish(&p);
    world_run(&w, PLENTY);
    const struct pr_message *m = &world_rows(&w, 1)->listed[0].m;
    CHECK_SLICE(m->type, "a");
    CHECK_SLICE(m->payload, "{\"amount\": 1.10, \"n\": 12345678901234567890}");
    CHECK(slice_contains(m->headers, PR_STR("\"ce-id\":\"7\"")));
    CHECK(slice_contains(m->headers, PR_STR("\"tenant\":\"t\"")));
    check_acknowledged();
    world_fini(&w);
}

TEST(what_is_no_event_is_a_message_whose_payload_is_its_body)
{
    struct post p = { .content_type = "text/plain", .body = PR_STR("hello") };
    world_init(&w);
    publish(&p);
    world_run(&w, PLENTY);
    const struct pr_message *m = &world_rows(&w, 1)->listed[0].m;
    CHECK_SLICE(m->payload, "hello");
    CHECK_SLICE(m->content_type, "text/plain");
    CHECK(m->type.size > 0);
    CHECK_SLICE(m->source, w.config.name);
    check_acknowledged();
    world_fini(&w);
}

TEST(the_same_id_again_is_counted_acknowledged_and_not_stored) /* B90 */
{
    struct post text = event("order 7", PR_STR("{}")), uuid = event(ID, PR_STR("{}"));
    world_init(&w);
    publish(&text);
    publish(&uuid);
    publish(&text);
    publish(&uuid);
    text.attributes[2].value = PR_STR("/another"); /* unique for each source only */
    publish(&text);
    world_run(&w, PLENTY);
    WAIT_FOR(world_status(&w).counts.duplicates == 2 && world_status(&w).counts.stored == 3);
    CHECK_EQ(w.store.inbox_duplicates, 2); /* the metric */
    const struct query_reply *rows = world_rows(&w, 3);
    CHECK_EQ(rows->listed[0].m.id.bytes[6] >> 4, 8);
    CHECK_SLICE(rows->listed[0].m.headers, "{\"ce-id\":\"order 7\"}");
    check_acknowledged();
    world_fini(&w);
}

TEST(an_id_of_the_broker_counts_where_the_message_has_none)
{
    struct post p = { .message_id = "m-1", .body = PR_STR("{}") };
    char why[64];
    snprintf(why, sizeof(why), "%s: messages have no ids that senders set", harness_here->kind);
    if (!harness_here->has_ids)
        SKIP(why);
    world_init(&w);
    publish(&p);
    p.message_id = ID;
    publish(&p);
    world_run(&w, PLENTY);
    const struct query_reply *rows = world_rows(&w, 2);
    char id[PR_ID_TEXT_SIZE];
    CHECK_EQ(rows->listed[0].m.id.bytes[6] >> 4, 8);
    CHECK(slice_contains(rows->listed[0].m.headers, PR_STR("\"ce-id\":\"m-1\"")));
    pr_id_format(rows->listed[1].m.id, id);
    CHECK_STR(id, ID);
    world_fini(&w);
}

/* It ends between commit and acknowledgement, as when the process dies: to the broker that is the same. */
TEST(what_is_stored_and_not_acknowledged_comes_again_and_is_stored_once) /* B91 */
{
    struct post p = event(ID, PR_STR("{}")), raw = { .body = PR_STR("{\"raw\":1}") };
    world_init(&w);
    world_mood(STORE_LOSES_ANSWER);
    publish(&p);
    if (w.harness->is_positioned)
        publish(&raw);
    world_run(&w, PLENTY);
    WAIT_FOR(world_refusals() > 0);
    world_stop(&w);
    CHECK(w.harness->left(&w) < 0 || w.harness->left(&w) >= 1);
    world_mood(STORE_FINE);
    world_run(&w, PLENTY);
    if (!w.harness->keeps_position) {
        WAIT_FOR(world_status(&w).counts.duplicates + world_status(&w).counts.stored == 1u + w.harness->is_positioned);
        CHECK(world_status(&w).counts.duplicates > 0);
    }
    (void)world_rows(&w, 1u + w.harness->is_positioned);
    check_acknowledged();
    world_fini(&w);
}

TEST(what_the_store_refuses_is_not_acknowledged_and_comes_again) /* B91 */
{
    world_init(&w);
    world_mood(STORE_REFUSES);
    for (unsigned i = 0; i < 3; i++) {
        struct post p = numbered(i);
        publish(&p);
    }
    world_run(&w, PLENTY);
    WAIT_FOR(world_refusals() > 1);
    CHECK_EQ(world_status(&w).state, SOURCE_FAILING);
    CHECK_STR(world_status(&w).trouble.text, "the store is in a bad mood");
    world_stop(&w);
    CHECK(w.harness->left(&w) < 0 || w.harness->left(&w) >= 3);
    world_mood(STORE_FINE);
    world_run(&w, PLENTY);
    (void)world_rows(&w, 3);
    WAIT_FOR(world_status(&w).state == SOURCE_RUNNING);
    check_acknowledged();
    world_fini(&w);
}

TEST(a_batch_whose_answer_is_lost_is_tried_again_and_stored_once_also_without_ids)
{
    struct post p = { .body = PR_STR("{}") };
    world_init(&w);
    world_mood(STORE_LOSES_ANSWER);
    publish(&p);
    world_run(&w, PLENTY);
    WAIT_FOR(world_refusals() > 0);
    world_mood(STORE_FINE);
    if (w.harness->keeps_position) /* it knows that it was stored */
        WAIT_FOR(world_status(&w).state == SOURCE_RUNNING);
    else
        WAIT_FOR(world_status(&w).counts.duplicates == 1);
    (void)world_rows(&w, 1);
    check_acknowledged();
    world_fini(&w);
}

TEST(what_cannot_be_decoded_is_a_dead_letter_with_its_bytes_and_is_acknowledged) /* B91 */
{
    struct post broken = { .content_type = "application/cloudevents+json", .body = PR_STR("{\"id\":\0\xff") };
    struct post no_type = event("1", PR_STR("{}")), good = event(ID, PR_STR("{}")), large = event("2", PR_STR(""));
    static char much[65537];
    memset(much, 'x', sizeof(much));
    large.body = (pr_slice){ much, sizeof(much) };
    no_type.attributes[1] = (struct pair){ "kind", PR_STR("x") };
    world_init(&w);
    publish(&broken);
    publish(&no_type);
    publish(&large);
    publish(&good);
    world_run(&w, PLENTY);
    (void)world_rows(&w, 1);
    const struct query_reply *dead = world_dead(&w, 3);
    bool seen[3] = { false };
    for (size_t i = 0; i < dead->listed_count; i++) {
        const struct listed *l = &dead->listed[i];
        CHECK_EQ(l->cause, PR_REASON_SERIALIZATION_ERROR);
        CHECK_SLICE(l->rule, "undecodable");
        CHECK_SLICE(l->m.source, w.config.name);
        CHECK(slice_contains(l->m.story, PR_STR("\"undecodable\"")));
        seen[0] |= slice_eq(l->m.payload, broken.body); /* a line has its message in it */
        seen[1] |= slice_contains(l->m.error, PR_STR("type is missing"));
        seen[2] |= slice_contains(l->m.payload, large.body);
    }
    CHECK(seen[0] && seen[1] && seen[2]);
    WAIT_FOR(world_status(&w).counts.dead == 3);
    const size_t again = check_acknowledged(); /* without an id of its own, what comes again is another letter */
    world_run(&w, PLENTY);                     /* they do not come again */
    struct post last = numbered(1);
    publish(&last);
    WAIT_FOR(world_has(&w, last.body));
    (void)world_dead(&w, 3 + again);
    world_fini(&w);
}

TEST(a_full_box_stops_the_reading_until_it_has_room)
{
    struct pr_error error = { 0 };
    struct admin_reply reply;
    struct admin discard = { .kind = ADMIN_DISCARD, .filter = { .box = PR_STR("inbox"), .state = -1 } };
    struct post a = numbered(1), b;
    world_init(&w);
    publish(&a);
    world_run(&w, 1);
    (void)world_rows(&w, 1);
    b = numbered(2);
    publish(&b);
    WAIT_FOR(world_status(&w).is_held);
    (void)world_rows(&w, 1);
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
    discard.filter.type = PR_STR("order.*");
    CHECK_OK(store_admin(&w.store, &discard, &reply, &error), &error);
    CHECK_EQ(reply.changed, 1);
    CHECK_SLICE(world_rows(&w, 1)->listed[0].m.payload, "{\"number\":2}");
    WAIT_FOR(!world_status(&w).is_held || world_status(&w).counts.stored == 2);
    world_fini(&w);
}

/* Together they are more than a batch may have: what is over it is read with the next.  Kafka's mock brokers keep 5 MB. */
TEST(many_large_messages_all_arrive)
{
    enum { COUNT = 110, SIZE = 45000 };
    static char body[SIZE];
    memset(body, '1', sizeof(body));
    world_init(&w);
    for (unsigned i = 0; i < COUNT; i++) {
        struct post p = numbered(i);
        p.body = (pr_slice){ body, sizeof(body) };
        publish(&p);
    }
    world_run(&w, PLENTY);
    const struct query_reply *rows = world_rows(&w, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQ(rows->listed[i].m.payload.size, SIZE);
    check_acknowledged();
    world_fini(&w);
}

static const struct listed *dead_of(const struct query_reply *dead, size_t size_min, size_t size_max)
{
    for (size_t i = 0; i < dead->listed_count; i++)
        if (dead->listed[i].m.payload.size >= size_min && dead->listed[i].m.payload.size <= size_max)
            return &dead->listed[i];
    check_fail(__FILE__, __LINE__, "no dead letter has %zu to %zu bytes", size_min, size_max);
    return NULL;
}

/* What a broker makes us hold follows limits.payload.  What is somewhat larger is a dead letter with all its bytes; of what is far
 * larger the first ones are kept.  Those behind it arrive. */
TEST(what_is_too_large_is_a_dead_letter_with_the_bytes_that_are_held_and_the_others_arrive) /* B91 */
{
    static char body[900000];
    struct post some = event("some", (pr_slice){ body, 100000 }), far = event("far", (pr_slice){ body, sizeof(body) });
    struct post good;
    memset(body, '1', sizeof(body));
    some.message_id = "some";
    far.message_id = "far";
    world_init(&w);
    publish(&some);
    publish(&far);
    good = numbered(1);
    publish(&good);
    publish(&far);
    good = numbered(2); /* behind the second one: when it is here, that one was acknowledged */
    publish(&good);
    world_run(&w, PLENTY);
    CHECK_SLICE(world_rows(&w, 2)->listed[0].m.payload, "{\"number\":1}");
    size_t count = w.harness->has_ids ? 2 : 3; /* without an id it is another one */
    WAIT_FOR(world_status(&w).counts.dead == count);
    const struct query_reply *dead = world_dead(&w, count);
    CHECK(slice_contains(dead_of(dead, 100000, 101000)->m.error, PR_STR("limit")));
    if (!w.harness->is_batched) {
        const struct listed *cut = dead_of(dead, 200000, 500000);
        char kept[64];
        snprintf(kept, sizeof(kept), "its first %zu bytes are kept", cut->m.payload.size);
        CHECK(slice_contains(cut->m.error, slice_from(kept)) && slice_contains(cut->m.error, PR_STR("it has 900")));
        CHECK(slice_contains(cut->m.error, PR_STR("raise limits.payload")));
        CHECK(slice_contains(cut->m.payload, (pr_slice){ body, 200000 }));
    }
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
    check_acknowledged();
    world_fini(&w);
}

TEST(a_stream_keeps_its_order_over_many_batches)
{
    enum { COUNT = 1000 };
    world_init(&w);
    for (unsigned i = 0; i < COUNT; i++) {
        struct post p = numbered(i);
        publish(&p);
    }
    world_run(&w, PLENTY);
    const struct query_reply *rows = world_rows(&w, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        char body[40];
        snprintf(body, sizeof(body), "{\"number\":%u}", i);
        CHECK_SLICE(rows->listed[i].m.payload, body);
    }
    WAIT_FOR(world_status(&w).counts.stored == COUNT);
    CHECK_EQ(world_status(&w).counts.duplicates, 0);
    check_acknowledged();
    world_fini(&w);
}

TEST(a_broker_that_goes_and_comes_back_is_read_on)
{
    struct post p = numbered(1);
    world_init(&w);
    publish(&p);
    world_run(&w, PLENTY);
    (void)world_rows(&w, 1);
    w.harness->restart(&w);
    p = numbered(2);
    publish(&p);
    CHECK_SLICE(world_rows(&w, 2)->listed[1].m.payload, "{\"number\":2}");
    WAIT_FOR(world_status(&w).state == SOURCE_RUNNING);
    check_acknowledged();
    world_fini(&w);
}

TEST(a_source_that_waits_stops_at_once)
{
    struct post p = numbered(1);
    world_init(&w);
    publish(&p);
    world_run(&w, PLENTY);
    (void)world_rows(&w, 1);
    int64_t begin_us = clock_mono_us(clock_system());
    world_stop(&w);
    CHECK(clock_mono_us(clock_system()) - begin_us < PR_SECONDS(3));
    world_fini(&w);
}

/* ---- A death ---------------------------------------------------------------------------------------- */

#ifdef POSTRIDER_FAILPOINTS
#define DEATH_SECONDS 120 /* the latest: then the point was never reached */

/* Another process reads, and dies there. */
static void die_at(const char *point)
{
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(DEATH_SECONDS);
        world_open_store(&w);
        failpoint_arm(point);
        world_run(&w, PLENTY);
        for (;;)
            pause();
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* It takes half a minute at some brokers, and each look is a connection. */
static bool nothing_is_left(void)
{
    usleep(100000);
    return w.harness->left(&w) == 0;
}
#endif

TEST(whenever_a_reader_dies_between_its_broker_and_the_box_nothing_is_lost_and_nothing_is_stored_twice) /* B91, B90 */
{
#ifndef POSTRIDER_FAILPOINTS
    SKIP("this build has no fail points");
#else
    enum { COUNT = 20 };
    char folder[] = "/tmp/postrider-source-XXXXXX", file[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(file, sizeof(file), "%s/s.db", folder);
    world_init_at(&w, file);
    for (unsigned i = 0; i < COUNT; i++) {
        struct post p = numbered(i);
        publish(&p);
    }
    if (!w.harness->keeps_position && !w.harness->gives_back_late)
        die_at("store.enqueue.before_commit");
    die_at("source.after_commit");
    if (!w.harness->keeps_position && !w.harness->gives_back_late)
        die_at("source.after_commit"); /* what comes again is a batch, too */
    struct post last = numbered(COUNT);
    publish(&last);
    world_open_store(&w);
    world_run(&w, PLENTY);
    const struct query_reply *rows = world_rows(&w, COUNT + 1); /* nothing is lost, and nothing is there twice */
    for (unsigned i = 0; i < COUNT; i++) {
        struct post p = numbered(i);
        CHECK(world_has(&w, p.body));
    }
    CHECK_EQ(rows->listed_count, COUNT + 1);
    if (w.harness->left(&w) >= 0)
        WAIT_FOR(nothing_is_left()); /* what the dead had may come again late */
    check_acknowledged();
    world_fini(&w);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK_EQ(system(command), 0);
#endif
}
