/* The commands that would change the message. */
#include "base/error.h"
#include "base/shell.h"
#include "base/slice.h"
#include "ops/explain/why_context.h"

static void add(struct why_context *v, const char *command, const char *what, const char *target)
{
    ASSERT(v->o->command_count < WHY_COMMANDS_MAX);
    v->o->commands[v->o->command_count++] =
        (struct message_why_command){ arena_printf(v->arena, "postrider %s %s", command, target).data, what };
}

/* A message that cannot be decoded dies again when it is replayed. */
static void add_dead_commands(struct why_context *v, const char *which)
{
    if (!pr_id_is_zero(v->l->edited_as)) {
        ; /* the corrected one is another message */
    } else if (v->l->m.type.size == 0) {
        add(v, "dead edit", "give it a type, and send it (or --data, --file, --header, --to)",
            arena_printf(v->arena, "%s --type TYPE", which).data);
    } else {
        if (v->l->bad == NULL)
            add(v, "dead replay", "deliver it after all, in its old place", which);
        add(v, "dead edit", "correct it first (or --file, --header, --to)",
            arena_printf(v->arena, "%s --data 'TEXT'", which).data);
    }
    add(v, "dead discard", "delete it permanently", which);
}

void why_add_commands(struct why_context *v)
{
    const struct message_why *o = v->o;
    enum state state = v->l->state;
    if (state == STATE_DONE || state == STATE_GONE)
        return;
    const char *which = why_name(v, o->reply, v->l, o->endpoint);
    if (state == STATE_DEAD) {
        add_dead_commands(v, which);
        return;
    }
    if (state == STATE_RETRYING || state == STATE_PARKED || state == STATE_DELAYED)
        add(v, "retry", "try it now, with counters reset", which);
    if (state == STATE_HELD && o->head != NULL)
        add(v, "release", "let it overtake", which);
    if (v->turn.before != NULL) {
        char before[PR_ID_TEXT_SIZE];
        pr_id_format(v->turn.before->m.id, before);
        add(v, "why", "explain that message", before);
    }
    if (state == STATE_PAUSED)
        add(v, "resume", "start sending to it again, now", shell_argument(v->arena, o->endpoint));
    if (o->breaker != NULL)
        add(v, "pause", "stop the probes (--for 5m; then postrider resume)",
            shell_argument(v->arena, o->breaker->endpoint));
    if (state != STATE_PARKED)
        add(v, "park", "set it aside", which);
    if (state == STATE_DELAYED)
        add(v, "reschedule", "set another time", arena_printf(v->arena, "%s --due 2h", which).data);
    add(v, "discard", "delete it without delivering", which);
    add(v, "dead add", "move it to the dead letters; give the reason",
        arena_printf(v->arena, "%s --why 'TEXT'", which).data);
}
