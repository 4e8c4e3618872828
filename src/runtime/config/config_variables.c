#include "runtime/config/config_variables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

#define PREFIX_SIZE (sizeof(VARIABLE_PREFIX) - 1)

/* Variables with the prefix that other programs set: Kubernetes for a service that is called postrider; exec endpoints
 * for the programs that they start (headers of the message), which may call postrider; the rest is for tests.  A name
 * that ends with _ stands for all names with this prefix. */
static const char *const others[] = { "PORT",          "PORT_",   "SERVICE_HOST", "SERVICE_PORT",
                                      "SERVICE_PORT_", "HEADERS", "FAILPOINT",    "TEST_" };

static bool is_of_others(const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        size_t size = strlen(others[i]);
        bool family = others[i][size - 1] == '_';
        if (family ? strncmp(name, others[i], size) == 0 : strcmp(name, others[i]) == 0)
            return true;
    }
    return false;
}

static bool is_meant(const char *entry, pr_slice *ret_name)
{
    char name[VARIABLE_MAX];
    size_t size = strcspn(entry, "=");
    if (strncmp(entry, VARIABLE_PREFIX, PREFIX_SIZE) != 0 || size >= sizeof(name))
        return false;
    memcpy(name, entry, size);
    name[size] = '\0';
    *ret_name = (pr_slice){ entry, size };
    return !is_of_others(name + PREFIX_SIZE);
}

int config_variables_init(struct config_variables *v, struct arena *arena)
{
    size_t count = 0;
    pr_slice name;
    *v = (struct config_variables){ .arena = arena };
    for (char **entry = environ; *entry != NULL; entry++)
        count += is_meant(*entry, &name);
    if (count == 0)
        return PR_OK;
    v->list = arena_alloc_array(arena, count, sizeof(*v->list));
    for (char **entry = environ; v->list != NULL && *entry != NULL && v->count < count; entry++)
        if (is_meant(*entry, &name)) {
            v->list[v->count] = (struct config_variable){ .name = slice_dup(arena, name).data };
            if (v->list[v->count++].name == NULL)
                return PR_ENOMEM;
        }
    return v->list != NULL ? PR_OK : PR_ENOMEM;
}

/* The name belongs to the caller, so a copy is kept. */
static void compare(struct config_variables *v, struct config_variable *variable, const char *name)
{
    const char *before = variable->near.best;
    suggest_try(&variable->near, slice_from(variable->name + PREFIX_SIZE), name + PREFIX_SIZE);
    if (variable->near.best != before)
        variable->near.best = slice_dup(v->arena, slice_from(variable->near.best)).data;
}

const char *config_variables_get(struct config_variables *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++) {
        if (strcmp(v->list[i].name, name) == 0)
            v->list[i].known = true;
        else if (strncmp(name, VARIABLE_PREFIX, PREFIX_SIZE) == 0)
            compare(v, &v->list[i], name);
    }
    return getenv(name);
}

/* Variables that every program gets, and that never hold secrets. */
static bool is_plain(const char *name)
{
    static const char *const plain[] = { "PATH", "HOME",   "HOSTNAME", "USER",  "LOGNAME", "LANG",
                                         "TZ",   "TMPDIR", "PWD",      "SHELL", "TERM" };
    for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
        if (strcmp(name, plain[i]) == 0)
            return true;
    return false;
}

int config_variables_note_used(struct config_variables *v, const char *name)
{
    if (v == NULL || is_plain(name))
        return PR_OK;
    for (size_t i = 0; i < v->used_count; i++)
        if (strcmp(v->used[i], name) == 0)
            return PR_OK;
    if (v->used_count == v->used_room) {
        size_t room = max_size(16, 2 * v->used_room);
        const char **used = arena_alloc_array(v->arena, room, sizeof(*used));
        if (used == NULL)
            return PR_ENOMEM;
        if (v->used_count > 0)
            memcpy(used, v->used, v->used_count * sizeof(*used));
        v->used = used;
        v->used_room = room;
    }
    v->used[v->used_count] = slice_dup(v->arena, slice_from(name)).data;
    return v->used[v->used_count] != NULL ? (v->used_count++, PR_OK) : PR_ENOMEM;
}

void config_variables_note_open_file(struct config_variables *v, const char *path)
{
    if (v != NULL && v->open_file == NULL)
        v->open_file = slice_dup(v->arena, slice_from(path)).data;
}

int config_variables_check(const struct config_variables *v, struct pr_error *reterr)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct config_variable *variable = &v->list[i];
        if (!variable->known && variable->near.best != NULL)
            return error_set(reterr, PR_ECONFIG,
                             "environment variable %s: no such setting; did you mean " VARIABLE_PREFIX "%s?",
                             variable->name, variable->near.best);
        if (!variable->known)
            return error_set(reterr, PR_ECONFIG,
                             "environment variable %s: no such setting; the variable of limits.payload is "
                             "POSTRIDER_LIMITS__PAYLOAD, and endpoints and boxes must be in the file",
                             variable->name);
    }
    return PR_OK;
}
