/* migrate.h - the numbered .sql files, which are built in (tools/embed.py). */
#ifndef STORE_POSTGRES_MIGRATE_H
#define STORE_POSTGRES_MIGRATE_H

#include <stddef.h>

#include "store/migration.h"

extern const struct migration postgres_migrations[];
extern const size_t postgres_migrations_count;

#endif
