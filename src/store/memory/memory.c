/* The memory store: the reference implementation of the contract, with the visibility of
 * PostgreSQL (rows have an xid and a seq, and are found through the scan).  For simulation,
 * for users' tests, and for boxes whose messages may be lost.
 *
 *   memory_tree     ordered indexes            memory_verdict  what a verdict does
 *   memory_row      rows and their indexes     memory_cycle    the cycle
 *   memory_lease    instances and lanes        memory_read     what it reads
 *   memory_tx       senders                    memory_notice   notices, endpoints, audit
 *   memory_filter, memory_query, memory_admin  people */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "store/memory/memory_model.h"

#define REPLY_BLOCK_BYTES 16384

/* ---- Boxes ---------------------------------------------------------------------------------- */

pr_slice box_name(const struct box *box)
{
    return (pr_slice){ box->name, box->name_size };
}

struct box *box_find(struct memory *memory, pr_slice name)
{
    list_foreach(node, &memory->boxes) {
        struct box *box = LIST_ENTRY(node, struct box, node);
        if (slice_eq(box_name(box), name))
            return box;
    }
    return NULL;
}

void box_touch(struct box *box)
{
    box->generation++;
    list_foreach(node, &box->sessions) {
        const struct memory_session *session = LIST_ENTRY(node, struct memory_session, node);
        if (session->event_fd >= 0)
            (void)eventfd_write(session->event_fd, 1); /* when it is full, it wakes anyway */
    }
}

static void box_free_rows(struct list *rows)
{
    list_foreach(node, rows)
        row_free(LIST_ENTRY(node, struct stored_row, order));
}

static void box_free(struct box *box)
{
    ASSERT(list_is_empty(&box->sessions));
    list_foreach(node, &box->instances)
        instance_bury(box, LIST_ENTRY(node, struct stored_instance, node));
    box_free_rows(&box->rows);
    box_free_rows(&box->dead);
    box_free_rows(&box->done);
    map_fini(&box->by_row);
    map_fini(&box->by_id);
    map_fini(&box->dead_by_id);
    marks_free(box);
    free(box);
}

static int box_add(struct memory *memory, pr_slice name)
{
    struct box *box = calloc(1, sizeof(*box));
    if (box == NULL)
        return PR_ENOMEM;
    box->memory = memory;
    box->name_size = name.size;
    memcpy(box->name, name.data, name.size);
    struct list *const lists[] = { &box->rows,     &box->dead,       &box->done,       &box->instances,
                                   &box->sessions, &box->mark_order, &box->again_order };
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
        list_init(lists[i]);
    struct map *const maps[] = { &box->by_row, &box->by_id, &box->dead_by_id, &box->marks };
    int rc = PR_OK;
    map_init(&box->again);
    for (size_t i = 0; i < ARRAY_LENGTH(maps); i++) {
        map_init(maps[i]);
        if (rc == PR_OK)
            rc = map_insert(maps[i], &box->anchors[i], 0);
    }
    if (rc < 0) {
        box_free(box);
        return rc;
    }
    struct list_node *before = list_first(&memory->boxes); /* in the order of their names */
    while (before != NULL && slice_cmp(box_name(LIST_ENTRY(before, struct box, node)), name) < 0)
        before = list_next(&memory->boxes, before);
    if (before != NULL)
        list_insert_before(before, &box->node);
    else
        list_push_back(&memory->boxes, &box->node);
    return PR_OK;
}

/* ---- Open and close --------------------------------------------------------------------------- */

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list registry; /* stores that have a name */

static void memory_free(struct memory *memory)
{
    ASSERT(list_is_empty(&memory->open));
    list_foreach(node, &memory->boxes)
        box_free(LIST_ENTRY(node, struct box, node));
    list_foreach(node, &memory->endpoints)
        endpoint_free(LIST_ENTRY(node, struct stored_endpoint, node));
    evidence_forget(memory);
    ended_forget(memory);
    list_foreach(node, &memory->notices)
        free(LIST_ENTRY(node, struct stored_notice, node));
    list_foreach(node, &memory->audit)
        free(LIST_ENTRY(node, struct audit, node));
    kept_free_all(memory);
    subscriptions_free(memory);
    positions_free(memory);
    flows_free(memory);
    pthread_mutex_destroy(&memory->mutex);
    free(memory->name);
    free(memory);
}

static struct memory *memory_new(const struct store_options *options, const char *name)
{
    struct memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return NULL;
    pthread_mutex_init(&memory->mutex, NULL);
    memory->clock = options->clock != NULL ? options->clock : clock_system();
    memory->payload_max = options->payload_max != 0 ? options->payload_max : PR_PAYLOAD_MAX;
    memory->next_xid = 1;
    memory->notice_last = 1; /* so that 0 can mean "none yet" */
    memory->users = 1;
    struct list *const lists[] = { &memory->boxes,         &memory->open,     &memory->endpoints, &memory->evidence,
                                   &memory->notices,       &memory->audit,    &memory->ended,     &memory->events,
                                   &memory->subscriptions, &memory->positions };
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++)
        list_init(lists[i]);
    for (size_t i = 0; i < KEPT_LISTS; i++)
        list_init(&memory->kept[i]);
    flows_init(memory);
    memory->name = strdup(name);
    if (memory->name == NULL || box_add(memory, PR_STR("outbox")) < 0 || box_add(memory, PR_STR("inbox")) < 0 ||
        box_add(memory, PR_STR("turns")) < 0 || box_add(memory, PR_STR("activities")) < 0) {
        memory_free(memory);
        return NULL;
    }
    return memory;
}

static struct memory *registry_find(const char *name)
{
    list_foreach(node, &registry) {
        struct memory *memory = LIST_ENTRY(node, struct memory, node);
        if (strcmp(memory->name, name) == 0)
            return memory;
    }
    return NULL;
}

/* The store of this name, opened once more; or a new one. */
static struct memory *registry_open(const struct store_options *options, const char *name)
{
    pthread_mutex_lock(&registry_mutex);
    if (registry.head.next == NULL)
        list_init(&registry);
    struct memory *memory = registry_find(name);
    if (memory != NULL) {
        memory->users++;
    } else {
        memory = memory_new(options, name);
        if (memory != NULL)
            list_push_back(&registry, &memory->node);
    }
    pthread_mutex_unlock(&registry_mutex);
    return memory;
}

static int memory_open(const struct store_options *options, void **ret_self, struct pr_error *reterr)
{
    const char *name = strchr(options->url, ':') + 1;
    struct memory *memory = *name == '\0' ? memory_new(options, name) : registry_open(options, name);
    if (memory == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a store");
    *ret_self = memory;
    return PR_OK;
}

static void memory_close(void *self)
{
    struct memory *memory = self;
    pthread_mutex_lock(&registry_mutex);
    bool last = --memory->users == 0;
    if (last && list_is_linked(&memory->node))
        list_remove(&memory->node);
    pthread_mutex_unlock(&registry_mutex);
    if (last)
        memory_free(memory);
}

static int memory_migrate(void *self, const struct store_box *boxes, size_t box_count, struct pr_error *reterr)
{
    struct memory *memory = self;
    int rc = PR_OK;
    pthread_mutex_lock(&memory->mutex);
    for (size_t i = 0; i < box_count && rc == PR_OK; i++) {
        pr_slice name = slice_from(boxes[i].name);
        if (!name_is_valid(name))
            rc = error_set(reterr, PR_EINVAL,
                           "\"%s\" is not a valid box name: use letters, digits and _, not starting with a digit",
                           boxes[i].name);
        else if (box_find(memory, name) == NULL && box_add(memory, name) < 0)
            rc = error_set(reterr, PR_ENOMEM, "out of memory for a box");
    }
    pthread_mutex_unlock(&memory->mutex);
    return rc;
}

static int memory_check_schema(void *self, struct pr_error *reterr)
{
    (void)self;
    (void)reterr;
    return PR_OK;
}

static int64_t memory_time(void *self)
{
    return memory_now(self);
}

/* ---- Sessions --------------------------------------------------------------------------------- */

static int memory_session_open(void *self, pr_slice name, void **ret_session, struct pr_error *reterr)
{
    struct memory *memory = self;
    pthread_mutex_lock(&memory->mutex);
    struct box *box = box_find(memory, name);
    struct scan *scan = box != NULL ? scan_new(NULL) : NULL;
    struct memory_session *session = scan != NULL ? calloc(1, sizeof(*session)) : NULL;
    if (session != NULL) {
        session->box = box;
        session->event_fd = -1;
        session->generation = box->generation;
        session->history = memory->history;
        session->scan = scan;
        arena_init(&session->arena, REPLY_BLOCK_BYTES);
        list_push_back(&box->sessions, &session->node);
    }
    pthread_mutex_unlock(&memory->mutex);
    if (box == NULL)
        return error_set(reterr, PR_ENOTFOUND, "unknown box \"%.*s\"", SLICE_ARGS(name));
    if (session == NULL)
        scan_free(scan);
    if (session == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a session");
    *ret_session = session;
    return PR_OK;
}

static void memory_session_close(void *self)
{
    struct memory_session *session = self;
    struct memory *memory = session->box->memory;
    pthread_mutex_lock(&memory->mutex);
    list_remove(&session->node);
    pthread_mutex_unlock(&memory->mutex);
    if (session->event_fd >= 0)
        close(session->event_fd);
    cycle_reply_free_loaded(&session->reply);
    arena_fini(&session->arena);
    scan_free(session->scan);
    free(session);
}

/* Has anything changed since this session last looked?  If not, its event_fd will signal it. */
static bool session_has_changed(struct memory_session *session)
{
    struct box *box = session->box;
    pthread_mutex_lock(&box->memory->mutex);
    if (session->event_fd < 0)
        session->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    eventfd_t ignored;
    if (session->event_fd >= 0)
        (void)eventfd_read(session->event_fd, &ignored); /* empty is fine, too */
    bool changed = session->generation != box->generation;
    session->generation = box->generation;
    pthread_mutex_unlock(&box->memory->mutex);
    return changed;
}

static int memory_wait(void *self, int wake_fd, int64_t timeout_us)
{
    struct memory_session *session = self;
    if (session_has_changed(session))
        return WAIT_LOOK_AGAIN;
    struct timespec timeout = { .tv_sec = timeout_us / PR_SECONDS(1), .tv_nsec = timeout_us % PR_SECONDS(1) * 1000 };
    struct pollfd fds[] = { { .fd = session->event_fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN } };
    if (session->event_fd < 0)
        return WAIT_LOOK_AGAIN; /* no descriptor left: the caller looks again, too often */
    int ready = ppoll(fds, ARRAY_LENGTH(fds), timeout_us == PR_NEVER ? NULL : &timeout, NULL);
    return session_has_changed(session) || ready != 0 ? WAIT_LOOK_AGAIN : WAIT_TIMEOUT;
}

/* ---- Checking --------------------------------------------------------------------------------- */

static void row_check(struct stored_row *row)
{
    struct box *box = row->box;
    bool is_head = message_blocks_stream(&row->m) || row->m.due_us == PR_NEVER;
    ASSERT(row->after == NULL && tree_is_linked(&row->place)); /* M1 */
    ASSERT(is_head == tree_is_linked(&row->head));             /* M2 */
    ASSERT(row_find(box, row->row) == row);
    ASSERT(row->lane == lane_of(row->m.stream, row->m.id));
    ASSERT(row->m.attempts >= 0 && row->m.failures >= 0);
    const struct stored_row *same = row_find_id(box, row->m.id, row->m.destination);
    ASSERT(same == row); /* M3 */
}

static void box_check(struct box *box)
{
    size_t rows = 0, placed = box->held.count;
    list_foreach(node, &box->rows) {
        row_check(LIST_ENTRY(node, struct stored_row, order));
        rows++;
    }
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        const struct stored_instance *owner = box->lanes[i].owner;
        placed += box->lanes[i].fresh.count + box->lanes[i].due.count;
        ASSERT(owner == NULL || (owner->lanes & lane_bit(i))); /* M4 */
    }
    list_foreach(node, &box->instances) {
        const struct stored_instance *instance = LIST_ENTRY(node, struct stored_instance, node);
        for (unsigned i = 0; i < LANE_COUNT; i++)
            ASSERT(!(instance->lanes & lane_bit(i)) || box->lanes[i].owner == instance); /* M4 */
    }
    ASSERT(placed == rows && map_count(&box->by_row) == rows + 1 && map_count(&box->by_id) == rows + 1);
    list_foreach(node, &box->dead)
        ASSERT(LIST_ENTRY(node, struct stored_row, order)->after != NULL);
}

void memory_check(struct store *store)
{
    struct memory *memory = store->self;
    pthread_mutex_lock(&memory->mutex);
    list_foreach(node, &memory->boxes)
        box_check(LIST_ENTRY(node, struct box, node));
    pthread_mutex_unlock(&memory->mutex);
}

const struct store_ops store_memory = {
    .scheme = "memory",
    .can = STORE_CAN_SHARE_LANES | STORE_CAN_COMMIT_LATE,
    .open = memory_open,
    .close = memory_close,
    .migrate = memory_migrate,
    .check = memory_check_schema,
    .enqueue = memory_enqueue,
    .session_open = memory_session_open,
    .session_close = memory_session_close,
    .cycle = memory_cycle,
    .wait = memory_wait,
    .query = memory_query,
    .admin = memory_admin,
    .subscription = memory_subscription,
    .take = memory_take,
    .position = memory_position,
    .time = memory_time,
};
