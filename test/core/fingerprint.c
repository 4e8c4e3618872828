/* Fingerprints. */
#include "core/fingerprint.h"

#include <string.h>

#include "check.h"

static const char *print_of(const char *endpoint, const char *type, int reason, const char *error)
{
    static char rings[8][FINGERPRINT_SIZE];
    static int at;
    char *ret = rings[at++ % 8];
    fingerprint(pr_str(endpoint), pr_str(type), reason, pr_str(error), ret);
    return ret;
}

static const char *of_error(const char *error)
{
    return print_of("e", "t", 4, error);
}

TEST(a_fingerprint_is_sixteen_hex_digits_and_does_not_change)
{
    const char *print = print_of("orders", "order.created", 4, "timeout after 30 s");
    CHECK_EQ(strlen(print), 16);
    CHECK_EQ(strspn(print, "0123456789abcdef"), 16);
    CHECK_STR(print, print_of("orders", "order.created", 4, "timeout after 30 s"));
}

TEST(a_fingerprint_is_known_by_its_shape)
{
    CHECK(fingerprint_is_valid(PR_STR("0123456789abcdef")));
    static const char *const wrong[] = { "", "zz", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!fingerprint_is_valid(pr_str(wrong[i])));
}

TEST(the_same_problem_has_the_same_fingerprint) /* B85 */
{
    CHECK_STR(of_error("timeout after 30 s"), of_error("timeout after 45 s"));
    CHECK_STR(of_error("order 0190abcd-ef01-7234-89ab-cdef01234567 is locked"),
              of_error("order 0190ffff-0001-7234-89ab-111111111111 is locked"));
    CHECK_STR(of_error("no column \"a\" in 'b'"), of_error("no column \"the other\" in 'c d'"));
    CHECK_STR(of_error("connect to 10.0.0.1:5432 failed"), of_error("connect to 10.11.12.13:80 failed"));
    CHECK_STR(of_error("at 0x7ffe12ab"), of_error("at 0x55d0"));
}

TEST(another_problem_has_another_fingerprint) /* B85 */
{
    const char *print = print_of("e", "t", 4, "no such queue");
    CHECK(strcmp(print, print_of("f", "t", 4, "no such queue")) != 0);
    CHECK(strcmp(print, print_of("e", "u", 4, "no such queue")) != 0);
    CHECK(strcmp(print, print_of("e", "t", 5, "no such queue")) != 0);
    CHECK(strcmp(print, print_of("e", "t", 4, "no such topic")) != 0);
    CHECK(strcmp(print_of("ab", "c", 4, ""), print_of("a", "bc", 4, "")) != 0);
    CHECK(strcmp(of_error("queue 7 is full"), of_error("queue 7 is empty")) != 0);
}

TEST(any_text_has_a_fingerprint)
{
    CHECK_EQ(strlen(of_error("")), 16);
    CHECK_EQ(strlen(of_error("\"never closed")), 16);
    CHECK_EQ(strlen(of_error("'''\"\"`")), 16);
    CHECK_EQ(strlen(of_error("\xff\xfe\x80 broken")), 16);
    CHECK(strcmp(of_error("it's over"), of_error("it's not")) != 0); /* an apostrophe opens nothing */
}
