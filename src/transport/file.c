/* file: one JSON line for each message, at the end of a file.  For audits, backups and debugging.
 *
 * Waiting messages are written together and synced once; only then are they delivered.  Other programs may write to the
 * same file in the same way: a lock is held meanwhile.
 *
 *   F1  Under the lock the file ends with a complete line; a partial one, left by a program that died, is
 *       removed before writing.
 *   F2  A line that could not be written completely is removed again.
 *       A partial line of another format gets a newline instead.
 *   F3  A file that was moved away (rotation) gets nothing more: the name is checked each time.
 *   F4  A large payload is not copied as a whole: its line is made and written in pieces. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "transport/cloudevents.h"
#include "transport/delivery.h"
#include "transport/envelope.h"

#define FILE_CONCURRENCY 1024
#define FILE_PIECE_BYTES ((size_t)1 << 20) /* written at once, unless a single line is larger */
#define FILE_LOCK_WAIT_US PR_SECONDS(1)
#define FILE_LOCK_LOOK_US PR_MILLISECONDS(2)
#define FILE_MODE 0640
#define LINE_BEGIN "{\"specversion\":" /* of a structured CloudEvent, as written by this transport */
#define NOT_A_FILE (-1)                /* not an errno */

struct file {
    const struct endpoint_config *config;
    const struct clock *clock;
    const char *path;
    enum envelope envelope;
    int fd; /* -1: not open */
    struct delivery_queue waiting;
    struct buf lines;
    uint64_t tokens[FILE_CONCURRENCY]; /* of the messages in `lines` */
    size_t token_count;
    pr_slice large; /* F4: the payload of the last one, whose line ends before its data; empty: it has none */
    enum cloudevent_form large_form;
};

/* file:NAME and file:///NAME; NULL: on another host. */
static const char *path_of(const char *url)
{
    const char *path = strchr(url, ':') + 1;
    if (strncmp(path, "//", 2) != 0)
        return path;
    return path[2] == '/' ? path + 2 : NULL;
}

/* The folder of a file; NULL: no memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* The file is created when it is first written; people create its folder. */
static int check_folder(const struct endpoint_config *config, const char *path, struct pr_error *reterr)
{
    struct stat st;
    char *folder = folder_of(path);
    int rc = folder == NULL ? error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name)
             : stat(folder, &st) < 0
                 ? error_set(reterr, PR_ECONFIG, "endpoint %s: folder %s: %s; create it, or name another one",
                             config->name, folder, strerror(errno))
             : !S_ISDIR(st.st_mode)
                 ? error_set(reterr, PR_ECONFIG, "endpoint %s: %s is not a folder", config->name, folder)
                 : PR_OK;
    free(folder);
    return rc;
}

static int file_check(const struct endpoint_config *config, struct pr_error *reterr)
{
    const char *path = path_of(config->url);
    if (path == NULL || path[0] == '\0')
        return error_set(reterr, PR_ECONFIG, "endpoint %s: the url is not valid: use one such as file:audit.jsonl",
                         config->name);
    if (config->concurrency > FILE_CONCURRENCY)
        return error_set(reterr, PR_ECONFIG, "endpoint %s: concurrency can be at most %d", config->name,
                         FILE_CONCURRENCY);
    int rc = check_folder(config, path, reterr);
    return rc == PR_OK ? envelope_check(config, reterr) : rc;
}

static int file_open(void *self, const struct endpoint_config *config, struct pr_error *reterr)
{
    struct file *f = self;
    f->config = config;
    f->clock = config_clock(config);
    f->path = path_of(config->url);
    f->fd = -1;
    buf_init(&f->lines, FILE_PIECE_BYTES + ENVELOPE_JSON_MAX);
    (void)envelope_parse(config->envelope, &f->envelope); /* file_check() has */
    return delivery_queue_init(&f->waiting, config->concurrency != 0 ? config->concurrency : FILE_CONCURRENCY, reterr);
}

static void drop_fd(struct file *f)
{
    if (f->fd >= 0)
        close(f->fd); /* its errors were reported by fsync() before */
    f->fd = -1;
}

static void file_close(void *self)
{
    struct file *f = self;
    if (f->config == NULL)
        return;
    drop_fd(f);
    delivery_queue_fini(&f->waiting);
    buf_fini(&f->lines);
}

static size_t file_submit(void *self, const struct delivery *const *list, size_t count)
{
    struct file *f = self;
    return delivery_queue_push(&f->waiting, list, count);
}

/* ---- The file: 0 or an errno ------------------------------------------------------------------- */

static int sync_folder(const char *path)
{
    char *folder = folder_of(path);
    int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : errno;

    if (fd >= 0)
        close(fd);
    free(folder);
    return rc;
}

/* O_NOFOLLOW: a user who may write to the folder must not redirect the file.  O_NONBLOCK: a pipe without a reader must
 * not block; it is then refused like anything that is not a file. */
static int open_file(struct file *f)
{
    struct stat st;
    bool created = access(f->path, F_OK) < 0;

    f->fd = open(f->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, FILE_MODE);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return NOT_A_FILE;
    return created ? sync_folder(f->path) : 0;
}

/* F3 */
static bool was_moved(const struct file *f)
{
    struct stat ours, named;
    return fstat(f->fd, &ours) < 0 || lstat(f->path, &named) < 0 || ours.st_ino != named.st_ino ||
           ours.st_dev != named.st_dev;
}

static int lock_file(struct file *f)
{
    int64_t end_us = clock_mono_us(f->clock) + FILE_LOCK_WAIT_US;
    while (flock(f->fd, LOCK_EX | LOCK_NB) < 0) {
        int64_t now_us = clock_mono_us(f->clock);
        if (errno != EWOULDBLOCK || now_us >= end_us)
            return errno;
        wait_until(-1, 0, -1, f->clock, now_us + FILE_LOCK_LOOK_US);
    }
    return 0;
}

/* It may be moved between open and lock, so it is checked again with the lock held. */
static int take_file(struct file *f)
{
    for (int tries = 0; tries < 3; tries++) {
        if (f->fd >= 0 && was_moved(f))
            drop_fd(f);
        int rc = f->fd >= 0 ? 0 : open_file(f);
        if (rc == 0)
            rc = lock_file(f);
        if (rc != 0)
            return rc;
        if (!was_moved(f))
            return 0;
        (void)flock(f->fd, LOCK_UN); /* closing it would, too */
    }
    return ESTALE;
}

static int write_all(int fd, pr_slice bytes)
{
    while (bytes.size > 0) {
        ssize_t n = write(fd, bytes.data, bytes.size);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0)
            bytes = (pr_slice){ bytes.data + n, bytes.size - (size_t)n };
    }
    return 0;
}

/* Where the last line begins. */
static off_t last_line(int fd, off_t size)
{
    char chunk[4096];
    while (size > 0) {
        size_t part = min_size((size_t)size, sizeof(chunk));
        ssize_t n = pread(fd, chunk, part, size - (off_t)part);
        const char *newline = n == (ssize_t)part ? memrchr(chunk, '\n', part) : NULL;
        size -= (off_t)part;
        if (n != (ssize_t)part)
            return -1;
        if (newline != NULL)
            return size + (newline - chunk) + 1;
    }
    return 0;
}

static bool is_json_from(int fd, off_t begin, size_t size)
{
    char *text = size <= ENVELOPE_JSON_MAX ? malloc(size) : NULL;
    json_t *value = text != NULL && pread(fd, text, size, begin) == (ssize_t)size
                        ? json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                        : NULL;
    bool good = value != NULL;

    json_decref(value);
    free(text);
    return good;
}

/* Is it the beginning of a line that this transport wrote?  Other files are not cut. */
static bool is_piece_of_ours(int fd, off_t begin, size_t size)
{
    char text[sizeof LINE_BEGIN - 1];
    size_t part = min_size(size, sizeof text);
    return pread(fd, text, part, begin) == (ssize_t)part && memcmp(text, LINE_BEGIN, part) == 0;
}

/* F1.  A complete last line without its newline gets one; so does a line that need not be JSON. */
static int repair(struct file *f, off_t *ret_size)
{
    struct stat st;
    char last = '\n';
    int rc = 0;

    if (fstat(f->fd, &st) < 0 || (st.st_size > 0 && pread(f->fd, &last, 1, st.st_size - 1) != 1))
        return errno;
    *ret_size = st.st_size;
    if (last == '\n')
        return 0;
    off_t begin = last_line(f->fd, st.st_size);
    if (begin < 0)
        return EIO;
    size_t size = (size_t)(st.st_size - begin);
    if (f->envelope == ENVELOPE_RAW || !is_piece_of_ours(f->fd, begin, size) || is_json_from(f->fd, begin, size))
        rc = write_all(f->fd, PR_STR("\n"));
    else
        rc = ftruncate(f->fd, begin) < 0 ? errno : 0;
    *ret_size = lseek(f->fd, 0, SEEK_END);
    return rc;
}

/* F4 */
static int write_large(struct file *f)
{
    if (f->large.size > 0 && f->envelope == ENVELOPE_RAW) {
        int rc = write_all(f->fd, f->large);
        return rc == 0 ? write_all(f->fd, PR_STR("\n")) : rc;
    }
    for (size_t done = 0, size = f->large.size; done < size;) {
        buf_reset(&f->lines);
        done += cloudevent_write_line_piece(&f->lines, f->large_form, PR_BYTES(f->large.data + done, size - done),
                                            FILE_PIECE_BYTES);
        if (done == size)
            cloudevent_write_line_end(&f->lines, f->large_form);
        int rc = buf_failed(&f->lines) ? ENOMEM : write_all(f->fd, buf_slice(&f->lines));
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* All lines or none.  *ret_unknown: they may have been written all the same. */
static int append(struct file *f, bool *ret_unknown)
{
    off_t size = 0;
    int rc = take_file(f);

    *ret_unknown = false;
    if (rc == 0)
        rc = repair(f, &size);
    if (rc == 0) {
        rc = write_all(f->fd, buf_slice(&f->lines));
        if (rc == 0)
            rc = write_large(f);
        if (rc != 0 && ftruncate(f->fd, size) < 0) /* F2 */
            *ret_unknown = true;
        if (rc == 0 && fsync(f->fd) < 0) {
            rc = errno;
            *ret_unknown = true;
        }
    }
    if (f->fd >= 0)
        (void)flock(f->fd, LOCK_UN);
    if (rc != 0)
        drop_fd(f); /* start over next time */
    return rc;
}

/* ---- Messages -------------------------------------------------------------------------------------- */

/* F4: of a large one only what comes before its data. */
static void put_line(struct file *f, const struct pr_message *m)
{
    bool raw = f->envelope == ENVELOPE_RAW;
    if (m->payload.size > FILE_PIECE_BYTES) {
        f->large = m->payload;
        f->large_form = raw ? CLOUDEVENT_EMPTY : cloudevent_write_line_begin(&f->lines, m, f->config->source);
    } else if (raw) {
        buf_add_slice(&f->lines, m->payload);
        buf_add_char(&f->lines, '\n');
    } else {
        cloudevent_write_line(&f->lines, m, f->config->source);
    }
}

/* False: it has its result. */
static bool add_line(struct file *f, const struct delivery *d, struct delivery_result *ret)
{
    const struct pr_message *m = d->message;
    size_t before = f->lines.size;

    if (f->envelope == ENVELOPE_RAW && m->payload.size > 0 && memchr(m->payload.data, '\n', m->payload.size) != NULL) {
        result_unsent(ret, d->token, PR_REASON_SERIALIZATION_ERROR, "",
                      PR_STR("the payload has several lines: use envelope structured"));
        return false;
    }
    put_line(f, m);
    if (buf_failed(&f->lines)) {
        f->large.size = 0;
        buf_truncate(&f->lines, before);
        result_returned(ret, d->token); /* no memory: later */
        return false;
    }
    f->tokens[f->token_count++] = d->token;
    return true;
}

static int reason_of(int fault)
{
    switch (fault) {
    case EACCES:
    case EPERM:
    case EROFS: return PR_REASON_UNAUTHORIZED;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case NOT_A_FILE: return PR_REASON_DESTINATION_MISSING;
    default: return PR_REASON_DEPENDENCY_FAILURE; /* ENOSPC, EDQUOT, EIO ...: may be temporary */
    }
}

static void judge(struct file *f, struct delivery_result *ret)
{
    bool unknown;
    struct pr_error text;
    int fault = append(f, &unknown);
    const char *name = fault == NOT_A_FILE ? "not_a_file" : strerrorname_np(fault);

    error_set(&text, 0, "%s: %s%s", f->path,
              fault == NOT_A_FILE ? "not a regular file"
              : fault == ELOOP    ? "symbolic links are not followed: name the file itself"
                                  : strerror(fault),
              unknown ? " (it may be in the file)" : "");
    for (size_t i = 0; i < f->token_count; i++) {
        if (fault == 0)
            result_ok(&ret[i], f->tokens[i]);
        else if (unknown)
            result_failed(&ret[i], f->tokens[i], SEND_UNKNOWN, reason_of(fault), name != NULL ? name : "",
                          pr_str(text.text));
        else
            result_unsent(&ret[i], f->tokens[i], reason_of(fault), name != NULL ? name : "", pr_str(text.text));
    }
}

static size_t file_poll(void *self, struct delivery_result *ret, size_t max, int64_t deadline_us)
{
    struct file *f = self;
    const struct delivery *d;
    bool may_start;
    size_t count = 0;

    if (f->waiting.count == 0)
        wait_until(-1, 0, f->config->wake_fd, f->clock, deadline_us);
    int64_t now_us = clock_mono_us(f->clock);
    buf_reset(&f->lines);
    f->token_count = 0;
    f->large.size = 0;
    while (count + f->token_count < max && f->lines.size < FILE_PIECE_BYTES && f->large.size == 0 &&
           (d = delivery_queue_peek(&f->waiting, now_us, &may_start)) != NULL) {
        if (!may_start)
            result_returned(&ret[count++], d->token);
        else
            count += !add_line(f, d, &ret[count]);
        delivery_queue_drop(&f->waiting);
    }
    if (f->token_count > 0)
        judge(f, ret + count);
    return count + f->token_count;
}

static void file_cancel(void *self)
{
    struct file *f = self;
    delivery_queue_cancel(&f->waiting);
}

const struct transport_ops transport_file = {
    .scheme = "file",
    .size = sizeof(struct file),
    .concurrency = FILE_CONCURRENCY,
    .check = file_check,
    .open = file_open,
    .close = file_close,
    .submit = file_submit,
    .poll = file_poll,
    .cancel = file_cancel,
};
