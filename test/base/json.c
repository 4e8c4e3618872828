#include "base/json.h"

#include <math.h>

#include <jansson.h>

#include "base/buf.h"
#include "check.h"

TEST(json_puts_commas_where_they_belong)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, 1000);
    json_init(&w, &b);
    json_begin_object(&w);
    json_key(&w, "a");
    json_int(&w, INT64_MIN);
    json_key_slice(&w, PR_STR("b"));
    json_begin_array(&w);
    json_bool(&w, true);
    json_bool(&w, false);
    json_cstr(&w, NULL);
    json_begin_object(&w);
    json_end_object(&w);
    json_begin_array(&w);
    json_end_array(&w);
    json_uint(&w, UINT64_MAX);
    json_end_array(&w);
    json_key(&w, "c");
    json_slice(&w, PR_STR("x"));
    json_key(&w, "d");
    json_cstr(&w, NULL);
    json_key(&w, "e");
    json_raw(&w, PR_STR("[1]"));
    json_key(&w, "f");
    json_time(&w, 0);
    json_end_object(&w);
    CHECK_SLICE(buf_slice(&b),
                "{\"a\":-9223372036854775808,\"b\":[true,false,null,{},[],18446744073709551615],\"c\":\"x\","
                "\"d\":null,\"e\":[1],\"f\":\"1970-01-01T00:00:00.000000Z\"}");
    buf_fini(&b);
}

TEST(json_writes_numbers_that_are_json)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, 1000);
    json_init(&w, &b);
    json_begin_array(&w);
    json_double(&w, 0.25);
    json_double(&w, -1e300);
    json_double(&w, NAN);
    json_double(&w, INFINITY);
    json_end_array(&w);
    CHECK_SLICE(buf_slice(&b), "[0.25,-1e+300,null,null]");
    buf_fini(&b);
}

TEST(json_escapes_what_must_be_escaped)
{
    struct buf b;
    buf_init(&b, 1000);
    json_quote(&b, PR_STR("\"\\/\b\f\n\r\t\x01\0\x7f \xc3\xa4 \xff"));
    CHECK_SLICE(buf_slice(&b), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u0000\\u007f \xc3\xa4 \xef\xbf\xbd\"");
    buf_fini(&b);
}

/* A parser that is not ours must read back what we wrote, whatever the bytes. */
TEST(json_escapes_what_would_mislead_a_reader) /* B206 */
{
    struct buf b;
    buf_init(&b, 1000);
    json_quote(&b, PR_STR("\xc2\x80\xc2\x9f\xc2\xa0 "
                          "\xd8\x9c\xe2\x80\x8e\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xe2\x80\x8d"));
    CHECK_SLICE(buf_slice(&b), "\"\\u0080\\u009f\xc2\xa0 \\u061c\\u200e\\u2028\\u202e\\u2066\\ufeff\xe2\x80\x8d\"");
    buf_fini(&b);
}

TEST(json_of_others_keeps_its_value_and_misleads_nobody) /* B206 */
{
    struct json_writer w;
    struct buf b;
    buf_init(&b, 1000);
    json_init(&w, &b);
    json_raw_shown(&w, PR_STR("{\"a\\\\\" : \"x\xe2\x80\xae\xc3\xa4\\u0041\xc2\x9b\x7f\"}"));
    CHECK_SLICE(buf_slice(&b), "{\"a\\\\\" : \"x\\u202e\xc3\xa4\\u0041\\u009b\\u007f\"}");
    buf_fini(&b);
}

TEST(json_is_understood_by_another_parser_for_every_pair_of_bytes)
{
    struct buf b;
    buf_init(&b, 1000);
    for (int i = 0; i < 65536; i += 7) {
        char pair[4] = { 'x', (char)(i >> 8), (char)i, 'y' };
        buf_reset(&b);
        json_quote(&b, PR_BYTES(pair, 4));
        json_error_t error;
        json_t *value = json_loadb(b.data, b.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        CHECK(value != NULL && json_is_string(value));
        if ((pair[1] & 0x80) == 0 && (pair[2] & 0x80) == 0)
            CHECK_SLICE(PR_BYTES(json_string_value(value), json_string_length(value)), PR_BYTES(pair, 4));
        json_decref(value);
    }
    buf_fini(&b);
}

TEST(json_that_does_not_fit_is_an_error_of_the_buf)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, 5);
    json_init(&w, &b);
    json_slice(&w, PR_STR("too long"));
    CHECK_EQ(buf_failed(&b), PR_ETOOBIG);
    buf_fini(&b);
}

static void value_without_key(void *arg)
{
    struct json_writer w;
    json_init(&w, arg);
    json_begin_object(&w);
    json_int(&w, 1);
}

static void key_in_array(void *arg)
{
    struct json_writer w;
    json_init(&w, arg);
    json_begin_array(&w);
    json_key(&w, "a");
}

static void wrong_end(void *arg)
{
    struct json_writer w;
    json_init(&w, arg);
    json_begin_array(&w);
    json_end_object(&w);
}

static void two_documents(void *arg)
{
    struct json_writer w;
    json_init(&w, arg);
    json_int(&w, 1);
    json_int(&w, 2);
}

static void too_deep(void *arg)
{
    struct json_writer w;
    json_init(&w, arg);
    for (int i = 0; i <= JSON_DEPTH_MAX; i++)
        json_begin_array(&w);
}

TEST(json_stops_the_program_that_nests_wrongly)
{
    struct buf b;
    buf_init(&b, 1000);
    CHECK(check_aborts(value_without_key, &b));
    CHECK(check_aborts(key_in_array, &b));
    CHECK(check_aborts(wrong_end, &b));
    CHECK(check_aborts(two_documents, &b));
    CHECK(check_aborts(too_deep, &b));
    buf_fini(&b);
}
