/* old_stores.h - stores as older versions left them: NNN_store.sql, built in. */
#ifndef TEST_SQLITE_OLD_STORES_H
#define TEST_SQLITE_OLD_STORES_H

#include "store/sqlite/migrate.h"

extern const struct migration old_stores[];
extern const size_t old_stores_count;

#endif
