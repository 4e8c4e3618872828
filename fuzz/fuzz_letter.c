/* An arbitrary message written as JSON. */
#include "base/arena.h"
#include "core/letter.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pr_message m;
    struct pr_error error = { 0 };
    struct arena arena;
    char *copy = malloc(size + 1); /* to its last byte: whoever reads behind it is seen */
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, data, size);
    arena_init(&arena, 512);
    int rc = letter_read((pr_slice){ copy, size }, &arena, &m, &error);
    FUZZ_CHECK(rc == PR_OK || (rc == PR_EINVAL && error.text[0] != '\0'));
    if (rc == PR_OK) {
        FUZZ_CHECK(slice_is_json_object(m.headers) || m.headers.size > PR_HEADERS_MAX);
        if (message_check(&m, size, &error) == PR_OK)
            FUZZ_CHECK(message_defect(&m, size) == NULL);
    }
    arena_fini(&arena);
    free(copy);
    return 0;
}
