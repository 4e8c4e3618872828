/* The file transport: the file's content after faults, and after it was moved away. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/util.h"
#include "check.h"
#include "transport/cloudevents.h"
#include "world.h"

static struct world w;
static char path[256], moved[256];

static void begin(const char *content)
{
    world_prepare(&w, &harness_file, 0);
    snprintf(path, sizeof(path), "%s/audit.jsonl", harness_folder());
    snprintf(moved, sizeof(moved), "%s/audit.jsonl.1", harness_folder());
    if (content != NULL) {
        FILE *f = fopen(path, "we");
        CHECK(f != NULL && fputs(content, f) >= 0 && fclose(f) == 0);
    }
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

static void send_one(void)
{
    world_add(&w, "", PR_STR("{\n \"a\": 1 }"), WISH_OK);
    world_run(&w);
}

/* The whole file, until the next call. */
static const char *content(void)
{
    static char text[4096];
    FILE *f = fopen(path, "re");
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

TEST(file_writes_one_line_for_json_of_several)
{
    begin(NULL);
    world_open(&w);
    send_one();
    CHECK(strstr(content(), "\"data\":{  \"a\": 1 }}\n") != NULL);
    CHECK_EQ(strchr(content(), '\n') - content() + 1, size_of(path));
    world_fini(&w);
}

TEST(file_takes_away_a_piece_of_a_line_of_its_own_and_ends_all_others) /* B206 */
{
    static const struct {
        const char *before, *kept;
    } table[] = {
        { "{\"id\":1}\n{\"specversion\":\"1.0\",\"da", "{\"id\":1}\n" },
        { "{\"spec", "" },
        { "{\"id\":1}\n{\"id\":2,\"da", "{\"id\":1}\n{\"id\":2,\"da\n" }, /* who knows whose it is */
        { "root:x:0:0", "root:x:0:0\n" },
        { "{\"id\":1}\n{\"id\":2}", "{\"id\":1}\n{\"id\":2}\n" },
        { "{\"id\":1}\n", "{\"id\":1}\n" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        begin(table[i].before);
        world_open(&w);
        send_one();
        CHECK_EQ(w.results[0].outcome, SEND_OK);
        CHECK(strncmp(content(), table[i].kept, strlen(table[i].kept)) == 0);
        CHECK(strncmp(content() + strlen(table[i].kept), "{\"specversion\"", 14) == 0);
        world_fini(&w);
    }
}

TEST(file_follows_its_name_when_it_was_moved)
{
    begin(NULL);
    world_open(&w);
    send_one();
    off_t before = size_of(path);
    CHECK_EQ(rename(path, moved), 0);
    send_one();
    CHECK_EQ(w.results[1].outcome, SEND_OK);
    CHECK_EQ(size_of(moved), before);
    CHECK(size_of(path) > 0);
    world_fini(&w);
}

/* Is the whole file the lines of all messages? */
static bool has_lines_of_all(void)
{
    struct buf wanted;
    buf_init(&wanted, SIZE_MAX / 4);
    for (size_t i = 0; i < w.message_count; i++)
        cloudevent_write_line(&wanted, &w.messages[i], w.config.source);
    char *got = calloc(1, wanted.size + 2);
    FILE *f = fopen(path, "re");
    CHECK(got != NULL && f != NULL && buf_failed(&wanted) == 0);
    bool same = slice_eq(PR_BYTES(got, fread(got, 1, wanted.size + 1, f)), buf_slice(&wanted));
    fclose(f);
    free(got);
    buf_fini(&wanted);
    return same;
}

#define LARGE ((size_t)12 * 208334 + 2) /* more than is copied at once; one byte before and behind whole characters */

/* A payload of LARGE bytes that begins, goes on and ends like this. */
static pr_slice large(char *bytes, pr_slice begin_with, const char *unit, char last)
{
    memcpy(bytes, begin_with.data, begin_with.size);
    for (size_t i = begin_with.size; i < LARGE; i++)
        bytes[i] = unit[(i - begin_with.size) % strlen(unit)];
    bytes[LARGE - 1] = last;
    return PR_BYTES(bytes, LARGE);
}

/* Its line is made in pieces, which must not cut a character or a group of base64, nor leave a line break. */
TEST(file_writes_a_large_payload_like_any_other)
{
    static const struct {
        pr_slice begin_with;
        const char *unit;
        char last;
        const char *member;
    } table[] = {
        { { "[ 1 ", 4 }, " \n", ']', "\"data\":[ 1 " },          { { "\"", 1 }, "x\xc3\xa4", '"', "\"data\":\"x" },
        { { "x", 1 }, "\xf0\x9f\x90\x8e", '!', "\"data\":\"x" }, { { "[", 1 }, "1,\n\r", ' ', "\"data\":\"[1,\\n\\r" },
        { { ".\xc3", 2 }, "abc", '.', "\"data_base64\":\"Ls" },
    };
    char *bytes = malloc(LARGE);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        begin(NULL);
        world_open(&w);
        send_one();
        world_add(&w, "", large(bytes, table[i].begin_with, table[i].unit, table[i].last), WISH_OK);
        world_add(&w, "", PR_STR("{}"), WISH_OK);
        world_run(&w);
        CHECK(has_lines_of_all() && strstr(content(), table[i].member) != NULL);
        world_fini(&w);
    }
    free(bytes);
}

/* The limit of the process stands for the end of the disk: the write ends in the middle of a line. */
TEST(file_on_a_full_disk_leaves_no_piece_and_goes_on_later)
{
    struct rlimit saved, small;
    begin(NULL);
    world_open(&w);
    send_one();
    off_t before = size_of(path);
    signal(SIGXFSZ, SIG_IGN);
    char *bytes = malloc(LARGE);
    CHECK(bytes != NULL);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &saved), 0);
    for (size_t i = 1; i <= 2; i++) { /* a small one, and in a later piece of a large one */
        small = saved;
        small.rlim_cur = (rlim_t)before + (i == 1 ? 20 : LARGE - 20);
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
        world_add(&w, "", i == 1 ? PR_STR("{}") : large(bytes, PR_STR("["), " ", ']'), WISH_OK);
        world_run(&w);
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &saved), 0);
        CHECK_EQ(w.results[i].outcome, SEND_FAILED);
        CHECK_EQ(w.results[i].reason, PR_REASON_DEPENDENCY_FAILURE);
        CHECK_STR(w.results[i].code, "EFBIG");
        CHECK(strstr(w.results[i].error, "audit.jsonl: File too large") != NULL);
        CHECK_EQ(size_of(path), before);
    }
    free(bytes);
    send_one();
    CHECK_EQ(w.results[3].outcome, SEND_OK);
    world_fini(&w);
}

/* Whole lines with so much in each; -1: there is a piece of one. */
static int lines_with(size_t size)
{
    static char line[8192];
    int count = 0;
    FILE *f = fopen(path, "re");
    for (; fgets(line, sizeof(line), f) != NULL; count++)
        if (strlen(line) < size || strcmp(line + strlen(line) - 2, "}\n") != 0)
            return -1;
    CHECK_EQ(fclose(f), 0);
    return count;
}

/* 50 of 4 KB, and so many are in already; how many are then. */
static int fill(int before)
{
    static char body[4000];
    size_t first = w.message_count;
    int ok = 0;
    memset(body, 'x', sizeof(body));
    for (size_t i = 0; i < 50; i++)
        world_add(&w, "", PR_BYTES(body, sizeof(body)), WISH_OK);
    world_run(&w);
    for (size_t i = first; i < w.message_count; i++) {
        ok += w.results[i].outcome == SEND_OK;
        if (w.results[i].outcome == SEND_OK)
            continue;
        CHECK_EQ(w.results[i].outcome, SEND_FAILED);
        CHECK_EQ(w.results[i].reason, PR_REASON_DEPENDENCY_FAILURE);
        CHECK_STR(w.results[i].code, "ENOSPC");
        CHECK(strstr(w.results[i].error, "audit.jsonl: No space left on device") != NULL);
    }
    CHECK_EQ(lines_with(sizeof(body)), before + ok);
    return before + ok;
}

/* A small disk in a mount namespace of our own, which ends with this process; only root can have one. */
TEST(file_that_fills_the_disk_fails_whole_batches_and_leaves_no_piece)
{
    begin(NULL);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", harness_folder(), "tmpfs", 0, "size=64k") < 0) {
        world_fini(&w);
        SKIP("a disk of our own needs root");
    }
    world_open(&w);
    int kept = fill(0);
    CHECK(kept < 16);
    CHECK_EQ(mount("none", harness_folder(), "tmpfs", MS_REMOUNT, "size=1m"), 0);
    CHECK_EQ(fill(kept), kept + 50);
    CHECK_EQ(umount2(harness_folder(), MNT_DETACH), 0);
    world_fini(&w);
}

TEST(file_says_why_it_cannot_be_written)
{
    static const struct {
        const char *url;
        int reason;
        const char *code;
    } table[] = {
        { "file:///dev/null", PR_REASON_DESTINATION_MISSING, "not_a_file" },
        { "file:/tmp", PR_REASON_DESTINATION_MISSING, "EISDIR" },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        begin(NULL);
        w.config.url = table[i].url;
        world_open(&w);
        send_one();
        CHECK_EQ(w.results[0].reason, table[i].reason);
        CHECK_STR(w.results[0].code, table[i].code);
        world_fini(&w);
    }
}

TEST(file_does_not_follow_a_link) /* B206 */
{
    begin("theirs");
    CHECK_EQ(rename(path, moved), 0);
    CHECK_EQ(symlink(moved, path), 0);
    world_open(&w);
    send_one();
    CHECK_EQ(w.results[0].reason, PR_REASON_DESTINATION_MISSING);
    CHECK_STR(w.results[0].code, "ELOOP");
    CHECK(strstr(w.results[0].error, "name the file itself") != NULL);
    CHECK_EQ(size_of(moved), 6);
    world_fini(&w);
}

TEST(file_whose_folder_goes_away_says_so)
{
    char folder[200], url[250];
    begin(NULL);
    snprintf(folder, sizeof(folder), "%s/gone", harness_folder());
    snprintf(url, sizeof(url), "file:%s/audit.jsonl", folder);
    CHECK_EQ(mkdir(folder, 0700), 0);
    w.config.url = url;
    world_open(&w);
    CHECK_EQ(rmdir(folder), 0);
    send_one();
    CHECK_EQ(w.results[0].reason, PR_REASON_DESTINATION_MISSING);
    CHECK_STR(w.results[0].code, "ENOENT");
    world_fini(&w);
}

TEST(file_needs_a_folder_that_is_there)
{
    static const struct {
        const char *url, *text;
    } table[] = { { "file:nowhere/audit.jsonl", "endpoint x: folder nowhere: No such file or directory; create it" },
                  { "file:///nowhere/deeper/audit.jsonl", "folder /nowhere/deeper: No such file or directory" },
                  { "file:///dev/null/audit.jsonl", "/dev/null is not a folder" } };
    struct pr_error error;
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
        struct endpoint_config config = { .name = "x", .url = table[i].url, .wake_fd = -1 };
        CHECK_EQ(transport_check(&config, &error), PR_ECONFIG);
        CHECK(strstr(error.text, table[i].text) != NULL);
    }
    CHECK_EQ(transport_check(&(struct endpoint_config){ .name = "x", .url = "file:a", .wake_fd = -1 }, &error), PR_OK);
    CHECK_EQ(transport_check(&(struct endpoint_config){ .name = "x", .url = "file:/a", .wake_fd = -1 }, &error), PR_OK);
}

TEST(file_raw_holds_payloads_of_one_line)
{
    begin(NULL);
    w.config.envelope = "raw";
    world_open(&w);
    world_add(&w, "", PR_STR("{\"a\":1}"), WISH_OK);
    world_add(&w, "", PR_STR("one\ntwo"), WISH_OK);
    world_run(&w);
    CHECK_EQ(w.results[0].outcome, SEND_OK);
    CHECK_EQ(w.results[1].reason, PR_REASON_SERIALIZATION_ERROR);
    CHECK_STR(content(), "{\"a\":1}\n");
    char *bytes = malloc(LARGE);
    CHECK(bytes != NULL);
    world_add(&w, "", large(bytes, PR_STR("<"), "ab", '>'), WISH_OK);
    world_run(&w);
    CHECK_EQ(size_of(path), 8 + (off_t)LARGE + 1);
    world_fini(&w);
    free(bytes);
}

TEST(file_does_not_wait_for_ever_for_a_lock)
{
    begin("");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(flock(fd, LOCK_EX), 0);
    world_open(&w);
    send_one();
    CHECK_EQ(w.results[0].reason, PR_REASON_DEPENDENCY_FAILURE);
    CHECK_STR(w.results[0].code, "EAGAIN");
    close(fd);
    send_one();
    CHECK_EQ(w.results[1].outcome, SEND_OK);
    world_fini(&w);
}
