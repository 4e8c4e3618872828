/* Large payloads, which a cycle reads separately from their rows: in pieces, into one block each.  The server's answer
 * is in memory twice: in libpq's buffer, which keeps its size, and in its result. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "store/postgres/message.h"
#include "store/postgres/postgres.h"

#define PIECE_MIN ((size_t)2 << 20)
#define PIECES_MAX 16 /* pieces of one payload: for each the server may decompress the whole */

/* As bytes, so that pieces can be cut anywhere; a database that accepts any bytes as text returns them unchanged. */
static const char PIECE[] =
    "SELECT octet_length(v.bytes), substr(v.bytes, $3::int, $4::int), v.version FROM (SELECT coalesce(b.payload_bytes,"
    " convert_to(b.payload, CASE WHEN getdatabaseencoding() = 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END), '')"
    " AS bytes, b.xmin::text::bigint AS version FROM {box} b WHERE b.id = $1 AND " HANDLE " = $2 LIMIT 1) v";

struct piece {
    size_t total;    /* size of the payload; SIZE_MAX: there is no such row */
    pr_slice bytes;  /* a piece from the requested offset; borrowed from the link */
    int64_t version; /* the transaction that wrote the row */
};

static int piece_read(struct cycle_run *run, const struct row_name *name, size_t at, size_t size, struct piece *ret)
{
    struct args args = { .count = 0 };
    PGresult *result;
    arg_id(&args, name->id);
    arg_i64(&args, (int64_t)name->row);
    arg_i64(&args, (int64_t)at + 1);
    arg_i64(&args, (int64_t)size);
    int rc = link_do(run->link, PIECE, run->session->box, &args, &result, run->reterr);
    if (rc != PR_OK)
        return rc;
    *ret = (struct piece){ .total = SIZE_MAX };
    if (PQntuples(result) > 0)
        *ret = (struct piece){ (size_t)field_int(result, 0, 0), field_slice(result, 0, 1), field_i64(result, 0, 2) };
    return PR_OK;
}

/* All pieces must come from one version of the row: when it was changed in between, it counts as gone. */
static int load_read(struct cycle_run *run, const struct row_name *name, pr_slice *ret)
{
    size_t mark = run->link->result_count, total = 0, at = 0, size = PIECE_MIN;
    int64_t version = 0;
    char *bytes = NULL;
    struct piece piece;
    int rc;

    do {
        rc = piece_read(run, name, at, size, &piece);
        if (rc == PR_OK && at == 0 && piece.total != SIZE_MAX) {
            total = piece.total;
            version = piece.version;
            size = max_size(PIECE_MIN, total / PIECES_MAX + 1);
            bytes = malloc(total + 1);
            if (bytes == NULL)
                rc = error_set(run->reterr, PR_ENOMEM, "out of memory for a payload of %zu bytes", total);
        }
        if (rc == PR_OK && (piece.total != total || piece.version != version || (piece.bytes.size == 0 && at < total)))
            break;
        if (rc == PR_OK && piece.bytes.size > 0)
            memcpy(bytes + at, piece.bytes.data, piece.bytes.size);
        at += rc == PR_OK ? piece.bytes.size : 0;
        link_forget_after(run->link, mark);
    } while (rc == PR_OK && at < total);
    link_forget_after(run->link, mark);
    if (rc == PR_OK && at == total && bytes != NULL)
        *ret = (pr_slice){ bytes, total };
    else
        free(bytes);
    return rc;
}

int pg_loads_read(struct cycle_run *run)
{
    const struct cycle *c = run->cycle;
    struct cycle_reply *reply = &run->session->reply;

    if (c->load_count == 0)
        return PR_OK;
    reply->loaded = arena_alloc_array(&run->session->arena, c->load_count, sizeof(reply->loaded[0]));
    if (reply->loaded == NULL)
        return error_set(run->reterr, PR_ENOMEM, "out of memory for %zu payloads", c->load_count);
    reply->loaded_count = c->load_count;
    for (size_t i = 0; i < c->load_count; i++) {
        int rc = load_read(run, &c->loads[i], &reply->loaded[i]);
        if (rc != PR_OK)
            return rc;
    }
    return PR_OK;
}
