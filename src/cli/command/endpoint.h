/* endpoint.h - the state of an endpoint for people. */
#ifndef CLI_COMMAND_ENDPOINT_H
#define CLI_COMMAND_ENDPOINT_H

#include "cli/command/check.h"
#include "cli/output/table.h"
#include "ops/endpoint.h"

/* A cell: "active", "paused for 5m", "failing, probe in 12s". */
void condition_add(struct cli *cli, struct table *t, const struct endpoint_condition *s, int64_t now_us);

#endif
