/* model_same.c - does a store have the contents of the model? */
#include "model_run.h"

#include <stdarg.h>
#include <stdio.h>

bool run_wrong(struct run *run, const char *format, ...)
{
    if (run->failure[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(run->failure, sizeof(run->failure), format, args);
        va_end(args);
    }
    return false;
}

bool same_text(struct run *run, const char *what, pr_slice got, const char *wanted)
{
    return slice_eq_cstr(got, wanted) ||
           run_wrong(run, "%s is \"%.*s\", the model says \"%s\"", what, SLICE_ARGS(got), wanted);
}

/* What the model cannot know is learned at first sight. */
static bool learn(struct run *run, struct model_row *r, const struct listed *l)
{
    if (r->seq == 0) {
        r->seq = l->m.seq;
        if (r->seq <= run->m.seq_last)
            return run_wrong(run, "a new row has place %" PRId64 ", one before has %" PRId64, r->seq, run->m.seq_last);
        run->m.seq_last = r->seq;
    }
    if (r->row == 0)
        r->row = l->row;
    return r->row != 0 || run_wrong(run, "a row has no name");
}

static bool same_row(struct run *run, struct model_row *r, const struct listed *l)
{
    if (!learn(run, r, l))
        return false;
    enum state state = model_state(&run->m, r);
    return SAME(run, "row", l->row, r->row) && SAME(run, "seq", l->m.seq, r->seq) &&
           SAME(run, "due", l->m.due_us, r->due_us) && SAME(run, "created", l->m.created_us, r->created_us) &&
           SAME(run, "status", l->m.status, r->status) && SAME(run, "attempts", l->m.attempts, r->attempts) &&
           SAME(run, "failures", l->m.failures, r->failures) && SAME(run, "reason", l->m.reason, r->reason) &&
           SAME(run, "failed", l->m.failed_us, r->failed_us) && SAME(run, "released", l->m.released, r->released) &&
           same_text(run, "stream", l->m.stream, r->stream) && same_text(run, "payload", l->m.payload, r->payload) &&
           same_text(run, "error", l->m.error, r->error) && same_text(run, "held_by", l->m.held_by, r->held_by) &&
           (r->held_by[0] == '\0' || SAME(run, "held_for", l->m.held_for, r->held_for)) &&
           (r->retold || same_text(run, "story", l->m.story, r->story)) &&
           (state == STATE_COUNT || same_text(run, "state", pr_str(state_name(l->state)), state_name(state)));
}

static bool same_dead(struct run *run, struct model_row *r, const struct listed *l)
{
    return SAME(run, "dead: seq", l->m.seq, r->seq) && SAME(run, "dead: created", l->m.created_us, r->created_us) &&
           SAME(run, "dead: attempts", l->m.attempts, r->attempts) &&
           SAME(run, "dead: failures", l->m.failures, r->failures) &&
           SAME(run, "dead: reason", l->m.reason, r->reason) &&
           SAME(run, "dead: failed", l->m.failed_us, r->failed_us) && SAME(run, "dead: died", l->died_us, r->died_us) &&
           SAME(run, "dead: cause", l->cause, r->cause) && SAME(run, "dead: state", l->state, STATE_DEAD) &&
           same_text(run, "dead: stream", l->m.stream, r->stream) &&
           same_text(run, "dead: payload", l->m.payload, r->payload) &&
           same_text(run, "dead: error", l->m.error, r->error) &&
           SAME(run, "dead: released", l->m.released, r->released) && same_text(run, "dead: held_by", l->m.held_by, "");
}

static bool same_place(struct run *run, enum query_kind kind, enum model_place place,
                       bool (*same)(struct run *, struct model_row *, const struct listed *))
{
    struct arena arena;
    struct query_reply reply = { 0 };
    struct query query = { .kind = kind, .filter = FILTER(.box = PR_STR("outbox"), .limit = 1000) };
    struct pr_error error;
    arena_init(&arena, 16384);
    bool ok =
        store_query(&run->s->store, &query, &arena, &reply, &error) == PR_OK || run_wrong(run, "query: %s", error.text);
    ok =
        ok && SAME(run, place == MODEL_DEAD ? "dead letters" : "rows", reply.listed_count, model_count(&run->m, place));
    for (size_t i = 0; ok && i < reply.listed_count; i++) {
        const struct listed *l = &reply.listed[i];
        char destination[MODEL_TEXT_MAX];
        snprintf(destination, sizeof(destination), "%.*s", SLICE_ARGS(l->m.destination));
        struct model_row *r = model_find(&run->m, l->m.id, destination, place);
        ok = r != NULL ? same(run, r, l) : run_wrong(run, "the model does not have a row to \"%s\"", destination);
    }
    arena_fini(&arena);
    return ok;
}

bool same_box(struct run *run)
{
    return same_place(run, QUERY_MESSAGES, MODEL_IN_BOX, same_row);
}

bool same_dead_letters(struct run *run)
{
    return same_place(run, QUERY_DEAD, MODEL_DEAD, same_dead);
}
