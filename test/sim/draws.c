/* Each fault and each kind of world is drawn: one that never is finds nothing, unnoticed. */
#include "base/util.h"
#include "check.h"
#include "scenario.h"

#define SEEDS 2000
#define SQLITE_EVERY 20       /* as main.c */
#define LEAST (SEEDS / 200)   /* each of them, */
#define MOST (SEEDS * 9 / 10) /* ... and not in all worlds: leaving it out finds what always having it hides */

static bool some_endpoint(const struct scenario *s,
                          bool (*has)(const struct scenario *s, const struct endpoint_setting *e))
{
    for (size_t i = 0; i < s->engine.endpoint_count; i++)
        if (has(s, &s->endpoints[i]))
            return true;
    return false;
}

static bool some_route(const struct scenario *s, bool (*has)(const struct route *r))
{
    for (size_t i = 0; i < s->engine.route_count; i++)
        if (has(&s->routes[i]))
            return true;
    return false;
}

static bool has_share(const struct scenario *s, const struct endpoint_setting *e)
{
    (void)s;
    return e->breaker.enabled && e->breaker.share > 0;
}

static bool has_breaker_of_types(const struct scenario *s, const struct endpoint_setting *e)
{
    (void)s;
    return e->breaker.enabled && e->breaker.per_type;
}

static bool has_rate(const struct scenario *s, const struct endpoint_setting *e)
{
    (void)s;
    return e->rate.count > 0;
}

static bool has_evidence(const struct scenario *s, const struct endpoint_setting *e)
{
    (void)s;
    return e->policy.retry.blame == BLAME_EVIDENCE;
}

static bool takes_few(const struct scenario *s, const struct endpoint_setting *e)
{
    return s->room[e - s->endpoints] > 0;
}

static bool has_source(const struct route *r)
{
    return r->source.size > 0;
}

static bool has_stream(const struct route *r)
{
    return r->stream.size > 0;
}

static bool has_header(const struct route *r)
{
    return r->header_count > 0;
}

static bool has_several(const struct route *r)
{
    return r->to_count > 1;
}

/*    name                                   it is so */
#define DRAWS(X)                                                                                                       \
    X(a_cycle_fails, s->faults.commit_error > 0)                                                                       \
    X(a_cycle_has_an_unknown_end, s->faults.commit_unknown > 0)                                                        \
    X(a_cycle_lands_after_it_was_asked_again, s->faults.commit_late > 0)                                               \
    X(a_scan_begins_anew, s->faults.scan_anew > 0)                                                                     \
    X(a_row_is_held_by_a_transaction, s->faults.row_held > 0)                                                          \
    X(a_crash_in_a_cycle, s->faults.crash_in_cycle > 0)                                                                \
    X(a_crash_at_any_time, s->faults.crash_every_us > 0)                                                               \
    X(a_freeze, s->faults.freeze_every_us > 0)                                                                         \
    X(a_stop, s->faults.stop_every_us > 0)                                                                             \
    X(a_reload, s->faults.retune_every_us > 0)                                                                         \
    X(another_configuration, s->other.drawn)                                                                           \
    X(an_endpoint_goes_and_comes, s->other.drawn && s->other.lacks > 0)                                                \
    X(asks_for_types, s->faults.ask_every_us > 0)                                                                      \
    X(the_clock_steps, s->faults.step_every_us > 0)                                                                    \
    X(the_clock_drifts, s->faults.drift<0 || s->faults.drift> 0)                                                       \
    X(poison, s->faults.poison > 0)                                                                                    \
    X(a_message_is_refused_for_ever, s->faults.bad > 0)                                                                \
    X(a_send_fails, s->faults.send_fail > 0)                                                                           \
    X(a_send_is_rejected, s->faults.send_reject > 0)                                                                   \
    X(an_answer_is_lost, s->faults.answer_lost > 0)                                                                    \
    X(an_answer_is_late, s->faults.answer_late > 0)                                                                    \
    X(an_arrival_twice, s->faults.duplicate > 0)                                                                       \
    X(an_outage, s->faults.outage_every_us > 0)                                                                        \
    X(a_rollback, s->faults.rollback > 0)                                                                              \
    X(a_lost_commit, s->faults.lost > 0)                                                                               \
    X(a_late_commit, s->faults.late > 0)                                                                               \
    X(a_sender_repeats_its_call, s->faults.send_again > 0)                                                             \
    X(a_person_repeats_an_order, s->faults.order_again > 0)                                                            \
    X(an_undecodable_message, s->faults.undecodable > 0)                                                               \
    X(a_wake_up_is_lost, s->faults.wake_lost > 0)                                                                      \
    X(an_operator, s->faults.operator_every_us > 0)                                                                    \
    X(an_edit, s->faults.edit_every_us > 0)                                                                            \
    X(an_export_and_import, s->faults.export_every_us > 0)                                                             \
    X(orders_for_a_share_of_a_stream, s->faults.share_every_us > 0)                                                    \
    X(all_takes_its_time, s->faults.slow)                                                                              \
    X(shared_limits, s->limits_shared)                                                                                 \
    X(a_worker, s->worker)                                                                                             \
    X(a_crowd, s->crowded)                                                                                             \
    X(a_blackout, s->blackout > 0)                                                                                     \
    X(inline_sends, s->inlined > 0)                                                                                    \
    X(handlers_with_effects, s->with_effect > 0)                                                                       \
    X(dedupe, s->engine.dedupe_us > 0)                                                                                 \
    X(rules, s->rule_count > 0)                                                                                        \
    X(overrides, s->engine.override_count > 0)                                                                         \
    X(delays, s->delayed > 0)                                                                                          \
    X(expiry, s->expiring > 0)                                                                                         \
    X(late_payloads, s->engine.late_bytes > 0)                                                                         \
    X(several_instances, s->instances > 1)                                                                             \
    X(a_share_breaker, some_endpoint(s, has_share))                                                                    \
    X(a_breaker_for_each_type, some_endpoint(s, has_breaker_of_types))                                                 \
    X(a_rate, some_endpoint(s, has_rate))                                                                              \
    X(blame_by_evidence, some_endpoint(s, has_evidence))                                                               \
    X(a_transport_that_takes_few_at_once, some_endpoint(s, takes_few))                                                 \
    X(a_route_by_source, some_route(s, has_source))                                                                    \
    X(a_route_by_stream, some_route(s, has_stream))                                                                    \
    X(a_route_by_header, some_route(s, has_header))                                                                    \
    X(a_route_to_several, some_route(s, has_several))

enum draw {
#define X(name, is) DRAW_##name,
    DRAWS(X)
#undef X
        DRAW_COUNT
};

static const char *const names[] = {
#define X(name, is) #name,
    DRAWS(X)
#undef X
};

static void count(const struct scenario *s, unsigned counts[DRAW_COUNT])
{
#define X(name, is) counts[DRAW_##name] += (is);
    DRAWS(X)
#undef X
}

TEST(each_fault_and_each_kind_of_world_is_drawn)
{
    static struct scenario s;
    unsigned counts[DRAW_COUNT] = { 0 };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        scenario_draw(&s, seed, seed % SQLITE_EVERY == 0, 0, 0);
        count(&s, counts);
    }
    for (unsigned i = 0; i < DRAW_COUNT; i++)
        if (counts[i] < LEAST || counts[i] > MOST)
            check_fail(__FILE__, __LINE__, "%u of %u worlds: %s", counts[i], SEEDS, names[i]);
}
