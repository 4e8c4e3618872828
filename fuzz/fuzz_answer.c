/* Output of a program of the exec transport: the words of the url, the end of its output, and the answer line. */
#include "base/arena.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "core/reason.h"
#include "transport/exec/exec.h"

#include "fuzz.h"

#define TOKEN 7
#define AFTER_MAX_US PR_SECONDS(24 * 60 * 60)

static void check_result(const struct delivery_result *r)
{
    FUZZ_CHECK(r->token == TOKEN);
    FUZZ_CHECK((r->outcome == SEND_OK) == (r->reason == PR_REASON_NONE));
    FUZZ_CHECK(r->outcome == SEND_OK ? r->error == NULL : utf8_valid(slice_from(r->error)));
    FUZZ_CHECK(r->outcome == SEND_OK || reason_is_known(r->reason));
    FUZZ_CHECK(memchr(r->code, '\0', sizeof r->code) != NULL && utf8_valid(slice_from(r->code)));
    FUZZ_CHECK(r->retry_after_us >= 0 && r->retry_after_us <= AFTER_MAX_US);
}

static void fuzz_words(pr_slice line)
{
    char *text = input_cstr(line), *url = NULL, *words[EXEC_WORDS_MAX + 1];
    FUZZ_CHECK(asprintf(&url, "exec:%s", text) >= 0); /* how else would it have come here */
    struct endpoint_config config = { .name = "x", .url = url };
    struct pr_error error = { 0 };
    struct arena arena;
    bool lines;
    arena_init(&arena, 1024);
    if (exec_words(&config, &arena, words, &lines, &error) == PR_OK) {
        size_t count = 0;
        while (words[count] != NULL)
            count++;
        FUZZ_CHECK(count >= 1 && count <= EXEC_WORDS_MAX);
    } else {
        FUZZ_CHECK(error.text[0] != '\0');
    }
    arena_fini(&arena);
    free(url);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = input_from(data, size);
    struct pr_message message = { .type = PR_STR("t") };
    const struct delivery delivery = { .message = &message, .token = TOKEN };
    struct delivery_result result = { 0 };
    struct child child = { 0 };
    siginfo_t how = { .si_code = CLD_EXITED };

    fuzz_words(input_line(&in));
    pr_slice tail = input_line(&in);
    child.tail_size = tail.size < EXEC_TAIL ? tail.size : EXEC_TAIL;
    if (child.tail_size > 0)
        memcpy(child.tail, tail.data, child.tail_size);
    how.si_status = (int)(size % 256);
    exec_judge_end(&child, &how, TOKEN, &result);
    check_result(&result);
    delivery_result_fini(&result);

    result = (struct delivery_result){ 0 };
    bool good = exec_judge_line(input_rest(&in), &delivery, &result);
    check_result(&result);
    FUZZ_CHECK(good == (result.outcome != SEND_UNKNOWN));
    delivery_result_fini(&result);
    return 0;
}
