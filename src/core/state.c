#include "core/state.h"

#include "base/error.h"
#include "base/slice.h"
#include "core/message.h"

static const struct {
    const char *name;
    unsigned next;
} states[] = {
#define X(name, text, next) [STATE_##name] = { text, next },
    STATES(X)
#undef X
};

const char *state_name(enum state state)
{
    ASSERT(state < STATE_COUNT);
    return states[state].name;
}

enum state state_parse(pr_slice name)
{
    for (unsigned i = 0; i < STATE_COUNT; i++)
        if (slice_eq_cstr(name, states[i].name))
            return (enum state)i;
    return STATE_COUNT;
}

bool state_may_become(enum state from, enum state to)
{
    ASSERT(from < STATE_COUNT && to < STATE_COUNT);
    return (states[from].next & (1u << to)) != 0;
}

enum state state_of_row(const struct pr_message *row, int64_t now_us)
{
    if (row->due_us == PR_NEVER)
        return STATE_PARKED;
    if (row->held_by.size > 0 && !message_awaits_endpoint(row))
        return STATE_HELD;
    if (row->due_us > now_us)
        return (row->status & PR_STATUS_FAILED) != 0 || row->attempts > 0 ? STATE_RETRYING : STATE_DELAYED;
    return STATE_READY;
}
