/* Ids. */
#include "core/id.h"

#include <pthread.h>
#include <string.h>

#include "check.h"

static pr_id id_of(const char *text)
{
    pr_id id;
    CHECK_EQ(pr_id_parse(pr_str(text), &id), PR_OK);
    return id;
}

TEST(an_id_is_a_uuid_of_version_7_with_its_milliseconds_in_front)
{
    static const uint8_t ones[10] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    static const uint8_t zeros[10];
    char text[PR_ID_TEXT_SIZE];
    pr_id id;
    id_make(0x0123456789ab, zeros, &id);
    pr_id_format(id, text);
    CHECK_STR(text, "01234567-89ab-7000-8000-000000000000");
    id_make(0x0123456789ab, ones, &id);
    pr_id_format(id, text);
    CHECK_STR(text, "01234567-89ab-7fff-bfff-ffffffffffff");
}

TEST(ids_of_one_process_ascend_and_never_repeat)
{
    pr_id last, next;
    pr_id_new(&last);
    for (int i = 0; i < 20000; i++) { /* far more than there are counter values in a millisecond */
        pr_id_new(&next);
        CHECK(memcmp(last.bytes, next.bytes, sizeof(last.bytes)) < 0);
        CHECK_EQ(next.bytes[6] >> 4, 7);
        CHECK_EQ(next.bytes[8] >> 6, 2);
        last = next;
    }
}

#define THREADS 4
#define IDS_EACH 2000

static void *make_ids(void *arg)
{
    pr_id *ids = arg;
    for (int i = 0; i < IDS_EACH; i++)
        pr_id_new(&ids[i]);
    return NULL;
}

TEST(ids_of_several_threads_ascend_in_each_and_never_repeat)
{
    static pr_id ids[THREADS][IDS_EACH];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK_EQ(pthread_create(&threads[t], NULL, make_ids, ids[t]), 0);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);

    /* All of them ascend, so one merge finds a repetition. */
    size_t at[THREADS] = { 0 };
    pr_id last = { { 0 } };
    for (int n = 0; n < THREADS * IDS_EACH; n++) {
        int lowest = -1;
        for (int t = 0; t < THREADS; t++)
            if (at[t] < IDS_EACH &&
                (lowest < 0 || memcmp(ids[t][at[t]].bytes, ids[lowest][at[lowest]].bytes, sizeof(last.bytes)) < 0))
                lowest = t;
        CHECK(memcmp(last.bytes, ids[lowest][at[lowest]].bytes, sizeof(last.bytes)) < 0);
        last = ids[lowest][at[lowest]++];
    }
}

TEST(an_id_is_written_and_read_back)
{
    pr_id id;
    char text[PR_ID_TEXT_SIZE];
    for (int i = 0; i < 100; i++) {
        pr_id_new(&id);
        pr_id_format(id, text);
        CHECK_EQ(strlen(text), PR_ID_TEXT_SIZE - 1);
        CHECK(pr_id_equal(id_of(text), id));
    }
    CHECK(pr_id_equal(id_of("0190AbCd-EF01-7234-89ab-cdef01234567"), id_of("0190abcd-ef01-7234-89ab-cdef01234567")));
}

TEST(what_is_no_id_is_refused_and_leaves_the_result_alone)
{
    static const char *const wrong[] = {
        "",
        "0190abcd",
        "0190abcd-ef01-7234-89ab-cdef0123456",   /* short */
        "0190abcd-ef01-7234-89ab-cdef012345678", /* long */
        "0190abcdef01-7234-89ab-cdef-01234567",  /* dashes elsewhere */
        "0190abcd-ef01-7234-89ab-cdef0123456g",
        "0190abcd ef01-7234-89ab-cdef01234567",
        "{190abcd-ef01-7234-89ab-cdef0123456}",
    };
    pr_id before = id_of("0190abcd-ef01-7234-89ab-cdef01234567"), id = before;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_EQ(pr_id_parse(pr_str(wrong[i]), &id), PR_EINVAL);
        CHECK(pr_id_equal(id, before));
    }
}

TEST(a_stored_id_is_16_bytes_or_36_characters)
{
    pr_id id = id_of("0190abcd-ef01-7234-89ab-cdef01234567"), read;
    CHECK_EQ(id_from_stored(PR_BYTES((const char *)id.bytes, 16), &read), PR_OK);
    CHECK(pr_id_equal(read, id));
    CHECK_EQ(id_from_stored(PR_STR("0190abcd-ef01-7234-89ab-cdef01234567"), &read), PR_OK);
    CHECK(pr_id_equal(read, id));
    CHECK_EQ(id_from_stored(PR_STR("short"), &read), PR_EINVAL);
    CHECK_EQ(id_from_stored((pr_slice){ NULL, 0 }, &read), PR_EINVAL);
}

TEST(only_the_zero_id_is_zero)
{
    pr_id zero = { { 0 } }, other = zero;
    CHECK(pr_id_is_zero(zero));
    other.bytes[15] = 1;
    CHECK(!pr_id_is_zero(other));
    CHECK(!pr_id_equal(zero, other));
}

TEST(a_name_has_one_id_the_one_that_others_give_it)
{
    pr_id space, id, wanted, other;

    CHECK_EQ(pr_id_parse(PR_STR("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), &space), PR_OK); /* RFC 4122: DNS */
    CHECK_EQ(pr_id_parse(PR_STR("2ed6657d-e927-568b-95e1-2665a8aea6a2"), &wanted), PR_OK);
    id_from_name(space, PR_STR("www.example.com"), &id);
    CHECK(pr_id_equal(id, wanted));
    id_from_name(space, PR_STR("www.example.org"), &other);
    CHECK(!pr_id_equal(other, wanted));
}

TEST(a_position_and_an_id_that_reads_like_it_are_two)
{
    pr_id id, position, again;

    id_from_event(PR_STR("nats:ORDERS"), PR_STR("5"), &id);
    id_from_position(PR_STR("nats:ORDERS"), PR_STR("5"), &position);
    id_from_position(PR_STR("nats:ORDERS"), PR_STR("5"), &again);
    CHECK(!pr_id_equal(id, position));
    CHECK(pr_id_equal(again, position));
    CHECK_EQ(position.bytes[6] >> 4, 8);
}
