/* Durations, sizes and times: an accepted value means the same when it is written and read again. */
#include "base/time.h"
#include "base/units.h"

#include "fuzz.h"

static void check_duration(pr_slice text)
{
    int64_t us, again;
    char form[DURATION_TEXT_SIZE];
    if (duration_parse(text, &us) != PR_OK)
        return;
    FUZZ_CHECK(us >= 0);
    duration_format(us, form);
    if (us != INT64_MAX)
        FUZZ_CHECK(duration_parse(pr_str(form), &again) == PR_OK && again == us);
}

static void check_size(pr_slice text)
{
    int64_t bytes, again;
    char form[DURATION_TEXT_SIZE];
    if (size_parse(text, &bytes) != PR_OK)
        return;
    size_format(bytes, form);
    FUZZ_CHECK(size_parse(pr_str(form), &again) == PR_OK && again == bytes);
}

static void check_time(pr_slice text)
{
    int64_t us, again;
    char form[TIME_TEXT_SIZE];
    if (time_parse_rfc3339(text, &us) != PR_OK)
        return;
    time_format_rfc3339(us, form);
    if (form[0] != '-' && form[0] != '+') /* a zone can lead out of the four-digit years */
        FUZZ_CHECK(time_parse_rfc3339(pr_str(form), &again) == PR_OK && again == us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pr_slice text = { (const char *)data, size };
    char form[TIME_TEXT_SIZE];
    int64_t number = 0;
    check_duration(text);
    check_size(text);
    check_time(text);
    memcpy(&number, data, size < sizeof number ? size : sizeof number);
    time_format_rfc3339(number, form); /* any number has a text */
    duration_format(number, form);
    return 0;
}
