#include "transport/envelope.h"

#include <string.h>

#include "base/error.h"
#include "base/util.h"

bool envelope_parse(const char *word, enum envelope *ret)
{
    static const char *const words[] = {
        [ENVELOPE_BINARY] = "binary",
        [ENVELOPE_STRUCTURED] = "structured",
        [ENVELOPE_RAW] = "raw",
        [ENVELOPE_BATCH] = "batch",
    };
    if (word == NULL || word[0] == '\0')
        word = words[ENVELOPE_BINARY];
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strcmp(word, words[i]) == 0) {
            *ret = (enum envelope)i;
            return true;
        }
    return false;
}

int envelope_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    enum envelope envelope;
    return envelope_parse(config->envelope, &envelope) && envelope != ENVELOPE_BATCH
               ? PR_OK
               : error_set(reterr, PR_ECONFIG, "endpoint %s: envelope must be binary, structured or raw", config->name);
}
