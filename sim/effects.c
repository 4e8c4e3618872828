/* Effects of every kind that handlers of the simulated world make, and what the store kept of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "store/memory/memory.h"
#include "world.h"

static const char *const streams[SIM_EFFECT_KEYS] = { "e0", "e1", "e2" };
static const char *const flows[SIM_EFFECT_KEYS] = { "x0", "x1", "x2" };

static struct send_effect *effect_new(const struct parcel *p, struct effect effect, struct send_effect *next)
{
    size_t bytes = message_bytes(&p->m);
    struct send_effect *e = calloc(1, sizeof(*e) + bytes);
    ASSERT(e != NULL);
    message_copy(&p->m, (char *)(e + 1), &e->message);
    e->effect = effect;
    e->box = PR_STR("outbox");
    e->next = next;
    return e;
}

/* One of each kind; its guards are as the world knows them now, and may fail when they are stored. */
struct send_effect *effects_make(struct world *w, const struct parcel *p)
{
    unsigned key = p->typed - 1;
    pr_id nobody = { { 0xff, (uint8_t)key } };
    struct send_effect *list = effect_new(p, (struct effect){ .kind = EFFECT_DELETE, .id = nobody }, NULL);
    list = effect_new(p, (struct effect){ .kind = EFFECT_SEEN, .id = p->m.id, .key = PR_STR("sim") }, list);
    list = effect_new(p,
                      (struct effect){ .kind = EFFECT_STATE,
                                       .key = pr_str(flows[key]),
                                       .name = PR_STR("n"),
                                       .value = p->index % 3 == 0 ? (pr_slice){ NULL, 0 } : PR_STR("v") },
                      list);
    list = effect_new(p,
                      (struct effect){ .kind = EFFECT_HISTORY,
                                       .takes_verdict = true,
                                       .key = pr_str(flows[key]),
                                       .value = PR_STR("{}"),
                                       .count = 1 + p->index % 3,
                                       .expected = w->effect_numbers[EFFECT_HISTORY][key] },
                      list);
    list =
        effect_new(p,
                   (struct effect){
                       .kind = EFFECT_EVENT, .takes_verdict = true, .expected = w->effect_numbers[EFFECT_EVENT][key] },
                   list);
    list->message.stream = pr_str(streams[key]);
    list->message.type = PR_STR("t");
    return list;
}

void effects_witness(struct world *w, struct event event, const struct effect *effect, int answer, int verdict)
{
    pr_slice key = effect->kind == EFFECT_EVENT ? effect->message->stream : effect->key;
    event.kind = EVENT_EFFECT;
    event.what = (uint16_t)effect->kind;
    event.destination = key.size == 2 ? (uint16_t)(key.data[1] - '0') : 0;
    event.number = (int32_t)effect->expected;
    event.value = effect->kind == EFFECT_EVENT ? 1 : effect->count;
    event.answer = (int16_t)answer;
    event.extra = (uint64_t)verdict;
    if (answer == PR_OK)
        w->effect_numbers[effect->kind][event.destination] += event.value;
    world_note(w, event);
}

/* Number of events or entries of history in the store under this key. */
static int64_t kept_count(const char *text, const char *kind, const char *key)
{
    char prefix[32];
    int64_t count = 0;
    snprintf(prefix, sizeof(prefix), "%s %s ", kind, key);
    for (const char *at = text; at != NULL && *at != '\0';
         at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL) {
        long long first, entries;
        if (strncmp(at, prefix, strlen(prefix)) != 0)
            continue;
        bool history = strcmp(kind, "history") == 0;
        count += history && sscanf(at + strlen(prefix), "%lld %lld", &first, &entries) == 2 ? entries : 1;
    }
    return count;
}

void effects_note_kept(struct world *w)
{
    struct buf text;
    if (w->store.ops != &store_memory || w->first != w)
        return; /* the answers were checked; and handlers of other worlds have none */
    buf_init(&text, 64u << 20);
    memory_effects_write(&w->store, &text);
    const char *data = text.size > 0 ? text.data : "";
    for (unsigned k = 0; k < SIM_EFFECT_KEYS; k++) {
        struct event event = {
            .kind = EVENT_KEPT, .instance = INSTANCE_NONE, .message = MESSAGE_NONE, .destination = (uint16_t)k
        };
        event.what = EFFECT_EVENT;
        event.value = kept_count(data, "event", streams[k]);
        world_note(w, event);
        event.what = EFFECT_HISTORY;
        event.value = kept_count(data, "history", flows[k]);
        world_note(w, event);
    }
    buf_fini(&text);
}
