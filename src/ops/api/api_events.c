/* The event store: reading it, waiting for new events, subscriptions that workers pull, and snapshots of streams. */
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "ops/api/api.h"
#include "ops/member.h"
#include "ops/message.h"
#include "ops/reply.h"

#define WAIT_MAX_US PR_SECONDS(60)
#define LOOK_MIN_US PR_MILLISECONDS(10)
#define LOOK_MAX_US PR_MILLISECONDS(250)
#define LEASE_DEFAULT_US PR_SECONDS(30)
#define LEASE_MAX_US PR_SECONDS(3600)
#define EVENTS_MAX 10000 /* in one answer */
#define WORKER_MAX 127

/* ---- Waiting ---------------------------------------------------------------------------------- */

/* One look of a waiting request, so that a reload may happen in between.  False: answered. */
static bool look(struct api *x, bool (*one)(struct api *x, void *arg), void *arg)
{
    struct pr_error error;
    if (runtime_enter(x->rt, &x->in, &error) != PR_OK) {
        api_error(x, 503, "not_running", "try again soon", "%s", error.text);
        return false;
    }
    bool fine = one(x, arg);
    runtime_leave(x->rt);
    return fine;
}

/* Looks repeatedly until *found, the time is over, or the client is gone.  False: answered. */
bool api_look_for(struct api *x, int64_t wait_us, bool (*one)(struct api *x, void *arg), void *arg, const bool *found)
{
    int64_t end_us = time_add(clock_mono_us(clock_system()), wait_us), pause_us = LOOK_MIN_US;
    if (wait_us > 0 && !api_wait_begin(x))
        return false;
    bool fine = look(x, one, arg);
    while (fine && !*found && clock_mono_us(clock_system()) < end_us && !api_is_gone(x)) {
        (void)usleep((useconds_t)min64(pause_us, max64(end_us - clock_mono_us(clock_system()), 0)));
        pause_us = min64(2 * pause_us, LOOK_MAX_US);
        fine = look(x, one, arg);
    }
    if (wait_us > 0)
        api_wait_end(x);
    return fine;
}

static void write_events(struct api *x, const struct query_reply *reply)
{
    json_key(&x->w, "events");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply->event_count; i++)
        event_json(&x->w, &reply->events[i]);
    json_end_array(&x->w);
    json_put_bool(&x->w, "more", reply->more);
}

/* ---- Reading ---------------------------------------------------------------------------------- */

struct event_reading {
    struct query query;
    struct query_reply reply;
    bool found;
};

/* Events have places and versions, where other lists have rows.  False: answered. */
static bool take_after(struct api *x, struct filter *f)
{
    pr_slice after = params_get(&x->params, "after");
    struct pr_error error;
    if (after.size == 0 || (filter_set(f, PR_STR("after"), after, 0, &error) == PR_OK && f->after_box.size == 0))
        return true;
    api_error(x, 400, "invalid", "",
              "after: must be `next` of the previous page: a place, or with stream a version; 0: from the start");
    return false;
}

static bool read_once(struct api *x, void *arg)
{
    struct event_reading *r = arg;
    pr_slice from = params_get(&x->params, "from");
    if (!api_filter(x, "after from wait", &r->query.filter) || !take_after(x, &r->query.filter))
        return false;
    struct filter *f = &r->query.filter;
    if (from.size > 0) {
        struct filter version = { .state = -1 };
        struct pr_error error;
        bool right = f->stream.size > 0 && f->after == 0 &&
                     filter_set(&version, PR_STR("after"), from, 0, &error) == PR_OK && version.after > 0;
        if (!right) {
            api_error(x, 400, "invalid", "without a stream use after=PLACE",
                      "from: a version of a stream, 1 for its first event; it cannot be combined with after");
            return false;
        }
        f->after = version.after - 1;
    }
    f->limit = min_size(f->limit, EVENTS_MAX);
    if (!api_query(x, &r->query, &r->reply))
        return false;
    r->found = r->reply.event_count > 0;
    return true;
}

/* GET /v1/events?stream=S&from=VERSION, ?after=PLACE */
void api_events(struct api *x)
{
    struct event_reading r = { .query = { .kind = QUERY_EVENTS } };
    pr_slice wait = params_get(&x->params, "wait");
    json_t *text = wait.size > 0 ? json_stringn(wait.data, wait.size) : NULL;
    int64_t wait_us = 0;
    bool right = api_span(x, "wait", text, WAIT_MAX_US, &wait_us);
    json_decref(text);
    if (!right || !api_look_for(x, wait_us, read_once, &r, &r.found))
        return;
    const struct stored_event *last = r.reply.event_count > 0 ? &r.reply.events[r.reply.event_count - 1] : NULL;
    json_begin_object(&x->w);
    write_events(x, &r.reply);
    json_put_uint(
        &x->w, "next",
        last == NULL ? r.query.filter.after
        : last->place > 0
            ? last->place
            : last->version); /* for after, whether or not there are more: a reader that follows continues from there */
    json_end_object(&x->w);
}

/* ---- Subscriptions ----------------------------------------------------------------------------- */

/* The state of a worker's claim. */
struct claiming {
    struct subscription_call call;
    struct query query;
    struct subscription_info info;
    struct query_reply reply;
    uint64_t max;
    bool found, has_it;
};

static bool step(struct api *x, const struct subscription_call *call, struct subscription_info *ret, int *ret_rc)
{
    struct pr_error error;
    *ret_rc = store_subscription(x->in.store, call, &x->arena, ret, &error);
    if (*ret_rc == PR_UNKNOWN) {
        api_error(x, 404, "not_found", "GET /v1/subscriptions lists them; a claim creates one",
                  "unknown subscription \"%.*s\"", SLICE_ARGS(call->name));
        return false;
    }
    if (*ret_rc >= 0)
        return true;
    error.code = *ret_rc;
    api_fault(x, &error);
    return false;
}

/* Claims or renews, then reads: so the lease is fresh whenever it looks. */
static bool claim_once(struct api *x, void *arg)
{
    struct claiming *c = arg;
    int rc;
    if (!step(x, &c->call, &c->info, &rc))
        return false;
    c->has_it = rc == PR_OK;
    if (!c->has_it)
        return true;
    c->call.fence = c->info.fence;
    c->query.filter = api_filter_init(x);
    c->query.filter.after = c->info.position;
    c->query.filter.limit = c->max;
    if (!api_query(x, &c->query, &c->reply))
        return false;
    c->found = c->reply.event_count > 0;
    return true;
}

/* A non-negative number of the body.  False: answered. */
static bool number_of(struct api *x, const char *name, json_int_t max, uint64_t *ret)
{
    const json_t *value = json_object_get(x->json, name);
    if (value == NULL)
        return true;
    if (json_integer_value(value) < 0 || json_integer_value(value) > max) {
        api_error(x, 400, "invalid", "", "%s: must be a whole number from 0 to %lld", name, (long long)max);
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

static const struct member position_members[] = {
    /* clang-format off */
    MEMBER(subscription_info, "subscription", STRING, name)
    MEMBER(subscription_info, "position", COUNT, position)
    MEMBER(subscription_info, "fence", SOME, fence)
    /* clang-format on */
};

static const struct member lease_members[] = {
    /* clang-format off */
    MEMBER(subscription_info, "held_by", TEXT, holder) /* held by another worker */
    MEMBER(subscription_info, "expires_at", TIME, until_us)
    /* clang-format on */
};

static const struct members position_table = MEMBERS(position_members), lease_table = MEMBERS(lease_members);

/* The fence is only shown to the holder: with it the position can be moved. */
static struct subscription_info standing_for(const struct subscription_info *s, bool has_it)
{
    struct subscription_info shown = *s;
    if (has_it)
        shown.holder = (pr_slice){ NULL, 0 };
    else
        shown.fence = 0;
    return shown;
}

/* POST /v1/subscriptions/{name}/claim */
void api_subscription_claim(struct api *x)
{
    struct claiming c = { .call = { .step = SUBSCRIPTION_CLAIM, .name = x->part, .lease_us = LEASE_DEFAULT_US },
                          .max = 100,
                          .query = { .kind = QUERY_EVENTS } };
    int64_t wait_us = 0;
    c.call.holder = slice_from(body_text(x, "worker"));
    if (!api_span(x, "wait", json_object_get(x->json, "wait"), WAIT_MAX_US, &wait_us) ||
        !api_span(x, "lease", json_object_get(x->json, "lease"), LEASE_MAX_US, &c.call.lease_us) ||
        !number_of(x, "max", EVENTS_MAX, &c.max) || !number_of(x, "fence", INT64_MAX, &c.call.fence))
        return;
    if (c.call.holder.size == 0 || c.call.holder.size > WORKER_MAX || c.max == 0 || c.call.lease_us == 0) {
        api_error(x, 400, "invalid", "", "%s",
                  c.max == 0             ? "max: must be at least 1"
                  : c.call.lease_us == 0 ? "lease: must be longer than 0s"
                                         : "worker: give a name of 1 to 127 bytes");
        return;
    }
    if (!api_look_for(x, min64(wait_us, c.call.lease_us / 2), claim_once, &c, &c.found))
        return;
    const struct subscription_info shown = standing_for(&c.info, c.has_it);
    json_begin_object(&x->w);
    members_write(&x->w, &position_table, &shown);
    if (!c.has_it)
        c.reply.event_count = 0;
    members_write(&x->w, &lease_table, &shown);
    write_events(x, &c.reply);
    json_end_object(&x->w);
}

/* POST /v1/subscriptions/{name}/acknowledge, /release */
void api_subscription_move(struct api *x)
{
    bool acknowledges = slice_ends_with(slice_from(x->route->path), PR_STR("acknowledge"));
    struct subscription_call call = { .step = acknowledges ? SUBSCRIPTION_ADVANCE : SUBSCRIPTION_RELEASE,
                                      .name = x->part,
                                      .from = SUBSCRIPTION_ANYWHERE };
    struct subscription_info info;
    int rc;
    if (!number_of(x, "fence", INT64_MAX, &call.fence) || !number_of(x, "position", INT64_MAX, &call.to) ||
        !api_span(x, "lease", json_object_get(x->json, "lease"), LEASE_MAX_US, &call.lease_us) ||
        !step(x, &call, &info, &rc))
        return;
    const struct subscription_info shown = standing_for(&info, info.fence == call.fence);
    json_begin_object(&x->w);
    members_write(&x->w, &position_table, &shown);
    json_put_cstr(&x->w, "result", rc == PR_OK ? "ok" : "stale");
    json_end_object(&x->w);
}

/* POST /v1/subscriptions/{name}/reset, /remove */
void api_subscription_change(struct api *x)
{
    bool resets = slice_ends_with(slice_from(x->route->path), PR_STR("reset"));
    struct admin admin = { .kind = resets ? ADMIN_SUBSCRIPTION_RESET : ADMIN_SUBSCRIPTION_REMOVE,
                           .filter = { .state = -1 },
                           .subscription = x->part,
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run") };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    if (!number_of(x, "position", INT64_MAX, &admin.position))
        return;
    int rc = store_admin(x->in.store, &admin, &reply, &error);
    if (rc != PR_OK) {
        error.code = rc;
        api_fault(x, &error);
    } else if (reply.missing > 0) {
        api_error(x, 404, "not_found", "GET /v1/subscriptions lists them", "unknown subscription \"%.*s\"",
                  SLICE_ARGS(x->part));
    } else {
        api_report_change(x, &admin, &reply);
    }
}

/* ---- Snapshots --------------------------------------------------------------------------------- */

/* GET /v1/snapshots?stream=S */
void api_snapshot(struct api *x)
{
    pr_slice stream = params_get(&x->params, "stream"), data;
    struct pr_error error;
    int64_t version;
    int rc = store_snapshot_load(x->in.store, stream, &x->arena, &version, &data, &error);
    if (rc == PR_UNKNOWN) {
        api_error(x, 404, "not_found", "read the stream from=1", "stream \"%.*s\" has no snapshot", SLICE_ARGS(stream));
        return;
    }
    if (rc != PR_OK) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    json_begin_object(&x->w);
    json_put_slice(&x->w, "stream", stream);
    json_put_int(&x->w, "version", version);
    payload_json(&x->w, data);
    json_end_object(&x->w);
}

/* POST /v1/snapshots */
void api_snapshot_save(struct api *x)
{
    pr_slice stream = slice_from(body_text(x, "stream")), data;
    struct pr_error error;
    uint64_t version = 0;
    bool given;
    if (!number_of(x, "version", INT64_MAX, &version))
        return;
    int rc = body_payload(x, &data, &given, &error);
    if (rc == PR_OK && !given)
        rc = error_set(&error, PR_EINVAL, "give payload, payload_text or payload_base64");
    if (rc == PR_OK)
        rc = store_snapshot_save(x->in.store, stream, (int64_t)version, data, &error);
    if (rc < 0) {
        error.code = rc;
        api_fault(x, &error);
        return;
    }
    json_begin_object(&x->w);
    json_put_bool(&x->w, "saved", rc == PR_OK); /* false: there is a later one */
    json_end_object(&x->w);
}
