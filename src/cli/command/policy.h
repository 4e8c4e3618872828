/* policy.h - what the policy commands share. */
#ifndef CLI_COMMAND_POLICY_H
#define CLI_COMMAND_POLICY_H

#include "base/json.h"
#include "cli/cli.h"
#include "policy/policy.h"

/* The endpoint of this name; NULL: not found, which was printed, and *ret_code is the exit code. */
const struct config_endpoint *policy_endpoint(struct cli *cli, const char *name, int *ret_code);

/* rule, step, action, delay_seconds and side actions, as members of an open object. */
void policy_json_decision(struct json_writer *w, const struct decision *decision);
/* Prints what is wrong with the rules of the configuration, a line each on stdout; returns how many. */
size_t policy_print_findings(struct cli *cli);

#endif
