/* The programs of flow_world.h: flows of random steps, some that kill, and activities that fail from time to time. */
#include "flow_world.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"

/* ---- Activities ------------------------------------------------------------------------------------ */

static void take_note(struct flow_world *w, const struct pr_activity_info *info, bool failed, pr_slice text)
{
    ASSERT(w->note_count < FLOW_NOTES_MAX);
    w->notes[w->note_count++] = (struct flow_note){
        .execution = info->execution, .number = info->number, .failed = failed, .text = slice_dup(&w->kept, text)
    };
    if (text.data == NULL)
        w->notes[w->note_count - 1].text = text;
}

static void check_tag(struct flow_world *w, const struct pr_activity_info *info)
{
    if (info->tag.size == 0)
        return;
    w->more.tagged++;
    if (!w->offers_tag[w->at_work])
        flow_broken(w, "I53", "task %d needs %.*s, and runs in an instance that does not offer it", (int)info->number,
                    SLICE_ARGS(info->tag));
}

static int fail_activity(struct flow_world *w, struct pr_activity_context *c)
{
    enum pr_category category = random_chance(&w->random, 0.05) ? PR_CATEGORY_INFRASTRUCTURE : PR_CATEGORY_APPLICATION;
    bool retryable = random_chance(&w->random, 0.8);
    pr_slice why = arena_printf(&w->kept, "try %zu failed", w->note_count);
    take_note(w, pr_activity_info(c), true, why);
    return pr_activity_fail(c, category, retryable, "%.*s", SLICE_ARGS(why));
}

static int do_something(struct pr_activity_context *c, pr_slice input, pr_slice *ret_output, void *user)
{
    struct flow_world *w = user;
    (void)input;
    check_tag(w, pr_activity_info(c));
    take_note(w, pr_activity_info(c), false, (pr_slice){ NULL, 0 });
    if (random_chance(&w->random, 0.25))
        return fail_activity(w, c);
    *ret_output = arena_printf(&w->kept, "done %zu", w->note_count);
    take_note(w, pr_activity_info(c), false, *ret_output);
    return PR_OK;
}

static int kill_instance(struct pr_activity_context *c, pr_slice input, pr_slice *ret_output, void *user)
{
    struct flow_world *w = user;
    (void)input;
    take_note(w, pr_activity_info(c), false, (pr_slice){ NULL, 0 });
    *ret_output = PR_STR("nobody hears of it");
    w->killed = true;
    return PR_OK;
}

/* ---- Flows ------------------------------------------------------------------------------------------- */

/* Some at once, some after waiting. */
static int killing_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    struct flow_world *w = pr_flow_user(f);
    if (hash_slice(0, input) % 2 == 0) {
        int rc = pr_result(f, pr_timer(f, PR_SECONDS(1)), ret_output, NULL);
        if (rc != PR_OK)
            return rc;
    }
    w->killed = true;
    return PR_SUSPEND;
}

static int calling_killer(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    return pr_call(f, FLOW_KILLS, input, ret_output);
}

static int unrecorded_flow(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    static unsigned calls;
    int rc = pr_call(f, calls++ % 3 == 0 ? "a" : "b", input, ret_output);
    return rc == PR_FAILED ? PR_OK : rc;
}

static void add_flow(struct program *p, const char *name, const char *version, pr_flow_function function, void *user)
{
    int rc = flow_registry_add(&p->flows, name, version, function, user, NULL);
    ASSERT(rc == PR_OK);
}

static void add_activity(struct program *p, const char *name, pr_activity_function function, void *user)
{
    p->activities[p->activity_count++] =
        (struct activity_entry){ .name = slice_from(name), .function = function, .user = user };
}

/* Code of a family: roots have children, which have none. */
static struct random_flow *make_code(struct flow_world *w, size_t program, size_t at, uint64_t seed)
{
    struct random_flow *c = &w->codes[program][at];
    bool is_root = at % 2 == 0;
    *c = (struct random_flow){ .seed = seed + at,
                               .generations = 2,
                               .next_version = at == 0 ? "2" : NULL, /* who has it not waits for somebody who has */
                               .activities = { "a", seed % 7 == 0 ? FLOW_KILLS : "b" },
                               .tag = FLOW_TAG };
    if (is_root)
        memcpy(c->children, (const char *[]){ "kid", "kid", "kid", seed % 5 == 0 ? FLOW_KILLS : "kid" },
               sizeof(c->children));
    return c;
}

static void make_program(struct flow_world *w, size_t number, uint64_t seed)
{
    struct program *p = calloc(1, sizeof(*p));
    ASSERT(p != NULL);
    w->programs[number] = p;
    flow_registry_init(&p->flows);
    pr_flow_function run = w->bug == FLOWS_CODE_IS_RANDOM ? unrecorded_flow : random_flow_run;
    add_flow(p, "root", "1", run, make_code(w, number, 0, seed));
    add_flow(p, "kid", "1", random_flow_run, make_code(w, number, 1, seed));
    add_flow(p, FLOW_KILLS, "1", killing_flow, w);
    add_flow(p, FLOW_CALLS_KILLER, "1", calling_killer, w);
    add_activity(p, "a", do_something, w);
    add_activity(p, "b", do_something, w);
    add_activity(p, FLOW_KILLS, kill_instance, w);
    if (w->offers_tag[number] || w->bug == FLOWS_TAG_IS_IGNORED)
        p->tags[p->tag_count++] = PR_STR(FLOW_TAG);
    if (number == 0)
        return;
    add_flow(p, "root", "2", random_flow_run, make_code(w, number, 2, seed + 10));
    add_flow(p, "kid", "2", random_flow_run, make_code(w, number, 3, seed + 10));
}

void flow_programs_make(struct flow_world *w)
{
    uint64_t seed = random_u64(&w->random) >> 8;
    w->offers_tag[0] = random_chance(&w->random, 0.5);
    w->offers_tag[1] = true;
    make_program(w, 0, seed);
    make_program(w, 1, w->code_changes ? seed + 1000 : seed);
}

void flow_programs_free(struct flow_world *w)
{
    for (size_t i = 0; i < FLOW_PROGRAMS; i++) {
        flow_registry_fini(&w->programs[i]->flows);
        free(w->programs[i]);
    }
}
