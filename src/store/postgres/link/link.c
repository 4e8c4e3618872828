/* One connection; see link.h. */
#include "store/postgres/link/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "store/postgres/message.h"
#include "store/sql.h"

#define SQL_MAX (1u << 18) /* a listing looks into 64 lanes */
#define NAME_SIZE 32
#define GATHER_US 250           /* the socket's buffer takes what the server sends in several times this */
#define GATHERED_MAX (2u << 20) /* bytes of a left batch that are taken early */
#define GATHER_BYTES 8192       /* what the server sends at a time, when it has more */
#define UNKNOWN_BOX "PRBOX" /* raised by Postrider: a box that does not exist, or was created after this connection */
#define STALE_PLAN "0A000"  /* a table was altered: the prepared statement has other types now */

struct link_statement {
    const char *sql; /* the template's address; NULL: a composed text */
    char box[BOX_NAME_MAX + 1];
    char name[NAME_SIZE];
    char *text;
    bool prepared;
};

static void steps_clear(struct link *link)
{
    link->step_count = link->steps_sent = link->steps_taken = 0;
    link->batch_at = link->batch_end = 0;
    link->queues_next = false;
}

struct link *link_new(const struct conninfo *conninfo, enum link_use use, struct log *log)
{
    struct link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    link->conninfo = conninfo;
    link->use = use;
    link->log = log;
    link->lock_timeout_us = LOCK_TIMEOUT_MAX_US;
    return link;
}

void link_forget_after(struct link *link, size_t mark)
{
    while (link->result_count > mark)
        PQclear(link->results[--link->result_count]);
}

void link_forget(struct link *link)
{
    link_forget_after(link, 0);
}

void link_down(struct link *link)
{
    if (link->pg != NULL)
        PQfinish(link->pg);
    link->pg = NULL;
    link->in_tx = false;
    steps_clear(link);
    for (size_t i = 0; i < link->statement_count; i++)
        link->statements[i]->prepared = false;
    for (size_t i = 0; i < LINK_TEXTS; i++)
        if (link->texts[i] != NULL)
            link->texts[i]->prepared = false;
}

static void statement_free(struct link_statement *s)
{
    if (s != NULL)
        free(s->text);
    free(s);
}

void link_free(struct link *link)
{
    if (link == NULL)
        return;
    link_down(link);
    link_forget(link);
    for (size_t i = 0; i < link->statement_count; i++)
        statement_free(link->statements[i]);
    for (size_t i = 0; i < LINK_TEXTS; i++)
        statement_free(link->texts[i]);
    free(link->statements);
    free(link->boxes);
    free(link->results);
    free(link);
}

bool link_is_up(const struct link *link)
{
    return link->pg != NULL && PQstatus(link->pg) == CONNECTION_OK;
}

/* ---- Statements ----------------------------------------------------------------------------- */

/* Replaces the content of a pair of braces; false: not a known mark.  parameter: the largest so far. */
static bool mark_expand(struct buf *b, pr_slice mark, pr_slice schema, pr_slice box, pr_slice table, int *parameter)
{
    if (slice_eq_cstr(mark, "?"))
        buf_addf(b, "$%d", ++*parameter);
    else if (slice_eq_cstr(mark, "schema"))
        buf_addf(b, "\"%.*s\"", SLICE_ARGS(schema));
    else if (slice_eq_cstr(mark, "prefix"))
        buf_addf(b, "\"%.*s\".", SLICE_ARGS(schema));
    else if (slice_eq_cstr(mark, "box"))
        buf_addf(b, "\"%.*s\".\"%.*s\"", SLICE_ARGS(schema), SLICE_ARGS(table));
    else if (slice_eq_cstr(mark, "box_seq"))
        buf_addf(b, "\"%.*s\".\"%.*s_seq_seq\"", SLICE_ARGS(schema), SLICE_ARGS(table));
    else if (slice_eq_cstr(mark, "box_name"))
        buf_addf(b, "'%.*s'", SLICE_ARGS(box));
    else if (slice_eq_cstr(mark, "message"))
        buf_add_cstr(b, MESSAGE_COLUMNS(MESSAGE_PAYLOAD("$2::bigint")));
    else if (slice_eq_cstr(mark, "message_brief"))
        buf_add_cstr(b, MESSAGE_COLUMNS(MESSAGE_NO_PAYLOAD));
    else
        return false;
    return true;
}

char *pg_sql_expand(const char *sql, pr_slice schema, pr_slice box, pr_slice table)
{
    struct buf b;
    int parameter = 0;
    bool quoted = false; /* a user's table may be called "?1" */
    buf_init(&b, SQL_MAX);
    for (const char *at = sql; *at != '\0';) {
        size_t plain = strcspn(at, "{?$\"");
        buf_add(&b, at, plain);
        at += plain;
        const char *end = *at == '{' ? strchr(at, '}') : NULL;
        if (end != NULL && mark_expand(&b, PR_BYTES(at + 1, (size_t)(end - at - 1)), schema, box, table, &parameter))
            at = end + 1;
        else if ((*at == '?' || *at == '$') && !quoted && at[1] >= '1' && at[1] <= '9') {
            int number = atoi(++at);
            parameter = number > parameter ? number : parameter;
            buf_add_char(&b, '$');
        } else if (*at != '\0') {
            quoted ^= *at == '"';
            buf_add_char(&b, *at++);
        }
    }
    if (buf_failed(&b) == PR_OK)
        return b.data;
    buf_fini(&b);
    return NULL;
}

/* Equal names must mean equal texts, also for statements that another session of the pooler prepared.  But when a batch
 * fails, the statement that it was to deallocate still exists: so a text that comes back later gets another number.
 * Owns the text. */
static void statement_set_text(struct link_statement *s, char *text, unsigned number)
{
    free(s->text);
    s->text = text;
    s->prepared = false;
    snprintf(s->name, sizeof(s->name), "pr_%016llx_%x", (unsigned long long)hash_slice(0, slice_from(text)), number);
}

/* Owns the text, which may be NULL: no memory. */
static struct link_statement *statement_new(const char *sql, pr_slice box, char *text, unsigned number)
{
    struct link_statement *s = text != NULL ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL) {
        free(text);
        return NULL;
    }
    statement_set_text(s, text, number);
    ASSERT(box.size <= BOX_NAME_MAX);
    s->sql = sql;
    if (box.size > 0)
        memcpy(s->box, box.data, box.size);
    return s;
}

/* Room for one more of `size` bytes; false: no memory. */
static bool list_grow(void **list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    size_t wanted = *room > 0 ? 2 * *room : 16;
    void *grown = realloc(*list, wanted * size);
    if (grown == NULL)
        return false;
    *list = grown;
    *room = wanted;
    return true;
}

static struct link_statement *statement_get(struct link *link, const char *sql, pr_slice box)
{
    for (size_t i = 0; i < link->statement_count; i++)
        if (link->statements[i]->sql == sql && slice_eq_cstr(box, link->statements[i]->box))
            return link->statements[i];
    struct link_statement *s = NULL;
    if (list_grow((void **)&link->statements, link->statement_count, &link->statement_room, sizeof(s)))
        s = statement_new(sql, box, pg_sql_expand(sql, slice_from(link->conninfo->schema), box, link_table(link, box)),
                          0);
    if (s != NULL)
        link->statements[link->statement_count++] = s;
    return s;
}

static void step_add(struct link *link, struct link_statement *prepares, PGresult **ret, bool commits)
{
    ASSERT(link->step_count < LINK_STEPS_MAX);
    link->steps[link->step_count++] = (struct step){
        .prepares = prepares, .ret = link->trial == NULL ? ret : NULL, .commits = commits, .trial = link->trial
    };
}

static void statement_send(struct link *link, struct link_statement *s, const struct args *a, PGresult **ret)
{
    int sent;
    if (!link->pooled && !s->prepared) {
        if (!PQsendPrepare(link->pg, s->name, s->text, a->count, a->types)) {
            link->add_failed = PR_ESTORE;
            return;
        }
        step_add(link, s, NULL, false);
        s->prepared = true; /* unless the server reports otherwise */
    }
    if (link->pooled)
        sent = PQsendQueryParams(link->pg, s->text, a->count, a->types, a->values, a->lengths, a->formats, 1);
    else
        sent = PQsendQueryPrepared(link->pg, s->name, a->count, a->values, a->lengths, a->formats, 1);
    if (sent)
        step_add(link, NULL, ret, false);
    else
        link->add_failed = PR_ESTORE;
}

static bool link_can_add(struct link *link)
{
    if (!link->queues_next)
        link_settle(link);
    if (link->add_failed == PR_OK && (link->pg == NULL || (link->step_count == 0 && !PQenterPipelineMode(link->pg))))
        link->add_failed = PR_ESTORE;
    return link->add_failed == PR_OK;
}

/* The box's name must not be used as a table's name: that may be another program's table. */
bool link_lacks_box(struct link *link, const char *sql, pr_slice box)
{
    if (box.size == 0 || strstr(sql, "{box") == NULL || link_table(link, box).size > 0)
        return false;
    memcpy(link->missing_box, box.data, box.size);
    link->missing_box[box.size] = '\0';
    link->add_failed = PR_ESCHEMA;
    return true;
}

void link_add(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret)
{
    static const struct args none;
    if (!link_can_add(link))
        return;
    if (link_lacks_box(link, sql, box))
        return;
    struct link_statement *s = statement_get(link, sql, box);
    if (s == NULL)
        link->add_failed = PR_ENOMEM;
    else if (args != NULL && args->failed != PR_OK)
        link->add_failed = args->failed;
    else
        statement_send(link, s, args != NULL ? args : &none, ret);
}

static void link_add_unprepared(struct link *link, const char *sql, bool commits)
{
    if (!link_can_add(link))
        return;
    if (PQsendQueryParams(link->pg, sql, 0, NULL, NULL, NULL, NULL, 1))
        step_add(link, NULL, NULL, commits);
    else
        link->add_failed = PR_ESTORE;
}

/* Finds the text if it is prepared, or makes an entry. */
static struct link_statement *text_get(struct link *link, const char *text)
{
    struct link_statement **place = &link->texts[link->text_next];
    for (size_t i = 0; i < LINK_TEXTS; i++)
        if (link->texts[i] != NULL && strcmp(link->texts[i]->text, text) == 0)
            return link->texts[i];
    link->text_next = (link->text_next + 1) % LINK_TEXTS;
    if (*place == NULL) {
        *place = statement_new(NULL, (pr_slice){ 0 }, strdup(text), ++link->text_count);
        return *place;
    }
    if ((*place)->prepared) {
        char sql[NAME_SIZE + 16];
        snprintf(sql, sizeof(sql), "DEALLOCATE %s", (*place)->name);
        link_add_unprepared(link, sql, false);
    }
    char *copy = strdup(text);
    if (copy == NULL)
        return NULL;
    statement_set_text(*place, copy, ++link->text_count);
    return *place;
}

/* Some composed statements take longer to plan than to run, and are asked every second: they are prepared, too. */
void link_add_text(struct link *link, const char *text, const struct args *args, PGresult **ret)
{
    if (!link_can_add(link))
        return;
    struct link_statement *s = args->failed == PR_OK ? text_get(link, text) : NULL;
    if (args->failed != PR_OK)
        link->add_failed = args->failed;
    else if (s == NULL)
        link->add_failed = PR_ENOMEM;
    else
        statement_send(link, s, args, ret);
}

static void add_begin(struct link *link, const char *begin)
{
    link_add_unprepared(link, begin, false);
    link->in_tx = true;
    if (!link->pooled)
        return;
    struct buf sql;
    buf_init(&sql, SQL_MAX);
    link_settings(link, true, &sql);
    if (buf_failed(&sql) == PR_OK)
        link_add_unprepared(link, sql.data, false);
    else
        link->add_failed = PR_ENOMEM;
    buf_fini(&sql);
}

void link_add_begin(struct link *link)
{
    add_begin(link, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
}

void link_add_begin_look(struct link *link)
{
    add_begin(link, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
}

void link_add_commit(struct link *link)
{
    link_add_unprepared(link, "COMMIT", true);
}

/* ---- Answers -------------------------------------------------------------------------------- */

int link_keep(struct link *link, PGresult *result, struct pr_error *reterr)
{
    if (!list_grow((void **)&link->results, link->result_count, &link->result_room, sizeof(result))) {
        PQclear(result);
        return error_set(reterr, PR_ENOMEM, "out of memory for a result");
    }
    link->results[link->result_count++] = result;
    return PR_OK;
}

/* The result of a statement that was left belongs to the caller. */
static int result_give(struct link *link, PGresult *result, const struct step *step, struct pr_error *reterr)
{
    int rc = PR_OK;
    if (step->ret == NULL)
        PQclear(result);
    else if (!step->left)
        rc = link_keep(link, result, reterr);
    if (step->ret != NULL && rc == PR_OK)
        *step->ret = result;
    return rc;
}

static void state_copy(const PGresult *result, char ret_state[SQL_STATE_SIZE])
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(ret_state, SQL_STATE_SIZE, "%s", state != NULL ? state : "XX000");
}

/* The answer to one step; *rc becomes the first fault. */
static void step_take(struct link *link, const struct step *step, PGresult *result, int *rc, struct pr_error *reterr)
{
    ExecStatusType status = PQresultStatus(result);
    bool done = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
    bool rolled_back = step->commits && done && strcmp(PQcmdStatus(result), "COMMIT") != 0;

    if (step->commits && !step->left &&
        (done || status == PGRES_PIPELINE_ABORTED || PQstatus(link->pg) == CONNECTION_OK)) {
        link->committing = false;
        link->in_tx = link->in_tx && !done;
    }
    if (step->prepares != NULL && !done)
        step->prepares->prepared = false;
    if (done && !rolled_back && *rc == PR_OK) {
        *rc = result_give(link, result, step, reterr);
        return;
    }
    if (step->trial != NULL && !done && status != PGRES_PIPELINE_ABORTED)
        state_copy(result, step->trial);
    else if (rolled_back && *rc == PR_OK)
        *rc = error_set(reterr, PR_ESTORE, "the server rolled the transaction back");
    else if (!done && status != PGRES_PIPELINE_ABORTED && *rc == PR_OK)
        *rc = fault_of_result(result, link->conninfo, link->state, reterr);
    PQclear(result);
}

static int link_lost(struct link *link, struct pr_error *reterr)
{
    bool committing = link->committing;
    int rc = fault_of_connection(link->pg, link->conninfo, reterr);
    link_down(link);
    link->committing = committing;
    link->retry_wait_us = 0; /* the first attempt comes at once */
    link->retry_at_us = 0;
    return rc;
}

/* Is it the first part of a long answer?  A short one arrives as a whole, and one that arrived alone was a
 * notification. */
static bool brings_much(int socket)
{
    int bytes = 0;
    return ioctl(socket, FIONREAD, &bytes) == 0 && bytes >= GATHER_BYTES;
}

/* Lets rows of a long answer accumulate.  The server sends eight kilobytes at a time; a client that wakes up for each
 * of them occupies the other processor so often that senders must wait for it.  With encryption libpq may have buffered
 * more than the socket shows, so there it waits by itself. */
static void answer_await(struct link *link)
{
    struct pollfd socket = { .fd = PQsocket(link->pg), .events = POLLIN };
    bool bare = !PQsslInUse(link->pg) && !PQgssEncInUse(link->pg);
    for (bool more = false; bare && PQisBusy(link->pg);) {
        if (poll(&socket, 1, -1) < 0 && errno != EINTR)
            return;
        if (more)
            nanosleep(&(struct timespec){ .tv_nsec = GATHER_US * 1000 }, NULL);
        bool much = more || brings_much(socket.fd);
        do
            if (!PQconsumeInput(link->pg))
                return; /* PQgetResult() will report why */
        while (more && poll(&socket, 1, 0) > 0 && PQisBusy(link->pg));
        more = much;
    }
}

/* Each step's results end with a NULL, except at a synchronization point. */
static bool answer_take(struct link *link, const struct step *step, int *rc, struct pr_error *reterr)
{
    answer_await(link);
    PGresult *result = PQgetResult(link->pg);
    if (step->syncs) {
        bool in_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
        return in_sync;
    }
    if (result == NULL)
        return false;
    step_take(link, step, result, rc, reterr);
    PQclear(PQgetResult(link->pg));
    return PQstatus(link->pg) == CONNECTION_OK;
}

/* A fault of the connection is found when the answer is taken. */
void link_gather(struct link *link)
{
    struct pollfd socket = { .fd = link_is_left(link) ? PQsocket(link->pg) : -1, .events = POLLIN };
    int bytes = 0;
    if (socket.fd < 0 || link->gathered >= GATHERED_MAX || poll(&socket, 1, 0) <= 0 ||
        ioctl(socket.fd, FIONREAD, &bytes) != 0)
        return;
    link->gathered += (size_t)bytes;
    (void)PQconsumeInput(link->pg);
}

/* Takes the answers before `upto`; then handles what faults mean for the connection. */
static int answers_take(struct link *link, size_t upto, struct pr_error *reterr)
{
    int rc = PR_OK;
    while (link->steps_taken < upto)
        if (!answer_take(link, &link->steps[link->steps_taken++], &rc, reterr))
            return link_lost(link, reterr);
    if (link->steps_taken == link->step_count) {
        steps_clear(link);
        if (!PQexitPipelineMode(link->pg))
            return link_lost(link, reterr);
    }
    if (strcmp(link->state, "26000") == 0 || strcmp(link->state, "42P05") == 0)
        link->pooled = true; /* a pooler changes server connections: names of statements are meaningless there */
    if (strcmp(link->state, STALE_PLAN) == 0)
        link_down(link);
    return rc;
}

/* Removes steps that were taken, to make room. */
static void steps_shift(struct link *link)
{
    size_t taken = link->steps_taken;
    memmove(link->steps, link->steps + taken, (link->step_count - taken) * sizeof(link->steps[0]));
    link->step_count -= taken;
    link->steps_sent -= taken;
    link->steps_taken = link->batch_at = link->batch_end = 0;
}

static int add_fault(struct link *link, struct pr_error *reterr)
{
    int rc = link->add_failed;
    if (rc == PR_ENOMEM)
        error_set(reterr, rc, "out of memory for a statement");
    else if (rc == PR_ETOOBIG)
        error_set(reterr, rc, "a statement is larger than PostgreSQL accepts: send less at once");
    else if (rc == PR_ESCHEMA)
        error_set(reterr, rc, "unknown box \"%s\": name it under boxes: in the configuration, and run postrider init",
                  link->missing_box);
    else
        rc = fault_of_connection(link->pg, link->conninfo, reterr);
    link_down(link); /* what was sent so far must not be run */
    if (rc == PR_ESCHEMA)
        memcpy(link->state, UNKNOWN_BOX, sizeof(UNKNOWN_BOX));
    return rc;
}

/* After a fault the server continues from here. */
static void sync_add(struct link *link)
{
    if (link->add_failed == PR_OK && !PQpipelineSync(link->pg))
        link->add_failed = PR_ESTORE;
    if (link->add_failed != PR_OK)
        return;
    step_add(link, NULL, NULL, false);
    link->steps[link->step_count - 1].syncs = true;
}

static int steps_send(struct link *link, struct pr_error *reterr)
{
    bool any = link->step_count > link->steps_sent;
    link->state[0] = '\0';
    if (any)
        sync_add(link);
    if (link->add_failed != PR_OK) {
        int rc = add_fault(link, reterr);
        link->add_failed = PR_OK;
        return rc;
    }
    return PR_OK;
}

/* Two savepoints: rolling back the outer one restores the setting. */
void link_trials_begin(struct link *link)
{
    link_add(link, "SAVEPOINT postrider_trials", NO_BOX, NULL, NULL);
    link_add(link, "SET LOCAL lock_timeout = '" TRIAL_LOCK_TIMEOUT "'", NO_BOX, NULL, NULL);
    link_add(link, "SAVEPOINT postrider_trial", NO_BOX, NULL, NULL);
}

void link_trials_end(struct link *link)
{
    link_add(link, "ROLLBACK TO SAVEPOINT postrider_trials", NO_BOX, NULL, NULL);
    link_add(link, "RELEASE SAVEPOINT postrider_trials", NO_BOX, NULL, NULL);
}

void link_trial_begin(struct link *link, char ret_state[SQL_STATE_SIZE])
{
    ret_state[0] = '\0';
    link->trial = ret_state;
}

void link_trial_end(struct link *link)
{
    link->trial = NULL;
    sync_add(link);
    link_add(link, "ROLLBACK TO SAVEPOINT postrider_trial", NO_BOX, NULL, NULL);
}

int link_send(struct link *link, struct pr_error *reterr)
{
    int rc = steps_send(link, reterr);
    link->waits = rc == PR_OK && link->steps_sent < link->step_count;
    if (!link->waits)
        return rc;
    link->batch_at = link->steps_sent;
    link->batch_end = link->steps_sent = link->step_count;
    for (size_t i = link->batch_at; i < link->batch_end; i++)
        link->committing |= link->steps[i].commits;
    return PR_OK;
}

int link_leave(struct link *link, struct pr_error *reterr)
{
    int rc = steps_send(link, reterr);
    link->gathered = 0;
    for (; rc == PR_OK && link->steps_sent < link->step_count; link->steps_sent++)
        link->steps[link->steps_sent].left = true;
    return rc;
}

bool link_is_left(const struct link *link)
{
    return link->steps_taken < link->steps_sent && link->batch_at == link->batch_end;
}

/* Whatever its outcome: nothing else must suffer from it. */
void link_settle(struct link *link)
{
    char state[SQL_STATE_SIZE];
    bool waiting = link->batch_at < link->batch_end;
    size_t upto = waiting ? link->batch_at : link->steps_sent;
    if (link->steps_taken >= upto)
        return;
    memcpy(state, link->state, sizeof(state));
    link->state[0] = '\0';
    (void)answers_take(link, upto, NULL);
    memcpy(link->state, state, sizeof(state));
    if (waiting)
        return;
    /* The left batch failed: its COMMIT was skipped. */
    if (link->pg != NULL && PQtransactionStatus(link->pg) == PQTRANS_INERROR)
        PQclear(PQexec(link->pg, "ROLLBACK"));
    link->in_tx = link->pg != NULL && PQtransactionStatus(link->pg) != PQTRANS_IDLE;
}

int link_take(struct link *link, struct pr_error *reterr)
{
    bool waits = link->waits;
    link->queues_next = link->waits = false;
    if (!waits)
        return PR_OK;
    link_settle(link);
    if (link->pg == NULL)
        return error_set(reterr, PR_ESTORE, "the connection to the server was lost");
    int rc = answers_take(link, link->batch_end, reterr);
    steps_shift(link);
    return rc;
}

void link_queue_next(struct link *link)
{
    link->queues_next = true;
}

int link_run(struct link *link, struct pr_error *reterr)
{
    int rc = link_send(link, reterr);
    return rc == PR_OK ? link_take(link, reterr) : rc;
}

int link_do(struct link *link, const char *sql, pr_slice box, const struct args *args, PGresult **ret,
            struct pr_error *reterr)
{
    link_add(link, sql, box, args, ret);
    return link_run(link, reterr);
}

int link_script(struct link *link, const char *sql, struct pr_error *reterr)
{
    link_settle(link);
    if (link->pg == NULL)
        return error_set(reterr, PR_ESTORE, "the connection to the server was lost");
    PGresult *result = PQexec(link->pg, sql);
    bool done = PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK ||
                PQresultStatus(result) == PGRES_EMPTY_QUERY;
    int rc = done ? PR_OK : fault_of_result(result, link->conninfo, link->state, reterr);
    PQclear(result);
    if (PQstatus(link->pg) != CONNECTION_OK)
        link_down(link);
    return rc;
}

void link_rollback(struct link *link)
{
    if (link->in_tx)
        link_settle(link);
    if (!link->in_tx)
        return;
    link->in_tx = false;
    if (!link_is_up(link))
        return;
    PGresult *result = PQexec(link->pg, "ROLLBACK");
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        link_down(link);
    PQclear(result);
}

bool link_should_retry(const struct link *link)
{
    static const char *const states[] = { "40001", "40P01", "26000", "42P05", STALE_PLAN, UNKNOWN_BOX };
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++)
        if (strcmp(link->state, states[i]) == 0)
            return true;
    return false;
}

bool link_is_refusal(const struct link *link)
{
    static const char *const classes[] = { "22", "23", "44", "54", "P0" };
    for (size_t i = 0; i < ARRAY_LENGTH(classes); i++)
        if (strncmp(link->state, classes[i], 2) == 0)
            return true;
    return false;
}

bool link_is_uncertain(const struct link *link)
{
    return link->committing;
}
