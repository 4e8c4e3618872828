#include <string.h>

#include "base/error.h"
#include "transport/exec/exec.h"

/* Takes one word from the front: blanks end it, quotes keep it together, a backslash (not in '') makes the next
 * character literal.  NULL: an unclosed quote, or no memory. */
static char *take_word(struct arena *arena, const char **text)
{
    const char *c = *text;
    char quote = '\0', *word = arena_alloc(arena, strlen(c) + 1);
    size_t size = 0;

    for (; word != NULL && *c != '\0' && (quote != '\0' || *c != ' '); c++) {
        if (*c == quote)
            quote = '\0';
        else if (quote == '\0' && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1] != '\0')
            word[size++] = *++c;
        else
            word[size++] = *c;
    }
    if (word == NULL || quote != '\0')
        return NULL;
    word[size] = '\0';
    *text = c + strspn(c, " ");
    return word;
}

/* False: unknown mode. */
static bool cut_mode(char *text, bool *ret_lines)
{
    char *mode = strrchr(text, '?');
    *ret_lines = false;
    if (mode == NULL || strncmp(mode, "?mode=", strlen("?mode=")) != 0)
        return true;
    *mode = '\0';
    *ret_lines = strcmp(mode + strlen("?mode="), "lines") == 0;
    return *ret_lines || strcmp(mode + strlen("?mode="), "message") == 0;
}

int exec_words(const struct endpoint_config *config, struct arena *arena, char *words[EXEC_WORDS_MAX + 1],
               bool *ret_lines, struct pr_error *reterr)
{
    char *copy = arena_dup(arena, config->url, strlen(config->url) + 1);
    size_t count = 0;

    if (copy == NULL)
        return error_set(reterr, PR_ENOMEM, "endpoint %s: out of memory", config->name);
    const char *text = strchr(copy, ':') + 1;
    if (!cut_mode(copy, ret_lines))
        return error_set(reterr, PR_ECONFIG, "endpoint %s: mode must be message or lines", config->name);
    text += strspn(text, " ");
    while (*text != '\0') {
        if (count == EXEC_WORDS_MAX)
            return error_set(reterr, PR_ECONFIG, "endpoint %s: more than %d arguments", config->name,
                             EXEC_WORDS_MAX - 1);
        if ((words[count++] = take_word(arena, &text)) == NULL)
            return error_set(reterr, PR_ECONFIG, "endpoint %s: unbalanced quote in the url", config->name);
    }
    words[count] = NULL;
    return count > 0 && words[0][0] != '\0'
               ? PR_OK
               : error_set(reterr, PR_ECONFIG,
                           "endpoint %s: the program is missing: use one such as exec:/usr/bin/program", config->name);
}
