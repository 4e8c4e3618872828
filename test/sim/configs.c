/* The checkers where configurations change: endpoints that go and come back, and other routes. */
#include <string.h>

#include "story.h"

/* e0 and e1; all messages go to e0.  By the other configuration e0 does not exist and nothing has a route, or all goes to e1. */
static void configs_begin(struct story *s, bool rerouted)
{
    story_begin(s, ORDERING_FIFO);
    s->scenario.endpoints[1] = s->scenario.endpoints[0];
    s->scenario.endpoints[1].name = scenario_endpoint(1);
    s->scenario.engine.endpoint_count = 2;
    s->scenario.other = (struct sim_config){ .drawn = true, .lacks = rerouted ? 0 : 1, .route_count = rerouted };
    s->scenario.other.route_to[0][0] = 1;
    s->scenario.other.routes[0] = (struct route){ .to = s->scenario.other.route_to[0], .to_count = 1 };
    joins(s, 1);
    cycle(s, 1, 1, LANES_ALL);
}

static void retuned(struct story *s, unsigned config)
{
    tell(s, (struct event){
                .kind = EVENT_RETUNE, .instance = 1, .session = 1, .message = MESSAGE_NONE, .what = (uint16_t)config });
}

TEST(an_endpoint_that_goes_and_comes_back_is_believed) /* I5 */
{
    struct story s;
    configs_begin(&s, false);
    handed_out(&s, 1, s.first, 1, 2);
    cycle(&s, 1, 2, LANES_ALL);
    retuned(&s, 1); /* what was handed out before may go */
    started(&s, 1, s.first, 1);
    answered(&s, 1, s.first, 1, SEND_OK);
    judged(&s, 1, s.first, 1, VERDICT_COMPLETE, 0);
    judged(&s, 1, s.second, 0, VERDICT_PARK, 0);
    cycle(&s, 1, 3, LANES_ALL);
    retuned(&s, 0);
    judged(&s, 1, s.second, 0, VERDICT_ABANDON, 0);
    cycle(&s, 1, 4, LANES_ALL);
    delivered(&s, 1, s.second, 5);
    the_end(&s);
    story_ends(&s, NULL, NULL);
}

TEST(an_endpoint_that_has_gone_and_is_sent_to_is_found) /* I5 */
{
    struct story s;
    configs_begin(&s, false);
    retuned(&s, 1);
    handed_out(&s, 1, s.first, 1, 2);
    story_ends(&s, "I5", "has nowhere to go");
}

TEST(a_message_that_goes_by_the_routes_of_before_is_found) /* I5 */
{
    struct story s;
    configs_begin(&s, true);
    retuned(&s, 1);
    handed_out(&s, 1, s.first, 1, 2);
    cycle(&s, 1, 2, LANES_ALL);
    started(&s, 1, s.first, 1);
    story_ends(&s, "I5", "was sent to e0, where it does not belong");
}

TEST(a_message_that_is_parked_though_its_endpoint_is_there_is_found) /* I5 */
{
    struct story s;
    configs_begin(&s, false);
    retuned(&s, 1);
    retuned(&s, 0);
    judged(&s, 1, s.first, 0, VERDICT_PARK, 0);
    story_ends(&s, "I5", "has somewhere to go");
}

TEST(a_parked_message_that_comes_back_without_a_reason_is_found) /* I5 */
{
    struct story s;
    configs_begin(&s, false);
    retuned(&s, 1);
    judged(&s, 1, s.first, 0, VERDICT_PARK, 0);
    judged(&s, 1, s.first, 0, VERDICT_ABANDON, 0);
    story_ends(&s, "I5", "still has nowhere to go");

    configs_begin(&s, false); /* a person parked it */
    retuned(&s, 1);
    judged(&s, 1, s.first, 0, VERDICT_PARK, 0);
    tell(&s, (struct event){ .kind = EVENT_ADMIN, NOBODY, .message = s.first, .what = ADMIN_PARK });
    tell(&s,
         (struct event){ .kind = EVENT_SEEN, NOBODY, .message = s.first, .what = STATE_PARKED, .flag = SEEN_PARKED });
    tell(&s, (struct event){ .kind = EVENT_ADMIN_END, NOBODY, .message = s.first });
    retuned(&s, 0);
    judged(&s, 1, s.first, 0, VERDICT_ABANDON, 0);
    story_ends(&s, "I5", "nobody said so");
}

/* A whole world: engines that follow the other configuration only in what they say. */
static void goes_on_as_before(struct world *w, struct instance *in, const struct cycle *cycle,
                              const struct cycle_reply *reply)
{
    (void)cycle;
    (void)reply;
    for (size_t i = 0; i < w->scenario->engine.endpoint_count && i < in->setting.endpoint_count; i++)
        ((struct endpoint_setting *)(uintptr_t)in->setting.endpoints)[i].gone = false;
}

TEST(engines_that_send_to_what_has_gone_are_found_in_a_world) /* I5 */
{
    unsigned found = 0, worlds = 0;
    for (uint64_t seed = 1; seed < 400 && found == 0; seed++) {
        static struct scenario scenario;
        struct world w;
        struct breach breach;
        scenario_draw(&scenario, seed, false, 40, PR_MINUTES(60));
        if (!scenario.other.drawn || scenario.other.lacks == 0)
            continue;
        worlds++;
        world_init_with(&w, &scenario);
        w.watch = goes_on_as_before;
        world_live(&w);
        found += !check_world(&w, &breach) && strcmp(breach.invariant, "I5") == 0;
        world_fini(&w);
    }
    CHECK(worlds > 0 && found > 0);
}
