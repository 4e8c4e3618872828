/* Records of Kafka, through all of the source: headers, key, decoding, the commit into a store, the offsets.
 *
 * What brokers send is read by librdkafka, in threads of its own, after the gate has checked it (fuzz_kafka_answer.c):
 * what is ours begins with a record.  So the library's consumer is replaced by one that gives what the input says, and
 * that checks which offsets are committed.  Headers, lists and settings are the library's own.
 *
 * The first line is the number of a url.  The others begin with a letter; a line that begins with a blank continues the
 * one before it.
 *
 *   r VALUE          a record; 0: one without a value      k KEY         its key
 *   h NAME=VALUE     its header; without "=": a null       n 300 X=Y     as many headers
 *   p 3 TOPIC        its partition and topic               o 12          its offset; otherwise the next one
 *   t 1731873600000  its timestamp                         e -185 TEXT   it is this error
 *   ~                no more for now                       x -195 TEXT   the library reports an error
 *   c NAME           name of the cluster, empty: unknown   w -168        what commits of offsets return from now on */
#include <librdkafka/rdkafka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "source/broker/broker.h"

#include "fuzz.h"
#include "source.h"

#define HEADERS_MAX 1000

static const char *const urls[] = { "kafka://127.0.0.1/t", "kafka://127.0.0.1/t?group=g&start=new" };

/* ---- The input --------------------------------------------------------------------------------------------- */

struct line {
    char letter; /* NUL: there is none */
    int64_t number;
    char *text; /* behind the letter, or behind a number; it ends with a NUL; free() it */
    size_t size;
};

static struct {
    struct input in;
    struct line line; /* the next one */
    void (*on_error)(rd_kafka_t *, int, const char *, void *);
    void *opaque;
    int event_fd; /* of the source: something happened */
    int wake_fd;  /* readable: all was given */
    char cluster[64];
    rd_kafka_resp_err_t commit_error;
    rd_kafka_topic_partition_list_t *given; /* since the last commit: offsets behind the records */
    int64_t offset;                         /* of the next record */
} fake;

static bool has_number(char letter)
{
    return letter != '\0' && strchr("npotexw", letter) != NULL;
}

static void read_line(void)
{
    char *text = malloc(fake.in.size + 1);
    size_t size = 0;
    FUZZ_CHECK(text != NULL);
    fake.line = (struct line){ .letter = '\0', .text = text };
    for (bool more = fake.in.size > 0; more; more = fake.in.size > 0 && fake.in.data[0] == ' ') {
        pr_slice line = input_line(&fake.in);
        size_t skip = size == 0 ? 0 : 1;
        if (size > 0)
            text[size++] = '\n';
        memcpy(text + size, line.data + skip, line.size - skip);
        size += line.size - skip;
    }
    text[size] = '\0';
    const char *rest = text;
    if (size > 0)
        fake.line.letter = *rest++;
    rest += *rest == ' ';
    if (has_number(fake.line.letter)) {
        char *end;
        fake.line.number = strtoll(rest, &end, 10);
        rest = *end == ' ' ? end + 1 : end;
    }
    fake.line.size = size - (size_t)(rest - text);
    memmove(text, rest, fake.line.size + 1);
}

static void next_line(void)
{
    free(fake.line.text);
    read_line();
}

/* ---- Its records ------------------------------------------------------------------------------------------- */

struct record {
    rd_kafka_message_t message; /* first: it is what the source gets */
    rd_kafka_headers_t *headers;
    int64_t time_ms;
};

static void *copy_of(const char *text, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1); /* no byte more, so that sanitizers see who reads too far */
    FUZZ_CHECK(copy != NULL);
    return memcpy(copy, text, size);
}

static void replace(void **at, const char *text, size_t size)
{
    free(*at);
    *at = copy_of(text, size);
}

static void add_headers(struct record *r, int64_t count, const struct line *l)
{
    const char *value = memchr(l->text, '=', l->size);
    size_t name_size = value != NULL ? (size_t)(value - l->text) : l->size;
    if (r->headers == NULL)
        r->headers = rd_kafka_headers_new(4);
    for (int64_t i = 0; i < count && rd_kafka_header_cnt(r->headers) < HEADERS_MAX; i++)
        FUZZ_CHECK(rd_kafka_header_add(r->headers, l->text, (ssize_t)name_size, value != NULL ? value + 1 : NULL,
                                       value != NULL ? (ssize_t)(l->size - name_size - 1) : 0) == 0);
}

/* What the line says of a record; false: it says nothing of it. */
static bool describe(struct record *r, const struct line *l)
{
    rd_kafka_message_t *m = &r->message;
    void *topic = m->rkt;
    switch (l->letter) {
    case 'k':
        replace(&m->key, l->text, l->size);
        m->key_len = l->size;
        return true;
    case 'h': add_headers(r, 1, l); return true;
    case 'n': add_headers(r, l->number, l); return true;
    case 'p':
        m->partition = (int32_t)((uint64_t)l->number & INT32_MAX);
        replace(&topic, l->text, l->size + 1);
        m->rkt = topic;
        return true;
    case 'o': m->offset = (int64_t)((uint64_t)l->number & INT64_MAX); return true;
    case 't': r->time_ms = l->number; return true;
    case 'e':
        m->err = (rd_kafka_resp_err_t)l->number;
        replace(&m->payload, l->text, l->size + 1); /* where the library has the text of an error */
        m->len = l->size;
        return true;
    default: return false;
    }
}

static struct record *record_new(void)
{
    struct record *r = calloc(1, sizeof(*r));
    FUZZ_CHECK(r != NULL);
    r->message = (rd_kafka_message_t){ .rkt = copy_of("t", 2), .offset = fake.offset };
    if (fake.line.letter == 'r') {
        r->message.payload = copy_of(fake.line.text, fake.line.size);
        r->message.len = fake.line.size;
    }
    for (next_line(); describe(r, &fake.line);)
        next_line();
    fake.offset = r->message.offset < INT64_MAX ? r->message.offset + 1 : 0;
    return r;
}

static void expect_offset(const rd_kafka_message_t *m)
{
    const char *topic = (const char *)m->rkt;
    rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_find(fake.given, topic, m->partition);
    if (at == NULL)
        at = rd_kafka_topic_partition_list_add(fake.given, topic, m->partition);
    at->offset = m->offset < INT64_MAX ? m->offset + 1 : m->offset;
}

/* ---- The consumer, in place of the library's ----------------------------------------------------------------- */

static char nothing; /* its address: a consumer, a queue, an event */

void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *conf, void (*on_error)(rd_kafka_t *, int, const char *, void *))
{
    (void)conf;
    fake.on_error = on_error;
}

void rd_kafka_conf_set_opaque(rd_kafka_conf_t *conf, void *opaque)
{
    (void)conf;
    fake.opaque = opaque;
}

rd_kafka_t *rd_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, char *ret_why, size_t size)
{
    FUZZ_CHECK(type == RD_KAFKA_CONSUMER && ret_why != NULL && size > 0);
    rd_kafka_conf_destroy(conf);
    return (rd_kafka_t *)&nothing;
}

void rd_kafka_destroy(rd_kafka_t *consumer)
{
    (void)consumer;
    rd_kafka_topic_partition_list_destroy(fake.given); /* uncommitted: they would come again */
    fake.given = rd_kafka_topic_partition_list_new(4);
}

rd_kafka_resp_err_t rd_kafka_consumer_close(rd_kafka_t *consumer)
{
    (void)consumer;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t rd_kafka_poll_set_consumer(rd_kafka_t *consumer)
{
    (void)consumer;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t rd_kafka_subscribe(rd_kafka_t *consumer, const rd_kafka_topic_partition_list_t *topics)
{
    (void)consumer;
    FUZZ_CHECK(topics->cnt == 1);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *consumer)
{
    return (rd_kafka_queue_t *)consumer;
}

rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *consumer)
{
    return (rd_kafka_queue_t *)consumer;
}

void rd_kafka_queue_destroy(rd_kafka_queue_t *queue)
{
    (void)queue;
}

void rd_kafka_queue_io_event_enable(rd_kafka_queue_t *queue, int fd, const void *bytes, size_t size)
{
    (void)queue;
    (void)bytes;
    (void)size;
    fake.event_fd = fd;
}

char *rd_kafka_clusterid(rd_kafka_t *consumer, int timeout_ms)
{
    (void)consumer;
    (void)timeout_ms;
    return fake.cluster[0] != '\0' ? strdup(fake.cluster) : NULL;
}

void rd_kafka_mem_free(rd_kafka_t *consumer, void *memory)
{
    (void)consumer;
    free(memory);
}

static void ring(int fd)
{
    static const uint64_t one = 1;
    if (fd >= 0)
        FUZZ_CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
}

/* A line that is not part of a record. */
static void obey(const struct line *l)
{
    if (l->letter == 'c')
        snprintf(fake.cluster, sizeof(fake.cluster), "%s", l->text);
    else if (l->letter == 'w')
        fake.commit_error = (rd_kafka_resp_err_t)l->number;
    else if (l->letter == 'x')
        fake.on_error((rd_kafka_t *)&nothing, (int)l->number, l->text, fake.opaque);
}

rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *consumer, int timeout_ms)
{
    (void)consumer;
    (void)timeout_ms;
    for (; fake.line.letter != '\0' && fake.line.letter != '~'; next_line())
        if (fake.line.letter == 'r' || fake.line.letter == '0') {
            struct record *r = record_new();
            if (r->message.err == RD_KAFKA_RESP_ERR_NO_ERROR)
                expect_offset(&r->message);
            return &r->message;
        } else {
            obey(&fake.line);
        }
    if (fake.line.letter == '\0' && fake.in.size == 0)
        ring(fake.wake_fd);
    else
        next_line();
    ring(fake.event_fd);
    return NULL;
}

const char *rd_kafka_topic_name(const rd_kafka_topic_t *topic)
{
    return (const char *)topic;
}

static struct record *record_of(const rd_kafka_message_t *m)
{
    return (struct record *)(uintptr_t)m;
}

int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *m, rd_kafka_timestamp_type_t *type)
{
    FUZZ_CHECK(type == NULL);
    return record_of(m)->time_ms;
}

rd_kafka_resp_err_t rd_kafka_message_headers(const rd_kafka_message_t *m, rd_kafka_headers_t **ret)
{
    *ret = record_of(m)->headers;
    return *ret != NULL ? RD_KAFKA_RESP_ERR_NO_ERROR : RD_KAFKA_RESP_ERR__NOENT;
}

void rd_kafka_message_destroy(rd_kafka_message_t *m)
{
    struct record *r = record_of(m);
    if (r->headers != NULL)
        rd_kafka_headers_destroy(r->headers);
    free(m->payload);
    free(m->key);
    free(m->rkt);
    free(r);
}

/* S1: the offsets behind all the records of the batch, and no others, when they are stored. */
rd_kafka_resp_err_t
rd_kafka_commit_queue(rd_kafka_t *consumer, const rd_kafka_topic_partition_list_t *offsets, rd_kafka_queue_t *queue,
                      void (*done)(rd_kafka_t *, rd_kafka_resp_err_t, rd_kafka_topic_partition_list_t *, void *),
                      void *arg)
{
    FUZZ_CHECK(consumer != NULL && queue != NULL && done == NULL && arg == NULL);
    FUZZ_CHECK(offsets->cnt == fake.given->cnt);
    for (int i = 0; i < offsets->cnt; i++) {
        const rd_kafka_topic_partition_t *o = &offsets->elems[i];
        const rd_kafka_topic_partition_t *g = rd_kafka_topic_partition_list_find(fake.given, o->topic, o->partition);
        FUZZ_CHECK(g != NULL && g->offset == o->offset);
    }
    rd_kafka_topic_partition_list_destroy(fake.given);
    fake.given = rd_kafka_topic_partition_list_new(4);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_event_t *rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms)
{
    (void)queue;
    (void)timeout_ms;
    return fake.commit_error != RD_KAFKA_RESP_ERR__TIMED_OUT ? (rd_kafka_event_t *)&nothing : NULL;
}

rd_kafka_resp_err_t rd_kafka_event_error(rd_kafka_event_t *event)
{
    (void)event;
    return fake.commit_error;
}

void rd_kafka_event_destroy(rd_kafka_event_t *event)
{
    (void)event;
}

/* ---- The source ------------------------------------------------------------------------------------------------ */

static void take_input(const uint8_t *data, size_t size, int wake_fd)
{
    uint64_t rung;
    free(fake.line.text);
    memset(&fake, 0, sizeof(fake));
    fake.in = input_from(data, size);
    fake.event_fd = -1;
    fake.wake_fd = wake_fd;
    fake.given = rd_kafka_topic_partition_list_new(4);
    snprintf(fake.cluster, sizeof(fake.cluster), "cluster");
    (void)!read(wake_fd, &rung, sizeof(rung));
}

static bool has_more(void)
{
    return fake.line.letter != '\0' || fake.in.size > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int wake_fd = -1;
    struct source_config config = { .kind = SOURCE_KAFKA };
    struct source source;
    if (wake_fd < 0)
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    take_input(data, size, wake_fd);
    int64_t number = input_number(&fake.in);
    read_line();
    fuzz_source_open(&source, &config, urls[(uint64_t)number % ARRAY_LENGTH(urls)]);
    while (has_more())
        if (fuzz_source_read(source.self, wake_fd) != PR_OK)
            ((struct broker *)source.self)->ops->drop(((struct broker *)source.self)->self);
    source_close(&source);
    rd_kafka_topic_partition_list_destroy(fake.given);
    return 0;
}
