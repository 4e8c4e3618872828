/* Subscriptions: their positions, and their holders. */
#include <stdlib.h>
#include <string.h>

#include "store/memory/memory_model.h"
#include "store/people/subscription.h"

static struct stored_subscription *find(struct memory *memory, pr_slice name)
{
    list_foreach(node, &memory->subscriptions) {
        struct stored_subscription *s = LIST_ENTRY(node, struct stored_subscription, node);
        if (slice_eq(s->info.name, name))
            return s;
    }
    return NULL;
}

static struct stored_subscription *make(struct memory *memory, pr_slice name)
{
    struct stored_subscription *s = calloc(1, sizeof(*s) + name.size);
    if (s == NULL)
        return NULL;
    memcpy(s->text, name.data, name.size);
    s->info.name = (pr_slice){ s->text, name.size };
    list_push_back(&memory->subscriptions, &s->node);
    return s;
}

static int step(struct memory *memory, const struct subscription_call *c, struct stored_subscription *s,
                struct pr_error *reterr)
{
    struct subscription_info info = s->info;
    pr_slice holder = { NULL, 0 };
    int rc = c->step == SUBSCRIPTION_ADVANCE ? subscription_place_check(c->to, memory->event_places, reterr) : PR_OK;
    if (rc == PR_OK)
        rc = subscription_change(c, memory_now(memory), &info);
    if (rc == PR_OK && !text_dup(info.holder, &holder))
        rc = error_set(reterr, PR_ENOMEM, "out of memory for a subscription");
    if (rc == PR_OK && c->message_count > 0)
        rc = memory_enqueue_locked(memory, c->box, c->messages, c->message_count, NULL, reterr);
    if (rc != PR_OK) {
        free((char *)(uintptr_t)holder.data);
        return rc;
    }
    free((char *)(uintptr_t)s->info.holder.data);
    s->info = info;
    s->info.holder = holder;
    memory_flush(memory);
    return PR_OK;
}

int memory_subscription(void *self, const struct subscription_call *c, struct arena *arena,
                        struct subscription_info *ret, struct pr_error *reterr)
{
    struct memory *memory = self;
    pthread_mutex_lock(&memory->mutex);
    struct stored_subscription *s = find(memory, c->name);
    if (s == NULL && c->step == SUBSCRIPTION_CLAIM)
        s = make(memory, c->name);
    int rc = s != NULL                       ? step(memory, c, s, reterr)
             : c->step == SUBSCRIPTION_CLAIM ? error_set(reterr, PR_ENOMEM, "out of memory for a subscription")
                                             : PR_UNKNOWN;
    if (s != NULL && rc >= PR_OK) {
        *ret = s->info;
        ret->last = memory->event_places;
        ret->name = slice_dup(arena, s->info.name);
        ret->holder = slice_dup(arena, s->info.holder);
        if (ret->name.data == NULL || ret->holder.data == NULL)
            rc = error_set(reterr, PR_ENOMEM, "out of memory for a subscription");
    }
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}

void subscriptions_free(struct memory *memory)
{
    list_foreach(node, &memory->subscriptions) {
        struct stored_subscription *s = LIST_ENTRY(node, struct stored_subscription, node);
        free((char *)(uintptr_t)s->info.holder.data);
        free(s);
    }
}
