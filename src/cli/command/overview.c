/* streams, instances, audit. */
#include <inttypes.h>

#include "base/error.h"
#include "base/json.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/output/table.h"
#include "ops/member.h"
#include "ops/api/query.h"

/* ---- Streams ---- */

static void stream_json(const struct stream_info *s)
{
    struct json_writer w;
    struct buf line;
    char id[PR_ID_TEXT_SIZE], mark[STREAM_MARK_SIZE];

    pr_id_format(s->head, id);
    stream_mark_format(s, mark);
    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    member_text(&w, "stream", s->stream);
    member_text(&w, "box", s->box);
    member_text(&w, "endpoint", s->endpoint);
    json_key(&w, "head");
    json_cstr(&w, id);
    json_key(&w, "head_state");
    json_cstr(&w, state_name(s->head_state));
    member_count(&w, "waiting", "waiting_exact", s->waiting);
    json_key(&w, "after"); /* for --after, behind the last of a page */
    json_cstr(&w, mark);
    member_time(&w, "since", s->since_us);
    member_time(&w, "next_at", s->due_us);
    json_key(&w, "attempts");
    json_int(&w, s->attempts);
    json_key(&w, "failures");
    json_int(&w, s->failures);
    json_key(&w, "reason");
    json_cstr(&w, s->reason != PR_REASON_NONE ? pr_reason_name(s->reason) : NULL);
    member_text(&w, "code", s->code);
    member_text(&w, "error", s->error);
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

static void stream_add(struct cli *cli, struct table *t, const struct stream_info *s, int64_t now_us)
{
    char id[PR_ID_TEXT_SIZE];
    const char *next = s->due_us == PR_NEVER ? "never"
                       : s->due_us > now_us  ? span_short(&cli->arena, s->due_us - now_us)
                                             : "now";

    pr_id_format(s->head, id);
    table_add(t, COLOR_NONE, s->stream);
    table_add(t, COLOR_NONE, s->endpoint);
    table_add(t, COLOR_NONE, slice_from(id));
    table_add(t, s->head_state == STATE_DEAD ? COLOR_RED : COLOR_YELLOW, slice_from(state_name(s->head_state)));
    table_add(t, COLOR_NONE, slice_from(span_short(&cli->arena, now_us - s->since_us)));
    table_add(t, COLOR_NONE, slice_from(next));
    table_add(t, s->waiting > 0 ? COLOR_BOLD : COLOR_DIM, slice_from(count_words(&cli->arena, s->waiting, "", "")));
    table_add(t, COLOR_DIM,
              arena_printf(&cli->arena, "%s%s%.*s", s->reason != PR_REASON_NONE ? pr_reason_name(s->reason) : "",
                           s->error.size > 0 ? ": " : "", (int)min_size(s->error.size, 500), s->error.data));
}

int run_streams(struct cli *cli)
{
    struct query query = { .kind = QUERY_STREAMS, .blocked = flag_given(&cli->flags, FLAG_BLOCKED) };
    struct query_reply reply;
    struct table t;
    const char *after = cli->flags.values[FLAG_AFTER];
    char next[STREAM_MARK_SIZE];

    if (after != NULL && !stream_mark_parse(slice_from(after), &query.after_stream))
        return cli_usage(cli, "--after: \"%s\" is not the end of a page", after);
    cli->flags.values[FLAG_AFTER] = NULL; /* here it is no row */
    int code = cli_ask(cli, &query, &reply);

    if (code != EXIT_DONE)
        return code;
    table_init(&t, &cli->arena, "STREAM|ENDPOINT|HEAD|STATE|>SINCE|>NEXT|>WAITING|WHY");
    for (size_t i = 0; i < reply.stream_count; i++) {
        if (cli->json)
            stream_json(&reply.streams[i]);
        else
            stream_add(cli, &t, &reply.streams[i], reply.now_us);
    }
    if (cli->json)
        return EXIT_DONE;
    if (reply.stream_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    else
        cli_say("no stream is blocked");
    if (reply.stream_count > 0)
        cli_say("postrider why HEAD explains more; retry HEAD (if dead: dead replay HEAD) tries it now, release STREAM "
                "lets the others overtake it");
    if (reply.more && reply.stream_count > 0) {
        stream_mark_format(&reply.streams[reply.stream_count - 1], next);
        cli_say("more exist: use --limit N, or --after %s", next);
    }
    return EXIT_DONE;
}

/* ---- Instances ---- */

static void instance_json(const struct instance_info *i)
{
    struct json_writer w;
    struct buf line;
    char id[PR_ID_TEXT_SIZE];

    pr_id_format(i->id, id);
    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    member_text(&w, "name", i->name);
    json_key(&w, "id");
    json_cstr(&w, id);
    member_text(&w, "box", i->box);
    member_text(&w, "version", i->version);
    json_key(&w, "epoch");
    json_int(&w, i->epoch);
    json_key(&w, "lanes");
    json_int(&w, i->lanes);
    json_key(&w, "in_flight");
    json_uint(&w, i->in_flight);
    json_key(&w, "lease_left_seconds");
    json_double(&w, (double)i->lease_left_us / 1e6);
    member_time(&w, "started_at", i->started_us);
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

int run_instances(struct cli *cli)
{
    struct query query = { .kind = QUERY_INSTANCES, .filter.state = -1 };
    struct query_reply reply;
    struct pr_error err;
    struct table t;
    int code = cli_open_store(cli);

    if (code != EXIT_DONE)
        return code;
    if (store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK)
        return cli_fault(&err);
    table_init(&t, &cli->arena, "INSTANCE|BOX|>LANES|>IN-FLIGHT|>LEASE|>UP|VERSION");
    for (size_t n = 0; n < reply.instance_count; n++) {
        const struct instance_info *i = &reply.instances[n];

        if (cli->json) {
            instance_json(i);
            continue;
        }
        table_add(&t, COLOR_NONE, i->name);
        table_add(&t, COLOR_NONE, i->box);
        table_addf(&t, i->lanes > 0 ? COLOR_NONE : COLOR_DIM, i->lanes > 0 ? "%d" : "standby", i->lanes);
        table_addf(&t, COLOR_NONE, "%" PRIu64, i->in_flight);
        table_add(&t, i->lease_left_us > 0 ? COLOR_GREEN : COLOR_RED,
                  slice_from(i->lease_left_us > 0 ? span_short(&cli->arena, i->lease_left_us) : "over"));
        table_add(&t, COLOR_NONE, slice_from(span_short(&cli->arena, reply.now_us - i->started_us)));
        table_add(&t, COLOR_DIM, i->version);
    }
    if (!cli->json && reply.instance_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    if (!cli->json && reply.instance_count == 0)
        cli_say("no instance is running: start postrider run");
    return EXIT_DONE;
}

/* ---- Audit ---- */

static void entry_json(const struct audit_entry *e)
{
    struct json_writer w;
    struct buf line;
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = { { "matched", e->matched }, { "changed", e->changed }, { "refused", e->refused } };

    buf_init(&line, OUTPUT_MAX);
    json_init(&w, &line);
    json_begin_object(&w);
    json_key(&w, "number");
    json_uint(&w, e->number);
    member_time(&w, "at", e->at_us);
    member_text(&w, "who", e->who);
    member_text(&w, "action", e->action);
    json_key(&w, "target");
    json_raw_shown(&w, e->target);
    member_text(&w, "why", e->why);
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        json_key(&w, counts[i].key);
        json_uint(&w, counts[i].count);
    }
    json_end_object(&w);
    cli_print(&line);
    buf_fini(&line);
}

int run_audit(struct cli *cli)
{
    struct query query = { .kind = QUERY_AUDIT };
    struct query_reply reply;
    struct table t;
    int code = cli_ask(cli, &query, &reply);

    if (code != EXIT_DONE)
        return code;
    table_init(&t, &cli->arena, "WHEN|WHO|ACTION|>CHANGED|>REFUSED|WHAT");
    for (size_t i = 0; i < reply.audit_count; i++) {
        const struct audit_entry *e = &reply.audit[i];

        if (cli->json) {
            entry_json(e);
            continue;
        }
        table_add(&t, COLOR_NONE, slice_from(time_words(&cli->arena, e->at_us)));
        table_add(&t, COLOR_NONE, e->who);
        table_add(&t, COLOR_BOLD, e->action);
        table_addf(&t, COLOR_NONE, "%" PRIu64, e->changed);
        table_addf(&t, e->refused > 0 ? COLOR_YELLOW : COLOR_DIM, "%" PRIu64, e->refused);
        table_add(&t, COLOR_DIM,
                  arena_printf(&cli->arena, "%.*s%s%.*s", (int)min_size(e->target.size, 2000), e->target.data,
                               e->why.size > 0 ? " " : "", (int)min_size(e->why.size, 500), e->why.data));
    }
    if (!cli->json && reply.audit_count > 0)
        table_print(&t, stdout, terminal_width(stdout), cli->color);
    if (!cli->json && reply.audit_count == 0)
        cli_say("no operator changed anything%s", query.filter.since_us != 0 ? " in this time" : "");
    if (!cli->json && reply.more)
        cli_say("more exist: use --limit N, or --after %" PRIu64, reply.audit[reply.audit_count - 1].number);
    return EXIT_DONE;
}
