#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

static void diary_add(struct stage *s, const struct note *note)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 256 : s->capacity * 2;
        s->diary = realloc(s->diary, s->capacity * sizeof(*s->diary));
        ASSERT(s->diary != NULL);
    }
    s->diary[s->count++] = *note;
}

static long number_after(pr_slice text, const char *word)
{
    size_t size = strlen(word);
    if (text.size < size || memcmp(text.data, word, size) != 0)
        return -1;
    if (text.size == size)
        return 1000000;
    return text.data[size] == ':' ? strtol(text.data + size + 1, NULL, 10) : -1;
}

static void fail(struct fate *f, int reason)
{
    f->outcome = SEND_FAILED;
    f->reason = reason;
    f->arrives = false;
}

/* Payloads are NUL terminated: the world copies them so. */
static void stage_judge(struct world *w, const struct delivery *d, unsigned endpoint, struct fate *f)
{
    struct stage *s = w->user;
    const struct pr_message *m = d->message;
    char text[64] = "";
    pr_slice payload;
    struct note note = { w->mono_us, m->id, parcel_of(w, m)->m.stream, endpoint, d->attempt, m->status };

    diary_add(s, &note);
    memcpy(text, m->payload.data, min_size(m->payload.size, sizeof(text) - 1));
    payload = slice_from(text);
    f->answer_us = PR_MILLISECONDS(1);
    if (m->failures < number_after(payload, "fail"))
        fail(f, PR_REASON_HANDLER_EXCEPTION);
    else if (m->failures < number_after(payload, "down"))
        fail(f, PR_REASON_TRANSPORT_UNAVAILABLE);
    else if (number_after(payload, "late") > 0) {
        fail(f, PR_REASON_HANDLER_EXCEPTION);
        f->answer_us = PR_MILLISECONDS(number_after(payload, "late"));
    } else if (number_after(payload, "slow") > 0)
        f->answer_us = PR_MILLISECONDS(number_after(payload, "slow"));
    else if (slice_eq_cstr(payload, "crash"))
        *f = (struct fate){ .outcome = SEND_OK, .crash = true, .answer_us = PR_SECONDS(1) };
    else if (slice_eq_cstr(payload, "event") && (m->status & PR_STATUS_EVENT_STORED) == 0) {
        fail(f, PR_REASON_TRANSPORT_UNAVAILABLE);
        f->bits = PR_STATUS_EVENT_STORED;
    }
}

void stage_set(struct stage *s)
{
    memset(s, 0, sizeof(*s));
    scenario_calm(&s->scenario);
    s->scenario.check = true;
}

struct endpoint_setting *stage_endpoint(struct stage *s, enum ordering ordering)
{
    unsigned i = (unsigned)s->scenario.engine.endpoint_count++;
    struct endpoint_setting *e = &s->scenario.endpoints[i];

    *e = s->scenario.endpoints[0];
    e->name = scenario_endpoint(i);
    e->ordering = ordering;
    return e;
}

void stage_open(struct stage *s)
{
    world_init_with(&s->w, &s->scenario);
    s->w.judge = stage_judge;
    s->w.user = s;
}

void stage_close(struct stage *s)
{
    CHECK(s->w.broken == NULL);
    world_fini(&s->w);
    free(s->diary);
}

void stage_run(struct stage *s, int64_t us)
{
    int64_t until_us = s->w.mono_us + us;

    while (world_next(&s->w, until_us))
        for (unsigned i = 0; i < s->scenario.instances; i++)
            if (s->w.instances[i].state == INSTANCE_DOWN)
                instance_start(&s->w, &s->w.instances[i]);
    s->w.mono_us = max64(s->w.mono_us, until_us);
}

void stage_stop(struct stage *s)
{
    struct instance *in = &s->w.instances[0];

    instance_stop(&s->w, in, PR_SECONDS(10));
    while (in->state == INSTANCE_UP && world_next(&s->w, s->w.mono_us + PR_SECONDS(10)))
        ;
    CHECK_EQ(in->state, INSTANCE_DOWN);
}

const struct note *stage_send(const struct stage *s, pr_id id, unsigned n)
{
    for (size_t i = 0; i < s->count; i++)
        if (pr_id_equal(s->diary[i].id, id) && --n == 0)
            return &s->diary[i];
    return NULL;
}

size_t stage_sends(const struct stage *s, pr_id id)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += pr_id_equal(s->diary[i].id, id);
    return n;
}

int64_t stage_first_us(const struct stage *s, pr_id id)
{
    const struct note *note = stage_send(s, id, 1);
    return note != NULL ? note->at_us : PR_NEVER;
}

bool stage_done(struct stage *s, pr_id id)
{
    return world_deliveries(&s->w, id) > 0 && world_state(&s->w, id, (pr_slice){ NULL, 0 }) == STATE_GONE;
}

struct listed stage_look(struct stage *s, pr_id id)
{
    struct query query = { .kind = QUERY_ID, .filter = { .ids = &id, .id_count = 1, .state = -1 } };
    struct query_reply reply;
    int rc = store_query(&s->w.store, &query, &s->w.arena, &reply, NULL);

    CHECK_EQ(rc, PR_OK);
    CHECK_EQ(reply.listed_count, 1);
    return reply.listed[0];
}

static struct admin_reply act(struct stage *s, struct admin admin)
{
    struct admin_reply reply;
    admin.by = PR_STR("test");
    int rc = store_admin(&s->w.store, &admin, &reply, NULL);
    CHECK_EQ(rc, PR_OK);
    world_announce(&s->w);
    return reply;
}

struct admin_reply stage_admin(struct stage *s, enum admin_kind kind, pr_id id)
{
    return act(s, (struct admin){ .kind = kind, .filter = { .ids = &id, .id_count = 1, .state = -1 } });
}

struct admin_reply stage_admin_stream(struct stage *s, enum admin_kind kind, const char *stream)
{
    return act(s, (struct admin){ .kind = kind,
                                  .filter = { .box = PR_STR("outbox"), .stream = pr_str(stream), .state = -1 } });
}
