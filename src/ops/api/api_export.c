/* Dead letters that move between stores: export and import. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/util.h"
#include "ops/api/api.h"
#include "ops/export.h"

void api_dead_export(struct api *x)
{
    struct query query = { .kind = QUERY_DEAD };
    struct query_reply reply;
    if (!api_filter(x, "", &query.filter) || !api_query(x, &query, &reply))
        return;
    json_begin_object(&x->w);
    json_key(&x->w, "letters");
    json_begin_array(&x->w);
    for (size_t i = 0; i < reply.listed_count; i++)
        export_write(&x->w, &reply.listed[i]);
    json_end_array(&x->w);
    api_page_end(x, &reply, false);
}

static bool take_letters(struct api *x, struct admin *admin, struct listed *letters)
{
    const json_t *list = json_object_get(x->json, "letters");
    for (size_t i = 0; i < admin->letter_count; i++) {
        struct pr_error error;
        if (export_read(&x->arena, json_array_get(list, i), &letters[i], &error) != PR_OK) {
            api_error(x, 400, "invalid", "use letters from GET /v1/dead/export; nothing was imported",
                      "letters: entry %zu %s", i + 1, error.text);
            return false;
        }
    }
    return true;
}

static void import_json(struct api *x, const struct admin *admin, const struct admin_reply *reply)
{
    struct {
        const char *key;
        int answer;
    } const lists[] = { { "duplicates", PR_DUPLICATE }, { "unknown_box", PR_UNKNOWN } };
    json_begin_object(&x->w);
    json_put_cstr(&x->w, "action", admin_name(admin->kind));
    json_put_uint(&x->w, "stored", reply->changed);
    for (size_t k = 0; k < ARRAY_LENGTH(lists); k++) {
        json_key(&x->w, lists[k].key);
        json_begin_array(&x->w);
        for (size_t i = 0; i < admin->letter_count; i++) {
            char id[PR_ID_TEXT_SIZE];
            pr_id_format(admin->letters[i].m.id, id);
            if (admin->answers[i] == lists[k].answer)
                json_cstr(&x->w, id);
        }
        json_end_array(&x->w);
    }
    json_put_bool(&x->w, "dry_run", admin->dry_run);
    json_end_object(&x->w);
}

void api_dead_import(struct api *x)
{
    size_t count = json_array_size(json_object_get(x->json, "letters"));
    struct listed *letters = arena_alloc_array(&x->arena, count, sizeof *letters);
    int *answers = arena_alloc_array(&x->arena, count, sizeof *answers);
    struct admin admin = { .kind = ADMIN_DEAD_IMPORT,
                           .filter.state = -1,
                           .by = x->who,
                           .why = slice_from(body_text(x, "why")),
                           .dry_run = body_true(x, "dry_run"),
                           .again = body_true(x, "again"),
                           .letters = letters,
                           .letter_count = count,
                           .answers = answers };
    struct admin_reply reply = { 0 };
    struct pr_error error;
    int rc = count == 0 || count > IMPORT_MAX
                 ? error_set(&error, PR_EINVAL, "letters: needs 1 to %d entries", IMPORT_MAX)
             : letters == NULL || answers == NULL ? error_set(&error, PR_ENOMEM, "out of memory for %zu letters", count)
                                                  : PR_OK;
    if (rc == PR_OK && !take_letters(x, &admin, letters))
        return;
    if (rc == PR_OK)
        rc = store_admin(x->in.store, &admin, &reply, &error);
    if (rc == PR_OK) {
        import_json(x, &admin, &reply);
        return;
    }
    error.code = rc;
    api_fault(x, &error);
}
