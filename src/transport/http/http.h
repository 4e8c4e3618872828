/* http.h - the parts of the HTTP transport.
 *
 *   http.c          the transport: many exchanges at once in one curl multi handle
 *   http_exchange.c one of them: a message, or a batch and what it is split into
 *   http_request.c  message -> url, headers, body
 *   http_reply.c    response -> result */
#ifndef TRANSPORT_HTTP_HTTP_H
#define TRANSPORT_HTTP_HTTP_H

#include <curl/curl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "transport/bundle.h"
#include "transport/envelope.h"
#include "transport/http/egress_filter.h"
#include "transport/http/signature.h"
#include "transport/transport.h"

#define HTTP_CONCURRENCY 64
#define HTTP_CONCURRENCY_MAX 4096 /* each is a socket */
#define HTTP_BATCHED_MAX 100000   /* messages in all batches that are out: each has room for its result */
#define HTTP_URL_MAX 8192         /* bytes, with the placeholders filled in */
#define HTTP_BODY_MAX (PR_PAYLOAD_MAX * (size_t)6 + 65536) /* structured: each byte can become \u00XX */
#define HTTP_REPLY_MAX 65536                               /* bytes of headers and body that are read */
#define HTTP_REPLY_SHOWN 500                               /* bytes of the body that become part of the error */
#define HTTP_RETRY_AFTER_MAX_US PR_SECONDS(24 * 60 * 60)   /* the longest Retry-After that is honoured */

/* ---- Request ---- */

struct http_request {
    struct arena arena;         /* of the headers */
    struct curl_slist *headers; /* not freed by curl */
    struct curl_slist **headers_end;
    struct buf url, json;
    pr_slice body;               /* the message's payload, or json */
    const struct signer *signer; /* set after init; NULL: not signed */
    const struct clock *clock;   /* ... and this one, when it is */
};

void http_request_init(struct http_request *request);
void http_request_fini(struct http_request *request);

/* Borrows from message.  PR_OK, PR_ENOMEM, or PR_EINVAL: this message cannot be sent. */
PR_MUST_CHECK int http_request_make(struct http_request *request, const struct endpoint_config *config,
                                    enum envelope envelope, const struct pr_message *message, struct pr_error *reterr);

/* The same for several in one request (envelope: batch).  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int http_request_make_batch(struct http_request *request, const struct endpoint_config *config,
                                          const struct delivery *const *list, size_t count);

/* Is the url valid?  PR_OK or PR_ECONFIG; the text never repeats the url, which may contain a password. */
PR_MUST_CHECK int http_headers_check(const struct endpoint_config *config, struct pr_error *reterr);
PR_MUST_CHECK int http_url_check(const struct endpoint_config *config, struct pr_error *reterr);

/* ---- Reply ---- */

struct http_reply {
    char body[HTTP_REPLY_SHOWN + 4]; /* 4 more, so that it can be cut between characters */
    size_t body_size;
    size_t bytes;     /* of headers and body */
    bool has_headers; /* all headers of the final response have arrived: otherwise there is no response */
    char curl_error[CURL_ERROR_SIZE];
    const char *refused; /* why the egress filter refused an address; NULL: it did not */
    char refused_address[NETGUARD_TEXT_SIZE];
    bool connecting; /* the egress filter allowed an address */
};

/* The result of an exchange.  maybe_arrived: the request may have been sent completely. */
void http_reply_judge(const struct http_reply *reply, CURL *easy, CURLcode rc, bool maybe_arrived, uint64_t token,
                      struct delivery_result *ret);

/* For endpoints whose response is the result: it becomes the result's output.  A success whose response is truncated or
 * too long becomes a failure. */
void http_reply_take_answer(const struct buf *answer, CURLcode rc, struct delivery_result *result);

/* Was the failure caused by the content of the request, or would any other request have failed, too?  If unknown, the
 * former: a message must not fail because of another. */
bool http_reply_is_about_content(const struct http_reply *reply, CURL *easy);

/* ---- Exchanges ---- */

struct http;

struct exchange {
    struct list_node node;
    struct http *http;
    CURL *easy;                   /* NULL: never used yet */
    const struct delivery **list; /* its messages */
    size_t count;
    const struct delivery *only; /* its message, without a batch */
    struct bundle *bundle;       /* NULL: envelope is not batch */
    int64_t start_before_us;
    struct http_request request;
    struct http_reply reply;
    struct buf answer; /* endpoint_config.answer_max */
    unsigned begun;    /* how often curl began to send it */
    bool again;        /* W3 */
    bool cancelled;    /* must not begin (again) */
};

struct http {
    const struct endpoint_config *config;
    const struct clock *clock;
    enum envelope envelope;
    bool plain; /* http, not https */
    struct signer signer;
    CURLM *multi;
    struct exchange *exchanges;
    size_t exchange_count;
    struct list free, out;
    struct delivery_result *done; /* a ring */
    size_t done_first, done_count, done_capacity;
    size_t taken_count; /* taken messages whose results were not polled yet */
};

PR_MUST_CHECK int exchange_init(struct exchange *x, struct http *h, size_t batch_messages);
void exchange_fini(struct exchange *x); /* also after a failed init */
/* Sends the first count messages of x->list.  True: the request is out.  False: all of them have their results
 * already. */
bool exchange_start(struct exchange *x, size_t count, int64_t now_us);
/* Its request ended.  True: another part of its batch is out now. */
bool exchange_finish(struct exchange *x, CURLcode rc);
/* Adds a result to be polled; takes over its memory. */
void http_done(struct http *h, const struct delivery_result *result);

#endif
