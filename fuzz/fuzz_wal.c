/* The bytes of a server's log: frames, and the events of pgoutput in them. */
#include "source/wal/wal_wire.h"

#include "fuzz.h"

static bool is_inside(pr_slice part, const uint8_t *data, size_t size)
{
    const char *from = (const char *)data;
    return part.size == 0 || (part.data >= from && part.data + part.size <= from + size);
}

static void check_event(pr_slice body, const uint8_t *data, size_t size)
{
    struct wal_event e;
    struct pr_error error = { 0 };
    int rc = wal_event_parse(body, &e, &error);
    FUZZ_CHECK(rc == PR_OK || ((rc == PR_ECORRUPT || rc == PR_EUNSUPPORTED) && error.text[0] != '\0'));
    if (rc != PR_OK)
        return;
    FUZZ_CHECK(is_inside(e.schema, data, size) && is_inside(e.name, data, size));
    FUZZ_CHECK(is_inside(e.prefix, data, size) && is_inside(e.content, data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wal_frame f;
    struct pr_error error = { 0 };
    pr_slice all = { (const char *)data, size };
    int rc = wal_frame_parse(all, &f, &error);
    FUZZ_CHECK(rc == PR_OK || ((rc == PR_ECORRUPT || rc == PR_EUNSUPPORTED) && error.text[0] != '\0'));
    if (rc == PR_OK && f.kind == WAL_FRAME_DATA)
        check_event(f.body, data, size);
    check_event(all, data, size);
    return 0;
}
