#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

#define TOKEN(index) (UINT64_C(0xfedcba9800000000) + (index)) /* all 64 bits must come back */

void world_prepare(struct world *w, const struct harness *harness, unsigned concurrency)
{
    memset(w, 0, sizeof(*w));
    w->harness = harness;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->config = (struct endpoint_config){
        .name = "test", .timeout_us = PR_SECONDS(20), .concurrency = concurrency, .wake_fd = w->wake_fd
    };
    harness->start(w);
}

void world_open(struct world *w)
{
    struct pr_error error;
    CHECK_OK(transport_open(&w->config, &w->transport, &error), &error);
}

void world_init(struct world *w, const struct harness *harness, unsigned concurrency)
{
    world_prepare(w, harness, concurrency);
    world_open(w);
}

void world_fini(struct world *w)
{
    transport_close(&w->transport);
    w->harness->stop(w);
    for (size_t i = 0; i < w->message_count; i++)
        delivery_result_fini(&w->results[i]);
    for (size_t i = 0; i < w->arrival_count; i++)
        free(w->arrivals[i].payload);
    close(w->wake_fd);
}

int64_t world_now(void)
{
    return clock_mono_us(clock_system());
}

size_t world_add(struct world *w, const char *stream, pr_slice payload, enum wish wish)
{
    size_t i = w->message_count++;
    struct pr_message *m = &w->messages[i];
    CHECK(i < WORLD_MESSAGES_MAX);
    *m = (struct pr_message){ .type = PR_STR("test.sent"), .stream = slice_from(stream), .payload = payload };
    pr_id_new(&m->id);
    w->harness->make(w, m, wish);
    w->deliveries[i] = (struct delivery){ .message = m,
                                          .token = TOKEN(i),
                                          .attempt = 1,
                                          .deadline_us = world_now() + WORLD_WAIT_US,
                                          .start_before_us = world_now() + WORLD_WAIT_US };
    return i;
}

static void enter(struct world *w)
{
    if (w->harness->enter != NULL)
        w->harness->enter(w);
}

static void leave(struct world *w)
{
    if (w->harness->leave != NULL)
        w->harness->leave(w);
}

size_t world_submit(struct world *w)
{
    const struct delivery *list[WORLD_MESSAGES_MAX];
    size_t count = 0;
    for (size_t i = w->taken; i < w->message_count; i++)
        list[count++] = &w->deliveries[i];
    enter(w);
    size_t taken = transport_submit(&w->transport, list, count);
    leave(w);
    w->taken += taken;
    return taken;
}

size_t world_poll(struct world *w, int64_t wait_us)
{
    struct delivery_result results[7]; /* a small array: the rest must wait for the next call */
    enter(w);
    size_t count = transport_poll(&w->transport, results, ARRAY_LENGTH(results), world_now() + wait_us);
    leave(w);
    for (size_t i = 0; i < count; i++) {
        uint64_t index = results[i].token - TOKEN(0);
        CHECK(index < w->taken);
        CHECK_EQ(w->result_counts[index]++, 0); /* P1 */
        w->results[index] = results[i];
        memset(&w->deliveries[index], 0xee, sizeof(w->deliveries[index])); /* it was borrowed until now */
    }
    w->answered += count;
    return count;
}

void world_collect(struct world *w)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (w->answered < w->taken) {
        CHECK(world_now() < end_us);
        world_poll(w, PR_SECONDS(1));
    }
    CHECK_EQ(w->transport.out, 0);
}

void world_run(struct world *w)
{
    int64_t end_us = world_now() + WORLD_WAIT_US;
    while (w->answered < w->message_count) {
        CHECK(world_now() < end_us);
        world_submit(w);
        world_poll(w, PR_SECONDS(1));
    }
    CHECK_EQ(w->transport.out, 0);
}

void world_cancel(struct world *w)
{
    enter(w);
    transport_cancel(&w->transport);
    leave(w);
}

void world_event_payload(const json_t *event, struct buf *ret)
{
    const char *base64 = json_string_value(json_object_get(event, "data_base64"));
    const char *type = json_string_value(json_object_get(event, "datacontenttype"));
    const json_t *data = json_object_get(event, "data");
    buf_reset(ret);
    if (base64 != NULL)
        CHECK_EQ(base64_decode(ret, slice_from(base64)), PR_OK);
    if (json_is_string(data) && strncmp(type, "text/", 5) == 0) {
        buf_add_cstr(ret, json_string_value(data));
    } else if (data != NULL) {
        char *text = json_dumps(data, JSON_ENCODE_ANY | JSON_COMPACT);
        buf_add_cstr(ret, text);
        free(text);
    }
}

void world_arrival_add(struct world *w, pr_id id, pr_slice payload)
{
    CHECK(w->arrival_count < ARRAY_LENGTH(w->arrivals));
    struct arrival *a = &w->arrivals[w->arrival_count++];
    a->id = id;
    a->size = payload.size;
    a->payload = malloc(payload.size + 1);
    ASSERT(a->payload != NULL);
    if (payload.size > 0)
        memcpy(a->payload, payload.data, payload.size);
}

size_t world_arrived(struct world *w, size_t index)
{
    size_t count = 0;
    for (size_t i = 0; i < w->arrival_count; i++)
        count += pr_id_equal(w->arrivals[i].id, w->messages[index].id);
    return count;
}

void world_look(struct world *w)
{
    for (size_t i = 0; i < w->arrival_count; i++)
        free(w->arrivals[i].payload);
    w->arrival_count = 0;
    w->harness->arrivals(w);
}
