/* Groups of dead letters, streams in trouble, what people did. */
#include <string.h>

#include "base/util.h"
#include "store/audit.h"
#include "store/memory/memory_model.h"
#include "store/people/ranking.h"

/* ---- Groups --------------------------------------------------------------------------------- */

static int groups_scan(const struct box *box, const struct query *query, struct arena *arena, struct query_reply *reply)
{
    list_foreach(node, &box->dead) {
        const struct stored *row = LIST_ENTRY(node, struct stored, order);
        if (!filter_matches(&query->filter, row, STATE_DEAD))
            continue;
        const struct listed letter = { .m = row->m,
                                       .box = box_name(row->box),
                                       .endpoint = row_endpoint(row),
                                       .cause = row->after->cause,
                                       .fingerprint = slice_from(row->after->fingerprint),
                                       .died_us = row->after->at_us };
        int rc = groups_take(reply, &letter, arena);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

int memory_groups(struct memory *memory, const struct query *query, struct arena *arena, struct query_reply *reply)
{
    int rc = PR_OK;
    list_foreach(node, &memory->boxes)
        if (rc == PR_OK)
            rc = groups_scan(LIST_ENTRY(node, struct box, node), query, arena, reply);
    groups_rank(query, reply);
    return rc;
}

/* ---- Streams -------------------------------------------------------------------------------- */

static int heads_add(struct memory *memory, const struct box *box, struct stream_list *streams, int64_t now_us)
{
    const pr_slice stream = streams->filter->stream;
    for (unsigned lane = 0; lane < LANE_COUNT; lane++)
        for (struct tree_node *node = tree_first(&box->lanes[lane].heads); node != NULL; node = tree_next(node)) {
            const struct stored *row = CONTAINER_OF(node, struct stored, head);
            if (stream.size > 0 && !slice_eq(stream, row->m.stream))
                continue;
            struct stream_info head =
                stream_of_row(box_name(box), &row->m, row_state(memory, row, NULL, now_us), now_us);
            int rc = streams_add_head(streams, &head, &row->m);
            if (rc != PR_OK)
                return rc;
        }
    return PR_OK;
}

/* Strict streams wait behind a dead letter: before the head that is in the box, where there is one. */
static int dead_head_add(const struct box *box, const struct stream_info *stream, int64_t before_seq,
                         struct stream_info *in_box, struct stream_list *streams)
{
    if (in_box != NULL)
        before_seq = min64(before_seq, in_box->head_seq);
    const struct stored *first = NULL;
    list_foreach(node, &box->dead) {
        const struct stored *row = LIST_ENTRY(node, struct stored, order);
        if (slice_eq(row->m.stream, stream->stream) &&
            stream_waits_for_letter(streams, stream, row_endpoint(row), &row->m) &&
            pr_id_is_zero(row->after->edited_as) && row->m.seq < before_seq &&
            (first == NULL || row->m.seq < first->m.seq))
            first = row;
    }
    if (first == NULL)
        return PR_OK; /* the head was delivered just now, and they go on by themselves */
    struct stream_info head = stream_of_row(stream->box, &first->m, STATE_DEAD, 0);
    head.endpoint = stream->endpoint;
    head.waiting = stream->waiting;
    head.since_us = first->after->at_us;
    head.due_us = PR_NEVER;
    if (head.reason == PR_REASON_NONE)
        head.reason = first->after->cause;
    return streams_put(streams, in_box, &head);
}

static int held_add(const struct box *box, const struct query *query, struct stream_list *streams)
{
    const bool one = stream_is_one(&query->filter);
    const struct stream_info asked = { .endpoint = query->filter.endpoint, .stream = query->filter.stream };
    const struct tree_key key = { one ? stream_key(streams->arena, &asked) : (pr_slice){ NULL, 0 }, INT64_MIN,
                                  INT64_MIN, 0 };
    if (one && key.text.data == NULL)
        return PR_ENOMEM;
    for (struct tree_node *node = tree_above(&box->held, key), *next = NULL; node != NULL; node = one ? NULL : next) {
        struct stream_info stream = { .box = box_name(box) };
        for (next = node; next != NULL && slice_eq(next->key.text, node->key.text); next = tree_next(next))
            stream.waiting += stream.waiting <= COUNT_EXACT_MAX;
        if (!stream_key_split(node->key.text, &stream.endpoint, &stream.stream) ||
            !stream_is_asked(&query->filter, &stream))
            continue;
        struct stream_info *head;
        if (streams_find(streams, &stream, &head) != PR_OK)
            return PR_ENOMEM;
        if (head != NULL)
            stream_set_waiting(head, stream.waiting);
        if (stream_may_wait_for_dead(streams, head) && dead_head_add(box, &stream, node->key.a, head, streams) < 0)
            return PR_ENOMEM;
    }
    return PR_OK;
}

int memory_streams(struct memory *memory, const struct query *query, struct arena *arena, struct query_reply *reply)
{
    struct stream_list streams = { .arena = arena, .filter = &query->filter };
    pr_slice wanted = query->filter.box;
    int rc = PR_OK;

    flights_mark(memory);
    list_foreach(node, &memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        if (rc == PR_OK && (wanted.size == 0 || slice_eq(wanted, box_name(box))))
            rc = heads_add(memory, box, &streams, reply->now_us);
    }
    streams_settle(&streams);
    list_foreach(node, &memory->boxes) {
        const struct box *box = LIST_ENTRY(node, struct box, node);
        if (rc == PR_OK && (wanted.size == 0 || slice_eq(wanted, box_name(box))))
            rc = held_add(box, query, &streams);
    }
    return rc == PR_OK ? streams_rank(&streams, query, reply) : rc;
}

/* ---- Audit ---------------------------------------------------------------------------------- */

static bool audit_is_asked(const struct filter *f, const struct audit *audit)
{
    return (f->after == 0 || audit->number < f->after) && audit->at_us >= f->since_us &&
           (f->until_us == 0 || audit->at_us < f->until_us);
}

static int audit_take(const struct audit *audit, struct arena *arena, struct audit_entry *e)
{
    *e = (struct audit_entry){
        .number = audit->number,
        .at_us = audit->at_us,
        .who = slice_dup(arena, audit->by),
        .action = slice_from(admin_name(audit->kind)),
        .target = slice_dup(arena, audit->target),
        .why = slice_dup(arena, audit->why),
        .matched = audit->matched,
        .changed = audit->changed,
        .refused = audit->refused,
    };
    return e->who.data != NULL && e->target.data != NULL && e->why.data != NULL ? PR_OK : PR_ENOMEM;
}

/* They are kept from the oldest to the latest, and told the other way round. */
int memory_audit(struct memory *memory, const struct query *query, struct arena *arena, struct query_reply *reply)
{
    size_t limit = query->filter.limit > 0 ? query->filter.limit : 100, asked = 0, capacity = 0;
    list_foreach(node, &memory->audit)
        asked += audit_is_asked(&query->filter, LIST_ENTRY(node, struct audit, node));
    reply->more = asked > limit;
    size_t skipped = asked > limit ? asked - limit : 0;
    list_foreach(node, &memory->audit) {
        const struct audit *audit = LIST_ENTRY(node, struct audit, node);
        if (!audit_is_asked(&query->filter, audit) || (skipped > 0 && skipped-- > 0))
            continue;
        struct audit_entry *e = audit_room(arena, reply, &capacity);
        if (e == NULL || audit_take(audit, arena, e) < 0)
            return PR_ENOMEM;
        reply->audit_count++;
    }
    for (size_t i = 0; i < reply->audit_count / 2; i++) {
        struct audit_entry first = reply->audit[i];
        reply->audit[i] = reply->audit[reply->audit_count - 1 - i];
        reply->audit[reply->audit_count - 1 - i] = first;
    }
    return PR_OK;
}
