/* The flows and versions of a program. */
#include "check.h"

#include "base/slice.h"
#include "flow/registry.h"

static int one(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    (void)f, (void)input, (void)ret_output;
    return PR_OK;
}

static const char *found(const struct flow_registry *r, const char *name, const char *version)
{
    static char text[64];
    const struct flow_code *code = flow_registry_find(r, slice_from(name), slice_from(version));
    if (code == NULL)
        return NULL;
    size_t size = code->version.size < sizeof text ? code->version.size : sizeof text - 1;
    for (size_t i = 0; i < size; i++)
        text[i] = code->version.data[i];
    text[size] = '\0';
    return text;
}

TEST(a_name_has_several_versions_and_the_highest_is_found_when_none_is_named) /* B110 */
{
    struct flow_registry r;
    struct pr_error error;
    const char *const versions[] = { "2", "10", "1.2", "1.10", "9" };
    flow_registry_init(&r);
    CHECK_OK(flow_registry_add(&r, "order", NULL, one, NULL, &error), &error);
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(flow_registry_add(&r, "order", versions[i], one, NULL, &error), &error);
    CHECK_OK(flow_registry_add(&r, "orders", "77", one, NULL, &error), &error);
    CHECK_STR(found(&r, "order", ""), "10");
    CHECK_STR(found(&r, "order", "1"), "1");
    CHECK_STR(found(&r, "order", "1.10"), "1.10");
    CHECK_STR(found(&r, "order", "3"), NULL);
    CHECK_STR(found(&r, "orde", ""), NULL);
    CHECK_STR(found(&r, "z", ""), NULL);
    flow_registry_fini(&r);
}

TEST(the_same_version_twice_or_without_a_function_is_refused) /* B110 */
{
    struct flow_registry r;
    struct pr_error error;
    flow_registry_init(&r);
    CHECK_OK(flow_registry_add(&r, "order", NULL, one, NULL, &error), &error);
    CHECK_EQ(flow_registry_add(&r, "order", "1", one, NULL, &error), PR_EINVAL);
    CHECK_STR(error.text, "flow order version 1 is already registered");
    CHECK_EQ(flow_registry_add(&r, "", "1", one, NULL, &error), PR_EINVAL);
    CHECK_EQ(flow_registry_add(&r, "x", "", one, NULL, &error), PR_EINVAL);
    CHECK_EQ(flow_registry_add(&r, "x", "1", NULL, NULL, &error), PR_EINVAL);
    CHECK_EQ(r.count, 1);
    flow_registry_fini(&r);
}

static int sign(const char *a, const char *b)
{
    int order = flow_version_cmp(slice_from(a), slice_from(b));
    return (order > 0) - (order < 0);
}

TEST(versions_are_compared_by_their_numbers) /* B110 */
{
    CHECK_EQ(sign("9", "10"), -1);
    CHECK_EQ(sign("1.9", "1.10"), -1);
    CHECK_EQ(sign("1", "1.0"), -1);
    CHECK_EQ(sign("2", "1.9.9"), 1);
    CHECK_EQ(sign("1.0.0", "1.0.0"), 0);
    CHECK_EQ(sign("1", "beta"), -1);
    CHECK_EQ(sign("alpha", "beta"), -1);
    CHECK_EQ(sign("01", "1"), -1);
    CHECK_EQ(sign("99999999999999999999999", "100000000000000000000000"), -1);
}

TEST(what_nobody_has_is_looked_at_more_and_more_rarely_and_given_up_in_the_end) /* B110 */
{
    const int64_t day_us = PR_SECONDS(86400);
    CHECK_EQ(flow_unknown_delay_us(0, day_us), PR_MILLISECONDS(100));
    CHECK_EQ(flow_unknown_delay_us(PR_SECONDS(8), day_us), PR_SECONDS(2));
    CHECK_EQ(flow_unknown_delay_us(PR_MINUTES(60), day_us), PR_SECONDS(30));
    CHECK_EQ(flow_unknown_delay_us(day_us, day_us), -1);
}
