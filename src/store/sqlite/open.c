/* open.c - opening a store by its URL.
 *
 * sqlite:PATH?synchronous=full|normal&busy=5s.  Connections are opened when they are first needed, so that a question
 * to a missing file gets an answer and does not create the file. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/units.h"
#include "store/sqlite/sqlite.h"

#define BUSY_DEFAULT_US PR_SECONDS(5)
#define BUSY_MAX_US PR_MINUTES(10)

static int url_option(struct sqlite_location *location, pr_slice key, pr_slice value, struct pr_error *reterr)
{
    if (slice_eq_cstr(key, "synchronous")) {
        location->full = slice_eq_cstr(value, "full");
        if (location->full || slice_eq_cstr(value, "normal"))
            return PR_OK;
        return error_set(reterr, PR_EINVAL, "synchronous=%.*s in the store's URL: use full or normal",
                         SLICE_ARGS(value));
    }
    if (slice_eq_cstr(key, "busy")) {
        int64_t us;
        if (duration_parse(value, &us) == PR_OK && us >= 0 && us <= BUSY_MAX_US) {
            location->busy_us = us;
            return PR_OK;
        }
        return error_set(reterr, PR_EINVAL, "busy=%.*s in the store's URL: use a duration such as 5s, at most 10m",
                         SLICE_ARGS(value));
    }
    return error_set(reterr, PR_EINVAL, "unknown option %.*s in the store's URL; use synchronous or busy",
                     SLICE_ARGS(key));
}

static pr_slice slice_until(pr_slice *rest, char mark)
{
    const char *found = rest->size > 0 ? memchr(rest->data, mark, rest->size) : NULL;
    pr_slice head = { rest->data, found != NULL ? (size_t)(found - rest->data) : rest->size };
    size_t used = head.size + (found != NULL);
    *rest = (pr_slice){ rest->data + used, rest->size - used };
    return head;
}

static int url_parse(const char *url, struct sqlite_location *location, struct pr_error *reterr)
{
    pr_slice rest = slice_from(url);
    if (!slice_starts_with(rest, PR_STR("sqlite:")))
        return error_set(reterr, PR_EINVAL, "%s: the URL of this store must begin with sqlite:", url);
    rest = (pr_slice){ rest.data + 7, rest.size - 7 };
    if (slice_starts_with(rest, PR_STR("///"))) /* the form that other programs use */
        rest = (pr_slice){ rest.data + 2, rest.size - 2 };

    pr_slice path = slice_until(&rest, '?');
    location->full = true;
    location->busy_us = BUSY_DEFAULT_US;
    if (path.size == 0)
        return error_set(reterr, PR_EINVAL, "the store's URL has no path: use sqlite:postrider.db");
    while (rest.size > 0) {
        pr_slice value = slice_until(&rest, '&');
        pr_slice key = slice_until(&value, '=');
        int rc = url_option(location, key, value, reterr);
        if (rc != PR_OK)
            return rc;
    }
    location->memory = slice_eq_cstr(path, ":memory:");
    location->path = strndup(path.data, path.size);
    return location->path != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory for a store");
}

static void boot_id_read(char ret[BOOT_ID_SIZE])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, ret, BOOT_ID_SIZE - 1) : 0;
    if (fd >= 0)
        close(fd);
    ret[size > 0 ? size : 0] = '\0'; /* without a boot id, leases end by the clock alone */
    ret[strcspn(ret, "\n")] = '\0';
}

static void sqlite_close(void *self)
{
    struct sqlite_store *store = self;
    ASSERT(list_is_empty(&store->sessions));
    conn_close(store->sender);
    conn_close(store->people);
    senders_fini(&store->senders);
    pthread_mutex_destroy(&store->lock);
    free(store->location.path);
    free(store);
}

static int sqlite_open(const struct store_options *options, void **ret_self, struct pr_error *reterr)
{
    struct sqlite_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a store");
    store->clock = options->clock != NULL ? options->clock : clock_system();
    store->log = options->log;
    store->poll_min_us = options->poll_min_us > 0 ? options->poll_min_us : POLL_MIN_US;
    store->poll_max_us = options->poll_max_us > 0 ? options->poll_max_us : POLL_MAX_US;
    store->payload_max = options->payload_max > 0 ? options->payload_max : PR_PAYLOAD_MAX;
    pthread_mutex_init(&store->lock, NULL);
    list_init(&store->sessions);
    senders_init(&store->senders);
    boot_id_read(store->boot_id);

    int rc = url_parse(options->url, &store->location, reterr);
    if (rc == PR_OK && (store->location.memory || access(store->location.path, F_OK) == 0)) {
        struct conn *conn;
        rc = store_people(store, store->location.memory, &conn, reterr);
    }
    if (rc != PR_OK) {
        sqlite_close(store);
        return rc;
    }
    *ret_self = store;
    return PR_OK;
}

int store_people(struct sqlite_store *store, bool create, struct conn **ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    pthread_mutex_lock(&store->lock);
    bool opens = store->people == NULL;
    if (opens)
        rc = conn_open(&store->location, create, &store->people, reterr);
    if (opens && rc == PR_OK) /* one look at a long list would fill a cache as large as that of a box, and keep it */
        rc = conn_script(store->people, "PRAGMA cache_size = -2048", reterr);
    if (rc == PR_OK)
        *ret = store->people;
    pthread_mutex_unlock(&store->lock);
    return rc;
}

/* Not where all that SQLite looks at is read-only. */
static bool has_temporary_files(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_file *file = vfs != NULL ? calloc(1, (size_t)vfs->szOsFile) : NULL;
    int flags = SQLITE_OPEN_SUBJOURNAL | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXCLUSIVE |
                SQLITE_OPEN_DELETEONCLOSE;
    bool has = file != NULL && vfs->xOpen(vfs, NULL, file, flags, &flags) == SQLITE_OK;
    if (file != NULL && file->pMethods != NULL)
        file->pMethods->xClose(file);
    free(file);
    return has;
}

/* Each INSERT keeps the old content of the pages that it changes, since boxes have triggers: in memory that is a block
 * for each kilobyte, in a temporary "file" one block, which becomes a file beyond 64 KiB. */
static int sender_open(struct sqlite_store *store, struct pr_error *reterr)
{
    int rc = conn_open(&store->location, false, &store->sender, reterr);
    if (rc == PR_OK && has_temporary_files())
        rc = conn_script(store->sender, "PRAGMA temp_store = default", reterr);
    return rc;
}

int store_sender(struct sqlite_store *store, struct conn **ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    pthread_mutex_lock(&store->lock);
    if (store->sender == NULL && store->location.memory)
        store->sender = conn_share(store->people);
    if (store->sender == NULL)
        rc = sender_open(store, reterr);
    if (rc == PR_OK)
        *ret = store->sender;
    pthread_mutex_unlock(&store->lock);
    return rc;
}

int64_t store_wall_us(const struct sqlite_store *store)
{
    return clock_wall_us(store->clock);
}

int64_t store_mono_us(const struct sqlite_store *store)
{
    return clock_mono_us(store->clock);
}

static int64_t sqlite_time(void *self)
{
    return store_wall_us(self);
}

const struct store_ops store_sqlite = {
    .scheme = "sqlite",
    .can = STORE_CAN_LAST | STORE_CAN_PROCESSES,
    .open = sqlite_open,
    .close = sqlite_close,
    .migrate = sqlite_migrate,
    .check = sqlite_check,
    .enqueue = sqlite_enqueue,
    .session_open = sqlite_session_open,
    .session_close = sqlite_session_close,
    .cycle = sqlite_cycle,
    .wait = sqlite_wait,
    .time = sqlite_time,
    .sql = &sqlite_sql,
};
