/* A host for native tests. */
#ifndef __wasm__
#include "toolcell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *answers, *heard, *asked, *body;
static toolcell_abort_reason reason = TOOLCELL_NOT_CANCELED;
static uint16_t status;

void toolcell_test_begin(void) {
    toolcell_free_all();
    answers = heard = asked = body = NULL;
    reason = TOOLCELL_NOT_CANCELED;
    status = 0;
}

void toolcell_test_answers(const char *json) { answers = json; }
void toolcell_test_cancel(toolcell_abort_reason why) { reason = why; }
void toolcell_test_response(uint16_t code, const char *text) {
    status = code;
    body = text;
}

const char *toolcell_test_heard(void) { return heard ? heard : ""; }
static void hear(const char *line) { heard = toolcell_format("%s%s\n", toolcell_test_heard(), line); }

static void give_up(const char *why, const char *what) {
    fprintf(stderr, "toolcell_test_call: %s: %s\n", why, what);
    exit(2);
}

toolcell_test_outcome toolcell_test_call(const char *tool, const char *input) {
    struct toolcell_outcome outcome = {0};
    toolcell_call call = {"test", tool, toolcell_parse(input), input, 1, toolcell_parse("{}"), &outcome};
    if (!call.input) give_up("the arguments are not JSON", input);
    const toolcell_tool *known = toolcell_tools;
    while (known->name && strcmp(known->name, tool) != 0) known++;
    if (!known->name) give_up("there is no tool", tool);
    asked = NULL;
    toolcell_run(&call);
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

const toolcell_json *toolcell_responses(void) { return toolcell_parse(answers ? answers : "{}"); }

const char *toolcell_resume_state(size_t *length) {
    *length = 0;
    return "";
}

void toolcell_ask(const toolcell_question *questions, size_t count, const void *state, size_t state_length) {
    (void)state, (void)state_length;
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
