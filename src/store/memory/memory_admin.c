/* Operators' actions: find the rows, allocate all memory, change, send notices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/mark.h"
#include "store/order.h"
#include "store/memory/memory_model.h"

/* A row that the order changes, with what its change will need. */
struct order_target {
    struct stored_row *row;
    bool refused;
    struct change change;
    struct change_memory memory;
    struct stored_row *made;             /* FATE_COPIED: its replacement */
    struct stored_notice *notice, *gone; /* gone: DEAD_EDIT that sends it elsewhere */
    struct stored_ended *ended;          /* FATE_GONE */
    struct stored_mark *mark;            /* the same, in a box with dedupe */
};

struct targets {
    struct order_target *list;
    size_t count, capacity;
};

/* ---- Finding -------------------------------------------------------------------------------- */

static void targets_fini(struct targets *t)
{
    for (size_t i = 0; i < t->count; i++) {
        change_memory_fini(&t->list[i].memory);
        row_free(t->list[i].made);
        free(t->list[i].notice);
        free(t->list[i].gone);
        free(t->list[i].ended);
        free(t->list[i].mark);
    }
    free(t->list);
}

static int targets_add(struct targets *t, struct stored_row *row)
{
    if (t->count == t->capacity) {
        size_t capacity = t->capacity > 0 ? 2 * t->capacity : 16;
        struct order_target *list = realloc(t->list, capacity * sizeof(list[0]));
        if (list == NULL)
            return PR_ENOMEM;
        t->list = list;
        t->capacity = capacity;
    }
    t->list[t->count++] = (struct order_target){ .row = row };
    return PR_OK;
}

/* Is a failed or parked head of the same stream before it, with the same destination?  Where a row without destination
 * will go is not known. */
static bool is_behind_head(const struct stored_row *row)
{
    const struct tree *heads = &row->box->lanes[row->lane].heads;
    for (struct tree_node *node = tree_first(heads); node != NULL; node = tree_next(node)) {
        const struct stored_row *head = CONTAINER_OF(node, struct stored_row, head);
        bool same_way = head->m.destination.size == 0 || row->m.destination.size == 0 ||
                        slice_eq(head->m.destination, row->m.destination);
        if (head->m.seq < row->m.seq && same_way && slice_eq(head->m.stream, row->m.stream))
            return true;
    }
    return false;
}

/* By stream a release applies to followers: held rows, and unread rows behind a head. */
static bool is_follower(const struct stored_row *row)
{
    bool awaits = message_awaits_endpoint(&row->m);
    return (row->m.held_by.size > 0 && !awaits) || ((row->m.due_us == 0 || awaits) && is_behind_head(row));
}

static int compare_targets(const void *a, const void *b)
{
    const struct order_target *x = a, *y = b;
    return x->row->row < y->row->row ? -1 : x->row->row > y->row->row;
}

static enum order_takes row_takes(const struct stored_row *row, const struct admin *admin)
{
    return order_takes(admin, &row->m, row->after != NULL ? row->after->edited_as : (pr_id){ { 0 } });
}

/* An order for one message: the simulator gives many of these. */
static int targets_find_id(struct targets *t, const struct box *box, const struct memory *memory,
                           const struct admin *admin, int64_t now_us)
{
    const struct filter *filter = &admin->filter;
    bool dead = action_of(admin->kind)->on_dead;
    for (struct stored_row *row = row_next_of_id(box, dead, filter->ids[0], filter->after); row != NULL;
         row = row_next_of_id(box, dead, filter->ids[0], row->row))
        if (filter_matches(filter, row, row_state(memory, row, filter, now_us)) && targets_add(t, row) < 0)
            return PR_ENOMEM;
    return PR_OK;
}

static int targets_find(struct targets *t, struct memory *memory, const struct admin *admin, int64_t now_us)
{
    const struct filter *filter = &admin->filter;

    handed_out_mark(memory);
    list_foreach(box_node, &memory->boxes) {
        struct box *box = LIST_ENTRY(box_node, struct box, node);
        if (filter->id_count == 1) {
            if (targets_find_id(t, box, memory, admin, now_us) < 0)
                return PR_ENOMEM;
            continue;
        }
        list_foreach(node, action_of(admin->kind)->on_dead ? &box->dead : &box->rows) {
            struct stored_row *row = LIST_ENTRY(node, struct stored_row, order);
            if (row->row <= filter->after || !filter_matches(filter, row, row_state(memory, row, filter, now_us)))
                continue;
            if ((order_is_by_stream(admin) && !is_follower(row)) || row_takes(row, admin) == ORDER_SKIPS)
                continue;
            if (targets_add(t, row) < 0)
                return PR_ENOMEM;
        }
    }
    if (action_of(admin->kind)->on_dead && t->count > 1) /* dead letters are in one order */
        qsort(t->list, t->count, sizeof(t->list[0]), compare_targets);
    return PR_OK;
}

static uint64_t ids_missing(const struct targets *t, const struct filter *filter)
{
    uint64_t missing = 0;
    for (size_t i = 0; i < filter->id_count; i++) {
        bool found = false;
        for (size_t j = 0; j < t->count && !found; j++)
            found = pr_id_equal(t->list[j].row->m.id, filter->ids[i]);
        missing += !found;
    }
    return missing;
}

/* ---- Taking the memory ---------------------------------------------------------------------- */

/* The corrected message. */
static int target_take_copy(struct order_target *target, const struct row_order *order, int64_t now_us)
{
    char cause[PR_ID_TEXT_SIZE];
    struct stored_row *row = target->row;
    struct pr_message m = message_edited(&row->m, order, cause);
    m.due_us = change_due_us(&target->change, &row->m, now_us);
    m.story = target->change.story;
    target->made = row_new(row->box, &m);
    if (target->made == NULL)
        return PR_ENOMEM;
    if (order->edit->destination == NULL)
        return PR_OK;
    target->gone = notice_new(row->box, NOTICE_GONE, row, row->m.destination);
    if (target->gone == NULL)
        return PR_ENOMEM;
    target->gone->n.row = 0; /* rows of dead letters have no number in the box */
    return PR_OK;
}

static int target_take_ended(struct order_target *target, const struct admin *admin, pr_slice endpoint, int64_t now_us)
{
    const struct stored_row *row = target->row;
    const struct ended ended = { .id = row->m.id,
                                 .box = box_name(row->box),
                                 .endpoint = row->after != NULL ? row->after->endpoint : endpoint,
                                 .as = ENDED_BY_PERSON,
                                 .attempt = row->m.attempts };
    const struct effect mark = { .id = ended.id,
                                 .key = mark_handler(row->m.destination, ended.endpoint),
                                 .outcome = ENDED_BY_PERSON,
                                 .alone = row->m.destination.size == 0,
                                 .keep_us = row->box->dedupe_us };
    target->ended = stored_ended_new(&ended, admin->by, now_us);
    if (row->box->dedupe_us > 0 && target->ended != NULL && mark_is_made_for(row->m.destination) &&
        (target->mark = mark_new(&mark, now_us)) == NULL)
        return PR_ENOMEM;
    return target->ended != NULL ? PR_OK : PR_ENOMEM;
}

static int target_take(struct order_target *target, const struct admin *admin, struct order_texts *texts, bool tell,
                       int64_t now_us)
{
    struct stored_row *row = target->row;
    const struct row_order order = order_of_admin(admin);
    pr_slice endpoint = filter_endpoint_of(&admin->filter, box_name(row->box), &row->m);
    int rc = change_of_order(&order, &row->m, row->row, endpoint, now_us, texts, &target->change);
    if (rc == PR_OK)
        rc = change_take(row, &target->change, NULL, &target->memory);
    if (rc == PR_OK && target->change.fate == FATE_COPIED)
        rc = target_take_copy(target, &order, now_us);
    if (rc == PR_OK && target->change.fate == FATE_GONE)
        rc = target_take_ended(target, admin, endpoint, now_us);
    if (rc == PR_OK && tell) { /* routes may no longer send it to the endpoint where it died */
        target->notice = notice_new(row->box, action_of(admin->kind)->notice, row, row->m.destination);
        rc = target->notice != NULL ? PR_OK : PR_ENOMEM;
    }
    return rc;
}

static int targets_take(struct targets *t, const struct admin *admin, bool each, int64_t now_us)
{
    struct order_texts texts;
    int rc = PR_OK;
    order_texts_init(&texts);
    for (size_t i = 0; i < t->count && rc == PR_OK; i++)
        if (!t->list[i].refused)
            rc = target_take(&t->list[i], admin, &texts, each && !order_is_silent(admin), now_us);
    order_texts_fini(&texts);
    return rc;
}

/* ---- Changing ------------------------------------------------------------------------------- */

static void target_copy(struct order_target *target, struct memory *memory)
{
    struct stored_row *made = target->made;
    target->made = NULL;
    dead_set_edited(target->row, made->m.id);
    row_link(made);
    if (target->notice != NULL)
        target->notice->n.row = made->row;
    if (target->gone != NULL)
        notice_add(memory, target->gone);
    target->gone = NULL;
}

static struct stored_mark *mark_of_letter(const struct stored_row *row)
{
    return mark_find(row->box, row->m.id, mark_handler(row->m.destination, row->after->endpoint));
}

/* A discarded message has ended and gets a mark; one that is replayed despite its mark loses it. */
static void target_mark(struct order_target *target, struct box *box, bool again)
{
    struct stored_mark *there = again ? mark_of_letter(target->row) : NULL;
    if (there != NULL)
        mark_drop(box, there);
    if (target->mark == NULL || mark_find(box, target->mark->id, target->mark->handler) != NULL)
        return;
    mark_link(box, target->mark);
    target->mark = NULL;
}

static void target_apply(struct order_target *target, struct memory *memory, bool again, int64_t now_us)
{
    target_mark(target, target->row->box, again);
    change_apply(target->row, &target->change, &target->memory, now_us, 0, NULL);
    if (target->change.fate == FATE_COPIED)
        target_copy(target, memory);
    if (target->change.fate == FATE_BACK && target->notice != NULL)
        target->notice->n.row = target->row->row;
    if (target->notice != NULL)
        notice_add(memory, target->notice);
    target->notice = NULL;
    if (target->ended != NULL)
        stored_ended_add(memory, target->ended);
    target->ended = NULL;
}

/* ---- Actions on rows ------------------------------------------------------------------------ */

/* Its handler has ended another row of this message. */
static bool is_handled(const struct stored_row *row, const struct admin *admin)
{
    return admin->kind == ADMIN_DEAD_REPLAY && !admin->again && mark_of_letter(row) != NULL;
}

/* B2: a dead letter whose id was sent again stays dead. */
static bool is_refused(const struct stored_row *row, const struct admin *admin)
{
    return row_takes(row, admin) == ORDER_REFUSES || is_handled(row, admin) ||
           (admin->kind == ADMIN_DEAD_REPLAY && row_find_id(row->box, row->m.id, row->m.destination) != NULL);
}

/* Refuses rows that cannot be changed, and drops those above the limit. */
static void targets_judge(struct targets *t, const struct admin *admin, struct admin_reply *reply)
{
    size_t limit = admin->filter.limit;
    reply->missing = ids_missing(t, &admin->filter);
    if (limit > 0 && t->count > limit) {
        t->count = limit;
        reply->more = true;
    }
    reply->matched = t->count;
    reply->last_row = t->count > 0 ? t->list[t->count - 1].row->row : 0;
    for (size_t i = 0; i < t->count; i++) {
        t->list[i].refused = is_refused(t->list[i].row, admin);
        reply->refused += t->list[i].refused;
        if (is_handled(t->list[i].row, admin)) {
            const struct stored_row *row = t->list[i].row;
            reply->handled++;
            if (reply->handled_us == 0)
                reply->handled_us = mark_of_letter(row)->at_us;
        }
    }
    reply->changed = t->count - reply->refused;
}

static void targets_apply(struct targets *t, struct memory *memory, const struct admin *admin, int64_t now_us,
                          struct admin_reply *reply)
{
    for (size_t i = 0; i < t->count; i++) {
        struct order_target *target = &t->list[i];
        if (target->refused)
            continue;
        if (is_refused(target->row, admin)) { /* a row with the same id has just gone back */
            reply->refused++;
            reply->changed--;
            continue;
        }
        target_apply(target, memory, admin->kind == ADMIN_DEAD_REPLAY && admin->again, now_us);
    }
    list_foreach(node, &memory->boxes)
        box_touch(LIST_ENTRY(node, struct box, node));
}

static int admin_rows(struct memory *memory, const struct admin *admin, struct admin_reply *reply, int64_t now_us,
                      struct pr_error *reterr)
{
    struct targets targets = { 0 };
    struct audit *audit = NULL;
    struct stored_notice *reload = NULL;

    int rc = targets_find(&targets, memory, admin, now_us);
    if (rc == PR_OK)
        rc = order_check_matched(admin, targets.count, reterr);
    if (rc == PR_OK)
        targets_judge(&targets, admin, reply);
    if (rc == PR_OK && !admin->dry_run) {
        bool each = order_notices_each(admin, targets.count);
        audit = audit_new(admin, now_us);
        bool tells = !each && !order_is_silent(admin);
        if (tells)
            reload = notice_new(box_find(memory, admin->filter.box), NOTICE_RELOAD, NULL, (pr_slice){ NULL, 0 });
        rc = audit != NULL && (!tells || reload != NULL) ? targets_take(&targets, admin, each, now_us) : PR_ENOMEM;
    }
    if (rc == PR_OK && !admin->dry_run) {
        targets_apply(&targets, memory, admin, now_us, reply);
        if (reload != NULL)
            notice_add(memory, reload);
        audit_add(memory, audit, reply);
        reload = NULL;
        audit = NULL;
    }
    free(reload);
    free(audit);
    targets_fini(&targets);
    return rc;
}

/* ---- Actions on endpoints ------------------------------------------------------------------- */

static int admin_endpoint(struct memory *memory, const struct admin *admin, struct admin_reply *reply, int64_t now_us)
{
    pr_slice name = admin->filter.endpoint, by = { NULL, 0 }, why = { NULL, 0 };
    bool pauses = admin->kind == ADMIN_PAUSE;
    struct stored_endpoint *endpoint = endpoint_find(memory, name), *added = NULL;
    int64_t until_us = order_pause_us(admin, endpoint != NULL ? endpoint->paused_until_us : 0, now_us);

    reply->matched = endpoint != NULL || pauses;
    reply->missing = !reply->matched;
    reply->changed = until_us >= 0;
    if (admin->dry_run)
        return PR_OK;

    struct audit *audit = audit_new(admin, now_us);
    struct stored_notice *notice = notice_new(NULL, NOTICE_ENDPOINT, NULL, name);
    if (endpoint == NULL && pauses)
        endpoint = added = endpoint_new(name);
    bool have_all = audit != NULL && notice != NULL && (endpoint != NULL || !pauses) &&
                    (!pauses || (text_dup(admin->by, &by) && text_dup(admin->why, &why)));
    if (have_all && added != NULL)
        list_push_back(&memory->endpoints, &added->node);
    if (have_all && until_us >= 0) {
        endpoint_set_pause(endpoint, until_us, &by, &why);
        notice_add(memory, notice);
        notice = NULL;
        list_foreach(node, &memory->boxes)
            box_touch(LIST_ENTRY(node, struct box, node));
    }
    if (have_all)
        audit_add(memory, audit, reply);
    else
        free(audit);
    if (!have_all)
        free(added);
    free(notice);
    free((char *)(uintptr_t)by.data);
    free((char *)(uintptr_t)why.data);
    return have_all ? PR_OK : PR_ENOMEM;
}

/* Records an action that was done elsewhere. */
static int admin_record(struct memory *memory, const struct admin *admin, struct admin_reply *reply, int64_t now_us)
{
    struct audit *audit = audit_new(admin, now_us);
    if (audit == NULL)
        return PR_ENOMEM;
    *reply = *admin->outcome;
    audit_add(memory, audit, reply);
    return PR_OK;
}

int memory_admin(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    struct memory *memory = self;
    struct admin_reply reply = { 0 };
    bool on_endpoint = admin->kind == ADMIN_PAUSE || admin->kind == ADMIN_RESUME;

    if (admin->kind == ADMIN_DEAD_IMPORT)
        return error_set(reterr, PR_EUNSUPPORTED,
                         "the memory store is for simulations and imports nothing: use sqlite::memory:");
    pthread_mutex_lock(&memory->mutex);
    int64_t now_us = memory_now(memory);
    uint64_t newest_row = memory->next_row;
    int rc = admin->outcome != NULL ? admin_record(memory, admin, &reply, now_us)
             : on_endpoint          ? admin_endpoint(memory, admin, &reply, now_us)
                                    : admin_rows(memory, admin, &reply, now_us, reterr);
    memory_flush(memory);
    pthread_mutex_unlock(&memory->mutex);
    if (rc == PR_EINVAL)
        return rc;
    if (rc < 0)
        return error_set(reterr, rc, "out of memory for this order");
    if (action_of(admin->kind)->on_dead)
        reply.newest_row = newest_row;
    if (admin->kind == ADMIN_DEAD_EDIT && reply.changed > 0)
        reply.made = admin->made;
    *ret_reply = reply;
    return PR_OK;
}
