/* See random_flow.h. */
#include "random_flow.h"

#include "base/hash.h"
#include "base/random.h"
#include "base/slice.h"

/* One run of it, from the top. */
struct random_run {
    pr_flow *f;
    const struct random_flow *program;
    struct random random;
    uint64_t seen; /* a hash of all that the code was told */
    pr_task tasks[RANDOM_FLOW_STEPS];
    size_t count;
    int generation;
};

static const char *name_of(struct random_run *x)
{
    return random_chance(&x->random, 0.5) ? "x" : "y";
}

static pr_slice text_of(struct random_run *x)
{
    return pr_flow_printf(x->f, "%llu", (unsigned long long)x->seen);
}

static void see(struct random_run *x, int rc, pr_slice text)
{
    x->seen = hash_slice(x->seen + (unsigned)rc, text);
}

/* ---- Things that end some time ---------------------------------------------------------------------- */

static pr_task begin_activity(struct random_run *x)
{
    static const char *const sessions[] = { NULL, NULL, NULL, "one", "other" };
    struct pr_activity_options o = { .retry = { .tries = (int)random_below(&x->random, 5),
                                                .backoff = (enum pr_backoff)random_below(&x->random, 4),
                                                .first_us = PR_SECONDS(1),
                                                .max_us = PR_SECONDS(5),
                                                .jitter = 0.2 } };
    const char *name = x->program->activities[random_below(&x->random, 2)];
    if (random_chance(&x->random, 0.5))
        return pr_activity(x->f, name, text_of(x));
    o.session = sessions[random_below(&x->random, 5)];
    o.tag = random_chance(&x->random, 0.3) ? x->program->tag : NULL;
    o.schedule_to_start_us = random_chance(&x->random, 0.2) ? PR_SECONDS(20) : 0;
    return pr_activity_with(x->f, name, text_of(x), &o);
}

static const char *child_of(struct random_run *x)
{
    return x->program->children[random_below(&x->random, RANDOM_FLOW_CHILDREN)];
}

/* Some have an id that others may have, too. */
static struct pr_child_options options_of_child(struct random_run *x)
{
    static const char *const ids[] = { NULL, NULL, NULL, NULL, "kid-1", "kid-2" };
    return (struct pr_child_options){ .id = ids[random_below(&x->random, 6)] };
}

static pr_task begin(struct random_run *x)
{
    unsigned kind = (unsigned)random_below(&x->random, 10);
    const char *child = child_of(x);
    struct pr_child_options o = options_of_child(x);
    if (kind < 4)
        return begin_activity(x);
    if (kind < 6)
        return pr_timer(x->f, PR_SECONDS(random_between(&x->random, 0, 50)));
    if (kind == 6)
        return pr_event(x->f, name_of(x));
    if (kind == 7 || child == NULL)
        return pr_mail(x->f, name_of(x));
    return pr_child_with(x->f, child, text_of(x), &o);
}

/* ---- Steps -------------------------------------------------------------------------------------------- */

static int wait_for_one(struct random_run *x)
{
    pr_slice output = { "", 0 };
    int rc = pr_result(x->f, x->tasks[random_below(&x->random, x->count)], &output, NULL);
    see(x, rc, output);
    return rc == PR_FAILED ? PR_OK : rc;
}

static int wait_for_any(struct random_run *x)
{
    int rc = pr_any(x->f, x->count, x->tasks);
    x->seen += rc > 0 ? (unsigned)rc : 0;
    return rc > 0 || rc == PR_EINVAL ? PR_OK : rc; /* all of them may be cancelled */
}

/* The last two. */
static int wait_for_all(struct random_run *x)
{
    size_t count = x->count < 2 ? x->count : 2;
    return pr_all(x->f, count, &x->tasks[x->count - count]);
}

static int look_at_key(struct random_run *x)
{
    pr_slice value = { "", 0 };
    see(x, pr_state_get(x->f, slice_from(name_of(x)), &value), value);
    return PR_OK;
}

static int change_key(struct random_run *x)
{
    pr_slice key = slice_from(name_of(x));
    if (!random_chance(&x->random, 0.25))
        return pr_state_set(x->f, key, text_of(x));
    pr_state_clear(x->f, key);
    return PR_OK;
}

static int start_another(struct random_run *x)
{
    const char *child = child_of(x);
    struct pr_child_options o = options_of_child(x);
    return child != NULL ? pr_detach(x->f, child, text_of(x), &o) : PR_OK;
}

static int look_at_what_is_recorded(struct random_run *x)
{
    pr_id id = pr_uuid(x->f);
    x->seen = hash_u64(x->seen ^ pr_random(x->f) ^ (uint64_t)pr_now(x->f));
    see(x, PR_OK, (pr_slice){ (const char *)id.bytes, sizeof id.bytes });
    return PR_OK;
}

static int step(struct random_run *x)
{
    unsigned choice = (unsigned)(random_u64(&x->random) ^ x->seen) % 20;
    if (x->count == 0 || choice < 7) {
        x->tasks[x->count++] = begin(x);
        return PR_OK;
    }
    switch (choice) {
    case 7:
    case 8:
    case 9: return wait_for_one(x);
    case 10:
    case 11: return wait_for_any(x);
    case 12: return wait_for_all(x);
    case 13:
    case 14: pr_cancel(x->f, x->tasks[random_below(&x->random, x->count)]); return PR_OK;
    case 15: return look_at_what_is_recorded(x);
    case 16: return look_at_key(x);
    case 17: return change_key(x);
    case 18: return start_another(x);
    default: return pr_set_status(x->f, text_of(x));
    }
}

/* ---- The flow ------------------------------------------------------------------------------------------- */

/* Later generations have it in their input: "#1 ..." */
static int generation_of(pr_slice input)
{
    return input.size > 1 && input.data[0] == '#' ? input.data[1] - '0' : 0;
}

static int end(struct random_run *x, pr_slice *ret_output)
{
    *ret_output = text_of(x);
    if (pr_is_cancelled(x->f))
        return PR_ECANCELLED;
    if (x->generation >= x->program->generations || !random_chance(&x->random, 0.4))
        return PR_OK;
    const char *version = random_chance(&x->random, 0.5) ? x->program->next_version : NULL;
    return pr_continue_as_new(x->f, pr_flow_printf(x->f, "#%d %llu", x->generation + 1, (unsigned long long)x->seen),
                              version);
}

int random_flow_run(pr_flow *f, pr_slice input, pr_slice *ret_output)
{
    const struct random_flow *program = pr_flow_user(f);
    struct random_run x = {
        .f = f, .program = program, .seen = hash_slice(program->seed, input), .generation = generation_of(input)
    };
    random_init(&x.random, x.seen);
    for (int i = 0; i < RANDOM_FLOW_STEPS; i++) {
        int rc = step(&x);
        if (rc == PR_ECANCELLED)
            x.seen++; /* it was told, and goes on as if to clean up */
        else if (rc != PR_OK)
            return rc;
    }
    return end(&x, ret_output);
}
