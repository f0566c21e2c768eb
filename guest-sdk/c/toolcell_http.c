/* Requests over wasi:http, in the sandbox. */
#ifdef __wasm__
#include "toolcell.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define IMPORT(from, name) __attribute__((import_module("wasi:" from "@0.2.6"), import_name(name)))
#define HTTP(name) IMPORT("http/types", name)

typedef struct {
    const char *at;
    size_t length;
} bytes;

/* `result<own>` and `result<_, header-error>`. */
typedef struct {
    uint8_t failed;
    int32_t handle;
} made;

typedef struct {
    uint8_t failed;
    union {
        bytes read;
        struct {
            uint8_t kind;
            int32_t error;
        } failure;
    } value;
} stream_result;

/* `error-code`. Its payloads are not read: they have at most 24 bytes. */
typedef struct {
    uint8_t kind;
    uint64_t payload[3];
} code;

typedef struct {
    uint8_t some;
    code error;
} optional_code;

typedef struct {
    uint8_t failed;
    union {
        int32_t handle;
        code error;
        uint64_t aligned;
    } value;
} response_result;

typedef struct {
    uint8_t some;
    struct {
        uint8_t taken;
        response_result result;
    } value;
} future_result;

_Static_assert(sizeof(code) == 32 && sizeof(response_result) == 40 && sizeof(future_result) == 56, "the layout of wasi:http");

typedef struct {
    bytes name, value;
} entry;

typedef struct {
    entry *at;
    size_t length;
} entries;

HTTP("[constructor]fields") int32_t fields_new(void);
HTTP("[method]fields.append") void fields_append(int32_t, const char *, size_t, const char *, size_t, made *);
HTTP("[method]fields.entries") void fields_entries(int32_t, entries *);
HTTP("[resource-drop]fields") void fields_drop(int32_t);
HTTP("[constructor]outgoing-request") int32_t request_new(int32_t);
HTTP("[method]outgoing-request.body") void request_body(int32_t, made *);
HTTP("[method]outgoing-request.set-method") int32_t request_method(int32_t, int32_t, const char *, size_t);
HTTP("[method]outgoing-request.set-path-with-query") int32_t request_path(int32_t, int32_t, const char *, size_t);
HTTP("[method]outgoing-request.set-scheme") int32_t request_scheme(int32_t, int32_t, int32_t, const char *, size_t);
HTTP("[method]outgoing-request.set-authority") int32_t request_authority(int32_t, int32_t, const char *, size_t);
HTTP("[resource-drop]outgoing-request") void request_drop(int32_t);
HTTP("[method]outgoing-body.write") void body_write(int32_t, made *);
HTTP("[static]outgoing-body.finish") void body_finish(int32_t, int32_t, int32_t, response_result *);
HTTP("[method]future-incoming-response.subscribe") int32_t future_subscribe(int32_t);
HTTP("[method]future-incoming-response.get") void future_get(int32_t, future_result *);
HTTP("[resource-drop]future-incoming-response") void future_drop(int32_t);
HTTP("[method]incoming-response.status") int32_t response_status(int32_t);
HTTP("[method]incoming-response.headers") int32_t response_headers(int32_t);
HTTP("[method]incoming-response.consume") void response_consume(int32_t, made *);
HTTP("[resource-drop]incoming-response") void response_drop(int32_t);
HTTP("[method]incoming-body.stream") void body_stream(int32_t, made *);
HTTP("[resource-drop]incoming-body") void body_drop(int32_t);
HTTP("http-error-code") void error_code(int32_t, optional_code *);
IMPORT("http/outgoing-handler", "handle") void handle(int32_t, int32_t, int32_t, response_result *);
IMPORT("io/poll", "[method]pollable.block") void pollable_block(int32_t);
IMPORT("io/poll", "[resource-drop]pollable") void pollable_drop(int32_t);
IMPORT("io/error", "[resource-drop]error") void error_drop(int32_t);
IMPORT("io/streams", "[method]input-stream.blocking-read") void stream_read(int32_t, uint64_t, stream_result *);
IMPORT("io/streams", "[resource-drop]input-stream") void input_drop(int32_t);
IMPORT("io/streams", "[method]output-stream.blocking-write-and-flush")
void stream_write(int32_t, const char *, size_t, stream_result *);
IMPORT("io/streams", "[resource-drop]output-stream") void output_drop(int32_t);

/* Maximum size of one read, and of one write (by wasi:io), in bytes. */
#define READ_MAX 65536
#define WRITE_MAX ((size_t)4096)

static toolcell_http_error meaning(uint8_t code) {
    switch (code) {
    case 4:  /* destination-IP-prohibited */
    case 15: /* HTTP-request-denied */
        return TOOLCELL_HTTP_NOT_ALLOWED;
    case 11: /* connection-limit-reached */
    case 17: /* HTTP-request-body-size */
    case 26: /* HTTP-response-header-section-size */
    case 28: /* HTTP-response-body-size */
        return TOOLCELL_HTTP_LIMIT;
    case 0:  /* DNS-timeout */
    case 8:  /* connection-timeout */
    case 9:  /* connection-read-timeout */
    case 10: /* connection-write-timeout */
    case 33: /* HTTP-response-timeout */
        return TOOLCELL_HTTP_TIMEOUT;
    case 1:  /* DNS-error */
    case 2:  /* destination-not-found */
    case 3:  /* destination-unavailable */
    case 6:  /* connection-refused */
    case 7:  /* connection-terminated */
    case 12: /* TLS-protocol-error */
    case 13: /* TLS-certificate-error */
        return TOOLCELL_HTTP_UNREACHABLE;
    default:
        return TOOLCELL_HTTP_BROKEN;
    }
}

static int32_t method_number(const char *method) {
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    int32_t number = 0;
    while (number < 9 && strcmp(names[number], method) != 0) number++;
    return number;
}

static bool set_target(int32_t request, const char *url) {
    int32_t scheme = !strncasecmp(url, "http://", 7) ? 0 : !strncasecmp(url, "https://", 8) ? 1 : -1;
    if (scheme < 0) return false;
    const char *authority = url + 7 + scheme;
    size_t length = strcspn(authority, "/?#");
    const char *path = toolcell_format("%s%.*s", authority[length] == '/' ? "" : "/", (int)strcspn(authority + length, "#"),
                                       authority + length);
    return !request_scheme(request, 1, scheme, "", 0) && !request_authority(request, 1, authority, length) &&
           !request_path(request, 1, path, strlen(path));
}

/* Returns a request, or -1. */
static int32_t outgoing(const toolcell_request *from) {
    const char *method = from->method ? from->method : "GET";
    int32_t fields = fields_new();
    made appended = {0};
    for (size_t i = 0; i < from->header_count && !appended.failed; i++) {
        const toolcell_header *header = &from->headers[i];
        fields_append(fields, header->name, strlen(header->name), header->value, strlen(header->value), &appended);
    }
    if (from->body && !appended.failed) {
        const char *length = toolcell_format("%zu", from->body_length);
        fields_append(fields, "content-length", 14, length, strlen(length), &appended);
    }
    if (appended.failed) {
        fields_drop(fields);
        return -1;
    }
    int32_t request = request_new(fields);
    if (request_method(request, method_number(method), method, strlen(method)) || !set_target(request, from->url)) {
        request_drop(request);
        return -1;
    }
    return request;
}

/* A server may respond before it has read everything, so a failed upload is not an error. */
static void upload(int32_t body, const char *at, size_t length) {
    made stream;
    body_write(body, &stream);
    if (!stream.failed) {
        stream_result result = {0};
        for (size_t now; length && !result.failed; at += now, length -= now) {
            now = length < WRITE_MAX ? length : WRITE_MAX;
            stream_write(stream.handle, at, now, &result);
        }
        if (result.failed && result.value.failure.kind == 0) error_drop(result.value.failure.error);
        output_drop(stream.handle);
    }
    response_result finished;
    body_finish(body, 0, 0, &finished);
}

static toolcell_http_error read_all(int32_t stream, size_t limit, toolcell_response *response) {
    char *body = NULL;
    size_t length = 0, room = 0;
    for (;;) {
        stream_result result;
        stream_read(stream, READ_MAX, &result);
        if (result.failed) {
            response->body = body ? body : "";
            response->body_length = length;
            if (result.value.failure.kind == 1) return TOOLCELL_HTTP_OK;
            optional_code code;
            error_code(result.value.failure.error, &code);
            error_drop(result.value.failure.error);
            return code.some ? meaning(code.error.kind) : TOOLCELL_HTTP_BROKEN;
        }
        bytes chunk = result.value.read;
        if (chunk.length > limit - length) return TOOLCELL_HTTP_TOO_LARGE;
        if (length + chunk.length + 1 > room) {
            room = (length + chunk.length + 1) * 2;
            char *larger = (char *)toolcell_allocate(room);
            if (length) memcpy(larger, body, length);
            body = larger;
        }
        if (chunk.length) memcpy(body + length, chunk.at, chunk.length);
        length += chunk.length;
        body[length] = 0;
    }
}

static void read_headers(int32_t incoming, toolcell_response *response) {
    int32_t fields = response_headers(incoming);
    entries found;
    fields_entries(fields, &found);
    fields_drop(fields);
    toolcell_header *headers = (toolcell_header *)toolcell_allocate((found.length + 1) * sizeof *headers);
    for (size_t i = 0; i < found.length; i++) {
        headers[i].name = found.at[i].name.length ? found.at[i].name.at : "";
        headers[i].value = found.at[i].value.length ? found.at[i].value.at : "";
    }
    response->headers = headers;
    response->header_count = found.length;
}

static toolcell_http_error receive(int32_t incoming, size_t limit, toolcell_response *response) {
    made body, stream;
    response->status = (uint16_t)response_status(incoming);
    read_headers(incoming, response);
    response_consume(incoming, &body);
    if (body.failed) return TOOLCELL_HTTP_BROKEN;
    body_stream(body.handle, &stream);
    toolcell_http_error error = TOOLCELL_HTTP_BROKEN;
    if (!stream.failed) {
        error = read_all(stream.handle, limit, response);
        input_drop(stream.handle);
    }
    body_drop(body.handle);
    return error;
}

toolcell_response toolcell_send(const toolcell_request *from) {
    toolcell_response response = {TOOLCELL_HTTP_INVALID, 0, NULL, 0, "", 0};
    int32_t request = outgoing(from);
    if (request < 0) return response;
    made body = {1, 0};
    if (from->body) request_body(request, &body);
    response_result sent;
    handle(request, 0, 0, &sent);
    if (sent.failed) {
        response.error = meaning(sent.value.error.kind);
        return response;
    }
    if (!body.failed) upload(body.handle, (const char *)from->body, from->body_length);
    int32_t waiting = future_subscribe(sent.value.handle);
    pollable_block(waiting);
    pollable_drop(waiting);
    future_result answer;
    future_get(sent.value.handle, &answer);
    future_drop(sent.value.handle);
    response.error = TOOLCELL_HTTP_BROKEN;
    if (!answer.some || answer.value.taken) return response;
    if (answer.value.result.failed) {
        response.error = meaning(answer.value.result.value.error.kind);
        return response;
    }
    response.error = receive(answer.value.result.value.handle, from->limit ? from->limit : TOOLCELL_BODY_LIMIT, &response);
    response_drop(answer.value.result.value.handle);
    return response;
}
#endif
