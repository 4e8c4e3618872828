/* The table of a box, for senders with connections of their own.  Each box is looked up once: the server's answer is
 * kept with the connection, by libpq's own means, and freed with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-events.h>

#include "base/error.h"
#include "base/slice.h"
#include "store/postgres/link/link.h"
#include "store/postgres/send.h"

struct known_table {
    struct known_table *next;
    char schema[BOX_NAME_MAX + 1], box[BOX_NAME_MAX + 1], table[BOX_NAME_MAX + 1];
};

static void known_free(struct known_table *list)
{
    while (list != NULL) {
        struct known_table *next = list->next;
        free(list);
        list = next;
    }
}

/* A connection that was reset may be to another server. */
static int on_event(PGEventId event, void *info, void *pass)
{
    PGconn *pg = event == PGEVT_CONNRESET     ? ((PGEventConnReset *)info)->conn
                 : event == PGEVT_CONNDESTROY ? ((PGEventConnDestroy *)info)->conn
                                              : NULL;
    (void)pass;
    if (pg != NULL) {
        known_free(PQinstanceData(pg, on_event));
        PQsetInstanceData(pg, on_event, NULL);
    }
    return 1;
}

static const struct known_table *known_find(const PGconn *pg, pr_slice schema, pr_slice box)
{
    for (const struct known_table *t = PQinstanceData(pg, on_event); t != NULL; t = t->next)
        if (slice_eq_cstr(schema, t->schema) && slice_eq_cstr(box, t->box))
            return t;
    return NULL;
}

/* Without memory for it, it is looked up again. */
static void known_add(PGconn *pg, pr_slice schema, pr_slice box, const char *table)
{
    struct known_table *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return;
    snprintf(t->schema, sizeof(t->schema), "%.*s", SLICE_ARGS(schema));
    snprintf(t->box, sizeof(t->box), "%.*s", SLICE_ARGS(box));
    snprintf(t->table, sizeof(t->table), "%s", table);
    t->next = PQinstanceData(pg, on_event);
    (void)PQregisterEventProc(pg, on_event, "postrider", NULL); /* 0: it is registered already */
    if (!PQsetInstanceData(pg, on_event, t))
        free(t);
}

static int table_ask(PGconn *pg, pr_slice schema, pr_slice box, char ret_table[BOX_NAME_MAX + 1],
                     struct pr_error *reterr)
{
    char sql[256], state[SQL_STATE_SIZE];
    struct args args = { .count = 0 };
    int rc = PR_OK;
    snprintf(sql, sizeof(sql), "SELECT table_name FROM \"%.*s\".box_tables() WHERE name OPERATOR(pg_catalog.=) $1",
             SLICE_ARGS(schema));
    arg_text(&args, box);
    PGresult *result = PQexecParams(pg, sql, 1, args.types, args.values, args.lengths, args.formats, 1);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        rc = PQstatus(pg) == CONNECTION_OK ? fault_of_result(result, NULL, state, reterr)
                                           : fault_of_connection(pg, NULL, reterr);
    else if (PQntuples(result) != 1 || !name_is_valid(field_slice(result, 0, 0)))
        rc = error_set(reterr, PR_ESCHEMA,
                       "unknown box \"%.*s\": name it under boxes: in the configuration, and run postrider init",
                       SLICE_ARGS(box));
    else
        snprintf(ret_table, BOX_NAME_MAX + 1, "%.*s", SLICE_ARGS(field_slice(result, 0, 0)));
    PQclear(result);
    return rc;
}

int pg_send_table(struct pg_conn *pg, pr_slice schema, pr_slice box, char ret_table[BOX_NAME_MAX + 1],
                  struct pr_error *reterr)
{
    const struct known_table *known = known_find(pg, schema, box);
    if (known != NULL) {
        memcpy(ret_table, known->table, sizeof(known->table));
        return PR_OK;
    }
    int rc = table_ask(pg, schema, box, ret_table, reterr);
    if (rc == PR_OK)
        known_add(pg, schema, box, ret_table);
    return rc;
}
