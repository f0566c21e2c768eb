// Tools in C++20 for toolcell's sandbox: types over `toolcell.h`, whose enumerations they share. Components are compiled
// without exceptions, so a tool returns its failures.
#ifndef TOOLCELL_HPP
#define TOOLCELL_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toolcell_types.hpp"

namespace toolcell {

// The text as a JSON string, with its quotes.
inline std::string quote(const std::string &text) { return toolcell_quote_bytes(text.data(), text.size()); }

class Call {
public:
    explicit Call(const toolcell_call *call) : call_(call) {}

    Json input() const { return Json(call_->input); }
    // The arguments, or the settings, as a struct with `fields`.
    template <Described T> T arguments() const {
        T made = {};
        read(input(), made);
        return made;
    }
    std::string tool() const { return call_->tool; }
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
    // Of TOOLCELL_OTHER_CLASS: its name.
    std::optional<std::string> word = {};

    // That of a function of the host.
    static Failure of(const toolcell_error &error) {
        auto known = [](const char *text) { return text ? std::optional<std::string>(text) : std::nullopt; };
        return {error.kind, error.code, error.message, known(error.detail), {}, known(error.word)};
    }
    // What an error of `send` means.
    static Failure of(toolcell_http_error error) { return of(*toolcell_http_failure(error)); }
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
    static Output partial(std::string blocks, Failure missing, std::optional<std::string> structured = {}) {
        Output made = content(std::move(blocks), std::move(structured));
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
        if (failure_.word) call->outcome->word = keep(*failure_.word);
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

// What a tool returns whose output has a type: a value, or a failure.
template <typename T> class Result {
public:
    using Value = T;
    Result(T value) : output_(Output::json(to_json(value))) {}
    Result(Failure failure) : output_(std::move(failure)) {}
    void give(toolcell_call *call) const { output_.give(call); }

private:
    Output output_;
};

// A row of `TOOLCELL_TOOLKIT` that runs `function`, an `Output function(const Call &)`. `arguments` ends with an element
// whose name is null. `more`: see `toolcell_tool`.
template <Output (*function)(const Call &)>
constexpr toolcell_tool tool(const char *name, const char *description, const toolcell_field *arguments,
                             const char *output = nullptr, const char *more = nullptr) {
    return {name, description, [](toolcell_call *call) { function(Call(call)).give(call); }, arguments, nullptr, output, more, nullptr};
}

template <typename R, typename In> In arguments_of(R (*)(const Call &, In));
template <typename R, typename In> R answer_of(R (*)(const Call &, In));

template <typename T> const char *kept_schema() {
    static const std::string made = schema_of<T>();
    return made.c_str();
}

// The same of a function with types, an `Output function(const Call &, const Arguments &)` or one that returns a `Result`:
// the schemas are those of the types.
template <auto function>
    requires requires { arguments_of(function); }
toolcell_tool tool(const char *name, const char *description, const char *more = nullptr) {
    using In = std::remove_cvref_t<decltype(arguments_of(function))>;
    using Answer = decltype(answer_of(function));
    const char *output = nullptr;
    if constexpr (!std::same_as<Answer, Output>) output = kept_schema<typename Answer::Value>();
    auto run = [](toolcell_call *call) { function(Call(call), Call(call).arguments<In>()).give(call); };
    return {name, description, run, nullptr, kept_schema<In>(), output, more, nullptr};
}

// For TOOLCELL_VALIDATION and TOOLCELL_CONFIGURATION: a function that returns what it refuses with.
template <std::optional<Failure> (*function)(const Call &)> void checks(toolcell_call *call) {
    if (auto failure = function(Call(call))) Output(*failure).give(call);
}

// For TOOLCELL_CLASSIFICATION.
template <toolcell_facts (*function)(const Call &)> toolcell_facts classifies(const toolcell_call *call) {
    return function(Call(call));
}

inline void progress(const std::string &message, double percent = -1) { toolcell_progress(message.c_str(), percent); }
inline void progress(const toolcell_update &update) { toolcell_report(&update); }
// Blocks that are usable now, as a JSON array. Returns the host's reference.
inline std::string partial_result(const std::string &blocks) { return toolcell_partial_result(blocks.c_str()); }
// `fields`: a JSON object.
inline void log(toolcell_level level, const std::string &message, const std::optional<std::string> &fields = {}) {
    toolcell_log(level, message.c_str(), fields ? fields->c_str() : nullptr);
}

inline std::optional<toolcell_abort_reason> known(toolcell_abort_reason reason) {
    return reason == TOOLCELL_NOT_CANCELED ? std::nullopt : std::optional(reason);
}
// Why the call was asked to stop; none if it was not.
inline std::optional<toolcell_abort_reason> canceled() { return known(toolcell_canceled()); }
// Waits, and ends at once if a stop is requested before or meanwhile.
inline std::optional<toolcell_abort_reason> wait(std::uint64_t milliseconds) { return known(toolcell_wait(milliseconds)); }
// Says that the tool has seen the request and is cleaning up.
inline void acknowledge() { toolcell_acknowledge(); }

// The answer of the user to a question: `action` is `accept`, `decline` or `cancel`. Without an answer it asks. In the
// sandbox that does not return, and a fresh instance gets the same call; in tests it returns none.
inline std::optional<Json> answer(const char *key, const std::string &message, const std::string &schema,
                                  std::string_view state = "") {
    Json found(toolcell_get(toolcell_responses(), key));
    if (!found.is_null()) return found;
    toolcell_question question = {key, message.c_str(), schema.c_str()};
    toolcell_ask(&question, 1, state.data(), state.size());
    return std::nullopt;
}
// Several at once; `state` is what `resume_state` returns in the next instance.
inline void ask(const std::vector<toolcell_question> &questions, std::string_view state = "") {
    toolcell_ask(questions.data(), questions.size(), state.data(), state.size());
}
inline Json responses() { return Json(toolcell_responses()); }
inline std::string resume_state() {
    size_t length = 0;
    const char *state = toolcell_resume_state(&length);
    return std::string(state, length);
}

// Sets a fact in the context of the caller. False if the host refuses it; the log says why.
inline bool modify_context(const std::string &key, const std::string &json) {
    return toolcell_modify_context(key.c_str(), json.c_str());
}

// A file that belongs to the answer, written in chunks. Nothing is returned, and false, if the host refuses it.
class Artifact {
public:
    Artifact(const std::string &name, const std::string &media_type)
        : artifact_(toolcell_artifact_begin(name.c_str(), media_type.c_str())) {}

    bool write(std::string_view chunk) {
        if (artifact_ >= 0 && !toolcell_artifact_write(artifact_, chunk.data(), chunk.size())) artifact_ = -1;
        return artifact_ >= 0;
    }
    // The reference, for a block `{"type": "artifact_ref", "reference": ..}`.
    std::optional<std::string> finish() {
        const char *reference = artifact_ < 0 ? nullptr : toolcell_artifact_finish(artifact_);
        return reference ? std::optional<std::string>(reference) : std::nullopt;
    }

private:
    std::int32_t artifact_;
};

struct Answer {
    std::string invocation_id;
    Json content, structured;
    // Of a call that failed, or what is missing.
    std::optional<Failure> failure;
};

// Calls another tool by its qualified name, with a JSON object, and waits for its end.
inline Answer call_tool(const std::string &name, const std::string &input) {
    toolcell_answer got = toolcell_call_tool(name.c_str(), input.c_str());
    return {got.invocation_id, Json(got.content), Json(got.structured),
            got.error ? std::optional(Failure::of(*got.error)) : std::nullopt};
}
// The tools that can be called: `{"name": .., "description": ..}`.
inline Json callable() { return Json(toolcell_callable()); }

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
