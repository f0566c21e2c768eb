/* A host for native tests. */
#ifndef __wasm__
#include "toolcell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The component's own are defined by the macros of `toolcell.h`. */
#define WEAK __attribute__((weak))
WEAK void (*toolcell_validation)(toolcell_call *call) = NULL;
WEAK void (*toolcell_preflight)(toolcell_call *call) = NULL;
WEAK void (*toolcell_configuration)(toolcell_call *call) = NULL;
WEAK toolcell_facts (*toolcell_classification)(const toolcell_call *call) = NULL;

typedef struct offer {
    const char *name, *structured;
    struct offer *next;
} offer;

static const char *answers, *heard, *asked, *body, *context, *state, *settings;
static toolcell_abort_reason reason = TOOLCELL_NOT_CANCELED;
static uint16_t status;
static offer *offers;

void toolcell_test_begin(void) {
    toolcell_free_all();
    answers = heard = asked = body = context = state = settings = NULL;
    offers = NULL;
    reason = TOOLCELL_NOT_CANCELED;
    status = 0;
}

void toolcell_test_answers(const char *json) { answers = json; }
void toolcell_test_cancel(toolcell_abort_reason why) { reason = why; }
void toolcell_test_response(uint16_t code, const char *text) {
    status = code;
    body = text;
}

void toolcell_test_context(const char *json) { context = json; }
void toolcell_test_resume_state(const char *bytes) { state = bytes; }
void toolcell_test_settings(const char *json) { settings = json; }
void toolcell_test_offer(const char *name, const char *structured) {
    offer *made = (offer *)toolcell_allocate(sizeof *made);
    *made = (offer){name, structured, offers};
    offers = made;
}

const char *toolcell_test_heard(void) { return heard ? heard : ""; }
static void hear(const char *line) { heard = toolcell_format("%s%s\n", toolcell_test_heard(), line); }

static void give_up(const char *why, const char *what) {
    fprintf(stderr, "toolcell_test_call: %s: %s\n", why, what);
    exit(2);
}

static toolcell_call call_of(const char *tool, const char *input, struct toolcell_outcome *outcome) {
    toolcell_call call = {"test", tool, toolcell_parse(input), input, 1, toolcell_parse(context ? context : "{}"), outcome};
    if (!call.input) give_up("the arguments are not JSON", input);
    return call;
}

toolcell_facts toolcell_test_classify(const char *tool, const char *input) {
    struct toolcell_outcome outcome = {0};
    toolcell_call call = call_of(tool, input, &outcome);
    if (!toolcell_classification) give_up("TOOLCELL_CLASSIFICATION names no function", tool);
    toolcell_prepare(&call);
    return toolcell_classification(&call);
}

toolcell_test_outcome toolcell_test_call(const char *tool, const char *input) {
    struct toolcell_outcome outcome = {0};
    toolcell_call call = call_of(tool, input, &outcome);
    const toolcell_tool *known = toolcell_tools;
    while (known->name && strcmp(known->name, tool) != 0) known++;
    if (!known->name) give_up("there is no tool", tool);
    asked = NULL;
    toolcell_prepare(&call);
    if (toolcell_validation) toolcell_validation(&call);
    if (toolcell_preflight && !outcome.set) toolcell_preflight(&call);
    if (settings && !outcome.set) {
        toolcell_call configuring = call_of("", settings, &outcome);
        if (!toolcell_configuration) give_up("TOOLCELL_CONFIGURATION names no function", settings);
        toolcell_configuration(&configuring);
    }
    if (!outcome.set) toolcell_run(&call);
    if (asked) return (toolcell_test_outcome){TOOLCELL_IS_QUESTION, asked, NULL, NULL, TOOLCELL_EXECUTION_FAILED, 0};
    const char *text = outcome.kind == TOOLCELL_IS_FAILURE ? outcome.message : outcome.text;
    return (toolcell_test_outcome){outcome.kind, text, outcome.structured, outcome.code, outcome.error, outcome.text_length};
}

void toolcell_report(const toolcell_update *update) {
    const char *message = update->message ? update->message : "";
    hear(update->percent < 0 ? toolcell_format("progress %s", message)
                             : toolcell_format("progress %g %s", update->percent, message));
}

void toolcell_progress(const char *message, double percent) {
    toolcell_update update = {message, percent, NULL, -1, -1, -1, -1};
    toolcell_report(&update);
}

const char *toolcell_partial_result(const char *content) {
    hear(toolcell_format("partial %s", content));
    return "test:partial";
}

void toolcell_log(toolcell_level level, const char *message, const char *fields) {
    static const char *const names[] = {"trace", "debug", "info", "warn", "error"};
    hear(toolcell_format("log %s %s%s%s", names[level], message, fields ? " " : "", fields ? fields : ""));
}

toolcell_abort_reason toolcell_canceled(void) { return reason; }
void toolcell_acknowledge(void) { hear("acknowledged"); }

toolcell_abort_reason toolcell_wait(uint64_t milliseconds) {
    hear(toolcell_format("wait %llu", (unsigned long long)milliseconds));
    return reason;
}

const toolcell_json *toolcell_responses(void) { return toolcell_parse(answers ? answers : "{}"); }

const char *toolcell_resume_state(size_t *length) {
    *length = state ? strlen(state) : 0;
    return state ? state : "";
}

void toolcell_ask(const toolcell_question *questions, size_t count, const void *remembered, size_t length) {
    (void)remembered, (void)length;
    for (size_t i = 0; i < count; i++) hear(toolcell_format("question %s %s", questions[i].key, questions[i].message));
    asked = count ? questions[0].key : "";
}

bool toolcell_modify_context(const char *key, const char *json) {
    hear(toolcell_format("context %s %s", key, json));
    return true;
}

const char *toolcell_artifact(const char *name, const char *media_type, const void *bytes, size_t length) {
    (void)bytes;
    hear(toolcell_format("artifact %s %s %zu", name, media_type, length));
    return "test:artifact";
}

int32_t toolcell_artifact_begin(const char *name, const char *media_type) {
    hear(toolcell_format("artifact %s %s", name, media_type));
    return 1;
}

bool toolcell_artifact_write(int32_t artifact, const void *bytes, size_t length) {
    (void)artifact, (void)bytes;
    hear(toolcell_format("chunk %zu", length));
    return true;
}

const char *toolcell_artifact_finish(int32_t artifact) {
    (void)artifact;
    return "test:artifact";
}

toolcell_answer toolcell_call_tool(const char *name, const char *input) {
    static const toolcell_error none = {TOOLCELL_OTHER_CLASS, "permission_denied", "tool_not_callable",
                                        "the test offers no such tool: toolcell_test_offer", NULL};
    hear(toolcell_format("call %s %s", name, input));
    for (offer *one = offers; one; one = one->next) {
        if (strcmp(one->name, name) == 0) return (toolcell_answer){"test", toolcell_parse("[]"), toolcell_parse(one->structured), NULL};
    }
    return (toolcell_answer){"", NULL, NULL, &none};
}

const toolcell_json *toolcell_callable(void) {
    toolcell_buffer made = {0};
    toolcell_begin(&made, '[');
    for (offer *one = offers; one; one = one->next) {
        toolcell_begin(&made, '{');
        toolcell_put_name(&made, "name");
        toolcell_put_string(&made, one->name);
        toolcell_end(&made, '}');
    }
    toolcell_end(&made, ']');
    return toolcell_parse(made.text);
}

toolcell_response toolcell_send(const toolcell_request *request) {
    toolcell_response response = {TOOLCELL_HTTP_UNREACHABLE, 0, NULL, 0, "", 0};
    hear(toolcell_format("request %s %s", request->method ? request->method : "GET", request->url));
    if (!body) return response;
    size_t limit = request->limit ? request->limit : TOOLCELL_BODY_LIMIT;
    response.error = strlen(body) > limit ? TOOLCELL_HTTP_TOO_LARGE : TOOLCELL_HTTP_OK;
    response.status = status;
    response.body = body;
    response.body_length = strlen(body);
    return response;
}
#endif
