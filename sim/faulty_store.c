/* Between an engine and its store.  A cycle can end as ok, as an error, as unknown although it landed, as unknown when
 * it did not, and its instance can die in it.  What landed is written into the history here, whatever answer the engine
 * gets. */
#include "world.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "core/story.h"

/* ---- Rows, as the store names them ------------------------------------------------------ */

static struct known_row *find_row(struct world *w, uint64_t row)
{
    for (struct map_node *n = map_first(&w->rows, hash_u64(row)); n != NULL; n = map_next_same(n))
        if (MAP_ENTRY(n, struct known_row, node)->row == row)
            return MAP_ENTRY(n, struct known_row, node);
    return NULL;
}

static void learn_row(struct world *w, uint64_t row, uint32_t message, uint16_t destination)
{
    struct known_row *known = find_row(w, row);
    if (known == NULL) {
        known = arena_zalloc(&w->arena, sizeof(*known));
        ASSERT(known != NULL);
        known->row = row;
        int rc = map_insert(&w->rows, &known->node, hash_u64(row));
        ASSERT(rc == PR_OK);
    }
    known->message = message;
    known->destination = destination;
}

bool world_find_row(struct world *w, uint64_t row, uint32_t *ret_message, uint16_t *ret_destination)
{
    const struct known_row *known = find_row(w, row);
    *ret_message = known != NULL ? known->message : MESSAGE_NONE;
    *ret_destination = known != NULL ? known->destination : DESTINATION_NONE;
    return known != NULL;
}

uint16_t world_destination(const struct world *w, pr_slice name)
{
    if (slice_is_empty(name))
        return DESTINATION_NONE;
    for (unsigned i = 0; i < w->scenario->engine.endpoint_count; i++)
        if (slice_eq(w->scenario->endpoints[i].name, name))
            return (uint16_t)(i + 1);
    return DESTINATION_UNKNOWN;
}

/* ---- The witness -------------------------------------------------------------------------- */

static struct event about(const struct instance *in, enum event_kind kind)
{
    return (struct event){
        .kind = (uint8_t)kind, .instance = (uint8_t)in->index, .session = in->session_number, .message = MESSAGE_NONE
    };
}

static struct event about_row(struct world *w, const struct instance *in, enum event_kind kind, uint64_t row)
{
    struct event event = about(in, kind);
    if (!world_find_row(w, row, &event.message, &event.destination))
        w->broken = "a cycle names a row that was never read";
    return event;
}

/* A seq can be drawn twice when commits were lost: the id of the verdict shows which row it is about. */
static void unmistake(struct world *w, const struct verdict *v, struct event *event)
{
    const struct parcel *p = world_find(w, v->id);
    if (p == NULL || p->index == event->message || w->parcels[event->message]->original == p)
        return;
    event->message = p->index;
    event->destination = world_destination(w, p->m.destination);
}

/* Local delivery: the end of the message is recorded in this world, and its beginning in the other one. */
static void witness_into(struct world *w, struct event event, const struct effect *e, int answer)
{
    struct world *other = world_of_box(w, e->box);
    const struct parcel *p = w->parcels[event.message];
    struct pr_message plain = *e->message;
    plain.headers = p->m.headers; /* one more names the boxes that it came through */
    event.kind = EVENT_INTO;
    event.answer = (int16_t)answer;
    event.extra = message_digest(&plain);
    world_note(w, event);
    if (answer != PR_OK)
        return;
    struct parcel *there = world_find(other, e->message->id);
    if (there == NULL)
        there = world_adopt(other, e->message);
    parcel_stored(other, there);
    world_announce(other);
}

static bool goes_into(const struct world *w, const struct effect *e)
{
    return e->kind == EFFECT_MESSAGE && !world_is_alone(w) && !slice_eq(e->box, w->scenario->engine.box);
}

static void witness_effects(struct world *w, const struct cycle *cycle, size_t verdict)
{
    for (size_t i = 0; i < cycle->effect_count; i++) {
        if (cycle->effects[i].verdict != verdict || cycle->effects[i].kind != EFFECT_MESSAGE ||
            goes_into(w, &cycle->effects[i]))
            continue;
        struct parcel *p = world_find(w, cycle->effects[i].message->id);
        if (p == NULL)
            p = world_adopt(w, cycle->effects[i].message);
        if (!p->stored) {
            parcel_stored(w, p);
            world_announce(w);
        }
    }
}

/* The engine's own, which I32 sees by its effect; handlers' marks refuse nothing but themselves. */
static bool is_mark(const struct effect *e)
{
    return e->kind == EFFECT_SEEN && e->takes_verdict;
}

static void witness_verdicts(struct world *w, struct instance *in, const struct cycle *cycle,
                             const struct cycle_reply *reply)
{
    const uint64_t *children = reply->split_rows;
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct verdict *v = &cycle->verdicts[i];
        struct event event = about_row(w, in, EVENT_VERDICT, v->row);
        unmistake(w, v, &event);
        event.what = (uint16_t)v->kind;
        event.number = v->number;
        event.value = v->delay_us;
        event.answer = (int16_t)reply->answers[i];
        event.extra = (uint64_t)v->reason;
        event.flag = (uint16_t)((v->moved_to.size > 0 ? VERDICT_IS_MOVED : 0) | (v->counted ? VERDICT_IS_COUNTED : 0) |
                                (v->kind == VERDICT_ASK && v->fenced ? VERDICT_IS_FENCED : 0));
        world_note(w, event);
        if (v->kind == VERDICT_SPLIT) {
            for (size_t k = 0; k < v->destination_count; k++, children++) {
                struct event born = event;
                if (reply->answers[i] != PR_OK)
                    continue;
                born.kind = *children != 0 ? EVENT_BORN : EVENT_LEFT_OUT;
                born.destination = world_destination(w, v->destinations[k]);
                if (*children != 0) {
                    learn_row(w, *children, born.message, born.destination);
                    w->parcels[born.message]->parts |=
                        born.destination <= SIM_ENDPOINTS_MAX ? 1u << born.destination : 0;
                }
                world_note(w, born);
            }
        }
        if (reply->answers[i] == PR_OK)
            witness_effects(w, cycle, i);
        for (size_t k = 0; k < cycle->effect_count; k++) {
            const struct effect *e = &cycle->effects[k];
            if (e->verdict != i)
                continue;
            if (goes_into(w, e) && reply->answers[i] == PR_OK)
                witness_into(w, event, e, reply->effect_answers[k]);
            else if (e->kind != EFFECT_MESSAGE && !is_mark(e))
                effects_witness(w, event, e, reply->effect_answers[k], reply->answers[i]);
        }
    }
    witness_effects(w, cycle, EFFECT_ALWAYS);
}

static void witness_pauses(struct world *w, const struct cycle *cycle, const struct cycle_reply *reply)
{
    for (size_t i = 0; i < cycle->pause_count; i++)
        world_note(w, (struct event){ .kind = EVENT_ADMIN,
                                      .instance = INSTANCE_NONE,
                                      .message = MESSAGE_NONE,
                                      .what = ADMIN_PAUSE,
                                      .number = (int32_t)world_destination(w, cycle->pauses[i].endpoint) - 1,
                                      .value = time_add(reply->now_us, cycle->pauses[i].for_us) });
}

static int16_t told_lost(pr_slice story)
{
    int lines, lost = story_count_lost(story, &lines);
    return (int16_t)STORY_KEPT(lines, lost);
}

static void witness_receipts(struct world *w, struct instance *in, const struct cycle *cycle, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct event event = about_row(w, in, EVENT_HANDOUT, cycle->receipt[i].row);
        event.number = cycle->receipt[i].number;
        event.value = (int64_t)cycle->number;
        event.flag = i < cycle->receipt_carried ? HANDOUT_CARRIED : 0;
        world_note(w, event);
    }
    for (size_t i = 0; i < cycle->closed_count; i++) {
        struct event event = about(in, EVENT_CLOSE);
        event.value = (int64_t)cycle->closed[i];
        world_note(w, event);
    }
}

/* Parts with the same id are distinguished by the row that was split. */
static const struct parcel *parcel_of_row(struct world *w, const struct row *row)
{
    const struct known_row *known = find_row(w, row->row);
    const struct parcel *p = known != NULL && known->message < w->parcel_count ? w->parcels[known->message] : NULL;
    bool is_part = p != NULL && p->sourced && slice_is_empty(p->m.destination) && !slice_is_empty(row->m.destination) &&
                   pr_id_equal(p->m.id, row->m.id) && known->destination == world_destination(w, row->m.destination);
    return is_part ? p : parcel_of(w, &row->m);
}

static void witness_rows(struct world *w, struct instance *in, const struct cycle_reply *reply)
{
    for (size_t i = 0; i < reply->row_count; i++) {
        const struct row *row = &reply->rows[i];
        const struct parcel *p = parcel_of_row(w, row);
        w->rows_read++;
        if (p == NULL && row->from != ROW_HEAD) {
            w->broken = "a row was read that nobody sent";
            return;
        }
        if (p == NULL || row->dead)
            continue;
        struct event event = about(in, EVENT_READ);
        event.message = p->index;
        event.destination = world_destination(w, row->m.destination);
        event.what = (uint16_t)row->from;
        event.number = row->m.attempts;
        event.value = row->m.failures;
        event.extra = (uint64_t)row->m.seq;
        event.flag = (uint16_t)row->lane;
        event.answer = told_lost(row->m.story);
        learn_row(w, row->row, event.message, event.destination);
        world_note(w, event);
    }
}

/* Rows that the store put on the receipt itself. */
static void witness_started(struct world *w, struct instance *in, const struct cycle *cycle,
                            const struct cycle_reply *reply)
{
    for (size_t i = 0; i < reply->row_count && reply->started == STARTED_ALL; i++) {
        if (reply->rows[i].from != ROW_FRESH)
            continue;
        struct event event = about_row(w, in, EVENT_HANDOUT, reply->rows[i].row);
        event.number = 1;
        event.value = (int64_t)cycle->number;
        event.flag = HANDOUT_BY_STORE;
        world_note(w, event);
    }
}

/* A replayed cycle was recorded when it landed: only its reads and lanes are new. */
static void witness_cycle(struct world *w, struct instance *in, const struct cycle *cycle,
                          const struct cycle_reply *reply)
{
    /* The same id can join twice: when the first answer was lost and its lease was over meanwhile. */
    if (!pr_id_equal(cycle->instance, in->session_id) || (cycle->epoch == 0 && !reply->replayed)) {
        in->session_id = cycle->instance;
        in->session_number = ++w->sessions;
        struct event join = about(in, EVENT_JOIN);
        join.value = cycle->lease_us;
        world_note(w, join);
    }
    if (!reply->replayed) {
        witness_verdicts(w, in, cycle, reply);
        witness_pauses(w, cycle, reply);
        witness_receipts(w, in, cycle, reply->history_changed ? cycle->receipt_carried : cycle->receipt_count);
    }
    struct event event = about(in, EVENT_CYCLE);
    event.extra = reply->lanes_owned;
    event.number = (int32_t)cycle->number;
    event.value = reply->lease_left_us;
    event.what = cycle->force_write;
    event.flag = reply->replayed;
    event.answer = cycle->verdict_count == 0 && cycle->tally_count == 0;
    world_note(w, event);
    if (cycle->leave)
        world_note(w, about(in, EVENT_LEAVE));
    witness_rows(w, in, reply);
    witness_started(w, in, cycle, reply);
}

/* ---- The faults ------------------------------------------------------------------------------ */

static void note_fault(struct world *w, struct instance *in, int rc, bool landed)
{
    struct event event = about(in, EVENT_FAULT);
    event.answer = (int16_t)rc;
    event.flag = landed;
    world_note(w, event);
}

/* The store's fault before it does anything; 0: none. */
static int fault_before(struct world *w, struct instance *in, const struct cycle *cycle)
{
    static const int errors[] = { PR_ESTORE, PR_EBUSY, PR_EFULL };
    if (w->disturb != NULL)
        return w->disturb(w, in, cycle);
    if (random_chance(&w->dice[DIE_STORE_ERRORS], w->faults.commit_error))
        return errors[random_below(&w->dice[DIE_STORE_ERRORS], 3)];
    if (random_chance(&w->dice[DIE_STORE_UNKNOWN], w->faults.commit_unknown / 2))
        return PR_EUNCERTAIN;
    if (random_chance(&w->dice[DIE_CYCLE_CRASHES], w->faults.crash_in_cycle / 2))
        return INSTANCE_DIED;
    /* (Of what only reads nobody keeps a number, and SQLite starts nothing by itself; and what was lost is told by the session that
     * was there, not by another.) */
    bool starts = cycle->start_fresh > 0 && !w->scenario->sqlite;
    if ((cycle->verdict_count + cycle->receipt_count > 0 || starts) &&
        random_chance(&w->dice[DIE_LATE_CYCLES], w->faults.commit_late) && !in->loss_unheard) {
        in->late_number = cycle->number;
        return PR_EUNCERTAIN;
    }
    return 0;
}

/* A cycle that was given up arrives after all, over the connection that it was sent on: just before it is asked again,
 * or just after that.  It changes something once. */
static void land_late(struct world *w, struct instance *in, const struct cycle *cycle, bool again)
{
    struct store_session session;
    const struct cycle_reply *reply;
    struct pr_error error;
    int rc = store_session_open(&w->store, w->scenario->engine.box, &session, &error);
    ASSERT(rc == PR_OK);
    rc = store_cycle(&session, cycle, &reply, &error);
    if (rc == PR_OK && again && !reply->replayed)
        w->broken = "a cycle landed twice";
    else if (rc == PR_OK)
        witness_cycle(w, in, cycle, reply);
    else if (rc != PR_ELEASE)
        w->broken = "a late cycle failed by itself";
    store_session_close(&session);
}

static int fault_after(struct world *w)
{
    if (random_chance(&w->dice[DIE_STORE_UNKNOWN], w->faults.commit_unknown / 2))
        return PR_EUNCERTAIN;
    if (random_chance(&w->dice[DIE_CYCLE_CRASHES], w->faults.crash_in_cycle / 2))
        return INSTANCE_DIED;
    return 0;
}

static int end_with(struct world *w, struct instance *in, int rc, bool landed)
{
    note_fault(w, in, rc, landed);
    if (rc == INSTANCE_DIED)
        instance_crash(w, in);
    return rc;
}

/* Connections do not break all the time: reading in small pieces must end sometime. */
static bool scan_begins_anew(struct world *w, struct instance *in)
{
    if (!random_chance(&w->dice[DIE_SCANS], w->faults.scan_anew) || w->mono_us < in->scan_again_us)
        return false;
    in->scan_again_us = time_add(w->mono_us, PR_SECONDS(10));
    return true;
}

int faulty_cycle(struct world *w, struct instance *in, const struct cycle *cycle, const struct cycle_reply **ret)
{
    struct pr_error error;
    struct cycle asked = *cycle;
    int rc = fault_before(w, in, cycle);
    if (rc != 0)
        return end_with(w, in, rc, false);
    if (scan_begins_anew(w, in))
        asked.restart_lanes = LANES_ALL;
    bool late = in->late_number != 0 && in->late_number == cycle->number;
    bool behind = late && random_chance(&w->dice[DIE_LATE_CYCLES], 0.5);
    in->late_number = 0;
    if (late && !behind)
        land_late(w, in, cycle, false);
    rc = store_cycle(&in->session, &asked, ret, &error);
    in->loss_unheard = in->loss_unheard && rc != PR_OK;
    if (rc == PR_ELEASE) {
        world_note(w, about(in, EVENT_LOST));
        return rc;
    }
    if (rc != PR_OK) {
        note_fault(w, in, rc, false);
        w->broken = "the store failed by itself";
        return rc;
    }
    witness_cycle(w, in, cycle, *ret);
    if (behind)
        land_late(w, in, cycle, true);
    world_compare_breakers(w, in, cycle, (*ret)->lanes_owned != 0);
    if (w->watch != NULL)
        w->watch(w, in, cycle, *ret);
    rc = fault_after(w);
    return rc != 0 ? end_with(w, in, rc, true) : PR_OK;
}
