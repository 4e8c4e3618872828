/* front.h - what stands around a runtime: HTTP where it listens, and the watchdogs where they raise messages. */
#ifndef OPS_API_HTTP_FRONT_H
#define OPS_API_HTTP_FRONT_H

#include "runtime/runtime.h"

/* For runtime_options. */
extern const struct runtime_front ops_http_front;

#endif
