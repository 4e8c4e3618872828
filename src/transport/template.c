#include "transport/template.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"

typedef void (*add_function)(struct buf *b, pr_slice value);

static void add_encoded(struct buf *b, pr_slice value)
{
    bool dots = slice_eq_cstr(value, ".") || slice_eq_cstr(value, "..");
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.data[i];
        bool alnum = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (alnum || c == '-' || c == '_' || c == '~' || (c == '.' && !dots))
            buf_add_char(b, (char)c);
        else
            buf_addf(b, "%%%02X", c);
    }
}

/* False: unknown placeholder. */
static bool add_value(struct buf *b, pr_slice name, const struct pr_message *m, add_function add)
{
    char id[PR_ID_TEXT_SIZE];
    const struct {
        const char *name;
        pr_slice value;
    } values[] = {
        { "type", m->type },       { "stream", m->stream },           { "source", m->source },
        { "subject", m->subject }, { "destination", m->destination },
    };
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++)
        if (slice_eq_cstr(name, values[i].name)) {
            add(b, values[i].value);
            return true;
        }
    if (!slice_eq_cstr(name, "id"))
        return false;
    pr_id_format(m->id, id);
    buf_add_cstr(b, id);
    return true;
}

static size_t brace(pr_slice text)
{
    size_t i = 0;
    while (i < text.size && text.data[i] != '{' && text.data[i] != '}')
        i++;
    return i;
}

static bool fill(struct buf *b, pr_slice text, const struct pr_message *m, add_function add)
{
    for (size_t open; (open = brace(text)) < text.size;) {
        const char *end = text.data[open] == '{' ? memchr(text.data + open, '}', text.size - open) : NULL;
        if (end == NULL)
            return false;
        buf_add(b, text.data, open);
        if (!add_value(b, (pr_slice){ text.data + open + 1, (size_t)(end - text.data) - open - 1 }, m, add))
            return false;
        size_t used = (size_t)(end - text.data) + 1;
        text = (pr_slice){ text.data + used, text.size - used };
    }
    buf_add(b, text.data, text.size);
    return true;
}

int template_check(const char *endpoint, const char *what, pr_slice text, struct pr_error *reterr)
{
    const struct pr_message nothing = { 0 };
    struct buf filled;
    buf_init(&filled, text.size + PR_ID_TEXT_SIZE * (text.size / 4 + 1)); /* "{id}" is the only one that grows */
    bool good = fill(&filled, text, &nothing, buf_add_slice);
    buf_fini(&filled);
    return good ? PR_OK
                : error_set(reterr, PR_ECONFIG,
                            "endpoint %s: %s: the placeholders are {type}, {stream}, {source}, {subject}, "
                            "{destination} and {id}",
                            endpoint, what);
}

void template_fill(struct buf *b, pr_slice text, const struct pr_message *message)
{
    ASSERT(fill(b, text, message, buf_add_slice));
}

void template_fill_url(struct buf *b, pr_slice text, const struct pr_message *message)
{
    ASSERT(fill(b, text, message, add_encoded));
}

bool template_is_fixed(pr_slice text)
{
    return brace(text) == text.size;
}
