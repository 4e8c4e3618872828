/* The cycle: identify the instance, allocate all memory, change, read. */
#include <stdlib.h>
#include <string.h>

#include "core/ended.h"
#include "store/memory/memory_model.h"

struct pause_work {
    struct stored_endpoint *endpoint; /* for an endpoint that is not known yet */
    struct stored_notice *notice;
    pr_slice by, why; /* malloc'ed */
};

struct tally_work {
    struct stored_endpoint *endpoint; /* for an endpoint that is not known yet */
    pr_slice code, error;             /* malloc'ed */
};

/* For a part of a split that may be left out: */
struct part_work {
    struct stored_endpoint *endpoint; /* for an endpoint that is not known yet */
    struct stored_ended *ended;       /* NULL: there is no ledger */
};

/* What a cycle will change, with all the memory that it takes. */
struct work {
    struct stored_instance *joins; /* NULL: the instance exists already */
    struct change *changes;        /* one per verdict */
    struct change_memory *memory;  /* of each of them */
    struct effect_memory *effects; /* one per effect */
    struct effect_guards guards;
    int *answers; /* becomes the instance's */
    struct stored_receipt *receipt;
    struct tally_work *tallies;       /* one per tally */
    struct pause_work *pauses;        /* one per pause */
    struct stored_breaker **breakers; /* one per change; NULL: it has closed */
    struct stored_ended **ended;      /* one per verdict; NULL: it ends nothing */
    struct part_work *parts;          /* one per part of a split */
};

static void text_free(pr_slice text)
{
    free((char *)(uintptr_t)text.data);
}

static void work_fini(struct work *work, const struct cycle *cycle)
{
    free(work->joins);
    for (size_t i = 0; work->memory != NULL && i < cycle->verdict_count; i++)
        change_memory_fini(&work->memory[i]);
    for (size_t i = 0; work->effects != NULL && i < cycle->effect_count; i++)
        effect_memory_fini(&work->effects[i]);
    for (size_t i = 0; work->ended != NULL && i < cycle->verdict_count; i++)
        free(work->ended[i]);
    for (size_t i = 0; work->parts != NULL && i < ended_part_count(cycle); i++) {
        free(work->parts[i].endpoint);
        free(work->parts[i].ended);
    }
    free(work->answers);
    free(work->receipt);
    for (size_t i = 0; work->tallies != NULL && i < cycle->tally_count; i++) {
        free(work->tallies[i].endpoint);
        text_free(work->tallies[i].code);
        text_free(work->tallies[i].error);
    }
    for (size_t i = 0; work->breakers != NULL && i < cycle->breaker_count; i++)
        free(work->breakers[i]);
    for (size_t i = 0; work->pauses != NULL && i < cycle->pause_count; i++) {
        free(work->pauses[i].endpoint);
        free(work->pauses[i].notice);
        text_free(work->pauses[i].by);
        text_free(work->pauses[i].why);
    }
}

static int work_take_effects(struct work *work, struct memory_session *session, const struct cycle *cycle,
                             int64_t now_us, struct pr_error *reterr)
{
    int rc =
        effect_guards_init(&work->guards, cycle->effects, cycle->effect_count, cycle->verdict_count, &session->arena);
    for (size_t i = 0; i < cycle->effect_count && rc == PR_OK; i++)
        rc = effect_take(session->box->memory, &cycle->effects[i], now_us, &work->effects[i], reterr);
    bool any_not_applied = work->guards.any || cycle_has_joined(cycle) || session->box->memory->is_held != NULL;
    if (rc == PR_OK && any_not_applied && cycle->verdict_count > 0) {
        work->answers = calloc(cycle->verdict_count, sizeof(work->answers[0]));
        rc = work->answers != NULL ? PR_OK : PR_ENOMEM;
    }
    return rc;
}

static int work_take_receipt(struct work *work, const struct cycle *cycle, int64_t now_us)
{
    if (cycle->receipt_count == 0)
        return PR_OK;
    size_t bytes = cycle->receipt_count * sizeof(cycle->receipt[0]);
    work->receipt = malloc(sizeof(*work->receipt) + bytes);
    if (work->receipt == NULL)
        return PR_ENOMEM;
    *work->receipt = (struct stored_receipt){ .cycle = cycle->number, .at_us = now_us, .count = cycle->receipt_count };
    memcpy(work->receipt->entries, cycle->receipt, bytes);
    return PR_OK;
}

static int work_take_tallies(struct work *work, const struct memory *memory, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->tally_count; i++) {
        const struct tally *tally = &cycle->tallies[i];
        struct tally_work *t = &work->tallies[i];
        if (endpoint_find(memory, tally->endpoint) == NULL && (t->endpoint = endpoint_new(tally->endpoint)) == NULL)
            return PR_ENOMEM;
        if (!text_dup(tally->code, &t->code) || !text_dup(tally->error, &t->error))
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int work_take_breakers(struct work *work, const struct cycle *cycle, int64_t now_us)
{
    for (size_t i = 0; i < cycle->breaker_count; i++) {
        if (!cycle->breakers[i].open)
            continue;
        work->breakers[i] = breaker_new(&cycle->breakers[i], now_us);
        if (work->breakers[i] == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int work_take_pauses(struct work *work, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->pause_count; i++) {
        const struct pause *pause = &cycle->pauses[i];
        struct pause_work *p = &work->pauses[i];
        p->endpoint = endpoint_new(pause->endpoint);
        p->notice = notice_new(NULL, NOTICE_ENDPOINT, NULL, pause->endpoint);
        if (p->endpoint == NULL || p->notice == NULL || !text_dup(pause->by, &p->by) || !text_dup(pause->why, &p->why))
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int work_take_ended(struct work *work, const struct cycle *cycle, int64_t now_us)
{
    struct ended e;
    for (size_t i = 0; cycle->retention.ended_us > 0 && i < cycle->verdict_count; i++) {
        if (!ended_of_verdict(&cycle->verdicts[i], cycle->keep_us > 0, &e))
            continue;
        e.box = cycle->box;
        work->ended[i] = stored_ended_new(&e, cycle->name, now_us);
        if (work->ended[i] == NULL)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int work_take_parts(struct work *work, const struct memory *memory, const struct cycle *cycle, int64_t now_us)
{
    struct part_work *part = work->parts;
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct verdict *v = &cycle->verdicts[i];
        for (size_t k = 0; v->kind == VERDICT_SPLIT && k < v->destination_count; k++, part++) {
            const struct ended e = {
                .id = v->id, .box = cycle->box, .endpoint = v->destinations[k], .as = ENDED_DUPLICATE
            };
            if (endpoint_find(memory, e.endpoint) == NULL && (part->endpoint = endpoint_new(e.endpoint)) == NULL)
                return PR_ENOMEM;
            if (cycle->retention.ended_us > 0 && (part->ended = stored_ended_new(&e, cycle->name, now_us)) == NULL)
                return PR_ENOMEM;
        }
    }
    return PR_OK;
}

static int work_take_changes(struct work *work, struct memory_session *session, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct stored_row *row = row_find(session->box, cycle->verdicts[i].row);
        work->changes[i] = change_of_verdict(&cycle->verdicts[i], cycle->keep_us > 0);
        if (row != NULL && change_take(row, &work->changes[i], &session->arena, &work->memory[i]) < 0)
            return PR_ENOMEM;
    }
    return PR_OK;
}

static int work_take(struct work *work, struct memory_session *session, const struct cycle *cycle, int64_t now_us,
                     struct pr_error *reterr)
{
    struct arena *arena = &session->arena;
    work->changes = arena_alloc_array(arena, cycle->verdict_count, sizeof(work->changes[0]));
    work->memory = arena_alloc_array(arena, cycle->verdict_count, sizeof(work->memory[0]));
    work->ended = arena_alloc_array(arena, cycle->verdict_count, sizeof(work->ended[0]));
    work->effects = arena_alloc_array(arena, cycle->effect_count, sizeof(work->effects[0]));
    work->tallies = arena_alloc_array(arena, cycle->tally_count, sizeof(work->tallies[0]));
    work->breakers = arena_alloc_array(arena, cycle->breaker_count, sizeof(work->breakers[0]));
    work->pauses = arena_alloc_array(arena, cycle->pause_count, sizeof(work->pauses[0]));
    size_t destinations = ended_part_count(cycle);
    work->parts = arena_alloc_array(arena, destinations, sizeof(work->parts[0]));
    session->reply.answers = arena_alloc_array(arena, cycle->verdict_count, sizeof(int));
    session->reply.effect_answers = arena_alloc_array(arena, cycle->effect_count, sizeof(int));
    session->reply.split_rows = arena_alloc_array(arena, destinations, sizeof(uint64_t));
    if (work->changes == NULL || work->memory == NULL || work->effects == NULL || work->tallies == NULL ||
        work->breakers == NULL || work->pauses == NULL || session->reply.answers == NULL ||
        session->reply.effect_answers == NULL || session->reply.split_rows == NULL || work->parts == NULL)
        return PR_ENOMEM;

    int rc = work_take_changes(work, session, cycle);
    if (rc == PR_OK)
        rc = work_take_effects(work, session, cycle, now_us, reterr);
    if (rc == PR_OK)
        rc = work_take_receipt(work, cycle, now_us);
    if (rc == PR_OK)
        rc = work_take_tallies(work, session->box->memory, cycle);
    if (rc == PR_OK)
        rc = work_take_breakers(work, cycle, now_us);
    if (rc == PR_OK)
        rc = work_take_pauses(work, cycle);
    if (rc == PR_OK)
        rc = work_take_ended(work, cycle, now_us);
    if (rc == PR_OK)
        rc = work_take_parts(work, session->box->memory, cycle, now_us);
    if (rc == PR_OK)
        rc = evidence_prepare(session->box->memory, cycle);
    return rc;
}

/* ---- From here on nothing can fail ---------------------------------------------------------- */

static void work_effects(struct work *work, struct memory_session *session, const struct cycle *cycle)
{
    int *answers = session->reply.effect_answers;
    for (size_t i = 0; i < cycle->effect_count; i++) {
        size_t verdict = cycle->effects[i].verdict;
        bool applied = verdict == EFFECT_ALWAYS || session->reply.answers[verdict] == PR_OK;
        answers[i] = applied ? work->guards.answers[i] : PR_UNKNOWN;
        if (applied && answers[i] == PR_OK)
            answers[i] = effect_apply(session->box->memory, &cycle->effects[i], &work->effects[i]);
    }
}

static void work_ended(struct work *work, struct memory *memory, const struct cycle *cycle, const int *answers,
                       int64_t now_us)
{
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        if (work->ended[i] == NULL || !ended_is_so(&cycle->verdicts[i], answers[i]))
            continue;
        stored_ended_add(memory, work->ended[i]);
        work->ended[i] = NULL;
    }
    ended_purge(memory, time_sub(now_us, cycle->retention.ended_us), DONE_PURGE_MAX);
}

static struct stored_endpoint *endpoint_get(struct memory *memory, pr_slice name, struct stored_endpoint **made)
{
    struct stored_endpoint *endpoint = endpoint_find(memory, name);
    if (endpoint != NULL)
        return endpoint;
    endpoint = *made;
    *made = NULL;
    list_push_back(&memory->endpoints, &endpoint->node);
    return endpoint;
}

/* Counts the parts that splits left out. */
static void work_parts(struct work *work, struct memory_session *session, const struct cycle *cycle)
{
    struct memory *memory = session->box->memory;
    struct part_work *part = work->parts;
    const uint64_t *row = session->reply.split_rows;
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct verdict *v = &cycle->verdicts[i];
        for (size_t k = 0; v->kind == VERDICT_SPLIT && k < v->destination_count; k++, part++, row++) {
            if (session->reply.answers[i] != PR_OK || *row != 0)
                continue;
            endpoint_get(memory, v->destinations[k], &part->endpoint)->duplicates++;
            if (part->ended != NULL)
                stored_ended_add(memory, part->ended);
            part->ended = NULL;
        }
    }
}

/* In case this cycle is asked again. */
static void work_remember(struct work *work, struct stored_instance *instance, const struct cycle *cycle)
{
    for (size_t i = 0; work->answers != NULL && i < cycle->verdict_count; i++)
        work->answers[i] = work->guards.verdicts[i];
    free(instance->answers);
    instance->answers = work->answers;
    work->answers = NULL;
}

static void work_receipts(struct work *work, struct stored_instance *instance, const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->closed_count; i++) {
        list_foreach(node, &instance->receipts) {
            struct stored_receipt *receipt = LIST_ENTRY(node, struct stored_receipt, node);
            if (receipt->cycle != cycle->closed[i])
                continue;
            list_remove(node);
            free(receipt);
            break;
        }
    }
    if (work->receipt != NULL)
        list_push_back(&instance->receipts, &work->receipt->node);
    work->receipt = NULL;
}

static void work_tallies(struct work *work, struct memory *memory, const struct cycle *cycle, int64_t now_us)
{
    for (size_t i = 0; i < cycle->tally_count; i++) {
        const struct tally *tally = &cycle->tallies[i];
        struct stored_endpoint *endpoint = endpoint_get(memory, tally->endpoint, &work->tallies[i].endpoint);
        endpoint->sent += tally->sent;
        endpoint->failed += tally->failed;
        endpoint->failed_in_row =
            tally->sent > 0 ? 0 : (uint64_t)max64(0, (int64_t)endpoint->failed_in_row + tally->failed);
        endpoint->dead += tally->dead;
        endpoint->discarded += tally->discarded;
        endpoint->expired += tally->expired;
        endpoint->duplicates += tally->duplicates;
        if (tally->reason != 0)
            endpoint_set_failure(endpoint, tally, &work->tallies[i].code, &work->tallies[i].error, now_us);
    }
}

static void work_pauses(struct work *work, struct memory *memory, const struct cycle *cycle, int64_t now_us)
{
    for (size_t i = 0; i < cycle->pause_count; i++) {
        const struct pause *pause = &cycle->pauses[i];
        struct pause_work *p = &work->pauses[i];
        struct stored_endpoint *endpoint = endpoint_find(memory, pause->endpoint);
        int64_t until_us = pause->for_us == PR_NEVER ? PR_NEVER : time_add(now_us, pause->for_us);
        if (until_us <= now_us || (endpoint != NULL && until_us <= endpoint->paused_until_us))
            continue;
        endpoint_set_pause(endpoint_get(memory, pause->endpoint, &p->endpoint), until_us, &p->by, &p->why);
        notice_add(memory, p->notice);
        p->notice = NULL;
        list_foreach(node, &memory->boxes)
            box_touch(LIST_ENTRY(node, struct box, node));
    }
}

static bool row_is_held(const struct memory *memory, const struct stored_row *row)
{
    return memory->is_held != NULL && memory->is_held(memory->is_held_arg, row->row);
}

/* The answer. */
static int work_change(struct work *work, size_t i, struct memory_session *session,
                       const struct stored_instance *instance, const struct cycle *cycle, int64_t now_us,
                       uint64_t *split_rows)
{
    const struct change *c = &work->changes[i];
    struct stored_row *row = row_find(session->box, c->row);
    if (work->guards.verdicts[i] != PR_OK)
        return work->guards.verdicts[i];
    if (row == NULL || !pr_id_equal(row->m.id, c->id))
        return PR_UNKNOWN;
    if (row_is_held(session->box->memory, row))
        return work->guards.verdicts[i] = ANSWER_BUSY;
    if (session->box->lanes[row->lane].owner != instance || !change_holds(c, &row->m))
        return PR_STALE;
    change_apply(row, c, &work->memory[i], now_us, cycle->keep_us, split_rows);
    return PR_OK;
}

static void work_apply(struct work *work, struct memory_session *session, struct stored_instance *instance,
                       const struct cycle *cycle, int64_t now_us)
{
    uint64_t *split_rows = session->reply.split_rows;
    int leader = PR_OK; /* the answer to the latest verdict that is not joined to another */
    effects_compare(session->box->memory, cycle->effects, cycle->effect_count, &work->guards);
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        bool joined = cycle->verdicts[i].joined;
        int answer = joined ? joined_answer(leader) : PR_OK;
        if (joined && answer != PR_OK)
            work->guards.verdicts[i] = answer;
        session->reply.answers[i] = work_change(work, i, session, instance, cycle, now_us, split_rows);
        leader = joined ? leader : session->reply.answers[i];
        split_rows += work->changes[i].destination_count;
    }
    work_effects(work, session, cycle);
    work_parts(work, session, cycle);
    work_ended(work, session->box->memory, cycle, session->reply.answers, now_us);
    work_remember(work, instance, cycle);
    work_receipts(work, instance, cycle);
    work_tallies(work, session->box->memory, cycle, now_us);
    for (size_t i = 0; i < cycle->breaker_count; i++)
        breaker_apply(instance, &cycle->breakers[i], &work->breakers[i]);
    work_pauses(work, session->box->memory, cycle, now_us);
    evidence_apply(session->box->memory, cycle, now_us);
    done_purge(session->box, now_us, DONE_PURGE_MAX);
    mail_purge(session->box->memory, now_us);
    marks_purge(session->box, now_us, cycle->dedupe_us, DONE_PURGE_MAX);
    instance->last = cycle->number;
}

/* ---- The whole of it -------------------------------------------------------------------------- */

/* The instance that the cycle comes from; NULL with PR_OK: it joins. */
static int cycle_who(struct box *box, const struct cycle *cycle, struct stored_instance **ret, struct pr_error *reterr)
{
    struct stored_instance *instance = instance_find(box, cycle->instance);
    if (cycle->epoch == 0) {
        bool was_this_cycle = instance != NULL && instance->last == cycle->number;
        *ret = was_this_cycle ? instance : NULL;
        return PR_OK;
    }
    if (instance == NULL || instance->epoch != cycle->epoch)
        return error_set(reterr, PR_ELEASE, "the lease of this instance is over and its lanes were taken: join again");
    *ret = instance;
    return PR_OK;
}

/* Lanes and lease, and their part of the reply.  NULL: the instance has left. */
static struct stored_instance *cycle_lanes(struct box *box, struct stored_instance *instance, const struct cycle *cycle,
                                           bool joined, struct cycle_reply *reply)
{
    ASSERT(instance != NULL);
    instance_bury_expired(box, instance);
    instance_renew(box, instance, cycle, joined);
    reply->epoch = instance->epoch;
    reply->lease_left_us = instance->lease_end - clock_mono_us(box->memory->clock);
    if (cycle->leave) {
        instance_bury(box, instance);
        return NULL;
    }
    lanes_give(box, instance, reply->replayed ? 0 : cycle->lanes_give, cycle->lanes_to);
    lanes_take(box, instance, cycle->lanes_give);
    reply->lanes_owned = instance->lanes;
    reply->lanes_asked = lanes_asked(box, instance, cycle->lanes_keep);
    return instance;
}

static bool cycle_writes(const struct cycle *c)
{
    return c->epoch == 0 || c->leave || c->force_write || c->lanes_give != 0 || c->verdict_count > 0 ||
           c->effect_count > 0 || c->receipt_count > 0 || c->closed_count > 0 || c->tally_count > 0 ||
           c->pause_count > 0 || c->breaker_count > 0;
}

/* Commits were lost since the last reply of this session that arrived: rows that were read before must not be started
 * (B28). */
static void cycle_hear_of_loss(struct memory_session *session, struct cycle *cycle)
{
    if (session->reply_number != 0 && session->reply_number != cycle->number)
        session->history = session->reply_history;
    session->reply_number = 0;
    if (session->history == session->box->memory->history)
        return;
    scan_forget(session->scan);
    cycle->receipt_count = cycle->receipt_carried;
    session->reply.history_changed = true;
}

static bool is_same_stream(const struct row *a, const struct row *b)
{
    return a->m.stream.size > 0 && slice_eq(a->m.stream, b->m.stream);
}

static bool is_excluded(const struct cycle *cycle, const struct row *row)
{
    for (size_t i = 0; i < cycle->start_not_count; i++)
        if (row->m.stream.size > 0 && slice_eq(cycle->start_not[i], row->m.stream))
            return true;
    return false;
}

/* How many new rows the reply has; 0: too many, or one of them cannot be started with the others. */
static size_t startable(const struct cycle_reply *reply, const struct cycle *cycle)
{
    size_t count = 0;
    for (size_t i = 0; i < reply->row_count; i++) {
        const struct row *row = &reply->rows[i];
        if (row->from != ROW_FRESH)
            continue;
        if (row->m.attempts > 0 || ++count > cycle->start_fresh || is_excluded(cycle, row))
            return 0;
        for (size_t k = 0; k < i && !cycle->start_runs; k++)
            if (reply->rows[k].from == ROW_FRESH && is_same_stream(&reply->rows[k], row))
                return 0;
    }
    return count;
}

/* cycle.start_fresh.  Without memory nothing is started. */
static void reply_start(struct memory_session *session, const struct cycle *cycle, struct stored_instance *instance,
                        int64_t now_us)
{
    struct cycle_reply *reply = &session->reply;
    size_t count = instance != NULL && !reply->history_changed ? startable(reply, cycle) : 0;
    if (reply->replayed)
        reply->started = STARTED_UNKNOWN;
    if (reply->replayed || count == 0)
        return;
    struct stored_receipt *receipt = malloc(sizeof(*receipt) + count * sizeof(receipt->entries[0]));
    if (receipt == NULL)
        return;
    *receipt = (struct stored_receipt){ .cycle = cycle->number, .at_us = now_us };
    for (size_t i = 0; i < reply->row_count; i++)
        if (reply->rows[i].from == ROW_FRESH)
            receipt->entries[receipt->count++] = (struct receipt_entry){ reply->rows[i].row, 1 };
    list_push_back(&instance->receipts, &receipt->node);
    memory_flush(session->box->memory);
    reply->started = STARTED_ALL;
}

static int cycle_run(struct memory_session *session, const struct cycle *cycle, struct pr_error *reterr)
{
    struct box *box = session->box;
    struct cycle_reply *reply = &session->reply;
    struct work work = { 0 };
    struct stored_instance *instance = NULL;
    int64_t now_us = memory_now(box->memory);

    int rc = cycle_who(box, cycle, &instance, reterr);
    if (rc < 0)
        return rc;
    reply->now_us = now_us;
    reply->replayed = instance != NULL && cycle->number <= instance->last;
    if (instance == NULL) {
        work.joins = instance_new(cycle, now_us);
        rc = work.joins != NULL ? PR_OK : PR_ENOMEM;
    }
    if (rc == PR_OK && !reply->replayed)
        rc = work_take(&work, session, cycle, now_us, reterr);
    if (rc < 0) {
        work_fini(&work, cycle);
        return rc;
    }

    bool joins = work.joins != NULL;
    if (joins) {
        struct stored_instance *former = instance_find(box, cycle->instance);
        if (former != NULL)
            instance_bury(box, former);
        instance = work.joins;
        work.joins = NULL;
        if (cycle->dedupe_us != DEDUPE_OF_BOX)
            box->dedupe_us = cycle->dedupe_us;
        instance_join(box, instance);
    }
    reply->dedupe_us = box->dedupe_us;
    if (reply->replayed && instance->answers != NULL && cycle->number == instance->last)
        reply->answers = arena_dup(&session->arena, instance->answers, cycle->verdict_count * sizeof(int));
    if (!reply->replayed)
        work_apply(&work, session, instance, cycle, now_us);
    work_fini(&work, cycle);
    if (cycle_writes(cycle))
        memory_flush(box->memory);
    instance = cycle_lanes(box, instance, cycle, joins, reply);

    rc = reply_read(session, cycle, instance != NULL ? instance->lanes : 0, now_us);
    if (rc == PR_OK && cycle->start_fresh > 0)
        reply_start(session, cycle, instance, now_us);
    if (rc == PR_OK)
        rc = reply_notices(session, cycle);
    if (rc == PR_OK && cycle->peers && instance != NULL)
        rc = reply_peers(session, instance);
    return rc < 0 ? PR_EUNCERTAIN : PR_OK; /* the changes are made; when asked again, it only reads */
}

int memory_cycle(void *self, const struct cycle *asked, const struct cycle_reply **ret_reply, struct pr_error *reterr)
{
    struct memory_session *session = self;
    struct memory *memory = session->box->memory;
    struct cycle cycle = *asked;

    pthread_mutex_lock(&memory->mutex);
    uint64_t generation = session->box->generation;
    cycle_reply_free_loaded(&session->reply);
    arena_reset(&session->arena);
    session->reply = (struct cycle_reply){ .next_due_us = PR_NEVER };
    session->row_capacity = 0;
    scan_settle(session, &cycle);
    cycle_hear_of_loss(session, &cycle);
    int rc = cycle_run(session, &cycle, reterr);
    session->generation = generation;
    if (rc == PR_OK) {
        session->reply_history = memory->history;
        session->reply_number = cycle.number;
    }
    pthread_mutex_unlock(&memory->mutex);

    if (rc == PR_ENOMEM)
        return error_set(reterr, rc, "out of memory for the cycle");
    if (rc == PR_EUNCERTAIN)
        return error_set(reterr, rc, "the cycle was committed, but its answer was lost: out of memory");
    if (rc == PR_OK)
        *ret_reply = &session->reply;
    return rc;
}
