#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "toolcell.hpp"

using namespace toolcell;

static Output all(const Call &call) {
    std::string text = call.input()["text"].string();
    progress("half", 50);
    log(TOOLCELL_INFO, "read " + std::to_string(text.size()) + " bytes");
    if (canceled()) return Failure{TOOLCELL_CANCELED, "stopped", "stopped"};
    if (text == "fail") return Failure{TOOLCELL_RATE_LIMITED, "slow", "wait " + std::to_string(call.attempt()), "why", 5};
    if (text == "bytes") return std::string("a\xe4o");
    if (text == "zero") return Failure{TOOLCELL_RATE_LIMITED, "zero", std::string("a\0b", 3)};
    if (text == "printed") {
        std::printf("no end of a line");
        return "printed";
    }
    if (text == "exit") std::exit(3);
    if (text == "memory") {
        size_t size = SIZE_MAX - call.attempt() + 1;
        void *volatile got[] = {std::malloc(size),        std::calloc(1, size),           std::realloc(std::malloc(8), size),
                                aligned_alloc(64, size), ::operator new(size, std::nothrow), std::malloc(1 << 20)};
        std::string given;
        for (void *one : got) given += one ? '1' : '0';
        return given + (errno == ENOMEM ? " ENOMEM" : "");
    }
    if (text == "ask") {
        auto found = answer("who", "Who are you?", R"({"type":"object","properties":{"name":{"type":"string"}}})");
        return found ? (*found)["content"]["name"].string() : std::string("asked");
    }
    if (text == "part") return Output::partial(R"([{"type":"text","text":"p"}])", Failure{.code = "half", .message = "half of it"});
    if (text == "file") {
        const char *reference = toolcell_artifact("a.csv", "text/csv", "a,b\n", 4);
        if (!reference) return Failure{.code = "refused", .message = "refused"};
        return Output::content(R"([{"type":"artifact_ref","reference":)" + quote(reference) + "}]").summary("kept");
    }
    if (text.starts_with("http:")) {
        Response response = send({.url = text, .headers = {{"x-a", "b"}}});
        if (response.error) return Failure{.code = "http", .message = std::to_string(response.error)};
        return std::to_string(response.status) + " " + response.body;
    }
    return Output::json("{\"unit\":\"words\",\"limit\":" + std::to_string(call.input()["limit"].integer(-1)) +
                        ",\"more\":" + std::to_string(call.input()["more"].strings().size()) + "}");
}

static const toolcell_field arguments[] = {
    {.name = "text", .type = TOOLCELL_STRING, .description = "A \"text\"."},
    {.name = "limit", .type = TOOLCELL_INTEGER, .description = "At most.", .optional = true},
    {.name = "more", .type = TOOLCELL_STRINGS, .description = "More.", .optional = true},
    {},
};

TOOLCELL_TOOLKIT("host", tool<all>("all", "Uses the host.", arguments, nullptr, R"("access":["network"],"network_scope":"any")"));
