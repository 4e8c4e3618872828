#include "ops/replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "base/util.h"

#define STEP_ROWS 10000 /* in one transaction */
#define CANARY_PAGE 100 /* dead letters to choose from, at a time */
#define LOOK_EVERY_US PR_MILLISECONDS(100)

bool replay_rate_parse(pr_slice text, uint64_t *ret)
{
    uint64_t rate = 0;
    if (slice_ends_with(text, PR_STR("/s")))
        text.size -= 2;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || rate > REPLAY_RATE_MAX)
            return false;
        rate = rate * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret = rate;
    return rate > 0 && rate <= REPLAY_RATE_MAX;
}

void replay_begin(struct replay *r)
{
    r->state = r->canary > 0 ? REPLAY_CANARY : REPLAY_REST;
}

void replay_fini(struct replay *r)
{
    free(r->canaries);
    free(r->lost);
    r->canaries = r->lost = NULL;
    r->lost_count = 0;
}

bool replay_has_ended(const struct replay *r)
{
    return r->state == REPLAY_DONE || r->state == REPLAY_FAILED;
}

void replay_again(struct replay *r)
{
    if (r->state == REPLAY_WATCH || r->state == REPLAY_FAILED)
        r->state = REPLAY_CANARY;
    r->why[0] = '\0';
}

/* One transaction. */
static int replay_some(struct replay *r, struct store *store, const struct filter *filter, struct admin_reply *ret,
                       struct pr_error *reterr)
{
    struct admin order = r->order;
    order.filter = *filter;
    int rc = store_admin(store, &order, ret, reterr);
    if (rc < 0)
        return rc;
    if (r->order.filter.newest_row == 0) /* the first step records which letters existed */
        r->order.filter.newest_row = ret->newest_row;
    r->sum.matched += ret->matched;
    r->sum.changed += ret->changed;
    r->sum.refused += ret->refused;
    r->sum.handled += ret->handled;
    if (r->sum.handled_us == 0)
        r->sum.handled_us = ret->handled_us;
    return PR_OK;
}

/* ---- The canary ------------------------------------------------------------------------------- */

/* Chooses the first letters that would be replayed.  Corrected letters stay where they are: they are skipped, however
 * many there are. */
static int canary_choose(struct replay *r, struct store *store, struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_DEAD, .filter = r->order.filter, .brief = true };
    struct query_reply found = { .more = true };
    struct arena arena;
    int rc = PR_OK;
    free(r->canaries);
    r->canaries = calloc(r->canary, sizeof(r->canaries[0]));
    r->canary_count = r->canary_passed = 0;
    if (r->canaries == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the canaries");
    query.filter.limit = max_size(r->canary, CANARY_PAGE);
    arena_init(&arena, 16384);
    while (rc == PR_OK && found.more && r->canary_count < r->canary) {
        arena_reset(&arena);
        rc = store_query(store, &query, &arena, &found, reterr);
        for (size_t i = 0; rc == PR_OK && i < found.listed_count && r->canary_count < r->canary; i++) {
            query.filter.after = found.listed[i].row;
            if (pr_id_is_zero(found.listed[i].edited_as))
                r->canaries[r->canary_count++] = found.listed[i].m.id;
        }
    }
    arena_fini(&arena);
    return rc;
}

static int canary_lose(struct replay *r, pr_id canary, struct pr_error *reterr)
{
    pr_id *more = realloc(r->lost, (r->lost_count + 1) * sizeof(more[0]));
    if (more == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the canaries");
    r->lost = more;
    r->lost[r->lost_count++] = canary;
    return PR_OK;
}

enum canary_fate { FATE_WAITS, FATE_PASSED, FATE_FAILED };

/* A canary that has died since `row` died again. */
static int canary_look(struct store *store, pr_id id, uint64_t row, enum canary_fate *ret, struct pr_error *reterr)
{
    struct arena arena;
    struct query query = { .kind = QUERY_ID, .filter = { .state = -1, .ids = &id, .id_count = 1 } };
    struct query_reply reply;
    arena_init(&arena, 4096);
    int rc = store_query(store, &query, &arena, &reply, reterr);
    *ret = FATE_PASSED; /* gone, or done */
    for (size_t i = 0; rc == PR_OK && i < reply.listed_count; i++) {
        const struct listed *l = &reply.listed[i];
        bool dead = l->state == STATE_DEAD;
        if (dead ? l->row > row : l->state != STATE_DONE && l->m.failures > 0)
            *ret = FATE_FAILED;
        else if (!dead && l->state != STATE_DONE && *ret == FATE_PASSED)
            *ret = FATE_WAITS;
    }
    arena_fini(&arena);
    return rc;
}

/* All have been replayed.  A replay that was resumed after a canary had failed is complete only when that one was
 * delivered, too, and can be resumed until then. */
static int finish(struct replay *r, struct store *store, struct pr_error *reterr)
{
    char id[PR_ID_TEXT_SIZE];
    enum canary_fate fate = FATE_PASSED;
    size_t i;
    for (i = 0; i < r->lost_count; i++) {
        int rc = canary_look(store, r->lost[i], r->order.filter.newest_row, &fate, reterr);
        if (rc < 0)
            return rc;
        if (fate != FATE_PASSED)
            break;
    }
    r->state = fate == FATE_PASSED ? REPLAY_DONE : REPLAY_FAILED;
    if (r->state == REPLAY_DONE)
        return PR_OK;
    pr_id_format(r->lost[i], id);
    (void)snprintf(r->why, sizeof r->why,
                   "the canary %s %s, and no other dead letter is left to replay; postrider why %s", id,
                   fate == FATE_FAILED ? "failed again" : "has not been delivered yet", id);
    return PR_OK;
}

/* No letter could go first, so none is replayed: later ones would have had no canary. */
static int canary_found_none(struct replay *r, struct store *store, struct pr_error *reterr)
{
    const struct admin_reply nothing = { 0 };
    struct admin_reply reply;
    struct admin order = r->order;
    order.outcome = &nothing;
    int rc = store_admin(store, &order, &reply, reterr);
    if (rc == PR_OK)
        r->state = REPLAY_DONE;
    return rc;
}

static int canary_send(struct replay *r, struct store *store, int64_t now_us, struct pr_error *reterr)
{
    struct admin_reply reply = { 0 };
    int rc = canary_choose(r, store, reterr);
    if (rc < 0)
        return rc;
    if (r->canary_count == 0 && r->lost_count > 0)
        return finish(r, store, reterr);
    if (r->canary_count == 0)
        return canary_found_none(r, store, reterr);
    /* With the rest of the filter: the same id may have died at other endpoints, too. */
    struct filter these = r->order.filter;
    these.ids = r->canaries;
    these.id_count = r->canary_count;
    these.limit = these.after = 0;
    rc = replay_some(r, store, &these, &reply, reterr);
    if (rc < 0)
        return rc;
    r->canary_row = reply.newest_row;
    r->watch_end_us = time_add(now_us, r->canary_wait_us);
    r->state = reply.refused > 0 ? REPLAY_FAILED : reply.changed > 0 ? REPLAY_WATCH : REPLAY_CANARY;
    if (r->state == REPLAY_FAILED)
        (void)snprintf(r->why, sizeof r->why, "a canary cannot be replayed: %s",
                       reply.handled > 0 ? "its message was handled meanwhile; use another filter, or again"
                                         : "the box has a newer message with its id; use another filter");
    return PR_OK;
}

/* Until all are delivered, one has failed, or the time is over. */
static int canary_watch(struct replay *r, struct store *store, int64_t now_us, struct pr_error *reterr)
{
    char id[PR_ID_TEXT_SIZE], span[DURATION_TEXT_SIZE];
    for (enum canary_fate fate = FATE_PASSED; fate == FATE_PASSED && r->canary_passed < r->canary_count;) {
        pr_id canary = r->canaries[r->canary_passed];
        int rc = canary_look(store, canary, r->canary_row, &fate, reterr);
        if (rc < 0)
            return rc;
        r->canary_passed += fate == FATE_PASSED;
        if (fate == FATE_PASSED || (fate == FATE_WAITS && now_us < r->watch_end_us))
            continue;
        rc = canary_lose(r, canary, reterr);
        if (rc < 0)
            return rc;
        r->state = REPLAY_FAILED;
        pr_id_format(canary, id);
        duration_format(r->canary_wait_us, span);
        (void)snprintf(
            r->why, sizeof r->why, "the canary %s %s%s: the other dead letters were not replayed; postrider why %s", id,
            fate == FATE_FAILED ? "failed again" : "was not delivered within ", fate == FATE_FAILED ? "" : span, id);
    }
    if (r->canary_passed == r->canary_count)
        r->state = REPLAY_REST;
    return PR_OK;
}

/* ---- The others ------------------------------------------------------------------------------- */

/* With a rate, as many as fit into a second; time lost in an outage is not made up for. */
static int rest_step(struct replay *r, struct store *store, int64_t now_us, int64_t *ret_next_us,
                     struct pr_error *reterr)
{
    struct admin_reply reply = { 0 };
    struct filter these = r->order.filter;
    these.limit = r->rate > 0 ? min_size((size_t)r->rate, STEP_ROWS) : STEP_ROWS;
    int rc = replay_some(r, store, &these, &reply, reterr);
    if (rc < 0)
        return rc;
    r->order.filter.after = reply.last_row;
    if (!reply.more)
        return finish(r, store, reterr);
    if (r->rate > 0)
        *ret_next_us = time_add(now_us, (int64_t)(reply.changed * PR_SECONDS(1) / r->rate));
    return PR_OK;
}

int replay_step(struct replay *r, struct store *store, int64_t now_us, int64_t *ret_next_us, struct pr_error *reterr)
{
    int rc = PR_OK;
    *ret_next_us = now_us;
    switch (r->state) {
    case REPLAY_CANARY: rc = canary_send(r, store, now_us, reterr); break;
    case REPLAY_WATCH:
        rc = canary_watch(r, store, now_us, reterr);
        if (r->state == REPLAY_WATCH)
            *ret_next_us = time_add(now_us, LOOK_EVERY_US);
        break;
    case REPLAY_REST: rc = rest_step(r, store, now_us, ret_next_us, reterr); break;
    case REPLAY_DONE:
    case REPLAY_FAILED: break;
    }
    return rc;
}
