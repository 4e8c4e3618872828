/* config_notes.h - the origin of each value of a configuration. */
#ifndef RUNTIME_CONFIG_CONFIG_NOTES_H
#define RUNTIME_CONFIG_CONFIG_NOTES_H

#include "base/map.h"
#include "runtime/config/config_node.h"
#include "runtime/config/config_options.h"

enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_PRESET, ORIGIN_FLAG };

struct config_note {
    struct map_node link;
    const void *field; /* the value in the config */
    enum origin origin;
    const struct node *node; /* FILE, ENVIRONMENT; it lives in the config's arena */
    const char *shown;       /* TEXT: how it may be printed */
};

struct config_notes {
    struct map map;
};

/* A later note on the same field replaces the earlier one.  PR_ENOMEM, or PR_OK. */
PR_MUST_CHECK int config_note_set(struct config *config, const void *field, enum origin origin, const struct node *node,
                                  const char *shown);
/* NULL: it is the default. */
const struct config_note *config_note_find(const struct config *config, const void *field);

/* ---- Reading (config_read.c) ---- */

struct config_reader {
    struct config *config;
    const struct node_source *source;
    struct pr_error *reterr;
    const struct node *root; /* NULL: the file is empty */
    bool in_list;            /* entries of lists have no names, so there are no variables for them */
};

/* Fills target with the section's defaults, then with the values of map (NULL: none) and of the environment.  path is
 * "" or ends without a dot. */
PR_MUST_CHECK int config_read_section(struct config_reader *reader, const struct option_section *section,
                                      const struct node *map, void *target, const char *path);

/* Are all keys of the map options of the section?  If not, the error suggests a similar one. */
PR_MUST_CHECK int config_check_keys(const struct config_reader *reader, const struct option_section *section,
                                    const struct node *map, const char *path);
/* Reads a table of delays or the formula into retry, over its current values. */
PR_MUST_CHECK int config_read_retry(struct config_reader *reader, const struct node *node, struct retry_setting *retry,
                                    const char *path);
/* ---- Rules (config_rule.c) ---- */
PR_MUST_CHECK int config_read_rules(struct config_reader *reader, const struct option *option, const struct node *list,
                                    void *target, const char *path);

/* ---- Sources (config_source.c) ---- */
/* Applies the source's preset, and notes that as the origin. */
PR_MUST_CHECK int config_source_preset(struct config_reader *reader, struct source_config *source);
PR_MUST_CHECK int config_read_values(struct config_reader *reader, const struct option *option, const struct node *node,
                                     void *target, const char *path);
/* The values of `pending` or `done`, as written in a file. */
void config_values_format(const struct option *option, const struct source_config *source, struct buf *ret);
/* Does the option apply to sources of this kind? */
bool config_source_has(const struct source_config *source, const char *option);
/* Checks that concern several keys. */
PR_MUST_CHECK int config_check_sources(const struct config_reader *reader);

/* ---- The whole (config_check.c) ---- */
PR_MUST_CHECK int config_resolve_paths(const struct config_reader *reader);
PR_MUST_CHECK int config_check(const struct config_reader *reader);
PR_MUST_CHECK int config_check_store(const char *url, struct pr_error *reterr);

/* ---- Schedules (config_schedule.c) ---- */
PR_MUST_CHECK int config_check_schedules(const struct config_reader *reader);

/* Is the box of entry `number` of this list among `boxes`? */
PR_MUST_CHECK int config_check_box(const struct config_reader *reader, const char *const *box, const char *list,
                                   size_t number);

/* ---- Digests (config_digest.c) ---- */
/* Sets the digests of all endpoints, the routes and the rest; root NULL: the file is empty. */
void config_digest(struct config *config, const struct node *root);

/* PR_ECONFIG with the position of node's key before the text. */
PR_MUST_CHECK int config_fail_at_key(const struct config_reader *reader, const struct node *node, const char *format,
                                     ...) PR_PRINTF(3, 4);
/* PR_ECONFIG with the position of node (NULL: only the file) before the text. */
PR_MUST_CHECK int config_fail(const struct config_reader *reader, const struct node *node, const char *format, ...)
    PR_PRINTF(3, 4);

#endif
