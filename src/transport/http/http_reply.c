/* Responses and errors as results: two tables. */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/http/http.h"

/* The first line that contains the status decides.  A gateway that lost its upstream (502, 504) cannot know whether the
 * message arrived there. */
static const struct http_status {
    int first, last;
    enum send_outcome outcome;
    int reason;
    bool of_all; /* independent of the request: see http_reply_is_about_content() */
    const char *advice;
} statuses[] = {
    { 200, 299, SEND_OK, PR_REASON_NONE, false, NULL },
    { 300, 399, SEND_FAILED, PR_REASON_REJECTED, true, "redirects are not followed: change the endpoint's url" },
    { 400, 400, SEND_FAILED, PR_REASON_VALIDATION_FAILURE, false, NULL },
    { 401, 401, SEND_FAILED, PR_REASON_UNAUTHORIZED, true, NULL },
    { 403, 403, SEND_FAILED, PR_REASON_UNAUTHORIZED, false, NULL },
    { 404, 404, SEND_FAILED, PR_REASON_DESTINATION_MISSING, false, NULL },
    { 405, 405, SEND_FAILED, PR_REASON_DESTINATION_MISSING, true, NULL },
    { 407, 407, SEND_FAILED, PR_REASON_UNAUTHORIZED, true, NULL },
    { 408, 408, SEND_FAILED, PR_REASON_TIMEOUT_EXCEEDED, true, NULL },
    { 410, 410, SEND_FAILED, PR_REASON_DESTINATION_MISSING, true, "gone for good" },
    { 413, 413, SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE, false, NULL },
    { 422, 422, SEND_FAILED, PR_REASON_VALIDATION_FAILURE, false, NULL },
    { 425, 425, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE, true, NULL },
    { 429, 429, SEND_FAILED, PR_REASON_RATE_LIMITED, true, NULL },
    { 400, 499, SEND_FAILED, PR_REASON_REJECTED, false, NULL },
    { 502, 502, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, true, NULL },
    { 503, 503, SEND_FAILED, PR_REASON_TRANSPORT_UNAVAILABLE, true, NULL },
    { 504, 504, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, true, NULL },
    { 500, 599, SEND_FAILED, PR_REASON_DEPENDENCY_FAILURE, false, NULL },
};
#define STATUS_GONE 410

/* Curl's own names of common errors. */
#define NAMED(X)                                                                                                       \
    X(CURLE_COULDNT_RESOLVE_HOST)                                                                                      \
    X(CURLE_COULDNT_CONNECT)                                                                                           \
    X(CURLE_OPERATION_TIMEDOUT)                                                                                        \
    X(CURLE_SEND_ERROR)                                                                                                \
    X(CURLE_RECV_ERROR)                                                                                                \
    X(CURLE_GOT_NOTHING)                                                                                               \
    X(CURLE_PARTIAL_FILE)                                                                                              \
    X(CURLE_SSL_CONNECT_ERROR)                                                                                         \
    X(CURLE_PEER_FAILED_VERIFICATION)                                                                                  \
    X(CURLE_SSL_CACERT_BADFILE)                                                                                        \
    X(CURLE_SSL_CIPHER)                                                                                                \
    X(CURLE_URL_MALFORMAT)                                                                                             \
    X(CURLE_UNSUPPORTED_PROTOCOL)                                                                                      \
    X(CURLE_WEIRD_SERVER_REPLY)                                                                                        \
    X(CURLE_OUT_OF_MEMORY) X(CURLE_WRITE_ERROR) X(CURLE_BAD_CONTENT_ENCODING) X(CURLE_ABORTED_BY_CALLBACK)

static void format_code(CURLcode rc, char ret_text[RESULT_CODE_SIZE])
{
    static const struct {
        CURLcode code;
        const char *name;
    } names[] = {
#define X(name) { name, #name },
        NAMED(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (names[i].code == rc) {
            snprintf(ret_text, RESULT_CODE_SIZE, "%s", names[i].name);
            return;
        }
    snprintf(ret_text, RESULT_CODE_SIZE, "CURLE_%d", (int)rc);
}

static const struct http_status *status_find(long status)
{
    static const struct http_status other = { 0, 0, SEND_FAILED, PR_REASON_UNKNOWN, false, "not an HTTP status" };
    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        if (status >= statuses[i].first && status <= statuses[i].last)
            return &statuses[i];
    return &other;
}

/* Seconds or a date, relative to now; 0: none. */
static int64_t retry_after_us(CURL *easy)
{
    curl_off_t seconds = 0;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK)
        return 0;
    return min64(time_mul(max64(seconds, 0), PR_SECONDS(1)), HTTP_RETRY_AFTER_MAX_US);
}

static void judge_status(const struct http_reply *reply, CURL *easy, long status, uint64_t token,
                         struct delivery_result *ret)
{
    const struct http_status *s = status_find(status);
    if (s->outcome == SEND_OK) {
        result_ok(ret, token);
        return;
    }
    char code[RESULT_CODE_SIZE], text[HTTP_REPLY_SHOWN + 128];
    pr_slice body = slice_trim(utf8_cut_bytes((pr_slice){ reply->body, reply->body_size }, HTTP_REPLY_SHOWN));
    int head = snprintf(text, sizeof(text), "HTTP %ld%s%s%s", status, s->advice != NULL ? ": " : "",
                        s->advice != NULL ? s->advice : "", body.size > 0 ? ": " : "");
    memcpy(text + head, body.data, body.size);
    snprintf(code, sizeof(code), "%ld", status);
    result_failed(ret, token, s->outcome, s->reason, code, (pr_slice){ text, (size_t)head + body.size });
    ret->retry_after_us = retry_after_us(easy);
    ret->disable = status == STATUS_GONE;
}

static void judge_refused(const struct http_reply *reply, uint64_t token, struct delivery_result *ret)
{
    char text[NETGUARD_TEXT_SIZE + 192];
    snprintf(text, sizeof(text), "%s is refused (%s): if you trust it, add it to allow_networks",
             reply->refused_address, reply->refused);
    result_unsent(ret, token, PR_REASON_REJECTED, "address_refused", slice_from(text));
}

static void judge_error(const struct http_reply *reply, CURLcode rc, bool maybe_arrived, long status, uint64_t token,
                        struct delivery_result *ret)
{
    char code[RESULT_CODE_SIZE], text[CURL_ERROR_SIZE + 128], cut[128];
    format_code(rc, code);
    snprintf(cut, sizeof(cut), "HTTP %ld, but its headers were incomplete%s", status,
             reply->bytes > HTTP_REPLY_MAX ? ", they exceed 64 KB" : "");
    snprintf(text, sizeof(text), "%s%s",
             status >= 200                  ? cut
             : reply->curl_error[0] != '\0' ? reply->curl_error
                                            : curl_easy_strerror(rc),
             maybe_arrived                          ? " (it may have arrived)"
             : rc == CURLE_PEER_FAILED_VERIFICATION ? " (name your own authority in the endpoint's ca)"
                                                    : "");
    result_failed(ret, token, maybe_arrived ? SEND_UNKNOWN : SEND_FAILED,
                  rc == CURLE_OPERATION_TIMEDOUT ? PR_REASON_TIMEOUT_EXCEEDED : PR_REASON_TRANSPORT_UNAVAILABLE, code,
                  slice_from(text));
    ret->unsent = !maybe_arrived;
}

static long status_of(CURL *easy)
{
    long status = 0;
    return curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0;
}

void http_reply_judge(const struct http_reply *reply, CURL *easy, CURLcode rc, bool maybe_arrived, uint64_t token,
                      struct delivery_result *ret)
{
    long status = status_of(easy);
    /* A response counts even if the end of its body got lost or exceeds the limit.  Without complete headers there is
     * no response: a server that cuts them off, or sends them endlessly, may not even have read the message. */
    if (status >= 200 && reply->has_headers)
        judge_status(reply, easy, status, token, ret);
    else if (reply->refused != NULL && !reply->connecting && !maybe_arrived)
        judge_refused(reply, token, ret);
    else
        judge_error(reply, rc, maybe_arrived, status, token, ret);
}

void http_reply_take_answer(const struct buf *answer, CURLcode rc, struct delivery_result *result)
{
    uint64_t token = result->token;
    char text[96];

    if (result->outcome == SEND_OK && buf_failed(answer) == PR_ETOOBIG) {
        snprintf(text, sizeof(text), "its answer has more than %zu bytes", answer->max);
        result_failed(result, token, SEND_FAILED, PR_REASON_MESSAGE_TOO_LARGE, "", slice_from(text));
        return;
    }
    if (result->outcome == SEND_OK && (rc != CURLE_OK || buf_failed(answer) != 0)) {
        result_failed(result, token, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "",
                      PR_STR("its answer was cut off"));
        return;
    }
    bool said = result->outcome == SEND_OK || answer->size > 0;
    result->output = said && buf_failed(answer) == 0 ? output_copy(buf_slice(answer)) : NULL;
    result->output_size = answer->size;
    if (result->outcome == SEND_OK && result->output == NULL)
        result_failed(result, token, SEND_UNKNOWN, PR_REASON_TRANSPORT_UNAVAILABLE, "",
                      PR_STR("out of memory for its answer"));
}

bool http_reply_is_about_content(const struct http_reply *reply, CURL *easy)
{
    long status = status_of(easy);
    return status >= 200 && reply->has_headers && !status_find(status)->of_all;
}
