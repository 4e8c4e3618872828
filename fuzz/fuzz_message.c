/* Messages of a sender: checked the same way when stored and when read again. */
#include "core/id.h"
#include "core/message.h"

#include "fuzz.h"

#define PAYLOAD_LIMIT 1000

static void check_id(pr_slice text)
{
    pr_id id, again;
    char form[PR_ID_TEXT_SIZE];
    if (pr_id_parse(text, &id) == PR_OK) {
        pr_id_format(id, form);
        FUZZ_CHECK(pr_id_parse(pr_str(form), &again) == PR_OK && pr_id_equal(id, again));
    }
    if (id_from_stored(text, &id) == PR_OK && text.size == sizeof id.bytes)
        FUZZ_CHECK(memcmp(id.bytes, text.data, sizeof id.bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    struct pr_message m, copy;
    struct pr_error error = { 0 };
    check_id((pr_slice){ in.data, in.size });
    input_message(&in, &m);

    int rc = message_check(&m, PAYLOAD_LIMIT, &error);
    FUZZ_CHECK(rc == PR_OK || ((rc == PR_EINVAL || rc == PR_ETOOBIG) && error.text[0] != '\0'));
    if (rc == PR_OK)
        FUZZ_CHECK(message_defect(&m, PAYLOAD_LIMIT) == NULL); /* what may be sent can be delivered */

    char *block = malloc(message_bytes(&m) + 1);
    FUZZ_CHECK(block != NULL);
    message_copy(&m, block, &copy);
    FUZZ_CHECK(copy.payload.size == m.payload.size && message_bytes(&copy) == message_bytes(&m));
    if (m.payload.size > 0)
        FUZZ_CHECK(memcmp(copy.payload.data, m.payload.data, m.payload.size) == 0);
    FUZZ_CHECK((message_check(&copy, PAYLOAD_LIMIT, &error) == PR_OK) == (rc == PR_OK));
    (void)name_is_valid(m.type);
    free(block);
    return 0;
}
