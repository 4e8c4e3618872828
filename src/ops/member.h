/* member.h - members of JSON objects that may be null. */
#ifndef OPS_MEMBER_H
#define OPS_MEMBER_H

#include "base/json.h"
#include "store/store.h"

static inline void member_text(struct json_writer *w, const char *key, pr_slice value)
{
    json_key(w, key);
    if (value.size > 0)
        json_slice(w, value);
    else
        json_cstr(w, NULL);
}

/* 0 and PR_NEVER are null. */
static inline void member_time(struct json_writer *w, const char *key, int64_t us)
{
    json_key(w, key);
    if (us != 0 && us != PR_NEVER)
        json_time(w, us);
    else
        json_cstr(w, NULL);
}

/* A count of the store, and whether it is exact or only the least. */
static inline void member_count(struct json_writer *w, const char *key, const char *exact_key, uint64_t count)
{
    json_key(w, key);
    json_uint(w, count <= COUNT_EXACT_MAX ? count : COUNT_EXACT_MAX);
    json_key(w, exact_key);
    json_bool(w, count <= COUNT_EXACT_MAX);
}

#endif
