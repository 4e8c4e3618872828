/* statements.h - the names of the statements of people's side; their texts are in statement_list.h. */
#ifndef STORE_PEOPLE_STATEMENTS_H
#define STORE_PEOPLE_STATEMENTS_H

#include <stdbool.h>

enum dialect { DIALECT_SQLITE, DIALECT_POSTGRES, DIALECT_COUNT };

#define STATEMENT(name, ...) SQL_##name,
enum sql_statement {
#include "store/people/statement_list.h"
    SQL_STATEMENT_COUNT
};
#undef STATEMENT

const char *statement_text(enum sql_statement statement, enum dialect dialect);
/* This database does not need the statement. */
bool statement_is_empty(enum sql_statement statement, enum dialect dialect);
const char *statement_name(enum sql_statement statement);

#endif
