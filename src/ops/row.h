/* row.h - rows of people's listings as JSON objects. */
#ifndef OPS_ROW_H
#define OPS_ROW_H

#include "base/json.h"
#include "store/store.h"

void group_json(struct json_writer *w, const struct dead_group *group);
void stream_json(struct json_writer *w, const struct stream_info *stream);

#endif
