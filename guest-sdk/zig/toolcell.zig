//! Tools in Zig for toolcell's sandbox: types over the functions of `toolcell.h`.
//!
//! A tool is a function with two parameters, the call and a struct. The struct becomes the schema of the arguments: a
//! field with a default value, or of an optional type, is optional; `pub const descriptions = .{ .field = "..." }` describes fields.
const std = @import("std");

/// Memory of the call, which is never freed before its end.
pub const allocator = std.heap.c_allocator;

pub const ErrorClass = enum(c_int) {
    invalid_arguments,
    capability_gap,
    setup_required,
    credential_missing,
    timeout,
    rate_limited,
    dependency_unavailable,
    execution_failed,
    partial_failure,
    result_too_large,
    canceled,
};

pub const Failure = struct {
    class: ErrorClass = .execution_failed,
    /// Stable, snake_case.
    code: [:0]const u8,
    /// For the model and the user.
    message: [:0]const u8,
    /// For the record, which no model sees.
    detail: ?[:0]const u8 = null,
    retry_after_ms: ?u64 = null,
};

/// What a tool returns. An error instead of it is a failure with the error's name.
pub const Output = union(enum) {
    text: [:0]const u8,
    /// A structured value, which has to satisfy the schema of the output.
    json: [:0]const u8,
    /// A JSON array of content blocks, and a structured value.
    content: struct { blocks: [:0]const u8, structured: ?[:0]const u8 = null, summary: ?[:0]const u8 = null },
    partial: struct { blocks: [:0]const u8, missing: Failure },
    failure: Failure,
};

/// Formatted text.
pub fn text(comptime format: []const u8, arguments: anytype) Output {
    return .{ .text = print(format, arguments) };
}

/// Any value of Zig as the structured output. A slice of bytes is a string, with U+FFFD in place of what is not UTF-8.
pub fn json(value: anytype) Output {
    var made: std.Io.Writer.Allocating = .init(allocator);
    var writer: std.json.Stringify = .{ .writer = &made.writer };
    put(&writer, value) catch @panic("out of memory");
    return .{ .json = print("{s}", .{made.written()}) };
}

/// As `std.json.Stringify.write`, which makes an array of numbers of bytes that are not UTF-8.
fn put(to: *std.json.Stringify, value: anytype) std.json.Stringify.Error!void {
    const T = @TypeOf(value);
    switch (@typeInfo(T)) {
        .optional => if (value) |known| try put(to, known) else try to.write(null),
        .array => try put(to, &value),
        .pointer => |pointed| switch (pointed.size) {
            .one => switch (@typeInfo(pointed.child)) {
                .array => try put(to, @as([]const std.meta.Elem(pointed.child), value)),
                else => try put(to, value.*),
            },
            .many => try put(to, std.mem.span(value)),
            .slice => if (pointed.child == u8) try to.write(utf8(value)) else {
                try to.beginArray();
                for (value) |item| try put(to, item);
                try to.endArray();
            },
            .c => @compileError("no JSON for " ++ @typeName(T) ++ ", which has no length"),
        },
        .@"struct" => |fields| {
            if (comptime std.meta.hasFn(T, "jsonStringify")) return to.write(value);
            if (fields.is_tuple) try to.beginArray() else try to.beginObject();
            inline for (fields.field_names, fields.field_types) |name, Field| {
                if (Field == void) continue;
                if (!fields.is_tuple) try to.objectField(name);
                try put(to, @field(value, name));
            }
            if (fields.is_tuple) try to.endArray() else try to.endObject();
        },
        .@"union" => {
            if (comptime std.meta.hasFn(T, "jsonStringify")) return to.write(value);
            switch (value) {
                inline else => |inner, tag| {
                    try to.beginObject();
                    try to.objectField(@tagName(tag));
                    if (@TypeOf(inner) == void) {
                        try to.beginObject();
                        try to.endObject();
                    } else try put(to, inner);
                    try to.endObject();
                },
            }
        },
        else => try to.write(value),
    }
}

fn utf8(bytes: []const u8) []const u8 {
    if (std.unicode.utf8ValidateSlice(bytes)) return bytes;
    // With the zero byte behind it that the function needs.
    const ended = print("{s}", .{bytes});
    var length = ended.len;
    return toolcell_utf8_bytes(ended.ptr, &length)[0..length];
}

/// Creates a file by its path, or empties it. `std.Io.Dir.cwd().createFile` cannot by an absolute path in the sandbox, and
/// paths among the arguments are absolute.
pub fn createFile(io: std.Io, path: []const u8, flags: std.Io.Dir.CreateFileOptions) !std.Io.File {
    const folder = std.fs.path.dirname(path) orelse return std.Io.Dir.cwd().createFile(io, path, flags);
    const opened = try std.Io.Dir.cwd().openDir(io, folder, .{});
    defer opened.close(io);
    return opened.createFile(io, std.fs.path.basename(path), flags);
}

/// Writes a whole file by its path.
pub fn writeFile(io: std.Io, path: []const u8, data: []const u8) !void {
    const file = try createFile(io, path, .{});
    defer file.close(io);
    try file.writeStreamingAll(io, data);
}

/// A failure with a formatted message.
pub fn fail(class: ErrorClass, code: [:0]const u8, comptime format: []const u8, arguments: anytype) Output {
    return .{ .failure = .{ .class = class, .code = code, .message = print(format, arguments) } };
}

pub fn print(comptime format: []const u8, arguments: anytype) [:0]const u8 {
    return std.fmt.allocPrintSentinel(allocator, format, arguments, 0) catch @panic("out of memory");
}

/// `toolcell_call`.
pub const Call = extern struct {
    invocation_id: [*:0]const u8,
    tool: [*:0]const u8,
    input: ?*const anyopaque,
    input_text: [*:0]const u8,
    /// 1 for the first attempt.
    attempt: u32,
    context: ?*const anyopaque,
    outcome: *anyopaque,
};

/// What a tool declares beyond its arguments.
pub const Options = struct {
    /// JSON Schema of the structured output.
    output: ?[:0]const u8 = null,
    /// More fields of `toolcell schema show toolkit-short`, as members of a JSON object without its braces.
    more: ?[:0]const u8 = null,
};

/// `toolcell_tool`.
pub const Tool = extern struct {
    name: ?[*:0]const u8 = null,
    description: ?[*:0]const u8 = null,
    run: ?*const fn (*Call) callconv(.c) void = null,
    arguments: ?*const anyopaque = null,
    input: ?[*:0]const u8 = null,
    output: ?[*:0]const u8 = null,
    more: ?[*:0]const u8 = null,
};

/// A tool of `toolkit`. `function` is `fn (*Call, Input) !Output` or the same without an error.
pub fn tool(comptime name: [:0]const u8, comptime description: [:0]const u8, comptime function: anytype, comptime options: Options) Tool {
    const Input = @typeInfo(@TypeOf(function)).@"fn".param_types[1].?;
    const Runner = struct {
        fn run(call: *Call) callconv(.c) void {
            const input = std.json.parseFromSliceLeaky(Input, allocator, std.mem.span(call.input_text), .{ .ignore_unknown_fields = true }) catch |err|
                return give(call, fail(.invalid_arguments, "invalid_arguments", "the arguments do not fit: {s}", .{@errorName(err)}));
            const output: anyerror!Output = function(call, input);
            give(call, output catch |err| fail(.execution_failed, "error", "{s}", .{@errorName(err)}));
        }
    };
    return .{
        .name = name,
        .description = description,
        .run = Runner.run,
        .input = comptime (schema(Input) ++ ""),
        .output = if (options.output) |value| value.ptr else null,
        .more = if (options.more) |value| value.ptr else null,
    };
}

/// Declares the tools of the component; once, in a `comptime` block.
pub fn toolkit(comptime namespace: [:0]const u8, comptime tools: []const Tool) void {
    const Declared = struct {
        const name: [*:0]const u8 = namespace;
        const rows: [tools.len + 1]Tool = tools[0..tools.len].* ++ .{Tool{}};
    };
    @export(&Declared.name, .{ .name = "toolcell_namespace" });
    @export(&Declared.rows, .{ .name = "toolcell_tools" });
}

fn schema(comptime T: type) [:0]const u8 {
    return schemaInside(T, &.{});
}

/// `around` has the structs around `T`: one that contains itself would keep the compiler busy until it crashes.
fn schemaInside(comptime T: type, comptime around: []const type) [:0]const u8 {
    for (around) |other| {
        if (other == T) @compileError("no JSON Schema for " ++ @typeName(T) ++ ", which contains itself");
    }
    return switch (@typeInfo(T)) {
        .bool => "{\"type\":\"boolean\"}",
        .int => |int| "{\"type\":\"integer\"" ++ (if (int.signedness == .unsigned) ",\"minimum\":0" else if (int.bits < 64)
            std.fmt.comptimePrint(",\"minimum\":{d}", .{std.math.minInt(T)})
        else
            "") ++ (if (int.bits < 64) std.fmt.comptimePrint(",\"maximum\":{d}", .{std.math.maxInt(T)}) else "") ++ "}",
        .float => "{\"type\":\"number\"}",
        .optional => |optional| schemaInside(optional.child, around),
        .pointer => |slice| if (slice.child == u8) "{\"type\":\"string\"}" else "{\"type\":\"array\",\"items\":" ++ schemaInside(slice.child, around) ++ "}",
        .@"enum" => |choices| blk: {
            var names: [:0]const u8 = "";
            for (choices.field_names) |name| names = names ++ (if (names.len == 0) "" else ",") ++ quoted(name);
            break :blk "{\"type\":\"string\",\"enum\":[" ++ names ++ "]}";
        },
        .@"struct" => |fields| blk: {
            @setEvalBranchQuota(100_000);
            var members: [:0]const u8 = "";
            var required: [:0]const u8 = "";
            for (fields.field_names, fields.field_types, fields.field_attrs) |name, Field, attributes| {
                const plain = schemaInside(Field, around ++ &[_]type{T});
                const described = if (@hasDecl(T, "descriptions") and @hasField(@TypeOf(T.descriptions), name))
                    plain[0 .. plain.len - 1] ++ ",\"description\":" ++ quoted(@field(T.descriptions, name)) ++ "}"
                else
                    plain;
                members = members ++ (if (members.len == 0) "" else ",") ++ quoted(name) ++ ":" ++ described;
                if (attributes.default_value_ptr == null and @typeInfo(Field) != .optional)
                    required = required ++ (if (required.len == 0) "" else ",") ++ quoted(name);
            }
            break :blk "{\"type\":\"object\",\"properties\":{" ++ members ++ "},\"required\":[" ++ required ++ "],\"additionalProperties\":false}";
        },
        else => @compileError("no JSON Schema for " ++ @typeName(T)),
    };
}

fn quoted(comptime words: []const u8) [:0]const u8 {
    @setEvalBranchQuota(100_000);
    var made: [:0]const u8 = "\"";
    for (words) |letter| made = made ++ switch (letter) {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\t' => "\\t",
        else => &[_]u8{letter},
    };
    return made ++ "\"";
}

fn give(call: *Call, output: Output) void {
    switch (output) {
        .text => |value| toolcell_text_bytes(call, value.ptr, value.len),
        .json => |value| toolcell_json_text(call, value),
        .content => |value| toolcell_content(call, value.blocks, pointer(value.structured), pointer(value.summary)),
        .partial => |value| toolcell_partial(call, value.blocks, null, value.missing.class, value.missing.code, toolcell_message(value.missing.message.ptr, value.missing.message.len)),
        .failure => |value| toolcell_fail(call, value.class, value.code, "%s", toolcell_message(value.message.ptr, value.message.len)),
    }
    const failure = switch (output) {
        .failure => |value| value,
        .partial => |value| value.missing,
        else => return,
    };
    if (failure.detail) |detail| toolcell_fail_detail(call, toolcell_message(detail.ptr, detail.len));
    if (failure.retry_after_ms) |time| toolcell_fail_retry_after(call, time);
}

fn pointer(value: ?[:0]const u8) ?[*:0]const u8 {
    return if (value) |known| known.ptr else null;
}

/// A message, and a percentage; null: none.
pub fn progress(message: [:0]const u8, percent: ?f64) void {
    toolcell_progress(message, percent orelse -1);
}

pub const Level = enum(c_int) { trace, debug, info, warn, @"error" };

pub fn log(level: Level, comptime format: []const u8, arguments: anytype) void {
    toolcell_log(level, print(format, arguments), null);
}

pub const AbortReason = enum(c_int) { user_interruption, sibling_error, timeout, fallback, runtime_shutdown };

/// Why the call was asked to stop; null if it was not.
pub fn canceled() ?AbortReason {
    const reason = toolcell_canceled();
    return if (reason < 0) null else @enumFromInt(reason);
}

/// Keeps a file with the answer. Returns its reference; null if the host refuses it.
pub fn artifact(name: [:0]const u8, media_type: [:0]const u8, bytes: []const u8) ?[*:0]const u8 {
    return toolcell_artifact(name, media_type, bytes.ptr, bytes.len);
}

/// `toolcell_question`.
pub const Question = extern struct { key: [*:0]const u8, message: [*:0]const u8, schema: [*:0]const u8 };

/// Asks the user. In the sandbox it does not return: a fresh instance gets the same call, and the answers. In tests it
/// returns.
pub fn ask(questions: []const Question, state: []const u8) void {
    toolcell_ask(questions.ptr, questions.len, state.ptr, state.len);
}

/// The content of the form that the user accepted for `key`; null if there is none.
pub fn accepted(comptime T: type, key: [:0]const u8) ?T {
    const answer = toolcell_get(toolcell_responses(), key);
    const content = toolcell_get(answer, "content") orelse return null;
    return std.json.parseFromSliceLeaky(T, allocator, std.mem.span(toolcell_json_of(content)), .{ .ignore_unknown_fields = true }) catch null;
}

pub const HttpError = error{ Invalid, NotAllowed, Limit, TooLarge, Timeout, Unreachable, Broken };

/// `toolcell_header`.
pub const Header = extern struct { name: [*:0]const u8, value: [*:0]const u8 };

pub const Request = struct {
    method: [:0]const u8 = "GET",
    /// Absolute, `http` or `https`.
    url: [:0]const u8,
    headers: []const Header = &.{},
    body: ?[]const u8 = null,
    /// Maximum size of the response's body, in bytes.
    limit: usize = 1 << 20,
};

pub const Response = struct { status: u16, headers: []const Header, body: [:0]const u8 };

/// Sends a request, and reads the response. It follows no redirect.
pub fn send(request: Request) HttpError!Response {
    const made: CRequest = .{
        .method = request.method,
        .url = request.url,
        .headers = request.headers.ptr,
        .header_count = request.headers.len,
        .body = if (request.body) |body| body.ptr else null,
        .body_length = if (request.body) |body| body.len else 0,
        .limit = request.limit,
    };
    const got = toolcell_send(&made);
    return switch (got.status_of_request) {
        0 => .{
            .status = got.status,
            .headers = if (got.headers) |headers| headers[0..got.header_count] else &.{},
            .body = got.body[0..got.body_length :0],
        },
        1 => error.Invalid,
        2 => error.NotAllowed,
        3 => error.Limit,
        4 => error.TooLarge,
        5 => error.Timeout,
        6 => error.Unreachable,
        else => error.Broken,
    };
}

/// A host for native tests.
pub const testing = struct {
    /// `toolcell_test_outcome`. `message`: the text, the JSON, the content, the message of a failure, or the key of the
    /// first question.
    pub const Outcome = extern struct {
        kind: enum(c_int) { text, json, content, partial, failure, question },
        message: [*:0]const u8,
        structured: ?[*:0]const u8,
        code: ?[*:0]const u8,
        class: ErrorClass,
        /// The length of a text alone, with its zero bytes.
        text_length: usize,
    };

    /// Calls a tool with any value of Zig as its arguments.
    pub fn call(name: [:0]const u8, input: anytype) Outcome {
        return toolcell_test_call(name, json(input).json);
    }

    /// Forgets what the host of the last test knew and heard.
    pub const begin = toolcell_test_begin;
    pub const answers = toolcell_test_answers;
    pub const response = toolcell_test_response;
    /// What the tool said, a line each.
    pub const heard = toolcell_test_heard;

    extern fn toolcell_test_call([*:0]const u8, [*:0]const u8) Outcome;
    extern fn toolcell_test_begin() void;
    extern fn toolcell_test_answers([*:0]const u8) void;
    extern fn toolcell_test_response(u16, [*:0]const u8) void;
    extern fn toolcell_test_heard() [*:0]const u8;
};

const CRequest = extern struct {
    method: [*:0]const u8,
    url: [*:0]const u8,
    headers: [*]const Header,
    header_count: usize,
    body: ?[*]const u8,
    body_length: usize,
    limit: usize,
};
const CResponse = extern struct {
    status_of_request: c_int,
    status: u16,
    headers: ?[*]const Header,
    header_count: usize,
    body: [*]const u8,
    body_length: usize,
};

extern fn toolcell_text_bytes(*Call, [*]const u8, usize) void;
extern fn toolcell_message([*]const u8, usize) [*:0]const u8;
extern fn toolcell_utf8_bytes([*:0]const u8, *usize) [*]const u8;
extern fn toolcell_json_text(*Call, [*:0]const u8) void;
extern fn toolcell_content(*Call, [*:0]const u8, ?[*:0]const u8, ?[*:0]const u8) void;
extern fn toolcell_partial(*Call, [*:0]const u8, ?[*:0]const u8, ErrorClass, [*:0]const u8, [*:0]const u8) void;
extern fn toolcell_fail(*Call, ErrorClass, [*:0]const u8, [*:0]const u8, ...) void;
extern fn toolcell_fail_detail(*Call, [*:0]const u8) void;
extern fn toolcell_fail_retry_after(*Call, u64) void;
extern fn toolcell_progress([*:0]const u8, f64) void;
extern fn toolcell_log(Level, [*:0]const u8, ?[*:0]const u8) void;
extern fn toolcell_canceled() c_int;
extern fn toolcell_artifact([*:0]const u8, [*:0]const u8, [*]const u8, usize) ?[*:0]const u8;
extern fn toolcell_ask([*]const Question, usize, [*]const u8, usize) void;
extern fn toolcell_responses() ?*const anyopaque;
extern fn toolcell_get(?*const anyopaque, [*:0]const u8) ?*const anyopaque;
extern fn toolcell_json_of(*const anyopaque) [*:0]const u8;
extern fn toolcell_send(*const CRequest) CResponse;
