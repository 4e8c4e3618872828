/* redis: a consumer group reads a stream; an entry is acknowledged (XACK) when it is stored.
 *
 *   redis://user:password@host:6379/DB?stream=orders&group=postrider&consumer=NAME&start=first&claim=60s
 *
 * Unacknowledged entries stay pending for their consumer.  This consumer's own are read first after every connection;
 * those of consumers that have been inactive for `claim` are taken over (XAUTOCLAIM), since their consumers may never
 * come back.
 *
 * The group and the stream are created if they do not exist. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/util.h"
#include "source/broker/broker.h"
#include "source/broker/redis_value.h"
#include "source/broker/talk.h"

#define REDIS_PORT 6379
#define CLAIM_DEFAULT "60s"
#define CLAIM_MIN_US PR_SECONDS(1)
#define ANSWER_BATCHES 4 /* entries are requested by number, so an answer may be this many batches large */
#define CLAIM_START "0-0"
#define REDIS_ID_SIZE 48
#define CLAIM_MAX_US PR_SECONDS(86400)

struct redis_source {
    struct broker *broker;
    struct talk talk;
    struct arena answer; /* the last one */
    struct arena acks;   /* ids to be acknowledged */
    pr_slice *acked;
    size_t ack_count, ack_capacity;
    pr_slice stream, group, consumer;
    int64_t claim_us, claimed_us;   /* interval; time of the last one, monotonic */
    char claim_from[REDIS_ID_SIZE]; /* pending entries of others were checked up to here */
    char last[REDIS_ID_SIZE];       /* the last new entry that was stored; empty: none */
    bool is_new;                    /* the received entries are new ones */
    bool is_up;                     /* the greeting is over */
    bool has_pending;               /* this consumer may have pending entries: they are read before new ones */
    bool is_single;                 /* one entry was requested: its answer may be truncated */
    uint64_t missing;               /* bytes cut from the answer */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static const char *const params[] = { "stream", "group", "consumer", "start", "claim", "plain", WIRE_PARAMS, NULL };

static bool has_tls(const struct endpoint_config *config)
{
    return transport_scheme(config->url).size == strlen("rediss");
}

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

static bool claim_of(const struct broker_url *url, int64_t *ret_us)
{
    return duration_parse(broker_url_param(url, "claim", CLAIM_DEFAULT), ret_us) == PR_OK && *ret_us >= CLAIM_MIN_US &&
           *ret_us <= CLAIM_MAX_US;
}

static int redis_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                       struct pr_error *reterr)
{
    int64_t claim_us;
    pr_slice scheme = transport_scheme(config->url);
    if (!slice_eq_cstr(scheme, "redis") && !slice_eq_cstr(scheme, "rediss"))
        return wrong(config, "use redis://host/?stream=NAME, or rediss:// for TLS", reterr);
    int rc = broker_url_parse(config, REDIS_PORT, params, arena, ret, reterr);
    if (rc == PR_OK)
        rc = broker_url_check_wire(config, ret, has_tls(config), reterr);
    if (rc != PR_OK)
        return rc;
    if (ret->user.size > 0 && ret->password.size == 0)
        return wrong(config, "a user needs a password, and a password alone is written redis://:password@host", reterr);
    if (broker_url_param(ret, "stream", "").size == 0)
        return wrong(config, "it names no stream: add ?stream=NAME", reterr);
    if (broker_url_param(ret, "group", "postrider").size == 0)
        return wrong(config, "group is empty; omit it for the group postrider", reterr);
    if (!claim_of(ret, &claim_us))
        return wrong(config, "claim must be a duration from 1s to 24h, such as 60s", reterr);
    for (size_t i = 0; i < ret->path.size; i++)
        if (ret->path.data[i] < '0' || ret->path.data[i] > '9' || i == 4)
            return wrong(config, "only a database number can follow the host", reterr);
    return broker_check_start(config, ret, reterr);
}

static pr_slice redis_address(const struct broker_url *url)
{
    return broker_url_param(url, "stream", "");
}

/* ---- Commands ------------------------------------------------------------------------------------------ */

static void add_text(struct buf *out, pr_slice text)
{
    buf_addf(out, "$%zu\r\n", text.size);
    buf_add_slice(out, text);
    buf_add_cstr(out, "\r\n");
}

static void add_command(struct redis_source *r, const pr_slice *words, size_t count)
{
    buf_addf(&r->talk.out, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        add_text(&r->talk.out, words[i]);
}
#define COMMAND(r, ...)                                                                                                \
    add_command((r), (const pr_slice[]){ __VA_ARGS__ }, ARRAY_LENGTH(((const pr_slice[]){ __VA_ARGS__ })))

/* For an entry that is too large: drops the bytes after the first ones of the text that is arriving. */
static void cut(struct redis_source *r)
{
    struct redis_part p;
    const size_t max = broker_message_max(r->broker);
    pr_slice heard = talk_heard(&r->talk);
    if (!redis_value_part(heard, &p))
        return;
    size_t kept = p.text < max ? max - p.text : 0;
    if (p.size <= kept || heard.size < p.text + kept || !talk_cut(&r->talk, p.text + kept, p.size - kept))
        return;
    char digits[24]; /* writes the shorter length with the same number of digits */
    snprintf(digits, sizeof(digits), "%0*zu", (int)(p.text - 2 - p.digits), kept);
    memcpy(r->talk.in.data + r->talk.used + p.digits, digits, p.text - 2 - p.digits);
    r->missing += p.size - kept;
}

/* Reads one answer, which may be an error.  Valid until the next call. */
static int answer(struct redis_source *r, int wake_fd, int64_t deadline_us, struct redis_value *ret,
                  struct pr_error *reterr)
{
    struct pr_error why = { 0 };
    r->missing = 0;
    for (;;) {
        if (r->is_single)
            cut(r);
        arena_reset(&r->answer);
        ssize_t size = redis_value_read(talk_heard(&r->talk), &r->answer, ret, &why);
        if (size < 0)
            return talk_fault(&r->talk, reterr, "%s", why.text);
        if (size > 0) {
            r->talk.used += (size_t)size; /* its bytes stay in place */
            return PR_OK;
        }
        talk_understood(&r->talk, 0);
        enum talk_end end = talk_wait(&r->talk, wake_fd, deadline_us);
        if (end != TALK_BYTES)
            return talk_ended(&r->talk, end, reterr);
    }
}

static int64_t soon(void)
{
    return clock_mono_us(clock_system()) + TALK_GREETING_US;
}

static int refused(struct redis_source *r, pr_slice error, const char *advice, struct pr_error *reterr)
{
    return talk_fault(&r->talk, reterr, "%.*s%s", (int)min_size(error.size, 200), error.data, advice);
}

static const char *advice_of(pr_slice error)
{
    if (slice_starts_with(error, PR_STR("NOPERM")))
        return ": check the permissions of the user at the server";
    if (slice_starts_with(error, PR_STR("WRONGPASS")) || slice_starts_with(error, PR_STR("NOAUTH")))
        return ": " BROKER_LOGIN_ADVICE;
    if (slice_starts_with(error, PR_STR("WRONGTYPE")))
        return ": check stream in its url";
    return "";
}

/* Reads an answer that matters only if it is an error. */
static int expect(struct redis_source *r, int wake_fd, const char *tolerated, struct pr_error *reterr)
{
    struct redis_value v;
    int rc = answer(r, wake_fd, soon(), &v, reterr);
    if (rc != PR_OK || v.shape != REDIS_ERROR ||
        (tolerated != NULL && slice_starts_with(v.text, slice_from(tolerated))))
        return rc;
    return refused(r, v.text, advice_of(v.text), reterr);
}

/* ---- The connection ---------------------------------------------------------------------------------------- */

/* Where a group begins.  A group for new entries that disappeared, as on a server that lost its data, continues where
 * it was: entries since then are new, too. */
static pr_slice group_start(const struct redis_source *r)
{
    if (broker_starts_at_first(&r->broker->url))
        return PR_STR("0");
    return r->last[0] != '\0' ? slice_from(r->last) : PR_STR("$");
}

static int connect_now(struct redis_source *r, int wake_fd, struct pr_error *reterr)
{
    const struct broker_url *u = &r->broker->url;
    enum talk_end end = talk_connect(&r->talk, wake_fd);
    int rc = end == TALK_BYTES ? PR_OK : talk_ended(&r->talk, end, reterr);
    if (rc == PR_OK && u->password.size > 0) {
        if (u->user.size > 0)
            COMMAND(r, PR_STR("AUTH"), u->user, u->password);
        else
            COMMAND(r, PR_STR("AUTH"), u->password);
        rc = expect(r, wake_fd, NULL, reterr);
    }
    if (rc == PR_OK && u->path.size > 0) {
        COMMAND(r, PR_STR("SELECT"), u->path);
        rc = expect(r, wake_fd, NULL, reterr);
    }
    if (rc == PR_OK) {
        COMMAND(r, PR_STR("XGROUP"), PR_STR("CREATE"), r->stream, r->group, group_start(r), PR_STR("MKSTREAM"));
        rc = expect(r, wake_fd, "BUSYGROUP", reterr);
    }
    r->is_up = rc == PR_OK;
    r->has_pending = true;
    r->claimed_us = 0;
    snprintf(r->claim_from, sizeof(r->claim_from), CLAIM_START);
    return rc;
}

static void redis_drop(void *self)
{
    struct redis_source *r = self;
    talk_drop(&r->talk);
    r->is_up = false;
    r->ack_count = 0;
    arena_reset(&r->acks);
}

/* ---- Entries ------------------------------------------------------------------------------------------------ */

static int note_ack(struct redis_source *r, pr_slice id, struct pr_error *reterr)
{
    ASSERT(r->ack_count < r->ack_capacity);
    r->acked[r->ack_count] = slice_dup(&r->acks, id);
    return r->acked[r->ack_count++].data != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for an entry");
}

/* An entry without `data` is a record: its fields become a JSON object. */
static int write_fields(struct redis_source *r, const struct decode_header *fields, size_t count, pr_slice *ret)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, 6 * r->talk.in_max); /* a byte can become \u0000 */
    json_init(&w, &text);
    json_begin_object(&w);
    for (size_t i = 0; i < count; i++) {
        json_key_slice(&w, fields[i].name);
        json_slice(&w, fields[i].value);
    }
    json_end_object(&w);
    *ret = slice_dup(&r->answer, buf_slice(&text));
    bool good = buf_failed(&text) == 0 && ret->data != NULL;
    buf_fini(&text);
    return good ? PR_OK : PR_ENOMEM;
}

static int take_fields(struct redis_source *r, struct intake *in, pr_slice id, const struct redis_value *fields,
                       struct pr_error *reterr)
{
    struct decode_header *headers = arena_alloc_array(&r->answer, fields->count / 2 + 1, sizeof(*headers));
    struct received m = { .headers = headers, .prefix = "ce_", .type = r->stream, .missing = r->missing };
    bool has_data = false;
    int rc = headers != NULL ? PR_OK : PR_ENOMEM;
    for (size_t i = 0; rc == PR_OK && i + 1 < fields->count; i += 2) {
        pr_slice name = fields->list[i].text, value = fields->list[i + 1].text;
        if (slice_eq_cstr(name, "data")) {
            m.body = value;
            has_data = true;
        } else if (slice_eq_cstr(name, "content-type")) {
            m.content_type = value;
        } else {
            headers[m.header_count++] = (struct decode_header){ name, value };
        }
    }
    if (rc == PR_OK && !has_data) {
        rc = write_fields(r, headers, m.header_count, &m.body);
        struct decode_input input = { .headers = headers, .header_count = m.header_count, .prefix = "ce_" };
        m.body = decode_is_event(&input) ? PR_STR("") : m.body;
        m.header_count = m.body.size > 0 ? 0 : m.header_count;
    }
    m.position = arena_printf(&r->answer, "%.*s", SLICE_ARGS(id));
    if (rc == PR_OK && m.position.data != NULL)
        return intake_add(in, &m, reterr);
    return error_set(reterr, PR_ENOMEM, "out of memory for an entry");
}

/* A list of [id, [field, value, ...]]; entries that were deleted while pending have no fields. */
static int take_entries(struct redis_source *r, struct intake *in, const struct redis_value *entries,
                        struct pr_error *reterr)
{
    int rc = PR_OK;
    for (size_t i = 0; rc == PR_OK && i < entries->count; i++) {
        const struct redis_value *entry = &entries->list[i];
        if (entry->shape == REDIS_NOTHING)
            continue;
        if (entry->shape != REDIS_LIST || entry->count < 2 || entry->list[0].shape != REDIS_TEXT)
            return talk_fault(&r->talk, reterr, "a malformed entry");
        if (r->ack_count == r->ack_capacity || intake_is_full(in)) { /* the others stay pending, and are read next */
            r->has_pending = true;
            break;
        }
        rc = note_ack(r, entry->list[0].text, reterr);
        if (rc == PR_OK && entry->list[1].shape == REDIS_LIST)
            rc = take_fields(r, in, entry->list[0].text, &entry->list[1], reterr);
    }
    return rc;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static pr_slice number(char text[24], int64_t value)
{
    return (pr_slice){ text, (size_t)snprintf(text, 24, "%" PRId64, value) };
}

/* [[stream, entries]], or null. */
static int read_group(struct redis_source *r, struct intake *in, bool is_new, int wake_fd, struct pr_error *reterr)
{
    char count[24], block[24];
    struct redis_value v;
    if (is_new)
        COMMAND(r, PR_STR("XREADGROUP"), PR_STR("GROUP"), r->group, r->consumer, PR_STR("COUNT"),
                number(count, (int64_t)intake_room(in)), PR_STR("BLOCK"), number(block, BROKER_WAIT_US / 1000),
                PR_STR("STREAMS"), r->stream, PR_STR(">"));
    else
        COMMAND(r, PR_STR("XREADGROUP"), PR_STR("GROUP"), r->group, r->consumer, PR_STR("COUNT"),
                number(count, (int64_t)intake_room(in)), PR_STR("STREAMS"), r->stream, PR_STR("0"));
    int rc = answer(r, wake_fd, soon() + BROKER_WAIT_US, &v, reterr);
    if (rc != PR_OK || v.shape == REDIS_NOTHING)
        return rc;
    if (v.shape == REDIS_ERROR)
        return refused(r, v.text, advice_of(v.text), reterr);
    if (v.shape != REDIS_LIST || v.count != 1 || v.list[0].shape != REDIS_LIST || v.list[0].count != 2)
        return talk_fault(&r->talk, reterr, "a malformed answer to XREADGROUP");
    return take_entries(r, in, &v.list[0].list[1], reterr);
}

/* [next, entries, deleted]: a part of the pending entries.  Redis before 6.2 has no such command: then nothing is taken
 * over. */
static int claim(struct redis_source *r, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    char count[24], idle[24];
    struct redis_value v;
    COMMAND(r, PR_STR("XAUTOCLAIM"), r->stream, r->group, r->consumer, number(idle, r->claim_us / 1000),
            slice_from(r->claim_from), PR_STR("COUNT"), number(count, (int64_t)intake_room(in)));
    snprintf(r->claim_from, sizeof(r->claim_from), CLAIM_START);
    int rc = answer(r, wake_fd, soon(), &v, reterr);
    if (rc != PR_OK || (v.shape == REDIS_ERROR && slice_starts_with(v.text, PR_STR("ERR unknown command"))))
        return rc;
    if (v.shape == REDIS_ERROR)
        return refused(r, v.text, advice_of(v.text), reterr);
    if (v.shape != REDIS_LIST || v.count < 2 || v.list[0].shape != REDIS_TEXT ||
        v.list[0].text.size >= sizeof(r->claim_from) || v.list[1].shape != REDIS_LIST)
        return talk_fault(&r->talk, reterr, "a malformed answer to XAUTOCLAIM");
    snprintf(r->claim_from, sizeof(r->claim_from), "%.*s", SLICE_ARGS(v.list[0].text));
    return take_entries(r, in, &v.list[1], reterr);
}

/* Old pending entries of other consumers: a batch, or none when all were checked. */
static int take_over(struct redis_source *r, struct intake *in, int64_t now_us, int wake_fd, struct pr_error *reterr)
{
    bool is_over = false;
    int rc = PR_OK;
    while (rc == PR_OK && !is_over && r->ack_count == 0) {
        rc = claim(r, in, wake_fd, reterr);
        is_over = strcmp(r->claim_from, CLAIM_START) == 0;
    }
    r->claimed_us = is_over ? now_us : r->claimed_us;
    return rc;
}

static int redis_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct redis_source *r = self;
    int64_t now_us = clock_mono_us(clock_system());
    int rc = r->is_up ? PR_OK : connect_now(r, wake_fd, reterr);
    r->is_single = intake_room(in) == 1;
    if (rc == PR_OK && r->has_pending) {
        rc = read_group(r, in, false, wake_fd, reterr);
        r->has_pending = r->has_pending && r->ack_count > 0;
    }
    if (rc == PR_OK && r->ack_count == 0 && (r->claimed_us == 0 || now_us - r->claimed_us >= r->claim_us / 2))
        rc = take_over(r, in, now_us, wake_fd, reterr);
    r->is_new = r->ack_count == 0;
    if (rc == PR_OK && r->is_new)
        rc = read_group(r, in, true, wake_fd, reterr);
    if (rc != PR_OK && r->talk.is_over && intake_room(in) > 1) /* they are pending now, and are read one by one */
        intake_expect(in, INTAKE_BYTES_MAX);
    return rc;
}

static int redis_acknowledge(void *self, struct pr_error *reterr)
{
    struct redis_source *r = self;
    if (r->ack_count == 0)
        return PR_OK;
    if (r->is_new)
        snprintf(r->last, sizeof(r->last), "%.*s", SLICE_ARGS(r->acked[r->ack_count - 1]));
    buf_addf(&r->talk.out, "*%zu\r\n", r->ack_count + 3);
    add_text(&r->talk.out, PR_STR("XACK"));
    add_text(&r->talk.out, r->stream);
    add_text(&r->talk.out, r->group);
    for (size_t i = 0; i < r->ack_count; i++)
        add_text(&r->talk.out, r->acked[i]);
    r->ack_count = 0;
    arena_reset(&r->acks);
    return expect(r, -1, NULL, reterr);
}

/* ---- The source --------------------------------------------------------------------------------------------------- */

static int redis_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct redis_source *r = self;
    r->broker = broker;
    r->stream = broker_url_param(&broker->url, "stream", "");
    r->group = broker_url_param(&broker->url, "group", "postrider");
    r->consumer = broker_url_param(&broker->url, "consumer", broker->source->instance);
    (void)claim_of(&broker->url, &r->claim_us); /* redis_parse() has */
    arena_init(&r->answer, 65536);
    arena_init(&r->acks, 16384);
    r->ack_capacity = broker->intake.capacity;
    r->acked = arena_alloc_array(&broker->arena, r->ack_capacity, sizeof(*r->acked));
    if (r->acked == NULL)
        return error_set(reterr, PR_ENOMEM, "source %s: out of memory", broker->config.name);
    return talk_init(&r->talk, &broker->config, &broker->url, has_tls(&broker->config),
                     ANSWER_BATCHES * INTAKE_BYTES_MAX + broker_message_max(broker), reterr);
}

static void redis_close(void *self)
{
    struct redis_source *r = self;
    talk_fini(&r->talk);
    if (r->broker == NULL)
        return;
    arena_fini(&r->answer);
    arena_fini(&r->acks);
}

static const struct broker_ops redis_broker = {
    .kind = "redis",
    .size = sizeof(struct redis_source),
    .parse = redis_parse,
    .address = redis_address,
    .open = redis_open,
    .close = redis_close,
    .receive = redis_receive,
    .acknowledge = redis_acknowledge,
    .drop = redis_drop,
};

static int redis_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &redis_broker, ret_self, reterr);
}

const struct source_ops source_redis = {
    .broker = &redis_broker, .open = redis_source_open, .run = broker_run, .close = broker_close
};
