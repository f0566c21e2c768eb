//! A host for native tests.
const toolcell = @import("toolcell.zig");
const ErrorClass = toolcell.ErrorClass;
const Facts = toolcell.Facts;
const AbortReason = toolcell.AbortReason;

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
    return toolcell_test_call(name, toolcell.toJson(input));
}

/// Forgets what the host of the last test knew and heard.
pub const begin = toolcell_test_begin;
pub const answers = toolcell_test_answers;
pub const response = toolcell_test_response;
pub const context = toolcell_test_context;
pub const resumeWith = toolcell_test_resume_state;
pub const settings = toolcell_test_settings;
pub const offer = toolcell_test_offer;
/// What the component says of a call.
pub fn classify(name: [:0]const u8, input: anytype) Facts {
    return toolcell_test_classify(name, toolcell.toJson(input));
}
pub fn cancel(reason: AbortReason) void {
    toolcell_test_cancel(reason);
}
/// What the tool said, a line each.
pub const heard = toolcell_test_heard;

extern fn toolcell_test_call([*:0]const u8, [*:0]const u8) Outcome;
extern fn toolcell_test_begin() void;
extern fn toolcell_test_answers([*:0]const u8) void;
extern fn toolcell_test_response(u16, [*:0]const u8) void;
extern fn toolcell_test_context([*:0]const u8) void;
extern fn toolcell_test_resume_state([*:0]const u8) void;
extern fn toolcell_test_settings([*:0]const u8) void;
extern fn toolcell_test_offer([*:0]const u8, [*:0]const u8) void;
extern fn toolcell_test_classify([*:0]const u8, [*:0]const u8) Facts;
extern fn toolcell_test_cancel(AbortReason) void;
extern fn toolcell_test_heard() [*:0]const u8;
