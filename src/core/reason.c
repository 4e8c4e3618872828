#include "core/reason.h"

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

static const struct reason {
    int number;
    const char *name;
    enum reason_class class;
} reasons[] = {
#define X(number, NAME, text, class) { number, text, CLASS_##class },
    REASONS(X)
#undef X
};

static const struct reason *reason_find(int number)
{
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
        if (reasons[i].number == number)
            return &reasons[i];
    return NULL;
}

bool reason_is_known(int reason)
{
    return reason_find(reason) != NULL;
}

PR_API const char *pr_reason_name(int reason)
{
    const struct reason *r = reason_find(reason);
    return r != NULL ? r->name : "unknown";
}

enum reason_class reason_class(int reason)
{
    const struct reason *r = reason_find(reason);
    return r != NULL ? r->class : CLASS_UNKNOWN;
}

const char *reason_class_name(enum reason_class class)
{
    static const char *const names[] = { "transient", "permanent", "unknown" };
    return names[class];
}

/* Codes of answers that are more precise than their reason. */
static bool is_one_of(pr_slice code, const char *const *codes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_cstr(code, codes[i]))
            return true;
    return false;
}

enum fault reason_fault(int reason, pr_slice code, bool unsent)
{
    static const char *const content[] = { "400", "413", "415", "422" };           /* HTTP */
    static const char *const stranger[] = { "401", "407", "NOAUTH", "WRONGPASS" }; /* HTTP, Redis */

    if (reason == PR_REASON_VALIDATION_FAILURE || reason == PR_REASON_SERIALIZATION_ERROR ||
        reason == PR_REASON_MESSAGE_TOO_LARGE ||
        (reason == PR_REASON_REJECTED && is_one_of(code, content, ARRAY_LENGTH(content))))
        return FAULT_CONTENT;
    if (unsent || (reason == PR_REASON_UNAUTHORIZED && is_one_of(code, stranger, ARRAY_LENGTH(stranger))))
        return FAULT_ENDPOINT;
    return FAULT_NOBODY;
}

const char *fault_name(enum fault fault)
{
    static const char *const names[] = { "unknown", "endpoint", "content" };
    return names[fault];
}

enum pr_reason reason_parse(pr_slice name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
        if (slice_eq_cstr(name, reasons[i].name))
            return (enum pr_reason)reasons[i].number;
    return PR_REASON_NONE;
}

size_t reason_index(int reason)
{
    const struct reason *r = reason_find(reason);
    return r != NULL ? (size_t)(r - reasons) : ARRAY_LENGTH(reasons) - 1;
}

int reason_at(size_t index)
{
    ASSERT(index < ARRAY_LENGTH(reasons));
    return reasons[index].number;
}
