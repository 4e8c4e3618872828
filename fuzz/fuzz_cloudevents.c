/* Any message as a CloudEvent: the structured form is JSON with the attributes that are required,
 * headers are printable. */
#include "base/buf.h"
#include "transport/cloudevents.h"

#include <jansson.h>

#include "fuzz.h"

static void check_structured(const struct pr_message *m)
{
    struct buf text;
    buf_init(&text, 64u << 20);
    cloudevent_write_json(&text, m, "fuzz");
    FUZZ_CHECK(buf_failed(&text) == 0);
    json_t *event = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);
    /* A payload that is JSON to us but has numbers that are none to jansson is the exception. */
    if (event != NULL) {
        FUZZ_CHECK(json_typeof(event) == JSON_OBJECT);
        FUZZ_CHECK(json_is_string(json_object_get(event, "id")));
        FUZZ_CHECK(json_is_string(json_object_get(event, "source")));
        FUZZ_CHECK(json_is_string(json_object_get(event, "specversion")));
    } else {
        FUZZ_CHECK(m->payload.size > 0);
    }
    json_decref(event);
    buf_fini(&text);
}

static void check_binary(const struct pr_message *m)
{
    struct cloudevent event;
    cloudevent_init(&event, m, NULL);
    FUZZ_CHECK(event.count <= CLOUDEVENTS_ATTRIBUTES_MAX);
    for (size_t i = 0; i < event.count; i++) {
        pr_slice value = event.attributes[i].value;
        char *text = malloc(3 * value.size + 1);
        FUZZ_CHECK(text != NULL && value.size > 0);
        size_t size = cloudevent_percent_encode(value, text);
        FUZZ_CHECK(size >= value.size && size <= 3 * value.size);
        for (size_t k = 0; k < size; k++)
            FUZZ_CHECK(text[k] > ' ' && text[k] < 0x7f && text[k] != '"');
        free(text);
    }
    (void)cloudevent_content_type(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    struct pr_message m;
    input_message(&in, &m);
    check_binary(&m);
    check_structured(&m);
    return 0;
}
