/* The JSON object in the body of a change. */
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "ops/api/api.h"

#define IDS_MAX 10000 /* in one request */

/* Is it one of these words?  "name*" means required. */
static bool field_is_known(const char *fields, const char *name)
{
    size_t length = strlen(name);
    while (*fields != '\0') {
        size_t size = strcspn(fields, " "), bare = strcspn(fields, " *");
        if (length == bare && memcmp(fields, name, bare) == 0)
            return true;
        fields += size + (fields[size] == ' ');
    }
    return false;
}

/* A rate is a number or a string. */
const char *body_field_type(const struct api_route *route, pr_slice name)
{
    static const struct {
        const char *name, *type;
    } types[] = { { "ids", "array" },       { "claims", "array" },   { "max", "integer" },
                  { "letters", "array" },   { "filter", "object" },  { "headers", "object" },
                  { "dry_run", "boolean" }, { "canary", "integer" }, { "rate", NULL },
                  { "payload", NULL },      { "fence", "integer" },  { "position", "integer" },
                  { "version", "integer" }, { "paused", "boolean" }, { "event", "boolean" },
                  { "input", NULL },        { "data", NULL },        { "restart", "boolean" },
                  { "keep", "integer" },    { "tags", "array" },     { "types", "array" },
                  { "again", "boolean" } };
    if (slice_eq_cstr(name, "version") && slice_starts_with(slice_from(route->path), PR_STR("/v1/flows")))
        return "string"; /* of code, not of a stream */
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (slice_eq_cstr(name, types[i].name))
            return types[i].type;
    return "string";
}

static bool field_has_right_type(const struct api_route *route, const char *name, const json_t *value)
{
    const char *type = body_field_type(route, slice_from(name));
    switch (type != NULL ? type[0] : '\0') {
    case 'a': return json_is_array(value);
    case 'o': return json_is_object(value);
    case 'b': return json_is_boolean(value);
    case 'i': return json_is_integer(value);
    case 's': return json_is_string(value);
    default: return true;
    }
}

static bool needs_are_met(struct api *x)
{
    for (const char *at = x->route->fields; *at != '\0';) {
        char name[32] = "";
        size_t size = strcspn(at, " ");
        if (size > 1 && at[size - 1] == '*') {
            memcpy(name, at, size - 1);
            if (json_object_get(x->json, name) == NULL) {
                api_error(x, 400, "invalid", "", "%s is missing in the body", name);
                return false;
            }
        }
        at += size + (at[size] == ' ');
    }
    return true;
}

/* "claims* for" becomes "claims, for", for people. */
static void list_fields(const char *fields, char *ret, size_t size)
{
    size_t used = 0;
    for (; *fields != '\0' && used + 3 < size; fields++) {
        if (*fields == ' ')
            ret[used++] = ',';
        if (*fields != '*')
            ret[used++] = *fields;
    }
    ret[used] = '\0';
}

bool body_check(struct api *x)
{
    const char *key;
    json_t *value;
    json_object_foreach(x->json, key, value)
    {
        if (!field_is_known(x->route->fields, key)) {
            char known[256];
            list_fields(x->route->fields, known, sizeof known);
            api_error(x, 400, "invalid", "", "unknown member \"%.60s\"; known are %s", key, known);
            return false;
        }
        if (!field_has_right_type(x->route, key, value)) {
            api_error(x, 400, "invalid", "see GET /openapi.json", "%s: wrong type", key);
            return false;
        }
    }
    return needs_are_met(x);
}

const char *body_text(const struct api *x, const char *name)
{
    return json_string_value(json_object_get(x->json, name));
}

bool body_true(const struct api *x, const char *name)
{
    return json_is_true(json_object_get(x->json, name));
}

bool body_endpoint(struct api *x, pr_slice *ret)
{
    const char *name = body_text(x, "endpoint");
    *ret = slice_from(name);
    if (name == NULL || name[0] != '\0')
        return true;
    api_error(x, 400, "invalid", "", "endpoint: must not be empty; omit it instead");
    return false;
}

static int take_ids(struct api *x, const json_t *list, struct filter *filter, struct pr_error *reterr)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > IDS_MAX)
        return error_set(reterr, PR_EINVAL, "ids: needs 1 to %d entries", IDS_MAX);
    pr_id *ids = arena_alloc_array(&x->arena, count, sizeof *ids);
    if (ids == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu ids", count);
    for (size_t i = 0; i < count; i++)
        if (pr_id_parse(slice_from(json_string_value(json_array_get(list, i))), &ids[i]) != PR_OK)
            return error_set(reterr, PR_EINVAL, "ids: entry %zu is not a message id", i + 1);
    filter->ids = ids;
    filter->id_count = count;
    return PR_OK;
}

static int take_filter(struct api *x, json_t *object, struct filter *filter, struct pr_error *reterr)
{
    const char *key;
    json_t *value;
    int64_t now_us = api_now(x);
    json_object_foreach(object, key, value)
    {
        pr_slice text = { json_string_value(value), json_string_length(value) };
        if (json_is_integer(value))
            text = arena_printf(&x->arena, "%lld", (long long)json_integer_value(value));
        int rc = text.data != NULL ? filter_set(filter, slice_from(key), text, now_us, reterr)
                                   : error_set(reterr, PR_EINVAL, "filter: %.60s: must be a string", key);
        if (rc == PR_UNKNOWN)
            rc = error_set(reterr, PR_EINVAL,
                           "filter: unknown member \"%.60s\"; known are box endpoint type stream reason error "
                           "fingerprint correlation_id since until row newest_row limit after",
                           key);
        if (rc < 0)
            return rc;
    }
    return PR_OK;
}

bool body_filter(struct api *x, struct filter *ret)
{
    struct pr_error error;
    json_t *ids = json_object_get(x->json, "ids"), *filter = json_object_get(x->json, "filter");
    int rc = PR_OK;
    *ret = api_filter_init(x);
    if (ids == NULL && filter == NULL)
        rc = error_set(&error, PR_EINVAL, "give ids or filter");
    if (rc == PR_OK && filter != NULL)
        rc = take_filter(x, filter, ret, &error);
    if (rc == PR_OK && ret->newest_row != 0 && !slice_starts_with(slice_from(x->route->path), PR_STR("/v1/dead")))
        rc = error_set(&error, PR_EINVAL, "newest_row: only for dead letters");
    struct filter others = *ret;
    others.endpoint = (pr_slice){ NULL, 0 }; /* a message to several endpoints has one id, so both may be needed */
    if (rc == PR_OK && ids != NULL && (!filter_is_empty(&others) || ret->limit > 0 || ret->after > 0))
        rc = error_set(&error, PR_EINVAL, "ids and filter cannot be combined, except with endpoint");
    if (rc == PR_OK && ids != NULL)
        rc = take_ids(x, ids, ret, &error);
    if (rc == PR_OK && filter != NULL && filter_is_empty(ret))
        rc = error_set(&error, PR_EINVAL, "the filter is empty: it would match everything");
    if (rc < 0)
        api_fault(x, &error);
    return rc == PR_OK && api_box_is_there(x, ret->box);
}

int body_payload(struct api *x, pr_slice *ret, bool *ret_given, struct pr_error *reterr)
{
    const json_t *json = json_object_get(x->json, "payload");
    const char *plain = body_text(x, "payload_text"), *coded = body_text(x, "payload_base64");
    *ret_given = json != NULL || plain != NULL || coded != NULL;
    if ((json != NULL) + (plain != NULL) + (coded != NULL) > 1)
        return error_set(reterr, PR_EINVAL, "payload, payload_text and payload_base64 cannot be combined");
    char *made = json != NULL ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    struct buf bytes;
    buf_init(&bytes, ANSWER_MAX);
    int rc = coded != NULL ? base64_decode(&bytes, slice_from(coded)) : PR_OK;
    *ret = slice_dup(&x->arena, coded != NULL ? buf_slice(&bytes) : slice_from(made != NULL ? made : plain));
    buf_fini(&bytes);
    free(made);
    if (rc != PR_OK)
        return error_set(reterr, PR_EINVAL, "payload_base64: not valid base64");
    return ret->data != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for the payload");
}
