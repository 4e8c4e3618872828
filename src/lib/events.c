/* Reading the event store, snapshots, and subscriptions. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "lib/events.h"
#include "lib/lib.h"
#include "store/sqlite/send.h"

#define PAGE_BYTES 65536
#define READ_MAX 100000 /* events that one call returns */
#define LOOK_MIN_US PR_MILLISECONDS(5)
#define LOOK_MAX_US PR_MILLISECONDS(250)
#define LEASE_DEFAULT_US PR_SECONDS(30)

/* ---- Reading --------------------------------------------------------------------------------- */

struct pr_events {
    struct store store;
    struct arena page; /* the result of the latest call */
};

PR_API int pr_events_open(const char *store_url, struct pr_events **ret_events, struct pr_error *reterr)
{
    if (store_url == NULL || ret_events == NULL)
        return lib_missing(store_url == NULL ? "store_url" : "ret_events", reterr);
    struct pr_events *events = calloc(1, sizeof(*events));
    if (events == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a reader");
    const struct store_options options = { .url = store_url, .payload_max = LIB_PAYLOAD_MAX };
    arena_init(&events->page, PAGE_BYTES);
    int rc = store_open(&options, &events->store, reterr);
    if (rc == PR_OK)
        rc = store_check(&events->store, reterr);
    if (rc < 0) {
        pr_events_close(events);
        return rc;
    }
    *ret_events = events;
    return PR_OK;
}

PR_API void pr_events_close(struct pr_events *events)
{
    if (events == NULL)
        return;
    store_close(&events->store);
    arena_fini(&events->page);
    free(events);
}

static int read_page(struct pr_events *events, const struct filter *filter, const struct pr_event **ret_list,
                     size_t *ret_count, struct pr_error *reterr)
{
    struct query query = { .kind = QUERY_EVENTS, .filter = *filter };
    struct query_reply reply;
    arena_reset(&events->page);
    int rc = store_query(&events->store, &query, &events->page, &reply, reterr);
    if (rc != PR_OK)
        return rc;
    struct pr_event *list = arena_alloc_array(&events->page, reply.event_count + 1, sizeof(list[0]));
    if (list == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu events", reply.event_count);
    for (size_t i = 0; i < reply.event_count; i++) {
        const struct stored_event *e = &reply.events[i];
        list[i] = (struct pr_event){ .place = (int64_t)e->place,
                                     .stream = e->stream,
                                     .version = (int64_t)e->version,
                                     .id = e->id,
                                     .type = e->type,
                                     .content_type = e->content_type,
                                     .headers = e->headers,
                                     .payload = e->payload,
                                     .created_us = e->created_us };
    }
    *ret_list = list;
    *ret_count = reply.event_count;
    return PR_OK;
}

static int read_check(const struct pr_events *events, size_t max, const void *ret_list, const size_t *ret_count,
                      struct pr_error *reterr)
{
    if (events == NULL || ret_list == NULL || ret_count == NULL)
        return lib_missing(events == NULL ? "events" : ret_list == NULL ? "ret_list" : "ret_count", reterr);
    if (max == 0 || max > READ_MAX)
        return error_set(reterr, PR_EINVAL, "max is %zu: 1 to %d events can be read at once", max, READ_MAX);
    return PR_OK;
}

PR_API int pr_events_read(struct pr_events *events, pr_slice stream, int64_t from_version, size_t max,
                          const struct pr_event **ret_list, size_t *ret_count, struct pr_error *reterr)
{
    int rc = read_check(events, max, ret_list, ret_count, reterr);
    if (rc == PR_OK && (stream.size == 0 || from_version < 1))
        rc = error_set(reterr, PR_EINVAL, "give a stream, and a version of 1 or more");
    if (rc != PR_OK)
        return rc;
    const struct filter filter = { .state = -1, .stream = stream, .after = (uint64_t)from_version - 1, .limit = max };
    return read_page(events, &filter, ret_list, ret_count, reterr);
}

/* Looks, with growing pauses, until there is an event or the time is over. */
static int read_waiting(struct pr_events *events, int64_t after, size_t max, int64_t wait_us,
                        const struct pr_event **ret_list, size_t *ret_count, struct pr_error *reterr)
{
    const struct filter filter = { .state = -1, .after = (uint64_t)after, .limit = max };
    int64_t end_us = time_add(clock_mono_us(clock_system()), max64(wait_us, 0)), pause_us = LOOK_MIN_US;
    for (;;) {
        int rc = read_page(events, &filter, ret_list, ret_count, reterr);
        int64_t left_us = end_us - clock_mono_us(clock_system());
        if (rc != PR_OK || *ret_count > 0 || left_us <= 0)
            return rc;
        (void)usleep((useconds_t)min64(pause_us, left_us));
        pause_us = min64(2 * pause_us, LOOK_MAX_US);
    }
}

PR_API int pr_events_read_all(struct pr_events *events, int64_t after_place, size_t max, int64_t wait_us,
                              const struct pr_event **ret_list, size_t *ret_count, struct pr_error *reterr)
{
    int rc = read_check(events, max, ret_list, ret_count, reterr);
    if (rc == PR_OK && after_place < 0)
        rc = error_set(reterr, PR_EINVAL, "after_place is below 0");
    return rc == PR_OK ? read_waiting(events, after_place, max, wait_us, ret_list, ret_count, reterr) : rc;
}

/* ---- Snapshots -------------------------------------------------------------------------------- */

PR_API int pr_snapshot_save(struct pr_events *events, pr_slice stream, int64_t version, pr_slice data,
                            struct pr_error *reterr)
{
    if (events == NULL)
        return lib_missing("events", reterr);
    return store_snapshot_save(&events->store, stream, version, data, reterr);
}

PR_API int pr_snapshot_load(struct pr_events *events, pr_slice stream, int64_t *ret_version, pr_slice *ret_data,
                            struct pr_error *reterr)
{
    if (events == NULL || ret_version == NULL || ret_data == NULL)
        return lib_missing(events == NULL ? "events" : ret_version == NULL ? "ret_version" : "ret_data", reterr);
    arena_reset(&events->page);
    return store_snapshot_load(&events->store, stream, &events->page, ret_version, ret_data, reterr);
}

/* ---- Subscriptions ----------------------------------------------------------------------------- */

static int make_holder(struct pr_subscription *s, const char *instance, struct pr_error *reterr)
{
    char host[HOST_NAME_MAX + 1] = "local", id[PR_ID_TEXT_SIZE];
    pr_id unique;
    if (instance == NULL && gethostname(host, sizeof(host)) == 0)
        host[sizeof(host) - 1] = '\0';
    const char *name = instance != NULL ? instance : host;
    pr_id_new(&unique); /* two with one name are different */
    pr_id_format(unique, id);
    if (strlen(name) > HOLDER_NAME_MAX)
        return error_set(reterr, PR_EINVAL, "instance has more than %d bytes", HOLDER_NAME_MAX);
    snprintf(s->holder, sizeof(s->holder), "%s/%s", name, id + PR_ID_TEXT_SIZE - 1 - HOLDER_ID_SIZE);
    return PR_OK;
}

PR_API int pr_subscription_open(const struct pr_subscription_options *options,
                                struct pr_subscription **ret_subscription, struct pr_error *reterr)
{
    if (options == NULL || ret_subscription == NULL)
        return lib_missing(options == NULL ? "options" : "ret_subscription", reterr);
    if (options->store_url == NULL)
        return lib_missing("store_url", reterr);
    pr_slice name = slice_from(options->name);
    if (!subscription_name_is_valid(name) || options->lease_us < 0)
        return error_set(reterr, PR_EINVAL, "%s",
                         options->lease_us < 0
                             ? "lease_us is below 0"
                             : "a subscription needs a name of letters, digits, _ - and ., at most 63");
    struct pr_subscription *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a subscription");
    memcpy(s->name, name.data, name.size);
    pr_slice schema = store_url_schema(options->store_url);
    memcpy(s->schema, schema.data, min_size(schema.size, BOX_NAME_MAX));
    s->lease_us = options->lease_us > 0 ? options->lease_us : LEASE_DEFAULT_US;
    arena_init(&s->scratch, 1024);
    int rc = make_holder(s, options->instance, reterr);
    if (rc == PR_OK)
        rc = pr_events_open(options->store_url, &s->events, reterr);
    if (rc == PR_OK)
        *ret_subscription = s;
    else
        pr_subscription_close(s);
    return rc;
}

/* One step; *info: the state afterwards. */
static int step(struct pr_subscription *s, struct subscription_call call, struct subscription_info *ret,
                struct pr_error *reterr)
{
    call.name = slice_from(s->name);
    call.holder = slice_from(s->holder);
    call.fence = s->fence;
    call.lease_us = s->lease_us;
    arena_reset(&s->scratch);
    return store_subscription(&s->events->store, &call, &s->scratch, ret, reterr);
}

PR_API void pr_subscription_close(struct pr_subscription *s)
{
    struct subscription_info info;
    struct pr_error ignored;
    if (s == NULL)
        return;
    if (s->has_it) {
        int rc = step(s, (struct subscription_call){ .step = SUBSCRIPTION_RELEASE }, &info, &ignored);
        (void)rc; /* otherwise its lease ends by itself */
    }
    pr_events_close(s->events);
    arena_fini(&s->scratch);
    free(s);
}

/* PR_OK: this instance holds it, at this position; PR_STALE: another one holds it. */
static int claim(struct pr_subscription *s, struct pr_error *reterr)
{
    struct subscription_info info;
    int rc = step(s, (struct subscription_call){ .step = SUBSCRIPTION_CLAIM }, &info, reterr);
    s->has_it = rc == PR_OK;
    s->given = 0;
    if (rc == PR_OK) {
        s->fence = info.fence;
        s->position = (int64_t)info.position;
    }
    return rc;
}

PR_API int pr_subscription_next(struct pr_subscription *s, size_t max, int64_t wait_us,
                                const struct pr_event **ret_list, size_t *ret_count, struct pr_error *reterr)
{
    if (s == NULL)
        return lib_missing("subscription", reterr);
    int rc = read_check(s->events, max, ret_list, ret_count, reterr);
    int64_t end_us = time_add(clock_mono_us(clock_system()), max64(wait_us, 0));
    while (rc == PR_OK) {
        int64_t left_us = end_us - clock_mono_us(clock_system());
        rc = claim(s, reterr);
        *ret_count = 0;
        if (rc == PR_STALE) {
            rc = PR_OK;
            if (left_us <= 0)
                break;
            (void)usleep((useconds_t)min64(LOOK_MAX_US, left_us));
            continue;
        }
        if (rc == PR_OK) /* at most a third of the lease, so that it is renewed in time */
            rc =
                read_waiting(s->events, s->position, max, min64(left_us, s->lease_us / 3), ret_list, ret_count, reterr);
        if (rc == PR_OK && *ret_count > 0)
            s->given = (*ret_list)[*ret_count - 1].place;
        if (rc == PR_OK && (*ret_count > 0 || end_us <= clock_mono_us(clock_system())))
            break;
    }
    return rc;
}

int subscription_check(const struct pr_subscription *s, int64_t place, struct pr_error *reterr)
{
    if (s == NULL)
        return lib_missing("subscription", reterr);
    if (place <= s->position || place > s->given)
        return error_set(reterr, PR_EINVAL, "place %lld is not one that pr_subscription_next() returned last",
                         (long long)place);
    return PR_OK;
}

PR_API int pr_subscription_advance(struct pr_subscription *s, int64_t place, struct pr_error *reterr)
{
    struct subscription_info info;
    int rc = subscription_check(s, place, reterr);
    if (rc != PR_OK)
        return rc;
    const struct subscription_call call = { .step = SUBSCRIPTION_ADVANCE,
                                            .from = (uint64_t)s->position,
                                            .to = (uint64_t)place };
    rc = step(s, call, &info, reterr);
    if (rc == PR_OK)
        s->position = place;
    return rc == PR_UNKNOWN ? PR_STALE : rc;
}

PR_API int pr_subscription_advance_sqlite(struct pr_subscription *s, struct sqlite3 *db, int64_t place,
                                          struct pr_error *reterr)
{
    int rc = subscription_check(s, place, reterr);
    if (rc == PR_OK && db == NULL)
        rc = lib_missing("db", reterr);
    return rc == PR_OK ? sqlite_advance(db, slice_from(s->name), s->fence, s->position, place, reterr) : rc;
}
