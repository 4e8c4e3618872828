/* The dispatcher: finds the store for a URL, and is the only caller of its methods.  It checks, once for all stores,
 * what the contract requires of callers and of stores. */
#include "store/store.h"
#include "store/box_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/slice.h"
#include "base/util.h"
#include "store/audit.h"
#include "store/people/question.h"

static const struct store_ops *const stores[] = {
    &store_sqlite,
    &store_memory,
#ifdef POSTRIDER_POSTGRES
    &store_postgres,
#endif
};

/* Other names of schemes, also of those that a build may lack. */
static const struct {
    const char *name, *scheme;
} aliases[] = { { "postgres", "postgres" }, { "postgresql", "postgres" } };

/* ---- Opening -------------------------------------------------------------------------------- */

static int store_find(const char *url, const struct store_ops **ret_ops, struct pr_error *reterr)
{
    const char *colon = url != NULL ? strchr(url, ':') : NULL;
    pr_slice scheme = { url, colon != NULL ? (size_t)(colon - url) : 0 };
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LENGTH(aliases) && !is_known; i++) {
        is_known = slice_eq_cstr(scheme, aliases[i].name);
        scheme = is_known ? slice_from(aliases[i].scheme) : scheme;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(stores); i++) {
        if (slice_eq_cstr(scheme, stores[i]->scheme)) {
            *ret_ops = stores[i];
            return PR_OK;
        }
    }
    if (is_known)
        return error_set(reterr, PR_EUNSUPPORTED, "this build has no PostgreSQL support; use sqlite:FILE");
    /* Without the URL itself: it may contain a password. */
    return error_set(reterr, PR_EINVAL, "the store's URL begins with \"%.*s\"; use sqlite:, postgres: or memory:",
                     (int)min_size(scheme.size, 32), scheme.size > 0 ? scheme.data : "");
}

pr_slice store_url_schema(const char *url)
{
    const char *at = strchr(url, '?');
    while (at != NULL) {
        at++;
        if (strncmp(at, "schema=", 7) == 0)
            return (pr_slice){ at + 7, strcspn(at + 7, "&") };
        at = strchr(at, '&');
    }
    return PR_STR("postrider");
}

bool store_is_built_in(const char *url)
{
    const struct store_ops *ops;
    return store_find(url, &ops, NULL) == PR_OK;
}

int store_open(const struct store_options *options, struct store *ret_store, struct pr_error *reterr)
{
    struct store store = { .ops = NULL };
    int rc = store_find(options->url, &store.ops, reterr);
    if (rc == PR_OK)
        rc = store.ops->open(options, &store.self, reterr);
    if (rc == PR_OK)
        *ret_store = store;
    return rc;
}

void store_close(struct store *store)
{
    if (store->ops != NULL)
        store->ops->close(store->self);
    *store = (struct store){ .ops = NULL };
}

int store_migrate(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    return store->ops->migrate(store->self, boxes, box_count, reterr);
}

int store_check(struct store *store, struct pr_error *reterr)
{
    return store->ops->check(store->self, reterr);
}

static const struct store_box *box_find(const struct store_box *boxes, size_t box_count, pr_slice name)
{
    for (size_t i = 0; i < box_count; i++)
        if (slice_eq_cstr(name, boxes[i].name))
            return &boxes[i];
    return NULL;
}

int store_check_boxes(struct store *store, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    const struct query query = { .kind = QUERY_BOXES, .brief = true };
    struct query_reply reply = { .box_count = 0 };
    struct arena arena;
    int rc = store_check(store, reterr);
    if (rc != PR_OK)
        return rc;
    arena_init(&arena, ARENA_BLOCK_MIN);
    rc = store_query(store, &query, &arena, &reply, reterr);
    for (size_t i = 0; i < reply.box_count && rc == PR_OK; i++) {
        const struct store_box *box = box_find(boxes, box_count, reply.boxes[i].name);
        if (box != NULL && reply.boxes[i].table.size > 0)
            rc = box_keeps_table(reply.boxes[i].name, reply.boxes[i].table, box_table(box), reterr);
    }
    arena_fini(&arena);
    return rc;
}

int64_t store_time(struct store *store)
{
    return store->ops->time(store->self);
}

/* ---- Sending -------------------------------------------------------------------------------- */

/* Says which message is invalid when there are several. */
static int check_messages(const struct pr_message *messages, size_t count, size_t payload_max, struct pr_error *reterr)
{
    for (size_t i = 0; i < count; i++) {
        struct pr_error why;
        int rc = message_check(&messages[i], payload_max, &why);
        if (rc < 0)
            return count > 1 ? error_set(reterr, rc, "message %zu of %zu: %s", i + 1, count, why.text)
                             : error_set(reterr, rc, "%s", why.text);
    }
    return PR_OK;
}

/* For the metric of duplicates in the inbox. */
static void count_duplicate(struct store *store, pr_slice box, int answer)
{
    if (answer == PR_DUPLICATE && slice_eq(box, PR_STR("inbox")))
        (void)__atomic_add_fetch(&store->inbox_duplicates, 1, __ATOMIC_RELAXED);
}

int store_take(struct store *store, pr_slice box, const struct pr_message *messages, size_t count, size_t payload_max,
               const struct position_move *move, int *answers, struct pr_error *reterr)
{
    int rc = check_messages(messages, count, payload_max, reterr);
    for (size_t i = 0; i < count; i++)
        ASSERT(!pr_id_is_zero(messages[i].id));
    if (rc == PR_OK)
        rc = store->ops->sql != NULL ? people_take(store, box, messages, count, move, answers, reterr)
                                     : store->ops->take(store->self, box, messages, count, move, answers, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++)
        count_duplicate(store, box, answers[i]);
    return rc;
}

int store_position(struct store *store, pr_slice source, struct arena *arena, pr_slice *ret, struct pr_error *reterr)
{
    return store->ops->sql != NULL ? people_position(store, source, arena, ret, reterr)
                                   : store->ops->position(store->self, source, arena, ret, reterr);
}

int store_note_sources(struct store *store, pr_slice instance, pr_slice lines, struct pr_error *reterr)
{
    return store->ops->sql != NULL ? people_note_sources(store, instance, lines, reterr) : PR_OK;
}

int store_warn(struct store *store, const struct warnings *warnings, int64_t calm_us, size_t payload_max, bool *ret_new,
               struct pr_error *reterr)
{
    ASSERT(warnings->count <= WARNINGS_MAX && calm_us >= 0);
    if (store->ops->sql == NULL)
        return error_set(reterr, PR_EUNSUPPORTED, "this store does not keep warnings");
    int rc =
        warnings->messages != NULL ? check_messages(warnings->messages, warnings->count, payload_max, reterr) : PR_OK;
    for (size_t i = 0; warnings->messages != NULL && i < warnings->count; i++)
        ASSERT(!pr_id_is_zero(warnings->messages[i].id));
    return rc == PR_OK ? people_warn(store, warnings, calm_us, ret_new, reterr) : rc;
}

/* Fields that belong to Postrider are ignored in a sender's message, unless the sender is Postrider itself. */
static struct pr_message new_message(const struct pr_message *message, bool failed)
{
    struct pr_message m = *message;

    if (!failed) {
        m.status = m.attempts = m.failures = m.reason = 0;
        m.failed_us = 0;
        m.code = m.error = m.story = (pr_slice){ NULL, 0 };
    }
    if (pr_id_is_zero(m.id))
        pr_id_new(&m.id);
    return m;
}

static int enqueue(struct store *store, pr_slice box, const struct pr_message *messages, size_t count, size_t failed,
                   size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr)
{
    int rc = check_messages(messages, count, payload_max, reterr);
    if (rc < 0 || count == 0)
        return rc;
    struct pr_message *with_ids = malloc(count * (sizeof(with_ids[0]) + sizeof(answers[0])));
    int *own_answers = with_ids != NULL ? (int *)(with_ids + count) : NULL; /* to count duplicates */
    if (with_ids == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu messages", count);
    for (size_t i = 0; i < count; i++)
        with_ids[i] = new_message(&messages[i], i < failed);
    rc = store->ops->enqueue(store->self, box, with_ids, count, own_answers, reterr);
    for (size_t i = 0; i < count && rc == PR_OK; i++) {
        if (ret_ids != NULL)
            ret_ids[i] = with_ids[i].id;
        if (answers != NULL)
            answers[i] = own_answers[i];
        count_duplicate(store, box, own_answers[i]);
    }
    free(with_ids);
    return rc;
}

int store_enqueue(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                  size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr)
{
    return enqueue(store, box, messages, count, 0, payload_max, ret_ids, answers, reterr);
}

int store_enqueue_failed(struct store *store, pr_slice box, const struct pr_message *messages, size_t count,
                         size_t payload_max, pr_id *ret_ids, int *answers, struct pr_error *reterr)
{
    return enqueue(store, box, messages, count, 1, payload_max, ret_ids, answers, reterr);
}

/* ---- Sessions and cycles ---------------------------------------------------------------------- */

int store_session_open(struct store *store, pr_slice box, struct store_session *ret, struct pr_error *reterr)
{
    struct store_session session = { .ops = store->ops };
    int rc = store->ops->session_open(store->self, box, &session.self, reterr);
    if (rc == PR_OK)
        *ret = session;
    return rc;
}

void store_session_close(struct store_session *session)
{
    if (session->ops != NULL)
        session->ops->session_close(session->self);
    *session = (struct store_session){ .ops = NULL };
}

static void assert_cycle(const struct cycle *cycle)
{
    ASSERT(cycle->number > 0 && (cycle->epoch != 0 || cycle->number == 1));
    ASSERT(cycle->lease_us > 0 && !pr_id_is_zero(cycle->instance));
    for (size_t i = 0; i < cycle->verdict_count; i++) {
        const struct verdict *v = &cycle->verdicts[i];
        ASSERT(v->number >= 0 && v->delay_us >= 0);
        ASSERT(v->kind != VERDICT_HOLD || v->held_by.size > 0);
        ASSERT(v->kind != VERDICT_SPLIT || v->destination_count > 0);
        ASSERT(v->kind != VERDICT_DEAD_LETTER || v->cause != 0);
    }
    for (size_t i = 0; i < cycle->effect_count; i++) {
        const struct effect *effect = &cycle->effects[i];
        ASSERT(effect->verdict == EFFECT_ALWAYS || effect->verdict < cycle->verdict_count);
        bool has_message = effect->kind == EFFECT_MESSAGE || effect->kind == EFFECT_EVENT;
        ASSERT(!has_message || !pr_id_is_zero(effect->message->id));
    }
    for (size_t i = 0; i < cycle->receipt_count; i++)
        ASSERT(cycle->receipt[i].row > 0 && cycle->receipt[i].number > 0);
    for (size_t i = 0; i < cycle->closed_count; i++)
        ASSERT(cycle->closed[i] < cycle->number);
}

/* The maximum number of rows that the reads of this cycle may return. */
static size_t rows_asked(const struct cycle *cycle)
{
    size_t rows = cycle->fresh_rows + cycle->due.rows + cycle->reread.rows + cycle->heads.rows;
    for (size_t i = 0; i < cycle->held_count; i++)
        rows += cycle->held[i].rows;
    return rows;
}

static void assert_reply(const struct cycle *cycle, const struct cycle_reply *reply)
{
    ASSERT(reply->epoch > 0 && (cycle->epoch == 0 || reply->epoch == cycle->epoch));
    ASSERT((reply->lanes_asked & ~reply->lanes_owned) == 0);
    ASSERT(reply->replayed || cycle->verdict_count == 0 || reply->answers != NULL);
    ASSERT(reply->row_count <= rows_asked(cycle));
    ASSERT(reply->held_key_count <= cycle->held_keys.rows);
    for (size_t i = 0; i < reply->row_count; i++) {
        const struct row *row = &reply->rows[i];
        ASSERT(row->row > 0 && row->lane < LANE_COUNT && (reply->lanes_owned & lane_bit(row->lane)));
        ASSERT(row->from != ROW_FRESH || (row->m.due_us == 0 && row->m.held_by.size == 0));
        ASSERT(row->from != ROW_DUE || (row->m.due_us != 0 && row->m.due_us <= reply->now_us));
    }
}

int store_cycle(struct store_session *session, const struct cycle *cycle, const struct cycle_reply **ret_reply,
                struct pr_error *reterr)
{
    const struct cycle_reply *reply;
    assert_cycle(cycle);
    int rc = session->ops->cycle(session->self, cycle, &reply, reterr);
    ASSERT(rc <= 0);
    if (rc == PR_OK) {
        assert_reply(cycle, reply);
        *ret_reply = reply;
    }
    return rc;
}

int store_wait(struct store_session *session, int wake_fd, int64_t timeout_us)
{
    return session->ops->wait(session->self, wake_fd, max64(timeout_us, 0));
}

void store_tend(struct store_session *session)
{
    if (session->ops->tend != NULL)
        session->ops->tend(session->self);
}

/* ---- People --------------------------------------------------------------------------------- */

/* Checked for every caller, since the pattern goes into SQL. */
static int type_check(pr_slice type, struct pr_error *reterr)
{
    struct pr_error why;
    return glob_check(type, &why) == PR_OK ? PR_OK : error_set(reterr, PR_EINVAL, "type: %s", why.text);
}

static int only_dead(struct pr_error *reterr)
{
    return error_set(reterr, PR_EINVAL, "only dead letters can be found by row");
}

struct listed listed_marked(const struct mark_info *mark, pr_id id)
{
    const struct ended ended = {
        .id = id, .box = mark->box, .endpoint = mark->handler, .as = (enum ended_as)mark->outcome
    };
    return listed_ended(&ended, mark->at_us, (pr_slice){ NULL, 0 });
}

struct listed listed_ended(const struct ended *ended, int64_t at_us, pr_slice by)
{
    return (struct listed){
        .m = { .id = ended->id, .attempts = ended->attempt },
        .box = ended->box,
        .endpoint = ended->endpoint,
        .state = ended->as == ENDED_DELIVERED ? STATE_DONE : STATE_GONE,
        .died_us = at_us,
        .instance = by,
        .ended = (int)ended->as,
    };
}

int store_query(struct store *store, const struct query *query, struct arena *arena, struct query_reply *ret_reply,
                struct pr_error *reterr)
{
    if (query->kind == QUERY_ID && query->filter.id_count == 0)
        return error_set(reterr, PR_EINVAL, "give the id to search for");
    bool in_boxes = query->kind == QUERY_MESSAGES;
    const struct filter *f = &query->filter;
    if (in_boxes && f->after != 0 && f->box.size + f->after_box.size == 0)
        return error_set(reterr, PR_EINVAL, "to continue after a row, name its box");
    if (f->after_box.size > 0 && (!in_boxes || (f->box.size > 0 && !slice_eq(f->box, f->after_box))))
        return error_set(reterr, PR_EINVAL, "to continue after \"%.*s:%llu\", use the same filter as before",
                         SLICE_ARGS(f->after_box), (unsigned long long)f->after);
    if (query->filter.row != 0 && query->kind != QUERY_DEAD && query->kind != QUERY_DEAD_COUNT)
        return only_dead(reterr);
    int rc = type_check(f->type, reterr);
    if (rc != PR_OK)
        return rc;
    if (store->ops->sql != NULL)
        return people_query(store, query, arena, ret_reply, reterr);
    return store->ops->query(store->self, query, arena, ret_reply, reterr);
}

/* ---- Subscriptions and snapshots ------------------------------------------------------------- */

bool subscription_name_is_valid(pr_slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.')
            return false;
    }
    return name.size > 0 && name.size <= SUBSCRIPTION_NAME_MAX;
}

int store_subscription(struct store *store, const struct subscription_call *call, struct arena *arena,
                       struct subscription_info *ret, struct pr_error *reterr)
{
    if (!subscription_name_is_valid(call->name))
        return error_set(reterr, PR_EINVAL,
                         "\"%.*s\" is not a valid name of a subscription: use letters, digits, _ - and ., at most %d",
                         (int)min_size(call->name.size, SUBSCRIPTION_NAME_MAX + 1), call->name.data,
                         SUBSCRIPTION_NAME_MAX);
    ASSERT(call->step != SUBSCRIPTION_CLAIM || (call->holder.size > 0 && call->lease_us > 0));
    return store->ops->sql != NULL ? people_subscription(store, call, arena, ret, reterr)
                                   : store->ops->subscription(store->self, call, arena, ret, reterr);
}

int store_place_events(struct store *store, struct pr_error *reterr)
{
    int64_t placed = 0;
    int rc = store->ops->sql != NULL ? events_place(store, &placed, reterr) : PR_OK;
    return rc == PR_OK && placed == 0 ? PR_STALE : rc;
}

static int snapshot_check(const struct store *store, pr_slice stream, struct pr_error *reterr)
{
    if (store->ops->sql == NULL)
        return error_set(reterr, PR_EUNSUPPORTED, "this store does not keep snapshots");
    return stream.size > 0 && stream.size <= PR_NAME_MAX
               ? PR_OK
               : error_set(reterr, PR_EINVAL, "the name of a stream must have 1 to %d bytes", PR_NAME_MAX);
}

int store_snapshot_save(struct store *store, pr_slice stream, int64_t version, pr_slice data, struct pr_error *reterr)
{
    int rc = snapshot_check(store, stream, reterr);
    if (rc == PR_OK && version < 1)
        rc = error_set(reterr, PR_EINVAL, "version is %lld: a snapshot covers at least one event", (long long)version);
    return rc == PR_OK ? people_snapshot_save(store, stream, version, data, reterr) : rc;
}

int store_snapshot_load(struct store *store, pr_slice stream, struct arena *arena, int64_t *ret_version,
                        pr_slice *ret_data, struct pr_error *reterr)
{
    int rc = snapshot_check(store, stream, reterr);
    return rc == PR_OK ? people_snapshot_load(store, stream, arena, ret_version, ret_data, reterr) : rc;
}

int store_session_hold(struct store *store, pr_slice session, pr_slice holder, pr_slice instance, struct arena *arena,
                       pr_slice *ret_from, struct pr_error *reterr)
{
    return store->ops->sql != NULL ? people_session_hold(store, session, holder, instance, arena, ret_from, reterr)
                                   : error_set(reterr, PR_EUNSUPPORTED, "this store does not keep sessions");
}

int store_session_look(struct store *store, pr_slice session, struct arena *arena, struct session_info *ret,
                       struct pr_error *reterr)
{
    return store->ops->sql != NULL ? people_session_look(store, session, arena, ret, reterr)
                                   : error_set(reterr, PR_EUNSUPPORTED, "this store does not keep sessions");
}

bool box_counts_exact(const struct box_counts *c)
{
    const uint64_t counts[] = { c->ready,  c->in_flight, c->delayed, c->retrying, c->held,
                                c->parked, c->paused,    c->dead,    c->done };
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        if (counts[i] > COUNT_EXACT_MAX)
            return false;
    return !c->partial;
}

static int id_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(pr_id));
}

/* Drops repeated ids; *ret_kept must be freed. */
static int ids_once(struct filter *f, pr_id **ret_kept, struct pr_error *reterr)
{
    size_t count = 0;
    pr_id *kept = f->id_count > 1 ? malloc(f->id_count * sizeof(*kept)) : NULL;
    *ret_kept = kept;
    if (f->id_count <= 1)
        return PR_OK;
    if (kept == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for %zu ids", f->id_count);
    memcpy(kept, f->ids, f->id_count * sizeof(*kept));
    qsort(kept, f->id_count, sizeof(*kept), id_compare);
    for (size_t i = 0; i < f->id_count; i++)
        if (count == 0 || !pr_id_equal(kept[i], kept[count - 1]))
            kept[count++] = kept[i];
    f->ids = kept;
    f->id_count = count;
    return PR_OK;
}

int store_admin(struct store *store, const struct admin *admin, struct admin_reply *ret_reply, struct pr_error *reterr)
{
    bool on_endpoint = admin->kind == ADMIN_PAUSE || admin->kind == ADMIN_RESUME;
    bool on_subscription = admin->kind == ADMIN_SUBSCRIPTION_RESET || admin->kind == ADMIN_SUBSCRIPTION_REMOVE;
    ASSERT(on_subscription == (admin->subscription.size > 0));
    ASSERT(admin->kind < ADMIN_ENDPOINT_TEST || (admin->outcome != NULL && !admin->dry_run));
    ASSERT((admin->kind == ADMIN_DEAD_EDIT) == (admin->edit != NULL));
    ASSERT((admin->kind == ADMIN_DEAD_IMPORT) == (admin->letters != NULL) && admin->letter_count <= IMPORT_MAX);
    if (on_endpoint && admin->filter.endpoint.size == 0)
        return error_set(reterr, PR_EINVAL, "name the endpoint to pause or resume");
    if (admin->kind == ADMIN_DEAD_EDIT && admin->filter.id_count != 1 &&
        (admin->filter.id_count > 1 || admin->filter.row == 0))
        return error_set(reterr, PR_EINVAL, "name the one dead letter to edit");
    if (admin->kind == ADMIN_DEAD_NOTE && admin->why.size == 0)
        return error_set(reterr, PR_EINVAL, "the note is empty");
    if (admin->by.size + admin->why.size > NOTE_TEXT_MAX)
        return error_set(reterr, PR_ETOOBIG, "a reason or note can have at most %d bytes", NOTE_TEXT_MAX);
    if (admin->filter.after_box.size > 0)
        return error_set(reterr, PR_EINVAL,
                         "to continue a change after a row, name its box, and no other filter by row");
    if (admin->kind != ADMIN_DEAD_IMPORT && !on_subscription && admin->flow == NULL && admin->outcome == NULL &&
        filter_is_empty(&admin->filter))
        return error_set(reterr, PR_EINVAL, "nothing is selected: give ids, or a filter such as a box or a type");
    if (admin->filter.row != 0 && admin->kind != ADMIN_DEAD_REPLAY && admin->kind != ADMIN_DEAD_DISCARD &&
        admin->kind != ADMIN_DEAD_EDIT && admin->kind != ADMIN_DEAD_NOTE)
        return only_dead(reterr);
    struct admin order = *admin;
    if (admin->kind == ADMIN_DEAD_EDIT && pr_id_is_zero(order.made))
        pr_id_new(&order.made);
    pr_id *ids = NULL;
    int rc = type_check(order.filter.type, reterr);
    if (rc == PR_OK)
        rc = ids_once(&order.filter, &ids, reterr);
    if (rc == PR_OK)
        rc = store->ops->sql != NULL ? people_admin(store, &order, ret_reply, reterr)
                                     : store->ops->admin(store->self, &order, ret_reply, reterr);
    free(ids);
    return rc;
}
