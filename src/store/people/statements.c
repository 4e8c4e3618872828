#include "store/people/statements.h"

#include "base/error.h"
#include "base/util.h"
#include "core/columns.h"
#include "store/people/held_key.h"

#define SQLITE(...) .texts[DIALECT_SQLITE] = __VA_ARGS__
#define POSTGRES(...) .texts[DIALECT_POSTGRES] = __VA_ARGS__
#define BOTH(...) .texts = { __VA_ARGS__, __VA_ARGS__ }
#define STATEMENT(name, ...) [SQL_##name] = { #name, __VA_ARGS__ },

static const struct {
    const char *name, *texts[DIALECT_COUNT];
} statements[] = {
#include "store/people/statement_list.h"
};

const char *statement_text(enum sql_statement statement, enum dialect dialect)
{
    ASSERT(statement < ARRAY_LENGTH(statements) && statements[statement].texts[dialect] != NULL);
    return statements[statement].texts[dialect];
}

bool statement_is_empty(enum sql_statement statement, enum dialect dialect)
{
    return statement_text(statement, dialect)[0] == '\0';
}

const char *statement_name(enum sql_statement statement)
{
    ASSERT(statement < ARRAY_LENGTH(statements));
    return statements[statement].name;
}
