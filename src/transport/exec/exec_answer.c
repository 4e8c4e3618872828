#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/delivery.h"
#include "transport/exec/exec.h"

#define HEAD_SIZE 160
#define EXEC_RETRY_AFTER_MAX_US PR_SECONDS(24 * 60 * 60) /* the longest delay that is honoured */

/* The codes of sysexits.h, and of shells; other codes say nothing about retrying. */
static const struct {
    int code, reason;
    const char *meaning;
} exits[] = {
    { EX_USAGE, PR_REASON_REJECTED, "usage error" },
    { EX_DATAERR, PR_REASON_VALIDATION_FAILURE, "data error" },
    { EX_NOINPUT, PR_REASON_VALIDATION_FAILURE, "no input" },
    { EX_NOUSER, PR_REASON_DESTINATION_MISSING, "no such user" },
    { EX_NOHOST, PR_REASON_DESTINATION_MISSING, "no such host" },
    { EX_UNAVAILABLE, PR_REASON_TRANSPORT_UNAVAILABLE, "unavailable" },
    { EX_SOFTWARE, PR_REASON_HANDLER_EXCEPTION, "internal error" },
    { EX_OSERR, PR_REASON_DEPENDENCY_FAILURE, "operating system error" },
    { EX_OSFILE, PR_REASON_DEPENDENCY_FAILURE, "a system file is missing" },
    { EX_CANTCREAT, PR_REASON_DEPENDENCY_FAILURE, "cannot create its output" },
    { EX_IOERR, PR_REASON_DEPENDENCY_FAILURE, "input/output error" },
    { EX_TEMPFAIL, PR_REASON_DEPENDENCY_FAILURE, "temporary failure" },
    { EX_PROTOCOL, PR_REASON_REJECTED, "protocol error" },
    { EX_NOPERM, PR_REASON_UNAUTHORIZED, "not allowed" },
    { EX_CONFIG, PR_REASON_REJECTED, "configuration error" },
    { 126, PR_REASON_DESTINATION_MISSING, "cannot be run" },
    { 127, PR_REASON_DESTINATION_MISSING, "not found" },
};

/* "head: the end of its output" */
static void fail(const struct child *c, uint64_t token, enum send_outcome outcome, int reason, const char *code,
                 const char *head, struct delivery_result *ret)
{
    char text[EXEC_TAIL + 200];
    pr_slice tail = slice_trim((pr_slice){ c->tail, c->tail_size });
    int size = snprintf(text, sizeof(text) - EXEC_TAIL, "%s%s", head, tail.size > 0 ? ": " : "");
    size_t used = min_size((size_t)size, sizeof(text) - EXEC_TAIL - 1);

    memcpy(text + used, tail.data, tail.size);
    result_failed(ret, token, outcome, reason, code, (pr_slice){ text, used + tail.size });
}

/* A program that was killed may have done its work. */
static void judge_signal(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret)
{
    const char *name = sigabbrev_np(how->si_status);
    char code[RESULT_CODE_SIZE], head[HEAD_SIZE];

    snprintf(code, sizeof(code), "SIG%s", name != NULL ? name : "?");
    snprintf(head, sizeof(head), "the program was killed by %s (it may have done its work)", code);
    fail(c, token, SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION, code, head, ret);
}

void exec_judge_end(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret)
{
    int reason = PR_REASON_HANDLER_EXCEPTION;
    const char *meaning = NULL;
    char code[RESULT_CODE_SIZE], head[HEAD_SIZE];

    if (how->si_code != CLD_EXITED) {
        judge_signal(c, how, token, ret);
        return;
    }
    if (how->si_status == EX_OK) {
        result_ok(ret, token);
        return;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(exits); i++)
        if (exits[i].code == how->si_status) {
            reason = exits[i].reason;
            meaning = exits[i].meaning;
        }
    snprintf(code, sizeof(code), "%d", how->si_status);
    snprintf(head, sizeof(head), "the program reported %s%s%s%s", code, meaning != NULL ? " (" : "",
             meaning != NULL ? meaning : "", meaning != NULL ? ")" : "");
    fail(c, token, SEND_FAILED, reason, code, head, ret);
}

void exec_judge_lost(const struct child *c, const siginfo_t *how, uint64_t token, struct delivery_result *ret)
{
    char code[RESULT_CODE_SIZE], head[HEAD_SIZE];

    if (how->si_code != CLD_EXITED) {
        judge_signal(c, how, token, ret);
        return;
    }
    snprintf(code, sizeof(code), "%d", how->si_status);
    snprintf(head, sizeof(head), "the program exited with %s before it answered (it may have done its work)", code);
    fail(c, token, SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION, code, head, ret);
}

void exec_judge_late(const struct child *c, uint64_t token, struct delivery_result *ret)
{
    fail(c, token, SEND_UNKNOWN, PR_REASON_TIMEOUT_EXCEEDED, "",
         "the program did not finish in time and was killed (it may have done its work)", ret);
}

void exec_judge_spawn(const char *program, int fault, uint64_t token, struct delivery_result *ret)
{
    struct pr_error text;
    const char *name = strerrorname_np(fault);
    pr_slice code = slice_from(name);

    error_set(&text, 0, "%s: %s", program, strerror(fault));
    if (fault == E2BIG)
        result_unsent(ret, token, PR_REASON_SERIALIZATION_ERROR, code.data, pr_str(text.text));
    else
        result_unsent(ret, token,
                      fault == ENOENT || fault == ENOTDIR || fault == ENOEXEC ? PR_REASON_DESTINATION_MISSING
                      : fault == EACCES || fault == EPERM                     ? PR_REASON_UNAUTHORIZED
                                                                              : PR_REASON_DEPENDENCY_FAILURE,
                      code.data, pr_str(text.text));
}

/* ---- Lines ------------------------------------------------------------------------------------- */

static pr_slice text_of(const json_t *answer, const char *key)
{
    const json_t *value = json_object_get(answer, key);
    const char *text = json_string_value(value);
    return text != NULL ? (pr_slice){ text, json_string_length(value) } : PR_STR("");
}

static bool is_about(const json_t *answer, const struct pr_message *m)
{
    char id[PR_ID_TEXT_SIZE];
    pr_id_format(m->id, id);
    return json_object_get(answer, "id") == NULL || slice_eq_cstr(text_of(answer, "id"), id);
}

static bool judge_answer(const json_t *answer, const struct delivery *d, struct delivery_result *ret)
{
    pr_slice word = text_of(answer, "reason");
    int reason = reason_parse(word);
    double after_s = json_number_value(json_object_get(answer, "retry_after"));

    if (!is_about(answer, d->message) || (word.size > 0 && reason == PR_REASON_NONE))
        return false;
    if (word.size == 0 && json_object_get(answer, "error") == NULL) {
        result_ok(ret, d->token);
        return true;
    }
    result_failed(ret, d->token, SEND_FAILED, reason != PR_REASON_NONE ? reason : PR_REASON_HANDLER_EXCEPTION,
                  text_of(answer, "code").data, text_of(answer, "error"));
    if (after_s > 0)
        ret->retry_after_us =
            after_s < (double)EXEC_RETRY_AFTER_MAX_US / 1e6 ? (int64_t)(after_s * 1e6) : EXEC_RETRY_AFTER_MAX_US;
    return true;
}

bool exec_judge_line(pr_slice line, const struct delivery *d, struct delivery_result *ret)
{
    line = slice_trim(line);
    if (slice_eq_cstr(line, "ok")) {
        result_ok(ret, d->token);
        return true;
    }
    /* A NUL in its text (\u0000) must not cost the reason. */
    json_t *answer = json_loadb(line.data, line.size, JSON_ALLOW_NUL, NULL);
    bool good = json_is_object(answer) && judge_answer(answer, d, ret);
    json_decref(answer);
    if (!good) {
        struct pr_error text;
        error_set(&text, 0, "the program's answer is not ok or {\"reason\": ..., \"error\": ...}: %.*s",
                  (int)min_size(line.size, EXEC_TAIL), line.data);
        result_failed(ret, d->token, SEND_UNKNOWN, PR_REASON_HANDLER_EXCEPTION, "bad_answer", pr_str(text.text));
    }
    return good;
}
