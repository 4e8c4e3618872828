/* nats: each message is published to a subject, and JetStream says that it is stored.
 *
 *   nats://user:password@host:4222/SUBJECT?tls=true&creds=FILE
 *
 * A message is a request whose answer comes to an inbox of ours under the message's number in the pipeline.
 * What was published is in a buffer of libnats, from where nobody can take it back: it counts as on the wire.  So little
 * is published before the socket has taken what was.  Nothing is sent again by itself.
 *
 * With jetstream=false nobody stores anything: a message is gone when nobody listens.  OK then means that the
 * server has it, which we know when a note to ourselves that was sent behind it comes back. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/broker/broker_url.h"
#include "transport/cloudevents.h"
#include "transport/envelope.h"
#include "transport/broker/nats_link.h"
#include "transport/own_headers.h"
#include "transport/broker/pipeline.h"
#include "transport/broker/reconnect.h"
#include "transport/template.h"
#include "transport/broker/wire.h"

#include <jansson.h> /* last: its json_is_object is a macro */

#define JET_PORT 4222
#define JET_PATIENCE_MS 5000  /* to connect; and with TLS for one write, which can hold up poll() for so long */
#define JET_PING_MS 20000     /* a server that is silent for two of them is gone */
#define JET_PIECE (64u << 10) /* bytes that are given to the socket at once, and that a cancel may find in our buffer */
#define JET_SUBJECT_MAX 4096  /* bytes, the server's own limit of a line */

struct jet {
    const struct endpoint_config *config;
    const struct clock *clock;
    struct arena arena;   /* the url */
    struct arena scratch; /* one message */
    struct buf subject, json;
    struct broker_url url;
    enum envelope envelope;
    bool stores; /* JetStream */

    natsOptions *options;
    struct nats_link *link; /* NULL: down */
    bool up;
    int event_fd, poll_fd;    /* of the link, see there */
    struct pipeline pipeline; /* without bytes of its own */
    struct reconnect reconnect;
    char why[512]; /* why it is down */
    int why_reason;
    char why_code[RESULT_CODE_SIZE];
};

/* ---- The url --------------------------------------------------------------------------------------------- */

static const char *const params[] = { "jetstream", "tls", "creds", "plain", WIRE_PARAMS, NULL };

static bool jet_bool(const struct broker_url *url, const char *name, bool fallback)
{
    return slice_eq_cstr(broker_url_param(url, name, fallback ? "true" : "false"), "true");
}

/* Behind the placeholders are filled in, and for the template itself: no white space, no empty part. */
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
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url is wrong: behind the host stands a subject such as orders.{type}",
                       config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    return rc == PR_OK ? pipeline_check(config, reterr) : rc;
}

static int jet_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    struct arena arena;
    struct broker_url url;
    arena_init(&arena, 1024);
    int rc = jet_url(config, &arena, &url, reterr);
    arena_fini(&arena);
    return rc;
}

static natsStatus tls_options(struct jet *j)
{
    struct broker_tls files = broker_url_tls(j->config, &j->url);
    natsStatus s = natsOptions_SetSecure(j->options, true);
    if (s == NATS_OK)
        s = natsOptions_SetExpectedHostname(j->options, j->url.host.data);
    if (s == NATS_OK && files.ca.size > 0)
        s = natsOptions_LoadCATrustedCertificates(j->options, files.ca.data);
    if (s == NATS_OK && files.cert.size > 0)
        s = natsOptions_LoadCertificatesChain(j->options, files.cert.data, files.key.data);
    return s;
}

static natsStatus login_options(struct jet *j)
{
    pr_slice creds = broker_url_param(&j->url, "creds", "");
    if (creds.size > 0)
        return natsOptions_SetUserCredentialsFromFiles(j->options, creds.data, NULL);
    if (j->url.password.size > 0)
        return natsOptions_SetUserInfo(j->options, j->url.user.data, j->url.password.data);
    return j->url.user.size > 0 ? natsOptions_SetToken(j->options, j->url.user.data) : NATS_OK;
}

static natsStatus set_options(struct jet *j)
{
    bool v6 = strchr(j->url.host.data, ':') != NULL;
    pr_slice server = arena_printf(&j->arena, v6 ? "nats://[%s]:%u" : "nats://%s:%u", j->url.host.data, j->url.port);
    natsStatus s = server.data != NULL ? natsOptions_Create(&j->options) : NATS_NO_MEMORY;
    if (s == NATS_OK)
        s = natsOptions_SetURL(j->options, server.data);
    if (s == NATS_OK)
        s = natsOptions_SetName(j->options, j->config->name);
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(j->options, JET_PATIENCE_MS);
    if (s == NATS_OK)
        s = natsOptions_SetWriteDeadline(j->options, JET_PATIENCE_MS);
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(j->options, JET_PING_MS);
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(j->options, false);
    if (s == NATS_OK)
        s = natsOptions_SetIgnoreDiscoveredServers(j->options, true);
    if (s == NATS_OK)
        s = login_options(j);
    return s == NATS_OK && jet_bool(&j->url, "tls", false) ? tls_options(j) : s;
}

/* ---- Reasons --------------------------------------------------------------------------------------------- */

static int reason_of_status(natsStatus status)
{
    switch (status) {
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_NOT_PERMITTED: return PR_REASON_UNAUTHORIZED;
    case NATS_MAX_PAYLOAD: return PR_REASON_MESSAGE_TOO_LARGE;
    case NATS_INVALID_SUBJECT:
    case NATS_INVALID_ARG: return PR_REASON_SERIALIZATION_ERROR;
    default: return PR_REASON_TRANSPORT_UNAVAILABLE;
    }
}

/* JetStream's own numbers where they say more than the code beside them. */
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

/* Everything out gets its result: it may have arrived. */
static void jet_lost(struct jet *j, int reason, const char *code, const char *what)
{
    snprintf(j->why, sizeof(j->why), "%s:%u: %s", j->url.host.data, j->url.port, what);
    snprintf(j->why_code, sizeof(j->why_code), "%s", code);
    j->why_reason = reason;
    nats_link_close(j->link);
    j->link = NULL;
    pipeline_lost(&j->pipeline, code, j->why);
    if (!j->up) /* now: an attempt that took long is followed by the next one at once */
        pipeline_refuse(&j->pipeline, clock_mono_us(j->clock), reason, code, j->why);
    j->up = false;
}

static void jet_connect(struct jet *j, int64_t now_us)
{
    reconnect_tried(&j->reconnect, now_us);
    j->link = nats_link_open(j->options, j->event_fd, j->poll_fd);
    if (j->link == NULL)
        jet_lost(j, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no memory");
}

/* What the library says, and what to do about it. */
static void jet_down(struct jet *j, natsStatus status, const char *why)
{
    char text[NATS_LINK_WHY_SIZE + 80];
    int reason = reason_of_status(status);
    const char *advice = reason == PR_REASON_UNAUTHORIZED ? ": " BROKER_LOGIN_ADVICE
                         : status == NATS_SSL_ERROR       ? ": " BROKER_CERT_ADVICE
                         : status == NATS_NO_SERVER       ? ": " BROKER_HOST_ADVICE
                                                          : "";
    snprintf(text, sizeof(text), "%s%s", why, advice);
    jet_lost(j, reason, natsStatus_GetText(status), text);
}

static void jet_look_at_link(struct jet *j)
{
    char why[NATS_LINK_WHY_SIZE];
    enum nats_link_state state = j->link != NULL ? nats_link_state(j->link) : NATS_LINK_CONNECTING;
    if (state == NATS_LINK_UP)
        j->up = true;
    if (state == NATS_LINK_DOWN) {
        natsStatus status = nats_link_why(j->link, why);
        bool anonymous = jet_bool(&j->url, "tls", false) && broker_url_tls(j->config, &j->url).cert.size == 0;
        if (status == NATS_PROTOCOL_ERROR && !j->up && anonymous)
            snprintf(why, sizeof(why), BROKER_TLS_NO_CERT);
        jet_down(j, status, why);
    }
}

/* ---- One message -------------------------------------------------------------------------------------------- */

static bool has_controls(pr_slice s)
{
    for (size_t i = 0; i < s.size; i++)
        if ((unsigned char)s.data[i] < ' ' || s.data[i] == 127)
            return true;
    return false;
}

/* Values become printable as in HTTP's binding; a header cannot hold an end of line. */
static natsStatus put_header(struct jet *j, natsMsg *message, const char *name, pr_slice value, bool encoded)
{
    char *text = arena_alloc(&j->scratch, 3 * value.size + 1);
    if (text == NULL)
        return NATS_NO_MEMORY;
    size_t size = value.size;
    if (encoded || has_controls(value))
        size = cloudevent_percent_encode(value, text);
    else if (size > 0)
        memcpy(text, value.data, size);
    text[size] = '\0';
    return natsMsgHeader_Set(message, name, text);
}

/* Those that steer the server (Nats-) are not a message's to set. */
static bool is_own_header(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] <= ' ' || (unsigned char)name.data[i] >= 127 || name.data[i] == ':')
            return false;
    return name.size > 0 && strncasecmp(name.data, "ce-", 3) != 0 && strncasecmp(name.data, "nats-", 5) != 0 &&
           strcasecmp(name.data, "content-type") != 0;
}

static natsStatus put_event(struct jet *j, natsMsg *message, const struct pr_message *m)
{
    struct cloudevent event;
    natsStatus s = NATS_OK;
    cloudevent_init(&event, m, j->config->source);
    for (size_t i = 0; j->envelope == ENVELOPE_BINARY && s == NATS_OK && i < event.count; i++) {
        pr_slice name = cloudevent_name(&j->scratch, "ce-", event.attributes[i].name);
        s = name.data != NULL ? put_header(j, message, name.data, event.attributes[i].value, true) : NATS_NO_MEMORY;
    }
    if (s == NATS_OK && j->envelope == ENVELOPE_BINARY)
        s = put_header(j, message, "ce-datacontenttype", cloudevent_content_type(m), true);
    if (s == NATS_OK && j->envelope != ENVELOPE_RAW)
        s = put_header(j, message, "Content-Type",
                       j->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : cloudevent_content_type(m),
                       false);
    return s == NATS_OK ? natsMsgHeader_Set(message, "Nats-Msg-Id", event.id) : s;
}

static natsStatus put_own(struct jet *j, natsMsg *message, const struct own_header *own, size_t count)
{
    natsStatus s = NATS_OK;
    for (size_t i = 0; s == NATS_OK && i < count; i++)
        if (is_own_header(own[i].name))
            s = put_header(j, message, own[i].name.data, own[i].value, false);
    return s;
}

static void fill_subject(struct jet *j, const struct pr_message *m)
{
    buf_reset(&j->subject);
    template_fill(&j->subject, j->url.path, m);
}

/* NULL: *ret_status or *reterr says why. */
static natsMsg *make_message(struct jet *j, const struct pr_message *m, const char *reply_to, natsStatus *ret_status,
                             struct pr_error *reterr)
{
    struct own_header *own;
    size_t own_count;
    natsMsg *message = NULL;
    pr_slice data = m->payload;

    arena_reset(&j->scratch);
    fill_subject(j, m);
    *ret_status = NATS_NO_MEMORY;
    if (buf_failed(&j->subject) != 0 || !subject_is_good(buf_slice(&j->subject))) {
        *ret_status = NATS_INVALID_SUBJECT;
        (void)error_set(reterr, PR_EINVAL, "the message makes no good subject: \"%.100s\"", j->subject.data);
        return NULL;
    }
    int rc = own_headers_read(m, &j->scratch, &own, &own_count, reterr);
    if (rc != PR_OK) {
        *ret_status = rc == PR_EINVAL ? NATS_INVALID_ARG : NATS_NO_MEMORY;
        return NULL;
    }
    if (j->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&j->json);
        cloudevent_write_json(&j->json, m, j->config->source);
        if (buf_failed(&j->json) != 0)
            return NULL;
        data = buf_slice(&j->json);
    }
    *ret_status =
        natsMsg_Create(&message, j->subject.data, reply_to, data.data != NULL ? data.data : "", (int)data.size);
    if (*ret_status == NATS_OK)
        *ret_status = put_event(j, message, m);
    if (*ret_status == NATS_OK)
        *ret_status = put_own(j, message, own, own_count);
    if (*ret_status == NATS_OK)
        return message;
    natsMsg_Destroy(message);
    return NULL;
}

/* It has not begun: it fails, or comes later when only memory was missing. */
static void jet_refuse(struct jet *j, const struct delivery *d, natsStatus status, const char *text)
{
    struct pipeline *p = &j->pipeline;
    delivery_queue_drop(&p->waiting);
    if (status == NATS_NO_MEMORY)
        result_returned(pipeline_result(p), d->token);
    else
        result_unsent(pipeline_result(p), d->token, reason_of_status(status), natsStatus_GetText(status), pr_str(text));
}

/* False: the connection is gone. */
static bool jet_begin(struct jet *j, const struct delivery *d)
{
    struct pipeline *p = &j->pipeline;
    struct pr_error error = { 0 };
    char reply_to[128];
    natsStatus status;

    nats_link_reply_to(j->link, p->first_number + p->out_count, reply_to, sizeof(reply_to));
    natsMsg *message = make_message(j, d->message, j->stores ? reply_to : NULL, &status, &error);
    if (message == NULL) {
        jet_refuse(j, d, status, error.text);
        return true;
    }
    status = nats_link_publish(j->link, message);
    natsMsg_Destroy(message);
    if (status == NATS_MAX_PAYLOAD || status == NATS_INVALID_SUBJECT || status == NATS_NO_MEMORY) {
        jet_refuse(j, d, status, "the message is larger than the server's max_payload");
        return true;
    }
    if (status != NATS_CONNECTION_CLOSED)
        pipeline_began(p, 0); /* also when the write failed: how much of it is out nobody knows */
    if (status != NATS_OK)
        jet_lost(j, reason_of_status(status), natsStatus_GetText(status), natsStatus_GetText(status));
    return status == NATS_OK;
}

/* A note to ourselves: when it is back, the server has all that was sent before. */
static void send_note(struct jet *j)
{
    char subject[128];
    natsMsg *note = NULL;
    nats_link_reply_to(j->link, j->pipeline.first_number + j->pipeline.out_count - 1, subject, sizeof(subject));
    natsStatus status = natsMsg_Create(&note, subject, NULL, "", 0);
    if (status == NATS_OK)
        status = nats_link_publish(j->link, note);
    natsMsg_Destroy(note);
    if (status != NATS_OK)
        jet_lost(j, reason_of_status(status), natsStatus_GetText(status), natsStatus_GetText(status));
}

/* Has the socket taken enough of what was published? */
static bool jet_has_room(struct jet *j)
{
    if (!j->up)
        return false;
    if (nats_link_unwritten(j->link) >= JET_PIECE)
        nats_link_write(j->link);
    return nats_link_unwritten(j->link) < JET_PIECE;
}

static void jet_start_waiting(struct jet *j, int64_t now_us)
{
    struct pipeline *p = &j->pipeline;
    const struct delivery *d;
    size_t out_before = p->out_count;
    if (j->link != NULL && !j->up)
        pipeline_await(p, reconnect_tried_us(&j->reconnect), now_us, j->url.host.data, j->url.port);
    while ((d = pipeline_next(p, now_us)) != NULL && jet_has_room(j) && jet_begin(j, d))
        ;
    if (!j->stores && j->up && p->out_count > out_before)
        send_note(j);
    if (j->up)
        nats_link_write(j->link);
    if (j->link == NULL)
        pipeline_refuse(p, now_us, j->why_reason, j->why_code, j->why);
}

/* ---- Answers -------------------------------------------------------------------------------------------------- */

static void fail(struct jet *j, const struct delivery *d, enum send_outcome outcome, int reason, const char *code,
                 const char *text)
{
    result_failed(pipeline_result(&j->pipeline), d->token, outcome, reason, code, pr_str(text));
}

static void take_error(struct jet *j, const struct delivery *d, const json_t *error)
{
    char code[RESULT_CODE_SIZE];
    long long number = json_integer_value(json_object_get(error, "err_code"));
    const char *text = json_string_value(json_object_get(error, "description"));
    snprintf(code, sizeof(code), "%lld", number);
    fail(j, d, SEND_FAILED, reason_of_error(json_integer_value(json_object_get(error, "code")), number), code,
         text != NULL ? text : "refused");
}

struct stored {
    bool seq, stream, error;
};

static int see_member(void *arg, pr_slice key, pr_slice value)
{
    struct stored *s = arg;
    s->seq |= slice_eq_cstr(key, "\"seq\"") && value.data[0] >= '0' && value.data[0] <= '9';
    s->stream |= slice_eq_cstr(key, "\"stream\"") && value.data[0] == '"';
    s->error |= slice_eq_cstr(key, "\"error\"");
    return PR_OK;
}

/* What nearly all answers say, seen without a tree of JSON. */
static bool says_stored(pr_slice answer)
{
    struct stored s = { 0 };
    return json_object_walk(answer, see_member, &s) == PR_OK && s.seq && s.stream && !s.error;
}

static void take_stored(struct jet *j, const struct delivery *d, natsMsg *message)
{
    if (natsMsg_IsNoResponders(message)) {
        char text[PR_ERROR_MAX];
        fill_subject(j, d->message);
        snprintf(text, sizeof(text),
                 "no stream takes the subject \"%.200s\": make one that does, or say jetstream=false", j->subject.data);
        fail(j, d, SEND_FAILED, PR_REASON_DESTINATION_MISSING, "503", text);
        return;
    }
    pr_slice text = { natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message) };
    if (says_stored(text)) {
        result_ok(pipeline_result(&j->pipeline), d->token);
        return;
    }
    json_t *answer = json_loadb(text.data, text.size, 0, NULL);
    const json_t *error = json_object_get(answer, "error");
    if (error != NULL)
        take_error(j, d, error);
    else
        fail(j, d, SEND_UNKNOWN, PR_REASON_REJECTED, "", "somebody answers who is not JetStream");
    json_decref(answer);
}

static void take_note(struct jet *j, uint64_t number)
{
    struct pipeline *p = &j->pipeline;
    while (p->out_count > 0 && p->first_number <= number) {
        const struct delivery *d = pipeline_answer(p, p->first_number);
        if (d != NULL)
            result_ok(pipeline_result(p), d->token);
    }
}

/* What the server does not permit gets no answer; its complaint has the subject in quotes. */
static void take_complaint(struct jet *j, const char *text)
{
    struct pipeline *p = &j->pipeline;
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
            fail(j, pipeline_answer(p, n), SEND_FAILED, PR_REASON_UNAUTHORIZED, natsStatus_GetText(NATS_NOT_PERMITTED),
                 text);
    }
}

/* What poll_fd has to say. */
static void jet_look(struct jet *j)
{
    struct epoll_event events[2];
    uint64_t count;
    int happened = epoll_wait(j->poll_fd, events, 2, 0);
    for (int i = 0; i < happened; i++) {
        if (events[i].data.u64 != NATS_LINK_SOCKET) { /* before looking: what comes now shows again */
            ssize_t got = read(j->event_fd, &count, sizeof(count));
            (void)got;
        } else if (j->up && (events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
            nats_link_read(j->link);
        }
    }
}

static void jet_read(struct jet *j)
{
    char complaint[NATS_LINK_WHY_SIZE];
    uint64_t number;
    natsMsg *message;
    jet_look(j);
    if (j->link == NULL)
        return;
    if (nats_link_complaint(j->link, complaint))
        take_complaint(j, complaint);
    while ((message = nats_link_answer(j->link, &number)) != NULL) {
        reconnect_worked(&j->reconnect);
        const struct delivery *d = NULL;
        if (j->stores)
            d = pipeline_answer(&j->pipeline, number);
        else
            take_note(j, number);
        if (d != NULL)
            take_stored(j, d, message);
        natsMsg_Destroy(message);
    }
    jet_look_at_link(j); /* after its last answers */
}

/* ---- The transport --------------------------------------------------------------------------------------------- */

static int jet_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct jet *j = self;
    j->config = config;
    j->clock = config_clock(config);
    j->why_reason = PR_REASON_TRANSPORT_UNAVAILABLE;
    j->event_fd = j->poll_fd = -1;
    arena_init(&j->arena, 1024);
    arena_init(&j->scratch, 4096);
    buf_init(&j->json, ENVELOPE_JSON_MAX);
    buf_init(&j->subject, BROKER_URL_MAX + 4096);
    int rc = jet_url(config, &j->arena, &j->url, reterr);
    if (rc == PR_OK)
        rc = pipeline_init(&j->pipeline, config, reterr);
    if (rc != PR_OK)
        return rc;
    natsStatus status = set_options(j);
    if (status != NATS_OK)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: %s", config->name,
                         status == NATS_NO_MEMORY ? "no memory" : nats_GetLastError(&status));
    j->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    j->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN };
    if (j->event_fd < 0 || j->poll_fd < 0 || epoll_ctl(j->poll_fd, EPOLL_CTL_ADD, j->event_fd, &event) < 0)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: no file descriptor is left", config->name);
    j->stores = jet_bool(&j->url, "jetstream", true);
    (void)envelope_parse(config->envelope, &j->envelope); /* jet_url() has */
    if (!j->stores)
        log_emit(config->log, LOG_WARN, "endpoint_lossy", LOG_STR("endpoint", config->name),
                 LOG_STR("why", "without JetStream a message is lost when nobody listens"));
    return PR_OK;
}

static void jet_close(void *self)
{
    struct jet *j = self;
    nats_link_close(j->link);
    natsOptions_Destroy(j->options);
    if (j->event_fd >= 0)
        close(j->event_fd);
    if (j->poll_fd >= 0)
        close(j->poll_fd);
    pipeline_fini(&j->pipeline);
    buf_fini(&j->json);
    buf_fini(&j->subject);
    arena_fini(&j->arena);
    arena_fini(&j->scratch);
}

static size_t jet_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct jet *j = self;
    return pipeline_submit(&j->pipeline, list, count);
}

static void jet_work(struct jet *j)
{
    int64_t now_us = clock_mono_us(j->clock);
    jet_read(j);
    if (j->link == NULL && pipeline_has_work(&j->pipeline) && reconnect_may(&j->reconnect, now_us))
        jet_connect(j, now_us);
    if (!pipeline_expire(&j->pipeline, now_us))
        jet_lost(j, PR_REASON_TRANSPORT_UNAVAILABLE, "", "no answer in time");
    jet_start_waiting(j, now_us);
}

static size_t jet_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct jet *j = self;
    bool woken = false;
    for (;;) {
        jet_work(j);
        size_t count = pipeline_take(&j->pipeline, ret, max);
        if (count > 0 || woken || clock_mono_us(j->clock) >= deadline_us)
            return count;
        int64_t until_us = min64(deadline_us, pipeline_next_us(&j->pipeline));
        woken = !wait_until(j->poll_fd, POLLIN, j->config->wake_fd, j->clock, until_us) &&
                clock_mono_us(j->clock) < until_us;
    }
}

static void jet_cancel(void *self)
{
    struct jet *j = self;
    pipeline_cancel(&j->pipeline);
}

const struct transport_ops transport_nats = {
    .scheme = "nats",
    .size = sizeof(struct jet),
    .promises = TRANSPORT_REMOTE,
    .concurrency = PIPELINE_CONCURRENCY,
    .check = jet_check,
    .open = jet_open,
    .close = jet_close,
    .submit = jet_submit,
    .poll = jet_poll,
    .cancel = jet_cancel,
};
