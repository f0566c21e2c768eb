// toolcell:version 0.1.0
// toolcell:license MIT
#include "toolcell.hpp"

#include <cstdio>
#include <cstdlib>

using namespace toolcell;

struct Part {
    std::string label;
    double weight = 0;
    static constexpr auto fields = toolcell::fields(field("label", &Part::label), field("weight", &Part::weight).minimum(0));
};

struct Place {
    std::string street;
    std::int64_t floor = 0;
    static constexpr auto fields = toolcell::fields(field("street", &Place::street), field("floor", &Place::floor).optional());
};

struct Order {
    std::string name, size = "small";
    std::int64_t count = 1;
    double ratio = 0.5;
    bool urgent = false;
    std::vector<std::string> tags;
    std::vector<Part> parts;
    Place place;
    std::map<std::string, std::int64_t> labels;
    Json extra;
    std::optional<std::string> note, hint;
    static constexpr auto fields = toolcell::fields(
        field("name", &Order::name, "Who orders.").pattern("^[a-z]+$"),
        field("size", &Order::size).choices("small", "large").optional(),
        field("count", &Order::count).minimum(1).maximum(10).optional(),
        field("ratio", &Order::ratio).minimum(0).maximum(1).optional(), field("urgent", &Order::urgent).optional(),
        field("tags", &Order::tags), field("parts", &Order::parts), field("place", &Order::place),
        field("labels", &Order::labels), field("extra", &Order::extra), field("note", &Order::note).nullable(),
        field("hint", &Order::hint));
};

static Result<Order> order(const Call &, const Order &input) { return input; }

struct Text {
    std::string text;
    static constexpr auto fields = toolcell::fields(field("text", &Text::text));
};

static Output say(const Call &, const Text &input) {
    Json list = Json::parse("[1,2.5,true,null]");
    std::map<std::string, std::string> inner = {{"a\"b", "c\\d"}};
    return Output::json("{\"text\":" + to_json(input.text) + ",\"list\":" + to_json(list) + ",\"inner\":" + to_json(inner) + "}");
}

struct Half {
    bool half = false;
    static constexpr auto fields = toolcell::fields(field("half", &Half::half).optional());
};

static Output blocks(const Call &, const Half &input) {
    const char *block = R"([{"type":"text","text":"block"}])", *structured = R"({"a":1})";
    if (input.half) return Output::partial(block, {TOOLCELL_PARTIAL_FAILURE, "rest_missing", "the rest is missing"}, structured);
    return Output::content(block, structured).summary("one line");
}

struct Nothing {
    static constexpr auto fields = toolcell::fields();
};

static Output fail(const Call &, const Nothing &) { return Failure{TOOLCELL_RATE_LIMITED, "slow_down", "slow down", "why", 60000}; }

struct File {
    std::string path;
    static constexpr auto fields = toolcell::fields(field("path", &File::path));
};

static std::optional<std::string> content(const std::string &path) {
    char text[64] = {};
    FILE *file = std::fopen(path.c_str(), "r");
    if (!file) return {};
    size_t length = std::fread(text, 1, sizeof text, file);
    std::fclose(file);
    return std::string(text, length);
}

struct Looked {
    std::string text, draft;
    Json cwd;
    int attempt = 0;
    static constexpr auto fields = toolcell::fields(field("text", &Looked::text), field("draft", &Looked::draft),
                                                    field("cwd", &Looked::cwd), field("attempt", &Looked::attempt));
};

static Result<Looked> look(const Call &call, const File &input) {
    auto text = content(input.path);
    std::string draft = call.context()["scratch"].string() + "/draft";
    FILE *file = text ? std::fopen(draft.c_str(), "w") : nullptr;
    if (!file) return Failure{.code = "no_file", .message = "there is no such file"};
    std::fputs(text->c_str(), file);
    std::fclose(file);
    return Looked{*text, content(draft).value_or(""), call.context()["cwd"], static_cast<int>(call.attempt())};
}

static Output variable(const Call &, const Nothing &) {
    const char *value = std::getenv("PARITY");
    return value ? value : "";
}

static Output report(const Call &, const Nothing &) {
    progress("half", 50);
    progress(toolcell_update{"all", 100, "last", 2, 3, 4, 5});
    partial_result(R"([{"type":"text","text":"early"}])");
    toolcell::log(TOOLCELL_WARN, "odd", R"({"n":1})");
    return "reported";
}

static Output wait_for_stop(const Call &, const Nothing &) {
    const char *names[] = {"user_interruption", "sibling_error", "timeout", "fallback", "runtime_shutdown"};
    auto reason = toolcell::wait(60000);
    if (reason) acknowledge();
    return Output::json("{\"stopped\":" + quote(reason ? names[*reason] : "") + "}");
}

static std::string form(const std::string &name, const std::string &type) {
    return R"({"type":"object","properties":{")" + name + R"(":{"type":")" + type + R"("}},"required":[")" + name + R"("]})";
}

static Output questions(const Call &, const Nothing &) {
    Json answers = responses();
    auto said = [&](const char *key, const char *name) { return answers[key]["content"][name]; };
    if (said("who", "name").is_null()) {
        std::string who = form("name", "string"), sure = form("yes", "boolean");
        ask({{"who", "Who?", who.c_str()}, {"sure", "Sure?", sure.c_str()}}, "one");
        return "";
    }
    auto last = answer("last", "How many?", form("n", "integer"), resume_state() + " two");
    if (!last) return "";
    return said("who", "name").string() + (said("sure", "yes").boolean() ? " true " : " false ") +
           std::to_string((*last)["content"]["n"].integer()) + " " + resume_state();
}

static Output keep(const Call &, const Nothing &) {
    Artifact file("rows.csv", "text/csv");
    for (const std::string &chunk : {std::string("a,b\n"), std::string(1500000, 'x'), std::string("\nend\n")}) file.write(chunk);
    auto reference = file.finish();
    if (!reference) return Failure{.code = "refused", .message = "the host refuses the file"};
    return Output::content(R"([{"type":"artifact_ref","reference":)" + quote(*reference) + "}]");
}

static Output mark(const Call &, const Nothing &) {
    return modify_context("branch", R"({"name":"fix"})") ? Output("marked") : Output(Failure{.code = "refused", .message = "refused"});
}

struct Target {
    std::string url;
    static constexpr auto fields = toolcell::fields(field("url", &Target::url));
};

static Output fetch(const Call &, const Target &input) {
    Response response = send({input.url, "POST", {{"x-probe", "yes"}}, "ping"});
    if (response.error != TOOLCELL_HTTP_OK) return Failure::of(response.error);
    return Output::json("{\"status\":" + std::to_string(response.status) + ",\"body\":" + quote(response.body) + "}");
}

struct Other {
    std::string tool;
    Json input;
    static constexpr auto fields = toolcell::fields(field("tool", &Other::tool), field("input", &Other::input));
};

static Output relay(const Call &, const Other &input) {
    Answer got = call_tool(input.tool, to_json(input.input));
    if (got.failure) return *got.failure;
    return Output::json("{\"answer\":" + to_json(got.structured) + ",\"callable\":" + to_json(callable().size() > 0) + "}");
}

struct Settings {
    std::string unit = "none";
    static constexpr auto fields = toolcell::fields(field("unit", &Settings::unit).optional());
};

static Settings settings;

static std::optional<Failure> configure(const Call &call) {
    settings = call.arguments<Settings>();
    return {};
}

static Output setting(const Call &, const Nothing &) { return settings.unit; }

struct Number {
    std::int64_t n = 0;
    static constexpr auto fields = toolcell::fields(field("n", &Number::n));
};

static Output even(const Call &, const Number &input) { return std::to_string(input.n); }

static std::optional<Failure> check(const Call &call) {
    if (call.tool() != "even" || call.arguments<Number>().n % 2 == 0) return {};
    return Failure{TOOLCELL_INVALID_ARGUMENTS, "odd", "the number is odd"};
}

static std::optional<Failure> preflight(const Call &call) {
    if (call.tool() != "even" || call.arguments<Number>().n != 0) return {};
    return Failure{TOOLCELL_SETUP_REQUIRED, "not_ready", "not for 0"};
}

struct Change {
    bool change = false;
    static constexpr auto fields = toolcell::fields(field("change", &Change::change));
};

static Output touch(const Call &, const Change &) { return "touched"; }

static toolcell_facts classify(const Call &call) {
    if (call.tool() != "touch") return {};
    toolcell_facts facts = {};
    facts.read_only = call.arguments<Change>().change ? TOOLCELL_NO : TOOLCELL_YES;
    return facts;
}

#define WRITES R"("access": ["file_read", "file_write"])"

TOOLCELL_TOOLKIT("parity", tool<order>("order", "Answers an order."), tool<say>("say", "Answers JSON."),
                 tool<blocks>("blocks", "Answers blocks."), tool<fail>("fail", "Fails."),
                 tool<look>("look", "Reads a file.", WRITES R"(, "write_effects": ["local_draft"], "paths": ["path"])"),
                 tool<variable>("variable", "Reads a variable.", R"("environment": ["PARITY"])"),
                 tool<report>("report", "Reports."), tool<wait_for_stop>("wait", "Waits for a stop."), tool<questions>("ask", "Asks."),
                 tool<keep>("keep", "Keeps a file."), tool<mark>("mark", "Changes the context."),
                 tool<fetch>("fetch", "Sends a request.",
                             R"("access": ["network"], "urls": ["url"], "write_effects": ["remote_mutation"])"),
                 tool<relay>("relay", "Calls a tool.", R"("tool_calls": ["*"])"), tool<setting>("setting", "Says its setting."),
                 tool<even>("even", "Takes even numbers."), tool<touch>("touch", "Says whether it changes things.", WRITES));

TOOLCELL_VALIDATION(checks<check>, checks<preflight>)
TOOLCELL_CONFIGURATION(checks<configure>)
TOOLCELL_CLASSIFICATION(classifies<classify>)
