/* envelope.h - how much of a CloudEvent is sent: attributes beside the payload (binary), everything in one JSON object
 * (structured), payload and own headers only (raw), or several of those objects in one request (batch, http only). */
#ifndef TRANSPORT_ENVELOPE_H
#define TRANSPORT_ENVELOPE_H

#include "transport/transport.h"

#define ENVELOPE_JSON_MAX (PR_PAYLOAD_MAX * (size_t)6 + 65536) /* each byte can become \u00XX */

enum envelope { ENVELOPE_BINARY, ENVELOPE_STRUCTURED, ENVELOPE_RAW, ENVELOPE_BATCH };

/* False: unknown envelope.  NULL and "" are binary. */
bool envelope_parse(const char *word, enum envelope *ret);
/* PR_OK or PR_ECONFIG; for transports without batches. */
PR_MUST_CHECK int envelope_check(const struct endpoint_config *config, struct pr_error *reterr);

#endif
