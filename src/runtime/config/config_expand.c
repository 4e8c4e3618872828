/* ${...} in values.  Only scalars are expanded, so the content of a variable or file cannot change the structure of the
 * configuration. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "runtime/config/config.h"
#include "runtime/config/config_node.h"
#include "runtime/config/config_variables.h"

#define SECRET_SHOWN "***"

struct expansion {
    const struct node_source *source;
    struct buf text, shown;
};

static bool is_variable_name(pr_slice name)
{
    if (name.size == 0 || (name.data[0] >= '0' && name.data[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
            return false;
    }
    return true;
}

/* Opens a file, or a pipe as shells create them; a device may be endless.  A pipe without a writer is empty. */
static int open_secret(const char *path, struct stat *ret_info, struct pr_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, ret_info) < 0 || (S_ISFIFO(ret_info->st_mode) && fcntl(fd, F_SETFL, 0) < 0)) {
        int error = errno;

        if (fd >= 0)
            (void)close(fd);
        return error_set(reterr, PR_ECONFIG, "${file:%s}: %s", path, strerror(error));
    }
    if (S_ISREG(ret_info->st_mode) || S_ISFIFO(ret_info->st_mode))
        return fd;
    (void)close(fd);
    return error_set(reterr, PR_ECONFIG, "${file:%s}: not a file", path);
}

static int read_secret(const char *path, struct buf *ret, struct stat *ret_info, struct pr_error *reterr)
{
    char chunk[4096];
    ssize_t n;
    int fd = open_secret(path, ret_info, reterr);

    if (fd < 0)
        return fd;
    while (((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)) && buf_failed(ret) == 0)
        if (n > 0)
            buf_add(ret, chunk, (size_t)n);
    int failed = n < 0 ? errno : 0;
    explicit_bzero(chunk, sizeof(chunk));
    (void)close(fd);
    if (failed != 0)
        return error_set(reterr, PR_ECONFIG, "${file:%s}: %s", path, strerror(failed));
    if (buf_failed(ret) != 0)
        return error_set(reterr, PR_ECONFIG, "${file:%s}: larger than %d bytes", path, CONFIG_VALUE_MAX);
    return PR_OK;
}

/* Editors end a file with a newline, which is not a part of the secret. */
static int expand_file(struct expansion *x, pr_slice path, struct pr_error *reterr)
{
    char full[4096];
    bool relative = path.size == 0 || path.data[0] != '/';
    int n = relative && x->source->directory.size > 0
                ? snprintf(full, sizeof(full), "%.*s/%.*s", SLICE_ARGS(x->source->directory), SLICE_ARGS(path))
                : snprintf(full, sizeof(full), "%.*s", SLICE_ARGS(path));
    struct buf content;

    if (path.size == 0 || n < 0 || (size_t)n >= sizeof(full))
        return error_set(reterr, PR_ECONFIG, "${file:%.*s}: not a path", SLICE_ARGS(path));
    buf_init(&content, CONFIG_VALUE_MAX);
    struct stat info = { .st_mode = 0 };
    int r = read_secret(full, &content, &info, reterr);
    pr_slice value = buf_slice(&content);

    if (r == PR_OK && memchr(value.data, '\0', value.size) != NULL)
        r = error_set(reterr, PR_ECONFIG, "${file:%.*s}: contains a NUL byte", SLICE_ARGS(path));
    if (slice_ends_with(value, PR_STR("\n")))
        value.size--;
    if (slice_ends_with(value, PR_STR("\r")))
        value.size--;
    if (r == PR_OK && value.size == 0)
        r = error_set(reterr, PR_ECONFIG, "${file:%.*s}: the file is empty", SLICE_ARGS(path));
    if (r == PR_OK && S_ISREG(info.st_mode) && (info.st_mode & (S_IROTH | S_IWOTH)) != 0)
        config_variables_note_open_file(x->source->variables, full);
    buf_add_slice(&x->text, value);
    buf_add_cstr(&x->shown, SECRET_SHOWN);
    if (content.data != NULL)
        explicit_bzero(content.data, content.size);
    buf_fini(&content);
    return r;
}

static int expand_variable(struct expansion *x, pr_slice inside, struct pr_error *reterr)
{
    size_t colon = 0;
    char name[256];
    const char *value;

    while (colon < inside.size && inside.data[colon] != ':')
        colon++;
    pr_slice left = { inside.data, colon };
    pr_slice rest = { inside.data + colon, inside.size - colon };

    if (!is_variable_name(left) || colon >= sizeof(name) || (rest.size > 0 && rest.size < 2) ||
        (rest.size >= 2 && rest.data[1] != '-' && rest.data[1] != '?'))
        return error_set(reterr, PR_ECONFIG,
                         "${%.*s} is not valid; use ${NAME}, ${NAME:-default}, ${NAME:?message} or ${file:path}",
                         SLICE_ARGS(inside));
    memcpy(name, left.data, left.size);
    name[left.size] = '\0';
    value = config_variables_get(x->source->variables, name);
    /* As in a shell: with a colon, an empty value counts as missing. */
    if (value == NULL || (value[0] == '\0' && rest.size > 0)) {
        pr_slice word = rest.size > 0 ? (pr_slice){ rest.data + 2, rest.size - 2 } : rest;

        if (rest.size == 0)
            return error_set(reterr, PR_ECONFIG, "environment variable %s is not set; set it, or use ${%s:-default}",
                             name, name);
        if (rest.data[1] == '?')
            return error_set(reterr, PR_ECONFIG, "environment variable %s is not set: %.*s", name, SLICE_ARGS(word));
        buf_add_slice(&x->text, word);
        buf_add_slice(&x->shown, word);
        return PR_OK;
    }
    buf_add_cstr(&x->text, value);
    buf_add_cstr(&x->shown, value);
    return config_variables_note_used(x->source->variables, name) == PR_OK
               ? PR_OK
               : error_set(reterr, PR_ENOMEM, "out of memory");
}

static int expand_all(struct expansion *x, pr_slice text, struct pr_error *reterr)
{
    for (size_t i = 0; i < text.size;) {
        pr_slice rest = { text.data + i, text.size - i };

        if (slice_starts_with(rest, PR_STR("$${"))) {
            buf_add_cstr(&x->text, "${");
            buf_add_cstr(&x->shown, "${");
            i += 3;
        } else if (slice_starts_with(rest, PR_STR("${"))) {
            const char *end = memchr(rest.data, '}', rest.size);

            if (end == NULL)
                return error_set(reterr, PR_ECONFIG, "\"${\" without a closing \"}\"");
            pr_slice inside = { rest.data + 2, (size_t)(end - rest.data) - 2 };
            int r = slice_starts_with(inside, PR_STR("file:"))
                        ? expand_file(x, (pr_slice){ inside.data + 5, inside.size - 5 }, reterr)
                        : expand_variable(x, inside, reterr);
            if (r != PR_OK)
                return r;
            i += (size_t)(end - rest.data) + 1;
        } else {
            buf_add_char(&x->text, text.data[i]);
            buf_add_char(&x->shown, text.data[i]);
            i++;
        }
    }
    return PR_OK;
}

int node_expand(pr_slice text, const struct node_source *source, struct arena *arena, const char **ret_text,
                const char **ret_shown, struct pr_error *reterr)
{
    struct expansion x = { .source = source };

    buf_init(&x.text, CONFIG_VALUE_MAX);
    buf_init(&x.shown, CONFIG_VALUE_MAX);
    int r = expand_all(&x, text, reterr);

    if (r == PR_OK && (buf_failed(&x.text) != 0 || buf_failed(&x.shown) != 0))
        r = error_set(reterr, PR_ECONFIG, "the value is longer than %d bytes", CONFIG_VALUE_MAX);
    if (r == PR_OK) {
        *ret_text = slice_dup(arena, buf_slice(&x.text)).data;
        *ret_shown = slice_dup(arena, buf_slice(&x.shown)).data;
        if (*ret_text == NULL || *ret_shown == NULL)
            r = error_set(reterr, PR_ENOMEM, "out of memory");
    }
    if (x.text.data != NULL)
        explicit_bzero(x.text.data, x.text.size);
    buf_fini(&x.text);
    buf_fini(&x.shown);
    return r;
}
