/* harness_local.c - the other sides that are on this machine: programs and files. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/slice.h"
#include "check.h"
#include "world.h"

static char folder[64], url[512];

const char *harness_folder(void)
{
    return folder;
}

static void folder_make(void)
{
    snprintf(folder, sizeof(folder), "/tmp/postrider-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
}

static void folder_remove(struct world *w)
{
    (void)w;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    CHECK_EQ(rmdir(folder), 0);
}

static void read_file(const char *name, struct buf *ret)
{
    char path[512], chunk[65536];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    buf_reset(ret);
    for (size_t n; f != NULL && (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
        buf_add(ret, chunk, n);
    if (f != NULL)
        fclose(f);
}

/* A line as the world's arrival. */
static void add_event(struct world *w, pr_slice line, struct buf *payload)
{
    pr_id id;
    json_t *event = json_loadb(line.data, line.size, JSON_ALLOW_NUL, NULL);

    CHECK_EQ(pr_id_parse(slice_from(json_string_value(json_object_get(event, "id"))), &id), PR_OK);
    world_event_payload(event, payload);
    world_arrival_add(w, id, buf_slice(payload));
    json_decref(event);
}

/* ---- exec ---- */

static void exec_start(struct world *w)
{
    folder_make();
    snprintf(url, sizeof(url), "exec:%s '%s'", getenv("WORKER"), folder);
    w->config.url = url;
}

static void lines_start(struct world *w)
{
    folder_make();
    snprintf(url, sizeof(url), "exec:%s \"%s\" lines?mode=lines", getenv("WORKER"), folder);
    w->config.url = url;
}

static void exec_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    static const char *const subjects[] = {
        [WISH_OK] = "", [WISH_FAIL] = "fail", [WISH_LOSE_ANSWER] = "crash", [WISH_HANG] = "hang"
    };
    m->subject = slice_from(subjects[wish]);
}

static void exec_arrivals(struct world *w)
{
    struct buf data, payload;
    bool lines = strstr(url, "?mode=lines") != NULL;
    DIR *d = opendir(folder);

    buf_init(&data, 1 << 24);
    buf_init(&payload, 1 << 24);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        pr_id id;
        if (strchr(e->d_name, '.') == NULL || e->d_name[0] == '.')
            continue;
        read_file(e->d_name, &data);
        CHECK_EQ(pr_id_parse((pr_slice){ e->d_name, PR_ID_TEXT_SIZE - 1 }, &id), PR_OK);
        if (lines)
            add_event(w, buf_slice(&data), &payload);
        else
            world_arrival_add(w, id, buf_slice(&data));
    }
    closedir(d);
    buf_fini(&data);
    buf_fini(&payload);
}

const struct harness harness_exec = {
    .name = "exec",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL | 1 << WISH_LOSE_ANSWER | 1 << WISH_HANG,
    .exact = true,
    .start = exec_start,
    .stop = folder_remove,
    .make = exec_make,
    .arrivals = exec_arrivals,
};

const struct harness harness_lines = {
    .name = "lines",
    .wishes = 1 << WISH_OK | 1 << WISH_FAIL | 1 << WISH_LOSE_ANSWER | 1 << WISH_HANG,
    .exact = true,
    .start = lines_start,
    .stop = folder_remove,
    .make = exec_make,
    .arrivals = exec_arrivals,
};

/* ---- file ---- */

static void file_start(struct world *w)
{
    folder_make();
    snprintf(url, sizeof(url), "file:%s/audit.jsonl", folder);
    w->config.url = url;
}

static void file_make(struct world *w, struct pr_message *m, enum wish wish)
{
    (void)w;
    (void)m;
    CHECK_EQ(wish, WISH_OK);
}

static void file_arrivals(struct world *w)
{
    struct buf data, payload;

    buf_init(&data, 1 << 24);
    buf_init(&payload, 1 << 24);
    read_file("audit.jsonl", &data);
    pr_slice left = buf_slice(&data);
    while (left.size > 0) {
        const char *end = memchr(left.data, '\n', left.size);
        CHECK(end != NULL);
        size_t size = (size_t)(end - left.data);
        add_event(w, (pr_slice){ left.data, size }, &payload);
        left = (pr_slice){ end + 1, left.size - size - 1 };
    }
    buf_fini(&data);
    buf_fini(&payload);
}

const struct harness harness_file = {
    .name = "file",
    .wishes = 1 << WISH_OK,
    .exact = true,
    .start = file_start,
    .stop = folder_remove,
    .make = file_make,
    .arrivals = file_arrivals,
};
