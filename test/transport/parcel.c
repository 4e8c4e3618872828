/* The output of a handler's process is not trusted: whatever its bytes are, a result is read completely or refused. */
#include "transport/process/parcel.h"

#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "check.h"
#include "core/message.h"

static struct send_effect event = {
    .message = { .type = { "paid", 4 }, .stream = { "s-1", 3 }, .payload = { "{}", 2 } },
    .effect = { .kind = EFFECT_EVENT, .takes_verdict = true, .expected = 3 },
};
static struct send_effect value = {
    .next = &event,
    .effect = { .kind = EFFECT_STATE, .key = { "scope", 5 }, .name = { "name", 4 }, .value = { "value", 5 } }
};
static struct send_effect message = { .next = &value,
                                      .box = { "outbox", 6 },
                                      .message = { .type = { "more", 4 }, .payload = { "\0\1\2", 3 } } };

#define OUTPUT "as \0 said"

static void write_good(struct buf *out)
{
    char text[] = "slow down", output[] = OUTPUT;
    const struct delivery_result result = { .outcome = SEND_FAILED,
                                            .reason = PR_REASON_RATE_LIMITED,
                                            .release_followers = true,
                                            .code = "E7",
                                            .error = text,
                                            .output = output,
                                            .output_size = sizeof(output) - 1,
                                            .final = true,
                                            .effects = &message };
    buf_init(out, 1 << 20);
    parcel_write_result(out, &result);
    CHECK_EQ(buf_failed(out), PR_OK);
}

/* In memory of its own, so that a sanitizer sees each byte too many; without the size before it. */
static bool read_exact(const struct buf *parcel, size_t size, struct delivery_result *ret)
{
    struct buf exact = { .data = malloc(size + 1), .size = size };
    CHECK(exact.data != NULL);
    memcpy(exact.data, parcel->data + sizeof(uint64_t), size);
    exact.data = realloc(exact.data, size > 0 ? size : 1);
    bool good = parcel_read_result(&exact, ret);
    free(exact.data);
    return good;
}

static void look_at(struct delivery_result *r)
{
    size_t bytes = strlen(r->code) + (r->error != NULL ? strlen(r->error) : 0);
    for (size_t i = 0; r->output != NULL && i < r->output_size; i++)
        bytes += r->output[i] != '\0';
    for (const struct send_effect *e = r->effects; e != NULL; e = e->next) {
        char *block = malloc(message_bytes(&e->message) + 1);
        struct pr_message copy;
        CHECK(block != NULL);
        message_copy(&e->message, block, &copy); /* reads every byte */
        bytes += e->box.size + e->effect.key.size + e->effect.name.size + e->effect.value.size + copy.payload.size;
        free(block);
    }
    CHECK(bytes < (1 << 20));
    delivery_result_fini(r);
}

TEST(parcel_brings_a_result_with_its_effects)
{
    struct buf parcel;
    struct delivery_result r;
    write_good(&parcel);
    CHECK(read_exact(&parcel, parcel.size - sizeof(uint64_t), &r));
    CHECK_EQ(r.outcome, SEND_FAILED);
    CHECK_EQ(r.reason, PR_REASON_RATE_LIMITED);
    CHECK(r.release_followers && !r.disable);
    CHECK_STR(r.code, "E7");
    CHECK_STR(r.error, "slow down");
    CHECK_EQ(r.output_size, sizeof(OUTPUT) - 1);
    CHECK(memcmp(r.output, OUTPUT, sizeof(OUTPUT)) == 0 && r.final);
    const struct send_effect *e = r.effects;
    CHECK_SLICE(e->box, "outbox");
    CHECK_SLICE(e->message.payload, PR_BYTES("\0\1\2", 3));
    e = e->next;
    CHECK_SLICE(e->effect.key, "scope");
    CHECK_SLICE(e->effect.value, "value");
    e = e->next;
    CHECK(e->effect.kind == EFFECT_EVENT && e->effect.takes_verdict && e->effect.expected == 3 && e->next == NULL);
    CHECK_SLICE(e->message.stream, "s-1");
    delivery_result_fini(&r);
    buf_fini(&parcel);
}

/* Sizes that are too large, that wrap round when they are added, texts without an end, flags that are neither. */
TEST(parcel_of_any_bytes_is_refused_or_whole) /* B206 */
{
    static const uint64_t values[] = { 0, 1, 0xff, 0x7fffffff, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2 + 1 };
    struct buf parcel;
    struct delivery_result r;
    unsigned refused = 0;
    write_good(&parcel);
    size_t size = parcel.size - sizeof(uint64_t);
    for (size_t cut = 0; cut < size; cut++)
        if (read_exact(&parcel, cut, &r))
            look_at(&r);
        else
            refused++;
    CHECK(refused > size / 2);
    for (size_t at = sizeof(uint64_t); at + sizeof(uint64_t) <= parcel.size; at++)
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            uint64_t before;
            memcpy(&before, parcel.data + at, sizeof(before));
            memcpy(parcel.data + at, &values[i], sizeof(before));
            if (read_exact(&parcel, size, &r))
                look_at(&r);
            memcpy(parcel.data + at, &before, sizeof(before));
        }
    buf_fini(&parcel);
}

/* Two that are too large come out right when they are added. */
TEST(parcel_with_sizes_that_wrap_round_is_refused) /* B206 */
{
    struct buf parcel;
    struct delivery_result r;
    write_good(&parcel);
    size_t at = sizeof(uint64_t) + sizeof(struct delivery_result) + 2 * sizeof(uint64_t) + sizeof("slow down") +
                sizeof(OUTPUT) + sizeof(struct send_effect);
    struct pr_message m;
    memcpy(&m, parcel.data + at, sizeof(m));
    CHECK_EQ(m.type.size, 4);
    m.type.size += SIZE_MAX / 2 + 1;
    m.payload.size += SIZE_MAX / 2 + 1;
    memcpy(parcel.data + at, &m, sizeof(m));
    CHECK(!read_exact(&parcel, parcel.size - sizeof(uint64_t), &r));
    buf_fini(&parcel);
}

TEST(parcel_with_an_effect_that_no_handler_has_is_refused) /* B206 */
{
    struct buf parcel;
    struct delivery_result r;
    struct send_effect wrong[] = { event, event, message, message, value };
    wrong[0].effect.kind = EFFECT_DELETE;
    wrong[1].message.stream = PR_STR("");
    wrong[2].message.type = PR_STR("\xff");
    wrong[3].box = PR_STR("no such; box");
    wrong[4].effect.key = PR_STR("");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        wrong[i].next = NULL;
        const struct delivery_result result = { .outcome = SEND_OK, .effects = &wrong[i] };
        buf_init(&parcel, 1 << 20);
        parcel_write_result(&parcel, &result);
        CHECK(!read_exact(&parcel, parcel.size - sizeof(uint64_t), &r));
        buf_fini(&parcel);
    }
}
