#include "base/time.h"

#include <stdio.h>
#include <time.h>

#include "base/random.h"
#include "base/slice.h"
#include "base/util.h"
#include "check.h"

static const char *format(int64_t us)
{
    static char text[TIME_TEXT_SIZE];
    time_format_rfc3339(us, text);
    return text;
}

static int64_t parse(const char *text)
{
    int64_t us = -12345;
    if (time_parse_rfc3339(slice_from(text), &us) != PR_OK)
        CHECK_EQ(us, -12345);
    return us;
}

TEST(time_is_written_in_utc_with_microseconds)
{
    CHECK_STR(format(0), "1970-01-01T00:00:00.000000Z");
    CHECK_STR(format(1), "1970-01-01T00:00:00.000001Z");
    CHECK_STR(format(-1), "1969-12-31T23:59:59.999999Z");
    CHECK_STR(format(INT64_C(1709208000000000)), "2024-02-29T12:00:00.000000Z");
    CHECK_STR(format(INT64_C(951782400000000)), "2000-02-29T00:00:00.000000Z");
    CHECK_STR(format(INT64_C(253402300799999999)), "9999-12-31T23:59:59.999999Z");
}

TEST(time_beyond_four_digits_still_fits)
{
    CHECK_STR(format(INT64_MAX), "infinity");
    CHECK_STR(format(INT64_MAX - 1), "+294247-01-10T04:00:54.775806Z");
    CHECK_STR(format(INT64_MIN), "-290308-12-21T19:59:05.224192Z");
    CHECK_STR(format(INT64_C(253402300800000000)), "+10000-01-01T00:00:00.000000Z");
}

TEST(time_agrees_with_the_c_library_on_every_kind_of_day)
{
    struct random random;
    random_init(&random, 5);
    for (int i = 0; i < 20000; i++) {
        /* Years 0 to 9999. */
        int64_t seconds = random_between(&random, INT64_C(-62167219200), INT64_C(253402300799));
        time_t t = (time_t)seconds;
        struct tm tm;
        CHECK(gmtime_r(&t, &tm) != NULL);
        char expected[64];
        snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.000042Z", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        CHECK_STR(format(seconds * 1000000 + 42), expected);
        CHECK_EQ(parse(expected), seconds * 1000000 + 42);
    }
}

TEST(time_reads_fractions_and_offsets)
{
    CHECK_EQ(parse("1970-01-01T00:00:00Z"), 0);
    CHECK_EQ(parse("1970-01-01T00:00:00.5Z"), 500000);
    CHECK_EQ(parse("1970-01-01T00:00:00.123456789Z"), 123456);
    CHECK_EQ(parse("1970-01-01T02:00:00+02:00"), 0);
    CHECK_EQ(parse("1969-12-31T18:30:00-05:30"), 0);
    CHECK_EQ(parse("1970-01-01T00:00:00-00:00"), 0);
    CHECK_EQ(parse("0000-01-01T00:00:00Z"), INT64_C(-62167219200000000));
    CHECK_EQ(parse("infinity"), INT64_MAX);
}

TEST(time_is_strict)
{
    static const char *const wrong[] = {
        "",
        "1970",
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-01-01 00:00:00Z",
        "1970-01-01t00:00:00Z",
        "1970-01-01T00:00:00z",
        "1970-01-01T00:00Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00.1234567890Z",
        "1970-00-01T00:00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-01-32T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1970-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:60Z",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+00:60",
        "1970-01-01T00:00:00+0000",
        "1970-01-01T00:00:00+00",
        "1970-01-01T00:00:00Z ",
        " 1970-01-01T00:00:00Z",
        "+1970-01-01T00:00:00Z",
        "1970-1-1T00:00:00Z",
        "Infinity",
        "-infinity",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        if (parse(wrong[i]) != -12345)
            CHECK_STR(wrong[i], "refused");
}

TEST(time_refuses_every_text_that_is_cut_short)
{
    const char *whole = "2024-02-29T12:34:56.789+01:00";
    for (size_t size = 0; size < 29; size++) {
        int64_t us;
        if (time_parse_rfc3339(PR_BYTES(whole, size), &us) != PR_EINVAL)
            CHECK_EQ(size, 29);
    }
    CHECK_EQ(parse(whole), INT64_C(1709206496789000));
}

TEST(time_stays_at_the_ends_of_its_range)
{
    CHECK_EQ(time_add(1, 2), 3);
    CHECK_EQ(time_add(INT64_MAX, 1), INT64_MAX);
    CHECK_EQ(time_add(INT64_MAX, -1), INT64_MAX - 1);
    CHECK_EQ(time_add(INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(time_sub(INT64_MIN, 1), INT64_MIN);
    CHECK_EQ(time_sub(0, INT64_MIN), INT64_MAX);
    CHECK_EQ(time_sub(5, 7), -2);
    CHECK_EQ(time_mul(INT64_MAX, 2), INT64_MAX);
    CHECK_EQ(time_mul(INT64_MAX, -2), INT64_MIN);
    CHECK_EQ(time_mul(INT64_MIN, -1), INT64_MAX);
    CHECK_EQ(time_mul(-3, 4), -12);
}

TEST(time_of_the_system_moves_forward)
{
    const struct clock *clock = clock_system();
    CHECK(clock_wall_us(clock) > INT64_C(1600000000000000)); /* after 2020 */
    int64_t before = clock_mono_us(clock);
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock_mono_us(clock);
        CHECK(now >= before);
        before = now;
    }
}

static int64_t fixed(void *arg)
{
    return *(int64_t *)arg;
}

TEST(time_can_come_from_anywhere)
{
    int64_t now = 77;
    struct clock clock = { .wall_us = fixed, .mono_us = fixed, .arg = &now };
    CHECK_EQ(clock_wall_us(&clock), 77);
    now++;
    CHECK_EQ(clock_mono_us(&clock), 78);
}
