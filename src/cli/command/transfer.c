/* dead export, dead import: dead letters as JSON lines, byte for byte (ops/export.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/output/output.h"
#include "ops/export.h"

#define PAGE 200

/* ---- Out ---- */

static void print_letter(const struct listed *l)
{
    struct json_line line;
    struct json_writer *w = line_begin(&line);

    export_write(w, l);
    line_end(&line);
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
    while (code == EXIT_DONE && reply.more && !output_is_over()) {
        arena_reset(&arena);
        if (store_query(&cli->store, &query, &arena, &reply, &err) != PR_OK) {
            code = cli_fault(&err);
            break;
        }
        for (size_t i = 0; i < reply.listed_count; i++) {
            print_letter(&reply.listed[i]);
            damaged += reply.listed[i].bad != NULL;
            query.filter.after = reply.listed[i].row;
        }
        count += reply.listed_count;
    }
    arena_fini(&arena);
    if (code == EXIT_DONE && !output_is_over())
        cli_say("%" PRIu64 " exported", count);
    if (damaged > 0)
        cli_say("%" PRIu64 " of them could not be decoded completely; the export has their readable parts", damaged);
    return code == EXIT_DONE && damaged > 0 ? EXIT_SOME_FAILED : code;
}

/* ---- In ---- */

struct transfer_batch {
    struct cli *cli;
    struct arena arena; /* the texts of the letters */
    struct listed letters[IMPORT_MAX];
    uint64_t lines[IMPORT_MAX];
    size_t count;
    uint64_t stored, duplicates, unknown, wrong;
};

static int batch_store(struct transfer_batch *b)
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
        .again = flag_given(&b->cli->flags, FLAG_AGAIN),
        .letters = b->letters,
        .letter_count = b->count,
        .answers = answers,
    };
    if (b->count == 0)
        return EXIT_DONE;
    int rc = store_admin(&b->cli->store, &admin, &reply, &err);
    if (rc != PR_OK) { /* existing ones are skipped, so the same file can be imported again */
        cli_say("from line %" PRIu64 " on %s was imported", b->lines[0],
                rc == PR_EUNCERTAIN ? "it is unknown whether anything" : "nothing");
        return cli_fault(&err);
    }
    for (size_t i = 0; i < b->count; i++) {
        char id[PR_ID_TEXT_SIZE];

        pr_id_format(b->letters[i].m.id, id);
        b->stored += answers[i] == PR_OK;
        b->duplicates += answers[i] == PR_DUPLICATE || answers[i] == PR_STALE;
        b->unknown += answers[i] == PR_UNKNOWN;
        if (answers[i] == PR_DUPLICATE)
            cli_say("line %" PRIu64 ": %s already exists", b->lines[i], id);
        else if (answers[i] == PR_STALE)
            cli_say("line %" PRIu64 ": %s was handled meanwhile; to import it all the same, add --again", b->lines[i],
                    id);
        else if (answers[i] == PR_UNKNOWN)
            cli_say("line %" PRIu64 ": unknown box %.*s; name it in the configuration and run postrider init",
                    b->lines[i], SLICE_ARGS(b->letters[i].box));
    }
    b->count = 0;
    arena_reset(&b->arena);
    return EXIT_DONE;
}

static int import_lines(struct transfer_batch *b, FILE *in, const char *name)
{
    char *line = NULL;
    size_t room = 0;
    uint64_t number = 0;
    struct pr_error err;
    int code = EXIT_DONE;

    errno = 0;
    for (ssize_t size; code == EXIT_DONE && (size = getline(&line, &room, in)) >= 0;) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)size)
            continue;
        json_t *object = json_loadb(line, (size_t)size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
        int rc = export_read(&b->arena, object, &b->letters[b->count], &err);
        json_decref(object);
        if (rc != PR_OK) { /* B87: only this one is skipped */
            cli_say("%s:%" PRIu64 " %s", name, number, err.text);
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
    struct transfer_batch *b = calloc(1, sizeof(*b));
    ASSERT(b != NULL);
    b->cli = cli;
    arena_init(&b->arena, 65536);
    code = import_lines(b, in, cli->args[0]);
    if (cli->json)
        printf("{\"action\":\"dead import\",\"stored\":%" PRIu64 ",\"duplicates\":%" PRIu64 ",\"unknown_box\":%" PRIu64
               ",\"wrong\":%" PRIu64 "}\n",
               b->stored, b->duplicates, b->unknown, b->wrong);
    else
        printf("%" PRIu64 " imported, %" PRIu64 " already existed\n", b->stored, b->duplicates);
    if (code == EXIT_DONE && b->unknown + b->wrong > 0)
        code = b->stored > 0 ? EXIT_SOME_FAILED : EXIT_FAILED;
    arena_fini(&b->arena);
    free(b);
    if (!is_stdin)
        (void)fclose(in); /* it was only read */
    return code;
}
