#include "transport/broker/nats_answer.h"

#include <stdio.h>
#include <strings.h>

#include "base/error.h"
#include "base/slice.h"

#define MESSAGE_MAX ((int64_t)1 << 40) /* bytes; servers allow far less */
#define WORDS_MAX 5                    /* subject, subscription, reply-to, size of the header, size */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The words of a line; WORDS_MAX + 1: too many. */
static size_t split(pr_slice line, pr_slice words[WORDS_MAX])
{
    size_t count = 0, i = 0;
    for (;;) {
        while (i < line.size && is_blank(line.data[i]))
            i++;
        if (i == line.size)
            return count;
        if (count == WORDS_MAX)
            return WORDS_MAX + 1;
        size_t begin = i;
        while (i < line.size && !is_blank(line.data[i]))
            i++;
        words[count++] = (pr_slice){ line.data + begin, i - begin };
    }
}

/* "NATS/1.0 503\r\n..." */
static unsigned status_of(pr_slice head)
{
    static const pr_slice version = { "NATS/1.0 ", 9 };
    if (!slice_starts_with(head, version) || head.size < version.size + 3)
        return 0;
    int64_t status = inbox_number((pr_slice){ head.data + version.size, 3 }, 999);
    return status > 0 ? (unsigned)status : 0;
}

/* MSG subject sid [reply] size, HMSG subject sid [reply] head-size size; followed by the data. */
static ssize_t read_message(pr_slice bytes, size_t max, pr_slice line, size_t line_size, bool has_head,
                            struct nats_answer *ret, struct pr_error *reterr)
{
    pr_slice words[WORDS_MAX];
    size_t count = split(line, words), sizes = has_head ? 2 : 1;
    if (count < 2 + sizes || count > 3 + sizes || !slice_eq_cstr(words[1], "1"))
        return error_set(reterr, PR_EINVAL, "a malformed message: \"%.*s\"", (int)min_size(line.size, 60), line.data);
    int64_t size = inbox_number(words[count - 1], MESSAGE_MAX);
    int64_t head = has_head ? inbox_number(words[count - 2], MESSAGE_MAX) : 0;
    if (size < 0 || head < 0 || head > size || line_size + NATS_END_SIZE > INBOX_SIZE - NATS_ANSWER_MAX)
        return error_set(reterr, PR_EINVAL, "a message with the size \"%.*s\"",
                         (int)min_size(words[count - 1].size, 20), words[count - 1].data);
    size_t kept = min_size((size_t)size, max), kept_head = min_size((size_t)head, kept);
    size_t whole = line_size + kept + (kept == (size_t)size ? NATS_END_SIZE : 0);
    ret->missing = (uint64_t)size - kept;
    if (bytes.size < whole)
        return 0;
    const char *body = bytes.data + line_size;
    if (ret->missing == 0 && memcmp(body + size, "\r\n", NATS_END_SIZE) != 0)
        return error_set(reterr, PR_EINVAL, "an answer does not end where it should");
    ret->subject = words[0];
    ret->reply = count == 3 + sizes ? words[2] : (pr_slice){ NULL, 0 };
    ret->head = (pr_slice){ body, kept_head };
    ret->status = status_of(ret->head);
    ret->data = (pr_slice){ body + kept_head, kept - kept_head };
    return (ssize_t)whole;
}

static pr_slice unquote(pr_slice text)
{
    text = slice_trim(text);
    bool quoted = text.size >= 2 && text.data[0] == '\'' && text.data[text.size - 1] == '\'';
    return quoted ? (pr_slice){ text.data + 1, text.size - 2 } : text;
}

ssize_t nats_answer_read(pr_slice bytes, struct nats_answer *ret, struct pr_error *reterr)
{
    ssize_t size = nats_answer_read_max(bytes, NATS_ANSWER_MAX, ret, reterr);
    return size >= 0 && ret->missing > 0
               ? error_set(reterr, PR_ETOOBIG, "an answer of more than %d bytes", NATS_ANSWER_MAX)
               : size;
}

ssize_t nats_answer_read_max(pr_slice bytes, size_t max, struct nats_answer *ret, struct pr_error *reterr)
{
    static const struct {
        const char *word;
        enum nats_kind kind;
        bool has_head;
    } words[] = { { "INFO", NATS_INFO, false }, { "MSG", NATS_MESSAGE, false }, { "HMSG", NATS_MESSAGE, true },
                  { "PING", NATS_PING, false }, { "PONG", NATS_PONG, false },   { "+OK", NATS_OK, false },
                  { "-ERR", NATS_ERROR, false } };
    pr_slice line = { NULL, 0 };
    *ret = (struct nats_answer){ .missing = 0 };
    size_t size = inbox_line(bytes, &line), word = 0;
    if (size == 0)
        return bytes.size < INBOX_SIZE ? 0 : error_set(reterr, PR_EINVAL, "a line of more than %d bytes", INBOX_SIZE);
    while (word < line.size && !is_blank(line.data[word]))
        word++;
    pr_slice rest = { line.data + word, line.size - word };
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strlen(words[i].word) == word && strncasecmp(words[i].word, line.data, word) == 0) {
            *ret = (struct nats_answer){ .kind = words[i].kind };
            ret->text = words[i].kind == NATS_ERROR ? unquote(rest) : rest;
            return words[i].kind == NATS_MESSAGE ? read_message(bytes, max, rest, size, words[i].has_head, ret, reterr)
                                                 : (ssize_t)size;
        }
    return error_set(reterr, PR_EINVAL, "it does not speak NATS: \"%.*s\"", (int)min_size(word, 20), line.data);
}
