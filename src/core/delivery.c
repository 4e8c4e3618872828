#include "core/delivery.h"

#include <stdlib.h>

void effects_append(struct send_effect **list, struct send_effect *more)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = more;
}

void effects_free(struct send_effect *effects)
{
    while (effects != NULL) {
        struct send_effect *next = effects->next;
        free(effects);
        effects = next;
    }
}
