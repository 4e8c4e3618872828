/* The ledger of ended messages: the bucket of an id, the verdicts that are ends, and their grouping. */
#include "core/ended.h"

#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "core/id.h"

#define MINUTE_MS INT64_C(60000)
#define START_MS INT64_C(1700000040000) /* the beginning of a minute */

/* A UUIDv7 of this time; number tells those of one time apart. */
static pr_id id_at(int64_t ms, uint8_t number)
{
    const uint8_t random[10] = { [9] = number };
    pr_id id;
    id_make(ms, random, &id);
    return id;
}

static struct ended delivered(pr_id id, const char *endpoint, int attempt)
{
    return (struct ended){ .id = id, .endpoint = slice_from(endpoint), .as = ENDED_DELIVERED, .attempt = attempt };
}

TEST(a_bucket_is_the_minute_that_the_id_tells) /* B89 */
{
    CHECK_EQ(START_MS % MINUTE_MS, 0);
    CHECK_EQ(ended_bucket(id_at(START_MS - 1, 0)), START_MS / MINUTE_MS - 1);
    CHECK_EQ(ended_bucket(id_at(START_MS, 0)), START_MS / MINUTE_MS);
    CHECK_EQ(ended_bucket(id_at(START_MS + MINUTE_MS - 1, 255)), START_MS / MINUTE_MS);
    CHECK_EQ(ended_bucket(id_at((INT64_C(1) << 48) - 1, 0)), ((INT64_C(1) << 48) - 1) / MINUTE_MS);

    pr_id id = id_at(START_MS, 0);
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f)); /* version 4 */
    CHECK_EQ(ended_bucket(id), ENDED_BUCKET_NONE);
    id = id_at(START_MS, 0);
    id.bytes[8] = (uint8_t)(0xc0 | (id.bytes[8] & 0x3f)); /* Microsoft's variant */
    CHECK_EQ(ended_bucket(id), ENDED_BUCKET_NONE);
    CHECK_EQ(ended_bucket((pr_id){ { 0 } }), ENDED_BUCKET_NONE);
}

TEST(only_what_is_delivered_discarded_expired_or_a_duplicate_has_ended) /* B89 */
{
    for (int kind = VERDICT_COMPLETE; kind <= VERDICT_SPLIT; kind++) {
        const struct verdict v = { .kind = (enum verdict_kind)kind,
                                   .id = id_at(START_MS, 1),
                                   .number = 3,
                                   .attempts = 2,
                                   .endpoint = PR_STR("e") };
        struct ended e = { .as = 0 };
        int as = kind == VERDICT_COMPLETE    ? ENDED_DELIVERED
                 : kind == VERDICT_DISCARD   ? ENDED_DISCARDED
                 : kind == VERDICT_EXPIRE    ? ENDED_EXPIRED
                 : kind == VERDICT_DUPLICATE ? ENDED_DUPLICATE
                                             : 0;
        CHECK_EQ(ended_of_verdict(&v, false, &e), as != 0);
        CHECK_EQ(e.as, as);
        if (as == 0)
            continue;
        CHECK(pr_id_equal(e.id, v.id));
        CHECK_SLICE(e.endpoint, "e");
        CHECK_EQ(e.attempt, 3);
        CHECK_EQ(ended_of_verdict(&v, true, &e), as != ENDED_DELIVERED); /* done says it */
    }
}

TEST(what_moves_to_another_endpoint_has_not_ended) /* B89 */
{
    struct ended e;
    CHECK(!ended_of_verdict(&(struct verdict){ .kind = VERDICT_DISCARD, .moved_to = PR_STR("dlq") }, false, &e));
}

TEST(what_expires_unsent_tells_the_attempts_before) /* B89 */
{
    struct ended e;
    CHECK(ended_of_verdict(&(struct verdict){ .kind = VERDICT_EXPIRE, .attempts = 2 }, false, &e));
    CHECK_EQ(e.attempt, 2);
}

TEST(only_verdicts_that_were_applied_are_ends) /* B89 */
{
    const struct verdict verdicts[] = { { .kind = VERDICT_COMPLETE, .id = id_at(START_MS, 1), .number = 1 },
                                        { .kind = VERDICT_COMPLETE, .id = id_at(START_MS, 2), .number = 1 },
                                        { .kind = VERDICT_FAIL, .id = id_at(START_MS, 3), .number = 1 },
                                        { .kind = VERDICT_EXPIRE, .id = id_at(START_MS, 4) } };
    const int answers[] = { PR_UNKNOWN, PR_OK, PR_OK, PR_STALE };
    const struct cycle cycle = { .box = PR_STR("outbox"), .verdicts = verdicts, .verdict_count = 4 };
    struct arena arena;
    size_t count;
    arena_init(&arena, 4096);
    const struct ended *list = ended_of_cycle(&cycle, answers, NULL, &arena, &count);
    CHECK(list != NULL);
    CHECK_EQ(count, 1);
    CHECK(pr_id_equal(list[0].id, verdicts[1].id));
    CHECK_SLICE(list[0].box, "outbox");
    arena_fini(&arena);
}

TEST(what_ended_in_the_same_way_is_one_entry) /* B89 */
{
    const int64_t later = START_MS + MINUTE_MS;
    struct ended list[] = {
        delivered(id_at(START_MS, 1), "a", 1), delivered(id_at(START_MS, 2), "b", 1),
        delivered(id_at(START_MS, 3), "a", 1), delivered(id_at(later, 4), "a", 1),
        delivered(id_at(START_MS, 5), "a", 2), delivered(id_at(START_MS, 6), "a", 1),
        delivered(id_at(START_MS, 7), "a", 1), delivered(id_at(later, 8), "a", 1),
        delivered(id_at(START_MS, 9), "a", 1),
    };
    static const char *const wanted[] = { "a1:136", "b1:2", "a1:48", "a2:5", "a1:7", "a1:9" };
    struct arena arena;
    size_t count;
    list[6].as = ENDED_EXPIRED;
    list[8].box = PR_STR("other");
    arena_init(&arena, 4096);
    const struct ended_entry *entries = ended_group(list, ARRAY_LENGTH(list), &arena, &count);
    CHECK(entries != NULL);
    CHECK_EQ(count, ARRAY_LENGTH(wanted));
    for (size_t i = 0; i < count; i++) {
        char text[32];
        size_t size =
            (size_t)snprintf(text, sizeof text, "%.*s%d:", SLICE_ARGS(entries[i].endpoint), entries[i].attempt);
        for (size_t at = 15; at < entries[i].ids.size; at += 16)
            text[size++] = (char)('0' + entries[i].ids.data[at]);
        text[size] = '\0';
        CHECK_STR(text, wanted[i]);
        CHECK_EQ(entries[i].ids.size % 16, 0);
    }
    CHECK_EQ(entries[0].bucket, START_MS / MINUTE_MS);
    CHECK_EQ(entries[2].bucket, later / MINUTE_MS);
    CHECK_EQ(entries[4].as, ENDED_EXPIRED);
    CHECK_SLICE(entries[5].box, "other");
    arena_fini(&arena);
}

TEST(many_that_ended_in_as_many_ways_are_all_there) /* B89 */
{
    static struct ended list[1000];
    struct arena arena;
    size_t count;
    for (size_t i = 0; i < ARRAY_LENGTH(list); i++)
        list[i] = delivered(id_at(START_MS + (int64_t)(i % 250) * MINUTE_MS, (uint8_t)(i / 250)), "e", 1);
    arena_init(&arena, 4096);
    const struct ended_entry *entries = ended_group(list, ARRAY_LENGTH(list), &arena, &count);
    CHECK(entries != NULL);
    CHECK_EQ(count, 250);
    for (size_t i = 0; i < ARRAY_LENGTH(list); i++)
        CHECK(ended_holds(entries[i % 250].ids, list[i].id));
    CHECK(!ended_holds(entries[0].ids, list[1].id));
    arena_fini(&arena);
}

/* The second half of one and the first half of the next. */
TEST(bytes_across_two_ids_are_no_id) /* B89 */
{
    pr_id ids[2] = { id_at(START_MS, 1), id_at(START_MS, 2) }, across;
    const pr_slice bytes = { (const char *)ids, sizeof ids };
    memcpy(across.bytes, bytes.data + 8, sizeof across.bytes);
    CHECK(!ended_holds(bytes, across));
    CHECK(ended_holds(bytes, ids[0]));
    CHECK(ended_holds(bytes, ids[1]));
    CHECK(!ended_holds((pr_slice){ bytes.data, 16 }, ids[1]));
}

TEST(the_words_of_an_end_are_read_as_they_are_written) /* B89 */
{
    static const int all[] = { ENDED_DELIVERED, ENDED_DISCARDED, ENDED_EXPIRED, ENDED_DUPLICATE };
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        CHECK_EQ(ended_parse(slice_from(ended_name(all[i]))), all[i]);
    CHECK_STR(ended_name(ENDED_BY_PERSON), "discarded");
    CHECK(ended_name(0) == NULL);
    CHECK(ended_name(99) == NULL);
    CHECK_EQ(ended_parse(PR_STR("done")), 0);
}
