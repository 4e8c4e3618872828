/* Dead letters by their fingerprint.  The work is bounded, however many letters there are: it steps from fingerprint to
 * fingerprint through an index, and counts each up to COUNT_EXACT_MAX. */
#include "base/slice.h"
#include "store/people/listing.h"
#include "store/people/question.h"
#include "store/people/ranking.h"

#define GROUP_VALUES 9

/* The values that every statement of groups gets. */
static void group_values(const struct filter *f, int64_t look, struct value ret[GROUP_VALUES])
{
    const struct value values[GROUP_VALUES] = {
        V_TIME(max64(f->since_us, 1)),
        V_TIME(f->until_us != 0 ? f->until_us : PR_NEVER),
        V_TEXT(f->box),
        V_TEXT(f->endpoint),
        V_INT(f->reason),
        V_TEXT(f->error),
        V_TEXT(f->fingerprint),
        V_INT(GROUPS_LOOKED_MAX + 1),
        V_INT(look),
    };
    for (size_t i = 0; i < GROUP_VALUES; i++)
        ret[i] = values[i];
}

/* How many letters of a group are looked at; 0: the index is sufficient. */
static int look_read(struct question *q, int64_t *ret)
{
    const struct filter *f = &q->query->filter;
    struct value values[GROUP_VALUES];
    int64_t count = 0;
    int rc = PR_OK;
    *ret = 0;
    group_values(f, 0, values);
    if (f->error.size > 0) {
        rc = sql_number(q->sql, SQL_dead_any, NO_BOX, VALUES(V_INT(LOOK_MAX + 1)), &count);
        *ret = count > LOOK_MAX && f->fingerprint.size == 0 ? GROUP_LOOK_MAX : LOOK_MAX;
    } else if (f->reason != 0) {
        rc = sql_number(q->sql, SQL_groups_number, NO_BOX, values, GROUP_VALUES, &count);
        *ret = groups_look_of_reason(count);
    }
    return rc;
}

/* Is there a group with more letters than are looked at, even one without a match?  Matches may be among its older
 * letters. */
static int cut_read(struct question *q, const struct value *values, int64_t look)
{
    int64_t cut = 0;
    if (look == 0)
        return PR_OK;
    int rc = sql_number(q->sql, SQL_groups_cut, NO_BOX, values, GROUP_VALUES, &cut);
    q->reply->cut = cut != 0;
    q->reply->looked = (uint64_t)look;
    return rc;
}

static enum sql_statement groups_statement(const struct filter *f)
{
    if (f->error.size > 0)
        return SQL_groups_by_text;
    if (f->reason != 0)
        return SQL_groups_by_reason;
    return f->since_us != 0 || f->until_us != 0 || f->box.size > 0 ? SQL_groups_by_time : SQL_groups;
}

static void group_take(struct question *q, const struct rows *rows, int64_t look)
{
    const struct filter *f = &q->query->filter;
    /* The type is part of the fingerprint, so one letter decides for the group. */
    if (f->type.size > 0 && !slice_glob(f->type, row_text(rows, 3)))
        return;
    q->reply->groups[q->reply->group_count++] = (struct dead_group){
        .fingerprint = question_text(q, rows, 0),
        .box = question_text(q, rows, 1),
        .endpoint = question_text(q, rows, 2),
        .type = question_text(q, rows, 3),
        .error = question_text(q, rows, 4),
        .cause = (int)row_number(rows, 5),
        .reason = (int)row_number(rows, 6),
        .sample = row_id(rows, 7),
        .last_us = row_time(rows, 8),
        .first_us = row_time(rows, 9),
        .count = (uint64_t)min64(row_number(rows, 10), COUNT_EXACT_MAX + 1),
        .partial = row_number(rows, 11) > look,
    };
}

static int letters_of_stream(const void *arg, const struct filter *filter, letter_found found, void *found_arg,
                             uint64_t *ret_cut)
{
    const struct question *q = arg;
    const struct listing listing = {
        .table = LISTING_DEAD, .box = filter->box, .filter = filter, .by_stream = true, .found = found, .arg = found_arg
    };
    return listing_run(q->sql, &q->s, &listing, ret_cut);
}

int question_groups(struct question *q)
{
    const struct filter *f = &q->query->filter;
    struct query_reply *reply = q->reply;
    struct value values[GROUP_VALUES];
    struct rows rows;
    int64_t look = 0;
    if (f->stream.size > 0)
        return groups_of_stream(q->query, reply, q->arena, letters_of_stream, q);
    reply->groups = arena_alloc_array(q->arena, GROUPS_LOOKED_MAX, sizeof(reply->groups[0]));
    int rc = reply->groups != NULL ? look_read(q, &look) : question_no_memory(q);
    if (rc != PR_OK)
        return rc;
    group_values(f, look, values);
    rc = cut_read(q, values, look);
    if (rc != PR_OK)
        return rc;
    rc = sql_run(q->sql, groups_statement(f), NO_BOX, values, GROUP_VALUES, &rows);
    for (size_t looked = 0; rc == PR_OK && (rc = rows_step(&rows)) > 0; looked++) {
        reply->more = looked == GROUPS_LOOKED_MAX;
        if (reply->more)
            break;
        group_take(q, &rows, look);
        rc = PR_OK;
    }
    rows_end(&rows);
    groups_rank(q->query, reply);
    return rc;
}
