/* model.c - see model.h. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

static void text_set(char ret[MODEL_TEXT_MAX], pr_slice text)
{
    ASSERT(text.size < MODEL_TEXT_MAX);
    memset(ret, 0, MODEL_TEXT_MAX);
    if (text.size > 0)
        memcpy(ret, text.data, text.size);
}

static bool text_is(const char text[MODEL_TEXT_MAX], pr_slice other)
{
    return strlen(text) == other.size && (other.size == 0 || memcmp(text, other.data, other.size) == 0);
}

struct model_row *model_find(struct model *m, pr_id id, const char *destination, enum model_place place)
{
    for (size_t i = 0; i < m->row_count; i++) {
        struct model_row *r = &m->rows[i];
        if (r->place == place && pr_id_equal(r->id, id) && strcmp(r->destination, destination) == 0)
            return r;
    }
    return NULL;
}

struct model_row *model_find_row(struct model *m, uint64_t row)
{
    for (size_t i = 0; i < m->row_count; i++)
        if (m->rows[i].place == MODEL_IN_BOX && m->rows[i].row == row && row != 0)
            return &m->rows[i];
    return NULL;
}

static struct model_row *model_add(struct model *m)
{
    ASSERT(m->row_count < MODEL_ROWS_MAX);
    struct model_row *r = &m->rows[m->row_count++];
    memset(r, 0, sizeof(*r));
    r->place = MODEL_IN_BOX;
    r->status = PR_STATUS_STORED;
    return r;
}

int model_enqueue(struct model *m, const struct pr_message *message)
{
    for (size_t i = 0; i < m->row_count; i++)
        if (m->rows[i].place != MODEL_NOWHERE && pr_id_equal(m->rows[i].id, message->id) &&
            text_is(m->rows[i].destination, message->destination))
            return PR_DUPLICATE;
    struct model_row *r = model_add(m);
    r->id = message->id;
    text_set(r->destination, message->destination);
    text_set(r->stream, message->stream);
    text_set(r->payload, message->payload);
    r->created_us = m->now_us;
    r->due_us = message->due_us;
    return PR_OK;
}

/* ---- Verdicts --------------------------------------------------------------------- */

static void row_failed(struct model *m, struct model_row *r, const struct verdict *v)
{
    r->status |= PR_STATUS_FAILED;
    r->reason = v->reason != 0 ? v->reason : PR_REASON_UNKNOWN;
    text_set(r->error, v->error);
    r->failed_us = m->now_us;
}

/* What was parked while it was out stays so. */
static void row_comes_back(struct model_row *r, int number, int64_t due_us)
{
    if (r->due_us != PR_NEVER || number == 0)
        r->due_us = due_us;
    r->held_by[0] = '\0';
}

static void row_dies(struct model *m, struct model_row *r, int cause)
{
    r->place = MODEL_DEAD;
    r->cause = cause;
    r->died_us = m->now_us;
}

static void row_splits(struct model *m, struct model_row *r, const struct verdict *v)
{
    struct model_row whole = *r;
    r->place = MODEL_NOWHERE;
    for (size_t i = 0; i < v->destination_count; i++) {
        struct model_row *part = model_add(m);
        part->id = whole.id;
        text_set(part->destination, v->destinations[i]);
        memcpy(part->stream, whole.stream, sizeof(part->stream));
        memcpy(part->payload, whole.payload, sizeof(part->payload));
        memcpy(part->story, whole.story, sizeof(part->story));
        part->retold = whole.retold;
        part->released = whole.released;
        part->created_us = whole.created_us;
        const bool by_stream = v->holders != NULL && v->holders[i].key.size > 0;
        part->held_for = by_stream ? v->holders[i].held_for : PR_HELD_FOR_ENDPOINT;
        if (by_stream)
            text_set(part->held_by, v->holders[i].key);
        else
            snprintf(part->held_by, sizeof(part->held_by), "%.*s/", SLICE_ARGS(v->destinations[i]));
        part->seq = whole.seq;
        part->status = whole.status;
    }
}

static int64_t due_after(const struct model *m, int64_t delay_us)
{
    return delay_us == PR_NEVER ? PR_NEVER : m->now_us + delay_us;
}

/* Does it end a hand-out by its counters?  When a person began to count anew, it is about the past. */
static bool compares(enum verdict_kind kind)
{
    return kind == VERDICT_FAIL || kind == VERDICT_POSTPONE || kind == VERDICT_ABANDON || kind == VERDICT_PARK ||
           kind == VERDICT_DISCARD || kind == VERDICT_DEAD_LETTER || kind == VERDICT_ASK;
}

/* Does it give a due time, or none for ever, to what was merely read?  What a person parked meanwhile stays theirs. */
static bool is_about_unsent(const struct verdict *v)
{
    bool later = v->kind == VERDICT_FAIL || v->kind == VERDICT_POSTPONE || v->kind == VERDICT_ABANDON;
    return v->number == 0 &&
           (v->kind == VERDICT_PARK || v->kind == VERDICT_ABANDON || (later && v->delay_us == PR_NEVER));
}

static bool is_stale(const struct model_row *r, const struct verdict *v)
{
    return (compares(v->kind) && v->number > 0 && r->attempts != v->number - 1) ||
           (v->kind == VERDICT_RESCHEDULE && r->due_us != v->due_is_us) ||
           (v->kind == VERDICT_HOLD && (r->released || r->due_us == PR_NEVER)) ||
           (is_about_unsent(v) && r->due_us == PR_NEVER); /* none waits for an endpoint */
}

int model_verdict(struct model *m, const struct verdict *v)
{
    struct model_row *r = model_find_row(m, v->row);
    if (r == NULL || !pr_id_equal(r->id, v->id))
        return PR_UNKNOWN;
    if (is_stale(r, v))
        return PR_STALE;

    bool handed_out = v->number > 0;
    bool keeps_bits = v->kind != VERDICT_RETURN && v->kind != VERDICT_ASK && v->kind != VERDICT_RELEASE &&
                      v->kind != VERDICT_HOLD && v->kind != VERDICT_SPLIT;
    if (keeps_bits)
        r->status |= v->bits;
    if (keeps_bits && v->story.size > 0) {
        text_set(r->story, v->story);
        r->retold = false;
    }

    switch (v->kind) {
    case VERDICT_ASK:
    case VERDICT_RETURN: break;
    case VERDICT_COMPLETE:
    case VERDICT_DISCARD:
    case VERDICT_DUPLICATE:
    case VERDICT_EXPIRE: r->place = MODEL_NOWHERE; break;
    case VERDICT_FAIL:
        row_failed(m, r, v);
        r->failures += handed_out;
        r->attempts = handed_out ? v->number : r->attempts;
        row_comes_back(r, v->number, due_after(m, v->delay_us));
        break;
    case VERDICT_POSTPONE:
        row_failed(m, r, v);
        row_comes_back(r, v->number, due_after(m, v->delay_us));
        break;
    case VERDICT_ABANDON:
        r->attempts = handed_out ? v->number : r->attempts;
        row_comes_back(r, v->number, due_after(m, v->delay_us));
        break;
    case VERDICT_PARK:
        if (v->reason != 0) {
            row_failed(m, r, v);
            r->failures += handed_out;
        }
        r->attempts = handed_out ? v->number : r->attempts;
        row_comes_back(r, v->number, PR_NEVER);
        break;
    case VERDICT_RELEASE:
        r->released = true;
        row_comes_back(r, v->number, m->now_us);
        break;
    case VERDICT_HOLD:
        text_set(r->held_by, v->held_by);
        r->held_for = PR_HELD_FOR_STREAM;
        break;
    case VERDICT_RESCHEDULE: row_comes_back(r, 0, v->due_us); break;
    case VERDICT_DEAD_LETTER:
        if (v->reason != 0) {
            r->reason = v->reason;
            text_set(r->error, v->error);
        }
        if (v->counted) {
            r->failures++;
            r->failed_us = m->now_us;
        }
        r->status |= PR_STATUS_FAILED;
        r->attempts = handed_out ? v->number : r->attempts;
        row_dies(m, r, v->cause);
        break;
    case VERDICT_SPLIT: row_splits(m, r, v); break;
    }
    return PR_OK;
}

void model_bury(struct model *m)
{
    for (size_t i = 0; i < m->receipt_count; i++) {
        struct model_row *r = model_find_row(m, m->receipts[i].row);
        if (r != NULL && r->attempts == m->receipts[i].number - 1)
            r->dies = true; /* two receipts of one row count as one */
    }
    for (size_t i = 0; i < m->row_count; i++) {
        m->rows[i].attempts += m->rows[i].dies;
        m->rows[i].retold |= m->rows[i].dies; /* its story says so, too: B47 has its own tests */
        m->rows[i].dies = false;
    }
    m->receipt_count = 0;
    for (size_t i = 0; i < m->row_count; i++)
        m->rows[i].read = 0;
}

/* ---- Operators -------------------------------------------------------------------- */

static void receipts_forget(struct model *m, uint64_t row)
{
    for (size_t i = 0; i < m->receipt_count; i++)
        if (m->receipts[i].row == row)
            m->receipts[i].row = 0;
}

static bool admin_one(struct model *m, struct model_row *r, enum admin_kind kind)
{
    r->retold = true;
    switch (kind) {
    case ADMIN_RETRY:
        r->attempts = r->failures = 0;
        receipts_forget(m, r->row);
        row_comes_back(r, 0, m->now_us);
        return true;
    case ADMIN_PARK: row_comes_back(r, 0, PR_NEVER); return true;
    case ADMIN_DISCARD:
    case ADMIN_DEAD_DISCARD: r->place = MODEL_NOWHERE; return true;
    case ADMIN_DEAD_ADD:
        row_dies(m, r, r->reason != 0 ? r->reason : PR_REASON_REJECTED);
        r->status |= PR_STATUS_FAILED;
        return true;
    case ADMIN_DEAD_REPLAY:
        if (model_find(m, r->id, r->destination, MODEL_IN_BOX) != NULL)
            return false;
        r->place = MODEL_IN_BOX;
        r->attempts = r->failures = 0;
        r->status |= PR_STATUS_FAILED;
        row_comes_back(r, 0, m->now_us);
        r->row = 0; /* the place stays, the row is new */
        return true;
    case ADMIN_RELEASE:
    case ADMIN_DEAD_EDIT:
    case ADMIN_DEAD_NOTE:
    case ADMIN_DEAD_IMPORT:
    case ADMIN_FLOW_CANCEL:
    case ADMIN_FLOW_DELETE:
    case ADMIN_FLOW_PRUNE:
    case ADMIN_FLOW_RESTART:
    case ADMIN_FLOW_RESUME:
    case ADMIN_PAUSE:
    case ADMIN_RESUME:
    case ADMIN_SUBSCRIPTION_RESET:
    case ADMIN_SUBSCRIPTION_REMOVE:
    case ADMIN_ENDPOINT_TEST:
    case ADMIN_REPLAY_STOP:
    case ADMIN_REPLAY_RESUME:
    case ADMIN_RESCHEDULE:
    case ADMIN_SCHEDULE_ADD:
    case ADMIN_SCHEDULE_RUN: break;
    }
    ASSERT(!"the model does not know this action");
    return false;
}

struct admin_reply model_admin(struct model *m, enum admin_kind kind, pr_id id)
{
    struct admin_reply reply = { 0 };
    bool on_dead = kind == ADMIN_DEAD_REPLAY || kind == ADMIN_DEAD_DISCARD;
    for (size_t i = 0; i < m->row_count; i++) {
        struct model_row *r = &m->rows[i];
        if (!pr_id_equal(r->id, id) || r->place != (on_dead ? MODEL_DEAD : MODEL_IN_BOX))
            continue;
        bool changed = admin_one(m, r, kind);
        reply.matched++;
        reply.changed += changed;
        reply.refused += !changed;
    }
    reply.missing = reply.matched == 0;
    return reply;
}

/* ---- Questions -------------------------------------------------------------------- */

bool model_is_fresh(const struct model_row *r)
{
    return r->place == MODEL_IN_BOX && r->due_us == 0 && r->held_by[0] == '\0';
}

bool model_is_due(const struct model *m, const struct model_row *r)
{
    return r->place == MODEL_IN_BOX && r->due_us != 0 && r->due_us <= m->now_us && r->held_by[0] == '\0';
}

enum state model_state(const struct model *m, const struct model_row *r)
{
    for (size_t i = 0; i < m->receipt_count; i++)
        if (m->receipts[i].row == r->row)
            return m->receipts[i].number > r->attempts ? STATE_IN_FLIGHT : STATE_COUNT;
    if (r->due_us == PR_NEVER)
        return STATE_PARKED;
    if (r->held_by[0] != '\0' && r->held_for != PR_HELD_FOR_ENDPOINT)
        return STATE_HELD;
    if (r->due_us > m->now_us)
        return (r->status & PR_STATUS_FAILED) != 0 || r->attempts > 0 ? STATE_RETRYING : STATE_DELAYED;
    return STATE_READY;
}

size_t model_count(const struct model *m, enum model_place place)
{
    size_t count = 0;
    for (size_t i = 0; i < m->row_count; i++)
        count += m->rows[i].place == place;
    return count;
}
