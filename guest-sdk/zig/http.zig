//! Requests through the host.
const toolcell = @import("toolcell.zig");

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

/// The failure that an error of `send` means.
pub fn httpFailure(err: HttpError) toolcell.Failure {
    return toolcell.failureOf(toolcell_http_failure(switch (err) {
        error.Invalid => 1,
        error.NotAllowed => 2,
        error.Limit => 3,
        error.TooLarge => 4,
        error.Timeout => 5,
        error.Unreachable => 6,
        error.Broken => 7,
    }));
}

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

extern fn toolcell_send(*const CRequest) CResponse;
extern fn toolcell_http_failure(c_int) *const toolcell.CFailure;
