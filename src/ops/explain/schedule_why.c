#include "ops/explain/schedule_why.h"

#include "base/shell.h"
#include "base/slice.h"
#include "core/message.h"
#include "core/schedule.h"
#include "ops/explain/words.h"

#define NO_WORKER " No instance serves this box: start postrider run."

static const char *clean(const struct message_why *o, pr_slice text)
{
    return text_clean_copy(o->arena, text);
}

static const char *missed_words(enum schedule_missed missed)
{
    static const char *const words[] = { [MISSED_ONCE] = "of missed runs it sends the latest",
                                         [MISSED_SKIP] = "missed runs are skipped",
                                         [MISSED_ALL] = "missed runs are sent late, at most 1,000" };
    return words[missed];
}

static void add(struct message_why *o, const char *command, const char *what)
{
    o->commands[o->command_count++] =
        (struct message_why_command){ arena_printf(o->arena, "postrider schedules %s %s", command,
                                                   shell_argument(o->arena, o->listed->m.stream))
                                          .data,
                                      what };
}

static void say_next(struct message_why *o, const struct pr_message *m, uint64_t workers)
{
    int64_t now_us = o->reply->now_us;
    const char *lost = workers == 0 ? NO_WORKER : "";
    if (m->due_us == PR_NEVER)
        o->next = "Nothing happens by itself.\n";
    else if (m->due_us <= now_us)
        o->next = arena_printf(o->arena, "It is due now.%s\n", lost).data;
    else
        o->next = arena_printf(o->arena, "It sends its message in %s (%s).%s\n",
                               span_words(o->arena, m->due_us - now_us), time_words(o->arena, m->due_us), lost)
                      .data;
    o->next_us = m->due_us;
}

bool schedule_why_make(struct message_why *o, uint64_t workers)
{
    const struct pr_message *m = &o->listed->m;
    struct pr_error error = { .code = 0 };
    struct schedule s;
    enum state state = o->listed->state;
    bool in_box = state != STATE_DEAD && state != STATE_DONE && state != STATE_GONE;
    if (!schedule_is_row(m) || !in_box)
        return false;
    const char *name = clean(o, m->stream);
    bool readable = schedule_decode(m->stream, m->payload, o->arena, &s, &error) == PR_OK && !s.cancel;
    const char *paused = m->due_us == PR_NEVER ? "It is paused: it sends nothing until you resume it.\n" : "";
    const char *failed = message_has_failed(m) ? clean(o, m->error) : "";
    if (readable)
        o->now = arena_printf(o->arena, "It is the schedule %s: it sends %s at the times of \"%s\" (%s); %s.\n%s%s%s%s",
                              name, clean(o, s.message.type), clean(o, s.cron_text),
                              s.zone_name.size > 0 ? clean(o, s.zone_name) : "UTC", missed_words(s.missed), paused,
                              failed[0] != '\0' ? "Last run: " : "", failed, failed[0] != '\0' ? ".\n" : "")
                     .data;
    else
        o->now = arena_printf(o->arena, "It is about the schedule %s%s%s.\n%s", name, error.code != 0 ? ": " : "",
                              error.code != 0 ? error.text : ", which it cancels", paused)
                     .data;
    say_next(o, m, workers);
    add(o, "show", "show its next runs");
    add(o, "run", "send its message now without changing its schedule");
    add(o, m->due_us == PR_NEVER ? "resume" : "pause",
        m->due_us == PR_NEVER ? "resume it" : "stop it until you resume it");
    add(o, "cancel", "remove it");
    return o->now != NULL && o->next != NULL;
}
