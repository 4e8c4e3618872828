/* http: POSTs of one curl multi handle, as many at once as an endpoint has, on persistent connections. */
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "carrier.h"

#define WINDOW 64
#define WAIT_MS 1000

static const char *open_at(struct site *site, const char *path)
{
    char port[32];
    site->helper = helper_start(site->bench, "receiver", "--count-only", port, sizeof port);
    if (site->helper == NULL)
        return "the receiver of the tests is not built";
    snprintf(site->address, sizeof site->address, "http://127.0.0.1:%s%s", port, path);
    snprintf(site->sink, sizeof site->sink, "{url: \"%s\", source: " CARRIER_SOURCE ", allow_networks: [127.0.0.0/8]}",
             site->address);
    return NULL;
}

static const char *http_open(struct site *site)
{
    return open_at(site, "/record");
}

static const char *http_open_slow(struct site *site)
{
    return open_at(site, "/slow/50");
}

static void http_close(struct site *site)
{
    helper_stop(site->helper);
}

struct request {
    CURL *easy;
    struct curl_slist *headers;
};

static size_t ignore(char *data, size_t one, size_t size, void *arg)
{
    (void)data;
    (void)one;
    (void)arg;
    return size;
}

static void request_init(struct request *r, const struct site *site)
{
    r->easy = curl_easy_init();
    r->headers = NULL;
    if (r->easy == NULL)
        die("no memory for curl");
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(r->easy, CURLOPT_URL, site->address);
    curl_easy_setopt(r->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(r->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(r->easy, CURLOPT_USERAGENT, CARRIER_SOURCE);
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE, (long)BENCH_PAYLOAD);
    curl_easy_setopt(r->easy, CURLOPT_POSTFIELDS, raw_payload());
}

static void header_add(struct request *r, const char *name, const char *value)
{
    char line[128];
    snprintf(line, sizeof line, "%s: %s", name, value);
    r->headers = curl_slist_append(r->headers, line);
}

static void request_start(struct request *r, CURLM *multi)
{
    struct raw_message m;
    raw_message_make(&m);
    curl_slist_free_all(r->headers);
    r->headers = NULL;
    header_add(r, "Content-Type", "application/json");
    header_add(r, "ce-specversion", "1.0");
    header_add(r, "ce-id", m.id);
    header_add(r, "ce-type", CARRIER_TYPE);
    header_add(r, "ce-source", CARRIER_SOURCE);
    header_add(r, "ce-time", m.time);
    r->headers = curl_slist_append(r->headers, "Expect:");
    curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
    if (curl_multi_add_handle(multi, r->easy) != CURLM_OK)
        die("curl takes no request");
}

/* The next one on what has just ended; returns how many have. */
static size_t take_ended(CURLM *multi, size_t *started, size_t count)
{
    CURLMsg *message;
    size_t ended = 0;
    int left;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        struct request *r;
        long status = 0;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &r);
        curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        if (message->data.result != CURLE_OK || status != 200)
            die("curl: %s, status %ld", curl_easy_strerror(message->data.result), status);
        curl_multi_remove_handle(multi, r->easy);
        ended++;
        if ((*started)++ < count)
            request_start(r, multi);
    }
    return ended;
}

static double http_raw_rate(struct site *site, size_t count)
{
    struct request requests[WINDOW];
    CURLM *multi = curl_multi_init();
    size_t started = WINDOW, ended = 0;
    int running;
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)WINDOW);
    for (size_t i = 0; i < WINDOW; i++)
        request_init(&requests[i], site);
    double begin = seconds_now();
    for (size_t i = 0; i < WINDOW; i++)
        request_start(&requests[i], multi);
    while (ended < count) {
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            die("curl does not work");
        size_t now = take_ended(multi, &started, count);
        if (now == 0)
            curl_multi_poll(multi, NULL, 0, WAIT_MS, NULL);
        ended += now;
    }
    double rate = (double)count / (seconds_now() - begin);
    for (size_t i = 0; i < WINDOW; i++) {
        curl_easy_cleanup(requests[i].easy);
        curl_slist_free_all(requests[i].headers);
    }
    curl_multi_cleanup(multi);
    return rate;
}

const struct carrier carrier_http = {
    .name = "transport_http",
    .raw_name = "raw_http",
    .messages = 50000,
    .open = http_open,
    .close = http_close,
    .raw_rate = http_raw_rate,
};

const struct carrier carrier_http_slow = {
    .name = "transport_http_50ms",
    .messages = 8000,
    .open = http_open_slow,
    .close = http_close,
};
