/* The loop: connect, read the log, ring, store letters, confirm; and start over after trouble.
 *
 * An instance either holds the slot, and reads letters and inserts through it, or it has a temporary one for inserts
 * only.  Such an instance checks from time to time whether the slot is free, and takes it over.  So there is one
 * connection in either role. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "source/wal/wal_inside.h"

#define SQL_IN_USE "55006"
#define WAL_TAKE_OVER 2 /* outcome: the slot is free */

#define FRAMES_MAX 3000            /* frames read at once: then letters are committed, and other work is done */
#define TELL_US PR_SECONDS(1)      /* how often a quiet log is confirmed */
#define LAG_LOOK_US PR_SECONDS(5)  /* how often the state of the own slot is checked */
#define FREE_LOOK_US PR_SECONDS(1) /* ... and of a slot that another instance holds */
#define ASK_US PR_SECONDS(10)      /* a silent server is asked for a reply ... */
#define SILENT_US PR_SECONDS(30)   /* ... and the connection closed after this */
#define RETRY_FIRST_US PR_MILLISECONDS(200)
#define RETRY_LAST_US PR_SECONDS(10)
#define GIVE_UP_US PR_SECONDS(60) /* after the doorbell cost the server too much log */
#define REPEAT_US PR_SECONDS(60)  /* excessive lag is logged again after this time */

struct wal {
    struct source *source;
    struct postgres_store *store;
    struct wal_setting setting;
    struct wal_names names;
    struct link *sql;
    struct wal_link link;
    struct wal_keep keep;
    char own_slot[WAL_NAME_SIZE]; /* the temporary one */

    bool holds;        /* the slot; otherwise inserts only */
    bool inside;       /* between BEGIN and COMMIT */
    bool skips;        /* ... of a transaction that is stored already */
    bool rings;        /* ... with inserts in it */
    int64_t at_us;     /* ... and when it was committed */
    wal_place reached; /* after the latest transaction */
    wal_place confirmed, reported;
    bool pending;                             /* letters are not committed yet */
    int64_t heard_us, reported_us, looked_us; /* by the monotonic clock */

    int64_t retry_us;
    enum wal_level lag_level;
    int64_t lag_logged_us;
};

static int64_t now_us(void)
{
    return clock_mono_us(clock_system());
}

/* ---- Begin -------------------------------------------------------------------------------------------- */

static int hold(struct wal *w, struct pr_error *reterr)
{
    int rc = wal_slot_make(w->sql, &w->link, &w->names, PR_NEVER, w->store->log, reterr);
    if (rc == PR_OK)
        rc = wal_keep_begin(&w->keep, w->names.slot, reterr);
    if (rc == PR_OK)
        rc = wal_link_start(&w->link, w->names.slot, w->names.publication, w->keep.stored, reterr);
    if (rc < 0 && strcmp(w->link.state, SQL_IN_USE) == 0)
        return PR_OK; /* another instance holds it */
    w->holds = rc == PR_OK;
    return rc;
}

static int hear(struct wal *w, struct pr_error *reterr)
{
    int rc = wal_slot_make_temporary(&w->link, &w->names, w->own_slot, reterr);
    return rc == PR_OK ? wal_link_start(&w->link, w->own_slot, w->names.publication, 0, reterr) : rc;
}

static int begin(struct wal *w, struct pr_error *reterr)
{
    w->holds = w->inside = w->skips = w->rings = w->pending = false;
    w->reached = w->confirmed = w->reported = 0;
    w->link.state[0] = '\0';
    int rc = link_ensure(w->sql, reterr);
    if (rc == PR_OK)
        rc = wal_names_make(w->sql, &w->setting, &w->names, reterr);
    if (rc == PR_OK)
        rc = wal_server_check(w->sql, reterr);
    if (rc == PR_OK)
        rc = wal_publication_make(w->sql, &w->setting, &w->names, reterr);
    if (rc == PR_OK)
        rc = wal_link_open(&w->link, reterr);
    if (rc == PR_OK && w->setting.letters)
        rc = hold(w, reterr);
    if (rc == PR_OK && !w->holds)
        rc = hear(w, reterr);
    link_forget(w->sql);
    if (rc != PR_OK)
        return rc;
    w->heard_us = w->reported_us = w->looked_us = now_us();
    w->retry_us = RETRY_FIRST_US;
    (void)source_fine(w->source);
    log_emit(w->store->log, LOG_INFO, "wal_reading", LOG_STR("slot", w->holds ? w->names.slot : w->own_slot),
             LOG_STR("letters", w->holds             ? "here"
                                : w->setting.letters ? "elsewhere"
                                                     : "off"));
    return PR_OK;
}

/* ---- Events ------------------------------------------------------------------------------------------------ */

static int tell(struct wal *w, bool asks, struct pr_error *reterr)
{
    w->reported = w->confirmed;
    w->reported_us = now_us();
    return wal_link_tell(&w->link, w->confirmed, asks, reterr);
}

/* No transaction is partly read: stores what was read, then confirms it. */
static int settle(struct wal *w, struct pr_error *reterr)
{
    bool stores = w->pending;
    int rc = stores ? wal_keep_commit(&w->keep, w->reached, reterr) : PR_OK;
    if (rc != PR_OK)
        return rc;
    w->confirmed = w->reached > w->confirmed ? w->reached : w->confirmed;
    if (!stores)
        return PR_OK; /* it can be confirmed later */
    w->pending = w->keep.careful = false;
    source_moved(w->source, &w->keep.kept);
    return tell(w, false, reterr);
}

static int take_letter(struct wal *w, const struct wal_event *e, int64_t at_us, struct pr_error *reterr)
{
    int rc = wal_keep_letter(&w->keep, e, at_us, reterr);
    w->pending = w->keep.open || w->keep.count > 0;
    return rc;
}

/* A message outside of a transaction has its own place in the log. */
static int take_message(struct wal *w, const struct wal_event *e, struct pr_error *reterr)
{
    if (!w->holds)
        return PR_OK;
    if (e->with_transaction)
        return w->skips ? PR_OK : take_letter(w, e, w->at_us, reterr);
    if (e->place < w->keep.stored)
        return PR_OK;
    int rc = take_letter(w, e, clock_wall_us(clock_system()), reterr);
    w->reached = e->place + 1 > w->reached ? e->place + 1 : w->reached;
    return rc;
}

static int take_event(struct wal *w, const struct wal_event *e, struct pr_error *reterr)
{
    switch (e->kind) {
    case WAL_BEGIN:
        w->inside = true;
        w->skips = w->holds && e->place < w->keep.stored;
        w->at_us = e->at_us;
        return PR_OK;
    case WAL_INSERT: w->rings = true; return PR_OK;
    case WAL_MESSAGE: return take_message(w, e, reterr);
    case WAL_COMMIT:
        w->inside = false;
        w->reached = e->place;
        if (w->rings)
            pg_store_wake(w->store);
        w->rings = false;
        return PR_OK;
    default: return PR_OK;
    }
}

static int take_frame(struct wal *w, pr_slice bytes, struct pr_error *reterr)
{
    struct wal_frame frame;
    struct wal_event event;
    int rc = wal_frame_parse(bytes, &frame, reterr);
    if (rc != PR_OK)
        return rc;
    if (frame.kind == WAL_FRAME_DATA) {
        rc = wal_event_parse(frame.body, &event, reterr);
        return rc == PR_OK ? take_event(w, &event, reterr) : rc;
    }
    /* Everything committed before has been sent, so after receiving it, the place is reached. */
    if (!w->inside && frame.end > w->reached)
        w->reached = frame.end;
    return frame.wants_reply ? tell(w, false, reterr) : PR_OK;
}

/* ---- From time to time ---------------------------------------------------------------------------------------- */

static int keep_in_touch(struct wal *w, struct pr_error *reterr)
{
    int64_t now = now_us(), silent_us = now - w->heard_us;
    if (silent_us >= SILENT_US)
        return error_set(reterr, PR_ESTORE, "PostgreSQL: no data from the server for %d s",
                         (int)(SILENT_US / PR_SECONDS(1)));
    bool asks = silent_us >= ASK_US;
    bool is_due = w->confirmed != w->reported || now - w->reported_us >= ASK_US;
    return now - w->reported_us >= TELL_US && (is_due || asks) ? tell(w, asks, reterr) : PR_OK;
}

/* Letters must not be lost: the warning is repeated, and the slot stays. */
static void watch_lag(struct wal *w, const struct wal_slot_state *slot)
{
    enum wal_level level = slot->lag > w->setting.max_lag       ? WAL_ERROR
                           : slot->lag > w->setting.max_lag / 2 ? WAL_WARN
                                                                : WAL_FINE;
    bool again = level == WAL_ERROR && now_us() - w->lag_logged_us >= REPEAT_US;
    if (level != w->lag_level || again) {
        log_emit(w->store->log,
                 level == WAL_ERROR  ? LOG_ERROR
                 : level == WAL_WARN ? LOG_WARN
                                     : LOG_INFO,
                 "wal_lag", LOG_STR("slot", w->names.slot), LOG_INT("bytes", slot->lag),
                 LOG_INT("max_lag", w->setting.max_lag));
        w->lag_logged_us = now_us();
    }
    w->lag_level = level;
}

static int look(struct wal *w, struct pr_error *reterr)
{
    struct wal_slot_state slot;
    if (now_us() - w->looked_us < (w->holds ? LAG_LOOK_US : FREE_LOOK_US) || w->keep.open)
        return PR_OK;
    w->looked_us = now_us();
    int rc = link_ensure(w->sql, reterr);
    if (rc == PR_OK && w->setting.letters)
        rc = wal_slot_look(w->sql, w->names.slot, &slot, reterr);
    if (rc == PR_OK && w->holds)
        watch_lag(w, &slot);
    if (rc == PR_OK && !w->holds && w->setting.letters && !slot.active)
        rc = WAL_TAKE_OVER;
    if (rc == PR_OK && !w->holds)
        rc = wal_slot_look(w->sql, w->own_slot, &slot, reterr);
    if (rc == PR_OK && !w->holds && slot.lag > w->setting.max_lag) {
        w->retry_us = GIVE_UP_US;
        rc = error_set(
            reterr, PR_EBUSY,
            "the server kept more than max_lag of its log to wake this instance; polling replaces it for a while:"
            " a transaction may have been open for a long time");
    }
    link_forget(w->sql);
    return rc;
}

/* ---- The stream ---------------------------------------------------------------------------------------------------- */

/* Outcome PR_UNKNOWN: nothing more right now. */
static int read_frames(struct wal *w, struct pr_error *reterr)
{
    pr_slice bytes;
    int rc = PR_OK;
    for (int i = 0; i < FRAMES_MAX && rc == PR_OK; i++) {
        rc = wal_link_next(&w->link, &bytes, reterr);
        if (rc != PR_OK)
            break;
        w->heard_us = now_us();
        rc = take_frame(w, bytes, reterr);
    }
    return rc;
}

static int stream(struct wal *w, struct pr_error *reterr)
{
    for (;;) {
        int rc = read_frames(w, reterr);
        bool more = rc == PR_OK;
        if (rc == PR_UNKNOWN)
            rc = PR_OK;
        if (rc == PR_OK && !w->inside)
            rc = settle(w, reterr);
        if (rc == PR_OK)
            rc = keep_in_touch(w, reterr);
        if (rc == PR_OK)
            rc = look(w, reterr);
        if (rc == PR_OK)
            rc = wal_link_wait(&w->link, more ? 0 : TELL_US);
        if (rc != PR_OK)
            return rc;
    }
}

/* ---- The whole ------------------------------------------------------------------------------------------------------- */

static void wal_run(void *self, int wake_fd)
{
    struct wal *w = self;
    struct pr_error error = { 0 };
    w->link.wake_fd = wake_fd;
    for (;;) {
        int rc = begin(w, &error);
        if (rc == PR_OK) {
            atomic_fetch_add(&w->store->log_readers, 1);
            rc = stream(w, &error);
            atomic_fetch_sub(&w->store->log_readers, 1);
            pg_store_wake(w->store); /* sessions that relied on it look for themselves now */
        }
        wal_keep_drop(&w->keep);
        wal_link_close(&w->link);
        if (rc == WAL_WOKEN)
            return;
        if (rc == WAL_TAKE_OVER)
            continue;
        if (source_trouble(w->source, &error))
            log_emit(w->source->log, LOG_ERROR, "wal_trouble", LOG_STR("error", error.text),
                     LOG_STR("next", "boxes are polled meanwhile"));
        if (source_rest(wake_fd, w->retry_us))
            return;
        w->retry_us = min64(2 * w->retry_us, RETRY_LAST_US);
    }
}

static void wal_close(void *self)
{
    struct wal *w = self;
    wal_link_close(&w->link);
    wal_keep_fini(&w->keep);
    link_free(w->sql);
    free(w);
}

static int wal_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    struct postgres_store *store = source->store->self;
    struct wal *w = calloc(1, sizeof(*w));
    if (w != NULL)
        w->sql = link_new(&store->conninfo, LINK_PEOPLE, store->log);
    if (w == NULL || w->sql == NULL) {
        free(w);
        return error_set(reterr, PR_ENOMEM, "out of memory for the log");
    }
    w->source = source;
    w->store = store;
    w->setting = source->config->wal;
    w->link = (struct wal_link){ .conninfo = &store->conninfo, .wake_fd = -1 };
    w->retry_us = RETRY_FIRST_US;
    wal_keep_init(&w->keep, store, &w->setting, w->sql);
    *ret_self = w;
    return PR_OK;
}

const struct source_ops source_wal = {
    .open = wal_open,
    .run = wal_run,
    .close = wal_close,
};
