/* envelope.h - how much of CloudEvents a message wears: its attributes beside the payload (binary), all of
 * it in one JSON object (structured), or payload and own headers only (raw). */
#ifndef TRANSPORT_ENVELOPE_H
#define TRANSPORT_ENVELOPE_H

#include "transport/transport.h"

#define ENVELOPE_JSON_MAX (PR_PAYLOAD_MAX * (size_t)6 + 65536) /* each byte can become \u00XX */

enum envelope { ENVELOPE_BINARY, ENVELOPE_STRUCTURED, ENVELOPE_RAW };

/* False: there is no such envelope.  NULL and "" are binary. */
bool envelope_parse(const char *word, enum envelope *ret);
/* PR_OK or PR_ECONFIG. */
PR_MUST_CHECK int envelope_check(const struct endpoint_config *config, struct pr_error *reterr);

#endif
