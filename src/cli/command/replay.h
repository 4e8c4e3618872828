/* replay.h - replaying many dead letters: in steps, with a rate, and a few of them first. */
#ifndef CLI_COMMAND_REPLAY_H
#define CLI_COMMAND_REPLAY_H

#include "cli/cli.h"

/* Are --rate, --canary and --for valid?  EXIT_DONE, or prints what is wrong. */
int replay_check(struct cli *cli);

/* A replay by filter, with --rate and --canary.  *reply sums up what happened, even when it ends early: replayed
 * messages are no longer dead letters, so the same command continues from there.  EXIT_DONE, or prints why it ended. */
int replay_run(struct cli *cli, const struct admin *admin, struct admin_reply *reply);

#endif
