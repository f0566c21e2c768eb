// toolcell:version 0.1.0
// toolcell:license MIT
const std = @import("std");
const toolcell = @import("toolcell");

const Part = struct {
    label: []const u8,
    weight: f64,

    pub const limits = .{ .weight = .{ .minimum = 0 } };
};

const Place = struct { street: []const u8, floor: i64 = 0 };

const Order = struct {
    name: []const u8,
    size: enum { small, large } = .small,
    count: i64 = 1,
    ratio: f64 = 0.5,
    urgent: bool = false,
    tags: []const []const u8,
    parts: []const Part,
    place: Place,
    labels: toolcell.Map(i64),
    extra: std.json.Value,
    note: ?[]const u8,
    hint: ?[]const u8 = null,

    pub const descriptions = .{ .name = "Who orders." };
    pub const limits = .{
        .name = .{ .pattern = "^[a-z]+$" },
        .count = .{ .minimum = 1, .maximum = 10 },
        .ratio = .{ .minimum = 0, .maximum = 1 },
    };
};

fn order(_: *toolcell.Call, input: Order) Order {
    return input;
}

const Inner = struct { @"a\"b": []const u8 };

fn say(_: *toolcell.Call, input: struct { text: []const u8 }) toolcell.Output {
    return toolcell.json(.{ .text = input.text, .list = .{ 1, 2.5, true, null }, .inner = Inner{ .@"a\"b" = "c\\d" } });
}

const block = "[{\"type\":\"text\",\"text\":\"block\"}]";

fn blocks(_: *toolcell.Call, input: struct { half: bool = false }) toolcell.Output {
    const structured = toolcell.toJson(.{ .a = 1 });
    if (!input.half) return .{ .content = .{ .blocks = block, .structured = structured, .summary = "one line" } };
    const missing: toolcell.Failure = .{ .class = .partial_failure, .code = "rest_missing", .message = "the rest is missing" };
    return .{ .partial = .{ .blocks = block, .structured = structured, .missing = missing } };
}

const Nothing = struct {};

fn fail(_: *toolcell.Call, _: Nothing) toolcell.Output {
    return .{ .failure = .{ .class = .rate_limited, .code = "slow_down", .message = "slow down", .detail = "why", .retry_after_ms = 60000 } };
}

const Looked = struct { text: []const u8, draft: []const u8, cwd: ?[]const u8, attempt: u32 };

fn look(call: *toolcell.Call, input: struct { path: []const u8 }) !Looked {
    const io = std.Io.Threaded.global_single_threaded.io();
    const text = try std.Io.Dir.cwd().readFileAlloc(io, input.path, toolcell.allocator, .limited(4096));
    const draft = toolcell.print("{s}/draft", .{call.scratch() orelse "."});
    try toolcell.writeFile(io, draft, text);
    const again = try std.Io.Dir.cwd().readFileAlloc(io, draft, toolcell.allocator, .limited(4096));
    return .{ .text = text, .draft = again, .cwd = call.cwd(), .attempt = call.attempt };
}

fn variable(_: *toolcell.Call, _: Nothing) toolcell.Output {
    const value = std.c.getenv("PARITY") orelse return toolcell.text("", .{});
    return toolcell.text("{s}", .{std.mem.span(value)});
}

fn report(_: *toolcell.Call, _: Nothing) toolcell.Output {
    toolcell.progress("half", 50);
    toolcell.report(.{ .message = "all", .percent = 100, .current_step = "last", .total_steps = 2, .bytes_read = 3, .bytes_written = 4, .line_count = 5 });
    _ = toolcell.partialResult("[{\"type\":\"text\",\"text\":\"early\"}]");
    toolcell.logFields(.warn, "odd", .{ .n = 1 });
    return toolcell.text("reported", .{});
}

fn wait(_: *toolcell.Call, _: Nothing) toolcell.Output {
    const reason = toolcell.wait(60_000);
    if (reason != null) toolcell.acknowledge();
    return toolcell.json(.{ .stopped = reason });
}

fn form(comptime name: []const u8, comptime kind: []const u8) [:0]const u8 {
    return "{\"type\":\"object\",\"properties\":{\"" ++ name ++ "\":{\"type\":\"" ++ kind ++ "\"}},\"required\":[\"" ++ name ++ "\"]}";
}

fn ask(_: *toolcell.Call, _: Nothing) toolcell.Output {
    const who = toolcell.accepted(struct { name: []const u8 }, "who");
    const sure = toolcell.accepted(struct { yes: bool }, "sure");
    if (who == null or sure == null) {
        toolcell.ask(&.{ .{ .key = "who", .message = "Who?", .schema = form("name", "string") }, .{ .key = "sure", .message = "Sure?", .schema = form("yes", "boolean") } }, "one");
        return toolcell.text("", .{});
    }
    const last = toolcell.accepted(struct { n: i64 }, "last") orelse {
        toolcell.ask(&.{.{ .key = "last", .message = "How many?", .schema = form("n", "integer") }}, toolcell.print("{s} two", .{toolcell.resumeState()}));
        return toolcell.text("", .{});
    };
    return toolcell.text("{s} {} {d} {s}", .{ who.?.name, sure.?.yes, last.n, toolcell.resumeState() });
}

fn keep(_: *toolcell.Call, _: Nothing) !toolcell.Output {
    const file = try toolcell.Artifact.begin("rows.csv", "text/csv");
    const many: [1_500_000]u8 = @splat('x');
    inline for (.{ "a,b\n", &many, "\nend\n" }) |chunk| try file.write(chunk);
    const reference = try file.finish();
    return .{ .content = .{ .blocks = toolcell.toJson(.{.{ .type = "artifact_ref", .reference = reference }}) } };
}

fn mark(_: *toolcell.Call, _: Nothing) !toolcell.Output {
    if (!toolcell.modifyContext("branch", .{ .name = "fix" })) return error.Refused;
    return toolcell.text("marked", .{});
}

fn fetch(_: *toolcell.Call, input: struct { url: [:0]const u8 }) toolcell.Output {
    const response = toolcell.send(.{ .method = "POST", .url = input.url, .headers = &.{.{ .name = "x-probe", .value = "yes" }}, .body = "ping" }) catch |err|
        return .{ .failure = toolcell.httpFailure(err) };
    return toolcell.json(.{ .status = response.status, .body = response.body });
}

fn relay(_: *toolcell.Call, input: struct { tool: [:0]const u8, input: std.json.Value }) !toolcell.Output {
    const answer = toolcell.callTool(input.tool, input.input);
    if (answer.failure) |failure| return .{ .failure = failure };
    return toolcell.json(.{ .answer = try answer.read(std.json.Value), .callable = toolcell.callable().len > 0 });
}

const Settings = struct { unit: []const u8 = "none" };

var settings: Settings = .{};

fn configure(call: *toolcell.Call) ?toolcell.Failure {
    settings = call.arguments(Settings) catch return .{ .class = .setup_required, .code = "settings", .message = "the settings cannot be used" };
    return null;
}

fn setting(_: *toolcell.Call, _: Nothing) toolcell.Output {
    return toolcell.text("{s}", .{settings.unit});
}

const Number = struct { n: i64 };

fn even(_: *toolcell.Call, input: Number) toolcell.Output {
    return toolcell.text("{d}", .{input.n});
}

fn check(call: *toolcell.Call) ?toolcell.Failure {
    if (!std.mem.eql(u8, std.mem.span(call.tool), "even")) return null;
    const input = call.arguments(Number) catch return null;
    return if (@rem(input.n, 2) == 0) null else .{ .class = .invalid_arguments, .code = "odd", .message = "the number is odd" };
}

fn preflight(call: *toolcell.Call) ?toolcell.Failure {
    if (!std.mem.eql(u8, std.mem.span(call.tool), "even")) return null;
    const input = call.arguments(Number) catch return null;
    return if (input.n != 0) null else .{ .class = .setup_required, .code = "not_ready", .message = "not for 0" };
}

const Change = struct { change: bool };

fn touch(_: *toolcell.Call, _: Change) toolcell.Output {
    return toolcell.text("touched", .{});
}

fn classify(call: *const toolcell.Call) toolcell.Facts {
    if (!std.mem.eql(u8, std.mem.span(call.tool), "touch")) return .{};
    const input = call.arguments(Change) catch return .{};
    return .{ .read_only = if (input.change) .no else .yes };
}

comptime {
    const writes = "\"access\": [\"file_read\", \"file_write\"]";
    toolcell.toolkit("parity", &.{
        toolcell.tool("order", "Answers an order.", order, .{}),
        toolcell.tool("say", "Answers JSON.", say, .{}),
        toolcell.tool("blocks", "Answers blocks.", blocks, .{}),
        toolcell.tool("fail", "Fails.", fail, .{}),
        toolcell.tool("look", "Reads a file.", look, .{ .more = writes ++ ", \"write_effects\": [\"local_draft\"], \"paths\": [\"path\"]" }),
        toolcell.tool("variable", "Reads a variable.", variable, .{ .more = "\"environment\": [\"PARITY\"]" }),
        toolcell.tool("report", "Reports.", report, .{}),
        toolcell.tool("wait", "Waits for a stop.", wait, .{}),
        toolcell.tool("ask", "Asks.", ask, .{}),
        toolcell.tool("keep", "Keeps a file.", keep, .{}),
        toolcell.tool("mark", "Changes the context.", mark, .{}),
        toolcell.tool("fetch", "Sends a request.", fetch, .{ .more = "\"access\": [\"network\"], \"urls\": [\"url\"], \"write_effects\": [\"remote_mutation\"]" }),
        toolcell.tool("relay", "Calls a tool.", relay, .{ .more = "\"tool_calls\": [\"*\"]" }),
        toolcell.tool("setting", "Says its setting.", setting, .{}),
        toolcell.tool("even", "Takes even numbers.", even, .{}),
        toolcell.tool("touch", "Says whether it changes things.", touch, .{ .more = writes }),
    });
    toolcell.validation(.{ .values = check, .preflight = preflight });
    toolcell.configuration(configure);
    toolcell.classification(classify);
}

const testing = toolcell.testing;

fn expect(wanted: []const u8, outcome: testing.Outcome) !void {
    try std.testing.expectEqualStrings(wanted, std.mem.span(outcome.message));
}

fn hasHeard(line: []const u8) bool {
    return std.mem.indexOf(u8, std.mem.span(testing.heard()), line) != null;
}

test "defaults" {
    testing.begin();
    const empty = [_][]const u8{};
    const none = [_]Part{};
    const made = testing.call("order", .{ .name = "a", .tags = empty, .parts = none, .place = .{ .street = "s" }, .labels = Nothing{}, .extra = null, .note = null });
    try expect("{\"name\":\"a\",\"size\":\"small\",\"count\":1,\"ratio\":0.5,\"urgent\":false,\"tags\":[],\"parts\":[],\"place\":{\"street\":\"s\",\"floor\":0},\"labels\":{},\"extra\":null,\"note\":null}", made);
}

test "a stop" {
    testing.begin();
    testing.cancel(.timeout);
    try expect("{\"stopped\":\"timeout\"}", testing.call("wait", Nothing{}));
    try std.testing.expect(hasHeard("acknowledged\n"));
}

test "answers" {
    testing.begin();
    try expect("who", testing.call("ask", Nothing{}));
    testing.answers("{\"who\":{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}},\"sure\":{\"action\":\"accept\",\"content\":{\"yes\":true}},\"last\":{\"action\":\"accept\",\"content\":{\"n\":3}}}");
    testing.resumeWith("s");
    try expect("Ada true 3 s", testing.call("ask", Nothing{}));
}

test "the context, other tools and a server" {
    testing.begin();
    testing.context("{\"cwd\":\"/c\",\"scratch\":\"target\"}");
    const looked = testing.call("look", .{ .path = "sdk.mk" });
    try std.testing.expect(std.mem.indexOf(u8, std.mem.span(looked.message), "\"cwd\":\"/c\"") != null);
    testing.offer("other.one", "7");
    try expect("{\"answer\":7,\"callable\":true}", testing.call("relay", .{ .tool = "other.one", .input = Nothing{} }));
    testing.response(200, "pong");
    try expect("{\"status\":200,\"body\":\"pong\"}", testing.call("fetch", .{ .url = "http://a" }));
}

test "checks, facts and settings" {
    testing.begin();
    try std.testing.expectEqualStrings("odd", std.mem.span(testing.call("even", .{ .n = 3 }).code.?));
    try std.testing.expectEqual(toolcell.Claim.no, testing.classify("touch", .{ .change = true }).read_only);
    testing.settings("{\"unit\":\"mile\"}");
    try expect("mile", testing.call("setting", Nothing{}));
}
