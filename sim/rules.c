/* See rules.h. */
#include "rules.h"

#include <math.h>

#include "base/slice.h"
#include "base/util.h"
#include "dice.h"
#include "scenario.h"

static const int drawn_reasons[] = {
    PR_REASON_TRANSPORT_UNAVAILABLE, PR_REASON_TIMEOUT_EXCEEDED,  PR_REASON_DEPENDENCY_FAILURE,
    PR_REASON_RATE_LIMITED,          PR_REASON_REJECTED,          PR_REASON_VALIDATION_FAILURE,
    PR_REASON_UNAUTHORIZED,          PR_REASON_HANDLER_EXCEPTION, PR_REASON_MESSAGE_TOO_LARGE,
};
static const char *const globs[] = { "t0.*", "*.b", "t1.a", "raised" };

/* ---- Drawing ------------------------------------------------------------------------------- */

static void draw_step(const struct scenario *s, struct random *r, bool last, struct sim_step *step)
{
    static const enum step ends[] = { STEP_DEAD_LETTER, STEP_DEAD_LETTER, STEP_DISCARD, STEP_PARK, STEP_PAUSE };
    int endpoints = (int)s->engine.endpoint_count;

    *step = (struct sim_step){ .to = SIM_NOBODY, .raise_to = SIM_NOBODY };
    step->step = last && random_chance(r, 0.7) ? ends[random_below(r, ARRAY_LENGTH(ends))]
                 : random_chance(r, 0.5)       ? STEP_RETRY_NOW
                                               : STEP_RETRY;
    step->times = (int)random_between(r, 1, 3);
    step->delay_count = (size_t)random_between(r, 1, SIM_RULE_DELAYS_MAX);
    for (size_t i = 0; i < step->delay_count; i++)
        step->delays[i] = random_between(r, 0, PR_MINUTES(5));
    if (step->step == STEP_DEAD_LETTER && random_chance(r, 0.5))
        step->to = (int)random_below(r, (uint64_t)endpoints);
    if (step->step == STEP_PAUSE || random_chance(r, 0.2))
        step->pause_us = s->safety_us / random_between(r, 20, 200) + 1;
    step->raise = random_chance(r, 0.2);
    if (random_chance(r, 0.7))
        step->raise_to = (int)random_below(r, (uint64_t)endpoints);
}

static void draw_rule(const struct scenario *s, struct random *r, int owner, struct sim_rule *rule)
{
    *rule = (struct sim_rule){ .owner = owner, .step_count = (size_t)random_between(r, 1, SIM_STEPS_MAX) };
    for (size_t i = 0; i < ARRAY_LENGTH(drawn_reasons) && random_chance(r, 0.8); i++)
        if (random_chance(r, 0.4))
            rule->reasons |= 1u << drawn_reasons[i];
    if (random_chance(r, 0.3))
        rule->type = globs[random_below(r, ARRAY_LENGTH(globs))];
    if (random_chance(r, 0.2))
        rule->failures_max = (int)random_between(r, 1, 4);
    for (size_t i = 0; i < rule->step_count; i++)
        draw_step(s, r, i + 1 == rule->step_count, &rule->steps[i]);
    /* What is too large stays so when the world has healed: with pause alone that has no end. */
    if (rule->steps[rule->step_count - 1].step == STEP_PAUSE) {
        rule->reasons &= ~(1u << PR_REASON_MESSAGE_TOO_LARGE);
        rule->reasons |= 1u << PR_REASON_TIMEOUT_EXCEEDED;
    }
}

void rules_draw(struct scenario *s)
{
    struct random r;

    die_init(&r, s->seed, "rules");
    s->rule_count = 0;
    if (random_chance(&r, 0.5))
        return;
    for (int owner = SIM_NOBODY; owner < (int)s->engine.endpoint_count; owner++)
        while (s->rule_count < SIM_RULES_MAX && random_chance(&r, 0.4))
            draw_rule(s, &r, owner, &s->rules[s->rule_count++]);
    rules_link(s);
}

/* ---- For the engine --------------------------------------------------------------------------- */

static void link_step(const struct scenario *s, const struct sim_step *from, struct raise *raise, struct rule_step *to)
{
    *to = (struct rule_step){ .step = from->step, .times = from->times, .pause_us = from->pause_us };
    if (from->step == STEP_RETRY)
        to->retry = (struct retry_setting){ .delays = from->delays, .delay_count = from->delay_count };
    if (from->to != SIM_NOBODY)
        to->to = s->endpoints[from->to].name;
    if (!from->raise)
        return;
    *raise = (struct raise){ .type = PR_STR("raised"), .stream = PR_STR("about {stream}") };
    if (from->raise_to != SIM_NOBODY)
        raise->to = s->endpoints[from->raise_to].name;
    to->raise = raise;
}

static void link_rule(const struct scenario *s, struct sim_rule *from, struct rule *to)
{
    size_t parts = 0;

    if (from->reasons != 0)
        from->parts[parts++] = (struct matcher){ .kind = MATCH_REASON, .mask = from->reasons };
    if (from->type != NULL) {
        from->glob = slice_from(from->type);
        from->parts[parts++] = (struct matcher){ .kind = MATCH_TYPE, .texts = &from->glob, .text_count = 1 };
    }
    if (from->failures_max > 0)
        from->parts[parts++] = (struct matcher){ .kind = MATCH_FAILURES, .min = 1, .max = from->failures_max };
    for (size_t i = 0; i < from->step_count; i++)
        link_step(s, &from->steps[i], &from->raises[i], &from->built[i]);
    *to = (struct rule){ .name = PR_STR("drawn"),
                         .when = { .kind = MATCH_ALL, .parts = from->parts, .part_count = parts },
                         .steps = from->built,
                         .step_count = from->step_count };
}

void rules_link(struct scenario *s)
{
    for (unsigned i = 0; i < SIM_ENDPOINTS_MAX; i++) {
        struct policy *p = &s->endpoints[i].policy;
        p->own = p->global = NULL;
        p->own_count = p->global_count = 0;
    }
    for (size_t k = 0; k < s->rule_count; k++) {
        link_rule(s, &s->rules[k], &s->built[k]);
        for (int i = 0; i < (int)s->engine.endpoint_count; i++) {
            struct policy *p = &s->endpoints[i].policy;
            if (s->rules[k].owner == SIM_NOBODY) {
                p->global = p->global_count++ == 0 ? &s->built[k] : p->global;
            } else if (s->rules[k].owner == i) {
                p->own = p->own_count++ == 0 ? &s->built[k] : p->own;
            }
        }
    }
}

/* ---- For the checkers --------------------------------------------------------------------------- */

static bool rule_is_about(const struct sim_rule *rule, const struct pr_message *m, int reason, int failures)
{
    return (rule->reasons == 0 || (reason < 32 && (rule->reasons >> reason & 1) != 0)) &&
           (rule->type == NULL || slice_glob(slice_from(rule->type), m->type)) &&
           (rule->failures_max == 0 || failures <= rule->failures_max);
}

static void expect_by_retry(const struct retry_setting *r, int failures, struct sim_expectation *ret)
{
    bool over = r->delays != NULL ? (size_t)failures > r->delay_count : r->failures > 0 && failures >= r->failures;
    double delay = (double)r->base_us * pow(r->factor, failures);
    int64_t cap_us = r->cap_us > 0 ? r->cap_us : RETRY_DELAY_MAX_US;

    *ret = (struct sim_expectation){ .step = over ? STEP_DEAD_LETTER : STEP_RETRY };
    if (over && r->blame == BLAME_ALWAYS)
        return;
    ret->delay_us = r->delays != NULL        ? r->delays[min_size((size_t)failures, r->delay_count) - 1]
                    : delay > (double)cap_us ? cap_us
                                             : (int64_t)delay;
}

static void expect_by_rule(const struct sim_rule *rule, int failures, struct sim_expectation *ret)
{
    *ret = (struct sim_expectation){ .step = STEP_DEAD_LETTER };
    for (size_t i = 0; i < rule->step_count; i++) {
        const struct sim_step *s = &rule->steps[i];
        int takes = s->step == STEP_RETRY_NOW ? s->times : s->step == STEP_RETRY ? (int)s->delay_count : failures;

        if (failures <= takes) {
            *ret = (struct sim_expectation){ .step = s->step, .by = s };
            ret->delay_us = s->step == STEP_RETRY ? s->delays[failures - 1] : 0;
            return;
        }
        failures -= takes;
    }
}

void rules_expect(const struct scenario *s, unsigned endpoint, const struct pr_message *m, int reason, int failures,
                  struct sim_expectation *ret)
{
    for (int owner = (int)endpoint;; owner = SIM_NOBODY) {
        for (size_t i = 0; i < s->rule_count; i++) {
            if (s->rules[i].owner == owner && rule_is_about(&s->rules[i], m, reason, failures)) {
                expect_by_rule(&s->rules[i], failures, ret);
                ret->ruled = true;
                return;
            }
        }
        if (owner == SIM_NOBODY)
            break;
    }
    expect_by_retry(&s->endpoints[endpoint].policy.retry, failures, ret);
}
