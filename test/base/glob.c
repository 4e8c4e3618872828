#include "base/glob.h"

#include <string.h>

#include "base/slice.h"
#include "check.h"

TEST(a_pattern_has_a_limit_of_bytes_and_of_stars) /* B206 */
{
    char text[GLOB_BYTES_MAX + 2];
    struct pr_error error = { 0 };
    memset(text, 'a', sizeof text);
    CHECK_EQ(glob_check(PR_BYTES(text, GLOB_BYTES_MAX), &error), PR_OK);
    CHECK_EQ(glob_check(PR_BYTES(text, GLOB_BYTES_MAX + 1), &error), PR_EINVAL);
    CHECK_STR(error.text, "a pattern can have at most 255 bytes and 16 stars");
    for (size_t i = 0; i < GLOB_STARS_MAX; i++)
        text[2 * i] = '*';
    CHECK_EQ(glob_check(PR_BYTES(text, GLOB_BYTES_MAX), &error), PR_OK);
    text[1] = '*'; /* a run is one */
    CHECK_EQ(glob_check(PR_BYTES(text, GLOB_BYTES_MAX), &error), PR_OK);
    text[100] = text[102] = '*';
    CHECK_EQ(glob_check(PR_BYTES(text, GLOB_BYTES_MAX), &error), PR_EINVAL);
    CHECK_EQ(glob_check((pr_slice){ NULL, 0 }, &error), PR_OK);
}
