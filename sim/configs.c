/* A second configuration: endpoints that disappear and come back, and routes that change, as in a deploy that reaches
 * one instance before the other and is reverted once.  Not in worlds with dedupe: a mark names its handler
 * (core/mark.h), and by other routes the same message has another one. */
#include "base/util.h"
#include "dice.h"
#include "scenario.h"

bool config_has(const struct scenario *s, unsigned config, unsigned endpoint)
{
    return config == 0 || s->other.lacks != endpoint + 1;
}

void config_routes(const struct scenario *s, unsigned config, struct engine_setting *setting)
{
    setting->routes = config == 0 ? s->routes : s->other.routes;
    setting->route_count = config == 0 ? s->engine.route_count : s->other.route_count;
}

/* Overrides stay: a new one would send messages that the routes have split to one endpoint. */
static void draw_lacking(struct scenario *s, struct random *r)
{
    unsigned count = (unsigned)s->engine.endpoint_count;
    unsigned endpoint = random_chance(r, 0.5) ? count - 1 : (unsigned)random_below(r, count);
    bool overrides = s->engine.override_count > 0 && s->override_to[0] == endpoint;
    bool some = random_chance(r, 0.8) || s->engine.route_count == 0;
    s->other.lacks = some && !overrides ? endpoint + 1 : 0;
}

static bool goes_to(const struct route *route, unsigned endpoint)
{
    for (size_t i = 0; i < route->to_count; i++)
        if (route->to[i] == endpoint)
            return true;
    return false;
}

/* Each endpoint of the old route with probability one half; never a removed one.  false: the route would have none. */
static bool draw_other_route(const struct scenario *s, struct random *r, const struct route *from, struct route *route,
                             unsigned *to)
{
    bool changes = random_chance(r, 0.5);
    *route = *from;
    route->to = to;
    route->to_count = 0;
    for (unsigned i = 0; i < s->engine.endpoint_count; i++) {
        bool wanted = goes_to(from, i);
        if (changes && random_chance(r, 0.3))
            wanted = !wanted;
        if (wanted && config_has(s, 1, i))
            to[route->to_count++] = i;
    }
    return route->to_count > 0;
}

void configs_draw(struct scenario *s)
{
    struct sim_config *other = &s->other;
    struct random r;

    *other = (struct sim_config){ .drawn = false };
    die_init(&r, s->seed, "configs");
    if (s->faults.retune_every_us == 0 || s->worker || s->crowded || s->blackout > 0 || s->copied > 0 ||
        !random_chance(&r, 0.4))
        return;
    other->drawn = true;
    s->inlined = 0; /* their senders would need a configuration, too */
    draw_lacking(s, &r);
    for (size_t i = 0; i < s->engine.route_count; i++)
        other->route_count += draw_other_route(s, &r, &s->routes[i], &other->routes[other->route_count],
                                               other->route_to[other->route_count]);
}
