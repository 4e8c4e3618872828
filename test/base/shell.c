#include "base/shell.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/slice.h"
#include "check.h"

/* What bash makes of the word, bytes and all. */
static size_t said_by_a_shell(const char *word, char *ret, size_t size)
{
    char command[4096];
    (void)snprintf(command, sizeof command, "bash -c \"$(cat <<'THE_END'\nprintf %%s %s\nTHE_END\n)\"", word);
    FILE *f = popen(command, "r");
    CHECK(f != NULL);
    size_t got = fread(ret, 1, size, f);
    CHECK_EQ(pclose(f), 0);
    return got;
}

TEST(a_shell_takes_a_text_of_others_as_one_word_and_does_nothing) /* B206 */
{
    static const char *const texts[] = { "orders",
                                         "$(touch /tmp/x)",
                                         "a b; rm -rf c",
                                         "it's",
                                         "`id`",
                                         "\"$HOME\"",
                                         "a\\b",
                                         "",
                                         "*",
                                         "~root",
                                         "a\nb",
                                         "\033[31m",
                                         "x'y\\z\001",
                                         "\xe2\x80\xae"
                                         "abc",
                                         "\xc3\xa4 gr\xc3\xb6\xc3\x9f",
                                         "\xff\xfe",
                                         "!!",
                                         "a\t'b",
                                         "#no",
                                         "\001"
                                         "7",
                                         "a=b",
                                         "<(id)" };
    struct arena arena;
    char got[1024];
    arena_init(&arena, 4096);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *word = shell_quote(&arena, slice_from(texts[i]));
        size_t size = said_by_a_shell(word, got, sizeof got);
        if (size != strlen(texts[i]) || memcmp(got, texts[i], size) != 0)
            check_fail(__FILE__, __LINE__, "%s: %.*s", word, (int)size, got);
        for (const char *c = word; *c != '\0'; c++)
            CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
        CHECK(strstr(word, "\xe2\x80\xae") == NULL);
    }
    CHECK_STR(shell_quote(&arena, PR_STR("orders.v2")), "orders.v2");
    CHECK_STR(shell_quote(&arena, PR_STR("a'b")), "'a'\\''b'");
    CHECK_STR(shell_argument(&arena, PR_STR("--yes")), "-- --yes");
    arena_fini(&arena);
}
