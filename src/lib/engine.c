#include <stdlib.h>

#include "base/error.h"
#include "base/slice.h"
#include "lib/lib.h"
#include "runtime/config.h"
#include "runtime/runtime.h"

/* The runtime under its public name. */
struct pr_engine {
    struct runtime *runtime;
};

static struct pr_engine *engine_from(struct config *config, struct pr_error *reterr)
{
    /* An embedded store has nobody else to make its tables.  The library prints nothing. */
    const struct runtime_options options = { .log = NULL, .migrate = true };
    struct pr_engine            *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        error_set(reterr, PR_ENOMEM, "no memory for an engine");
    else
        engine->runtime = runtime_new(config, &options, reterr);
    if (engine == NULL || engine->runtime == NULL) {
        free(engine);
        config_free(config);
        return NULL;
    }
    return engine;
}

PR_API struct pr_engine *pr_engine_new(const char *config, struct pr_error *reterr)
{
    struct config *loaded;
    if (config_load_text(slice_from(config), "config", &loaded, reterr) < 0)
        return NULL;
    return engine_from(loaded, reterr);
}

PR_API struct pr_engine *pr_engine_new_file(const char *path, struct pr_error *reterr)
{
    struct config *loaded;
    if (path == NULL) {
        lib_missing("path", reterr);
        return NULL;
    }
    if (config_load_file(path, &loaded, reterr) < 0)
        return NULL;
    return engine_from(loaded, reterr);
}

PR_API void pr_engine_free(struct pr_engine *engine)
{
    if (engine == NULL)
        return;
    runtime_free(engine->runtime);
    free(engine);
}

PR_API int pr_engine_handle(struct pr_engine *engine, const char *type_glob, pr_handler handler, void *user)
{
    return engine != NULL ? runtime_handle(engine->runtime, slice_from(type_glob), handler, user) : PR_EINVAL;
}

PR_API int pr_engine_handle_named(struct pr_engine *engine, const char *name, pr_handler handler, void *user)
{
    return engine != NULL ? runtime_handle_named(engine->runtime, slice_from(name), handler, user) : PR_EINVAL;
}

PR_API int pr_engine_start(struct pr_engine *engine, struct pr_error *reterr)
{
    return engine != NULL ? runtime_start(engine->runtime, reterr) : lib_missing("engine", reterr);
}

PR_API int pr_engine_drain(struct pr_engine *engine, int64_t timeout_us, struct pr_error *reterr)
{
    return engine != NULL ? runtime_drain(engine->runtime, timeout_us, reterr) : lib_missing("engine", reterr);
}

PR_API int pr_engine_stop(struct pr_engine *engine, int64_t timeout_us)
{
    return engine != NULL ? runtime_stop(engine->runtime, timeout_us) : PR_EINVAL;
}

PR_API void pr_engine_counts(struct pr_engine *engine, struct pr_engine_counts *ret_counts)
{
    runtime_counts(engine->runtime, ret_counts);
}
