#include "runtime/threads/schedule_follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/time.h"
#include "base/util.h"
#include "store/schedules.h"

#define RECORD "$schedules" /* no source can have this name */
#define BOX "outbox"
#define HASH_SIZE 17
#define RECORD_BYTES_MAX ((size_t)64 << 20)
#define ARENA_BLOCK 4096
#define TRIES_MAX 100 /* tries while other instances are faster: there are not that many */

/* What is stored for one name, and the text of its log line. */
struct schedule_follow_row {
    pr_slice name;
    pr_slice payload;
    const char *event, *next;
};

void schedule_follow_init(struct schedule_follow *f)
{
    arena_init(&f->arena, ARENA_BLOCK);
}

void schedule_follow_fini(struct schedule_follow *f)
{
    arena_fini(&f->arena);
}

static int no_memory(struct pr_error *reterr)
{
    return error_set(reterr, PR_ENOMEM, "out of memory for schedules");
}

/* ---- The record: "STARTED NAME=HASH NAME=HASH ..." ------------------------------------------------- */

static pr_slice next_word(pr_slice *rest)
{
    const char *space = rest->size > 0 ? memchr(rest->data, ' ', rest->size) : NULL;
    size_t size = space != NULL ? (size_t)(space - rest->data) : rest->size;
    pr_slice word = { rest->data, size };
    size_t skipped = min_size(size + 1, rest->size);
    *rest = (pr_slice){ rest->data + skipped, rest->size - skipped };
    return word;
}

/* The next schedule of a record; false: the end. */
static bool next_known(pr_slice *rest, pr_slice *ret_name, pr_slice *ret_hash)
{
    pr_slice word = next_word(rest);
    const char *sign = word.size > 0 ? memchr(word.data, '=', word.size) : NULL;
    if (sign == NULL)
        return false;
    *ret_name = (pr_slice){ word.data, (size_t)(sign - word.data) };
    *ret_hash = (pr_slice){ sign + 1, word.size - ret_name->size - 1 };
    return true;
}

/* Empty: not in the record. */
static pr_slice hash_in_record(pr_slice record, pr_slice wanted)
{
    pr_slice name, hash;
    (void)next_word(&record);
    while (next_known(&record, &name, &hash))
        if (slice_eq(name, wanted))
            return hash;
    return (pr_slice){ NULL, 0 };
}

/* Did a process that started after this one store its set?  A time in the future comes from a wrong clock. */
static bool is_late(const struct schedule_follow *f)
{
    pr_slice rest = f->record;
    int64_t started_us;
    return f->record.size > 0 && time_parse_rfc3339(next_word(&rest), &started_us) == PR_OK &&
           started_us > f->started_us && started_us <= store_time(f->store);
}

static int hash_meaning(const struct schedule *s, char ret[HASH_SIZE])
{
    struct buf text;
    buf_init(&text, PR_PAYLOAD_MAX);
    schedule_encode_meaning(s, &text);
    int rc = buf_failed(&text);
    if (rc == PR_OK)
        snprintf(ret, HASH_SIZE, "%016" PRIx64, hash_slice(1, buf_slice(&text)));
    buf_fini(&text);
    return rc;
}

static int make_record(struct schedule_follow *f, struct pr_error *reterr)
{
    struct buf text;
    char hash[HASH_SIZE], started[TIME_TEXT_SIZE];
    int rc = PR_OK;
    buf_init(&text, RECORD_BYTES_MAX);
    time_format_rfc3339(f->started_us, started);
    buf_add_cstr(&text, started);
    for (size_t i = 0; i < f->count && rc == PR_OK; i++) {
        rc = hash_meaning(&f->list[i].meaning, hash);
        buf_addf(&text, " %s=%s", f->list[i].name, hash);
    }
    if (rc == PR_OK && buf_failed(&text) == PR_OK)
        f->own_record = slice_dup(&f->arena, buf_slice(&text));
    buf_fini(&text);
    return f->own_record.data != NULL ? PR_OK : no_memory(reterr);
}

/* ---- What is to be stored ----------------------------------------------------------------------- */

static int add_row(struct schedule_follow *f, const struct schedule *s, const char *event, const char *next)
{
    struct buf json;
    struct schedule_follow_row *row = &f->rows[f->row_count];
    buf_init(&json, PR_PAYLOAD_MAX);
    schedule_encode(s, &json);
    *row = (struct schedule_follow_row){ .name = slice_dup(&f->arena, s->name), .event = event, .next = next };
    if (buf_failed(&json) == PR_OK)
        row->payload = slice_dup(&f->arena, buf_slice(&json));
    buf_fini(&json);
    f->row_count++;
    return row->name.data != NULL && row->payload.data != NULL ? PR_OK : PR_ENOMEM;
}

static const struct schedule_info *info_of(const struct schedule_info *list, size_t count, pr_slice name)
{
    const struct schedule_info *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (slice_eq(list[i].s.name, name) && list[i].state != SCHEDULE_DEAD && (found == NULL || list[i].wish))
            found = &list[i]; /* the latest wish decides */
    return found;
}

/* Unchanged in the record and in the store: then no pending wish would change it. */
static int add_change(struct schedule_follow *f, const struct config_schedule *c, const struct schedule_info *there)
{
    struct schedule s = c->meaning;
    char hash[HASH_SIZE];
    int rc = hash_meaning(&s, hash);
    if (rc != PR_OK)
        return rc;
    pr_slice known = hash_in_record(f->record, s.name);
    if (there != NULL && slice_eq_cstr(there->s.config, hash) && slice_eq_cstr(known, hash))
        return PR_OK;
    bool is_new = there == NULL && known.size == 0;
    s.config = slice_from(hash);
    s.started_us = f->started_us;
    s.paused = there != NULL ? there->state == SCHEDULE_PAUSED : s.paused;
    return add_row(f, &s, is_new ? "schedule_added" : "schedule_changed",
                   is_new ? "postrider schedules shows its next times"
                          : "replaced by the configuration of this instance, which started later");
}

static bool is_in_config(const struct schedule_follow *f, pr_slice name)
{
    for (size_t i = 0; i < f->count; i++)
        if (slice_eq_cstr(name, f->list[i].name))
            return true;
    return false;
}

static int add_end(struct schedule_follow *f, pr_slice name)
{
    const struct schedule s = { .name = name, .cancel = true };
    for (size_t i = 0; i < f->row_count; i++)
        if (slice_eq(f->rows[i].name, name))
            return PR_OK;
    return add_row(f, &s, "schedule_cancelled", "it is no longer in the configuration");
}

/* Schedules of an earlier configuration that this one lacks: those that are visible, and those in the record. */
static int add_ends(struct schedule_follow *f, const struct schedule_info *there, size_t there_count)
{
    pr_slice record = f->record, name, hash;
    int rc = PR_OK;
    for (size_t i = 0; i < there_count && rc == PR_OK; i++)
        if (there[i].s.config.size > 0 && there[i].state != SCHEDULE_DEAD && !is_in_config(f, there[i].s.name))
            rc = add_end(f, there[i].s.name);
    (void)next_word(&record);
    while (rc == PR_OK && next_known(&record, &name, &hash)) {
        const struct schedule_info *info = info_of(there, there_count, name);
        /* otherwise it was added by hand since */
        if (!is_in_config(f, name) && (info == NULL || info->s.config.size > 0))
            rc = add_end(f, name);
    }
    return rc;
}

static size_t count_words(pr_slice text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == ' ';
    return count;
}

static int compare(struct schedule_follow *f, struct pr_error *reterr)
{
    struct schedule_info *there;
    size_t there_count;
    int rc = schedules_find_known(f->store, &f->arena, &there, &there_count, reterr);
    if (rc != PR_OK)
        return rc;
    f->rows = arena_alloc_array(&f->arena, f->count + there_count + count_words(f->record), sizeof(f->rows[0]));
    rc = f->rows != NULL ? PR_OK : PR_ENOMEM;
    for (size_t i = 0; i < f->count && rc == PR_OK; i++)
        rc = add_change(f, &f->list[i], info_of(there, there_count, slice_from(f->list[i].name)));
    if (rc == PR_OK)
        rc = add_ends(f, there, there_count);
    return rc == PR_OK ? PR_OK : no_memory(reterr);
}

int schedule_follow_look(struct schedule_follow *f, struct pr_error *reterr)
{
    arena_fini(&f->arena);
    arena_init(&f->arena, ARENA_BLOCK);
    f->rows = NULL;
    f->row_count = 0;
    f->own_record = (pr_slice){ NULL, 0 };
    int rc = make_record(f, reterr);
    if (rc == PR_OK)
        rc = store_position(f->store, PR_STR(RECORD), &f->arena, &f->record, reterr);
    f->is_late = rc == PR_OK && is_late(f);
    return rc == PR_OK && !f->is_late ? compare(f, reterr) : rc;
}

/* ---- Storing ---------------------------------------------------------------------------------------- */

static int take_rows(struct schedule_follow *f, struct pr_error *reterr)
{
    const struct position_move move = { .source = PR_STR(RECORD), .from = f->record, .to = f->own_record };
    struct pr_message *wishes = arena_alloc_array(&f->arena, f->row_count + 1, sizeof(wishes[0]));
    int *answers = arena_alloc_array(&f->arena, f->row_count + 1, sizeof(answers[0]));
    if (wishes == NULL || answers == NULL)
        return no_memory(reterr);
    for (size_t i = 0; i < f->row_count; i++) {
        const struct schedule s = { .name = f->rows[i].name };
        wishes[i] = schedule_row(&s, f->rows[i].payload, 0);
        pr_id_new(&wishes[i].id);
    }
    return store_take(f->store, PR_STR(BOX), wishes, f->row_count, f->payload_max, &move, answers, reterr);
}

int schedule_follow_store(struct schedule_follow *f, struct pr_error *reterr)
{
    if (f->is_late) {
        pr_slice rest = f->record;
        (void)next_word(&rest);
        pr_slice own = f->own_record;
        (void)next_word(&own);
        if (!slice_eq(rest, own))
            log_emit(
                f->log, LOG_INFO, "schedules_kept",
                LOG_STR("next", "an instance that started later has another configuration; its schedules are kept"));
        return PR_OK;
    }
    int rc = f->row_count > 0 || !slice_eq(f->record, f->own_record) ? take_rows(f, reterr) : PR_OK;
    for (size_t i = 0; i < f->row_count && rc == PR_OK; i++)
        log_emit(f->log, LOG_INFO, f->rows[i].event, LOG_SLICE("schedule", f->rows[i].name),
                 LOG_STR("next", f->rows[i].next));
    return rc;
}

int schedule_follow(struct schedule_follow *f, struct pr_error *reterr)
{
    int rc = PR_STALE;
    for (unsigned i = 0; i < TRIES_MAX && rc == PR_STALE; i++) {
        rc = schedule_follow_look(f, reterr);
        if (rc == PR_OK)
            rc = schedule_follow_store(f, reterr);
    }
    return rc == PR_STALE ? error_set(reterr, PR_EBUSY, "other instances store their schedules all the time") : rc;
}
