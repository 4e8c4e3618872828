/* /openapi.json, generated from the route table: so it always matches the server. */
#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/time.h"
#include "ops/api/api.h"
#include "ops/watch/metrics.h"

#define NEEDED_MAX 8 /* required members of a body */

/* The next word of a list; false: the end. */
static bool next_word(const char **list, pr_slice *ret)
{
    while (**list == ' ')
        ++*list;
    if (**list == '\0')
        return false;
    *ret = (pr_slice){ *list, strcspn(*list, " ") };
    *list += ret->size;
    return true;
}

static void schema_type(struct json_writer *w, const char *type)
{
    json_key(w, "schema");
    json_begin_object(w);
    json_put_cstr(w, "type", type);
    json_end_object(w);
}

static void parameter(struct json_writer *w, pr_slice name, const char *in, bool required)
{
    json_begin_object(w);
    json_put_slice(w, "name", name);
    json_put_cstr(w, "in", in);
    json_put_bool(w, "required", required);
    schema_type(w, "string");
    json_end_object(w);
}

static void parameters(struct json_writer *w, const struct api_route *r)
{
    const char *list = r->params, *brace = strchr(r->path, '{');
    pr_slice word;
    json_key(w, "parameters");
    json_begin_array(w);
    if (brace != NULL)
        parameter(w, (pr_slice){ brace + 1, strcspn(brace + 1, "}") }, "path", true);
    while (next_word(&list, &word))
        parameter(w, word, "query", false);
    if (r->method[0] != 'G')
        parameter(w, PR_STR(GUARD_HEADER), "header", r->body == BODY_JSON);
    json_end_array(w);
}

/* The members of a filter in a body; see body_filter(). */
static void filter_body(struct json_writer *w, bool dead)
{
    const char *texts = "box endpoint type stream reason error fingerprint since until after";
    const char *numbers = dead ? "row newest_row limit" : "row limit";
    pr_slice word;
    json_key(w, "properties");
    json_begin_object(w);
    while (next_word(&texts, &word))
        json_key_slice(w, word), json_raw(w, PR_STR("{\"type\":\"string\"}"));
    while (next_word(&numbers, &word))
        json_key_slice(w, word), json_raw(w, PR_STR("{\"type\":\"integer\"}"));
    json_end_object(w);
}

static void json_body(struct json_writer *w, const struct api_route *r)
{
    const char *list = r->fields;
    pr_slice word, needed[NEEDED_MAX];
    size_t needed_count = 0;
    json_key(w, "schema");
    json_begin_object(w);
    json_put_cstr(w, "type", "object");
    json_put_bool(w, "additionalProperties", false);
    json_key(w, "properties");
    json_begin_object(w);
    while (next_word(&list, &word)) {
        if (word.data[word.size - 1] == '*') {
            word.size--;
            ASSERT(needed_count < NEEDED_MAX);
            needed[needed_count++] = word;
        }
        json_key_slice(w, word);
        json_begin_object(w);
        if (body_field_type(r, word) != NULL)
            json_put_cstr(w, "type", body_field_type(r, word));
        if (slice_eq_cstr(word, "ids"))
            json_key(w, "items"), json_raw(w, PR_STR("{\"type\":\"string\",\"format\":\"uuid\"}"));
        if (slice_eq_cstr(word, "filter"))
            filter_body(w, slice_starts_with(slice_from(r->path), PR_STR("/v1/dead")));
        json_end_object(w);
    }
    json_end_object(w);
    if (needed_count > 0) {
        json_key(w, "required");
        json_begin_array(w);
        for (size_t i = 0; i < needed_count; i++)
            json_slice(w, needed[i]);
        json_end_array(w);
    }
    json_end_object(w);
}

static void body(struct json_writer *w, const struct api_route *r)
{
    static const char *const types[] = { "application/json", "application/cloudevents+json",
                                         "application/cloudevents-batch+json" };
    if (r->body == BODY_NONE)
        return;
    json_key(w, "requestBody");
    json_begin_object(w);
    json_put_bool(w, "required", r->body == BODY_MESSAGES || strchr(r->fields, '*') != NULL);
    json_key(w, "content");
    json_begin_object(w);
    for (size_t i = 0; i < (r->body == BODY_MESSAGES ? 3u : 1u); i++) {
        json_key(w, types[i]);
        json_begin_object(w);
        if (r->body == BODY_JSON)
            json_body(w, r);
        json_end_object(w);
    }
    json_end_object(w);
    json_end_object(w);
}

/* Schemas of answers whose members are not obvious. */
#define TEXT "{\"type\":\"string\"}"
#define TIME "{\"type\":\"string\",\"format\":\"date-time\"}"
#define NUMBER "{\"type\":\"integer\"}"
#define TRUTH "{\"type\":\"boolean\"}"
#define REASON "{\"type\":\"string\",\"nullable\":true}"
static const struct {
    const char *path, *schema;
} answers[] = {
    { "/v1/dead/groups",
      "{\"type\":\"object\",\"required\":[\"groups\",\"more\",\"cut\"],\"properties\":{\"groups\":{\"type\":\"array\","
      "\"items\":{\"type\":\"object\",\"properties\":{\"fingerprint\":" TEXT ",\"count\":" NUMBER
      ",\"count_exact\":" TRUTH ",\"first_at\":" TIME ",\"last_at\":" TIME ",\"box\":" TEXT ",\"endpoint\":" TEXT
      ",\"type\":" TEXT ",\"cause\":" REASON ",\"reason\":" REASON ",\"error\":" TEXT
      ",\"sample\":{\"type\":\"string\",\"format\":\"uuid\"}}}},\"more\":" TRUTH ",\"cut\":" TRUTH
      ",\"looked_at\":" NUMBER "}}" },
};

#define ERROR_SCHEMA "{\"$ref\":\"#/components/schemas/Error\"}"

static const char *answer_of(const struct api_route *r)
{
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (strcmp(answers[i].path, r->path) == 0)
            return answers[i].schema;
    return NULL;
}

/* schema: JSON; NULL: none. */
static void response(struct json_writer *w, pr_slice status, const char *description, const char *content_type,
                     const char *schema)
{
    json_key_slice(w, status);
    json_begin_object(w);
    json_put_cstr(w, "description", description);
    json_key(w, "content");
    json_begin_object(w);
    json_key(w, content_type);
    json_begin_object(w);
    if (schema != NULL)
        json_key(w, "schema"), json_raw(w, slice_from(schema));
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static void responses(struct json_writer *w, const struct api_route *r)
{
    const char *list = r->statuses, *type = r->kind == ROUTE_JSON     ? "application/json"
                                            : r->kind == ROUTE_EVENTS ? "text/event-stream"
                                                                      : "text/plain";
    pr_slice word;
    json_key(w, "responses");
    json_begin_object(w);
    while (next_word(&list, &word))
        if (word.data[0] == '2')
            response(w, word, slice_eq_cstr(word, "202") ? "accepted and running" : "done", type, answer_of(r));
    list = r->statuses;
    response(w, PR_STR("400"), "invalid request", "application/json", ERROR_SCHEMA);
    if (r->role != ROLE_NONE)
        response(w, PR_STR("401"), "a token is required", "application/json", ERROR_SCHEMA);
    response(w, PR_STR("403"), "not allowed from this origin or with this token", "application/json", ERROR_SCHEMA);
    while (next_word(&list, &word))
        if (word.data[0] != '2' && !slice_eq_cstr(word, "413"))
            response(w, word, "not possible in the current state; the error says why", "application/json",
                     ERROR_SCHEMA);
    if (r->body != BODY_NONE) {
        response(w, PR_STR("413"), "the body is too large", "application/json", ERROR_SCHEMA);
        response(w, PR_STR("415"), "unsupported content type of the body", "application/json", ERROR_SCHEMA);
    }
    response(w, PR_STR("503"), "temporarily unavailable", "application/json",
             r->role != ROLE_NONE ? ERROR_SCHEMA : NULL);
    json_end_object(w);
}

static void operation(struct json_writer *w, const struct api_route *r)
{
    json_key(w, r->method[0] == 'G' ? "get" : r->method[0] == 'P' ? "post" : "delete");
    json_begin_object(w);
    json_put_cstr(w, "summary", r->summary);
    parameters(w, r);
    body(w, r);
    responses(w, r);
    if (r->role == ROLE_NONE)
        json_key(w, "security"), json_raw(w, PR_STR("[]"));
    json_end_object(w);
}

static bool was_before(size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].path, routes[index].path) == 0)
            return true;
    return false;
}

void api_openapi(struct api *x)
{
    struct json_writer *w = &x->w;
    json_begin_object(w);
    json_put_cstr(w, "openapi", "3.0.3");
    json_key(w, "info");
    json_begin_object(w);
    json_put_cstr(w, "title", "Postrider");
    json_put_cstr(w, "version", POSTRIDER_VERSION);
    json_end_object(w);
    json_key(w, "paths");
    json_begin_object(w);
    for (size_t i = 0; i < route_count; i++) {
        if (was_before(i))
            continue;
        json_key(w, routes[i].path);
        json_begin_object(w);
        for (size_t k = i; k < route_count; k++)
            if (strcmp(routes[k].path, routes[i].path) == 0)
                operation(w, &routes[k]);
        json_end_object(w);
    }
    json_end_object(w);
    json_key(w, "components");
    json_raw(w,
             PR_STR("{\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}},\"schemas\":{\"Error\":"
                    "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":\"object\","
                    "\"required\":[\"code\",\"message\",\"hint\"],\"properties\":{\"code\":{\"type\":\"string\"},"
                    "\"message\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}}}}}}}"));
    json_key(w, "security");
    json_raw(w, PR_STR("[{\"token\":[]},{}]"));
    json_end_object(w);
}

void api_metrics(struct api *x)
{
    x->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_write(x->metrics, x->rt, &x->in, &x->out);
}
