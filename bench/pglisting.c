/* The backlog of listing.c on PostgreSQL. */
#include <stdio.h>

#include "listing.h"
#include "pgbare.h"

static const char MESSAGES[] =
    "INSERT INTO outbox (id, destination, due_at, held_by, stream, type, created_at, status, attempts, "
    "failures,"
    " failure_reason, error, failed_at, payload_bytes)"
    " SELECT ('30303030-3030-3030-3030-' || lpad(to_hex(x'303030300000'::bigint + i), 12, '0'))::uuid,"
    " CASE WHEN i %% 100000 = 77 THEN 'rare' ELSE 'sink' END,"
    " CASE WHEN i %% 100000 = 78 THEN 'infinity' WHEN i %% 500 = 0 THEN now() + interval '1 hour'"
    " WHEN i %% 500 = 10 THEN now() + interval '2 hours' END,"
    " CASE WHEN i %% 500 BETWEEN 1 AND 5 THEN 'sink/order-' || (i / 500) END,"
    " CASE WHEN i %% 500 <= 5 THEN 'order-' || (i / 500) WHEN i %% 100000 = 77 THEN 'rare' ELSE 'user-' || (i "
    "%% 50000) END,"
    " CASE WHEN i %% 100000 = 77 THEN 'rare.type' ELSE 'bench.' || (i %% 10) END,"
    " now() - interval '2 hours' + i * interval '2 hours' / %zu,"
    " CASE WHEN i %% 500 = 0 THEN 32769 ELSE 1 END, CASE WHEN i %% 500 = 0 THEN 1 + i / 500 %% 7 ELSE 0 END,"
    " CASE WHEN i %% 500 = 0 THEN 1 + i / 500 %% 7 ELSE 0 END,"
    " CASE WHEN i %% 500 <> 0 THEN 0 WHEN i / 500 %% 5000 = 7 THEN 11 ELSE 1 + i / 500 %% 4 END,"
    " CASE WHEN i %% 500 = 0 THEN 'connection refused by ' || (i / 500) END,"
    " CASE WHEN i %% 500 = 0 THEN now() - interval '1 minute' END, decode(repeat('00', 512), 'hex')"
    " FROM generate_series(%zu, %zu) i";

static const char DEAD[] =
    "INSERT INTO dead_letter (box, xid, lane, id, destination, seq, stream, type, event, created_at, status, "
    "attempts, failures,"
    " failure_reason, error, failed_at, released, endpoint, cause, limit_reached, rule, fingerprint, died_at, "
    "payload_bytes)"
    " SELECT 'outbox', '1', i %% 64, ('d0000000-3030-3030-3030-' || lpad(to_hex(i), 12, '0'))::uuid,"
    " CASE g WHEN 901 THEN 'rare' ELSE 'sink' END, i, 'user-' || (i %% 50000),"
    " CASE g WHEN 901 THEN 'rare.type' ELSE 'bench.' || (g %% 10) END, false, now() - interval '2 hours', "
    "32769, 5, 5,"
    " CASE g WHEN 901 THEN 11 ELSE 1 + g %% 6 END, 'connection refused by ' || g || ' port ' || i, now(), "
    "false,"
    " CASE g WHEN 901 THEN 'rare' ELSE 'sink' END, CASE g WHEN 901 THEN 11 ELSE 1 + g %% 6 END, 5, '',"
    " lpad(to_hex(g), 16, '0'), now() - interval '2 hours' + i * interval '2 hours' / %zu, decode(repeat('00', "
    "512), 'hex')"
    " FROM (SELECT i, CASE WHEN i %% 100000 = 77 THEN 901 WHEN i %% 2 = 0 THEN 0 ELSE 1 + i / 2 %% 900 END AS g"
    " FROM generate_series(1, %zu) i) n";

#define FILL_BATCH 1000000

static void fill(const struct listing_place *place, size_t messages, size_t dead)
{
    char sql[4096];
    pgbare_create(place->path);
    pgbare_set_durable(false);
    PGconn *pg = pgbare_open(place->path);
    for (size_t done = 0; done < messages; done += FILL_BATCH) {
        snprintf(sql, sizeof sql, MESSAGES, messages, done + 1, min_size(done + FILL_BATCH, messages));
        pgbare_run(pg, sql);
    }
    snprintf(sql, sizeof sql, DEAD, dead, dead);
    pgbare_run(pg, sql);
    pgbare_set_durable(true);
    pgbare_run(pg, "VACUUM ANALYZE outbox");
    pgbare_run(pg, "VACUUM ANALYZE dead_letter");
    pgbare_run(pg, "CHECKPOINT");
    pgbare_close(pg);
}

static void pause_sink(const struct listing_place *place)
{
    PGconn *pg = pgbare_open(place->path);
    pgbare_run(pg, "INSERT INTO endpoint (name, paused_until) VALUES ('sink', 'infinity')"
                   " ON CONFLICT (name) DO UPDATE SET paused_until = excluded.paused_until");
    pgbare_close(pg);
}

static void drop(const struct listing_place *place)
{
    pgbare_remove(place->path);
}

void listing_postgres(const struct bench *b)
{
    listing_measure(b, &(struct listing_place){ .name = "postgres",
                                                .url = pgbare_url("listing"),
                                                .path = "listing",
                                                .fill = fill,
                                                .pause = pause_sink,
                                                .remove = drop });
}
