/* What a tool declares, and what comes of a call. */
#include "toolcell.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The declaration ---- */

static bool holds_others(toolcell_type type) { return type == TOOLCELL_ARRAY || type == TOOLCELL_MAP; }

/* A list without its last element goes on in what lies behind it, which looks like no field at some point. */
static void check_fields(const char *tool, const toolcell_field *fields) {
    for (const toolcell_field *one = fields; one && one->name; one++) {
        int fits = (unsigned)one->type <= TOOLCELL_ANY && one - fields < 1000;
#ifdef __wasm__
        size_t end = __builtin_wasm_memory_size(0) << 16;
        fits = fits && (size_t)one->name < end && (size_t)one->description < end;
#endif
        if (!fits) {
            fprintf(stderr, "toolcell: the arguments of the tool %s have no end: the last element is {NULL}\n", tool);
            abort();
        }
        if (holds_others(one->type) && holds_others(one->items) && !one->schema) {
            fprintf(stderr, "toolcell: the tool %s: the field %s needs a .schema: its items hold others\n", tool, one->name);
            abort();
        }
        check_fields(tool, one->fields);
    }
}

static void put_fields(toolcell_buffer *to, const toolcell_field *fields);

/* Limits of a value that holds no others. */
static void put_limits(toolcell_buffer *to, const toolcell_field *of) {
    if (of->choices) {
        toolcell_put_name(to, "enum");
        toolcell_begin(to, '[');
        for (const char *const *choice = of->choices; *choice; choice++) toolcell_put_string(to, *choice);
        if (of->nullable) toolcell_put_json(to, NULL);
        toolcell_end(to, ']');
    }
    if (of->minimum.is_set) {
        toolcell_put_name(to, "minimum");
        toolcell_put_number(to, of->minimum.value);
    }
    if (of->maximum.is_set) {
        toolcell_put_name(to, "maximum");
        toolcell_put_number(to, of->maximum.value);
    }
    if (of->pattern) {
        toolcell_put_name(to, "pattern");
        toolcell_put_string(to, of->pattern);
    }
}

/* Members of the schema of a value of `type`: a field, or what is in it. */
static void put_type(toolcell_buffer *to, const toolcell_field *of, toolcell_type type, bool nullable) {
    static const char *const names[] = {"string", "integer", "number", "boolean", "array", "object", "array", "object"};
    if (type == TOOLCELL_ANY) return;
    toolcell_put_name(to, "type");
    if (nullable) toolcell_begin(to, '[');
    toolcell_put_string(to, names[type]);
    if (nullable) {
        toolcell_put_string(to, "null");
        toolcell_end(to, ']');
    }
    if (type == TOOLCELL_OBJECT) {
        put_fields(to, of->fields);
    } else if (type == TOOLCELL_STRINGS || holds_others(type)) {
        toolcell_put_name(to, type == TOOLCELL_MAP ? "additionalProperties" : "items");
        toolcell_begin(to, '{');
        put_type(to, of, type == TOOLCELL_STRINGS ? TOOLCELL_STRING : of->items, false);
        toolcell_end(to, '}');
    } else {
        put_limits(to, of);
    }
}

static void put_field(toolcell_buffer *to, const toolcell_field *of) {
    if (of->schema) {
        toolcell_put_json(to, toolcell_parse(of->schema));
        return;
    }
    toolcell_begin(to, '{');
    put_type(to, of, of->type, of->nullable);
    if (of->description) {
        toolcell_put_name(to, "description");
        toolcell_put_string(to, of->description);
    }
    if (of->otherwise) {
        toolcell_put_name(to, "default");
        toolcell_put_json(to, toolcell_parse(of->otherwise));
    }
    toolcell_end(to, '}');
}

/* Members of the schema of an object. */
static void put_fields(toolcell_buffer *to, const toolcell_field *fields) {
    toolcell_put_name(to, "properties");
    toolcell_begin(to, '{');
    for (const toolcell_field *one = fields; one && one->name; one++) {
        toolcell_put_name(to, one->name);
        put_field(to, one);
    }
    toolcell_end(to, '}');
    toolcell_put_name(to, "required");
    toolcell_begin(to, '[');
    for (const toolcell_field *one = fields; one && one->name; one++) {
        if (!one->optional && !one->otherwise) toolcell_put_string(to, one->name);
    }
    toolcell_end(to, ']');
    toolcell_put_name(to, "additionalProperties");
    toolcell_put_bool(to, false);
}

const char *toolcell_schema_of(const toolcell_field *fields) {
    toolcell_field object = {.type = TOOLCELL_OBJECT, .fields = fields};
    toolcell_buffer made = {0};
    put_field(&made, &object);
    return made.text;
}

static const char *schema(const char *tool, const char *own, const toolcell_field *fields) {
    if (own) return own;
    check_fields(tool, fields);
    return toolcell_schema_of(fields);
}

const char *toolcell_describe(void) {
    toolcell_buffer made = {0};
    toolcell_append(&made, "{\"namespace\":%s,\"tools\":[", toolcell_quote(toolcell_namespace));
    for (const toolcell_tool *tool = toolcell_tools; tool->name; tool++) {
        toolcell_append(&made, "%s{\"name\":%s,\"description\":%s,\"input\":%s", tool == toolcell_tools ? "" : ",",
                        toolcell_quote(tool->name), toolcell_quote(tool->description),
                        schema(tool->name, tool->input, tool->arguments));
        if (tool->output || tool->results)
            toolcell_append(&made, ",\"output\":%s", schema(tool->name, tool->output, tool->results));
        if (tool->more) toolcell_append(&made, ",%s", tool->more);
        toolcell_append(&made, "}");
    }
    toolcell_append(&made, "]}");
    return made.text;
}

static void fill_inside(const toolcell_json *value, const toolcell_field *of) {
    if (of->type == TOOLCELL_OBJECT) {
        toolcell_fill(value, of->fields);
    } else if (holds_others(of->type) && of->items == TOOLCELL_OBJECT) {
        for (size_t i = 0; i < toolcell_size(value); i++) toolcell_fill(toolcell_at(value, i), of->fields);
    }
}

/* Gives an object the defaults of the fields that it lacks, as the schema promises. */
void toolcell_fill(const toolcell_json *object, const toolcell_field *fields) {
    if (toolcell_kind(object) != TOOLCELL_JSON_OBJECT) return;
    for (const toolcell_field *one = fields; one && one->name; one++) {
        if (!toolcell_get(object, one->name) && one->otherwise) {
            const toolcell_json *value = toolcell_parse(one->otherwise);
            if (value) toolcell_set(object, one->name, value);
        }
        const toolcell_json *value = toolcell_get(object, one->name);
        if (value) fill_inside(value, one);
    }
}

/* ---- Outcomes ---- */

static struct toolcell_outcome *outcome(toolcell_call *call, toolcell_test_kind kind) {
    memset(call->outcome, 0, sizeof *call->outcome);
    call->outcome->kind = kind;
    call->outcome->set = true;
    return call->outcome;
}

void toolcell_text(toolcell_call *call, const char *format, ...) {
    va_list list;
    size_t length;
    va_start(list, format);
    const char *text = toolcell_format_list(format, list, &length);
    va_end(list);
    struct toolcell_outcome *made = outcome(call, TOOLCELL_IS_TEXT);
    made->text = text;
    made->text_length = length;
}

void toolcell_text_bytes(toolcell_call *call, const char *text, size_t length) {
    struct toolcell_outcome *made = outcome(call, TOOLCELL_IS_TEXT);
    /* The copy ends with a zero byte, which ends a character that is cut. */
    made->text = toolcell_copy(text, length);
    made->text_length = length;
}

void toolcell_json_text(toolcell_call *call, const char *json) { outcome(call, TOOLCELL_IS_JSON)->text = json; }

void toolcell_content(toolcell_call *call, const char *content, const char *structured, const char *summary) {
    struct toolcell_outcome *made = outcome(call, TOOLCELL_IS_CONTENT);
    made->text = content;
    made->structured = structured;
    made->summary = summary;
}

void toolcell_fail(toolcell_call *call, toolcell_error_class kind, const char *code, const char *format, ...) {
    va_list list;
    size_t length;
    va_start(list, format);
    const char *message = toolcell_format_list(format, list, &length);
    va_end(list);
    struct toolcell_outcome *made = outcome(call, TOOLCELL_IS_FAILURE);
    made->error = kind;
    made->code = code;
    made->message = message;
}

void toolcell_fail_with(toolcell_call *call, const toolcell_error *error) {
    toolcell_fail(call, error->kind, error->code, "%s", error->message);
    call->outcome->word = error->word;
    call->outcome->detail = error->detail;
}

void toolcell_fail_detail(toolcell_call *call, const char *detail) { call->outcome->detail = detail; }

void toolcell_fail_retry_after(toolcell_call *call, uint64_t milliseconds) {
    call->outcome->retry = true;
    call->outcome->retry_after = milliseconds;
}

void toolcell_partial(toolcell_call *call, const char *content, const char *structured, toolcell_error_class kind,
                      const char *code, const char *message) {
    struct toolcell_outcome *made = outcome(call, TOOLCELL_IS_PARTIAL);
    made->text = content;
    made->structured = structured;
    made->error = kind;
    made->code = code;
    made->message = message;
}

const toolcell_error *toolcell_http_failure(toolcell_http_error error) {
    static const toolcell_error rows[] = {
        {TOOLCELL_EXECUTION_FAILED, NULL, "no_error", "the request succeeded", NULL},
        {TOOLCELL_INVALID_ARGUMENTS, NULL, "invalid_request", "the request cannot be sent", NULL},
        {TOOLCELL_EXECUTION_FAILED, NULL, "not_allowed", "this call may not send that request", NULL},
        {TOOLCELL_RATE_LIMITED, NULL, "limit", "a limit on requests was reached", NULL},
        {TOOLCELL_RESULT_TOO_LARGE, NULL, "too_large", "the response is too large", NULL},
        {TOOLCELL_TIMEOUT, NULL, "server_timeout", "the server did not answer in time", NULL},
        {TOOLCELL_DEPENDENCY_UNAVAILABLE, NULL, "unreachable", "the server cannot be reached", NULL},
        {TOOLCELL_DEPENDENCY_UNAVAILABLE, NULL, "broken_response", "the response is malformed or incomplete", NULL},
    };
    return &rows[error];
}

void toolcell_fail_http(toolcell_call *call, toolcell_http_error error) {
    toolcell_fail_with(call, toolcell_http_failure(error));
}

static const toolcell_tool *called(const toolcell_call *call) {
    const toolcell_tool *tool = toolcell_tools;
    while (tool->name && strcmp(tool->name, call->tool) != 0) tool++;
    return tool->name ? tool : NULL;
}

void toolcell_prepare(toolcell_call *call) {
    const toolcell_tool *tool = called(call);
    if (tool) toolcell_fill(call->input, tool->arguments);
}

void toolcell_run(toolcell_call *call) {
    const toolcell_tool *tool = called(call);
    if (!tool) {
        toolcell_fail(call, TOOLCELL_INVALID_ARGUMENTS, "no_such_tool", "there is no tool %s", call->tool);
        return;
    }
    toolcell_prepare(call);
    tool->run(call);
    if (!call->outcome->set) toolcell_fail(call, TOOLCELL_EXECUTION_FAILED, "no_outcome", "the tool returned nothing");
}
