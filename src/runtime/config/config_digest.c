/* Detecting what has changed between two configurations: digests of the expanded text. */
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "runtime/config/config.h"
#include "runtime/config/config_node.h"
#include "runtime/config/config_notes.h"

static uint64_t add_text(uint64_t digest, const char *text)
{
    return hash_slice(digest, slice_from(text != NULL ? text : ""));
}

static uint64_t add_node(uint64_t digest, const struct node *node)
{
    if (node == NULL)
        return hash_u64(digest);
    digest = hash_u64(digest + (uint64_t)node->kind + 1 + (node->plain ? 8 : 0));
    digest = add_text(add_text(digest, node->key), node->text);
    for (const struct node *child = node->first; child != NULL; child = child->next)
        digest = add_node(digest, child);
    return hash_u64(digest);
}

/* A renewed certificate with the same name changes the digest. */
static uint64_t add_file(uint64_t digest, const char *path)
{
    struct stat file;

    if (path == NULL || path[0] == '\0' || stat(path, &file) != 0)
        return digest;
    const uint64_t facts[] = { file.st_dev, file.st_ino, (uint64_t)file.st_size, (uint64_t)file.st_mtim.tv_sec,
                               (uint64_t)file.st_mtim.tv_nsec };
    return hash_bytes(digest, facts, sizeof(facts));
}

static uint64_t endpoint_digest(const struct config_endpoint *e, const struct node *node)
{
    uint64_t digest = add_node(1, node);

    digest = add_file(add_file(add_file(digest, e->ca), e->cert), e->key);
    /* Programs do not get variables that hold secrets, wherever the file uses these. */
    for (size_t i = 0; strncmp(e->url, "exec:", 5) == 0 && i < e->secret_variable_count; i++)
        digest = add_text(digest, e->secret_variables[i]);
    return digest;
}

/* All settings that a source depends on: if one differs, it is another source, and the running one ends. */
static uint64_t source_digest(const struct config *config, const struct source_config *s, const struct node *node)
{
    uint64_t digest = add_node(1, node);

    if (s->kind >= SOURCE_FIRST_WITH_URL) /* it has allocated batches of one size */
        digest = hash_u64(digest + (uint64_t)config->batch);
    for (size_t i = 0; s->kind == SOURCE_TABLE && i < config->endpoint_count; i++) /* it knows their names */
        digest = add_text(digest, config->endpoints[i].name);
    return digest;
}

static void digest_sources(struct config *config, const struct node *list)
{
    const struct node *entry = list != NULL ? list->first : NULL;

    for (size_t i = 0; i < config->source_count; i++, entry = entry != NULL ? entry->next : NULL)
        config->sources[i].digest = source_digest(config, &config->sources[i], entry);
}

/* The limit of waiting rows is passed on to running sources. */
static uint64_t add_limits(uint64_t digest, const struct node *limits)
{
    for (const struct node *n = limits->first; n != NULL; n = n->next)
        if (strcmp(n->key, "waiting") != 0)
            digest = add_node(digest, n);
    return digest;
}

/* Sections that a running relay can follow without a stop: see relay_retune(). */
static bool is_followed(const char *key)
{
    static const char *const keys[] = { "endpoints", "routes", "rules",   "batch",        "retention", "log",
                                        "watch",     "http",   "sources", "stop_timeout", "schedules" };

    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

void config_digest(struct config *config, const struct node *root)
{
    const struct node *endpoints = root != NULL ? node_find(root, "endpoints") : NULL;

    for (size_t i = 0; i < config->endpoint_count; i++)
        config->endpoints[i].digest = endpoint_digest(
            &config->endpoints[i], endpoints != NULL ? node_find(endpoints, config->endpoints[i].name) : NULL);
    config->routes_digest = add_node(1, root != NULL ? node_find(root, "routes") : NULL);
    config->schedules_digest = add_node(1, root != NULL ? node_find(root, "schedules") : NULL);
    digest_sources(config, root != NULL ? node_find(root, "sources") : NULL);
    config->rest_digest = 1;
    for (const struct node *n = root != NULL ? root->first : NULL; n != NULL; n = n->next)
        if (strcmp(n->key, "limits") == 0)
            config->rest_digest = add_limits(config->rest_digest, n);
        else if (!is_followed(n->key))
            config->rest_digest = add_node(config->rest_digest, n);
}
