/* config_variables.h - variables of the environment that are meant for the configuration: POSTRIDER_LIMITS__PAYLOAD.
 *
 * One that nobody asked for is a mistake, and would be one that nobody notices. */
#ifndef RUNTIME_CONFIG_CONFIG_VARIABLES_H
#define RUNTIME_CONFIG_CONFIG_VARIABLES_H

#include "base/arena.h"
#include "runtime/config/config_suggest.h"

#define VARIABLE_PREFIX "POSTRIDER_"
#define VARIABLE_MAX 512

struct config_variable {
    const char *name;
    bool known;             /* somebody asked for it */
    struct suggestion near; /* of those that were asked for */
};

struct config_variables {
    struct arena *arena;
    struct config_variable *list;
    size_t count;
    const char **used; /* names in ${NAME}: what is in them may be a secret */
    size_t used_count, used_room;
    const char *open_file; /* of ${file:}, one that every user can read; NULL: none */
};

/* All that begin with the prefix, but for those that others make.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int config_variables_init(struct config_variables *v, struct arena *arena);
/* The value, or NULL; any name. */
const char *config_variables_get(struct config_variables *v, const char *name);
/* ${NAME} has a value: programs of exec endpoints do not get it.  PR_OK or PR_ENOMEM. */
PR_MUST_CHECK int config_variables_note_used(struct config_variables *v, const char *name);
void config_variables_note_open_file(struct config_variables *v, const char *path);
/* When everything was asked for: PR_OK, or PR_ECONFIG about the first that nobody wanted. */
PR_MUST_CHECK int config_variables_check(const struct config_variables *v, struct pr_error *reterr);

#endif
