/* schedule.h - schedules for people. */
#ifndef OPS_SCHEDULE_H
#define OPS_SCHEDULE_H

#include "base/json.h"
#include "store/schedules.h"

#define SCHEDULE_TIMES_SHOWN 5

/* Its next times after this one, as far as they are known; returns how many. */
size_t schedule_next_times(const struct schedule_info *info, int64_t now_us, int64_t ret[SCHEDULE_TIMES_SHOWN]);
#define SCHEDULE_COMES_BACK "it is in the configuration, and comes back at the next start: remove it there, too"
/* Does one of them come from the configuration? */
bool schedules_have_config(const struct schedule_info *list, size_t count);
/* One object. */
void schedule_json(struct json_writer *w, const struct schedule_info *info, int64_t now_us);

#endif
