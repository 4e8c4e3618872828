/* zone_file.c - reads the files of the time zone database, each once. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "base/zone.h"

#define INSTALL_HINT "install the package tzdata, or set TZDIR to the directory of its files"

struct known_zone {
    struct known_zone *next;
    struct zone *zone;
    char name[ZONE_NAME_MAX + 1];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known_zone *known;

/* Allow only letters, digits, "_", "-" and "+" in parts between single slashes: so a name cannot lead out of the
 * directory, and a file has one name only. */
static bool name_is_harmless(pr_slice name)
{
    if (name.size == 0 || name.size > ZONE_NAME_MAX || name.data[0] == '/' || name.data[name.size - 1] == '/' ||
        slice_contains(name, PR_STR("//")))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == '\0' || strchr("_-+/", c) == NULL))
            return false;
    }
    return true;
}

/* Read the whole file; -1: it cannot be read. */
static ssize_t file_read(const char *path, char *ret, size_t max)
{
    size_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    for (ssize_t got = 1; got > 0 && size<max; size += got> 0 ? (size_t)got : 0)
        got = read(fd, ret + size, max - size);
    close(fd);
    return size > 0 ? (ssize_t)size : -1;
}

static int zone_read(pr_slice name, struct zone **ret, struct pr_error *reterr)
{
    const char *directories[] = { getenv("TZDIR"), "/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                  "/usr/share/lib/zoneinfo", "/etc/zoneinfo" };
    char path[512];
    bool any = false;
    struct pr_error why;
    char *bytes = malloc(ZONE_BYTES_MAX);
    if (bytes == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a time zone");
    ssize_t size = -1;
    for (size_t i = 0; i < ARRAY_LENGTH(directories) && size < 0; i++) {
        if (directories[i] == NULL || directories[i][0] == '\0')
            continue;
        any = any || access(directories[i], R_OK) == 0;
        int length = snprintf(path, sizeof(path), "%s/%.*s", directories[i], SLICE_ARGS(name));
        if (length > 0 && (size_t)length < sizeof(path))
            size = file_read(path, bytes, ZONE_BYTES_MAX);
    }
    int rc = PR_EINVAL;
    if (size >= 0 && (rc = zone_parse(PR_BYTES(bytes, (size_t)size), ret, &why)) != PR_OK)
        error_set(reterr, rc, "time zone \"%.*s\": %s: %s", SLICE_ARGS(name), path, why.text);
    else if (size < 0 && any)
        error_set(reterr, rc, "unknown time zone \"%.*s\"; write a name such as Europe/Berlin or UTC",
                  SLICE_ARGS(name));
    else if (size < 0)
        error_set(reterr, rc, "time zone \"%.*s\": this system has no time zone files; " INSTALL_HINT,
                  SLICE_ARGS(name));
    free(bytes);
    return rc;
}

static int zone_remember(pr_slice name, const struct zone **ret, struct pr_error *reterr)
{
    struct known_zone *k = calloc(1, sizeof(*k));
    if (k == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for a time zone");
    int rc = zone_read(name, &k->zone, reterr);
    if (rc != PR_OK) {
        free(k);
        return rc;
    }
    memcpy(k->name, name.data, name.size);
    k->next = known;
    known = k;
    *ret = k->zone;
    return PR_OK;
}

int zone_find(pr_slice name, const struct zone **ret, struct pr_error *reterr)
{
    int rc = PR_OK;
    *ret = NULL;
    if (name.size == 0 || slice_eq_cstr(name, "UTC"))
        return PR_OK;
    if (!name_is_harmless(name))
        return error_set(reterr, PR_EINVAL, "\"%.*s\" is not the name of a time zone; write one such as Europe/Berlin",
                         (int)min_size(name.size, ZONE_NAME_MAX), name.data);
    ASSERT(pthread_mutex_lock(&lock) == 0);
    const struct known_zone *k = known;
    while (k != NULL && !slice_eq_cstr(name, k->name))
        k = k->next;
    if (k != NULL)
        *ret = k->zone;
    else
        rc = zone_remember(name, ret, reterr);
    ASSERT(pthread_mutex_unlock(&lock) == 0);
    return rc;
}
