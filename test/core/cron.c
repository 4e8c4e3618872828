/* Cron expressions: their meaning, errors, and their times. */
#include "core/cron.h"

#include <string.h>

#include "base/time.h"
#include "check.h"

static struct cron parsed(const char *text)
{
    struct cron cron;
    struct pr_error error;
    CHECK_OK(cron_parse(pr_str(text), &cron, &error), &error);
    return cron;
}

static int64_t at(const char *text)
{
    int64_t us;
    CHECK_EQ(time_parse_rfc3339(pr_str(text), &us), PR_OK);
    return us;
}

static void check_next(const char *text, const char *zone_name, const char *after, const char *expected)
{
    struct cron cron = parsed(text);
    struct pr_error error;
    const struct zone *zone;
    char found[TIME_TEXT_SIZE], wanted[TIME_TEXT_SIZE];
    if (zone_find(pr_str(zone_name), &zone, &error) != PR_OK)
        SKIP("the time zone files of this system are not installed");
    time_format_rfc3339(cron_next(&cron, zone, at(after)), found);
    time_format_rfc3339(at(expected), wanted);
    CHECK_STR(found, wanted);
}

TEST(the_next_time_is_the_first_one_after_and_never_the_same)
{
    check_next("* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    check_next("* * * * *", "UTC", "2026-01-01T00:00:59.999999Z", "2026-01-01T00:01:00Z");
    check_next("*/15 * * * *", "UTC", "2026-01-01T00:46:00Z", "2026-01-01T01:00:00Z");
    check_next("5/20 * * * *", "UTC", "2026-01-01T00:05:00Z", "2026-01-01T00:25:00Z");
    check_next("5/20 * * * *", "UTC", "2026-01-01T00:46:00Z", "2026-01-01T01:05:00Z");
    check_next("0 3 * * *", "UTC", "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z");
    check_next("0 3 * * *", "UTC", "2026-12-31T03:00:00Z", "2027-01-01T03:00:00Z");
    check_next("0 9-17/4 * * mon-fri", "UTC", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z");
    check_next("0 0 29 feb *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z");
    check_next("0 0 1 3 *", "UTC", "2026-01-15T00:00:00Z", "2026-03-01T00:00:00Z");
    check_next("30 4 1,15 * *", "UTC", "2026-01-02T00:00:00Z", "2026-01-15T04:30:00Z");
    check_next("0 0 * * 7", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z");
    check_next("0 0 * * fri-sun", "UTC", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z");
    check_next("59 23 31 12 *", "UTC", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z");
}

TEST(a_day_that_comes_once_in_decades_comes)
{
    check_next("0 0 29 2 */7", "UTC", "2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z"); /* a Sunday */
    check_next("0 0 29 2 */7", "UTC", "2088-02-29T00:00:00Z", "2128-02-29T00:00:00Z"); /* 2100 has none */
    check_next("0 0 */31 2 1", "UTC", "2027-02-01T00:00:00Z", "2038-02-01T00:00:00Z"); /* 1 February, a Monday */
}

TEST(of_two_days_that_are_both_given_either_is_enough)
{
    check_next("0 0 13 * fri", "UTC", "2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z");
    check_next("0 0 14 * fri", "UTC", "2026-02-13T00:00:00Z", "2026-02-14T00:00:00Z");
    check_next("0 0 */2 * fri", "UTC", "2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"); /* begins with "*": both */
}

TEST(shorthands_stand_for_the_obvious)
{
    check_next("@hourly", "UTC", "2026-02-03T04:05:06Z", "2026-02-03T05:00:00Z");
    check_next("@daily", "UTC", "2026-02-03T04:05:06Z", "2026-02-04T00:00:00Z");
    check_next("@midnight", "UTC", "2026-02-03T04:05:06Z", "2026-02-04T00:00:00Z");
    check_next("@weekly", "UTC", "2026-02-03T04:05:06Z", "2026-02-08T00:00:00Z");
    check_next("@monthly", "UTC", "2026-02-03T04:05:06Z", "2026-03-01T00:00:00Z");
    check_next("@yearly", "UTC", "2026-02-03T04:05:06Z", "2027-01-01T00:00:00Z");
    check_next("@annually", "UTC", "2026-02-03T04:05:06Z", "2027-01-01T00:00:00Z");
}

TEST(a_time_that_the_clock_leaves_out_comes_at_the_change_and_once) /* B211 */
{
    check_next("30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z");
    check_next("30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z");
    check_next("*/15 2 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z");
    check_next("*/15 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z");
}

TEST(a_time_that_the_clock_shows_twice_comes_the_first_time) /* B211 */
{
    check_next("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z");
    check_next("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z");
    check_next("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z");
    check_next("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z");
}

TEST(every_error_names_its_field)
{
    static const struct {
        const char *cron, *part;
    } wrong[] = {
        { "60 * * * *", "minute: \"60\" is not in 0 to 59" },
        { "* 24 * * *", "hour: \"24\"" },
        { "* * 0 * *", "day of month: \"0\" is not in 1 to 31" },
        { "* * * 13 *", "month: \"13\"" },
        { "* * * foo *", "month: \"foo\"" },
        { "* * * * 8", "day of week: \"8\"" },
        { "* * * * 5#2", "day of week: \"5#2\"" },
        { "* * L * *", "day of month: \"L\"" },
        { "5-1 * * * *", "minute: \"5-1\" ends before it begins" },
        { "*/0 * * * *", "minute: \"0\" is not a valid step" },
        { "1,,2 * * * *", "minute: " },
        { "1- * * * *", "minute: " },
        { "* * * *", "day of week is missing" },
        { "* * * * * *", "more than five fields" },
        { "", "empty" },
        { "@never", "@never" },
        { "0 0 30 2 *", "no such day" },
        { "99999999999999999999 * * * *", "minute: " },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct cron cron;
        struct pr_error error;
        CHECK_EQ(cron_parse(pr_str(wrong[i].cron), &cron, &error), PR_EINVAL);
        if (strstr(error.text, wrong[i].part) == NULL)
            check_fail(__FILE__, __LINE__, "\"%s\" is told as: %s", wrong[i].cron, error.text);
    }
}

TEST(times_are_counted_and_the_latest_of_them_found)
{
    struct cron cron = parsed("* * * * *");
    int64_t from = at("2026-01-01T00:00:00Z"), year = at("2027-01-01T00:00:00Z");
    CHECK_EQ(cron_count(&cron, NULL, from, from, 10), 0);
    CHECK_EQ(cron_count(&cron, NULL, from, from + PR_MINUTES(5), 10), 5);
    CHECK_EQ(cron_count(&cron, NULL, from, year, 10), 10);
    CHECK_EQ(cron_latest(&cron, NULL, from, year, 1), year);
    CHECK_EQ(cron_latest(&cron, NULL, from, year - 1, 1), year - PR_MINUTES(1));
    CHECK_EQ(cron_latest(&cron, NULL, from, year, 1000), year - PR_MINUTES(999));
    CHECK_EQ(cron_latest(&cron, NULL, from, from + PR_MINUTES(3), 1000), from + PR_MINUTES(1));
    CHECK_EQ(cron_latest(&cron, NULL, from, from + 1, 1), PR_NEVER);
}
