// Tools in C++20 for toolcell's sandbox: types over `toolcell.h`, whose enumerations they share. Components are compiled
// without exceptions, so a tool returns its failures.
#ifndef TOOLCELL_HPP
#define TOOLCELL_HPP

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toolcell.h"

namespace toolcell {

// A value of the arguments, which lives as long as the call. A missing one is null, so that lookups can be chained:
// `call.input()["filter"]["limit"].integer(10)`.
class Json {
public:
    explicit Json(const toolcell_json *value = nullptr) : value_(value) {}

    // Null if the text is not JSON.
    static Json parse(const std::string &text) { return Json(toolcell_parse(text.c_str())); }

    toolcell_json_kind kind() const { return toolcell_kind(value_); }
    bool is_null() const { return kind() == TOOLCELL_JSON_NULL; }
    Json operator[](const char *name) const { return Json(toolcell_get(value_, name)); }
    Json at(size_t index) const { return Json(toolcell_at(value_, index)); }
    size_t size() const { return toolcell_size(value_); }
    std::string name_at(size_t index) const {
        const char *name = toolcell_name_at(value_, index);
        return name ? name : "";
    }

    // The value, or `otherwise` if it is of another kind.
    std::string string(std::string_view otherwise = "") const {
        const char *text = toolcell_as_string(value_, nullptr);
        return text ? std::string(text, toolcell_string_length(value_)) : std::string(otherwise);
    }
    double number(double otherwise = 0) const { return toolcell_as_number(value_, otherwise); }
    std::int64_t integer(std::int64_t otherwise = 0) const { return toolcell_as_int(value_, otherwise); }
    bool boolean(bool otherwise = false) const { return toolcell_as_bool(value_, otherwise); }
    std::vector<std::string> strings() const {
        std::vector<std::string> found;
        for (size_t i = 0; i < size(); i++) found.push_back(at(i).string());
        return found;
    }

private:
    const toolcell_json *value_;
};

// The text as a JSON string, with its quotes.
inline std::string quote(const std::string &text) { return toolcell_quote_bytes(text.data(), text.size()); }

class Call {
public:
    explicit Call(const toolcell_call *call) : call_(call) {}

    Json input() const { return Json(call_->input); }
    Json context() const { return Json(call_->context); }
    std::string invocation_id() const { return call_->invocation_id; }
    std::uint32_t attempt() const { return call_->attempt; }

private:
    const toolcell_call *call_;
};

struct Failure {
    toolcell_error_class kind = TOOLCELL_EXECUTION_FAILED;
    // Stable, snake_case.
    std::string code;
    // For the model and the user.
    std::string message;
    // For the record, which no model sees.
    std::optional<std::string> detail = {};
    std::optional<std::uint64_t> retry_after_ms = {};
};

// What a tool returns: text, by conversion from a string; a failure; or one of the functions below.
class Output {
public:
    Output(std::string text) : text_(std::move(text)) {}
    Output(const char *text) : text_(text) {}
    Output(Failure failure) : kind_(TOOLCELL_IS_FAILURE), failure_(std::move(failure)) {}

    // A structured value, which has to satisfy the schema of the output.
    static Output json(std::string text) {
        Output made(std::move(text));
        made.kind_ = TOOLCELL_IS_JSON;
        return made;
    }
    // A JSON array of content blocks, with a structured value.
    static Output content(std::string blocks, std::optional<std::string> structured = {}) {
        Output made(std::move(blocks));
        made.kind_ = TOOLCELL_IS_CONTENT;
        made.structured_ = std::move(structured);
        return made;
    }
    // Usable content, and what is missing of it.
    static Output partial(std::string blocks, Failure missing) {
        Output made = content(std::move(blocks));
        made.kind_ = TOOLCELL_IS_PARTIAL;
        made.failure_ = std::move(missing);
        return made;
    }
    // A line for people.
    Output &&summary(std::string line) && {
        summary_ = std::move(line);
        return std::move(*this);
    }

    // Copies into the call's own memory, because this object ends before the host reads.
    void give(toolcell_call *call) const {
        const char *text = keep(text_), *structured = structured_ ? keep(*structured_) : nullptr;
        const char *code = keep(failure_.code), *message = keep(failure_.message);
        switch (kind_) {
        case TOOLCELL_IS_TEXT: toolcell_text_bytes(call, text_.data(), text_.size()); break;
        case TOOLCELL_IS_JSON: toolcell_json_text(call, text); break;
        case TOOLCELL_IS_CONTENT:
            toolcell_content(call, text, structured, summary_ ? keep(*summary_) : nullptr);
            break;
        case TOOLCELL_IS_PARTIAL: toolcell_partial(call, text, structured, failure_.kind, code, message); break;
        default: toolcell_fail(call, failure_.kind, code, "%s", message);
        }
        if (failure_.detail) toolcell_fail_detail(call, keep(*failure_.detail));
        if (failure_.retry_after_ms) toolcell_fail_retry_after(call, *failure_.retry_after_ms);
    }

private:
    static const char *keep(const std::string &text) { return toolcell_message(text.data(), text.size()); }

    toolcell_test_kind kind_ = TOOLCELL_IS_TEXT;
    std::string text_;
    std::optional<std::string> structured_, summary_;
    Failure failure_;
};

// A row of `TOOLCELL_TOOLKIT` that runs `function`, an `Output function(const Call &)`. `arguments` ends with an element
// whose name is null. `more`: see `toolcell_tool`.
template <Output (*function)(const Call &)>
constexpr toolcell_tool tool(const char *name, const char *description, const toolcell_argument *arguments,
                             const char *output = nullptr, const char *more = nullptr) {
    return {name, description, [](toolcell_call *call) { function(Call(call)).give(call); }, arguments, nullptr, output, more};
}

inline void progress(const std::string &message, double percent = -1) { toolcell_progress(message.c_str(), percent); }
inline void log(toolcell_level level, const std::string &message) { toolcell_log(level, message.c_str(), nullptr); }
// Why the call was asked to stop; none if it was not.
inline std::optional<toolcell_abort_reason> canceled() {
    toolcell_abort_reason reason = toolcell_canceled();
    return reason == TOOLCELL_NOT_CANCELED ? std::nullopt : std::optional(reason);
}

// The answer of the user to a question: `action` is `accept`, `decline` or `cancel`. Without an answer it asks. In the
// sandbox that does not return, and a fresh instance gets the same call; in tests it returns none.
inline std::optional<Json> answer(const char *key, const std::string &message, const std::string &schema) {
    Json found(toolcell_get(toolcell_responses(), key));
    if (!found.is_null()) return found;
    toolcell_question question = {key, message.c_str(), schema.c_str()};
    toolcell_ask(&question, 1, "", 0);
    return std::nullopt;
}

struct Request {
    std::string url;
    std::string method = "GET";
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::optional<std::string> body = {};
    // Maximum size of the response's body, in bytes.
    size_t limit = size_t(1) << 20;
};

struct Response {
    toolcell_http_error error;
    std::uint16_t status;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
};

// Sends a request, and reads the response. It follows no redirect.
inline Response send(const Request &request) {
    std::vector<toolcell_header> headers;
    for (const auto &[name, value] : request.headers) headers.push_back({name.c_str(), value.c_str()});
    toolcell_request made = {request.method.c_str(), request.url.c_str(), headers.data(), headers.size(),
                             request.body ? request.body->data() : nullptr, request.body ? request.body->size() : 0,
                             request.limit};
    toolcell_response got = toolcell_send(&made);
    Response response = {got.error, got.status, {}, std::string(got.body, got.body_length)};
    for (size_t i = 0; i < got.header_count; i++) response.headers.emplace_back(got.headers[i].name, got.headers[i].value);
    return response;
}

} // namespace toolcell

#endif
