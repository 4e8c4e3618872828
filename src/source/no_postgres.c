/* The functions that report on sources, in a build without libpq: no store has such sources. */
#include "source/source.h"

int adopt_check(struct store *store, const struct adoption *adoption, struct arena *arena, struct adopt_report *ret,
                struct pr_error *reterr)
{
    (void)adoption;
    (void)arena;
    (void)ret;
    return source_needs_postgres(SOURCE_TABLE, store, reterr);
}

int wal_look(struct store *store, const struct wal_setting *setting, struct arena *arena, struct wal_report **ret,
             size_t *ret_count, struct pr_error *reterr)
{
    (void)setting;
    (void)arena;
    (void)ret;
    (void)ret_count;
    return source_needs_postgres(SOURCE_WAL, store, reterr);
}

int wal_order(struct store *store, const struct wal_setting *setting, enum wal_order order, struct pr_error *reterr)
{
    (void)setting;
    (void)order;
    return source_needs_postgres(SOURCE_WAL, store, reterr);
}
