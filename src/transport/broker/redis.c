/* redis: each message is one XADD to a stream, many of them on the wire at once.
 *
 *   redis://user:password@host:6379/DB?stream=orders.{type}&maxlen=100000
 *
 * Everything happens in the caller's thread (session.h).  Answers come in the order of the commands. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/envelope.h"
#include "transport/own_headers.h"
#include "transport/broker/redis_answer.h"
#include "transport/broker/session.h"
#include "transport/template.h"

#define REDIS_PORT 6379

struct redis_transport {
    struct broker_session session;
    struct arena scratch; /* one command */
    pr_slice stream, maxlen;
    enum envelope envelope;
    struct buf json;    /* structured */
    struct inbox inbox; /* empty without a connection */
    unsigned greetings; /* answers to come before the first message may go */
};

/* ---- The url --------------------------------------------------------------------------------- */

static const char *const params[] = { "stream", "maxlen", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == 6; /* rediss */
}

static int redis_url(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                     struct pr_error *reterr)
{
    int64_t number;
    int rc = broker_url_parse(config, REDIS_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, has_tls(config), reterr);
    if (rc == PR_OK && ret->user.size > 0 && ret->password.size == 0)
        rc = error_set(reterr, PR_ECONFIG,
                       "endpoint %s: the url is not valid: a user needs a password, and a password alone is written "
                       "%.*s://:password@host",
                       config->name, SLICE_ARGS(ret->scheme));
    if (rc == PR_OK)
        rc = broker_url_number(config, ret, "maxlen", 0, 1, INT64_MAX / 16, &number, reterr);
    if (rc == PR_OK)
        rc = template_check(config->name, "stream", broker_url_param(ret, "stream", ""), reterr);
    for (size_t i = 0; rc == PR_OK && i < ret->path.size; i++)
        if (ret->path.data[i] < '0' || ret->path.data[i] > '9' || i == 4)
            rc = error_set(reterr, PR_ECONFIG,
                           "endpoint %s: the url is not valid: only a database number can follow the host",
                           config->name);
    if (rc == PR_OK)
        rc = envelope_check(config, reterr);
    return rc == PR_OK ? pipeline_check(config, reterr) : rc;
}

static int redis_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    return session_check(redis_url, config, reterr);
}

/* ---- Reasons ---------------------------------------------------------------------------------- */

/* The first words of an error classify it. */
static int reason_of(pr_slice error)
{
    static const struct {
        const char *word;
        int reason;
    } known[] = {
        { "OOM", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "READONLY", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "LOADING", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "MASTERDOWN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "CLUSTERDOWN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "TRYAGAIN", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "NOREPLICAS", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "MISCONF", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "BUSY", PR_REASON_TRANSPORT_UNAVAILABLE },
        { "NOAUTH", PR_REASON_UNAUTHORIZED },
        { "NOPERM", PR_REASON_UNAUTHORIZED },
        { "WRONGPASS", PR_REASON_UNAUTHORIZED },
        { "WRONGTYPE", PR_REASON_DESTINATION_MISSING },
        { "MOVED", PR_REASON_DESTINATION_MISSING },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        size_t size = strlen(known[i].word);
        if (slice_starts_with(error, pr_str(known[i].word)) && (error.size == size || error.data[size] == ' '))
            return known[i].reason;
    }
    return PR_REASON_REJECTED;
}

static void code_of(pr_slice error, char ret[RESULT_CODE_SIZE])
{
    size_t size = 0;
    while (size < error.size && error.data[size] != ' ' && size < RESULT_CODE_SIZE - 1)
        size++;
    memcpy(ret, error.data, size);
    ret[size] = '\0';
}

/* ---- The connection ---------------------------------------------------------------------------- */

static void redis_drop(void *self)
{
    struct redis_transport *r = self;
    r->inbox.size = 0;
    r->greetings = 0;
}

/* "$12\r\n" */
static void add_size(struct buf *bytes, char kind, size_t size)
{
    char text[24], *at = text + sizeof(text);
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + size % 10);
    while ((size /= 10) > 0);
    *--at = kind;
    buf_add(bytes, at, (size_t)(text + sizeof(text) - at));
}

/* False: no memory, and nothing was added. */
static bool add_command(struct redis_transport *r, size_t count, const char **args, const size_t *sizes)
{
    struct buf *bytes = &r->session.pipeline.bytes;
    size_t before = bytes->size;
    add_size(bytes, '*', count);
    for (size_t i = 0; i < count; i++) {
        add_size(bytes, '$', sizes[i]);
        buf_add(bytes, args[i], sizes[i]);
        buf_add(bytes, "\r\n", 2);
    }
    if (buf_failed(bytes) == 0)
        return true;
    buf_truncate(bytes, before);
    return false;
}

/* AUTH and SELECT, if needed; their answers come before all others. */
static void redis_greet(void *self)
{
    struct redis_transport *r = self;
    const struct broker_url *u = &r->session.url;
    bool good = true;
    if (u->password.size > 0) {
        const char *auth[] = { "AUTH", u->user.size > 0 ? u->user.data : u->password.data, u->password.data };
        size_t sizes[] = { 4, u->user.size > 0 ? u->user.size : u->password.size, u->password.size };
        good &= add_command(r, u->user.size > 0 ? 3 : 2, auth, sizes);
        r->greetings++;
    }
    if (u->path.size > 0) {
        const char *select[] = { "SELECT", u->path.data };
        size_t sizes[] = { 6, u->path.size };
        good &= add_command(r, 2, select, sizes);
        r->greetings++;
    }
    r->session.state = r->greetings > 0 ? SESSION_GREETING : SESSION_UP;
    if (!good)
        session_failed(&r->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", "out of memory");
}

/* ---- One message -------------------------------------------------------------------------------- */

struct redis_command {
    const char **args;
    size_t *sizes;
    size_t count, capacity;
};

static void arg_add(struct redis_command *c, pr_slice value)
{
    ASSERT(c->count < c->capacity);
    c->args[c->count] = value.data != NULL ? value.data : "";
    c->sizes[c->count++] = value.size;
}

static void field_add(struct redis_command *c, pr_slice name, pr_slice value)
{
    arg_add(c, name);
    arg_add(c, value);
}

static bool can_carry(pr_slice name)
{
    return !slice_eq_cstr(name, "data"); /* the payload */
}

/* Names of attributes with the prefix ce_; NULL data: no memory. */
static pr_slice attribute_name(struct redis_transport *r, const char *name)
{
    return cloudevent_name(&r->scratch, "ce_", name);
}

static int add_fields(struct redis_transport *r, const struct pr_message *m, struct redis_command *c,
                      struct pr_error *reterr)
{
    struct own_header *headers;
    size_t header_count;
    int rc = own_headers_read(m, &r->scratch, &headers, &header_count, reterr);
    struct cloudevent *event = arena_alloc(&r->scratch, sizeof(*event)); /* its texts outlive this function */

    if (rc != PR_OK)
        return rc;
    c->capacity = 8 + 2 * (CLOUDEVENTS_ATTRIBUTES_MAX + 2 + header_count);
    c->args = arena_alloc_array(&r->scratch, c->capacity, sizeof(*c->args));
    c->sizes = arena_alloc_array(&r->scratch, c->capacity, sizeof(*c->sizes));
    if (c->args == NULL || c->sizes == NULL || event == NULL)
        return PR_ENOMEM;

    struct buf key;
    buf_init(&key, BROKER_URL_MAX + 4096);
    template_fill(&key, r->stream, m);
    pr_slice stream = slice_dup(&r->scratch, buf_slice(&key));
    rc = buf_failed(&key) == PR_ETOOBIG ? error_set(reterr, PR_EINVAL, "the name of the stream is too long")
                                        : buf_failed(&key);
    buf_fini(&key);
    if (rc != PR_OK || stream.data == NULL)
        return rc != PR_OK ? rc : PR_ENOMEM;

    arg_add(c, PR_STR("XADD"));
    arg_add(c, stream);
    if (r->maxlen.size > 0) {
        arg_add(c, PR_STR("MAXLEN"));
        arg_add(c, PR_STR("~"));
        arg_add(c, r->maxlen);
    }
    arg_add(c, PR_STR("*"));
    pr_slice type = r->envelope != ENVELOPE_RAW ? cloudevent_content_type(m) : (pr_slice){ NULL, 0 };
    cloudevent_init(event, m, r->session.config->source);
    if (r->envelope == ENVELOPE_BINARY) {
        for (size_t i = 0; i < event->count; i++) {
            pr_slice name = attribute_name(r, event->attributes[i].name);
            if (name.data == NULL)
                return PR_ENOMEM;
            field_add(c, name, event->attributes[i].value);
        }
    }
    if (r->envelope != ENVELOPE_RAW)
        field_add(c, PR_STR("content-type"),
                  r->envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE) : type);
    const struct own_header_rules rules = {
        .carrier = "to Redis",
        .prefix = r->envelope != ENVELOPE_RAW ? "ce_" : NULL,
        .event = event,
        .content_type = type,
        .can_carry = can_carry,
    };
    for (size_t i = 0; i < header_count; i++) {
        bool is_sent = false;
        rc = own_header_judge(&headers[i], &rules, &is_sent, reterr);
        if (rc != PR_OK)
            return rc;
        if (is_sent)
            field_add(c, headers[i].name, headers[i].value);
    }
    pr_slice data = m->payload;
    if (r->envelope == ENVELOPE_STRUCTURED) {
        buf_reset(&r->json);
        cloudevent_write_json(&r->json, m, r->session.config->source);
        if (buf_failed(&r->json) != 0)
            return PR_ENOMEM;
        data = buf_slice(&r->json);
    }
    field_add(c, PR_STR("data"), data);
    return PR_OK;
}

/* Puts its bytes into the buffer, or gives it its result. */
static void redis_begin(struct redis_transport *r, const struct delivery *d)
{
    struct pipeline *p = &r->session.pipeline;
    struct redis_command command = { 0 };
    struct pr_error error = { 0 };
    size_t before = p->bytes.size;

    arena_reset(&r->scratch);
    int rc = add_fields(r, d->message, &command, &error);
    if (rc == PR_OK && add_command(r, command.count, command.args, command.sizes)) {
        pipeline_began(p, before);
        return;
    }
    delivery_queue_drop(&p->waiting);
    if (rc == PR_EINVAL)
        result_unsent(pipeline_result(p), d->token, PR_REASON_VALIDATION_FAILURE, "", pr_str(error.text));
    else
        result_returned(pipeline_result(p), d->token); /* no memory: later */
}

/* ---- Writing and reading -------------------------------------------------------------------------- */

static void redis_send(void *self, int64_t now_us)
{
    struct redis_transport *r = self;
    struct pipeline *p = &r->session.pipeline;
    const struct delivery *d;
    while (r->session.state == SESSION_UP && pipeline_unwritten(p) < PIPELINE_BUFFERED_MAX &&
           (d = pipeline_next(p, now_us)) != NULL)
        redis_begin(r, d);
    if (!pipeline_write(p, &r->session.wire))
        session_wire_lost(&r->session);
}

static bool redis_has_bytes(void *self)
{
    struct redis_transport *r = self;
    return pipeline_unwritten(&r->session.pipeline) > 0;
}

static void take_greeting(struct redis_transport *r, const struct redis_answer *answer)
{
    if (answer->is_error) {
        char text[300];
        bool of_select = r->greetings == 1 && r->session.url.path.size > 0;
        int reason = reason_of(answer->text);
        if (reason == PR_REASON_REJECTED)
            reason = of_select ? PR_REASON_DESTINATION_MISSING : PR_REASON_UNAUTHORIZED;
        snprintf(text, sizeof(text), "%.*s%s", (int)min_size(answer->text.size, 200), answer->text.data,
                 reason == PR_REASON_DESTINATION_MISSING ? ": check the database in its url" : "");
        session_failed(&r->session, reason, "", text);
    } else if (--r->greetings == 0) {
        r->session.state = SESSION_UP;
    }
}

/* "... multibulk length": without a login only short commands are allowed, and nothing after this one is read. */
static bool is_locked_out(pr_slice error)
{
    return slice_starts_with(error, PR_STR("ERR Protocol error: unauthenticated "));
}

static void take_error(struct redis_transport *r, const struct delivery *d, pr_slice error)
{
    struct pipeline *p = &r->session.pipeline;
    char code[RESULT_CODE_SIZE], text[PR_ERROR_MAX];
    int reason = is_locked_out(error) ? PR_REASON_UNAUTHORIZED : reason_of(error);
    code_of(error, code);
    snprintf(text, sizeof(text), "%.*s%s", (int)min_size(error.size, sizeof(text) / 2), error.data,
             reason == PR_REASON_UNAUTHORIZED ? ": " BROKER_LOGIN_ADVICE ", and their permissions at the server" : "");
    if (d != NULL) /* not given up at its deadline */
        result_failed(pipeline_result(p), d->token, SEND_FAILED, reason, code, pr_str(text));
    if (!is_locked_out(error))
        return;
    while (p->out_count > 0)
        if ((d = pipeline_answer(p, p->first_number)) != NULL)
            result_failed(pipeline_result(p), d->token, SEND_FAILED, reason, code, pr_str(text));
    session_failed(&r->session, reason, code, text);
}

static void take_answer(struct redis_transport *r, const struct redis_answer *answer)
{
    if (r->session.state == SESSION_GREETING) {
        take_greeting(r, answer);
        return;
    }
    if (r->session.pipeline.out_count == 0) {
        session_failed(&r->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", "an unexpected answer");
        return;
    }
    const struct delivery *d = pipeline_answer(&r->session.pipeline, r->session.pipeline.first_number);
    if (answer->is_error)
        take_error(r, d, answer->text);
    else if (d != NULL)
        result_ok(pipeline_result(&r->session.pipeline), d->token);
    if (r->session.state == SESSION_UP)
        reconnect_worked(&r->session.reconnect);
}

/* All complete answers. */
static void take_answers(struct redis_transport *r)
{
    struct pr_error error = { 0 };
    struct redis_answer answer;
    size_t used = 0;
    ssize_t size = 1;
    while (size > 0 && r->inbox.size > 0) { /* emptied when the connection is dropped */
        size = redis_answer_read(inbox_bytes(&r->inbox, used), &answer, &error);
        used += size > 0 ? (size_t)size : 0;
        if (size > 0)
            take_answer(r, &answer);
    }
    if (size < 0)
        session_failed(&r->session, PR_REASON_TRANSPORT_UNAVAILABLE, "", error.text);
    if (r->inbox.size > 0)
        inbox_drop(&r->inbox, used);
}

static void redis_read(void *self, int64_t now_us)
{
    struct redis_transport *r = self;
    size_t got;
    (void)now_us;
    while ((got = session_read(&r->session, inbox_room(&r->inbox), inbox_room_size(&r->inbox))) > 0) {
        r->inbox.size += got;
        take_answers(r);
    }
}

/* ---- The transport ------------------------------------------------------------------------------------ */

static const struct session_ops redis_session = {
    .greet = redis_greet,
    .drop = redis_drop,
    .read = redis_read,
    .send = redis_send,
    .has_bytes = redis_has_bytes,
};

static int redis_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct redis_transport *r = self;
    arena_init(&r->scratch, 4096);
    buf_init(&r->json, ENVELOPE_JSON_MAX);
    int rc = session_init(&r->session, &redis_session, r, redis_url, config, reterr);
    if (rc != PR_OK)
        return rc;
    r->stream = broker_url_param(&r->session.url, "stream", config->name);
    r->maxlen = broker_url_param(&r->session.url, "maxlen", "");
    (void)envelope_parse(config->envelope, &r->envelope); /* redis_url() has */
    return session_open(&r->session, has_tls(config), reterr);
}

static void redis_close(void *self)
{
    struct redis_transport *r = self;
    session_fini(&r->session);
    buf_fini(&r->json);
    arena_fini(&r->scratch);
}

_Static_assert(offsetof(struct redis_transport, session) == 0, "session_submit() takes it for its session");
const struct transport_ops transport_redis = SESSION_TRANSPORT("redis", redis_transport, redis, session_cancel);
const struct transport_ops transport_rediss = SESSION_TRANSPORT("rediss", redis_transport, redis, session_cancel);
