#include "source/undecodable.h"

#include <stdio.h>
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

void undecodable_note(struct undecodable_log *l, const char *why)
{
    l->count++;
    snprintf(l->why, sizeof(l->why), "%s", why);
}

void undecodable_log_line(struct undecodable_log *l, const struct log *log, const char *source, pr_slice box,
                          int64_t now_us)
{
    if (l->count == 0 || (l->told_us != 0 && now_us - l->told_us < PR_SECONDS(1)))
        return;
    log_emit(log, LOG_WARN, "undecodable", LOG_STR("source", source), LOG_SLICE("box", box),
             LOG_INT("messages", l->count), LOG_STR("error", l->why), LOG_STR("next", "see postrider dead list"));
    l->count = 0;
    l->told_us = now_us;
}
