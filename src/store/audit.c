#include "store/audit.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/util.h"

const char *admin_name(enum admin_kind kind)
{
    return action_of(kind)->name;
}

static void write_id(struct json_writer *w, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];
    pr_id_format(id, text);
    json_cstr(w, text);
}

static void write_time(struct json_writer *w, const char *key, int64_t us)
{
    if (us == 0 || us == PR_NEVER)
        return;
    json_put_time(w, key, us);
}

static void write_ids(struct json_writer *w, const struct admin *admin)
{
    bool imports = admin->kind == ADMIN_DEAD_IMPORT;
    size_t count = imports ? admin->letter_count : admin->filter.id_count;
    if (count == 0)
        return;
    json_key(w, "ids");
    json_begin_array(w);
    for (size_t i = 0; i < count && i < AUDIT_IDS_MAX; i++)
        write_id(w, imports ? admin->letters[i].m.id : admin->filter.ids[i]);
    json_end_array(w);
    if (count > AUDIT_IDS_MAX)
        json_put_uint(w, "id_count", count);
}

static void write_edit(struct json_writer *w, const struct dead_edit *edit)
{
    const struct {
        const char *name;
        bool is_changed;
    } parts[] = { { "payload", edit->payload != NULL },
                  { "headers", edit->headers != NULL },
                  { "destination", edit->destination != NULL },
                  { "type", edit->type != NULL } };
    json_key(w, "changed");
    json_begin_array(w);
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        if (parts[i].is_changed)
            json_cstr(w, parts[i].name);
    json_end_array(w);
}

static void write_flows(struct json_writer *w, const struct flow_order *flow)
{
    json_key(w, "flows");
    json_begin_array(w);
    for (size_t i = 0; i < flow->flow_count && i < AUDIT_IDS_MAX; i++)
        json_slice(w, flow->flows[i]);
    json_end_array(w);
    if (flow->flow_count > AUDIT_IDS_MAX)
        json_put_uint(w, "flow_count", flow->flow_count);
    if (flow->force)
        json_put_bool(w, "force", true);
    if (flow->keep > 0)
        json_put_uint(w, "keep", (uint64_t)flow->keep);
    write_time(w, "before", flow->before_us);
}

void audit_write_target(struct buf *b, const struct admin *admin)
{
    const struct filter *f = &admin->filter;
    const struct {
        const char *name;
        pr_slice value;
    } texts[] = { { "box", f->box },
                  { "endpoint", f->endpoint },
                  { "type", f->type },
                  { "stream", f->stream },
                  { "error", f->error },
                  { "fingerprint", f->fingerprint },
                  { "correlation_id", f->correlation_id } };
    struct json_writer w;

    json_init(&w, b);
    json_begin_object(&w);
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (texts[i].value.size > 0)
            json_put_slice(&w, texts[i].name, texts[i].value);
    if (f->reason != 0)
        json_put_cstr(&w, "reason", pr_reason_name(f->reason));
    if (f->state >= 0 && f->state < STATE_COUNT)
        json_put_cstr(&w, "state", state_name((enum state)f->state));
    write_time(&w, "since", f->since_us);
    write_time(&w, "until", f->until_us);
    if (f->limit > 0)
        json_put_uint(&w, "limit", f->limit);
    if (f->row != 0)
        json_put_uint(&w, "row", f->row);
    json_put_some(&w, "subscription", admin->subscription);
    if (admin->kind == ADMIN_SUBSCRIPTION_RESET)
        json_put_uint(&w, "position", admin->position);
    write_ids(&w, admin);
    if (admin->flow != NULL)
        write_flows(&w, admin->flow);
    if (admin->edit != NULL)
        write_edit(&w, admin->edit);
    if (admin->kind == ADMIN_PAUSE)
        write_time(&w, "paused_until", admin->until_us);
    json_end_object(&w);
}
