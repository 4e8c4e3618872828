#include "base/units.h"

#include "base/random.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

static int64_t duration(const char *text)
{
    int64_t us = -1;
    int rc = duration_parse(slice_from(text), &us);
    CHECK_EQ(rc == PR_OK, us != -1); /* untouched on a fault */
    return us;
}

static int64_t size(const char *text)
{
    int64_t bytes = -1;
    int rc = size_parse(slice_from(text), &bytes);
    CHECK_EQ(rc == PR_OK, bytes != -1);
    return bytes;
}

TEST(duration_knows_every_unit)
{
    CHECK_EQ(duration("0"), 0);
    CHECK_EQ(duration("0s"), 0);
    CHECK_EQ(duration("10us"), 10);
    CHECK_EQ(duration("200ms"), 200000);
    CHECK_EQ(duration("30s"), 30000000);
    CHECK_EQ(duration("5m"), 300000000);
    CHECK_EQ(duration("24h"), INT64_C(86400000000));
    CHECK_EQ(duration("7d"), INT64_C(604800000000));
    CHECK_EQ(duration("1h30m"), INT64_C(5400000000));
    CHECK_EQ(duration("1d2h3m4s5ms6us"), INT64_C(93784005006));
    CHECK_EQ(duration("007s"), 7000000);
}

TEST(duration_refuses_what_it_does_not_understand)
{
    static const char *const wrong[] = { "",     " ",   "5",    "s",   "-5s",      "+5s",  "5 s",
                                         " 5s",  "5s ", "1.5s", "5S",  "5sec",     "5mm",  "1m1h",
                                         "1m1m", "1s2", "00",   "5s,", "infinity", "\xff", "1h 30m" };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        CHECK_EQ(duration(wrong[i]), -1);
    int64_t us;
    CHECK_EQ(duration_parse(PR_STR("5\0s"), &us), PR_EINVAL);
}

TEST(duration_refuses_overflow)
{
    CHECK_EQ(duration("9223372036854775807us"), INT64_MAX);
    CHECK_EQ(duration("9223372036854775808us"), -1);
    CHECK_EQ(duration("99999999999999999999us"), -1);
    CHECK_EQ(duration("106751991d"), INT64_C(106751991) * 86400000000);
    CHECK_EQ(duration("106751992d"), -1);
    CHECK_EQ(duration("106751991d24h"), -1);
}

static const char *format(int64_t us)
{
    static char text[DURATION_TEXT_SIZE];
    duration_format(us, text);
    return text;
}

TEST(duration_is_written_for_people)
{
    CHECK_STR(format(0), "0s");
    CHECK_STR(format(90000000), "1m30s");
    CHECK_STR(format(-5000000), "-5s");
    CHECK_STR(format(1), "1us");
    CHECK_STR(format(INT64_C(86400000000)), "1d");
    CHECK_STR(format(INT64_MAX), "infinity");
    CHECK_STR(format(INT64_MAX - 1), "106751991d4h54s775ms806us");
    CHECK_STR(format(INT64_MIN), "-106751991d4h54s775ms808us");
}

TEST(duration_reads_what_it_wrote)
{
    struct random random;
    random_init(&random, 3);
    for (int i = 0; i < 10000; i++) {
        int64_t us = (int64_t)(random_u64(&random) >> (1 + random_below(&random, 63)));
        if (us != INT64_MAX)
            CHECK_EQ(duration(format(us)), us);
    }
}

TEST(size_knows_every_unit)
{
    CHECK_EQ(size("0"), 0);
    CHECK_EQ(size("512"), 512);
    CHECK_EQ(size("512B"), 512);
    CHECK_EQ(size("64KiB"), 65536);
    CHECK_EQ(size("1MiB"), 1 << 20);
    CHECK_EQ(size("1GiB"), 1 << 30);
    CHECK_EQ(size("2TiB"), INT64_C(2) << 40);
    CHECK_EQ(size("10KB"), 10000);
    CHECK_EQ(size("10kB"), 10000);
    CHECK_EQ(size("10MB"), 10000000);
    CHECK_EQ(size("10GB"), INT64_C(10000000000));
    CHECK_EQ(size("1TB"), INT64_C(1000000000000));
    CHECK_EQ(size("9223372036854775807"), INT64_MAX);
}

TEST(size_refuses_nonsense_and_overflow)
{
    static const char *const wrong[] = { "",
                                         "B",
                                         "-1",
                                         "+1",
                                         "1 KiB",
                                         " 1",
                                         "1 ",
                                         "1kib",
                                         "1K",
                                         "1.5MiB",
                                         "1KiB1",
                                         "9223372036854775808",
                                         "9007199254740992KiB",
                                         "0x10" };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        CHECK_EQ(size(wrong[i]), -1);
}

TEST(size_reads_what_it_wrote)
{
    char text[DURATION_TEXT_SIZE];
    size_format(65536, text);
    CHECK_STR(text, "64KiB");
    size_format(0, text);
    CHECK_STR(text, "0B");
    size_format(1500, text);
    CHECK_STR(text, "1500B");
    for (int64_t bytes = 1; bytes < INT64_MAX / 3; bytes *= 2) {
        size_format(bytes, text);
        CHECK_EQ(size(text), bytes);
        size_format(bytes + 1, text);
        CHECK_EQ(size(text), bytes + 1);
    }
}
