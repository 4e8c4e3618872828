/* fuzz.h - what the fuzz targets share.
 *
 * A target is a file fuzz_NAME.c with the function that libFuzzer calls, and a directory
 * corpus/NAME with inputs that are worth keeping: every crash that was ever found goes there.
 * Structured inputs are lines, so that a corpus can be written and read by people: each field
 * ends with a newline, the last one takes the rest. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <postrider.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. */
#define FUZZ_CHECK(expression) ((expression) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #expression))

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
    abort();
}

struct input {
    const char *data;
    size_t size;
};

static inline struct input input_from(const uint8_t *data, size_t size)
{
    return (struct input){ (const char *)data, size };
}

static inline pr_slice input_rest(struct input *in)
{
    pr_slice rest = { in->data, in->size };
    *in = (struct input){ NULL, 0 };
    return rest;
}

static inline pr_slice input_line(struct input *in)
{
    const char *end = in->size > 0 ? memchr(in->data, '\n', in->size) : NULL;
    if (end == NULL)
        return input_rest(in);
    pr_slice line = { in->data, (size_t)(end - in->data) };
    in->data += line.size + 1;
    in->size -= line.size + 1;
    return line;
}

static inline int64_t input_number(struct input *in)
{
    char text[32] = "";
    pr_slice line = input_line(in);
    if (line.size > 0 && line.size < sizeof text)
        memcpy(text, line.data, line.size);
    return strtoll(text, NULL, 10);
}

/* A copy that ends with a NUL; free() it. */
static inline char *input_cstr(pr_slice s)
{
    char *text = calloc(1, s.size + 1);
    FUZZ_CHECK(text != NULL);
    if (s.size > 0)
        memcpy(text, s.data, s.size);
    return text;
}

/* A message of 15 lines; nothing about it need be right. */
static inline void input_message(struct input *in, struct pr_message *ret)
{
    *ret = (struct pr_message){ .seq = 1 };
    pr_slice id = input_line(in);
    if (id.size > 0)
        memcpy(ret->id.bytes, id.data, id.size < sizeof ret->id.bytes ? id.size : sizeof ret->id.bytes);
    pr_slice *const fields[] = { &ret->type,         &ret->stream,       &ret->destination, &ret->source,
                                 &ret->subject,      &ret->content_type, &ret->headers,     &ret->correlation_id,
                                 &ret->causation_id, &ret->traceparent,  &ret->tracestate };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        *fields[i] = input_line(in);
    ret->due_us = input_number(in);
    ret->expires_us = input_number(in);
    ret->created_us = ret->due_us;
    ret->payload = input_rest(in);
}

#endif
