/* migrate.h - the numbered .sql files, built in (tools/embed.py). */
#ifndef STORE_SQLITE_MIGRATE_H
#define STORE_SQLITE_MIGRATE_H

#include <stddef.h>

/* A file is one string, however long. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

struct migration {
    int number;
    const char *name;
    const char *sql;
};

extern const struct migration sqlite_migrations[];
extern const size_t sqlite_migrations_count;

#endif
