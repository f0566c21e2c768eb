/* toolcell:version 0.1.0 */
/* toolcell:license MIT */
#include "toolcell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const toolcell_field part[] = {
    {.name = "label"}, {.name = "weight", .type = TOOLCELL_NUMBER, .minimum = {true, 0}}, {.name = NULL}};
static const toolcell_field place[] = {
    {.name = "street"}, {.name = "floor", .type = TOOLCELL_INTEGER, .otherwise = "0"}, {.name = NULL}};
static const char *const sizes[] = {"small", "large", NULL};
static const toolcell_field order_fields[] = {
    {.name = "name", .description = "Who orders.", .pattern = "^[a-z]+$"},
    {.name = "size", .choices = sizes, .otherwise = "\"small\""},
    {.name = "count", .type = TOOLCELL_INTEGER, .minimum = {true, 1}, .maximum = {true, 10}, .otherwise = "1"},
    {.name = "ratio", .type = TOOLCELL_NUMBER, .minimum = {true, 0}, .maximum = {true, 1}, .otherwise = "0.5"},
    {.name = "urgent", .type = TOOLCELL_BOOLEAN, .otherwise = "false"},
    {.name = "tags", .type = TOOLCELL_STRINGS},
    {.name = "parts", .type = TOOLCELL_ARRAY, .items = TOOLCELL_OBJECT, .fields = part},
    {.name = "place", .type = TOOLCELL_OBJECT, .fields = place},
    {.name = "labels", .type = TOOLCELL_MAP, .items = TOOLCELL_INTEGER},
    {.name = "extra", .type = TOOLCELL_ANY},
    {.name = "note", .nullable = true},
    {.name = "hint", .optional = true},
    {.name = NULL},
};

static void order(toolcell_call *call) { toolcell_json_text(call, toolcell_json_of(call->input)); }

static const toolcell_field text_fields[] = {{.name = "text"}, {.name = NULL}};

static void say(toolcell_call *call) {
    const toolcell_json *text = toolcell_get(call->input, "text");
    toolcell_buffer to = {0};
    toolcell_begin(&to, '{');
    toolcell_put_name(&to, "text");
    toolcell_put_bytes(&to, toolcell_as_string(text, ""), toolcell_string_length(text));
    toolcell_put_name(&to, "list");
    toolcell_begin(&to, '[');
    toolcell_put_int(&to, 1);
    toolcell_put_number(&to, 2.5);
    toolcell_put_bool(&to, true);
    toolcell_put_json(&to, NULL);
    toolcell_end(&to, ']');
    toolcell_put_name(&to, "inner");
    toolcell_begin(&to, '{');
    toolcell_put_name(&to, "a\"b");
    toolcell_put_string(&to, "c\\d");
    toolcell_end(&to, '}');
    toolcell_end(&to, '}');
    toolcell_json_text(call, to.text);
}

static const toolcell_field half_fields[] = {{.name = "half", .type = TOOLCELL_BOOLEAN, .otherwise = "false"}, {.name = NULL}};

static void blocks(toolcell_call *call) {
    const char *block = "[{\"type\":\"text\",\"text\":\"block\"}]", *structured = "{\"a\":1}";
    if (toolcell_get_bool(call->input, "half", false)) {
        toolcell_partial(call, block, structured, TOOLCELL_PARTIAL_FAILURE, "rest_missing", "the rest is missing");
    } else {
        toolcell_content(call, block, structured, "one line");
    }
}

static void fail(toolcell_call *call) {
    toolcell_fail(call, TOOLCELL_RATE_LIMITED, "slow_down", "slow down");
    toolcell_fail_detail(call, "why");
    toolcell_fail_retry_after(call, 60000);
}

static const toolcell_field path_fields[] = {{.name = "path"}, {.name = NULL}};

static const char *content(const char *path) {
    char text[64] = {0};
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return toolcell_format("%.*s", (int)length, text);
}

static void look(toolcell_call *call) {
    const char *text = content(toolcell_get_string(call->input, "path", ""));
    const char *draft = toolcell_format("%s/draft", toolcell_get_string(call->context, "scratch", ""));
    FILE *file = text ? fopen(draft, "w") : NULL;
    if (!file) {
        toolcell_fail(call, TOOLCELL_EXECUTION_FAILED, "no_file", "there is no such file");
        return;
    }
    fputs(text, file);
    fclose(file);
    toolcell_buffer to = {0};
    toolcell_begin(&to, '{');
    toolcell_put_name(&to, "text");
    toolcell_put_string(&to, text);
    toolcell_put_name(&to, "draft");
    toolcell_put_string(&to, content(draft));
    toolcell_put_name(&to, "cwd");
    toolcell_put_json(&to, toolcell_get(call->context, "cwd"));
    toolcell_put_name(&to, "attempt");
    toolcell_put_int(&to, call->attempt);
    toolcell_end(&to, '}');
    toolcell_json_text(call, to.text);
}

static void variable(toolcell_call *call) {
    const char *value = getenv("PARITY");
    toolcell_text(call, "%s", value ? value : "");
}

static void report(toolcell_call *call) {
    toolcell_update all = {"all", 100, "last", 2, 3, 4, 5};
    toolcell_progress("half", 50);
    toolcell_report(&all);
    toolcell_partial_result("[{\"type\":\"text\",\"text\":\"early\"}]");
    toolcell_log(TOOLCELL_WARN, "odd", "{\"n\":1}");
    toolcell_text(call, "reported");
}

static void wait_for_stop(toolcell_call *call) {
    static const char *const reasons[] = {"user_interruption", "sibling_error", "timeout", "fallback", "runtime_shutdown"};
    toolcell_abort_reason reason = toolcell_wait(60000);
    if (reason != TOOLCELL_NOT_CANCELED) toolcell_acknowledge();
    toolcell_json_text(call, toolcell_format("{\"stopped\":\"%s\"}", reason == TOOLCELL_NOT_CANCELED ? "" : reasons[reason]));
}

static const toolcell_json *answer(const char *key, const char *name) {
    return toolcell_get(toolcell_get(toolcell_get(toolcell_responses(), key), "content"), name);
}

#define FORM(name, type) "{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"" type "\"}},\"required\":[\"" name "\"]}"

static void ask(toolcell_call *call) {
    size_t length;
    const char *state = toolcell_resume_state(&length);
    static const toolcell_question first[] = {{"who", "Who?", FORM("name", "string")}, {"sure", "Sure?", FORM("yes", "boolean")}};
    static const toolcell_question second = {"last", "How many?", FORM("n", "integer")};
    if (!answer("who", "name")) {
        toolcell_ask(first, 2, "one", 3);
        return;
    }
    if (!answer("last", "n")) {
        const char *more = toolcell_format("%.*s two", (int)length, state);
        toolcell_ask(&second, 1, more, strlen(more));
        return;
    }
    toolcell_text(call, "%s %s %lld %.*s", toolcell_as_string(answer("who", "name"), ""),
                  toolcell_as_bool(answer("sure", "yes"), false) ? "true" : "false", (long long)toolcell_as_int(answer("last", "n"), 0),
                  (int)length, state);
}

static void keep(toolcell_call *call) {
    static char many[1500000];
    memset(many, 'x', sizeof many);
    int32_t file = toolcell_artifact_begin("rows.csv", "text/csv");
    bool written = file >= 0 && toolcell_artifact_write(file, "a,b\n", 4) && toolcell_artifact_write(file, many, sizeof many) &&
                   toolcell_artifact_write(file, "\nend\n", 5);
    const char *reference = written ? toolcell_artifact_finish(file) : NULL;
    if (!reference) return;
    toolcell_content(call, toolcell_format("[{\"type\":\"artifact_ref\",\"reference\":%s}]", toolcell_quote(reference)), NULL, NULL);
}

static void mark(toolcell_call *call) {
    if (toolcell_modify_context("branch", "{\"name\":\"fix\"}")) toolcell_text(call, "marked");
}

static const toolcell_field url_fields[] = {{.name = "url"}, {.name = NULL}};

static void fetch(toolcell_call *call) {
    toolcell_header header = {"x-probe", "yes"};
    toolcell_request request = {"POST", toolcell_get_string(call->input, "url", ""), &header, 1, "ping", 4, 0};
    toolcell_response response = toolcell_send(&request);
    if (response.error != TOOLCELL_HTTP_OK) {
        toolcell_fail_http(call, response.error);
        return;
    }
    toolcell_json_text(call, toolcell_format("{\"status\":%d,\"body\":%s}", response.status, toolcell_quote(response.body)));
}

static const toolcell_field relay_fields[] = {{.name = "tool"}, {.name = "input", .type = TOOLCELL_ANY}, {.name = NULL}};

static void relay(toolcell_call *call) {
    toolcell_answer got = toolcell_call_tool(toolcell_get_string(call->input, "tool", ""), toolcell_json_of(toolcell_get(call->input, "input")));
    if (got.error) {
        toolcell_fail_with(call, got.error);
        return;
    }
    const char *callable = toolcell_size(toolcell_callable()) > 0 ? "true" : "false";
    toolcell_json_text(call, toolcell_format("{\"answer\":%s,\"callable\":%s}", toolcell_json_of(got.structured), callable));
}

static const char *unit = "none";

static void configure(toolcell_call *call) { unit = toolcell_get_string(call->input, "unit", unit); }

static void setting(toolcell_call *call) { toolcell_text(call, "%s", unit); }

static const toolcell_field even_fields[] = {{.name = "n", .type = TOOLCELL_INTEGER}, {.name = NULL}};

static void even(toolcell_call *call) { toolcell_text(call, "%lld", (long long)toolcell_get_int(call->input, "n", 0)); }

static void check(toolcell_call *call) {
    long long n = toolcell_get_int(call->input, "n", 0);
    if (!strcmp(call->tool, "even") && n % 2) toolcell_fail(call, TOOLCELL_INVALID_ARGUMENTS, "odd", "%lld is odd", n);
}

static void preflight(toolcell_call *call) {
    bool is_zero = !toolcell_get_int(call->input, "n", 1);
    if (!strcmp(call->tool, "even") && is_zero) toolcell_fail(call, TOOLCELL_SETUP_REQUIRED, "not_ready", "not for 0");
}

static const toolcell_field touch_fields[] = {{.name = "change", .type = TOOLCELL_BOOLEAN}, {.name = NULL}};

static void touch(toolcell_call *call) { toolcell_text(call, "touched"); }

static toolcell_facts classify(const toolcell_call *call) {
    toolcell_facts facts = {0};
    if (!strcmp(call->tool, "touch")) facts.read_only = toolcell_get_bool(call->input, "change", true) ? TOOLCELL_NO : TOOLCELL_YES;
    return facts;
}

#define WRITES "\"access\": [\"file_read\", \"file_write\"]"

TOOLCELL_TOOLKIT(
    "parity",
    {.name = "order", .description = "Answers an order.", .run = order, .arguments = order_fields, .results = order_fields},
    {.name = "say", .description = "Answers JSON.", .run = say, .arguments = text_fields},
    {.name = "blocks", .description = "Answers blocks.", .run = blocks, .arguments = half_fields},
    {.name = "fail", .description = "Fails.", .run = fail},
    {.name = "look", .description = "Reads a file.", .run = look, .arguments = path_fields,
     .more = WRITES ", \"write_effects\": [\"local_draft\"], \"paths\": [\"path\"]"},
    {.name = "variable", .description = "Reads a variable.", .run = variable, .more = "\"environment\": [\"PARITY\"]"},
    {.name = "report", .description = "Reports.", .run = report},
    {.name = "wait", .description = "Waits for a stop.", .run = wait_for_stop},
    {.name = "ask", .description = "Asks.", .run = ask},
    {.name = "keep", .description = "Keeps a file.", .run = keep},
    {.name = "mark", .description = "Changes the context.", .run = mark},
    {.name = "fetch", .description = "Sends a request.", .run = fetch, .arguments = url_fields,
     .more = "\"access\": [\"network\"], \"urls\": [\"url\"], \"write_effects\": [\"remote_mutation\"]"},
    {.name = "relay", .description = "Calls a tool.", .run = relay, .arguments = relay_fields, .more = "\"tool_calls\": [\"*\"]"},
    {.name = "setting", .description = "Says its setting.", .run = setting},
    {.name = "even", .description = "Takes even numbers.", .run = even, .arguments = even_fields},
    {.name = "touch", .description = "Says whether it changes things.", .run = touch, .arguments = touch_fields, .more = WRITES});

TOOLCELL_VALIDATION(check, preflight)
TOOLCELL_CONFIGURATION(configure)
TOOLCELL_CLASSIFICATION(classify)
