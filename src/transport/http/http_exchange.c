/* One exchange: a request, its response, and for a batch the requests that follow when it was refused as a whole. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/http/http.h"

#define HTTP_RESENDS_MAX 1
/* Curl writes headers and a body up to this size at once: as soon as it begins everything may be out.  For larger ones
 * it counts the bytes sent. */
#define HTTP_ONE_PIECE 65536

/* ---- What curl asks us ------------------------------------------------------------------------ */

/* The gate: every address of every connection passes here, after it was resolved. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *x = arg;
    const struct endpoint_config *config = x->http->config;
    const char *why = egress_special(&address->addr);

    x->again |= x->begun > 0;
    if (why == NULL && x->http->plain)
        why = "plain http: use https";
    if (why != NULL && !egress_contains(config->allow_networks, config->allow_network_count, &address->addr)) {
        x->reply.refused = why;
        egress_format(&address->addr, x->reply.refused_address);
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
        clock_mono_us(x->http->clock) >= x->start_before_us) /* curl checks the deadline */
        return CURL_PREREQFUNC_ABORT;
    x->again |= x->begun > 0;
    x->begun++;
    return CURL_PREREQFUNC_OK;
}

static size_t count_reply(struct exchange *x, size_t size)
{
    x->reply.bytes += size;
    return x->reply.bytes <= HTTP_REPLY_MAX + x->http->config->answer_max
               ? size
               : 0; /* 0 ends the exchange; its status is known */
}

static size_t on_header(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    struct exchange *x = arg;
    long status = 0;
    bool is_end = size > 0 && (data[0] == '\r' || data[0] == '\n'); /* the empty line; also of a 1xx */
    if (is_end && curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
        x->reply.has_headers = status >= 200;
    return count_reply(x, size);
}

static size_t on_body(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    struct exchange *x = arg;
    size_t taken = min_size(size, sizeof(x->reply.body) - x->reply.body_size);
    memcpy(x->reply.body + x->reply.body_size, data, taken);
    x->reply.body_size += taken;
    if (x->http->config->answer_max > 0)
        buf_add(&x->answer, data, size);
    return count_reply(x, size);
}

/* ---- One exchange ------------------------------------------------------------------------------ */

/* Settings that are the same for every request of this exchange. */
static bool set_up_easy(CURL *easy, struct exchange *x)
{
    int bad = 0;
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->reply.curl_error);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* never wait for a resolver that hangs */
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    /* HTTP/2 where the server offers it, with all requests on one connection: so they wait until that is known. */
    bad |= (int)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, x->http->plain ? 0L : 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    /* Only the proxy that the endpoint names, never one of the environment. */
    bad |= (int)curl_easy_setopt(easy, CURLOPT_PROXY, x->http->config->proxy != NULL ? x->http->config->proxy : "");
    bad |= (int)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= (int)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (x->http->config->ca != NULL && x->http->config->ca[0] != '\0') {
        bad |= (int)curl_easy_setopt(easy, CURLOPT_CAINFO, x->http->config->ca);
        bad |= (int)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* replaces the system's certificates */
    }
    if (x->http->config->cert != NULL && x->http->config->cert[0] != '\0') {
        const char *key = x->http->config->key;
        bad |= (int)curl_easy_setopt(easy, CURLOPT_SSLCERT, x->http->config->cert);
        bad |= (int)curl_easy_setopt(easy, CURLOPT_SSLKEY, key != NULL && key[0] != '\0' ? key : x->http->config->cert);
    }
    bad |= (int)curl_easy_setopt(easy, CURLOPT_USERAGENT, "postrider");
    bad |= (int)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (x->http->config->method != NULL && x->http->config->method[0] != '\0')
        bad |= (int)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, x->http->config->method);
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

/* All settings or none: a handle without its gate must never be used. */
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

static bool exchange_set_request(struct exchange *x, int64_t deadline_us, int64_t now_us)
{
    int64_t left_ms = min64((time_sub(deadline_us, now_us) + 999) / 1000, LONG_MAX / 1000);
    int bad = 0;
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_URL, buf_slice(&x->request.url).data);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->request.headers);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->request.body.size);
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->request.body.size > 0 ? x->request.body.data : "");
    bad |= (int)curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
    return bad == 0;
}

/* The request is composed: give it to curl.  False: no memory. */
static bool exchange_go(struct exchange *x, int64_t deadline_us, int64_t now_us)
{
    x->begun = 0;
    x->again = false;
    x->reply = (struct http_reply){ 0 };
    buf_reset(&x->answer);
    return (x->easy != NULL || exchange_init_easy(x)) && exchange_set_request(x, deadline_us, now_us) &&
           curl_multi_add_handle(x->http->multi, x->easy) == CURLM_OK;
}

/* May the other side have the complete request? */
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

/* ---- One message ------------------------------------------------------------------------------- */

static bool start_single(struct exchange *x, int64_t now_us)
{
    struct http *h = x->http;
    const struct delivery *d = x->list[0];
    struct delivery_result result;
    struct pr_error error = { 0 };
    int rc;

    int64_t timeout_us = message_timeout_us(h->config, d->message);
    int64_t deadline_us = timeout_us > 0 ? time_add(now_us, timeout_us) : d->deadline_us;

    result_returned(&result, d->token);
    x->start_before_us = d->start_before_us;
    if (delivery_may_start(d, now_us)) {
        rc = http_request_make(&x->request, h->config, h->envelope, d->message, &error);
        if (rc == PR_OK && exchange_go(x, deadline_us, now_us))
            return true;
        if (rc == PR_EINVAL)
            result_unsent(&result, d->token, PR_REASON_VALIDATION_FAILURE, "", pr_str(error.text));
    }
    http_done(h, &result);
    return false;
}

/* ---- A batch ------------------------------------------------------------------------------------- */

/* The same for another message; without memory it has no text. */
static void result_copy(const struct delivery_result *from, uint64_t token, struct delivery_result *ret)
{
    ASSERT(from != NULL); /* nothing fails before a part was answered */
    *ret = *from;
    ret->token = token;
    ret->error = from->error != NULL ? strdup(from->error) : NULL;
}

/* Passes on the ends that are known; why: the result of those that failed. */
static void tell_bundle(struct exchange *x, const struct delivery_result *why)
{
    struct delivery_result result;
    enum bundle_end end;
    size_t place;

    while (bundle_tell(x->bundle, &place, &end)) {
        uint64_t token = x->list[place]->token;
        if (end == BUNDLE_DONE)
            result_ok(&result, token);
        else if (end == BUNDLE_FAILED)
            result_copy(why, token, &result);
        else
            result_returned(&result, token);
        http_done(x->http, &result);
    }
}

/* Deliveries of the next part that may start now; 0: the batch has ended. */
static size_t next_part(struct exchange *x, const struct delivery **ret_list, uint16_t *places, int64_t now_us)
{
    for (;;) {
        size_t count = bundle_next(x->bundle, places), good = 0;
        while (good < count && delivery_may_start(x->list[places[good]], now_us)) {
            ret_list[good] = x->list[places[good]];
            good++;
        }
        if (good == count)
            return count;
        bundle_give_back(x->bundle, places[good]); /* and those behind it: ask again */
    }
}

/* Sends the next part.  False: there is none, and every message has a result. */
static bool start_part(struct exchange *x, int64_t now_us)
{
    const struct delivery *list[BUNDLE_MAX];
    uint16_t places[BUNDLE_MAX];
    int64_t deadline_us = PR_NEVER;
    size_t count = x->cancelled ? 0 : next_part(x, list, places, now_us);

    x->start_before_us = PR_NEVER;
    for (size_t i = 0; i < count; i++) {
        deadline_us = min64(deadline_us, list[i]->deadline_us);
        x->start_before_us = min64(x->start_before_us, list[i]->start_before_us);
    }
    tell_bundle(x, NULL);
    if (count > 0 && http_request_make_batch(&x->request, x->http->config, list, count) == PR_OK &&
        exchange_go(x, deadline_us, now_us))
        return true;
    bundle_stop(x->bundle);
    tell_bundle(x, NULL);
    return false;
}

static bool start_bundle(struct exchange *x, int64_t now_us)
{
    uint64_t streams[BUNDLE_MAX];

    for (size_t i = 0; i < x->count; i++) {
        pr_slice stream = x->list[i]->message->stream;
        streams[i] = stream.size > 0 ? hash_slice(1, stream) | 1 : 0;
    }
    bundle_init(x->bundle, streams, x->count);
    return start_part(x, now_us);
}

/* True: another part is out. */
static bool answer_bundle(struct exchange *x, struct delivery_result *result)
{
    if (result->outcome == SEND_RETURNED)
        bundle_stop(x->bundle);
    else
        bundle_answer(x->bundle, result->outcome == SEND_OK                        ? BUNDLE_TAKEN
                                 : http_reply_is_about_content(&x->reply, x->easy) ? BUNDLE_REFUSED
                                                                                   : BUNDLE_DOWN);
    tell_bundle(x, result);
    delivery_result_fini(result);
    return start_part(x, clock_mono_us(x->http->clock));
}

/* ---- For the transport ----------------------------------------------------------------------------- */

int exchange_init(struct exchange *x, struct http *h, size_t batch_messages)
{
    x->http = h;
    http_request_init(&x->request);
    x->request.signer = &h->signer;
    x->request.clock = h->clock;
    buf_init(&x->answer, h->config->answer_max);
    if (h->envelope == ENVELOPE_BATCH) {
        x->bundle = malloc(sizeof(*x->bundle));
        x->list = calloc(batch_messages, sizeof(x->list[0]));
    } else {
        x->list = &x->only;
    }
    return x->list != NULL && (x->bundle != NULL || h->envelope != ENVELOPE_BATCH) ? PR_OK : PR_ENOMEM;
}

void exchange_fini(struct exchange *x)
{
    if (x->http == NULL)
        return;
    curl_easy_cleanup(x->easy);
    http_request_fini(&x->request);
    buf_fini(&x->answer);
    if (x->list != &x->only)
        free(x->list);
    free(x->bundle);
}

bool exchange_start(struct exchange *x, size_t count, int64_t now_us)
{
    x->count = count;
    x->cancelled = false;
    return x->bundle != NULL ? start_bundle(x, now_us) : start_single(x, now_us);
}

bool exchange_finish(struct exchange *x, CURLcode rc)
{
    struct delivery_result result;
    /* The first message of a batch may have its result already: its delivery must not be used any more. */
    uint64_t token = x->bundle == NULL ? x->only->token : 0;

    if (x->begun == 0 && rc == CURLE_ABORTED_BY_CALLBACK)
        result_returned(&result, token); /* W2 */
    else
        http_reply_judge(&x->reply, x->easy, rc, maybe_arrived(x), token, &result);
    if (x->http->config->answer_max > 0)
        http_reply_take_answer(&x->answer, rc, &result);
    result.unsent = result.unsent && x->begun == 0; /* a part of it was sent before */
    ASSERT(curl_multi_remove_handle(x->http->multi, x->easy) == CURLM_OK);
    if (x->bundle != NULL)
        return answer_bundle(x, &result);
    http_done(x->http, &result);
    return false;
}
