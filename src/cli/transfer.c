/* dead export, dead import: dead letters as JSON lines, byte for byte.
 *
 * Texts stand as JSON strings; what is no UTF-8 stands in base64 under the same name with
 * "_base64".  headers and story are texts here, not objects: so they come back as they were. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "base/util.h"
#include "cli/cli.h"

#include <jansson.h>

#define FORMAT 1
#define PAGE 200

/* The members, each once: for writing and for reading. */
#define TEXTS(X)                                                                                               \
    X("box", box)                                                                                              \
    X("type", m.type) X("stream", m.stream) X("destination", m.destination) X("source", m.source)              \
        X("subject", m.subject) X("content_type", m.content_type) X("headers", m.headers)                      \
            X("correlation_id", m.correlation_id) X("causation_id", m.causation_id)                            \
                X("traceparent", m.traceparent) X("tracestate", m.tracestate) X("code", m.code)                \
                    X("error", m.error) X("story", m.story) X("held_by", m.held_by) X("endpoint", endpoint)    \
                        X("rule", rule) X("fingerprint", fingerprint) X("note", note) X("payload", m.payload)
#define NUMBERS(X)                                                                                             \
    X("seq", m.seq)                                                                                            \
    X("status", m.status) X("attempts", m.attempts) X("failures", m.failures) X("reason", m.reason)            \
        X("cause", cause) X("limit", limit) X("created_us", m.created_us) X("due_us", m.due_us)                \
            X("expires_us", m.expires_us) X("failed_us", m.failed_us) X("died_us", died_us)                    \
                X("event", m.event) X("released", m.released)

/* ---- Out ---- */

static void write_text(struct json_writer *w, const char *key, pr_slice text)
{
    char name[64];
    struct buf coded;

    if (text.size == 0)
        return;
    if (utf8_valid(text)) {
        json_key(w, key);
        json_slice(w, text);
        return;
    }
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    buf_init(&coded, OUTPUT_MAX);
    base64_encode(&coded, text);
    json_key(w, name);
    json_slice(w, buf_slice(&coded));
    buf_fini(&coded);
}

static void write_id(struct json_writer *w, const char *key, pr_id id)
{
    char text[PR_ID_TEXT_SIZE];

    pr_id_format(id, text);
    json_key(w, key);
    json_cstr(w, text);
}

static void write_letter(const struct listed *l)
{
    struct json_writer w;
    struct buf line;

    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "postrider_dead_letter");
    json_int(&w, FORMAT);
    write_id(&w, "id", l->m.id);
#define X(key, member) write_text(&w, key, l->member);
    TEXTS(X)
#undef X
#define X(key, member)                                                                                         \
    json_key(&w, key);                                                                                         \
    json_int(&w, l->member);
    NUMBERS(X)
#undef X
    if (!pr_id_is_zero(l->edited_as))
        write_id(&w, "edited_as", l->edited_as);
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

int run_dead_export(struct cli *cli)
{
    struct query query = { .kind = QUERY_DEAD };
    struct query_reply reply = { .more = true };
    struct arena arena;
    struct pr_error err;
    uint64_t count = 0, damaged = 0;
    int code = cli_open_filtered(cli, &query.filter);

    query.filter.limit = PAGE;
    arena_init(&arena, 65536);
    while (code == EXIT_DONE && reply.more) {
        arena_reset(&arena);
        if (store_query(&cli->store, &query, &arena, &reply, &err) != PR_OK) {
            code = cli_fault(&err);
            break;
        }
        for (size_t i = 0; i < reply.listed_count; i++) {
            write_letter(&reply.listed[i]);
            damaged += reply.listed[i].bad != NULL;
            query.filter.after = reply.listed[i].row;
        }
        count += reply.listed_count;
    }
    arena_fini(&arena);
    if (code == EXIT_DONE)
        cli_say("%" PRIu64 " exported", count);
    if (damaged > 0)
        cli_say("%" PRIu64 " of them cannot be decoded as a whole: what could be read is there", damaged);
    return code == EXIT_DONE && damaged > 0 ? EXIT_SOME_FAILED : code;
}

/* ---- In ---- */

struct batch {
    struct cli *cli;
    struct arena arena; /* the texts of the letters */
    struct listed letters[IMPORT_MAX];
    uint64_t lines[IMPORT_MAX];
    size_t count;
    uint64_t stored, duplicates, unknown, wrong;
};

static bool read_text(struct arena *arena, const json_t *object, const char *key, pr_slice *ret)
{
    char name[64];
    const json_t *plain = json_object_get(object, key);
    struct buf bytes;

    *ret = (pr_slice){ NULL, 0 };
    (void)snprintf(name, sizeof(name), "%s_base64", key);
    const json_t *coded = json_object_get(object, name);
    if (plain != NULL) {
        if (json_is_string(plain))
            *ret = slice_dup(arena, (pr_slice){ json_string_value(plain), json_string_length(plain) });
        return ret->data != NULL;
    }
    if (coded == NULL)
        return true;
    buf_init(&bytes, OUTPUT_MAX);
    if (json_is_string(coded) &&
        base64_decode(&bytes, (pr_slice){ json_string_value(coded), json_string_length(coded) }) == PR_OK)
        *ret = slice_dup(arena, buf_slice(&bytes));
    buf_fini(&bytes);
    return ret->data != NULL;
}

static bool read_id(const json_t *object, const char *key, pr_id *ret)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL && pr_id_parse(slice_from(text), ret) == PR_OK;
}

/* What is missing or wrong in it; NULL: it is a letter. */
static const char *read_letter(struct arena *arena, const json_t *object, struct listed *l)
{
    *l = (struct listed){ .state = STATE_DEAD };
    if (json_integer_value(json_object_get(object, "postrider_dead_letter")) != FORMAT)
        return "is not a dead letter of postrider dead export";
    if (!read_id(object, "id", &l->m.id))
        return "has no id";
#define X(key, member)                                                                                         \
    if (!read_text(arena, object, key, &l->member))                                                            \
        return "has a " key " that is no text";
    TEXTS(X)
#undef X
#define X(key, member)                                                                                         \
    if (!json_is_integer(json_object_get(object, key)))                                                        \
        return "has no number " key;                                                                           \
    l->member = json_integer_value(json_object_get(object, key));
    NUMBERS(X)
#undef X
    if (json_object_get(object, "edited_as") != NULL && !read_id(object, "edited_as", &l->edited_as))
        return "has an edited_as that is no id";
    if (l->box.size == 0 || l->m.type.size == 0 || l->died_us <= 0 || l->m.created_us <= 0 || l->m.due_us < 0)
        return "lacks its box, its type or its times";
    return slice_is_json_object(l->m.headers) ? NULL : "has headers that are no JSON object";
}

static int batch_store(struct batch *b)
{
    int answers[IMPORT_MAX];
    struct admin_reply reply;
    struct pr_error err;
    struct admin admin = {
        .kind = ADMIN_DEAD_IMPORT,
        .filter.state = -1,
        .by = cli_user(b->cli),
        .why = slice_from(b->cli->flags.values[FLAG_WHY]),
        .dry_run = flag_given(&b->cli->flags, FLAG_DRY_RUN),
        .letters = b->letters,
        .letter_count = b->count,
        .answers = answers,
    };
    if (b->count == 0)
        return EXIT_DONE;
    if (store_admin(&b->cli->store, &admin, &reply, &err) != PR_OK)
        return cli_fault(&err);
    for (size_t i = 0; i < b->count; i++) {
        char id[PR_ID_TEXT_SIZE];

        pr_id_format(b->letters[i].m.id, id);
        b->stored += answers[i] == PR_OK;
        b->duplicates += answers[i] == PR_DUPLICATE;
        b->unknown += answers[i] == PR_UNKNOWN;
        if (answers[i] == PR_DUPLICATE)
            cli_say("line %" PRIu64 ": %s is there already", b->lines[i], id);
        else if (answers[i] == PR_UNKNOWN)
            cli_say("line %" PRIu64
                    ": there is no box %.*s: postrider init makes it when the configuration names it",
                    b->lines[i], SLICE_ARGS(b->letters[i].box));
    }
    b->count = 0;
    arena_reset(&b->arena);
    return EXIT_DONE;
}

static int import_lines(struct batch *b, FILE *in, const char *name)
{
    char *line = NULL;
    size_t room = 0;
    uint64_t number = 0;
    int code = EXIT_DONE;

    errno = 0;
    for (ssize_t size; code == EXIT_DONE && (size = getline(&line, &room, in)) >= 0;) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)size)
            continue;
        json_t *object = json_loadb(line, (size_t)size, JSON_ALLOW_NUL, NULL);
        const char *wrong = json_is_object(object) ? read_letter(&b->arena, object, &b->letters[b->count])
                                                   : "is not a JSON object";
        json_decref(object);
        if (wrong != NULL) { /* B87: it costs only itself */
            cli_say("%s:%" PRIu64 " %s", name, number, wrong);
            b->wrong++;
            continue;
        }
        b->lines[b->count++] = number;
        if (b->count == IMPORT_MAX)
            code = batch_store(b);
    }
    if (code == EXIT_DONE && ferror(in)) {
        cli_say("cannot read %s: %s", name, strerror(errno));
        code = EXIT_FAILED;
    }
    free(line);
    return code == EXIT_DONE ? batch_store(b) : code;
}

int run_dead_import(struct cli *cli)
{
    bool is_stdin = strcmp(cli->args[0], "-") == 0;
    int code = cli_open_store(cli);
    FILE *in = code != EXIT_DONE ? NULL : is_stdin ? stdin : fopen(cli->args[0], "re");

    if (code != EXIT_DONE)
        return code;
    if (in == NULL) {
        cli_say("cannot read %s: %s", cli->args[0], strerror(errno));
        return EXIT_FAILED;
    }
    struct batch *b = calloc(1, sizeof(*b));
    ASSERT(b != NULL);
    b->cli = cli;
    arena_init(&b->arena, 65536);
    code = import_lines(b, in, cli->args[0]);
    if (cli->json)
        printf("{\"action\":\"dead import\",\"stored\":%" PRIu64 ",\"duplicates\":%" PRIu64
               ",\"unknown_box\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n",
               b->stored, b->duplicates, b->unknown, b->wrong);
    else
        printf("%" PRIu64 " imported, %" PRIu64 " there already\n", b->stored, b->duplicates);
    if (code == EXIT_DONE && b->unknown + b->wrong > 0)
        code = b->stored > 0 ? EXIT_SOME_FAILED : EXIT_FAILED;
    arena_fini(&b->arena);
    free(b);
    if (!is_stdin)
        (void)fclose(in); /* only read from */
    return code;
}
