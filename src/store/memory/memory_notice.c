/* What people's actions leave in the store: notices to instances, endpoints, audit. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "store/audit.h"
#include "store/memory/memory_model.h"

/* ---- Notices -------------------------------------------------------------------------------- */

/* row NULL: it is about an endpoint, or about everything. */
struct stored_notice *notice_new(const struct box *box, enum notice_kind kind, const struct stored_row *row,
                                 pr_slice endpoint)
{
    pr_slice stream = row != NULL ? row->m.stream : (pr_slice){ NULL, 0 };
    struct stored_notice *notice = malloc(sizeof(*notice) + stream.size + endpoint.size);
    if (notice == NULL)
        return NULL;
    *notice = (struct stored_notice){ .box = box, .n = { .kind = kind } };
    notice->n.stream = (pr_slice){ notice->text, stream.size };
    notice->n.endpoint = (pr_slice){ notice->text + stream.size, endpoint.size };
    if (stream.size > 0)
        memcpy(notice->text, stream.data, stream.size);
    if (endpoint.size > 0)
        memcpy(notice->text + stream.size, endpoint.data, endpoint.size);
    if (row != NULL) {
        notice->n.row = row->row;
        notice->n.seq = row->m.seq;
    }
    return notice;
}

void notice_add(struct memory *memory, struct stored_notice *notice)
{
    notice->n.number = ++memory->notice_last;
    list_push_back(&memory->notices, &notice->node);
    struct stored_notice *oldest = LIST_ENTRY(list_first(&memory->notices), struct stored_notice, node);
    if (oldest->n.number + NOTICES_KEPT <= memory->notice_last) {
        list_remove(&oldest->node);
        free(oldest);
    }
}

static int notice_copy(struct memory_session *session, const struct notice *from, struct notice *ret)
{
    *ret = *from;
    ret->stream = slice_dup(&session->arena, from->stream);
    ret->endpoint = slice_dup(&session->arena, from->endpoint);
    return ret->stream.data != NULL && ret->endpoint.data != NULL ? PR_OK : PR_ENOMEM;
}

/* Notices after the cursor; numbers run without gaps, so a missing one was dropped. */
static int notices_read(struct memory_session *session, int64_t after)
{
    struct memory *memory = session->box->memory;
    struct cycle_reply *reply = &session->reply;
    reply->notices = arena_alloc_array(&session->arena, NOTICES_MAX, sizeof(struct notice));
    if (reply->notices == NULL)
        return PR_ENOMEM;
    const struct list_node *first = list_first(&memory->notices);
    bool missed = first == NULL || LIST_ENTRY(first, struct stored_notice, node)->n.number > after + 1;
    /* Too many for one reply: an instance that got only a part of them might send a message that was discarded
     * meanwhile. */
    if (missed || memory->notice_last - after > NOTICES_MAX) {
        reply->notices[reply->notice_count++] = (struct notice){ .number = memory->notice_last, .kind = NOTICE_RELOAD };
        reply->endpoints_known = true;
        return PR_OK;
    }
    reply->notice_last = after;
    list_foreach(node, &memory->notices) {
        const struct stored_notice *notice = LIST_ENTRY(node, struct stored_notice, node);
        if (notice->n.number <= after)
            continue;
        reply->notice_last = notice->n.number;
        if (notice->box != NULL && notice->box != session->box)
            continue;
        if (notice_copy(session, &notice->n, &reply->notices[reply->notice_count]) < 0)
            return PR_ENOMEM;
        reply->notice_count++;
        reply->endpoints_known |= notice->n.kind == NOTICE_ENDPOINT;
    }
    return PR_OK;
}

int reply_notices(struct memory_session *session, const struct cycle *cycle)
{
    struct memory *memory = session->box->memory;
    struct cycle_reply *reply = &session->reply;
    reply->notice_last = memory->notice_last;
    reply->endpoints_known = cycle->epoch == 0;
    if (cycle->notice_after != 0 && cycle->notice_after < memory->notice_last &&
        notices_read(session, cycle->notice_after) < 0)
        return PR_ENOMEM;
    if (!reply->endpoints_known)
        return PR_OK;
    return endpoints_copy(memory, &session->arena, &reply->endpoints, &reply->endpoint_count);
}

/* ---- Endpoints ------------------------------------------------------------------------------ */

struct stored_endpoint *endpoint_find(const struct memory *memory, pr_slice name)
{
    list_foreach(node, &memory->endpoints) {
        struct stored_endpoint *endpoint = LIST_ENTRY(node, struct stored_endpoint, node);
        if (slice_eq(endpoint->name, name))
            return endpoint;
    }
    return NULL;
}

struct stored_endpoint *endpoint_new(pr_slice name)
{
    struct stored_endpoint *endpoint = malloc(sizeof(*endpoint) + name.size);
    if (endpoint == NULL)
        return NULL;
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->name = (pr_slice){ endpoint->text, name.size };
    if (name.size > 0)
        memcpy(endpoint->text, name.data, name.size);
    return endpoint;
}

int endpoints_copy(const struct memory *memory, struct arena *arena, struct endpoint_state **ret, size_t *ret_count)
{
    size_t count = 0, at = 0;
    list_foreach(node, &memory->endpoints)
        count++;
    struct endpoint_state *states = arena_alloc_array(arena, count, sizeof(states[0]));
    if (states == NULL)
        return PR_ENOMEM;
    list_foreach(node, &memory->endpoints) {
        const struct stored_endpoint *e = LIST_ENTRY(node, struct stored_endpoint, node);
        struct endpoint_state *state = &states[at++];
        *state = (struct endpoint_state){
            .name = slice_dup(arena, e->name),
            .by = slice_dup(arena, e->by),
            .why = slice_dup(arena, e->why),
            .paused_until_us = e->paused_until_us,
            .sent = e->sent,
            .failed = e->failed,
            .dead = e->dead,
            .discarded = e->discarded,
            .expired = e->expired,
            .duplicates = e->duplicates,
            .last_failed_us = e->last_failed_us,
            .last_reason = e->last_reason,
            .failed_in_row = e->failed_in_row,
            .last_code = slice_dup(arena, e->last_code),
            .last_error = slice_dup(arena, e->last_error),
        };
        if (state->name.data == NULL || state->by.data == NULL || state->why.data == NULL ||
            state->last_code.data == NULL || state->last_error.data == NULL)
            return PR_ENOMEM;
    }
    *ret = states;
    *ret_count = count;
    return PR_OK;
}

bool endpoint_is_paused(const struct memory *memory, pr_slice name, int64_t now_us)
{
    const struct stored_endpoint *endpoint = endpoint_find(memory, name);
    return endpoint != NULL && endpoint->paused_until_us > now_us;
}

static void text_replace(pr_slice *text, pr_slice *by)
{
    free((char *)(uintptr_t)text->data);
    *text = *by;
    *by = (pr_slice){ NULL, 0 };
}

void endpoint_free(struct stored_endpoint *endpoint)
{
    free((char *)(uintptr_t)endpoint->by.data);
    free((char *)(uintptr_t)endpoint->why.data);
    free((char *)(uintptr_t)endpoint->last_code.data);
    free((char *)(uintptr_t)endpoint->last_error.data);
    free(endpoint);
}

void endpoint_set_failure(struct stored_endpoint *endpoint, const struct tally *tally, pr_slice *code, pr_slice *error,
                          int64_t now_us)
{
    endpoint->last_failed_us = now_us;
    endpoint->last_reason = tally->reason;
    text_replace(&endpoint->last_code, code);
    text_replace(&endpoint->last_error, error);
}

void endpoint_set_pause(struct stored_endpoint *endpoint, int64_t until_us, pr_slice *by, pr_slice *why)
{
    endpoint->paused_until_us = until_us;
    text_replace(&endpoint->by, by);
    text_replace(&endpoint->why, why);
}

/* ---- Audit ---------------------------------------------------------------------------------- */

struct audit *audit_new(const struct admin *admin, int64_t now_us)
{
    struct buf target;
    buf_init(&target, AUDIT_BYTES_MAX);
    audit_write_target(&target, admin);
    const pr_slice texts[] = { admin->by, admin->why, buf_slice(&target) };
    size_t size = texts[0].size + texts[1].size + texts[2].size;
    struct audit *audit = buf_failed(&target) == PR_OK ? malloc(sizeof(*audit) + size) : NULL;
    if (audit != NULL) {
        *audit = (struct audit){ .at_us = now_us, .kind = admin->kind };
        pr_slice *const places[] = { &audit->by, &audit->why, &audit->target };
        char *at = audit->text;
        for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
            *places[i] = (pr_slice){ at, texts[i].size };
            if (texts[i].size > 0)
                memcpy(at, texts[i].data, texts[i].size);
            at += texts[i].size;
        }
    }
    buf_fini(&target);
    return audit;
}

void audit_add(struct memory *memory, struct audit *audit, const struct admin_reply *reply)
{
    audit->number = ++memory->audit_last;
    audit->matched = reply->matched;
    audit->changed = reply->changed;
    audit->refused = reply->refused;
    list_push_back(&memory->audit, &audit->node);
    if (memory->audit_count < AUDIT_KEPT)
        memory->audit_count++;
    else
        free(LIST_ENTRY(list_pop_front(&memory->audit), struct audit, node));
}

size_t memory_audit_count(struct store *store)
{
    struct memory *memory = store->self;
    pthread_mutex_lock(&memory->mutex);
    size_t count = memory->audit_count;
    pthread_mutex_unlock(&memory->mutex);
    return count;
}
