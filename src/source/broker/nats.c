/* nats: a durable pull consumer of a JetStream stream; a message is acknowledged (+ACK) when it is stored.
 *
 *   nats://user:password@host:4222/?stream=ORDERS&consumer=postrider&subject=orders.*&start=first
 *
 * A request asks for a batch and stays with the server for a while; messages come as they are there.  What is not
 * acknowledged is given back (-NAK) when we leave in order; else the server waits for the consumer's ack_wait and sends it
 * again.  The consumer is made where it is not there.  One that somebody deletes while we read (or that a server loses with its
 * memory) goes on where it was, also where it began with new messages only (start=new).
 *
 *    connected --> INFO --> (TLS) --> CONNECT, SUB, PING out --> PONG --> the consumer is there: up */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "source/broker/broker.h"
#include "source/broker/talk.h"
#include "transport/broker/nats_answer.h"
#include "transport/broker/nats_greeting.h"

#include <jansson.h> /* last: its json_is_object is a macro */

#define JET_PORT 4222
#define JET_INBOX_SIZE 48
#define JET_NO_CONSUMER 10014
#define JET_LEAVE_US PR_SECONDS(1)
#define ACK_SUBJECT "$JS.ACK."
#define JET_GRACE_US PR_SECONDS(5) /* an expired request is answered within this time */

struct nats_source {
    struct broker *broker;
    struct talk talk;
    struct arena scratch; /* one message */
    struct arena acks;    /* the subjects for acknowledgements of unacknowledged messages */
    pr_slice *acked;
    size_t ack_count, ack_capacity;
    pr_slice stream, consumer;
    char inbox[JET_INBOX_SIZE]; /* ending with a dot */
    struct nats_info info;
    bool is_up;
    size_t ask_max;    /* the consumer's limit for the size of a request ... */
    int64_t ask_us;    /* ... and for its duration */
    size_t asked;      /* messages requested and not received */
    uint64_t requests; /* number of the last request, which is part of its inbox */
    /* When the server stored the last message that is acknowledged, or made the consumer; 0: neither is known. */
    int64_t since_us;
    int64_t batch_us; /* ... the last of those that are to be acknowledged */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const params[] = { "stream", "consumer", "subject",   "start", "tls",
                                      "creds",  "plain",    WIRE_PARAMS, NULL };

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

/* Valid in a subject, and in a file name at the server. */
static bool is_name(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] <= ' ' || strchr(".*>/\\\x7f", s.data[i]) != NULL)
            return false;
    return s.size > 0 && s.size <= 255;
}

static bool has_blank(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] <= ' ')
            return true;
    return false;
}

static int jet_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                     struct pr_error *reterr)
{
    bool tls = false;
    if (!slice_eq_cstr(transport_scheme(config->url), "nats"))
        return wrong(config, "use nats://host/?stream=NAME", reterr);
    int rc = broker_url_parse(config, JET_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "tls", false, &tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_file(config, "creds", broker_url_param(ret, "creds", ""), reterr);
    if (rc != PR_OK)
        return rc;
    if (ret->path.size > 0)
        return wrong(config, "nothing can follow the host; the stream is written ?stream=NAME", reterr);
    if (!is_name(broker_url_param(ret, "stream", "")))
        return wrong(config, "it needs ?stream=NAME; a stream's name has no spaces, dots, * or >", reterr);
    if (!is_name(broker_url_param(ret, "consumer", "postrider")))
        return wrong(config, "a consumer's name has no spaces, dots, * or >", reterr);
    if (has_blank(broker_url_param(ret, "subject", "")))
        return wrong(config, "subject must not contain spaces", reterr);
    return broker_check_start(config, ret, reterr);
}

static pr_slice jet_address(const struct broker_url *url)
{
    return broker_url_param(url, "stream", "");
}

/* ---- Words ---------------------------------------------------------------------------------------------- */

static int refused(struct nats_source *j, pr_slice error, struct pr_error *reterr)
{
    char text[256];
    snprintf(text, sizeof(text), "%.*s", (int)min_size(error.size, sizeof(text) - 1), error.data);
    return talk_fault(&j->talk, reterr, "%s%s", text, nats_error_is_login(text) ? ": " BROKER_LOGIN_ADVICE : "");
}

/* The next message of the server other than PING; valid until the next call.  TALK_TIMEOUT: none. */
static enum talk_end next(struct nats_source *j, int wake_fd, int64_t deadline_us, struct nats_answer *ret)
{
    struct pr_error why = { 0 };
    for (;;) {
        ssize_t size = nats_answer_read_max(talk_heard(&j->talk), broker_message_max(j->broker), ret, &why);
        if (size < 0) {
            snprintf(j->talk.why, sizeof(j->talk.why), "%s:%u: %.300s", j->talk.wire.host, j->talk.wire.port, why.text);
            talk_drop(&j->talk);
            return TALK_LOST;
        }
        if (size > 0 && (ret->missing == 0 || talk_cut(&j->talk, (size_t)size, ret->missing + NATS_END_SIZE))) {
            j->talk.used += (size_t)size; /* its bytes stay in place */
            if (ret->kind != NATS_PING)
                return TALK_BYTES;
            buf_add_cstr(&j->talk.out, "PONG\r\n");
            continue;
        }
        talk_understood(&j->talk, 0);
        enum talk_end end = deadline_us > 0 ? talk_wait(&j->talk, wake_fd, deadline_us) : talk_look(&j->talk);
        if (end != TALK_BYTES)
            return end;
    }
}

static int expect(struct nats_source *j, int wake_fd, enum nats_kind kind, struct nats_answer *ret,
                  struct pr_error *reterr)
{
    int64_t until_us = clock_mono_us(clock_system()) + TALK_GREETING_US;
    for (;;) {
        enum talk_end end = next(j, wake_fd, until_us, ret);
        if (end != TALK_BYTES)
            return talk_ended(&j->talk, end, reterr);
        if (ret->kind == NATS_ERROR)
            return refused(j, ret->text, reterr);
        if (ret->kind == kind)
            return PR_OK;
    }
}

/* ---- The consumer ----------------------------------------------------------------------------------------- */

static void put_request(struct nats_source *j, const char *what, pr_slice body, const char *reply)
{
    buf_addf(&j->talk.out, "PUB $JS.API.CONSUMER.%s.%s.%s %s%s %zu\r\n", what, j->stream.data, j->consumer.data,
             j->inbox, reply, body.size);
    buf_add_slice(&j->talk.out, body);
    buf_add_cstr(&j->talk.out, "\r\n");
}

/* The server's answer, to be freed; NULL: an error, see *reterr. */
static json_t *request(struct nats_source *j, const char *what, pr_slice body, int wake_fd, struct pr_error *reterr)
{
    struct nats_answer a;
    put_request(j, what, body, "api");
    if (expect(j, wake_fd, NATS_MESSAGE, &a, reterr) != PR_OK)
        return NULL;
    if (a.status == 503) {
        (void)talk_fault(&j->talk, reterr, "JetStream is not enabled for this account");
        return NULL;
    }
    json_t *tree = json_loadb(a.data.data, a.data.size, 0, NULL);
    if (tree == NULL)
        (void)talk_fault(&j->talk, reterr, "the answer is not from JetStream");
    return tree;
}

static int refused_request(struct nats_source *j, const json_t *error, struct pr_error *reterr)
{
    const char *text = json_string_value(json_object_get(error, "description"));
    return talk_fault(&j->talk, reterr, "%s: check stream and consumer in its url", text != NULL ? text : "refused");
}

/* Where a consumer begins that we make. */
static void put_begin(const struct nats_source *j, struct json_writer *w)
{
    bool starts_at_first = broker_starts_at_first(&j->broker->url);
    char since[TIME_TEXT_SIZE];
    json_key(w, "deliver_policy");
    json_cstr(w, starts_at_first ? "all" : j->since_us == 0 ? "new" : "by_start_time");
    if (starts_at_first || j->since_us == 0)
        return;
    time_format_rfc3339(j->since_us, since);
    json_key(w, "opt_start_time");
    json_cstr(w, since);
}

/* A consumer has all that came since it was made. */
static void note_made(struct nats_source *j, const json_t *answer)
{
    const char *created = json_string_value(json_object_get(answer, "created"));
    int64_t at_us;
    if (j->since_us == 0 && created != NULL && time_parse_rfc3339(slice_from(created), &at_us) == PR_OK && at_us > 0 &&
        at_us < PR_NEVER)
        j->since_us = at_us;
}

static int make_consumer(struct nats_source *j, int wake_fd, struct pr_error *reterr)
{
    const struct broker_url *url = &j->broker->url;
    pr_slice subject = broker_url_param(url, "subject", "");
    struct buf body;
    struct json_writer w;
    buf_init(&body, BROKER_URL_MAX * 2);
    json_init(&w, &body);
    json_begin_object(&w);
    json_put_slice(&w, "stream_name", j->stream);
    json_key(&w, "config");
    json_begin_object(&w);
    json_put_slice(&w, "durable_name", j->consumer);
    json_put_cstr(&w, "ack_policy", "explicit");
    put_begin(j, &w);
    json_put_some(&w, "filter_subject", subject);
    json_end_object(&w);
    json_end_object(&w);
    json_t *tree = request(j, "DURABLE.CREATE", buf_slice(&body), wake_fd, reterr);
    const json_t *error = json_object_get(tree, "error");
    int rc = tree == NULL ? PR_EIO : error != NULL ? refused_request(j, error, reterr) : PR_OK;
    note_made(j, tree);
    json_decref(tree);
    buf_fini(&body);
    return rc;
}

/* The consumer's limits; 0 or missing: none. */
static void take_limits(struct nats_source *j, const json_t *config)
{
    json_int_t batch = json_integer_value(json_object_get(config, "max_batch"));
    json_int_t expires_ns = json_integer_value(json_object_get(config, "max_expires"));
    j->ask_max = batch > 0 ? min_size((size_t)batch, j->ack_capacity) : j->ack_capacity;
    j->ask_us = expires_ns > 0 ? max64(min64(expires_ns / 1000, BROKER_WAIT_US), 1) : BROKER_WAIT_US;
}

static int find_consumer(struct nats_source *j, int wake_fd, struct pr_error *reterr)
{
    json_t *tree = request(j, "INFO", PR_STR(""), wake_fd, reterr);
    const json_t *error = json_object_get(tree, "error"), *config = json_object_get(tree, "config");
    const char *policy = json_string_value(json_object_get(config, "ack_policy"));
    json_int_t deliveries = json_integer_value(json_object_get(config, "max_deliver"));
    int rc = tree != NULL ? PR_OK : PR_EIO;
    take_limits(j, config);
    if (error != NULL && json_integer_value(json_object_get(error, "err_code")) == JET_NO_CONSUMER)
        rc = make_consumer(j, wake_fd, reterr);
    else if (error != NULL)
        rc = refused_request(j, error, reterr);
    else if (rc == PR_OK && (policy == NULL || strcmp(policy, "explicit") != 0))
        rc = talk_fault(&j->talk, reterr, "the consumer %s does not have the ack policy explicit: name another one",
                        j->consumer.data);
    else if (rc == PR_OK && json_object_get(config, "deliver_subject") != NULL)
        rc = talk_fault(&j->talk, reterr, "the consumer %s is not a pull consumer: name another one", j->consumer.data);
    else if (rc == PR_OK && deliveries > 0) /* each time that we leave, or the store is away, costs one */
        rc = talk_fault(&j->talk, reterr,
                        "the consumer %s has max_deliver %" PRId64
                        ": messages that come back more often would be lost; set it to -1, or name another one",
                        j->consumer.data, (int64_t)deliveries);
    else if (rc == PR_OK)
        note_made(j, tree);
    json_decref(tree);
    return rc;
}

/* ---- The connection ---------------------------------------------------------------------------------------- */

static int greet(struct nats_source *j, int wake_fd, struct pr_error *reterr)
{
    struct nats_answer a;
    bool tls = j->talk.wire.tls != NULL;
    int rc = expect(j, wake_fd, NATS_INFO, &a, reterr);
    if (rc != PR_OK)
        return rc;
    const char *why = nats_info_read(a.text, tls, &j->info);
    if (why == NULL && tls && talk_heard(&j->talk).size > 0)
        why = "it continues unencrypted where TLS should begin";
    if (why != NULL)
        return talk_fault(&j->talk, reterr, "%s", why);
    talk_understood(&j->talk, 0);
    enum talk_end end = tls ? talk_secure(&j->talk, wake_fd) : TALK_BYTES;
    if (end != TALK_BYTES)
        return talk_ended(&j->talk, end, reterr);
    struct pr_error error = { 0 };
    if (nats_put_connect(&j->talk.out, &j->broker->url, j->broker->config.name, tls, j->info.nonce, &error) != PR_OK)
        return talk_fault(&j->talk, reterr, "%s", error.text[0] != '\0' ? error.text : "out of memory");
    buf_addf(&j->talk.out, "SUB %s* 1\r\nPING\r\n", j->inbox);
    return expect(j, wake_fd, NATS_PONG, &a, reterr);
}

static int connect_now(struct nats_source *j, int wake_fd, struct pr_error *reterr)
{
    enum talk_end end = talk_connect(&j->talk, wake_fd);
    int rc = end == TALK_BYTES ? greet(j, wake_fd, reterr) : talk_ended(&j->talk, end, reterr);
    if (rc == PR_OK)
        rc = find_consumer(j, wake_fd, reterr);
    j->is_up = rc == PR_OK;
    j->asked = 0;
    return rc;
}

/* At most the requested number of messages is out, and only as many as there is room for are requested. */
static bool note_ack(struct nats_source *j, pr_slice reply)
{
    if (j->ack_count == j->ack_capacity || (j->acked[j->ack_count] = slice_dup(&j->acks, reply)).data == NULL)
        return false;
    j->ack_count++;
    return true;
}

/* The last one first: a server that gets the last one back steps back by one, and so sends them in order again.  The
 * other way round it may leave the first one until ack_wait is over (2.9 does). */
static void put_verdicts(struct nats_source *j, const char *verdict)
{
    for (size_t i = j->ack_count; i-- > 0;)
        buf_addf(&j->talk.out, "PUB %s %zu\r\n%s\r\n", j->acked[i].data, strlen(verdict), verdict);
    j->ack_count = 0;
    arena_reset(&j->acks);
}

/* Hands back unacknowledged messages, including those on their way: when UNSUB is answered, nothing more arrives. */
static void give_back(struct nats_source *j)
{
    struct nats_answer a;
    int64_t until_us = clock_mono_us(clock_system()) + JET_LEAVE_US;
    buf_add_cstr(&j->talk.out, "UNSUB 1\r\nPING\r\n");
    while (next(j, -1, until_us, &a) == TALK_BYTES && a.kind != NATS_PONG)
        if (a.kind == NATS_MESSAGE && slice_starts_with(a.reply, PR_STR(ACK_SUBJECT)))
            (void)note_ack(j, a.reply);
    put_verdicts(j, "-NAK");
    if (talk_is_open(&j->talk))
        (void)talk_say(&j->talk);
}

static void jet_drop(void *self)
{
    struct nats_source *j = self;
    if (j->is_up && talk_is_open(&j->talk) && j->ack_count + j->asked > 0)
        give_back(j);
    talk_drop(&j->talk);
    j->is_up = false;
    j->asked = j->ack_count = 0;
    j->batch_us = 0;
    arena_reset(&j->acks);
}

/* ---- Messages ------------------------------------------------------------------------------------------------ */

/* The token of a subject at this index. */
static pr_slice word(pr_slice subject, size_t index)
{
    while (index > 0 && subject.size > 0) {
        index -= subject.data[0] == '.';
        subject = (pr_slice){ subject.data + 1, subject.size - 1 };
    }
    const char *dot = subject.size > 0 ? memchr(subject.data, '.', subject.size) : NULL;
    return dot != NULL ? (pr_slice){ subject.data, (size_t)(dot - subject.data) } : subject;
}

/* Nanoseconds as digits; 0: it is none. */
static int64_t time_of(pr_slice digits)
{
    int64_t ns = 0;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9' || ns > (INT64_MAX - 9) / 10)
            return 0;
        ns = ns * 10 + (digits.data[i] - '0');
    }
    return ns / 1000;
}

/* $JS.ACK.STREAM.consumer.delivered.SEQUENCE.consumed.TIME. ..., or with the domain and the account before the stream.
 * The time is when the server stored the message: the same in every delivery.  Empty: another format. */
static int position_of(struct nats_source *j, pr_slice reply, pr_slice *ret)
{
    size_t dots = 0;
    for (size_t i = 0; i < reply.size; i++)
        dots += reply.data[i] == '.';
    size_t first = dots == 8 ? 2 : 4;
    pr_slice stream = word(reply, first), sequence = word(reply, first + 3), time = word(reply, first + 5);
    if (stream.size == 0 || sequence.size == 0 || time.size == 0)
        return PR_OK;
    j->batch_us = max64(j->batch_us, time_of(time));
    *ret = arena_printf(&j->scratch, "%.*s/%.*s/%.*s", SLICE_ARGS(stream), SLICE_ARGS(sequence), SLICE_ARGS(time));
    return ret->data != NULL ? PR_OK : PR_ENOMEM;
}

/* "Name: value\r\n" lines after the first line. */
static int take_headers(struct nats_source *j, pr_slice head, struct received *m)
{
    struct decode_header *headers = arena_alloc_array(&j->scratch, head.size / 3 + 1, sizeof(*headers));
    pr_slice line = { NULL, 0 };
    size_t used = inbox_line(head, &line);
    m->headers = headers;
    while (headers != NULL && used > 0) {
        head = (pr_slice){ head.data + used, head.size - used };
        used = inbox_line(head, &line);
        const char *colon = used > 0 && line.size > 0 ? memchr(line.data, ':', line.size) : NULL;
        if (colon == NULL || colon == line.data)
            continue; /* no name: not a header, and the room is for those of three bytes and more */
        pr_slice name = { line.data, (size_t)(colon - line.data) };
        pr_slice value = slice_trim((pr_slice){ colon + 1, line.size - name.size - 1 });
        if (name.size == 12 && strncasecmp(name.data, "Content-Type", 12) == 0)
            m->content_type = value;
        else if (name.size == 11 && strncasecmp(name.data, "Nats-Msg-Id", 11) == 0)
            m->id = value;
        else if (name.size < 5 || strncasecmp(name.data, "Nats-", 5) != 0)
            headers[m->header_count++] = (struct decode_header){ name, value };
    }
    return headers != NULL ? PR_OK : PR_ENOMEM;
}

static int take_message(struct nats_source *j, struct intake *in, const struct nats_answer *a, struct pr_error *reterr)
{
    struct received m = {
        .prefix = "ce-", .is_percent_encoded = true, .body = a->data, .missing = a->missing, .type = a->subject
    };
    arena_reset(&j->scratch);
    if (!note_ack(j, a->reply) || take_headers(j, a->head, &m) != PR_OK ||
        position_of(j, a->reply, &m.position) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "out of memory for a message");
    j->asked -= j->asked > 0;
    return intake_add(in, &m, reterr);
}

/* A request ends with a status: 404 and 408 mean that there are no more messages. */
static int take_status(struct nats_source *j, const struct nats_answer *a, struct pr_error *reterr)
{
    char now[JET_INBOX_SIZE + 24];
    snprintf(now, sizeof(now), "%s%" PRIu64, j->inbox, j->requests);
    if (a->status == 100 || !slice_eq_cstr(a->subject, now)) /* a heartbeat, or about an earlier request */
        return PR_OK;
    j->asked = 0;
    if (a->status == 404 || a->status == 408)
        return PR_OK;
    pr_slice line = { NULL, 0 };
    (void)inbox_line(a->head, &line);
    return talk_fault(&j->talk, reterr, "the request for messages ended: %.*s", (int)min_size(line.size, 200),
                      a->status == 503 ? "the consumer is gone" : line.data);
}

static void ask(struct nats_source *j, const struct intake *in)
{
    char body[96], reply[24];
    j->asked = min_size(intake_room(in), j->ask_max);
    snprintf(body, sizeof(body), "{\"batch\":%zu,\"expires\":%" PRId64 "}", j->asked, j->ask_us * 1000);
    snprintf(reply, sizeof(reply), "%" PRIu64, ++j->requests);
    put_request(j, "MSG.NEXT", slice_from(body), reply);
}

/* Takes available messages; waits for the first. */
static int read_batch(struct nats_source *j, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct nats_answer a;
    int64_t until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US + JET_GRACE_US;
    int rc = PR_OK;
    while (rc == PR_OK && j->asked > 0 && !intake_is_full(in)) {
        enum talk_end end = next(j, wake_fd, intake_size(in) == 0 ? until_us : 0, &a);
        if (end == TALK_TIMEOUT && intake_size(in) > 0)
            return PR_OK;
        if (end != TALK_BYTES)
            return talk_ended(&j->talk, end, reterr);
        if (a.kind == NATS_ERROR)
            return refused(j, a.text, reterr);
        if (a.kind != NATS_MESSAGE)
            continue;
        if (slice_starts_with(a.reply, PR_STR(ACK_SUBJECT)))
            rc = take_message(j, in, &a, reterr);
        else
            rc = take_status(j, &a, reterr);
    }
    return rc;
}

static int jet_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct nats_source *j = self;
    int rc = j->is_up ? PR_OK : connect_now(j, wake_fd, reterr);
    if (rc == PR_OK && j->asked == 0)
        ask(j, in);
    return rc == PR_OK ? read_batch(j, in, wake_fd, reterr) : rc;
}

static int jet_acknowledge(void *self, struct pr_error *reterr)
{
    struct nats_source *j = self;
    put_verdicts(j, "+ACK");
    if (j->batch_us > 0) /* one that came again may be older: then more comes twice, and nothing is left out */
        j->since_us = j->batch_us;
    j->batch_us = 0;
    return talk_say(&j->talk) ? PR_OK : error_set(reterr, PR_EIO, "%s", j->talk.why);
}

/* ---- The source --------------------------------------------------------------------------------------------------- */

/* An unguessable name: anybody who knows it could answer in the server's place. */
static int make_inbox(struct nats_source *j, struct pr_error *reterr)
{
    uint8_t random[16];
    size_t size = (size_t)snprintf(j->inbox, sizeof(j->inbox), "_INBOX.");
    if (random_bytes_os(random, sizeof(random)) != PR_OK)
        return error_set(reterr, PR_EIO, "source %s: the operating system provides no random numbers",
                         j->broker->config.name);
    for (size_t i = 0; i < sizeof(random); i++)
        size += (size_t)snprintf(j->inbox + size, sizeof(j->inbox) - size, "%02x", random[i]);
    snprintf(j->inbox + size, sizeof(j->inbox) - size, ".");
    return PR_OK;
}

static int jet_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct nats_source *j = self;
    j->broker = broker;
    j->stream = broker_url_param(&broker->url, "stream", "");
    j->consumer = broker_url_param(&broker->url, "consumer", "postrider");
    arena_init(&j->scratch, 4096);
    arena_init(&j->acks, 16384);
    j->ack_capacity = broker->intake.capacity;
    j->acked = arena_alloc_array(&broker->arena, j->ack_capacity, sizeof(*j->acked));
    if (j->acked == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    bool tls = slice_eq_cstr(broker_url_param(&broker->url, "tls", "false"), "true");
    int rc = make_inbox(j, reterr);
    if (rc == PR_OK)
        rc = talk_init(&j->talk, &broker->config, &broker->url, tls, broker_message_max(broker) + INBOX_SIZE, reterr);
    j->talk.wire.tls_later = true;
    return rc;
}

static void jet_close(void *self)
{
    struct nats_source *j = self;
    talk_fini(&j->talk);
    if (j->broker == NULL)
        return;
    arena_fini(&j->scratch);
    arena_fini(&j->acks);
}

static const struct broker_ops jet_broker = {
    .kind = "nats",
    .size = sizeof(struct nats_source),
    .parse = jet_parse,
    .address = jet_address,
    .open = jet_open,
    .close = jet_close,
    .receive = jet_receive,
    .acknowledge = jet_acknowledge,
    .drop = jet_drop,
};

static int jet_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &jet_broker, ret_self, reterr);
}

const struct source_ops source_nats = {
    .broker = &jet_broker, .open = jet_source_open, .run = broker_run, .close = broker_close
};
