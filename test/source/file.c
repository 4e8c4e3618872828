/* file as a source: the suite's other side writes lines, and tests of files alone. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/utf8.h"
#include "check.h"
#include "source/decode.h"
#include "world.h"

static char folder[64], path[100], aside[110];

static void remove_folder(void)
{
    unlink(path);
    unlink(aside);
    rmdir(folder);
}

static void append(const char *to, pr_slice bytes)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes.data, bytes.size), (ssize_t)bytes.size);
    close(fd);
}

static void text(const char *bytes)
{
    append(path, slice_from(bytes));
}

static void file_start(struct world *w)
{
    if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "/tmp/postrider-source-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
        snprintf(path, sizeof(path), "%s/orders.jsonl", folder);
        snprintf(aside, sizeof(aside), "%s.1", path);
        atexit(remove_folder);
    }
    unlink(path);
    unlink(aside);
    text("");
    snprintf(w->url, sizeof(w->url), "file:%s", path);
}

static void write_data(struct json_writer *j, const struct post *p, const char *name, const char *base64_name)
{
    struct buf coded;
    bool is_event = p->attributes[0].name != NULL;
    buf_init(&coded, 10 << 20);
    if (is_event && p->content_type != NULL && media_type_is(slice_from(p->content_type), "application/json")) {
        json_key(j, name);
        json_raw(j, p->body);
    } else if (utf8_valid(p->body)) {
        json_key(j, name);
        json_slice(j, p->body);
    } else {
        json_key(j, base64_name);
        base64_encode(&coded, p->body);
        json_slice(j, buf_slice(&coded));
    }
    buf_fini(&coded);
}

/* A CloudEvent, or a message as people write it; what is structured already is a line as it is. */
static void file_publish(struct world *w, const struct post *p)
{
    struct buf line;
    struct json_writer j;
    bool is_event = p->attributes[0].name != NULL;
    (void)w;
    buf_init(&line, 10 << 20);
    if (p->content_type != NULL && media_type_is(slice_from(p->content_type), "application/cloudevents+json")) {
        buf_add_slice(&line, p->body);
    } else {
        json_init(&j, &line);
        json_begin_object(&j);
        for (int i = 0; i < POST_PAIRS_MAX && p->attributes[i].name != NULL; i++) {
            json_key(&j, p->attributes[i].name);
            json_slice(&j, p->attributes[i].value);
        }
        if (p->content_type != NULL) {
            json_key(&j, is_event ? "datacontenttype" : "content_type");
            json_cstr(&j, p->content_type);
        }
        write_data(&j, p, is_event ? "data" : "payload", is_event ? "data_base64" : "payload_base64");
        json_end_object(&j);
    }
    buf_add_char(&line, '\n');
    append(path, buf_slice(&line));
    buf_fini(&line);
}

/* It is put aside, and there is no other one for a moment. */
static void file_restart(struct world *w)
{
    (void)w;
    CHECK_EQ(rename(path, aside), 0);
    usleep(20000);
}

static int64_t file_left(struct world *w)
{
    (void)w;
    return -1;
}

static const struct harness harness = {
    .kind = "file",
    .is_positioned = true,
    .keeps_position = true,
    .start = file_start,
    .publish = file_publish,
    .restart = file_restart,
    .left = file_left,
};
const struct harness *const harness_here = &harness;

/* ---- What is the file's own --------------------------------------------------------------------------------- */

static struct world w;

static void run(void)
{
    world_run(&w, 1000000);
}

#define LINE(n) "{\"type\":\"t\",\"payload\":" #n "}\n"

static void check_payloads(size_t count, const char *const *wanted)
{
    const struct query_reply *rows = world_rows(&w, count);
    for (size_t i = 0; i < count; i++)
        CHECK_SLICE(rows->listed[i].m.payload, wanted[i]);
}

TEST(file_the_last_line_waits_for_its_end_also_over_a_restart)
{
    world_init(&w);
    text(LINE(1) "\n  \r\n{\"type\":\"t\",\"pay");
    run();
    (void)world_rows(&w, 1);
    usleep(200000);
    (void)world_rows(&w, 1);
    world_stop(&w);
    text("load\":2}\r\n");
    run();
    check_payloads(2, (const char *const[]){ "1", "2" });
    world_fini(&w);
}

TEST(file_that_was_put_aside_is_read_to_its_end_before_the_next_one) /* B91 */
{
    world_init(&w);
    text(LINE(1));
    run();
    (void)world_rows(&w, 1);
    CHECK_EQ(rename(path, aside), 0);
    append(aside, PR_STR(LINE(2) "{\"type\":\"t\",\"payload\":3}")); /* whoever writes has it still open */
    text(LINE(4));
    check_payloads(4, (const char *const[]){ "1", "2", "3", "4" });
    text(LINE(5));
    check_payloads(5, (const char *const[]){ "1", "2", "3", "4", "5" });
    world_fini(&w);
}

TEST(file_that_was_put_aside_while_nobody_read_is_found_again)
{
    world_init(&w);
    text(LINE(1));
    run();
    (void)world_rows(&w, 1);
    world_stop(&w);
    text(LINE(2));
    CHECK_EQ(rename(path, aside), 0);
    text(LINE(3));
    run();
    check_payloads(3, (const char *const[]){ "1", "2", "3" });
    world_fini(&w);
}

TEST(file_that_is_written_anew_is_read_from_its_beginning_however_long_it_is)
{
    world_init(&w);
    text(LINE(1) LINE(2));
    run();
    (void)world_rows(&w, 2);
    CHECK_EQ(truncate(path, 0), 0);
    text(LINE(3));
    (void)world_rows(&w, 3);
    world_stop(&w);
    CHECK_EQ(truncate(path, 0), 0); /* longer than before, when somebody looks again */
    text(LINE(4) LINE(5) LINE(6));
    run();
    check_payloads(6, (const char *const[]){ "1", "2", "3", "4", "5", "6" });
    world_fini(&w);
}

TEST(file_lines_of_text_are_payloads)
{
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "file:%s?format=text", path);
    text("Jan 1 00:00:00 hello\r\n{\"a\":1}\n");
    run();
    const struct query_reply *rows = world_rows(&w, 2);
    CHECK_SLICE(rows->listed[0].m.payload, "Jan 1 00:00:00 hello");
    CHECK_SLICE(rows->listed[0].m.content_type, "text/plain; charset=utf-8");
    CHECK_SLICE(rows->listed[0].m.type, path);
    CHECK_SLICE(rows->listed[1].m.content_type, "application/json");
    world_fini(&w);
}

TEST(file_that_is_not_there_is_told_and_read_when_it_is)
{
    world_init(&w);
    unlink(path);
    run();
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "No such file or directory") != NULL);
    text(LINE(1));
    (void)world_rows(&w, 1);
    WAIT_FOR(world_status(&w).state == SOURCE_RUNNING);
    world_fini(&w);
}

static void *run_other(void *arg)
{
    source_run(arg, w.wake_fd);
    return NULL;
}

static void stop_both(struct source *other, pthread_t thread)
{
    uint64_t one = 1;
    CHECK_EQ(write(w.wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    source_close(other);
    CHECK_EQ(pthread_join(w.thread, NULL), 0);
    w.runs = false;
    source_close(&w.source);
    world_fini(&w);
}

/* Of two instances each stores what the other has not. */
TEST(file_that_two_read_is_stored_once)
{
    enum { COUNT = 2000 };
    struct pr_error error = { 0 };
    struct source other;
    pthread_t thread;
    world_init(&w);
    for (int i = 0; i < COUNT; i++) {
        char line[64];
        snprintf(line, sizeof(line), "{\"type\":\"t\",\"payload\":%d}\n", i);
        text(line);
    }
    run();
    other = world_source(&w, 1000000);
    CHECK_OK(source_open(&other, &error), &error);
    CHECK_EQ(pthread_create(&thread, NULL, run_other, &other), 0);
    const struct query_reply *rows = world_rows(&w, COUNT);
    for (int i = 0; i < COUNT; i++) {
        char payload[16];
        snprintf(payload, sizeof(payload), "%d", i);
        CHECK_SLICE(rows->listed[i].m.payload, payload);
    }
    stop_both(&other, thread);
}

/* As on two machines: a path of each, and one name for both. */
TEST(file_of_another_instance_under_the_same_name_is_reported_and_nothing_is_read_again) /* B91 */
{
    struct pr_error error = { 0 };
    struct source there;
    struct source_config config;
    pthread_t thread;
    char other_folder[] = "/tmp/postrider-there-XXXXXX", other_path[120], other_url[140];
    world_init(&w);
    CHECK(mkdtemp(other_folder) != NULL);
    snprintf(other_path, sizeof(other_path), "%s/orders.jsonl", other_folder);
    snprintf(other_url, sizeof(other_url), "file:%s", other_path);
    text(LINE(1) LINE(2));
    append(other_path, PR_STR(LINE(3) LINE(4)));
    run();
    (void)world_rows(&w, 2);
    there = world_source(&w, 1000000);
    config = w.config;
    config.urls[SOURCE_FILE] = other_url;
    there.config = &config;
    CHECK_OK(source_open(&there, &error), &error);
    CHECK_EQ(pthread_create(&thread, NULL, run_other, &there), 0);
    check_payloads(4, (const char *const[]){ "1", "2", "3", "4" });
    text(LINE(5));
    WAIT_FOR(world_status(&w).state == SOURCE_FAILING);
    CHECK(strstr(world_status(&w).trouble.text, "another instance reads another file") != NULL);
    append(other_path, PR_STR(LINE(6)));
    check_payloads(5, (const char *const[]){ "1", "2", "3", "4", "6" });
    usleep(500000); /* a few times it is tried again */
    (void)world_rows(&w, 5);
    unlink(other_path);
    rmdir(other_folder);
    stop_both(&there, thread);
}

TEST(file_the_standard_input_is_stored_line_by_line_also_after_a_store_that_refused)
{
    int ends[2], before = dup(STDIN_FILENO);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "file:-");
    w.config.name = "file:-";
    world_mood(STORE_REFUSES);
    run();
    CHECK_EQ(write(ends[1], LINE(1) "{\"type\":\"t\",", strlen(LINE(1)) + 12), (ssize_t)strlen(LINE(1)) + 12);
    WAIT_FOR(world_refusals() > 1);
    world_mood(STORE_FINE);
    (void)world_rows(&w, 1);
    CHECK_EQ(write(ends[1], "\"payload\":2}", 12), 12);
    close(ends[1]);
    check_payloads(2, (const char *const[]){ "1", "2" });
    world_stop(&w);
    CHECK_EQ(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
    world_fini(&w);
}

/* Lines of several megabytes, with and without an end, between others; `to` writes as whoever has it open. */
static void put_long_lines(int to)
{
    enum { PIECE = 500000, PIECES = 8 };
    static char piece[PIECE];
    memset(piece, 'x', sizeof(piece));
    for (int line = 0; line < 3; line++) {
        for (int i = 0; i < PIECES; i++)
            for (size_t done = 0; done < PIECE;) {
                ssize_t put = write(to, piece + done, PIECE - done);
                CHECK(put > 0);
                done += (size_t)put;
            }
        if (line < 2)
            CHECK_EQ(write(to, "\r\n" LINE(7), strlen("\r\n" LINE(7))), (ssize_t)strlen("\r\n" LINE(7)));
    }
}

static void check_long_lines(size_t before)
{
    (void)world_rows(&w, before + 2);
    const struct query_reply *dead = world_dead(&w, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK(slice_contains(dead->listed[i].m.error, PR_STR("it has 400000")));
        CHECK_EQ(dead->listed[i].m.payload.size, 393216);
    }
    CHECK_EQ(world_status(&w).state, SOURCE_RUNNING);
}

TEST(file_lines_that_are_far_too_long_are_dead_letters_once_also_over_a_restart_and_at_the_end) /* B91 */
{
    world_init(&w);
    text(LINE(1));
    run();
    (void)world_rows(&w, 1);
    int to = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    world_mood(STORE_REFUSES);
    put_long_lines(to);
    close(to);
    WAIT_FOR(world_refusals() > 0);
    world_stop(&w);
    world_mood(STORE_FINE);
    run();
    (void)world_rows(&w, 3);
    CHECK_EQ(rename(path, aside), 0); /* now the last line has its end */
    text("");
    check_long_lines(1);
    text(LINE(8));
    (void)world_rows(&w, 4);
    (void)world_dead(&w, 3);
    world_fini(&w);
}

TEST(file_a_long_line_of_the_standard_input_is_a_dead_letter_also_after_a_store_that_refused) /* B91 */
{
    int ends[2], before = dup(STDIN_FILENO);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    world_init(&w);
    snprintf(w.url, sizeof(w.url), "file:-");
    w.config.name = "file:-";
    world_mood(STORE_REFUSES);
    run();
    CHECK_EQ(write(ends[1], LINE(1), strlen(LINE(1))), (ssize_t)strlen(LINE(1)));
    WAIT_FOR(world_refusals() > 1);
    world_mood(STORE_FINE);
    put_long_lines(ends[1]);
    close(ends[1]);
    check_long_lines(1);
    world_stop(&w);
    CHECK_EQ(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
    world_fini(&w);
}

TEST(file_urls_that_are_wrong_are_refused)
{
    static const char *const urls[] = { "file:", "file:x?format=xml", "http://x", "file:x?a=b" };
    struct pr_error error = { 0 };
    const char *name;
    world_init(&w);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        w.config.urls[SOURCE_FILE] = urls[i];
        CHECK_EQ(source_check_url(&w.config, &w.arena, &name, &error), PR_ECONFIG);
    }
    world_fini(&w);
}
