/* reply.h - rows of people's replies as JSON objects: their tables of members (see member.h). */
#ifndef OPS_REPLY_H
#define OPS_REPLY_H

#include "ops/member.h"
#include "store/schedules.h"

/* Each with its struct. */
enum reply_shape {
    REPLY_BOX,              /* box_reply */
    REPLY_CONDITION,        /* condition_reply ... */
    REPLY_ENDPOINT,         /* ... endpoint_state: counts ... */
    REPLY_FAILURE,          /* ... and its latest failure */
    REPLY_BREAKER,          /* breaker_info */
    REPLY_INSTANCE,         /* instance_info */
    REPLY_GROUP,            /* group_reply */
    REPLY_STREAM,           /* stream_info */
    REPLY_EVENT,            /* stored_event */
    REPLY_MESSAGE,          /* listed ... */
    REPLY_DEAD,             /* ... members of dead letters only ... */
    REPLY_END,              /* ... and the ledger's entry: end_reply */
    REPLY_MARK,             /* mark_info */
    REPLY_AGAIN,            /* again_info */
    REPLY_CHANGE,           /* admin_reply ... */
    REPLY_HANDLED,          /* ... of a replay ... */
    REPLY_MISSING,          /* ... */
    REPLY_FURTHER,          /* ... and optional ones */
    REPLY_FLOW,             /* flow_row */
    REPLY_FLOW_STATES,      /* query_reply, of a QUERY_FLOWS */
    REPLY_TOLD,             /* flow_tell_result */
    REPLY_RETRIED,          /* flow_retried */
    REPLY_SCHEDULE,         /* schedule_reply ... */
    REPLY_SCHEDULE_MESSAGE, /* ... and what it sends */
};

/* Structs with computed values, in addition to what the store returns. */
struct box_reply {
    struct box_counts counts;
    bool exact; /* false: the counts are lower bounds */
    int64_t oldest_age_us;
};
struct condition_reply {
    pr_slice state;
    int64_t until_us;
    pr_slice by, why;
};
struct group_reply {
    struct dead_group group;
    uint64_t count; /* COUNT_EXACT_MAX at most */
    bool exact;     /* false: the counts are lower bounds */
};
struct end_reply {
    int outcome; /* enum ended_as */
    int64_t ended_us;
    pr_slice instance, by; /* one of them: an instance, or a person */
};
struct schedule_reply {
    struct schedule_info info;
    const char *grace, *origin;
    pr_id id;
    pr_slice in; /* the box of the schedule; info.s.box is where its messages go */
};

/* The members of row, a struct of that shape, into an open object. */
void reply_write(struct json_writer *w, enum reply_shape shape, const void *row);
/* "KEY":[{...},...] into an open object. */
void reply_list(struct json_writer *w, const char *key, enum reply_shape shape, const void *rows, size_t row_size,
                size_t count);
/* Into row, which must be zero; see members_read(). */
void reply_parse(const json_t *object, enum reply_shape shape, struct arena *arena, void *row);

/* Whole objects. */
void group_json(struct json_writer *w, const struct dead_group *group);
void stream_json(struct json_writer *w, const struct stream_info *stream);
void instance_json(struct json_writer *w, const struct instance_info *instance);

/* Questions whose answer is a list of rows, each with its members: the table is in reply.c.  name: the list's key in
 * the API. */
bool reply_list_find(pr_slice name, enum query_kind *ret);
/* "NAME":[...] into an open object. */
void reply_list_write(struct json_writer *w, enum query_kind kind, const struct query_reply *reply);
/* One row of it, as an object. */
void reply_row_json(struct json_writer *w, enum query_kind kind, const void *row);
/* Its rows, consecutive in memory; returns how many. */
size_t reply_rows(enum query_kind kind, const struct query_reply *reply, const char **ret_rows, size_t *ret_size);
/* The text for an empty list. */
const char *reply_none(enum query_kind kind);
/* A row as cells of a table for people, one for each member; the heads are in the format of table_init(). */
const char *reply_heads(enum query_kind kind, struct arena *arena);
pr_slice reply_cell(enum query_kind kind, const void *row, size_t column, struct arena *arena);

#endif
