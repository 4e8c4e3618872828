/* Reasons. */
#include "core/reason.h"

#include <string.h>

#include "check.h"

TEST(reasons_have_the_published_numbers_and_words) /* D5 */
{
    CHECK_STR(pr_reason_name(1), "transport_unavailable");
    CHECK_STR(pr_reason_name(2), "handler_exception");
    CHECK_STR(pr_reason_name(3), "validation_failure");
    CHECK_STR(pr_reason_name(4), "timeout_exceeded");
    CHECK_STR(pr_reason_name(5), "serialization_error");
    CHECK_STR(pr_reason_name(6), "dependency_failure");
    CHECK_STR(pr_reason_name(7), "poison_message");
    CHECK_STR(pr_reason_name(8), "message_too_large");
    CHECK_STR(pr_reason_name(9), "destination_missing");
    CHECK_STR(pr_reason_name(10), "rejected");
    CHECK_STR(pr_reason_name(11), "unauthorized");
    CHECK_STR(pr_reason_name(12), "rate_limited");
    CHECK_STR(pr_reason_name(13), "expired");
    CHECK_STR(pr_reason_name(99), "unknown");
}

TEST(the_table_and_the_public_numbers_agree)
{
#define X(number, NAME, text, class) CHECK_EQ(PR_REASON_##NAME, number);
    REASONS(X)
#undef X
}

TEST(every_reason_is_read_back_from_its_word)
{
    for (int reason = -2; reason <= 120; reason++) {
        if (reason_is_known(reason))
            CHECK_EQ(reason_parse(pr_str(pr_reason_name(reason))), reason);
        else
            CHECK_STR(pr_reason_name(reason), "unknown");
    }
    CHECK(!reason_is_known(PR_REASON_NONE));
}

TEST(a_word_that_is_no_reason_is_none)
{
    CHECK_EQ(reason_parse(PR_STR("")), PR_REASON_NONE);
    CHECK_EQ(reason_parse(PR_STR("TIMEOUT_EXCEEDED")), PR_REASON_NONE);
    CHECK_EQ(reason_parse(PR_STR("timeout")), PR_REASON_NONE);
    CHECK_EQ(reason_parse(PR_STR("rejected ")), PR_REASON_NONE);
}

TEST(what_may_pass_by_itself_is_transient_and_poison_is_not)
{
    CHECK_EQ(reason_class(PR_REASON_TRANSPORT_UNAVAILABLE), CLASS_TRANSIENT);
    CHECK_EQ(reason_class(PR_REASON_TIMEOUT_EXCEEDED), CLASS_TRANSIENT);
    CHECK_EQ(reason_class(PR_REASON_DEPENDENCY_FAILURE), CLASS_TRANSIENT);
    CHECK_EQ(reason_class(PR_REASON_RATE_LIMITED), CLASS_TRANSIENT);
    CHECK_EQ(reason_class(PR_REASON_POISON_MESSAGE), CLASS_PERMANENT);
    CHECK_EQ(reason_class(PR_REASON_MESSAGE_TOO_LARGE), CLASS_PERMANENT);
    CHECK_EQ(reason_class(PR_REASON_HANDLER_EXCEPTION), CLASS_UNKNOWN);
    CHECK_EQ(reason_class(PR_REASON_UNKNOWN), CLASS_UNKNOWN);
    CHECK_EQ(reason_class(55), CLASS_UNKNOWN);
    CHECK_STR(reason_class_name(CLASS_TRANSIENT), "transient");
    CHECK_STR(reason_class_name(CLASS_PERMANENT), "permanent");
    CHECK_STR(reason_class_name(CLASS_UNKNOWN), "unknown");
}
