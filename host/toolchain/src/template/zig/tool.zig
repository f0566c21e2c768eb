// toolcell:version 0.1.0
const std = @import("std");
const toolcell = @import("toolcell");

const Text = struct {
    text: []const u8,

    pub const descriptions = .{ .text = "The text to count in." };
};

fn count(_: *toolcell.Call, input: Text) toolcell.Output {
    var words = std.mem.tokenizeAny(u8, input.text, &std.ascii.whitespace);
    var found: usize = 0;
    while (words.next()) |_| found += 1;
    return toolcell.text("{d} words", .{found});
}

comptime {
    toolcell.toolkit("{{name}}", &.{
        toolcell.tool("count", "Counts the words of a text.", count, .{ .more = "\"content_types\": [\"text\"]" }),
    });
}

test "words are counted" {
    toolcell.testing.begin();
    const outcome = toolcell.testing.call("count", .{ .text = "one two three" });
    try std.testing.expectEqualStrings("3 words", std.mem.span(outcome.message));
}
