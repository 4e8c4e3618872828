/* An arbitrary configuration file: refused with a position, or shown again. */
#include "base/buf.h"
#include "runtime/config/config.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *config = NULL;
    struct pr_error error = { 0 };
    int rc = config_load_text((pr_slice){ (const char *)data, size }, "fuzz", &config, &error);
    if (rc < 0) {
        FUZZ_CHECK(error.text[0] != '\0' && strlen(error.text) < sizeof error.text);
        FUZZ_CHECK(strchr(error.text, '\n') == NULL);
        return 0;
    }
    struct buf text;
    buf_init(&text, 16u << 20);
    config_show(config, &text);
    FUZZ_CHECK(buf_failed(&text) == 0);
    FUZZ_CHECK(config->box_count >= 2); /* outbox and inbox */
    buf_fini(&text);
    config_free(config);
    return 0;
}
