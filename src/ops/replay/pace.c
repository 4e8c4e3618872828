#include "ops/replay/pace.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/member.h"

struct look {
    int64_t at_us; /* 0: there was none */
    struct arena arena;
    struct endpoint_state *endpoints; /* name, sent, failed */
    size_t count;
};

struct paces {
    pthread_mutex_t lock;
    struct look looks[2];
    int earlier; /* which of the two is the older one */
};

static struct pace pace_between(const struct endpoint_state *before, const struct endpoint_state *after,
                                int64_t over_us)
{
    double seconds = (double)over_us / 1e6;
    if (over_us <= 0 || after->sent < before->sent || after->failed < before->failed)
        return (struct pace){ .over_us = 0 }; /* the clock went back, or it is another store */
    return (struct pace){ (double)(after->sent - before->sent) / seconds,
                          (double)(after->failed - before->failed) / seconds, over_us };
}

static const struct member pace_members[] = {
    /* clang-format off */
    MEMBER(pace, "sent_per_second", DOUBLE, sent)
    MEMBER(pace, "failed_per_second", DOUBLE, failed)
    MEMBER(pace, "over_seconds", SPAN, over_us)
    /* clang-format on */
};

void pace_json(struct json_writer *w, const struct pace *rate)
{
    static const struct members table = MEMBERS(pace_members);
    json_key(w, "rates");
    if (rate->over_us == 0) {
        json_cstr(w, NULL);
        return;
    }
    members_object(w, &table, rate);
}

struct paces *paces_new(void)
{
    struct paces *paces = calloc(1, sizeof *paces);
    if (paces == NULL)
        return NULL;
    ASSERT(pthread_mutex_init(&paces->lock, NULL) == 0);
    for (int i = 0; i < 2; i++)
        arena_init(&paces->looks[i].arena, 1024);
    return paces;
}

void paces_free(struct paces *paces)
{
    if (paces == NULL)
        return;
    for (int i = 0; i < 2; i++)
        arena_fini(&paces->looks[i].arena);
    pthread_mutex_destroy(&paces->lock);
    free(paces);
}

static void look_take(struct look *look, const struct query_reply *reply)
{
    arena_reset(&look->arena);
    look->at_us = 0;
    look->count = reply->endpoint_count;
    look->endpoints = arena_alloc_array(&look->arena, look->count, sizeof look->endpoints[0]);
    for (size_t i = 0; look->endpoints != NULL && i < look->count; i++) {
        const struct endpoint_state *e = &reply->endpoints[i];
        look->endpoints[i] =
            (struct endpoint_state){ .name = slice_dup(&look->arena, e->name), .sent = e->sent, .failed = e->failed };
        if (look->endpoints[i].name.data == NULL)
            return;
    }
    if (look->endpoints != NULL)
        look->at_us = reply->now_us;
}

/* An endpoint that is missing in the earlier look had sent nothing. */
static struct pace pace_since(const struct look *look, const struct endpoint_state *e, int64_t now_us)
{
    static const struct endpoint_state nothing;
    for (size_t i = 0; i < look->count; i++)
        if (slice_eq(look->endpoints[i].name, e->name))
            return pace_between(&look->endpoints[i], e, now_us - look->at_us);
    return pace_between(&nothing, e, now_us - look->at_us);
}

void paces_look(struct paces *paces, const struct query_reply *reply, struct pace *ret)
{
    ASSERT(pthread_mutex_lock(&paces->lock) == 0);
    const struct look *latest = &paces->looks[1 - paces->earlier];
    if (latest->at_us == 0 || reply->now_us - latest->at_us >= PACE_SPAN_US || reply->now_us < latest->at_us) {
        look_take(&paces->looks[paces->earlier], reply);
        paces->earlier = 1 - paces->earlier;
    }
    const struct look *since = &paces->looks[paces->earlier];
    if (since->at_us == 0)
        since = &paces->looks[1 - paces->earlier];
    for (size_t i = 0; i < reply->endpoint_count; i++)
        ret[i] = since->at_us != 0 ? pace_since(since, &reply->endpoints[i], reply->now_us) : (struct pace){ 0 };
    ASSERT(pthread_mutex_unlock(&paces->lock) == 0);
}
