/* http and https: each message, or each batch, is one POST; 2xx means delivered.
 *
 * Everything happens in the caller's thread: submit adds requests to a curl multi handle, poll lets it work.
 * Connections are reused.
 *
 *   W1  An exchange is free or out; its easy handle is in the multi handle while it is out.
 *   W2  before_request() runs before any byte of a request goes to the socket: a request that it stops was
 *       never on the wire.
 *   W3  Curl may resend a request by itself, when a reused connection turns out to be dead.
 *       From then on the first copy may have arrived, whatever happens to the second. */
#include "transport/http/http.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/util.h"
#include "transport/delivery.h"

static int envelope_fault(const struct endpoint_config *config, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "endpoint %s: envelope must be binary, structured, batch or raw",
                     config->name);
}

static bool is_said(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static int check_files(const struct endpoint_config *config, struct pr_error *reterr)
{
    const struct {
        const char *key, *file;
    } files[] = { { "ca", config->ca }, { "cert", config->cert }, { "key", config->key } };

    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (is_said(files[i].file) && access(files[i].file, R_OK) < 0)
            return error_set(reterr, PR_ECONFIG, "endpoint %s: %s: %s cannot be read: %s", config->name, files[i].key,
                             files[i].file, strerror(errno));
    return is_said(config->key) && !is_said(config->cert)
               ? error_set(reterr, PR_ECONFIG, "endpoint %s: key needs cert", config->name)
               : PR_OK;
}

static int open_signer(struct signer *signer, const struct endpoint_config *config, struct pr_error *reterr)
{
    char whose[sizeof(struct endpoint_title) + sizeof(": sign")];
    snprintf(whose, sizeof(whose), "%s: sign", endpoint_title(config).text);
    return signer_init(signer, whose, config->sign, config->sign_count, reterr);
}

static int check_secrets(const struct endpoint_config *config, struct pr_error *reterr)
{
    struct signer signer;
    int rc = open_signer(&signer, config, reterr);

    signer_fini(&signer);
    return rc;
}

static int http_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    enum envelope envelope;
    int rc = http_url_check(config, reterr);
    if (rc == PR_OK)
        rc = http_headers_check(config, reterr);
    if (rc < 0)
        return rc;
    if (!envelope_parse(config->envelope, &envelope))
        return envelope_fault(config, reterr);
    if (envelope == ENVELOPE_BATCH && strpbrk(config->url, "{}") != NULL)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: a batch has one url for all its messages, so it cannot have placeholders",
                         config->name);
    if (config->concurrency > HTTP_CONCURRENCY_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                         HTTP_CONCURRENCY_MAX);
    if (transport_capacity(config) > HTTP_BATCHED_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency times batch.messages can be at most %d",
                         config->name, HTTP_BATCHED_MAX);
    rc = check_files(config, reterr);
    if (rc == PR_OK)
        rc = check_secrets(config, reterr);
    if (rc < 0)
        return rc;
    if (transport_find(transport_scheme(config->url)) == &transport_http && config->allow_network_count == 0)
        return error_set(reterr, PR_ECONFIG,
                         "endpoint %s: plain http is only allowed to networks in allow_networks: use https, or add the "
                         "network, such as allow_networks: [127.0.0.0/8]",
                         config->name);
    return PR_OK;
}

/* ---- The transport ------------------------------------------------------------------------------ */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void init_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Messages in one request. */
static size_t batch_messages(const struct http *h)
{
    size_t wanted = h->config->batch_messages > 0 ? h->config->batch_messages : TRANSPORT_BATCH_MESSAGES;
    return h->envelope == ENVELOPE_BATCH ? min_size(wanted, BUNDLE_MAX) : 1;
}

static int http_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct http *h = self;
    size_t count;
    int rc = PR_OK;

    h->config = config;
    h->clock = config_clock(config);
    h->plain = transport_find(transport_scheme(config->url)) == &transport_http;
    list_init(&h->free);
    list_init(&h->out);
    if (!envelope_parse(config->envelope, &h->envelope))
        return envelope_fault(config, reterr);
    rc = open_signer(&h->signer, config, reterr);
    if (rc < 0)
        return rc;
    count = config->concurrency != 0        ? config->concurrency
            : h->envelope == ENVELOPE_BATCH ? TRANSPORT_BATCHES
                                            : HTTP_CONCURRENCY;

    pthread_once(&curl_once, init_curl);
    h->done_capacity = count * batch_messages(h);
    h->multi = curl_ready == CURLE_OK ? curl_multi_init() : NULL;
    h->done = calloc(h->done_capacity, sizeof(*h->done));
    h->exchanges = calloc(count, sizeof(*h->exchanges));
    if (h->multi == NULL || h->exchanges == NULL || h->done == NULL ||
        curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)count) != CURLM_OK)
        rc = PR_ENOMEM;
    for (; rc == PR_OK && h->exchange_count < count; h->exchange_count++) {
        struct exchange *x = &h->exchanges[h->exchange_count];
        rc = exchange_init(x, h, batch_messages(h));
        list_push_back(&h->free, &x->node);
    }
    return rc == PR_OK ? PR_OK
                       : error_set(reterr, rc, "endpoint %s: out of memory for %zu requests", config->name, count);
}

static void http_close(void *self)
{
    struct http *h = self;
    list_foreach(node, &h->out)
        curl_multi_remove_handle(h->multi, LIST_ENTRY(node, struct exchange, node)->easy);
    for (; h->done_count > 0; h->done_count--)
        delivery_result_fini(&h->done[(h->done_first + h->done_count - 1) % h->done_capacity]);
    for (size_t i = 0; i < h->exchange_count; i++)
        exchange_fini(&h->exchanges[i]);
    curl_multi_cleanup(h->multi);
    signer_fini(&h->signer);
    free(h->exchanges);
    free(h->done);
}

void http_done(struct http *h, const struct delivery_result *result)
{
    ASSERT(h->done_count < h->done_capacity);
    h->done[(h->done_first + h->done_count++) % h->done_capacity] = *result;
}

/* How many of these go into one request. */
static size_t gather(const struct http *h, const struct delivery *const *list, size_t count)
{
    size_t bytes_max = h->config->batch_bytes > 0 ? h->config->batch_bytes : TRANSPORT_BATCH_BYTES;
    size_t bytes = 0, taken = 0, max = min_size(count, batch_messages(h));

    do {
        bytes += message_bytes(list[taken]->message);
        taken += taken == 0 || bytes <= bytes_max; /* a single larger one goes alone */
    } while (taken < max && bytes <= bytes_max);
    return taken;
}

/* Accepted deliveries fit into `done`, whatever their results are. */
static size_t http_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct http *h = self;
    int64_t now_us = clock_mono_us(h->clock);
    size_t taken = 0, room = h->done_capacity - h->taken_count;
    struct list_node *node;

    count = min_size(count, room);
    while (taken < count && (node = list_pop_front(&h->free)) != NULL) {
        struct exchange *x = LIST_ENTRY(node, struct exchange, node);
        size_t n = gather(h, list + taken, count - taken);
        memcpy(x->list, list + taken, n * sizeof(x->list[0]));
        taken += n;
        list_push_back(exchange_start(x, n, now_us) ? &h->out : &h->free, node);
    }
    h->taken_count += taken;
    return taken;
}

static void finish(struct http *h, struct exchange *x, CURLcode rc)
{
    if (exchange_finish(x, rc))
        return;
    list_remove(&x->node);
    list_push_back(&h->free, &x->node);
}

static void let_curl_work(struct http *h)
{
    CURLMsg *message;
    int running, left;
    CURLMcode perform_rc = curl_multi_perform(h->multi, &running);
    ASSERT(perform_rc == CURLM_OK || perform_rc == CURLM_OUT_OF_MEMORY); /* the latter: tried again next time */
    while ((message = curl_multi_info_read(h->multi, &left)) != NULL) {
        struct exchange *x;
        CURLcode rc = message->data.result;
        if (message->msg == CURLMSG_DONE) {
            ASSERT(curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x) == CURLE_OK);
            finish(h, x, rc);
        }
    }
}

static size_t take_done(struct http *h, struct delivery_result *ret, size_t max)
{
    size_t count = min_size(max, h->done_count);
    for (size_t i = 0; i < count; i++)
        ret[i] = h->done[(h->done_first + i) % h->done_capacity];
    h->done_first = (h->done_first + count) % h->done_capacity;
    h->done_count -= count;
    h->taken_count -= count;
    return count;
}

/* True: the caller wants its thread back. */
static bool wait_for_curl(struct http *h, int64_t left_us)
{
    struct curl_waitfd wake = { .fd = h->config->wake_fd, .events = CURL_WAIT_POLLIN };
    unsigned count = h->config->wake_fd >= 0 ? 1 : 0;
    int wait_ms = (int)min64((left_us + 999) / 1000, INT_MAX);
    if (curl_multi_poll(h->multi, &wake, count, wait_ms, NULL) != CURLM_OK)
        return true; /* no memory: the caller comes again */
    return count > 0 && wake.revents != 0;
}

static size_t http_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct http *h = self;
    bool woken = false;
    for (;;) {
        let_curl_work(h);
        size_t count = take_done(h, ret, max);
        int64_t left_us = time_sub(deadline_us, clock_mono_us(h->clock));
        if (count > 0 || woken || left_us <= 0)
            return count;
        woken = wait_for_curl(h, min64(left_us, PR_SECONDS(3600)));
    }
}

/* Requests that have begun continue; the others are taken back at once. */
static void http_cancel(void *self)
{
    struct http *h = self;
    list_foreach(node, &h->out) {
        struct exchange *x = LIST_ENTRY(node, struct exchange, node);
        x->cancelled = true;
        if (x->begun == 0)
            finish(h, x, CURLE_ABORTED_BY_CALLBACK);
    }
}

#define HTTP_OPS(name)                                                                                                 \
    {                                                                                                                  \
        .scheme = (name), .size = sizeof(struct http), .promises = TRANSPORT_REMOTE, .concurrency = HTTP_CONCURRENCY,  \
        .check = http_check, .open = http_open, .close = http_close, .submit = http_submit, .poll = http_poll,         \
        .cancel = http_cancel,                                                                                         \
    }

const struct transport_ops transport_http = HTTP_OPS("http");
const struct transport_ops transport_https = HTTP_OPS("https");
