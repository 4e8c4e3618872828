#include <stdlib.h>

#include <postrider_flow.h>

#include "base/error.h"
#include "base/slice.h"
#include "lib/lib.h"
#include "lib/rule.h"
#include "ops/api/http_front.h"
#include "runtime/config/config.h"
#include "runtime/program.h"
#include "runtime/runtime.h"

/* The runtime under its public name. */
struct pr_engine {
    struct runtime *runtime;
    struct pr_rule *rules; /* taken over; the runtime borrows them */
};

struct runtime *lib_runtime(struct pr_engine *engine)
{
    return engine->runtime;
}

static struct pr_engine *engine_from(struct config *config, struct pr_error *reterr)
{
    /* An embedded store has nobody else to create its tables.  The library prints nothing. */
    const struct runtime_options options = { .log = NULL, .migrate = true, .front = &ops_http_front };
    struct pr_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        error_set(reterr, PR_ENOMEM, "out of memory for an engine");
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
    rules_free(engine->rules);
    free(engine);
}

/* NULL: nothing can be added to it. */
static struct program *program_of(const struct pr_engine *engine)
{
    return engine != NULL ? runtime_program(engine->runtime) : NULL;
}

PR_API int pr_engine_handle(struct pr_engine *engine, const char *type_glob, pr_handler handler, void *user)
{
    return pr_engine_handle_box(engine, NULL, type_glob, handler, user);
}

PR_API int pr_engine_handle_box(struct pr_engine *engine, const char *box, const char *type_glob, pr_handler handler,
                                void *user)
{
    return program_add_handler(program_of(engine), slice_from(box), slice_from(type_glob), handler, user);
}

PR_API int pr_engine_subscribe(struct pr_engine *engine, const char *box, const char *name, const char *type_glob,
                               pr_handler handler, void *user)
{
    return program_add_subscriber(program_of(engine), slice_from(box), slice_from(name), slice_from(type_glob), handler,
                                  user);
}

PR_API int pr_engine_handle_named(struct pr_engine *engine, const char *name, pr_handler handler, void *user)
{
    return program_add_named_handler(program_of(engine), slice_from(name), handler, user);
}

PR_API int pr_engine_call(struct pr_engine *engine, const char *name, pr_rule_function function, void *user)
{
    return program_add_call(program_of(engine), slice_from(name), function, user);
}

PR_API int pr_engine_flow(struct pr_engine *engine, const char *name, const char *version, pr_flow_function function,
                          void *user)
{
    return program_add_flow(program_of(engine), name, version, function, user);
}

PR_API int pr_engine_activity(struct pr_engine *engine, const char *name, pr_activity_function function, void *user)
{
    return program_add_activity(program_of(engine), slice_from(name), function, user);
}

PR_API int pr_engine_offer(struct pr_engine *engine, const char *tag)
{
    return program_add_tag(program_of(engine), slice_from(tag));
}

PR_API int pr_engine_rule(struct pr_engine *engine, const char *endpoint, struct pr_rule *rule, struct pr_error *reterr)
{
    const struct rule *finished;
    if (engine == NULL || rule == NULL)
        return lib_missing(engine == NULL ? "engine" : "rule", reterr);
    int rc = rule_finish(rule, &finished, reterr);
    if (rc == PR_OK)
        rc = program_add_rule(program_of(engine), slice_from(endpoint), finished, reterr);
    if (rc == PR_OK)
        rule_keep(&engine->rules, rule);
    return rc;
}

PR_API int pr_engine_pause(struct pr_engine *engine, const char *endpoint, int64_t for_us, const char *why,
                           struct pr_error *reterr)
{
    if (engine == NULL || endpoint == NULL)
        return lib_missing(engine == NULL ? "engine" : "endpoint", reterr);
    if (for_us <= 0)
        return error_set(reterr, PR_EINVAL, "a pause must be longer than 0");
    return runtime_pause(engine->runtime, slice_from(endpoint), for_us, slice_from(why), reterr);
}

PR_API int pr_engine_resume(struct pr_engine *engine, const char *endpoint, struct pr_error *reterr)
{
    if (engine == NULL || endpoint == NULL)
        return lib_missing(engine == NULL ? "engine" : "endpoint", reterr);
    return runtime_resume(engine->runtime, slice_from(endpoint), reterr);
}

PR_API int pr_engine_send(struct pr_engine *engine, const char *box, const struct pr_message *message, pr_id *ret_id,
                          enum pr_sent *ret_sent, struct pr_error *reterr)
{
    enum pr_sent sent = PR_SENT_STORED;
    pr_slice name;
    if (engine == NULL || message == NULL)
        return lib_missing(engine == NULL ? "engine" : "message", reterr);
    int rc = lib_box(box, &name, reterr);
    if (rc == PR_OK)
        rc = runtime_send(engine->runtime, name, message, ret_id, &sent, reterr);
    if (rc >= 0 && ret_sent != NULL)
        *ret_sent = sent;
    return rc;
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
