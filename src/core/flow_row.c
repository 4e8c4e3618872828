#include "core/flow_row.h"

#include <string.h>

#include "base/util.h"

/* Offsets of its texts. */
static const size_t texts[] = {
    offsetof(struct flow_row, id),      offsetof(struct flow_row, name),
    offsetof(struct flow_row, version), offsetof(struct flow_row, custom_status),
    offsetof(struct flow_row, input),   offsetof(struct flow_row, output),
    offsetof(struct flow_row, error),   offsetof(struct flow_row, parent),
};

static pr_slice *text_at(const struct flow_row *row, size_t i)
{
    return (pr_slice *)((uintptr_t)row + texts[i]);
}

size_t flow_row_bytes(const struct flow_row *row)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        bytes += text_at(row, i)->size;
    return bytes;
}

struct flow_row *flow_row_copy(const struct flow_row *row, void *block)
{
    struct flow_row *copy = block;
    char *at = (char *)(copy + 1);
    *copy = *row;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        pr_slice *text = text_at(copy, i);
        if (text->size > 0)
            memcpy(at, text->data, text->size);
        text->data = text->data != NULL ? at : NULL;
        at += text->size;
    }
    return copy;
}

const char *flow_state_name(int state)
{
    static const char *const names[] = { "unknown", "running", "completed", "failed", "cancelled", "continued" };
    return names[state >= FLOW_RUNNING && state <= FLOW_CONTINUED ? state : 0];
}
