/* http_front.h - the layer around a runtime: HTTP if it listens, and the watchdog if it raises messages. */
#ifndef OPS_API_HTTP_FRONT_H
#define OPS_API_HTTP_FRONT_H

#include "runtime/runtime.h"

/* For runtime_options. */
extern const struct runtime_front ops_http_front;

#endif
