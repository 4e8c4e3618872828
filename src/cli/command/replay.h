/* replay.h - many dead letters go back: in steps, not too fast, and a few of them first. */
#ifndef CLI_COMMAND_REPLAY_H
#define CLI_COMMAND_REPLAY_H

#include "cli/cli.h"

/* Are --rate, --canary and --for what they should be?  EXIT_DONE, or says what is wrong. */
int replay_check(struct cli *cli);

/* A replay by filter, with --rate and --canary.  *reply sums up what happened, also when it ends
 * early: what was replayed is no dead letter any more, so the same command goes on from there.
 * EXIT_DONE, or says why it ended. */
int replay_run(struct cli *cli, const struct admin *admin, struct admin_reply *reply);

#endif
