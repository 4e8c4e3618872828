#include "sqlite_template.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static char database[4 << 20];
static size_t database_size;

static FILE *open_file(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (file == NULL)
        check_fail(__FILE__, __LINE__, "%s cannot be opened", path);
    return file;
}

bool sqlite_template_copy(const char *path)
{
    if (database_size == 0)
        return false;
    FILE *file = open_file(path, "wbx");
    CHECK_EQ(fwrite(database, 1, database_size, file), database_size);
    CHECK_EQ(fclose(file), 0);
    return true;
}

void sqlite_template_keep(const char *path)
{
    char wal[512];
    snprintf(wal, sizeof(wal), "%s-wal", path);
    CHECK(access(wal, F_OK) != 0); /* or a part of it would be missing */
    FILE *file = open_file(path, "rb");
    database_size = fread(database, 1, sizeof(database), file);
    CHECK_EQ(fclose(file), 0);
    CHECK(database_size > 0 && database_size < sizeof(database));
}
