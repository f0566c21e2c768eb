/* Tests of the SDK's JSON reader and its host for tests. A failed assertion ends the program. */
#undef NDEBUG
#include "toolcell.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void host(toolcell_call *call) {
    toolcell_progress("half", 50);
    toolcell_log(TOOLCELL_INFO, "here", NULL);
    if (toolcell_canceled() != TOOLCELL_NOT_CANCELED) {
        toolcell_fail(call, TOOLCELL_CANCELED, "stopped", "stopped after %d", 1);
        return;
    }
    const toolcell_json *answer = toolcell_get(toolcell_get(toolcell_responses(), "who"), "content");
    if (!answer) {
        toolcell_question question = {"who", "Who?", "{}"};
        toolcell_ask(&question, 1, NULL, 0);
        return;
    }
    toolcell_request request = {.url = "http://a.example/", .limit = 3};
    toolcell_response response = toolcell_send(&request);
    if (response.error) toolcell_fail_http(call, response.error);
    else toolcell_json_text(call, toolcell_quote(response.body));
}

static void silent(toolcell_call *call) { (void)call; }

static void bytes(toolcell_call *call) {
    toolcell_text_bytes(call, "a\0b", 3);
    if (toolcell_get_bool(call->input, "formatted", false)) toolcell_text(call, "x%cyz", 0);
}

static const toolcell_field none[] = {{0}};
TOOLCELL_TOOLKIT("a\"b", {"host", "H.", host, none, NULL, NULL, NULL, NULL}, {"silent", "S.", silent, none, NULL, NULL, NULL, NULL},
                 {"bytes", "B.", bytes, none, NULL, NULL, NULL, NULL});

static bool accepts(const char *text) { return toolcell_parse(text) != NULL; }

static void texts_that_are_json(void) {
    const char *good[] = {"{}", " [1, -2.5e+3 ,true,null,\"\\ud83d\\ude00\\u0000x\"] ", "0", "\"\\/\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert(accepts(good[i]));
    const char *bad[] = {"",     "{",    "[1,]",  "01",   "1.",      "-",    "\"\\ud800\"", "\"\\x\"", "\"a", "{\"a\":1,\"a\":2}", "tru",
                         "1 2",  "\"\n\"", "[",   "{\"a\"}", "\"\\", "\"\\u12", "nullx",  "+1",   ".5",      "1e",   "\"\\ud83dx\""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (accepts(bad[i])) fprintf(stderr, "accepted: %s\n", bad[i]);
        assert(!accepts(bad[i]));
    }
    char deep[300] = {0};
    memset(deep, '[', 128);
    memset(deep + 128, ']', 128);
    assert(accepts(deep));
    memset(deep, '[', 129);
    memset(deep + 129, ']', 129);
    assert(!accepts(deep));
}

static void values(void) {
    const char *text = "{\"a\":[1,2.0,9223372036854775807,1e300,\"x\\u0000y\\n\"],\"b\":{\"c\":true}}";
    const toolcell_json *value = toolcell_parse(text), *a = toolcell_get(value, "a");
    assert(toolcell_as_int(toolcell_at(a, 0), -1) == 1 && toolcell_as_int(toolcell_at(a, 1), -1) == 2);
    assert(toolcell_as_int(toolcell_at(a, 2), -1) == INT64_MAX && toolcell_as_int(toolcell_at(a, 3), -1) == -1);
    assert(toolcell_string_length(toolcell_at(a, 4)) == 4 && !toolcell_at(a, 5) && toolcell_size(a) == 5);
    assert(toolcell_get_bool(toolcell_get(value, "b"), "c", false));
    assert(toolcell_get_int(toolcell_get(value, "none"), "d", 7) == 7);
    assert(strcmp(toolcell_json_of(value), text) == 0);
    assert(strcmp(toolcell_quote("\x01\"\\\n\xc3\xa4"), "\"\\u0001\\\"\\\\\\n\xc3\xa4\"") == 0);
    assert(strcmp(toolcell_quote_bytes("a\0b", 3), "\"a\\u0000b\"") == 0);
    assert(accepts(toolcell_describe()));
}

static void text_for_the_host(void) {
    const char *good[] = {"", "a", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert(toolcell_utf8(good[i]) == good[i]);
    assert(strcmp(toolcell_utf8("a\xe4o\xc3"), "a\xef\xbf\xbdo\xef\xbf\xbd") == 0);
    /* Overlong forms, surrogates, what Unicode does not have, and bytes that begin nothing. */
    const char *bad[] = {"\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert(strlen(toolcell_utf8(bad[i])) == 3 * strlen(bad[i]) && strncmp(toolcell_utf8(bad[i]), "\xef\xbf\xbd", 3) == 0);
    }
}

static void texts_with_zero_bytes(void) {
    toolcell_test_outcome plain = toolcell_test_call("bytes", "{}");
    assert(plain.text_length == 3 && memcmp(plain.text, "a\0b", 4) == 0);
    toolcell_test_outcome formatted = toolcell_test_call("bytes", "{\"formatted\":true}");
    assert(formatted.text_length == 4 && memcmp(formatted.text, "x\0yz", 5) == 0);
    size_t length = 4;
    const char *whole = toolcell_utf8_bytes("a\0\xc3\0b", &length);
    assert(length == 6 && memcmp(whole, "a\0\xef\xbf\xbd\0", 7) == 0);
}

/* With a copy of each step, this would take 50 GB. */
static void a_text_that_grows(void) {
    enum { COUNT = 100000 };
    toolcell_buffer made = {0};
    toolcell_append(&made, "%s", "");
    assert(made.length == 0 && !*made.text);
    for (int i = 0; i < COUNT; i++) toolcell_append(&made, "%c%d,%08d", i ? ',' : '[', i % 10, i % 7);
    toolcell_append(&made, "]");
    assert(made.length == COUNT * 11 + 1 && strlen(made.text) == made.length);
    assert(strncmp(made.text, "[0,00000000,1,00000001", 22) == 0 && strcmp(made.text + made.length - 3, "04]") == 0);
    assert(strcmp(toolcell_message("a\0b\xe4", 4), "a\xef\xbf\xbd" "b\xef\xbf\xbd") == 0);
}

/* Takes time and memory in proportion to the list: with their square, this would not end. */
static void long_lists(void) {
    enum { COUNT = 200000 };
    char *text = (char *)toolcell_allocate(2 * COUNT + 2), *to = text;
    *to++ = '[';
    for (size_t i = 0; i < COUNT; i++) {
        *to++ = '7';
        *to++ = i + 1 < COUNT ? ',' : ']';
    }
    const toolcell_json *list = toolcell_parse(text);
    int64_t sum = 0;
    for (size_t i = 0; i < toolcell_size(list); i++) sum += toolcell_as_int(toolcell_at(list, i), 0);
    assert(sum == 7 * COUNT && strcmp(toolcell_json_of(list), text) == 0);
    assert(toolcell_at(list, 3) && !toolcell_at(list, COUNT) && !toolcell_at(NULL, 0));
}

/* As above, of the members of an object. */
static void many_members(void) {
    enum { COUNT = 200000 };
    char *text = (char *)toolcell_allocate(16 * COUNT), *to = text;
    for (size_t i = 0; i < COUNT; i++) to += sprintf(to, "%c\"%zu\":0", i ? ',' : '{', i);
    strcpy(to, "}");
    assert(toolcell_size(toolcell_parse(text)) == COUNT);
    strcpy(to, ",\"7\":0}");
    assert(!toolcell_parse(text));
    assert(!accepts("{\"a\":1,\"b\":{\"c\":1,\"d\":2,\"c\":3}}") && accepts("{\"a\":1,\"aa\":{\"a\":2}}"));
}

static void what_the_host_of_tests_gives(void) {
    assert(strcmp(toolcell_test_call("silent", "{}").code, "no_outcome") == 0);
    assert(toolcell_test_call("host", "{}").kind == TOOLCELL_IS_QUESTION);
    assert(strcmp(toolcell_test_heard(), "progress 50 half\nlog info here\nquestion who Who?\n") == 0);
    toolcell_test_answers("{\"who\":{\"action\":\"accept\",\"content\":{}}}");
    assert(strcmp(toolcell_test_call("host", "{}").code, "unreachable") == 0);
    toolcell_test_response(200, "abc");
    assert(strcmp(toolcell_test_call("host", "{}").text, "\"abc\"") == 0);
    toolcell_test_response(200, "abcd");
    assert(toolcell_test_call("host", "{}").error == TOOLCELL_RESULT_TOO_LARGE);
    toolcell_request unlimited = {.url = "http://a.example/"};
    assert(toolcell_send(&unlimited).error == TOOLCELL_HTTP_OK);
    toolcell_test_cancel(TOOLCELL_USER_INTERRUPTION);
    assert(strcmp(toolcell_test_call("host", "{}").text, "stopped after 1") == 0);
    toolcell_test_begin();
    assert(toolcell_canceled() == TOOLCELL_NOT_CANCELED && !*toolcell_test_heard());
}

static void json_that_is_written(void) {
    toolcell_buffer to = {0};
    toolcell_begin(&to, '{');
    toolcell_put_name(&to, "a{");
    toolcell_begin(&to, '[');
    toolcell_put_int(&to, INT64_MIN);
    toolcell_put_number(&to, 0.1);
    toolcell_put_number(&to, HUGE_VAL);
    toolcell_put_bool(&to, false);
    toolcell_put_bytes(&to, "[:\0", 3);
    toolcell_put_json(&to, toolcell_parse("{\"n\":[{},[]]}"));
    toolcell_end(&to, ']');
    toolcell_put_name(&to, "b");
    toolcell_put_json(&to, NULL);
    toolcell_end(&to, '}');
    const char *wanted = "{\"a{\":[-9223372036854775808,0.10000000000000001,null,false,\"[:\\u0000\",{\"n\":[{},[]]}],\"b\":null}";
    assert(strcmp(to.text, wanted) == 0 && strlen(wanted) == to.length && accepts(to.text));
}

/* What a schema promises, a tool gets: also in the objects of a list. */
static void fields_with_defaults(void) {
    const toolcell_field inner[] = {{.name = "n", .type = TOOLCELL_INTEGER, .otherwise = "2"}, {.name = NULL}};
    const toolcell_field fields[] = {{.name = "list", .type = TOOLCELL_ARRAY, .items = TOOLCELL_OBJECT, .fields = inner},
                                     {.name = "word", .nullable = true, .otherwise = "\"w\""},
                                     {.name = NULL}};
    const char *schema = toolcell_schema_of(fields);
    assert(accepts(schema) && strstr(schema, "\"word\":{\"type\":[\"string\",\"null\"],\"default\":\"w\"}"));
    assert(strstr(schema, "\"required\":[\"list\"]"));
    const toolcell_json *given = toolcell_parse("{\"list\":[{},{\"n\":1},7]}");
    toolcell_fill(given, fields);
    assert(strcmp(toolcell_json_of(given), "{\"list\":[{\"n\":2},{\"n\":1},7],\"word\":\"w\"}") == 0);
}

int main(void) {
    toolcell_test_begin();
    texts_that_are_json();
    values();
    text_for_the_host();
    texts_with_zero_bytes();
    a_text_that_grows();
    long_lists();
    many_members();
    json_that_is_written();
    fields_with_defaults();
    what_the_host_of_tests_gives();
    return 0;
}
