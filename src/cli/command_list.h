/* command_list.h - the commands; included where COMMAND is defined: the table and its help (command.c), prototypes
 * (cli.h).
 *
 * COMMAND(name, arguments, summary, examples, flags in addition to those of every command, fewest and most arguments,
 * function)
 *
 * No guard: it is included more than once. */
COMMAND("init", "", "create or upgrade the tables",
        "postrider init\n"
        "postrider init --store sqlite:shop.db\n"
        "postrider init --store postgres://shop@db.example/shop\n"
        "postrider init --grants --store postgres://shop@db.example/shop | psql shop\n"
        "postrider init --drop-slot             # when the server's log is no longer a source\n",
        FLAG_BIT(GRANTS) | FLAG_BIT(DROP_SLOT), 0, 0, run_init)
COMMAND("run", "", "deliver messages until SIGTERM",
        "postrider run\n"
        "postrider run -c shop.yaml\n"
        "kill -HUP PID                          # reload the configuration\n",
        0, 0, 0, run_run)
COMMAND("demo", "", "try it: sample traffic, failures and a crash",
        "postrider demo\n"
        "postrider demo --store sqlite:/tmp/demo.db\n",
        FLAG_BIT(RELAY), 0, 0, run_demo)
COMMAND("send", "[-]", "store a message and print its id",
        "postrider send --type order.created --stream order-7 --data '{\"total\":5}'\n"
        "postrider send --type report --to audit --file report.pdf --due 5m\n"
        "postrider send --type order.paid --stream order-7 --event --expect-version 3\n"
        "date | postrider send --type tick -\n",
        FLAGS_SEND, 0, 1, run_send)
COMMAND("status", "", "health, boxes, endpoints and instances on one screen",
        "postrider status\n"
        "postrider status --json | jq .health\n",
        0, 0, 0, run_status)
COMMAND("top", "", "live view of rates, backlog, endpoints, failures and blocked streams",
        "postrider top\n"
        "postrider top --url http://127.0.0.1:8026    # a running daemon, through its API\n"
        "postrider top --url https://relay.example --token-file token --every 5s\n"
        "postrider top --once                         # one screen, also: postrider top | cat\n"
        "postrider top --json | jq .sent_per_second\n",
        FLAG_BIT(URL) | FLAG_BIT(TOKEN_FILE) | FLAG_BIT(EVERY) | FLAG_BIT(ONCE) | FLAG_BIT(BY), 0, 0, run_top)
COMMAND("list", "", "list messages, oldest first",
        "postrider list\n"
        "postrider list --state retrying --endpoint billing\n"
        "postrider list --type 'order.*' --since 1h --json\n",
        FLAGS_FILTER | FLAGS_PAGE, 0, 0, run_list)
COMMAND("show", "ID", "show everything about a message",
        "postrider show 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider show 0190163d-8694-739b-aea5-966c26f8ad91 --json\n",
        0, 1, 1, run_show)
COMMAND("why", "ID", "explain a message or a flow: what happened, what it waits for, what comes next",
        "postrider why 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider why order-7                                 # a flow\n",
        0, 1, 1, run_why)
COMMAND("retry", "[ID...]", "try now with counters reset; also for parked messages",
        "postrider retry 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider retry --endpoint billing --reason timeout_exceeded --dry-run\n"
        "postrider retry --state parked --yes\n",
        FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change)
COMMAND("release", "[STREAM | ID...]", "let followers overtake the failed head of their stream",
        "postrider release order-7\n"
        "postrider release 0190163d-8694-739b-aea5-966c26f8ad91\n",
        FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change)
COMMAND("park", "[ID...]", "set messages aside until you retry them",
        "postrider park 0190163d-8694-739b-aea5-966c26f8ad91 --why 'asked the customer'\n", FLAGS_FILTER | FLAGS_CHANGE,
        0, ANY_NUMBER, run_change)
COMMAND("reschedule", "[ID...]", "set the time at which messages may go",
        "postrider reschedule 0190163d-8694-739b-aea5-966c26f8ad91 --due 2h\n"
        "postrider reschedule --type 'reminder.*' --state delayed --due 2024-01-31T12:00:00Z --dry-run\n",
        FLAGS_FILTER | FLAGS_CHANGE | FLAG_BIT(DUE), 0, ANY_NUMBER, run_change)
COMMAND("discard", "[ID...]", "delete messages without delivering them",
        "postrider discard 0190163d-8694-739b-aea5-966c26f8ad91 --why 'sent by mistake'\n"
        "postrider discard --type 'test.*' --dry-run\n",
        FLAGS_FILTER | FLAGS_CHANGE, 0, ANY_NUMBER, run_change)
COMMAND("dead list", "", "list dead letters",
        "postrider dead list\n"
        "postrider dead list --endpoint billing --since 24h --json\n",
        FLAGS_DEAD | FLAGS_PAGE, 0, 0, run_dead_list)
COMMAND("dead show", "[ID]", "show everything about a dead letter",
        "postrider dead show 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider dead show --row 12   # for a damaged id\n",
        FLAG_BIT(ROW), 0, 1, run_dead_show)
COMMAND("dead replay", "[ID...]", "return dead letters to their place in the box, with counters reset",
        "postrider dead replay 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider dead replay 0190163d-8694-739b-aea5-966c26f8ad91 --endpoint billing   # it died at other endpoints, "
        "too\n"
        "postrider dead replay --endpoint billing --error 'no route' --dry-run\n"
        "postrider dead replay --endpoint billing --since 24h --yes\n"
        "postrider dead replay --fingerprint 5f1c2ab09d3e7746 --canary 5 --rate 100/s --yes\n"
        "postrider dead replay 0190163d-8694-739b-aea5-966c26f8ad91 --again   # it was handled meanwhile\n",
        FLAGS_DEAD | FLAGS_CHANGE | FLAG_BIT(RATE) | FLAG_BIT(CANARY) | FLAG_BIT(FOR) | FLAG_BIT(AGAIN), 0, ANY_NUMBER,
        run_change)
COMMAND("dead discard", "[ID...]", "delete dead letters permanently",
        "postrider dead discard 0190163d-8694-739b-aea5-966c26f8ad91\n"
        "postrider dead discard --until 30d --yes\n"
        "postrider dead discard --row 12 --yes   # for a damaged id\n",
        FLAGS_DEAD | FLAGS_CHANGE, 0, ANY_NUMBER, run_change)
COMMAND("dead add", "ID...", "move a message to the dead letters by hand",
        "postrider dead add 0190163d-8694-739b-aea5-966c26f8ad91 --why 'wrong amount'\n",
        FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN) | FLAG_BIT(REASON) | FLAG_BIT(ENDPOINT), 1, ANY_NUMBER,
        run_change)
COMMAND("dead groups", "", "group dead letters by cause: ten thousand failures as three problems",
        "postrider dead groups\n"
        "postrider dead groups --endpoint billing --since 24h --json\n"
        "postrider dead list --fingerprint 5f1c2ab09d3e7746      # one group\n",
        (FLAGS_FILTER & ~(FLAG_BIT(STATE) | FLAG_BIT(CORRELATION_ID))) | FLAG_BIT(LIMIT), 0, 0, run_dead_groups)
COMMAND("dead edit", "[ID]", "correct a dead letter and send it; the original is kept",
        "postrider dead edit 0190163d-8694-739b-aea5-966c26f8ad91 --data '{\"amount\":5}'\n"
        "postrider dead edit 0190163d-8694-739b-aea5-966c26f8ad91 --header tenant=7 --to billing2 --why 'moved'\n",
        FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(HEADER) | FLAG_BIT(TO) | FLAG_BIT(TYPE) | FLAG_BIT(ENDPOINT) |
            FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN) | FLAG_BIT(ROW),
        0, 1, run_dead_edit)
COMMAND(
    "dead note", "[ID] TEXT", "add a note to a dead letter",
    "postrider dead note 0190163d-8694-739b-aea5-966c26f8ad91 'asked the customer'\n"
    "postrider dead note 0190163d-8694-739b-aea5-966c26f8ad91 'asked them' --endpoint billing   # it died at others, "
    "too\n",
    FLAG_BIT(ENDPOINT) | FLAG_BIT(BY) | FLAG_BIT(ROW), 1, 2, run_dead_note)
COMMAND("dead export", "", "export dead letters as JSON lines, byte for byte",
        "postrider dead export > dead.jsonl\n"
        "postrider dead export --endpoint billing --until 30d > old.jsonl\n",
        FLAGS_DEAD, 0, 0, run_dead_export)
COMMAND("dead import", "FILE", "import an export; skips dead letters that already exist",
        "postrider dead import dead.jsonl\n"
        "postrider dead import dead.jsonl --dry-run\n",
        FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN) | FLAG_BIT(AGAIN), 1, 1, run_dead_import)
COMMAND("streams", "", "list streams whose head failed: since when, why, and how many wait",
        "postrider streams --blocked\n"
        "postrider streams --endpoint billing --json\n",
        FLAG_BIT(BLOCKED) | FLAG_BIT(BOX) | FLAG_BIT(ENDPOINT) | FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0, run_streams)
COMMAND("instances", "", "list the running instances: lanes, leases, in flight, versions",
        "postrider instances\n"
        "postrider instances --json\n",
        0, 0, 0, run_instances)
COMMAND("audit", "", "list what operators did, latest first",
        "postrider audit\n"
        "postrider audit --since 24h --json\n",
        FLAG_BIT(SINCE) | FLAG_BIT(UNTIL) | FLAGS_PAGE, 0, 0, run_rows)
COMMAND("events list", "", "list the event store: one stream by version, or all events in one order",
        "postrider events\n"
        "postrider events list --stream order-7\n"
        "postrider events list --after 1200 --limit 1000 --json     # all after place 1200\n",
        FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0, run_events_list)
COMMAND("events show", "STREAM VERSION", "show one event with its payload",
        "postrider events show order-7 3\n"
        "postrider events show order-7 3 --json\n",
        0, 2, 2, run_events_show)
COMMAND("events tail", "", "print events as they are stored, until you stop it",
        "postrider events tail\n"
        "postrider events tail --after 0 --json          # from the first one\n"
        "postrider events tail --stream order-7\n",
        FLAG_BIT(STREAM) | FLAG_BIT(AFTER), 0, 0, run_events_tail)
COMMAND("events subscriptions", "[ACTION NAME]", "list the subscriptions with their lag; ACTION is reset or remove",
        "postrider events subscriptions\n"
        "postrider events subscriptions reset orders-view --after 0      # read everything again\n"
        "postrider events subscriptions remove orders-view --why 'replaced'\n",
        FLAG_BIT(AFTER) | FLAG_BIT(WHY) | FLAG_BIT(BY) | FLAG_BIT(DRY_RUN), 0, 2, run_events_subscriptions)
COMMAND("events", "", "the same as events list", "postrider events\n", FLAG_BIT(STREAM) | FLAGS_PAGE, 0, 0,
        run_events_list)
COMMAND("schedules list", "", "list schedules: times, next time, state",
        "postrider schedules\n"
        "postrider schedules list --json\n",
        0, 0, 0, run_schedules_list)
COMMAND("schedules show", "NAME", "show a schedule: what it sends, and its next times",
        "postrider schedules show nightly\n"
        "postrider schedules show nightly --json\n",
        0, 1, 1, run_schedules_show)
COMMAND(
    "schedules add", "NAME", "add a schedule, or change the one of that name",
    "postrider schedules add nightly --cron '0 3 * * *' --zone Europe/Berlin --type report.build\n"
    "postrider schedules add poll --cron '*/5 * * * *' --type poll --to crm --missed skip --data '{\"all\":true}'\n",
    FLAG_BIT(CRON) | FLAG_BIT(ZONE) | FLAG_BIT(MISSED) | FLAG_BIT(TYPE) | FLAG_BIT(STREAM) | FLAG_BIT(TO) |
        FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(HEADER) | FLAG_BIT(CONTENT_TYPE) | FLAG_BIT(SOURCE) |
        FLAG_BIT(SUBJECT) | FLAG_BIT(EVENT) | FLAG_BIT(BOX) | FLAG_BIT(WHY) | FLAG_BIT(BY),
    1, 1, run_schedules_add)
COMMAND("schedules run", "NAME", "send its message now without changing its schedule",
        "postrider schedules run nightly\n", FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_schedules_run)
COMMAND("schedules pause", "NAME", "pause a schedule until you resume it",
        "postrider schedules pause nightly --why 'the warehouse moves'\n", FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1,
        run_schedules_change)
COMMAND("schedules resume", "NAME", "resume a schedule; missed runs are skipped",
        "postrider schedules resume nightly\n", FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_schedules_change)
COMMAND("schedules cancel", "NAME", "cancel a schedule", "postrider schedules cancel nightly\n",
        FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_schedules_change)
COMMAND("schedules reschedule", "NAME", "set the next time of a schedule",
        "postrider schedules reschedule nightly --due 2h\n", FLAG_BIT(DUE) | FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1,
        run_schedules_change)
COMMAND("schedules", "", "the same as schedules list", "postrider schedules\n", 0, 0, 0, run_schedules_list)
COMMAND("flow start", "NAME [ID]", "start a flow and print its id",
        "postrider flow start checkout order-7 --data '{\"total\":5}'\n"
        "postrider flow start checkout order-7 --restart       # restart a flow that has ended\n"
        "postrider flow start nightly --due 8h --version 2\n",
        FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(VERSION) | FLAG_BIT(RESTART) | FLAG_BIT(DUE), 1, 2, run_flow_start)
COMMAND("flow list", "[NAME]", "list flows, newest first",
        "postrider flow list\n"
        "postrider flow list checkout --state failed --since 24h\n"
        "postrider flow list --parent order-7 --json\n",
        FLAG_BIT(STATE) | FLAG_BIT(VERSION) | FLAG_BIT(PARENT) | FLAG_BIT(SINCE) | FLAG_BIT(UNTIL) | FLAGS_PAGE, 0, 1,
        run_flow_list)
COMMAND("flow show", "ID", "show a flow: its state, what it waits for, what will wake it",
        "postrider flow show order-7\n"
        "postrider flow show order-7 --json | jq .waits_for\n",
        0, 1, 1, run_flow_show)
COMMAND("flow history", "ID [EXECUTION]", "show what happened in a flow, event by event",
        "postrider flow history order-7\n"
        "postrider flow history order-7 --json\n"
        "postrider flow history order-7 0190163d-8694-739b-aea5-966c26f8ad91     # an earlier execution\n",
        0, 1, 2, run_flow_history)
COMMAND("flow export", "ID [EXECUTION]", "export the history of a flow as it is stored, for flow check and unit tests",
        "postrider flow export order-7 > order-7.jsonl\n", 0, 1, 2, run_flow_history)
COMMAND("flow raise", "ID EVENT", "raise an event for a flow",
        "postrider flow raise order-7 approved --data '{\"by\":\"ann\"}'\n",
        FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(ID), 2, 2, run_flow_tell)
COMMAND("flow send", "ID MAILBOX", "put mail into a mailbox of a flow",
        "postrider flow send cart-3 items --data '{\"sku\":\"x1\"}'\n", FLAG_BIT(DATA) | FLAG_BIT(FILE) | FLAG_BIT(ID),
        2, 2, run_flow_tell)
COMMAND("flow cancel", "ID...", "ask flows to clean up and stop",
        "postrider flow cancel order-7 --why 'the customer changed their mind'\n", FLAG_BIT(WHY) | FLAG_BIT(BY), 1,
        ANY_NUMBER, run_flow_cancel)
COMMAND("flow wait", "ID", "wait until a flow has ended and print its output",
        "postrider flow wait order-7\n"
        "postrider flow wait order-7 --for 30s --json\n",
        FLAG_BIT(FOR), 1, 1, run_flow_wait)
COMMAND("flow retry", "ID", "resume a flow that failed, or retry its pending activities now",
        "postrider flow retry order-7                          # it failed: continue from before its failure\n"
        "postrider flow retry order-7 --dry-run\n"
        "postrider flow retry order-7 --restart                # restart a flow that has ended, with its input\n",
        FLAG_BIT(RESTART) | FLAG_BIT(VERSION) | FLAG_BIT(DRY_RUN) | FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_flow_retry)
COMMAND("flow check", "CODE.so [ID...]", "check whether new code is compatible with running flows, or with a history",
        "postrider flow check ./build/shop_flows.so            # all running flows\n"
        "postrider flow check ./build/shop_flows.so order-7\n"
        "postrider flow check ./build/shop_flows.so --file order-7.jsonl    # see flow export\n",
        FLAG_BIT(FILE), 1, ANY_NUMBER, run_flow_check)
COMMAND("flow delete", "ID...", "delete flows that have ended, with their children and histories",
        "postrider flow delete order-7\n"
        "postrider flow delete order-7 --force                 # also while it runs\n",
        FLAG_BIT(FORCE) | FLAG_BIT(DRY_RUN) | FLAG_BIT(WHY) | FLAG_BIT(BY), 1, ANY_NUMBER, run_flow_delete)
COMMAND("flow prune", "[ID]", "delete earlier executions of flows",
        "postrider flow prune --until 30d\n"
        "postrider flow prune billing-7 --keep 3 --dry-run\n",
        FLAG_BIT(KEEP) | FLAG_BIT(UNTIL) | FLAG_BIT(DRY_RUN) | FLAG_BIT(WHY) | FLAG_BIT(BY), 0, 1, run_flow_prune)
COMMAND("endpoints list", "", "list endpoints: state, sent and failed messages",
        "postrider endpoints\n"
        "postrider endpoints --for 5s           # measure rates for 5 seconds\n"
        "postrider endpoints list --json\n",
        FLAG_BIT(FOR), 0, 0, run_endpoints)
COMMAND("endpoints test", "ENDPOINT", "send a test message directly, without storing it",
        "postrider endpoints test billing\n"
        "postrider endpoints test billing --json\n",
        FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_endpoints_test)
COMMAND("endpoints", "", "the same as endpoints list", "postrider endpoints\n", FLAG_BIT(FOR), 0, 0, run_endpoints)
COMMAND("pause", "ENDPOINT", "stop sending to an endpoint; no failures are counted meanwhile",
        "postrider pause billing --for 5m --why 'they migrate'\n"
        "postrider pause billing               # until resumed\n",
        FLAG_BIT(FOR) | FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_pause)
COMMAND("resume", "ENDPOINT", "start sending to an endpoint again, now", "postrider resume billing\n",
        FLAG_BIT(WHY) | FLAG_BIT(BY), 1, 1, run_pause)
COMMAND("policy check", "[FILE]", "find rules that never match, are never reached or never end",
        "postrider policy check\n"
        "postrider policy check new.yaml\n",
        0, 0, 1, run_policy_check)
COMMAND("policy explain", "", "show which rule decides about a failure, and what follows",
        "postrider policy explain --endpoint billing --reason timeout_exceeded\n"
        "postrider policy explain --endpoint billing --reason transport_unavailable --unsent\n"
        "postrider policy explain --endpoint billing --reason rejected --error 'no such customer' --failures 3\n",
        FLAG_BIT(ENDPOINT) | FLAG_BIT(REASON) | FLAG_BIT(ERROR) | FLAG_BIT(FAILURES) | FLAG_BIT(CODE) | FLAG_BIT(TYPE) |
            FLAG_BIT(STREAM) | FLAG_BIT(SIZE) | FLAG_BIT(AGE) | FLAG_BIT(RETRY_AFTER) | FLAG_BIT(UNSENT),
        0, 0, run_policy_explain)
COMMAND("policy replay", "", "show what a policy would have done to past failures",
        "postrider policy replay --since 24h -c new.yaml\n"
        "postrider policy replay --since 1h --endpoint billing -c new.yaml --json\n",
        FLAGS_FILTER, 0, 0, run_policy_replay)
COMMAND("config check", "[FILE]", "validate the configuration",
        "postrider config check\n"
        "postrider config check shop.yaml\n",
        0, 0, 1, run_config_check)
COMMAND("config show", "[FILE]", "show the effective configuration and the origin of each value",
        "postrider config show\n"
        "POSTRIDER_LIMITS__PAYLOAD=2MiB postrider config show\n",
        0, 0, 1, run_config_show)
COMMAND("config init", "[FILE]", "write a commented configuration to start from",
        "postrider config init\n"
        "postrider config init -               # print it\n",
        FLAG_BIT(FORCE), 0, 1, run_config_init)
COMMAND("config reference", "", "print every option as Markdown", "postrider config reference > doc/configuration.md\n",
        0, 0, 0, run_config_reference)
COMMAND("adopt", "", "adopt another product's outbox table: check it, print the configuration",
        "postrider adopt --preset debezium --table public.outboxevent --check\n"
        "postrider adopt --preset masstransit --table public.OutboxMessage >> postrider.yaml\n"
        "postrider adopt --table app.events --check      # a source in the configuration\n",
        FLAG_BIT(PRESET) | FLAG_BIT(TABLE) | FLAG_BIT(CHECK) | FLAG_BIT(BOX), 0, 0, run_adopt)
COMMAND("doctor", "", "check the installation: store, schema, files, disk, configuration", "postrider doctor\n", 0, 0,
        0, run_doctor)
COMMAND("bench", "", "measure the speed here, in a temporary store",
        "postrider bench\n"
        "postrider bench --count 100000 --json\n",
        FLAG_BIT(COUNT), 0, 0, run_bench)
