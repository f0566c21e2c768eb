/* The contract's canonical ABI, by hand: what the host calls, and what a tool calls of the host. A function that no tool
 * uses is removed by the linker, and its interface with it. */
#ifdef __wasm__
#include "toolcell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(from, name) __attribute__((import_module("toolcell:tool/" from "@0.2.0"), import_name(name)))
#define WASI(from, name) __attribute__((import_module("wasi:" from "@0.2.6"), import_name(name)))

typedef struct {
    const char *at;
    size_t length;
} text;

typedef struct {
    uint8_t some;
    text value;
} optional_text;

typedef struct {
    text content;
    optional_text structured, summary;
} output;

typedef struct {
    uint8_t kind;
    text other;
} class;

typedef struct {
    class kind;
    text code, message;
    optional_text detail;
    uint8_t retry;
    uint64_t retry_after;
} failure;

typedef struct {
    uint8_t kind;
    union {
        output success;
        text words;
        struct {
            output output;
            failure error;
        } partial;
        failure error;
    } value;
} outcome;

_Static_assert(sizeof(output) == 32 && sizeof(failure) == 56 && sizeof(outcome) == 96, "the layout of the contract");

enum { SUCCESS, TEXT, JSON, PARTIAL, FAILURE };

/* From the reactor's runtime: constructors, and the folders of the call. */
void _initialize(void);

EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align; /* `malloc` aligns for every type of the contract. */
    if (size == 0) return (void *)align;
    /* Fresh zero bytes, so that the text of the host ends with one. */
    char *made = (char *)toolcell_allocate(size + 1);
    if (old_size) memcpy(made, old, old_size < size ? old_size : size);
    return made;
}

/* Bytes that are no UTF-8 would end the call as a crash. */
static text from(const char *words) {
    words = toolcell_utf8(words ? words : "");
    return (text){words, strlen(words)};
}

static optional_text maybe(const char *words) { return (optional_text){words != NULL, from(words)}; }

/* An empty string of the host is no address. */
static const char *given(const char *at, size_t length) { return length ? at : ""; }

static output output_of(const struct toolcell_outcome *made) {
    return (output){from(made->text), maybe(made->structured), maybe(made->summary)};
}

static failure failure_of(const struct toolcell_outcome *made) {
    return (failure){{(uint8_t)made->error, from(made->word)}, from(made->code),   from(made->message),
                     maybe(made->detail),             made->retry, made->retry_after};
}

EXPORT("toolcell:tool/guest@0.2.0#describe") text *describe(void) {
    static text answer;
    answer = from(toolcell_describe());
    return &answer;
}

EXPORT("toolcell:tool/guest@0.2.0#invoke")
outcome *invoke(const char *id, size_t id_length, const char *tool, size_t tool_length, const char *input,
                size_t input_length, uint32_t attempt, const char *context, size_t context_length) {
    static outcome answer;
    struct toolcell_outcome made = {0};
    toolcell_call call = {given(id, id_length),
                          given(tool, tool_length),
                          toolcell_parse(given(input, input_length)),
                          given(input, input_length),
                          attempt,
                          toolcell_parse(given(context, context_length)),
                          &made};
    if (call.input) {
        toolcell_run(&call);
        /* The instance ends without `exit`, which would write what is left. */
        fflush(NULL);
    } else {
        toolcell_fail(&call, TOOLCELL_INVALID_ARGUMENTS, "too_deep", "the arguments are nested too deeply");
    }
    switch (made.kind) {
    case TOOLCELL_IS_TEXT:
        answer.kind = TEXT;
        answer.value.words.length = made.text_length;
        answer.value.words.at = toolcell_utf8_bytes(made.text, &answer.value.words.length);
        break;
    case TOOLCELL_IS_JSON:
        answer.kind = JSON;
        answer.value.words = from(made.text);
        break;
    case TOOLCELL_IS_CONTENT:
        answer.kind = SUCCESS;
        answer.value.success = output_of(&made);
        break;
    case TOOLCELL_IS_PARTIAL:
        answer.kind = PARTIAL;
        answer.value.partial.output = output_of(&made);
        answer.value.partial.error = failure_of(&made);
        break;
    default:
        answer.kind = FAILURE;
        answer.value.error = failure_of(&made);
    }
    return &answer;
}

/* ---- More exports: the macros of `toolcell.h` name them ---- */

typedef struct {
    uint8_t failed;
    failure error;
} checked;

void *toolcell_checked(const char *tool, size_t tool_length, const char *input, size_t length, void (*check)(toolcell_call *)) {
    static checked answer;
    struct toolcell_outcome made = {0};
    toolcell_call call = {"", given(tool, tool_length), toolcell_parse(given(input, length)), given(input, length), 1, NULL, &made};
    if (tool_length) toolcell_prepare(&call);
    if (check) check(&call);
    answer.failed = made.kind == TOOLCELL_IS_FAILURE;
    if (answer.failed) answer.error = failure_of(&made);
    return &answer;
}

void *toolcell_classified(const char *tool, size_t tool_length, const char *input, size_t length,
                          toolcell_facts (*classify)(const toolcell_call *)) {
    static uint8_t answer[4];
    struct toolcell_outcome made = {0};
    toolcell_call call = {"", given(tool, tool_length), toolcell_parse(given(input, length)), given(input, length), 1, NULL, &made};
    toolcell_prepare(&call);
    toolcell_facts facts = classify(&call);
    answer[0] = (uint8_t)facts.read_only;
    answer[1] = (uint8_t)facts.concurrency_safe;
    answer[2] = (uint8_t)facts.destructive;
    answer[3] = (uint8_t)facts.open_world;
    return answer;
}

/* ---- Progress ---- */

IMPORT("progress", "report")
void host_report(int32_t message, const char *at, size_t length, int32_t percent, double value, int32_t step,
                 const char *step_at, size_t step_length, int32_t steps, int32_t step_count, int32_t read, int64_t read_count,
                 int32_t written, int64_t written_count, int32_t lines, int64_t line_count);
IMPORT("progress", "partial-result") void host_partial_result(const char *at, size_t length, text *reference);

void toolcell_report(const toolcell_update *update) {
    text message = from(update->message), step = from(update->current_step);
    host_report(update->message != NULL, message.at, message.length, update->percent >= 0, update->percent,
                update->current_step != NULL, step.at, step.length, update->total_steps >= 0, (int32_t)update->total_steps,
                update->bytes_read >= 0, update->bytes_read, update->bytes_written >= 0, update->bytes_written,
                update->line_count >= 0, update->line_count);
}

void toolcell_progress(const char *message, double percent) {
    toolcell_update update = {message, percent, NULL, -1, -1, -1, -1};
    toolcell_report(&update);
}

const char *toolcell_partial_result(const char *content) {
    text reference, blocks = from(content);
    host_partial_result(blocks.at, blocks.length, &reference);
    return given(reference.at, reference.length);
}

/* ---- Log ---- */

IMPORT("log", "log")
void host_log(int32_t level, const char *at, size_t length, int32_t some, const char *fields, size_t fields_length);

void toolcell_log(toolcell_level level, const char *message, const char *fields) {
    text words = from(message), more = from(fields);
    host_log(level, words.at, words.length, fields != NULL, more.at, more.length);
}

/* ---- Cancellation ---- */

typedef struct {
    uint8_t some, value;
} optional_reason;

IMPORT("cancellation", "requested") void host_requested(optional_reason *reason);
IMPORT("cancellation", "acknowledge") void host_acknowledge(void);

toolcell_abort_reason toolcell_canceled(void) {
    optional_reason reason;
    host_requested(&reason);
    return reason.some ? (toolcell_abort_reason)reason.value : TOOLCELL_NOT_CANCELED;
}

void toolcell_acknowledge(void) { host_acknowledge(); }

IMPORT("cancellation-signal", "subscribe") int32_t host_stop(void);
WASI("clocks/monotonic-clock", "subscribe-duration") int32_t host_pause(uint64_t nanoseconds);
WASI("io/poll", "poll") void host_poll(const int32_t *first, size_t count, text *ready);
WASI("io/poll", "[resource-drop]pollable") void host_drop_pollable(int32_t pollable);

toolcell_abort_reason toolcell_wait(uint64_t milliseconds) {
    uint64_t most = UINT64_MAX / 1000000;
    int32_t both[] = {host_stop(), host_pause((milliseconds < most ? milliseconds : most) * 1000000)};
    text ready;
    host_poll(both, 2, &ready);
    host_drop_pollable(both[0]);
    host_drop_pollable(both[1]);
    return toolcell_canceled();
}

/* ---- Questions ---- */

typedef struct {
    text key, message, schema;
} question;

IMPORT("interaction", "responses") void host_responses(text *answer);
IMPORT("interaction", "resume-state") void host_resume_state(text *state);
IMPORT("interaction", "ask") void host_ask(const question *questions, size_t count, const void *state, size_t length);

const toolcell_json *toolcell_responses(void) {
    text answer;
    host_responses(&answer);
    return toolcell_parse(given(answer.at, answer.length));
}

const char *toolcell_resume_state(size_t *length) {
    text state;
    host_resume_state(&state);
    *length = state.length;
    return given(state.at, state.length);
}

void toolcell_ask(const toolcell_question *questions, size_t count, const void *state, size_t state_length) {
    question *made = (question *)toolcell_allocate(count * sizeof *made);
    for (size_t i = 0; i < count; i++) {
        made[i] = (question){from(questions[i].key), from(questions[i].message), from(questions[i].schema)};
    }
    fflush(NULL); /* The call ends here. */
    host_ask(made, count, state, state_length);
}

/* ---- Artifacts and the caller's context ---- */

typedef struct {
    uint8_t failed;
    union {
        int32_t handle;
        text reference;
        struct {
            uint8_t kind;
            text why;
        } error;
    } value;
} store_result;

IMPORT("artifacts", "create")
void host_create(const char *name, size_t name_length, const char *type, size_t type_length, store_result *result);
IMPORT("artifacts", "[method]artifact.write")
void host_write(int32_t artifact, const char *bytes, size_t length, store_result *result);
IMPORT("artifacts", "[static]artifact.finish") void host_finish(int32_t artifact, store_result *result);
IMPORT("artifacts", "[resource-drop]artifact") void host_drop_artifact(int32_t artifact);
IMPORT("context-modifiers", "modify")
void host_modify(const char *key, size_t key_length, const char *value, size_t length, store_result *result);

/* Whether the host refused. Its sentence is for the author, so it goes to the log. */
static bool refused(const store_result *result) {
    if (!result->failed) return false;
    text why = result->value.error.why;
    toolcell_log(TOOLCELL_WARN, given(why.at, why.length), NULL);
    return true;
}

/* Maximum size of one write, by the contract. */
#define CHUNK ((size_t)1 << 20)

int32_t toolcell_artifact_begin(const char *name, const char *media_type) {
    store_result result = {0};
    text named = from(name), type = from(media_type);
    host_create(named.at, named.length, type.at, type.length, &result);
    return refused(&result) ? -1 : result.value.handle;
}

bool toolcell_artifact_write(int32_t artifact, const void *bytes, size_t length) {
    store_result result = {0};
    const char *at = (const char *)bytes;
    for (size_t now; length; at += now, length -= now) {
        now = length < CHUNK ? length : CHUNK;
        host_write(artifact, at, now, &result);
        if (refused(&result)) {
            host_drop_artifact(artifact);
            return false;
        }
    }
    return true;
}

const char *toolcell_artifact_finish(int32_t artifact) {
    store_result result = {0};
    host_finish(artifact, &result);
    return refused(&result) ? NULL : given(result.value.reference.at, result.value.reference.length);
}

const char *toolcell_artifact(const char *name, const char *media_type, const void *bytes, size_t length) {
    int32_t artifact = toolcell_artifact_begin(name, media_type);
    if (artifact < 0 || !toolcell_artifact_write(artifact, bytes, length)) return NULL;
    return toolcell_artifact_finish(artifact);
}

bool toolcell_modify_context(const char *key, const char *json) {
    store_result result = {0};
    text fact = from(key), value = from(json);
    host_modify(fact.at, fact.length, value.at, value.length, &result);
    return !refused(&result);
}

/* ---- Other tools ---- */

typedef struct {
    text invocation_id, content;
    optional_text structured;
    struct {
        uint8_t some;
        failure error;
    } missing;
} tool_answer;

typedef struct {
    uint8_t failed;
    union {
        tool_answer answer;
        failure error;
    } value;
} call_result;

typedef struct {
    text name, description;
} callable;

typedef struct {
    const callable *first;
    size_t count;
} callables;

_Static_assert(sizeof(tool_answer) == 96 && sizeof(call_result) == 104, "the layout of the contract");

IMPORT("tools", "call")
void host_call(const char *tool, size_t tool_length, const char *input, size_t length, call_result *result);
IMPORT("tools", "list") void host_list(callables *found);

static const toolcell_error *error_of(const failure *of) {
    toolcell_error *made = (toolcell_error *)toolcell_allocate(sizeof *made);
    made->kind = (toolcell_error_class)of->kind.kind;
    if (made->kind == TOOLCELL_OTHER_CLASS) made->word = given(of->kind.other.at, of->kind.other.length);
    made->code = given(of->code.at, of->code.length);
    made->message = given(of->message.at, of->message.length);
    if (of->detail.some) made->detail = given(of->detail.value.at, of->detail.value.length);
    return made;
}

toolcell_answer toolcell_call_tool(const char *name, const char *input) {
    call_result result;
    text tool = from(name), arguments = from(input);
    host_call(tool.at, tool.length, arguments.at, arguments.length, &result);
    if (result.failed) return (toolcell_answer){"", NULL, NULL, error_of(&result.value.error)};
    const tool_answer *got = &result.value.answer;
    return (toolcell_answer){given(got->invocation_id.at, got->invocation_id.length),
                             toolcell_parse(given(got->content.at, got->content.length)),
                             got->structured.some ? toolcell_parse(given(got->structured.value.at, got->structured.value.length)) : NULL,
                             got->missing.some ? error_of(&got->missing.error) : NULL};
}

const toolcell_json *toolcell_callable(void) {
    callables found;
    host_list(&found);
    toolcell_buffer made = {0};
    toolcell_begin(&made, '[');
    for (size_t i = 0; i < found.count; i++) {
        toolcell_begin(&made, '{');
        toolcell_put_name(&made, "name");
        toolcell_put_bytes(&made, found.first[i].name.at, found.first[i].name.length);
        toolcell_put_name(&made, "description");
        toolcell_put_bytes(&made, found.first[i].description.at, found.first[i].description.length);
        toolcell_end(&made, '}');
    }
    toolcell_end(&made, ']');
    return toolcell_parse(made.text);
}
#endif
