/* flow_set.h - flows without an engine, for checks. */
#ifndef LIB_FLOW_SET_H
#define LIB_FLOW_SET_H

#include <postrider_flow.h>

#include "flow/registry.h"

struct pr_flow_set {
    struct flow_registry registry;
};

#endif
