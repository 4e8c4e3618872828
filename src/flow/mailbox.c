/* Events and mail by name: the first wait gets the first one that arrived. */
#include "flow/machine.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/slice.h"

static struct mailbox *find_mailbox(pr_flow *f, bool mail, pr_slice name)
{
    uint64_t hash = hash_slice(mail, name);
    for (struct map_node *n = map_first(&f->mailboxes, hash); n != NULL; n = map_next_same(n)) {
        struct mailbox *box = CONTAINER_OF(n, struct mailbox, node);
        if (box->mail == mail && slice_eq(box->name, name))
            return box;
    }
    struct mailbox *box = arena_zalloc(f->arena, sizeof(*box));
    if (box == NULL || map_insert(&f->mailboxes, &box->node, hash) != PR_OK) {
        machine_no_memory(f);
        return NULL;
    }
    box->mail = mail;
    box->name = name;
    box->last = &box->first;
    box->last_waiter = &box->first_waiter;
    return box;
}

/* The first wait that was not cancelled meanwhile. */
static int32_t take_waiter(pr_flow *f, struct mailbox *box)
{
    while (box->first_waiter != NULL) {
        struct waiter *w = box->first_waiter;
        box->first_waiter = w->next;
        if (box->first_waiter == NULL)
            box->last_waiter = &box->first_waiter;
        if (f->tasks[w->task - 1].state == FLOW_TASK_OPEN)
            return w->task;
    }
    return 0;
}

static void end_wait(pr_flow *f, int32_t task, uint32_t event)
{
    f->tasks[task - 1].state = FLOW_TASK_ENDED;
    f->tasks[task - 1].ended = event;
    f->open_count--;
    f->last_ended = task;
}

static struct arrival *new_arrival(pr_flow *f, uint32_t event)
{
    struct arrival *a = arena_zalloc(f->arena, sizeof(*a));
    if (a == NULL)
        machine_no_memory(f);
    else
        a->event = event;
    return a;
}

void mailbox_arrive(pr_flow *f, const struct flow_event *e, uint32_t index)
{
    struct mailbox *box = find_mailbox(f, e->kind == FLOW_EVENT_MAIL, e->name);
    if (box == NULL)
        return;
    int32_t task = take_waiter(f, box);
    if (task != 0) {
        end_wait(f, task, index);
        return;
    }
    struct arrival *a = new_arrival(f, index);
    if (a == NULL)
        return;
    *box->last = a;
    box->last = &a->next;
}

void mailbox_wait(pr_flow *f, const struct flow_event *e, int32_t task)
{
    struct mailbox *box = find_mailbox(f, e->kind == FLOW_EVENT_WAIT_MAIL, e->name);
    if (box == NULL)
        return;
    if (box->first != NULL) {
        uint32_t event = box->first->event;
        box->first = box->first->next;
        if (box->first == NULL)
            box->last = &box->first;
        end_wait(f, task, event);
        return;
    }
    struct waiter *w = arena_zalloc(f->arena, sizeof(*w));
    if (w == NULL) {
        machine_no_memory(f);
        return;
    }
    w->task = task;
    *box->last_waiter = w;
    box->last_waiter = &w->next;
}

/* Does this task wait for the same name, and has it something that the code has not seen? */
static bool holds_unseen(const pr_flow *f, const struct live_task *t, const struct mailbox *box)
{
    int kind = box->mail ? FLOW_EVENT_WAIT_MAIL : FLOW_EVENT_WAIT;
    return t->kind == kind && t->state == FLOW_TASK_ENDED && !t->seen &&
           slice_eq(machine_event(f, t->event)->name, box->name);
}

/* What a cancelled wait had, unseen, goes to the next wait, and what that one had to the wait after it: as if the
 * cancelled one had never existed. */
void mailbox_give_back(pr_flow *f, int32_t task)
{
    uint32_t event = f->tasks[task - 1].ended;
    const struct flow_event *e = machine_event(f, event);
    struct mailbox *box = find_mailbox(f, e->kind == FLOW_EVENT_MAIL, e->name);
    if (box == NULL)
        return;
    for (size_t i = (size_t)task; i < f->task_count; i++) {
        struct live_task *t = &f->tasks[i];
        if (holds_unseen(f, t, box)) {
            uint32_t had = t->ended;
            t->ended = event;
            event = had;
        }
    }
    int32_t next = take_waiter(f, box);
    if (next != 0) {
        end_wait(f, next, event);
        return;
    }
    struct arrival *a = new_arrival(f, event);
    if (a == NULL)
        return;
    a->next = box->first;
    if (box->first == NULL)
        box->last = &a->next;
    box->first = a;
}

static int compare_indexes(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static size_t collect_left(pr_flow *f, uint32_t *ret)
{
    size_t count = 0;
    map_foreach(n, &f->mailboxes) {
        struct mailbox *box = CONTAINER_OF(n, struct mailbox, node);
        for (struct arrival *a = box->first; box->mail && a != NULL; a = a->next)
            ret[count++] = a->event;
    }
    for (size_t i = 0; i < f->task_count; i++) {
        const struct live_task *t = &f->tasks[i];
        if (t->kind == FLOW_EVENT_WAIT_MAIL && t->state == FLOW_TASK_ENDED && !t->seen)
            ret[count++] = t->ended;
    }
    return count;
}

int mailbox_left(pr_flow *f, const struct flow_event ***ret, size_t *ret_count)
{
    uint32_t *indexes = arena_alloc_array(f->arena, machine_event_count(f), sizeof(*indexes));
    size_t count = indexes != NULL ? collect_left(f, indexes) : 0;
    const struct flow_event **left = arena_alloc_array(f->arena, count + 1, sizeof(*left));
    if (indexes == NULL || left == NULL)
        return PR_ENOMEM;
    qsort(indexes, count, sizeof(*indexes), compare_indexes);
    for (size_t i = 0; i < count; i++)
        left[i] = machine_event(f, indexes[i]);
    *ret = left;
    *ret_count = count;
    return PR_OK;
}
