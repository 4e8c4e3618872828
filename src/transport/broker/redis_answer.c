#include "transport/broker/redis_answer.h"

#include "base/error.h"
#include "base/slice.h"

/* "$5\r\nhello\r\n"; "$-1\r\n" is nothing. */
static ssize_t read_string(pr_slice bytes, pr_slice head, size_t head_size, struct redis_answer *ret,
                           struct pr_error *reterr)
{
    int64_t size = inbox_number(head, REDIS_ANSWER_MAX);
    if (slice_eq_cstr(head, "-1"))
        return (ssize_t)head_size;
    if (size < 0)
        return error_set(reterr, PR_EINVAL, "an answer of \"%.*s\" bytes, at most %d are read",
                         (int)min_size(head.size, 20), head.data, REDIS_ANSWER_MAX);
    if (bytes.size < head_size + (size_t)size + 2)
        return 0;
    if (memcmp(bytes.data + head_size + size, "\r\n", 2) != 0)
        return error_set(reterr, PR_EINVAL, "an answer does not end where it should");
    ret->text = (pr_slice){ bytes.data + head_size, (size_t)size };
    return (ssize_t)(head_size + (size_t)size + 2);
}

ssize_t redis_answer_read(pr_slice bytes, struct redis_answer *ret, struct pr_error *reterr)
{
    pr_slice line = { NULL, 0 };
    if (bytes.size == 0)
        return 0;
    char kind = bytes.data[0];
    if (kind != '+' && kind != '-' && kind != ':' && kind != '$')
        return error_set(reterr, PR_EINVAL, "it does not answer as Redis does: the first byte is %d",
                         (unsigned char)kind);
    size_t size = inbox_line(bytes, &line);
    if (size == 0)
        return bytes.size < INBOX_SIZE ? 0
                                       : error_set(reterr, PR_EINVAL, "an answer of more than %d bytes", INBOX_SIZE);
    pr_slice text = { line.data + 1, line.size - 1 };
    *ret = (struct redis_answer){ .is_error = kind == '-', .text = kind == '$' ? PR_STR("") : text };
    return kind == '$' ? read_string(bytes, text, size, ret, reterr) : (ssize_t)size;
}
