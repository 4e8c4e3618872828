/* The bytes of a broker for a source, through all of the source: greeting, messages, their decoding, the commit into a
 * store, the acknowledgement.  The first line is the number of a url, the rest is sent in pieces (wire.c).  Built once
 * for each broker, with its urls in FUZZ_URLS. */
#include <time.h>

#include "base/util.h"
#include "source/broker/broker.h"

#include "fuzz.h"
#include "source.h"
#include "wire.h"

#define PATIENCE_S 20 /* of the processor, far more than any input needs: who needs more is in a loop */
static const char *const urls[] = { FUZZ_URLS };

/* By the clock an input can take long where the machine has other work. */
static double processor_s(void)
{
    struct timespec t;
    FUZZ_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Until the connection ends, which it does behind the last piece. */
static void read_all(struct broker *b)
{
    double until_s = processor_s() + PATIENCE_S;
    int rc;
    do {
        FUZZ_CHECK(processor_s() < until_s);
        rc = fuzz_source_read(b, -1);
    } while (rc == PR_OK);
    b->ops->drop(b->self);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    int64_t number = input_number(&in);
    struct source_config config = { .kind = FUZZ_KIND };
    struct source source;
    fuzz_wire_feed(input_rest(&in));
    fuzz_source_open(&source, &config, urls[(uint64_t)number % ARRAY_LENGTH(urls)]);
    read_all(source.self);
    source_close(&source);
    return 0;
}
