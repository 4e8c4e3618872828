/* check.h - findings for people's eyes. */
#ifndef CLI_COMMAND_CHECK_H
#define CLI_COMMAND_CHECK_H

#include "cli/cli.h"
#include "ops/watch/check.h"

/* The sources of the configuration, over the open store; worst: what one that will not do is. */
void checks_add_sources(struct checks *checks, struct cli *cli, enum check_state worst);
/* quiet: only what is not ok. */
void checks_print(const struct checks *checks, bool quiet, bool color);

#endif
