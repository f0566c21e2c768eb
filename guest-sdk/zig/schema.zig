//! JSON Schema of types, made by the compiler. `toolcell.zig` says what the declarations of a struct mean.
const std = @import("std");

pub fn of(comptime T: type) [:0]const u8 {
    @setEvalBranchQuota(200_000);
    return "{" ++ keywords(T, "", false, &.{}) ++ "}";
}

/// Keywords of the schema of `T`, without the braces. `limits` has more of them, for the values that hold no others. `around`
/// has the structs around `T`: one that contains itself would keep the compiler busy until it crashes.
fn keywords(comptime T: type, comptime limits: []const u8, comptime nullable: bool, comptime around: []const type) [:0]const u8 {
    for (around) |other| {
        if (other == T) @compileError("no JSON Schema for " ++ @typeName(T) ++ ", which contains itself");
    }
    if (T == std.json.Value) return "";
    return switch (@typeInfo(T)) {
        .bool => kind("boolean", nullable) ++ limits,
        .int => |int| kind("integer", nullable) ++
            (if (int.bits < 64 or int.signedness == .unsigned) bound("minimum", std.math.minInt(T), limits) else "") ++
            (if (int.bits < 64) bound("maximum", std.math.maxInt(T), limits) else "") ++ limits,
        .float => kind("number", nullable) ++ limits,
        .optional => |optional| keywords(optional.child, limits, nullable, around),
        .pointer => |slice| if (slice.child == u8)
            kind("string", nullable) ++ limits
        else
            kind("array", nullable) ++ ",\"items\":{" ++ keywords(slice.child, limits, false, around) ++ "}",
        .@"enum" => |choices| kind("string", nullable) ++ ",\"enum\":[" ++ names(choices.field_names) ++ (if (nullable) ",null" else "") ++ "]",
        .@"struct" => if (Held(T)) |Item|
            kind("object", nullable) ++ ",\"additionalProperties\":{" ++ keywords(Item, limits, false, around) ++ "}"
        else
            kind("object", nullable) ++ fields(T, around ++ &[_]type{T}),
        else => @compileError("no JSON Schema for " ++ @typeName(T)),
    };
}

/// What a `std.json.ArrayHashMap` holds.
fn Held(comptime T: type) ?type {
    if (!@hasField(T, "map") or !@hasDecl(T, "jsonParse")) return null;
    return @FieldType(@FieldType(T, "map").KV, "value");
}

fn fields(comptime T: type, comptime around: []const type) [:0]const u8 {
    const info = @typeInfo(T).@"struct";
    var members: [:0]const u8 = "";
    var required: [:0]const u8 = "";
    for (info.field_names, info.field_types, info.field_attrs) |name, Field, attributes| {
        const default: ?Field = if (attributes.default_value_ptr) |value| @as(*const Field, @ptrCast(@alignCast(value))).* else null;
        const has_default = attributes.default_value_ptr != null;
        const is_nullable = @typeInfo(Field) == .optional and !has_default;
        const said = said: {
            const own = keywords(Field, limitsOf(T, name), is_nullable, around);
            const described = if (about(T, "descriptions", name)) |words| ",\"description\":" ++ quoted(words) else "";
            const otherwise = if (has_default) (if (literal(default.?)) |value| ",\"default\":" ++ value else "") else "";
            const all = own ++ described ++ otherwise;
            // Any JSON has no keyword before these.
            break :said if (all.len > 0 and all[0] == ',') all[1..] ++ "" else all;
        };
        members = members ++ (if (members.len == 0) "" else ",") ++ quoted(name) ++ ":{" ++ said ++ "}";
        if (!has_default) required = required ++ (if (required.len == 0) "" else ",") ++ quoted(name);
    }
    return ",\"properties\":{" ++ members ++ "},\"required\":[" ++ required ++ "],\"additionalProperties\":false";
}

/// What the declaration `table` of a struct says of a field.
fn about(comptime T: type, comptime table: []const u8, comptime name: []const u8) ?@TypeOf(if (@hasDecl(T, table) and @hasField(@TypeOf(@field(T, table)), name)) @field(@field(T, table), name) else {}) {
    if (comptime !@hasDecl(T, table)) return null;
    if (comptime !@hasField(@TypeOf(@field(T, table)), name)) return null;
    return @field(@field(T, table), name);
}

fn limitsOf(comptime T: type, comptime name: []const u8) []const u8 {
    const said = about(T, "limits", name) orelse return "";
    var made: [:0]const u8 = "";
    for (@typeInfo(@TypeOf(said)).@"struct".field_names) |keyword| {
        const value = literal(@field(said, keyword)) orelse @compileError("no JSON for the limit " ++ keyword ++ " of " ++ name);
        made = made ++ "," ++ quoted(keyword) ++ ":" ++ value;
    }
    return made;
}

fn kind(comptime word: []const u8, comptime nullable: bool) [:0]const u8 {
    return "\"type\":" ++ (if (nullable) "[" ++ quoted(word) ++ ",\"null\"]" else quoted(word));
}

/// The bound of an integer's type, unless `limits` has a narrower one.
fn bound(comptime keyword: []const u8, comptime value: comptime_int, comptime limits: []const u8) []const u8 {
    if (std.mem.indexOf(u8, limits, "\"" ++ keyword ++ "\":") != null) return "";
    return std.fmt.comptimePrint(",\"{s}\":{d}", .{ keyword, value });
}

fn names(comptime words: anytype) [:0]const u8 {
    var made: [:0]const u8 = "";
    for (words) |word| made = made ++ (if (made.len == 0) "" else ",") ++ quoted(word);
    return made;
}

/// A value that the compiler knows, as JSON; null if it has no form here, such as null and a map.
fn literal(comptime value: anytype) ?[]const u8 {
    const T = @TypeOf(value);
    return switch (@typeInfo(T)) {
        .bool => if (value) "true" else "false",
        .int, .comptime_int, .float, .comptime_float => std.fmt.comptimePrint("{d}", .{value}),
        .@"enum" => quoted(@tagName(value)),
        .optional => if (value) |inner| literal(inner) else null,
        .pointer => |pointed| if (pointed.size == .one and @typeInfo(pointed.child) != .array)
            null
        else if (std.meta.Elem(T) == u8) quoted(value) else list(value),
        .@"struct" => if (Held(T) == null) object(value) else null,
        else => null,
    };
}

fn list(comptime value: anytype) ?[]const u8 {
    var made: []const u8 = "[";
    for (value) |item| made = made ++ (if (made.len == 1) "" else ",") ++ (literal(item) orelse return null);
    return made ++ "]";
}

fn object(comptime value: anytype) ?[]const u8 {
    var made: []const u8 = "{";
    for (@typeInfo(@TypeOf(value)).@"struct".field_names) |name| {
        made = made ++ (if (made.len == 1) "" else ",") ++ quoted(name) ++ ":" ++ (literal(@field(value, name)) orelse return null);
    }
    return made ++ "}";
}

fn quoted(comptime words: []const u8) [:0]const u8 {
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
