/* http.h - the parts of the HTTP transport.
 *
 *   http.c          the transport: many exchanges at once in one curl multi handle
 *   http_request.c  message -> url, headers, body
 *   http_reply.c    what came back -> result
 */
#ifndef TRANSPORT_HTTP_H
#define TRANSPORT_HTTP_H

#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "transport/netguard.h"
#include "transport/transport.h"

#define HTTP_CONCURRENCY 64
#define HTTP_CONCURRENCY_MAX 4096           /* each is a socket */
#define HTTP_URL_MAX 8192                   /* bytes, with the placeholders filled in */
#define HTTP_BODY_MAX (PR_PAYLOAD_MAX * (size_t)6 + 65536) /* structured: each byte can become \u00XX */
#define HTTP_REPLY_MAX 65536                /* bytes of headers and body that we read */
#define HTTP_REPLY_SHOWN 500                /* bytes of the body that become part of the error */
#define HTTP_RETRY_AFTER_MAX_US PR_SECONDS(24 * 60 * 60) /* nobody puts us off for longer */

/* ---- Request ---- */

enum http_envelope { HTTP_BINARY, HTTP_STRUCTURED, HTTP_RAW };

/* False: there is no such envelope.  NULL and "" are binary. */
bool http_envelope_parse(const char *word, enum http_envelope *ret);

struct http_request {
    struct arena        arena;   /* of the headers */
    struct curl_slist  *headers; /* ours: not to be freed by curl */
    struct curl_slist **headers_end;
    struct buf          url, json;
    pr_slice            body; /* the message's payload, or json */
};

void http_request_init(struct http_request *request);
void http_request_fini(struct http_request *request);

/* Borrows from message.  PR_OK, PR_ENOMEM, or PR_EINVAL: this message cannot be sent. */
PR_MUST_CHECK int http_request_make(struct http_request *request, const struct endpoint_config *config,
                                    enum http_envelope envelope, const struct pr_message *message,
                                    struct pr_error *reterr);

/* Is the url a good one?  PR_OK or PR_ECONFIG; never repeats the url, it may hold a password. */
PR_MUST_CHECK int http_url_check(const struct endpoint_config *config, struct pr_error *reterr);

/* ---- Reply ---- */

struct http_reply {
    char        body[HTTP_REPLY_SHOWN + 4]; /* so much more that it can be cut between characters */
    size_t      body_size;
    size_t      bytes; /* of headers and body */
    char        curl_error[CURL_ERROR_SIZE];
    const char *refused; /* why the guard refused an address; NULL: it did not */
    char        refused_address[NETGUARD_TEXT_SIZE];
    bool        connecting; /* the guard let an address pass */
};

/* How it ended.  maybe_arrived: the request may have been sent completely. */
void http_reply_judge(const struct http_reply *reply, CURL *easy, CURLcode rc, bool maybe_arrived,
                      uint64_t token, struct delivery_result *ret);

#endif
