/* The head of a request: the parts always lie inside it, a prefix of a valid one is never invalid, and bytes behind a
 * valid one do not make it invalid. */
#include "base/http_head.h"

#include <string.h>

#include "fuzz.h"

static bool is_inside(pr_slice part, pr_slice whole)
{
    return part.size == 0 || (part.data >= whole.data && part.data + part.size <= whole.data + whole.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_head head, half;
    pr_slice bytes = PR_BYTES((const char *)data, size);
    enum head_found found = http_head_read(bytes, &head);
    if (found == HEAD_WRONG)
        FUZZ_CHECK(head.status >= 400 && head.code != NULL && head.text != NULL);
    if (found != HEAD_READ)
        return 0;
    FUZZ_CHECK(is_inside(head.method, bytes) && is_inside(head.path, bytes) && head.path.data[0] == '/');
    FUZZ_CHECK(!head.chunked || head.body_bytes == 0);
    FUZZ_CHECK(memmem(data, size, "\r\n\r\n", 4) != NULL);
    for (size_t cut = 0; cut < size; cut++)
        FUZZ_CHECK(http_head_read(PR_BYTES((const char *)data, cut), &half) != HEAD_WRONG);
    return 0;
}
