#include "core/schedule.h"

#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/columns.h"
#include "core/headers.h"
#include "core/id.h"
#include "core/message.h"

static const char *const missed_names[] = { [MISSED_ONCE] = "once", [MISSED_SKIP] = "skip", [MISSED_ALL] = "all" };

const char *schedule_missed_name(enum schedule_missed missed)
{
    return missed_names[missed];
}

bool schedule_is_row(const struct pr_message *m)
{
    return slice_eq(m->destination, PR_STR(SCHEDULE_DESTINATION));
}

bool schedule_name_is_valid(pr_slice name)
{
    if (name.size == 0 || name.size > SCHEDULE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || (c != '_' && c != '-' && c != '.')))
            return false;
    }
    return true;
}

void schedule_id(pr_slice name, pr_id *ret)
{
    id_from_event(PR_STR("postrider:schedule"), name, ret);
}

void schedule_message_id(pr_slice box, pr_slice name, int64_t at_us, pr_id *ret)
{
    char source[sizeof("schedule:") + BOX_NAME_MAX + 1 + SCHEDULE_NAME_MAX], at[TIME_TEXT_SIZE];
    size_t size = 0;
    const pr_slice parts[] = { PR_STR("schedule:"), box, PR_STR(":"), name };
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        ASSERT(size + parts[i].size < sizeof(source));
        memcpy(source + size, parts[i].data, parts[i].size);
        size += parts[i].size;
    }
    time_format_rfc3339(at_us, at);
    id_from_event(PR_BYTES(source, size), slice_from(at), ret);
}

/* ---- From JSON --------------------------------------------------------------------------------- */

struct decoder {
    struct schedule *s;
    struct arena *arena;
    struct pr_error *reterr;
    bool has_payload;
    const char *order; /* an order for a schedule that exists, which the database has not completed; NULL: none */
};

static int wrong(const struct decoder *d, const char *member, const char *what)
{
    return error_set(d->reterr, PR_EINVAL, "%s: %s", member, what);
}

static int no_memory(const struct decoder *d)
{
    return error_set(d->reterr, PR_ENOMEM, "out of memory for a schedule");
}

static int take_text(const struct decoder *d, const char *member, pr_slice value, pr_slice *ret)
{
    int rc = json_string_read(value, d->arena, ret);
    if (rc == PR_ENOMEM)
        return no_memory(d);
    return rc == PR_OK ? PR_OK : wrong(d, member, "must be a string");
}

static int take_missed(const struct decoder *d, pr_slice value)
{
    pr_slice name;
    int rc = take_text(d, "missed", value, &name);
    if (rc != PR_OK)
        return rc;
    for (size_t i = 0; i < ARRAY_LENGTH(missed_names); i++)
        if (slice_eq_cstr(name, missed_names[i])) {
            d->s->missed = (enum schedule_missed)i;
            return PR_OK;
        }
    return wrong(d, "missed", "must be once, skip or all");
}

static int take_grace(const struct decoder *d, pr_slice value)
{
    pr_slice text;
    int rc = take_text(d, "grace", value, &text);
    if (rc == PR_OK && (duration_parse(text, &d->s->grace_us) != PR_OK || d->s->grace_us < PR_SECONDS(1)))
        rc = wrong(d, "grace", "must be a duration of at least 1s, such as 5m");
    return rc;
}

static int take_started(const struct decoder *d, pr_slice value)
{
    pr_slice text;
    int rc = take_text(d, "started", value, &text);
    if (rc == PR_OK && time_parse_rfc3339(text, &d->s->started_us) != PR_OK)
        rc = wrong(d, "started", "must be a time such as 2024-01-31T12:00:00Z");
    return rc;
}

static int take_bool(const struct decoder *d, const char *member, pr_slice value, bool *ret)
{
    *ret = slice_eq(value, PR_STR("true"));
    return *ret || slice_eq(value, PR_STR("false")) ? PR_OK : wrong(d, member, "must be true or false");
}

/* "pause", "resume" and "run": orders for a schedule that exists. */
static int take_order(struct decoder *d, const char *member, pr_slice value, bool *ret)
{
    int rc = take_bool(d, member, value, ret);
    d->order = member;
    return rc == PR_OK && !*ret ? wrong(d, member, "must be true") : rc;
}

static int take_move(struct decoder *d, pr_slice value)
{
    pr_slice text;
    int rc = take_text(d, "due", value, &text);
    d->order = "due";
    if (rc == PR_OK && time_parse_rfc3339(text, &d->s->move_us) != PR_OK)
        rc = wrong(d, "due", "must be a time such as 2024-01-31T12:00:00Z");
    return rc;
}

static int take_base64(struct decoder *d, pr_slice text)
{
    struct buf bytes;
    buf_init(&bytes, text.size + 1);
    int rc = base64_decode(&bytes, text) == PR_OK ? buf_failed(&bytes) : PR_EINVAL;
    if (rc == PR_OK)
        d->s->message.payload = slice_dup(d->arena, buf_slice(&bytes));
    buf_fini(&bytes);
    if (rc == PR_EINVAL)
        return wrong(d, "payload_base64", "not valid base64");
    return rc == PR_OK && d->s->message.payload.data != NULL ? PR_OK : no_memory(d);
}

static int take_payload(struct decoder *d, pr_slice key, pr_slice value)
{
    struct pr_message *m = &d->s->message;
    if (d->has_payload)
        return wrong(d, "payload", "payload, payload_text and payload_base64 cannot be combined");
    d->has_payload = true;
    if (slice_eq(key, PR_STR("payload"))) {
        m->payload = value;
        return PR_OK;
    }
    if (slice_eq(key, PR_STR("payload_text")))
        return take_text(d, "payload_text", value, &m->payload);
    int rc = take_text(d, "payload_base64", value, &m->payload);
    return rc == PR_OK ? take_base64(d, m->payload) : rc;
}

static int take_own(struct decoder *d, pr_slice key, pr_slice value, bool *ret_taken)
{
    struct schedule *s = d->s;
    bool ignored;
    *ret_taken = true;
    if (slice_eq(key, PR_STR("run")))
        return take_order(d, "run", value, &s->run);
    if (slice_eq(key, PR_STR("pause")))
        return take_order(d, "pause", value, &ignored);
    if (slice_eq(key, PR_STR("resume")))
        return take_order(d, "resume", value, &ignored);
    if (slice_eq(key, PR_STR("due")))
        return take_move(d, value);
    if (slice_eq(key, PR_STR("missed")))
        return take_missed(d, value);
    if (slice_eq(key, PR_STR("grace")))
        return take_grace(d, value);
    if (slice_eq(key, PR_STR("started")))
        return take_started(d, value);
    if (slice_eq(key, PR_STR("paused")))
        return take_bool(d, "paused", value, &s->paused);
    if (slice_eq(key, PR_STR("cancel")))
        return take_bool(d, "cancel", value, &s->cancel);
    if (slice_eq(key, PR_STR("event")))
        return take_bool(d, "event", value, &s->message.event);
    if (slice_starts_with(key, PR_STR("payload")))
        return take_payload(d, key, value);
    if (slice_eq(key, PR_STR("headers"))) {
        s->message.headers = value;
        return value.data[0] == '{' ? PR_OK : wrong(d, "headers", "must be an object");
    }
    *ret_taken = false;
    return PR_OK;
}

static int take_member(void *arg, pr_slice quoted, pr_slice value)
{
    struct decoder *d = arg;
    struct schedule *s = d->s;
    const struct {
        const char *name;
        pr_slice *text;
    } texts[] = { { "name", &s->name },
                  { "cron", &s->cron_text },
                  { "zone", &s->zone_name },
                  { "box", &s->box },
                  { "config", &s->config },
                  { "type", &s->message.type },
                  { "stream", &s->message.stream },
                  { "destination", &s->message.destination },
#define X(column, ...) { #column, &s->message.column },
                  SENDER_TEXTS(X)
#undef X
    };
    pr_slice key;
    bool taken;
    int rc = json_string_read(quoted, d->arena, &key);
    if (rc != PR_OK)
        return rc == PR_ENOMEM ? no_memory(d) : wrong(d, "schedule", "a member name is not a string");
    if (slice_eq(slice_trim(value), PR_STR("null")))
        return PR_OK;
    value = slice_trim(value);
    rc = take_own(d, key, value, &taken);
    if (taken)
        return rc;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (slice_eq_cstr(key, texts[i].name)) {
            pr_slice before = s->name;
            rc = take_text(d, texts[i].name, value, texts[i].text);
            if (rc == PR_OK && i == 0 && before.size > 0 && !slice_eq(before, s->name))
                return wrong(d, "name", "must match the column stream");
            return rc;
        }
    return error_set(d->reterr, PR_EINVAL,
                     "%.*s: unknown member; members are name, cron, zone, missed, grace, paused, box, type, stream, "
                     "destination, headers, payload, payload_text, ...",
                     (int)min_size(key.size, 60), key.data);
}

static int check(const struct decoder *d)
{
    struct schedule *s = d->s;
    struct pr_error why;
    if (!schedule_name_is_valid(s->name))
        return error_set(
            d->reterr, PR_EINVAL,
            "name: \"%.*s\" is not valid; write 1 to %d letters, digits, \"_\", \"-\" and \".\", a letter or "
            "digit first",
            (int)min_size(s->name.size, SCHEDULE_NAME_MAX), s->name.data != NULL ? s->name.data : "",
            SCHEDULE_NAME_MAX);
    if (s->cancel)
        return PR_OK;
    if (d->order != NULL && s->cron_text.size == 0)
        return error_set(d->reterr, PR_EINVAL, "%s: there is no schedule \"%.*s\"; add it first", d->order,
                         SLICE_ARGS(s->name));
    if (d->order != NULL && !s->run && s->move_us == 0)
        return wrong(d, d->order, "is an order for a schedule that exists; a new one can have paused");
    if (s->box.size > 0 && !name_is_valid(s->box))
        return wrong(d, "box", "is not the name of a box");
    if (s->zone_name.size > ZONE_NAME_MAX)
        return wrong(d, "zone", "is too long for the name of a time zone");
    if (schedule_is_row(&s->message))
        return wrong(d, "destination", "a schedule cannot create schedules");
    int rc = cron_parse(s->cron_text, &s->cron, d->reterr);
    if (rc == PR_OK && message_check(&s->message, PR_PAYLOAD_MAX, &why) < 0)
        rc = error_set(d->reterr, PR_EINVAL, "%s", why.text);
    return rc;
}

int schedule_decode(pr_slice name, pr_slice json, struct arena *arena, struct schedule *ret, struct pr_error *reterr)
{
    struct decoder d = { .s = ret, .arena = arena, .reterr = reterr };
    *ret = (struct schedule){ .name = name, .grace_us = SCHEDULE_GRACE_US };
    int rc = PR_EINVAL;
    if (json.size > 0 && slice_is_json_object(json))
        rc = json_object_walk(json, take_member, &d);
    else
        error_set(reterr, rc, "a schedule must be a JSON object such as {\"cron\":\"0 3 * * *\",\"type\":\"report\"}");
    return rc == PR_OK ? check(&d) : rc;
}

/* ---- To JSON ------------------------------------------------------------------------------------ */

static void put_text(struct json_writer *w, const char *key, pr_slice value)
{
    if (value.size == 0)
        return;
    json_put_slice(w, key, value);
}

static void put_payload(struct json_writer *w, pr_slice payload)
{
    struct buf text;
    if (payload.size == 0)
        return;
    if (slice_is_json(payload)) {
        json_key(w, "payload");
        json_raw(w, payload);
        return;
    }
    if (utf8_valid(payload) && memchr(payload.data, 0, payload.size) == NULL) {
        put_text(w, "payload_text", payload);
        return;
    }
    buf_init(&text, payload.size * 2 + 8);
    base64_encode(&text, payload);
    put_text(w, "payload_base64", buf_slice(&text));
    if (buf_failed(&text) != PR_OK)
        w->buf->error = buf_failed(&text);
    buf_fini(&text);
}

static void put_meaning(struct json_writer *w, const struct schedule *s)
{
    const struct pr_message *m = &s->message;
    char grace[DURATION_TEXT_SIZE];
    put_text(w, "cron", s->cron_text);
    put_text(w, "zone", s->zone_name);
    json_put_cstr(w, "missed", schedule_missed_name(s->missed));
    if (s->grace_us != SCHEDULE_GRACE_US) {
        duration_format(s->grace_us, grace);
        put_text(w, "grace", slice_from(grace));
    }
    put_text(w, "box", s->box);
    put_text(w, "type", m->type);
    put_text(w, "stream", m->stream);
    put_text(w, "destination", m->destination);
#define X(column, ...) put_text(w, #column, m->column);
    SENDER_TEXTS(X)
#undef X
    if (m->event)
        json_put_bool(w, "event", true);
    if (m->headers.size > 0) {
        json_key(w, "headers");
        json_raw(w, m->headers);
    }
    put_payload(w, m->payload);
}

void schedule_encode_meaning(const struct schedule *s, struct buf *ret)
{
    struct json_writer w;
    json_init(&w, ret);
    json_begin_object(&w);
    put_meaning(&w, s);
    json_end_object(&w);
}

void schedule_encode(const struct schedule *s, struct buf *ret)
{
    struct json_writer w;
    json_init(&w, ret);
    json_begin_object(&w);
    if (!s->cancel)
        put_meaning(&w, s);
    if (s->cancel)
        json_put_bool(&w, "cancel", true);
    if (s->paused)
        json_put_bool(&w, "paused", true);
    put_text(&w, "config", s->config);
    if (s->started_us != 0)
        json_put_time(&w, "started", s->started_us);
    json_end_object(&w);
}

struct pr_message schedule_row(const struct schedule *s, pr_slice payload, int64_t due_us)
{
    struct pr_message m = { .type = PR_STR(SCHEDULE_TYPE),
                            .stream = s->name,
                            .destination = PR_STR(SCHEDULE_DESTINATION),
                            .payload = payload,
                            .due_us = due_us };
    schedule_id(s->name, &m.id);
    return m;
}

/* ---- Times --------------------------------------------------------------------------------------- */

/* The first of its times for which a message is sent. `due` is the first time of all, and has passed.  Sets left_out,
 * the number of times before the first one. */
static int64_t first_to_send(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us,
                             struct schedule_plan *ret)
{
    int64_t in_time_us = max64(due_us, time_sub(now_us, s->grace_us));
    int64_t first_us = due_us;
    if (s->missed == MISSED_ALL) {
        ret->over_gap = cron_count(&s->cron, zone, due_us, now_us, SCHEDULE_GAP_MAX) == SCHEDULE_GAP_MAX;
        if (ret->over_gap)
            first_us = cron_latest(&s->cron, zone, due_us, now_us, SCHEDULE_GAP_MAX);
    } else if (due_us < in_time_us) {
        first_us = cron_next(&s->cron, zone, in_time_us - 1);
        if (s->missed == MISSED_ONCE && first_us > now_us) {
            first_us = cron_latest(&s->cron, zone, due_us, now_us, 1);
            first_us = first_us == PR_NEVER ? due_us : first_us;
        }
    }
    if (first_us > due_us)
        ret->left_out = 1 + cron_count(&s->cron, zone, due_us, min64(first_us - 1, now_us), SCHEDULE_GAP_MAX);
    return first_us;
}

void schedule_plan(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us, size_t max,
                   struct schedule_plan *ret)
{
    *ret = (struct schedule_plan){ .next_us = due_us != 0 ? due_us : cron_next(&s->cron, zone, now_us) };
    if (ret->next_us > now_us)
        return;
    ret->next_us = first_to_send(s, zone, ret->next_us, now_us, ret);
    while (ret->next_us <= now_us && ret->count < min_size(max, SCHEDULE_TIMES_MAX)) {
        ret->times[ret->count++] = ret->next_us;
        ret->next_us = cron_next(&s->cron, zone, ret->next_us);
    }
}

bool schedule_is_ahead(const struct schedule *s, const struct zone *zone, int64_t due_us, int64_t now_us)
{
    int64_t next_us = cron_next(&s->cron, zone, cron_next(&s->cron, zone, now_us));
    return due_us != PR_NEVER && due_us > time_add(next_us, SCHEDULE_AHEAD_US);
}

int schedule_move_check(const struct schedule *s, bool is_paused, const struct zone *zone, int64_t to_us,
                        int64_t now_us, struct pr_error *reterr)
{
    if (is_paused)
        return error_set(reterr, PR_EINVAL, "schedule %.*s is paused: resume it first", SLICE_ARGS(s->name));
    if (to_us < time_sub(now_us, s->grace_us))
        return error_set(reterr, PR_EINVAL,
                         "the next time of schedule %.*s cannot be in the past; to send its message now, run it "
                         "(schedules run)",
                         SLICE_ARGS(s->name));
    if (schedule_is_ahead(s, zone, to_us, now_us))
        return error_set(reterr, PR_EINVAL,
                         "the next time of schedule %.*s can be at most one period and one day away; to skip more, "
                         "pause it",
                         SLICE_ARGS(s->name));
    return PR_OK;
}

/* ---- What is sent ----------------------------------------------------------------------------------- */

struct pr_message schedule_message(const struct schedule *s, pr_slice box, int64_t at_us, struct buf *headers)
{
    struct pr_message m = s->message;
    char at[TIME_TEXT_SIZE];
    time_format_rfc3339(at_us, at);
    size_t from = headers->size;
    const struct header ours[] = { { HEADER_SCHEDULE, s->name }, { HEADER_SCHEDULE_DUE, slice_from(at) } };
    headers_set(m.headers, ours, ARRAY_LENGTH(ours), headers);
    m.headers = PR_BYTES(headers->data + from, headers->size - from);
    schedule_message_id(box, s->name, at_us, &m.id);
    return m;
}
