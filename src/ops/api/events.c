#include "ops/api/events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/member.h"

#define SLICE_US PR_SECONDS(1)
/* silent slices until a comment line is sent, so that both sides notice when the other is gone */
#define ALIVE_SLICES 5
#define READ_MAX 32 /* happenings at once */
#define PENDING_MAX (1u << 20)

struct events {
    struct feed *feed;
    const atomic_bool *stop;
    uint64_t next;
    unsigned kinds; /* bits; 0: all */
    char box[64], endpoint[64];
    struct buf pending;
    size_t taken; /* of pending */
    bool over;
    int silent;
};

static int parse_kinds(pr_slice list, unsigned *ret, struct pr_error *reterr)
{
    while (list.size > 0) {
        const char *comma = memchr(list.data, ',', list.size);
        size_t size = comma != NULL ? (size_t)(comma - list.data) : list.size;
        int kind = 0;
        while (kind <= HAPPENING_ENDPOINT &&
               !slice_eq_cstr((pr_slice){ list.data, size }, happening_name((enum happening_kind)kind)))
            kind++;
        if (kind > HAPPENING_ENDPOINT)
            return error_set(reterr, PR_EINVAL,
                             "kind: unknown kind \"%.*s\"; use one of sent failed dead parked discarded expired "
                             "duplicate changed endpoint",
                             (int)size, list.data);
        *ret |= 1u << kind;
        size += comma != NULL;
        list = (pr_slice){ list.data + size, list.size - size };
    }
    return PR_OK;
}

int events_new(struct feed *feed, const struct params *params, const atomic_bool *stop, struct events **ret,
               struct pr_error *reterr)
{
    struct events *e = calloc(1, sizeof *e);
    if (e == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a client");
    int rc = parse_kinds(params_get(params, "kind"), &e->kinds, reterr);
    if (rc == PR_OK && feed_join(feed, &e->next) != PR_OK)
        rc = error_set(reterr, PR_ENOMEM, "out of memory for a client");
    if (rc < 0) {
        free(e);
        return rc;
    }
    e->feed = feed;
    e->stop = stop;
    happening_text(e->box, sizeof e->box, params_get(params, "box"));
    happening_text(e->endpoint, sizeof e->endpoint, params_get(params, "endpoint"));
    buf_init(&e->pending, PENDING_MAX);
    buf_add_cstr(&e->pending, ": listening\n\n"); /* so that the client knows that it misses nothing from now on */
    *ret = e;
    return PR_OK;
}

void events_free(struct events *e)
{
    if (e == NULL)
        return;
    feed_leave(e->feed);
    buf_fini(&e->pending);
    free(e);
}

static void text(struct json_writer *w, const char *key, const char *value)
{
    json_put_cstr(w, key, value[0] != '\0' ? value : NULL);
}

void events_write(struct buf *b, const struct happening *h)
{
    struct json_writer w;
    char id[PR_ID_TEXT_SIZE] = "";
    buf_addf(b, "id: %" PRIu64 "\nevent: %s\ndata: ", h->number, happening_name(h->kind));
    json_init(&w, b);
    json_begin_object(&w);
    if (!pr_id_is_zero(h->id))
        pr_id_format(h->id, id);
    text(&w, "id", id);
    member_time(&w, "at", h->at_us);
    text(&w, "box", h->box);
    text(&w, "endpoint", h->endpoint);
    json_put_int(&w, "attempt", h->attempt);
    text(&w, "reason", h->reason != PR_REASON_NONE ? pr_reason_name(h->reason) : "");
    text(&w, h->kind == HAPPENING_CHANGED ? "what" : h->kind == HAPPENING_ENDPOINT ? "breaker" : "error", h->error);
    text(&w, "rule", h->rule);
    member_time(&w, "next_at", h->next_us);
    json_end_object(&w);
    buf_add_cstr(b, "\n\n"); /* JSON contains no line breaks */
}

static bool is_wanted(const struct events *e, const struct happening *h)
{
    return (e->kinds == 0 || (e->kinds >> h->kind & 1) != 0) && (e->box[0] == '\0' || strcmp(e->box, h->box) == 0) &&
           (e->endpoint[0] == '\0' || strcmp(e->endpoint, h->endpoint) == 0);
}

/* Fetches something into pending, or nothing; takes at most a slice of time. */
static void events_fetch(struct events *e)
{
    struct happening list[READ_MAX];
    size_t count = 0;
    buf_reset(&e->pending);
    e->taken = 0;
    int rc = feed_read(e->feed, &e->next, list, READ_MAX, &count, SLICE_US);
    for (size_t i = 0; i < count; i++)
        if (is_wanted(e, &list[i]))
            events_write(&e->pending, &list[i]);
    if (rc == PR_STALE) {
        buf_add_cstr(&e->pending,
                     ": dropped: this client was too slow and missed events; read the state, then reconnect\n"
                     "\n");
        e->over = true;
    }
    e->silent = e->pending.size > 0 ? 0 : e->silent + (rc == PR_TIMEOUT);
    if (e->silent >= ALIVE_SLICES) {
        buf_add_cstr(&e->pending, ": still here\n\n");
        e->silent = 0;
    }
}

ssize_t events_read(struct events *e, char *ret, size_t max)
{
    while (e->taken == e->pending.size) {
        if (e->over || atomic_load(e->stop))
            return EVENTS_END;
        events_fetch(e);
        if (buf_failed(&e->pending))
            return EVENTS_END;
    }
    size_t count = min_size(max, e->pending.size - e->taken);
    memcpy(ret, e->pending.data + e->taken, count);
    e->taken += count;
    return (ssize_t)count;
}
