#include "core/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "core/message.h"

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

char *output_copy(pr_slice output)
{
    char *copy = malloc(output.size + 1);
    if (copy == NULL)
        return NULL;
    if (output.size > 0)
        memcpy(copy, output.data, output.size);
    copy[output.size] = '\0';
    return copy;
}

static pr_slice put_slice(char **at, pr_slice s)
{
    pr_slice put = { s.data != NULL ? *at : NULL, s.size };
    if (s.size > 0)
        memcpy(*at, s.data, s.size);
    *at += s.size;
    return put;
}

struct send_effect *send_effect_copy(const struct send_effect *f)
{
    const struct effect *e = &f->effect;
    size_t bytes = f->box.size + e->key.size + e->name.size + e->value.size;
    size_t row_bytes = e->flow != NULL ? sizeof(*e->flow) + flow_row_bytes(e->flow) : 0;
    struct send_effect *copy = malloc(sizeof(*copy) + row_bytes + bytes + message_bytes(&f->message));
    if (copy == NULL)
        return NULL;
    char *at = (char *)(copy + 1) + row_bytes;
    *copy = (struct send_effect){ .effect = *e, .box = put_slice(&at, f->box) };
    if (e->flow != NULL)
        copy->effect.flow = flow_row_copy(e->flow, copy + 1);
    copy->effect.key = put_slice(&at, e->key);
    copy->effect.name = put_slice(&at, e->name);
    copy->effect.value = put_slice(&at, e->value);
    message_copy(&f->message, at, &copy->message);
    return copy;
}

int effects_copy(const struct send_effect *effects, struct send_effect **ret)
{
    struct send_effect **tail = ret;

    *ret = NULL;
    for (; effects != NULL; effects = effects->next) {
        struct send_effect *copy = send_effect_copy(effects);
        if (copy == NULL) {
            effects_free(*ret);
            *ret = NULL;
            return PR_ENOMEM;
        }
        *tail = copy;
        tail = &copy->next;
    }
    return PR_OK;
}
