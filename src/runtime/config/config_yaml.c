/* Builds the tree from libyaml's events.  Everything that can be wrong with the text itself is found here: broken YAML,
 * duplicate keys, exceeded limits, ${...} that does not expand.
 *
 * In YAML {token: ${file:token}} is not valid, because of its braces.  People write it all the same, so characters
 * inside of ${...} that would be read as structure are hidden from libyaml: each becomes a character that no text may
 * contain (a Unicode noncharacter), and is restored in libyaml's output.  The replacement is one to one, so lines and
 * columns stay right. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "runtime/config/config.h"
#include "runtime/config/config_node.h"

static const char VEILED[] = "{}[],:#";
#define OPENED_SIZE 96
#define VEIL_SIZE 3                                                /* bytes of U+FDD0 + n in UTF-8 ... */
static const unsigned char VEIL[VEIL_SIZE] = { 0xef, 0xb7, 0x90 }; /* ... for the first one */

struct yaml_reader {
    yaml_parser_t parser;
    pr_slice text; /* the input of libyaml */
    const struct node_source *source;
    struct arena *arena;
    struct pr_error *reterr;
    size_t nodes;
    int depth;
};

static int fail(struct yaml_reader *y, yaml_mark_t mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct yaml_reader *y, yaml_mark_t mark, const char *format, ...)
{
    char text[PR_ERROR_TEXT_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args); /* truncation is acceptable */
    va_end(args);
    return error_set(y->reterr, PR_ECONFIG, "%s:%zu:%zu: %s", y->source->name, mark.line + 1, mark.column + 1, text);
}

static int no_memory(struct yaml_reader *y)
{
    return error_set(y->reterr, PR_ENOMEM, "%s: out of memory", y->source->name);
}

/* ---- Veils -------------------------------------------------------------------------------- */

/* Index in VEILED of the character at this place, or -1. */
static int veil_at(pr_slice text, size_t at)
{
    if (text.size - at < VEIL_SIZE || memcmp(text.data + at, VEIL, VEIL_SIZE - 1) != 0)
        return -1;
    int which = (unsigned char)text.data[at + VEIL_SIZE - 1] - VEIL[VEIL_SIZE - 1];

    return which >= 0 && which < (int)sizeof(VEILED) - 1 ? which : -1;
}

/* The size of a ${...} that begins at this place and ends on the same line, or 0. */
static size_t expansion_size(pr_slice text, size_t at)
{
    pr_slice rest = { text.data + at, text.size - at };

    if (!slice_starts_with(rest, PR_STR("${")))
        return 0;
    const char *line_end = memchr(rest.data, '\n', rest.size);
    const char *end = memchr(rest.data, '}', line_end != NULL ? (size_t)(line_end - rest.data) : rest.size);

    return end != NULL ? (size_t)(end - rest.data) + 1 : 0;
}

static void veil(pr_slice text, struct buf *ret)
{
    size_t inside = 0; /* remaining bytes of a ${...} */

    for (size_t i = 0; i<text.size; i++, inside -= inside> 0) {
        const char *found = NULL;

        if (inside == 0)
            inside = expansion_size(text, i);
        if (inside > 0 && text.data[i] != '\0')
            found = strchr(VEILED, text.data[i]);
        if (found == NULL) {
            buf_add_char(ret, text.data[i]);
            continue;
        }
        buf_add(ret, VEIL, VEIL_SIZE - 1);
        buf_add_char(ret, (char)(VEIL[VEIL_SIZE - 1] + (found - VEILED)));
    }
}

/* In place: the text only becomes shorter. */
static pr_slice unveil(yaml_char_t *data, size_t size)
{
    pr_slice text = { (const char *)data, size };
    size_t n = 0;

    for (size_t i = 0; i < size; n++) {
        int which = veil_at(text, i);

        data[n] = which >= 0 ? (yaml_char_t)VEILED[which] : data[i];
        i += which >= 0 ? VEIL_SIZE : 1;
    }
    return (pr_slice){ text.data, n };
}

static yaml_mark_t mark_at(pr_slice text, size_t offset)
{
    yaml_mark_t mark = { 0 };

    for (size_t i = 0; i < offset && i < text.size; i++) {
        bool begins = (text.data[i] & 0xc0) != 0x80; /* beginning of a character */

        mark.line += text.data[i] == '\n';
        mark.column = text.data[i] == '\n' ? 0 : mark.column + begins;
    }
    return mark;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* libyaml reports an unclosed bracket only where the next token begins, possibly lines later: this names the place of
 * the bracket. */
static const char *opened_at(const yaml_parser_t *parser, char *text, size_t size)
{
    bool map = parser->context != NULL && strcmp(parser->context, "while parsing a flow mapping") == 0;
    bool list = parser->context != NULL && strcmp(parser->context, "while parsing a flow sequence") == 0;

    text[0] = '\0';
    if (map || list)
        (void)snprintf(text, size, "; the %s of line %zu, column %zu is not closed before", map ? "{" : "[",
                       parser->context_mark.line + 1, parser->context_mark.column + 1);
    return text;
}

/* Advice where libyaml's words alone are not helpful. */
static const char *advice(const char *problem, pr_slice text)
{
    if (strcmp(problem, "mapping values are not allowed in this context") == 0)
        return "; put a value with a colon at its end or before a space in quotes"; /* url: console: */
    if (strcmp(problem, "found a tab character that violates indentation") == 0 ||
        (strcmp(problem, "found character that cannot start any token") == 0 &&
         memchr(text.data, '\t', text.size) != NULL))
        return "; indent lines with spaces, not tabs";
    return "";
}

static int next_event(struct yaml_reader *y, yaml_event_t *event)
{
    if (yaml_parser_parse(&y->parser, event))
        return PR_OK;
    if (y->parser.error == YAML_MEMORY_ERROR)
        return no_memory(y);
    /* The reader (invalid UTF-8, control characters) has no mark, only the number of bytes before. */
    yaml_mark_t mark =
        y->parser.error == YAML_READER_ERROR ? mark_at(y->text, y->parser.problem_offset) : y->parser.problem_mark;
    const char *problem = y->parser.problem != NULL ? y->parser.problem : "unreadable";

    char opened[OPENED_SIZE];

    return fail(y, mark, "not valid YAML: %s%s%s", problem, opened_at(&y->parser, opened, sizeof opened),
                advice(problem, y->text));
}

static struct node *node_new(struct yaml_reader *y, enum node_kind kind, yaml_mark_t mark)
{
    struct node *node = arena_zalloc(y->arena, sizeof(*node));

    if (node != NULL)
        *node = (struct node){ .kind = kind, .line = (int)mark.line + 1, .column = (int)mark.column + 1 };
    return node;
}

static int read_scalar(struct yaml_reader *y, const yaml_event_t *event, struct node **ret)
{
    pr_slice text = unveil(event->data.scalar.value, event->data.scalar.length);
    struct node *node = node_new(y, NODE_SCALAR, event->start_mark);
    struct pr_error why;

    if (node == NULL)
        return no_memory(y);
    if (memchr(text.data, '\0', text.size) != NULL)
        return fail(y, event->start_mark, "a NUL character is not allowed");
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->expanded = text.size > 0 && memmem(text.data, text.size, "${", 2) != NULL;
    int r = node_expand(text, y->source, y->arena, &node->text, &node->shown, &why);
    if (r == PR_ENOMEM)
        return no_memory(y);
    if (r != PR_OK)
        return fail(y, event->start_mark, "%s", why.text);
    *ret = node;
    return PR_OK;
}

static int read_node(struct yaml_reader *y, const yaml_event_t *event, struct node **ret);

static int read_list(struct yaml_reader *y, struct node *list)
{
    struct node **end = &list->first;

    for (;;) {
        yaml_event_t event;
        int r = next_event(y, &event);

        if (r != PR_OK)
            return r;
        bool done = event.type == YAML_SEQUENCE_END_EVENT;
        if (!done)
            r = read_node(y, &event, end);
        yaml_event_delete(&event);
        if (r != PR_OK || done)
            return r;
        end = &(*end)->next;
        list->count++;
    }
}

static int read_key(struct yaml_reader *y, const struct node *map, const yaml_event_t *event, const char **ret_key)
{
    if (event->type != YAML_SCALAR_EVENT)
        return fail(y, event->start_mark, "a key must be a word");
    pr_slice key = unveil(event->data.scalar.value, event->data.scalar.length);

    if (memchr(key.data, '\0', key.size) != NULL)
        return fail(y, event->start_mark, "a NUL character is not allowed");
    if (map->count >= CONFIG_KEYS_MAX)
        return fail(y, event->start_mark, "more than %d keys in one map", CONFIG_KEYS_MAX);
    for (const struct node *n = map->first; n != NULL; n = n->next)
        if (slice_eq_cstr(key, n->key))
            return fail(y, event->start_mark, "%s: duplicate key, already in line %d", n->key, n->key_line);
    *ret_key = slice_dup(y->arena, key).data;
    return *ret_key != NULL ? PR_OK : no_memory(y);
}

static int read_map(struct yaml_reader *y, struct node *map)
{
    struct node **end = &map->first;

    for (;;) {
        yaml_event_t key_event, event;
        const char *key = NULL;
        int r = next_event(y, &key_event);

        if (r != PR_OK)
            return r;
        bool done = key_event.type == YAML_MAPPING_END_EVENT;
        yaml_mark_t mark = key_event.start_mark;
        if (!done)
            r = read_key(y, map, &key_event, &key);
        yaml_event_delete(&key_event);
        if (r != PR_OK || done)
            return r;
        r = next_event(y, &event);
        if (r != PR_OK)
            return r;
        r = read_node(y, &event, end);
        yaml_event_delete(&event);
        if (r != PR_OK)
            return r;
        (*end)->key = key;
        (*end)->key_line = (int)mark.line + 1;
        (*end)->key_column = (int)mark.column + 1;
        end = &(*end)->next;
        map->count++;
    }
}

static int read_collection(struct yaml_reader *y, const yaml_event_t *event, struct node **ret)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    struct node *node = node_new(y, is_map ? NODE_MAP : NODE_LIST, event->start_mark);

    if (node == NULL)
        return no_memory(y);
    if (++y->depth > CONFIG_DEPTH_MAX)
        return fail(y, event->start_mark, "more than %d levels deep", CONFIG_DEPTH_MAX);
    int r = is_map ? read_map(y, node) : read_list(y, node);
    y->depth--;
    if (r == PR_OK)
        *ret = node;
    return r;
}

static int read_node(struct yaml_reader *y, const yaml_event_t *event, struct node **ret)
{
    const yaml_char_t *tag = NULL, *anchor = NULL;

    if (++y->nodes > CONFIG_NODES_MAX)
        return fail(y, event->start_mark, "more than %d values", CONFIG_NODES_MAX);
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        tag = event->data.scalar.tag;
        anchor = event->data.scalar.anchor;
        break;
    case YAML_MAPPING_START_EVENT:
        tag = event->data.mapping_start.tag;
        anchor = event->data.mapping_start.anchor;
        break;
    case YAML_SEQUENCE_START_EVENT:
        tag = event->data.sequence_start.tag;
        anchor = event->data.sequence_start.anchor;
        break;
    default: return fail(y, event->start_mark, "anchors and aliases are not supported; repeat the value");
    }
    if (anchor != NULL)
        return fail(y, event->start_mark, "anchors and aliases are not supported; repeat the value");
    if (tag != NULL)
        return fail(y, event->start_mark, "tags are not supported");
    return event->type == YAML_SCALAR_EVENT ? read_scalar(y, event, ret) : read_collection(y, event, ret);
}

/* One document, or none. */
static int read_stream(struct yaml_reader *y, struct node **ret)
{
    struct node *root = NULL;

    for (;;) {
        yaml_event_t event;
        int r = next_event(y, &event);

        if (r != PR_OK)
            return r;
        bool done = event.type == YAML_STREAM_END_EVENT;
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
        case YAML_STREAM_END_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
            if (root != NULL)
                r = fail(y, event.start_mark, "a second document is not allowed");
            break;
        default: r = read_node(y, &event, &root);
        }
        yaml_event_delete(&event);
        if (r != PR_OK)
            return r;
        if (done)
            break;
    }
    *ret = root;
    return PR_OK;
}

static int parse_veiled(struct yaml_reader *y, struct node **ret)
{
    if (!yaml_parser_initialize(&y->parser))
        return no_memory(y);
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)(y->text.data != NULL ? y->text.data : ""),
                                 y->text.size);
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    int r = read_stream(y, ret);
    yaml_parser_delete(&y->parser);
    return r;
}

int node_parse(pr_slice text, const struct node_source *source, struct arena *arena, struct node **ret,
               struct pr_error *reterr)
{
    struct yaml_reader y = { .source = source, .arena = arena, .reterr = reterr };
    struct buf veiled;

    if (text.size > CONFIG_BYTES_MAX)
        return error_set(reterr, PR_ECONFIG, "%s: larger than %u bytes", source->name, CONFIG_BYTES_MAX);
    for (size_t i = 0; i < text.size; i++)
        if (veil_at(text, i) >= 0)
            return fail(&y, mark_at(text, i), "not valid YAML: not a Unicode character");
    buf_init(&veiled, (size_t)CONFIG_BYTES_MAX * VEIL_SIZE);
    veil(text, &veiled);
    y.text = buf_slice(&veiled);
    int r = buf_failed(&veiled) == PR_OK ? parse_veiled(&y, ret) : no_memory(&y);
    buf_fini(&veiled);
    return r;
}

bool node_is_null(const struct node *node)
{
    return node->kind == NODE_SCALAR && node->plain &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

const struct node *node_find(const struct node *map, const char *key)
{
    for (const struct node *n = map != NULL ? map->first : NULL; n != NULL; n = n->next)
        if (strcmp(n->key, key) == 0)
            return n;
    return NULL;
}
