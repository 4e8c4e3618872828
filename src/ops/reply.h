/* reply.h - rows of people's replies as JSON objects.
 *
 * One table of members for each struct (reply.c).  It writes the object for --json and for the API, and reads it for
 * --remote: what is missing there, or of another type, is as if it were null, since a newer daemon may say more and an
 * older one less.  What is computed and not stored (an age, a state by the clock) is its writer's affair. */
#ifndef OPS_REPLY_H
#define OPS_REPLY_H

#include "base/json.h"
#include "store/store.h"

#include <jansson.h>

/* Each with its struct. */
enum reply_shape {
    REPLY_BOX,      /* box_counts */
    REPLY_ENDPOINT, /* endpoint_state: counts ... */
    REPLY_FAILURE,  /* ... and its latest failure */
    REPLY_BREAKER,  /* breaker_info */
    REPLY_INSTANCE, /* instance_info */
    REPLY_GROUP,    /* dead_group */
    REPLY_STREAM,   /* stream_info */
    REPLY_EVENT,    /* stored_event */
    REPLY_MESSAGE,  /* listed ... */
    REPLY_DEAD,     /* ... and what only dead letters have */
};

/* The members of row, a struct of that shape, into an object that is open. */
void reply_write(struct json_writer *w, enum reply_shape shape, const void *row);
/* Into row, which is zero.  Texts go into the arena; an object that is NULL or something else has no members. */
void reply_parse(const json_t *object, enum reply_shape shape, struct arena *arena, void *row);

/* Whole objects. */
void group_json(struct json_writer *w, const struct dead_group *group);
void stream_json(struct json_writer *w, const struct stream_info *stream);
void instance_json(struct json_writer *w, const struct instance_info *instance);

/* Questions whose answer is a list of rows, each with its members: the table is in reply.c.  name: its key in the API. */
bool reply_list_find(pr_slice name, enum query_kind *ret);
/* "NAME":[...] into an object that is open. */
void reply_list_write(struct json_writer *w, enum query_kind kind, const struct query_reply *reply);
/* One row of it, as an object. */
void reply_row_json(struct json_writer *w, enum query_kind kind, const void *row);
/* Its rows, one behind the other; how many. */
size_t reply_rows(enum query_kind kind, const struct query_reply *reply, const char **ret_rows, size_t *ret_size);
/* What is said when it has none. */
const char *reply_none(enum query_kind kind);
/* A row as cells of a table for people, one for each member; the heads are as table_init() takes them. */
const char *reply_heads(enum query_kind kind, struct arena *arena);
pr_slice reply_cell(enum query_kind kind, const void *row, size_t column, struct arena *arena);

#endif
