/* Tools in C and C++ for toolcell's sandbox.
 *
 * An instance of a component lives for one call, so what these functions return is freed by the host at its end. In tests,
 * which run natively, `toolcell_test_begin` frees it. Text is UTF-8 and ends with a zero byte. */
#ifndef TOOLCELL_H
#define TOOLCELL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TOOLCELL_FORMAT(at) __attribute__((format(printf, at, at + 1)))
#else
#define TOOLCELL_FORMAT(at)
#endif

/* ---- JSON ---- */

typedef enum {
    TOOLCELL_JSON_NULL,
    TOOLCELL_JSON_BOOL,
    TOOLCELL_JSON_NUMBER,
    TOOLCELL_JSON_STRING,
    TOOLCELL_JSON_ARRAY,
    TOOLCELL_JSON_OBJECT
} toolcell_json_kind;

typedef struct toolcell_json toolcell_json;

/* Parses a text. NULL if it is not JSON, has members with the same name, or is nested deeper than 128 levels. */
const toolcell_json *toolcell_parse(const char *text);
/* A missing value (NULL) has the kind null, so that lookups can be chained. */
toolcell_json_kind toolcell_kind(const toolcell_json *value);
/* The member of an object; NULL if there is none. */
const toolcell_json *toolcell_get(const toolcell_json *object, const char *name);
/* The number of items of an array, or of members of an object. */
size_t toolcell_size(const toolcell_json *value);
/* An item of an array, or the value of a member; NULL behind the last one. */
const toolcell_json *toolcell_at(const toolcell_json *value, size_t index);
/* The name of a member of an object; NULL behind the last one. */
const char *toolcell_name_at(const toolcell_json *object, size_t index);

/* The member of an object, or `otherwise` if it is missing or of another kind. A number that is not an integer, or does not
 * fit, is not one for `toolcell_get_int` and `toolcell_as_int`. */
const char *toolcell_get_string(const toolcell_json *object, const char *name, const char *otherwise);
double toolcell_get_number(const toolcell_json *object, const char *name, double otherwise);
int64_t toolcell_get_int(const toolcell_json *object, const char *name, int64_t otherwise);
bool toolcell_get_bool(const toolcell_json *object, const char *name, bool otherwise);

/* The values themselves; `otherwise` if the value is of another kind. The length counts the bytes, because a string may
 * contain zero bytes. */
const char *toolcell_as_string(const toolcell_json *value, const char *otherwise);
size_t toolcell_string_length(const toolcell_json *value);
double toolcell_as_number(const toolcell_json *value, double otherwise);
int64_t toolcell_as_int(const toolcell_json *value, int64_t otherwise);
bool toolcell_as_bool(const toolcell_json *value, bool otherwise);

/* The value as JSON text, for another reader. */
const char *toolcell_json_of(const toolcell_json *value);
/* The text as a JSON string, with its quotes. */
const char *toolcell_quote(const char *text);
/* The same of `length` bytes, with the zero bytes among them. */
const char *toolcell_quote_bytes(const char *text, size_t length);
/* The text itself if it is UTF-8, else a copy with U+FFFD in place of each byte that is not. All text for the host passes
 * through this. */
const char *toolcell_utf8(const char *text);
/* The same of `length` bytes, with the zero bytes among them; a zero byte follows them. Sets `length` to that of the result. */
const char *toolcell_utf8_bytes(const char *text, size_t *length);
/* Text of `length` bytes for a message: as `toolcell_utf8`, and with U+FFFD in place of zero bytes, which would end it. */
const char *toolcell_message(const char *text, size_t length);
/* Text as `printf` makes it, as long as it needs to be. It is kept until the call ends: see `toolcell_append` for text that
 * is made in a loop. */
const char *toolcell_format(const char *format, ...) TOOLCELL_FORMAT(1);

/* A text that grows; `{0}` is an empty one. Its memory stays in proportion to its length. */
typedef struct {
    /* Ends with a zero byte; NULL if nothing was appended. It moves when more is appended. */
    const char *text;
    size_t length;
    size_t room;
} toolcell_buffer;

/* Appends text as `printf` makes it. */
void toolcell_append(toolcell_buffer *to, const char *format, ...) TOOLCELL_FORMAT(2);

/* Append JSON from its start to its end, with the commas between: `toolcell_begin(&to, '{'); toolcell_put_name(&to, "n");
 * toolcell_put_int(&to, 1); toolcell_end(&to, '}');`. A number that JSON does not have becomes null, and so does NULL. */
void toolcell_begin(toolcell_buffer *to, char bracket);
void toolcell_end(toolcell_buffer *to, char bracket);
void toolcell_put_name(toolcell_buffer *to, const char *name);
void toolcell_put_string(toolcell_buffer *to, const char *text);
/* A string of `length` bytes, with the zero bytes among them. */
void toolcell_put_bytes(toolcell_buffer *to, const char *text, size_t length);
void toolcell_put_int(toolcell_buffer *to, int64_t value);
void toolcell_put_number(toolcell_buffer *to, double value);
void toolcell_put_bool(toolcell_buffer *to, bool value);
void toolcell_put_json(toolcell_buffer *to, const toolcell_json *value);

/* ---- A call, and its outcome ---- */

typedef struct toolcell_call {
    const char *invocation_id;
    const char *tool;
    /* The arguments, which satisfy the schema of the tool. */
    const toolcell_json *input;
    /* The same as the text of a JSON object, for another reader. */
    const char *input_text;
    /* 1 for the first attempt. */
    uint32_t attempt;
    /* `cwd` and `scratch` are folders, if the call has them. */
    const toolcell_json *context;
    struct toolcell_outcome *outcome;
} toolcell_call;

typedef enum {
    TOOLCELL_INVALID_ARGUMENTS,
    TOOLCELL_CAPABILITY_GAP,
    TOOLCELL_SETUP_REQUIRED,
    TOOLCELL_CREDENTIAL_MISSING,
    TOOLCELL_TIMEOUT,
    TOOLCELL_RATE_LIMITED,
    TOOLCELL_DEPENDENCY_UNAVAILABLE,
    TOOLCELL_EXECUTION_FAILED,
    TOOLCELL_PARTIAL_FAILURE,
    TOOLCELL_RESULT_TOO_LARGE,
    TOOLCELL_CANCELED,
    TOOLCELL_OTHER_CLASS /* a class that the host alone gives, such as `permission_denied` */
} toolcell_error_class;

typedef struct {
    toolcell_error_class kind;
    const char *word; /* of TOOLCELL_OTHER_CLASS: its name */
    const char *code;
    const char *message;
    const char *detail; /* NULL: none */
} toolcell_error;

/* Each sets the outcome of the call; the last one counts. A tool that sets none fails with the code `no_outcome`. */
void toolcell_text(toolcell_call *call, const char *format, ...) TOOLCELL_FORMAT(2);
/* Text of `length` bytes, with the zero bytes among them. */
void toolcell_text_bytes(toolcell_call *call, const char *text, size_t length);
/* `json` has to satisfy the schema of the output, if the tool has one. */
void toolcell_json_text(toolcell_call *call, const char *json);
/* `content`: a JSON array of content blocks. `structured` and `summary` may be NULL. */
void toolcell_content(toolcell_call *call, const char *content, const char *structured, const char *summary);
/* `code` is stable and snake_case. The message is for the model and the user. */
void toolcell_fail(toolcell_call *call, toolcell_error_class kind, const char *code, const char *format, ...)
    TOOLCELL_FORMAT(4);
/* Fails with an error of a function of the host. */
void toolcell_fail_with(toolcell_call *call, const toolcell_error *error);
/* Text for the record of a failure, which no model sees. Call it after `toolcell_fail`. */
void toolcell_fail_detail(toolcell_call *call, const char *detail);
/* The time after which the same call may succeed. Call it after `toolcell_fail`. */
void toolcell_fail_retry_after(toolcell_call *call, uint64_t milliseconds);
/* Usable content, and what is missing of it. */
void toolcell_partial(toolcell_call *call, const char *content, const char *structured, toolcell_error_class kind,
                      const char *code, const char *message);

/* ---- The declaration ---- */

typedef enum {
    TOOLCELL_STRING,
    TOOLCELL_INTEGER,
    TOOLCELL_NUMBER,
    TOOLCELL_BOOLEAN,
    TOOLCELL_STRINGS, /* an array of strings */
    TOOLCELL_OBJECT,
    TOOLCELL_ARRAY,
    TOOLCELL_MAP, /* an object with members of any name */
    TOOLCELL_ANY  /* any JSON */
} toolcell_type;

typedef struct {
    bool is_set;
    double value;
} toolcell_limit;

/* A member of an object. A list of them ends with an element whose name is NULL. */
typedef struct toolcell_field {
    const char *name;
    toolcell_type type;
    const char *description; /* NULL: none */
    bool optional;
    bool nullable;
    toolcell_type items;                 /* of an array or a map: the type of each value in it */
    const struct toolcell_field *fields; /* of an object, or of the objects in an array or a map */
    /* Of a value, or of each value in an array or a map. */
    const char *const *choices; /* ends with NULL; NULL: any */
    toolcell_limit minimum, maximum; /* `{true, 1}` */
    const char *pattern; /* a regular expression */
    const char *otherwise; /* the default, as JSON: `toolcell_get` finds it where the caller left the field out */
    const char *schema;    /* JSON Schema in place of all this; NULL: none */
} toolcell_field;

typedef struct {
    const char *name;
    const char *description;
    void (*run)(toolcell_call *call);
    const toolcell_field *arguments;
    /* JSON Schema of the arguments, instead of `arguments`; may be NULL. */
    const char *input;
    /* JSON Schema of the structured output, instead of `results`; may be NULL. */
    const char *output;
    /* More fields of `toolcell schema show toolkit-short`, as members of a JSON object without its braces, such as
     * `"access": ["file_read"], "paths": ["file"]`; may be NULL. */
    const char *more;
    /* The fields of the structured output; NULL: none. */
    const toolcell_field *results;
} toolcell_tool;

/* Defined once by the author: the tools of the component. The last element has the name NULL. */
extern const char *const toolcell_namespace;
extern const toolcell_tool toolcell_tools[];

#define TOOLCELL_TOOLKIT(name, ...) \
    const char *const toolcell_namespace = name; \
    const toolcell_tool toolcell_tools[] = {__VA_ARGS__, {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}}

/* The toolkit in the short form, as the host reads it. */
const char *toolcell_describe(void);

/* ---- More that a component may export: each once, beside the toolkit ---- */

/* `void check(toolcell_call *call)` looks at the arguments before a call is decided on, without files and network, and refuses
 * them with `toolcell_fail`. `preflight`, of the same type, says in the same way that the call could not start. Either may be NULL. */
#define TOOLCELL_VALIDATION(check, preflight) TOOLCELL_EXPORT_VALIDATION(check, preflight)
/* `void configure(toolcell_call *call)` takes the settings of the operator, `call->input`, before each call of a tool. It
 * refuses them with `toolcell_fail`. It is not called if there are none. */
#define TOOLCELL_CONFIGURATION(configure) TOOLCELL_EXPORT_CONFIGURATION(configure)
/* `toolcell_facts classify(const toolcell_call *call)` says what a call would do with its arguments. It may only narrow what
 * the declaration says. */
#define TOOLCELL_CLASSIFICATION(classify) TOOLCELL_EXPORT_CLASSIFICATION(classify)

typedef enum { TOOLCELL_UNSTATED, TOOLCELL_NO, TOOLCELL_YES } toolcell_claim;
typedef struct {
    toolcell_claim read_only, concurrency_safe, destructive, open_world;
} toolcell_facts;

/* ---- The host ---- */

typedef struct {
    const char *message;      /* NULL: none */
    double percent;           /* 0 to 100; negative: none */
    const char *current_step; /* NULL: none */
    int64_t total_steps;      /* negative: none, as in the rest */
    int64_t bytes_read;
    int64_t bytes_written;
    int64_t line_count;
} toolcell_update;

void toolcell_report(const toolcell_update *update);
/* A message, and a percentage; negative: none. */
void toolcell_progress(const char *message, double percent);
/* Blocks that are usable now, as a JSON array. Returns the host's reference. */
const char *toolcell_partial_result(const char *content);

typedef enum { TOOLCELL_TRACE, TOOLCELL_DEBUG, TOOLCELL_INFO, TOOLCELL_WARN, TOOLCELL_ERROR } toolcell_level;
/* `fields`: a JSON object, or NULL. */
void toolcell_log(toolcell_level level, const char *message, const char *fields);

typedef enum {
    TOOLCELL_NOT_CANCELED = -1,
    TOOLCELL_USER_INTERRUPTION,
    TOOLCELL_SIBLING_ERROR,
    TOOLCELL_TIMED_OUT,
    TOOLCELL_FALLBACK,
    TOOLCELL_RUNTIME_SHUTDOWN
} toolcell_abort_reason;
/* Why the call was asked to stop. A tool that calls this gets a short time to clean up before it is stopped. */
toolcell_abort_reason toolcell_canceled(void);
/* Says that the tool has seen the request and is cleaning up. */
void toolcell_acknowledge(void);
/* Waits, and ends at once if a stop is requested before or meanwhile. In tests no time passes. */
toolcell_abort_reason toolcell_wait(uint64_t milliseconds);

typedef struct {
    const char *key;     /* 1 to 64 letters, digits, `_`, `-` or `.` */
    const char *message; /* for the user */
    const char *schema;  /* of a form, as MCP elicitation has it */
} toolcell_question;
/* The answers so far: `{KEY: {"action": "accept", "content": {..}}}`, or `decline` or `cancel` and no content. */
const toolcell_json *toolcell_responses(void);
/* The state of the last `toolcell_ask`; empty in the first instance. */
const char *toolcell_resume_state(size_t *length);
/* Asks the user. In the sandbox it does not return: a fresh instance gets the same call, and the answers. In tests it
 * returns, so return after it. */
void toolcell_ask(const toolcell_question *questions, size_t count, const void *state, size_t state_length);

/* Sets a fact in the context of the caller. False if the host refuses it; the log says why. */
bool toolcell_modify_context(const char *key, const char *json);
/* Keeps a file with the answer. Returns its reference, for a block `{"type": "artifact_ref", "reference": ..}`; NULL if the
 * host refuses it; the log says why. */
const char *toolcell_artifact(const char *name, const char *media_type, const void *bytes, size_t length);

/* The same in chunks: -1 if the host refuses the file, and false if it refuses a chunk, which removes the file. */
int32_t toolcell_artifact_begin(const char *name, const char *media_type);
bool toolcell_artifact_write(int32_t artifact, const void *bytes, size_t length);
const char *toolcell_artifact_finish(int32_t artifact);

/* ---- Other tools: those that the tool's `tool_calls` name and that the operator granted ---- */

typedef struct {
    const char *invocation_id;
    const toolcell_json *content;    /* the blocks; NULL if the call failed */
    const toolcell_json *structured; /* NULL: none */
    const toolcell_error *error;     /* of a failure, or what is missing; NULL: none */
} toolcell_answer;

/* Calls a tool by its qualified name, with a JSON object, and waits for its end. */
toolcell_answer toolcell_call_tool(const char *name, const char *input);
/* An array of what can be called: `{"name": .., "description": ..}`. */
const toolcell_json *toolcell_callable(void);

/* ---- Network: the tool declares `"access": ["network"]`, and what it reaches ---- */

typedef enum {
    TOOLCELL_HTTP_OK,
    TOOLCELL_HTTP_INVALID,     /* the request cannot be sent */
    TOOLCELL_HTTP_NOT_ALLOWED, /* this call may not send it */
    TOOLCELL_HTTP_LIMIT,       /* a limit of the host was reached */
    TOOLCELL_HTTP_TOO_LARGE,   /* the body is larger than `limit` */
    TOOLCELL_HTTP_TIMEOUT,
    TOOLCELL_HTTP_UNREACHABLE,
    TOOLCELL_HTTP_BROKEN /* the response is malformed or incomplete */
} toolcell_http_error;

typedef struct {
    const char *name;
    const char *value;
} toolcell_header;

#define TOOLCELL_BODY_LIMIT ((size_t)1 << 20)

typedef struct {
    const char *method; /* NULL: GET */
    const char *url;    /* absolute, `http` or `https` */
    const toolcell_header *headers;
    size_t header_count;
    const void *body; /* NULL: none */
    size_t body_length;
    size_t limit; /* maximum size of the response's body, in bytes; 0: TOOLCELL_BODY_LIMIT */
} toolcell_request;

typedef struct {
    toolcell_http_error error;
    uint16_t status;
    const toolcell_header *headers;
    size_t header_count;
    const char *body; /* ends with a zero byte behind `body_length` bytes */
    size_t body_length;
} toolcell_response;

/* Sends a request, and reads the response. It follows no redirect. */
toolcell_response toolcell_send(const toolcell_request *request);
/* The failure that an error of `toolcell_send` means. */
const toolcell_error *toolcell_http_failure(toolcell_http_error error);
/* Ends the call with the failure that an error of `toolcell_send` means. */
void toolcell_fail_http(toolcell_call *call, toolcell_http_error error);

/* ---- Tests: native builds alone ---- */

typedef enum { TOOLCELL_IS_TEXT, TOOLCELL_IS_JSON, TOOLCELL_IS_CONTENT, TOOLCELL_IS_PARTIAL, TOOLCELL_IS_FAILURE, TOOLCELL_IS_QUESTION } toolcell_test_kind;

typedef struct {
    toolcell_test_kind kind;
    const char *text;       /* the text, the JSON, the content, the message of a failure, or the key of the first question */
    const char *structured; /* NULL: none */
    const char *code;       /* of a failure */
    toolcell_error_class error;
    size_t text_length;     /* of a text alone, with its zero bytes */
} toolcell_test_outcome;

/* Frees everything, and forgets what the host of the last test knew and heard. */
void toolcell_test_begin(void);
/* What the tool's functions get from the host: the answers of the user, a reason to stop, the response of a server. */
void toolcell_test_answers(const char *json);
void toolcell_test_cancel(toolcell_abort_reason reason);
void toolcell_test_response(uint16_t status, const char *body);
/* `cwd` and `scratch`, as a JSON object; what the last `toolcell_ask` remembered; the settings of the operator. */
void toolcell_test_context(const char *json);
void toolcell_test_resume_state(const char *state);
void toolcell_test_settings(const char *json);
/* Offers a tool that answers with structured JSON. */
void toolcell_test_offer(const char *name, const char *structured);
/* What the component says of a call. */
toolcell_facts toolcell_test_classify(const char *tool, const char *input);
/* Calls a tool, after the checks of its arguments. A tool that does not exist, or arguments that are not JSON, end the test program. */
toolcell_test_outcome toolcell_test_call(const char *tool, const char *input);
/* What the tool said, a line each: `progress 50 MESSAGE`, `log info MESSAGE`, `request GET URL`. */
const char *toolcell_test_heard(void);

/* ---- Within the SDK ---- */

struct toolcell_outcome {
    toolcell_test_kind kind;
    bool set;
    const char *text, *structured, *summary;
    size_t text_length;
    toolcell_error_class error;
    const char *word, *code, *message, *detail;
    bool retry;
    uint64_t retry_after;
};
void *toolcell_allocate(size_t size);
void toolcell_free_all(void);
const char *toolcell_copy(const char *text, size_t length);
const char *toolcell_format_list(const char *format, va_list list, size_t *made_length);
void toolcell_set(const toolcell_json *object, const char *name, const toolcell_json *value);
void toolcell_fill(const toolcell_json *object, const toolcell_field *fields);
const char *toolcell_schema_of(const toolcell_field *fields);
void toolcell_run(toolcell_call *call);
/* The arguments of `call->tool` with their defaults. */
void toolcell_prepare(toolcell_call *call);

#ifdef __wasm__
#define TOOLCELL_EXPORT(name) __attribute__((export_name("toolcell:tool/" name)))
void *toolcell_checked(const char *tool, size_t tool_length, const char *input, size_t length, void (*check)(toolcell_call *));
void *toolcell_classified(const char *tool, size_t tool_length, const char *input, size_t length,
                          toolcell_facts (*classify)(const toolcell_call *));
#define TOOLCELL_EXPORT_VALIDATION(check, preflight) \
    TOOLCELL_EXPORT("validation@0.2.0#validate-values") \
    void *toolcell_export_values(const char *tool, size_t tool_length, const char *input, size_t length) { \
        return toolcell_checked(tool, tool_length, input, length, check); \
    } \
    TOOLCELL_EXPORT("validation@0.2.0#preflight") \
    void *toolcell_export_preflight(const char *tool, size_t tool_length, const char *input, size_t length) { \
        return toolcell_checked(tool, tool_length, input, length, preflight); \
    }
#define TOOLCELL_EXPORT_CONFIGURATION(configure) \
    TOOLCELL_EXPORT("configuration@0.2.0#configure") \
    void *toolcell_export_configure(const char *settings, size_t length) { \
        return toolcell_checked(NULL, 0, settings, length, configure); \
    }
#define TOOLCELL_EXPORT_CLASSIFICATION(classify) \
    TOOLCELL_EXPORT("classification@0.2.0#classify") \
    void *toolcell_export_classify(const char *tool, size_t tool_length, const char *input, size_t length) { \
        return toolcell_classified(tool, tool_length, input, length, classify); \
    }
#else
/* For the host of tests. */
extern void (*toolcell_validation)(toolcell_call *call);
extern void (*toolcell_preflight)(toolcell_call *call);
extern void (*toolcell_configuration)(toolcell_call *call);
extern toolcell_facts (*toolcell_classification)(const toolcell_call *call);
#define TOOLCELL_EXPORT_VALIDATION(check, preflight) \
    void (*toolcell_validation)(toolcell_call *) = check; \
    void (*toolcell_preflight)(toolcell_call *) = preflight;
#define TOOLCELL_EXPORT_CONFIGURATION(configure) void (*toolcell_configuration)(toolcell_call *) = configure;
#define TOOLCELL_EXPORT_CLASSIFICATION(classify) toolcell_facts (*toolcell_classification)(const toolcell_call *) = classify;
#endif

#ifdef __cplusplus
}
#endif
#endif
