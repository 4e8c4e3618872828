/* receiver - a small HTTP server that follows instructions: the other side in tests.
 *
 * The path of a request says how to behave (see usage); a header "X-Behave: /status/503" says so for one request alone.
 * Every POST that arrived completely is kept, whatever the answer was, and can be read back: so a test can check what
 * really arrived. */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>
#include <openssl/evp.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"

#include <jansson.h>

#define BODY_MAX (256u << 20)
#define LISTING_MAX (1u << 30)
#define BIG_REPLY_BYTES (1u << 20)
#define TRUNCATED_BYTES 1000

static const char usage[] =
    "usage: receiver [--port N] [--digest-only | --count-only] [--cert FILE --key FILE]\n"
    "\n"
    "Listens on 127.0.0.1 (port 0: a free one), prints the port as its first line, and runs until\n"
    "SIGTERM, SIGINT or the end of its standard input.\n"
    "\n"
    "POST to                what happens\n"
    "  /record              200; other paths without a meaning of their own, too\n"
    "  /status/N            status N\n"
    "  /retry-after/S       429 with Retry-After: S\n"
    "  /retry-after-date/S  429 with the date in S seconds\n"
    "  /slow/MS             200 after MS milliseconds\n"
    "  /never               the request is read, no answer comes\n"
    "  /stall               the body is not read, no answer comes\n"
    "  /hold                200 after POST /release\n"
    "  /hold-close          the connection is closed after POST /release\n"
    "  /reset               the connection is reset after the request was read\n"
    "  /close-after-request the connection is closed after the request was read\n"
    "  /big-reply/N         status N with a reply of 1 MiB\n"
    "  /truncate/N          status N with a reply that ends in the middle\n"
    "  /redirect            302 to /record\n"
    "  /flaky/N             503 for the first N requests with the same ce-id, then 200\n"
    "  /release             lets go of all that is held; is not recorded\n"
    "  /batch               as the first of its CloudEvents wants it, see below\n"
    "A request header X-Behave: PATH takes the place of the path; in a batch it is one of the\n"
    "headers of a message (postriderheaders).\n"
    "\n"
    "GET    /records        one JSON object per line: n, from_port, path, headers (names in lower\n"
    "                       case), size, sha256, and body in base64 (not with --digest-only);\n"
    "                       none with --count-only\n"
    "GET    /count          how many\n"
    "DELETE /records        forget them\n";

struct record {
    struct list_node node;
    char *line; /* JSON with its newline */
    size_t size;
    char id[64]; /* ce-id; for /flaky */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list records;
    size_t count;
    unsigned releases; /* how often POST /release came */
    bool stopping;
    bool digest_only, count_only;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct request {
    struct buf body;
};

/* ---- Recording ---------------------------------------------------------------------------- */

static enum MHD_Result write_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    struct json_writer *w = arg;
    char name[256];
    size_t size = 0;
    for (; key[size] != '\0' && size < sizeof(name) - 1; size++)
        name[size] = key[size] >= 'A' && key[size] <= 'Z' ? (char)(key[size] + 32) : key[size];
    name[size] = '\0';
    json_key(w, name);
    json_cstr(w, value != NULL ? value : "");
    return MHD_YES;
}

static void write_digest(struct json_writer *w, pr_slice body)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    ASSERT(EVP_Digest(body.data, body.size, digest, &size, EVP_sha256(), NULL) == 1);
    for (unsigned i = 0; i < size; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    json_key(w, "sha256");
    json_cstr(w, text);
}

static void write_body(struct json_writer *w, pr_slice body)
{
    struct buf text;
    buf_init(&text, body.size / 3 * 4 + 8);
    base64_encode(&text, body);
    json_key(w, "body");
    json_slice(w, buf_slice(&text));
    buf_fini(&text);
}

static unsigned count_one(void)
{
    pthread_mutex_lock(&state.lock);
    state.count++;
    unsigned releases = state.releases;
    pthread_mutex_unlock(&state.lock);
    return releases;
}

/* Returns how often POST /release had come by then: who waits for the next one must not miss it. */
static unsigned record(struct MHD_Connection *connection, const char *path, pr_slice body)
{
    if (state.count_only)
        return count_one();
    struct record *r = calloc(1, sizeof(*r));
    ASSERT(r != NULL);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const char *id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "ce-id");
    snprintf(r->id, sizeof(r->id), "%s", id != NULL ? id : "");

    pthread_mutex_lock(&state.lock);
    struct buf line;
    struct json_writer w;
    buf_init(&line, LISTING_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "n");
    json_uint(&w, ++state.count);
    json_key(&w, "from_port"); /* the same for requests on one connection */
    json_uint(&w, ntohs(((const struct sockaddr_in *)(const void *)info->client_addr)->sin_port));
    json_key(&w, "path");
    json_cstr(&w, path);
    json_key(&w, "headers");
    json_begin_object(&w);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, write_header, &w);
    json_end_object(&w);
    json_key(&w, "size");
    json_uint(&w, body.size);
    write_digest(&w, body);
    if (!state.digest_only)
        write_body(&w, body);
    json_end_object(&w);
    buf_add_char(&line, '\n');
    ASSERT(buf_failed(&line) == 0);
    r->size = line.size;
    r->line = line.data; /* taken over */
    list_push_back(&state.records, &r->node);
    unsigned releases = state.releases;
    pthread_mutex_unlock(&state.lock);
    return releases;
}

static void forget_records(void)
{
    struct list_node *node;
    pthread_mutex_lock(&state.lock);
    while ((node = list_pop_front(&state.records)) != NULL) {
        struct record *r = LIST_ENTRY(node, struct record, node);
        free(r->line);
        free(r);
    }
    state.count = 0;
    pthread_mutex_unlock(&state.lock);
}

static size_t count_id(const char *id)
{
    size_t count = 0;
    pthread_mutex_lock(&state.lock);
    list_foreach(node, &state.records)
        count += strcmp(LIST_ENTRY(node, struct record, node)->id, id) == 0;
    pthread_mutex_unlock(&state.lock);
    return count;
}

/* ---- Answering ------------------------------------------------------------------------------ */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
    enum MHD_Result rc = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, pr_slice text)
{
    return answer(connection, status,
                  MHD_create_response_from_buffer(text.size, (void *)(uintptr_t)text.data, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result answer_status(struct MHD_Connection *connection, unsigned status)
{
    char text[64];
    snprintf(text, sizeof(text), "the receiver was told to say %u", status);
    return answer_text(connection, status, slice_from(status < 300 ? "" : text));
}

static enum MHD_Result answer_header(struct MHD_Connection *connection, unsigned status, const char *name,
                                     const char *value)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, name, value);
    return answer(connection, status, response);
}

static enum MHD_Result answer_retry_after(struct MHD_Connection *connection, long seconds, bool as_date)
{
    char text[64];
    time_t when = time(NULL) + seconds;
    struct tm tm;
    if (as_date)
        strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&when, &tm));
    else
        snprintf(text, sizeof(text), "%ld", seconds);
    return answer_header(connection, 429, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

static enum MHD_Result answer_big(struct MHD_Connection *connection, unsigned status)
{
    char *data = malloc(BIG_REPLY_BYTES);
    ASSERT(data != NULL);
    memset(data, 'x', BIG_REPLY_BYTES);
    return answer(connection, status, MHD_create_response_from_buffer(BIG_REPLY_BYTES, data, MHD_RESPMEM_MUST_FREE));
}

static ssize_t read_truncated(void *arg, uint64_t position, char *data, size_t max)
{
    (void)arg;
    if (position > 0 || max == 0)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    data[0] = 'x';
    return 1;
}

static enum MHD_Result answer_truncated(struct MHD_Connection *connection, unsigned status)
{
    return answer(connection, status,
                  MHD_create_response_from_callback(TRUNCATED_BYTES, 1, read_truncated, NULL, NULL));
}

/* To disconnect a TCP socket sends a reset; close() would say goodbye properly. */
static enum MHD_Result reset(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    if (info != NULL && connect(info->connect_fd, &nowhere, sizeof(nowhere)) < 0)
        perror("receiver: reset");
    return MHD_NO;
}

/* Each connection has a thread of its own, so they may wait. */
static void wait_milliseconds(long ms)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += ms % 1000 * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&state.lock);
    while (!state.stopping && pthread_cond_timedwait(&state.changed, &state.lock, &end) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&state.lock);
}

static void wait_for_stop(void)
{
    pthread_mutex_lock(&state.lock);
    while (!state.stopping)
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

static void wait_for_release(unsigned before)
{
    pthread_mutex_lock(&state.lock);
    while (!state.stopping && state.releases == before)
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

static void release(void)
{
    pthread_mutex_lock(&state.lock);
    state.releases++;
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
}

/* "/status/503": is it this word, and what is the number behind it (fallback: none)? */
static bool is_word(const char *path, const char *word, long fallback, long *ret_number)
{
    size_t size = strlen(word);
    if (strncmp(path, word, size) != 0 || (path[size] != '\0' && path[size] != '/'))
        return false;
    *ret_number = path[size] == '/' ? strtol(path + size + 1, NULL, 10) : fallback;
    return true;
}

static enum MHD_Result behave(struct MHD_Connection *connection, const char *path, unsigned releases)
{
    long n;
    if (is_word(path, "/status", 200, &n))
        return answer_status(connection, (unsigned)n);
    if (is_word(path, "/retry-after", 1, &n))
        return answer_retry_after(connection, n, false);
    if (is_word(path, "/retry-after-date", 1, &n))
        return answer_retry_after(connection, n, true);
    if (is_word(path, "/slow", 100, &n))
        wait_milliseconds(n);
    if (is_word(path, "/hold", 0, &n))
        wait_for_release(releases);
    if (is_word(path, "/hold-close", 0, &n)) {
        wait_for_release(releases);
        return MHD_NO;
    }
    if (is_word(path, "/never", 0, &n)) {
        wait_for_stop();
        return MHD_NO;
    }
    if (is_word(path, "/reset", 0, &n))
        return reset(connection);
    if (is_word(path, "/close-after-request", 0, &n))
        return MHD_NO;
    if (is_word(path, "/big-reply", 200, &n))
        return answer_big(connection, (unsigned)n);
    if (is_word(path, "/truncate", 200, &n))
        return answer_truncated(connection, (unsigned)n);
    if (is_word(path, "/redirect", 0, &n))
        return answer_header(connection, 302, MHD_HTTP_HEADER_LOCATION, "/record");
    const char *id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "ce-id");
    if (is_word(path, "/flaky", 1, &n) && count_id(id != NULL ? id : "") <= (size_t)n)
        return answer_status(connection, 503);
    return answer_status(connection, 200);
}

static enum MHD_Result show_records(struct MHD_Connection *connection)
{
    struct buf text;
    buf_init(&text, LISTING_MAX);
    pthread_mutex_lock(&state.lock);
    list_foreach(node, &state.records) {
        struct record *r = LIST_ENTRY(node, struct record, node);
        buf_add(&text, r->line, r->size);
    }
    pthread_mutex_unlock(&state.lock);
    ASSERT(buf_failed(&text) == 0);
    enum MHD_Result rc = answer_text(connection, 200, buf_slice(&text));
    buf_fini(&text);
    return rc;
}

static enum MHD_Result show_count(struct MHD_Connection *connection)
{
    char text[32];
    pthread_mutex_lock(&state.lock);
    snprintf(text, sizeof(text), "%zu\n", state.count);
    pthread_mutex_unlock(&state.lock);
    return answer_text(connection, 200, slice_from(text));
}

/* The first word of an event of this batch, with its number; "/record": nobody has one. */
static void batch_behaviour(pr_slice body, char *ret_path, size_t size)
{
    json_t *events = json_loadb(body.data, body.size, 0, NULL), *event;
    size_t i;

    snprintf(ret_path, size, "%s", json_is_array(events) ? "/record" : "/status/400");
    json_array_foreach(events, i, event)
    {
        const char *text = json_string_value(json_object_get(event, "postriderheaders"));
        json_t *headers = text != NULL ? json_loads(text, 0, NULL) : NULL;
        const char *path = json_string_value(json_object_get(headers, "x-behave"));
        bool found = path != NULL;
        if (found)
            snprintf(ret_path, size, "%s", path);
        json_decref(headers);
        if (found)
            break;
    }
    json_decref(events);
}

/* Everything but a POST. */
static enum MHD_Result look(struct MHD_Connection *connection, const char *url, const char *method)
{
    if (strcmp(method, "GET") == 0 && strcmp(url, "/records") == 0)
        return show_records(connection);
    if (strcmp(method, "GET") == 0 && strcmp(url, "/count") == 0)
        return show_count(connection);
    if (strcmp(method, "DELETE") == 0 && strcmp(url, "/records") == 0) {
        forget_records();
        return answer_status(connection, 200);
    }
    return answer_status(connection, 404);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **request_state)
{
    (void)arg;
    (void)version;
    struct request *request = *request_state;
    const char *told = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Behave");
    const char *path = told != NULL ? told : url;
    long n;

    if (request == NULL) {
        if (is_word(path, "/stall", 0, &n)) {
            wait_for_stop();
            return MHD_NO;
        }
        *request_state = request = calloc(1, sizeof(*request));
        ASSERT(request != NULL);
        buf_init(&request->body, BODY_MAX);
        return MHD_YES;
    }
    if (*size > 0) {
        buf_add(&request->body, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "POST") != 0)
        return look(connection, url, method);
    if (buf_failed(&request->body))
        return answer_status(connection, 413);
    if (strcmp(path, "/release") == 0) {
        release();
        return answer_status(connection, 200);
    }
    unsigned releases = record(connection, url, buf_slice(&request->body));
    char own[64];
    if (strcmp(path, "/batch") == 0) {
        batch_behaviour(buf_slice(&request->body), own, sizeof(own));
        path = own;
    }
    return behave(connection, path, releases);
}

static void on_end(void *arg, struct MHD_Connection *connection, void **request_state,
                   enum MHD_RequestTerminationCode code)
{
    (void)arg;
    (void)connection;
    (void)code;
    struct request *request = *request_state;
    if (request != NULL)
        buf_fini(&request->body);
    free(request);
    *request_state = NULL;
}

/* ---- The program ------------------------------------------------------------------------------ */

struct options {
    uint16_t port;
    const char *cert, *key;
};

static void parse_options(int argc, char **argv, struct options *ret)
{
    static const struct option longs[] = {
        { "port", required_argument, NULL, 'p' },
        { "digest-only", no_argument, NULL, 'd' },
        { "cert", required_argument, NULL, 'c' },
        { "key", required_argument, NULL, 'k' },
        { "help", no_argument, NULL, 'h' },
        { "count-only", no_argument, NULL, 'n' },
        { 0 },
    };
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case 'p': ret->port = (uint16_t)strtol(optarg, NULL, 10); break;
        case 'd': state.digest_only = true; break;
        case 'n': state.count_only = true; break;
        case 'c': ret->cert = optarg; break;
        case 'k': ret->key = optarg; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (optind < argc || (ret->cert == NULL) != (ret->key == NULL)) {
        fputs(usage, stderr);
        exit(2);
    }
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL || getdelim(&text, &size, '\0', file) < 0) {
        fprintf(stderr, "receiver: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
    return text;
}

static struct MHD_Daemon *start(const struct options *options, char **cert, char **key)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(options->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
    struct MHD_OptionItem tls[3] = { { MHD_OPTION_END, 0, NULL } };
    if (options->cert != NULL) {
        *cert = read_file(options->cert);
        *key = read_file(options->key);
        tls[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, *cert };
        tls[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, *key };
        tls[2] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
        flags |= MHD_USE_TLS;
    }
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, NULL, MHD_OPTION_SOCK_ADDR, &address,
                            MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT, 5000u,
                            MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

/* SIGTERM, SIGINT, or whoever started us closed our standard input. */
static void *wait_for_end_of_input(void *arg)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    kill(getpid(), SIGTERM);
    return arg;
}

int main(int argc, char **argv)
{
    struct options options = { 0 };
    char *cert = NULL, *key = NULL;
    sigset_t signals;
    pthread_t input;
    int signal_number;

    parse_options(argc, argv, &options);
    list_init(&state.records);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    struct MHD_Daemon *daemon = start(&options, &cert, &key);
    if (daemon == NULL) {
        fprintf(stderr, "receiver: cannot listen: %s\n", strerror(errno));
        return 1;
    }
    printf("%u\n", (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    if (pthread_create(&input, NULL, wait_for_end_of_input, NULL) == 0)
        pthread_detach(input);
    sigwait(&signals, &signal_number);

    pthread_mutex_lock(&state.lock);
    state.stopping = true;
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
    MHD_stop_daemon(daemon);
    forget_records();
    free(cert);
    free(key);
    return 0;
}
