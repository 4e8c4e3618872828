#include "core/state.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
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

static const char *const held_for_names[] = { [PR_HELD_FOR_STREAM] = "stream", [PR_HELD_FOR_ENDPOINT] = "endpoint" };
static const char *const parked_by_names[] = {
    [PR_PARKED_BY_ROUTE] = "route", [PR_PARKED_BY_RULE] = "rule", [PR_PARKED_BY_PERSON] = "person"
};

static int name_parse(const char *const *names, size_t count, pr_slice name)
{
    for (size_t i = 1; i < count; i++)
        if (slice_eq_cstr(name, names[i]))
            return (int)i;
    return 0;
}

const char *held_for_name(int held_for)
{
    return held_for > 0 && held_for < (int)ARRAY_LENGTH(held_for_names) ? held_for_names[held_for] : NULL;
}

const char *parked_by_name(int parked_by)
{
    return parked_by > 0 && parked_by < (int)ARRAY_LENGTH(parked_by_names) ? parked_by_names[parked_by] : NULL;
}

int held_for_parse(pr_slice name)
{
    return name_parse(held_for_names, ARRAY_LENGTH(held_for_names), name);
}

int parked_by_parse(pr_slice name)
{
    return name_parse(parked_by_names, ARRAY_LENGTH(parked_by_names), name);
}
