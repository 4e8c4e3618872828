/* harness.c - the other sides of the four transports. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "check.h"
#include "peer.h"
#include "transport/http/egress_filter.h"
#include "world.h"

static void nothing(struct world *w)
{
    (void)w;
}

static void make_plain(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    (void)m;
    CHECK_EQ(wish, WISH_OK);
}

/* ---- null ------------------------------------------------------------------------------------ */

static void null_start(struct world *w)
{
    w->config.url = "null:";
}

const struct harness harness_null = {
    .name = "null", .wishes = 1 << WISH_OK, .start = null_start, .stop = nothing, .make = make_plain
};

/* ---- console: a pipe in the place of the standard output ---------------------------------------- */

struct pipe_side {
    int pipe[2], saved;
};

static void console_start(struct world *w)
{
    static struct pipe_side side;
    CHECK(pipe2(side.pipe, O_CLOEXEC) == 0);
    CHECK(fcntl(side.pipe[0], F_SETFL, O_NONBLOCK) == 0);
    CHECK(fcntl(side.pipe[1], F_SETPIPE_SZ, 1 << 20) >= 0); /* nobody reads until the end */
    w->other_side = &side;
    w->config.url = "console:";
}

static void console_stop(struct world *w)
{
    struct pipe_side *side = w->other_side;
    close(side->pipe[0]);
    close(side->pipe[1]);
}

static void console_enter(struct world *w)
{
    struct pipe_side *side = w->other_side;
    fflush(stdout);
    side->saved = dup(STDOUT_FILENO);
    dup2(side->pipe[1], STDOUT_FILENO);
}

static void console_leave(struct world *w)
{
    struct pipe_side *side = w->other_side;
    dup2(side->saved, STDOUT_FILENO);
    close(side->saved);
}

static void console_arrivals(struct world *w)
{
    struct pipe_side *side = w->other_side;
    static char text[1 << 20];
    ssize_t size = read(side->pipe[0], text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        pr_id id;
        CHECK_EQ(pr_id_parse((pr_slice){ line, PR_ID_TEXT_SIZE - 1 }, &id), PR_OK);
        world_arrival_add(w, id, PR_STR(""));
    }
}

const struct harness harness_console = {
    .name = "console",
    .wishes = 1 << WISH_OK,
    .start = console_start,
    .stop = console_stop,
    .make = make_plain,
    .arrivals = console_arrivals,
    .enter = console_enter,
    .leave = console_leave,
};

/* ---- handler: a function; the wish is the message's subject --------------------------------------- */

static struct {
    pthread_mutex_t lock;
    struct world *world;
} handled = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct arrival handled_list[WORLD_MESSAGES_MAX];
static size_t handled_count;

static int handle(struct pr_context *context, const struct pr_message *m, void *user)
{
    ASSERT(user == handled.world);
    pthread_mutex_lock(&handled.lock);
    struct arrival *a = &handled_list[handled_count++];
    *a = (struct arrival){ .id = m->id, .payload = malloc(m->payload.size + 1), .size = m->payload.size };
    if (m->payload.size > 0)
        memcpy(a->payload, m->payload.data, m->payload.size);
    pthread_mutex_unlock(&handled.lock);

    if (slice_eq_cstr(m->subject, "fail"))
        return pr_fail(context, PR_REASON_VALIDATION_FAILURE, "told to fail");
    if (slice_eq_cstr(m->subject, "hang"))
        while (!pr_should_stop(context))
            usleep(1000); /* this is what hanging looks like */
    return slice_eq_cstr(m->subject, "hang") ? -7 : PR_OK;
}

static void handler_start(struct world *w)
{
    handled.world = w;
    handled_count = 0;
    w->config.url = "handler:test";
    w->config.handler = handle;
    w->config.handler_user = w;
}

static void handler_stop(struct world *w)
{
    (void)w;
    for (size_t i = 0; i < handled_count; i++)
        free(handled_list[i].payload);
    handled_count = 0;
}

static void handler_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    static const pr_slice subjects[] = {
        [WISH_OK] = { NULL, 0 }, [WISH_FAIL] = { "fail", 4 }, [WISH_HANG] = { "hang", 4 }
    };
    CHECK(wish != WISH_LOSE_ANSWER);
    m->subject = subjects[wish];
}

static void handler_arrivals(struct world *w)
{
    pthread_mutex_lock(&handled.lock);
    for (size_t i = 0; i < handled_count; i++)
        world_arrival_add(w, handled_list[i].id, (pr_slice){ handled_list[i].payload, handled_list[i].size });
    pthread_mutex_unlock(&handled.lock);
}

const struct harness harness_handler = {
    .name = "handler",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL | 1 << WISH_HANG,
    .exact = true,
    .starts_early = true,
    .start = handler_start,
    .stop = handler_stop,
    .make = handler_make,
    .arrivals = handler_arrivals,
};

/* ---- http: the receiver; the wish is a header ------------------------------------------------------- */

struct http_side {
    struct peer peer;
    char url[64];
    struct network loopback;
};

struct peer *harness_http_peer(struct world *w)
{
    struct http_side *side = w->other_side;
    return &side->peer;
}

static void http_start(struct world *w)
{
    static struct http_side side;
    peer_start(&side.peer, NULL, NULL);
    snprintf(side.url, sizeof(side.url), "http://127.0.0.1:%u/record", side.peer.port);
    CHECK_EQ(egress_parse(PR_STR("127.0.0.0/8"), &side.loopback, NULL), PR_OK);
    w->other_side = &side;
    w->config.url = side.url;
    w->config.allow_networks = &side.loopback;
    w->config.allow_network_count = 1;
}

static void http_stop(struct world *w)
{
    struct http_side *side = w->other_side;
    peer_stop(&side->peer);
}

static void http_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    static const char *const headers[] = { [WISH_OK] = "",
                                           [WISH_FAIL] = "{\"x-behave\":\"/status/422\"}",
                                           [WISH_LOSE_ANSWER] = "{\"x-behave\":\"/close-after-request\"}",
                                           [WISH_HANG] = "{\"x-behave\":\"/never\"}" };
    m->headers = slice_from(headers[wish]);
}

static void http_arrivals(struct world *w)
{
    struct http_side *side = w->other_side;
    json_t *records = peer_records(&side->peer), *record;
    size_t i;
    struct buf body;
    buf_init(&body, 1 << 24);
    json_array_foreach(records, i, record)
    {
        pr_id id;
        CHECK_EQ(pr_id_parse(slice_from(record_header(record, "ce-id")), &id), PR_OK);
        record_body(record, &body);
        world_arrival_add(w, id, buf_slice(&body));
    }
    buf_fini(&body);
    json_decref(records);
}

const struct harness harness_http = {
    .name = "http",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL | 1 << WISH_LOSE_ANSWER | 1 << WISH_HANG,
    .exact = true,
    .start = http_start,
    .stop = http_stop,
    .make = http_make,
    .arrivals = http_arrivals,
};

/* ---- batch: the same receiver; the wish is a header of a message in the batch -------------------------- */

#define BATCH_WISHES (1 << WISH_OK | 1 << WISH_FAIL | 1 << WISH_LOSE_ANSWER) /* who hangs hangs with all others */

static void batch_start(struct world *w)
{
    http_start(w);
    struct http_side *side = w->other_side;
    snprintf(side->url, sizeof(side->url), "http://127.0.0.1:%u/batch", side->peer.port);
    w->config.envelope = "batch";
    w->config.batch_messages = 10;
}

static void batch_arrivals(struct world *w)
{
    struct http_side *side = w->other_side;
    json_t *records = peer_records(&side->peer), *record, *event;
    size_t i, k;
    struct buf body, payload;
    buf_init(&body, 1 << 26);
    buf_init(&payload, 1 << 26);
    json_array_foreach(records, i, record)
    {
        record_body(record, &body);
        CHECK_STR(record_header(record, "content-type"), "application/cloudevents-batch+json; charset=utf-8");
        json_t *events = json_loadb(body.data, body.size, 0, NULL);
        bool taken = strstr(buf_slice(&body).data, "/status/") == NULL;
        CHECK(json_array_size(events) >= 1 && json_array_size(events) <= w->config.batch_messages);
        json_array_foreach(events, k, event)
        {
            pr_id id;
            CHECK_EQ(pr_id_parse(slice_from(json_string_value(json_object_get(event, "id"))), &id), PR_OK);
            world_event_payload(event, &payload);
            if (taken)
                world_arrival_add(w, id, buf_slice(&payload));
        }
        json_decref(events);
    }
    buf_fini(&body);
    buf_fini(&payload);
    json_decref(records);
}

const struct harness harness_batch = {
    .name = "batch",
    .wishes = BATCH_WISHES,
    .exact = true,
    .start = batch_start,
    .stop = http_stop,
    .make = http_make,
    .arrivals = batch_arrivals,
};
