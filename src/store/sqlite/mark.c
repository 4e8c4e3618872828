/* mark.c - marks (core/mark.h): making, looking up and forgetting them. */
#include "core/mark.h"

#include "base/error.h"
#include "base/time.h"
#include "store/sqlite/message.h"
#include "store/sqlite/sqlite.h"

#define NO_BOX ((pr_slice){ NULL, 0 })
#define PIECE 1000 /* marks that are looked at together */

int mark_insert(struct conn *conn, const struct effect *e, int64_t now_us, struct pr_error *reterr)
{
    return conn_do(conn,
                   "INSERT INTO postrider_seen (box, id, handler, at, outcome, alone, until)"
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                   NO_BOX,
                   VALUES(V_TEXT(e->box), V_ID(e->id), V_TEXT(e->key), V_INT(now_us), V_INT(e->outcome),
                          V_INT(e->alone), e->keep_us > 0 ? V_INT(time_add(now_us, e->keep_us)) : V_NULL),
                   NULL, reterr);
}

int marks_tell_time(struct sqlite_cycle *run)
{
    if (run->cycle->dedupe_us == DEDUPE_OF_BOX)
        return PR_OK;
    return conn_do(run->conn, "UPDATE postrider_box SET dedupe_us = ?2 WHERE name = ?1 AND dedupe_us <> ?2", NO_BOX,
                   VALUES(V_TEXT(run->session->box), V_INT(run->cycle->dedupe_us)), NULL, run->reterr);
}

int marks_ask_time(struct sqlite_cycle *run)
{
    if (run->cycle->epoch != 0 || run->cycle->dedupe_us != DEDUPE_OF_BOX)
        return PR_OK;
    int rc = conn_int(run->conn, "SELECT dedupe_us FROM postrider_box WHERE name = ?1", NO_BOX,
                      VALUES(V_TEXT(run->session->box)), &run->session->reply.dedupe_us, run->reterr);
    return rc < 0 ? rc : PR_OK;
}

static int mark_look(struct sqlite_cycle *run, const struct mark_key *key, bool *ret)
{
    int64_t one;
    struct id_forms forms;
    id_forms_init(&forms, key->id);
    int rc = conn_int(
        run->conn,
        "SELECT 1 FROM postrider_seen WHERE box = ?1 AND id = ?2 AND handler = ?3 UNION ALL"
        " SELECT 1 FROM postrider_dead_letter INDEXED BY postrider_dead_letter_id"
        " WHERE id IN (?2, ?4, ?5) AND box = ?1 AND coalesce(nullif(destination, ''), endpoint) = ?3 LIMIT 1",
        NO_BOX,
        VALUES(V_TEXT(run->session->box), V_ID(key->id), V_TEXT(key->handler), V_ID_LOWER(forms), V_ID_UPPER(forms)),
        &one, run->reterr);
    *ret = rc == PR_OK;
    return rc < 0 ? rc : PR_OK;
}

int marks_read(struct sqlite_cycle *run)
{
    const struct cycle *c = run->cycle;
    int rc = PR_OK;
    if (c->mark_count == 0)
        return PR_OK;
    bool *marked = arena_alloc_array(&run->session->arena, c->mark_count, sizeof(marked[0]));
    if (marked == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu marks", c->mark_count);
    for (size_t i = 0; i < c->mark_count && rc == PR_OK; i++)
        rc = mark_look(run, &c->marks[i], &marked[i]);
    run->session->reply.marked = marked;
    return rc;
}

/* ---- Messages that arrive again ------------------------------------------------------------------------ */

int note_again(struct conn *conn, pr_slice box, const struct pr_message *message, int64_t now_us,
               struct pr_error *reterr)
{
    return conn_do(conn,
                   "INSERT INTO postrider_again (box, id, destination, times, at, until)"
                   " SELECT name, ?1, ?2, 1, ?3, ?3 + min(dedupe_us, 9223372036854775807 - ?3) FROM postrider_box"
                   " WHERE name = '{box}' AND dedupe_us > 0"
                   " ON CONFLICT (box, id, destination) DO UPDATE SET times = times + 1, at = excluded.at, until ="
                   " excluded.until",
                   box, VALUES(V_ID(message->id), V_TEXT(message->destination), V_INT(now_us)), NULL, reterr);
}

/* ---- Forgetting ---------------------------------------------------------------------------------------- */

/* Ids of messages can be text, in upper or lower case. */
#define HEX(table, from, digits) "substr(hex(" table ".id), " #from ", " #digits ")"
#define UPPER(table)                                                                                                   \
    HEX(table, 1, 8)                                                                                                   \
    " || '-' || " HEX(table, 9, 4) " || '-' || " HEX(table, 13, 4) " || '-' || " HEX(table, 17, 4) " || '-' || " HEX(  \
        table, 21, 12)
#define FORMS(table) "(" table ".id, " UPPER(table) ", lower(" UPPER(table) "))"

/* The first expired ones, in the same order for both statements: many can expire at the same time, such as those of
 * messages that a person discarded together. */
#define FIRST_OVER(table, part)                                                                                        \
    "(id, " part ") IN (SELECT id, " part " FROM " table " WHERE box = ?1 AND until <= ?2"                             \
    " ORDER BY until, id, " part " LIMIT ?3)"
/* clang-format off */
#define LOOK_LATER(table, part)                                                                                        \
    "UPDATE " table " SET until = ?4 WHERE box = ?1 AND " FIRST_OVER(table, part)                                      \
    " AND (EXISTS (SELECT 1 FROM \"{box}\" b WHERE b.id IN " FORMS(table) ")"                                          \
    " OR EXISTS (SELECT 1 FROM postrider_dead_letter d WHERE d.id IN " FORMS(table) " AND d.box = ?1)"
/* clang-format on */

static const struct {
    const char *later, *gone; /* marks that are still needed are looked at again later */
} forgets[] = {
    { LOOK_LATER("postrider_seen", "handler") ")",
      "DELETE FROM postrider_seen WHERE box = ?1 AND " FIRST_OVER("postrider_seen", "handler") },
    { LOOK_LATER("postrider_again", "destination") " OR EXISTS (SELECT 1 FROM postrider_seen s WHERE s.box = ?1 AND"
                                                   " s.id = postrider_again.id))",
      "DELETE FROM postrider_again WHERE box = ?1 AND " FIRST_OVER("postrider_again", "destination") },
};

/* One piece of each kind. */
int marks_forget(struct sqlite_cycle *run, bool *ret_more)
{
    const pr_slice box = run->session->box;
    int64_t again_us = time_add(run->now_us, mark_look_again_us(run->cycle->dedupe_us));
    int rc = PR_OK;
    *ret_more = false;
    for (size_t i = 0; i < ARRAY_LENGTH(forgets) && rc == PR_OK; i++) {
        int kept = 0, gone = 0;
        rc = conn_do(run->conn, forgets[i].later, box,
                     VALUES(V_TEXT(box), V_INT(run->now_us), V_INT(PIECE), V_INT(again_us)), &kept, run->reterr);
        if (rc == PR_OK)
            rc = conn_do(run->conn, forgets[i].gone, NO_BOX,
                         VALUES(V_TEXT(box), V_INT(run->now_us), V_INT(PIECE - kept)), &gone, run->reterr);
        *ret_more |= kept + gone >= PIECE;
    }
    return rc;
}
