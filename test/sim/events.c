/* The checker of event stores: a story with one thing wrong in it must be refused, for the right reason. */
#include <string.h>

#include "check.h"
#include "check_events.h"

static struct event_checker c;
static struct breach breach;

static pr_id id_of(unsigned n)
{
    return (pr_id){ .bytes = { [15] = (uint8_t)n } };
}

/* Two streams, four events, all of them projected. */
static void good_story(void)
{
    event_checker_init(&c, &breach);
    event_told(&c, 1, 0, 1, id_of(1));
    event_told(&c, 2, 1, 1, id_of(2));
    event_told(&c, 3, 0, 2, id_of(3));
    event_projected(&c, 0, 2);
    event_projected(&c, 2, 3);
    event_told(&c, 4, 1, 2, id_of(4));
    event_got(&c, id_of(4), 1, 2);
    event_projected(&c, 3, 4);
    event_told(&c, 2, 1, 1, id_of(2)); /* once more, by another reader */
}

static void ends(const char *invariant)
{
    CHECK_EQ(c.broken, invariant != NULL);
    if (invariant != NULL)
        CHECK_STR(breach.invariant, invariant);
}

TEST(an_event_store_in_which_all_goes_well_is_believed)
{
    good_story();
    for (uint64_t p = 1; p <= 4; p++)
        event_written(&c, p, 1);
    ends(NULL);
}

TEST(a_version_that_is_given_twice_is_found) /* I41, B95 */
{
    good_story();
    event_told(&c, 5, 0, 2, id_of(5));
    ends("I41");
}

TEST(a_version_that_is_left_out_is_found) /* I41, B95 */
{
    good_story();
    event_told(&c, 5, 0, 4, id_of(5));
    ends("I41");
}

TEST(an_event_that_is_stored_twice_is_found) /* I41, B95 */
{
    good_story();
    event_told(&c, 5, 0, 3, id_of(3));
    ends("I41");
}

TEST(a_place_that_changes_is_found) /* I42 */
{
    good_story();
    event_told(&c, 3, 0, 2, id_of(9));
    ends("I42");
}

TEST(an_event_that_got_another_version_than_it_expected_is_found) /* I43, B95 */
{
    good_story();
    event_got(&c, id_of(4), 0, 2);
    ends("I43");
}

TEST(writes_that_are_made_twice_or_left_out_are_found) /* I44 */
{
    good_story();
    event_projected(&c, 2, 4);
    ends("I44");
    good_story();
    event_projected(&c, 5, 6);
    ends("I44");
    good_story();
    event_written(&c, 3, 2);
    ends("I44");
    good_story();
    event_written(&c, 3, 0);
    ends("I44");
}

TEST(what_a_person_takes_back_is_written_once_more)
{
    good_story();
    event_reset(&c, 2);
    event_projected(&c, 2, 4);
    event_written(&c, 2, 1);
    event_written(&c, 3, 2);
    ends(NULL);
}
