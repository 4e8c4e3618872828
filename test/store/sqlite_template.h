/* sqlite_template.h - a database as the migrations leave it, made once in a process and copied for each test: making
 * one takes longer than most tests, which are about what comes after. */
#ifndef TEST_STORE_SQLITE_TEMPLATE_H
#define TEST_STORE_SQLITE_TEMPLATE_H

#include <stdbool.h>

/* Writes the database that was kept to path; false: none was. */
bool sqlite_template_copy(const char *path);

/* Keeps the database at path, which nobody has open. */
void sqlite_template_keep(const char *path);

#endif
