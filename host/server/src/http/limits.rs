use std::time::Duration;

/// Limits on HTTP clients that can be chosen. Fixed limits are constants where they are used.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Maximum number of concurrent connections of clients that have authenticated, or need no token. Each of several
    /// principals has a share of them, at least an eighth; a request beyond the share waits for `place_time` and is
    /// then refused.
    pub connections: u32,
    /// Maximum number of connections that wait for such a place, shared likewise; a request beyond that is refused at
    /// once.
    pub waiting: u32,
    /// Maximum number of concurrent connections that have not authenticated yet, in addition to `connections`. When all
    /// are taken, one that sent no request within 1 s of its first byte, or within 100 ms if many wait, is closed to admit
    /// the next. A connection that has sent nothing takes no place.
    pub strangers: u32,
    /// How long a request waits for a free connection of its principal.
    pub place_time: Duration,
    /// How long a connection may stay silent after it is accepted.
    pub first_byte_time: Duration,
    /// How long a client may take to send the head of a request, also the first one of a connection.
    pub head_time: Duration,
    /// How long a client may take to send the body of a request; also how long a call waits for memory for its
    /// arguments.
    pub body_time: Duration,
    /// How long a client may acknowledge nothing of what it was sent (`TCP_USER_TIMEOUT`, Linux only).
    pub stalled_time: Duration,
    /// Maximum number of concurrent sessions of one principal; more are refused.
    pub sessions: usize,
    /// How long a session without an open request lasts.
    pub session_idle: Duration,
    /// How long running calls may continue after the server is told to stop.
    pub drain_time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 192,
            waiting: 512,
            strangers: 64,
            place_time: Duration::from_secs(5),
            first_byte_time: Duration::from_secs(2),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            stalled_time: Duration::from_secs(60),
            sessions: 64,
            session_idle: Duration::from_secs(600),
            drain_time: Duration::from_secs(5),
        }
    }
}
