/* Which rows a filter matches, and the state in which people see them. */
#include "core/fingerprint.h"
#include "store/memory/memory_model.h"

/* Marks rows that are out right now: on an open receipt, and without a verdict since. */
static void handed_out_mark_receipt(struct box *box, const struct stored_instance *instance,
                                    const struct stored_receipt *receipt)
{
    for (size_t i = 0; i < receipt->count; i++) {
        struct stored_row *row = row_find(box, receipt->entries[i].row);
        if (row == NULL || row->m.attempts >= receipt->entries[i].number)
            continue;
        row->in_flight = instance;
        row->handed_out_stamp = box->memory->handed_out_stamp;
    }
}

void handed_out_mark(struct memory *memory)
{
    memory->handed_out_stamp++;
    list_foreach(box_node, &memory->boxes) {
        struct box *box = LIST_ENTRY(box_node, struct box, node);
        list_foreach(instance_node, &box->instances) {
            struct stored_instance *instance = LIST_ENTRY(instance_node, struct stored_instance, node);
            list_foreach(node, &instance->receipts)
                handed_out_mark_receipt(box, instance, LIST_ENTRY(node, struct stored_receipt, node));
        }
    }
}

pr_slice row_endpoint(const struct stored_row *row)
{
    return row->after != NULL && row->after->endpoint.size > 0 ? row->after->endpoint : row->m.destination;
}

enum state row_state(const struct memory *memory, const struct stored_row *row, const struct filter *filter,
                     int64_t now_us)
{
    if (row->after != NULL)
        return row->after->forget_us != 0 ? STATE_DONE : STATE_DEAD;
    if (row->handed_out_stamp == memory->handed_out_stamp)
        return STATE_IN_FLIGHT;
    enum state state = state_of_row(&row->m, now_us);
    bool may_wait = state == STATE_READY || state == STATE_RETRYING;
    return may_wait && endpoint_is_paused(memory, filter_endpoint_of(filter, box_name(row->box), &row->m), now_us)
               ? STATE_PAUSED
               : state;
}

static bool filter_has_id(const struct filter *filter, pr_id id)
{
    for (size_t i = 0; i < filter->id_count; i++)
        if (pr_id_equal(filter->ids[i], id))
            return true;
    return filter->id_count == 0;
}

static bool filter_fits_fingerprint(const struct filter *filter, const struct stored_row *row)
{
    if (filter->fingerprint.size == 0)
        return true;
    if (row->after != NULL)
        return slice_eq_cstr(filter->fingerprint, row->after->fingerprint);
    if (row->m.reason == 0)
        return false;
    char text[FINGERPRINT_SIZE];
    fingerprint(filter_endpoint_of(filter, box_name(row->box), &row->m), row->m.type, row->m.reason, row->m.error,
                text);
    return slice_eq_cstr(filter->fingerprint, text);
}

/* A dead letter matches by its cause, and by its last reason (D6). */
static bool filter_fits_reason(const struct filter *filter, const struct stored_row *row)
{
    return filter->reason == 0 || filter->reason == row->m.reason ||
           (row->after != NULL && filter->reason == row->after->cause);
}

static bool filter_fits_way(const struct filter *filter, const struct stored_row *row)
{
    return row->after == NULL ? filter_fits_endpoint(filter, box_name(row->box), &row->m)
                              : filter->endpoint.size == 0 || slice_eq(filter->endpoint, row_endpoint(row));
}

/* A letter that a person made dead has the reason in its note. */
static bool filter_fits_error(const struct filter *filter, const struct stored_row *row)
{
    return filter->error.size == 0 || slice_contains(row->m.error, filter->error) ||
           (row->after != NULL && slice_contains(row->after->note, filter->error));
}

bool filter_matches(const struct filter *filter, const struct stored_row *row, enum state state)
{
    const struct pr_message *m = &row->m;
    int64_t at_us = row->after != NULL ? row->after->at_us : m->created_us;

    return (filter->row == 0 || filter->row == row->row) &&
           (filter->newest_row == 0 || row->row <= filter->newest_row) &&
           (filter->state < 0 || filter->state == (int)state) && filter_fits_reason(filter, row) &&
           (filter->since_us == 0 || at_us >= filter->since_us) &&
           (filter->until_us == 0 || at_us < filter->until_us) &&
           (filter->box.size == 0 || slice_eq(filter->box, box_name(row->box))) && filter_fits_way(filter, row) &&
           (filter->stream.size == 0 || slice_eq(filter->stream, m->stream)) &&
           (filter->type.size == 0 || slice_glob(filter->type, m->type)) &&
           (filter->correlation_id.size == 0 || slice_eq(filter->correlation_id, m->correlation_id)) &&
           filter_fits_error(filter, row) && filter_fits_fingerprint(filter, row) && filter_has_id(filter, m->id);
}
