#include "base/glob.h"

#include "base/error.h"

int glob_check(pr_slice pattern, struct pr_error *reterr)
{
    size_t stars = 0;
    for (size_t i = 0; i < pattern.size && pattern.size <= GLOB_BYTES_MAX; i++)
        stars += pattern.data[i] == '*' && (i == 0 || pattern.data[i - 1] != '*');
    if (pattern.size > GLOB_BYTES_MAX || stars > GLOB_STARS_MAX)
        return error_set(reterr, PR_EINVAL, "a pattern can have at most %d bytes and %d stars", GLOB_BYTES_MAX,
                         GLOB_STARS_MAX);
    return PR_OK;
}
