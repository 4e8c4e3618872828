/* Dead letters that come from elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "store/memory/memory_model.h"

/* One dead letter as it came, with the memory that it needs. */
static struct stored *letter_new(struct box *box, const struct listed *l, struct after_life **ret_after)
{
    struct stored *row = row_new(box, &l->m);
    struct after_life *after = after_life_new(l->endpoint, l->rule, l->note);
    if (row == NULL || after == NULL) {
        row_free(row);
        free(after);
        return NULL;
    }
    after->cause = l->cause;
    after->limit = l->limit;
    after->at_us = l->died_us;
    after->edited_as = l->edited_as;
    if (l->fingerprint.size > 0)
        memcpy(after->fingerprint, l->fingerprint.data, min_size(l->fingerprint.size, sizeof(after->fingerprint) - 1));
    *ret_after = after;
    return row;
}

static int letter_answer(struct memory *memory, const struct listed *l)
{
    const struct box *box = box_find(memory, l->box);
    if (box == NULL)
        return PR_UNKNOWN;
    bool there =
        row_find_id(box, l->m.id, l->m.destination) != NULL || dead_find_id(box, l->m.id, l->m.destination) != NULL;
    return there ? PR_DUPLICATE : PR_OK;
}

struct letter {
    struct stored *row;
    struct after_life *after;
};

/* Takes the memory for all, then puts in those that are new. */
static int letters_put(struct memory *memory, const struct admin *admin, struct letter *letters,
                       struct admin_reply *reply)
{
    for (size_t i = 0; i < admin->letter_count; i++) {
        const struct listed *l = &admin->letters[i];
        if (admin->dry_run || letter_answer(memory, l) != PR_OK)
            continue;
        letters[i].row = letter_new(box_find(memory, l->box), l, &letters[i].after);
        if (letters[i].row == NULL)
            return PR_ENOMEM;
    }
    for (size_t i = 0; i < admin->letter_count; i++) {
        int answer = letter_answer(memory, &admin->letters[i]); /* again: one of them may be there twice */
        if (answer == PR_OK && !admin->dry_run) {
            dead_link(letters[i].row, letters[i].after);
            letters[i] = (struct letter){ NULL, NULL };
        }
        reply->matched++;
        reply->changed += answer == PR_OK;
        reply->refused += answer != PR_OK;
        if (admin->answers != NULL)
            admin->answers[i] = answer;
    }
    return PR_OK;
}

int memory_import(struct memory *memory, const struct admin *admin, struct admin_reply *reply, int64_t now_us)
{
    struct letter *letters = calloc(admin->letter_count + 1, sizeof(letters[0]));
    struct audit *audit = audit_new(admin, now_us);
    struct stored_notice *reload = notice_new(NULL, NOTICE_RELOAD, NULL, (pr_slice){ NULL, 0 });
    int rc =
        letters != NULL && audit != NULL && reload != NULL ? letters_put(memory, admin, letters, reply) : PR_ENOMEM;

    for (size_t i = 0; letters != NULL && i < admin->letter_count; i++) {
        row_free(letters[i].row);
        free(letters[i].after);
    }
    free(letters);
    if (rc == PR_OK && !admin->dry_run) {
        audit_add(memory, audit, reply);
        notice_add(memory, reload);
        list_foreach(node, &memory->boxes)
            box_touch(LIST_ENTRY(node, struct box, node));
        return PR_OK;
    }
    free(audit);
    free(reload);
    return rc;
}
