#include "transport/own_headers.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define NUMBER_TEXT_MAX 64

/* False: it is nested, and has no text form. */
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
        if (json_is_null(value)) /* means: absent */
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

static int refuse(pr_slice name, const struct own_header_rules *rules, const char *why, struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL, "the message's header \"%.*s\" cannot be sent %s: %s",
                     (int)min_size(name.size, 100), name.data, rules->carrier, why);
}

/* Does the carrier write an attribute of this name, with this value? */
static bool is_written(const struct own_header *h, pr_slice name, const struct cloudevent *event)
{
    for (size_t i = 0; i < event->count; i++)
        if (strlen(event->attributes[i].name) == name.size &&
            strncasecmp(event->attributes[i].name, name.data, name.size) == 0)
            return slice_eq(event->attributes[i].value, h->value);
    return false;
}

static bool is_any_case(pr_slice name, const char *text)
{
    return name.size == strlen(text) && strncasecmp(name.data, text, name.size) == 0;
}

int own_header_judge(const struct own_header *header, const struct own_header_rules *rules, bool *ret_is_sent,
                     struct pr_error *reterr)
{
    const size_t prefix_size = rules->prefix != NULL ? strlen(rules->prefix) : 0;
    pr_slice name = header->name;

    *ret_is_sent = false;
    if (name.size == 0)
        return refuse(name, rules, "it has no name", reterr);
    if (!rules->can_carry(name))
        return refuse(name, rules, "this name is not allowed there, or has a meaning of its own; use another one",
                      reterr);
    if (rules->content_type.size > 0 && is_any_case(name, "content-type"))
        return slice_eq(header->value, rules->content_type)
                   ? PR_OK
                   : refuse(name, rules, "set the message's content_type instead", reterr);
    if (prefix_size > 0 && name.size >= prefix_size && strncasecmp(name.data, rules->prefix, prefix_size) == 0) {
        pr_slice attribute = { name.data + prefix_size, name.size - prefix_size };
        return is_any_case(attribute, "id") || is_written(header, attribute, rules->event)
                   ? PR_OK
                   : refuse(
                         name, rules,
                         "it is named like an attribute of CloudEvents, and those come from the message's columns; use "
                         "another name",
                         reterr);
    }
    *ret_is_sent = true;
    return PR_OK;
}
