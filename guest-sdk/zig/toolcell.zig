//! Tools in Zig for toolcell's sandbox: types over the functions of `toolcell.h`.
//!
//! A tool is a function with two parameters, the call and a struct. The struct becomes the schema of the arguments: a field
//! with a default value may be left out, and one of an optional type without a default may be null. Declarations of the struct
//! say more: `pub const descriptions = .{ .field = "..." }` describes fields, and `pub const limits = .{ .field = .{ .minimum =
//! 1, .pattern = "^a" } }` adds keywords of JSON Schema, to the items of a list or a map. `Map(T)` has members of any name,
//! `std.json.Value` is any JSON.
const std = @import("std");
const schemas = @import("schema.zig");

pub const Map = std.json.ArrayHashMap;

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
    /// A class that the host alone gives: `Failure.word` names it.
    other,
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
    /// Of the class `other`.
    word: ?[:0]const u8 = null,
};

/// What a tool returns. An error instead of it is a failure with the error's name.
pub const Output = union(enum) {
    text: [:0]const u8,
    /// A structured value, which has to satisfy the schema of the output.
    json: [:0]const u8,
    /// A JSON array of content blocks, and a structured value.
    content: struct { blocks: [:0]const u8, structured: ?[:0]const u8 = null, summary: ?[:0]const u8 = null },
    partial: struct { blocks: [:0]const u8, structured: ?[:0]const u8 = null, missing: Failure },
    failure: Failure,
};

/// What a tool returns whose output has a type: its schema is that of `T`. A function may also return `T` itself.
pub fn Result(comptime T: type) type {
    return union(enum) {
        value: T,
        failure: Failure,

        pub const Value = T;
    };
}

/// Formatted text.
pub fn text(comptime format: []const u8, arguments: anytype) Output {
    return .{ .text = print(format, arguments) };
}

/// Any value of Zig as the structured output.
pub fn json(value: anytype) Output {
    return .{ .json = toJson(value) };
}

/// Any value of Zig as JSON text. A slice of bytes is a string, with U+FFFD in place of what is not UTF-8.
pub fn toJson(value: anytype) [:0]const u8 {
    var made: std.Io.Writer.Allocating = .init(allocator);
    var writer: std.json.Stringify = .{ .writer = &made.writer };
    put(&writer, value) catch @panic("out of memory");
    return print("{s}", .{made.written()});
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
            inline for (fields.field_names, fields.field_types, fields.field_attrs) |name, Field, attributes| {
                if (Field == void) continue;
                const may_lack = @typeInfo(Field) == .optional and attributes.default_value_ptr != null;
                // Without a value it is left out, as the schema has it.
                const is_left_out = if (may_lack) @field(value, name) == null else false;
                if (!is_left_out) {
                    if (!fields.is_tuple) try to.objectField(name);
                    try put(to, @field(value, name));
                }
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
    outcome: *CallOutcome,

    /// The arguments, or the settings, as a struct.
    pub fn arguments(call: *const Call, comptime T: type) !T {
        return std.json.parseFromSliceLeaky(T, allocator, std.mem.span(call.input_text), .{ .ignore_unknown_fields = true });
    }

    /// The caller's folder, if the call may use it.
    pub fn cwd(call: *const Call) ?[:0]const u8 {
        return call.folder("cwd");
    }

    /// A folder of this call alone, if the tool asked for one.
    pub fn scratch(call: *const Call) ?[:0]const u8 {
        return call.folder("scratch");
    }

    fn folder(call: *const Call, name: [:0]const u8) ?[:0]const u8 {
        const found = toolcell_get_string(call.context, name, null) orelse return null;
        return std.mem.span(found);
    }
};

/// `struct toolcell_outcome`, as far as it is set here.
const CallOutcome = extern struct {
    kind: c_int,
    set: bool,
    text: ?[*:0]const u8,
    structured: ?[*:0]const u8,
    summary: ?[*:0]const u8,
    text_length: usize,
    class: ErrorClass,
    word: ?[*:0]const u8,
};

/// What a tool declares beyond its arguments.
pub const Options = struct {
    /// JSON Schema of the structured output, for a function that returns `Output`.
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
    results: ?*const anyopaque = null,
};

/// A tool of `toolkit`. `function` is `fn (*Call, Input) T`, where `T` is `Output`, `Result(..)`, or a struct that becomes the
/// structured output; or the same with an error.
pub fn tool(comptime name: [:0]const u8, comptime description: [:0]const u8, comptime function: anytype, comptime options: Options) Tool {
    const Input = @typeInfo(@TypeOf(function)).@"fn".param_types[1].?;
    const Returned = Payload(@typeInfo(@TypeOf(function)).@"fn".return_type.?);
    const Runner = struct {
        fn run(call: *Call) callconv(.c) void {
            const input = call.arguments(Input) catch |err|
                return give(call, fail(.invalid_arguments, "invalid_arguments", "the arguments do not fit: {s}", .{@errorName(err)}));
            const returned: anyerror!Returned = function(call, input);
            give(call, outputOf(returned catch |err| return give(call, fail(.execution_failed, "error", "{s}", .{@errorName(err)}))));
        }
    };
    return .{
        .name = name,
        .description = description,
        .run = Runner.run,
        .input = comptime (schemas.of(Input) ++ ""),
        .output = if (Returned == Output) pointer(options.output) else comptime (schemas.of(if (isResult(Returned)) Returned.Value else Returned) ++ ""),
        .more = if (options.more) |value| value.ptr else null,
    };
}

fn Payload(comptime T: type) type {
    return switch (@typeInfo(T)) {
        .error_union => |inner| inner.payload,
        else => T,
    };
}

fn isResult(comptime T: type) bool {
    return @typeInfo(T) == .@"union" and @hasDecl(T, "Value");
}

fn outputOf(returned: anytype) Output {
    const T = @TypeOf(returned);
    if (T == Output) return returned;
    if (comptime !isResult(T)) return json(returned);
    return switch (returned) {
        .value => |value| json(value),
        .failure => |failure| .{ .failure = failure },
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

pub const Claim = enum(c_int) { unstated, no, yes };

/// What a call would do with its arguments. It may only narrow what the declaration says.
pub const Facts = extern struct {
    read_only: Claim = .unstated,
    concurrency_safe: Claim = .unstated,
    destructive: Claim = .unstated,
    open_world: Claim = .unstated,
};

const is_component = @import("builtin").target.cpu.arch.isWasm();

pub const Checks = struct {
    /// Looks at the arguments of a call before it is decided on, without files and network, and returns what it refuses them
    /// with.
    values: *const fn (*Call) ?Failure = passes,
    /// Says in the same way that the call could not start.
    preflight: *const fn (*Call) ?Failure = passes,

    fn passes(_: *Call) ?Failure {
        return null;
    }
};

/// Once, beside `toolkit`.
pub fn validation(comptime own: Checks) void {
    const Exported = struct {
        fn checks(call: *Call) callconv(.c) void {
            if (own.values(call)) |failure| give(call, .{ .failure = failure });
        }
        fn starts(call: *Call) callconv(.c) void {
            if (own.preflight(call)) |failure| give(call, .{ .failure = failure });
        }
        fn values(name: [*]const u8, name_length: usize, input: [*]const u8, length: usize) callconv(.c) *anyopaque {
            return toolcell_checked(name, name_length, input, length, checks);
        }
        fn preflight(name: [*]const u8, name_length: usize, input: [*]const u8, length: usize) callconv(.c) *anyopaque {
            return toolcell_checked(name, name_length, input, length, starts);
        }
        const native: *const fn (*Call) callconv(.c) void = checks;
        const native_preflight: *const fn (*Call) callconv(.c) void = starts;
    };
    if (!is_component) {
        @export(&Exported.native, .{ .name = "toolcell_validation" });
        return @export(&Exported.native_preflight, .{ .name = "toolcell_preflight" });
    }
    @export(&Exported.values, .{ .name = "toolcell:tool/validation@0.2.0#validate-values" });
    @export(&Exported.preflight, .{ .name = "toolcell:tool/validation@0.2.0#preflight" });
}

/// `configure` takes the settings of the operator before each call of a tool, `call.arguments(Settings)`, and returns what it
/// refuses them with. It is not called if there are none. Once, beside `toolkit`.
pub fn configuration(comptime configure: fn (*Call) ?Failure) void {
    const Exported = struct {
        fn checks(call: *Call) callconv(.c) void {
            if (configure(call)) |failure| give(call, .{ .failure = failure });
        }
        fn take(settings: [*]const u8, length: usize) callconv(.c) *anyopaque {
            return toolcell_checked("", 0, settings, length, checks);
        }
        const native: *const fn (*Call) callconv(.c) void = checks;
    };
    if (!is_component) return @export(&Exported.native, .{ .name = "toolcell_configuration" });
    @export(&Exported.take, .{ .name = "toolcell:tool/configuration@0.2.0#configure" });
}

/// `classify` says what a call would do with its arguments. Once, beside `toolkit`.
pub fn classification(comptime classify: fn (*const Call) Facts) void {
    const Exported = struct {
        fn facts(call: *const Call) callconv(.c) Facts {
            return classify(call);
        }
        fn take(name: [*]const u8, name_length: usize, input: [*]const u8, length: usize) callconv(.c) *anyopaque {
            return toolcell_classified(name, name_length, input, length, facts);
        }
        const native: *const fn (*const Call) callconv(.c) Facts = facts;
    };
    if (!is_component) return @export(&Exported.native, .{ .name = "toolcell_classification" });
    @export(&Exported.take, .{ .name = "toolcell:tool/classification@0.2.0#classify" });
}

fn give(call: *Call, output: Output) void {
    switch (output) {
        .text => |value| toolcell_text_bytes(call, value.ptr, value.len),
        .json => |value| toolcell_json_text(call, value),
        .content => |value| toolcell_content(call, value.blocks, pointer(value.structured), pointer(value.summary)),
        .partial => |value| toolcell_partial(call, value.blocks, pointer(value.structured), value.missing.class, value.missing.code, toolcell_message(value.missing.message.ptr, value.missing.message.len)),
        .failure => |value| toolcell_fail(call, value.class, value.code, "%s", toolcell_message(value.message.ptr, value.message.len)),
    }
    const failure = switch (output) {
        .failure => |value| value,
        .partial => |value| value.missing,
        else => return,
    };
    call.outcome.word = pointer(failure.word);
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

/// `toolcell_update`: a negative number is none.
pub const Update = extern struct {
    message: ?[*:0]const u8 = null,
    percent: f64 = -1,
    current_step: ?[*:0]const u8 = null,
    total_steps: i64 = -1,
    bytes_read: i64 = -1,
    bytes_written: i64 = -1,
    line_count: i64 = -1,
};

pub fn report(update: Update) void {
    toolcell_report(&update);
}

/// Blocks that are usable now, as a JSON array. Returns the host's reference.
pub fn partialResult(blocks: [:0]const u8) [:0]const u8 {
    return std.mem.span(toolcell_partial_result(blocks));
}

pub const Level = enum(c_int) { trace, debug, info, warn, @"error" };

pub fn log(level: Level, comptime format: []const u8, arguments: anytype) void {
    toolcell_log(level, print(format, arguments), null);
}

/// `fields`: a struct that becomes a JSON object.
pub fn logFields(level: Level, message: [:0]const u8, fields: anytype) void {
    toolcell_log(level, message, toJson(fields));
}

pub const AbortReason = enum(c_int) { user_interruption, sibling_error, timeout, fallback, runtime_shutdown };

/// Why the call was asked to stop; null if it was not.
pub fn canceled() ?AbortReason {
    return reasonOf(toolcell_canceled());
}

/// Waits, and ends at once if a stop is requested before or meanwhile. In tests no time passes.
pub fn wait(milliseconds: u64) ?AbortReason {
    return reasonOf(toolcell_wait(milliseconds));
}

fn reasonOf(reason: c_int) ?AbortReason {
    return if (reason < 0) null else @enumFromInt(reason);
}

/// Says that the tool has seen the request to stop, and is cleaning up.
pub fn acknowledge() void {
    toolcell_acknowledge();
}

/// Sets a fact in the context of the caller, to any value of Zig. False if the host refuses it; the log says why.
pub fn modifyContext(key: [:0]const u8, value: anytype) bool {
    return toolcell_modify_context(key, toJson(value));
}

/// Keeps a file with the answer. Returns its reference; null if the host refuses it.
pub fn artifact(name: [:0]const u8, media_type: [:0]const u8, bytes: []const u8) ?[*:0]const u8 {
    return toolcell_artifact(name, media_type, bytes.ptr, bytes.len);
}

/// A file that belongs to the answer, written in chunks. The host's log says why it refuses one.
pub const Artifact = struct {
    handle: i32,

    pub fn begin(name: [:0]const u8, media_type: [:0]const u8) error{Refused}!Artifact {
        const handle = toolcell_artifact_begin(name, media_type);
        return if (handle < 0) error.Refused else .{ .handle = handle };
    }

    pub fn write(self: Artifact, chunk: []const u8) error{Refused}!void {
        if (!toolcell_artifact_write(self.handle, chunk.ptr, chunk.len)) return error.Refused;
    }

    /// The reference, for a block `{"type": "artifact_ref", "reference": ..}`.
    pub fn finish(self: Artifact) error{Refused}![:0]const u8 {
        return std.mem.span(toolcell_artifact_finish(self.handle) orelse return error.Refused);
    }
};

/// `toolcell_question`.
pub const Question = extern struct { key: [*:0]const u8, message: [*:0]const u8, schema: [*:0]const u8 };

/// Asks the user. In the sandbox it does not return: a fresh instance gets the same call, and the answers. In tests it
/// returns.
pub fn ask(questions: []const Question, state: []const u8) void {
    toolcell_ask(questions.ptr, questions.len, state.ptr, state.len);
}

/// The state of the last `ask`; empty in the first instance.
pub fn resumeState() []const u8 {
    var length: usize = 0;
    const state = toolcell_resume_state(&length);
    return state[0..length];
}

/// The content of the form that the user accepted for `key`; null if there is none.
pub fn accepted(comptime T: type, key: [:0]const u8) ?T {
    const answer = toolcell_get(toolcell_responses(), key);
    const content = toolcell_get(answer, "content") orelse return null;
    return parsed(T, content) catch null;
}

fn parsed(comptime T: type, value: *const anyopaque) !T {
    return std.json.parseFromSliceLeaky(T, allocator, std.mem.span(toolcell_json_of(value)), .{ .ignore_unknown_fields = true });
}

/// What another tool answered.
pub const Answer = struct {
    invocation_id: [:0]const u8,
    /// The blocks, as a JSON array.
    content: [:0]const u8,
    structured: ?*const anyopaque,
    /// Of a call that failed, or what is missing.
    failure: ?Failure,

    /// The structured value.
    pub fn read(self: Answer, comptime T: type) !T {
        return parsed(T, self.structured orelse return error.NoStructuredValue);
    }
};

/// Calls another tool by its qualified name, with a struct, and waits for its end.
pub fn callTool(name: [:0]const u8, input: anytype) Answer {
    const got = toolcell_call_tool(name, toJson(input));
    return .{
        .invocation_id = std.mem.span(got.invocation_id),
        .content = if (got.content) |content| std.mem.span(toolcell_json_of(content)) else "[]",
        .structured = got.structured,
        .failure = if (got.failure) |failure| failureOf(failure) else null,
    };
}

pub const Callable = struct { name: []const u8, description: []const u8 = "" };

/// The tools that this call may call.
pub fn callable() []const Callable {
    return parsed([]const Callable, toolcell_callable()) catch &.{};
}

pub const CFailure = extern struct {
    class: ErrorClass,
    word: ?[*:0]const u8,
    code: [*:0]const u8,
    message: [*:0]const u8,
    detail: ?[*:0]const u8,
};

pub fn failureOf(from: *const CFailure) Failure {
    return .{
        .class = from.class,
        .code = std.mem.span(from.code),
        .message = std.mem.span(from.message),
        .detail = if (from.detail) |detail| std.mem.span(detail) else null,
        .word = if (from.word) |word| std.mem.span(word) else null,
    };
}

const http = @import("http.zig");
pub const HttpError = http.HttpError;
pub const Header = http.Header;
pub const Request = http.Request;
pub const Response = http.Response;
pub const send = http.send;
/// The failure that an error of `send` means.
pub const httpFailure = http.httpFailure;

/// A host for native tests.
pub const testing = @import("testing.zig");

const CAnswer = extern struct {
    invocation_id: [*:0]const u8,
    content: ?*const anyopaque,
    structured: ?*const anyopaque,
    failure: ?*const CFailure,
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
extern fn toolcell_report(*const Update) void;
extern fn toolcell_partial_result([*:0]const u8) [*:0]const u8;
extern fn toolcell_wait(u64) c_int;
extern fn toolcell_acknowledge() void;
extern fn toolcell_modify_context([*:0]const u8, [*:0]const u8) bool;
extern fn toolcell_artifact_begin([*:0]const u8, [*:0]const u8) i32;
extern fn toolcell_artifact_write(i32, [*]const u8, usize) bool;
extern fn toolcell_artifact_finish(i32) ?[*:0]const u8;
extern fn toolcell_resume_state(*usize) [*]const u8;
extern fn toolcell_call_tool([*:0]const u8, [*:0]const u8) CAnswer;
extern fn toolcell_callable() *const anyopaque;
extern fn toolcell_get_string(?*const anyopaque, [*:0]const u8, ?[*:0]const u8) ?[*:0]const u8;
extern fn toolcell_checked([*]const u8, usize, [*]const u8, usize, ?*const fn (*Call) callconv(.c) void) *anyopaque;
extern fn toolcell_classified([*]const u8, usize, [*]const u8, usize, *const fn (*const Call) callconv(.c) Facts) *anyopaque;
extern fn toolcell_artifact([*:0]const u8, [*:0]const u8, [*]const u8, usize) ?[*:0]const u8;
extern fn toolcell_ask([*]const Question, usize, [*]const u8, usize) void;
extern fn toolcell_responses() ?*const anyopaque;
extern fn toolcell_get(?*const anyopaque, [*:0]const u8) ?*const anyopaque;
extern fn toolcell_json_of(*const anyopaque) [*:0]const u8;
