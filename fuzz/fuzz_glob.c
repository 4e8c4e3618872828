/* Globs, compared with a table that is correct by construction: match[i][j] is "the first i of the pattern match the
 * first j of the text". */
#include <stdbool.h>

#include "base/slice.h"

#include "fuzz.h"

#define LENGTH_MAX 200

static bool match_slowly(pr_slice pattern, pr_slice text)
{
    static bool match[LENGTH_MAX + 1][LENGTH_MAX + 1];
    for (size_t i = 0; i <= pattern.size; i++) {
        for (size_t j = 0; j <= text.size; j++) {
            if (i == 0)
                match[i][j] = j == 0;
            else if (pattern.data[i - 1] == '*')
                match[i][j] = match[i - 1][j] || (j > 0 && match[i][j - 1]);
            else
                match[i][j] = j > 0 && match[i - 1][j - 1] &&
                              (pattern.data[i - 1] == '?' || pattern.data[i - 1] == text.data[j - 1]);
        }
    }
    return match[pattern.size][text.size];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    pr_slice pattern = input_line(&in), text = input_rest(&in);
    bool matches = slice_glob(pattern, text);
    if (pattern.size <= LENGTH_MAX && text.size <= LENGTH_MAX)
        FUZZ_CHECK(matches == match_slowly(pattern, text));
    (void)slice_contains(text, pattern);
    (void)slice_trim(text);
    return 0;
}
