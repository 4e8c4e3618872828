#include "source.h"

#include "base/utf8.h"

#include "fuzz.h"

#define PAYLOAD_MAX 4096
#define BATCH 16
#define INPUTS_MAX 5000 /* for one store: what they brought stays there */

static struct store store; /* opening one takes longer than an input does */
static unsigned store_inputs;

static struct store *get_store(void)
{
    struct pr_error error = { 0 };
    if (store_inputs++ % INPUTS_MAX != 0)
        return &store;
    if (store_inputs > 1)
        store_close(&store);
    store = (struct store){ 0 };
    FUZZ_CHECK(store_open(&(struct store_options){ .url = "sqlite::memory:" }, &store, &error) == PR_OK);
    FUZZ_CHECK(store_migrate(&store, NULL, 0, &error) == PR_OK);
    return &store;
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

void fuzz_source_open(struct source *ret, struct source_config *config, const char *url)
{
    struct pr_error error = { 0 };
    config->name = "x";
    config->box = "inbox";
    config->preset = "";
    config->poll_us = PR_SECONDS(1);
    config->urls[config->kind] = url;
    *ret = (struct source){ .config = config,
                            .store = get_store(),
                            .poll_min_us = 1,
                            .instance = "i",
                            .batch = BATCH,
                            .payload_max = PAYLOAD_MAX,
                            .waiting_max = 1000 };
    FUZZ_CHECK(source_open(ret, &error) == PR_OK);
}

int fuzz_source_read(struct broker *b, int wake_fd)
{
    struct source_counts counts;
    struct pr_error error = { 0 };
    intake_begin(&b->intake);
    int rc = b->ops->receive(b->self, &b->intake, wake_fd, &error);
    FUZZ_CHECK(rc == PR_OK || (rc < 0 && utf8_valid((pr_slice){ error.text, strlen(error.text) })));
    check_intake(&b->intake);
    if (rc == PR_OK && intake_size(&b->intake) > 0)
        FUZZ_CHECK(intake_store(&b->intake, &counts, &error) == PR_OK);
    return rc == PR_OK ? b->ops->acknowledge(b->self, &error) : rc;
}
