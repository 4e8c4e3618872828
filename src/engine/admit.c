/* A row that was read comes in: into its stream, back to the store as a held row, or to a verdict at once when it goes
 * nowhere, to several endpoints, or cannot be read. */
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "core/schedule.h"
#include "engine/internal.h"

/* The row without payload and headers, for verdicts that need neither. */
static struct row light(const struct row *row)
{
    struct row r = *row;
    r.m.payload = r.m.headers = (pr_slice){ NULL, 0 };
    return r;
}

static void admit_bad(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row r = light(row);
    struct item *item = item_new(e, &r, NULL);

    if (item == NULL)
        return;
    item->number = counter_is_valid(row->m.attempts) ? row->m.attempts + 1 : 0; /* 0: the stored counters stay */
    judge_dead(e, item, PR_REASON_SERIALIZATION_ERROR, PR_REASON_SERIALIZATION_ERROR, 0, PR_STR("undecodable"), true,
               (pr_slice){ NULL, 0 }, pr_str(row->bad), now_us);
}

static void admit_unroutable(struct engine *e, const struct row *row, int64_t now_us)
{
    struct row r = light(row);
    struct item *item = item_new(e, &r, NULL);
    struct pr_error text;

    if (item == NULL)
        return;
    if (row->m.destination.size > 0)
        error_set(&text, 0, "no endpoint %.*s: add it to the configuration, or discard the message",
                  (int)min_size(row->m.destination.size, 200), row->m.destination.data);
    else
        error_set(&text, 0, "no route matches type %.*s: add a route to the configuration, or discard the message",
                  (int)min_size(row->m.type.size, 200), row->m.type.data);
    judge_simple(e, item, VERDICT_PARK, PR_REASON_DESTINATION_MISSING, PR_STR("routes"), pr_str(text.text), now_us);
}

/* The number of rows that the stream may have in memory. */
static size_t stream_share(const struct engine *e, const struct stream *s, const struct row *row)
{
    const struct sort *sort = sort_of(s->endpoint, row->m.type);

    return sort != NULL ? sorts_stream_share(e, s->endpoint, sort)
                        : max_size(STREAM_SHARE_MIN, window_limit(e) / STREAM_SHARE_DIVISOR);
}

/* Rows wait in the store, held, when they stand behind a failed head, behind a row that waits for its breaker, or
 * behind as many rows of their stream as may be in memory.  Heads are queued behind earlier heads in memory.  A due row
 * keeps its old place, which may be before the held rows. */
static bool must_hold(const struct engine *e, const struct stream *s, const struct row *row, bool head)
{
    if (row->m.released || slice_eq(row->m.held_by, s->key))
        return false;
    if (head ? stream_misses_head(s, row->m.seq) : stream_blocks(s, &row->m))
        return true;
    if (s->item_count >= stream_share(e, s, row) && stream_ends_before(s, row->m.seq))
        return true;
    if (row->from == ROW_DUE)
        return s->held && s->held_from <= row->m.seq;
    return s->held || stream_has_held_type_at(s, row->m.seq) || sorts_differ(s, &row->m);
}

/* A part of a split takes its place in its stream at once, so that later messages stay behind it.  NULL: it has no
 * room, or must wait for others; *ret_holder then says for what: its stream, or its endpoint. */
static struct item *admit_part(struct engine *e, const struct row *row, struct endpoint *ep, pr_slice key,
                               struct part_holder *ret_holder, int64_t now_us)
{
    struct row r = *row;
    struct stream *s = stream_is_ordered(ep, row->m.stream) ? stream_get(e, ep, row->m.stream, row->lane) : NULL;
    struct item *part = NULL;

    r.row = 0;
    r.m.due_us = 0;
    r.m.attempts = r.m.failures = 0; /* a part was never handed out: the counters were those of the whole */
    r.m.reason = PR_REASON_NONE;
    r.m.code = r.m.error = (pr_slice){ NULL, 0 };
    r.m.destination = ep->setting->name;
    r.m.held_for = PR_HELD_FOR_ENDPOINT;
    r.m.held_by = (pr_slice){ key.data, ep->setting->name.size + 1 };
    *ret_holder = (struct part_holder){ r.m.held_by, PR_HELD_FOR_ENDPOINT };
    if (s != NULL && must_hold(e, s, row, false)) {
        *ret_holder = (struct part_holder){ key, PR_HELD_FOR_STREAM };
        stream_is_held(s, row->m.seq);
        stream_update(e, s);
        e->counts.held++;
        return NULL;
    }
    bool holds_type = !endpoint_has_gap(ep) && (held_types_takes_part(e, ep, row) || sorts_take_part(e, ep, row));
    if (!holds_type && (s != NULL || !stream_is_ordered(ep, row->m.stream)) && !endpoint_has_gap(ep) &&
        endpoint_room(e, ep, now_us) > 0)
        part = item_new(e, &r, ep);
    if (part != NULL) {
        part->stream = s;
        item_wait(e, part, true);
    } else if (!holds_type) {
        gap_hold_from(e, ep, row->m.seq);
    }
    if (s != NULL)
        stream_update(e, s);
    return part;
}

/* Writes "endpoint/stream" at *at and moves *at behind it. */
static pr_slice write_key(char **at, const struct endpoint *ep, pr_slice stream)
{
    pr_slice name = ep->setting->name, key = { *at, name.size + 1 + stream.size };

    memcpy(*at, name.data, name.size);
    (*at)[name.size] = '/';
    if (stream.size > 0)
        memcpy(*at + name.size + 1, stream.data, stream.size);
    *at += key.size;
    return key;
}

/* Allocates the verdict about `count` parts; false: no memory. */
static bool make_parts(const struct engine *e, struct item *parent, const unsigned *targets, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += e->endpoints[targets[i]].setting->name.size + 1 + parent->m.stream.size;
    item_drop_verdict(parent);
    parent->children = calloc(count, sizeof(*parent->children));
    parent->destinations = calloc(count, sizeof(*parent->destinations));
    parent->holders = calloc(count, sizeof(*parent->holders));
    parent->texts = malloc(bytes);
    parent->child_count = count;
    return parent->children != NULL && parent->destinations != NULL && parent->holders != NULL && parent->texts != NULL;
}

static enum admitted admit_split(struct engine *e, const struct row *row, const unsigned *targets, size_t count,
                                 int64_t now_us)
{
    struct row r = light(row);
    struct item *parent = item_new(e, &r, NULL);
    char *keys;

    if (parent == NULL)
        return NO_ROOM;
    if (!make_parts(e, parent, targets, count)) {
        item_free(e, parent);
        return NO_ROOM;
    }
    keys = parent->texts;
    for (size_t i = 0; i < count; i++) {
        struct endpoint *ep = &e->endpoints[targets[i]];
        pr_slice key = write_key(&keys, ep, row->m.stream);
        parent->destinations[i] = ep->setting->name;
        parent->children[i] = admit_part(e, row, ep, key, &parent->holders[i], now_us);
    }
    parent->verdict = (struct verdict){
        .kind = VERDICT_SPLIT,
        .row = row->row,
        .id = row->m.id,
        .destinations = parent->destinations,
        .holders = parent->holders,
        .destination_count = count,
    };
    item_move(e, parent, PLACE_JUDGED);
    return TAKEN;
}

static enum admitted admit_one(struct engine *e, const struct row *row, struct endpoint *ep, int64_t now_us)
{
    struct stream *s = NULL;
    struct item *item;
    bool head = false;
    enum admitted result = NO_ROOM;

    if (stream_is_ordered(ep, row->m.stream)) {
        s = stream_get(e, ep, row->m.stream, row->lane);
        if (s == NULL)
            return NO_ROOM;
        head = keeps_back(ep, &row->m);
        if (head && !stream_add_head(e, s, row->m.seq, row->m.due_us, false)) {
            stream_update(e, s);
            return NO_ROOM;
        }
        if (must_hold(e, s, row, head)) {
            /* While its endpoint is closed the row is held for the endpoint, which is also what people see: see
             * hold_for_closed(). */
            bool closed = head && row->from == ROW_DUE && endpoint_is_closed(e, ep, now_us);
            if (!closed && stream_hold_row(e, s, row->row, row->m.id, row->m.seq))
                result = TAKEN;
            if (!stream_ends_before(s, row->m.seq))
                stream_hold_followers(e, s);
            stream_update(e, s);
            return result;
        }
    }
    if (endpoint_room(e, ep, now_us) > 0 && !breakers_hold_type(e, ep, row->m.type) &&
        !sorts_refuse(e, ep, row->m.type)) {
        item = item_new(e, row, ep);
        if (item != NULL) {
            item->stream = s;
            item_wait(e, item, true);
            if (head)
                stream_set_here(s, row->m.seq, true);
            result = TAKEN;
        }
    }
    if (head && result == NO_ROOM)
        stream_hold_followers(e, s); /* else they would keep memory, waiting for a row that finds no room */
    if (s != NULL)
        stream_update(e, s);
    return result;
}

struct endpoint *find_target(struct engine *e, const struct row *row, struct target *ret)
{
    bool goes = row->bad == NULL && !schedule_is_row(&row->m) && !reply_is_row(&row->m);

    ret->count = goes ? route_message(e, &row->m, ret->endpoints, TARGETS_MAX) : 0;
    return ret->count == 1 ? &e->endpoints[ret->endpoints[0]] : NULL;
}

enum admitted admit(struct engine *e, const struct row *row, const struct target *target, int64_t now_us)
{
    if (target->count == 1)
        return admit_one(e, row, &e->endpoints[target->endpoints[0]], now_us);
    if (target->count > 1)
        return admit_split(e, row, target->endpoints, target->count, now_us);
    if (row->bad == NULL && schedule_is_row(&row->m))
        return admit_schedule(e, row, now_us);
    if (row->bad == NULL && reply_is_row(&row->m))
        return admit_reply(e, row, now_us);
    if (row->bad != NULL)
        admit_bad(e, row, now_us);
    else
        admit_unroutable(e, row, now_us);
    return TAKEN;
}
