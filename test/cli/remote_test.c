/* Answers of the API as the structs that they were made from: the reader gets what the daemon wrote. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "check.h"
#include "cli/remote.h"
#include "core/ended.h"
#include "ops/message.h"

#include <jansson.h> /* its macros come last */

#define AT_US INT64_C(1700000000000000)

/* GET /v1/messages/ID as the daemon answers when the ledger has this one end. */
static json_t *answer_about(const struct listed *l)
{
    const struct query_reply reply = { .now_us = AT_US };
    const struct config config = { .store = "" };
    struct json_writer w;
    struct buf text;
    buf_init(&text, 1 << 16);
    json_init(&w, &text);
    json_begin_object(&w);
    json_key(&w, "deliveries");
    json_begin_array(&w);
    json_begin_object(&w);
    json_key(&w, "message");
    message_json(&w, &config, &reply, l);
    json_end_object(&w);
    json_end_array(&w);
    json_key(&w, "searched_from");
    json_cstr(&w, "2023-11-14T22:13:20Z");
    json_end_object(&w);
    json_t *answer = json_loadb(text.data, text.size, 0, NULL);
    CHECK(answer != NULL);
    buf_fini(&text);
    return answer;
}

TEST(what_has_ended_is_read_as_it_was_told) /* B89 */
{
    for (int as = ENDED_DELIVERED; as <= ENDED_BY_PERSON; as++) {
        const struct ended ended = { .id = { { 1, 2, 3 } },
                                     .box = PR_STR("outbox"),
                                     .endpoint = PR_STR("billing"),
                                     .as = (enum ended_as)as,
                                     .attempt = 3 };
        const struct listed told = listed_ended(&ended, AT_US, PR_STR("web-1"));
        struct query_reply reply;
        struct pr_error error;
        struct arena arena;
        arena_init(&arena, 4096);
        json_t *answer = answer_about(&told);
        CHECK_OK(remote_decode(answer, QUERY_ID, AT_US, &arena, &reply, &error), &error);
        CHECK_EQ(reply.ended_from_us, AT_US);
        CHECK_EQ(reply.listed_count, 1);
        const struct listed *l = &reply.listed[0];
        CHECK_EQ(l->ended, as);
        CHECK_EQ(l->state, told.state);
        CHECK_EQ(l->died_us, AT_US);
        CHECK_EQ(l->m.attempts, 3);
        CHECK_SLICE(l->endpoint, "billing");
        CHECK_SLICE(l->instance, "web-1");
        CHECK(pr_id_equal(l->m.id, ended.id));
        json_decref(answer);
        arena_fini(&arena);
    }
}

TEST(what_is_still_there_has_not_ended) /* B89 */
{
    const struct listed there = { .m = { .id = { { 1 } }, .type = PR_STR("t") }, .box = PR_STR("outbox") };
    struct query_reply reply;
    struct pr_error error;
    struct arena arena;
    arena_init(&arena, 4096);
    json_t *answer = answer_about(&there);
    CHECK_OK(remote_decode(answer, QUERY_ID, AT_US, &arena, &reply, &error), &error);
    CHECK_EQ(reply.listed[0].ended, 0);
    CHECK_EQ(reply.listed[0].state, STATE_READY);
    json_decref(answer);
    arena_fini(&arena);
}
