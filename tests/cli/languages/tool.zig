const std = @import("std");
const toolcell = @import("toolcell");

const Unit = enum { words, bytes };
const All = struct {
    text: []const u8,
    unit: Unit = .words,
    limit: ?i64 = null,
    more: []const []const u8 = &.{},
    small: ?u8 = null,
    low: i16 = 0,

    pub const descriptions = .{ .text = "A \"text\"." };
};

fn all(call: *toolcell.Call, input: All) !toolcell.Output {
    toolcell.progress("half", 50);
    toolcell.log(.info, "read {d} bytes", .{input.text.len});
    if (toolcell.canceled() != null) return toolcell.fail(.canceled, "stopped", "stopped", .{});
    if (std.mem.eql(u8, input.text, "fail")) return toolcell.fail(.rate_limited, "slow", "wait {d}", .{call.attempt});
    if (std.mem.eql(u8, input.text, "bytes")) return toolcell.text("{s}", .{"a\xe4o"});
    if (std.mem.eql(u8, input.text, "zero")) return toolcell.fail(.rate_limited, "zero", "a{c}b", .{0});
    if (std.mem.eql(u8, input.text, "json")) return toolcell.json(.{ .head = @as([]const u8, "a\xe4o"), .list = [2]?[]const u8{ "\xff", null }, .pair = .{ 1, true } });
    if (std.mem.eql(u8, input.text, "index")) return toolcell.text("{d}", .{input.text[input.text.len + call.attempt]});
    if (std.mem.startsWith(u8, input.text, "/")) {
        const io = std.Io.Threaded.global_single_threaded.io();
        try toolcell.writeFile(io, input.text, "written");
        return toolcell.text("wrote", .{});
    }
    if (std.mem.eql(u8, input.text, "error")) return error.OutOfOrder;
    if (std.mem.eql(u8, input.text, "ask")) {
        const Name = struct { name: []const u8 };
        const found = toolcell.accepted(Name, "who") orelse {
            toolcell.ask(&.{.{ .key = "who", .message = "Who are you?", .schema = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}" }}, "");
            return toolcell.text("asked", .{});
        };
        return toolcell.text("{s}", .{found.name});
    }
    if (std.mem.eql(u8, input.text, "part")) return .{ .partial = .{ .blocks = "[{\"type\":\"text\",\"text\":\"p\"}]", .missing = .{ .code = "half", .message = "half of it" } } };
    if (std.mem.eql(u8, input.text, "file")) {
        const reference = toolcell.artifact("a.csv", "text/csv", "a,b\n") orelse return error.Refused;
        return .{ .content = .{ .blocks = toolcell.print("[{{\"type\":\"artifact_ref\",\"reference\":\"{s}\"}}]", .{reference}) } };
    }
    if (std.mem.startsWith(u8, input.text, "http:")) {
        const response = try toolcell.send(.{ .url = toolcell.print("{s}", .{input.text}), .headers = &.{.{ .name = "x-a", .value = "b" }} });
        return toolcell.text("{d} {s}", .{ response.status, response.body });
    }
    return toolcell.json(.{ .unit = @tagName(input.unit), .limit = input.limit, .more = input.more.len });
}

comptime {
    toolcell.toolkit("host", &.{
        toolcell.tool("all", "Uses the host.", all, .{ .more = "\"access\":[\"network\",\"file_write\"],\"write_effects\":[\"local_persistent\"],\"network_scope\":\"any\"" }),
    });
}
