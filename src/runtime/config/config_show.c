/* The option tables in the other direction: the effective configuration as YAML, and the reference. */
#include <arpa/inet.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/units.h"
#include "base/url.h"
#include "base/util.h"
#include "runtime/config/config_notes.h"

#define SHOWN_COLUMN 44 /* column of the remarks, if the value leaves room */

/* ---- config show ---- */

/* As YAML: plain unless that is ambiguous. */
static void add_plain(struct buf *b, pr_slice text)
{
    bool plain = text.size > 0 && strchr("-?:,[]{}#&*!|>'\"%@` ", text.data[0]) == NULL &&
                 text.data[text.size - 1] != ' ' && text.data[text.size - 1] != ':' &&
                 !slice_contains(text, PR_STR(": ")) && !slice_contains(text, PR_STR(" #"));

    for (size_t i = 0; i < text.size && plain; i++)
        plain = (unsigned char)text.data[i] >= ' ' && text.data[i] != 0x7f && strchr("{}[],", text.data[i]) == NULL;
    if (plain)
        buf_add_slice(b, text);
    else
        json_quote(b, text); /* JSON strings are YAML strings */
}

/* In a form that is valid in JSON, too. */
static bool is_number(pr_slice text)
{
    size_t i = 0, digits = 0, decimals = 0;

    while (i < text.size && text.data[i] >= '0' && text.data[i] <= '9')
        i++, digits++;
    bool point = i < text.size && text.data[i] == '.';
    for (i += point; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        decimals++;
    return digits > 0 && i == text.size && (digits == 1 || text.data[0] != '0') && point == (decimals > 0);
}

/* A text must stay a text when it is read again: "${" is not expanded, and digits are not a number. */
static void add_text(struct buf *b, pr_slice text)
{
    struct buf escaped;

    buf_init(&escaped, 2 * (size_t)CONFIG_VALUE_MAX);
    for (size_t i = 0; i < text.size; i++) {
        if (slice_starts_with((pr_slice){ text.data + i, text.size - i }, PR_STR("${")))
            buf_add_char(&escaped, '$');
        buf_add_char(&escaped, text.data[i]);
    }
    if (is_number(text))
        json_quote(b, text);
    else
        add_plain(b, buf_slice(&escaped));
    buf_fini(&escaped);
}

static void add_network(struct buf *b, const struct network *network)
{
    char text[INET6_ADDRSTRLEN];

    if (inet_ntop(network->v6 ? AF_INET6 : AF_INET, network->address, text, sizeof(text)) != NULL)
        buf_addf(b, "%s/%u", text, network->prefix);
}

static void add_list(struct buf *b, const struct option *option, const void *target)
{
    const void *items;
    size_t count;

    memcpy(&items, (const char *)target + option->offset, sizeof(items));
    memcpy(&count, (const char *)target + option->count_offset, sizeof(count));
    buf_add_char(b, '[');
    for (size_t i = 0; i < count; i++) {
        char delay[DURATION_TEXT_SIZE];

        buf_add_cstr(b, i > 0 ? ", " : "");
        if (option->kind == OPTION_SECRETS) {
            buf_add_cstr(b, "\"***\"");
        } else if (option->kind == OPTION_NAMES) {
            add_text(b, slice_from(((const char *const *)items)[i]));
        } else if (option->kind == OPTION_NETWORKS) {
            add_network(b, &((const struct network *)items)[i]);
        } else {
            duration_format(((const int64_t *)items)[i], delay);
            buf_add_cstr(b, delay);
        }
    }
    buf_add_char(b, ']');
}

static void add_value(struct buf *b, const struct config *config, const struct option *option, const void *target)
{
    const void *field = (const char *)target + option->offset;
    const struct config_note *note = config_note_find(config, field);
    struct buf text;

    if (option->kind > OPTION_LAST_VALUE) {
        add_list(b, option, target);
        return;
    }
    buf_init(&text, CONFIG_VALUE_MAX);
    if (option->secret)
        buf_add_cstr(&text, (*(const char *const *)field)[0] != '\0' ? "***" : "");
    else if (option->kind == OPTION_TEXT)
        url_add_shown(&text, note != NULL && note->shown != NULL ? note->shown : *(const char *const *)field);
    else
        option_format(option, field, &text);
    if (option->kind == OPTION_TEXT)
        add_text(b, buf_slice(&text));
    else
        add_plain(b, buf_slice(&text));
    buf_fini(&text);
}

static void add_origin(struct buf *b, const struct config *config, const void *field, size_t line_start)
{
    const struct config_note *note = config_note_find(config, field);
    enum origin origin = note != NULL ? note->origin : ORIGIN_DEFAULT;

    do
        buf_add_char(b, ' ');
    while (b->size - line_start < SHOWN_COLUMN && buf_failed(b) == 0);
    switch (origin) {
    case ORIGIN_DEFAULT: buf_add_cstr(b, "# default"); break;
    case ORIGIN_PRESET: buf_add_cstr(b, "# preset"); break;
    case ORIGIN_FLAG: buf_add_cstr(b, "# --store"); break;
    case ORIGIN_FILE: buf_addf(b, "# line %d", note->node->line); break;
    case ORIGIN_ENVIRONMENT: buf_addf(b, "# %s", note->node->variable); break;
    }
    buf_add_char(b, '\n');
}

struct shower {
    const struct config *config;
    struct buf *out;
    int depth;
    bool dash; /* the next line begins an entry of a list */
};

static size_t begin_line(struct shower *s, const char *key)
{
    size_t start = s->out->size;

    for (int i = 0; i < s->depth * 2 - (s->dash ? 2 : 0); i++)
        buf_add_char(s->out, ' ');
    if (s->dash)
        buf_add_cstr(s->out, "- ");
    s->dash = false;
    buf_addf(s->out, "%s: ", key);
    return start;
}

/* As it was written, each on one line. */
static void add_node(struct buf *b, const struct node *node)
{
    bool map = node->kind == NODE_MAP;

    pr_slice shown = slice_from(node->shown);

    if (node->kind == NODE_SCALAR) {
        if (node->plain && is_number(shown))
            add_plain(b, shown);
        else
            add_text(b, shown);
        return;
    }
    buf_add_char(b, map ? '{' : '[');
    for (const struct node *c = node->first; c != NULL; c = c->next) {
        buf_add_cstr(b, c == node->first ? "" : ", ");
        if (map) {
            add_plain(b, slice_from(c->key));
            buf_add_cstr(b, ": ");
        }
        add_node(b, c);
    }
    buf_add_char(b, map ? '}' : ']');
}

/* The keys of a map whose values are secrets. */
static void add_names(struct buf *b, const struct node *map)
{
    buf_add_char(b, '{');
    for (const struct node *c = map->first; c != NULL; c = c->next) {
        buf_add_cstr(b, c == map->first ? "" : ", ");
        add_text(b, slice_from(c->key));
        buf_add_cstr(b, ": \"***\"");
    }
    buf_add_char(b, '}');
}

static void show_rules(struct shower *s, const struct option *option, const void *target)
{
    const struct config_note *note = config_note_find(s->config, (const char *)target + option->offset);

    begin_line(s, option->name);
    buf_add_cstr(s->out, note != NULL && note->node->count > 0 ? "\n" : "[]\n");
    for (const struct node *c = note != NULL ? note->node->first : NULL; c != NULL; c = c->next) {
        for (int i = 0; i < s->depth * 2 + 2; i++)
            buf_add_char(s->out, ' ');
        buf_add_cstr(s->out, "- ");
        add_node(s->out, c);
        buf_addf(s->out, " # line %d\n", c->line);
    }
}

static void show_section(struct shower *s, const struct option_section *section, const void *target);

static void show_array(struct shower *s, const struct option *option, const void *target)
{
    const char *items;
    size_t count;

    memcpy(&items, (const char *)target + option->offset, sizeof(items));
    memcpy(&count, (const char *)target + option->count_offset, sizeof(count));
    begin_line(s, option->name);
    buf_add_cstr(s->out, count > 0 ? "\n" : option->kind == OPTION_LIST ? "[]\n" : "{}\n");
    s->depth++;
    for (size_t i = 0; i < count; i++) {
        const char *item = items + i * option->item_size;

        s->dash = option->kind == OPTION_LIST;
        if (option->kind == OPTION_NAMED) {
            begin_line(s, *(const char *const *)(const void *)item);
            buf_add_char(s->out, '\n');
        }
        s->depth++;
        show_section(s, option->section, item);
        s->depth--;
    }
    s->depth--;
}

/* Shows the formula or the table, and leaves out values that are not set or not used. */
static bool is_shown(const struct option_section *section, const struct option *option, const void *target)
{
    const void *field = (const char *)target + option->offset;
    size_t count;

    if (section == &option_source && !config_source_has(target, option->name))
        return false;
    if (option->kind == OPTION_PRESET || (section == &option_source && option->kind == OPTION_TEXT))
        return (*(const char *const *)field)[0] != '\0';
    if (option->kind == OPTION_RATE)
        return ((const struct rate_setting *)field)->count > 0;
    if (option->kind == OPTION_NAMES || option->kind == OPTION_NETWORKS || option->kind == OPTION_VALUES ||
        option->kind == OPTION_SECRETS || option->kind == OPTION_HEADERS) {
        memcpy(&count, (const char *)target + option->count_offset, sizeof(count));
        return count > 0;
    }
    if (option->section == &option_batch)
        return strcmp(((const struct config_endpoint *)target)->envelope, "batch") == 0;
    if (section == &option_retry && strcmp(option->name, "give_up") == 0)
        return ((const struct retry_setting *)target)->blame == BLAME_EVIDENCE;
    if (section == &option_retry && strcmp(option->name, "jitter") != 0 && strcmp(option->name, "blame") != 0)
        return (option->kind == OPTION_DELAYS) == (((const struct retry_setting *)target)->delay_count > 0);
    return true;
}

/* As it was written; values of a preset as they would be written. */
static void show_values(struct shower *s, const struct option *option, const void *target)
{
    const struct source_config *source = target;
    const struct config_note *note = config_note_find(s->config, (const char *)target + option->offset);
    size_t start = begin_line(s, option->name);

    if (option->secret && note != NULL && note->node != NULL)
        add_names(s->out, note->node);
    else if (note != NULL && note->node != NULL)
        add_node(s->out, note->node);
    else
        config_values_format(option, source, s->out);
    add_origin(s->out, s->config, (const char *)target + option->offset, start);
}

static void show_option(struct shower *s, const struct option *option, const void *target)
{
    const void *field = (const char *)target + option->offset;
    size_t start;

    if (option->kind == OPTION_VALUES || option->kind == OPTION_DONE || option->kind == OPTION_HEADERS) {
        show_values(s, option, target);
        return;
    }

    if (option->kind == OPTION_RULES) {
        show_rules(s, option, target);
        return;
    }
    if (option->kind == OPTION_NAMED || option->kind == OPTION_LIST) {
        show_array(s, option, target);
        return;
    }
    start = begin_line(s, option->name);
    if (option->kind == OPTION_BREAKER && !((const struct breaker_setting *)field)->enabled) {
        buf_add_cstr(s->out, "off");
        add_origin(s->out, s->config, &((const struct breaker_setting *)field)->enabled, start);
    } else if (option->section != NULL) {
        buf_add_char(s->out, '\n');
        s->depth++;
        show_section(s, option->section, field);
        s->depth--;
    } else {
        add_value(s->out, s->config, option, target);
        add_origin(s->out, s->config, field, start);
    }
}

static void show_section(struct shower *s, const struct option_section *section, const void *target)
{
    for (size_t i = 0; i < section->count; i++)
        if (is_shown(section, &section->options[i], target))
            show_option(s, &section->options[i], target);
}

void config_show(const struct config *config, struct buf *ret)
{
    struct shower s = { .config = config, .out = ret };

    show_section(&s, &option_root, config);
}

/* The YAML output is parsed again, so that the two can never differ. */
static void json_node(struct json_writer *w, const struct node *node)
{
    if (node->kind == NODE_SCALAR && node->plain && is_number(slice_from(node->text))) {
        json_raw(w, slice_from(node->text));
    } else if (node->kind == NODE_SCALAR) {
        json_cstr(w, node->text);
    } else {
        bool map = node->kind == NODE_MAP;

        (map ? json_begin_object : json_begin_array)(w);
        for (const struct node *c = node->first; c != NULL; c = c->next) {
            if (map)
                json_key(w, c->key);
            json_node(w, c);
        }
        (map ? json_end_object : json_end_array)(w);
    }
}

int config_show_json(const struct config *config, struct buf *ret, struct pr_error *reterr)
{
    const struct node_source source = { .name = "config show" };
    struct json_writer w;
    struct arena arena;
    struct node *root = NULL;
    struct buf yaml;

    buf_init(&yaml, CONFIG_BYTES_MAX);
    arena_init(&arena, 4096);
    config_show(config, &yaml);
    int r = buf_failed(&yaml) == PR_OK ? node_parse(buf_slice(&yaml), &source, &arena, &root, reterr)
                                       : error_set(reterr, buf_failed(&yaml), "the configuration is too large to show");
    if (r == PR_OK) {
        json_init(&w, ret);
        json_node(&w, root);
    }
    arena_fini(&arena);
    buf_fini(&yaml);
    return r;
}

/* ---- config reference ---- */

static const char introduction[] =
    "# Configuration\n"
    "\n"
    "<!-- Generated by `postrider config reference`. -->\n"
    "\n"
    "The configuration is one YAML file. `-c FILE` names it; the default is `postrider.yaml` in the current directory, "
    "if it\n"
    "exists. Postrider checks the whole file before it starts anything; `postrider config check` does the same.\n"
    "An unknown key is refused with its file, line and column, and the nearest key that exists.\n"
    "`postrider config show` prints the effective values and where each one comes from; `postrider config init` writes "
    "a\n"
    "file to start from.\n"
    "\n"
    "A value comes from, strongest first: a flag (`--store`), the environment, the file, the default. The\n"
    "variable of `limits.payload` is `POSTRIDER_LIMITS__PAYLOAD`, that of `endpoints.billing.url` is\n"
    "`POSTRIDER_ENDPOINTS__BILLING__URL` (the endpoint must be in the file). Postrider refuses variables that begin "
    "with\n"
    "`POSTRIDER_`, match no setting and are not used in the file as `${NAME}`.\n"
    "\n"
    "In values, `${NAME}` is an environment variable, `${NAME:-default}` has a default, `${NAME:?message}` has an "
    "error\n"
    "message for when it is missing, `${file:path}` is the content of a file without its last newline (relative to "
    "the\n"
    "configuration), and `$${` is a plain `${`. Values from files and passwords in URLs are printed as `***`.\n"
    "\n"
    "Durations: `200ms 30s 5m 24h 7d`, also `1h30m`. Sizes: `512B 64KiB 1MiB`, also `10kB` (1000). Globs: `*` and "
    "`?`, at most 255 bytes and 16 stars.\n"
    "YAML anchors, aliases, tags and second documents are refused. In an environment variable, commas separate the "
    "values\n"
    "of a list: `POSTRIDER_ENDPOINTS__BILLING__RETRY=10s,60s,5m`.\n";

static void reference_bounds(struct buf *b, const struct option *option)
{
    struct buf text;
    const int64_t bounds[] = { option->min, option->max };

    if (option->max == 0)
        return;
    buf_init(&text, 128);
    for (size_t i = 0; i < ARRAY_LENGTH(bounds); i++) {
        int count = (int)bounds[i];
        double number = (double)bounds[i] / 1000;
        const void *field = option->kind == OPTION_COUNT    ? (const void *)&count
                            : option->kind == OPTION_NUMBER ? (const void *)&number
                                                            : (const void *)&bounds[i];

        buf_add_cstr(&text, i > 0 ? " to " : "");
        option_format(option, field, &text);
    }
    buf_addf(b, " (%.*s)", SLICE_ARGS(buf_slice(&text)));
    buf_fini(&text);
}

static void reference_option(struct buf *b, const struct option *option)
{
    buf_addf(b, "| `%s` | %s", option->name, option_kind_name(option->kind));
    if (option->kind >= OPTION_DURATION && option->kind <= OPTION_NUMBER)
        reference_bounds(b, option);
    for (size_t i = 0; option->choices != NULL && option->choices[i] != NULL; i++)
        buf_addf(b, "%s`%s`", i > 0 ? ", " : ": ", option->choices[i]);
    buf_addf(b, " | %s%s%s | %s |\n",
             option->fallback[0] != '\0' ? "`"
             : option->required          ? "required"
                                         : "",
             option->fallback, option->fallback[0] != '\0' ? "`" : "", option->doc);
}

static bool is_value(const struct option *option)
{
    bool in_rule = (option->kind == OPTION_MATCH || option->kind == OPTION_STEP) && option->doc[0] != '\0';

    return option->section == NULL || in_rule;
}

static void reference_section(struct buf *b, const struct option_section *section)
{
    bool head = false;

    if (section->title[0] != '\0')
        buf_addf(b, "\n## %s\n\n%s\n", section->title, section->doc);
    for (size_t i = 0; i < section->count; i++) {
        if (!is_value(&section->options[i]))
            continue;
        if (!head)
            buf_add_cstr(b, "\n| key | type | default | meaning |\n|---|---|---|---|\n");
        head = true;
        reference_option(b, &section->options[i]);
    }
    for (size_t i = 0; i < section->count; i++)
        if (section->options[i].section != NULL)
            reference_section(b, section->options[i].section);
}

void config_reference(struct buf *ret)
{
    buf_add_cstr(ret, introduction);
    reference_section(ret, &option_root);
}
