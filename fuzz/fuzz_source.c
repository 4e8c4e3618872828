/* The bytes of a broker for a source, through all of the source: greeting, messages, their decoding, the commit into a
 * store, the acknowledgement.  The first line is the number of a url, the rest is sent in pieces (wire.c).  Built once
 * for each broker, with its urls in FUZZ_URLS. */
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"
#include "base/util.h"
#include "source/broker/broker.h"

#include "fuzz.h"
#include "wire.h"

#define PATIENCE_S 20 /* of the processor, far more than any input needs: who needs more is in a loop */
#define PAYLOAD_MAX 4096
#define BATCH 16

#define INPUTS_MAX 5000 /* for one store: what they brought stays there */

static const char *const urls[] = { FUZZ_URLS };

static struct store store; /* opening one takes longer than an input does */
static unsigned store_inputs;

static void make_store(void)
{
    struct pr_error error = { 0 };
    if (store_inputs++ % INPUTS_MAX != 0)
        return;
    if (store_inputs > 1)
        store_close(&store);
    store = (struct store){ 0 };
    FUZZ_CHECK(store_open(&(struct store_options){ .url = "sqlite::memory:" }, &store, &error) == PR_OK);
    FUZZ_CHECK(store_migrate(&store, NULL, 0, &error) == PR_OK);
}

static void check_intake(const struct intake *in)
{
    FUZZ_CHECK(in->count + in->dead_count <= in->capacity);
    for (size_t i = 0; i < in->count; i++) {
        const struct pr_message *m = &in->messages[i];
        FUZZ_CHECK(m->type.size > 0 && m->type.size <= PR_TYPE_MAX && utf8_valid(m->type));
        FUZZ_CHECK(m->payload.size <= PAYLOAD_MAX && m->stream.size <= PR_NAME_MAX);
    }
}

/* By the clock an input can take long where the machine has other work. */
static double processor_s(void)
{
    struct timespec t;
    FUZZ_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Until the connection ends, which it does behind the last piece.  S1: acknowledged is what is stored. */
static void read_all(struct broker *b)
{
    double until_s = processor_s() + PATIENCE_S;
    struct source_counts counts;
    struct pr_error error;
    int rc;
    do {
        FUZZ_CHECK(processor_s() < until_s);
        intake_begin(&b->intake);
        error = (struct pr_error){ 0 };
        rc = b->ops->receive(b->self, &b->intake, -1, &error);
        FUZZ_CHECK(rc == PR_OK || (rc < 0 && utf8_valid((pr_slice){ error.text, strlen(error.text) })));
        check_intake(&b->intake);
        if (rc == PR_OK && intake_size(&b->intake) > 0)
            FUZZ_CHECK(intake_store(&b->intake, &counts, &error) == PR_OK);
        if (rc == PR_OK)
            rc = b->ops->acknowledge(b->self, &error);
    } while (rc == PR_OK);
    b->ops->drop(b->self);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    int64_t number = input_number(&in);
    struct source_config config = { .kind = FUZZ_KIND, .name = "x", .box = "inbox", .poll_us = PR_SECONDS(1) };
    struct pr_error error = { 0 };
    config.urls[config.kind] = urls[(uint64_t)number % ARRAY_LENGTH(urls)];
    config.preset = "";
    make_store();
    struct source source = { .config = &config,
                             .store = &store,
                             .poll_min_us = 1,
                             .instance = "i",
                             .batch = BATCH,
                             .payload_max = PAYLOAD_MAX,
                             .waiting_max = 1000 };
    fuzz_wire_feed(input_rest(&in));
    FUZZ_CHECK(source_open(&source, &error) == PR_OK);
    read_all(source.self);
    source_close(&source);
    return 0;
}
