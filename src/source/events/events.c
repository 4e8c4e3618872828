/* Push: a subscription (store_subscription()) whose events become messages to one endpoint, in the order of their
 * places.  Position and messages are stored in one transaction; from there on the box and the endpoint handle the
 * messages.
 *
 * One instance at a time holds the subscription; the others check whether its lease is over. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "core/headers.h"
#include "core/id.h"
#include "source/source.h"

#define ARENA_BLOCK 65536
#define LEASE_US PR_SECONDS(15)
#define WAIT_US PR_SECONDS(1)                /* until another instance's lease, or a full box, is checked again */
#define TROUBLE_FIRST_US PR_MILLISECONDS(50) /* after a fault: growing up to the latter */
#define TROUBLE_LAST_US PR_SECONDS(5)
#define HOLDER_SIZE 160
#define ID_SHOWN 8

struct pusher {
    struct source *source;
    const struct events_setting *setting;
    struct arena arena; /* of one look */
    char holder[HOLDER_SIZE];
    uint64_t fence;
    bool has_it;
};

static int events_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    struct pusher *p = calloc(1, sizeof(*p));
    char id[PR_ID_TEXT_SIZE];
    pr_id unique;
    if (p == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the events of %s", source->config->name);
    p->source = source;
    p->setting = &source->config->events;
    pr_id_new(&unique); /* two with one name are different */
    pr_id_format(unique, id);
    snprintf(p->holder, sizeof(p->holder), "%.127s/%s", source->instance, id + PR_ID_TEXT_SIZE - 1 - ID_SHOWN);
    arena_init(&p->arena, ARENA_BLOCK);
    *ret_self = p;
    return PR_OK;
}

static int step(struct pusher *p, struct subscription_call call, struct subscription_info *ret, struct pr_error *reterr)
{
    call.name = slice_from(p->setting->name);
    call.holder = slice_from(p->holder);
    call.fence = p->fence;
    call.lease_us = LEASE_US;
    int rc = store_subscription(p->source->store, &call, &p->arena, ret, reterr);
    return rc == PR_UNKNOWN ? PR_STALE : rc; /* a person has removed it */
}

static void events_close(void *self)
{
    struct pusher *p = self;
    struct subscription_info info;
    struct pr_error ignored;
    if (p->has_it) {
        int rc = step(p, (struct subscription_call){ .step = SUBSCRIPTION_RELEASE }, &info, &ignored);
        (void)rc; /* otherwise its lease ends by itself */
    }
    arena_fini(&p->arena);
    free(p);
}

/* ---- An event as a message ---------------------------------------------------------------------- */

/* The event's own headers, and its position. */
static pr_slice headers_of(struct arena *arena, const struct stored_event *e)
{
    struct buf text;
    char version[24], place[24];
    snprintf(version, sizeof(version), "%" PRIu64, e->version);
    snprintf(place, sizeof(place), "%" PRIu64, e->place);
    const struct header ours[] = { { "postriderversion", slice_from(version) },
                                   { "postriderplace", slice_from(place) } };
    buf_init(&text, PR_HEADERS_MAX);
    headers_set(e->headers, ours, ARRAY_LENGTH(ours), &text);
    /* Without room for these, the event keeps the headers of its sender. */
    pr_slice made = slice_dup(arena, buf_failed(&text) == 0 ? buf_slice(&text) : e->headers);
    buf_fini(&text);
    return made;
}

static void message_of(struct pusher *p, const struct stored_event *e, struct pr_message *ret)
{
    char source[SUBSCRIPTION_NAME_MAX + 16], place[24];
    snprintf(source, sizeof(source), "subscription %s", p->setting->name);
    snprintf(place, sizeof(place), "%" PRIu64, e->place);
    *ret = (struct pr_message){
        .type = e->type,
        .stream = slice_from(p->setting->name), /* one order for all of them */
        .destination = slice_from(p->setting->to),
        .subject = e->stream,
        .content_type = e->content_type,
        .headers = headers_of(&p->arena, e),
        .payload = e->payload,
    };
    id_from_position(slice_from(source), slice_from(place), &ret->id);
}

/* ---- The loop --------------------------------------------------------------------------------------- */

static bool box_is_full(struct pusher *p, int *ret_rc, struct pr_error *reterr)
{
    struct source *s = p->source;
    const struct query query = {
        .kind = QUERY_ROWS, .filter = { .state = -1, .box = slice_from(s->config->box), .limit = s->waiting_max }
    };
    struct query_reply reply = { 0 };
    *ret_rc = store_query(s->store, &query, &p->arena, &reply, reterr);
    return *ret_rc == PR_OK && reply.total >= s->waiting_max;
}

/* A batch of events and their position, in one transaction.  *ret_moved: number of events. */
static int push(struct pusher *p, const struct subscription_info *info, size_t *ret_moved, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_EVENTS,
                                 .filter = { .state = -1, .after = info->position, .limit = p->source->batch } };
    struct query_reply reply;
    struct subscription_info moved;
    size_t count = 0;
    int rc = store_query(p->source->store, &query, &p->arena, &reply, reterr);
    *ret_moved = 0;
    if (rc != PR_OK || reply.event_count == 0)
        return rc;
    struct pr_message *messages = arena_alloc_array(&p->arena, reply.event_count, sizeof(*messages));
    if (messages == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu events", reply.event_count);
    for (size_t i = 0; i < reply.event_count; i++)
        if (p->setting->types[0] == '\0' || slice_glob(slice_from(p->setting->types), reply.events[i].type))
            message_of(p, &reply.events[i], &messages[count++]);
    rc = step(p,
              (struct subscription_call){ .step = SUBSCRIPTION_ADVANCE,
                                          .from = info->position,
                                          .to = reply.events[reply.event_count - 1].place,
                                          .box = slice_from(p->source->config->box),
                                          .messages = messages,
                                          .message_count = count },
              &moved, reterr);
    if (rc == PR_OK) {
        *ret_moved = reply.event_count;
        source_moved(p->source, &(struct source_counts){ .stored = count });
    }
    return rc;
}

/* How long it may rest: 0, there may be more; or a fault. */
static int look(struct pusher *p, int64_t idle_us, int64_t *ret_rest_us, struct pr_error *reterr)
{
    struct subscription_info info;
    size_t moved = 0;
    int rc;
    arena_reset(&p->arena);
    *ret_rest_us = WAIT_US;
    bool full = box_is_full(p, &rc, reterr);
    if (rc != PR_OK)
        return rc;
    if (source_hold(p->source, full) && full)
        log_emit(p->source->log, LOG_INFO, "source_held", LOG_STR("source", p->source->config->name));
    if (full)
        return PR_OK;
    rc = step(p, (struct subscription_call){ .step = SUBSCRIPTION_CLAIM }, &info, reterr);
    p->has_it = rc == PR_OK;
    if (rc == PR_OK) {
        p->fence = info.fence;
        rc = push(p, &info, &moved, reterr);
        *ret_rest_us = moved > 0 ? 0 : idle_us;
    }
    return rc < 0 ? rc : PR_OK;
}

static void events_run(void *self, int wake_fd)
{
    struct pusher *p = self;
    struct source *s = p->source;
    int64_t idle_us = s->poll_min_us, trouble_us = TROUBLE_FIRST_US, rest_us;
    do {
        struct pr_error error;
        int rc = look(p, idle_us, &rest_us, &error);
        if (rc != PR_OK) {
            if (source_trouble(s, &error))
                log_emit(s->log, LOG_WARN, "source_failed", LOG_STR("source", s->config->name),
                         LOG_STR("error", error.text));
            rest_us = trouble_us;
            trouble_us = min64(2 * trouble_us, TROUBLE_LAST_US);
            continue;
        }
        (void)source_fine(s);
        trouble_us = TROUBLE_FIRST_US;
        idle_us = rest_us == 0 ? s->poll_min_us : min64(2 * idle_us, s->config->poll_us);
    } while (!source_rest(wake_fd, rest_us));
}

const struct source_ops source_events = {
    .open = events_open,
    .run = events_run,
    .close = events_close,
};
