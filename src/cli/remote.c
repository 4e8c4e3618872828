#include "cli/remote.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/utf8.h"
#include "base/address.h"
#include "base/util.h"
#include "ops/reply.h"

#include <curl/curl.h>
#include <jansson.h>

#define ANSWER_MAX (64u << 20) /* bytes; a page is a few hundred rows */
#define REQUEST_MAX 65536
#define USER_MAX 100 /* bytes: the API's limit */
#define CONNECT_MS 3000L
#define ANSWER_MS 15000L      /* counting in a large store takes time */
#define SKEW_US PR_SECONDS(2) /* Date has whole seconds: a smaller difference of clocks cannot be seen */

struct remote {
    CURL *curl;
    struct curl_slist *headers; /* of every request */
    char *base;                 /* without a slash at the end */
    int64_t skew_us;            /* the daemon's clock minus ours */
    struct buf answer;
};

/* ---- One request ---- */

static size_t take(char *data, size_t size, size_t count, void *arg)
{
    struct buf *b = arg;

    buf_add(b, data, size * count);
    return buf_failed(b) == 0 ? size * count : 0;
}

static int64_t now_us(const struct remote *r)
{
    return clock_wall_us(clock_system()) + r->skew_us;
}

/* Ages are relative to the clock of the daemon that wrote the times. */
static void see_date(struct remote *r)
{
    struct curl_header *date;

    if (curl_easy_header(r->curl, "Date", 0, CURLH_HEADER, -1, &date) != CURLHE_OK)
        return;
    time_t seconds = curl_getdate(date->value, NULL);
    int64_t skew_us = (int64_t)seconds * 1000000 - clock_wall_us(clock_system());
    if (seconds > 0)
        r->skew_us = skew_us > SKEW_US || skew_us < -SKEW_US ? skew_us : 0;
}

/* The fault for an error of the API. */
static int refusal(struct remote *r, long status, const json_t *answer, struct pr_error *reterr)
{
    const json_t *error = json_object_get(answer, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    int code = status == 404 ? PR_ENOTFOUND : status < 500 ? PR_EINVAL : PR_ESTORE;

    if (status == 401)
        return error_set(reterr, PR_EINVAL,
                         "%s needs a token: use --token-file FILE, or set http.token in the configuration", r->base);
    if (message == NULL)
        return error_set(reterr, code, "%s answered with status %ld; check that the URL is Postrider's API", r->base,
                         status);
    return error_set(reterr, code, "%s", message);
}

static int invalid_address(const char *url, struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL,
                     "\"%s\" is not a valid address; use http://127.0.0.1:8026 or unix:/run/postrider.sock", url);
}

/* The fault when there was no answer. */
static int unreached(const struct remote *r, CURLcode code, const char *why, struct pr_error *reterr)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return error_set(reterr, PR_ESTORE,
                         "%s: nobody listens there; start postrider run, or check http.listen in its configuration",
                         r->base);
    case CURLE_COULDNT_RESOLVE_HOST: return error_set(reterr, PR_ESTORE, "%s: unknown host; check the URL", r->base);
    case CURLE_WRITE_ERROR:
        return error_set(reterr, PR_ESTORE, "%s: the answer is too large; check that the URL is Postrider's API",
                         r->base);
    case CURLE_OPERATION_TIMEDOUT: return error_set(reterr, PR_ESTORE, "%s: no answer in time", r->base);
    case CURLE_URL_MALFORMAT: return invalid_address(r->base, reterr);
    default:
        return error_set(reterr, PR_ESTORE, "%s: %s; check that the URL is Postrider's API", r->base,
                         why[0] != '\0' ? why : curl_easy_strerror(code));
    }
}

static int perform(struct remote *r, const char *path, long *ret_status, struct pr_error *reterr)
{
    char url[REQUEST_MAX], why[CURL_ERROR_SIZE] = "";

    if ((size_t)snprintf(url, sizeof(url), "%s%s", r->base, path) >= sizeof(url))
        return error_set(reterr, PR_ETOOBIG, "the request is too long");
    buf_reset(&r->answer);
    (void)curl_easy_setopt(r->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, why);
    CURLcode code = curl_easy_perform(r->curl);
    (void)curl_easy_setopt(r->curl, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK)
        return unreached(r, code, why, reterr);
    (void)curl_easy_getinfo(r->curl, CURLINFO_RESPONSE_CODE, ret_status);
    see_date(r);
    return PR_OK;
}

/* The caller frees the answer.  *ret_status may be 404 or 409 if it is not NULL; otherwise those are faults. */
static int ask(struct remote *r, const char *path, json_t **ret, long *ret_status, struct pr_error *reterr)
{
    long status = 0;
    int rc = perform(r, path, &status, reterr);

    if (rc != PR_OK)
        return rc;
    json_t *answer = json_loadb(r->answer.data, r->answer.size, 0, NULL);
    bool outcome = ret_status != NULL && (status == 404 || status == 409);
    if (status / 100 != 2 && !outcome) {
        rc = refusal(r, status, answer, reterr);
        json_decref(answer);
        return rc;
    }
    if (answer == NULL)
        return error_set(reterr, PR_ESTORE, "%s did not answer in JSON; check that the URL is Postrider's API",
                         r->base);
    if (ret_status != NULL)
        *ret_status = status;
    *ret = answer;
    return PR_OK;
}

/* ---- Questions ---- */

static void add_escaped(struct remote *r, struct buf *path, pr_slice value)
{
    char *text = curl_easy_escape(r->curl, value.data, (int)value.size);

    ASSERT(text != NULL);
    buf_add_cstr(path, text);
    curl_free(text);
}

static void add_param(struct remote *r, struct buf *path, const char *name, pr_slice value)
{
    if (value.size == 0)
        return;
    buf_addf(path, "%s%s=", memchr(path->data, '?', path->size) != NULL ? "&" : "?", name);
    add_escaped(r, path, value);
}

static void add_number(struct remote *r, struct buf *path, const char *name, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    add_param(r, path, name, value > 0 ? slice_from(text) : (pr_slice){ NULL, 0 });
}

/* A filter that cannot be expressed completely would give a wrong answer. */
static bool can_be_asked(const struct filter *f)
{
    return f->type.size == 0 && f->error.size == 0 && f->correlation_id.size == 0 && f->reason == 0 && f->state < 0 &&
           f->since_us == 0 && f->until_us == 0 && f->after == 0 && f->id_count == 0;
}

static void add_filter(struct remote *r, struct buf *path, const struct filter *f)
{
    add_param(r, path, "box", f->box);
    add_param(r, path, "endpoint", f->endpoint);
    add_param(r, path, "stream", f->stream);
    add_param(r, path, "fingerprint", f->fingerprint);
    add_number(r, path, "limit", f->limit);
}

static bool write_path(struct remote *r, const struct query *q, struct buf *path)
{
    char id[PR_ID_TEXT_SIZE];

    switch (q->kind) {
    case QUERY_MESSAGES: buf_add_cstr(path, "/v1/messages"); break;
    case QUERY_DEAD: buf_add_cstr(path, "/v1/dead"); break;
    case QUERY_DEAD_GROUPS: buf_add_cstr(path, "/v1/dead/groups"); break;
    case QUERY_STREAMS: buf_addf(path, "/v1/streams%s", q->blocked ? "?blocked=1" : ""); break;
    case QUERY_BOXES: buf_addf(path, "/v1/boxes%s", q->brief ? "?names=1" : ""); return true;
    case QUERY_ENDPOINTS: buf_add_cstr(path, "/v1/endpoints"); return true;
    case QUERY_INSTANCES: buf_add_cstr(path, "/v1/instances"); return true;
    case QUERY_ID:
        pr_id_format(q->filter.ids[0], id);
        buf_addf(path, "/v1/messages/%s", id);
        return true;
    default: return false;
    }
    add_filter(r, path, &q->filter);
    return can_be_asked(&q->filter);
}

/* The API always includes them. */
static void drop_ended(struct query_reply *reply)
{
    size_t kept = 0;

    for (size_t i = 0; i < reply->listed_count; i++)
        if (reply->listed[i].ended == 0)
            reply->listed[kept++] = reply->listed[i];
    reply->listed_count = kept;
}

static int remote_query(void *self, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                        struct pr_error *reterr)
{
    struct remote *r = self;
    struct buf path;
    json_t *answer = NULL;
    long status = 0;
    int rc;

    buf_init(&path, REQUEST_MAX / 2);
    if (!write_path(r, query, &path))
        rc = error_set(reterr, PR_EUNSUPPORTED, "the API cannot answer this query");
    else
        rc = ask(r, buf_slice(&path).data, &answer, query->kind == QUERY_ID ? &status : NULL, reterr);
    buf_fini(&path);
    if (rc == PR_OK && status == 404)
        *ret_reply = (struct query_reply){ .now_us = now_us(r) };
    else if (rc == PR_OK)
        rc = remote_decode(answer, query->kind, now_us(r), arena, ret_reply, reterr);
    if (rc == PR_OK && !query->ended)
        drop_ended(ret_reply);
    json_decref(answer);
    return rc;
}

/* ---- Orders ---- */

static void write_target(struct json_writer *w, const struct filter *f)
{
    char id[PR_ID_TEXT_SIZE];

    if (f->id_count > 0) {
        json_key(w, "ids");
        json_begin_array(w);
        for (size_t i = 0; i < f->id_count; i++) {
            pr_id_format(f->ids[i], id);
            json_cstr(w, id);
        }
        json_end_array(w);
        return;
    }
    json_key(w, "filter");
    json_begin_object(w);
    json_put_slice(w, "fingerprint", f->fingerprint);
    if (f->newest_row != 0)
        json_put_uint(w, "newest_row", f->newest_row);
    if (f->limit > 0)
        json_put_uint(w, "limit", f->limit);
    if (f->after > 0)
        json_put_uint(w, "after", f->after);
    json_end_object(w);
}

/* Path and body.  False: the API does not support it. */
static bool write_order(struct remote *r, const struct admin *a, struct buf *path, struct json_writer *w)
{
    bool pause = a->kind == ADMIN_PAUSE;
    char id[PR_ID_TEXT_SIZE];

    json_begin_object(w);
    if (pause || a->kind == ADMIN_RESUME) {
        if (pause && a->until_us != PR_NEVER)
            return false;
        buf_add_cstr(path, "/v1/endpoints/");
        add_escaped(r, path, a->filter.endpoint);
        buf_add_cstr(path, pause ? "/pause" : "/resume");
    } else if (a->kind == ADMIN_RETRY && a->filter.id_count == 1) {
        pr_id_format(a->filter.ids[0], id);
        buf_addf(path, "/v1/messages/%s/retry", id);
    } else if (a->kind == ADMIN_DEAD_REPLAY && (a->filter.id_count > 0 || a->filter.fingerprint.size > 0)) {
        buf_add_cstr(path, "/v1/dead/replay");
        write_target(w, &a->filter);
    } else {
        return false;
    }
    json_put_some(w, "why", a->why);
    if (a->again)
        json_put_bool(w, "again", true);
    if (a->dry_run)
        json_put_bool(w, "dry_run", true);
    json_end_object(w);
    return true;
}

static struct admin_reply reply_of(const json_t *answer, long status)
{
    const char *code = json_string_value(json_object_get(json_object_get(answer, "error"), "code"));
    bool handled = status == 409 && code != NULL && strcmp(code, "handled") == 0;

    if (status == 404 || status == 409)
        return (struct admin_reply){
            .matched = status == 409, .refused = status == 409, .handled = handled, .missing = status == 404
        };
    struct admin_reply reply = { 0 };
    static const enum reply_shape shapes[] = { REPLY_CHANGE, REPLY_HANDLED, REPLY_MISSING, REPLY_FURTHER };
    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++)
        reply_parse(answer, shapes[i], NULL, &reply); /* no texts */
    reply.more = reply.last_row > 0;
    return reply;
}

static bool add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);

    if (longer != NULL)
        *list = longer;
    return longer != NULL;
}

/* Adds the author's name if a header can carry it. */
static bool add_user(struct curl_slist **list, pr_slice by)
{
    char line[160];

    for (size_t i = 0; i < by.size; i++)
        if ((unsigned char)by.data[i] < ' ')
            return true;
    (void)snprintf(line, sizeof(line), "X-Postrider-User: %.*s", SLICE_ARGS(utf8_cut_bytes(by, USER_MAX)));
    return add_header(list, line);
}

static int post(struct remote *r, const struct admin *a, const char *path, const char *body, json_t **ret,
                long *ret_status, struct pr_error *reterr)
{
    struct curl_slist *headers = NULL;
    bool complete = add_header(&headers, "X-Postrider: 1") && add_header(&headers, "Content-Type: application/json") &&
                    add_user(&headers, a->by);

    for (const struct curl_slist *h = r->headers; h != NULL && complete; h = h->next)
        complete = add_header(&headers, h->data);
    (void)curl_easy_setopt(r->curl, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, headers);
    int rc =
        complete ? ask(r, path, ret, ret_status, reterr) : error_set(reterr, PR_ENOMEM, "out of memory for headers");
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTPGET, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
    curl_slist_free_all(headers);
    return rc;
}

static int remote_admin(void *self, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    struct remote *r = self;
    struct buf path, body;
    struct json_writer w;
    json_t *answer = NULL;
    long status = 0;
    int rc;

    buf_init(&path, REQUEST_MAX / 2);
    buf_init(&body, REQUEST_MAX);
    json_init(&w, &body);
    if (!write_order(r, admin, &path, &w) || buf_failed(&body) != 0)
        rc = error_set(reterr, PR_EUNSUPPORTED, "the API cannot do this");
    else
        rc = post(r, admin, buf_slice(&path).data, buf_slice(&body).data, &answer,
                  admin->filter.id_count > 0 ? &status : NULL, reterr);
    if (rc == PR_OK)
        *ret_reply = reply_of(answer, status);
    json_decref(answer);
    buf_fini(&path);
    buf_fini(&body);
    return rc;
}

static int64_t remote_time(void *self)
{
    return now_us(self);
}

/* ---- Open and close ---- */

static void remote_close(void *self)
{
    struct remote *r = self;

    curl_easy_cleanup(r->curl);
    curl_slist_free_all(r->headers);
    buf_fini(&r->answer);
    free(r->base);
    free(r);
}

static const struct store_ops store_remote = {
    .scheme = "http",
    .can = STORE_CAN_LAST | STORE_CAN_PROCESSES,
    .close = remote_close,
    .query = remote_query,
    .admin = remote_admin,
    .time = remote_time,
};

static bool host_is_here(const char *host)
{
    struct address address;
    struct pr_error err;
    char text[512];

    (void)snprintf(text, sizeof(text), "%.400s:1", host);
    return address_parse("--url", text, &address, &err) == PR_OK && address.local;
}

/* May a token be sent there? */
static bool is_here_or_encrypted(const char *url)
{
    CURLU *parts = curl_url();
    char *scheme = NULL, *host = NULL;
    bool safe = false;

    if (parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
        curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK)
        safe = strcmp(scheme, "https") == 0 || host_is_here(host);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return safe;
}

static int set_address(struct remote *r, const struct remote_options *o, struct pr_error *reterr)
{
    bool is_file = strncmp(o->url, "unix:", 5) == 0;
    const char *base = is_file ? "http://localhost" : o->url;

    if (!is_file && strncmp(base, "http://", 7) != 0 && strncmp(base, "https://", 8) != 0)
        return invalid_address(o->url, reterr);
    if (o->token[0] != '\0' && !is_here_or_encrypted(base))
        return error_set(reterr, PR_EINVAL, "the token would travel unencrypted to %s; use https", o->url);
    r->base = strdup(base);
    if (r->base == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the address");
    while (r->base[0] != '\0' && r->base[strlen(r->base) - 1] == '/')
        r->base[strlen(r->base) - 1] = '\0';
    if (is_file)
        (void)curl_easy_setopt(r->curl, CURLOPT_UNIX_SOCKET_PATH, o->url + 5);
    return PR_OK;
}

static int set_headers(struct remote *r, const char *token, struct pr_error *reterr)
{
    char line[4096];
    bool fits = (size_t)snprintf(line, sizeof(line), "Authorization: Bearer %s", token) < sizeof(line);
    bool done = add_header(&r->headers, "Accept: application/json") &&
                (token[0] == '\0' || (fits && add_header(&r->headers, line)));

    explicit_bzero(line, sizeof(line));
    if (!done)
        return error_set(reterr, fits ? PR_ENOMEM : PR_EINVAL,
                         fits ? "out of memory for the token" : "the token is too long");
    (void)curl_easy_setopt(r->curl, CURLOPT_HTTPHEADER, r->headers);
    return PR_OK;
}

int remote_open(const struct remote_options *options, struct store *ret, struct pr_error *reterr)
{
    struct remote *r = calloc(1, sizeof(*r));
    int rc = r != NULL && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? PR_OK : PR_ENOMEM;

    if (rc != PR_OK) {
        free(r);
        return error_set(reterr, PR_ENOMEM, "out of memory for the connection");
    }
    buf_init(&r->answer, ANSWER_MAX);
    r->curl = curl_easy_init();
    rc = r->curl != NULL ? set_address(r, options, reterr)
                         : error_set(reterr, PR_ENOMEM, "out of memory for the connection");
    if (rc == PR_OK)
        rc = set_headers(r, options->token, reterr);
    if (rc != PR_OK) {
        remote_close(r);
        return rc;
    }
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEFUNCTION, take);
    (void)curl_easy_setopt(r->curl, CURLOPT_WRITEDATA, &r->answer);
    (void)curl_easy_setopt(r->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(r->curl, CURLOPT_PROXY, ""); /* the API is expected to be reachable directly */
    (void)curl_easy_setopt(r->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(r->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    (void)curl_easy_setopt(r->curl, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    *ret = (struct store){ .ops = &store_remote, .self = r };
    return PR_OK;
}
