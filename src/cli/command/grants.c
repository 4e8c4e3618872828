/* The rights of four roles in PostgreSQL, as a script that the owner reads and runs. */
#include <stdio.h>
#include <string.h>

#include "base/slice.h"
#include "cli/cli.h"
#include "core/columns.h"

#define SENDERS_COLUMNS                                                                                                \
    "id, destination, type, stream, headers" SENDER_TEXTS(COLUMN_NAME) ", event, created_at, due_at, expires_at, "     \
                                                                       "payload, payload_bytes"

/* The script is run again after an upgrade. */
static void print_role(pr_slice s, const char *role)
{
    printf("DO $$BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '%.*s_%s') THEN CREATE ROLE \"%.*s_%s\"; "
           "END IF; END$$;\n",
           SLICE_ARGS(s), role, SLICE_ARGS(s), role);
}

/* A role that can write into the boxes of flows can send a flow any message: ordinary senders do not get that right. */
static void print_box(const struct config_box *box, pr_slice s)
{
    bool of_flows = box_is_of_flows(box->kind);
    const char *lead = of_flows ? "-- " : "";
    if (of_flows)
        printf("REVOKE ALL ON \"%.*s\".\"%s\" FROM \"%.*s_app\";\n", SLICE_ARGS(s), config_box_table(box),
               SLICE_ARGS(s));
    if (box->kind == BOX_ACTIVITIES)
        return;
    if (of_flows)
        printf("-- Applications that start or tell flows through the library (pr_flow_start_pg, pr_flow_tell_pg), and "
               "not by flow_start(),\n"
               "-- can tell any flow anything. Their login role needs:\n");
    printf("%sGRANT SELECT (id, destination),\n"
           "%s      INSERT (" SENDERS_COLUMNS ")\n"
           "%s      ON \"%.*s\".\"%s\" TO \"%.*s%s\";\n",
           lead, lead, lead, SLICE_ARGS(s), config_box_table(box), of_flows ? 0 : (int)s.size, s.data,
           of_flows ? "NAME" : "_app");
}

static void print_application(struct cli *cli, pr_slice s)
{
    printf("\n-- Applications send: by INSERT, by send(), or through the library.\n");
    print_role(s, "app");
    printf("GRANT USAGE ON SCHEMA \"%.*s\" TO \"%.*s_app\";\n"
           "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA \"%.*s\" TO \"%.*s_app\";\n"
           "GRANT SELECT ON \"%.*s\".meta TO \"%.*s_app\";\n"
           "GRANT SELECT (id, destination, box) ON \"%.*s\".dead_letter TO \"%.*s_app\";\n",
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s),
           SLICE_ARGS(s));
    printf("REVOKE EXECUTE ON FUNCTION \"%.*s\".complete, \"%.*s\".complete_append, \"%.*s\".complete_set,\n"
           "      \"%.*s\".advance_subscription, \"%.*s\".place_events,\n"
           "      \"%.*s\".schedule, \"%.*s\".unschedule, \"%.*s\".run_schedule, \"%.*s\".pause_schedule,\n"
           "      \"%.*s\".resume_schedule, \"%.*s\".reschedule FROM \"%.*s_app\";\n"
           "-- Handlers that complete messages in their own transactions (pr_complete_pg) can end any message. Their "
           "login "
           "role needs:\n"
           "-- GRANT EXECUTE ON FUNCTION \"%.*s\".complete, \"%.*s\".complete_append, \"%.*s\".complete_set TO "
           "NAME;\n"
           "-- Projections that move their position in their own transactions (pr_subscription_advance_pg) need:\n"
           "-- GRANT EXECUTE ON FUNCTION \"%.*s\".advance_subscription TO NAME;\n"
           "-- Applications that make schedules can replace and cancel any schedule. Their login role needs:\n"
           "-- GRANT EXECUTE ON FUNCTION \"%.*s\".schedule, \"%.*s\".unschedule, \"%.*s\".run_schedule,\n"
           "--       \"%.*s\".pause_schedule, \"%.*s\".resume_schedule, \"%.*s\".reschedule TO NAME;\n",
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s),
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s),
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s),
           SLICE_ARGS(s));
    for (size_t i = 0; i < cli->config->box_count; i++)
        print_box(&cli->config->boxes[i], s);
}

/* The audit is written once and never changed; only roles that act for people write it.  Only a relay with
 * retention.audit deletes old entries. */
static void print_worker(pr_slice s, const char *role, const char *about, bool for_people, bool purges_audit)
{
    printf("\n-- %s\n", about);
    print_role(s, role);
    printf("GRANT USAGE ON SCHEMA \"%.*s\" TO \"%.*s_%s\";\n"
           "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"%.*s\" TO \"%.*s_%s\";\n"
           "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA \"%.*s\" TO \"%.*s_%s\";\n"
           "GRANT EXECUTE ON FUNCTION \"%.*s\".expect_version, \"%.*s\".place_events TO \"%.*s_%s\";\n"
           "REVOKE INSERT, UPDATE, DELETE ON \"%.*s\".meta FROM \"%.*s_%s\";\n"
           "REVOKE %sUPDATE%s ON \"%.*s\".audit FROM \"%.*s_%s\";\n",
           SLICE_ARGS(s), SLICE_ARGS(s), role, SLICE_ARGS(s), SLICE_ARGS(s), role, SLICE_ARGS(s), SLICE_ARGS(s), role,
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), role, SLICE_ARGS(s), SLICE_ARGS(s), role,
           for_people ? "" : "INSERT, ", purges_audit ? "" : ", DELETE", SLICE_ARGS(s), SLICE_ARGS(s), role);
}

/* A role that may only read must not assign places to events: a transaction that does so keeps all others from it until
 * it commits. */
static void print_reader(pr_slice s)
{
    printf("\n-- Programs and people that only read: events, listings, views.\n");
    print_role(s, "reader");
    printf("GRANT USAGE ON SCHEMA \"%.*s\" TO \"%.*s_reader\";\n"
           "GRANT SELECT ON ALL TABLES IN SCHEMA \"%.*s\" TO \"%.*s_reader\";\n"
           "GRANT SELECT ON ALL SEQUENCES IN SCHEMA \"%.*s\" TO \"%.*s_reader\";\n"
           "REVOKE EXECUTE ON FUNCTION \"%.*s\".place_events FROM \"%.*s_reader\";\n",
           SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s), SLICE_ARGS(s),
           SLICE_ARGS(s));
}

int cli_print_grants(struct cli *cli)
{
    pr_slice s = store_url_schema(cli->config->store);
    if (cli_store_path(cli)[0] != '\0') {
        cli_say("SQLite has no roles: every user who can write the file can do everything");
        return EXIT_FAILED;
    }
    printf("-- Run this as the owner of the schema %.*s after postrider init, and again after each new box and each "
           "upgrade.\n"
           "-- It creates roles, so the owner needs CREATEROLE; or a superuser runs it.\n",
           SLICE_ARGS(s));
    print_application(cli, s);
    bool has_http = cli->config->http_listen[0] != '\0'; /* people's orders reach it through the API */
    print_worker(s, "relay", has_http ? "postrider run, with its HTTP API." : "postrider run.", has_http,
                 cli->config->retention.audit_us > 0);
    if (config_wal(cli->config) != NULL)
        printf("-- The server's log is a source. The login role of postrider run needs this; it is not inherited:\n"
               "-- ALTER ROLE NAME REPLICATION;\n");
    print_worker(s, "admin", "People: every command but init.", true, false);
    print_reader(s);
    return EXIT_DONE;
}
