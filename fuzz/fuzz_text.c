/* Bytes that claim to be text: UTF-8, base64, JSON strings, log lines. */
#include <jansson.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "core/fingerprint.h"

#include "fuzz.h"

static void swallow(void *arg, const char *line, size_t size)
{
    (void)arg;
    FUZZ_CHECK(size > 0 && line[size - 1] == '\n' && memchr(line, '\n', size) == line + size - 1); /* one line */
}

static void check_utf8(pr_slice text, struct buf *b)
{
    utf8_clean(b, text);
    FUZZ_CHECK(buf_failed(b) == 0 && utf8_valid(buf_slice(b)));
    FUZZ_CHECK(utf8_cut(text, 3).size <= text.size && utf8_cut_bytes(text, 3).size <= 3);
    if (utf8_valid(text))
        FUZZ_CHECK(utf8_valid(utf8_cut(text, 3)) && utf8_valid(utf8_cut_bytes(text, 3)));
}

static void check_base64(pr_slice text, struct buf *b)
{
    struct buf again;
    buf_init(&again, 8u << 20);
    base64_encode(b, text);
    FUZZ_CHECK(base64_decode(&again, buf_slice(b)) == PR_OK && again.size == text.size);
    if (text.size > 0)
        FUZZ_CHECK(memcmp(again.data, text.data, text.size) == 0);
    buf_reset(&again);
    buf_reset(b);
    if (base64_decode(&again, text) == PR_OK) { /* strict: there is one text for some bytes */
        base64_encode(b, buf_slice(&again));
        FUZZ_CHECK(b->size == text.size && (b->size == 0 || memcmp(b->data, text.data, b->size) == 0));
    }
    buf_fini(&again);
}

static void check_quote(pr_slice text, struct buf *b)
{
    json_quote(b, text);
    json_t *value = json_loadb(b->data, b->size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    FUZZ_CHECK(json_is_string(value));
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(pr_slice text, struct buf * b) = { check_utf8, check_base64, check_quote };
    pr_slice text = { (const char *)data, size };
    struct log log = { .level = LOG_INFO, .format = size % 2 == 0 ? LOG_LOGFMT : LOG_JSON, .write = swallow };
    struct buf b;
    buf_init(&b, 8u << 20);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        checks[i](text, &b);
        buf_reset(&b);
    }
    buf_fini(&b);
    log_emit(&log, LOG_INFO, "fuzz", LOG_SLICE("text", text));
    return 0;
}
