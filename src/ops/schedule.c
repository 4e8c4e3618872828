#include "ops/schedule.h"

#include "base/units.h"
#include "ops/message.h"
#include "ops/reply.h"

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

void schedule_json(struct json_writer *w, const struct schedule_info *info, int64_t now_us)
{
    int64_t times[SCHEDULE_TIMES_SHOWN];
    size_t count = schedule_next_times(info, now_us, times);
    char grace[DURATION_TEXT_SIZE];
    struct schedule_reply r = { .info = *info,
                                .grace = grace,
                                .origin = info->s.config.size > 0 ? "config" : "added",
                                .id = info->row->m.id,
                                .in = info->row->box };
    duration_format(info->s.grace_us, grace);
    if (r.info.s.zone_name.size == 0)
        r.info.s.zone_name = PR_STR("UTC");
    if (r.info.s.box.size == 0)
        r.info.s.box = r.in;
    json_begin_object(w);
    reply_write(w, REPLY_SCHEDULE, &r);
    json_key(w, "next");
    json_begin_array(w);
    for (size_t i = 0; i < count; i++)
        json_time(w, times[i]);
    json_end_array(w);
    reply_write(w, REPLY_SCHEDULE_MESSAGE, &r);
    payload_json(w, info->s.message.payload);
    json_end_object(w);
}
