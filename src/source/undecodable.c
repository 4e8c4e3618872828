#include "source/undecodable.h"

#include <stdlib.h>

#include "base/slice.h"

int undecodable_init(struct undecodable *u, const struct pr_message *m, pr_slice error, pr_slice why, int64_t now_us)
{
    u->verdict =
        (struct verdict){ .reason = PR_REASON_SERIALIZATION_ERROR, .error = error, .rule = PR_STR(UNDECODABLE_RULE) };
    u->texts = verdict_write_texts(&u->verdict, (pr_slice){ NULL, 0 },
                                   (struct story_line){ .at_us = now_us, .step = "dead_letter" });
    fingerprint(m->destination, m->type, PR_REASON_SERIALIZATION_ERROR, why, u->print);
    return u->texts != NULL ? PR_OK : PR_ENOMEM;
}

void undecodable_fini(struct undecodable *u)
{
    free(u->texts);
}
