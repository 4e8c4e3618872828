#include "runtime/effects.h"

#include <stdio.h>

#include "base/slice.h"
#include "transport/delivery.h"
#include "transport/transport.h"

#define QUERY_BLOCK 4096

bool box_is_known(const struct config *config, struct store *store, pr_slice name)
{
    if (config != NULL && config_find_box(config, name) != NULL)
        return true;
    struct arena arena;
    struct query query = { .kind = QUERY_BOXES, .brief = true };
    struct query_reply reply;
    struct pr_error error;
    arena_init(&arena, QUERY_BLOCK);
    /* If the store fails, storing the effect will report it. */
    bool found = store_query(store, &query, &arena, &reply, &error) != PR_OK;
    for (size_t i = 0; !found && i < reply.box_count; i++)
        found = slice_eq(reply.boxes[i].name, name);
    arena_fini(&arena);
    return found;
}

static void fail(struct delivery_result *result, const char *code, const char *text)
{
    struct delivery_result was = *result;
    result_failed(result, was.token, SEND_FAILED, PR_REASON_HANDLER_EXCEPTION, code, slice_from(text));
    result->bits = was.bits;
    result->settled = was.settled;
    result->settled_arg = was.settled_arg;
    result->settled_as = PR_EINVAL;
    was.settled = NULL;
    delivery_result_fini(&was);
}

void effects_check(const struct config *config, struct store *store, bool messages_only, struct delivery_result *result)
{
    for (const struct send_effect *e = result->effects; e != NULL; e = e->next) {
        if (messages_only && e->effect.kind != EFFECT_MESSAGE) {
            fail(result, "effect_inline", "its handler stores more than messages, which needs mode: durable");
            return;
        }
        bool in_box = e->effect.kind == EFFECT_MESSAGE || e->effect.kind == EFFECT_DELETE;
        if (in_box && !box_is_known(config, store, e->box)) {
            char text[256];
            snprintf(text, sizeof text,
                     "its handler sent a message to unknown box %.*s; add it under boxes:", SLICE_ARGS(e->box));
            fail(result, "box_unknown", text);
            return;
        }
    }
}
