#include "core/change.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/message.h"
#include "core/story.h"

/* ---- Verdicts ----------------------------------------------------------------------------------- */

/* A verdict about a hand-out is stale when a person has reset the counters since. */
static void guard_hand_out(struct change *c, const struct verdict *v)
{
    if (v->number == 0)
        return;
    c->guards |= GUARD_ATTEMPTS;
    c->attempts_are = v->number - 1;
}

static void count_hand_out(struct change *c, const struct verdict *v, bool failed)
{
    if (v->number == 0)
        return;
    c->sets |= SET_ATTEMPTS | (failed ? ADD_FAILURE : 0);
    c->attempts = v->number;
}

static void set_failure(struct change *c, const struct verdict *v)
{
    c->sets |= SET_REASON | SET_ERROR | SET_FAILED_AT;
    c->bits |= PR_STATUS_FAILED;
    c->reason = v->reason != PR_REASON_NONE ? v->reason : PR_REASON_UNKNOWN; /* D5 */
    c->code = v->code;
    c->error = v->error;
}

/* The row comes back through the due index, unless it was parked while it was handed out. */
static void come_back(struct change *c, const struct verdict *v, int64_t delay_us)
{
    c->sets |= SET_DUE | SET_HELD | (v->number != 0 ? KEEP_PARKED : 0);
    c->delay_us = delay_us;
    if (delay_us == PR_NEVER)
        c->parked_by = v->kind == VERDICT_PARK && v->number == 0 && v->reason == PR_REASON_DESTINATION_MISSING
                           ? PR_PARKED_BY_ROUTE
                           : PR_PARKED_BY_RULE;
}

/* A released row does not block its stream: see message_blocks_stream(). */
static void let_pass(struct change *c, const struct verdict *v)
{
    c->sets |= v->passable ? SET_RELEASED : 0;
}

static void change_of_failure(struct change *c, const struct verdict *v, int64_t delay_us)
{
    set_failure(c, v);
    count_hand_out(c, v, true);
    come_back(c, v, delay_us);
}

static void change_of_death(struct change *c, const struct verdict *v)
{
    c->fate = FATE_DEAD;
    count_hand_out(c, v, false);
    if (v->reason != PR_REASON_NONE)
        set_failure(c, v);
    c->bits |= PR_STATUS_FAILED;
    c->sets = (c->sets & ~(unsigned)SET_FAILED_AT) |
              (v->counted ? SET_FAILED_AT | ADD_FAILURE : 0); /* D6: the time of the real failure stays */
    c->cause = v->cause;
    c->limit = v->limit;
    c->rule = v->rule;
    memcpy(c->fingerprint, v->fingerprint, sizeof(c->fingerprint));
}

/* A row that was only read is parked once; when a person parked it meanwhile, that remains. */
static void guard_merely_read(struct change *c, const struct verdict *v)
{
    if (v->number == 0 && c->delay_us == PR_NEVER)
        c->guards |= GUARD_NOT_PARKED;
}

struct change change_of_verdict(const struct verdict *v, bool keeps)
{
    struct change c = {
        .row = v->row,
        .id = v->id,
        .bits = v->bits,
        .story = v->story,
        .endpoint = v->endpoint,
        .sets = v->story.size > 0 ? SET_STORY : 0,
        .fate = FATE_STAYS,
    };
    switch (v->kind) {
    case VERDICT_COMPLETE:
        c.fate = keeps ? FATE_DONE : FATE_GONE;
        if (v->fenced)
            guard_hand_out(&c, v);
        count_hand_out(&c, v, false);
        break;
    case VERDICT_DISCARD:
        guard_hand_out(&c, v);
        c.fate = FATE_GONE;
        break;
    case VERDICT_DUPLICATE:
    case VERDICT_EXPIRE: c.fate = FATE_GONE; break;
    case VERDICT_ASK:
        guard_hand_out(&c, v);
        c.bits = 0;
        break;
    case VERDICT_FAIL:
        guard_hand_out(&c, v);
        change_of_failure(&c, v, v->delay_us);
        let_pass(&c, v);
        guard_merely_read(&c, v);
        break;
    case VERDICT_POSTPONE:
        guard_hand_out(&c, v);
        c.bits = 0;
        set_failure(&c, v);
        come_back(&c, v, v->delay_us);
        let_pass(&c, v);
        guard_merely_read(&c, v);
        break;
    case VERDICT_ABANDON:
        guard_hand_out(&c, v);
        count_hand_out(&c, v, false);
        come_back(&c, v, v->delay_us);
        guard_merely_read(&c, v);
        if (v->number == 0 && v->delay_us != PR_NEVER)
            c.guards |= GUARD_MAY_UNPARK;
        break;
    case VERDICT_PARK:
        guard_hand_out(&c, v);
        if (v->reason != PR_REASON_NONE)
            change_of_failure(&c, v, PR_NEVER);
        else
            count_hand_out(&c, v, false);
        come_back(&c, v, PR_NEVER);
        guard_merely_read(&c, v);
        break;
    case VERDICT_RELEASE:
        c.bits = 0;
        come_back(&c, v, 0);
        c.sets |= SET_RELEASED;
        break;
    case VERDICT_HOLD:
        c.guards = GUARD_NOT_PARKED | GUARD_NOT_RELEASED; /* a person did so meanwhile */
        c.sets |= SET_HELD;
        c.held_by = v->held_by;
        c.held_for = v->held_for != 0 ? v->held_for : PR_HELD_FOR_STREAM;
        break;
    case VERDICT_RESCHEDULE:
        c.bits = 0;
        c.guards = GUARD_DUE;
        c.due_is_us = v->due_is_us;
        c.sets |= SET_DUE_AT | SET_HELD;
        c.due_us = v->due_us;
        break;
    case VERDICT_DEAD_LETTER:
        guard_hand_out(&c, v);
        change_of_death(&c, v);
        break;
    case VERDICT_SPLIT:
        c.fate = FATE_SPLIT;
        c.destinations = v->destinations;
        c.holders = v->holders;
        c.destination_count = v->destination_count;
        break;
    case VERDICT_RETURN:
        c.bits = 0;
        c.sets = 0;
        break;
    }
    return c;
}

/* ---- Orders ------------------------------------------------------------------------------------- */

void order_texts_init(struct order_texts *texts)
{
    buf_init(&texts->story, STORY_BYTES_MAX);
    buf_init(&texts->note, NOTE_BYTES_MAX);
}

void order_texts_fini(struct order_texts *texts)
{
    buf_fini(&texts->story);
    buf_fini(&texts->note);
}

/* Append a line about the order to the story. */
static void add_story(const struct row_order *o, const struct pr_message *m, int64_t now_us, struct order_texts *texts,
                      struct change *c)
{
    const struct action *action = action_of(o->kind);
    const struct story_line line = {
        .at_us = now_us,
        .attempt = m->attempts,
        .endpoint = m->destination,
        .error = o->why,
        .rule = o->by,
        .step = action->step,
        .next_us = o->kind == ADMIN_RESCHEDULE    ? o->due_us
                   : action->notice == NOTICE_DUE ? now_us
                                                  : 0,
    };
    if (action->step == NULL)
        return;
    story_append(m->story, &line, &texts->story);
    c->story = buf_slice(&texts->story);
    c->sets |= SET_STORY;
}

/* "who: why", or whichever of the two is given (B88). */
static void add_note(const struct row_order *o, struct order_texts *texts, struct change *c)
{
    buf_add_slice(&texts->note, o->by);
    if (o->by.size > 0 && o->why.size > 0)
        buf_add_cstr(&texts->note, ": ");
    buf_add_slice(&texts->note, o->why);
    c->note = buf_slice(&texts->note);
    c->sets |= SET_NOTE;
}

/* The error is that of the latest failure, or else why the person made it dead, so that listings, groups and filters
 * have a text. */
static void die_by_hand(const struct row_order *o, const struct pr_message *m, pr_slice endpoint, struct change *c)
{
    int own = m->reason != PR_REASON_NONE ? m->reason : PR_REASON_REJECTED;
    c->fate = FATE_DEAD;
    c->bits = PR_STATUS_FAILED;
    c->cause = o->cause != 0 ? o->cause : own;
    c->endpoint = endpoint;
    c->rule = o->by;
    c->sets |= SET_ERROR;
    c->error = m->error.size > 0 ? m->error : utf8_cut(o->why, PR_ERROR_MAX);
    fingerprint(endpoint, m->type, c->cause, c->error, c->fingerprint);
}

/* A rule decided before the row was stored. */
static void die_by_verdict(const struct verdict *v, struct change *c)
{
    c->fate = FATE_DEAD;
    c->cause = v->cause;
    c->limit = v->limit;
    c->endpoint = v->endpoint;
    c->rule = v->rule;
    memcpy(c->fingerprint, v->fingerprint, sizeof(c->fingerprint));
}

int change_of_order(const struct row_order *o, const struct pr_message *m, uint64_t row, pr_slice endpoint,
                    int64_t now_us, struct order_texts *texts, struct change *ret)
{
    struct change c = { .row = row, .id = m->id, .fate = FATE_STAYS };
    buf_reset(&texts->story);
    buf_reset(&texts->note);
    if (o->verdict == NULL)
        add_story(o, m, now_us, texts, &c);
    switch (o->kind) {
    case ADMIN_RETRY: c.sets |= SET_NEW_COUNT | SET_DUE | SET_HELD; break;
    case ADMIN_RELEASE: c.sets |= SET_RELEASED | SET_DUE | SET_HELD; break;
    case ADMIN_PARK:
        c.sets |= SET_DUE | SET_HELD;
        c.delay_us = PR_NEVER;
        c.parked_by = PR_PARKED_BY_PERSON;
        break;
    case ADMIN_RESCHEDULE:
        c.sets |= SET_DUE_AT | SET_HELD;
        c.due_us = o->due_us;
        break;
    case ADMIN_DISCARD:
    case ADMIN_DEAD_DISCARD: c.fate = FATE_GONE; break;
    case ADMIN_DEAD_ADD:
        if (o->verdict != NULL) {
            die_by_verdict(o->verdict, &c);
            break;
        }
        add_note(o, texts, &c);
        die_by_hand(o, m, endpoint, &c);
        break;
    case ADMIN_DEAD_REPLAY:
    case ADMIN_DEAD_EDIT:
        c.fate = o->kind == ADMIN_DEAD_REPLAY ? FATE_BACK : FATE_COPIED;
        c.sets |= SET_NEW_COUNT | SET_DUE | SET_HELD;
        c.bits = PR_STATUS_FAILED; /* its followers wait for it (B59) */
        break;
    case ADMIN_DEAD_NOTE: add_note(o, texts, &c); break;
    case ADMIN_DEAD_IMPORT:
    case ADMIN_FLOW_DELETE:
    case ADMIN_FLOW_PRUNE:
    case ADMIN_PAUSE:
    case ADMIN_RESUME:
    case ADMIN_SUBSCRIPTION_RESET:
    case ADMIN_SUBSCRIPTION_REMOVE:
    case ADMIN_ENDPOINT_TEST:
    case ADMIN_REPLAY_STOP:
    case ADMIN_REPLAY_RESUME:
    case ADMIN_SCHEDULE_ADD:
    case ADMIN_SCHEDULE_RUN:
    case ADMIN_FLOW_CANCEL:
    case ADMIN_FLOW_RESTART:
    case ADMIN_FLOW_RESUME: ASSERT(!"an order about rows");
    }
    *ret = c;
    return buf_failed(&texts->story) == PR_OK && buf_failed(&texts->note) == PR_OK ? PR_OK : PR_ENOMEM;
}

/* ---- For stores that look at the row before they write ---------------------------------------------- */

bool change_holds(const struct change *c, const struct pr_message *m)
{
    bool parked = m->due_us == PR_NEVER;
    return !((c->guards & GUARD_ATTEMPTS) != 0 && m->attempts != c->attempts_are) &&
           !((c->guards & GUARD_NOT_PARKED) != 0 && parked) &&
           !((c->guards & GUARD_NOT_RELEASED) != 0 && m->released) &&
           !((c->guards & GUARD_DUE) != 0 && m->due_us != c->due_is_us) &&
           !((c->guards & GUARD_MAY_UNPARK) != 0 && parked && !message_awaits_route(m));
}

/* Does the change set a due time, rather than leave the row parked? */
static bool changes_due(const struct change *c, const struct pr_message *m)
{
    return (c->sets & SET_DUE_AT) != 0 ||
           ((c->sets & SET_DUE) != 0 && !((c->sets & KEEP_PARKED) != 0 && m->due_us == PR_NEVER));
}

int change_parked_by(const struct change *c, const struct pr_message *m)
{
    return changes_due(c, m) ? c->parked_by : m->parked_by;
}

struct part_holder change_part_holder(const struct change *c, size_t part)
{
    ASSERT(part < c->destination_count);
    return c->holders != NULL && c->holders[part].key.size > 0
               ? c->holders[part]
               : (struct part_holder){ .held_for = PR_HELD_FOR_ENDPOINT };
}

int64_t change_due_us(const struct change *c, const struct pr_message *m, int64_t now_us)
{
    if ((c->sets & SET_DUE_AT) != 0)
        return max64(1, c->due_us);
    if (!changes_due(c, m))
        return m->due_us;
    return max64(1, time_add(now_us, c->delay_us));
}

void change_write(const struct change *c, struct pr_message *m, int64_t now_us)
{
    int parked_by = change_parked_by(c, m);

    m->due_us = change_due_us(c, m, now_us);
    m->parked_by = parked_by;
    m->status |= c->bits;
    if ((c->sets & SET_ATTEMPTS) != 0)
        m->attempts = c->attempts;
    if ((c->sets & ADD_FAILURE) != 0)
        m->failures++;
    if ((c->sets & SET_NEW_COUNT) != 0)
        m->attempts = m->failures = 0;
    if ((c->sets & SET_REASON) != 0)
        m->reason = c->reason;
    if ((c->sets & SET_FAILED_AT) != 0)
        m->failed_us = now_us;
    if ((c->sets & SET_RELEASED) != 0)
        m->released = true;
    if ((c->sets & SET_HELD) != 0)
        m->held_for = c->held_for;
}
