#include "peer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "check.h"

#define ANSWER_MAX (256u << 20)
#define WAIT_MAX_US PR_SECONDS(20)

static void run_receiver(int input, int output, const char *option1, const char *option2)
{
    const char *program = getenv("RECEIVER");
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    closefrom(STDERR_FILENO + 1);
    if (program != NULL)
        execl(program, program, option1, option2, (char *)NULL);
    perror("RECEIVER");
    _exit(127);
}

void peer_start(struct peer *peer, const char *option1, const char *option2)
{
    int input[2], output[2];
    CHECK(getenv("RECEIVER") != NULL);
    CHECK(pipe(input) == 0 && pipe(output) == 0);
    fflush(NULL);
    peer->pid = fork();
    CHECK(peer->pid >= 0);
    if (peer->pid == 0)
        run_receiver(input[0], output[1], option1, option2);
    close(input[0]);
    close(output[1]);
    peer->input = input[1];

    FILE *lines = fdopen(output[0], "r");
    CHECK(lines != NULL);
    CHECK_EQ(fscanf(lines, "%u", &peer->port), 1);
    fclose(lines);
}

void peer_stop(struct peer *peer)
{
    if (peer->pid <= 0)
        return;
    close(peer->input);
    CHECK_EQ(waitpid(peer->pid, NULL, 0), peer->pid);
    peer->pid = 0;
}

void peer_kill(struct peer *peer)
{
    kill(peer->pid, SIGKILL);
    peer_stop(peer);
}

static size_t add_to_buf(char *data, size_t one, size_t size, void *arg)
{
    (void)one;
    buf_add(arg, data, size);
    return size;
}

static void ask(const struct peer *peer, const char *path, bool post, struct buf *ret)
{
    char url[256];
    CURL *easy = curl_easy_init();
    long status = 0;
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", peer->port, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 20L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, add_to_buf);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, ret);
    if (post)
        curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, "");
    CURLcode rc = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(easy);
    CHECK_EQ(rc, CURLE_OK);
    CHECK_EQ(status, 200);
}

void peer_post(const struct peer *peer, const char *path)
{
    struct buf answer;
    buf_init(&answer, ANSWER_MAX);
    ask(peer, path, true, &answer);
    buf_fini(&answer);
}

size_t peer_count(const struct peer *peer)
{
    struct buf answer;
    buf_init(&answer, ANSWER_MAX);
    ask(peer, "/count", false, &answer);
    size_t count = strtoul(buf_slice(&answer).data, NULL, 10);
    buf_fini(&answer);
    return count;
}

void peer_wait_for(const struct peer *peer, size_t count)
{
    int64_t end_us = clock_mono_us(clock_system()) + WAIT_MAX_US;
    while (peer_count(peer) < count) {
        CHECK(clock_mono_us(clock_system()) < end_us);
        usleep(1000); /* until the next look */
    }
}

json_t *peer_records(const struct peer *peer)
{
    struct buf answer;
    json_t *records = json_array();
    buf_init(&answer, ANSWER_MAX);
    ask(peer, "/records", false, &answer);
    pr_slice rest = buf_slice(&answer);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        CHECK(end != NULL);
        size_t size = (size_t)(end - rest.data);
        json_t *record = json_loadb(rest.data, size, JSON_ALLOW_NUL, NULL);
        CHECK(record != NULL);
        json_array_append_new(records, record);
        rest = (pr_slice){ end + 1, rest.size - size - 1 };
    }
    buf_fini(&answer);
    return records;
}

const char *record_header(const json_t *record, const char *name)
{
    return json_string_value(json_object_get(json_object_get(record, "headers"), name));
}

void record_body(const json_t *record, struct buf *ret)
{
    buf_reset(ret);
    CHECK_EQ(base64_decode(ret, slice_from(json_string_value(json_object_get(record, "body")))), PR_OK);
}
