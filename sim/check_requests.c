/* See requests.h. */
#include "base/error.h"
#include "requests.h"

#include <stdarg.h>
#include <stdio.h>

void request_checker_init(struct request_checker *c, struct breach *ret)
{
    *c = (struct request_checker){ .breach = ret };
    *ret = (struct breach){ 0 };
}

/* The first breach is kept. */
static void broken(struct request_checker *c, const char *invariant, const char *format, ...) PR_PRINTF(3, 4);
static void broken(struct request_checker *c, const char *invariant, const char *format, ...)
{
    va_list args;
    if (c->breach->invariant != NULL)
        return;
    c->breach->invariant = invariant;
    va_start(args, format);
    (void)vsnprintf(c->breach->text, sizeof(c->breach->text), format, args);
    va_end(args);
}

unsigned request_answered(struct request_checker *c, unsigned request, int64_t now_us)
{
    ASSERT(c->answer_count + 1 < ANSWERS_MAX && request < REQUESTS_MAX);
    c->answers[++c->answer_count].request = request;
    c->answers[c->answer_count].at_us = now_us;
    return c->answer_count;
}

void request_told(struct request_checker *c, unsigned request, unsigned answer, int64_t now_us)
{
    unsigned before = c->told[request];
    /* It was stored when it was given, or later. */
    bool kept = before != 0 && now_us < c->answers[before].at_us + REPLY_KEEP_US;
    if (answer > c->answer_count || (answer != 0 && c->answers[answer].request != request))
        broken(c, "I45", "request %u: answer %u was never given to it", request, answer);
    else if (kept && answer == 0)
        broken(c, "I46", "request %u: its answer %u is gone before its day is over", request, before);
    else if (kept && answer != before)
        broken(c, "I45", "request %u: its answer was %u, and is %u", request, before, answer);
    c->told[request] = answer;
}

void request_over(struct request_checker *c, unsigned request, bool ended)
{
    bool given = false;
    for (unsigned i = 1; i <= c->answer_count; i++)
        given = given || c->answers[i].request == request;
    if (!ended && !given)
        broken(c, "I47", "request %u was never answered", request);
    else if (!ended && c->told[request] == 0)
        broken(c, "I47", "request %u was answered, and no caller can be told so", request);
}
