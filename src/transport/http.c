/* http and https: each message is one POST; 2xx is done.
 *
 * Everything happens in the caller's thread: submit adds requests to a curl multi handle, poll
 * lets it work.  Connections are kept and used again.
 *
 *    free --> out --> done --> free
 *
 *   W1  An exchange is in exactly one list; its easy handle is in the multi handle while it is out.
 *   W2  before_request() runs before any byte of a request goes to the socket: what it stops was
 *       never on the wire.
 *   W3  Curl may send a request once more by itself, when a kept connection turns out to be dead.
 *       From then on the first copy may have arrived, whatever happens to the second. */
#include "transport/http.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/list.h"
#include "base/util.h"
#include "transport/delivery.h"

#define HTTP_RESENDS_MAX 1
/* Curl writes headers and a body up to this size in one piece: as soon as it begins it may be
 * all out.  Of larger ones it counts what went out. */
#define HTTP_ONE_PIECE 65536

struct exchange {
    struct list_node       node;
    struct http           *http;
    CURL                  *easy; /* NULL: never used yet */
    const struct delivery *delivery;
    struct http_request    request;
    struct http_reply      reply;
    unsigned               begun;     /* how often curl began to send it */
    bool                   again;     /* W3 */
    bool                   cancelled; /* not to begin (again) */
    struct delivery_result result;
};

struct http {
    const struct endpoint_config *config;
    const struct clock           *clock;
    enum http_envelope            envelope;
    bool                          plain; /* http, not https */
    CURLM                        *multi;
    struct exchange              *exchanges;
    size_t                        exchange_count;
    struct list                   free, out, done;
};

static int http_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    enum http_envelope envelope;
    int                rc = http_url_check(config, reterr);
    if (rc < 0)
        return rc;
    if (!http_envelope_parse(config->envelope, &envelope))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: envelope is binary, structured or raw",
                         config->name);
    if (config->concurrency > HTTP_CONCURRENCY_MAX)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency is at most %d", config->name,
                         HTTP_CONCURRENCY_MAX);
    if (transport_find(transport_scheme(config->url)) == &transport_http && config->allow_network_count == 0)
        return error_set(
            reterr, PR_ECONFIG,
            "endpoint %s: plain http goes to networks in allow_networks only: write https, or name the "
            "network there",
            config->name);
    return PR_OK;
}

/* ---- What curl asks us ------------------------------------------------------------------------ */

/* The gate: every address of every connection comes by here, after it was resolved. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange              *x      = arg;
    const struct endpoint_config *config = x->http->config;
    const char                   *why    = netguard_special(&address->addr);

    x->again |= x->begun > 0;
    if (why == NULL && x->http->plain)
        why = "plain http: use https";
    if (why != NULL &&
        !netguard_contains(config->allow_networks, config->allow_network_count, &address->addr)) {
        x->reply.refused = why;
        netguard_format(&address->addr, x->reply.refused_address);
        return CURL_SOCKET_BAD;
    }
    if (purpose != CURLSOCKTYPE_IPCXN)
        return CURL_SOCKET_BAD;
    x->reply.connecting = true;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int before_request(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    struct exchange *x = arg;
    if (x->cancelled || x->begun > HTTP_RESENDS_MAX ||
        clock_mono_us(x->http->clock) >= x->delivery->start_before_us) /* the deadline is curl's affair */
        return CURL_PREREQFUNC_ABORT;
    x->again |= x->begun > 0;
    x->begun++;
    return CURL_PREREQFUNC_OK;
}

static size_t count_reply(struct exchange *x, size_t size)
{
    x->reply.bytes += size;
    return x->reply.bytes <= HTTP_REPLY_MAX ? size : 0; /* 0 ends the exchange; its status is known */
}

static size_t on_header(char *data, size_t one, size_t size, void *arg)
{
    (void)data;
    (void)one;
    return count_reply(arg, size);
}

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    struct exchange *x     = arg;
    size_t           taken = min_size(size, sizeof(x->reply.body) - x->reply.body_size);
    memcpy(x->reply.body + x->reply.body_size, data, taken);
    x->reply.body_size += taken;
    return count_reply(x, size);
}

/* ---- One exchange ------------------------------------------------------------------------------ */

/* What is the same for every request of this exchange. */
static bool set_up_easy(CURL *easy, struct exchange *x)
{
    int bad = 0;
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->reply.curl_error);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* never wait for a resolver that hangs */
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= (int)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* nor from the environment */
    bad |= (int)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_USERAGENT, "postrider");
    bad |= (int)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, x);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_request);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PREREQDATA, x);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    return bad == 0;
}

/* All of it or nothing: a handle without its gate must never be used. */
static bool exchange_init_easy(struct exchange *x)
{
    CURL *easy = curl_easy_init();
    if (easy == NULL || !set_up_easy(easy, x)) {
        curl_easy_cleanup(easy);
        return false;
    }
    x->easy = easy;
    return true;
}

static bool exchange_set_request(struct exchange *x, int64_t now_us)
{
    int64_t left_ms = min64((time_sub(x->delivery->deadline_us, now_us) + 999) / 1000, LONG_MAX / 1000);
    int     bad = 0;
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_URL, buf_slice(&x->request.url).data);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->request.headers);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->request.body.size);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS,
                                 x->request.body.size > 0 ? x->request.body.data : "");
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    return bad == 0;
}

/* True: it is out.  False: its result is there already. */
static bool exchange_start(struct exchange *x, int64_t now_us)
{
    struct http    *h = x->http;
    struct pr_error error = { 0 };

    x->begun = 0;
    x->again = x->cancelled = false;
    x->reply = (struct http_reply){ 0 };
    result_returned(&x->result, x->delivery->token);
    if (!delivery_may_start(x->delivery, now_us))
        return false;
    int rc = http_request_make(&x->request, h->config, h->envelope, x->delivery->message, &error);
    if (rc == PR_EINVAL)
        result_failed(&x->result, x->delivery->token, SEND_FAILED, PR_REASON_SERIALIZATION_ERROR, "",
                      pr_str(error.text));
    if (rc != PR_OK)
        return false;
    return (x->easy != NULL || exchange_init_easy(x)) && exchange_set_request(x, now_us) &&
           curl_multi_add_handle(h->multi, x->easy) == CURLM_OK;
}

/* May the other side have the whole request? */
static bool maybe_arrived(const struct exchange *x)
{
    curl_off_t sent = 0;
    if (x->begun == 0)
        return false;
    if (x->again || x->request.body.size < HTTP_ONE_PIECE)
        return true;
    if (curl_easy_getinfo(x->easy, CURLINFO_SIZE_UPLOAD_T, &sent) != CURLE_OK)
        return true;
    return sent >= (curl_off_t)x->request.body.size;
}

static void exchange_finish(struct exchange *x, CURLcode rc)
{
    if (x->begun == 0 && rc == CURLE_ABORTED_BY_CALLBACK)
        result_returned(&x->result, x->delivery->token); /* W2 */
    else
        http_reply_judge(&x->reply, x->easy, rc, maybe_arrived(x), x->delivery->token, &x->result);
    ASSERT(curl_multi_remove_handle(x->http->multi, x->easy) == CURLM_OK);
    list_remove(&x->node);
    list_push_back(&x->http->done, &x->node);
}

/* ---- The transport ------------------------------------------------------------------------------ */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode       curl_ready;

static void init_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int http_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct http *h     = self;
    size_t       count = config->concurrency != 0 ? config->concurrency : HTTP_CONCURRENCY;

    h->config = config;
    h->clock  = config_clock(config);
    h->plain  = transport_find(transport_scheme(config->url)) == &transport_http;
    list_init(&h->free);
    list_init(&h->out);
    list_init(&h->done);
    if (!http_envelope_parse(config->envelope, &h->envelope))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: envelope is binary, structured or raw",
                         config->name);

    pthread_once(&curl_once, init_curl);
    h->multi     = curl_ready == CURLE_OK ? curl_multi_init() : NULL;
    h->exchanges = calloc(count, sizeof(*h->exchanges));
    if (h->multi == NULL || h->exchanges == NULL ||
        curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)count) != CURLM_OK)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: no memory for %zu requests", config->name, count);
    h->exchange_count = count;
    for (size_t i = 0; i < count; i++) {
        h->exchanges[i].http = h;
        http_request_init(&h->exchanges[i].request);
        list_push_back(&h->free, &h->exchanges[i].node);
    }
    return PR_OK;
}

static void http_close(void *self)
{
    struct http *h = self;
    list_foreach(node, &h->out)
        curl_multi_remove_handle(h->multi, LIST_ENTRY(node, struct exchange, node)->easy);
    list_foreach(node, &h->done)
        delivery_result_fini(&LIST_ENTRY(node, struct exchange, node)->result);
    for (size_t i = 0; i < h->exchange_count; i++) {
        curl_easy_cleanup(h->exchanges[i].easy);
        http_request_fini(&h->exchanges[i].request);
    }
    curl_multi_cleanup(h->multi);
    free(h->exchanges);
}

static size_t http_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct http      *h      = self;
    int64_t           now_us = clock_mono_us(h->clock);
    size_t            taken  = 0;
    struct list_node *node;

    while (taken < count && (node = list_pop_front(&h->free)) != NULL) {
        struct exchange *x = LIST_ENTRY(node, struct exchange, node);
        x->delivery = list[taken++];
        list_push_back(exchange_start(x, now_us) ? &h->out : &h->done, node);
    }
    return taken;
}

static void let_curl_work(struct http *h)
{
    CURLMsg *message;
    int      running, left;
    CURLMcode perform_rc = curl_multi_perform(h->multi, &running);
    ASSERT(perform_rc == CURLM_OK || perform_rc == CURLM_OUT_OF_MEMORY); /* the latter: next time, then */
    while ((message = curl_multi_info_read(h->multi, &left)) != NULL) {
        struct exchange *x;
        CURLcode         rc = message->data.result;
        if (message->msg == CURLMSG_DONE) {
            ASSERT(curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x) == CURLE_OK);
            exchange_finish(x, rc);
        }
    }
}

static size_t take_done(struct http *h, struct delivery_result *ret, size_t max)
{
    size_t            count = 0;
    struct list_node *node;
    while (count < max && (node = list_pop_front(&h->done)) != NULL) {
        ret[count++] = LIST_ENTRY(node, struct exchange, node)->result;
        list_push_back(&h->free, node);
    }
    return count;
}

/* True: the caller wants its thread back. */
static bool wait_for_curl(struct http *h, int64_t left_us)
{
    struct curl_waitfd wake    = { .fd = h->config->wake_fd, .events = CURL_WAIT_POLLIN };
    unsigned           count   = h->config->wake_fd >= 0 ? 1 : 0;
    int                wait_ms = (int)min64((left_us + 999) / 1000, INT_MAX);
    if (curl_multi_poll(h->multi, &wake, count, wait_ms, NULL) != CURLM_OK)
        return true; /* no memory: the caller comes again */
    return count > 0 && wake.revents != 0;
}

static size_t http_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct http *h = self;
    bool         woken = false;
    for (;;) {
        let_curl_work(h);
        size_t  count   = take_done(h, ret, max);
        int64_t left_us = time_sub(deadline_us, clock_mono_us(h->clock));
        if (count > 0 || woken || left_us <= 0)
            return count;
        woken = wait_for_curl(h, min64(left_us, PR_SECONDS(3600)));
    }
}

/* What has begun goes on; what has not is taken back at once. */
static void http_cancel(void *self)
{
    struct http *h = self;
    list_foreach(node, &h->out) {
        struct exchange *x = LIST_ENTRY(node, struct exchange, node);
        x->cancelled = true;
        if (x->begun == 0)
            exchange_finish(x, CURLE_ABORTED_BY_CALLBACK);
    }
}

#define HTTP_OPS(name)                           \
    {                                            \
        .scheme   = (name),                      \
        .size     = sizeof(struct http),         \
        .promises = TRANSPORT_REMOTE,            \
        .concurrency = HTTP_CONCURRENCY,         \
        .check    = http_check,                  \
        .open     = http_open,                   \
        .close    = http_close,                  \
        .submit   = http_submit,                 \
        .poll     = http_poll,                   \
        .cancel   = http_cancel,                 \
    }

const struct transport_ops transport_http  = HTTP_OPS("http");
const struct transport_ops transport_https = HTTP_OPS("https");
