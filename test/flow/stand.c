#include "stand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"
#include "core/id.h"
#include "core/message.h"
#include "flow/replay.h"

#define NOW_US INT64_C(1700000000000000)

struct stand *stand_new(pr_flow_function function)
{
    struct stand *s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    s->code = (struct flow_code){ .name = PR_STR("test"), .version = PR_STR("1"), .function = function };
    s->now_us = NOW_US;
    arena_init(&s->turn, 65536);
    arena_init(&s->kept, 65536);
    return s;
}

void stand_free(struct stand *s)
{
    flow_history_fini(&s->history);
    arena_fini(&s->turn);
    arena_fini(&s->kept);
    free(s);
}

const char *stand_text(pr_slice s)
{
    static char texts[8][4096];
    static unsigned next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof texts[0], "%.*s", SLICE_ARGS(s));
    return text;
}

/* ---- What is kept ---------------------------------------------------------------------------------------- */

static struct pr_message keep_message(struct stand *s, const struct pr_message *m)
{
    struct pr_message copy;
    char *block = arena_alloc(&s->kept, message_bytes(m) + 1);
    CHECK(block != NULL);
    message_copy(m, block, &copy);
    return copy;
}

static void keep_row(struct stand *s, const struct flow_row *row)
{
    s->row = *row;
    s->has_row = true;
    pr_slice *const slices[] = { &s->row.id,    &s->row.name,   &s->row.version, &s->row.custom_status,
                                 &s->row.input, &s->row.output, &s->row.error,   &s->row.parent };
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++)
        *slices[i] = slice_dup(&s->kept, *slices[i]);
    s->row.restarts = false;
}

static void keep_value(struct stand *s, pr_slice key, pr_slice value)
{
    size_t at = 0;
    while (at < s->state_count && slice_cmp(s->state[at].key, key) < 0)
        at++;
    bool found = at < s->state_count && slice_eq(s->state[at].key, key);
    if (value.data == NULL && !found)
        return;
    if (value.data == NULL) {
        s->state_count--;
        memmove(&s->state[at], &s->state[at + 1], (s->state_count - at) * sizeof s->state[0]);
        return;
    }
    if (!found) {
        memmove(&s->state[at + 1], &s->state[at], (s->state_count - at) * sizeof s->state[0]);
        s->state_count++;
    }
    s->state[at] = (struct flow_value){ slice_dup(&s->kept, key), slice_dup(&s->kept, value) };
}

static void drop_message(struct pr_message *list, size_t *count, pr_id id)
{
    for (size_t i = 0; i < *count; i++) {
        if (pr_id_equal(list[i].id, id)) {
            list[i] = list[--*count];
            return;
        }
    }
}

static void put_message(struct stand *s, const struct effect *e)
{
    struct pr_error error;
    struct pr_message m = keep_message(s, e->message);
    CHECK_OK(message_check(&m, 1 << 24, &error), &error);
    CHECK(!pr_id_is_zero(m.id));
    if (slice_eq_cstr(e->box, "activities"))
        s->activities[s->activity_count++] = m;
    else if (slice_eq_cstr(m.stream, "f") && slice_eq_cstr(m.type, "timer"))
        s->timers[s->timer_count++] = m;
    else if (slice_eq_cstr(m.stream, "f"))
        s->queue[s->queued++] = m;
    else
        s->others[s->other_count++] = m;
}

static void check_guard(const struct stand *s, const struct effect *e)
{
    bool runs = s->has_row && s->row.state == FLOW_RUNNING;
    CHECK(e->takes_verdict);
    CHECK_EQ(e->expected, runs ? s->row.next : 0);
    CHECK(runs ? pr_id_equal(e->id, s->row.execution) : pr_id_is_zero(e->id));
    CHECK_EQ(e->flow->restarts, s->has_row && !runs);
}

static void apply(struct stand *s, const struct effect *e)
{
    switch (e->kind) {
    case EFFECT_FLOW: check_guard(s, e); break; /* the row is taken last: guards look at the old one */
    case EFFECT_EXECUTION: break;
    case EFFECT_HISTORY: CHECK_EQ((size_t)e->count, s->out.event_count); break;
    case EFFECT_MESSAGE: put_message(s, e); break;
    case EFFECT_STATE: keep_value(s, e->name, e->value); break;
    case EFFECT_DELETE:
        drop_message(s->activities, &s->activity_count, e->id);
        drop_message(s->timers, &s->timer_count, e->id);
        break;
    case EFFECT_MAIL:
        if (e->message == NULL)
            s->mail_count = 0;
        else
            s->mail[s->mail_count++] = keep_message(s, e->message);
        break;
    default: CHECK(false);
    }
}

/* ---- What holds for every turn ------------------------------------------------------------------------------ */

static void check_text(const struct stand *s)
{
    struct flow_history again;
    struct buf a, b;
    struct pr_error error;
    buf_init(&a, SIZE_MAX / 2);
    buf_init(&b, SIZE_MAX / 2);
    flow_history_init(&again, s->history.execution);
    flow_history_encode(&a, s->history.events, s->history.count, 1);
    CHECK_OK(flow_history_decode(&again, buf_slice(&a), &error), &error);
    flow_history_encode(&b, again.events, again.count, 1);
    CHECK(slice_eq(buf_slice(&a), buf_slice(&b)));
    CHECK_EQ(again.task_count, s->history.task_count);
    flow_history_fini(&again);
    buf_fini(&a);
    buf_fini(&b);
}

static void check_history(struct stand *s)
{
    struct pr_error error;
    struct flow_replayed replayed;
    struct arena arena;
    check_text(s);
    if (s->unchecked || s->history.count > 500)
        return;
    arena_init(&arena, 65536);
    CHECK_OK(flow_replay(&s->history, &s->code, &arena, &replayed, &error), &error);
    if (replayed.diverged)
        check_fail(__FILE__, __LINE__, "%s", stand_text(replayed.error.message));
    CHECK_EQ(replayed.added, 0);
    if (flow_check_prefixes(&s->history, &s->code, &arena, &error) != PR_OK)
        check_fail(__FILE__, __LINE__, "%s", error.text);
    arena_fini(&arena);
}

static void note_log(struct stand *s)
{
    for (const struct flow_log_line *line = s->out.log; line != NULL; line = line->next)
        snprintf(s->log + strlen(s->log), sizeof s->log - strlen(s->log), "%s%s\n", line->warning ? "warning: " : "",
                 stand_text(line->text));
}

/* ---- Turns ------------------------------------------------------------------------------------------------------ */

/* before: of another execution, which the effects and the row may still point into. */
static void append(struct stand *s, struct flow_history *before)
{
    struct pr_error error;
    if (s->history.count == 0 || !pr_id_equal(s->history.execution, s->out.execution)) {
        *before = s->history;
        flow_history_init(&s->history, s->out.execution);
    }
    CHECK_OK(flow_history_append(&s->history, s->out.events, s->out.event_count, &error), &error);
}

static void take(struct stand *s)
{
    bool done = s->out.kind == FLOW_TURN_DONE;
    struct flow_history before = { .count = 0 };
    if (done)
        append(s, &before);
    for (size_t i = 0; i < s->out.effect_count; i++)
        apply(s, &s->out.effects[i]);
    if (done)
        keep_row(s, s->out.row);
    flow_history_fini(&before);
    if (!done)
        return;
    if (s->row.next > 0)
        CHECK_EQ((size_t)s->row.next, s->history.count);
    if (s->dead.category == PR_CATEGORY_NONE)
        check_history(s);
}

void stand_run(struct stand *s)
{
    static const struct pr_message *run[STAND_MAX], *mail[64];
    static struct pr_message copies[STAND_MAX];
    struct pr_error error;
    size_t count = s->queued;
    memcpy(copies, s->queue, count * sizeof copies[0]);
    for (size_t i = 0; i < count; i++)
        run[i] = &copies[i];
    for (size_t i = 0; i < s->mail_count; i++)
        mail[i] = &s->mail[i];
    s->queued = 0;
    s->turns++;
    s->now_us += PR_SECONDS(1);
    uint8_t random[10] = { (uint8_t)s->turns, 1, 2, 3, 4, 5, 6, 7, 8, (uint8_t)(s->turns >> 8) };
    arena_reset(&s->turn);
    struct flow_turn_in in = { .code = s->no_code ? NULL : &s->code,
                               .flow = PR_STR("f"),
                               .row = s->has_row ? &s->row : NULL,
                               .history = s->history.count > 0 ? &s->history : NULL,
                               .state = s->state,
                               .state_count = s->state_count,
                               .messages = run,
                               .count = count,
                               .mail = mail,
                               .mail_count = s->mail_count,
                               .dead = s->dead.category != PR_CATEGORY_NONE ? &s->dead : NULL,
                               .now_us = s->now_us,
                               .seed = s->turns,
                               .turns_box = PR_STR("turns"),
                               .activities_box = PR_STR("activities"),
                               .keep_mail_us = PR_MINUTES(5),
                               .arena = &s->turn };
    id_make(s->now_us / 1000, random, &in.new_execution);
    random[5] = 99;
    id_make(s->now_us / 1000, random, &in.next_execution);
    CHECK_OK(flow_turn(&in, &s->out, &error), &error);
    take(s);
    note_log(s);
}

void stand_queue_raw(struct stand *s, const struct pr_message *m)
{
    s->queue[s->queued++] = keep_message(s, m);
}

void stand_queue(struct stand *s, const struct turn_message *m)
{
    struct pr_message made;
    pr_id id;
    pr_id_new(&id);
    CHECK_EQ(turn_message_make(m, id, &s->kept, &made), PR_OK);
    stand_queue_raw(s, &made);
}

struct turn_message stand_result_of(const struct stand *s, int64_t task, const char *output)
{
    return (struct turn_message){ .kind = TURN_RESULT,
                                  .flow = PR_STR("f"),
                                  .execution = s->row.execution,
                                  .task = task,
                                  .data = slice_from(output) };
}

struct turn_message stand_fired(const struct stand *s, int64_t task)
{
    return (
        struct turn_message){ .kind = TURN_TIMER, .flow = PR_STR("f"), .execution = s->row.execution, .task = task };
}

struct turn_message stand_named(const struct stand *s, enum turn_message_kind kind, const char *name, const char *data)
{
    (void)s;
    return (
        struct turn_message){ .kind = kind, .flow = PR_STR("f"), .name = slice_from(name), .data = slice_from(data) };
}

static void run_with(struct stand *s, struct turn_message m)
{
    stand_queue(s, &m);
    stand_run(s);
}

void stand_start(struct stand *s, const char *input)
{
    run_with(s, stand_named(s, TURN_START, "test", input));
}

void stand_resume(struct stand *s)
{
    struct turn_message m = stand_named(s, TURN_START, "test", stand_text(s->row.input));
    m.resume = true;
    run_with(s, m);
}

void stand_result(struct stand *s, int64_t task, const char *output)
{
    run_with(s, stand_result_of(s, task, output));
}

void stand_fail(struct stand *s, int64_t task, const char *error)
{
    struct turn_message m = stand_result_of(s, task, error);
    m.failed = true;
    run_with(s, m);
}

void stand_fire(struct stand *s, int64_t task)
{
    run_with(s, stand_fired(s, task));
}

void stand_child(struct stand *s, int64_t task, const char *output)
{
    struct turn_message m = stand_result_of(s, task, output);
    m.kind = TURN_CHILD;
    run_with(s, m);
}

void stand_event(struct stand *s, const char *name, const char *data)
{
    run_with(s, stand_named(s, TURN_EVENT, name, data));
}

void stand_mail(struct stand *s, const char *name, const char *data)
{
    run_with(s, stand_named(s, TURN_MAIL, name, data));
}

void stand_cancel(struct stand *s)
{
    run_with(s, stand_named(s, TURN_CANCEL, NULL, "enough"));
}

/* ---- Looking ------------------------------------------------------------------------------------------------------ */

static struct flow_error error_of(const struct stand *s)
{
    static struct arena arena;
    struct flow_error e = { .category = PR_CATEGORY_NONE };
    struct pr_error error;
    if (arena.block_size == 0)
        arena_init(&arena, 4096);
    arena_reset(&arena);
    if (s->row.error.size > 0)
        CHECK_OK(flow_error_decode(s->row.error, &arena, &e, &error), &error);
    return e;
}

const char *stand_error(const struct stand *s)
{
    return stand_text(error_of(s).message);
}

enum pr_category stand_category(const struct stand *s)
{
    return error_of(s).category;
}

const char *stand_value(const struct stand *s, const char *key)
{
    for (size_t i = 0; i < s->state_count; i++) {
        if (slice_eq_cstr(s->state[i].key, key))
            return stand_text(s->state[i].value);
    }
    return NULL;
}

const char *stand_events(const struct stand *s, size_t from)
{
    static char text[4096];
    text[0] = '\0';
    for (size_t i = from - 1; i < s->history.count; i++) {
        const struct flow_event *e = &s->history.events[i];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s%s", text[0] != '\0' ? ", " : "",
                 flow_event_kind_name(e->kind), e->name.size > 0 ? " " : "", stand_text(e->name));
    }
    return text;
}

size_t stand_effects(const struct stand *s, int kind)
{
    size_t count = 0;
    for (size_t i = 0; i < s->out.effect_count; i++)
        count += (int)s->out.effects[i].kind == kind;
    return count;
}

int stand_history(struct flow_history *h, const char *lines, struct pr_error *reterr)
{
    static const pr_id execution = { { 1, 2, 3 } };
    flow_history_init(h, execution);
    return flow_history_decode(h, slice_from(lines), reterr);
}
