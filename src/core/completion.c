#include "core/completion.h"

int completion_effects(const struct completion *c, struct arena *arena, struct effect **ret, size_t *ret_count)
{
    size_t count = 0;
    for (const struct send_effect *f = c->effects; f != NULL; f = f->next)
        count++;
    struct effect *effects = arena_alloc_array(arena, count + 1, sizeof(effects[0]));
    if (effects == NULL)
        return PR_ENOMEM;
    *ret = effects;
    *ret_count = count;
    for (const struct send_effect *f = c->effects; f != NULL; f = f->next, effects++) {
        *effects = f->effect;
        effects->verdict = 0;
        effects->box = f->box;
        effects->message = &f->message;
    }
    return PR_OK;
}
