#include "flow/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"

#define UNKNOWN_DELAY_MIN_US PR_MILLISECONDS(100)
#define UNKNOWN_DELAY_MAX_US PR_SECONDS(30)
#define UNKNOWN_DELAY_SHARE 4 /* delay as a fraction of the message's age */

void flow_registry_init(struct flow_registry *r)
{
    *r = (struct flow_registry){ .count = 0 };
}

void flow_registry_fini(struct flow_registry *r)
{
    for (size_t i = 0; i < r->count; i++)
        free((void *)(uintptr_t)r->codes[i].name.data); /* one block for both texts */
    free(r->codes);
    flow_registry_init(r);
}

/* ---- Versions -------------------------------------------------------------------------------------------- */

static pr_slice take_part(pr_slice *version)
{
    const char *dot = version->size > 0 ? memchr(version->data, '.', version->size) : NULL;
    pr_slice part = { version->data, dot != NULL ? (size_t)(dot - version->data) : version->size };
    size_t taken = part.size + (dot != NULL);
    *version = (pr_slice){ version->data + taken, version->size - taken };
    return part;
}

static bool is_number(pr_slice part)
{
    for (size_t i = 0; i < part.size; i++) {
        if (part.data[i] < '0' || part.data[i] > '9')
            return false;
    }
    return part.size > 0;
}

static pr_slice without_zeros(pr_slice number)
{
    while (number.size > 1 && number.data[0] == '0')
        number = (pr_slice){ number.data + 1, number.size - 1 };
    return number;
}

/* Numbers of any length: the longer one is the greater one. */
static int compare_parts(pr_slice a, pr_slice b)
{
    bool number_a = is_number(a), number_b = is_number(b);
    if (number_a != number_b)
        return number_a ? -1 : 1;
    if (number_a) {
        a = without_zeros(a);
        b = without_zeros(b);
        if (a.size != b.size)
            return a.size < b.size ? -1 : 1;
    }
    return slice_cmp(a, b);
}

int flow_version_cmp(pr_slice a, pr_slice b)
{
    pr_slice rest_a = a, rest_b = b;
    while (rest_a.size > 0 && rest_b.size > 0) {
        int order = compare_parts(take_part(&rest_a), take_part(&rest_b));
        if (order != 0)
            return order;
    }
    if (rest_a.size != rest_b.size)
        return rest_a.size < rest_b.size ? -1 : 1;
    return slice_cmp(a, b); /* "1" and "01" are different versions */
}

/* ---- Flows ------------------------------------------------------------------------------------------------- */

static int compare(const struct flow_code *code, pr_slice name, pr_slice version)
{
    int order = slice_cmp(code->name, name);
    return order != 0 ? order : flow_version_cmp(code->version, version);
}

/* Index of the first entry that is not before (name, version). */
static size_t place_of(const struct flow_registry *r, pr_slice name, pr_slice version)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&r->codes[middle], name, version) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_text(pr_slice s, size_t max)
{
    return s.size > 0 && s.size <= max && utf8_valid(s);
}

static int insert(struct flow_registry *r, size_t at, struct flow_code code)
{
    if (r->count == r->capacity) {
        size_t larger = r->capacity < 8 ? 8 : r->capacity * 2;
        struct flow_code *moved = realloc(r->codes, larger * sizeof(*moved));
        if (moved == NULL)
            return PR_ENOMEM;
        r->codes = moved;
        r->capacity = larger;
    }
    char *block = malloc(code.name.size + code.version.size);
    if (block == NULL)
        return PR_ENOMEM;
    memcpy(block, code.name.data, code.name.size);
    memcpy(block + code.name.size, code.version.data, code.version.size);
    code.name.data = block;
    code.version.data = block + code.name.size;
    memmove(&r->codes[at + 1], &r->codes[at], (r->count - at) * sizeof(*r->codes));
    r->codes[at] = code;
    r->count++;
    return PR_OK;
}

int flow_registry_add(struct flow_registry *r, const char *name, const char *version, pr_flow_function function,
                      void *user, struct pr_error *reterr)
{
    struct flow_code code = { .name = slice_from(name),
                              .version = slice_from(version != NULL ? version : "1"),
                              .function = function,
                              .user = user };
    if (!is_text(code.name, PR_TYPE_MAX) || !is_text(code.version, PR_NAME_MAX) || function == NULL)
        return error_set(reterr, PR_EINVAL,
                         "a flow needs a name and a version of 1 to 255 bytes of text, and a function");
    size_t at = place_of(r, code.name, code.version);
    if (at < r->count && compare(&r->codes[at], code.name, code.version) == 0)
        return error_set(reterr, PR_EINVAL, "flow %s version %.*s is already registered", name,
                         SLICE_ARGS(code.version));
    int rc = insert(r, at, code);
    return rc == PR_OK ? rc : error_set(reterr, rc, "out of memory for a flow");
}

const struct flow_code *flow_registry_find(const struct flow_registry *r, pr_slice name, pr_slice version)
{
    size_t at = place_of(r, name, version);
    if (version.size > 0)
        return at < r->count && compare(&r->codes[at], name, version) == 0 ? &r->codes[at] : NULL;
    const struct flow_code *highest = NULL; /* the last entry of this name */
    for (; at < r->count && slice_eq(r->codes[at].name, name); at++)
        highest = &r->codes[at];
    return highest;
}

int64_t flow_unknown_delay_us(int64_t age_us, int64_t give_up_us)
{
    if (age_us >= give_up_us)
        return -1;
    return min64(max64(age_us / UNKNOWN_DELAY_SHARE, UNKNOWN_DELAY_MIN_US), UNKNOWN_DELAY_MAX_US);
}
