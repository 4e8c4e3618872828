/* Writing to the ledger of ended messages (core/ended.h), for cycles and people's orders.
 *
 * It contains only messages that have certainly ended.  In a cycle of one batch the statement follows the deletion,
 * which takes all rows or fails with everything after it.  In other cycles it is composed when the answers to the
 * verdicts are known, and travels with the reads and the commit.  So it takes no round trip of its own. */
#include "core/ended.h"

#include "base/error.h"
#include "store/postgres/postgres.h"

int pg_ended_insert(struct link *link, const struct ended *list, size_t count, pr_slice by, int64_t wall_us,
                    struct array arrays[ENDED_ARRAYS], struct arena *arena)
{
    static const enum oid types[ENDED_ARRAYS] = { OID_INT8, OID_TEXT, OID_TEXT, OID_INT2, OID_INT4, OID_BYTEA };
    struct args args = { .count = 0 };
    size_t entry_count = 0;
    const struct ended_entry *entries = ended_group(list, count, arena, &entry_count);
    if (entries == NULL)
        return PR_ENOMEM;
    for (size_t i = 0; i < ENDED_ARRAYS; i++)
        array_begin(&arrays[i], types[i]);
    for (size_t i = 0; i < entry_count; i++) {
        array_i64(&arrays[0], entries[i].bucket);
        array_text(&arrays[1], entries[i].box);
        array_text(&arrays[2], entries[i].endpoint);
        array_i16(&arrays[3], (int)entries[i].as);
        array_i32(&arrays[4], entries[i].attempt);
        array_bytes(&arrays[5], entries[i].ids);
    }
    arg_time(&args, wall_us);
    arg_text(&args, by);
    for (size_t i = 0; i < ENDED_ARRAYS; i++)
        arg_array(&args, &arrays[i]);
    link_add(link,
             "INSERT INTO {schema}.ended (at, instance, bucket, box, endpoint, outcome, attempt, ids)"
             " SELECT " NOW("$1") ", $2, * FROM unnest($3, $4, $5, $6, $7, $8)",
             NO_BOX, &args, NULL);
    return PR_OK;
}

/* Counts the parts that splits leave out, which the engine does not know. */
static int add_left_out(struct cycle_run *run)
{
    const struct cycle_reply *reply = &run->session->reply;
    size_t count = 0;
    if (ended_part_count(run->cycle) == 0)
        return PR_OK;
    const struct tally *tallies =
        ended_tallies(run->cycle, reply->answers, reply->split_rows, &run->session->arena, &count);
    if (tallies == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu verdicts", run->cycle->verdict_count);
    pg_tallies_add(run, tallies, count);
    return PR_OK;
}

int pg_ended_add(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct pg_session *session = run->session;
    size_t count;
    int rc = add_left_out(run);
    if (rc != PR_OK || c->retention.ended_us == 0 || c->verdict_count == 0)
        return rc;
    const struct ended *list =
        ended_of_cycle(c, session->reply.answers, session->reply.split_rows, &session->arena, &count);
    if (list != NULL && count == 0)
        return PR_OK;
    if (list == NULL || pg_ended_insert(run->link, list, count, c->name, pg_store_wall_us(session->store),
                                        session->arrays, &session->arena) != PR_OK)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for the ledger of %zu verdicts", c->verdict_count);
    return PR_OK;
}
