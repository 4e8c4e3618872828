/* check.h - printing findings for people. */
#ifndef CLI_COMMAND_CHECK_H
#define CLI_COMMAND_CHECK_H

#include "cli/cli.h"
#include "ops/watch/check.h"

/* The sources of the configuration, checked with the open store; worst: the state of one that cannot be used. */
void checks_add_sources(struct checks *checks, struct cli *cli, enum check_state worst);
/* quiet: only what is not ok. */
void checks_print(const struct checks *checks, bool quiet, bool color);

#endif
