/* What a flow shows and keeps: its identity, custom status, key-values, log, and how it ends.
 *
 * Status and key-values are not in the history: replayed code sets them again.  Only what is set after the end of the
 * history is stored. */
#include <postrider_flow.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "flow/machine.h"

PR_API pr_slice pr_flow_id(const pr_flow *f)
{
    return f->id;
}

PR_API pr_slice pr_flow_name(const pr_flow *f)
{
    return f->name;
}

PR_API pr_slice pr_flow_version(const pr_flow *f)
{
    return f->version;
}

PR_API pr_id pr_flow_execution(const pr_flow *f)
{
    return f->execution;
}

PR_API void *pr_flow_user(const pr_flow *f)
{
    return f->user;
}

PR_API void *pr_flow_alloc(pr_flow *f, size_t size)
{
    return arena_zalloc(f->arena, size);
}

PR_API bool pr_is_cancelled(const pr_flow *f)
{
    return f->cancel_seen;
}

/* The previous turn ended in a wait with the cursor at the end of the history: until a new fact is applied, the code
 * repeats what it did then. */
PR_API bool pr_is_replaying(const pr_flow *f)
{
    return f->cursor <= max_size(f->base, f->lived);
}

/* Are status and key-values of this execution stored?  What a previous execution set is set again by the replay. */
static bool is_stored(const pr_flow *f)
{
    return f->cursor <= f->base;
}

/* ---- Texts ------------------------------------------------------------------------------------------ */

static pr_slice vprint(pr_flow *f, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = size >= 0 ? arena_alloc(f->arena, (size_t)size + 1) : NULL;
    if (text == NULL)
        return (pr_slice){ NULL, 0 };
    vsnprintf(text, (size_t)size + 1, format, args);
    return (pr_slice){ text, (size_t)size };
}

PR_API pr_slice pr_flow_printf(pr_flow *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pr_slice text = vprint(f, format, args);
    va_end(args);
    return text;
}

PR_API void pr_flow_log(pr_flow *f, const char *format, ...)
{
    va_list args;
    if (f->inert || pr_is_replaying(f))
        return;
    va_start(args, format);
    machine_log(f, false, vprint(f, format, args));
    va_end(args);
}

/* ---- Ends --------------------------------------------------------------------------------------------- */

PR_API int pr_flow_fail(pr_flow *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    f->last_seen = (struct flow_error){ .category = PR_CATEGORY_APPLICATION, .message = vprint(f, format, args) };
    va_end(args);
    if (f->last_seen.message.data == NULL)
        machine_no_memory(f);
    return f->inert ? PR_SUSPEND : PR_FAILED;
}

PR_API int pr_continue_as_new(pr_flow *f, pr_slice input, const char *version)
{
    if (f->inert)
        return PR_SUSPEND;
    pr_slice wanted = version != NULL ? slice_from(version) : f->version;
    if (wanted.size > PR_NAME_MAX || !utf8_valid(wanted))
        return machine_fault(f, PR_EINVAL, "the version of a flow can have at most 255 bytes of text");
    f->output = slice_dup(f->arena, input);
    f->next_version = slice_dup(f->arena, wanted);
    if (f->output.data == NULL || f->next_version.data == NULL) {
        machine_no_memory(f);
        return PR_SUSPEND;
    }
    f->outcome = FLOW_CONTINUES;
    return PR_CONTINUED;
}

/* ---- Custom status -------------------------------------------------------------------------------------- */

static int change_status(pr_flow *f, pr_slice status)
{
    if (f->inert)
        return PR_SUSPEND;
    f->status = slice_dup(f->arena, status);
    if (f->status.data == NULL) {
        machine_no_memory(f);
        return PR_SUSPEND;
    }
    f->status_changes += !is_stored(f);
    return PR_OK;
}

PR_API int pr_set_status(pr_flow *f, pr_slice status)
{
    if (!f->inert && status.size > PR_CUSTOM_STATUS_MAX)
        return machine_fault(f, PR_ETOOBIG, "a custom status can have at most %d bytes, this one has %zu",
                             PR_CUSTOM_STATUS_MAX, status.size);
    return change_status(f, status);
}

PR_API int pr_clear_status(pr_flow *f)
{
    return change_status(f, (pr_slice){ "", 0 });
}

PR_API pr_slice pr_get_status(const pr_flow *f)
{
    return f->status;
}

/* ---- Key-values -------------------------------------------------------------------------------------------- */

int machine_state_begin(pr_flow *f, const struct flow_value *values, size_t count)
{
    f->state_capacity = count + 16;
    f->state = arena_alloc_array(f->arena, f->state_capacity, sizeof(*f->state));
    if (f->state == NULL)
        return PR_ENOMEM;
    if (count > 0)
        memcpy(f->state, values, count * sizeof(*values));
    f->state_count = count;
    for (size_t i = 0; i < count; i++)
        f->state_bytes += values[i].key.size + values[i].value.size;
    return PR_OK;
}

/* Index of the key, or where it would be inserted. */
static size_t state_place(const pr_flow *f, pr_slice key, bool *ret_found)
{
    size_t low = 0, high = f->state_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_cmp(f->state[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_found = low < f->state_count && slice_eq(f->state[low].key, key);
    return low;
}

static void note_change(pr_flow *f, pr_slice key, pr_slice value)
{
    void *changes = f->changes;
    if (is_stored(f) || !machine_grow(f, &changes, &f->change_capacity, f->change_count, sizeof(*f->changes)))
        return;
    f->changes = changes;
    f->changes[f->change_count++] = (struct flow_value){ key, value };
}

PR_API int pr_state_get(const pr_flow *f, pr_slice key, pr_slice *ret_value)
{
    bool found;
    size_t at = state_place(f, key, &found);
    if (!found)
        return PR_UNKNOWN;
    *ret_value = f->state[at].value;
    return PR_OK;
}

static int check_value(pr_flow *f, pr_slice key, pr_slice value, bool found, size_t old_size)
{
    if (key.size == 0 || key.size > PR_STATE_KEY_MAX || !utf8_valid(key) || memchr(key.data, '\0', key.size) != NULL)
        return machine_fault(f, PR_EINVAL, "a key must have 1 to %d bytes of text", PR_STATE_KEY_MAX);
    if (value.size > PR_STATE_VALUE_MAX)
        return machine_fault(f, PR_ETOOBIG, "a value can have at most %d bytes, this one has %zu", PR_STATE_VALUE_MAX,
                             value.size);
    if (!found && f->state_count >= PR_STATE_KEYS_MAX)
        return machine_fault(f, PR_ETOOBIG, "a flow can have at most %d keys", PR_STATE_KEYS_MAX);
    if (f->state_bytes - old_size + key.size + value.size > PR_STATE_SIZE_MAX)
        return machine_fault(f, PR_ETOOBIG, "keys and values of a flow can have at most %d bytes together",
                             PR_STATE_SIZE_MAX);
    return PR_OK;
}

PR_API int pr_state_set(pr_flow *f, pr_slice key, pr_slice value)
{
    bool found;
    if (f->inert)
        return PR_SUSPEND;
    size_t at = state_place(f, key, &found);
    size_t old_size = found ? key.size + f->state[at].value.size : 0;
    int rc = check_value(f, key, value, found, old_size);
    if (rc != PR_OK)
        return rc;
    void *state = f->state;
    struct flow_value copy = { slice_dup(f->arena, key), slice_dup(f->arena, value) };
    if (copy.key.data == NULL || copy.value.data == NULL ||
        !machine_grow(f, &state, &f->state_capacity, f->state_count, sizeof(*f->state))) {
        machine_no_memory(f);
        return PR_SUSPEND;
    }
    f->state = state;
    if (!found) {
        memmove(&f->state[at + 1], &f->state[at], (f->state_count - at) * sizeof(*f->state));
        f->state_count++;
    }
    f->state[at] = copy;
    f->state_bytes = f->state_bytes - old_size + key.size + value.size;
    note_change(f, copy.key, copy.value);
    return f->inert ? PR_SUSPEND : PR_OK;
}

PR_API void pr_state_clear(pr_flow *f, pr_slice key)
{
    bool found;
    size_t at = state_place(f, key, &found);
    if (f->inert || !found)
        return;
    struct flow_value gone = f->state[at];
    f->state_bytes -= gone.key.size + gone.value.size;
    f->state_count--;
    memmove(&f->state[at], &f->state[at + 1], (f->state_count - at) * sizeof(*f->state));
    note_change(f, gone.key, (pr_slice){ NULL, 0 });
}

PR_API void pr_state_clear_all(pr_flow *f)
{
    if (f->inert)
        return;
    for (size_t i = 0; i < f->state_count; i++)
        note_change(f, f->state[i].key, (pr_slice){ NULL, 0 });
    f->state_count = 0;
    f->state_bytes = 0;
}

PR_API size_t pr_state_count(const pr_flow *f)
{
    return f->state_count;
}

PR_API void pr_state_at(const pr_flow *f, size_t index, pr_slice *ret_key, pr_slice *ret_value)
{
    bool there = index < f->state_count;
    *ret_key = there ? f->state[index].key : (pr_slice){ NULL, 0 };
    *ret_value = there ? f->state[index].value : (pr_slice){ NULL, 0 };
}
