#include "carrier.h"

#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"
#include "check.h"
#include "core/id.h"

/* ---- Messages ---------------------------------------------------------------------------------- */

void raw_message_make(struct raw_message *ret)
{
    pr_id id;
    pr_id_new(&id);
    pr_id_format(id, ret->id);
    ret->created_us = clock_wall_us(clock_system());
    time_format_rfc3339(ret->created_us, ret->time);
}

const char *raw_payload(void)
{
    static char payload[BENCH_PAYLOAD + 1];
    if (payload[0] == '\0')
        bare_payload(payload);
    return payload;
}

/* ---- Our own programs ----------------------------------------------------------------------------- */

struct helper {
    pid_t pid;
    int input;
    FILE *output;
};

static void become(const char *program, const char *option, int input, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0)
        _exit(126);
    execl(program, program, option, (char *)NULL);
    _exit(127);
}

struct helper *helper_start(const struct bench *b, const char *name, const char *option, char *ret_line, size_t size)
{
    char program[sizeof b->program + 64], folder[sizeof b->program];
    int in[2], out[2];
    snprintf(folder, sizeof folder, "%s", b->program);
    snprintf(program, sizeof program, "%s/test/transport/%s", dirname(folder), name);
    if (access(program, X_OK) != 0)
        return NULL;
    struct helper *h = malloc(sizeof *h);
    if (h == NULL || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (h->pid = fork()) < 0)
        die("cannot start %s", name);
    if (h->pid == 0)
        become(program, option, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    h->input = in[1];
    h->output = fdopen(out[0], "r");
    if (h->output == NULL || fgets(ret_line, (int)size, h->output) == NULL)
        die("%s does not say where it is", name);
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return h;
}

void helper_stop(struct helper *h)
{
    if (h == NULL)
        return;
    close(h->input);
    if (waitpid(h->pid, NULL, 0) != h->pid)
        die("cannot wait for a program of ours");
    fclose(h->output);
    free(h);
}

/* ---- The servers of the tests: what they CHECK ends the benchmark ---------------------------------------- */

_Noreturn void check_fail(const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    die("%s:%d: %s", file, line, text);
}

_Noreturn void check_skip(const char *file, int line, const char *why)
{
    die("%s:%d: %s", file, line, why);
}

void check_eq(const char *file, int line, const char *a_text, const char *b_text, intmax_t a, intmax_t b)
{
    if (a != b)
        check_fail(file, line, "%s is %jd, not %s (%jd)", a_text, a, b_text, b);
}

void check_str(const char *file, int line, const char *a_text, const char *a, const char *b)
{
    if (strcmp(a, b) != 0)
        check_fail(file, line, "%s is \"%s\", not \"%s\"", a_text, a, b);
}
