/* A failure is a point: reason, endpoint, failures, size, age, and texts.  Whether a rule matches changes only at the
 * ends of ranges, so trying one value on each side of every end covers all points.  Texts are not tried: a text is
 * represented by the glob of the rule in question, and another rule certainly matches it when its glob covers that
 * one. */
#include "policy/check.h"

#include <limits.h>
#include <string.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "base/util.h"
#include "core/reason.h"

#define VALUES_MAX 24 /* ends of ranges that are tried, of each kind */
#define AGE_LONG (PR_SECONDS(86400) * 365 * 100)
#define FAILURES_MANY 1000000

const char *finding_kind_name(enum finding_kind kind)
{
    static const char *const names[] = { "never_matches", "unreachable", "step_unreachable", "endless",
                                         "retries_poison" };
    return names[kind];
}

/* ---- Points ------------------------------------------------------------------------------------ */

struct point_values {
    int64_t list[VALUES_MAX];
    size_t count;
};

struct point {
    int reason;
    pr_slice endpoint;
    int64_t failures, size, age_us;
    const struct matcher *texts[MATCH_FAILURES + 1]; /* what the rule in question requires of each text */
};

static void values_add(struct point_values *v, int64_t value, int64_t min, int64_t max)
{
    if (value < min || value > max)
        return;
    for (size_t i = 0; i < v->count; i++)
        if (v->list[i] == value)
            return;
    if (v->count < VALUES_MAX)
        v->list[v->count++] = value;
}

/* Adds a value on each side of every end of a range of this kind. */
static void values_collect(struct point_values *v, const struct matcher *m, enum matcher_kind kind, int64_t min,
                           int64_t max)
{
    if (m->kind == kind) {
        values_add(v, m->min, min, max);
        values_add(v, m->max, min, max);
        if (m->min > min)
            values_add(v, m->min - 1, min, max);
        if (m->max < max)
            values_add(v, m->max + 1, min, max);
    }
    for (size_t i = 0; i < m->part_count; i++)
        values_collect(v, &m->parts[i], kind, min, max);
}

/* ---- Texts ----------------------------------------------------------------------------------------- */

/* Does every text that matches `narrow` match `wide`?  false: unknown. */
static bool glob_covers(pr_slice wide, pr_slice narrow)
{
    bool stars = memchr(narrow.data != NULL ? narrow.data : "", '*', narrow.size) != NULL;
    bool marks = memchr(wide.data != NULL ? wide.data : "", '?', wide.size) != NULL;

    return (!stars || !marks) && slice_glob(wide, narrow);
}

static bool one_covers(const struct matcher *m, pr_slice asked)
{
    for (size_t i = 0; i < m->text_count; i++)
        if (m->kind == MATCH_CONTAINS ? slice_contains(asked, m->texts[i]) : glob_covers(m->texts[i], asked))
            return true;
    return false;
}

static enum maybe text_leaf(const struct matcher *m, const struct point *p)
{
    const struct matcher *asked = p->texts[m->kind];

    if (asked == NULL || asked->text_count == 0)
        return MAYBE;
    for (size_t i = 0; i < asked->text_count; i++)
        if (!one_covers(m, asked->texts[i]))
            return MAYBE;
    return MAYBE_YES;
}

static enum maybe yes_or_no(bool yes)
{
    return yes ? MAYBE_YES : MAYBE_NO;
}

static enum maybe endpoint_leaf(const struct matcher *m, pr_slice endpoint)
{
    for (size_t i = 0; i < m->text_count; i++)
        if (slice_glob(m->texts[i], endpoint))
            return MAYBE_YES;
    return MAYBE_NO;
}

static enum maybe point_leaf(const struct matcher *m, const void *arg)
{
    const struct point *p = arg;

    switch (m->kind) {
    case MATCH_REASON: return yes_or_no((m->mask & matcher_reason_bit(p->reason)) != 0);
    case MATCH_CLASS: return yes_or_no((m->mask & (UINT32_C(1) << reason_class(p->reason))) != 0);
    case MATCH_ENDPOINT: return endpoint_leaf(m, p->endpoint);
    case MATCH_SIZE: return yes_or_no(p->size >= m->min && p->size <= m->max);
    case MATCH_AGE: return yes_or_no(p->age_us >= m->min && p->age_us <= m->max);
    case MATCH_FAILURES: return yes_or_no(p->failures >= m->min && p->failures <= m->max);
    default: return text_leaf(m, p);
    }
}

/* The rule's requirements on texts: only those at the top level, which must hold. */
static void point_take_texts(struct point *p, const struct matcher *when)
{
    memset(p->texts, 0, sizeof(p->texts));
    if (when->kind != MATCH_ALL) {
        p->texts[when->kind] = when->text_count > 0 ? when : NULL;
        return;
    }
    for (size_t i = 0; i < when->part_count; i++)
        if (when->parts[i].text_count > 0)
            p->texts[when->parts[i].kind] = &when->parts[i];
}

/* ---- One list of rules, as one endpoint sees it -------------------------------------------------------- */

struct chain {
    pr_slice endpoint;
    const struct rule *const *rules;
    size_t count;
};

/* Does a rule before the one at `index` match the point?  *ret_by: which one. */
static bool is_taken(const struct chain *c, size_t index, const struct point *p, const struct rule **ret_by)
{
    for (size_t i = 0; i < index; i++) {
        if (matcher_walk(&c->rules[i]->when, point_leaf, p) != MAYBE_YES)
            continue;
        *ret_by = c->rules[i];
        return true;
    }
    return false;
}

struct verdict_on_rule {
    bool can_match, reachable;
    int64_t failures_max;     /* the highest number of failures at which it decides */
    const struct rule *taker; /* the only rule that takes what it could match, or NULL */
    bool several;
};

static void try_point(const struct chain *c, size_t index, const struct point *p, struct verdict_on_rule *v)
{
    const struct rule *by = NULL;

    if (matcher_walk(&c->rules[index]->when, point_leaf, p) == MAYBE_NO)
        return;
    v->can_match = true;
    if (!is_taken(c, index, p, &by)) {
        v->reachable = true;
        v->failures_max = max64(v->failures_max, p->failures);
        return;
    }
    v->several = v->several || (v->taker != NULL && v->taker != by);
    v->taker = by;
}

static void try_values(const struct chain *c, size_t index, struct point *p, const struct point_values v[3],
                       struct verdict_on_rule *ret)
{
    for (size_t i = 0; i < v[0].count; i++) {
        p->failures = v[0].list[i];
        for (size_t k = 0; k < v[1].count; k++) {
            p->size = v[1].list[k];
            for (size_t n = 0; n < v[2].count; n++) {
                p->age_us = v[2].list[n];
                try_point(c, index, p, ret);
            }
        }
    }
}

static void try_rule(const struct chain *c, size_t index, struct verdict_on_rule *ret)
{
    static const int reasons[] = {
#define X(number, NAME, text, class) number,
        REASONS(X)
#undef X
    };
    struct point p = { .endpoint = c->endpoint };
    struct point_values v[3] = { 0 };

    values_add(&v[0], 1, 1, INT_MAX);
    values_add(&v[0], FAILURES_MANY, 1, INT_MAX);
    values_add(&v[1], 0, 0, PR_PAYLOAD_MAX);
    values_add(&v[2], 0, 0, AGE_LONG);
    values_add(&v[2], AGE_LONG, 0, AGE_LONG);
    for (size_t i = 0; i <= index; i++) {
        values_collect(&v[0], &c->rules[i]->when, MATCH_FAILURES, 1, INT_MAX);
        values_collect(&v[1], &c->rules[i]->when, MATCH_SIZE, 0, PR_PAYLOAD_MAX);
        values_collect(&v[2], &c->rules[i]->when, MATCH_AGE, 0, AGE_LONG);
    }
    point_take_texts(&p, &c->rules[index]->when);
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++) {
        p.reason = reasons[i];
        try_values(c, index, &p, v, ret);
    }
}

/* ---- Findings about one rule ------------------------------------------------------------------------------ */

struct report {
    void (*found)(void *arg, const struct finding *finding);
    void *arg;
};

static void tell(const struct report *r, struct finding f)
{
    r->found(r->arg, &f);
}

static void check_steps(const struct report *r, const struct rule *rule, pr_slice owner, int64_t failures_max)
{
    int64_t taken = 0;

    for (size_t i = 0; i < rule->step_count; i++) {
        if (taken >= failures_max)
            tell(r, (struct finding){ .kind = FINDING_STEP, .rule = rule, .endpoint = owner, .step = i });
        taken += rule_step_width(&rule->steps[i]);
    }
}

/* Does it still match a message that is very old and has failed a million times? */
static bool matches_for_ever(const struct rule *rule, pr_slice endpoint, bool counted)
{
    struct point p = { .endpoint = endpoint, .failures = counted ? FAILURES_MANY : 1, .age_us = AGE_LONG };
    int64_t sizes[] = { 0, 1000, PR_PAYLOAD_MAX };

    point_take_texts(&p, &rule->when);
    for (p.reason = 1; p.reason <= PR_REASON_UNKNOWN; p.reason++)
        for (size_t i = 0; reason_is_known(p.reason) && i < ARRAY_LENGTH(sizes); i++) {
            p.size = sizes[i];
            if (matcher_walk(&rule->when, point_leaf, &p) != MAYBE_NO)
                return true;
        }
    return false;
}

static void check_endless(const struct report *r, const struct rule *rule, pr_slice owner, pr_slice endpoint)
{
    for (size_t i = 0; i < rule->step_count; i++) {
        const struct rule_step *s = &rule->steps[i];
        bool puts_back = s->step == STEP_PAUSE;
        bool for_ever = s->step == STEP_RETRY && s->retry.delays == NULL && s->retry.failures == 0;

        if ((puts_back || for_ever) && matches_for_ever(rule, endpoint, for_ever)) {
            tell(r, (struct finding){ .kind = FINDING_ENDLESS, .rule = rule, .endpoint = owner, .step = i });
            return;
        }
    }
}

/* Does it list poison among its reasons?  A rule for all reasons does not mean poison. */
static bool names_poison(const struct matcher *m)
{
    bool named = m->kind == MATCH_REASON && (m->mask & matcher_reason_bit(PR_REASON_POISON_MESSAGE)) != 0;

    for (size_t i = 0; i < m->part_count && !named && m->kind != MATCH_NOT; i++)
        named = names_poison(&m->parts[i]);
    return named;
}

/* Does it list poison messages, and retry them?  No rule brings them back (B45). */
static void check_poison(const struct report *r, const struct rule *rule, pr_slice owner, pr_slice endpoint)
{
    struct point p = { .endpoint = endpoint, .failures = 1, .reason = PR_REASON_POISON_MESSAGE };

    point_take_texts(&p, &rule->when);
    if (!names_poison(&rule->when) || matcher_walk(&rule->when, point_leaf, &p) == MAYBE_NO)
        return;
    for (size_t i = 0; i < rule->step_count; i++) {
        enum step step = rule->steps[i].step;
        if (step == STEP_RETRY || step == STEP_RETRY_NOW || step == STEP_PAUSE) {
            tell(r, (struct finding){ .kind = FINDING_POISON, .rule = rule, .endpoint = owner, .step = i });
            return;
        }
    }
}

static void report_finding(const struct report *r, const struct rule *rule, pr_slice owner, pr_slice endpoint,
                           const struct verdict_on_rule *v)
{
    if (!v->can_match) {
        tell(r, (struct finding){ .kind = FINDING_NEVER, .rule = rule, .endpoint = owner });
    } else if (!v->reachable) {
        tell(r,
             (struct finding){
                 .kind = FINDING_UNREACHABLE, .rule = rule, .endpoint = owner, .other = v->several ? NULL : v->taker });
    } else {
        check_steps(r, rule, owner, v->failures_max);
        check_endless(r, rule, owner, endpoint);
        check_poison(r, rule, owner, endpoint);
    }
}

/* ---- Circles of dead letters ------------------------------------------------------------------------------- */

static const struct rule_step *moving_step(const struct rule *rule)
{
    for (size_t i = 0; i < rule->step_count; i++)
        if (rule->steps[i].step == STEP_DEAD_LETTER && rule->steps[i].to.size > 0)
            return &rule->steps[i];
    return NULL;
}

static bool can_match_at(const struct rule *rule, pr_slice endpoint)
{
    const struct rule *const one[] = { rule };
    const struct chain chain = { endpoint, one, 1 };
    struct verdict_on_rule v = { 0 };

    try_rule(&chain, 0, &v);
    return v.can_match;
}

/* Can a dead letter at endpoint `from` come to `to`?  depth bounds the walk: a longer way contains a circle, which is
 * found from another of its endpoints. */
static bool leads_to(const struct checked_endpoint *all, size_t count, pr_slice from, pr_slice to, size_t depth);

static bool rules_lead_to(const struct checked_endpoint *all, size_t count, const struct rule *rules, size_t rule_count,
                          pr_slice from, pr_slice to, size_t depth)
{
    for (size_t i = 0; i < rule_count; i++) {
        const struct rule_step *s = moving_step(&rules[i]);
        if (s != NULL && can_match_at(&rules[i], from) &&
            (slice_eq(s->to, to) || leads_to(all, count, s->to, to, depth - 1)))
            return true;
    }
    return false;
}

static bool leads_to(const struct checked_endpoint *all, size_t count, pr_slice from, pr_slice to, size_t depth)
{
    for (size_t i = 0; i < count && depth > 0; i++)
        if (slice_eq(all[i].name, from))
            return rules_lead_to(all, count, all[i].policy->own, all[i].policy->own_count, from, to, depth) ||
                   rules_lead_to(all, count, all[i].policy->global, all[i].policy->global_count, from, to, depth);
    return false;
}

#define CIRCLE_MAX 4 /* endpoints in the largest circle that is found */

static void check_circle(const struct report *r, const struct checked_endpoint *all, size_t count,
                         const struct rule *rule, pr_slice owner, pr_slice endpoint)
{
    const struct rule_step *s = moving_step(rule);

    if (s != NULL && can_match_at(rule, endpoint) &&
        (slice_eq(s->to, endpoint) || leads_to(all, count, s->to, endpoint, CIRCLE_MAX)))
        tell(r, (struct finding){ .kind = FINDING_ENDLESS,
                                  .rule = rule,
                                  .endpoint = owner,
                                  .to = s->to,
                                  .step = (size_t)(s - rule->steps) });
}

/* ---- All of it ------------------------------------------------------------------------------------------------ */

static void check_own(const struct report *r, const struct checked_endpoint *all, size_t count,
                      const struct checked_endpoint *e)
{
    const struct policy *policy = e->policy;
    const struct rule *rules[RULES_MAX];

    for (size_t i = 0; i < policy->own_count && i < RULES_MAX; i++) {
        struct chain chain = { e->name, rules, i + 1 };
        struct verdict_on_rule v = { 0 };
        rules[i] = &policy->own[i];
        try_rule(&chain, i, &v);
        report_finding(r, rules[i], e->name, e->name, &v);
        if (v.reachable)
            check_circle(r, all, count, rules[i], e->name, e->name);
    }
}

/* A global rule is fine when it is useful for one endpoint. */
static void check_global(const struct report *r, const struct checked_endpoint *all, size_t count,
                         const struct rule *global, size_t index)
{
    struct verdict_on_rule whole = { 0 };
    pr_slice user = { NULL, 0 };

    for (size_t k = 0; k < count; k++) {
        const struct policy *policy = all[k].policy;
        const struct rule *rules[2 * RULES_MAX];
        size_t n = 0;
        struct verdict_on_rule v = { 0 };

        for (size_t i = 0; i < policy->own_count && i < RULES_MAX; i++)
            rules[n++] = &policy->own[i];
        for (size_t i = 0; i <= index; i++)
            rules[n++] = &global[i];
        struct chain chain = { all[k].name, rules, n };
        try_rule(&chain, n - 1, &v);
        if (v.reachable && !whole.reachable)
            user = all[k].name;
        whole.can_match = whole.can_match || v.can_match;
        whole.reachable = whole.reachable || v.reachable;
        whole.failures_max = max64(whole.failures_max, v.failures_max);
        whole.several =
            whole.several || v.several || (whole.taker != NULL && v.taker != NULL && v.taker != whole.taker);
        whole.taker = v.taker != NULL ? v.taker : whole.taker;
    }
    report_finding(r, &global[index], (pr_slice){ NULL, 0 }, user, &whole);
    for (size_t k = 0; k < count && whole.reachable; k++)
        check_circle(r, all, count, &global[index], (pr_slice){ NULL, 0 }, all[k].name);
}

void policy_check(const struct checked_endpoint *endpoints, size_t endpoint_count, const struct rule *global,
                  size_t global_count, void (*found)(void *arg, const struct finding *finding), void *arg)
{
    const struct report report = { found, arg };

    for (size_t i = 0; i < endpoint_count; i++)
        check_own(&report, endpoints, endpoint_count, &endpoints[i]);
    for (size_t i = 0; i < global_count && endpoint_count > 0; i++)
        check_global(&report, endpoints, endpoint_count, global, i);
}

static void describe_end(const struct finding *f, struct buf *ret)
{
    if (f->to.size > 0) {
        buf_add_cstr(ret, "is circular: dead letters go to ");
        utf8_clean(ret, f->to);
        buf_add_cstr(ret, ", and from there back again; the second time they go into the table of dead letters");
    } else if (f->rule->steps[f->step].step == STEP_PAUSE) {
        buf_add_cstr(ret, "never ends: pause alone puts the message back without counting the failure; add {age: {max: "
                          "...}}, or dead_letter next to it");
    } else {
        buf_add_cstr(ret, "never ends: it retries forever; set failures in its retry, or add {age: {max: ...}}");
    }
}

void finding_describe(const struct finding *f, struct buf *ret)
{
    switch (f->kind) {
    case FINDING_NEVER:
        buf_add_cstr(ret, "can never match: its conditions contradict each other, or no endpoint has that name");
        break;
    case FINDING_UNREACHABLE:
        buf_add_cstr(ret,
                     f->other != NULL ? "is never reached: rule \"" : "is never reached: the rules before it match");
        if (f->other != NULL) {
            utf8_clean(ret, f->other->name);
            buf_add_cstr(ret, "\" before it matches");
        }
        buf_add_cstr(ret, " everything that it could match");
        break;
    case FINDING_STEP:
        buf_addf(ret, "step %zu is never reached: the steps before it, or the rule's limit of failures, end earlier",
                 f->step + 1);
        break;
    case FINDING_ENDLESS: describe_end(f, ret); break;
    case FINDING_POISON:
        buf_addf(ret,
                 "step %zu has no effect on poison messages: what crashed its process is never retried, it becomes a "
                 "dead letter; after a fix use postrider dead replay",
                 f->step + 1);
        break;
    }
}
