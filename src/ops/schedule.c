#include "ops/schedule.h"

#include "base/units.h"
#include "core/columns.h"
#include "ops/member.h"
#include "ops/message.h"

size_t schedule_next_times(const struct schedule_info *info, int64_t now_us, int64_t ret[SCHEDULE_TIMES_SHOWN])
{
    const struct zone *zone;
    struct pr_error why;
    size_t count = 0;
    if (info->state == SCHEDULE_DEAD || info->state == SCHEDULE_PAUSED || info->error.size > 0 || info->s.cancel ||
        zone_find(info->s.zone_name, &zone, &why) != PR_OK)
        return 0;
    int64_t at_us = info->next_us != 0 ? info->next_us : cron_next(&info->s.cron, zone, now_us);
    while (count < SCHEDULE_TIMES_SHOWN && at_us != PR_NEVER) {
        ret[count++] = at_us;
        at_us = cron_next(&info->s.cron, zone, at_us);
    }
    return count;
}

bool schedules_have_config(const struct schedule_info *list, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found |= list[i].s.config.size > 0;
    return found;
}

static void message_members(struct json_writer *w, const struct pr_message *m)
{
    member_text(w, "type", m->type);
    member_text(w, "stream", m->stream);
    member_text(w, "destination", m->destination);
#define X(column, ...) member_text(w, #column, m->column);
    SENDER_TEXTS(X)
#undef X
    json_key(w, "event");
    json_bool(w, m->event);
    json_key(w, "headers");
    if (m->headers.size > 0)
        json_raw_shown(w, m->headers);
    else
        json_cstr(w, NULL);
    payload_json(w, m->payload);
}

void schedule_json(struct json_writer *w, const struct schedule_info *info, int64_t now_us)
{
    int64_t times[SCHEDULE_TIMES_SHOWN];
    size_t count = schedule_next_times(info, now_us, times);
    char id[PR_ID_TEXT_SIZE], grace[DURATION_TEXT_SIZE];
    pr_id_format(info->row->m.id, id);
    duration_format(info->s.grace_us, grace);
    json_begin_object(w);
    member_text(w, "name", info->s.name);
    json_key(w, "state");
    json_cstr(w, schedule_state_name(info->state));
    member_text(w, "cron", info->s.cron_text);
    json_key(w, "zone");
    json_slice(w, info->s.zone_name.size > 0 ? info->s.zone_name : PR_STR("UTC"));
    json_key(w, "missed");
    json_cstr(w, schedule_missed_name(info->s.missed));
    json_key(w, "grace");
    json_cstr(w, grace);
    member_time(w, "next_at", info->next_us);
    json_key(w, "next");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        json_time(w, times[i]);
    json_end_array(w);
    member_text(w, "error", info->error);
    json_key(w, "origin");
    json_cstr(w, info->s.config.size > 0 ? "config" : "added");
    json_key(w, "id");
    json_cstr(w, id);
    member_text(w, "in", info->row->box);
    json_key(w, "box");
    json_slice(w, info->s.box.size > 0 ? info->s.box : info->row->box);
    message_members(w, &info->s.message);
    json_end_object(w);
}
