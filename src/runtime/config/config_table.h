/* config_table.h - macros for the tables of config_options.h. */
#ifndef RUNTIME_CONFIG_CONFIG_TABLE_H
#define RUNTIME_CONFIG_CONFIG_TABLE_H

#include "base/time.h"
#include "base/util.h"
#include "runtime/config/config_options.h"

#define FIELD(type, member) .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)
#define COUNTED(type, member, counter) FIELD(type, member), .count_offset = offsetof(struct type, counter)
#define SECTION(table) .options = (table), .count = ARRAY_LENGTH(table)

#define DAYS(n) PR_SECONDS(INT64_C(86400) * (n))
#define MIB(n) (INT64_C(1048576) * (n))

#endif
