/* nats: each message is published to a subject, and JetStream acknowledges that it is stored.
 *
 *   nats://user:password@host:4222/SUBJECT?tls=true&creds=FILE
 *
 * Everything happens in the caller's thread (session.h).  A message is a request whose answer comes to an inbox subject
 * under the message's number in the pipeline.  Nothing is resent automatically.
 *
 *    connected --> INFO --> (TLS) --> CONNECT, SUB, PING out --> PONG: up
 *
 * With jetstream=false nothing is stored: a message without subscribers is gone.  OK then means that the server has it,
 * which is known when the PING that was sent after it is answered.
 *
 *   N1  PONGs come in the order of PINGs.  A PING that only checks the connection is sent when no message is out, so
 *       its PONG is the first. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/envelope.h"
#include "transport/broker/nats_answer.h"
#include "transport/broker/nats_greeting.h"
#include "transport/broker/nats_message.h"
#include "transport/broker/session.h"
#include "transport/template.h"

#include <jansson.h> /* last: its json_is_object is a macro */

#define JET_PORT 4222
#define JET_PING_US PR_SECONDS(20) /* a server that is silent for two of them counts as gone */
#define JET_SUBJECT_MAX 4096       /* bytes, the server's own limit for a line */
#define JET_INBOX_SIZE 48

/* Codes of results, with the names that clients of NATS use. */
#define JET_LOGIN_FAILED "Authentication Violation"
#define JET_NOT_PERMITTED "Not Permitted"
#define JET_INVALID_SUBJECT "Invalid Subject"
#define JET_TOO_LARGE "Maximum Payload Exceeded"

/* What is awaited. */
enum jet_stage { JET_INFO, JET_TLS, JET_PONG, JET_UP };

struct nats_transport {
    struct broker_session session;
    struct arena scratch; /* one message */
    struct buf subject, json, headers;
    enum envelope envelope;
    bool stores; /* JetStream */

    enum jet_stage stage;
    struct inbox inbox; /* empty without a connection */
    struct nats_info info;
    char reply_to[JET_INBOX_SIZE]; /* the inbox subject, ending with a dot */
    int64_t read_us;               /* when something was last read */
    bool pinged;                   /* N1: a PONG is to come that belongs to no message */
    /* one for all PINGs so far, so that answers do not pile up for a server that does not read */
    bool owes_pong;
};

/* ---- The url --------------------------------------------------------------------------------------------- */

static const char *const params[] = { "jetstream", "tls", "creds", "plain", WIRE_PARAMS, NULL };

static bool jet_bool(const struct broker_url *url, const char *name, bool fallback)
{
    return slice_eq_cstr(broker_url_param(url, name, fallback ? "true" : "false"), "true");
}

/* Before and after placeholders are filled in: no white space, no empty part. */
static bool subject_is_good(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] <= ' ' || s.data[i] == '*' || s.data[i] == '>' || s.data[i] == 127 ||
            (s.data[i] == '.' && (i == 0 || i + 1 == s.size || s.data[i - 1] == '.')))
            return false;
    return s.size > 0 && s.size <= JET_SUBJECT_MAX;
}

static int jet_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                   struct pr_error *reterr)
{
    bool tls = false, stores;
    int rc = broker_url_parse(config, JET_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "tls", false, &tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, tls, reterr);
    if (rc == PR_OK)
        rc = broker_url_bool(config, ret, "jetstream", true, &stores, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_file(config, "creds", broker_url_param(ret, "creds", ""), reterr);
    if (rc == PR_OK)
        rc = template_check(config->name, "the subject", ret->path, reterr);
    if (rc == PR_OK && !subject_is_good(ret->path))
        rc =
            error_set(reterr, PR_ECONFIG,
                      "endpoint %s: the url is not valid: it needs a subject after the host, for example orders.{type}",
                      config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    return rc == PR_OK ? pipeline_check(config, reterr) : rc;
}

static int jet_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return session_check(jet_url, config, reterr);
}

/* ---- Reasons --------------------------------------------------------------------------------------------- */

/* JetStream's own error numbers, where they are more precise than the code. */
static int reason_of_error(long long code, long long number)
{
    switch (number) {
    case 10054: /* message size exceeds maximum allowed */
    case 10097: /* header size exceeds maximum allowed */ return PR_REASON_MESSAGE_TOO_LARGE;
    case 10059: /* stream not found */
    case 10039: /* not enabled for the account */
    case 10076: /* not enabled */ return PR_REASON_DESTINATION_MISSING;
    case 10077: /* the stream is full and refuses (discard: new) */ return PR_REASON_TRANSPORT_UNAVAILABLE;
    default: break;
    }
    switch (code) {
    case 401:
    case 403: return PR_REASON_UNAUTHORIZED;
    case 404: return PR_REASON_DESTINATION_MISSING;
    case 408:
    case 429:
    case 500:
    case 503: return PR_REASON_TRANSPORT_UNAVAILABLE;
    default: return PR_REASON_REJECTED;
    }
}

/* ---- The connection ---------------------------------------------------------------------------------------- */

static void jet_drop(void *self)
{
    struct nats_transport *j = self;
    j->stage = JET_INFO;
    j->inbox.size = 0;
    j->info.nonce[0] = '\0';
    j->pinged = j->owes_pong = false;
}

static void jet_failed(struct nats_transport *j, const char *what)
{
    session_failed(&j->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", what);
}

/* INFO has arrived, and TLS is established if required. */
static void put_connect(struct nats_transport *j)
{
    struct buf *bytes = &j->session.pipeline.bytes;
    struct pr_error error = { 0 };
    int rc = nats_put_connect(bytes, &j->session.url, j->session.config->name, j->session.wire.tls != NULL,
                              j->info.nonce, &error);
    if (rc == PR_EINVAL) {
        session_failed(&j->session, PR_REASON_UNAUTHORIZED, "", error.text);
        return;
    }
    if (j->stores)
        buf_addf(bytes, "SUB %s* 1\r\n", j->reply_to);
    buf_add_cstr(bytes, "PING\r\n");
    j->stage = JET_PONG;
    if (rc != PR_OK || buf_failed(bytes) != 0)
        jet_failed(j, "out of memory");
}

/* The server speaks first; after the TLS handshake, the client does. */
static void jet_greet(void *self)
{
    struct nats_transport *j = self;
    j->read_us = clock_mono_us(j->session.clock);
    if (j->stage == JET_TLS)
        put_connect(j);
}

/* ---- One message -------------------------------------------------------------------------------------------- */

static void fill_subject(struct nats_transport *j, const struct pr_message *m)
{
    buf_reset(&j->subject);
    template_fill(&j->subject, j->session.url.path, m);
}

/* $JS.API.STREAM.PURGE.ORDERS is an order to the server, which obeys whoever is logged in: a message fills in a part of a
 * name, and makes no such name of it. */
static bool subject_is_allowed(const struct nats_transport *j)
{
    const pr_slice subject = buf_slice(&j->subject);
    return subject_is_good(subject) && (subject.data[0] != '$' || j->session.url.path.data[0] == '$');
}

/* HPUB subject [reply-to] head-size size; and the PING whose answer shows that the server has it. */
static void put_message(struct nats_transport *j, pr_slice data)
{
    struct pipeline *p = &j->session.pipeline;
    buf_add_cstr(&p->bytes, "HPUB ");
    buf_add_slice(&p->bytes, buf_slice(&j->subject));
    if (j->stores)
        buf_addf(&p->bytes, " %s%" PRIu64, j->reply_to, p->first_number + p->out_count);
    buf_addf(&p->bytes, " %zu %zu\r\n", j->headers.size, j->headers.size + data.size);
    buf_add_slice(&p->bytes, buf_slice(&j->headers));
    buf_add_slice(&p->bytes, data);
    buf_add_cstr(&p->bytes, j->stores ? "\r\n" : "\r\nPING\r\n");
}

/* Fails it without sending. */
static void jet_refuse(struct nats_transport *j, const struct delivery *d, int reason, const char *code,
                       const char *text)
{
    delivery_queue_drop(&j->session.pipeline.waiting);
    result_unsent(pipeline_result(&j->session.pipeline), d->token, reason, code, pr_str(text));
}

/* Puts its bytes into the buffer, or gives it its result. */
static void jet_begin(struct nats_transport *j, const struct delivery *d)
{
    struct pipeline *p = &j->session.pipeline;
    struct pr_error error = { 0 };
    pr_slice data = d->message->payload;
    size_t before = p->bytes.size;

    arena_reset(&j->scratch);
    fill_subject(j, d->message);
    if (buf_failed(&j->subject) != 0 || !subject_is_allowed(j)) {
        (void)error_set(&error, PR_EINVAL, "the message does not make a valid subject: \"%.100s\"",
                        buf_slice(&j->subject).data);
        jet_refuse(j, d, PR_REASON_VALIDATION_FAILURE, JET_INVALID_SUBJECT, error.text);
        return;
    }
    int rc = nats_message_headers(d->message, j->envelope, j->session.config->source, &j->scratch, &j->headers, &error);
    if (rc == PR_EINVAL) {
        jet_refuse(j, d, PR_REASON_VALIDATION_FAILURE, "", error.text);
        return;
    }
    buf_reset(&j->json);
    if (j->envelope == ENVELOPE_STRUCTURED) {
        cloudevent_write_json(&j->json, d->message, j->session.config->source);
        data = buf_slice(&j->json);
    }
    if ((int64_t)(j->headers.size + data.size) > j->info.payload_max) {
        jet_refuse(j, d, PR_REASON_MESSAGE_TOO_LARGE, JET_TOO_LARGE,
                   "the message is larger than the server's max_payload");
        return;
    }
    if (rc == PR_OK && buf_failed(&j->json) == 0)
        put_message(j, data);
    if (rc == PR_OK && buf_failed(&j->json) == 0 && buf_failed(&p->bytes) == 0) {
        pipeline_began(p, before);
        return;
    }
    buf_truncate(&p->bytes, before);
    delivery_queue_drop(&p->waiting);
    result_returned(pipeline_result(p), d->token); /* no memory: later */
}

/* ---- Answers -------------------------------------------------------------------------------------------------- */

static void fail(struct nats_transport *j, const struct delivery *d, enum send_outcome outcome, int reason,
                 const char *code, const char *text)
{
    result_failed(pipeline_result(&j->session.pipeline), d->token, outcome, reason, code, pr_str(text));
}

static void take_error(struct nats_transport *j, const struct delivery *d, const json_t *error)
{
    char code[RESULT_CODE_SIZE];
    long long number = json_integer_value(json_object_get(error, "err_code"));
    const char *text = json_string_value(json_object_get(error, "description"));
    snprintf(code, sizeof(code), "%lld", number);
    fail(j, d, SEND_FAILED, reason_of_error(json_integer_value(json_object_get(error, "code")), number), code,
         text != NULL ? text : "refused");
}

struct publish_answer {
    bool seq, stream, error;
};

static int see_member(void *arg, pr_slice key, pr_slice value)
{
    struct publish_answer *s = arg;
    s->seq |= slice_eq_cstr(key, "\"seq\"") && value.data[0] >= '0' && value.data[0] <= '9';
    s->stream |= slice_eq_cstr(key, "\"stream\"") && value.data[0] == '"';
    s->error |= slice_eq_cstr(key, "\"error\"");
    return PR_OK;
}

/* The content of nearly all answers, recognised without parsing JSON. */
static bool says_stored(pr_slice answer)
{
    struct publish_answer s = { 0 };
    return json_object_walk(answer, see_member, &s) == PR_OK && s.seq && s.stream && !s.error;
}

static void take_stored(struct nats_transport *j, const struct delivery *d, const struct nats_answer *answer)
{
    if (answer->status == 503) { /* no responders */
        char text[PR_ERROR_MAX];
        fill_subject(j, d->message);
        snprintf(text, sizeof(text), "no stream receives the subject \"%.200s\": create one, or set jetstream=false",
                 buf_slice(&j->subject).data);
        fail(j, d, SEND_FAILED, PR_REASON_DESTINATION_MISSING, "503", text);
        return;
    }
    if (says_stored(answer->data)) {
        result_ok(pipeline_result(&j->session.pipeline), d->token);
        return;
    }
    json_t *tree = json_loadb(answer->data.data, answer->data.size, 0, NULL);
    const json_t *error = json_object_get(tree, "error");
    if (error != NULL)
        take_error(j, d, error);
    else
        fail(j, d, SEND_UNKNOWN, PR_REASON_REJECTED, "", "the answer is not from JetStream");
    json_decref(tree);
}

static void take_message(struct nats_transport *j, const struct nats_answer *answer)
{
    pr_slice inbox = slice_from(j->reply_to), subject = answer->subject;
    bool ours = j->stores && slice_starts_with(subject, inbox);
    int64_t number =
        ours ? inbox_number((pr_slice){ subject.data + inbox.size, subject.size - inbox.size }, INT64_MAX / 16) : -1;
    if (number < 0) {
        jet_failed(j, "an unexpected message");
        return;
    }
    const struct delivery *d = pipeline_answer(&j->session.pipeline, (uint64_t)number);
    reconnect_worked(&j->session.reconnect);
    if (d != NULL)
        take_stored(j, d, answer);
}

/* N1 */
static void take_pong(struct nats_transport *j)
{
    struct pipeline *p = &j->session.pipeline;
    if (j->stage == JET_PONG) {
        j->stage = JET_UP;
        j->session.state = SESSION_UP;
    } else if (j->pinged) {
        j->pinged = false;
    } else if (j->stores || p->out_count == 0) {
        jet_failed(j, "an unexpected PONG");
    } else {
        const struct delivery *d = pipeline_answer(p, p->first_number);
        reconnect_worked(&j->session.reconnect);
        if (d != NULL)
            result_ok(pipeline_result(p), d->token);
    }
}

/* A message that the server does not permit gets no answer (except the PONG after it); the complaint has the subject in
 * quotes. */
static void take_complaint(struct nats_transport *j, const char *text)
{
    struct pipeline *p = &j->session.pipeline;
    const char *begin = strstr(text, "Publish to \""), *end = begin != NULL ? strchr(begin + 12, '"') : NULL;
    if (end == NULL)
        return;
    pr_slice subject = { begin + 12, (size_t)(end - begin) - 12 };
    uint64_t first = p->first_number;
    for (uint64_t n = first, behind = first + p->out_count; n < behind; n++) {
        if (n < p->first_number || pipeline_at(p, (size_t)(n - p->first_number))->delivery == NULL)
            continue;
        fill_subject(j, pipeline_at(p, (size_t)(n - p->first_number))->delivery->message);
        if (slice_eq(buf_slice(&j->subject), subject))
            fail(j, j->stores ? pipeline_answer(p, n) : pipeline_end(pipeline_at(p, (size_t)(n - p->first_number))),
                 SEND_FAILED, PR_REASON_UNAUTHORIZED, JET_NOT_PERMITTED, text);
    }
}

/* A permission error costs the message; after any other error the server ends the connection. */
static void take_server_error(struct nats_transport *j, pr_slice error)
{
    char text[256];
    snprintf(text, sizeof(text), "%.*s", (int)min_size(error.size, sizeof(text) - 1), error.data);
    if (strncasecmp(text, "Permissions Violation", 21) == 0 && j->stage == JET_UP) {
        take_complaint(j, text);
        return;
    }
    bool login = nats_error_is_login(text);
    session_failed(&j->session, login ? PR_REASON_UNAUTHORIZED : PR_REASON_TRANSPORT_UNAVAILABLE,
                   login ? JET_LOGIN_FAILED : "", text[0] != '\0' ? text : "an error without a text");
}

/* The first one begins the greeting; later ones announce other servers, and are ignored. */
static void take_info(struct nats_transport *j, pr_slice text, bool is_last)
{
    if (j->stage != JET_INFO)
        return;
    bool tls = j->session.wire.tls != NULL;
    const char *wrong = nats_info_read(text, tls, &j->info);
    if (wrong != NULL)
        jet_failed(j, wrong);
    else if (tls && !is_last)
        jet_failed(j, "it continues unencrypted where TLS should begin");
    else if (!tls)
        put_connect(j);
    else
        j->stage = JET_TLS;
}

static void take_answer(struct nats_transport *j, const struct nats_answer *answer, bool is_last)
{
    if (j->stage == JET_INFO && answer->kind != NATS_INFO && answer->kind != NATS_ERROR) {
        jet_failed(j, "its first line is not INFO");
        return;
    }
    switch (answer->kind) {
    case NATS_INFO: take_info(j, answer->text, is_last); break;
    case NATS_PING: j->owes_pong = true; break;
    case NATS_PONG: take_pong(j); break;
    case NATS_ERROR: take_server_error(j, answer->text); break;
    case NATS_MESSAGE:
        if (j->stage == JET_UP)
            take_message(j, answer);
        else
            jet_failed(j, "a message before the greeting is over");
        break;
    case NATS_OK: break; /* not requested, and harmless */
    }
}

/* All complete messages. */
static void take_answers(struct nats_transport *j)
{
    struct pr_error error = { 0 };
    struct nats_answer answer;
    size_t used = 0;
    ssize_t size = 1;
    while (size > 0 && j->inbox.size > 0 && j->stage != JET_TLS) { /* emptied when the connection is dropped */
        size = nats_answer_read(inbox_bytes(&j->inbox, used), &answer, &error);
        used += size > 0 ? (size_t)size : 0;
        if (size > 0)
            take_answer(j, &answer, used == j->inbox.size);
    }
    if (size < 0)
        jet_failed(j, error.text);
    if (j->inbox.size > 0)
        inbox_drop(&j->inbox, used);
}

static void jet_read(void *self, int64_t now_us)
{
    struct nats_transport *j = self;
    size_t got;
    while ((got = session_read(&j->session, inbox_room(&j->inbox), inbox_room_size(&j->inbox))) > 0) {
        j->inbox.size += got;
        j->read_us = now_us;
        take_answers(j);
        if (j->stage == JET_TLS && j->session.wire.state == WIRE_OPEN)
            session_secure(&j->session);
    }
}

/* ---- Sending ------------------------------------------------------------------------------------------------------ */

static void jet_send(void *self, int64_t now_us)
{
    struct nats_transport *j = self;
    struct pipeline *p = &j->session.pipeline;
    const struct delivery *d;
    while (j->session.state == SESSION_UP && pipeline_unwritten(p) < PIPELINE_BUFFERED_MAX &&
           (d = pipeline_next(p, now_us)) != NULL)
        jet_begin(j, d);
    if (j->stage == JET_UP && p->out_count == 0 && !j->pinged && now_us - j->read_us >= JET_PING_US) { /* N1 */
        buf_add_cstr(&p->bytes, "PING\r\n");
        j->pinged = true;
    }
    if (j->owes_pong && pipeline_unwritten(p) < PIPELINE_BUFFERED_MAX) {
        buf_add_cstr(&p->bytes, "PONG\r\n");
        j->owes_pong = false;
    }
    if (!pipeline_write(p, &j->session.wire))
        session_wire_lost(&j->session);
}

static bool jet_has_bytes(void *self)
{
    struct nats_transport *j = self;
    return pipeline_unwritten(&j->session.pipeline) > 0;
}

static void jet_expire(void *self, int64_t now_us)
{
    struct nats_transport *j = self;
    if (j->pinged && now_us - j->read_us >= 2 * JET_PING_US)
        jet_failed(j, "it does not answer a PING");
}

static int64_t jet_next_us(void *self)
{
    struct nats_transport *j = self;
    if (j->stage != JET_UP || (!j->pinged && j->session.pipeline.out_count > 0))
        return PR_NEVER;
    return j->read_us + (j->pinged ? 2 * JET_PING_US : JET_PING_US);
}

/* ---- The transport --------------------------------------------------------------------------------------------- */

static const struct session_ops jet_session = {
    .greet = jet_greet,
    .drop = jet_drop,
    .read = jet_read,
    .send = jet_send,
    .has_bytes = jet_has_bytes,
    .expire = jet_expire,
    .next_us = jet_next_us,
};

/* An unguessable name: anybody who knows it could answer in the server's place. */
static int make_inbox(struct nats_transport *j, struct pr_error *reterr)
{
    uint8_t random[16];
    size_t size = (size_t)snprintf(j->reply_to, sizeof(j->reply_to), "_INBOX.");
    if (random_bytes_os(random, sizeof(random)) != PR_OK)
        return error_set(reterr, PR_EIO, "endpoint %s: the operating system provides no random numbers",
                         j->session.config->name);
    for (size_t i = 0; i < sizeof(random); i++)
        size += (size_t)snprintf(j->reply_to + size, sizeof(j->reply_to) - size, "%02x", random[i]);
    snprintf(j->reply_to + size, sizeof(j->reply_to) - size, ".");
    return PR_OK;
}

static int jet_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct nats_transport *j = self;
    arena_init(&j->scratch, 4096);
    buf_init(&j->json, ENVELOPE_JSON_MAX);
    buf_init(&j->headers, NATS_HEADERS_MAX);
    buf_init(&j->subject, BROKER_URL_MAX + 4096);
    int rc = session_init(&j->session, &jet_session, j, jet_url, config, reterr);
    if (rc == PR_OK)
        rc = make_inbox(j, reterr);
    if (rc == PR_OK)
        rc = session_open(&j->session, jet_bool(&j->session.url, "tls", false), reterr);
    if (rc != PR_OK)
        return rc;
    j->session.wire.tls_later = true;
    j->stores = jet_bool(&j->session.url, "jetstream", true);
    (void)envelope_parse(config->envelope, &j->envelope); /* jet_url() has */
    if (!j->stores)
        log_emit(config->log, LOG_WARN, "endpoint_lossy", LOG_STR("endpoint", config->name),
                 LOG_STR("why", "without JetStream a message is lost if there is no subscriber"));
    return PR_OK;
}

static void jet_close(void *self)
{
    struct nats_transport *j = self;
    session_fini(&j->session);
    buf_fini(&j->json);
    buf_fini(&j->headers);
    buf_fini(&j->subject);
    arena_fini(&j->scratch);
}

_Static_assert(offsetof(struct nats_transport, session) == 0, "session_submit() takes it for its session");
const struct transport_ops transport_nats = SESSION_TRANSPORT("nats", nats_transport, jet, session_cancel);
