#include "transport/own_headers.h"

#include <jansson.h>

#include "base/error.h"
#include "base/slice.h"

#define NUMBER_TEXT_MAX 64

/* False: it is nested, and has no text. */
static bool text_of(const json_t *value, char number[NUMBER_TEXT_MAX], pr_slice *ret)
{
    if (json_is_string(value))
        *ret = (pr_slice){ json_string_value(value), json_string_length(value) };
    else if (json_is_boolean(value))
        *ret = json_is_true(value) ? PR_STR("true") : PR_STR("false");
    else if (json_is_number(value))
        *ret = (pr_slice){ number, json_dumpb(value, number, NUMBER_TEXT_MAX, JSON_ENCODE_ANY) };
    else
        return false;
    return ret->size <= NUMBER_TEXT_MAX || !json_is_number(value);
}

static int take_all(json_t *object, struct arena *arena, struct own_header **ret, size_t *ret_count,
                    struct pr_error *reterr)
{
    struct own_header *headers = arena_alloc_array(arena, json_object_size(object), sizeof(*headers));
    const char *key;
    json_t *value;
    size_t count = 0;
    if (headers == NULL)
        return PR_ENOMEM;
    json_object_foreach(object, key, value)
    {
        char number[NUMBER_TEXT_MAX];
        pr_slice text;
        if (json_is_null(value)) /* it says that there is none */
            continue;
        if (!text_of(value, number, &text))
            return error_set(reterr, PR_EINVAL,
                             "the message's header \"%.100s\" cannot be sent: use a string, a number, true or false",
                             key);
        headers[count].name = slice_dup(arena, slice_from(key));
        headers[count].value = slice_dup(arena, text);
        if (headers[count].name.data == NULL || headers[count].value.data == NULL)
            return PR_ENOMEM;
        count++;
    }
    *ret = headers;
    *ret_count = count;
    return PR_OK;
}

int own_headers_read(const struct pr_message *message, struct arena *arena, struct own_header **ret, size_t *ret_count,
                     struct pr_error *reterr)
{
    json_error_t why;
    *ret = NULL;
    *ret_count = 0;
    if (message->headers.size == 0)
        return PR_OK;
    json_t *object = json_loadb(message->headers.data, message->headers.size, JSON_ALLOW_NUL, &why);
    int rc = object != NULL && json_typeof(object) == JSON_OBJECT
                 ? take_all(object, arena, ret, ret_count, reterr)
                 : error_set(reterr, PR_EINVAL, "the message's headers are not a JSON object: %s", why.text);
    json_decref(object);
    return rc == PR_ENOMEM ? error_set(reterr, PR_ENOMEM, "out of memory for the headers of a message") : rc;
}
