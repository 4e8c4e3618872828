#include "ops/explain/message_why.h"

#include "base/error.h"
#include "base/slice.h"
#include "ops/endpoint.h"
#include "ops/reply.h"
#include "ops/explain/schedule_why.h"
#include "ops/explain/why_context.h"

#define WHY_TEXT_MAX (1u << 20) /* errors and notes are part of it */

static const char *take_text(struct why_context *v)
{
    const char *text = slice_dup(v->arena, buf_slice(&v->text)).data;
    buf_reset(&v->text);
    return text;
}

int message_why_make(struct message_why *o, struct pr_error *reterr)
{
    struct why_context v = { .o = o, .arena = o->arena, .l = o->listed, .now_us = o->reply->now_us };
    o->head = NULL;
    o->next_us = 0;
    o->command_count = 0;
    int rc = why_look_around(&v, reterr);
    if (rc != PR_OK)
        return rc;
    if (schedule_why_make(o, v.workers)) {
        if (o->next_us == PR_NEVER || o->next_us <= v.now_us)
            o->next_us = 0;
        return PR_OK;
    }
    buf_init(&v.text, WHY_TEXT_MAX);
    why_say_where(&v);
    o->now = take_text(&v);
    why_say_next(&v);
    o->next = take_text(&v);
    why_add_commands(&v);
    if (o->next_us == PR_NEVER || o->next_us <= v.now_us)
        o->next_us = 0;
    bool failed = buf_failed(&v.text) != PR_OK || o->now == NULL || o->next == NULL;
    buf_fini(&v.text);
    return failed ? error_set(reterr, PR_ENOMEM, "out of memory for the answer") : PR_OK;
}

/* Lines as one text. */
static void member_lines(struct json_writer *w, const struct message_why *o, const char *key, const char *lines)
{
    pr_slice text = slice_trim(slice_from(lines));
    char *copy = arena_dup(o->arena, text.data, text.size);
    for (size_t i = 0; copy != NULL && i < text.size; i++)
        if (copy[i] == '\n')
            copy[i] = ' ';
    member_text(w, key, (pr_slice){ copy, copy != NULL ? text.size : 0 });
}

static const struct member command_members[] = {
    /* clang-format off */
    MEMBER(message_why_command, "command", CSTR, command)
    MEMBER(message_why_command, "what", CSTR, what)
    /* clang-format on */
};

void why_commands_json(struct json_writer *w, const struct message_why_command *commands, size_t count)
{
    static const struct members members = MEMBERS(command_members);
    members_list(w, "commands", &members, commands, sizeof(*commands), count);
}

void message_why_json(struct json_writer *w, const struct message_why *o)
{
    char id[PR_ID_TEXT_SIZE] = "";
    if (o->head != NULL)
        pr_id_format(o->head->m.id, id);
    member_text(w, "waits_for", slice_from(id));
    member_lines(w, o, "now", o->now);
    json_key(w, "next");
    json_begin_object(w);
    member_lines(w, o, "what", o->next);
    member_time(w, "at", o->next_us);
    json_end_object(w);
    json_key(w, "breaker");
    breaker_json(w, o->breaker, o->reply->now_us);
    reply_list(w, "handled", REPLY_MARK, o->reply->marks, sizeof(*o->reply->marks), o->reply->mark_count);
    reply_list(w, "again", REPLY_AGAIN, o->reply->again, sizeof(*o->reply->again), o->reply->again_count);
    why_commands_json(w, o->commands, o->command_count);
}
