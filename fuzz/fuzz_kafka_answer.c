/* The check of a Kafka broker's answers, as the gate before librdkafka does it: of every API that it knows, those of
 * consumers too.  The first two bytes are the API and its version, the rest is what follows the correlation id. */
#include "base/utf8.h"
#include "transport/broker/kafka_answer.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kafka_question q;
    if (size < 2)
        return 0;
    const unsigned char head[KAFKA_QUESTION_BYTES] = { [5] = data[0], [7] = data[1] };
    if (!kafka_question_read(head, &q))
        return 0;
    unsigned char *answer = malloc(size - 2 + 1), *again = malloc(size - 2 + 1); /* malloc(0) may give NULL */
    FUZZ_CHECK(answer != NULL && again != NULL);
    memcpy(answer, data + 2, size - 2);
    const char *bad = kafka_answer_check(&q, answer, size - 2);
    FUZZ_CHECK(bad == NULL || utf8_valid((pr_slice){ bad, strlen(bad) }));
    /* What the library gets is valid, and what was removed from it is not removed twice. */
    memcpy(again, answer, size - 2);
    if (bad == NULL)
        FUZZ_CHECK(kafka_answer_check(&q, again, size - 2) == NULL && memcmp(answer, again, size - 2) == 0);
    free(answer);
    free(again);
    return 0;
}
