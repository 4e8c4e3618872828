/* rule.h - rules on their way from the program to the engine. */
#ifndef LIB_RULE_H
#define LIB_RULE_H

#include "policy/rule.h"

/* The finished rule, borrowed from it.  PR_OK, or its first mistake. */
PR_MUST_CHECK int rule_finish(struct pr_rule *rule, const struct rule **ret, struct pr_error *reterr);
/* Adds the rule to a list of rules that were taken over. */
void rule_keep(struct pr_rule **list, struct pr_rule *rule);
void rules_free(struct pr_rule *list);

#endif
