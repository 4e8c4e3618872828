/* Incoming HTTP requests, before they have an effect: the line, the filter, the authorisation, the messages in a
 * body. */
#include "source/decode.h"

#include "base/slice.h"
#include "ops/api/authz.h"
#include "ops/api/query.h"
#include "ops/api/route.h"

#include "fuzz.h"

static void check_url(struct arena *arena, const char *method, pr_slice path, pr_slice query)
{
    const struct api_route *route = NULL;
    struct pr_error error;
    struct params params;
    struct filter filter = { .state = -1 };
    const char *allow = NULL;
    pr_slice part = { NULL, 0 }, decoded;
    switch (route_find(method, path, &route, &part, &allow)) {
    case ROUTE_FOUND: FUZZ_CHECK(route != NULL && part.size <= path.size); break;
    case ROUTE_NO_METHOD: FUZZ_CHECK(allow != NULL); break;
    case ROUTE_NO_PATH: break;
    }
    if (url_decode(part, false, arena, &decoded) == PR_OK)
        FUZZ_CHECK(decoded.size <= part.size && memchr(decoded.data, '\0', decoded.size) == NULL);
    if (params_parse(query, arena, &params, &error) != PR_OK)
        return;
    FUZZ_CHECK(params.count <= PARAMS_MAX);
    for (size_t i = 0; i < params.count; i++) {
        int rc = filter_set(&filter, params.list[i].name, params.list[i].value, 1000000, &error);
        FUZZ_CHECK(rc == PR_OK || rc == PR_UNKNOWN || rc == PR_EINVAL);
        FUZZ_CHECK(filter.limit <= LIST_LIMIT_MAX);
    }
}

static void check_guard(const char *host, const char *authorization)
{
    static const char *const hosts[] = { "relay.example" };
    const struct authz closed = { "operator-token-0123", "viewer-token-01234", hosts, 1, false };
    const struct authz open = { "", "", hosts, 1, false };
    (void)authz_host_is_known(&closed, host);
    enum role role = authz_role(&closed, authorization);
    FUZZ_CHECK(role != ROLE_OPERATOR || strstr(authorization, "operator-token-0123") != NULL);
    FUZZ_CHECK(role != ROLE_VIEWER || strstr(authorization, "viewer-token-01234") != NULL);
    FUZZ_CHECK(authz_role(&open, authorization) == ROLE_OPERATOR);
}

static void check_body(struct arena *arena, pr_slice content_type, pr_slice header, pr_slice body)
{
    char *name = input_cstr(header), *value = strchr(name, ':');
    struct pr_message *messages = NULL;
    struct pr_error error = { 0 };
    size_t count = 0;
    struct decode_header headers[8];
    struct decode_input in = { .content_type = content_type,
                               .headers = headers,
                               .prefix = "ce-",
                               .is_percent_encoded = true,
                               .body = body,
                               .now_us = 1000000 };
    const struct decode_header usual[] = {
        { PR_STR("ce-specversion"), PR_STR("1.0") },
        { PR_STR("ce-id"), PR_STR("1") },
        { PR_STR("ce-type"), PR_STR("t") },
        { PR_STR("ce-source"), PR_STR("s") },
    };
    if (value != NULL && strncmp(name, "ce-", 3) == 0) {
        *value++ = '\0';
        for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
            headers[in.header_count++] = usual[i];
        headers[in.header_count++] = (struct decode_header){ slice_from(name), slice_from(value) };
    }
    int rc = decode_messages(&in, arena, &messages, &count, &error);
    FUZZ_CHECK(rc <= 0 && (rc == PR_OK) == (error.text[0] == '\0'));
    FUZZ_CHECK(rc < 0 || (count >= 1 && count <= DECODE_MESSAGES_MAX));
    for (size_t i = 0; rc == PR_OK && i < count; i++) {
        (void)message_check(&messages[i], 1u << 20, &error); /* what is left for it to refuse it refuses */
    }
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    struct arena arena;
    arena_init(&arena, 4096);
    char *method = input_cstr(input_line(&in));
    pr_slice path = input_line(&in), query = input_line(&in);
    char *host = input_cstr(input_line(&in)), *authorization = input_cstr(input_line(&in));
    pr_slice content_type = input_line(&in), header = input_line(&in);
    check_url(&arena, method, path, query);
    check_guard(host, authorization);
    check_body(&arena, content_type, header, input_rest(&in));
    free(method);
    free(host);
    free(authorization);
    arena_fini(&arena);
    return 0;
}
