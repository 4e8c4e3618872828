#include "base/error.h"
#include "cli/cli.h"
#include "cli/output/table.h"

/* For when the log is no longer a source; works without one in the configuration. */
static int drop_slots(struct cli *cli)
{
    struct pr_error err;

    if (wal_order(&cli->store, config_wal(cli->config), WAL_DROP, &err) != PR_OK)
        return cli_fault(&err);
    cli_say("removed Postrider's replication slots and publications");
    return EXIT_DONE;
}

int run_init(struct cli *cli)
{
    struct query query = { .kind = QUERY_FACTS };
    struct query_reply reply;
    struct pr_error err;
    int code = cli_load_config(cli);

    if (code != EXIT_DONE)
        return code;
    if (flag_given(&cli->flags, FLAG_GRANTS))
        return cli_print_grants(cli);
    struct store_options options = { .url = cli->config->store, .payload_max = (size_t)cli->config->payload_max };
    struct store_box *boxes = arena_alloc_array(&cli->arena, cli->config->box_count, sizeof(*boxes));

    ASSERT(boxes != NULL);
    for (size_t i = 0; i < cli->config->box_count; i++)
        boxes[i] = (struct store_box){ cli->config->boxes[i].name, cli->config->boxes[i].table };
    if (store_open(&options, &cli->store, &err) != PR_OK)
        return cli_store_fault(cli, &err);
    if (store_migrate(&cli->store, boxes, cli->config->box_count, &err) != PR_OK ||
        store_query(&cli->store, &query, &cli->arena, &reply, &err) != PR_OK) {
        (void)cli_fault(&err);
        return EXIT_STORE;
    }
    if (flag_given(&cli->flags, FLAG_DROP_SLOT))
        return drop_slots(cli);
    const struct wal_setting *wal = config_wal(cli->config);
    if (wal != NULL && wal_order(&cli->store, wal, WAL_MAKE, &err) != PR_OK)
        return cli_fault(&err);
    if (cli->json) {
        printf("{\"store\":\"ready\",\"schema\":%d,\"boxes\":%zu}\n", reply.facts.schema_version,
               cli->config->box_count);
        return EXIT_DONE;
    }
    const char *path = cli_store_path(cli);
    printf("%s is ready: schema %d, %s\n", path[0] != '\0' ? path : reply.facts.software.data,
           reply.facts.schema_version, count_words(&cli->arena, cli->config->box_count, "box", "boxes"));
    return EXIT_DONE;
}
