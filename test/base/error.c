#include "base/error.h"

#include <string.h>

#include "check.h"

TEST(error_set_writes_code_and_text_and_returns_the_code)
{
    struct pr_error error = { 0 };
    CHECK_EQ(error_set(&error, PR_EINVAL, "%s is %d", "type", 7), PR_EINVAL);
    CHECK_EQ(error.code, PR_EINVAL);
    CHECK_STR(error.text, "type is 7");
    error_clear(&error);
    CHECK_EQ(error.code, PR_OK);
    CHECK_STR(error.text, "");
}

TEST(error_set_does_without_a_place_to_write)
{
    CHECK_EQ(error_set(NULL, PR_ENOMEM, "%s", "x"), PR_ENOMEM);
    error_clear(NULL);
}

TEST(error_set_may_wrap_its_own_text)
{
    struct pr_error error;
    error_set(&error, PR_EIO, "disk");
    error_set(&error, PR_ESTORE, "store: %s", error.text);
    CHECK_STR(error.text, "store: disk");
}

TEST(error_set_fills_the_text_to_the_last_byte)
{
    struct pr_error error;
    char text[PR_ERROR_TEXT_SIZE + 10];
    memset(text, 'a', sizeof(text));
    text[PR_ERROR_TEXT_SIZE - 1] = '\0';
    error_set(&error, PR_EINVAL, "%s", text);
    CHECK_STR(error.text, text);
    text[PR_ERROR_TEXT_SIZE - 1] = 'a';
    text[PR_ERROR_TEXT_SIZE] = '\0';
    error_set(&error, PR_EINVAL, "%s", text);
    CHECK_EQ(strlen(error.text), PR_ERROR_TEXT_SIZE - 1);
}

TEST(error_set_replaces_what_is_not_utf8)
{
    struct pr_error error;
    error_set(&error, PR_EIO, "the server said %s",
              "a\x85\xeb"
              "b \xc3\xbc\xe2\x82");
    CHECK_STR(error.text, "the server said a??b \xc3\xbc??");
}

TEST(error_set_never_cuts_a_character_in_half)
{
    /* A character of 4 bytes at every position around the limit. */
    for (size_t start = PR_ERROR_TEXT_SIZE - 6; start < PR_ERROR_TEXT_SIZE; start++) {
        struct pr_error error;
        char text[PR_ERROR_TEXT_SIZE + 16];
        memset(text, 'a', sizeof(text));
        memcpy(text + start, "\xf0\x9f\x98\x80", 4);
        text[sizeof(text) - 1] = '\0';
        error_set(&error, PR_EINVAL, "%s", text);
        size_t whole = start + 4 <= PR_ERROR_TEXT_SIZE - 1 ? PR_ERROR_TEXT_SIZE - 1 : start;
        CHECK_EQ(strlen(error.text), whole);
    }
}

static void assert_that(void *arg)
{
    const int *truth = arg;
    ASSERT(*truth != 0);
}

TEST(error_assert_aborts_in_every_build)
{
    int truth = 1;
    CHECK(!check_aborts(assert_that, &truth));
    truth = 0;
    CHECK(check_aborts(assert_that, &truth));
}
