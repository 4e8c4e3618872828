#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/exec/exec.h"

extern char **environ;

static bool begins_with(const char *variable, const char *prefix)
{
    return strncmp(variable, prefix, strlen(prefix)) == 0;
}

/* Settings, and variables used in the configuration, are not passed on: they may be secrets. */
static bool is_ours(const char *variable, const struct endpoint_config *config)
{
    for (size_t i = 0; i < config->secret_variable_count; i++)
        if (begins_with(variable, config->secret_variables[i]) && variable[strlen(config->secret_variables[i])] == '=')
            return true;
    return begins_with(variable, "POSTRIDER_") || begins_with(variable, "CE_") || begins_with(variable, "PGPASSWORD=");
}

/* "CE_" and the name in upper case, "=", the value.  NULL: no memory. */
static char *variable(struct arena *arena, const char *prefix, const char *name, pr_slice value)
{
    const char *text = arena_printf(arena, "%s%s=", prefix, name).data;
    size_t size = text != NULL ? strlen(text) : 0;
    char *all = text != NULL ? arena_alloc(arena, size + value.size + 1) : NULL;

    if (all == NULL)
        return NULL;
    for (size_t i = 0; i < size; i++)
        all[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
    memcpy(all + size, value.data != NULL ? value.data : "", value.size);
    all[size + value.size] = '\0';
    return all;
}

char **exec_environment(struct arena *arena, const struct endpoint_config *config, enum envelope envelope,
                        const struct pr_message *m)
{
    struct cloudevent event = { .count = 0 };
    size_t count = 0, inherited = 0;
    bool good = true;

    while (environ[inherited] != NULL)
        inherited++;
    char **list = arena_alloc_array(arena, inherited + CLOUDEVENTS_ATTRIBUTES_MAX + 4, sizeof(*list));
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < inherited; i++)
        if (!is_ours(environ[i], config))
            list[count++] = environ[i];
    if (m == NULL)
        return list;
    if (envelope == ENVELOPE_BINARY) {
        cloudevent_init(&event, m, config->source);
        for (size_t i = 0; i < event.count; i++)
            good &=
                (list[count++] = variable(arena, "CE_", event.attributes[i].name, event.attributes[i].value)) != NULL;
    }
    if (envelope != ENVELOPE_RAW)
        good &= (list[count++] = variable(arena, "CE_", "datacontenttype",
                                          envelope == ENVELOPE_STRUCTURED ? PR_STR(CLOUDEVENTS_MEDIA_TYPE)
                                                                          : cloudevent_content_type(m))) != NULL;
    if (m->headers.size > 0)
        good &= (list[count++] = variable(arena, "POSTRIDER_", "headers", m->headers)) != NULL;
    return good ? list : NULL;
}

int exec_input(struct buf *scratch, enum envelope envelope, const char *source, const struct pr_message *m)
{
    pr_slice bytes = m->payload;
    int fd = memfd_create("postrider-message", MFD_CLOEXEC);

    if (envelope == ENVELOPE_STRUCTURED) {
        buf_reset(scratch);
        cloudevent_write_line(scratch, m, source);
        bytes = buf_slice(scratch);
    }
    for (size_t done = 0; fd >= 0 && done < bytes.size;) {
        ssize_t n = write(fd, bytes.data + done, bytes.size - done);
        if (n < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)lseek(fd, 0, SEEK_SET); /* works on a file */
    return fd;
}
