#include "ops/change.h"

#include "base/error.h"
#include "base/slice.h"

#define BOX_STEP_ROWS 1000   /* a quarter of a second on PostgreSQL */
#define DEAD_STEP_ROWS 10000 /* other transactions do not wait for these */

static bool has_rows(const struct box_counts *b)
{
    return b->ready + b->in_flight + b->delayed + b->retrying + b->held + b->parked + b->paused > 0;
}

/* Everything that matches the order in one box, or among the dead letters. */
static int change_steps(struct store *store, struct admin order, struct admin_reply *sum, struct pr_error *reterr)
{
    struct admin_reply reply = { .more = true };
    while (reply.more) {
        reply = (struct admin_reply){ 0 };
        int rc = store_admin(store, &order, &reply, reterr);
        if (rc < 0)
            return rc;
        sum->matched += reply.matched;
        sum->changed += reply.changed;
        sum->refused += reply.refused;
        order.filter.after = reply.last_row;
        if (order.filter.newest_row == 0)
            order.filter.newest_row = reply.newest_row; /* letters that die meanwhile are excluded */
    }
    return PR_OK;
}

static int change_boxes(struct store *store, const struct admin *admin, struct admin_reply *sum,
                        struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_BOXES, .filter.state = -1 };
    struct query_reply boxes = { 0 };
    struct arena arena;
    struct admin order = *admin;
    order.filter.limit = BOX_STEP_ROWS;
    if (order.filter.box.size > 0)
        return change_steps(store, order, sum, reterr);
    arena_init(&arena, 4096);
    int rc = store_query(store, &query, &arena, &boxes, reterr);
    size_t done = 0;
    for (size_t i = 0; i < boxes.box_count && rc == PR_OK; i++) {
        if (!has_rows(&boxes.boxes[i]))
            continue;
        order.filter.box = boxes.boxes[i].name;
        rc = change_steps(store, order, sum, reterr);
        done++;
    }
    arena_fini(&arena);
    if (rc == PR_OK && done == 0) /* the attempt is recorded even without a match */
        rc = store_admin(store, admin, sum, reterr);
    return rc;
}

int change_run(struct store *store, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    const enum action_steps steps = action_of(admin->kind)->steps;
    *ret_reply = (struct admin_reply){ 0 };
    if (admin->dry_run || admin->filter.id_count > 0 || admin->filter.limit > 0 || filter_is_empty(&admin->filter) ||
        steps == STEPS_NONE)
        return store_admin(store, admin, ret_reply, reterr);
    /* Messages sent meanwhile may match, too; their time is the sender's, and cannot exclude them. */
    if (steps == STEPS_BOX)
        return change_boxes(store, admin, ret_reply, reterr);
    struct admin order = *admin;
    order.filter.limit = DEAD_STEP_ROWS;
    return change_steps(store, order, ret_reply, reterr);
}

int change_check_edit(const struct dead_edit *edit, size_t payload_max, struct pr_error *reterr)
{
    static const pr_slice none;
    const struct pr_message m = {
        .type = edit->type != NULL ? *edit->type : PR_STR("edited"), /* or it keeps its own */
        .payload = edit->payload != NULL ? *edit->payload : none,
        .headers = edit->headers != NULL ? *edit->headers : none,
        .destination = edit->destination != NULL ? *edit->destination : none,
    };
    return message_check(&m, payload_max, reterr);
}
