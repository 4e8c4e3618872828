/* Time zones: files made by the test, and those of the system. */
#include "base/zone.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/time.h"
#include "check.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"

/* A TZif file with one type and no changes: what it says is the rule in its last line. */
static void write_file(struct buf *b, int offset, const char *rule)
{
    static const char counts[24] = { [19] = 1, [23] = 4 };
    const char type[6] = { (char)(offset >> 24), (char)(offset >> 16), (char)(offset >> 8), (char)offset, 0, 0 };
    for (int i = 0; i < 2; i++) {
        buf_add_cstr(b, "TZif2");
        buf_add(b, (const char[15]){ 0 }, 15);
        buf_add(b, counts, sizeof(counts));
        buf_add(b, type, sizeof(type));
        buf_add(b, "STD", 4);
    }
    buf_addf(b, "\n%s\n", rule);
}

static struct zone *zone_of(int offset, const char *rule)
{
    struct buf b;
    struct zone *zone;
    struct pr_error error;
    buf_init(&b, 4096);
    write_file(&b, offset, rule);
    CHECK_OK(zone_parse(buf_slice(&b), &zone, &error), &error);
    buf_fini(&b);
    return zone;
}

static int64_t at(const char *text)
{
    int64_t us;
    CHECK_EQ(time_parse_rfc3339(slice_from(text), &us), PR_OK);
    return us / PR_SECONDS(1);
}

TEST(a_rule_gives_summer_and_winter_time_for_all_years) /* B211 */
{
    struct zone *z = zone_of(3600, BERLIN);
    CHECK_EQ(zone_offset(z, at("2026-01-15T12:00:00Z")), 3600);
    CHECK_EQ(zone_offset(z, at("2026-03-29T00:59:59Z")), 3600);
    CHECK_EQ(zone_offset(z, at("2026-03-29T01:00:00Z")), 7200);
    CHECK_EQ(zone_offset(z, at("2026-10-25T00:59:59Z")), 7200);
    CHECK_EQ(zone_offset(z, at("2026-10-25T01:00:00Z")), 3600);
    CHECK_EQ(zone_offset(z, at("2099-07-01T00:00:00Z")), 7200);
    CHECK_EQ(zone_next_change(z, at("2026-03-29T00:59:59Z")), at("2026-03-29T01:00:00Z"));
    CHECK_EQ(zone_next_change(z, at("2026-03-29T01:00:00Z")), at("2026-10-25T01:00:00Z"));
    zone_free(z);
}

TEST(south_of_the_equator_summer_is_at_the_turn_of_the_year) /* B211 */
{
    struct zone *z = zone_of(36000, "AEST-10AEDT,M10.1.0,M4.1.0/3");
    CHECK_EQ(zone_offset(z, at("2026-01-01T00:00:00Z")), 39600);
    CHECK_EQ(zone_offset(z, at("2025-12-31T20:00:00Z")), 39600);
    CHECK_EQ(zone_offset(z, at("2026-07-01T00:00:00Z")), 36000);
    zone_free(z);
}

TEST(days_of_rules_can_be_counted_in_three_ways) /* B211 */
{
    struct zone *julian = zone_of(0, "AAA0BBB,J60/0,J300/0"), *plain = zone_of(0, "AAA0BBB,59/0,300/0");
    CHECK_EQ(zone_next_change(julian, at("2024-01-01T00:00:00Z")), at("2024-03-01T00:00:00Z"));
    CHECK_EQ(zone_next_change(julian, at("2025-01-01T00:00:00Z")), at("2025-03-01T00:00:00Z"));
    CHECK_EQ(zone_next_change(plain, at("2024-01-01T00:00:00Z")), at("2024-02-29T00:00:00Z"));
    CHECK_EQ(zone_next_change(plain, at("2025-01-01T00:00:00Z")), at("2025-03-01T00:00:00Z"));
    zone_free(julian);
    zone_free(plain);
}

TEST(a_local_time_that_is_left_out_is_at_the_change_and_one_that_comes_twice_is_the_first) /* B211 */
{
    struct zone *z = zone_of(3600, BERLIN);
    CHECK_EQ(zone_first_at(z, at("2026-03-29T01:59:59Z")), at("2026-03-29T00:59:59Z"));
    CHECK_EQ(zone_first_at(z, at("2026-03-29T02:00:00Z")), at("2026-03-29T01:00:00Z"));
    CHECK_EQ(zone_first_at(z, at("2026-03-29T02:30:00Z")), at("2026-03-29T01:00:00Z"));
    CHECK_EQ(zone_first_at(z, at("2026-03-29T03:00:00Z")), at("2026-03-29T01:00:00Z"));
    CHECK_EQ(zone_first_at(z, at("2026-03-29T03:30:00Z")), at("2026-03-29T01:30:00Z"));
    CHECK_EQ(zone_first_at(z, at("2026-10-25T02:30:00Z")), at("2026-10-25T00:30:00Z"));
    CHECK_EQ(zone_first_at(z, at("2026-10-25T03:00:00Z")), at("2026-10-25T02:00:00Z"));
    CHECK_EQ(zone_first_at(NULL, at("2026-10-25T02:30:00Z")), at("2026-10-25T02:30:00Z"));
    zone_free(z);
}

TEST(damaged_zone_files_are_refused_wherever_they_are_cut_or_changed)
{
    struct buf b;
    struct zone *zone;
    struct pr_error error;
    buf_init(&b, 4096);
    write_file(&b, 3600, BERLIN);
    for (size_t size = 0; size < b.size; size++)
        CHECK_EQ(zone_parse(PR_BYTES(b.data, size), &zone, &error), PR_EINVAL);
    for (size_t i = 0; i < b.size; i++)
        for (int bit = 0; bit < 8; bit++) { /* any answer but a crash */
            char before = b.data[i];
            b.data[i] = (char)(before ^ (1 << bit));
            if (zone_parse(buf_slice(&b), &zone, &error) == PR_OK) {
                (void)zone_first_at(zone, at("2026-03-29T02:00:00Z"));
                zone_free(zone);
            }
            b.data[i] = before;
        }
    buf_fini(&b);
}

TEST(zones_are_found_by_their_names_and_no_name_leads_out_of_the_directory)
{
    static const char *const wrong[] = {
        "/etc/passwd",    "../../etc/passwd", "Europe/../Berlin", "a b",
        "Europe/Nowhere", "Europe",           "Europe//Berlin",   "Europe/Berlin/"
    }; /* many names of one would all be kept */
    const struct zone *zone, *again;
    struct pr_error error;
    CHECK_EQ(zone_find(slice_from("UTC"), &zone, &error), PR_OK);
    CHECK(zone == NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_EQ(zone_find(slice_from(wrong[i]), &zone, &error), PR_EINVAL);
        CHECK(strstr(error.text, wrong[i]) != NULL);
    }
    if (zone_find(slice_from("Europe/Berlin"), &zone, &error) != PR_OK)
        SKIP("the time zone files of this system are not installed");
    CHECK_EQ(zone_find(slice_from("Europe/Berlin"), &again, &error), PR_OK);
    CHECK(zone == again);
    CHECK_EQ(zone_first_at(zone, at("2026-03-29T02:30:00Z")), at("2026-03-29T01:00:00Z"));
    CHECK_EQ(zone_first_at(zone, at("1996-10-27T02:30:00Z")), at("1996-10-27T00:30:00Z"));
}
