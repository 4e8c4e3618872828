/* program.h - what the program registered in C: handlers, rules, functions that rules call.  It is filled before the
 * start and never changes afterwards; every reload uses it. */
#ifndef RUNTIME_PROGRAM_H
#define RUNTIME_PROGRAM_H

#include "base/arena.h"
#include "base/log.h"
#include "engine/engine.h"
#include "flow/registry.h"
#include "policy/rule.h"

#define HANDLERS_MAX 256
#define PROGRAM_RULES_MAX 1024
#define PROGRAM_CALLS_MAX 256
#define PROGRAM_ACTIVITIES_MAX 1024
#define PROGRAM_TAGS_MAX 64

/* A C function of the program. */
struct handler_entry {
    const char *name; /* for "handler:NAME": the registered name, the glob, or BOX/GLOB */
    const char *type; /* a glob: takes such messages ... */
    const char *box;  /* ... of this box; "": of every outbox.  NULL: takes messages to endpoints with its name */
    pr_handler handler;
    void *user;
    bool beside; /* it is a route: other endpoints may get the same messages */
};

struct rule_entry {
    const char *endpoint; /* NULL: global */
    const struct rule *rule;
};

struct call_entry {
    const char *name;
    pr_rule_function function;
    void *user;
};

struct activity_entry {
    pr_slice name;
    pr_activity_function function;
    void *user;
};

struct program {
    struct arena texts; /* of all names below */
    struct handler_entry handlers[HANDLERS_MAX];
    size_t handler_count;
    struct rule_entry rules[PROGRAM_RULES_MAX];
    size_t rule_count;
    struct call_entry calls[PROGRAM_CALLS_MAX];
    size_t call_count;
    struct launcher *launcher; /* for handlers with isolation: process; NULL: there are none */
    struct flow_registry flows;
    struct activity_entry activities[PROGRAM_ACTIVITIES_MAX];
    size_t activity_count;
    pr_slice tags[PROGRAM_TAGS_MAX]; /* tags that activities here offer */
    size_t tag_count;
};

void program_init(struct program *p); /* of zeros */
void program_fini(struct program *p);

/* ---- Before the start (p NULL: it is over).  PR_OK, PR_EINVAL, PR_ENOMEM. ----
 *
 * Messages of this box (empty: of every outbox) whose type matches the glob go to the handler, whatever their
 * destination is.  The first that was registered wins.  When the config has an endpoint with
 * the url "handler:GLOB" (with a box: "handler:BOX/GLOB") its settings hold, otherwise the defaults. */
PR_MUST_CHECK int program_add_handler(struct program *p, pr_slice box, pr_slice type_glob, pr_handler handler,
                                      void *user);
/* The same as a route: each message goes to all that match, and to the endpoints of matching configured routes. */
PR_MUST_CHECK int program_add_subscriber(struct program *p, pr_slice box, pr_slice name, pr_slice type_glob,
                                         pr_handler handler, void *user);
/* For endpoints with the url "handler:NAME". */
PR_MUST_CHECK int program_add_named_handler(struct program *p, pr_slice name, pr_handler handler, void *user);
/* A function that rules call by this name. */
PR_MUST_CHECK int program_add_call(struct program *p, pr_slice name, pr_rule_function function, void *user);
/* Flows and activities that run here, and the tags that activities here offer.  version NULL: "1". */
PR_MUST_CHECK int program_add_flow(struct program *p, const char *name, const char *version, pr_flow_function function,
                                   void *user);
PR_MUST_CHECK int program_add_activity(struct program *p, pr_slice name, pr_activity_function function, void *user);
PR_MUST_CHECK int program_add_tag(struct program *p, pr_slice tag);
/* A rule for an endpoint (empty: for all), after the config's own.  It is borrowed until fini. */
PR_MUST_CHECK int program_add_rule(struct program *p, pr_slice endpoint, const struct rule *rule,
                                   struct pr_error *reterr);

/* ---- Afterwards ---- */

/* NULL: not registered. */
const struct call_entry *program_find_call(const struct program *program, pr_slice name);
const struct activity_entry *program_find_activity(const struct program *program, pr_slice name);
bool program_offers(const struct program *program, pr_slice tag); /* an empty tag is always offered */

/* Calls a function for a rule, in the engine's thread; logs its failures. */
struct caller {
    const struct program *program;
    struct log *log; /* may be NULL */
};
/* A rule_call: arg is a const struct caller *. */
int program_call(void *arg, pr_slice name, const struct failure *failure, pr_slice rule, struct call_answer *ret);

#endif
