/* config_variables.h - environment variables for the configuration: POSTRIDER_LIMITS__PAYLOAD.
 *
 * A variable that matches no option is a mistake that nobody would notice, so it is an error. */
#ifndef RUNTIME_CONFIG_CONFIG_VARIABLES_H
#define RUNTIME_CONFIG_CONFIG_VARIABLES_H

#include "base/arena.h"
#include "runtime/config/config_suggest.h"

#define VARIABLE_PREFIX "POSTRIDER_"
#define VARIABLE_MAX 512

struct config_variable {
    const char *name;
    bool known;             /* an option has this name */
    struct suggestion near; /* the most similar name of an option */
};

struct config_variables {
    struct arena *arena;
    struct config_variable *list;
    size_t count;
    const char **used; /* names in ${NAME}: their values may be secrets */
    size_t used_count, used_room;
    const char *open_file; /* a file in ${file:} that every user can read; NULL: none */
};

/* Collects all variables with the prefix, except those that other programs set.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int config_variables_init(struct config_variables *v, struct arena *arena);
/* The value, or NULL; for any name. */
const char *config_variables_get(struct config_variables *v, const char *name);
/* ${NAME} is used: programs of exec endpoints do not get it.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int config_variables_note_used(struct config_variables *v, const char *name);
void config_variables_note_open_file(struct config_variables *v, const char *path);
/* After all options were read: PR_OK, or PR_ECONFIG about the first variable that matches none. */
PR_MUST_CHECK int config_variables_check(const struct config_variables *v, struct pr_error *reterr);

#endif
