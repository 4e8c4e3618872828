#include "runtime/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/config/config_notes.h"
#include "runtime/config/config_variables.h"

#define CONFIG_ARENA_BLOCK 16384

/* ---- Notes ---- */

static struct config_note *note_find(const struct config *config, const void *field)
{
    const struct map *map = &config->notes->map;

    for (struct map_node *n = map_first(map, hash_u64((uintptr_t)field)); n != NULL; n = map_next_same(n)) {
        struct config_note *note = MAP_ENTRY(n, struct config_note, link);

        if (note->field == field)
            return note;
    }
    return NULL;
}

const struct config_note *config_note_find(const struct config *config, const void *field)
{
    return note_find(config, field);
}

int config_note_set(struct config *config, const void *field, enum origin origin, const struct node *node,
                    const char *shown)
{
    struct config_note *note = note_find(config, field);

    if (note == NULL) {
        note = arena_zalloc(&config->arena, sizeof(*note));
        if (note == NULL || map_insert(&config->notes->map, &note->link, hash_u64((uintptr_t)field)) != PR_OK)
            return PR_ENOMEM;
    }
    note->field = field;
    note->origin = origin;
    note->node = node;
    note->shown = shown;
    return PR_OK;
}

/* ---- Loading ---- */

static pr_slice directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? (pr_slice){ NULL, 0 } : (pr_slice){ path, slash == path ? 1 : (size_t)(slash - path) };
}

static int name_instance(struct config *config, struct pr_error *reterr)
{
    char host[256] = "";

    if (config->instance[0] != '\0')
        return PR_OK;
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        (void)strcpy(host, "local");
    config->instance = slice_dup(&config->arena, slice_from(host)).data;
    return config->instance != NULL ? PR_OK : error_set(reterr, PR_ENOMEM, "out of memory");
}

static int load(struct config *config, pr_slice text, struct pr_error *reterr)
{
    struct config_variables variables;
    struct node_source source = { config->file[0] != '\0' ? config->file : "defaults", directory_of(config->file),
                                  &variables };
    struct config_reader reader = { .config = config, .source = &source, .reterr = reterr };
    struct node *root = NULL;
    if (config_variables_init(&variables, &config->arena) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory", source.name);
    int r = node_parse(text, &source, &config->arena, &root, reterr);

    reader.root = root;
    if (r == PR_OK)
        r = config_read_section(&reader, &option_root, root, config, "");
    if (r == PR_OK)
        r = config_variables_check(&variables, reterr);
    if (r == PR_OK)
        r = name_instance(config, reterr);
    if (r == PR_OK)
        r = config_resolve_paths(&reader);
    if (r == PR_OK)
        r = config_check(&reader);
    config->secret_variables = variables.used;
    config->secret_variable_count = variables.used_count;
    config->open_secret_file = variables.open_file != NULL ? variables.open_file : "";
    for (size_t i = 0; i < config->endpoint_count; i++) {
        config->endpoints[i].secret_variables = variables.used;
        config->endpoints[i].secret_variable_count = variables.used_count;
    }
    if (r == PR_OK)
        config_digest(config, root);
    return r;
}

int config_load_text(pr_slice text, const char *name, struct config **ret, struct pr_error *reterr)
{
    struct config *config = calloc(1, sizeof(*config));

    if (config == NULL)
        return error_set(reterr, PR_ENOMEM, "%s: out of memory", name);
    arena_init(&config->arena, CONFIG_ARENA_BLOCK);
    config->file = slice_dup(&config->arena, slice_from(name)).data;
    config->notes = arena_zalloc(&config->arena, sizeof(*config->notes));
    if (config->file == NULL || config->notes == NULL) {
        config_free(config);
        return error_set(reterr, PR_ENOMEM, "%s: out of memory", name);
    }
    map_init(&config->notes->map);
    int r = load(config, text, reterr);
    if (r != PR_OK) {
        config_free(config);
        return r;
    }
    *ret = config;
    return PR_OK;
}

int config_load_file(const char *path, struct config **ret, struct pr_error *reterr)
{
    char chunk[4096];
    struct buf text;
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return error_set(reterr, PR_EIO, "%s: %s", path, strerror(errno));
    buf_init(&text, CONFIG_BYTES_MAX + 1); /* one more, so that node_parse() detects a file that is too large */
    for (size_t n; buf_failed(&text) == 0 && (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
        buf_add(&text, chunk, n);
    int failed = ferror(f) ? errno : 0;
    (void)fclose(f); /* it was only read */
    int r;
    if (failed != 0)
        r = error_set(reterr, PR_EIO, "%s: %s", path, strerror(failed));
    else if (buf_failed(&text) != 0)
        r = error_set(reterr, PR_ECONFIG, "%s: larger than %u bytes", path, CONFIG_BYTES_MAX);
    else
        r = config_load_text(buf_slice(&text), path, ret, reterr);
    buf_fini(&text);
    return r;
}

int config_default(struct config **ret, struct pr_error *reterr)
{
    return config_load_text(PR_STR(""), "", ret, reterr);
}

void config_free(struct config *config)
{
    if (config == NULL)
        return;
    if (config->notes != NULL)
        map_fini(&config->notes->map);
    arena_wipe(&config->arena); /* contains passwords and keys */
    arena_fini(&config->arena);
    free(config);
}

int config_set_store(struct config *config, const char *url, struct pr_error *reterr)
{
    pr_slice copy = slice_dup(&config->arena, slice_from(url));
    int r = config_check_store(url, reterr);

    if (r != PR_OK)
        return r;
    if (copy.data == NULL || config_note_set(config, &config->store, ORIGIN_FLAG, NULL, copy.data) != PR_OK)
        return error_set(reterr, PR_ENOMEM, "out of memory");
    config->store = copy.data;
    return PR_OK;
}

/* ---- Looking things up ---- */

const struct config_endpoint *config_find_endpoint(const struct config *config, pr_slice name)
{
    for (size_t i = 0; i < config->endpoint_count; i++)
        if (slice_eq_cstr(name, config->endpoints[i].name))
            return &config->endpoints[i];
    return NULL;
}

const struct config_box *config_find_box(const struct config *config, pr_slice name)
{
    for (size_t i = 0; i < config->box_count; i++)
        if (slice_eq_cstr(name, config->boxes[i].name))
            return &config->boxes[i];
    return NULL;
}

const char *config_box_table(const struct config_box *box)
{
    return box->table[0] != '\0' ? box->table : box->name;
}

bool config_takes_box(const struct config *config, const char *named, pr_slice box)
{
    const struct config_box *known = config_find_box(config, box);

    return route_takes_box(slice_from(named), box, known != NULL ? known->kind : BOX_OUTBOX);
}

void config_endpoint_for_transport(const struct config_endpoint *endpoint, struct endpoint_config *ret)
{
    *ret = (struct endpoint_config){
        .name = endpoint->name,
        .url = endpoint->url,
        .source = endpoint->source,
        .envelope = endpoint->envelope,
        .batch_messages = (unsigned)endpoint->batch.messages,
        .batch_bytes = (size_t)endpoint->batch.bytes,
        .ca = endpoint->ca,
        .cert = endpoint->cert,
        .key = endpoint->key,
        .sign = endpoint->sign,
        .sign_count = endpoint->sign_count,
        .method = endpoint->method,
        .proxy = endpoint->proxy,
        .headers = endpoint->headers,
        .header_count = endpoint->header_count,
        .secret_variables = endpoint->secret_variables,
        .secret_variable_count = endpoint->secret_variable_count,
        .timeout_us = endpoint->timeout_us,
        .concurrency = (unsigned)endpoint->concurrency,
        .allow_networks = endpoint->allow_networks,
        .allow_network_count = endpoint->allow_network_count,
        .wake_fd = -1,
    };
}

void config_endpoint_policy(const struct config *config, const struct config_endpoint *endpoint, struct policy *ret)
{
    *ret = (struct policy){
        .own = endpoint->rules,
        .own_count = endpoint->rule_count,
        .global = config->rules,
        .global_count = config->rule_count,
        .retry = endpoint->retry,
    };
}

static int line_in_list(const struct config *config, const void *field, const struct rule *rules, size_t count,
                        const struct rule *rule)
{
    const struct config_note *note = note_find(config, field);
    const struct node *node = note != NULL && note->node != NULL ? note->node->first : NULL;

    for (size_t i = 0; i < count && node != NULL; i++, node = node->next)
        if (rules[i].steps == rule->steps) /* the rule, or a copy of it */
            return node->line;
    return 0;
}

int config_rule_line(const struct config *config, const struct rule *rule)
{
    int line = line_in_list(config, &config->rules, config->rules, config->rule_count, rule);

    for (size_t i = 0; i < config->endpoint_count && line == 0; i++) {
        const struct config_endpoint *e = &config->endpoints[i];

        line = line_in_list(config, &e->rules, e->rules, e->rule_count, rule);
    }
    return line;
}
