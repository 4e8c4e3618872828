/* redis as a source: the suite's other side, and tests of Redis alone. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../transport/server.h"
#include "base/slice.h"
#include "check.h"
#include "source/broker/redis_value.h"
#include "transport/broker/inbox.h"
#include "world.h"

static struct server server;

static void server_gone(void)
{
    server_remove(&server);
}

/* A server that has just started loads its file first. */
static redisReply *command(int count, const char **args, const size_t *sizes)
{
    int64_t until_us = clock_mono_us(clock_system()) + WAIT_US;
    for (;;) {
        redisContext *c = redisConnect("127.0.0.1", (int)server.port);
        CHECK(c != NULL);
        CHECK_EQ(c->err, 0);
        redisReply *reply = redisCommandArgv(c, count, args, sizes);
        redisFree(c);
        CHECK(reply != NULL);
        if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "LOADING", 7) != 0)
            return reply;
        freeReplyObject(reply);
        CHECK(clock_mono_us(clock_system()) < until_us);
        usleep(2000);
    }
}

static redisReply *ask(const char *text)
{
    char copy[256], *rest = copy;
    const char *args[16];
    int count = 0;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        args[count++] = word;
    return command(count, args, NULL);
}

static void tell(const char *text)
{
    redisReply *reply = ask(text);
    CHECK_STR(reply->type == REDIS_REPLY_ERROR ? reply->str : "", "");
    freeReplyObject(reply);
}

static void redis_start(struct world *w)
{
    if (!server_is_installed("redis-server"))
        SKIP("redis-server is not installed");
    if (server.folder[0] == '\0') {
        server_prepare(&server);
        server_arg(&server, "redis-server");
        server_arg(&server, "--port");
        server_arg(&server, "%u", server.port);
        server_arg(&server, "--bind");
        server_arg(&server, "127.0.0.1");
        server_arg(&server, "--appendonly");
        server_arg(&server, "yes");
        server_arg(&server, "--appendfsync");
        server_arg(&server, "always");
        server_arg(&server, "--dir");
        server_arg(&server, "%s", server.folder);
        atexit(server_gone);
        server_start(&server);
    }
    tell("FLUSHALL");
    snprintf(w->url, sizeof(w->url), "redis://127.0.0.1:%u/0?stream=orders", server.port);
}

static void redis_publish(struct world *w, const struct post *p)
{
    const char *args[128] = { "XADD", "orders", "*" };
    size_t sizes[128] = { 4, 6, 1 };
    static char names[POST_PAIRS_MAX][64];
    int n = 3;
    (void)w;
    for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
        sizes[n] = (size_t)snprintf(names[i], sizeof(names[i]), "ce_%s", p->attributes[i].name);
        args[n++] = names[i];
        sizes[n] = p->attributes[i].value.size;
        args[n++] = p->attributes[i].value.data;
    }
    for (int i = 0; i < POST_PAIRS_MAX && p->headers[i].name != NULL; i++) {
        sizes[n] = strlen(p->headers[i].name);
        args[n++] = p->headers[i].name;
        sizes[n] = p->headers[i].value.size;
        args[n++] = p->headers[i].value.data;
    }
    if (p->content_type != NULL) {
        sizes[n] = 12;
        args[n++] = "content-type";
        sizes[n] = strlen(p->content_type);
        args[n++] = p->content_type;
    }
    sizes[n] = 4;
    args[n++] = "data";
    sizes[n] = p->body.size;
    args[n++] = p->body.data;
    redisReply *reply = command(n, args, sizes);
    CHECK_EQ(reply->type, REDIS_REPLY_STRING);
    freeReplyObject(reply);
}

static void redis_restart(struct world *w)
{
    (void)w;
    server_stop(&server, SIGTERM);
    server_start(&server);
}

/* Pending ones, and those that nobody was given. */
static int64_t redis_left(struct world *w)
{
    (void)w;
    redisReply *pending = ask("XPENDING orders postrider"), *groups = ask("XINFO GROUPS orders");
    int64_t count = pending->element[0]->integer;
    char text[128] = "";
    for (size_t i = 0; i + 1 < groups->element[0]->elements; i += 2)
        if (strcmp(groups->element[0]->element[i]->str, "last-delivered-id") == 0)
            snprintf(text, sizeof(text), "XRANGE orders (%s +", groups->element[0]->element[i + 1]->str);
    redisReply *rest = ask(text);
    count += (int64_t)rest->elements;
    freeReplyObject(pending);
    freeReplyObject(groups);
    freeReplyObject(rest);
    return count;
}

static const struct harness harness = {
    .kind = "redis",
    .is_batched = true,
    .is_positioned = true,
    .has_headers = true,
    .start = redis_start,
    .publish = redis_publish,
    .restart = redis_restart,
    .left = redis_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is redis's own ------------------------------------------------------------------------------ */

static struct world w;

TEST(redis_takes_over_what_a_dead_consumer_has_not_acknowledged) /* B91 */
{
    world_init(&w);
    tell("XGROUP CREATE orders postrider 0 MKSTREAM");
    tell("XADD orders * data {}");
    tell("XREADGROUP GROUP postrider dead COUNT 1 STREAMS orders >");
    snprintf(w.url, sizeof(w.url), "redis://127.0.0.1:%u/0?stream=orders&claim=1s", server.port);
    world_run(&w, 1000);
    (void)world_rows(&w, 1);
    world_stop(&w);
    CHECK_EQ(redis_left(&w), 0);
    world_fini(&w);
}

TEST(redis_entry_without_data_is_a_json_object_of_its_fields)
{
    world_init(&w);
    tell("XADD orders * customer 7 total 5");
    world_run(&w, 1000);
    const struct pr_message *m = &world_rows(&w, 1)->listed[0].m;
    CHECK_SLICE(m->payload, "{\"customer\":\"7\",\"total\":\"5\"}");
    CHECK_SLICE(m->content_type, "application/json");
    CHECK_SLICE(m->type, "orders");
    CHECK_SLICE(m->headers, "");
    world_fini(&w);
}

/* A column of text cannot hold a NUL on PostgreSQL: the letter must not be refused for ever in its message's place. */
TEST(redis_content_type_with_a_nul_is_a_dead_letter_and_the_next_message_comes) /* B91, B206 */
{
    static const char *args[] = { "XADD", "orders", "*", "content-type", "text\0plain", "data", "kept" };
    static const size_t sizes[] = { 4, 6, 1, 12, 10, 4, 4 };
    world_init(&w);
    freeReplyObject(command(7, args, sizes));
    tell("XADD orders * data {}");
    world_run(&w, 1000);
    const struct pr_message *m = &world_dead(&w, 1)->listed[0].m;
    CHECK_SLICE(m->payload, "kept");
    CHECK_SLICE(m->content_type, "");
    (void)world_rows(&w, 1);
    world_stop(&w);
    CHECK_EQ(redis_left(&w), 0);
    world_fini(&w);
}

/* Entries are asked for by their number: 40 MB in one answer are too many, and each of them is fine. */
TEST(redis_answer_that_is_too_large_is_asked_for_again_in_parts)
{
    enum { COUNT = 100, SIZE = 400000 };
    static char body[SIZE];
    const char *args[] = { "XADD", "orders", "*", "data", body };
    static const size_t sizes[] = { 4, 6, 1, 4, SIZE };
    memset(body, '1', sizeof(body));
    world_init(&w);
    for (int i = 0; i < COUNT; i++)
        freeReplyObject(command(5, args, sizes));
    world_run(&w, 1000);
    (void)world_dead(&w, COUNT); /* more than limits.payload */
    world_stop(&w);
    CHECK_EQ(redis_left(&w), 0);
    world_fini(&w);
}

/* How much of it one read brought makes no difference. */
TEST(redis_line_that_is_too_long_is_refused_in_one_piece_as_in_several)
{
    static char line[INBOX_SIZE + 2];
    struct redis_value value;
    struct pr_error error = { 0 };
    struct arena arena;
    arena_init(&arena, 1024);
    memset(line, '1', sizeof(line));
    line[0] = '+';
    memcpy(line + INBOX_SIZE, "\r\n", 2);
    CHECK_EQ(redis_value_read(PR_BYTES(line, INBOX_SIZE), &arena, &value, &error), PR_EINVAL);
    CHECK_EQ(redis_value_read(PR_BYTES(line, sizeof(line)), &arena, &value, &error), PR_EINVAL);
    memcpy(line + INBOX_SIZE - 2, "\r\n", 2);
    CHECK_EQ(redis_value_read(PR_BYTES(line, sizeof(line)), &arena, &value, &error), INBOX_SIZE);
    CHECK_EQ(value.text.size, INBOX_SIZE - 3);
    arena_fini(&arena);
}

/* More than an answer may have, in one field, and in a field whose entry has others behind it. */
TEST(redis_entry_that_is_far_too_large_is_a_dead_letter_with_its_first_bytes) /* B91 */
{
    enum { SIZE = 20000000 };
    char *body = malloc(SIZE);
    const char *args[] = { "XADD", "orders", "*", "data", body, "more", body };
    const size_t sizes[] = { 4, 6, 1, 4, SIZE, 4, SIZE };
    CHECK(body != NULL);
    memset(body, '1', SIZE);
    world_init(&w);
    tell("XADD orders * data 1");
    freeReplyObject(command(5, args, sizes));
    freeReplyObject(command(7, args, sizes));
    tell("XADD orders * data 2");
    world_run(&w, 1000);
    (void)world_rows(&w, 2);
    const struct query_reply *dead = world_dead(&w, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct pr_message *m = &dead->listed[i].m;
        CHECK(m->payload.size > 390000 && m->payload.size < 400000 && m->payload.data[m->payload.size - 1] == '1');
        CHECK(slice_contains(m->error, PR_STR("raise limits.payload")));
        CHECK(slice_contains(m->error, i == 0 ? PR_STR("it has 20000000 bytes") : PR_STR("it has 40000000 bytes")));
    }
    WAIT_FOR(world_status(&w).state == SOURCE_RUNNING);
    world_stop(&w);
    CHECK_EQ(redis_left(&w), 0);
    free(body);
    world_fini(&w);
}

TEST(redis_stream_that_is_no_stream_is_told_and_what_to_do)
{
    world_init(&w);
    tell("SET orders text");
    world_run(&w, 1000);
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "check stream in its url") != NULL);
    tell("DEL orders");
    tell("XADD orders * data {}");
    (void)world_rows(&w, 1);
    world_fini(&w);
}

TEST(redis_group_that_is_deleted_meanwhile_is_made_again)
{
    world_init(&w);
    tell("XADD orders * data 1");
    world_run(&w, 1000);
    (void)world_rows(&w, 1);
    tell("XGROUP DESTROY orders postrider");
    tell("XADD orders * data 2");
    (void)world_rows(&w, 2);
    WAIT_FOR(world_status(&w).counts.duplicates == 1); /* it begins at the start */
    world_fini(&w);
}

/* XAUTOCLAIM looks at a part of what is pending: here it is more than that which comes first, and belongs to somebody alive. */
TEST(redis_takes_over_what_stands_behind_much_that_is_not_to_be_taken_over) /* B91 */
{
    enum { COUNT = 1100 };
    static const char refresh[] =
        "local ids = {} for _, e in ipairs(redis.call('XRANGE', 'orders', '1-0', '1-9999')) do"
        " table.insert(ids, e[1]) end"
        " return #redis.call('XCLAIM', 'orders', 'postrider', 'busy', 0, unpack(ids))";
    const char *keep[] = { "EVAL", refresh, "0" };
    char text[100];
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "redis://127.0.0.1:%u/0?stream=orders&claim=1s", server.port);
    tell("XGROUP CREATE orders postrider 0 MKSTREAM");
    for (int i = 1; i <= COUNT; i++) {
        snprintf(text, sizeof(text), "XADD orders 1-%d data busy", i);
        tell(text);
    }
    snprintf(text, sizeof(text), "XREADGROUP GROUP postrider busy COUNT %d STREAMS orders >", COUNT);
    tell(text);
    tell("XADD orders 2-1 data dead");
    tell("XREADGROUP GROUP postrider dead COUNT 1 STREAMS orders >");
    usleep(1000000);
    freeReplyObject(command(3, keep, NULL));
    world_run(&w, 10000);
    WAIT_FOR((freeReplyObject(command(3, keep, NULL)), world_has(&w, PR_STR("dead"))));
    (void)world_rows(&w, 1);
    world_fini(&w);
}

TEST(redis_group_of_new_entries_that_is_deleted_meanwhile_goes_on_where_it_was) /* B91 */
{
    size_t size;
    world_init(&w);
    size = strlen(w.url);
    snprintf(w.url + size, sizeof(w.url) - size, "&start=new");
    tell("XADD orders * data old");
    world_run(&w, 1000);
    WAIT_FOR((tell("XADD orders * data new"), world_status(&w).counts.stored > 0)); /* from then on it has a group */
    tell("XGROUP DESTROY orders postrider");
    tell("XADD orders * data last");
    WAIT_FOR(world_has(&w, PR_STR("last")));
    CHECK(!world_has(&w, PR_STR("old")));
    CHECK_EQ(world_status(&w).counts.duplicates, 0);
    world_fini(&w);
}
