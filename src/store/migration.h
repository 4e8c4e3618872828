/* migration.h - a numbered .sql file, built in by tools/embed.py. */
#ifndef STORE_MIGRATION_H
#define STORE_MIGRATION_H

/* A file is one string, however long. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

struct migration {
    int number;
    const char *name;
    const char *sql;
};

#endif
