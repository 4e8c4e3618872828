/* file: lines of a growing file, or of the standard input.
 *
 *   file:/var/log/orders.jsonl        file:-        file:audit.log?format=text
 *
 * The position is stored with the rows (S1): each line is stored once, even after crashes.
 *
 *   F1  A line counts when its end is there.  The last line of a rotated file ends with the file.
 *   F2  When the path names another file (rotation), the old one is first read to its end, which is reached when it has
 *       not grown for
 *       a while.  After a restart it is looked for in its folder.
 *   F3  When the file is shorter than what was read of it, or begins differently (truncated, and rewritten), it is read
 *       from its
 *       beginning.  So a position identifies the file, its beginning, and how often it was restarted:
 *
 *           generation . inode . offset . bytes of the beginning . digest of these
 *   F4  Instances share the position by the source's name.  If another instance reads another file, as on two machines
 *       with
 *       one configuration, neither may take the other's position for a rotated file: each would send the other back to
 *       the
 *       beginning of its file, endlessly.  An instance that detects this stops and reports it.
 *
 * The standard input has no position: what was read and not stored is lost with the process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "base/util.h"
#include "core/message.h"
#include "source/broker/broker.h"
#include "source/file/lines.h"

#define READ_SIZE 65536
#define HEAD_SIZE 1024                 /* bytes that identify a file */
#define LOOK_US PR_MILLISECONDS(50)    /* between two looks at an idle file */
#define ROTATED_QUIET_US PR_SECONDS(2) /* a rotated file counts as complete after this time without growth */
#define POSITION_SIZE 128

/* A position in a file. */
struct file_place {
    uint64_t generation; /* 0: none yet */
    uint64_t inode, offset;
    uint64_t head_size, head_hash;
};

struct file_source {
    struct broker *broker;
    const char *path;
    bool is_stdin, is_text;
    int fd; /* -1: none is open */
    struct file_place stored, now;
    char from[POSITION_SIZE], to[POSITION_SIZE];
    bool knows;     /* the stored position was read */
    uint64_t inode; /* of the file that was last open; 0: none */
    bool was_moved; /* another instance has stored a position in another file */
    struct lines lines;
    uint64_t read_offset; /* in the file: after the content of `lines` */
    int64_t grown_us;     /* monotonic: when it last grew */
    bool is_over;         /* stdin: it has ended */
    bool is_cut;          /* the last line of the batch was too long */
};

/* ---- The url ------------------------------------------------------------------------------------------ */

static int wrong(const struct endpoint_config *config, const char *what, struct pr_error *reterr)
{
    return error_set(reterr, PR_ECONFIG, "%s: the url is not valid: %s", endpoint_title(config).text, what);
}

static int file_parse(const struct endpoint_config *config, struct arena *arena, struct broker_url *ret,
                      struct pr_error *reterr)
{
    pr_slice text = slice_from(config->url);
    if (!slice_starts_with(text, PR_STR("file:")))
        return wrong(config, "begin it with file:, such as file:orders.jsonl; file:- is the standard input", reterr);
    const char *mark = strchr(config->url, '?');
    pr_slice params = mark != NULL ? slice_from(mark + 1) : PR_STR("");
    *ret = (struct broker_url){ .port = 0 };
    ret->path = slice_dup(arena, (pr_slice){ text.data + 5, text.size - 5 - (mark != NULL ? params.size + 1 : 0) });
    if (ret->path.data == NULL)
        return error_set(reterr, PR_ENOMEM, "out of memory for the url of a source");
    if (ret->path.size == 0)
        return wrong(config, "it names no file", reterr);
    if (mark == NULL)
        return PR_OK;
    bool is_text = slice_eq_cstr(params, "format=text");
    if (!is_text && !slice_eq_cstr(params, "format=json"))
        return wrong(config, "format is json or text, and there are no other parameters", reterr);
    ret->params[ret->param_count++] =
        (struct broker_param){ PR_STR("format"), is_text ? PR_STR("text") : PR_STR("json") };
    return PR_OK;
}

static pr_slice file_address(const struct broker_url *url)
{
    return url->path;
}

/* ---- Places ----------------------------------------------------------------------------------------------- */

static void place_write(const struct file_place *p, char ret[POSITION_SIZE])
{
    snprintf(ret, POSITION_SIZE, "%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%" PRIx64, p->generation, p->inode,
             p->offset, p->head_size, p->head_hash);
}

static bool place_read(const char *text, struct file_place *ret)
{
    int size = 0;
    return sscanf(text, "%" SCNu64 ".%" SCNu64 ".%" SCNu64 ".%" SCNu64 ".%" SCNx64 "%n", &ret->generation, &ret->inode,
                  &ret->offset, &ret->head_size, &ret->head_hash, &size) == 5 &&
           text[size] == '\0' && ret->head_size <= HEAD_SIZE;
}

/* The hash of up to `size` bytes of a file's beginning.  False: it has fewer, or cannot be read. */
static bool head_hash(int fd, uint64_t size, uint64_t *ret)
{
    char bytes[HEAD_SIZE];
    ssize_t got = pread(fd, bytes, (size_t)size, 0);
    *ret = got > 0 ? hash_bytes(HEAD_SIZE, bytes, (size_t)got) : 0;
    return got >= 0 && (uint64_t)got == size;
}

/* Is it the file of the position, and does it contain everything that was read? */
static bool is_at(int fd, const struct file_place *p)
{
    struct stat info;
    uint64_t hash;
    return fstat(fd, &info) == 0 && (uint64_t)info.st_ino == p->inode && (uint64_t)info.st_size >= p->offset &&
           head_hash(fd, p->head_size, &hash) && hash == p->head_hash;
}

/* Starts at the beginning of a file that was not read before. */
static void begin_file(struct file_source *f, int fd)
{
    struct stat info = { .st_ino = 0 };
    (void)fstat(fd, &info);
    f->fd = fd;
    f->now = (struct file_place){ .generation = f->now.generation + 1, .inode = (uint64_t)info.st_ino };
    f->inode = f->now.inode;
    f->read_offset = 0;
    f->grown_us = clock_mono_us(clock_system());
    lines_reset(&f->lines);
}

static void continue_file(struct file_source *f, int fd)
{
    f->fd = fd;
    f->inode = f->now.inode;
    f->was_moved = false;
    f->read_offset = f->now.offset;
    f->grown_us = clock_mono_us(clock_system());
    lines_reset(&f->lines);
}

/* ---- Files -------------------------------------------------------------------------------------------------- */

static int open_path(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* F2: the file that was read, under its new name.  -1: it is gone. */
static int find_aside(const struct file_source *f)
{
    char folder[4096], path[4096 + 300];
    const char *slash = strrchr(f->path, '/');
    int fd = -1;
    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)max64(slash - f->path, 1),
             slash == NULL ? "." : f->path);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && fd < 0 && (e = readdir(dir)) != NULL;) {
        if ((uint64_t)e->d_ino != f->now.inode)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        fd = open_path(path);
        if (fd >= 0 && !is_at(fd, &f->now)) {
            close(fd);
            fd = -1;
        }
    }
    if (dir != NULL)
        closedir(dir);
    return fd;
}

static int read_stored(struct file_source *f, struct pr_error *reterr)
{
    struct arena arena;
    pr_slice text;
    struct source *s = f->broker->source;
    arena_init(&arena, 256);
    int rc = store_position(s->store, slice_from(s->config->name), &arena, &text, reterr);
    if (rc == PR_OK && text.size > 0 && (text.size >= POSITION_SIZE || !place_read(text.data, &f->stored)))
        rc = error_set(reterr, PR_ESTORE,
                       "its position in the store is malformed: delete it to read the file again from the start");
    if (rc == PR_OK) {
        bool is_other = f->inode != 0 && !slice_eq_cstr(text, f->from) && f->stored.inode != f->inode;
        f->was_moved = text.size > 0 && (f->was_moved || is_other);
        snprintf(f->from, sizeof(f->from), "%.*s", SLICE_ARGS(text));
        f->now = text.size > 0 ? f->stored : (struct file_place){ .generation = 0 };
        f->knows = true;
    }
    arena_fini(&arena);
    return rc;
}

/* The file to continue with. */
static int open_file(struct file_source *f, struct pr_error *reterr)
{
    int fd = open_path(f->path), aside;
    if (fd < 0 && f->now.generation > 0 && (aside = find_aside(f)) >= 0) {
        continue_file(f, aside);
        return PR_OK;
    }
    if (fd < 0)
        return f->now.generation > 0 && errno == ENOENT
                   ? PR_OK /* it was rotated, and the next one does not exist yet */
                   : error_set(reterr, PR_EIO, "%s: %s", f->path, strerror(errno));
    if (f->now.generation > 0 && is_at(fd, &f->now)) {
        continue_file(f, fd);
    } else if (f->now.generation > 0 && (aside = find_aside(f)) >= 0) {
        close(fd);
        continue_file(f, aside);
    } else if (f->was_moved) { /* F4 */
        close(fd);
        return error_set(
            reterr, PR_ECONFIG,
            "%s: another instance reads another file as %s: give each instance's source a name of its own, "
            "for example name: orders-${HOSTNAME}, and restart",
            f->path, f->broker->source->config->name);
    } else {
        begin_file(f, fd);
    }
    return PR_OK;
}

static void close_file(struct file_source *f)
{
    if (f->fd >= 0 && !f->is_stdin)
        close(f->fd);
    f->fd = f->is_stdin ? f->fd : -1;
}

/* Does the path name another file than the open one? */
static bool is_rotated(const struct file_source *f)
{
    struct stat info;
    return stat(f->path, &info) == 0 ? (uint64_t)info.st_ino != f->now.inode : errno == ENOENT;
}

/* F3 */
static bool is_truncated(const struct file_source *f)
{
    return !is_at(f->fd, &f->now);
}

/* ---- Lines --------------------------------------------------------------------------------------------------- */

/* Reads more bytes: how many; 0: none.  Fault PR_EIO. */
static int read_more(struct file_source *f, size_t *ret, struct pr_error *reterr)
{
    char bytes[READ_SIZE];
    struct pollfd ready = { .fd = f->fd, .events = POLLIN };
    *ret = 0;
    if (f->is_stdin && poll(&ready, 1, 0) <= 0) /* the descriptor is shared, and may block */
        return PR_OK;
    ssize_t got =
        f->is_stdin ? read(f->fd, bytes, sizeof(bytes)) : pread(f->fd, bytes, sizeof(bytes), (off_t)f->read_offset);
    *ret = got > 0 ? (size_t)got : 0;
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        return error_set(reterr, PR_EIO, "%s: %s", f->path, strerror(errno));
    f->is_over = f->is_stdin && got == 0;
    if (*ret == 0)
        return PR_OK;
    lines_add(&f->lines, bytes, *ret);
    f->read_offset += *ret;
    f->grown_us = clock_mono_us(clock_system());
    if (buf_failed(&f->lines.bytes) == 0)
        return PR_OK;
    close_file(f);
    return error_set(reterr, PR_ENOMEM, "%s: out of memory for its lines", f->path);
}

static int add_line(struct file_source *f, struct intake *in, const struct line *line, struct pr_error *reterr)
{
    char position[64];
    int size = snprintf(position, sizeof(position), "%" PRIu64 ".%" PRIu64 ".%" PRIu64, f->now.generation, f->now.inode,
                        f->now.offset);
    struct received m = { .body = line->text,
                          .missing = line->missing,
                          .prefix = "",
                          .type = slice_from(f->path),
                          .is_letter = !f->is_text,
                          .position = f->is_stdin ? PR_STR("") : (pr_slice){ position, (size_t)size } };
    int rc = slice_trim(line->text).size + line->missing > 0 ? intake_add(in, &m, reterr) : PR_OK;
    f->now.offset += line->size;
    f->is_cut = line->missing > 0;
    return rc;
}

/* A line that was cut is the last of its batch (lines_add). */
static bool is_full(const struct file_source *f, const struct intake *in)
{
    return f->is_cut || intake_is_full(in);
}

/* All complete lines that fit. */
static int take_lines(struct file_source *f, struct intake *in, struct pr_error *reterr)
{
    struct line line;
    int rc = PR_OK;
    while (rc == PR_OK && !is_full(f, in) && lines_next(&f->lines, &line))
        rc = add_line(f, in, &line, reterr);
    return rc;
}

/* F1: no program will write its end any more. */
static int take_rest(struct file_source *f, struct intake *in, struct pr_error *reterr)
{
    struct line rest = lines_take_rest(&f->lines);
    return rest.size > 0 ? add_line(f, in, &rest, reterr) : PR_OK;
}

/* There is nothing to read: is this still the right file?  Afterwards another one may be open, or none. */
static int look_around(struct file_source *f, struct intake *in, struct pr_error *reterr)
{
    int rc = PR_OK;
    if (f->is_stdin)
        return f->is_over ? take_rest(f, in, reterr) : PR_OK;
    if (is_truncated(f)) {
        begin_file(f, f->fd);
    } else if (is_rotated(f) && clock_mono_us(clock_system()) - f->grown_us >= ROTATED_QUIET_US) {
        rc = take_rest(f, in, reterr);
        int fd = open_path(f->path);
        if (intake_size(in) == 0 && fd >= 0) { /* otherwise with the next batch: a position belongs to one file */
            close_file(f);
            begin_file(f, fd);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    return rc;
}

/* The position after the batch. */
static void note_move(struct file_source *f, struct intake *in)
{
    if (f->is_stdin || intake_size(in) == 0)
        return;
    if (f->now.head_size < HEAD_SIZE) {
        f->now.head_size = f->now.offset < HEAD_SIZE ? f->now.offset : HEAD_SIZE;
        (void)head_hash(f->fd, f->now.head_size, &f->now.head_hash);
    }
    place_write(&f->now, f->to);
    in->move = (struct position_move){ .source = slice_from(f->broker->source->config->name),
                                       .from = slice_from(f->from),
                                       .to = slice_from(f->to) };
}

static int open_here(struct file_source *f, struct pr_error *reterr)
{
    if (f->is_stdin || f->fd >= 0)
        return PR_OK;
    int rc = f->knows ? PR_OK : read_stored(f, reterr);
    return rc == PR_OK ? open_file(f, reterr) : rc;
}

static bool rest(const struct file_source *f, int wake_fd)
{
    struct pollfd fds[] = { { .fd = wake_fd, .events = POLLIN }, { .fd = f->fd, .events = POLLIN } };
    if (!f->is_stdin || f->is_over)
        return source_rest(wake_fd, f->is_over ? BROKER_WAIT_US : LOOK_US);
    return poll(fds, 2, (int)(BROKER_WAIT_US / PR_MILLISECONDS(1))) > 0 && fds[0].revents != 0;
}

static int file_receive(void *self, struct intake *in, int wake_fd, struct pr_error *reterr)
{
    struct file_source *f = self;
    int64_t until_us = clock_mono_us(clock_system()) + BROKER_WAIT_US;
    if (f->fd >= 0 && !f->is_stdin && is_truncated(f))
        begin_file(f, f->fd);
    int rc = open_here(f, reterr);
    f->is_cut = false;
    while (rc == PR_OK && !is_full(f, in)) {
        size_t got = 0;
        rc = f->fd >= 0 ? take_lines(f, in, reterr) : open_here(f, reterr);
        if (rc == PR_OK && f->fd >= 0 && !is_full(f, in) && !f->is_over)
            rc = read_more(f, &got, reterr);
        if (rc == PR_OK && got > 0 && f->lines.cut > 0 && source_rest(wake_fd, 0)) /* a line may have any length */
            break;
        if (rc != PR_OK || got > 0)
            continue;
        if (intake_size(in) == 0 && f->fd >= 0)
            rc = look_around(f, in, reterr);
        if (rc != PR_OK || intake_size(in) > 0 || clock_mono_us(clock_system()) >= until_us || rest(f, wake_fd))
            break;
    }
    if (rc == PR_OK)
        note_move(f, in);
    return rc;
}

static int file_acknowledge(void *self, struct pr_error *reterr)
{
    struct file_source *f = self;
    (void)reterr;
    if (f->to[0] != '\0') {
        memcpy(f->from, f->to, sizeof(f->from));
        f->stored = f->now;
    }
    f->to[0] = '\0';
    lines_keep(&f->lines);
    return PR_OK;
}

/* Reading continues at the position in the store. */
static void file_drop(void *self)
{
    struct file_source *f = self;
    close_file(f);
    f->knows = false;
    f->to[0] = '\0';
    if (f->is_stdin)
        lines_go_back(&f->lines); /* nothing else has these lines */
    else
        lines_reset(&f->lines);
}

/* ---- The source --------------------------------------------------------------------------------------------- */

static int file_open(void *self, struct broker *broker, struct pr_error *reterr)
{
    struct file_source *f = self;
    f->broker = broker;
    f->path = broker->url.path.data;
    f->is_stdin = strcmp(f->path, "-") == 0;
    f->is_text = slice_eq_cstr(broker_url_param(&broker->url, "format", "json"), "text");
    f->fd = f->is_stdin ? STDIN_FILENO : -1;
    lines_init(&f->lines, INTAKE_BYTES_MAX + 2 * broker_message_max(broker) + 2 * READ_SIZE,
               broker_message_max(broker));
    return f->is_stdin || broker->source->store->ops->sql != NULL
               ? PR_OK
               : error_set(reterr, PR_ECONFIG, "source %s: this store cannot keep the position of a file",
                           broker->config.name);
}

static void file_close(void *self)
{
    struct file_source *f = self;
    if (f->broker == NULL)
        return;
    close_file(f);
    lines_fini(&f->lines);
}

static const struct broker_ops file_broker = {
    .kind = "file",
    .size = sizeof(struct file_source),
    .parse = file_parse,
    .address = file_address,
    .open = file_open,
    .close = file_close,
    .receive = file_receive,
    .acknowledge = file_acknowledge,
    .drop = file_drop,
};

static int file_source_open(struct source *source, void **ret_self, struct pr_error *reterr)
{
    return broker_open(source, &file_broker, ret_self, reterr);
}

const struct source_ops source_file = {
    .broker = &file_broker, .open = file_source_open, .run = broker_run, .close = broker_close
};
