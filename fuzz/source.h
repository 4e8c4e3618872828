/* source.h - a source at a broker, and the store that it fills, as the targets of sources use them. */
#ifndef FUZZ_SOURCE_H
#define FUZZ_SOURCE_H

#include "source/broker/broker.h"

/* config: has its kind; it and the url are borrowed until source_close(). */
void fuzz_source_open(struct source *ret, struct source_config *config, const char *url);
/* One batch, stored and then acknowledged (S1); checks what was decoded.  PR_OK, or the fault of the connection. */
int fuzz_source_read(struct broker *b, int wake_fd);

#endif
