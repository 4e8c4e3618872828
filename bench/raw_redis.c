/* redis: XADD commands, pipelined. */
#include <hiredis/hiredis.h>
#include <string.h>

#include "carrier.h"

#define WINDOW 1000

static const char *redis_open(struct site *site)
{
    struct server *s = &site->server;
    if (!server_is_installed("redis-server"))
        return "redis-server is not installed";
    server_prepare(s);
    server_arg(s, "redis-server");
    server_arg(s, "--port");
    server_arg(s, "%u", s->port);
    server_arg(s, "--bind");
    server_arg(s, "127.0.0.1");
    server_arg(s, "--appendonly");
    server_arg(s, "yes");
    server_arg(
        s,
        "--save"); /* nor is the log written anew: a process that copies it in the midst of a turn burdens one side */
    server_arg(s, "%s", "");
    server_arg(s, "--auto-aof-rewrite-percentage");
    server_arg(s, "0");
    server_arg(s, "--dir");
    server_arg(s, "%s", s->folder);
    server_start(s);
    snprintf(site->sink, sizeof site->sink, "{url: \"redis://127.0.0.1:%u/?stream=sink\", source: " CARRIER_SOURCE "}",
             s->port);
    return NULL;
}

static void redis_close(struct site *site)
{
    server_remove(&site->server);
}

static redisContext *redis_connect(const struct site *site)
{
    redisContext *c = redisConnect("127.0.0.1", (int)site->server.port);
    if (c == NULL || c->err != 0)
        die("redis: %s", c != NULL ? c->errstr : "no memory");
    return c;
}

static void redis_clear(struct site *site)
{
    redisContext *c = redis_connect(site);
    freeReplyObject(redisCommand(c, "DEL sink"));
    redisFree(c);
}

static void redis_add(redisContext *c)
{
    struct raw_message m;
    raw_message_make(&m);
    const char *args[] = { "XADD",         "sink",       "*",       "ce_specversion", "1.0",
                           "ce_id",        m.id,         "ce_type", CARRIER_TYPE,     "ce_source",
                           CARRIER_SOURCE, "ce_time",    m.time,    "content-type",   "application/json",
                           "data",         raw_payload() };
    if (redisAppendCommandArgv(c, (int)ARRAY_LENGTH(args), args, NULL) != REDIS_OK)
        die("redis: %s", c->errstr);
}

/* Sends all, and waits for at least one. */
static size_t redis_take(redisContext *c)
{
    void *reply;
    size_t taken = 0;
    if (redisGetReply(c, &reply) != REDIS_OK)
        die("redis: %s", c->errstr);
    while (reply != NULL) {
        if (((redisReply *)reply)->type != REDIS_REPLY_STRING)
            die("redis: not taken");
        freeReplyObject(reply);
        taken++;
        if (redisGetReplyFromReader(c, &reply) != REDIS_OK)
            die("redis: %s", c->errstr);
    }
    return taken;
}

static double redis_raw_rate(struct site *site, size_t count)
{
    redisContext *c = redis_connect(site);
    size_t sent = 0, done = 0;
    double begin = seconds_now();
    while (done < count) {
        for (; sent < count && sent - done < WINDOW; sent++)
            redis_add(c);
        done += redis_take(c);
    }
    double rate = (double)count / (seconds_now() - begin);
    redisFree(c);
    return rate;
}

const struct carrier carrier_redis = {
    .name = "transport_redis",
    .raw_name = "raw_redis",
    .messages = 200000,
    .open = redis_open,
    .close = redis_close,
    .clear = redis_clear,
    .raw_rate = redis_raw_rate,
};
