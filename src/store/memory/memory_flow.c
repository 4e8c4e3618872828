/* Flows: their rows, executions before the current ones, and mail for those that have not begun. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/memory/memory_model.h"

static struct list *flow_list(const struct memory *memory, pr_slice id)
{
    return (struct list *)(uintptr_t)&memory->flows[hash_bytes(EFFECT_FLOW, id.data, id.size) % KEPT_LISTS];
}

struct stored_flow *flow_find(const struct memory *memory, pr_slice id)
{
    list_foreach(node, flow_list(memory, id)) {
        struct stored_flow *flow = LIST_ENTRY(node, struct stored_flow, node);
        if (slice_eq(flow->row->id, id))
            return flow;
    }
    return NULL;
}

/* ---- Taking the memory -------------------------------------------------------------------- */

static struct stored_flow *stored_flow_new(const struct flow_row *row)
{
    struct stored_flow *flow = calloc(1, sizeof(*flow) + sizeof(*row) + flow_row_bytes(row));
    if (flow != NULL)
        flow->row = flow_row_copy(row, flow + 1);
    return flow;
}

static struct stored_mail *stored_mail_new(const struct effect *e, int64_t now_us)
{
    struct stored_mail *mail = calloc(1, sizeof(*mail) + e->key.size + message_bytes(e->message));
    if (mail == NULL)
        return NULL;
    memcpy(mail->text, e->key.data, e->key.size);
    mail->flow = (pr_slice){ mail->text, e->key.size };
    mail->until_us = e->keep_us > 0 ? time_add(now_us, e->keep_us) : PR_NEVER;
    message_copy(e->message, mail->text + e->key.size, &mail->m);
    mail->m.created_us = now_us;
    return mail;
}

int flow_take(struct memory *memory, const struct effect *e, int64_t now_us, struct effect_memory *ret)
{
    if (e->kind == EFFECT_MAIL) {
        ret->mail = e->message != NULL ? stored_mail_new(e, now_us) : NULL;
        return e->message == NULL || ret->mail != NULL ? PR_OK : PR_ENOMEM;
    }
    const struct stored_flow *old = flow_find(memory, e->flow->id);
    struct flow_row row = *e->flow;
    row.created_us = old != NULL && !row.restarts ? old->row->created_us : now_us;
    row.updated_us = now_us;
    ret->flow = stored_flow_new(&row);
    return ret->flow != NULL ? PR_OK : PR_ENOMEM;
}

void flow_memory_fini(struct effect_memory *m)
{
    free(m->flow);
    free(m->mail);
}

/* ---- Changing ------------------------------------------------------------------------------- */

static void flow_put(struct memory *memory, struct stored_flow *flow)
{
    struct stored_flow *old = flow_find(memory, flow->row->id);
    if (old != NULL)
        list_remove(&old->node);
    list_push_back(flow_list(memory, flow->row->id), &flow->node);
    if (old == NULL)
        return;
    if (pr_id_equal(old->row->execution, flow->row->execution)) {
        free(old);
        return;
    }
    if (old->row->state == FLOW_RUNNING)
        old->row->state = FLOW_CONTINUED;
    old->row->updated_us = flow->row->updated_us;
    list_push_back(&memory->executions, &old->node);
}

static int mail_drop(struct memory *memory, pr_slice flow)
{
    int answer = PR_UNKNOWN;
    list_foreach(node, &memory->mail) {
        struct stored_mail *mail = LIST_ENTRY(node, struct stored_mail, node);
        if (!slice_eq(mail->flow, flow))
            continue;
        list_remove(node);
        free(mail);
        answer = PR_OK;
    }
    return answer;
}

static bool mail_is_kept(const struct memory *memory, pr_slice flow, pr_id id)
{
    list_foreach(node, &memory->mail) {
        const struct stored_mail *mail = LIST_ENTRY(node, struct stored_mail, node);
        if (slice_eq(mail->flow, flow) && pr_id_equal(mail->m.id, id))
            return true;
    }
    return false;
}

int flow_apply(struct memory *memory, const struct effect *e, struct effect_memory *m)
{
    if (e->kind == EFFECT_FLOW || e->kind == EFFECT_EXECUTION) {
        if (e->kind == EFFECT_FLOW)
            flow_put(memory, m->flow);
        else
            list_push_back(&memory->executions, &m->flow->node);
        m->flow = NULL;
        return PR_OK;
    }
    if (e->message == NULL)
        return mail_drop(memory, e->key);
    if (mail_is_kept(memory, e->key, e->message->id))
        return PR_DUPLICATE;
    list_push_back(&memory->mail, &m->mail->node);
    m->mail = NULL;
    return PR_OK;
}

void mail_purge(struct memory *memory, int64_t now_us)
{
    list_foreach(node, &memory->mail) {
        struct stored_mail *mail = LIST_ENTRY(node, struct stored_mail, node);
        if (mail->until_us > now_us)
            continue;
        list_remove(node);
        free(mail);
    }
}

void flows_init(struct memory *memory)
{
    for (size_t i = 0; i < KEPT_LISTS; i++)
        list_init(&memory->flows[i]);
    list_init(&memory->executions);
    list_init(&memory->mail);
}

static void flow_list_free(struct list *list)
{
    list_foreach(node, list) {
        list_remove(node);
        free(LIST_ENTRY(node, struct stored_flow, node));
    }
}

void flows_free(struct memory *memory)
{
    for (size_t i = 0; i < KEPT_LISTS; i++)
        flow_list_free(&memory->flows[i]);
    flow_list_free(&memory->executions);
    mail_purge(memory, PR_NEVER);
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static int row_tell(const struct flow_row *row, struct arena *arena, struct flow_row *ret)
{
    void *block = arena_alloc(arena, sizeof(*row) + flow_row_bytes(row));
    if (block == NULL)
        return PR_ENOMEM;
    *ret = *flow_row_copy(row, block);
    return PR_OK;
}

static size_t count_kept(struct memory *memory, enum effect_kind kind, pr_slice key)
{
    size_t count = 0;
    list_foreach(node, kept_list(memory, kind, key)) {
        const struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
        count += kept->kind == kind && slice_eq(kept->key, key);
    }
    return count;
}

static int tell_turns(struct memory *memory, pr_slice execution, struct arena *arena, struct query_reply *reply)
{
    size_t count = count_kept(memory, EFFECT_HISTORY, execution);
    reply->turns = arena_alloc_array(arena, count, sizeof(reply->turns[0]));
    if (reply->turns == NULL)
        return PR_ENOMEM;
    list_foreach(node, kept_list(memory, EFFECT_HISTORY, execution)) { /* in their order */
        const struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
        if (kept->kind != EFFECT_HISTORY || !slice_eq(kept->key, execution))
            continue;
        struct flow_turn_row *turn = &reply->turns[reply->turn_count++];
        *turn = (struct flow_turn_row){ kept->number, kept->count, slice_dup(arena, kept->value) };
        if (turn->events.data == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int compare_values(const void *a, const void *b)
{
    return slice_cmp(((const struct flow_key_value *)a)->key, ((const struct flow_key_value *)b)->key);
}

static int tell_values(struct memory *memory, pr_slice flow, struct arena *arena, struct query_reply *reply)
{
    reply->values = arena_alloc_array(arena, count_kept(memory, EFFECT_STATE, flow), sizeof(reply->values[0]));
    if (reply->values == NULL)
        return PR_ENOMEM;
    list_foreach(node, kept_list(memory, EFFECT_STATE, flow)) {
        const struct kept_effect *kept = LIST_ENTRY(node, struct kept_effect, node);
        if (kept->kind != EFFECT_STATE || !slice_eq(kept->key, flow))
            continue;
        struct flow_key_value *value = &reply->values[reply->value_count++];
        *value = (struct flow_key_value){ slice_dup(arena, kept->name), slice_dup(arena, kept->value) };
        if (value->key.data == NULL || value->value.data == NULL)
            return PR_ENOMEM;
    }
    if (reply->value_count > 1)
        qsort(reply->values, reply->value_count, sizeof(reply->values[0]), compare_values);
    return PR_OK;
}

static int tell_mail(const struct memory *memory, pr_slice flow, struct arena *arena, struct query_reply *reply)
{
    size_t count = 0;
    list_foreach(node, &memory->mail)
        count += slice_eq(LIST_ENTRY(node, struct stored_mail, node)->flow, flow);
    reply->mail = arena_alloc_array(arena, count, sizeof(reply->mail[0]));
    if (reply->mail == NULL)
        return PR_ENOMEM;
    list_foreach(node, &memory->mail) {
        const struct stored_mail *mail = LIST_ENTRY(node, struct stored_mail, node);
        if (!slice_eq(mail->flow, flow))
            continue;
        char *block = arena_alloc(arena, message_bytes(&mail->m) + 1);
        if (block == NULL)
            return PR_ENOMEM;
        message_copy(&mail->m, block, &reply->mail[reply->mail_count++]);
    }
    return PR_OK;
}

int memory_query_flow(struct memory *memory, const struct flow_filter *filter, bool brief, struct arena *arena,
                      struct query_reply *reply)
{
    const struct stored_flow *flow = flow_find(memory, filter->id);
    char execution[PR_ID_TEXT_SIZE];
    reply->flows = arena_alloc_array(arena, 1, sizeof(reply->flows[0]));
    if (reply->flows == NULL || (flow != NULL && row_tell(flow->row, arena, reply->flows) != PR_OK))
        return PR_ENOMEM;
    reply->flow_count = flow != NULL;
    if (brief)
        return PR_OK;
    pr_id_format(flow != NULL && pr_id_is_zero(filter->execution) ? flow->row->execution : filter->execution,
                 execution);
    int rc = tell_turns(memory, slice_from(execution), arena, reply);
    if (rc == PR_OK)
        rc = tell_values(memory, filter->id, arena, reply);
    return rc == PR_OK ? tell_mail(memory, filter->id, arena, reply) : rc;
}

int memory_query_executions(struct memory *memory, const struct flow_filter *filter, struct arena *arena,
                            struct query_reply *reply)
{
    const struct stored_flow *flow = flow_find(memory, filter->id);
    size_t count = flow != NULL;
    list_foreach(node, &memory->executions)
        count += slice_eq(LIST_ENTRY(node, struct stored_flow, node)->row->id, filter->id);
    reply->flows = arena_alloc_array(arena, count, sizeof(reply->flows[0]));
    if (reply->flows == NULL || (flow != NULL && row_tell(flow->row, arena, reply->flows) != PR_OK))
        return PR_ENOMEM;
    reply->flow_count = count;
    list_foreach(node, &memory->executions) { /* the latest comes first */
        const struct stored_flow *former = LIST_ENTRY(node, struct stored_flow, node);
        if (!slice_eq(former->row->id, filter->id))
            continue;
        if (row_tell(former->row, arena, &reply->flows[--count]) != PR_OK)
            return PR_ENOMEM;
        reply->flows[count].created_us = 0;
    }
    return PR_OK;
}
