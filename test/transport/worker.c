/* worker - a program for the exec transport that does what it is told.
 *
 *   worker DIR         one message: standard input and CE_...; the answer is the exit code
 *   worker DIR lines   a JSON line for each message, and a line answers it
 *
 * Each message that comes is kept as the file DIR/ID.PID.N.  Its subject says what follows:
 *
 *   ""        done                     fail      not done, for a permanent reason
 *   hang      nothing any more         crash     dies by SIGKILL
 *   exit:N    exits with N             say:TEXT  says TEXT on standard error (lines: answers it), exits with 1
 *   family    starts a child that holds the output and writes DIR/family, then hangs
 *   twice     (lines) answers twice
 *   env       keeps its environment as DIR/env    fds   keeps its descriptors as DIR/fds */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

extern char **environ;
static const char *folder;

static FILE *create(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        exit(99);
    return f;
}

static void keep(const char *id, const void *data, size_t size)
{
    static unsigned n;
    char name[200];
    snprintf(name, sizeof(name), "%s.%d.%u", id, (int)getpid(), n++);
    FILE *f = create(name);
    if (fwrite(data, 1, size, f) != size || fclose(f) != 0)
        exit(99);
}

static void hang(void)
{
    for (;;)
        pause();
}

static void keep_environment(void)
{
    FILE *f = create("env");
    for (char **e = environ; *e != NULL; e++)
        fprintf(f, "%s\n", *e);
    fclose(f);
}

static void keep_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    FILE *f = create("fds");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(d) && atoi(e->d_name) != fileno(f))
            fprintf(f, "%s ", e->d_name);
    closedir(d);
    fclose(f);
}

static void family(void)
{
    if (fork() == 0) {
        FILE *f = create("family");
        fprintf(f, "%d", (int)getpid());
        fclose(f);
    }
    hang();
}

static void obey(const char *subject)
{
    if (strcmp(subject, "hang") == 0)
        hang();
    if (strcmp(subject, "crash") == 0)
        raise(SIGKILL);
    if (strcmp(subject, "family") == 0)
        family();
    if (strcmp(subject, "env") == 0)
        keep_environment();
    if (strcmp(subject, "fds") == 0)
        keep_descriptors();
    if (strncmp(subject, "exit:", 5) == 0)
        exit(atoi(subject + 5));
}

static int run_once(void)
{
    static char data[2 << 20];
    const char *id = getenv("CE_ID"), *subject = getenv("CE_SUBJECT");
    size_t size = fread(data, 1, sizeof(data), stdin);

    keep(id != NULL ? id : "none", data, size);
    subject = subject != NULL ? subject : "";
    obey(subject);
    if (strncmp(subject, "say:", 4) == 0) {
        fprintf(stderr, "%s\n", subject + 4);
        return 1;
    }
    return strcmp(subject, "fail") == 0 ? 65 : 0;
}

static const char *text_of(json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text != NULL ? text : "";
}

static int run_lines(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        json_t *event = json_loads(line, 0, NULL);
        const char *subject = text_of(event, "subject");
        keep(text_of(event, "id"), line, strlen(line));
        obey(subject);
        if (strncmp(subject, "say:", 4) == 0)
            printf("%s\n", subject + 4);
        else if (strcmp(subject, "fail") == 0)
            printf("{\"id\":\"%s\",\"reason\":\"validation_failure\",\"code\":\"E7\",\"error\":\"told to "
                   "fail\"}\n",
                   text_of(event, "id"));
        else
            puts(strcmp(subject, "twice") == 0 ? "ok\nok" : "ok");
        fflush(stdout);
        json_decref(event);
    }
    free(line);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 64;
    folder = argv[1];
    return argc > 2 && strcmp(argv[2], "lines") == 0 ? run_lines() : run_once();
}
