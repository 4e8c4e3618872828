/* The types that claimers ask a shelf for, and how many messages of each ask: the box loop hands out no more. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/pull/shelf.h"

#define ASK_FORGET_US PR_SECONDS(600) /* how long an ask for these types is remembered */

static bool ask_is_used(const struct shelf_ask *a)
{
    return a->waiting + a->offered + a->claimed > 0;
}

static void ask_forget(struct shelf_ask *a)
{
    free(a->types);
    *a = (struct shelf_ask){ .present = false };
}

/* The entry for these types, or a free one; NULL: there are too many others. */
static struct shelf_ask *ask_place(struct pull_shelf *s, pr_slice types)
{
    struct shelf_ask *place = NULL;
    if (types.size == 0)
        return &s->asks[0];
    for (size_t i = 1; i < ASKS_MAX; i++) {
        struct shelf_ask *a = &s->asks[i];
        if (a->present && slice_eq_cstr(types, a->types))
            return a;
        if (!ask_is_used(a) && (place == NULL || !a->present || (place->present && a->asked_us < place->asked_us)))
            place = a;
    }
    return place;
}

struct shelf_ask *ask_for(struct pull_shelf *s, pr_slice types, struct pr_error *reterr)
{
    struct shelf_ask *a = ask_place(s, types);
    bool known = a != NULL && a->present;
    if (a == NULL) {
        error_set(reterr, PR_EINVAL,
                  "types: workers ask endpoint %s for %d different lists of types already: let workers of one kind ask "
                  "for the same list, or give some an endpoint of their own",
                  s->endpoint, ASKS_MAX - 1);
        return NULL;
    }
    if (types.size > 0 && !(known && slice_eq_cstr(types, a->types))) {
        char *copy = strndup(types.data, types.size);
        if (copy == NULL) {
            error_set(reterr, PR_ENOMEM, "out of memory for a list of types");
            return NULL;
        }
        ask_forget(a);
        a->types = copy;
    }
    a->present = true;
    return a;
}

void pull_asks(struct pull *p, pr_slice endpoint, pr_slice box, struct pull_asks *ret)
{
    char *at = ret->text;
    int64_t now = pull_now_us();
    pull_lock(p);
    struct pull_shelf *s = shelf_of(p, endpoint, box);
    for (size_t i = 0; i < ASKS_MAX; i++) {
        struct shelf_ask *a = s != NULL ? &s->asks[i] : NULL;
        ret->list[i] = (struct ask){ .present = false };
        if (a != NULL && a->present && !ask_is_used(a) && now >= time_add(a->asked_us, ASK_FORGET_US))
            ask_forget(a);
        if (a == NULL || !a->present)
            continue;
        size_t size = a->types != NULL ? strlen(a->types) : 0;
        if (size > 0)
            memcpy(at, a->types, size);
        ret->list[i] = (struct ask){ .types = { at, size }, .present = true, .room = a->claimed + a->demand };
        at += size;
    }
    pull_unlock(p);
}
