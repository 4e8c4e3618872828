/* The memory store under test. */
#include "suite.h"

#include <stdio.h>

#include "core/id.h"
#include "store/memory/memory.h"

#define TX_MAX 64

static struct memory_tx *open_tx[TX_MAX]; /* so that a failed test leaves none behind */

static void memory_prepare(struct suite *s)
{
    snprintf(s->url, sizeof(s->url), "memory:");
}

static void memory_finish(struct suite *s)
{
    for (size_t i = 0; i < TX_MAX; i++) {
        if (open_tx[i] != NULL)
            memory_tx_rollback(open_tx[i]);
        open_tx[i] = NULL;
    }
    memory_check(&s->store);
}

static void memory_plant_row(struct suite *s, const char *box, const struct plant *plant)
{
    struct pr_message m = {
        .type = pr_str(plant->type),
        .destination = pr_str(plant->destination),
        .stream = pr_str(plant->stream),
        .headers = pr_str(plant->headers),
        .payload = pr_str(plant->payload),
    };
    const char *bad = NULL;
    if (plant->id.size == 0 || id_from_stored(plant->id, &m.id) != PR_OK)
        pr_id_new(&m.id);
    if (plant->id.size != 0 && plant->id.size != 16)
        bad = "its id is damaged";
    CHECK_EQ(memory_plant(&s->store, pr_str(box), &m, bad), PR_OK);
}

static void memory_repair_row(struct suite *s, pr_id id, const char *payload)
{
    CHECK_EQ(memory_repair(&s->store, PR_STR("outbox"), id, PR_STR(""), pr_str(payload)), PR_OK);
}

static void *memory_begin(struct suite *s)
{
    for (size_t i = 0; i < TX_MAX; i++)
        if (open_tx[i] == NULL) {
            open_tx[i] = memory_tx_begin(&s->store);
            CHECK(open_tx[i] != NULL);
            return &open_tx[i];
        }
    check_fail(__FILE__, __LINE__, "too many transactions");
}

static void memory_add(struct suite *s, void *tx, const char *box, const struct pr_message *message)
{
    (void)s;
    CHECK_EQ(memory_tx_insert(*(struct memory_tx **)tx, pr_str(box), message), PR_OK);
}

static void memory_end(struct suite *s, void *tx, bool commit)
{
    (void)s;
    struct memory_tx **slot = tx;
    if (commit)
        memory_tx_commit(*slot);
    else
        memory_tx_rollback(*slot);
    *slot = NULL;
}

static void memory_effects(struct suite *s, struct buf *ret)
{
    memory_effects_write(&s->store, ret);
}

const struct suite_kind suite_memory = {
    .name = "memory",
    .ops = &store_memory,
    .prepare = memory_prepare,
    .finish = memory_finish,
    .plant = memory_plant_row,
    .repair = memory_repair_row,
    .effects = memory_effects,
    .tx_begin = memory_begin,
    .tx_add = memory_add,
    .tx_end = memory_end,
};
